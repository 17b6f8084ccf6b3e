"""apply: the program's bits for every memory, states, pooled plans, and what wrong calls are told."""
# SPDX-License-Identifier: Apache-2.0
import subprocess
import types
import warnings

import numpy as np
import pytest

import crosstalk as ct
from crosstalk import again, arrays
from conftest import OPTIONS, call, inputs_of


def by_program(folder, memory, inputs, d_o, precision, options, form="automatic"):
    (folder / "in").mkdir()
    for name, x in {**inputs, "d_o": d_o}.items():
        np.save(folder / "in" / f"{name}.npy", x)
    sets = [w for name, value in options.items() for w in ("--set", f"{name}={value}")]
    call("apply", memory, "--in", folder / "in", "--out", folder / "out", "--precision", precision, "--form", form, *sets)
    return {path.stem: np.load(path) for path in (folder / "out").glob("*.npy")}


@pytest.mark.parametrize("memory", ct.memories())
def test_every_memory_gives_the_bits_of_the_program(memory, tmp_path):
    options = OPTIONS.get(memory, {})
    for precision, dtype in (("fp64", np.float64), ("fp32", np.float32)):
        x = inputs_of(memory, dtype, **options)
        o, state, d = None, None, None
        d_o = np.random.default_rng(1).normal(size=ct.apply(memory, **x, **options)[0].shape).astype(dtype)
        o, state, d = ct.apply(memory, d_o=d_o, **x, **options)
        got = {"o": o, **{f"state_{n}": s for n, s in state.items()}, **{f"d_{n}": g for n, g in d.items()}}
        folder = tmp_path / precision
        folder.mkdir()
        want = by_program(folder, memory, x, d_o, precision, options)
        assert got.keys() == want.keys()
        for name in want:
            assert got[name].shape == want[name].shape, name
            assert got[name].dtype == dtype
            np.testing.assert_array_equal(got[name], want[name], err_msg=f"{memory} {precision} {name}")
        assert np.abs(o).max() > 0


@pytest.mark.parametrize("memory", ct.memories())
def test_rounding_stays_small_in_every_memory(memory):
    options = OPTIONS.get(memory, {})
    x = inputs_of(memory, np.float32, T=33, **options)
    exact = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in x.items()}
    d_o = np.random.default_rng(1).normal(size=ct.apply(memory, **x, **options)[0].shape)
    want = ct.apply(memory, d_o=d_o, **exact, **options)
    # The first tokens of ttt_linear normalise numbers near 0.
    for precision, limit in (("fp32", 2e-3 if memory == "ttt_linear" else 2e-4), ("bf16", 3e-2)):
        got = ct.apply(memory, d_o=d_o.astype(np.float32), precision=precision, **x, **options)
        for name, a, b in [("o", got[0], want[0]), *((f"d_{n}", got[2][n], want[2][n]) for n in want[2])]:
            assert np.abs(a - b).max() <= limit * max(np.abs(b).max(), 0.1), f"{memory} {precision} {name}"


@pytest.mark.parametrize("options", [{"form": "chunk"}, {"predict": "undecayed", "key_norm": "l2"}, {"precision": "bf16"}])
def test_options_forms_and_precisions_are_the_programs(options, tmp_path):
    x = inputs_of("gated_delta", np.float32, T=70)
    d_o = np.random.default_rng(1).normal(size=x["v"].shape).astype(np.float32)
    o, state, d = ct.apply("gated_delta", d_o=d_o, **x, **options)
    rest = {n: v for n, v in options.items() if n not in ("form", "precision")}
    want = by_program(tmp_path, "gated_delta", x, d_o, options.get("precision", "fp32"), rest, options.get("form", "automatic"))
    np.testing.assert_array_equal(o, want["o"])
    np.testing.assert_array_equal(state["S"], want["state_S"])
    np.testing.assert_array_equal(d["k"], want["d_k"])


@pytest.mark.parametrize("memory", [memory for memory in ct.memories() if ct.describe(memory).states])
def test_a_sequence_goes_on_from_its_states(memory):
    options = OPTIONS.get(memory, {})
    x = inputs_of(memory, T=12, **options)
    o, end = ct.apply(memory, **x, **options)
    letters = {name: shape for name, (shape, _) in ct.describe(memory).inputs.items()}
    cut = lambda a, part: {n: y[:, part] if letters[n].startswith("[B,T") else y for n, y in a.items()}  # noqa: E731
    first, state = ct.apply(memory, **cut(x, slice(0, 5)), **options)
    starts = {f"{name.lower()}_0" if name[-1].isdigit() else f"{name.lower()}0": s for name, s in state.items()}
    second, last = ct.apply(memory, **{**cut(x, slice(5, 12)), **starts, **options})
    np.testing.assert_allclose(np.concatenate([first, second], 1), o, rtol=1e-10, atol=1e-10)
    for name, s in end.items():
        np.testing.assert_allclose(last[name], s, rtol=1e-10, atol=1e-10, err_msg=name)


def test_results_stay_when_plans_are_used_again():
    x = inputs_of("delta")
    o, state = ct.apply("delta", **x)
    kept, kept_state = o.copy(), state["S"].copy()
    other, _ = ct.apply("delta", **{n: y * 0.5 for n, y in x.items()})
    assert not np.array_equal(other, o)
    np.testing.assert_array_equal(o, kept)
    np.testing.assert_array_equal(state["S"], kept_state)
    ct.release()
    assert ct._core.pooled() == (0, 0)
    ct.apply("delta", **x)
    ct.apply("delta", **x)
    assert ct._core.pooled()[0] == 1


def test_the_pool_is_bounded():
    ct.release()
    for T in range(64, 80):
        ct.apply("softmax", **inputs_of("softmax", np.float32, B=8, T=8 * T, H=4, K=16, V=16))
    plans, bytes = ct._core.pooled()
    assert plans < 16 and bytes <= 1 << 30
    ct.release()


def test_threads_decide_no_bit():
    x = inputs_of("gated_delta", np.float32, B=4, T=100)
    np.testing.assert_array_equal(ct.apply("gated_delta", threads=1, **x)[0], ct.apply("gated_delta", threads=2, **x)[0])


def test_arrays_of_any_layout_are_read_right():
    x = inputs_of("delta", np.float32)
    o, _ = ct.apply("delta", **x)
    turned = {n: np.asfortranarray(y) for n, y in x.items()}
    np.testing.assert_array_equal(ct.apply("delta", **turned)[0], o)
    wide = {n: np.repeat(y, 2, axis=1)[:, ::2] for n, y in x.items()}
    np.testing.assert_array_equal(ct.apply("delta", **wide)[0], o)


def test_a_law_as_text_is_the_memory_that_it_writes_down():
    x = inputs_of("delta")
    law = OPTIONS["rule"]["law"]
    np.testing.assert_allclose(ct.apply("rule", law=law, **x)[0], ct.apply("delta", **x)[0], rtol=1e-12, atol=1e-12)


WRONG = [
    (TypeError, "delta needs beta of shape \\[B,T,H\\]", lambda x: x.pop("beta")),
    (ValueError, "beta has shape \\[2, 5, 2\\]; expected \\[B,T,H\\] = \\[2, 9, 2\\]", lambda x: x.update(beta=x["beta"][:, :5])),
    (ValueError, "v has shape", lambda x: x.update(v=x["v"][0])),
    (ValueError, "every size must be at least 1", lambda x: x.update(v=x["v"][:, :0])),
    (TypeError, "beta is a float", lambda x: x.update(beta=0.5)),
    (TypeError, "delta has no input gamma", lambda x: x.update(gamma=x["beta"])),
    (TypeError, "several types", lambda x: x.update(beta=x["beta"].astype(np.float32))),
    (TypeError, "must be float32 or float64", lambda x: x.update({n: y.astype(np.int64) for n, y in x.items()})),
    (ValueError, "beta holds nan", lambda x: x.update(beta=x["beta"] * np.nan)),
    (ct.OptionError, "did you mean key_norm", lambda x: x.update(key_nor="l2")),
    (ct.OptionError, "is not known; it can be", lambda x: x.update(key_norm="l3")),
    (ct.OptionError, "form 'sideways'", lambda x: x.update(form="sideways")),
    (ValueError, "precision 'bf16' wants float32", lambda x: x.update(precision="bf16")),
    (ValueError, "d_o has shape", lambda x: x.update(d_o=x["q"][:1])),
]


@pytest.mark.parametrize("error, told, spoil", WRONG)
def test_wrong_calls_are_told_what_would_be_right(error, told, spoil):
    x = inputs_of("delta")
    spoil(x)
    with pytest.raises(error, match=told):
        ct.apply("delta", **x)


def test_a_growing_decay_is_refused():
    x = inputs_of("gated_delta")
    with pytest.raises(ValueError, match="a decay is given by its logarithm"):
        ct.apply("gated_delta", **{**x, "log_decay": -x["log_decay"]})


def test_unknown_memories_and_keys_of_errors():
    with pytest.raises(ValueError, match="did you mean gated_delta"):
        ct.apply("gated_dela", **inputs_of("delta"))
    with pytest.raises(ct.OptionError) as told:
        ct.apply("delta", **inputs_of("delta"), key_norm="l3")
    assert told.value.key == "memory.key_norm"
    assert issubclass(ct.OptionError, ValueError) and issubclass(ct.OutOfMemory, RuntimeError)


def test_random_wrong_calls_never_crash():
    random = np.random.default_rng(0)
    names = ["q", "k", "v", "beta", "s0", "d_o", "foo", "scale", "key_norm", "form", "precision", "nu"]
    values = [None, 1, -1, "l2", 2.5, "", [], {}, True, np.zeros(()), np.zeros((2, 9, 2, 4)), np.zeros((0, 9, 2, 4)),
              np.zeros((2, 9, 2)), np.zeros((2, 9, 2, 4), np.float16), np.zeros((2, 9, 2, 4), object), 1 << 70, b"x"]
    refused = 0
    for _ in range(500):
        x = inputs_of("delta")
        for _ in range(random.integers(1, 4)):
            x[names[random.integers(len(names))]] = values[random.integers(len(values))]
        try:
            ct.apply("delta", **x)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            assert str(error)
            refused += 1
    assert refused > 300


def test_descriptions_are_those_of_the_registry():
    listed = [line.split()[0] for line in call("list", "memories").splitlines()[1:] if line.strip()]
    assert ct.memories() == listed
    for name in ct.memories():
        about = ct.describe(name)
        assert about.equation and about.summary in repr(about)
        assert "v" in about.inputs
    assert ct.describe("gated_delta").options["predict"]["choices"] == ["decayed", "undecayed"]
    for name in ct.tasks():
        assert ct.describe(name).summary
    with pytest.raises(ValueError, match="nothing is called 'nothing_like_it'; memories\\(\\) and"):
        ct.describe("nothing_like_it")


@pytest.mark.parametrize("memory", ct.memories())
def test_a_further_call_goes_the_short_way_to_the_same_bits(memory):
    options = OPTIONS.get(memory, {})
    for dtype, sizes in ((np.float64, {"B": 2, "T": 33}), (np.float32, {"B": 8, "T": 12, "H": 4, "K": 32, "V": 32})):
        x = inputs_of(memory, dtype, **sizes, **options)  # the larger are read and written in place, states too
        again._kept.clear()
        shape = ct.apply(memory, **x, **options)[0].shape
        assert len(again._kept) == 1
        want, ends, _ = ct.apply(memory, d_o=np.zeros(shape, dtype), **x, **options)
        for given in (x, {n: y.copy() for n, y in x.items()}, dict(reversed(x.items()))):
            o, state = ct.apply(memory, **given, **options)
            np.testing.assert_array_equal(o, want)
            assert list(state) == list(ends) and o.dtype == dtype
            for name, end in ends.items():
                np.testing.assert_array_equal(state[name], end)
        assert len(again._kept) == 2  # inputs in another order are another kind


def test_the_short_way_is_for_calls_of_one_kind_alone():
    x = inputs_of("gated_delta", np.float32, T=12)
    steep = {**x, "log_decay": 5 * x["log_decay"] - 2}  # below -1, as it may be
    want = ct.apply("gated_delta", **x)[0]
    for _ in range(2):
        np.testing.assert_array_equal(ct.apply("gated_delta", **x)[0], want)
        assert np.abs(ct.apply("gated_delta", **steep)[0] - want).max() > 0
        assert np.abs(ct.apply("gated_delta", **x, key_norm="l2")[0] - want).max() > 0
        assert np.abs(ct.apply("gated_delta", **x, scale=2)[0] - 2 * want).max() < 1e-5
        assert ct.apply("gated_delta", **{n: y[:1].copy() for n, y in x.items()})[0].shape[0] == 1
        np.testing.assert_array_equal(ct.apply("gated_delta", **{n: np.asfortranarray(y) for n, y in x.items()})[0], want)
        with pytest.raises(ValueError, match="v holds nan; all must be finite"):
            ct.apply("gated_delta", **{**x, "v": np.full_like(x["v"], np.nan)})
        with pytest.raises(ValueError, match="log_decay holds 0.5; a decay is given by its logarithm"):
            ct.apply("gated_delta", **{**x, "log_decay": np.full_like(x["log_decay"], 0.5)})
        with pytest.raises(TypeError, match="several types"):
            ct.apply("gated_delta", **{**x, "v": x["v"].astype(np.float64)})
        with pytest.raises(TypeError, match="has no input vv"):
            ct.apply("gated_delta", **x, vv=x["v"])  # pyright: ignore[reportCallIssue]
        with pytest.raises(ValueError, match="threads is 0"):
            ct.apply("gated_delta", **x, threads=0)


def test_results_are_arrays_of_their_own():
    """What a call gave stays as it is while others follow, states too."""
    x = inputs_of("delta", np.float32, B=4, T=64, H=4, K=64, V=64)  # states of more than 64 KiB, written in place
    results = [ct.apply("delta", **{**x, "v": x["v"] * (n + 1)}) for n in range(4)]
    for n, (o, state) in enumerate(results):
        np.testing.assert_allclose(o, (n + 1) * results[0][0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(state["S"], (n + 1) * results[0][1]["S"], rtol=1e-5, atol=1e-5)
    for _, state in results:
        state["S"][:] = 0
    o, state = ct.apply("delta", **x)
    np.testing.assert_array_equal(o, results[0][0])
    assert np.abs(state["S"]).max() > 0
    whole = ct.apply("delta", **x, s0=state["S"])  # a state that starts the next call
    np.testing.assert_array_equal(ct.apply("delta", **x, s0=state["S"])[1]["S"], whole[1]["S"])


class OnGpu:
    """Nothing but the interface of memory on a GPU, at an address that nobody reads."""

    def __init__(self, shape, strides=None):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f8", "data": (4096, False), "strides": strides, "version": 3, "stream": 7}


def test_memory_of_a_gpu_is_known_by_its_interface_alone(monkeypatch):
    x = inputs_of("delta")
    if not ct._core.built_with_cuda():
        with pytest.raises(TypeError, match="v is on a GPU, and this crosstalk was built for the CPU alone"):
            ct.apply("delta", **{**x, "v": OnGpu(x["v"].shape)})
    made = lambda *of: types.SimpleNamespace(__cuda_array_interface__={"data": (8192, False)}, of=of)  # noqa: E731
    core = types.SimpleNamespace(built_with_cuda=lambda: True, device_of=lambda p: p // 4096, DeviceArray=made)
    monkeypatch.setattr(arrays, "_core", core)
    kind = arrays.arrays_of({"k": x["k"], "v": OnGpu((2, 3))}, 1)
    assert (kind.device, kind.stream) == (1, 7)
    given = kind.given("v", OnGpu((2, 3), (24, 8)))
    assert given.shape == (2, 3) and kind.dtype(given) == "float64"
    with pytest.raises(ValueError, match=r"v has the strides \(8, 16\); it must lie in order without gaps"):
        kind.given("v", OnGpu((2, 3), (8, 16)))
    with pytest.raises(TypeError, match="k is a ndarray; all inputs must be on the GPU where one is"):
        kind.given("k", x["k"])
    asked = []
    plan = types.SimpleNamespace(shape=lambda *_: [2, 3], put_on_device=lambda *of: asked.append(of) or True,
                                 take_on_device=lambda *of: asked.append(of))
    kind.kept = "float64"
    assert kind.put(plan, "input", "v", given, borrow=True) is given
    assert kind.take(plan, "output", "o").of == ([2, 3], "float64", 1, 7)
    assert asked == [("input", "v", 4096, True), ("output", "o", 8192)]


def test_arrays_of_others_on_the_cpu_are_read_by_dlpack():
    class Lent:
        def __init__(self, x):
            self.__dlpack__, self.__dlpack_device__ = x.__dlpack__, x.__dlpack_device__

    x = inputs_of("delta")
    want, _ = ct.apply("delta", **x)
    got, _ = ct.apply("delta", **{name: Lent(y) for name, y in x.items()})
    np.testing.assert_array_equal(got, want)


def test_heads_before_tokens_are_noticed():
    x = inputs_of("delta", np.float32, T=9, H=2)
    with pytest.raises(ValueError, match=r"beta has shape \[2, 2, 9\]; expected .* = \[2, 9, 2\]; heads stand behind tokens: swapaxes"):
        ct.apply("delta", **{**x, "beta": x["beta"].swapaxes(1, 2)})
    swapped = {n: np.ascontiguousarray(y.swapaxes(1, 2)) for n, y in inputs_of("delta", np.float32, T=64, H=8).items()}
    with pytest.warns(UserWarning, match=r"reads v \[2, 8, 64, 3\] as \[B,T,H,V\], 8 tokens of 64 heads; of \[B,H,T,V\] swapaxes"):
        ct.apply("delta", **swapped)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for T, H in ((1, 64), (9, 32), (4, 16)):  # one token after the other, and what may be meant as it is
            ct.apply("delta", **inputs_of("delta", np.float32, T=T, H=H))


def test_names_that_are_something_else():
    for call_ in (ct.task, ct.describe):
        with pytest.raises(ValueError, match="'num_kv_pairs'; did you mean 'task.pairs'"):
            call_("num_kv_pairs")
    with pytest.raises(ValueError, match="unknown task 'softmax'; it is something else, which describe"):
        ct.task("softmax")
    assert "stop after more than this many evaluations" in repr(ct.describe("train.patience"))
    assert call("describe", "train.patience").rstrip("\n") == repr(ct.describe("train.patience"))
