"""Layers and language models in PyTorch: the program's initial values, forward and gradients, for every memory."""
# SPDX-License-Identifier: Apache-2.0
import re
from typing import Any

import numpy as np
import pytest

import crosstalk as ct
from crosstalk import sources
from conftest import SOURCE

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SMALL = {
    "task.name": "mqar", "task.vocabulary": 64, "task.length": 24, "task.pairs": 4, "model.name": "language",
    "model.width": 16, "train.max_steps": 6, "eval.every": 3, "eval.sequences": 32, "train.batch": 8,
}  # fmt: skip
#: memories and what stands around them, so that every part of the language model is there
MODELS = {
    "published": ("gated_delta", {"layer": "published", "heads": 2, "mlp": "swiglu", "norm": "rms"}),
    "plain": ("softmax", {"stack": "base_conv memory", "positions": "learned", "max_length": 24, "tied_head": False, "bias": True}),
    "deep": ("mamba2", {"layers": 3, "heads": 2, "mlp": "identity", "short_conv": "qk", "short_conv_bias": True}),
    "two": ("deltanet", {"stack": "sliding_window(window=4) memory", "mlp": "gelu", "weight_deviation": 0.0, "d_key": 8}),
    "words": ("complex_kda", {"layer": "published", "heads": 2, "prenorm": False, "readout": "mlp", "mlp": "none", "tied_head": False}),
}


def heads_of(memory):
    return 1 if memory in ("mamba1", "rwkv4") else 2


def study_of(folder, models, more=""):
    model = lambda options: "".join(  # noqa: E731
        f"{'model.' + n} = {str(v).lower() if isinstance(v, bool) else repr(v)}\n" for n, v in options.items()
    )
    base = "".join(f"{n} = {v!r}\n" for n, v in SMALL.items()) + "train.keep_weights = true\n"
    tables = "".join(f"[memories.{label}]\nname = '{memory}'\n{model(options)}\n" for label, (memory, options) in models.items())
    path = folder / "layers.toml"
    path.write_text(f"[study]\nname = 'layers'\nseeds = [3]\n[base]\n{base}\n{tables}\n{more}")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layers")
    ct.run(study_of(folder, MODELS), out=folder / "store", quiet=True)
    return folder / "store", ct.read(folder / "store", lib="numpy")


def model_of(label, **more):
    memory, options = MODELS[label]
    given: dict[str, Any] = {"width": 16, **options, **more}
    return ct.torch.LanguageModel(memory, vocabulary=64, **given)


@pytest.mark.parametrize("label", MODELS)
def test_a_model_with_the_weights_of_a_run_has_the_losses_of_its_record(runs, label):
    store, frame = runs
    at = list(frame["label"]).index(label)
    model = model_of(label).eval()
    model.load_weights(ct.weights(store, frame["id"][at]))
    batch = next(ct.task("mqar", vocabulary=64, length=24, pairs=4).batches("eval", 32, seed=3, device="cpu"))
    with torch.no_grad():
        logits = model(batch.tokens)
        answers = model.answer(batch.tokens, batch.position)
    assert logits.shape == (32, 24, 64)
    torch.testing.assert_close(answers, batch.answers(logits), rtol=1e-5, atol=1e-6)
    assert float(batch.cross_entropy(logits)) == pytest.approx(frame["eval_loss"][at], rel=2e-6)


@pytest.mark.parametrize("label", MODELS)
def test_a_model_begins_as_the_program_does_and_learns_the_same(tmp_path, runs, label):
    """One run of ct.train with the module beside that of the program: the same seed, batches, rate and updates."""
    store, frame = runs
    at = list(frame["label"]).index(label)
    memory, options = MODELS[label]
    made = {}

    class Mine(ct.torch.LanguageModel):
        def __init__(self, config):
            given: dict[str, Any] = {"width": 16, **options}
            super().__init__(memory, vocabulary=config.vocabulary, seed=config["init_seed"], **given)
            made[label] = self

    path = study_of(tmp_path, {label: ("python", {})})
    ct.train(path, {label: Mine}, out=tmp_path / "store", quiet=True)
    ours = ct.read(tmp_path / "store", lib="numpy")
    assert ours["best_eval_loss"][0] == pytest.approx(frame["best_eval_loss"][at], rel=3e-4)
    assert ours["eval_loss"][0] == pytest.approx(frame["eval_loss"][at], rel=3e-4)
    theirs, trained = ct.weights(store, frame["id"][at]), ct.weights(tmp_path / "store", ours["id"][0])
    assert sum(x.size for x in trained.values()) == sum(x.size for x in theirs.values())


@pytest.mark.parametrize("memory", ct.memories())
def test_every_memory_is_a_layer_with_gradients(memory):
    published: dict[str, Any] = {"layer": "published"} if "layer of its authors" not in _published(memory) else {}
    layer = ct.torch.Memory(memory, 8, heads=heads_of(memory), seed=1, **published).double()
    torch.manual_seed(0)  # fast weights are steep at some inputs, where finite differences are not good enough
    x = torch.randn(1, 4, 8, dtype=torch.float64, requires_grad=True)
    names, parameters = zip(*layer.named_parameters())
    f = lambda x, *p: torch.func.functional_call(layer, dict(zip(names, p)), (x,))[0]  # noqa: E731
    assert torch.autograd.gradcheck(f, (x, *parameters), atol=1e-5, rtol=1e-3, fast_mode=True)


def _published(memory):
    try:
        ct.torch.Memory(memory, 8, heads=heads_of(memory), layer="published", seed=0)
        return ""
    except ct.OptionError as error:
        return str(error)


@pytest.mark.parametrize("memory", ["gated_delta", "slstm", "ttt_mlp", "gla"])
def test_a_layer_goes_on_from_its_state_and_back_through_it(memory):
    layer = ct.torch.Memory(memory, 8, heads=2, seed=1).double()
    x = torch.randn(2, 9, 8, dtype=torch.float64, requires_grad=True)
    whole, end = layer(x)
    first, state = layer(x[:, :4])
    second, last = layer(x[:, 4:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=1e-10, atol=1e-10)
    for name in end:
        torch.testing.assert_close(last[name], end[name], rtol=1e-10, atol=1e-10)
    loss = lambda y, s: y.square().sum() + sum(v.sin().sum() for v in s.values())  # noqa: E731
    want = torch.autograd.grad(loss(whole, end), [x, *layer.parameters()])
    got = torch.autograd.grad(loss(torch.cat([first, second], 1), last), [x, *layer.parameters()])
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_what_a_layer_refuses():
    layer = ct.torch.Memory("gated_delta", 8, heads=2, short_conv="qk")
    x = torch.randn(2, 5, 8)
    y, state = layer(x)
    assert state == {}
    with pytest.raises(ValueError, match='cannot go on from a state: model.short_conv = "qk" looks at tokens before'):
        layer(x, {"S": torch.zeros(2, 2, 4, 4)})
    with pytest.raises(ValueError, match=r"state\['S'\] has shape \[1, 2, 4, 4\]; expected \[2, 2, 4, 4\]"):
        ct.torch.Memory("gated_delta", 8, heads=2)(x, {"S": torch.zeros(1, 2, 4, 4)})
    with pytest.raises(ValueError, match="this layer's is S"):
        ct.torch.Memory("gated_delta", 8, heads=2)(x, {"s": torch.zeros(1, 2, 4, 4)})
    with pytest.raises(ValueError, match=r"x has shape \[2, 5, 4\]; expected \[B,T,width\] = \[B,T,8\]"):
        layer(x[..., :4])
    with pytest.raises(TypeError, match="float32 and float64; they must be"):
        layer(x.double())
    with pytest.raises(ct.OptionError, match="did you mean short_conv"):
        ct.torch.Memory("delta", 8, shrt_conv="qk")  # pyright: ignore[reportCallIssue]
    with pytest.raises(ct.OptionError, match="heads = 3 does not divide"):
        ct.torch.Memory("delta", 8, heads=3)
    with pytest.raises(ValueError, match="unknown memory 'delt'"):
        ct.torch.Memory("delt", 8)
    with pytest.raises(TypeError, match="give a memory by its name, or mixer"):
        ct.torch.LanguageModel(vocabulary=8)
    with pytest.raises(TypeError, match="vocabulary is needed"):
        ct.torch.LanguageModel("delta")
    with pytest.raises(ValueError, match="the weights lack embedding"):
        ct.torch.LanguageModel("delta", vocabulary=8, width=8).load_weights({})
    with pytest.raises(ValueError, match="model.decoder = 'last'"):
        ct.torch.LanguageModel("delta", vocabulary=8, width=8, decoder="last")


def test_a_layer_says_what_it_is():
    layer = ct.torch.Memory("mlstm", 16, heads=2)
    size = sum(p.numel() for p in layer.parameters())
    assert repr(layer) == f"Memory('mlstm', width=16, heads=2, d_key=16, d_value=16: {size} parameters; state S [2, 8, 8], m [2], n [2, 8])"
    assert repr(layer) in repr(torch.nn.Sequential(layer))


def test_seeds_state_dicts_and_names():
    one, two = (ct.torch.Memory("mamba2", 8, heads=2, seed=5, short_conv="qk", short_conv_bias=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))
    torch.manual_seed(0)
    three = ct.torch.Memory("mamba2", 8, heads=2, short_conv="qk", short_conv_bias=True)
    torch.manual_seed(0)
    four = ct.torch.Memory("mamba2", 8, heads=2, short_conv="qk", short_conv_bias=True)
    assert all(torch.equal(a, b) for a, b in zip(three.parameters(), four.parameters()))
    assert not torch.equal(three.get_parameter("key.weight"), one.get_parameter("key.weight"))
    three.load_state_dict(one.state_dict())
    x = torch.randn(1, 6, 8)
    assert torch.equal(three(x)[0], one(x)[0])
    assert set(one.weights()) >= {"key.weight", "short_conv.q", "short_conv.q.bias", "output.weight"}
    four.load_weights(one.weights())
    assert torch.equal(four(x)[0], one(x)[0])


def test_a_mixer_of_ones_own_in_the_blocks():
    class Mixer(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = torch.nn.Linear(width, width)

        def forward(self, x):
            return self.weight(x.cumsum(1))

    model = ct.torch.LanguageModel(vocabulary=16, width=8, layers=3, stack="base_conv memory softmax", mlp="gelu",
                                   mixer=lambda width, layer: Mixer(width))
    assert [type(m).__name__ for m in model.mixers.values()] == ["Mixer", "Memory"]
    model(torch.zeros(2, 5, dtype=torch.int64)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_law_as_a_function_and_as_a_layer():
    rule = ct.rule(["beta = token", "S += beta (v - S k) k^T", "read S q"])
    assert list(rule.inputs) == ["q", "k", "v", "beta", "s0"] and rule.states == ["S"] and "read S q" in repr(rule)
    random = np.random.default_rng(0)
    x = {n: random.normal(size=(2, 5, 2, 3)) / 2 for n in ("q", "k", "v")}
    beta = random.uniform(size=(2, 5, 2))
    o, state = rule(beta=beta, **x)
    np.testing.assert_array_equal(o, ct.apply("rule", law=rule.options["law"], beta=beta, **x)[0])
    layer = rule.layer(8, heads=2, seed=1)
    same = ct.torch.Memory("rule", 8, heads=2, seed=1, law=["beta = token", "S += beta (v - S k) k^T", "read S q"])
    t = torch.randn(1, 4, 8)
    assert torch.equal(layer(t)[0], same(t)[0])
    f = ct.torch.function("delta", key_norm="l2")
    q, k, v = (torch.from_numpy(y).requires_grad_() for y in x.values())
    assert f(q, k, v, beta=torch.from_numpy(beta))[0].requires_grad and "key_norm='l2'" in repr(f)
    with pytest.raises(ct.OptionError, match="law"):
        ct.rule("S += v k; read S q")
    with pytest.raises(TypeError, match="k is given twice"):
        f(q, k, v, k=k)


def test_layers_of_a_curriculum_of_shapes_share_no_numbers():
    """Plans of several shapes and of two layers, forward and backward in any order."""
    one, two = (ct.torch.Memory("deltanet", 8, heads=2, seed=s) for s in (1, 2))
    xs = [torch.randn(b, t, 8) for b, t in ((1, 4), (2, 6), (1, 4))]
    outs = [(layer, x, layer(x)[0]) for x in xs for layer in (one, two)]
    alone = [torch.autograd.grad(y.square().sum(), layer.get_parameter("key.weight"))[0] for layer, _, y in reversed(outs)]
    for (layer, x, _), d in zip(reversed(outs), alone):
        again = torch.autograd.grad(layer(x)[0].square().sum(), layer.get_parameter("key.weight"))[0]
        assert torch.equal(again, d)


def test_the_layer_of_the_page_is_ours_with_its_published_parts(tmp_path, monkeypatch):
    """docs/own_model.md says that nothing but rounding, speed and the numbers drawn differs: the same weights give the same logits."""
    monkeypatch.chdir(tmp_path)
    page = (SOURCE / "docs" / "own_model.md").read_text()
    for name in ("fla_layer.py", "fla.toml"):
        (text,) = re.findall(rf"<!-- file: {name} -->\n```\w*\n(.*?)```", page, re.S)
        (tmp_path / name).write_text(text.replace("from fla.layers import DeltaNet", "raise ImportError"))
    runs = {run["label"]: run for run in ct.plan("fla.toml").configs}
    config = {label: sources.Config(run["config"], 64) for label, run in runs.items()}
    torch.manual_seed(1)
    model = sources.load("fla_layer.py:Fla", "")(config["fla"]).double()
    ours = ct.torch.LanguageModel(config["deltanet"], memory="deltanet", seed=3).double()
    assert model.state_size(32) == runs["deltanet"]["state_size"]
    names = {"key.weight": "k_proj.weight", "query.weight": "q_proj.weight", "value.weight": "v_proj.weight", "beta.weight": "b_proj.weight",
             "output.weight": "o_proj.weight", "out_norm.gain": "o_norm.weight",
             **{f"short_conv.{x}": f"{x}_conv1d.weight" for x in "qkv"}}
    own, given = dict(model.named_parameters()), dict(ours.named_parameters())
    assert len(own) == len(given)
    for name, x in given.items():
        if name.startswith("mixers."):
            _, layer, inner = name.split(".", 2)
            name = f"mixers.{layer}.{names[inner]}"
        y = own[name].detach()
        assert float(x.detach().std()) == pytest.approx(float(y.std()), rel=0.4), name  # of 64 numbers at least: they begin alike
        with torch.no_grad():
            own[name].copy_(x.reshape(own[name].shape))
    tokens = torch.randint(64, (3, 24))
    torch.testing.assert_close(model(tokens), ours(tokens), rtol=0, atol=1e-12)
