"""`train`: PyTorch models as labels of a study, on its data, splits, seeds, rates and stop rule, with records like any other."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import os
import pathlib
import signal
import sys
import threading
import time
import warnings
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from . import _core, checks
from .sources import Config, digest_of, load
from .stores import _texts
from .studies import Result, _Progress

#: What runs that march together may differ in.
FREE = {"seed", "data_seed", "init_seed", "train.learning_rate", "train.weight_decay"}


def train(
    study: Any,
    models: Mapping[str, Callable[[Config], Any]] | Callable[[Config], Any] | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    out: Any = None,
    device: Any = "cpu",
    replicas: int = 16,
    quiet: bool = False,
) -> Result:
    """Trains what is missing of the PyTorch models of a study (its labels with `name = "python"`).

    A model is built by `Class(config)`, `config` being a dict of all keys with `config.vocabulary` and `config.arguments`; it
    takes tokens `[B,T]` to logits `[B,T,vocabulary]`, or has `answer(tokens, position)` that gives `[B,Q,vocabulary]`. Classes
    come from the study (`source = "mine.py:Mine"`), or from `models` by label. Runs that differ in seeds, learning rate and
    weight decay alone are trained side by side by `torch.func.vmap`, `replicas` at a time; a model that vmap refuses, one after
    the other. An interrupt saves what is trained under STORE/python, and the same call resumes from there. Built-in memories of
    the study are trained by `run`.
    """
    sets = _texts(set, "set")
    facts = _core.study(checks.path(study), sets)
    store = checks.path(out) if out is not None else os.path.join("runs", facts["name"])
    return Session(facts, _models_of(facts, models), store, device, replicas, quiet).train()


def _models_of(facts: dict[str, Any], models: Any) -> dict[str, Any]:
    """The given models by label; a single one is that of the study's only label of this kind."""
    labels = {label for run in facts["runs"] if _is_ours(run) for label in run["labels"]}
    if not labels:
        raise _core.ConfigError(
            'the study has no PyTorch model: [memories.mine] with name = "python" and source = "mine.py:Mine" is one'
        )
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
    """Between a signal and the end of a step: the first asks to stop, a second interrupts at once."""

    def __init__(self) -> None:
        self.asked = False
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
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class Session:
    """One call of `train`."""

    def __init__(self, facts: Any, models: dict[str, Any], store: str, device: Any, replicas: int, quiet: bool):
        if replicas < 1:
            raise ValueError("replicas must be at least 1")
        self.facts, self.path, self.device, self.most = facts, pathlib.Path(store), device, replicas
        self.progress, self.begin = _Progress(quiet), time.monotonic()
        self.makers: dict[str, Any] = {}
        self.texts: dict[str, tuple[str, str]] = {}
        self.refused: dict[str, str] = {}  # what vmap refuses: _fixed() of runs, and their label
        self.runs = self._identified(models)
        self.provenance = json.loads(_core.process_provenance(f"ct.train, {os.path.basename(sys.argv[0])}", str(device), 1))

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

    def train(self) -> Result:
        known = _core.statuses(str(self.path))
        ours = [run for run in self.runs if _is_ours(run)]
        missing = [run for run in ours if run["id"] not in known]
        for run in missing:
            self._maker(run)
        self.progress.show(
            f"crosstalk: {self.facts['name']}: {len(missing)} runs of PyTorch models to train into {self.path} on {self._place_told()}"
        )
        self.store = _core.Store(str(self.path))
        self.store.keep_study(self.facts["name"], self.facts["text"])
        self.store.keep_labels(self.facts["name"], self.facts["title"], self._labels())
        (self.path / "python").mkdir(exist_ok=True)
        for digest, (name, text) in self.texts.items():
            (self.path / "python" / f"{digest}.py").write_text(text, encoding="utf-8")
            (self.path / "python" / f"{digest}.name").write_text(name + "\n", encoding="utf-8")
        from .pack import Stop

        with _Signals() as self.signals, warnings.catch_warnings():
            # Said once, in other words, by Pack.
            warnings.filterwarnings("ignore", message="There is a performance drop because we have not yet implemented")
            try:
                for group in self._groups(missing):
                    self._train_group(group)
            except Stop:
                raise KeyboardInterrupt(
                    f"stopped; runs that had begun are saved under {self.path / 'python'}, and the same call resumes from there"
                ) from None
        found = _core.statuses(str(self.path))
        states = [found.get(run["id"], "missing") for run in ours]
        count = {state: states.count(state) for state in ("done", "diverged", "failed", "missing")}
        return Result(str(self.path), **count, seconds=time.monotonic() - self.begin)

    def _place_told(self) -> str:
        import torch

        unused = str(self.device) == "cpu" and torch.cuda.is_available()
        return f"{self.device}" + (' (there is a GPU: device="cuda")' if unused else "")

    def _labels(self) -> list[tuple[str, str, list[str]]]:
        return [
            (label, title, [run["id"] for run in self.runs if label in run["labels"]])
            for label, title in self.facts["labels"]
        ]

    def _groups(self, runs: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """Runs that may march together: equal but for seeds and rates, and at the same step."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for run in runs:
            steps = (self._saved(run["id"]) or {}).get("steps", 0)
            groups.setdefault(json.dumps([_fixed(run), steps, id(self._maker(run))]), []).append(run)
        for group in groups.values():
            courses = _core.Course(group[0]["id"], group[0]["label"], group[0]["seed"], group[0]["config"])
            most = 1 if courses.has_stages else self.most  # runs of a curriculum leave its stages at their own time
            for i in range(0, len(group), most):
                yield group[i : i + most]

    def _train_group(self, group: list[dict[str, Any]]) -> None:
        done = _core.statuses(str(self.path))
        group = [run for run in group if run["id"] not in done and self.store.take(run["id"])]
        try:
            if group:
                self._train_taken(group)
        finally:
            for run in group:
                self.store.release(run["id"])

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
        import torch

        if weights is not None:
            file = io.BytesIO()
            np.savez(file, **{n: x for n, x in weights.items()})
            self.store.keep_weights(course.id, file.getvalue())
        told = {
            **self.provenance,
            "pack": replicas,
            "wall_s": seconds,
            "torch": torch.__version__,
            "deterministic": torch.are_deterministic_algorithms_enabled(),
        }
        self.store.append(course, json.dumps(told))
        self._place(course.id).unlink(missing_ok=True)
