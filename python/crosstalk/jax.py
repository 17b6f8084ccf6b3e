"""Memories as functions of JAX's arrays: `ct.jax.apply`, differentiable once, under jit, grad, vjp and vmap.

XLA calls back into the module on the host where a memory stands, so that arrays on a GPU are copied there and back. Replicas of vmap are further sequences, or further heads, of one call, as torch.func's are.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from .arrays import Arrays
from .calls import ENDS, NOTHING, OF_O, OF_STATE, OUTPUT, Call, Kind
from .documents import Documents
from .memories import _kind_of, parts_of, options_and_inputs, placed, threads_now

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Named

__all__ = ["apply"]


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__"]


# A function of the host's arrays as an operation of XLA. `jax.pure_callback` makes arrays of JAX of its inputs first, which costs a
# small call many times its arithmetic.
_host: Any = Primitive("crosstalk")
_host.multiple_results = True


def _shapes(*tensors: Any, function: Any, outputs: tuple[Any, ...]) -> list[Any]:
    return [jax.core.ShapedArray(x.shape, x.dtype) for x in outputs]


def _lowered(ctx: Any, *tensors: Any, function: Any, outputs: tuple[Any, ...]) -> Any:
    results, *_ = mlir.emit_python_callback(ctx, function, None, tensors, ctx.avals_in, ctx.avals_out, has_side_effect=False)
    return results


def _at_once(*tensors: Any, function: Any, outputs: tuple[Any, ...]) -> list[Any]:
    """Under jax.disable_jit()."""
    return [jnp.array(x) for x in function(*map(np.asarray, tensors))]


_host.def_impl(_at_once)
_host.def_abstract_eval(_shapes)
mlir.register_lowering(_host, _lowered)


class _Memory:
    """Calls of one kind with inputs of these names, as functions of JAX's arrays."""

    def __init__(self, kind: Kind, names: tuple[str, ...], dtype: str):
        self.kind, self.names, self.dtype = kind, names, dtype
        plan = kind.recipe.call(NOTHING)
        self.ends: list[str] = list(plan.states)
        places = [("output", "o"), *(("state", name) for name in self.ends)]
        self.outputs = self._like(plan.shape(*place) for place in places)
        self.folds: dict[tuple[int, frozenset[str]], Any] = {}
        self._backward: dict[tuple[bool, ...], Callable[..., Any]] = {}
        self.forward = self._callable(self._read, self.outputs, names, lambda memory: memory.forward, self._results())

        def forward(*inputs: Any) -> Any:
            return self.forward(*inputs)

        self.differentiable = jax.custom_vjp(forward)
        self.differentiable.defvjp(self._passed, self._passed_back, symbolic_zeros=True)

    def _like(self, shapes: Iterable[Any]) -> tuple[Any, ...]:
        make: Any = jax.ShapeDtypeStruct
        return tuple(make(tuple(shape), self.dtype) for shape in shapes)

    def _results(self) -> tuple[str, ...]:
        return (OF_O, *(OF_STATE + name for name in self.ends))

    # What XLA calls: numbers in, numbers out.

    def _arrays(self) -> Arrays:
        arrays = Arrays(threads_now())
        arrays.kept = self.dtype
        return arrays

    def _read(self, *inputs: Any) -> tuple[Any, ...]:
        o, states = self._arrays().once(self.kind.recipe, dict(zip(self.names, map(np.asarray, inputs))))
        return (o, *states.values())

    def _gradients(self, given: tuple[bool, ...], *tensors: Any) -> tuple[Any, ...]:
        all = [np.asarray(x) for x in tensors]
        inputs, d = dict(zip(self.names, all)), dict(zip([i for i, there in enumerate(given) if there], all[len(self.names) :]))
        call = Call(self.kind, self._arrays(), inputs, ENDS if any(given[1:]) else OUTPUT)
        call.core.forward(call.arrays.threads)
        states = {name: d[i + 1] for i, name in enumerate(self.ends) if i + 1 in d}
        found = call.backward(d.get(0), states, self.names)
        return tuple(found[name] for name in self.names)

    # What JAX differentiates.

    def _passed(self, *inputs: Any) -> tuple[Any, Any]:
        values = tuple(x.value for x in inputs)
        return self.forward(*values), values

    def _passed_back(self, inputs: Any, d: Any) -> Any:
        given = tuple(not isinstance(x, jax.custom_derivatives.SymbolicZero) for x in d)
        if not any(given):
            return tuple(jnp.zeros_like(x) for x in inputs)
        return self.backward(given)(*inputs, *(x for x, there in zip(d, given) if there))

    def backward(self, given: tuple[bool, ...]) -> Callable[..., Any]:
        """Gradients by the inputs, of the inputs and of what is given for these outputs."""
        if given not in self._backward:
            plan = self.kind.recipe.call(NOTHING)
            shapes = self._like(plan.shape("input", name) for name in self.names)
            names = (*self.names, *(name for name, there in zip(self._results(), given) if there))
            on_host = functools.partial(self._gradients, given)
            self._backward[given] = self._callable(on_host, shapes, names, lambda memory: memory.backward(given), self.names)
        return self._backward[given]

    def _callable(
        self,
        on_host: Callable[..., Any],
        outputs: tuple[Any, ...],
        names: tuple[str, ...],
        same_of: Callable[[_Memory], Callable[..., Any]],
        results: tuple[str, ...],
    ) -> Callable[..., Any]:
        """A callback that vmap folds. `same_of`: this function of the memory that replicas are folded into."""

        @jax.custom_batching.custom_vmap
        @jax.jit
        def call(*tensors: Any) -> Any:
            return tuple(_host.bind(*tensors, function=on_host, outputs=outputs))

        @call.def_vmap
        def replicas(R: int, batched: Sequence[bool], *tensors: Any) -> Any:
            front = [x if there else jnp.broadcast_to(x, (R, *x.shape)) for x, there in zip(tensors, batched)]
            fold, memory = self.folded(R, {name for name, there in zip(names, batched) if there})
            if fold is None:  # one call a replica
                found = jax.lax.map(lambda one: call(*one), tuple(front))
            else:
                found = same_of(memory)(*(_put(fold, name, x) for name, x in zip(names, front)))
                found = tuple(_take(fold, name, x, R) for name, x in zip(results, found))
            return found, (True,) * len(results)

        once = jax.custom_jvp(call)

        @once.defjvp
        def twice(primals: Any, tangents: Any) -> Any:
            raise TypeError("memories are differentiable once, and this asks for a derivative of their gradients (twice)")

        return once  # type: ignore[no-any-return, unused-ignore]

    def folded(self, R: int, batched: set[str]) -> Any:
        key = (R, frozenset(batched))
        if key not in self.folds:
            fold = self.kind.folded(R, batched & set(self.names), self.names)
            self.folds[key] = fold, None if fold is None else _Memory(fold.kind, self.names, self.dtype)
        return self.folds[key]


def _put(fold: Any, name: str, x: Any) -> Any:
    """[R,...] with R in the dimension that it is folded into."""
    at = fold.place(name)
    x = jnp.moveaxis(x, 0, at)
    return x.reshape(*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :])


def _take(fold: Any, name: str, x: Any, R: int) -> Any:
    at = fold.place(name)
    return jnp.moveaxis(x.reshape(*x.shape[:at], R, -1, *x.shape[at + 1 :]), at, 0)


@functools.lru_cache(maxsize=512)
def _memory_of(kind: Kind, names: tuple[str, ...], dtype: str) -> _Memory:
    return _Memory(kind, names, dtype)


def apply(
    memory: str,
    *tensors: Any,
    form: str | Any = "automatic",
    precision: str | Any = None,
    reset: Any = None,
    cu_seqlens: Any = None,
    **given: Unpack[Named],
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """`ct.apply` on JAX's arrays: `(o, state)`, the same numbers to the bit, under jit, grad, vjp and vmap.

    float64 needs JAX's x64 (`jax.config.update("jax_enable_x64", True)`). Gradients go to every input, from o and from the states, once:
    second derivatives and forward mode are refused. What an equation would take without a word (NaN, a decay above 0) is said when
    the memory is calculated, as an error of JAX's runtime. `reset` and `cu_seqlens` decide shapes: under jit they are constants.

    >>> import jax
    >>> k, beta = jax.numpy.ones((1, 4, 1, 2)) / 2, jax.numpy.ones((1, 4, 1))
    >>> loss = lambda v: ct.jax.apply("delta", k, k, v, beta=beta)[0].sum()
    >>> jax.jit(jax.grad(loss))(k).shape
    (1, 4, 1, 2)
    """
    all: Mapping[str, Any] = placed(dict(given), tensors)
    options, inputs = options_and_inputs(memory, all)
    taken = {name: jnp.asarray(x) for name, x in inputs.items()}
    for name, x in taken.items():
        if str(getattr(inputs[name], "dtype", x.dtype)) != str(x.dtype):
            raise TypeError(f'{name} is {inputs[name].dtype}, and JAX makes {x.dtype} of it: jax.config.update("jax_enable_x64", True)')
    arrays = Arrays(1)
    kind = _kind_of(memory, arrays, taken, options, form, precision)
    if reset is not None or cu_seqlens is not None:
        parts = parts_of(memory, options, inputs)
        B, T, *_ = taken["v"].shape
        documents = Documents(int(B), int(T), reset, cu_seqlens, parts)
        found: tuple[jax.Array, dict[str, jax.Array]] = documents.read(
            taken, parts, lambda of: apply(memory, form=form, precision=precision, **of, **options)
        )
        return found
    function = _memory_of(kind, tuple(taken), arrays.kept)
    o, *states = function.differentiable(*taken.values())
    return o, dict(zip(function.ends, states))
