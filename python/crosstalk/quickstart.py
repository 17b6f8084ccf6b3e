"""`python -m crosstalk quickstart`: trains the study that comes with the program, and draws the first figure."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
from typing import Mapping

from .studies import _call, program, run


def shipped() -> str:
    """The path of quickstart.toml: installed with the program, or in the sources that it was built of."""
    above = pathlib.Path(program()).resolve().parents[1]
    for folder in (above / "share/crosstalk/experiments", above.parent / "experiments"):
        if (folder / "quickstart.toml").is_file():
            return str(folder / "quickstart.toml")
    raise ImportError(f"quickstart.toml was not installed with {program()}")


def quickstart(sets: Mapping[str, str], quiet: bool) -> str:
    """Trains into runs/quickstart what is missing there and draws figures/quickstart; returns the paths of the figure's files."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("quickstart draws with matplotlib: pip install 'crosstalk-memory[plots]'")
    result = run(shipped(), set=sets, quiet=quiet)
    os.makedirs("figures", exist_ok=True)
    os.environ["CROSSTALK_PYTHON"] = sys.executable  # which has matplotlib, as just seen
    return _call(["plot", "capacity", result.store, "--out", "figures/quickstart"]).rstrip("\n")
