"""Where batches are drawn: arrays of NumPy, or tensors of torch on the CPU or a GPU."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import Any, Sequence

import numpy as np

from . import _core


class Place:
    """The host, and what its arrays are shown as."""

    device = -1

    def __init__(self, torch: Any = None):
        self.torch = torch

    def empty(self, shape: Sequence[int]) -> Any:
        return np.empty(tuple(shape), np.int32)

    def shown(self, x: Any) -> Any:
        return x if self.torch is None else self.torch.from_numpy(x)

    def filled(self, x: Any) -> Any:
        raise NotImplementedError

    def pointer(self, x: Any) -> int:
        raise NotImplementedError

    def stream(self) -> int:
        """Where the next draw is queued, after all that was queued with the arrays of this place before."""
        return 0


class TorchCuda(Place):
    """A GPU whose memory is torch's, in the order of torch's current stream."""

    def __init__(self, torch: Any, index: int | None):
        super().__init__(torch)
        self.device = torch.cuda.current_device() if index is None else index
        self.where = f"cuda:{self.device}"
        self.made: list[Any] = []
        self.last = torch.cuda.current_stream(self.device)

    def empty(self, shape: Sequence[int]) -> Any:
        self.made.append(self.torch.empty(tuple(shape), dtype=self.torch.int32, device=self.where))
        return self.made[-1]

    def shown(self, x: Any) -> Any:
        return x

    def filled(self, x: Any) -> Any:
        self.made.append(self.torch.from_numpy(x).to(self.where))
        return self.made[-1]

    def pointer(self, x: Any) -> int:
        return int(x.data_ptr())

    def stream(self) -> int:
        now = self.torch.cuda.current_stream(self.device)
        if now.cuda_stream != self.last.cuda_stream:
            now.wait_stream(self.last)  # batches are drawn over those that its work may still read
            for x in self.made:
                x.record_stream(now)
            self.last = now
        return int(now.cuda_stream)


def place_of(device: Any, library: str | None) -> Place:
    """None: numpy. Else a device of torch ("cpu", "cuda:0", torch.device)."""
    if library not in (None, "numpy", "torch") or isinstance(library, np.ndarray):
        raise ValueError(f"library {library!r}; there are numpy and torch")
    if device is None and library in (None, "numpy"):
        return Place()
    kind, _, number = str(device or "cpu").partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise ValueError(f"device {str(device)!r}; there are cpu, cuda and cuda:N")
    if kind == "cpu":
        if library == "numpy":
            return Place()
        return Place(_imported("torch"))
    if library == "numpy":
        raise ValueError('library "numpy" is of the CPU; leave device out, or take torch')
    if not _core.built_with_cuda():
        raise _core.DeviceError(
            f"this crosstalk was built without CUDA: batches are drawn on the CPU; device={str(device)!r}: batch.tokens.to(...)"
        )
    count = _core.cuda_devices()
    index = int(number) if number else None
    if count == 0 or (index or 0) >= count:
        raise _core.DeviceError(f"there is no device {kind}:{index or 0}; this process may use {count} GPUs")
    return TorchCuda(_imported("torch"), index)


def _imported(name: str) -> Any:
    try:
        return sys.modules.get(name) or __import__(name)
    except ImportError:
        raise ImportError(f"batches as tensors need {name}, which is not installed; without device they are numpy") from None
