"""apply as a differentiable function of torch tensors."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any, Mapping

import torch

from .memories import _Call, _check_values


def _array(name: str, x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}; all inputs must be torch tensors where one is")
    if x.dtype in (torch.float16, torch.bfloat16):
        raise TypeError(f"{name} is {str(x.dtype)[6:]}; convert it first, for example {name}.float()")
    if x.device.type != "cpu":
        raise TypeError(f"{name} is on {x.device}; apply works on the CPU: {name}.cpu()")
    return x.detach().numpy()


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, settings: tuple[Any, ...], names: tuple[str, ...], ends: list[str], *tensors: Any) -> Any:
        memory, options, form, precision, threads = settings
        wants = any(ctx.needs_input_grad)
        arrays = {name: _array(name, x) for name, x in zip(names, tensors)}
        call = _Call(memory, arrays, options, form, precision, threads, wants)
        o, state = call.forward()
        if wants:
            ctx.call, ctx.names = call, names
        ends.extend(state)
        states = [torch.from_numpy(x) for x in state.values()]
        ctx.mark_non_differentiable(*states)
        return (torch.from_numpy(o), *states)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_o: Any, *d_states: Any) -> Any:
        wanted = [name for name, needs in zip(ctx.names, ctx.needs_input_grad[3:]) if needs]
        gradients = ctx.call.backward(d_o.detach().numpy(), wanted)
        return (None, None, None, *(torch.from_numpy(gradients[n]) if n in gradients else None for n in ctx.names))


def _tensors(all: Mapping[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(x) for name, x in all.items()}


def apply_torch(
    memory: str,
    inputs: Mapping[str, Any],
    d_o: Any,
    options: Mapping[str, Any],
    form: str,
    precision: str | None,
    threads: int | None,
) -> Any:
    settings = (memory, dict(options), form, precision, threads)
    if d_o is not None:
        arrays = {name: _array(name, x) for name, x in inputs.items()}
        cotangent = _array("d_o", d_o)
        call = _Call(memory, arrays, options, form, precision, threads, True)
        o, state = call.forward()
        if cotangent.shape != o.shape:
            raise ValueError(f"d_o has shape {list(cotangent.shape)}; expected [B,T,H,V] = {list(o.shape)}")
        _check_values("d_o", cotangent)
        gradients = call.backward(cotangent, list(arrays))
        return torch.from_numpy(o), _tensors(state), _tensors(gradients)
    ends: list[str] = []
    o, *states = _Apply.apply(settings, tuple(inputs), ends, *inputs.values())
    return o, dict(zip(ends, states))
