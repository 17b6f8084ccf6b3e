"""Calls as differentiable functions of torch tensors."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Callable

import torch

from .arrays import Arrays
from .calls import ENDS, NOTHING, OUTPUT, Call

#: Kinds of calls whose states were differentiated: their plans start backward from states too, from the next call on.
_from_ends: set[Any] = set()


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        make: Callable[[int, int, int], Any],
        kind: Any,
        arrays: Arrays,
        names: tuple[str, ...],
        ends: list[str],
        *tensors: Any,
    ) -> Any:
        inputs = {name: arrays.given(name, x) for name, x in zip(names, tensors)}
        level = ENDS if kind in _from_ends else OUTPUT
        call = Call(make, arrays, inputs, level)
        o, states = call.forward()
        ctx.call, ctx.level, ctx.make, ctx.kind, ctx.names = call, level, make, kind, names
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.ends = list(states)
        ends.extend(states)
        return (o, *states.values())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_o: Any, *d_states: Any) -> Any:
        given = {name: d for name, d in zip(ctx.ends, d_states) if d is not None}
        call: Call = ctx.call
        inputs = {name: call.arrays.given(name, x) for name, x in zip(ctx.names, ctx.saved_tensors)}  # if they are as they were
        if given and ctx.level == OUTPUT:  # what forward could not know: once more, with a plan that begins at states
            _from_ends.add(ctx.kind)
            ctx.call = call = Call(ctx.make, call.arrays, inputs, ENDS)
            ctx.level = ENDS
            call.core.forward(call.arrays.threads)
        else:
            call.put({name: inputs[name] for name, x in call.borrowed.items() if x is not None and name in inputs})
        wanted = [name for name, needs in zip(ctx.names, ctx.needs_input_grad[5:]) if needs]
        gradients = call.backward(None if d_o is None else d_o.detach(), {n: d.detach() for n, d in given.items()}, wanted)
        return (None, None, None, None, None, *(gradients.get(name) for name in ctx.names))


def differentiable(make: Callable[[int, int, int], Any], kind: Any, arrays: Arrays, inputs: dict[str, Any]) -> Any:
    """(o, states) of a call, differentiable once by every input. `kind`: what calls of one plan have in common."""
    if not torch.is_grad_enabled() or not any(x.requires_grad for x in inputs.values()):
        return Call(make, arrays, {name: arrays.given(name, x) for name, x in inputs.items()}, NOTHING).forward(True)
    ends: list[str] = []
    o, *states = _Differentiable.apply(make, kind, arrays, tuple(inputs), ends, *inputs.values())
    return o, dict(zip(ends, states))
