"""`train`: PyTorch models as labels of a study, on its data, splits, seeds, rates and stop rule, with records like any other."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
import warnings
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from . import _core, checks
from .sources import Config, digest_of, load
from .stores import _text, _texts
from .studies import Result, _Progress

#: What runs that march together may differ in.
FREE = {"seed", "data_seed", "init_seed", "train.learning_rate", "train.weight_decay"}


def train(
    study: Any,
    models: Mapping[str, Callable[[Config], Any]] | Callable[[Config], Any] | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    seeds: Any = None,
    where: Mapping[str, Any] | None = None,
    chosen_of: Any = None,
    best: Any = None,
    best_by: str | None = None,
    rates_short: float | None = None,
    only: Any = (),
    shard: str | None = None,
    time_limit: Any = None,
    failed: bool = False,
    keep_going: bool = False,
    out: Any = None,
    device: Any = "cpu",
    replicas: int = 16,
    quiet: bool = False,
) -> Result:
    """Trains what is missing of the PyTorch models of a study (its labels with `name = "python"`), or of all that was asked of a store.

    A model is built by `Class(config)`, `config` being a dict of all keys with `config.vocabulary` and `config.arguments`; it
    takes tokens `[B,T]` to logits `[B,T,vocabulary]`, or has `answer(tokens, position)` that gives `[B,Q,vocabulary]`. Classes
    come from the study (`source = "mine.py:Mine"`), or from `models` by label. Runs that differ in seeds, learning rate and
    weight decay alone are trained side by side by `torch.func.vmap`, `replicas` at a time; a model that vmap refuses, one after
    the other. An interrupt saves what is trained under STORE/python, and the same call resumes from there. Built-in memories of
    the study are trained by `run`.

    `set`, `where`, `chosen_of` with `best` and `best_by`, `rates_short`, `only`, `shard` and `time_limit` mean what the options of
    `crosstalk run` mean; `seeds=[1, 2]` is `set={"seeds": [1, 2]}`. After the time limit what has begun is saved, and the result says
    that it is `stopped`. `failed=True` trains failed runs again, as `crosstalk retry` does. Where a model raises an exception it is
    raised here, or with `keep_going=True` the run is recorded as failed and the others are trained, as the program does.
    """
    words = [w for text in _texts(set, "set") for w in ("--set", text)]
    words += ["--set", f"seeds={_text(seeds)}"] if seeds is not None else []
    words += [w for text in _texts(where, "where") for w in ("--where", text)]
    words += [w for id in ([only] if isinstance(only, str) else only) for w in ("--only", id)]
    for name, value in (("chosen-of", chosen_of), ("best", best), ("best-by", best_by), ("rates-short", rates_short), ("shard", shard)):
        words += [f"--{name}", checks.path(value) if name == "chosen-of" else _text(value)] if value is not None else []
    how = How(device, replicas, quiet, failed, keep_going)
    return train_by_words(checks.path(study), words, models, how, None if out is None else checks.path(out), time_limit)


@dataclasses.dataclass
class How:
    """What does not decide which runs are trained."""

    device: Any = "cpu"
    replicas: int = 16
    quiet: bool = False
    failed: bool = False
    keep_going: bool = False
    lease: float = 60.0
    deadline: float | None = None  #: of time.monotonic()

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ValueError("replicas must be at least 1")
        if str(self.device) == "auto":
            import torch

            self.device = "cuda" if torch.cuda.is_available() else "cpu"


def train_by_words(path: str, words: list[str], models: Any, how: How, out: str | None, time_limit: Any) -> Result:
    """`words`: options of `crosstalk run`, which reads them."""
    if importlib.util.find_spec("torch") is None:
        raise ImportError("PyTorch models are trained by torch, which is not installed: pip install torch")
    if time_limit is not None:
        how.deadline = time.monotonic() + _core.seconds_of(_text(time_limit), "--time-limit")
    if _is_store(path):
        if words or models is not None or out is not None or how.failed:
            raise _core.ConfigError(
                f"{path} is a store: what was asked of it is trained as it was asked; options that choose runs are of a study"
            )
        return Session(_facts(path, []), None, path, how, None).train()
    if "--rates-short" in words:
        store = out or os.path.join("runs", _core.study(path, [])["name"])
        first, second = _core.two_steps(path, words + ["--out", store])
        tried = Session(_facts(path, first), models, f"{store}-rates", how, None).train()
        if tried.failed or tried.missing:
            return tried
        return Session(_facts(path, second), models, store, how, None).train()
    facts = _facts(path, words)
    whole = all(word == "--set" for word in words[::2]) and models is None
    return Session(facts, models, out or os.path.join("runs", facts["name"]), how, words[1::2] if whole else None).train()


def _facts(path: str, words: list[str]) -> dict[str, Any]:
    facts = _core.study(path, words, True)
    if any(map(_is_ours, facts["runs"])):
        return facts
    if _is_store(path):
        raise _core.ConfigError(f"nothing that was asked of {path} is of a PyTorch model{facts['notes']}")
    if any(map(_is_ours, _core.study(path, [])["runs"])):
        raise _core.ConfigError(f"no run of a PyTorch model is among these: {facts['product']}")
    raise _core.ConfigError(
        'the study has no PyTorch model: [memories.mine] with name = "python" and source = "mine.py:Mine" is one'
    )


def _is_store(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "store.json"))


def _models_of(facts: dict[str, Any], models: Any) -> dict[str, Any]:
    """The given models by label; a single one is that of the study's only label of this kind."""
    labels = {label for run in facts["runs"] if _is_ours(run) for label in run["labels"]}
    if models is None:
        return {}
    if not isinstance(models, Mapping):
        if len(labels) > 1:
            raise ValueError(f"the study has several labels of PyTorch models: models={{'{min(labels)}': ...}}")
        return {next(iter(labels)): models}
    for label in models:
        if label not in labels:
            raise ValueError(f"the study has no PyTorch model {label!r}; it has {', '.join(sorted(labels))}")
    return dict(models)


def _is_ours(run: dict[str, Any]) -> bool:
    return bool(run["config"].get("memory.name") == "python")


def _fixed(run: dict[str, Any]) -> str:
    """What runs that march together have in common."""
    return json.dumps({k: v for k, v in run["config"].items() if k not in FREE}, sort_keys=True)


class _Signals:
    """Between a signal and the end of a step: the first asks to stop, a second Ctrl-C interrupts at once (one may come from a terminal
    and a SIGTERM from the worker that called)."""

    def __init__(self) -> None:
        self.asked = False
        self.interrupts = 0
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: Any) -> None:
        self.asked = True
        self.interrupts += number == signal.SIGINT
        if self.interrupts > 1:
            raise KeyboardInterrupt


class Session:
    """One call of `train`. `asks`: the --set of the study, where it is asked for as a whole."""

    def __init__(self, facts: Any, models: Any, store: str, how: How, asks: list[str] | None):
        self.facts, self.path, self.how, self.asks = facts, pathlib.Path(store), how, asks
        self.device, self.most = how.device, how.replicas
        self.progress, self.begin = _Progress(how.quiet), time.monotonic()
        self.makers: dict[str, Any] = {}
        self.texts: dict[str, tuple[str, str]] = {}
        self.refused: dict[str, str] = {}  # what vmap refuses: _fixed() of runs, and their label
        self.left: dict[str, Exception] = {}  # runs that cannot be trained here, and why
        self.ended: dict[str, bool] = {}  # recorded here: whether they failed
        self.steps, self.said = 0, 0.0
        self.runs = self._identified(_models_of(facts, models))
        self.provenance = json.loads(_core.process_provenance(f"ct.train, {os.path.basename(sys.argv[0])}", str(self.device), 1))

    def _identified(self, models: dict[str, Any]) -> list[dict[str, Any]]:
        """The study's runs, those of given classes with the digest of their text."""
        runs = []
        for run in self.facts["runs"]:
            given = next((models[label] for label in run["labels"] if label in models), None)
            if _is_ours(run) and given is not None:
                digest, text = digest_of(given)
                config = {**run["config"], "memory.digest": digest}
                run = {**run, "config": config, "id": _core.run_id(config)}
                self.texts[digest] = (given.__qualname__, text)
                self.makers[run["id"]] = given
            runs.append(run)
        return runs

    def _maker(self, run: dict[str, Any]) -> Any:
        if run["id"] not in self.makers:
            source = run["config"]["memory.source"]
            if not source:
                raise _core.ConfigError(
                    f"[memories.{run['label']}] has no source: source = \"mine.py:Mine\", or models={{'{run['label']}': Mine}}"
                )
            key = f"{source} {run['config']['memory.files']}"
            if key not in self.makers:
                self.makers[key] = load(source, run["config"]["memory.files"])
            self.makers[run["id"]] = self.makers[key]
        return self.makers[run["id"]]

    def _leave(self, run: dict[str, Any], error: Exception) -> None:
        """Not to be trained here: others may be able to."""
        if not self.how.keep_going:
            raise error
        if str(error) not in map(str, self.left.values()):
            print(f"crosstalk: warning: {run['label']} is left: {type(error).__name__}: {error}", file=sys.stderr)
        self.left[run["id"]] = error

    def train(self) -> Result:
        for line in self.facts["notes"].splitlines():
            self.progress.show(line)
        ours = [run for run in self.runs if _is_ours(run)]
        known, wanted = _core.statuses(str(self.path)), "failed" if self.how.failed else None
        for run in ours:
            if known.get(run["id"]) == wanted:
                try:
                    self._maker(run)
                except Exception as error:
                    self._leave(run, error)
        self.store = _core.Store(str(self.path))  # nothing that others record from now on is overlooked
        known = _core.statuses(str(self.path))
        missing = [run for run in ours if known.get(run["id"]) == wanted and run["id"] not in self.left]
        kind = ("failed " if wanted else "") + ("run" if len(missing) == 1 else "runs")
        self.progress.show(
            f"crosstalk: {self.facts['name']}: {len(missing)} {kind} of PyTorch models to train into {self.path} on {self._place_told()}"
        )
        if self.facts["labels"]:  # of a store they are kept
            ids = {old["id"]: run["id"] for old, run in zip(self.facts["runs"], self.runs)}
            labels = [(label, title, [ids[id] for id in of_label], work) for label, title, of_label, work in self.facts["labels"]]
            self.store.keep_study(self.facts["name"], self.facts["title"], self.facts["text"], labels, self.asks)
        (self.path / "python").mkdir(exist_ok=True)
        for digest, (name, text) in self.texts.items():
            (self.path / "python" / f"{digest}.py").write_text(text, encoding="utf-8")
            (self.path / "python" / f"{digest}.name").write_text(name + "\n", encoding="utf-8")
        for run in ours:
            if known.get(run["id"]) not in (None, wanted):  # whoever was killed after the record left it
                self._place(run["id"]).unlink(missing_ok=True)
        stopped = self._train_shared(missing)
        found = _core.statuses(str(self.path))
        states = [found.get(run["id"], "missing") for run in ours]
        count = {state: states.count(state) for state in ("done", "diverged", "failed", "missing")}
        return Result(str(self.path), **count, seconds=time.monotonic() - self.begin, stopped=stopped)

    def _train_shared(self, missing: list[dict[str, Any]]) -> bool:
        """Until all are recorded, by whomever; true: the time was up."""
        from .pack import Stop

        self.store.share([run["id"] for run in missing], self.how.lease)
        with _Signals() as self.signals, warnings.catch_warnings():
            # Said once, in other words, by Pack.
            warnings.filterwarnings("ignore", message="There is a performance drop because we have not yet implemented")
            try:
                self._train_free(missing)
                return False
            except Stop:
                if not self.signals.asked:
                    self.progress.show("crosstalk: stopped by the time limit; the same call resumes")
                    return True
                raise KeyboardInterrupt(
                    f"stopped; runs that had begun are saved under {self.path / 'python'}, and the same call resumes from there"
                ) from None
            finally:
                self.store.leave()

    def stops(self) -> bool:
        """Whether somebody asked to stop, or the time is up."""
        late = self.how.deadline is not None and time.monotonic() >= self.how.deadline
        return self.signals.asked or late

    def advanced(self, runs: int) -> None:
        """So many runs made a step."""
        self.steps += runs
        if time.monotonic() - self.said < 1:
            return
        self.said = time.monotonic()
        self.store.say(json.dumps({
            "study": self.facts["name"], "device": f"{self.device} (PyTorch)", "seconds": self.said - self.begin,
            "ended": len(self.ended), "failed": sum(self.ended.values()), "steps": self.steps,
        }))  # fmt: skip

    def _place_told(self) -> str:
        import torch

        unused = str(self.device) == "cpu" and torch.cuda.is_available()
        return f"{self.device}" + (' (there is a GPU: device="cuda")' if unused else "")

    def _train_free(self, runs: list[dict[str, Any]]) -> None:
        """Runs that nobody else trains, and those that others leave."""
        from .pack import Stop

        told = warned = False
        while True:
            free, unrecorded = self.store.free()
            if unrecorded <= len(self.left.keys() & {run["id"] for run in runs}):
                return
            if self.stops():
                raise Stop
            if self.store.problem and not warned:
                warned = True
                print(f"crosstalk: warning: {self.store.problem}", file=sys.stderr)
            taken = self._taken([run for run in runs if run["id"] in free and run["id"] not in self.left])
            by_step: dict[int, list[dict[str, Any]]] = {}
            for run in taken:
                by_step.setdefault((self._saved(run["id"]) or {}).get("steps", 0), []).append(run)
            for group in by_step.values():
                self._train_group(group)
            if not taken:
                if not told:
                    self.progress.show(f"crosstalk: other processes train what is left ({unrecorded} runs); waiting for them")
                told = True
                time.sleep(0.2)

    def _taken(self, runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Claims some that may march together: equal but for seeds and rates."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for run in runs:
            groups.setdefault(json.dumps([_fixed(run), id(self._maker(run))]), []).append(run)
        for group in groups.values():
            course = _core.Course(group[0]["id"], group[0]["label"], group[0]["seed"], group[0]["config"])
            most = 1 if course.has_stages else self.most  # runs of a curriculum leave its stages at their own time
            if not self.facts["labels"] and str(self.device) == "cpu":  # a worker: half is left to others, and a large pack gains little there
                most = min(most, (len(group) + 1) // 2)
            taken: list[dict[str, Any]] = []
            for run in group:
                if len(taken) < most and self.store.take(run["id"]):
                    taken.append(run)
            if taken:
                return taken
        return []

    def _train_group(self, group: list[dict[str, Any]]) -> None:
        from .pack import Stop

        try:
            self._train_taken(group)
        except Stop:
            raise
        except (_core.ConfigError, _core.DeviceError) as error:
            for run in group:
                self._leave(run, error)
        except Exception as error:
            if not self.how.keep_going:
                raise
            unfinished = [run for run in group if run["id"] not in self.ended]
            if len(group) > 1:  # one of them, or the memory that all of them take
                self.progress.show(f"crosstalk: {group[0]['label']}: each run alone, for together they failed: {_said(error)}")
                for run in unfinished:
                    self._train_group([run])
            elif unfinished:
                self._failed(unfinished[0], error)

    def _train_taken(self, group: list[dict[str, Any]]) -> None:
        from .pack import Pack, Refused

        kind, label = _fixed(group[0]), group[0]["label"]
        if kind not in self.refused:
            try:
                Pack(self, group, True).train()
                return
            except Refused as refused:
                if label not in self.refused.values():
                    self.progress.show(f"crosstalk: {label}: one run after the other, since vmap refuses: {refused}")
                self.refused[kind] = label
        for run in group:
            Pack(self, [run], False).train()

    def _failed(self, run: dict[str, Any], error: Exception) -> None:
        course = _core.Course(run["id"], run["label"], run["seed"], run["config"])
        course.failed(run["study"], _said(error))
        print(f"crosstalk: run {run['id']} ({run['label']}, seed {run['seed']}) failed: {_said(error)}", file=sys.stderr)
        self._record(course, {}, True)

    def _record(self, course: Any, more: dict[str, Any], failed: bool) -> None:
        import torch

        told = {
            **self.provenance,
            **more,
            "torch": torch.__version__,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }
        self.store.append(course, json.dumps(told))
        self.ended[course.id] = failed
        self._place(course.id).unlink(missing_ok=True)

    # State of runs that have begun.

    def _place(self, id: str) -> pathlib.Path:
        return self.path / "python" / f"{id}.pt"

    def _saved(self, id: str) -> dict[str, Any] | None:
        if not self._place(id).is_file():
            return None
        import torch

        try:
            state: dict[str, Any] = torch.load(self._place(id), map_location="cpu", weights_only=True)
            if "told" not in state:
                raise ValueError("it is of an earlier version")
            return state
        except Exception as error:  # whatever a damaged file makes of it
            self.progress.show(f"crosstalk: {self._place(id)} cannot be read ({error}); the run begins anew")
            self._place(id).unlink(missing_ok=True)
            return None

    def save(self, id: str, state: dict[str, Any]) -> None:
        import torch

        part = self._place(id).with_suffix(f".{os.getpid()}.tmp")
        torch.save(state, part)
        os.replace(part, self._place(id))

    def finished(self, course: Any, replicas: int, seconds: float, weights: Mapping[str, Any] | None) -> None:
        """Records a run, unless others took it while this process seemed dead."""
        if not self.store.take(course.id):
            return
        if weights is not None:
            file = io.BytesIO()
            np.savez(file, **{n: x for n, x in weights.items()})
            self.store.keep_weights(course.id, file.getvalue())
        self._record(course, {"pack": replicas, "wall_s": seconds}, False)


def _said(error: Exception) -> str:
    """What went wrong, and the line of the model where it did."""
    import torch

    others = os.path.dirname(__file__) + os.sep, os.path.dirname(torch.__file__) + os.sep
    lines = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((*others, "<"))]
    at = f"{os.path.basename(lines[-1].filename)}:{lines[-1].lineno}: " if lines else ""
    return f"{at}{type(error).__name__}: {error}"
