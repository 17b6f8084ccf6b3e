"""Published layers against their authors' code: what they compute, how many parameters they have, how those start (python/tests/published).

The program trains a small language model around every memory that has a published layer; its loss must be that of a transcription of the
authors' layer on the weights that it kept, but for deviations that published/table.py names, each of which must matter and be said.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import functools
import json
import shutil

import numpy as np
import pytest

from conftest import SOURCE, call
from published import counts, parts, starts, table

TASK = {"task.vocabulary": 64, "task.length": 32, "task.pairs": 4}
STUDY = """
[study]
name  = "published"
seeds = [1]

[base]
task.name = "mqar"
model.name = "language"
model.layer = "published"
model.norm = "rms"
model.mlp_ratio = 1
train.stop_loss = 0
train.keep_weights = true
"""
MODEL = {"model.width": 64, "model.heads": 2, "model.layers": 2, "model.mlp": "swiglu", "model.weight_deviation": 0.1, "train.precision": "fp64",
         "train.learning_rate": 0.01, "train.max_steps": 5, "train.batch": 4, "eval.every": 5, "eval.sequences": 16}
# So small a rate changes nothing: weights are kept as they started.
START = {"model.mlp": "none", "train.precision": "fp32", "train.learning_rate": 1e-30, "train.max_steps": 1, "train.batch": 1, "eval.every": 1,
         "eval.sequences": 1}


@functools.cache
def described(memory):
    """What `describe` says of the published layer, in one line; '' where there is none."""
    text = " ".join(call("describe", memory).split())
    return text.partition('As published (model.layer = "published"): ')[2].partition("norms of blocks.")[0]


def lacks(memory):
    return described(memory).partition("Lacks")[2].partition(" The study says the rest")[0]


@functools.cache
def published():
    return [name for name in sorted(line.split()[0] for line in call("list", "memories").splitlines() if line.split()) if described(name)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains every published layer with settings; gives {memory: (record, weights)}."""
    folder = tmp_path_factory.mktemp("published")
    study = folder / "study.toml"
    study.write_text(STUDY + "".join(f'\n[memories.{name}]\nname = "{name}"\n' for name in published()))

    @functools.cache
    def train(name, *sets):
        out = folder / name
        call("run", study, "--out", out, "--quiet", "--threads", 1, *(f"--set={key}={value}" for key, value in (*TASK.items(), *sets)))
        records = list(map(json.loads, call("export", out, "--format", "jsonl").splitlines()))
        weights = [dict(np.load(out / "weights" / (r["id"] + ".npz"))) for r in records]
        shutil.rmtree(out)  # pytest keeps its folders for a while
        return {r["label"]: (r, arrays) for r, arrays in zip(records, weights)}

    return train


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequences")
    call("sample", "mqar", "-n", MODEL["eval.sequences"], "--seed", 1, "--split", "eval", "--out", folder,
         *(f"--set={key}={value}" for key, value in TASK.items()))
    return [np.load(folder / (name + ".npy")) for name in ("tokens", "positions", "targets")]


def model(trained):
    return trained("model", *MODEL.items())


#: Layers that nobody has written from their sources yet: those of late 2026.
NOT_TRANSCRIBED = {"diag_kdn", "differential_attention", "erase_then_delta", "gka", "iso_kdn", "kla", "m2rnn", "momentum_deltanet", "q_delta",
                   "stick_breaking"}


def test_every_published_layer_is_transcribed():
    assert published() == sorted({*table.LAYERS, *NOT_TRANSCRIBED})
    assert not NOT_TRANSCRIBED & set(table.LAYERS)


def loss(memory, trained, sequences, deviations):
    record, weights = model(trained)[memory]
    layer = table.LAYERS[memory]
    tokens, positions, targets = sequences
    return parts.loss(weights, layer, tokens, positions, targets, MODEL["model.heads"], MODEL["model.layers"], frozenset(deviations)), record["eval_loss"]


@pytest.mark.parametrize("memory", sorted(table.LAYERS))
def test_the_program_computes_the_layer_of_its_authors(memory, trained, sequences):
    deviations = set(table.DEVIATIONS.get(memory, ()))
    mine, its = loss(memory, trained, sequences, deviations)
    assert abs(mine - its) < 1e-8
    for name in deviations:
        less, _ = loss(memory, trained, sequences, deviations - {name})
        assert (memory, name) in table.SILENT or abs(less - its) > 1e-9, f"'{name}' is no deviation any more"


def differences():
    yield from ((m, d, said) for m, all in table.DEVIATIONS.items() for d, said in all.items())
    yield from ((m, f"size {n}", said) for m, all in table.SIZES.items() for n, (said, _) in enumerate(all))
    yield from ((m, "start of " + p, said) for m, all in starts.KNOWN.items() for p, said in all.items())


@pytest.mark.parametrize("memory, what, said", list(differences()))
def test_a_difference_is_said(memory, what, said):
    assert said in (described if "size" in what else lacks)(memory)


def rows():
    with open(SOURCE / "python" / "tests" / "published" / "counts.csv", newline="") as file:
        return [(r["memory"], int(r["width"]), int(r["heads"]), int(r["parameters"])) for r in csv.DictReader(file)]


@pytest.mark.parametrize("memory, width, heads, theirs", rows())
def test_it_has_the_parameters_of_its_authors_constructor(memory, width, heads, theirs, trained):
    _, weights = trained(f"start{width}", *START.items(), ("model.width", width), ("model.heads", heads), ("model.layers", 2))[memory]
    ours = sum(weights[name].size for name in weights if name.startswith("layers.1.") and name != "layers.1.norm.gain")
    assert ours - theirs == sum(more(width, heads, width // heads) for _, more in table.SIZES.get(memory, ()))


def test_the_table_of_counts_is_that_of_the_constructors():
    made = [(memory, width, heads, counts.LAYERS[memory](width, heads, width // heads)) for memory in table.LAYERS for width, heads in counts.SIZES]
    assert sorted(rows()) == sorted(made)


@pytest.mark.parametrize("memory", sorted(set(table.LAYERS) - starts.WITHOUT))
def test_it_starts_as_its_authors_start_it(memory, trained):
    sizes = ("model.width", starts.WIDTH), ("model.heads", starts.HEADS), ("model.layers", starts.LAYERS)
    _, weights = trained("starts", *START.items(), *sizes)[memory]
    off = {}
    for name in sorted({key.split(".", 2)[2] for key in weights if key.startswith("layers.")} - {"norm.gain"}):
        arrays = {layer: weights[f"layers.{layer}.{name}"] for layer in range(starts.LAYERS) if f"layers.{layer}.{name}" in weights}
        why = starts.starts_off(memory, name, arrays)
        if why and not starts.known(memory, name):
            off[name] = f"{getattr(starts.law_of(memory, name), 'text', '')}: {why}"
        assert why or not starts.known(memory, name), f"{name} starts as its authors start it: it is no exception any more"
    assert not off
