"""A pack: runs of one model that march together, from their first step to their records."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import inspect
import re
import time
import warnings
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np
import torch

from . import _core
from .replicas import Replicas
from .sources import Config

if TYPE_CHECKING:
    from .training import Session

TELL_EVERY = 30.0  #: seconds between lines on how far runs have come
SAVE_EVERY = 60.0  #: seconds between savings of runs that go on
EXAM_TOKENS = 65536  #: tokens of a replica that an exam reads at a time, about


class Stop(Exception):
    """Somebody asked to stop."""


class Refused(Exception):
    """vmap cannot take the model; why."""


class Pack:
    def __init__(self, session: Session, group: Sequence[dict[str, Any]], together: bool):
        self.session, self.group = session, list(group)
        self.courses = [_core.Course(r["id"], r["label"], r["seed"], r["config"]) for r in group]
        self.rows = list(range(len(self.group)))  # of each replica: its run
        config = group[0]["config"]
        whole = self.courses[0].whole()
        self.vocabulary = whole.vocabulary["tokens"]
        if self.vocabulary == 0:
            raise _core.ConfigError(
                f"task {config['task.name']} has keys and values in channels; PyTorch models are trained on single tokens "
                '(mqar, words, induction, or task.layout = "split")'
            )
        if config["train.precision"] == "tf32" and str(session.device) == "cpu":
            raise _core.ConfigError('train.precision = "tf32" wants a GPU; fp32, fp64 and bf16 work on the CPU')
        if config["eval.protocol"] != "uniform":
            raise _core.ConfigError(f'eval.protocol = "{config["eval.protocol"]}" is of retrieval models; use "uniform"')
        if config.get("train.init_from"):
            raise _core.ConfigError("train.init_from is of the program's own models")
        configs = [Config(run["config"], self.vocabulary) for run in group]
        models = [self._made(run, config) for run, config in zip(group, configs)]
        for course, model in zip(self.courses, models):
            size = getattr(model, "state_size", None)
            if callable(size):
                course.set_state_size(int(size(whole.shape("eval")[0])))
        self.replicas = self._replicas(models, configs, together)
        self.told: list[Any] = []  # losses and norms of the steps since the last evaluation, [2,R] each
        self.batch = int(config["train.batch"])
        resumed = 0
        for r, run in enumerate(group):
            saved = session._saved(run["id"])
            if saved is not None:
                resumed += 1
                self.courses[r].restore(saved["course"])
                self.replicas.restore(r, saved["model"])
                past = [told.to(self.replicas.device) for told in saved["told"]]
                self.told = past if r == 0 else [torch.cat([a, b], 1) for a, b in zip(self.told, past)]
        if resumed:
            runs = "1 run goes" if resumed == 1 else f"{resumed} runs go"
            session.progress.show(f"crosstalk: {group[0]['label']}: {runs} on from step {self.courses[0].steps + len(self.told)}")

    def _made(self, run: dict[str, Any], config: Config) -> torch.nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(run["config"]["init_seed"]))
            maker = self.session._maker(run)
            with contextlib.suppress(ValueError):  # it cannot be asked
                try:
                    inspect.signature(maker).bind(config)
                except TypeError as error:
                    name = getattr(maker, "__name__", maker)
                    raise TypeError(
                        f"{run['label']}: {name} is called with one argument, the run's configuration: {error}"
                    ) from None
            model = maker(config)
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"{run['label']}: the class made a {type(model).__name__}; a torch.nn.Module is needed")
        return model

    def _replicas(self, models: list[torch.nn.Module], configs: list[Config], together: bool) -> Replicas:
        if not together:
            return Replicas(models, configs, self.session.device, False)
        try:
            replicas = Replicas(models, configs, self.session.device, True)
            self._try(replicas)
            return replicas
        except (RuntimeError, NotImplementedError, ValueError) as error:
            raise Refused(str(error).strip().splitlines()[0]) from None

    def _try(self, replicas: Replicas) -> None:
        """A step and a reading without consequences: vmap says now what it refuses of either."""
        part = self.courses[0].parts()[0]
        batch = self._drawn(part, "train", 0, 1)
        params = {n: replicas.params[n] for n in replicas.trained}
        rest = {n: p for n, p in replicas.params.items() if n not in replicas.trained}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            replicas._step(params, rest, replicas.buffers, replicas._taken(batch))
            replicas.read(batch)
        slow = set()
        for warning in caught:
            operator = re.search(r"batching rule for (\S*\w)", str(warning.message))
            if operator:
                slow.add(operator.group(1))
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        if slow:
            names = ", ".join(sorted(slow))
            self.session.progress.show(
                f"crosstalk: {self.group[0]['label']}: vmap takes the replicas one by one in {names}: "
                "replicas=1 may be as fast"
            )

    def _drawn(self, part: Any, split: str, first: int, n: int) -> tuple[Any, Any, Any]:
        """Sequences of every replica: tokens [R,n,T], position and target [R,n,Q]."""
        T, C, Q = part.shape(split)
        R = len(self.rows)
        tokens = np.empty((R, n, T, C), np.int32)
        query, position, target = (np.empty((R, n, Q), np.int32) for _ in range(3))
        seeds = [int(self.group[r]["config"]["data_seed"]) for r in self.rows]
        part.draw(split, seeds, first, 0, 1, tokens, query, position, target)
        return tokens[..., 0], position, target

    def train(self) -> None:
        """Until every run has ended. Raises Stop once what has begun is saved."""
        begin = saved = told = time.monotonic()
        at_begin = self.courses[0].steps + len(self.told)
        parts = self.courses[0].parts()
        while self.rows:
            first = self.courses[self.rows[0]]
            steps = first.to_evaluation
            while len(self.told) < steps:
                if self.session.stops():
                    self.save()
                    raise Stop
                done = first.steps + len(self.told)
                at, number = first.place(done)
                batch = self._drawn(parts[at], "train", number, self.batch)
                rates = [self.courses[r].rate(done + 1) for r in self.rows]
                self.told.append(self.replicas.step(batch, done + 1, rates))
                if time.monotonic() - told > TELL_EVERY:
                    told = time.monotonic()
                    self._tell(done + 1, (done + 1 - at_begin) / (told - begin))
                self.session.advanced(len(self.rows))
            if self._evaluate(steps, begin):
                parts = self.courses[self.rows[0]].parts()
            if time.monotonic() - saved > SAVE_EVERY:
                self.save()
                saved = time.monotonic()

    def _tell(self, steps: int, speed: float) -> None:
        run = self.group[self.rows[0]]
        runs = "1 run" if len(self.rows) == 1 else f"{len(self.rows)} runs together"
        most, rate = int(run["config"]["train.max_steps"]), f"{speed:.3g} steps/s"
        self.session.progress.show(f"crosstalk: {run['label']}: {runs}, step {steps} of at most {most}, {rate}")

    def _evaluate(self, steps: int, begin: float) -> bool:
        """Exams of all, and the end of some; true where a stage of a curriculum was left."""
        told = torch.stack(self.told).cpu().numpy() if steps else np.zeros((0, 2, len(self.rows)))
        losses, norms = told[:, 0], told[:, 1]
        self.told = []
        read = self._exam("eval", 0)
        promoted, ended = False, []
        for i, r in enumerate(self.rows):
            course, own = self.courses[r], losses[:, i]
            if not np.isfinite(own).all():
                course.diverged(course.steps + int(np.argmin(np.isfinite(own))) + 1)
                ended.append((i, False))
                continue
            what = course.evaluated(read[i], float(own.mean()) if steps else 0.0, norms[:, i].tolist())
            self.session.store.show(course)
            promoted |= what == "promoted"
            if what in ("done", "diverged"):
                ended.append((i, what == "done"))
        self._finish(ended, begin)
        gone = {i for i, _ in ended}
        if gone:
            kept = [i for i in range(len(self.rows)) if i not in gone]
            self.rows = [self.rows[i] for i in kept]
            if kept:
                self.replicas.keep(kept)
        return promoted and bool(self.rows)

    def _exam(self, split: str, factor: int) -> list[list[tuple[Any, ...]]]:
        """Of each replica, by part: losses, hits and answers [sequences,Q]."""
        found: list[list[tuple[Any, ...]]] = [[] for _ in self.rows]
        for part, sequences in self.courses[self.rows[0]].exam(split, factor):
            T, _, Q = part.shape(split)
            chunk = max(1, min(sequences, EXAM_TOKENS // (T + Q)))
            pieces = []
            for first in range(0, sequences, chunk):
                batch = self._drawn(part, split, first, min(chunk, sequences - first))
                pieces.append(self.replicas.read(batch))
            for i in range(len(self.rows)):
                found[i].append(tuple(np.concatenate([x[i] for x in of_pieces]) for of_pieces in zip(*pieces)))
        return found

    def _finish(self, ended: list[tuple[int, bool]], begin: float) -> None:
        if not ended:
            return
        done = [i for i, well in ended if well]
        for i, well in ended:
            self.courses[self.rows[i]].finish(self.group[self.rows[i]]["study"], well, float(self.replicas.parameters))
        if done:
            for i in done:  # runs of a curriculum are alone
                if not self.courses[self.rows[i]].is_last_stage:
                    self.courses[self.rows[i]].whole_task(self._whole(i))
            lengths = self.courses[self.rows[done[0]]].lengths
            for factor in [0, *lengths]:
                read = self._exam("test", factor)
                for i in done:
                    self.courses[self.rows[i]].tested(factor, read[i])
        for i, well in ended:
            r = self.rows[i]
            weights = None
            if self.group[r]["keep_weights"] and well:
                weights = {n.removeprefix("model."): p[i].cpu().numpy() for n, p in self.replicas.params.items()}
            course = self.courses[r]
            self.session.finished(course, len(self.rows), time.monotonic() - begin, weights)
            state = f"accuracy {course.accuracy:.3f}" if well else "diverged"
            rate = self.group[r]["config"]["train.learning_rate"]
            self.session.progress.show(
                f"crosstalk: {self.group[r]['label']} {course.id[:11]} seed {self.group[r]['seed']}, rate {rate:g}: "
                f"{state} after {course.steps} steps"
            )

    def _whole(self, i: int) -> list[tuple[Any, ...]]:
        """The eval split of the whole task, whatever stage the run is in."""
        return self._exam("eval", 1)[i]

    def save(self) -> None:
        """Every run that has begun, as it stands."""
        for i, r in enumerate(self.rows):
            course = self.courses[r]
            if course.steps + len(self.told) == 0:
                continue
            self.session.save(
                course.id,
                {
                    "steps": course.steps + len(self.told),
                    "course": course.state(),
                    "model": self.replicas.state(i),
                    "told": [told[:, i : i + 1].cpu().clone() for told in self.told],
                },
            )
