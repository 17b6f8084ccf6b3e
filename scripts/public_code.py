#!/usr/bin/env python3
"""Counts what the public code of tasks draws at small sizes, for tasks/public_code_test.cpp, which draws the same sizes here.

    public_code.py MAD_LAB ZOOLOGY PHYSICS_LM4 UNLOCKING_STATE_TRACKING > tasks/public_code.csv

The arguments are checkouts of github.com/athms/mad-lab, HazyResearch/zoology, facebookresearch/PhysicsLM4 and
automl/unlocking_state_tracking; numpy is needed, PyTorch is not. A sequence is a line of tokens, "7>12" where 12 is due at 7, in the
ids of Crosstalk. Ids of a renamed range are numbered as they come; those of a hidden one are not told apart.
"""
# SPDX-License-Identifier: Apache-2.0
import ast
import collections
import random
import re
import sys
import types
from itertools import permutations
from pathlib import Path

import numpy as np

DRAWS = 20000


def functions(path, names, **given):
    """Functions of a file, without running the rest of it."""
    tree = ast.parse(Path(path).read_text())
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in ast.walk(ast.Module(kept, [])):  # types are for readers
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    space = dict(given)
    exec(compile(ast.Module(kept, []), str(path), "exec"), space)
    return [space[name] for name in names]


def text(tokens, labels, renamed=(), hidden=()):
    new, words = {}, []

    def name(x):
        for first, end in hidden:
            if first <= x < end:
                return "*"
        for first, end in renamed:
            if first <= x < end:
                known = new.setdefault(first, {})
                return str(known.setdefault(x, first + len(known)))
        return str(x)
    for token, label in zip(tokens, labels):
        word = name(int(token))
        words.append(word if label < 0 else f"{word}>{name(int(label))}")
    return " ".join(words)


def mad(root):
    names = ["generate_in_context_recall_instance", "generate_noisy_in_context_recall_instance", "generate_selective_copying_instance",
             "generate_compression_instance", "generate_memorization_instance"]
    helpers = ["exists", "generate_vocab_permutations", "generate_kv_map", "generate_copying_instance"]
    *_, in_context, noisy, copying, compression, memorise = functions(
        root / "mad/data/instances.py", helpers + names, np=np, permutations=permutations)
    rng = np.random.default_rng(1)
    np.random.seed(1)  # blanks of copying come from here

    def all_of(function, keep=lambda x, y: (x, y), renamed=(), **options):
        while True:
            try:
                x, y = keep(*function(rng=rng, **options))
            except ValueError:  # all pairs are noise: no key to ask
                continue
            yield text(x, y, renamed)
    yield "mad_in_context", all_of(in_context, vocab_size=4, seq_len=6, multi_query=True, is_training=False, noise_vocab_size=0)
    yield "mad_noisy", all_of(noisy, vocab_size=6, seq_len=8, noise_vocab_size=2, frac_noise=0.15, multi_query=True, is_training=False)
    yield "mad_copying", all_of(copying, vocab_size=4, seq_len=9, num_tokens_to_copy=3)
    yield "mad_compression", all_of(compression, lambda x, y: (x, [*y[:-1], -1]), vocab_size=4, seq_len=4)  # not the mark itself
    yield "mad_memorisation", all_of(memorise, renamed=[(0, 2), (2, 4)], vocab_size=5, seq_len=6)


def zoology(root):
    torch = types.SimpleNamespace(tensor=np.array, randint=None)
    segment = lambda inputs, labels, slices: (inputs, labels)  # noqa: E731
    (mqar,) = functions(root / "zoology/data/multiquery_ar.py", ["multiquery_ar"], np=np, torch=torch, DataSegment=segment)
    (grid,) = functions(root / "zoology/data/compositional_mqar.py", ["compositional_mqar"], np=np, torch=torch, DataSegment=segment)
    (forgetting,) = functions(root / "zoology/data/forgetting_mqar.py", ["forgetting_mqar"], np=np, torch=torch, DataSegment=segment)

    def all_of(function, renamed=(), hidden=(), **options):
        inputs, labels = function(num_examples=DRAWS, seed=1, random_non_queries=False, **options)
        return (text(x, y, renamed, hidden) for x, y in zip(inputs, labels))
    yield "zoology_mqar", all_of(mqar, vocab_size=10, input_seq_len=8, num_kv_pairs=2)
    yield "zoology_mqar_gaps", all_of(mqar, [(1, 32), (32, 64)], vocab_size=64, input_seq_len=16, num_kv_pairs=2)
    yield "zoology_compositional", all_of(grid, [(1, 20), (20, 40), (40, 60)], vocab_size=60, input_seq_len=24, num_kv_pairs=4)
    yield "zoology_forgetting", all_of(forgetting, [(1, 10)], [(10, 20)], vocab_size=20, input_seq_len=16, num_kv_pairs=3, num_updates=1)


def depo(root):
    path = root / "data-synthetic-pretrain/Depo/depo.py"
    rng = random.Random(1)

    (words,) = functions(path, ["generate_multi_token_words"])
    source = path.read_text()
    source = source[source.index("def depo_data"):source.index("### This is Depo1")].replace("len(token_type)", "len(text)")
    space = dict(rng=rng, generate_multi_token_words=words, bos_token_id=-1)
    exec(source, space)


    def all_of(nodes, hops, queries, test, renamed=(), hidden=()):
        first = 3 + hops  # of letters here
        ids = {-1: 1, 9500: 2, **{9000 + k: 2 + k for k in range(1, hops + 1)}}
        length = 1 + 2 * nodes + 4 * min(queries, nodes)
        while True:
            made = space["depo_data"](nodes, hops, M=queries, QA=test, mini_vocab=10, min_tlen=1, max_tlen=1)
            tokens = [ids.get(token, first + token - 1) for token in made[0]]
            labels = [-1] * length
            for t, due in enumerate(made["label"]):
                if due and tokens[t] >= first:  # "=" itself is due there, too
                    labels[t - 1] = tokens[t]
            yield text(tokens + [0] * (length - len(tokens)), labels, renamed, hidden)
    yield "depo_test", all_of(3, 4, 2, True, [(7, 27)])
    yield "depo_training", all_of(5, 3, 1, False, hidden=[(6, 26)])


def formal(root):
    folder = root / "xlstm/experiments/data/formal_language/tasks"
    (parity,) = functions(folder / "parity.py", ["parity"], np=np)
    (flat,) = functions(folder / "modular_arithmetic.py", ["modular_arithmetic"], np=np)
    (brackets, _, _, _) = functions(
        folder / "modular_arithmetic_with_brackets.py",
        ["modular_arithmetic_with_brackets", "generate_one_expression_and_result", "generate_short_expression", "tokenize"], np=np, re=re)

    def all_of(function, ids, blank, due_before, **options):
        for seed in range(DRAWS):
            (x,), (mask,) = function(seed=seed, **options)
            at = int(np.argmax(mask))
            tokens = [ids[int(token)] if t < at else blank for t, token in enumerate(x)]
            labels = [-1] * len(tokens)
            labels[at - 1] = ids[int(x[at])] - 1  # answers are values
            yield text(tokens[:due_before], labels)
    yield "parity", all_of(parity, {0: 0, 1: 1, 2: 2}, 0, 4, vocab_size=3, min_sequence_length=3, max_sequence_length=5, context_length=6)
    yield "arithmetic", all_of(flat, {0: 0, 5: 1, 6: 2, 1: 3, 2: 4, 3: 5, 4: 6}, 0, 6, vocab_size=7, min_sequence_length=3,
                               max_sequence_length=7, context_length=10)
    yield "arithmetic_brackets", all_of(brackets, {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 7, 6: 8, 7: 6, 8: 0}, 0, 8, vocab_size=9,
                                        min_sequence_length=5, max_sequence_length=10, context_length=12, mult=True)


def main(roots):
    if len(roots) != 4:
        sys.exit(__doc__)
    print("case,sequence,count")
    for cases, root in zip((mad, zoology, depo, formal), roots):
        for name, drawn in cases(Path(root)):
            counts = collections.Counter(next(drawn) for _ in range(DRAWS))
            for sequence, count in sorted(counts.items()):
                print(f"{name},{sequence},{count}")


if __name__ == "__main__":
    main(sys.argv[1:])
