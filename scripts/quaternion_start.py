#!/usr/bin/env python3
"""Weights from which complex_kda follows words of A_5 exactly: two heads of a kept start become the quaternion construction.

    quaternion_start.py START.npz OUT.npz

START.npz: weights of words_quaternions.toml before its first step (the study's head has the command). OUT.npz is for
train.init_from. A unit quaternion a as key, beta = 2 and decays (-1, 1, 1, 1) make of a row x of the state
(I - 2 a a^T) diag(-1, 1, 1, 1) x = a x a, so that after a word the row that the start token wrote is a_t .. a_1 x a_1 .. a_t: both
products of the word in 2I, the double cover of A_5, whatever the signs of the lifts. Embeddings of elements are their quaternions and
a 1; keys of the two heads read them, their gates are constants. Reads, values and all else stay as they were drawn.

Complex KDA, arXiv 2609.24797, theorem on A_5 with four dimensions; OpenEuroLLM/ComplexKDA@03af970 starts the same weights.
"""
# SPDX-License-Identifier: Apache-2.0
import itertools
import sys

import numpy as np

SATURATED = 12.0  # decays of .99999 in size and a beta of 1.99999, as published
HEADS, SIZE = 2, 4


def times(a, b):
    """Hamilton's product of quaternions [..., 4]."""
    (p, u), (q, v) = ((x[..., :1], x[..., 1:]) for x in (a, b))
    return np.concatenate([p * q - np.sum(u * v, -1, keepdims=True), p * v + q * u + np.cross(u, v)], -1)


def conjugate(a):
    return a * np.array([1.0, -1, -1, -1])


def binary_icosahedral_group():
    """The 120 unit quaternions that two of them generate."""
    golden = (1 + 5**0.5) / 2
    generators = np.array([[1, 1, 1, 1], [golden, 1 / golden, 1, 0]]) / 2
    found = {(1.0, 0.0, 0.0, 0.0): np.array([1.0, 0, 0, 0])}
    new = list(found.values())
    while new:
        products = [times(g, x) for g in generators for x in new]
        new = []
        for x in products:
            name = tuple(np.round(x, 6) + 0.0)
            if name not in found:
                found[name] = x
                new.append(x)
    group = np.array(list(found.values()))
    assert len(group) == 120
    return group


def permutations_of(group):
    """What conjugation does to the five triples of orthogonal axes of order two: the permutation of each element."""
    axes = []
    for x in group[np.abs(group[:, 0]) < 1e-9]:
        if not any(abs(abs(x @ y) - 1) < 1e-9 for y in axes):
            axes.append(x)
    triples = [t for t in itertools.combinations(axes, 3) if all(abs(a @ b) < 1e-9 for a, b in itertools.combinations(t, 2))]
    assert len(axes) == 15 and len(triples) == 5

    def place(axis):
        return next(i for i, t in enumerate(triples) if any(abs(abs(axis @ a) - 1) < 1e-6 for a in t))

    return [tuple(place(times(times(x, t[0]), conjugate(x))) for t in triples) for x in group]


def lifts_of_a5():
    """A quaternion for each element, in the order of task words: even permutations, sorted."""
    group = binary_icosahedral_group()
    permutations = permutations_of(group)
    elements = sorted(set(permutations))
    assert len(elements) == 60
    lifts = np.array([group[permutations.index(e)] for e in elements])
    number = {e: i for i, e in enumerate(elements)}
    for i, j in itertools.product(range(60), repeat=2):  # a homomorphism, up to the sign
        k = number[tuple(elements[i][elements[j][p]] for p in range(5))]
        assert abs(abs(times(lifts[i], lifts[j]) @ lifts[k]) - 1) < 1e-9
    return lifts


def check_word(lifts, length=512):
    """The layer's transitions along a random word against the quaternions' product."""
    word = np.random.default_rng(1).integers(0, 60, length)
    row = left = right = np.array([1.0, 0, 0, 0])
    for a in lifts[word]:
        row = (np.eye(4) - 2 * np.outer(a, a)) @ (np.array([-1.0, 1, 1, 1]) * row)
        left, right = times(a, left), times(right, a)
    assert np.abs(row - times(left, right)).max() < 1e-9


def main(start, out):
    lifts = lifts_of_a5()
    check_word(lifts)
    weights = dict(np.load(start))
    embedding, layer = weights["embedding"], "layers.0."
    embedding[:60], embedding[:60, :4], embedding[:60, 4] = 0, lifts, 1
    embedding[60], embedding[60, 4:6] = 0, 1  # the start token
    key, gate, sign = (weights[layer + name] for name in ("key.weight", "decay.up.weight", "decay.up.bias"))
    beta, beta_bias = weights[layer + "beta.weight"], weights[layer + "beta.bias"]
    assert embedding.shape[0] == 61 and key.shape[0] >= HEADS * SIZE and key.shape[0] == SIZE * beta.shape[0]
    for head in range(HEADS):
        rows = slice(SIZE * head, SIZE * (head + 1))
        first = key[rows, 5].copy()  # what the start token writes under stays as it was drawn
        key[rows], key[rows, :4], key[rows, 5] = 0, np.eye(SIZE), first
        gate[rows], sign[rows] = 0, SATURATED * np.array([-1, 1, 1, 1])
        weights[layer + "memory.A_log"][head] = 0
        beta[head], beta_bias[head] = 0, SATURATED
    np.savez(out, **weights)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
