"""Memories in PyTorch: `Memory`, a layer with its projections as the language model has it; `LanguageModel`, the blocks around
layers, one's own among them; `function`, a bare law.

Inside a layer the program's own graph computes, forward and backward: every memory, option and published layer is there, with
the program's numbers. Norms, MLPs, embedding and head are PyTorch's.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import difflib
import functools
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import nn

from . import _core, checks
from .arrays import arrays_of
from .autograd import differentiable
from .documents import START, TOKENS, Documents
from .memories import _plain, apply, threads_now

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Given, Named, OfLayer, OfModel

__all__ = ["LanguageModel", "Memory", "function"]


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__"]


_NORM_EPS = 1e-5  # of the language model (models/parts/parts.h)
_STANDS_FOR_MIXER = "rule"  # which a stack cannot name otherwise


def _keyed(memory: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their whole names: those of the memory, else of the model."""
    checks.text("the name of a memory", memory)
    own = {option["name"] for option in _core.describe_memory(memory)["options"]}
    model = {option["name"] for option in _core.model_options()}
    given: dict[str, Any] = {"memory.name": memory}
    for name, value in options.items():
        near = [name] if name in own | model else difflib.get_close_matches(name, own | model, 1)
        prefix = "model" if near and near[0] not in own else "memory"
        if name == "law" and isinstance(value, (list, tuple)):
            value = "; ".join(checks.text("a step of a law", step) for step in value)
        given[f"{prefix}.{name}"] = _plain(value)
    return given


def _at(module: nn.Module, place: str) -> Any:
    """A parameter, or the tensor that torch.func puts in its place."""
    return functools.reduce(getattr, place.split("."), module)


class _Branch(nn.Module):
    """Holds parameters whose names begin with a common word."""


def _register(
    root: nn.Module, all: list[tuple[str, Any, Any]], skip: Callable[[str], bool] = lambda name: False
) -> dict[str, str]:
    """Parameters by the program's names as those of a module; which name each has here (a name that is the beginning of
    another, such as short_conv.q of short_conv.q.bias, ends in .weight)."""
    names = [name for name, _, _ in all]
    here: dict[str, str] = {}
    for name, shape, numbers in all:
        if skip(name):
            continue
        place = f"{name}.weight" if any(other.startswith(f"{name}.") for other in names) else name
        here[name] = place
        *path, last = place.split(".")
        at = root
        for word in path:
            if word not in at._modules:
                at.add_module(word, _Branch())
            at = at._modules[word]  # type: ignore[assignment]
        at.register_parameter(last, nn.Parameter(torch.from_numpy(np.array(numbers, np.float32).reshape(shape))))
    return here


def _checked_seed(seed: int | None) -> int:
    """Without one it follows torch.manual_seed, as initial values of PyTorch's own modules do."""
    if seed is None:
        return int(torch.randint(1 << 62, ()).item())
    return checks.whole("seed", seed, 0, 1 << 64)


class _LayerKind:
    """Calls of a layer with these sizes (calls.Kind); of so many replicas, each with parameters of its own, `[R,...]` in front."""

    def __init__(
        self,
        config: Mapping[str, Any],
        number: int,
        B: int,
        T: int,
        starts: bool,
        ends: bool,
        precision: str,
        seed: int,
        replicas: int | None,
    ):
        self._made_of = config, number, B, T, starts, ends, precision, seed
        self._replicas = replicas
        self.recipe = _core.layer_recipe(
            dict(config), number, B, T, starts, ends, precision, [seed] * (replicas or 1), replicas is not None
        )
        self.key = (str(config["memory.name"]), str(config))
        self._folds: dict[int, _LayerFold] = {}

    def folded(self, R: int, batched: set[str], names: Sequence[str]) -> _LayerFold:
        config = self._made_of[0]
        if config.get("memory.feature_map") == "favor" and batched != {"x"}:
            raise RuntimeError("random features (favor) are drawn from the seed of a layer, and replicas have one each")
        if R not in self._folds:
            kind = _LayerKind(*self._made_of, R * (self._replicas or 1))
            self._folds[R] = _LayerFold(kind, R, self._replicas)
        return self._folds[R]


class _LayerFold:
    """Replicas as those of one call (calls.Fold); replicas of replicas in one dimension."""

    def __init__(self, kind: _LayerKind, R: int, inner: int | None):
        self.kind, self._R, self._inner = kind, R, inner

    def put(self, name: str, x: Any) -> Any:
        return x if self._inner is None else x.flatten(0, 1)

    def take(self, name: str, x: Any) -> Any:
        return x if self._inner is None else x.unflatten(0, (self._R, self._inner))


class Memory(nn.Module):
    """A memory as a layer: x `[B,T,width]` -> (y `[B,T,width]`, state), its queries, keys, values and gates projections of x.

    Options are those of the memory and of the language model (`describe(memory)`, `crosstalk describe model`): heads, d_key,
    d_value, key_norm, short_conv, out_norm, out_gate, ..., and `layer="published"` for the layer of the memory's authors.
    Parameters have the names, shapes and initial values of layer `number` of the program's language model with that
    `seed`; without one they follow `torch.manual_seed`. `state` is a dict of tensors by name ("S"), or None at the start;
    memories that keep their keys and values, and layers that look back by a convolution or a shift, have none: it is then empty.
    Of several documents in a sequence `reset` `[B,T]` (1 where one begins) or `cu_seqlens` lets each begin anew: state, convolutions,
    shifts, rotations (`ct.apply` says more).

    >>> layer = ct.torch.Memory("gated_delta", 64, heads=4, key_norm="l2")
    >>> layer
    Memory('gated_delta', width=64, heads=4, d_key=64, d_value=64: 16908 parameters; state S [4, 16, 16])
    >>> y, state = layer(torch.randn(2, 32, 64))
    >>> y, state = layer(torch.randn(2, 8, 64), state)
    """

    def __init__(self, memory: str, width: int, *, number: int = 0, seed: int | None = None, **options: Unpack[OfLayer]):
        super().__init__()
        #: resolved options, by their whole names
        self.config: dict[str, Any] = _core.layer_options(_keyed(memory, {**options, "width": width}))
        self._start(number, seed)

    @classmethod
    def of(cls, config: Mapping[str, Any], number: int = 0, seed: int | None = None) -> Memory:
        """The layer of resolved options, as LanguageModel makes it."""
        self = cls.__new__(cls)
        nn.Module.__init__(self)
        self.config = dict(config)
        self._start(number, seed)
        return self

    def _start(self, number: int, seed: int | None) -> None:
        self.kind, self._number = str(self.config["memory.name"]), number
        self._seed = _checked_seed(seed)
        checks.whole("number", number, 0, 1 << 16)
        self.width = int(self.config["model.width"])
        self._names = _register(self, _core.layer_parameters(self.config, number, self._seed))
        carried, self._refused = _core.layer_states(self.config)
        self._kinds: dict[Any, _LayerKind] = {}
        #: state -> (its input before the first token, its shape for one sequence)
        self._states: dict[str, tuple[str, list[int]]] = {name: (start, shape) for name, start, shape in carried}

    def __repr__(self) -> str:
        """The memory and its sizes in one line: parameters lie in many small modules, which say less."""
        heads, d_key, d_value = (self.config[f"model.{name}"] for name in ("heads", "d_key", "d_value"))
        states = ", ".join(f"{name} {shape[1:]}" for name, (_, shape) in self._states.items()) or "none"
        size = sum(x.numel() for x in self.parameters())
        return (
            f"Memory({self.kind!r}, width={self.width}, heads={heads}, d_key={d_key}, d_value={d_value}: "
            f"{size} parameters; state {states})"
        )

    def weights(self) -> dict[str, np.ndarray[Any, Any]]:
        """Parameters by the names that they have in the program."""
        return {name: _at(self, here).detach().cpu().numpy() for name, here in self._names.items()}

    def load_weights(self, weights: Mapping[str, Any], prefix: str = "") -> None:
        """Takes parameters by the program's names, each with `prefix` before it ("layers.1.")."""
        _load(self, self._names, weights, prefix)

    def forward(
        self, x: torch.Tensor, state: Mapping[str, torch.Tensor] | None = None, *, reset: Any = None, cu_seqlens: Any = None
    ) -> Any:
        if reset is not None or cu_seqlens is not None:
            return self._by_documents(x, state, reset, cu_seqlens)
        return self._run(x, state, True)

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _by_documents(self, x: torch.Tensor, state: Mapping[str, torch.Tensor] | None, reset: Any, cu_seqlens: Any) -> Any:
        self._check_shape(x)
        state = state or {}
        if state:
            self._started(x, state)  # says what is wrong with the whole
        parts = {"x": TOKENS, **dict.fromkeys(state, START)}
        documents = Documents(int(x.shape[0]), int(x.shape[1]), reset, cu_seqlens, parts)
        return documents.read({"x": x, **state}, parts, lambda of: self._run(of.pop("x"), of, True))

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        """y alone."""
        y: torch.Tensor = self._run(x, None, False)[0]
        return y

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _run(self, x: torch.Tensor, state: Mapping[str, torch.Tensor] | None, ends: bool) -> Any:
        self._check_shape(x)
        inputs = {"x": x, **{name: _at(self, here) for name, here in self._names.items()}}
        if state:
            inputs.update(self._started(x, state))
        arrays = arrays_of(inputs, threads_now())
        types = {str(t.dtype)[6:] for t in inputs.values()}
        arrays.kept = str(x.dtype)[6:]
        if len(types) > 1 or arrays.kept not in ("float32", "float64"):
            raise TypeError(
                f"x and the layer's parameters are {' and '.join(sorted(types))}; they must be float32, or float64, both"
            )
        kind = self._kind(int(x.shape[0]), int(x.shape[1]), bool(state), ends and not self._refused, arrays.kept)
        return differentiable(kind, arrays, inputs)

    def _check_shape(self, x: torch.Tensor) -> None:
        if x.ndim != 3 or x.shape[-1] != self.width or 0 in x.shape:
            raise ValueError(f"x has shape {list(x.shape)}; expected [B,T,width] = [B,T,{self.width}]")

    def _kind(self, B: int, T: int, starts: bool, ends: bool, dtype: str) -> _LayerKind:
        precision = "fp64" if dtype == "float64" else "fp32"
        key = (B, T, starts, ends, precision)
        if key not in self._kinds:
            if len(self._kinds) > 64:
                self._kinds.clear()
            self._kinds[key] = _LayerKind(self.config, self._number, *key, self._seed, None)
        return self._kinds[key]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kinds": {}}  # what is pickled or copied is made anew

    def _started(self, x: torch.Tensor, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if self._refused:
            raise ValueError(f"this layer cannot go on from a state: {self._refused}")
        if set(state) != set(self._states):
            raise ValueError(f"state holds {', '.join(state)}; this layer's is {', '.join(self._states)}")
        for name, s in state.items():
            expected = [int(x.shape[0]), *self._states[name][1][1:]]
            if list(s.shape) != expected:
                raise ValueError(f"state[{name!r}] has shape {list(s.shape)}; expected {expected}")
        return {self._states[name][0]: s for name, s in state.items()}


def _load(module: nn.Module, names: Mapping[str, str], weights: Mapping[str, Any], prefix: str) -> None:
    missing = [name for name in names if prefix + name not in weights]
    if missing:
        raise ValueError(f"the weights lack {', '.join(prefix + name for name in missing)}")
    for name, here in names.items():
        parameter = _at(module, here)
        given = torch.as_tensor(weights[prefix + name])
        if given.numel() != parameter.numel():
            raise ValueError(f"{prefix + name} has shape {list(given.shape)}; expected {list(parameter.shape)}")
        with torch.no_grad():
            parameter.copy_(given.reshape(parameter.shape))


class LanguageModel(nn.Module):
    """The program's language model in PyTorch: tokens `[B,T]` -> logits `[B,T,vocabulary]`; pre-norm blocks over embedded tokens.

    Of a memory with options (`LanguageModel("gated_delta", vocabulary=256, width=64, layers=2, mlp="swiglu")`), or of a
    configuration of `ct.train` (`LanguageModel(config, memory="gated_delta")`, `LanguageModel(config, mixer=make)`).
    `mixer(width, layer)` makes a module x `[B,T,width]` -> y, or (y, anything), which stands in the place of the memory. Options,
    names, shapes and initial values of parameters are those of the program: `load_weights(ct.weights(STORE, ID))` takes those of
    a run. Without a seed initial values follow `torch.manual_seed`. Of several documents in a sequence `reset` `[B,T]` (1 where one
    begins) or `cu_seqlens` lets each begin anew, positions and mixers of one's own among all else: a mixer is given documents of one
    length, each as a sequence.

    >>> model = ct.torch.LanguageModel("deltanet", vocabulary=256, width=64, layers=2, heads=2, mlp="swiglu")
    >>> model(torch.randint(256, (2, 32))).shape
    torch.Size([2, 32, 256])
    """

    def __init__(
        self,
        config: Mapping[str, Any] | str | None = None,
        *,
        memory: str | None = None,
        mixer: Callable[[int, int], nn.Module] | None = None,
        vocabulary: int | None = None,
        seed: int | None = None,
        **options: Unpack[OfModel],
    ):
        super().__init__()
        if isinstance(config, str):
            if memory is not None:
                raise TypeError(f"the memory is given twice: {config!r} and memory={memory!r}")
            memory, config = config, None
        if (memory is None) == (mixer is None):
            raise TypeError("give a memory by its name, or mixer=..., a function (width, layer) that makes a module")
        tokens, answers = _vocabulary_of(config, vocabulary)
        given = {**_of_config(config), **_keyed(memory or _STANDS_FOR_MIXER, options)}
        #: resolved options, by their whole names
        self.config: dict[str, Any] = _core.layer_options(given, tokens, answers)
        if (decoder := self.config["model.decoder"]) != "none":
            raise ValueError(f"model.decoder = {decoder!r} is of models that crosstalk trains: here logits follow the tokens; leave it out")
        self.vocabulary, self.width = tokens, int(self.config["model.width"])
        seed = _checked_seed(seed)
        layers = _core.stacked_layers(self.config)
        own = [mixer is not None and not conv and o["memory.name"] == _STANDS_FOR_MIXER for conv, o in layers]
        inner = {f"layers.{i}." for i, (conv, _) in enumerate(layers) if not conv}
        around = ("norm.", "mlp_norm.", "mlp.")

        def of_mixer(name: str) -> bool:
            at = name.split(".", 2)
            return len(at) == 3 and f"layers.{at[1]}." in inner and not at[2].startswith(around)

        self._names = _register(self, _core.language_parameters(self.config, tokens, answers, seed), of_mixer)
        self.mixers = nn.ModuleDict()
        for i, (conv, layer) in enumerate(layers):
            if own[i]:
                self.mixers[str(i)] = mixer(self.width, i)  # type: ignore[misc]
            elif not conv:
                self.mixers[str(i)] = Memory.of(layer, i, seed)
        self._blocks = len(layers)

    def weights(self) -> dict[str, np.ndarray[Any, Any]]:
        """Parameters by the names that they have in the program; those of mixers of one's own are not among them."""
        all = {name: _at(self, here).detach().cpu().numpy() for name, here in self._names.items()}
        for i, layer in self._memories():
            all.update({f"layers.{i}.{name}": x for name, x in layer.weights().items()})
        return all

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Takes the weights of a run of the program."""
        _load(self, self._names, weights, "")
        for i, layer in self._memories():
            layer.load_weights(weights, f"layers.{i}.")

    def _memories(self) -> Iterator[tuple[str, Memory]]:
        for i, layer in self.mixers.items():
            if isinstance(layer, Memory):
                yield i, layer

    def forward(self, tokens: torch.Tensor, *, reset: Any = None, cu_seqlens: Any = None) -> torch.Tensor:
        return self._head(self._stream(tokens, reset, cu_seqlens))

    def answer(self, tokens: torch.Tensor, position: torch.Tensor, *, reset: Any = None, cu_seqlens: Any = None) -> torch.Tensor:
        """Logits `[B,Q,vocabulary]` at the tokens before these positions alone."""
        x = self._stream(tokens, reset, cu_seqlens)
        at = (position.long() - 1).clamp(min=0)[..., None].expand(*position.shape, x.shape[-1])
        return self._head(torch.gather(x, -2, at))

    def _parameter(self, name: str) -> Any:
        here = self._names.get(name)
        return None if here is None else _at(self, here)

    def _stream(self, tokens: torch.Tensor, reset: Any, cu_seqlens: Any) -> torch.Tensor:
        if tokens.ndim != 2:
            raise ValueError(f"tokens have shape {list(tokens.shape)}; expected [B,T]")
        if reset is None and cu_seqlens is None:
            return self._blocks_of(tokens)
        x: torch.Tensor = self._by_documents(tokens, reset, cu_seqlens)
        return x

    @torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
    def _by_documents(self, tokens: torch.Tensor, reset: Any, cu_seqlens: Any) -> Any:
        parts = {"tokens": TOKENS}
        documents = Documents(int(tokens.shape[0]), int(tokens.shape[1]), reset, cu_seqlens, parts)
        return documents.read({"tokens": tokens}, parts, lambda of: (self._blocks_of(of["tokens"]), {}))[0]

    def _blocks_of(self, tokens: torch.Tensor) -> torch.Tensor:
        x = nn.functional.embedding(tokens.long(), self._parameter("embedding"))
        if (positions := self._parameter("positions")) is not None:
            if tokens.shape[1] > positions.shape[0]:
                raise ValueError(f"model.max_length = {positions.shape[0]} is less than the {tokens.shape[1]} tokens of a sequence")
            x = x + positions[: tokens.shape[1]]
        x = self._dropped(x, "embed_dropout")
        for i in range(self._blocks):
            prefix = f"layers.{i}."
            seen = self._normed(x, prefix + "norm") if self.config["model.prenorm"] else x
            x = x + self._dropped(self._mixed(i, seen), "dropout")
            if self.config["model.mlp"] != "none":
                x = x + self._dropped(self._mlp(prefix, self._normed(x, prefix + "mlp_norm")), "dropout")
        return x

    def _head(self, x: torch.Tensor) -> torch.Tensor:
        head, y = self._parameter("head"), self._normed(x, "norm")
        if self.config["model.readout"] == "mlp":
            y = nn.functional.gelu(self._linear(y, "readout"))
        return nn.functional.linear(y, self._parameter("embedding") if head is None else head)

    def _dropped(self, x: torch.Tensor, option: str) -> torch.Tensor:
        return nn.functional.dropout(x, float(self.config[f"model.{option}"]), self.training)

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        gain, bias = self._parameter(name + ".gain"), self._parameter(name + ".bias")
        if bias is None:
            normed: torch.Tensor = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + _NORM_EPS) * gain
            return normed
        return nn.functional.layer_norm(x, (self.width,), gain, bias, _NORM_EPS)

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return nn.functional.linear(x, self._parameter(name + ".weight"), self._parameter(name + ".bias"))

    def _mixed(self, i: int, x: torch.Tensor) -> torch.Tensor:
        if str(i) not in self.mixers:
            return self._base_conv(f"layers.{i}.", x)
        layer = self.mixers[str(i)]
        y = layer.mixed(x) if isinstance(layer, Memory) else layer(x)
        mixed: torch.Tensor = y[0] if isinstance(y, tuple) else y
        return mixed

    def _base_conv(self, prefix: str, x: torch.Tensor) -> torch.Tensor:
        taps = self._parameter(prefix + "conv.weight")
        past = nn.functional.pad(x.transpose(1, 2), (taps.shape[1] - 1, 0))
        u = nn.functional.conv1d(past, taps[:, None], self._parameter(prefix + "conv.bias").flatten(), groups=self.width)
        return u.transpose(1, 2) * self._linear(x, prefix + "projection") + x

    def _mlp(self, prefix: str, x: torch.Tensor) -> torch.Tensor:
        kind = self.config["model.mlp"]
        if kind == "identity":
            return x
        h = self._linear(x, prefix + "mlp.in")
        if kind == "swiglu":
            h = nn.functional.silu(self._linear(x, prefix + "mlp.gate")) * h
        else:
            h = nn.functional.gelu(h)
        return self._linear(h, prefix + "mlp.out")


def _vocabulary_of(config: Any, vocabulary: int | None) -> tuple[int, int]:
    if vocabulary is None:
        vocabulary = getattr(config, "vocabulary", None)
    if vocabulary is None:
        raise TypeError("vocabulary is needed: the number of tokens")
    vocabulary = checks.whole("vocabulary", vocabulary, 1, 1 << 31)
    return vocabulary, int(getattr(config, "answers", vocabulary))


def _of_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a run's configuration says of the model beside the defaults."""
    if config is None:
        return {}
    defaults = {f"model.{option['name']}": option["default"] for option in _core.model_options()}
    given = {key: config[key] for key, default in defaults.items() if key in config and config[key] != default}
    for key in ("model.d_key", "model.d_value"):  # derived, unless they are said
        if given.get(key) == config.get("model.width"):
            del given[key]
    given.pop("model.name", None)
    return given


class function:
    """The bare law of a memory: `f(q, k, v, beta=...)` -> (o, state), as `ct.apply` has it, with options kept.

    >>> delta = ct.torch.function("delta", key_norm="l2")
    >>> x = torch.randn(2, 8, 4, 16)
    >>> delta(x, x, x, beta=torch.rand(2, 8, 4))[0].shape
    torch.Size([2, 8, 4, 16])
    """

    def __init__(self, memory: str, **options: Unpack[Given]):
        self.memory = memory
        self.options: dict[str, Any] = dict(options)
        self.inputs = list(_core.describe_memory(memory)["inputs"])

    def __call__(self, *qkv: torch.Tensor, **inputs: Unpack[Named]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        named: dict[str, Any] = dict(inputs)
        return apply(self.memory, *qkv, **named, **self.options)  # type: ignore[no-any-return, unused-ignore]

    def __repr__(self) -> str:
        return f"crosstalk.torch.function({', '.join([repr(self.memory)] + [f'{n}={x!r}' for n, x in self.options.items()])})"
