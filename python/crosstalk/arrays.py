"""Whose arrays a call is given: NumPy's, PyTorch's, or memory of a GPU that others own; results are of the same kind."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import sys
from typing import Any, Mapping

import numpy as np

from . import _core


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


@functools.lru_cache(maxsize=64)
def _type_name(dtype: Any) -> str:
    """Of a type of torch: "float32"."""
    return str(dtype)[6:]


#: What the module finds in numbers.
NOT_FINITE, POSITIVE, ABOVE_ONE = 1, 2, 4


def flaws_of(name: str) -> int:
    """Which of them are flaws in an input: infinities, and decays that grow."""
    return NOT_FINITE | (POSITIVE if name.startswith("log_decay") else ABOVE_ONE if name == "signed_decay" else 0)


#: In place of log_decay = -inf, a decay of 0: the least whole numbers whose exponential is 0. Forms subtract such numbers.
LEAST = {"float32": -105.0, "float64": -746.0}


def mended(name: str, x: np.ndarray[Any, Any], flaws: int) -> Any:
    """Raises what an equation would take without a word; None, or x with decays of 0 as numbers that every form takes."""
    flaws &= flaws_of(name)
    if flaws & NOT_FINITE:
        wrong = ~np.isfinite(x)
        if name.startswith("log_decay") and not flaws & POSITIVE and (x[wrong] == -np.inf).all():
            return np.where(wrong, x.dtype.type(LEAST[str(x.dtype)]), x)
        raise ValueError(f"{name} holds {x[wrong].flat[0]}; all must be finite")
    if flaws & POSITIVE:
        raise ValueError(
            f"{name} holds {x.max()}; a decay is given by its logarithm, which is 0 or negative (alpha = e^log_decay)"
        )
    if flaws & ABOVE_ONE:
        raise ValueError(f"{name} holds {np.abs(x).max()}; a decay with a sign lies between -1 and 1")
    return None


class Arrays:
    """NumPy's arrays; what has `__dlpack__` on the CPU is read in place."""

    device, stream = -1, 0

    def __init__(self, threads: int):
        self.threads = threads

    def given(self, name: str, x: Any) -> Any:
        """x as this kind, or TypeError."""
        if isinstance(x, np.ndarray):
            return x
        if hasattr(x, "__dlpack__") and not isinstance(x, np.generic):
            try:
                return np.from_dlpack(x)
            except (TypeError, BufferError, RuntimeError, ValueError) as error:
                raise TypeError(f"{name} is a {type(x).__name__} that NumPy does not read: {error}") from None
        raise TypeError(f"{name} is a {type(x).__name__}; an array of numpy or a tensor of torch is needed")

    def dtype(self, x: Any) -> str:
        return str(x.dtype)

    def put(self, call: Any, what: str, name: str, x: Any, borrow: bool = False) -> Any:
        """Fills a place of the plan, and looks at what is put there. With `borrow` the place may be x itself from then on: it is
        given back then, and must stay as it is."""
        x = np.ascontiguousarray(x)
        flaws, borrowed = call.put(what, name, x, self.threads, borrow)
        other = mended(name, x, flaws) if flaws else None
        if other is not None:
            return Arrays.put(self, call, what, name, other, borrow)
        return x if borrowed else None

    def once(self, recipe: Any, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(o, states) of a forward pass on the host, all of it in one call of the module."""
        dense = {name: self._dense(x) for name, x in inputs.items()}
        o, states, flaws = recipe.once(list(dense), [self._pointer(x) for x in dense.values()], self.threads)
        other = {name: mended(name, np.asarray(x), flaw) for (name, x), flaw in zip(dense.items(), flaws or ()) if flaw & flaws_of(name)}
        if other:
            return self.once(recipe, {**inputs, **{name: self._shown(x) for name, x in other.items()}})
        return self._shown(o), {name: self._shown(state) for name, state in states.items()}

    def again(self, recipe: Any, names: list[str], result: tuple[Any, dict[str, Any]]) -> Any:
        """once() of further calls whose inputs, of these names, lie in order: a function of pointers and threads, which gives None
        where a number is not as it should be. `result`: that of a call before."""
        once, shown, wrong = recipe.once, self._result, [flaws_of(name) for name in names]

        def call(pointers: list[int], threads: int) -> Any:
            o, states, flaws = once(names, pointers, threads)
            if flaws is not None and any(found & flaw for found, flaw in zip(flaws, wrong)):
                return None
            return shown(o, states)

        return call

    def _result(self, o: Any, states: dict[str, Any]) -> Any:
        return o, states

    def _dense(self, x: Any) -> Any:
        return np.ascontiguousarray(x)

    def _pointer(self, x: Any) -> int:
        return int(x.__array_interface__["data"][0])

    def _shown(self, x: Any) -> Any:
        return x

    def take(self, call: Any, what: str, name: str) -> Any:
        """What stands there, as an array of its own; None where there is nothing."""
        return call.take(what, name, self.threads)

    def bound(self, call: Any, what: str, name: str) -> Any:
        """An array that the place is from now on, for a pass to write; None where it has to be taken afterwards."""
        return call.bound(what, name)

    def zeros(self, shape: Any) -> Any:
        return np.zeros(shape, self.kept)

    kept: Any = None  #: type of the call's numbers, once it is known


class TorchArrays(Arrays):
    """Tensors on the CPU."""

    def given(self, name: str, x: Any) -> Any:
        import torch

        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}; all inputs must be torch tensors where one is")
        if x.dtype in (torch.float16, torch.bfloat16):
            raise TypeError(f"{name} is {str(x.dtype)[6:]}; convert it first, for example {name}.float()")
        if x.layout != torch.strided:
            raise TypeError(f"{name} has the layout {x.layout}; it must be dense: {name}.to_dense()")
        if x.device != self._place:
            raise TypeError(f"{name} is on {x.device}, and others are on {self.where}; all must be on one device")
        return x.detach() if x.requires_grad else x

    @functools.cached_property
    def _place(self) -> Any:
        import torch

        return torch.device(self.where)

    def check_plain(self, what: str) -> None:
        import torch

        if torch._C._are_functorch_transforms_active():
            raise TypeError(f"{what} cannot be given inside of torch.func's transforms: torch.func.vjp gives gradients there")

    index: int | None = None
    type = "cpu"

    @property
    def where(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def dtype(self, x: Any) -> str:
        return _type_name(x.dtype)

    def put(self, call: Any, what: str, name: str, x: Any, borrow: bool = False) -> Any:
        return super().put(call, what, name, x.resolve_neg().numpy(), borrow)

    def _result(self, o: Any, states: dict[str, Any]) -> Any:
        import torch

        show = torch.from_numpy
        return show(o), {name: show(state) for name, state in states.items()}

    def _dense(self, x: Any) -> Any:
        return x.resolve_neg().contiguous()

    def _pointer(self, x: Any) -> int:
        return int(x.data_ptr())

    def _shown(self, x: Any) -> Any:
        import torch

        return None if x is None else torch.from_numpy(x)

    def take(self, call: Any, what: str, name: str) -> Any:
        return self._shown(super().take(call, what, name))

    def bound(self, call: Any, what: str, name: str) -> Any:
        return self._shown(super().bound(call, what, name))

    def zeros(self, shape: Any) -> Any:
        import torch

        return torch.from_numpy(super().zeros(shape))


class TorchCudaArrays(TorchArrays):
    """Tensors on a GPU: everything is queued on torch's current stream, and nothing waits; nothing is looked at either."""

    type = "cuda"

    def __init__(self, threads: int, device: Any):
        import torch

        super().__init__(threads)
        self.index = self.device = torch.cuda.current_device() if device.index is None else device.index
        self.stream = torch.cuda.current_stream(self.index).cuda_stream

    def put(self, call: Any, what: str, name: str, x: Any, borrow: bool = False) -> Any:
        x = x.resolve_neg().contiguous()
        return x if call.put_on_device(what, name, x.data_ptr(), borrow) else None

    def bound(self, call: Any, what: str, name: str) -> Any:
        shape = call.shape(what, name)
        x = None if shape is None else self._new("empty", shape)
        return x if x is not None and call.bound_on_device(what, name, x.data_ptr()) else None

    def again(self, recipe: Any, names: list[str], result: tuple[Any, dict[str, Any]]) -> Any:
        import torch

        of_o, ends = tuple(result[0].shape), list(result[1])
        of_states = [tuple(state.shape) for state in result[1].values()]
        how, empty, index = {"dtype": result[0].dtype, "device": result[0].device}, torch.empty, self.index
        stream, once, results = torch.cuda.current_stream, recipe.once_on_device, ["o", *ends]

        def call(pointers: list[int], threads: int) -> Any:
            made = [empty(of_o, **how), *(empty(shape, **how) for shape in of_states)]
            once(index, stream(index).cuda_stream, names, pointers, results, [x.data_ptr() for x in made])
            return made[0], dict(zip(ends, made[1:]))

        return call

    def _new(self, make: str, shape: Any) -> Any:
        import torch

        return getattr(torch, make)(tuple(shape), dtype=getattr(torch, self.kept), device=self.where)

    def take(self, call: Any, what: str, name: str) -> Any:
        shape = call.shape(what, name)
        if shape is None:
            return None
        x = self._new("empty", shape)
        call.take_on_device(what, name, x.data_ptr())
        return x

    def zeros(self, shape: Any) -> Any:
        return self._new("zeros", shape)


class CudaArrays(Arrays):
    """What has `__cuda_array_interface__`: results are DeviceArrays, which have it too. On the stream that the first input names."""

    def __init__(self, threads: int, first: Any):
        super().__init__(threads)
        face = first.__cuda_array_interface__
        self.stream = face.get("stream") or 1  # 1: the default stream of the device
        self.device = _core.device_of(face["data"][0])

    def given(self, name: str, x: Any) -> Any:
        if not hasattr(x, "__cuda_array_interface__"):
            raise TypeError(f"{name} is a {type(x).__name__}; all inputs must be on the GPU where one is")
        face = x.__cuda_array_interface__
        if face.get("strides") is not None and not _is_dense(face):
            raise ValueError(f"{name} has the strides {face['strides']}; it must lie in order without gaps")
        return Foreign(x, face)

    def dtype(self, x: Any) -> str:
        return str(x.dtype)

    def put(self, call: Any, what: str, name: str, x: Any, borrow: bool = False) -> Any:
        return x if call.put_on_device(what, name, x.__cuda_array_interface__["data"][0], borrow) else None

    def bound(self, call: Any, what: str, name: str) -> Any:
        shape = call.shape(what, name)
        x = None if shape is None else self._new(shape)
        return x if x is not None and call.bound_on_device(what, name, x.__cuda_array_interface__["data"][0]) else None

    def again(self, recipe: Any, names: list[str], result: tuple[Any, dict[str, Any]]) -> Any:
        return None

    def _new(self, shape: Any) -> Any:
        return _core.DeviceArray(list(shape), self.kept, self.device, self.stream)

    def take(self, call: Any, what: str, name: str) -> Any:
        shape = call.shape(what, name)
        if shape is None:
            return None
        x = self._new(shape)
        call.take_on_device(what, name, x.__cuda_array_interface__["data"][0])
        return x

    def zeros(self, shape: Any) -> Any:
        x = self._new(shape)
        x.clear()
        return x


class Foreign:
    """An array of which nothing but its `__cuda_array_interface__` is known."""

    def __init__(self, owner: Any, face: Mapping[str, Any]):
        self.owner, self.__cuda_array_interface__ = owner, face
        self.shape, self.dtype = tuple(face["shape"]), np.dtype(face["typestr"])


def _is_dense(face: Mapping[str, Any]) -> bool:
    step = int(np.dtype(face["typestr"]).itemsize)
    for size, stride in zip(reversed(face["shape"]), reversed(face["strides"])):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def arrays_of(inputs: Mapping[str, Any], threads: int) -> Arrays:
    """The kind of the inputs: torch's where one is a tensor of torch, a GPU's where one lies there, else NumPy's."""
    for name, x in inputs.items():
        if not is_torch(x):
            continue
        if x.device.type == "cpu":
            return TorchArrays(threads)
        if x.device.type == "cuda":
            if not _core.built_with_cuda():
                raise TypeError(f"{name} is on {x.device}, and this crosstalk was built for the CPU alone: {name}.cpu()")
            return TorchCudaArrays(threads, x.device)
        raise TypeError(f"{name} is on {x.device}; apply works on the CPU and on CUDA: {name}.cpu()")
    for name, x in inputs.items():
        if hasattr(x, "__cuda_array_interface__"):
            if not _core.built_with_cuda():
                raise TypeError(f"{name} is on a GPU, and this crosstalk was built for the CPU alone")
            return CudaArrays(threads, x)
    return Arrays(threads)
