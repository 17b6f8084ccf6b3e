"""1,000 random wrong calls: an exception each, with a sentence, and never a crash. CROSSTALK_WRONG_CALLS sets how many."""
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys

import numpy as np
import pytest

import crosstalk as ct
from conftest import OPTIONS, inputs_of

CALLS = int(os.environ.get("CROSSTALK_WRONG_CALLS", "1000"))
REFUSED = (TypeError, ValueError, OSError, RuntimeError, OverflowError, KeyError, ImportError, MemoryError)
#: What nobody should read: the module's own complaint about types, and errors that the program would call bugs.
BARE = ("incompatible function arguments", "std::", "bad_cast", "Unable to convert", "basic_string")

SMALL = {"B": 1, "T": 3, "H": 2, "K": 4, "V": 3}
JUNK = [
    None, True, False, 0, 1, -1, 3, 2.5, float("nan"), float("inf"), 1 << 31, 1 << 63, 1 << 70, -(1 << 70), "", "l2", "cpu", "cuda",
    "\0", "ä" * 50, b"x", [], [1, 2], (), {}, {"S": 1}, object(), int, np.float32(1), np.int64(-5), np.zeros(()), np.zeros(0),
    np.zeros((1, 3, 2, 4)), np.zeros((1, 3, 2, 4), ">f8"), np.zeros((1, 3, 2, 4), np.float16), np.zeros((1, 3, 2, 4), object),
    np.zeros((1, 3, 2, 4), np.int32), np.zeros((1, 0, 2, 4)), np.zeros((1, 3, 2, 3)), np.zeros((3, 1, 2, 4)).transpose(1, 0, 2, 3),
    np.full((1, 3, 2, 4), np.nan), np.ones((1, 3, 2, 4, 1, 1)), np.zeros((1, 3, 2, 4), complex), "x" * 10000,
]  # fmt: skip


class Refuses:
    """Looks like an array, and is none."""

    shape, dtype, ndim = (1, 3, 2, 4), np.dtype("f8"), 4

    def __dlpack__(self, **_):
        raise BufferError("there is nothing here")


def near(random, name):
    """A name with a slip."""
    letters = list(name)
    at = random.integers(len(letters) + 1)
    kind = random.integers(3)
    if kind == 0:
        letters.insert(at, "x")
    elif letters:
        letters.pop(min(at, len(letters) - 1))
    return "".join(letters) or "x"


def junk(random):
    return Refuses() if random.integers(30) == 0 else JUNK[random.integers(len(JUNK))]


def some(random, all):
    return all[random.integers(len(all))]


def of_apply(random):
    memory = some(random, ct.memories())
    options = dict(OPTIONS.get(memory, {}))
    x = {**inputs_of(memory, **SMALL, **options), **options}
    for _ in range(random.integers(1, 3)):
        kind, name = random.integers(6), some(random, list(x))
        if kind == 0:
            x.pop(name)
        elif kind == 1:
            x[name] = junk(random)
        elif kind == 2:
            x[near(random, name)] = x[name]
        elif kind == 3 and isinstance(x[name], np.ndarray):
            x[name] = some(random, [x[name][..., :1, :], x[name][:0], x[name].astype("f4"), x[name][None], x[name].T, x[name] * np.nan,
                                    x[name].astype(">f8"), x[name].reshape(-1)]) if x[name].ndim > 1 else np.zeros(0)  # fmt: skip
        elif kind == 4:
            x[some(random, ["d_o", "d_state", "form", "precision", "threads", "s0"])] = junk(random)
        else:
            x[some(random, list(ct.describe(memory).options) or ["scale"])] = junk(random)
        if not x:
            break
    return lambda: ct.apply(junk(random) if random.integers(20) == 0 else memory, **x)


def of_task(random):
    name = some(random, ct.tasks())
    options = {some(random, list(ct.describe(name).options)): junk(random) for _ in range(random.integers(1, 3))}
    if random.integers(4) == 0:
        options[near(random, some(random, list(options)))] = 1
    return lambda: ct.task(near(random, name) if random.integers(5) == 0 else name, **options)


def of_batches(random):
    task = ct.task("mqar", length=32, pairs=4, vocabulary=64)
    given = {"split": "train", "batch": 2, "seed": 1}
    for _ in range(random.integers(1, 3)):
        given[some(random, ["split", "batch", "seed", "first", "buffers", "device", "threads", "library"])] = junk(random)
    for word in ("batch", "buffers"):  # what would only fill the memory is another test's
        if isinstance(given.get(word), (int, np.integer)) and given[word] > 1000:
            given[word] = -given[word]
    return lambda: next(task.batches(**given))


def of_names(random):
    call = some(random, [ct.describe, ct.read, ct.weights, ct.rule, ct.plan, ct.table, ct.task, ct.set_threads])
    return lambda: call(junk(random), *([junk(random)] if random.integers(2) and call is not ct.set_threads else []))


def of_layers(random):
    memory = some(random, ct.memories())
    about = [o["name"] for o in ct._core.model_options()]
    options = {some(random, about): junk(random) for _ in range(random.integers(1, 3))}
    options = {n: v for n, v in options.items() if not (isinstance(v, (int, np.integer)) and v > 1000)}
    if random.integers(2):
        return lambda: ct.torch.Memory(memory, some(random, [8, 8, junk(random)]), **options)
    return lambda: ct.torch.LanguageModel(memory, vocabulary=some(random, [8, junk(random)]), width=8, **options)


def kinds():
    try:
        import torch  # noqa: F401
    except ImportError:
        return [of_apply, of_task, of_batches, of_names]
    return [of_apply, of_task, of_batches, of_names, of_layers]


@pytest.mark.parametrize("make", kinds())
def test_random_wrong_calls(make):
    random = np.random.default_rng(7)
    calls = CALLS // len(kinds())
    refused, threads = 0, ct.memories and None
    for i in range(calls):
        call = make(random)
        try:
            call()
        except REFUSED as error:
            told = str(error)
            assert told and not any(word in told for word in BARE), f"call {i}: {type(error).__name__}: {told}"
            refused += 1
        finally:
            ct.set_threads(threads or 1)
    assert refused > calls / 2


def test_what_is_not_installed_is_named_with_its_remedy():
    for use, told in (("ct.torch", "torch"), ("ct.jax", "jax"), ("ct.train('x.toml')", "torch")):
        code = f"import sys; sys.modules['torch'] = sys.modules['jax'] = None; import crosstalk as ct; {use}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        last = done.stderr.splitlines()[-1]
        assert last.startswith("ImportError") and last.endswith(f"not installed: pip install {told}"), done.stderr
