"""Studies: what they would train, and training them with the program that is part of the package."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import dataclasses
import functools
import io
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from typing import Any, Mapping, Sequence

from . import _core, checks
from .stores import _names, _text, _texts

GRACE = 20.0  #: seconds that a stopped program has to save its runs
STOPPED = 75  #: its exit code then


def program() -> str:
    """The program `crosstalk`: $CROSSTALK_PROGRAM, that of this environment, or the first on the path."""
    here = pathlib.Path(__file__).resolve()
    for path in (
        os.environ.get("CROSSTALK_PROGRAM"),
        os.path.join(sysconfig.get_path("scripts"), "crosstalk"),
        os.path.join(os.path.dirname(sys.executable), "crosstalk"),
        str(here.parents[2] / "bin" / "crosstalk"),
        shutil.which("crosstalk"),
    ):
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError("the program crosstalk is not in this environment; CROSSTALK_PROGRAM may name it")


def _call(words: Sequence[str], notes: list[str] | None = None) -> str:
    """What the program prints; its words as an exception where it fails, and else in `notes`."""
    done = subprocess.run([program(), *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _error(done.returncode, done.stderr)
    if notes is not None:
        notes += done.stderr.splitlines()
    return done.stdout


def _error(code: int, told: str) -> Exception:
    lines = [line for line in told.strip().splitlines() if line]
    text = "\n".join(line.removeprefix("crosstalk: ").removeprefix("error: ") for line in lines[-8:])
    kind = {2: _core.ConfigError, 3: _core.StoreError, 4: _core.DeviceError}.get(code, RuntimeError)
    return kind(text or f"crosstalk ended with code {code}")


@dataclasses.dataclass
class Plan:
    """A study, expanded into runs."""

    path: str
    name: str
    title: str
    product: str  #: "2 memories x 3 loads = 6 runs"
    labels: dict[str, str]  #: label -> title
    configs: list[dict[str, Any]]  #: of each run: id, label, labels, seed, config, d_dot, state_size
    sets: list[str]
    store: str | None = None

    def __len__(self) -> int:
        return len(self.configs)

    def __repr__(self) -> str:
        return f"Plan({self.name!r}: {self.product})"

    @functools.cached_property
    def _told(self) -> dict[str, Any]:
        words = ["plan", self.path, "--json", *(w for s in self.sets for w in ("--set", s))]
        told: dict[str, Any] = json.loads(_call(words + (["--out", self.store] if self.store else [])))
        return told

    @property
    def seconds(self) -> float | None:
        """What training the rest would take here, about; None where that cannot be told."""
        seconds: float | None = self._told["time"]["seconds"]
        return seconds

    @property
    def labels_differ_in(self) -> str:
        """What labels differ in besides the swept keys, defaults included: options of memory and layer; "" where in none."""
        return str(self._told["labels_differ_in"])

    @property
    def runs(self) -> Any:
        """A frame of pandas with one row a run: id, label, seed, state, and the configuration."""
        import pandas

        states = {run["id"]: run["state"] for run in self._told["runs"]}
        rows = [
            {"id": r["id"], "label": r["label"], "seed": r["seed"], "state": states[r["id"]], **r["config"]}
            for r in self.configs
        ]
        return pandas.DataFrame(rows).convert_dtypes()


def plan(study: Any, *, set: Mapping[str, Any] | None = None, out: Any = None) -> Plan:
    """What a study would train, without training it. `set` as in `run`."""
    path, sets = checks.path(study), _texts(set, "set")
    facts = _core.study(path, [w for s in sets for w in ("--set", s)])
    store = None if out is None else checks.path(out)
    labels = {label: title for label, title, *_ in facts["labels"]}
    return Plan(path, facts["name"], facts["title"], facts["product"], labels, facts["runs"], sets, store)


@dataclasses.dataclass
class Result:
    """How training a study went."""

    store: str
    done: int
    diverged: int
    failed: int
    missing: int
    seconds: float
    stopped: bool = False  #: by the time limit; the same call goes on


class _Progress:
    """One line of progress: redrawn in place in a notebook and on a terminal."""

    def __init__(self, quiet: bool):
        self.quiet = quiet
        self.handle: Any = None
        self.notebook = "IPython" in sys.modules and not sys.stderr.isatty()

    def show(self, line: str) -> None:
        if self.quiet:
            return
        if self.notebook:
            from IPython.display import display

            text = {"text/plain": line}
            if self.handle is None:
                self.handle = display(text, raw=True, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
            else:
                self.handle.update(text, raw=True)
        else:
            print(line, file=sys.stderr, flush=True)


def run(
    study: Any,
    *,
    set: Mapping[str, Any] | None = None,
    out: Any = None,
    device: str = "auto",
    time_limit: str | None = None,
    quiet: bool = False,
    arguments: Sequence[str] = (),
) -> Result:
    """Trains what is missing of a study, as `crosstalk run` does.

    `set={"seeds": [1, 2, 3], "train.learning_rate": 1e-3}` sets keys, lists make axes. An interrupt (Ctrl-C, the stop button)
    lets the program save what it trains; the same call resumes from there.
    """
    asked = plan(study, set=set, out=out)
    store = checks.path(out) if out is not None else os.path.join("runs", asked.name)
    words = ["run", asked.path, "--out", store, "--device", device]
    words += [w for s in asked.sets for w in ("--set", s)] + list(arguments)
    if time_limit is not None:
        words += ["--time-limit", time_limit]
    progress, begin, told = _Progress(quiet), time.monotonic(), []
    # A group of its own: the terminal's Ctrl-C comes to this process alone, which passes it on once.
    child = subprocess.Popen(
        [program(), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stderr is not None
    try:
        for line in child.stderr:
            told.append(line)
            progress.show(line.rstrip("\n"))
        code = child.wait()
    except KeyboardInterrupt:
        _stop(child)
        call = f"crosstalk.run({asked.path!r}, out={store!r}" + (f", set={dict(set)!r}" if set else "") + ")"
        raise KeyboardInterrupt(f"stopped; what was trained is saved, and this resumes from there: {call}") from None
    finally:
        child.stderr.close()
        if child.poll() is None:
            child.kill()
    if code not in (0, 1, STOPPED):
        raise _error(code, "".join(told))
    states = [r["state"] for r in json.loads(_call(_plan_words(asked, store)))["runs"]]
    count = {state: states.count(state) for state in ("done", "diverged", "failed", "missing")}
    return Result(store, **count, seconds=time.monotonic() - begin, stopped=code == STOPPED)


def _plan_words(asked: Plan, store: str) -> list[str]:
    return ["plan", asked.path, "--json", "--out", store, *(w for s in asked.sets for w in ("--set", s))]


def _stop(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGINT)
    try:
        child.wait(GRACE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()


def table(
    kind: str,
    paths: Any,
    *,
    best: Any = None,
    by: Any = None,
    where: Any = None,
    metric: str | None = None,
    against: str | None = None,
    x: str | None = None,
) -> Any:
    """A table of the program (`crosstalk table`) as a frame of pandas; `.attrs["latex"]` is its text for a paper.

    `.attrs["notes"]` says what makes one doubt it: runs that are missing, at chance (counted in the column at_chance), still falling.

    >>> frame = ct.table("final", "runs/mqar", metric="test_accuracy", where={"task.pairs": 8})
    >>> frame.n.tolist(), frame.attrs["latex"].count("tabular")
    ([2, 2, 2], 2)
    """
    import pandas

    words = ["table", kind, *_names(paths)]
    for name, value in (("best", best), ("by", by)):
        if value is not None:
            words += [f"--{name}", _text(value)]
    words += [w for condition in _texts(where, "where") for w in ("--where", condition)]
    for name, value in (("metric", metric), ("against", against), ("x", x)):
        if value is not None:
            words += [f"--{name}", value]
    notes: list[str] = []
    rows = list(csv.reader(io.StringIO(_call([*words, "--format", "csv"], notes))))
    frame = pandas.DataFrame(rows[1:], columns=rows[0])
    for name in frame:
        try:
            frame[name] = pandas.to_numeric(frame[name])
        except ValueError:
            pass  # a column of texts
    if "d_dot" in frame:
        frame["d_dot"] = frame["d_dot"].astype("Int64")  # whole, and missing where a memory has none
    frame.attrs["notes"] = notes
    frame.attrs["latex"] = _call([*words, "--format", "latex"])
    frame.attrs["call"] = shlex.join(["crosstalk", *words])
    return frame


def difference(paths: Any, against: str | None = None, **options: Any) -> Any:
    """Each label minus `against` (without it the first), paired by seed: a frame of pandas, a row a label and x.

    median, lo, hi: of the differences and the interval of their median; n: seeds that both labels have; wins: in how many the label is
    better; p and p_holm: of the signed-rank test, before and after Holm's correction for all rows; told: 1 where the difference is told
    from 0. Options are those of `table`.

    >>> frame = ct.difference("runs/mqar", "deltanet", metric="test_accuracy")
    >>> frame[["label", "task.pairs", "n", "told"]].values.tolist()[0]
    ['attention', 4, 2, 0]
    """
    return table("difference", paths, against=against, **options)
