"""Several documents in one sequence: every memory and every published layer gives what it gives of the documents one by one."""
# SPDX-License-Identifier: Apache-2.0
import re
import subprocess
from typing import Any

import numpy as np
import pytest

import crosstalk as ct
from conftest import OPTIONS, call, inputs_of

#: of each of two sequences the lengths of its documents; the second begins with one, the first goes on from states that are given
LENGTHS = [[3, 1, 69], [69, 1, 3]]
T = 73
LIES = [(b, sum(row[:i]), sum(row[: i + 1])) for b, row in enumerate(LENGTHS) for i in range(len(row))]
RESET = np.zeros((2, T), int)
for b, first, _ in LIES:
    RESET[b, first] = first > 0 or b == 1


def start_of(state):
    return f"{state.lower()}_0" if state[-1].isdigit() else f"{state.lower()}0"


def letters_of(memory, options):
    """ "[B,T,H]" of each input; "each" of a state with which every document begins, as the memory cannot begin without."""
    all = ct._core.inputs(memory, options, [1] * 6)
    return {n: text if optional or not text.startswith("[B") or text.startswith("[B,T") else "each" for n, _, text, optional in all}


def given(memory, length=T, dtype: Any = np.float64, **options):
    """Inputs, states before the first token among them."""
    x = inputs_of(memory, dtype, T=length, **options)
    letters = letters_of(memory, options)
    before = {n: y[:, :5] if letters[n].startswith("[B,T") else y for n, y in inputs_of(memory, dtype, T=6, **options).items()}
    _, state = ct.apply(memory, **before, **options)
    return {**x, **{start_of(name): s for name, s in state.items()}}, letters


def one_by_one(memory, x, letters, d_o, d_state, **options):
    """o, states at the end and gradients of calls with one document each."""
    o, ends, d = np.zeros_like(d_o), {}, {name: np.zeros_like(y) for name, y in x.items()}
    for b, first, end in LIES:
        goes_on = first == 0 and RESET[b, 0] == 0
        part = {}
        for name, y in x.items():
            if letters[name].startswith("[B,T"):
                part[name] = y[b : b + 1, first:end]
            elif letters[name] == "each" or (letters[name].startswith("[B") and goes_on):
                part[name] = y[b : b + 1]
            elif not letters[name].startswith("[B"):
                part[name] = y
        of_ends = {name: s[b : b + 1] for name, s in d_state.items()} if end == T else {}
        of_o, state, found = ct.apply(memory, **part, d_o=d_o[b : b + 1, first:end], d_state=of_ends, **options)
        o[b, first:end] = of_o[0]
        for name, g in found.items():
            if letters[name].startswith("[B,T"):
                d[name][b, first:end] = g[0]
            elif letters[name].startswith("[B") or letters[name] == "each":
                d[name][b] += g[0]
            else:
                d[name] += g
        if end == T:
            for name, s in state.items():
                ends.setdefault(name, []).append(s[0])
    return o, {name: np.stack(s) for name, s in ends.items()}, d


def close(got, want, what, exact):
    if exact:
        np.testing.assert_array_equal(got, want, err_msg=what)
    else:
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * max(1.0, float(np.abs(want).max())), err_msg=what)


@pytest.mark.parametrize("memory", ct.memories())
def test_documents_of_every_memory_are_as_one_by_one(memory):
    options = OPTIONS.get(memory, {})
    x, letters = given(memory, **options)
    random = np.random.default_rng(5)
    for form in ct.describe(memory).forms:
        how = {**options, "form": form}
        plain, state = ct.apply(memory, **x, reset=RESET, **how)
        d_o = random.normal(size=plain.shape)
        d_state = {name: random.normal(size=s.shape) for name, s in state.items()}
        o, state, d = ct.apply(memory, **x, reset=RESET, d_o=d_o, d_state=d_state, **how)
        np.testing.assert_array_equal(o, plain)
        want_o, want_state, want_d = one_by_one(memory, x, letters, d_o, d_state, **how)
        exact = form == "recurrent"
        close(o, want_o, f"{form} o", exact)
        assert state.keys() == want_state.keys() and d.keys() == want_d.keys()
        for name in state:
            close(state[name], want_state[name], f"{form} {name}", exact)
        for name in d:
            close(d[name], want_d[name], f"{form} d_{name}", exact and letters[name].startswith("[B"))  # others are sums
        whole, _ = ct.apply(memory, **x, **how)
        assert np.abs(whole - o).max() > 1e-9  # it matters


def of_tokens(memory):
    return [n for n, shape in letters_of(memory, OPTIONS.get(memory, {})).items() if n.startswith("log_decay") and shape.startswith("[B,T")]


#: What a decay of 0 leaves: it is no reset. (raven multiplies its decay by shares of slots: docs/apply.md.)
LEFT = {
    "comba": "what the prediction takes from the state before it decays",
    "dplr": "the part of low rank",
    "rwkv7": "the part of low rank",
    "m2rnn": "(1 - f) tanh(S + ...), which has the state itself",
    "momentum_deltanet": "the momentum",
    "mom": "memories that a token does not choose",
    "wall": "the token: it decays scores, not weights",
    "mamba3": "the token before, and the angle",
    "rwkv6": "what a token reads, which decays behind its read",
    "log_linear_attention": "where the blocks of tokens lie",
    "log_linear_gated_delta": "where the blocks of tokens lie",
}


@pytest.mark.parametrize("memory", [memory for memory in ct.memories() if of_tokens(memory) and memory != "raven"])
def test_a_decay_of_0_begins_anew_in_every_form(memory):
    options = OPTIONS.get(memory, {})
    x, _ = given(memory, **options)
    if memory == "delta_product":  # which may be without
        x["log_decay"] = -np.ones((2, T, 2))
    zero = dict(x)
    for name in of_tokens(memory):
        zero[name] = np.where(RESET.reshape(2, T, *[1] * (x[name].ndim - 2)) == 1, -np.inf, x[name])
    d_o: Any = None
    first: Any = None
    for form in ct.describe(memory).forms:
        o, state = ct.apply(memory, **zero, form=form, **options)
        d_o = np.random.default_rng(5).normal(size=o.shape)
        o, state, d = ct.apply(memory, **zero, d_o=d_o, form=form, **options)
        if memory not in LEFT:
            want, ends, gradients = ct.apply(memory, **zero, reset=RESET, d_o=d_o, form=form, **options)
            close(o, want, f"{form} o", False)
            for name, s in ends.items():
                close(state[name], s, f"{form} {name}", False)
            for name, g in gradients.items():
                close(d[name], g, f"{form} d_{name}", False)
        first = first or {"o": o, **d}
        for name, y in {"o": o, **d}.items():
            assert np.isfinite(y).all(), f"{form} {name}"
            np.testing.assert_allclose(y, first[name], rtol=0, atol=1e-9 * max(1.0, float(np.abs(first[name]).max())), err_msg=name)
    single = {name: y.astype(np.float32) for name, y in zero.items()}
    for form in ct.describe(memory).forms:
        o, _, d = ct.apply(memory, **single, d_o=d_o.astype(np.float32), form=form, **options)
        assert np.abs(o - first["o"]).max() < 1e-3 * max(1.0, float(np.abs(first["o"]).max()))
        assert all(np.isfinite(y).all() for y in d.values())
    with pytest.raises(ValueError, match="log_decay.* holds inf|log_decay.* holds nan"):
        name = of_tokens(memory)[0]
        ct.apply(memory, **{**zero, name: np.where(np.isinf(zero[name]), np.nan, zero[name])}, **options)


def test_lengths_say_what_resets_say():
    x = inputs_of("gated_delta", B=1, T=9)
    reset = np.array([[0, 0, 0, 1, 1, 0, 0, 0, 0]])
    o, state = ct.apply("gated_delta", **x, reset=reset)
    for sums in (np.array([0, 3, 4, 9]), [0, 3, 4, 9], np.array([0, 3, 4, 9], np.int32)):
        other, end = ct.apply("gated_delta", **x, cu_seqlens=sums)
        np.testing.assert_array_equal(other, o)
        np.testing.assert_array_equal(end["S"], state["S"])
    np.testing.assert_array_equal(ct.apply("gated_delta", **x, reset=reset.astype(bool))[0], o)
    np.testing.assert_array_equal(ct.apply("gated_delta", **x, reset=np.zeros((1, 9), int))[0], ct.apply("gated_delta", **x)[0])


def test_a_law_may_call_an_input_so():
    x = {**inputs_of("delta"), "reset": np.full((2, 9, 2), 0.5)}
    beta = x.pop("beta")
    law = "beta = token; reset = token; S = reset S; S += beta (v - S k) k^T; read S q"
    o, _ = ct.apply("rule", law=law, beta=beta, **x)
    want, _ = ct.apply("gated_delta", beta=beta, log_decay=np.log(x.pop("reset")), **x)
    np.testing.assert_allclose(o, want, rtol=1e-12, atol=1e-12)


WRONG: list[tuple[Any, str, dict[str, Any]]] = [
    (ValueError, "reset has shape [2, 8]; expected [B,T] = [2, 9]", {"reset": np.zeros((2, 8), int)}),
    (ValueError, "reset holds 2 at [0,2]; it is 1 where a document begins and 0 elsewhere", {"reset": 2 * np.eye(2, 9, 2, int)}),
    (TypeError, "reset is float64; whole numbers or booleans are needed", {"reset": np.zeros((2, 9))}),
    (ValueError, "cu_seqlens cuts one sequence, B = 1, and there are 2; reset [B,T] cuts several", {"cu_seqlens": [0, 9]}),
    (TypeError, "give one of them", {"cu_seqlens": [0, 9], "reset": np.zeros((2, 9), int)}),
    (ValueError, "cu_seqlens must begin with 0", {"cu_seqlens": [1, 9], "B": 1}),
    (ValueError, "cu_seqlens holds 4 after 4 and must rise; it holds where documents begin and end", {"cu_seqlens": [0, 4, 4, 9], "B": 1}),
    (ValueError, "cu_seqlens ends with 8, not with the 9 tokens", {"cu_seqlens": [0, 4, 8], "B": 1}),
    (ValueError, "cu_seqlens has shape [1, 2]; expected [N + 1]", {"cu_seqlens": [[0, 9]], "B": 1}),
    (ValueError, "d_o has shape [2, 8, 2, 3]; expected [B,T,H,V]", {"reset": np.zeros((2, 9), int), "d_o": np.zeros((2, 8, 2, 3))}),
    (ValueError, "beta has shape [2, 8, 2]", {"reset": np.zeros((2, 9), int), "beta": np.zeros((2, 8, 2))}),
]


@pytest.mark.parametrize("error, message, more", WRONG)
def test_what_is_wrong_is_said_with_its_remedy(error, message, more):
    x = inputs_of("delta", B=more.get("B", 2))
    with pytest.raises(error, match=re.escape(message)):
        ct.apply("delta", **{**x, **{name: y for name, y in more.items() if name != "B"}})


def by_program(folder, memory, arrays, *words):
    (folder / "in").mkdir()
    for name, x in arrays.items():
        np.save(folder / "in" / f"{name}.npy", x)
    call("apply", memory, "--in", folder / "in", "--out", folder / "out", *words)
    return {path.stem: np.load(path) for path in (folder / "out").glob("*.npy")}


@pytest.mark.parametrize("memory", ["gated_delta", "mamba3", "delta_product", "softmax", "h3", "retnet", "mlstm"])
def test_the_program_gives_the_same_bits(memory, tmp_path):
    options = OPTIONS.get(memory, {})
    x, _ = given(memory, **options)
    d_o = np.random.default_rng(3).normal(size=ct.apply(memory, **x, **options)[0].shape)
    o, state, d = ct.apply(memory, **x, reset=RESET, d_o=d_o, **options)
    want = by_program(tmp_path, memory, {**x, "d_o": d_o, "reset": RESET})
    got = {"o": o, **{f"state_{n}": s for n, s in state.items()}, **{f"d_{n}": g for n, g in d.items()}}
    assert got.keys() == want.keys()
    for name, y in want.items():
        np.testing.assert_array_equal(got[name], y, err_msg=name)


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_the_program_takes_a_decay_of_0(precision, tmp_path):
    x = inputs_of("gla", np.float64 if precision == "fp64" else np.float32)
    x["log_decay"][:, 4, :, 1] = -np.inf
    found = by_program(tmp_path, "gla", x, "--precision", precision, "--form", "chunk")
    np.testing.assert_array_equal(found["o"], ct.apply("gla", **x, form="chunk")[0])
    assert np.isfinite(found["o"]).all()


def test_the_program_reads_lengths_and_says_what_is_wrong(tmp_path):
    x = inputs_of("delta", B=1)
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    found = by_program(one, "delta", {**x, "cu_seqlens": np.array([0, 4, 9])})
    np.testing.assert_array_equal(found["o"], ct.apply("delta", **x, cu_seqlens=[0, 4, 9])[0])
    for sums, message in (([0, 4, 8], "cu_seqlens ends with 8"), ([[0, 9]], "has shape [1,2]; expected [N + 1]"), ([0.0, 9.0], "whole")):
        np.save(one / "in" / "cu_seqlens.npy", np.array(sums))
        with pytest.raises(subprocess.CalledProcessError) as error:
            call("apply", "delta", "--in", one / "in", "--out", two / "out")
        assert error.value.returncode == 2 and "cu_seqlens.npy" in error.value.stderr and message in error.value.stderr
        assert not (two / "out").exists()
    np.save(one / "in" / "reset.npy", np.zeros((1, 9), int))
    with pytest.raises(subprocess.CalledProcessError) as error:
        call("apply", "delta", "--in", one / "in", "--out", two / "out")
    assert "both say where documents begin" in error.value.stderr


STUDY = """
[study]
name = "documents"
seeds = [1]
[base]
task.name = "tokens"
task.folder = "{folder}"
model.name = "language"
model.width = 16
model.layer = "published"
model.positions = "learned"
model.max_length = 9
train.batch = 8
train.max_steps = 8
eval.every = 4
eval.sequences = 60
[memories.gated_delta]
name = "gated_delta"
model.heads = 2
[memories.attention]
name = "softmax"
"""


def test_training_on_documents_is_training_on_them_one_by_one(tmp_path):
    random = np.random.default_rng(3)
    packed, apart = tmp_path / "packed", tmp_path / "apart"
    for folder in (packed, apart):
        folder.mkdir()
    for split in ("train", "eval", "test"):
        ids, answers = random.integers(12, size=(20, 16)), random.integers(12, size=(20, 16))
        number = np.repeat([[5, 0, 7]], 20, axis=0).repeat([3, 4, 9], axis=1)
        rows = [x[row, number[row] == n] for x in (ids, answers) for row in range(20) for n in (5, 0, 7)]
        filled = [np.pad(x, (0, 9 - len(x)), constant_values=0 if i < 60 else -100) for i, x in enumerate(rows)]
        for name, x, y in (("inputs", ids, filled[:60]), ("labels", answers, filled[60:])):
            np.save(packed / f"{split}_{name}.npy", x)
            np.save(apart / f"{split}_{name}.npy", np.stack(y))
        np.save(packed / f"{split}_document.npy", number)
    losses = []
    for folder in (packed, apart):
        (tmp_path / "study.toml").write_text(STUDY.format(folder=folder))
        ct.run(tmp_path / "study.toml", out=tmp_path / f"runs_{folder.name}", quiet=True)
        curves = ct.read(tmp_path / f"runs_{folder.name}", curves=True, lib="numpy")
        losses.append((list(curves["label"]), list(curves["metric"]), list(curves["step"]), list(curves["value"])))
    assert len(losses[0][3]) > 8 and losses[0] == losses[1]


torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize("memory", ["gated_delta", "mamba3", "softmax", "retnet"])
def test_tensors_are_differentiated_through_resets(memory):
    options = OPTIONS.get(memory, {})
    x, _ = given(memory, **options)
    tensors = {name: torch.from_numpy(y).requires_grad_() for name, y in x.items()}
    o, state = ct.apply(memory, **tensors, reset=torch.from_numpy(RESET), **options)
    d_o, d_state = torch.randn_like(o), {name: torch.randn_like(s) for name, s in state.items()}
    sums = [(o * d_o).sum(), *((state[name] * d).sum() for name, d in d_state.items())]
    sum(sums[1:], sums[0]).backward()
    ends = {name: d.numpy() for name, d in d_state.items()}
    want, _, d = ct.apply(memory, **x, reset=RESET, d_o=d_o.numpy(), d_state=ends, **options)
    np.testing.assert_array_equal(o.detach().numpy(), want)
    for name, g in d.items():
        np.testing.assert_allclose(tensors[name].grad.numpy(), g, rtol=1e-12, atol=1e-12, err_msg=name)


def layers():
    """Every memory as a layer: that of its authors where there is one."""
    for memory in ct.memories():
        if memory in ("python", "rule"):
            continue
        options: dict[str, Any] = {"heads": 1 if memory in ("mamba1", "rwkv4") else 2}
        try:
            layer = ct.torch.Memory(memory, 16, seed=1, layer="published", **options)
        except ValueError:
            layer = ct.torch.Memory(memory, 16, seed=1, short_conv="qk", **options)
        yield pytest.param(layer.double(), id=memory)


@pytest.mark.parametrize("layer", list(layers()))
def test_documents_of_every_layer_are_as_one_by_one(layer):
    x = torch.randn(2, T, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y, state = layer(x, reset=RESET)
    d = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(2))
    parameters = list(layer.parameters())
    got = torch.autograd.grad((y * d).sum(), [x, *parameters], allow_unused=True)
    want, sums, ends = torch.zeros_like(y), [], []
    for b, first, end in LIES:
        one, last = layer(x[b : b + 1, first:end])
        want[b, first:end] = one[0].detach()
        sums.append((one * d[b : b + 1, first:end]).sum())
        if end == T:
            ends.append(last)
    torch.testing.assert_close(y.detach(), want, rtol=0, atol=1e-12 * max(1.0, float(want.abs().max())))
    for name, s in state.items():
        torch.testing.assert_close(s, torch.cat([end[name] for end in ends]), rtol=1e-12, atol=1e-12)
    for g, w in zip(got, torch.autograd.grad(sum(sums[1:], sums[0]), [x, *parameters], allow_unused=True)):
        if g is not None and w is not None:
            torch.testing.assert_close(g, w, rtol=0, atol=1e-11 * max(1.0, float(w.abs().max())))


def test_a_layer_goes_on_from_a_state_into_the_first_document():
    layer = ct.torch.Memory("gated_delta", 16, heads=2, seed=1).double()
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    _, state = layer(torch.randn(2, 4, 16, dtype=torch.float64))
    reset = np.zeros((2, 9), int)
    reset[:, 6], reset[1, 0] = 1, 1
    y, _ = layer(x, state, reset=reset)
    torch.testing.assert_close(y[:1, :6], layer(x[:1, :6], {n: s[:1] for n, s in state.items()})[0], rtol=0, atol=1e-14)
    torch.testing.assert_close(y[1:, :6], layer(x[1:, :6])[0], rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match=r"reset has shape \[2, 8\]"):
        layer(x, reset=reset[:, :8])
    with pytest.raises(ValueError, match="state holds Z"):
        layer(x, {"Z": state["S"]}, reset=reset)


class Mean(torch.nn.Module):
    """A mixer of one's own that sees the tokens before, and how long its sequence is."""

    def __init__(self, width):
        super().__init__()
        self.inner = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.inner(x.cumsum(-2)) / x.shape[-2], None


#: what looks back beside a memory: convolutions, shifts, positions, attention in the stack, long convolutions, a mixer of one's own
MODELS: dict[str, dict[str, Any]] = {
    "published": {"memory": "gated_delta", "layers": 2, "heads": 2, "layer": "published", "mlp": "swiglu"},
    "positions": {"memory": "softmax", "stack": "base_conv memory", "positions": "learned", "max_length": 69},
    "shifts": {"memory": "rwkv7", "heads": 2, "layer": "published"},
    "whole": {"memory": "hyena", "layer": "published"},
    "own": {"mixer": lambda width, layer: Mean(width), "stack": "memory sliding_window(window=4)", "mlp": "gelu"},
}


@pytest.mark.parametrize("label", MODELS)
def test_documents_of_a_language_model_are_as_one_by_one(label):
    torch.manual_seed(1)
    model = ct.torch.LanguageModel(vocabulary=24, width=16, **MODELS[label]).double()
    with torch.no_grad():
        for x in model.parameters():  # some begin at 0, and what is behind them then sees nothing
            x.add_(0.1 * torch.randn_like(x))
    tokens = torch.randint(24, (2, T))
    logits, position = model(tokens, reset=RESET), torch.tensor([[1, 3, 4, 5, T], [2, 69, 70, 71, T]])
    want = torch.cat([model(tokens[b : b + 1, first:end])[0] for b, first, end in LIES]).reshape(logits.shape)
    torch.testing.assert_close(logits, want, rtol=0, atol=1e-12 * max(1.0, float(want.detach().abs().max())))
    if label != "positions":  # which are too few for one document of all tokens
        assert (logits - model(tokens)).abs().max() > 1e-4
    at = position[..., None].expand(-1, -1, 24) - 1
    torch.testing.assert_close(model.answer(tokens, position, reset=torch.from_numpy(RESET)), logits.gather(1, at), rtol=0, atol=1e-12)
    sums = np.cumsum([0, *LENGTHS[0]])
    torch.testing.assert_close(model(tokens[:1], cu_seqlens=sums), logits[:1], rtol=0, atol=1e-12)
    d, parameters = torch.randn(logits.shape, dtype=logits.dtype), list(model.parameters())
    for g, w in zip(*(torch.autograd.grad((x * d).sum(), parameters, allow_unused=True) for x in (logits, want))):
        if g is not None and w is not None:
            torch.testing.assert_close(g, w, rtol=0, atol=1e-11 * max(1.0, float(w.abs().max())))
    with pytest.raises(ValueError, match=r"reset has shape \[2, 8\]; expected \[B,T\] = \[2, 73\]"):
        model(tokens, reset=RESET[:, :8])
