"""Calls of `apply` as one was before, in few steps: same memory, options, shapes, types and device, and nobody follows gradients.

What such a call has in common is kept by what it was given; everything else is looked at by the long way, whose results are the same.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import Any, Callable, Mapping

import numpy as np

_FLOATS = (np.dtype("float32"), np.dtype("float64"))
_MOST = 512  #: kinds of calls that are kept

#: (pointers of the inputs, threads) -> (o, states), or None where the long way has to tell what is wrong
Pass = Callable[[list[int], int], Any]
_kept: dict[Any, Pass] = {}


#: Of torch, once it is there: Tensor, Parameter, strided, and whether somebody follows gradients or transforms functions.
_torch: tuple[Any, ...] | None = None


def _of_torch() -> tuple[Any, ...] | None:
    global _torch
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "nn"):  # its import has come to an end
        follows, transforms = torch.is_grad_enabled, torch._C._are_functorch_transforms_active
        _torch = torch.Tensor, torch.nn.Parameter, torch.strided, follows, transforms
    return _torch


def is_compiling() -> bool:
    """Whether torch.compile looks at a call, which it cannot follow."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "compiler") and bool(torch.compiler.is_compiling())


def key_of(memory: str, given: Mapping[str, Any], form: str, precision: str | None) -> tuple[Any, list[int]] | None:
    """By what a call is known, and where its inputs lie; None: it goes the long way."""
    tensor = parameter = strided = None
    follows = False
    torch = _torch or _of_torch()
    if torch is not None:
        tensor, parameter, strided, is_followed, is_transformed = torch
        if is_transformed():
            return None
        follows = is_followed()
    key: list[Any] = [memory, form, precision]
    pointers = []
    for name, x in given.items():
        kind = type(x)
        if tensor is not None and (kind is tensor or kind is parameter):
            if x.layout is not strided or not x.is_contiguous() or x.is_neg() or (follows and x.requires_grad):
                return None
            key += name, x.shape, x.dtype, x.device
            pointers.append(x.data_ptr())
        elif kind is np.ndarray:
            if x.dtype not in _FLOATS or not x.flags.c_contiguous or x.ndim == 0:
                return None
            key += name, x.shape, x.dtype.char
            pointers.append(x.__array_interface__["data"][0])
        elif kind in (bool, int, float, str):
            key += name, kind, x
        else:
            return None
    return tuple(key), pointers


def known(key: Any) -> Pass | None:
    """The short way of such calls, once one went the long way."""
    return _kept.get(key)


def keep(key: Any, arrays: Any, recipe: Any, names: list[str], result: tuple[Any, dict[str, Any]]) -> None:
    """After a call that went the long way."""
    made = arrays.again(recipe, names, result)
    if made is not None:
        if len(_kept) >= _MOST:
            _kept.clear()
        _kept[key] = made
