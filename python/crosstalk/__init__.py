"""Crosstalk: how much a sequence memory can hold.

Memories as functions on arrays (`apply`), tasks as streams of batches (`task`), studies and stores as objects (`plan`, `run`,
`read`), and PyTorch models of one's own in a study (`train`).
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os as _os


def _check_processor() -> None:
    """One sentence instead of a signal where a wheel for x86-64-v3 meets an older processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return
    if flags and "avx2" not in flags.split():
        raise ImportError(
            "crosstalk: this processor lacks AVX2, which the package was compiled for; "
            "build it here: pip install . -Ccmake.define.CROSSTALK_ARCH=native"
        )


_check_processor()
try:
    from . import _core
except ImportError as _error:
    if "libgomp" not in str(_error):
        raise
    raise ImportError(f"{_error}: OpenMP's library is missing; apt install libgomp1, or import torch first") from None

from ._core import ConfigError, DeviceError, OptionError, OutOfMemory, StoreError
from .conversion import write_arrays
from .memories import Description, _limit_threads, apply, describe, memories, release, set_threads
from .rules import Rule, rule
from .studies import Plan, Result, difference, plan, run, table
from .stores import read, weights
from .tasks import Batch, Task, task, tasks
from . import sources, stores, studies

__version__: str = _core.version

__all__ = [
    "Batch",
    "ConfigError",
    "Description",
    "DeviceError",
    "OptionError",
    "OutOfMemory",
    "Plan",
    "Result",
    "Rule",
    "StoreError",
    "Task",
    "apply",
    "describe",
    "difference",
    "jax",
    "memories",
    "plan",
    "plot",
    "read",
    "release",
    "rule",
    "run",
    "set_threads",
    "table",
    "task",
    "tasks",
    "torch",
    "train",
    "verify",
    "weights",
    "write_arrays",
]


def __getattr__(name: str) -> object:
    # What needs PyTorch, JAX or matplotlib is looked for when it is used.
    if name == "train":
        from .training import train

        return train
    if name == "verify":
        from .verifying import verify

        return verify
    if name in ("torch", "jax"):
        import importlib

        try:
            return importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise ImportError(f"crosstalk.{name}: {name} is not installed: pip install {name}") from None
    if name == "plot":
        from .plots import plot

        return plot
    raise AttributeError(f"module 'crosstalk' has no attribute {name!r}")


def __dir__() -> list[str]:
    # For editors and notebooks: with what is looked for when it is used, without modules and names of the inside.
    return [*__all__, "__doc__", "__file__", "__name__", "__path__", "__version__"]


# A child forked after its parent had used OpenMP's threads hangs where it asks for more than one.
_os.register_at_fork(after_in_child=_limit_threads)
