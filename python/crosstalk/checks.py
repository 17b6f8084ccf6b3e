"""What arguments must be, and the sentence for what they are instead."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from typing import Any

import numpy as np


def text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} {value!r} is no text in UTF-8") from None
    return value


def whole(what: str, value: Any, least: int, below: int = 1 << 62) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} is a whole number, not {type(value).__name__}")
    if not least <= value < below:
        end = "" if value < least else f" and less than 2^{below.bit_length() - 1}"
        raise ValueError(f"{what} is {value}; it must be at least {least}{end}")
    return int(value)


def path(value: Any) -> str:
    """A path as the program takes it."""
    name = os.fsdecode(value)
    if "\0" in name:
        raise ValueError(f"{name!r} is no path: it holds a zero byte")
    return name
