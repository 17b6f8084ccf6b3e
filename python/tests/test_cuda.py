"""On a GPU: batches and memories on tensors of torch and arrays of others, in the order of their streams, equal to the CPU.

Skipped without a GPU, or where the module was built for the CPU alone; with CROSSTALK_REQUIRE_CUDA=1 that is a failure.
"""
# SPDX-License-Identifier: Apache-2.0
import ctypes
import os
import time

import numpy as np
import pytest

import crosstalk as ct
from conftest import OPTIONS, inputs_of

if not ct._core.built_with_cuda() or ct._core.cuda_devices() == 0:
    why = "the module was built without CUDA" if not ct._core.built_with_cuda() else "there is no GPU"
    if os.environ.get("CROSSTALK_REQUIRE_CUDA") == "1":
        pytest.fail(why, pytrace=False)
    pytest.skip(why, allow_module_level=True)

try:
    import torch

    torch.zeros(1, device="cuda")
except Exception:  # not installed, or built for the CPU
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="there is no PyTorch with CUDA")

MQAR = {"vocabulary": 512, "length": 64, "pairs": 8}
DRAWN = [name for name in ct.tasks() if name not in ("file", "tokens", "text")]


def close(got, want, what, limit=1e-12):
    largest = max(1.0, float(np.abs(want).max()))
    assert np.isfinite(got).all() and np.abs(got - want).max() <= limit * largest, what


class Theirs:
    """What is known of an array of a library that this package does not know."""

    def __init__(self, x, stream=1):  # 1: the default stream
        self.kept = torch.from_numpy(np.ascontiguousarray(x)).cuda()
        torch.cuda.synchronize()
        self.__cuda_array_interface__ = {**self.kept.__cuda_array_interface__, "stream": stream}


# Draws.


@needs_torch
@pytest.mark.parametrize("name", DRAWN)
def test_batches_on_the_gpu_are_those_of_the_cpu(name):
    options = MQAR if name == "mqar" else {}
    here, there = (ct.task(name, **options).batches("train", 16, seed=[3, 2**40 + 1], device=d) for d in ("cpu", "cuda"))
    for _ in range(3):
        a, b = next(here), next(there)
        for field in ("tokens", "query", "position", "target"):
            assert getattr(b, field).is_cuda and torch.equal(getattr(a, field), getattr(b, field).cpu()), field
    batch = next(ct.task(name, **options).batches("eval", 8, device="cuda"))
    if batch.tokens.ndim == 2:
        assert torch.equal(batch.labels.cpu(), next(ct.task(name, **options).batches("eval", 8, device="cpu")).labels)


@needs_torch
@pytest.mark.parametrize("options", [MQAR, {"vocabulary": 512, "segments": "32:4:40 64:8:20"}])
@pytest.mark.parametrize("seed", [3, [3, 2**40 + 1, 5]])
def test_batches_drawn_ahead_are_the_same(options, seed):
    task = ct.task("mqar", **options)
    streams = [task.batches("train", 4, seed, device="cuda", ahead=n, buffers=b) for n, b in ((1, 2), (3, 2), (3, 5), (None, 3))]
    for want in (next(it).copy() for it in [task.batches("train", 4, seed, device="cpu")] for _ in range(40)):
        for got in map(next, streams):
            assert got.first == want.first and got.segment == want.segment
            assert torch.equal(got.tokens.cpu(), want.tokens) and torch.equal(got.target.cpu(), want.target)
    kept = [next(streams[2]) for _ in range(5)]  # five buffers: all of them are still there
    again = task.batches("train", 4, seed, device="cpu")
    for _ in range(40):
        next(again)
    for got in kept:
        assert torch.equal(got.tokens.cpu(), next(again).tokens)


@needs_torch
def test_batches_go_from_stream_to_stream():
    """A block that one stream draws, late, is read in another, and not drawn over before."""
    want = [b.tokens.clone() for b, _ in zip(ct.task("mqar", **MQAR).batches("train", 64, device="cpu"), range(12))]
    batches = ct.task("mqar", **MQAR).batches("train", 64, device="cuda", ahead=4)
    next(ct.task("mqar", **MQAR).batches("train", 64, device="cuda"))
    streams, got = [torch.cuda.Stream() for _ in range(2)], []
    torch.cuda.synchronize()
    for i in range(12):
        with torch.cuda.stream(streams[i % 2]):
            torch.cuda._sleep(50_000_000)
            got.append(next(batches).tokens.clone())
    torch.cuda.synchronize()
    for a, b in zip(got, want):
        assert torch.equal(a.cpu(), b)


@needs_torch
def test_a_draw_follows_the_current_stream_and_waits_for_nothing():
    stream = torch.cuda.Stream()
    batches = ct.task("mqar", **MQAR).batches("train", 64, device="cuda")
    want = [next(b).tokens.clone() for b in [ct.task("mqar", **MQAR).batches("train", 64, device="cpu")]]
    next(ct.task("mqar", **MQAR).batches("train", 64, device="cuda"))  # modules are loaded
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)  # about a second
        begin = time.monotonic()
        batch = next(batches)
        kept = batch.tokens.clone()
        took = time.monotonic() - begin
        assert not stream.query(), "the draw has waited, or the sleep was too short"
    stream.synchronize()
    assert took < 0.3 and torch.equal(kept.cpu(), want[0])


@needs_torch
def test_draws_in_a_second():
    """At least 20,000 batches a second of MQAR, B 256, T 256, D 64 on an H200; prints what it is here."""
    for ahead in (1, 4, 16, 64, None):
        task = ct.task("mqar", vocabulary=8192, length=256, pairs=64)
        batches = task.batches("train", 256, device="cuda", ahead=ahead)
        for _ in range(128):
            next(batches)
        torch.cuda.synchronize()
        begin, n = time.monotonic(), 4096
        for _ in range(n):
            next(batches)
        torch.cuda.synchronize()
        print(f"\ndraws, ahead={ahead}: {n / (time.monotonic() - begin):.0f} batches/s on {torch.cuda.get_device_name()}", end="")


# Memories.


@needs_torch
@pytest.mark.parametrize("memory", ct.memories())
def test_every_memory_on_tensors_of_torch(memory):
    options = OPTIONS.get(memory, {})
    x = inputs_of(memory, T=40, **options)
    o, state = ct.apply(memory, **x, **options)
    random = np.random.default_rng(1)
    d_o, d_state = random.normal(size=o.shape), {n: random.normal(size=s.shape) for n, s in state.items()}
    want = ct.apply(memory, d_o=d_o, d_state=d_state, **x, **options)
    there = {n: torch.from_numpy(y).cuda().requires_grad_() for n, y in x.items()}
    got, ends = ct.apply(memory, **there, **options)
    assert got.is_cuda
    close(got.detach().cpu().numpy(), want[0], "o")
    loss = (got * torch.from_numpy(d_o).cuda()).sum()
    for name, s in ends.items():
        close(s.detach().cpu().numpy(), want[1][name], name)
        loss = loss + (s * torch.from_numpy(d_state[name]).cuda()).sum()
    loss.backward()
    for name, y in there.items():
        close(y.grad.cpu().numpy(), want[2][name], f"d_{name}", 1e-10)


@needs_torch
@pytest.mark.parametrize("memory", ct.memories())
def test_plans_work_in_the_tensors_that_are_given(memory):
    """Tensors are read and written where they lie, or copied where they begin at an odd place: with equal bits, again and again,
    without gradients (which is a way of its own from the second call on) and with."""
    options = OPTIONS.get(memory, {})
    x = {n: torch.from_numpy(y).cuda() for n, y in inputs_of(memory, np.float32, T=40, H=2, K=16, V=16, **options).items()}
    if memory == "titans_mlp":
        x["rate"] *= 0.1  # else it diverges on these inputs
    odd = {n: torch.cat([y.new_zeros(1), y.flatten()])[1:].view(y.shape) for n, y in x.items()}
    want, ends = ct.apply(memory, **odd, **options)
    kept = [ct.apply(memory, **x, **options) for _ in range(3)]
    assert torch.isfinite(want).all()
    for o, state in kept:
        assert torch.equal(o, want)
        assert all(torch.equal(state[name], ends[name]) for name in ends)
    assert len({o.data_ptr() for o, _ in kept}) == 3
    grads = []
    for given in (odd, x, x):
        leaves = {n: y.detach().requires_grad_() for n, y in given.items()}
        o, state = ct.apply(memory, **leaves, **options)
        assert torch.equal(o, want)
        (o.square().sum() + sum(s.square().sum() for s in state.values())).backward()
        grads.append({n: y.grad for n, y in leaves.items()})
    for other in grads[1:]:
        for name, grad in grads[0].items():
            torch.testing.assert_close(other[name], grad, rtol=1e-5, atol=1e-5)  # sums by atomics have no order


@needs_torch
@pytest.mark.parametrize("memory", ["gated_delta", "softmax", "mamba2", "ttt_mlp"])
def test_memories_on_arrays_of_others(memory):
    x = inputs_of(memory, T=40)
    d_o = np.random.default_rng(1).normal(size=ct.apply(memory, **x)[0].shape)
    want = ct.apply(memory, d_o=d_o, **x)
    o, state, d = ct.apply(memory, d_o=Theirs(d_o), **{n: Theirs(y) for n, y in x.items()})
    assert hasattr(o, "__cuda_array_interface__")
    close(o.numpy(), want[0], "o")
    for name in d:
        close(torch.as_tensor(d[name], device="cuda").cpu().numpy(), want[2][name], name, 1e-10)


@needs_torch
def test_apply_follows_the_current_stream_and_waits_for_nothing():
    x = {n: torch.from_numpy(y).cuda() for n, y in inputs_of("gated_delta", np.float32, T=64).items()}
    want, _ = ct.apply("gated_delta", **x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        ct.apply("gated_delta", **x)  # the plan of this stream is made
        late = {n: torch.zeros_like(y) for n, y in x.items()}
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)
        for name, y in x.items():
            late[name].copy_(y)  # after the sleep: a call that did not keep the order would read zeros
        begin = time.monotonic()
        got, _ = ct.apply("gated_delta", **late)
        took = time.monotonic() - begin
        assert not stream.query() and took < 0.5
    stream.synchronize()
    assert torch.equal(got, want)


@needs_torch
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64] if torch else [])
def test_layers_and_models_on_the_gpu(dtype):
    torch.manual_seed(0)
    model = ct.torch.LanguageModel("gated_delta", vocabulary=64, width=32, layers=2, heads=2, layer="published", mlp="swiglu")
    model = model.to(dtype)
    batch = next(ct.task("mqar", vocabulary=64, length=32, pairs=4).batches(batch=8, device="cpu"))
    loss = batch.cross_entropy(model(batch.tokens))
    loss.backward()
    want = {n: p.grad.clone() for n, p in model.named_parameters()}
    there = model.cuda()
    there.zero_grad()
    on_gpu = next(ct.task("mqar", vocabulary=64, length=32, pairs=4).batches(batch=8, device="cuda"))
    again = on_gpu.cross_entropy(there(on_gpu.tokens))
    again.backward()
    limit = 1e-9 if dtype == torch.float64 else 2e-3
    assert abs(float(again) - float(loss)) < limit
    for name, p in there.named_parameters():
        close(p.grad.cpu().numpy(), want[name].numpy(), name, limit)


@needs_torch
def test_replicas_by_vmap():
    from torch.func import functional_call, grad, stack_module_state, vmap

    names = list(inputs_of("gated_delta"))
    x = [torch.stack([torch.from_numpy(y) * (0.7 + 0.1 * r) for r in range(3)]) for y in inputs_of("gated_delta").values()]
    f = lambda *y: ct.apply("gated_delta", **dict(zip(names, y)))[0].sin().sum()  # noqa: E731
    every = tuple(range(len(x)))
    for a, b in zip(vmap(grad(f, argnums=every))(*(y.cuda() for y in x)), vmap(grad(f, argnums=every))(*x)):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-10, atol=1e-10)
    layers = [ct.torch.Memory("deltanet", 16, heads=2, seed=s).double() for s in range(3)]
    tokens = torch.randn(3, 2, 9, 16, dtype=torch.float64)
    g = lambda p, y: functional_call(layers[0], p, (y,))[0].sin().sum()  # noqa: E731
    here, _ = stack_module_state(layers)
    want = vmap(grad(g))(here, tokens)
    found = vmap(grad(g))({n: p.detach().cuda() for n, p in here.items()}, tokens.cuda())
    for name in want:
        torch.testing.assert_close(found[name].cpu(), want[name], rtol=1e-10, atol=1e-10, msg=name)


@needs_torch
def test_a_study_is_trained_on_the_gpu(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import crosstalk as ct\n\n\nclass Mine(ct.torch.LanguageModel):\n    def __init__(self, config):\n"
        '        super().__init__(config, memory="gated_delta")\n')
    (tmp_path / "own.toml").write_text(
        '[study]\nname = "own"\nseeds = [1, 2, 3]\n[base]\ntask.name = "mqar"\ntask.vocabulary = 64\ntask.length = 32\n'
        'task.pairs = 4\nmodel.name = "language"\nmodel.width = 32\ntrain.max_steps = 40\neval.every = 20\n'
        '[memories.mine]\nname = "python"\nsource = "mine.py:Mine"\n')
    for device in ("cpu", "cuda"):
        begin = time.monotonic()
        assert ct.train("own.toml", out=device, device=device, quiet=True).done == 3
        print(f"\nct.train, 3 replicas, 40 steps: {time.monotonic() - begin:.2f} s on {device}", end="")
    here, there = ct.read("cpu").set_index("seed"), ct.read("cuda").set_index("seed")
    assert np.abs(here.eval_loss - there.eval_loss).max() < 0.02


@needs_torch
@pytest.mark.parametrize("memory", ["linear_attention", "gated_delta", "softmax"])
def test_time_of_a_call(memory):
    """Prints it, beside that of the plan alone; host and device together, forward, float32."""
    x = {n: torch.from_numpy(y).cuda() for n, y in inputs_of(memory, np.float32, B=64, T=256, H=4, K=64, V=64).items()}
    kind = ct.memories.__globals__["_kind_of"](memory, ct.memories.__globals__["arrays_of"](x, 1), x, {}, "automatic", None)
    call = kind.recipe.call(0, 0, torch.cuda.current_stream().cuda_stream)

    def seconds(f, n=200):
        for _ in range(20):
            f()
        torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(n):
            f()
        torch.cuda.synchronize()
        return (time.monotonic() - begin) / n

    plan, whole = seconds(lambda: call.forward(1)), seconds(lambda: ct.apply(memory, **x))
    print(f"\n{memory}: plan {plan * 1e6:.0f} us, apply {whole * 1e6:.0f} us", end="")
    assert whole < plan + 1e-3


@needs_torch
def test_a_stream_that_is_gone_leaves_its_plans():
    x = inputs_of("delta")
    want = ct.apply("delta", **x)[0]
    cuda, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0  # of its own, ordered after no other
    o, _ = ct.apply("delta", **{n: Theirs(y, stream.value) for n, y in x.items()})
    close(o.numpy(), want, "o")
    del o, _
    assert cuda.cuStreamDestroy_v2(stream) == 0
    ct.release()
    close(ct.apply("delta", **{n: Theirs(y) for n, y in x.items()})[0].numpy(), want, "o")


@needs_torch
def test_two_devices_and_hosts_are_not_mixed():
    x = {n: torch.from_numpy(y) for n, y in inputs_of("delta").items()}
    with pytest.raises(TypeError, match="is on cpu, and others are on cuda:0; all must be on one device"):
        ct.apply("delta", **{**{n: y.cuda() for n, y in x.items()}, "beta": x["beta"]})
    with pytest.raises(ct.DeviceError, match="there is no device cuda:99"):
        ct.task("mqar", **MQAR).batches(device="cuda:99")


@needs_torch
def test_the_torch_that_was_there_goes_on():
    """The context and the current device of whoever calls are as they were."""
    x = {n: torch.from_numpy(y).cuda() for n, y in inputs_of("delta", np.float32).items()}
    before = torch.cuda.current_device()
    ct.apply("delta", **x)
    assert torch.cuda.current_device() == before
    a = torch.randn(64, 64, device="cuda")
    torch.testing.assert_close(a @ torch.eye(64, device="cuda"), a)


@needs_torch
def test_no_memory_is_lost_on_the_gpu():
    x = {n: torch.from_numpy(y).cuda().requires_grad_() for n, y in inputs_of("gated_delta", np.float32).items()}
    batches = ct.task("mqar", **MQAR).batches("train", 64, device="cuda")

    def work(n):
        for _ in range(n):
            ct.apply("gated_delta", **x)[0].sum().backward()
            next(batches)
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]

    free = [work(n) for n in (50, 500, 500, 500)]
    lost = [before - after for before, after in zip(free, free[1:])]
    assert min(lost) < 2 << 20, lost  # a leak shows each time, what another process takes does not
    ct.release()
