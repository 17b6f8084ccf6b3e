"""Tasks as streams of batches: the very sequences that a run with that data seed sees."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from . import _core, checks
from .arrays import is_torch
from .memories import _plain, _threads_of
from .places import Place, place_of

SPLITS = ("train", "eval", "test")


class Vocabulary(NamedTuple):
    """Where tokens > 0 a position is a token 0 .. tokens-1; else it has channels: key 0 .. keys-1, value 0 .. values-1.

    Where numbers > 0 a position is so many real numbers in place of ids.
    """

    tokens: int
    keys: int
    values: int
    second_key: bool
    numbers: int


class Shape(NamedTuple):
    """Of a sequence: T positions of C channels, Q query slots."""

    T: int
    C: int
    Q: int


@dataclasses.dataclass(eq=False, repr=False)
class Batch:
    """Sequences and what is right, int32; numpy, or torch where that was asked for.

    tokens `[B,T]`, or `[B,T,C]` of several channels; query, position, target `[B,Q]`; all with `[R,...]` in front where there
    are several seeds. position: how many tokens the answer may look at, so that of single tokens it is due at token
    position - 1. target: -1 where a slot is not used.
    """

    tokens: Any
    query: Any
    position: Any
    target: Any
    first: int = 0  #: number of its first sequence
    segment: str = ""  #: of a mixture: the part that it is of

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n} {list(getattr(self, n).shape)}" for n in ("tokens", "query", "position", "target"))
        where = f" on {self.tokens.device}" if is_torch(self.tokens) else ""
        return f"Batch({shapes}; sequences from {self.first}{f' of {self.segment}' if self.segment else ''}{where})"

    def copy(self) -> Batch:
        """A batch that stays as it is when the stream goes on."""

        def new(x: Any) -> Any:
            return x.clone() if hasattr(x, "clone") else x.copy()

        return dataclasses.replace(
            self, tokens=new(self.tokens), query=new(self.query), position=new(self.position), target=new(self.target)
        )

    clone = copy

    @property
    def labels(self) -> Any:
        """`[B,T]`: the right answer at each token where one is due, -100 elsewhere (torch's ignore_index)."""
        if self.tokens.ndim != self.target.ndim:
            raise ValueError("labels are of tasks whose positions are single tokens; this one has channels")
        if not is_torch(self.tokens):
            labels: Any = np.full(self.tokens.shape, -100, np.int64)
            used = self.target >= 0
            *row, _ = np.nonzero(used)
            labels[(*row, self.position[used] - 1)] = self.target[used]
            return labels
        import torch

        labels = torch.full(self.tokens.shape, -100, dtype=torch.int64, device=self.tokens.device)
        used = self.target >= 0
        *row, _ = used.nonzero(as_tuple=True)
        labels[(*row, self.position[used].long() - 1)] = self.target[used].long()
        return labels

    def answers(self, logits: Any) -> Any:
        """Logits `[...,Q,V]` where answers are due, of logits `[...,T,V]` at all tokens (torch)."""
        at = (self.position - 1).clamp(min=0).long()
        return logits.gather(-2, at[..., None].expand(*at.shape, logits.shape[-1]))

    def cross_entropy(self, logits: Any) -> Any:
        """Mean cross-entropy of the answers that are due; logits `[...,T,V]`, or `[...,Q,V]` at the queries (torch)."""
        import torch

        at = self.answers(logits) if logits.shape[-2] == self.tokens.shape[-1] else logits
        target = torch.where(self.target >= 0, self.target, -100).long()
        return torch.nn.functional.cross_entropy(at.flatten(0, -2), target.flatten(), ignore_index=-100)

    def accuracy(self, logits: Any) -> float:
        """Share of right answers; logits as in cross_entropy."""
        at = self.answers(logits) if logits.shape[-2] == self.tokens.shape[-1] else logits
        used = self.target >= 0
        return float(((at.argmax(-1) == self.target) & used).sum() / used.sum())


def tasks() -> list[str]:
    """Names of all tasks."""
    return list(_core.tasks())


class Task:
    """A task with its options. Sequence i of a split is a pure function of (options, data seed, split, i)."""

    def __init__(self, name: str, **options: Any):
        self.name = checks.text("the name of a task", name)
        self.options = options
        self._core = _core.Stream(name, {n: _plain(value) for n, value in options.items()})

    @classmethod
    def _of(cls, name: str, options: dict[str, Any], core: Any) -> Task:
        task = cls.__new__(cls)
        task.name, task.options, task._core = name, options, core
        return task

    def __repr__(self) -> str:
        return f"crosstalk.task({', '.join([repr(self.name)] + [f'{n}={x!r}' for n, x in self.options.items()])})"

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(**self._core.vocabulary)

    def shape(self, split: str = "train") -> Shape:
        return Shape(*self._core.shape(split))

    def segments(self, split: str = "train") -> dict[str, Task]:
        """What a mixture is made of, each a task of its own; empty where there is one kind of sequence."""
        return {part.name: Task._of(self.name, self.options, part) for part in self._core.segments(split)}

    def baselines(self) -> dict[str, float]:
        """Numbers to hold results against: chance, shortcuts, theory."""
        return dict(self._core.baselines())

    def text(self, n: int = 1, split: str = "train", seed: int = 0) -> str:
        """Sequences for people to read, as `crosstalk sample` shows them."""
        return str(self._core.text(split, seed, n))

    def batches(
        self,
        split: str = "train",
        batch: int = 32,
        seed: int | Sequence[int] = 1,
        *,
        first: int = 0,
        buffers: int = 2,
        device: Any = None,
        threads: int = 1,
        library: str | None = None,
        ahead: int | None = None,
    ) -> Iterator[Batch]:
        """Batches without end, in the order of training; batch i holds sequences `first + batch i` and on.

        numpy arrays, or torch tensors where `device` says so ("cpu", "cuda", "cuda:1"). On a GPU they are drawn there, in the
        order of torch's current stream, and nothing waits, `ahead` batches at once (without it as many as fill a GPU). Several
        seeds make replicas, `[R,B,...]`. A batch lies in a ring of arrays and is overwritten after `buffers` further ones or
        later: `.copy()` keeps it.
        """
        if not isinstance(split, str) or split not in SPLITS:
            raise ValueError(f"split {split!r}; there are train, eval and test")
        batch, buffers = checks.whole("batch", batch, 1, 1 << 30), checks.whole("buffers", buffers, 1, 1 << 16)
        first, threads = checks.whole("first", first, 0), checks.whole("threads", threads, 1, 1 << 16)
        several = not isinstance(seed, (int, np.integer, str)) and isinstance(seed, Iterable)
        seeds = [checks.whole("a seed", s, 0, 1 << 64) for s in (seed if several else [seed])]  # type: ignore[union-attr]
        if not seeds:
            raise ValueError("there is no seed; a seed is 0 or more")
        segments = self._core.segments(split)
        if segments and first:
            raise ValueError("first is of tasks with one kind of sequence; segments(split) are such")
        if ahead is not None:
            ahead = checks.whole("ahead", ahead, 1, 1 << 16)
        place = place_of(device, library)
        rings = [_Ring(part, split, batch, seeds, several, buffers, place, ahead) for part in segments or [self._core]]
        return self._stream(split, batch, first, segments, rings, threads)

    def _stream(
        self, split: str, batch: int, first: int, segments: list[Any], rings: list[_Ring], threads: int
    ) -> Iterator[Batch]:
        if not segments:
            number = first
            while True:
                yield rings[0].draw(number, _threads_of(threads, 1))
                number += batch
        epoch, parts = (
            self._core.epoch(batch) if split == "train" else _in_turn([-(-s.sequences // batch) for s in segments])
        )
        step = 0
        while True:
            within = step % epoch
            at = max(i for i, (start, _) in enumerate(parts) if start <= within)
            start, steps = parts[at]
            number = (step // epoch * steps + within - start) * batch
            yield rings[at].draw(number, _threads_of(threads, 1))
            step += 1

    def dataset(self, n: int, split: str = "test", seed: int = 1) -> tuple[Any, Any]:
        """Sequences 0 .. n-1 of single tokens as (inputs, labels) `[n,T]` int64, labels -100 where no answer is due."""
        batch = next(self.batches(split, n, seed, buffers=1))
        return batch.tokens.astype(np.int64), batch.labels


def _in_turn(steps: list[int]) -> tuple[int, list[tuple[int, int]]]:
    parts, start = [], 0
    for n in steps:
        parts.append((start, max(1, n)))
        start += max(1, n)
    return start, parts


#: Sequences that are drawn at once on a GPU where nobody says otherwise: enough that none of its processors waits.
_AT_ONCE = 4096


class _Ring:
    """Arrays of one shape that take turns: blocks of `ahead` batches, each block drawn at once."""

    def __init__(
        self,
        core: Any,
        split: str,
        batch: int,
        seeds: list[int],
        several: bool,
        buffers: int,
        place: Place,
        ahead: int | None,
    ):
        T, C, Q = core.shape(split)
        R = len(seeds)
        if place.device < 0:
            ahead = 1  # of the host each batch is drawn when it is asked for
        self.ahead = n = ahead or max(1, min(16, _AT_ONCE // (R * batch)))
        self.core, self.split, self.seeds, self.batch, self.place, self.rows = core, split, seeds, batch, place, n * R
        self.begin, self.now = -1, -1  #: the first sequence of the present block, and which it is
        common: dict[str, int] = {}
        if place.device >= 0:
            core.prepare(place.device)
            words = [[(s & 0xFFFFFFFF) - ((s & 0x80000000) << 1), (s >> 32) - ((s >> 63) << 32)] for s in seeds]
            counter = [[j] for j in range(n) for _ in seeds]
            about = [place.filled(np.array(x, np.int32)) for x in (words * n, counter)]
            about.append(place.empty((n * R, batch, core.scratch_size + 1)))
            common = dict(zip(("seed", "counter", "scratch"), map(place.pointer, about)))
        self.blocks: list[tuple[Any, list[Batch]]] = []
        for _ in range((buffers - 1 + n - 1) // n + 1):
            arrays = [place.empty((n * R, batch, T, C))] + [place.empty((n * R, batch, Q)) for _ in range(3)]
            given: Any = arrays
            if place.device >= 0:
                given = {**common, **dict(zip(("tokens", "query", "position", "target"), map(place.pointer, arrays)))}
            self.blocks.append((given, [self._batch(arrays, j, R, C, several) for j in range(n)]))

    def _batch(self, arrays: list[Any], j: int, R: int, C: int, several: bool) -> Batch:
        shown = [x[j * R : (j + 1) * R] if several else x[j * R] for x in arrays]
        if C == 1:
            shown[0] = shown[0][..., 0]
        shown = [self.place.shown(x) for x in shown]
        return Batch(shown[0], shown[1], shown[2], shown[3], segment=self.core.name)

    def draw(self, number: int, threads: int) -> Batch:
        at = self.place
        stream = at.stream()
        within, odd = divmod(number - self.begin, self.batch)
        if at.device < 0 or self.now < 0 or odd or not 0 <= within < self.ahead:
            self.now = (self.now + 1) % len(self.blocks)
            self.begin, within = number, 0
            given, _ = self.blocks[self.now]
            if at.device < 0:
                self.core.draw(self.split, self.seeds, number, 0, threads, *given)
            else:
                self.core.draw_on_device(self.split, self.rows, self.batch, number, 0, at.device, stream, given)
        return dataclasses.replace(self.blocks[self.now][1][within], first=number)


def task(name: str, **options: Any) -> Task:
    """A task by its name, with options as `describe(name)` lists them.

    >>> task = ct.task("mqar", vocabulary=256, length=64, pairs=8)
    >>> next(task.batches("train", batch=32, seed=1)).tokens.shape
    (32, 64)
    """
    return Task(name, **options)
