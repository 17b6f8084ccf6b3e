"""Several documents in one sequence: cut at resets, calculated as sequences of their own, those of one length together, and put back.

A memory sees nothing but a document's own tokens then: states, convolutions, shifts, rotations and positions begin anew, in every form.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import Any, Callable, Iterator, Mapping, NamedTuple

import numpy as np

from . import _core
from .arrays import is_torch


#: What an input is for: a row a token; a state from which a sequence goes on; one with which each document begins, where a memory cannot
#: begin without; or a parameter of all sequences.
TOKENS, START, EACH, SHARED = "tokens", "start", "each", "shared"


def part_of(letters: str, optional: bool) -> str:
    if letters.startswith("[B,T"):
        return TOKENS
    return SHARED if not letters.startswith("[B") else START if optional else EACH


class Group(NamedTuple):
    """Documents of one length. `sequences`: of which each is one; `goes_on`: from the states before the first token."""

    length: int
    goes_on: bool
    sequences: Any


def _numbers(name: str, x: Any) -> Any:
    try:
        numbers = np.asarray(x.detach().cpu() if is_torch(x) else x)
    except Exception as error:  # JAX's own of values that are not known yet
        if "Tracer" not in type(error).__name__:
            raise
        raise TypeError(f"{name} decides shapes, so that it must be known before jit: give numpy's array, and close over it") from None
    if numbers.dtype.kind not in "biu":
        raise TypeError(f"{name} is {numbers.dtype}; whole numbers or booleans are needed")
    return numbers.astype(np.int64)


class Documents:
    """Those of sequences [B,T], of which `reset` or `cu_seqlens` tells where they begin. `parts`: what is given
    to the calls."""

    def __init__(self, B: int, T: int, reset: Any, cu_seqlens: Any, parts: Mapping[str, str]):
        if reset is not None and cu_seqlens is not None:
            raise TypeError("reset and cu_seqlens both say where documents begin; give one of them")
        if reset is not None:
            begins = _numbers("reset", reset)
            if begins.shape != (B, T):
                raise ValueError(f"reset has shape {list(begins.shape)}; expected [B,T] = [{B}, {T}]")
        else:
            sums = _numbers("cu_seqlens", cu_seqlens)
            if sums.ndim != 1:
                raise ValueError(f"cu_seqlens has shape {list(sums.shape)}; expected [N + 1], N documents")
            begins = np.asarray(_core.reset_of(sums.tolist(), B, T)).reshape(1, T)
        groups, last = _core.documents(np.ascontiguousarray(begins), START in parts.values())
        self.B, self.T = B, T
        firsts = [np.asarray(first) for _, _, first in groups]
        self.groups = [Group(length, goes_on, first // T) for (length, goes_on, _), first in zip(groups, firsts)]
        self._order = np.concatenate([(first[:, None] + np.arange(g.length)).reshape(-1) for g, first in zip(self.groups, firsts)])
        self._place, self._last = np.argsort(self._order), np.asarray(last)

    def cut(self, inputs: Mapping[str, Any], parts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The inputs of each group."""
        rows = {n: _taken(x.reshape(-1, *x.shape[2:]), self._order) for n, x in inputs.items() if parts[n] == TOKENS}
        at = 0
        for group in self.groups:
            of, end = {}, at + len(group.sequences) * group.length
            for name, x in inputs.items():
                if name in rows:
                    of[name] = rows[name][at:end].reshape(-1, group.length, *x.shape[2:])
                elif parts[name] == SHARED:
                    of[name] = x
                elif group.goes_on or parts[name] == EACH:
                    of[name] = _taken(x, group.sequences)
            at = end
            yield of

    def whole(self, rows_of: list[Any]) -> Any:
        """[B,T,...] of what each group has a row of for each token."""
        rows = _taken(_joined([x.reshape(-1, *x.shape[2:]) for x in rows_of]), self._place)
        return rows.reshape(self.B, self.T, *rows.shape[1:])

    def ends(self, of: list[Any]) -> Any:
        """[B,...] of what each group has one of for each document: that of the last."""
        return _taken(_joined(of), self._last)

    def read(self, inputs: Mapping[str, Any], parts: Mapping[str, str], call: Callable[[dict[str, Any]], Any]) -> Any:
        """(o, state) of a call for each group."""
        found = [call(of) for of in self.cut(inputs, parts)]
        return self.whole([o for o, _ in found]), {name: self.ends([state[name] for _, state in found]) for name in found[0][1]}

    def gradients(self, inputs: Mapping[str, Any], parts: Mapping[str, str], call: Callable[..., Any], d_o: Any, d_state: Any) -> Any:
        """(o, state, gradients) of call(inputs, d_o, d_state); those of what all documents share are added."""
        of_o: list[Any] = [None] * len(self.groups)
        if d_o is not None:
            if tuple(d_o.shape[:2]) != (self.B, self.T):
                raise ValueError(f"d_o has shape {list(d_o.shape)}; expected [B,T,H,V], [B,T] = [{self.B}, {self.T}]")
            of_o = [of["d_o"] for of in self.cut({"d_o": d_o}, {"d_o": TOKENS})]
        number, of_states = 0, []
        for group in self.groups:
            n = len(group.sequences)
            ends = (self._last >= number) & (self._last < number + n)  # sequences whose last document is in the group
            given = {}
            for name, d in (d_state or {}).items():
                if tuple(d.shape[:1]) != (self.B,):
                    raise ValueError(f"d_state[{name!r}] has shape {list(d.shape)}; expected [B,...], B = {self.B}")
                given[name] = _zeros(d, n)
                given[name][self._last[ends] - number] = d[np.flatnonzero(ends)]
            of_states.append(given)
            number += n
        found = [call(*of) for of in zip(self.cut(inputs, parts), of_o, of_states)]
        d = {}
        for name, x in inputs.items():
            of = [gradients[name] for *_, gradients in found if name in gradients]
            if parts[name] == TOKENS:
                d[name] = self.whole(of)
            elif parts[name] == SHARED:
                d[name] = sum(of[1:], of[0])
            else:
                d[name] = _zeros(x, self.B)
                for group, (*_, gradients) in zip(self.groups, found):
                    for i, b in enumerate(group.sequences if name in gradients else ()):
                        d[name][b] += gradients[name][i]
        states = found[0][1]
        return self.whole([o for o, *_ in found]), {n: self.ends([state[n] for _, state, _ in found]) for n in states}, d


def _zeros(like: Any, n: int) -> Any:
    return (like.new_zeros if is_torch(like) else lambda shape: np.zeros(shape, like.dtype))((n, *like.shape[1:]))


def _taken(x: Any, rows: Any) -> Any:
    if is_torch(x):
        import torch

        return x[torch.from_numpy(rows).to(x.device)]
    return x[rows]


def _joined(parts: list[Any]) -> Any:
    if is_torch(parts[0]):
        import torch

        return torch.cat(parts)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return sys.modules["jax"].numpy.concatenate(parts)
