"""Calls as differentiable functions of torch tensors, also under torch.func.vmap, grad and vjp.

vmap runs replicas in one call: what is batched is folded into a dimension that the plan has (replicas of a layer, sequences or
heads of a memory), and unfolded from results and gradients. Gradients are a function of their own, so that vmap finds them too.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Sequence

import torch

from .arrays import Arrays
from .calls import ENDS, OF_O, OF_STATE, OUTPUT, Call, Kind, forward

#: Kinds of calls whose states were differentiated: their plans start backward from states too, from the next call on.
_from_ends: set[Any] = set()


class _Use:
    """One use of a kind, and the call that its forward pass leaves for its backward pass. `folds`: the uses that vmap made of it, by
    how many replicas there were and which inputs were batched."""

    def __init__(self, kind: Kind, arrays: Arrays, names: tuple[str, ...]):
        self.kind, self.arrays, self.names = kind, arrays, names
        self.call: Call | None = None
        self.level = OUTPUT
        self.ends: list[str] = []
        self.wanted: tuple[bool, ...] = ()
        self.folds: dict[Any, Any] = {}

    def inputs(self, tensors: Sequence[Any]) -> dict[str, Any]:
        return {name: self.arrays.given(name, x) for name, x in zip(self.names, tensors)}

    def forward(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        self.level = ENDS if self.kind.key in _from_ends else OUTPUT
        self.call = Call(self.kind, self.arrays, self.inputs(tensors), self.level)
        o, states = self.call.forward()
        self.ends = list(states)
        return (o, *states.values())

    def backward(self, d: Sequence[Any], tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Gradients by the wanted inputs, of what is given for o and for the states (None: nothing)."""
        given = {name: x.detach() for name, x in zip(self.ends, d[1:]) if x is not None}
        inputs, call = self.inputs(tensors), self.call
        if call is None or (given and self.level == OUTPUT):  # what forward could not know: once more
            if given:
                _from_ends.add(self.kind.key)
            self.level = ENDS if given else OUTPUT
            self.call = call = Call(self.kind, self.arrays, inputs, self.level)
            call.core.forward(call.arrays.threads)
        else:  # if they are as they were
            call.put({name: inputs[name] for name, x in call.borrowed.items() if x is not None and name in inputs})
        names = [name for name, wanted in zip(self.names, self.wanted) if wanted]
        found = call.backward(None if d[0] is None else d[0].detach(), given, names)
        return tuple(found[name] for name in names)

    def folded(self, R: int, dims: Sequence[int | None]) -> Any:
        """(fold, uses) of R replicas whose inputs are batched at these dimensions."""
        key = (R, tuple(dims))
        if key not in self.folds:
            fold = self.kind.folded(R, {name for name, dim in zip(self.names, dims) if dim is not None}, self.names)
            kinds = [fold.kind] if fold else [self.kind] * R
            self.folds[key] = fold, [_Use(kind, self.arrays, self.names) for kind in kinds]
        fold, uses = self.folds[key]
        for use in uses:
            use.wanted, use.ends = self.wanted, self.ends or use.ends
        return fold, uses


def _output(use: _Use, i: int) -> str:
    return OF_O if i == 0 else OF_STATE + use.ends[i - 1]


def _at(x: Any, dim: int | None, r: int) -> Any:
    return x if x is None or dim is None else x.select(dim, r)


def _in_front(x: Any, dim: int | None, R: int) -> Any:
    """[R,...], whether it is batched or not."""
    if x is None:
        return None
    return x.expand(R, *x.shape) if dim is None else x.movedim(dim, 0)


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(use: _Use, *tensors: Any) -> Any:
        return use.forward(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.use, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def vmap(info: Any, in_dims: Any, use: _Use, *tensors: Any) -> Any:
        R, dims = info.batch_size, in_dims[1:]
        fold, uses = use.folded(R, dims)
        if fold is None:  # one call a replica
            each = [_Differentiable.apply(one, *(_at(x, d, r) for x, d in zip(tensors, dims))) for r, one in enumerate(uses)]
            outs = [torch.stack(x) for x in zip(*each)]
        else:
            found = _Differentiable.apply(uses[0], *(fold.put(n, _in_front(x, d, R)) for n, x, d in zip(use.names, tensors, dims)))
            outs = [fold.take(_output(uses[0], i), x) for i, x in enumerate(found)]
        use.ends = uses[0].ends
        return tuple(outs), (0,) * len(outs)

    @staticmethod
    def backward(ctx: Any, *d: Any) -> Any:
        use: _Use = ctx.use
        use.wanted = tuple(ctx.needs_input_grad[1:])
        if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
            found = _Backward.apply(use, len(d), *d, *ctx.saved_tensors)
        else:
            found = use.backward(d, ctx.saved_tensors)
        left = iter(found)
        return (None, *(next(left) if wanted else None for wanted in use.wanted))


class _Backward(torch.autograd.Function):
    """Gradients as a function of what is given for o and for the states, and of the inputs."""

    @staticmethod
    def forward(use: _Use, outputs: int, *tensors: Any) -> Any:
        return use.backward(tensors[:outputs], tensors[outputs:])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, use: _Use, outputs: int, *tensors: Any) -> Any:
        R, dims = info.batch_size, in_dims[2:]
        fold, uses = use.folded(R, dims[outputs:])
        if fold is None:
            each = [_Backward.apply(one, outputs, *(_at(x, d, r) for x, d in zip(tensors, dims))) for r, one in enumerate(uses)]
            return tuple(torch.stack(x) for x in zip(*each)), (0,) * len(each[0])
        front = [_in_front(x, d, R) for x, d in zip(tensors, dims)]
        given = [None if x is None else fold.put(_output(use, i), x) for i, x in enumerate(front[:outputs])]
        found = _Backward.apply(uses[0], outputs, *given, *(fold.put(n, x) for n, x in zip(use.names, front[outputs:])))
        names = [name for name, wanted in zip(use.names, use.wanted) if wanted]
        return tuple(fold.take(name, x) for name, x in zip(names, found)), (0,) * len(found)

    @staticmethod
    def backward(ctx: Any, *d: Any) -> Any:
        raise RuntimeError("memories are differentiable once, and this asks for a derivative of their gradients (twice)")


@torch.compiler.disable  # type: ignore[untyped-decorator, unused-ignore]
def uncompiled(function: Any, *given: Any, **named: Any) -> Any:
    """A call that torch.compile leaves as it is: what it compiles ends before, and begins anew behind."""
    return function(*given, **named)


def is_followed(inputs: dict[str, Any]) -> bool:
    """Whether somebody may ask for gradients or for replicas of a call."""
    if torch._C._are_functorch_transforms_active():
        return True
    return torch.is_grad_enabled() and any(x.requires_grad for x in inputs.values())


def differentiable(kind: Kind, arrays: Arrays, inputs: dict[str, Any]) -> Any:
    """(o, states) of a call, differentiable once by every input."""
    if not is_followed(inputs):
        return forward(kind, arrays, {name: arrays.given(name, x) for name, x in inputs.items()})
    use = _Use(kind, arrays, tuple(inputs))
    o, *states = _Differentiable.apply(use, *inputs.values())
    return o, dict(zip(use.ends, states))
