"""Studies and stores: plan, run, and frames with the types of options."""
# SPDX-License-Identifier: Apache-2.0
import csv
import io
import json
import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest

import crosstalk as ct
from conftest import SOURCE, call

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


def test_columns_are_those_of_export(store):
    frame = ct.read(store)
    rows = list(csv.reader(io.StringIO(call("export", store))))
    assert list(frame.columns) == rows[0]
    assert len(frame) == len(rows) - 1 == 12
    rows[1:] = sorted(rows[1:], key=lambda row: list(frame.id).index(row[0]))  # by id there
    for name, column in zip(rows[0], zip(*rows[1:])):
        for value, text in zip(frame[name], column):
            if text == "":
                assert pandas.isna(value) or value == "", name
            elif isinstance(value, str):
                assert value == text, name
            elif isinstance(value, (bool, np.bool_)):
                assert str(value).lower() == text, name
            else:
                assert float(value) == float(text), name


def test_types_are_those_of_options(store):
    frame = ct.read(store)
    assert str(frame["task.pairs"].dtype) == "Int64"
    assert str(frame["train.learning_rate"].dtype) == "float64"
    assert str(frame["label"].dtype) == "category"
    assert str(frame["model.bias"].dtype) == "boolean"
    lacking = [n for n in frame if n.startswith("memory.") and frame[n].isna().any()]
    assert any(str(frame[n].dtype) == "Int64" for n in lacking)


def test_rows_are_in_the_stated_order(store):
    frame = ct.read(store)
    by = frame[["label", "task.pairs", "seed"]].astype({"label": str})
    pandas.testing.assert_frame_equal(by, by.sort_values(list(by.columns), ignore_index=True))
    curves = ct.read(store, curves=True)[["label", "seed", "id", "metric", "step"]].astype({"label": str, "id": str, "metric": str})
    pandas.testing.assert_frame_equal(curves, curves.sort_values(list(curves.columns), ignore_index=True))


def test_rows_are_chosen(store):
    assert set(ct.read(store, where={"label": "delta*"}).label) == {"deltanet"}
    assert len(ct.read(store, where={"task.pairs": [4], "seed": 1})) == 3
    with pytest.raises(ValueError, match="did you mean"):
        ct.read(store, where={"task.pair": 4})
    with pytest.raises((ct.StoreError, ValueError)):
        ct.read(store / "nothing")


def test_curves_in_long_form(store):
    curves = ct.read(store, curves=True)
    assert list(curves.columns) == ["id", "label", "seed", "step", "metric", "value"]
    exported = pandas.read_csv(io.StringIO(call("export", store, "--curves")))
    assert len(exported) == len(curves)
    losses = curves[curves.metric == "eval_loss"]
    assert sorted(losses.step.unique()) == [10, 20]


def test_other_frames(store):
    columns = ct.read(store, lib="numpy")
    assert columns["seed"].dtype == np.int64 and set(columns["label"]) == {"attention", "linear", "deltanet"}
    with pytest.raises(ValueError, match="there are pandas, polars and numpy"):
        ct.read(store, lib="excel")
    with_places = ct.read(store, provenance=True)
    assert "provenance.device" in with_places.columns


def test_weights(store):
    id = ct.read(store).id[0]
    weights = ct.weights(store, id)
    assert all(np.isfinite(w).all() for w in weights.values()) and len(weights) > 5
    with pytest.raises(FileNotFoundError, match="12 runs have"):
        ct.weights(store, "ct-0")
    with pytest.raises(ValueError):
        ct.weights(store, "../x")
    swapped, kept = (store / "weights" / f"{x}.npz" for x in ct.read(store).id[:2])
    before = swapped.read_bytes()
    try:
        shutil.copy(kept, swapped)
        with pytest.raises(ValueError, match=f"holds the weights of run {kept.stem}, not of {id}"):
            ct.weights(store, id)
    finally:
        swapped.write_bytes(before)


def test_a_plan_is_the_programs(store):
    sets = {"seeds": [1, 2], "train.max_steps": 20, "eval.every": 10, "task.length": 64, "task.pairs": [4, 8]}
    plan = ct.plan(SOURCE / "experiments" / "mqar.toml", set=sets, out=store)
    assert len(plan) == 12 and plan.name == "mqar" and "12 runs" in plan.product
    runs = plan.runs
    assert set(runs.state) == {"done"} and set(runs.id) == set(ct.read(store).id)
    assert str(runs["task.pairs"].dtype) == "Int64"
    assert ct._core.run_id(plan.configs[0]["config"]) == plan.configs[0]["id"]


def test_errors_of_studies(tmp_path):
    (tmp_path / "bad.toml").write_text('[study]\nname = "bad"\n[base]\ntask.nme = "mqar"\n')
    with pytest.raises(ct.ConfigError, match="bad.toml:4:"):
        ct.plan(tmp_path / "bad.toml")
    with pytest.raises(ct.ConfigError):
        ct.plan(tmp_path / "none.toml")
    with pytest.raises(ct.ConfigError, match="train.max_stps"):
        ct.run(SOURCE / "experiments" / "mqar.toml", set={"train.max_stps": 1}, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def trains(store):
    """Whether a program has said how fast it trains into a store."""
    if not (store / "store.json").is_file():
        return False
    workers = json.loads(call("status", store, "--json"))["workers"]
    return any(worker.get("steps_per_second") for worker in workers)


def interrupt_once(condition, seconds):
    """A thread that sends this process SIGINT as soon as a condition holds, or after so many seconds."""

    def wait():
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not condition():
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def test_an_interrupted_run_is_saved_and_goes_on(tmp_path):
    store, study = tmp_path / "s", SOURCE / "experiments" / "mqar.toml"
    sets = {"seeds": [1], "train.max_steps": 200000, "eval.every": 50, "task.length": 64, "task.pairs": 8,
            "train.stop_accuracy": 0, "train.stop_loss": 0, "train.patience": 1000000}
    interrupt_once(lambda: trains(store), 120)  # a GPU may take long to begin
    with pytest.raises(KeyboardInterrupt, match="resumes from there"):
        ct.run(study, set=sets, out=store, quiet=True)
    saved = sorted((store / "checkpoints").glob("*.state"))
    assert saved, "nothing was saved"
    begun = [path.read_bytes() for path in saved]
    interrupt_once(lambda: trains(store), 120)
    with pytest.raises(KeyboardInterrupt):
        ct.run(study, set=sets, out=store, quiet=True)
    assert [path.read_bytes() for path in saved] != begun, "it did not go on"


def test_tables(store):
    table = ct.table("final", store, metric="test_accuracy")
    assert "label" in table and len(table) >= 3
    assert "\\toprule" in table.attrs["latex"]
    assert any("Chance: accuracy" in note for note in table.attrs["notes"]) and (table["at_chance"] <= table["n"]).all()


def test_differences_are_those_of_seeds(store):
    frame = ct.difference(store, "deltanet", metric="test_accuracy")
    assert set(frame.label) == {"attention", "linear"} and set(frame.against) == {"deltanet"} and (frame.n == 2).all()
    runs = ct.read(store).set_index(["label", "task.pairs", "seed"]).test_accuracy
    for row in frame.to_dict("records"):
        by_seed = runs[row["label"], row["task.pairs"]] - runs["deltanet", row["task.pairs"]]
        assert row["median"] == pytest.approx(by_seed.median()) and row["wins"] == (by_seed > 0).sum()
    with pytest.raises(ct.ConfigError, match="did you mean"):
        ct.difference(store, "deltanets")
