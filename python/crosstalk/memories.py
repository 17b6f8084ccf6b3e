"""Memories as functions: what one reads from given tensors, the states it ends in, and gradients."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import warnings
from typing import Any, Mapping, Sequence

import numpy as np

from . import _core, again, checks
from .arrays import Arrays, CudaArrays, TorchArrays, arrays_of
from .calls import ENDS, OF_O, OUTPUT, Call, forward
from .documents import Documents, part_of

_threads: int | None = None  # of apply; None: all that OpenMP gives
_forked = False


def set_threads(threads: int) -> None:
    """Threads that `apply` uses at most. No result depends on it. Default: all cores, or what OMP_NUM_THREADS or
    `torch.set_num_threads` says; small calls use fewer."""
    global _threads
    _threads = checks.whole("threads", threads, 1, 1 << 16)


def _limit_threads() -> None:
    global _forked
    _forked = True


def _threads_of(wanted: int | None, otherwise: int) -> int:
    if _forked:
        return 1
    return wanted if wanted is not None else otherwise


def threads_now(threads: int | None = None) -> int:
    """Of a call that asks for so many, or for none."""
    wanted = _threads if threads is None else checks.whole("threads", threads, 1, 1 << 16)
    return _threads_of(wanted, _core.cores())


def memories() -> list[str]:
    """Names of all memories, as `crosstalk list memories` has them.

    >>> "gated_delta" in ct.memories()
    True
    """
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
        #: of options that `apply` begins with another value of, since nothing is hidden there: that value
        self.bare: dict[str, Any] = dict(facts.get("bare", {}))
        #: name -> type, default, min, max, choices, help
        self.options: dict[str, dict[str, Any]] = {option["name"]: option for option in facts["options"]}

    def __repr__(self) -> str:
        if not self.summary:  # of what is neither a memory nor a task
            return self.text.rstrip("\n")
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
            lines += [f"  {n:16} {s}{' (optional)' if o else ''}" for n, (s, o) in self.inputs.items()]
        if self.options:
            lines += ["", "options:"]
        for name, option in self.options.items():
            choices = " | ".join(option["choices"])
            default = f"default {option['default']!r}"
            if name in self.bare and option["default"] != self.bare[name]:
                default += f" in models, {self.bare[name]!r} in ct.apply"
            shown = f"{option['type']}, {default}" + (f", {choices}" if choices else "")
            lines += [f"  {name:16} {option['help']} ({shown})"]
        return "\n".join(lines)


def describe(name: str) -> Description:
    """A memory or a task: equation, source, inputs and options; of any other name the text of `crosstalk describe`.

    >>> ct.describe("delta").inputs["beta"]
    ('[B,T,H]', False)
    """
    checks.text("the name of a memory or a task", name)
    if name in _core.tasks():
        return Description(_core.describe_task(name))
    if name in _core.memories():
        return Description(_core.describe_memory(name))
    return Description({"name": name, "summary": "", "text": _core.described(name), "options": ()})


def _plain(value: Any) -> Any:
    """An option as the module takes it: numpy's scalars as Python's."""
    return value.item() if isinstance(value, np.generic) else value


#: (name, type, value) of each option
_Options = tuple[tuple[str, type, Any], ...]


def _listed(options: Mapping[str, Any]) -> _Options:
    """Options as what is kept is known by: True, 1 and 1.0 are different."""
    return tuple((n, type(x), x) for n, x in options.items())


def _is_kept(what: Any) -> bool:
    """Whether something can be looked up by it; what cannot be is no option either, which is said."""
    try:
        hash(what)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=512)
def _kept_inputs(memory: str, options: _Options, sizes: tuple[int, ...]) -> list[Any]:
    return list(_core.inputs(memory, {n: x for n, _, x in options}, list(sizes)))


def _inputs(memory: str, options: Mapping[str, Any], sizes: Sequence[int]) -> list[Any]:
    """Name, dimensions, letters and whether it may be left out, of each input."""
    checks.text("the name of a memory", memory)
    listed = _listed(options)
    return _kept_inputs(memory, listed, tuple(sizes)) if _is_kept(listed) else _kept_inputs.__wrapped__(memory, listed, tuple(sizes))


@functools.lru_cache(maxsize=512)
def _kept_names(memory: str, law: _Options) -> frozenset[str]:
    return frozenset(name for name, *_ in _kept_inputs(memory, law, (1,) * 6))


def _names(memory: str, law: Mapping[str, Any]) -> frozenset[str]:
    checks.text("the name of a memory", memory)
    listed = _listed(law)
    return _kept_names(memory, listed) if _is_kept(listed) else frozenset(name for name, *_ in _inputs(memory, law, [1] * 6))


def _sizes_of(memory: str, options: dict[str, Any], shapes: Mapping[str, Sequence[int]]) -> list[int]:
    """(B,T,H,K,V,N) from the shapes of q or k, and v."""
    known = {name: letters for name, _, letters, _ in _inputs(memory, options, [1] * 6)}
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
    known = {n: (dims, letters, optional) for n, dims, letters, optional in _inputs(memory, options, sizes)}
    for name in shapes:
        if name not in known:
            raise TypeError(f"{memory} has no input {name}; its inputs are {', '.join(known)}")
    for name, (dims, letters, optional) in known.items():
        if name not in shapes:
            if not optional:
                raise TypeError(f"{memory} needs {name} of shape {letters}")
        elif list(shapes[name]) != list(dims):
            turned = letters.startswith("[B,T,H") and list(shapes[name]) == [dims[0], dims[2], dims[1], *dims[3:]]
            hint = f"; heads stand behind tokens: swapaxes(1, 2) of {name}, or of q, k and v where they are [B,H,T,K]" if turned else ""
            raise ValueError(f"{name} has shape {list(shapes[name])}; expected {letters} = {list(dims)}{hint}")
    return [name for name in known if name in shapes and known[name][2]]


#: Heads that say, where tokens are a quarter of them at most, that the two were swapped.
_MANY_HEADS = 32


def _warn_of_swapped(memory: str, sizes: Sequence[int], shapes: Mapping[str, Sequence[int]]) -> None:
    """Says it where [B,H,T,K] is likely meant: all shapes agree then, and nothing else would tell."""
    _, T, H, *_ = sizes
    if H >= _MANY_HEADS and 1 < T <= H // 4:
        warnings.warn(
            f"{memory} reads v {list(shapes['v'])} as [B,T,H,V], {T} tokens of {H} heads; of [B,H,T,V] swapaxes(1, 2) makes that",
            stacklevel=5,
        )


def _precision_of(dtype: str, precision: str | None) -> str:
    if dtype == "float64":
        if precision not in (None, "fp64"):
            raise ValueError(f"precision {precision!r} wants float32 inputs; these are float64")
        return "fp64"
    if precision not in (None, "fp32", "tf32", "bf16"):
        raise ValueError(f"precision {precision!r} of float32 inputs; there are fp32, tf32 and bf16")
    return precision or "fp32"


def _dtype_of(memory: str, arrays: Arrays, inputs: Mapping[str, Any]) -> str:
    types = {arrays.dtype(x) for x in inputs.values()}
    if len(types) > 1:
        raise TypeError(f"inputs are of several types ({', '.join(sorted(types))}); they must be of one")
    if not types:
        raise TypeError(f"{memory} needs inputs: ct.describe({memory!r}) lists them")
    (dtype,) = types
    if dtype not in ("float32", "float64"):
        raise TypeError(f"inputs are {dtype}; they must be float32 or float64, for example x.astype('float32')")
    return dtype


class _ApplyKind:
    """Calls of a memory with these options and shapes (calls.Kind)."""

    def __init__(
        self, memory: str, options: dict[str, Any], sizes: list[int], present: list[str], form: str, precision: str
    ):
        self.recipe = _core.apply_recipe(memory, sizes, present, options, form, precision)
        self.key = (memory, form, str(sorted(options.items())))
        self._made_of = memory, options, sizes, present, form, precision

    def folded(self, R: int, batched: set[str], names: Sequence[str]) -> _Fold | None:
        """Every sequence is a memory of its own, and so is every head where what belongs to heads alone is given."""
        memory, options, sizes, present, form, precision = self._made_of
        letters = {name: text.strip("[]").split(",") for name, _, text, _ in _inputs(memory, options, sizes) if name in names}
        by_heads = any(dims[0] != "B" for dims in letters.values())
        if by_heads and not all("H" in dims for dims in letters.values()):
            return None
        sizes = [n * R if letter == ("H" if by_heads else "B") else n for letter, n in zip("BTHKVN", sizes)]
        try:
            kind = _ApplyKind(memory, options, sizes, present, form, precision)
        except ValueError:  # it has one head
            return None
        at = {name: dims.index("H") if by_heads else 0 for name, dims in letters.items()}
        return _Fold(kind, R, at, 2 if by_heads else 0, 1 if by_heads else 0)


class _Fold:
    """Replicas as further sequences, or as further heads, of one call (calls.Fold)."""

    def __init__(self, kind: _ApplyKind, R: int, at: dict[str, int], of_o: int, of_states: int):
        self.kind, self.R, self._at, self._of_o, self._of_states = kind, R, at, of_o, of_states

    def place(self, name: str) -> int:
        """The dimension of an input or an output that replicas are folded into."""
        return self._at.get(name, self._of_o if name == OF_O else self._of_states)

    def put(self, name: str, x: Any) -> Any:
        at = self.place(name)
        return x.movedim(0, at).flatten(at, at + 1)

    def take(self, name: str, x: Any) -> Any:
        at = self.place(name)
        return x.unflatten(at, (self.R, -1)).movedim(at, 0)


@functools.lru_cache(maxsize=512)
def _kept_kind(
    memory: str,
    options: _Options,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    dtype: str,
    form: str,
    precision: str | None,
) -> _ApplyKind:
    given = {name: x for name, _, x in options}
    of = dict(shapes)
    sizes = _sizes_of(memory, given, of)
    present = _check_shapes(memory, given, sizes, of)
    _warn_of_swapped(memory, sizes, of)
    kind = _precision_of(dtype, precision)
    checks.text("form", form)
    return _ApplyKind(memory, given, sizes, present, form, kind)


def _kind_of(
    memory: str,
    arrays: Arrays,
    inputs: Mapping[str, Any],
    options: Mapping[str, Any],
    form: str,
    precision: str | None,
) -> _ApplyKind:
    """What calls of such inputs have in common, which are checked the first time."""
    arrays.kept = _dtype_of(memory, arrays, inputs)
    shapes = tuple((name, tuple(x.shape)) for name, x in inputs.items())
    given = _listed({name: _plain(value) for name, value in options.items()})
    kept = _kept_kind if _is_kept((given, form, precision)) else _kept_kind.__wrapped__
    return kept(memory, given, shapes, arrays.kept, form, precision)


def _given_back(arrays: Arrays, given: Mapping[str, Any], expected: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Cotangents, checked against what they belong to."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dict of states by name, not {type(given).__name__}")
    checked = {}
    for name, x in given.items():
        if name not in expected:
            raise TypeError(f"{what} names {name}, which is no state; there are {', '.join(expected) or 'none'}")
        shown = "d_o" if what == "d_o" else f"{what}[{name!r}]"
        d = arrays.given(shown, x)
        if tuple(d.shape) != tuple(expected[name].shape):
            letters = "[B,T,H,V] = " if what == "d_o" else ""
            raise ValueError(f"{shown} has shape {list(d.shape)}; expected {letters}{list(expected[name].shape)}")
        if arrays.dtype(d) != arrays.kept:
            raise TypeError(f"{shown} is {arrays.dtype(d)}, and the inputs are {arrays.kept}; they must be of one type")
        checked[name] = d
    return checked


def placed(given: dict[str, Any], tensors: Sequence[Any]) -> dict[str, Any]:
    """Inputs by name, q, k and v of which may be given by their places."""
    if len(tensors) > 3:
        raise TypeError(f"at most q, k and v are given by their places, not {len(tensors)} tensors")
    by_place = dict(zip("qkv", tensors))
    for name in by_place:
        if name in given:
            raise TypeError(f"{name} is given twice: by its place and by its name")
    return {**by_place, **given}


def options_and_inputs(memory: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is given to a memory by name: its inputs and whatever has a shape, which may be meant as one; the rest are options."""
    known = _names(memory, _law(given))
    options = {n: x for n, x in given.items() if n not in known and not (hasattr(x, "shape") and np.ndim(x) > 0)}
    return options, {n: x for n, x in given.items() if n not in options}


def apply(
    memory: str,
    *tensors: Any,
    d_o: Any = None,
    d_state: Mapping[str, Any] | None = None,
    form: str = "automatic",
    precision: str | None = None,
    threads: int | None = None,
    reset: Any = None,
    cu_seqlens: Any = None,
    **given: Any,
) -> Any:
    """One memory on given tensors: `(o, state)`, and with `d_o` or `d_state` gradients as a third.

    What is given goes into the memory's equation, and nothing else: no hidden scale, normalisation or feature map. Inputs and
    options are named as `describe(memory)` has them; q, k and v may be given by their places: q, k `[B,T,H,K]`, v `[B,T,H,V]`,
    states before the first token `s0` `[B,H,V,K]`. `state` holds the states after the last token by name ("S"). Gradients are those of `sum(o * d_o)`, and of
    `sum(state[NAME] * d_state[NAME])` for each state that `d_state` names, added. float64 is calculated in float64, float32 in
    float32 (`precision="tf32"` or `"bf16"` rounds the factors of products). Torch tensors give torch tensors, differentiable
    once by every input, o and states alike. `reset` `[B,T]` is 1 where a document begins (or `cu_seqlens` `[N + 1]`, 0, ..., T, of one
    sequence): documents are then calculated one by one, states handed in belong to the first of a sequence, unless it begins with a 1,
    and `state` is that of the last. Tensors on a GPU (torch, or with `__cuda_array_interface__`) stay there: work is
    queued on torch's current stream, and nothing waits; values are not looked at there.

    >>> k = np.eye(4, dtype="float32").reshape(1, 4, 1, 4)                      # B = 1, T = 4, H = 1, K = 4
    >>> v = np.arange(8, dtype="float32").reshape(1, 4, 1, 2)
    >>> o, state = ct.apply("delta", k, k, v, beta=np.ones((1, 4, 1), "float32"))
    >>> bool((o == v).all()), state["S"].shape
    (True, (1, 1, 2, 4))
    """
    if again.is_compiling():
        from .autograd import uncompiled

        return uncompiled(
            apply, memory, *tensors, d_o=d_o, d_state=d_state, form=form, precision=precision, threads=threads, reset=reset,
            cu_seqlens=cu_seqlens, **given,
        )  # fmt: skip
    if tensors:
        given = placed(given, tensors)
    if reset is not None and "reset" in _names(memory, _law(given)):  # an input that a law calls so
        given, reset = {**given, "reset": reset}, None
    if reset is not None or cu_seqlens is not None:
        how = {"form": form, "precision": precision, "threads": threads}
        return _by_documents(memory, given, reset, cu_seqlens, d_o, d_state, how)
    short = again.key_of(memory, given, form, precision) if d_o is None and d_state is None else None
    if short is not None:
        quick = again.known(short[0])
        result = None if quick is None else quick(short[1], threads_now(threads))
        if result is not None:
            return result
    options, inputs = options_and_inputs(memory, given)
    arrays = arrays_of(inputs, threads_now(threads))
    checked = {name: arrays.given(name, x) for name, x in inputs.items()}
    kind = _kind_of(memory, arrays, checked, options, form, precision)
    if d_o is None and d_state is None:
        if isinstance(arrays, TorchArrays):
            from .autograd import differentiable, is_followed

            if is_followed(inputs):
                return differentiable(kind, arrays, inputs)
        result = forward(kind, arrays, checked)
        if short is not None:
            again.keep(short[0], arrays, kind.recipe, list(inputs), result)
        return result
    if isinstance(arrays, TorchArrays):
        arrays.check_plain("d_o and d_state")
    call = Call(kind, arrays, checked, OUTPUT if not d_state else ENDS)
    o, state = call.forward(True)
    of_o = _given_back(arrays, {} if d_o is None else {"o": d_o}, {"o": o}, "d_o")
    of_states = _given_back(arrays, d_state or {}, state, "d_state")
    return o, state, call.backward(of_o.get("o"), of_states, list(checked))


def parts_of(memory: str, options: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, str]:
    """What each of these inputs is for, where documents are cut."""
    return {name: part_of(letters, optional) for name, _, letters, optional in _inputs(memory, options, [1] * 6) if name in inputs}


def _by_documents(
    memory: str, given: Mapping[str, Any], reset: Any, cu_seqlens: Any, d_o: Any, d_state: Any, how: dict[str, Any]
) -> Any:
    options, inputs = options_and_inputs(memory, given)
    arrays = arrays_of(inputs, 1)
    if isinstance(arrays, CudaArrays):
        raise TypeError("arrays on a GPU are cut at resets by torch alone: torch.as_tensor(x, device='cuda') makes tensors of them")
    taken = inputs if isinstance(arrays, TorchArrays) else {name: arrays.given(name, x) for name, x in inputs.items()}
    _kind_of(memory, arrays, taken, options, how["form"], how["precision"])  # says what is wrong with the whole
    parts = parts_of(memory, options, inputs)
    B, T, *_ = taken["v"].shape
    documents = Documents(int(B), int(T), reset, cu_seqlens, parts)
    if d_o is None and d_state is None:
        return documents.read(taken, parts, lambda of: apply(memory, **of, **options, **how))
    d_o = None if d_o is None else arrays.given("d_o", d_o)
    d_state = None if d_state is None else {name: arrays.given(f"d_state[{name!r}]", d) for name, d in d_state.items()}
    call = lambda of, d, ends: apply(memory, d_o=d, d_state=ends, **of, **options, **how)  # noqa: E731
    return documents.gradients(taken, parts, call, d_o, d_state)


def _law(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that decide which inputs there are: the law of the memory `rule`, and its numbers."""
    return {name: _plain(given[name]) for name in ("law", "c", "c2", "c3") if name in given} if "law" in given else {}
