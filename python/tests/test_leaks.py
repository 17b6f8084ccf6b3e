"""Slow: 100,000 batches and 10,000 calls of apply leave no memory behind (CROSSTALK_SLOW=1)."""
# SPDX-License-Identifier: Apache-2.0
import gc
import os

import numpy as np
import pytest

import crosstalk as ct
from conftest import inputs_of

pytestmark = pytest.mark.skipif(os.environ.get("CROSSTALK_SLOW") != "1", reason="slow: CROSSTALK_SLOW=1 runs it")


def resident():
    """Bytes of memory that the process holds."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(work, warm, count):
    for i in range(warm):
        work(i)
    before = resident()
    for i in range(count):
        work(i)
    return resident() - before


#: What the allocator of C may keep more; a leak of 128 bytes a call is more than that.
SLACK = 4 << 20


def test_batches_leave_nothing_behind():
    streams = [ct.task("mqar", length=32, pairs=4).batches(batch=4), ct.task("recall").batches(batch=2, seed=[1, 2])]
    assert growth(lambda i: next(streams[i % 2]).copy(), 2000, 100_000) < SLACK


def test_streams_leave_nothing_behind():
    task = ct.task("mqar", segments="64:4:40 128:8:20")
    assert growth(lambda i: next(task.batches(batch=4)), 200, 10_000) < SLACK


def test_calls_leave_nothing_behind():
    x, d_o = inputs_of("gated_delta"), np.ones((2, 9, 2, 3))
    wrong = {**x, "beta": x["beta"] * np.nan}

    def work(i):
        if i % 3 == 2:
            with pytest.raises(ValueError):
                ct.apply("gated_delta", **wrong)
        else:
            ct.apply("gated_delta", d_o=d_o if i % 3 else None, **x)

    assert growth(work, 1000, 10_000) < SLACK
    large = inputs_of("gated_delta", np.float32, B=4, T=64, H=2, K=32, V=32)
    assert growth(lambda i: ct.apply("gated_delta", **large), 50, 500) < SLACK


def test_new_shapes_leave_no_more_than_the_pool_keeps():
    ct.release()
    ct.apply("softmax", **inputs_of("softmax", T=8))
    ct.release()
    assert growth(lambda i: (ct.apply("softmax", **inputs_of("softmax", T=1 + i % 50)), ct.release()), 100, 2000) < SLACK


def test_autograd_leaves_nothing_behind():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = {n: torch.from_numpy(y).requires_grad_() for n, y in inputs_of("gated_delta").items()}
    layer = ct.torch.Memory("deltanet", 8, heads=2)
    tokens = torch.randn(2, 6, 8)

    def work(i):
        o, state = ct.apply("gated_delta", **x)
        (o.sum() + state["S"].sum()).backward()
        layer(tokens)[0].sum().backward()
        if i % 7 == 0:
            ct.apply("gated_delta", **x)  # never differentiated

    assert growth(work, 500, 10_000) < SLACK
