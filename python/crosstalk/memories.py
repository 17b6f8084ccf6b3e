"""Memories as functions: what one reads from given tensors, the states it ends in, and gradients."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import Any, Mapping, Sequence

import numpy as np

from . import _core

_threads: int | None = None  # of apply; None: all cores
_forked = False


def set_threads(threads: int) -> None:
    """Threads that `apply` uses (default: all cores). No result depends on it."""
    global _threads
    if threads < 1:
        raise ValueError("threads must be at least 1")
    _threads = threads


def _limit_threads() -> None:
    global _forked
    _forked = True


def _threads_of(wanted: int | None, otherwise: int) -> int:
    if _forked:
        return 1
    return wanted if wanted is not None else otherwise


def memories() -> list[str]:
    """Names of all memories, as `crosstalk list memories` has them."""
    return list(_core.memories())


def release() -> None:
    """Lets go of the plans that `apply` keeps for further calls of the same shapes (at most 1 GiB)."""
    _core.release()


class Description:
    """What is known of a memory or a task: shown as text, and as data in `equation`, `inputs` and `options`."""

    def __init__(self, facts: Mapping[str, Any]):
        self.name: str = facts["name"]
        self.summary: str = facts["summary"]
        self.text: str = facts["text"]
        self.equation: str = facts.get("equation", "")
        self.laws: str = facts.get("laws", "")
        self.source: str = facts.get("source", "")
        #: name -> (shape, whether it may be left out)
        self.inputs: dict[str, tuple[str, bool]] = {i[0]: (i[2], i[3]) for i in facts.get("inputs", ())}
        self.states: list[str] = list(facts.get("states", ()))
        self.forms: list[str] = list(facts.get("forms", ()))
        #: name -> type, default, min, max, choices, help
        self.options: dict[str, dict[str, Any]] = {option["name"]: option for option in facts["options"]}

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.summary}", ""]
        if self.equation:
            lines += [f"  {self.equation}"]
        if self.laws:
            lines += [f"  {self.laws}"]
        if not self.equation:
            lines += [f"  {self.text}"]
        if self.source:
            lines += [f"  {self.source}"]
        if self.inputs:
            lines += ["", "inputs:"]
            lines += [f"  {n:16}{s}{' (optional)' if o else ''}" for n, (s, o) in self.inputs.items()]
        if self.options:
            lines += ["", "options:"]
        for name, option in self.options.items():
            choices = " | ".join(option["choices"])
            shown = f"{option['type']}, default {option['default']!r}" + (f", {choices}" if choices else "")
            lines += [f"  {name:16}{option['help']} ({shown})"]
        return "\n".join(lines)


def describe(name: str) -> Description:
    """A memory or a task: equation, source, inputs and options."""
    if name in _core.tasks():
        return Description(_core.describe_task(name))
    return Description(_core.describe_memory(name))


def _plain(value: Any) -> Any:
    """An option as the module takes it: numpy's scalars as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _sizes_of(memory: str, options: dict[str, Any], shapes: Mapping[str, Sequence[int]]) -> list[int]:
    """(B,T,H,K,V,N) from the shapes of q or k, and v."""
    known = {name: letters for name, _, letters, _ in _core.inputs(memory, options, [1] * 6)}
    sizes = dict.fromkeys("BTHKVN", 1)
    for name in ("v", "k", "q"):
        if name not in known:
            continue
        letters = known[name].strip("[]").split(",")
        if name not in shapes:
            raise TypeError(f"{memory} needs {name} of shape {known[name]}")
        if len(shapes[name]) != len(letters):
            raise ValueError(f"{name} has shape {list(shapes[name])}; expected {known[name]}")
        for letter, size in zip(letters, shapes[name]):
            if not 1 <= size <= 1 << 28:
                raise ValueError(f"{name} has shape {list(shapes[name])}; every size must be at least 1")
            if letter in sizes:
                sizes[letter] = int(size)
    return [sizes[letter] for letter in "BTHKVN"]


def _check_shapes(
    memory: str, options: dict[str, Any], sizes: list[int], shapes: Mapping[str, Sequence[int]]
) -> list[str]:
    """Names and shapes of what is given; the optional inputs among it."""
    known = {n: (dims, letters, optional) for n, dims, letters, optional in _core.inputs(memory, options, sizes)}
    for name in shapes:
        if name not in known:
            raise TypeError(f"{memory} has no input {name}; its inputs are {', '.join(known)}")
    for name, (dims, letters, optional) in known.items():
        if name not in shapes:
            if not optional:
                raise TypeError(f"{memory} needs {name} of shape {letters}")
        elif list(shapes[name]) != list(dims):
            raise ValueError(f"{name} has shape {list(shapes[name])}; expected {letters} = {list(dims)}")
    return [name for name in known if name in shapes and known[name][2]]


def _check_values(name: str, x: np.ndarray[Any, Any]) -> None:
    """What the equation would take without a word: infinities, and decays that grow."""
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(x.sum())  # without an array of answers; a sum may overflow where no number does
    if suspicious and not np.isfinite(x).all():
        raise ValueError(f"{name} holds {x[~np.isfinite(x)].flat[0]}; all must be finite")
    if name.startswith("log_decay") and x.max() > 0:
        raise ValueError(
            f"{name} holds {x.max()}; a decay is given by its logarithm, which is 0 or negative (alpha = e^log_decay)"
        )
    if name == "signed_decay" and (np.abs(x) > 1).any():
        raise ValueError(f"{name} holds {np.abs(x).max()}; a decay with a sign lies between -1 and 1")


def _precision_of(dtype: np.dtype[Any], precision: str | None) -> str:
    if dtype == np.float64:
        if precision not in (None, "fp64"):
            raise ValueError(f"precision {precision!r} wants float32 inputs; these are float64")
        return "fp64"
    if precision not in (None, "fp32", "tf32", "bf16"):
        raise ValueError(f"precision {precision!r} of float32 inputs; there are fp32, tf32 and bf16")
    return precision or "fp32"


class _Call:
    """One use of a plan: checked inputs in, results out as arrays of their own."""

    def __init__(
        self,
        memory: str,
        inputs: Mapping[str, np.ndarray[Any, Any]],
        options: Mapping[str, Any],
        form: str,
        precision: str | None,
        threads: int | None,
        backward: bool,
    ):
        options = {name: _plain(value) for name, value in options.items()}
        types = {x.dtype for x in inputs.values()}
        if len(types) > 1:
            raise TypeError(f"inputs are of several types ({', '.join(sorted(map(str, types)))}); they must be of one")
        if not types:
            raise TypeError(f"{memory} needs inputs: ct.describe({memory!r}) lists them")
        self.dtype = next(iter(types))
        if self.dtype not in (np.float32, np.float64):
            raise TypeError(f"inputs are {self.dtype}; they must be float32 or float64, for example x.astype('float32')")
        shapes = {name: x.shape for name, x in inputs.items()}
        sizes = _sizes_of(memory, options, shapes)
        present = _check_shapes(memory, options, sizes, shapes)
        for name, x in inputs.items():
            _check_values(name, x)
        kind = _precision_of(self.dtype, precision)
        self.threads = _threads_of(threads if threads is not None else _threads, _core.cores())
        self.shapes = shapes
        self.core = _core.Call(memory, sizes, present, options, form, kind, backward)
        for name, x in inputs.items():
            np.copyto(self.core.input(name), x)

    def forward(self) -> tuple[np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
        self.core.forward(self.threads)
        return self.core.output().copy(), {name: s.copy() for name, s in self.core.states().items()}

    def backward(self, d_o: np.ndarray[Any, Any], names: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        np.copyto(self.core.cotangent(), d_o)
        self.core.backward(self.threads)
        all = {}
        for name in names:
            gradient = self.core.gradient(name)  # None: o does not depend on it
            shape = self.shapes[name]
            all[name] = np.zeros(shape, self.dtype) if gradient is None else gradient.reshape(shape).copy()
        return all


def _as_numpy(name: str, x: Any) -> np.ndarray[Any, Any]:
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    raise TypeError(f"{name} is a {type(x).__name__}; an array of numpy or a tensor of torch is needed")


def apply(
    memory: str,
    *,
    d_o: Any = None,
    form: str = "automatic",
    precision: str | None = None,
    threads: int | None = None,
    **given: Any,
) -> Any:
    """One memory on given tensors: `(o, state)`, and with `d_o` the gradients of `sum(o * d_o)` as a third.

    What is given goes into the memory's equation, and nothing else: no hidden scale, normalisation or feature map. Inputs and
    options are named as `describe(memory)` has them; q, k `[B,T,H,K]`, v `[B,T,H,V]`, states before the first token `s0`
    `[B,H,V,K]`. `state` holds the states after the last token by name ("S"). float64 is calculated in float64, float32 in
    float32 (`precision="tf32"` or `"bf16"` rounds the factors of products). Torch tensors give torch tensors, differentiable
    once by every input; `state` is detached.
    """
    known = {name for name, *_ in _core.inputs(memory, _law(given), [1] * 6)}
    options = {n: x for n, x in given.items() if n not in known and not (hasattr(x, "shape") and np.ndim(x) > 0)}
    inputs = {n: x for n, x in given.items() if n not in options}
    if any(_is_torch(x) for x in inputs.values()):
        from .autograd import apply_torch

        return apply_torch(memory, inputs, d_o, options, form, precision, threads)
    arrays = {name: _as_numpy(name, x) for name, x in inputs.items()}
    call = _Call(memory, arrays, options, form, precision, threads, d_o is not None)
    o, state = call.forward()
    if d_o is None:
        return o, state
    cotangent = _as_numpy("d_o", d_o)
    if cotangent.shape != o.shape:
        raise ValueError(f"d_o has shape {list(cotangent.shape)}; expected [B,T,H,V] = {list(o.shape)}")
    _check_values("d_o", cotangent)
    return o, state, call.backward(cotangent, list(arrays))


def _law(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that decide which inputs there are: the law of the memory `rule`, and its numbers."""
    return {name: _plain(given[name]) for name in ("law", "c", "c2", "c3") if name in given} if "law" in given else {}
