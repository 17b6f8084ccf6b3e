"""train: a PyTorch model as a label of a study: records, replicas, resuming, identity, verify."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import crosstalk as ct
from conftest import call
from crosstalk import sources

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

HERE = os.path.dirname(os.path.abspath(__file__))
STUDY = """
[study]
name  = "own"
seeds = { range = [1, 2] }

[base]
task.name = "mqar"
task.vocabulary = 32
task.length = 16
task.pairs = 2
model.name = "language"
model.width = 16
train.max_steps = 40
train.batch = 8
train.optimizer = "adamw"
train.weight_decay = 0.1
train.clip_norm = 1.0
train.schedule = "cosine"
train.warmup_steps = 5
train.precision = "PRECISION"
eval.every = 20
eval.sequences = 32
EXTRA

[memories.mine]
name = "python"
source = "own_model.py:CLASS"
arguments = "ARGUMENTS"
title = "Mine"

[memories.delta]
name = "deltanet"

[[grid]]
"train.learning_rate" = [3e-3, 1e-2]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copy(os.path.join(HERE, "own_model.py"), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, model="Model", arguments="", precision="fp32", extra="", name="study.toml"):
    text = STUDY.replace("CLASS", model).replace("ARGUMENTS", arguments).replace("PRECISION", precision)
    (folder / name).write_text(text.replace("EXTRA", extra))
    return name


def records(store):
    return {r["id"]: r for r in map(json.loads, ct._core.foreign_records(str(store)))}


def results(store):
    """What may not depend on how runs were packed or stopped."""
    names = ("status", "steps", "eval_loss", "best_eval_loss", "eval_accuracy", "metrics", "curves", "profiles", "config")
    return {id: {name: r[name] for name in names} for id, r in records(store).items()}


def test_records_stand_beside_those_of_built_in_memories(folder):
    study = write(folder)
    assert "4 runs of PyTorch models" in subprocess.run(
        [ct.studies.program(), "run", study, "--out", "s"], capture_output=True, text=True, check=True).stderr
    result = ct.train(study, out="s", quiet=True)
    assert (result.done, result.missing, result.failed) == (4, 0, 0)
    frame = ct.read("s")
    assert frame.groupby("label", observed=True).size().to_dict() == {"mine": 4, "delta": 4}
    mine, theirs = (frame[frame.label == label] for label in ("mine", "delta"))
    assert set(mine["memory.name"]) == {"python"} and set(mine["state_size"]) == {256}
    # A record says all that one of a built-in memory says, of the same task and splits.
    one = next(iter(records("s").values()))
    other = json.loads(call("export", "s", "--where", "label=delta", "--format", "jsonl").splitlines()[0])
    assert {"test_loss", "test_accuracy", "test_exact", "parameters", "chance_accuracy"} <= set(one["metrics"])
    assert {n for n in other if n.startswith(("test_", "baseline_", "chance_", "error_"))} <= set(one["metrics"])
    curves = ct.read("s", curves=True)
    by_label = curves.groupby("label", observed=True).metric.unique()
    assert set(by_label["mine"]) == set(by_label["delta"])
    assert theirs["parameters"].iloc[0] > 0
    # Every command takes it as a label.
    table = ct.table("final", "s", best="train.learning_rate", metric="test_accuracy")
    assert set(table["label"]) == {"mine", "delta"} and "Mine" in table.attrs["latex"]
    plan = ct.plan(study, out="s")
    assert set(plan.runs.state) == {"done"} and set(plan.runs.id) == set(frame.id)
    assert "mine" in call("status", "s")
    again = ct.train(study, out="s", quiet=True)
    assert again.done == 4 and len(ct.read("s")) == 8


def test_replicas_are_runs_alone_and_those_of_torch(folder):
    study = write(folder, precision="fp64")
    ct.train(study, out="together", quiet=True)
    ct.train(study, out="alone", replicas=1, quiet=True)
    a, b = results("together"), results("alone")
    assert a.keys() == b.keys() and len(a) == 4
    for id in a:
        for curve in ("train_loss", "eval_loss"):
            np.testing.assert_allclose(a[id]["curves"][curve]["y"], b[id]["curves"][curve]["y"], rtol=1e-9)
    # The same by hand with torch's own AdamW, clipping and schedule.
    sys.path.insert(0, str(folder))
    import own_model

    run = next(r for r in ct.plan(study).configs if r["label"] == "mine" and r["seed"] == 2)
    config = sources.Config(run["config"], 32)
    torch.manual_seed(config["init_seed"])
    model = own_model.Model(config).double()
    rate, steps = config["train.learning_rate"], config["train.max_steps"]
    optimizer = torch.optim.AdamW(
        model.parameters(), rate, betas=(config["train.beta1"], config["train.beta2"]), weight_decay=0.1)
    course = ct._core.Course(run["id"], "mine", 2, run["config"])
    losses = []
    task = ct.task("mqar", vocabulary=32, length=16, pairs=2)
    for step, batch in zip(range(1, steps + 1), task.batches(batch=8, seed=config["data_seed"], device="cpu")):
        optimizer.param_groups[0]["lr"] = course.rate(step)
        loss = batch.cross_entropy(model(batch.tokens))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert course.rate(1) == pytest.approx(rate / 5) and course.rate(steps) < 0.01 * rate
    want = [np.mean(losses[:20]), np.mean(losses[20:])]
    np.testing.assert_allclose(a[run["id"]]["curves"]["train_loss"]["y"], want, rtol=1e-6)


def test_no_decay_names_parameters() -> None:
    from crosstalk.replicas import undecayed

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))
    model[0].weight._no_weight_decay = True  # type: ignore[assignment]
    assert undecayed(model, "none") == set()
    assert undecayed(model, "marked") == {"0.weight"}
    assert undecayed(model, "norms, biases") == {"1.weight", "1.bias", "0.bias", "2.bias"}
    assert undecayed(model, "2.weight") == {"2.weight"}
    with pytest.raises(ValueError, match="A_log names no parameter"):
        undecayed(model, "A_log")


@pytest.mark.parametrize("arguments", ["", "dropout = 0.1"])
def test_a_run_that_was_stopped_goes_on_to_the_same_record(folder, arguments, monkeypatch, capfd):
    study = write(folder, arguments=arguments)
    ct.train(study, out="whole", quiet=True)
    from crosstalk import replicas

    steps, step = [0], replicas.Replicas.step

    def stopping(self, *given):
        steps[0] += 1
        if steps[0] == 27:  # between two evaluations
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *given)

    monkeypatch.setattr(replicas.Replicas, "step", stopping)
    with pytest.raises(KeyboardInterrupt, match="the same call resumes from there"):
        ct.train(study, out="stopped", quiet=True)
    assert list((folder / "stopped" / "python").glob("*.pt"))
    capfd.readouterr()
    ct.train(study, out="stopped")
    assert " on from step 2" in capfd.readouterr().err
    assert not list((folder / "stopped" / "python").glob("*.pt"))
    assert results("stopped") == results("whole")


def test_a_killed_process_loses_what_was_not_saved_and_no_more(folder):
    study = write(folder, extra="train.patience = 1000000")
    words = [sys.executable, "-m", "crosstalk", "train", study, "--out", "killed", "--set", "train.max_steps=300",
             "--replicas", "1"]
    child = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300  # a busy machine is slow
    while time.monotonic() < deadline and not ((folder / "killed" / "store.json").exists() and ct._core.statuses("killed")):
        time.sleep(0.1)
    child.kill()
    child.wait()
    before = ct._core.statuses("killed")
    assert 1 <= len(before)
    sets = {"train.max_steps": 300, "seeds": [1]}
    ct.train(study, set=sets, out="killed", replicas=1, quiet=True)
    ct.train(study, set=sets, out="whole", replicas=1, quiet=True)
    whole = results("whole")
    assert {id: r for id, r in results("killed").items() if id in whole} == whole


def test_models_that_vmap_refuses_are_trained_one_by_one(folder, capfd):
    study = write(folder, arguments="reads = true")
    ct.train(study, out="s")
    assert "one run after the other, since vmap refuses" in capfd.readouterr().err
    plain = write(folder, name="plain.toml")
    ct.train(plain, out="p", quiet=True)
    a = sorted(r["eval_loss"] for r in records("s").values())
    b = sorted(r["eval_loss"] for r in records("p").values())
    np.testing.assert_allclose(a, b, rtol=1e-4)
    assert all(r["provenance"]["pack"] == 1 for r in records("s").values())
    assert any(r["provenance"]["pack"] == 4 for r in records("p").values())


RECURRENT = """import torch


class Mine(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.e, self.h = torch.nn.Embedding(32, 16), torch.nn.Linear(16, 32)
        self.r = torch.nn.KIND(16, 16, batch_first=True)

    def forward(self, t):
        return self.h(self.r(self.e(t))[0])
"""


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_networks_which_vmap_trains_and_does_not_read(folder, capfd, kind):
    (folder / "recurrent.py").write_text(RECURRENT.replace("KIND", kind))
    (folder / "r.toml").write_text((folder / write(folder)).read_text().replace("own_model.py:Model", "recurrent.py:Mine"))
    assert ct.train("r.toml", out="s", replicas=2).done == 4
    assert capfd.readouterr().err.count("one run after the other, since vmap refuses: ") == 1
    ct.train("r.toml", out="alone", replicas=1, quiet=True)
    assert results("s") == results("alone")
    # What it keeps of a sequence is not known, which is not nothing.
    assert ct.read("s")["state_size"].isna().all() and {r["state_size"] for r in ct.plan("r.toml").configs} >= {None}
    table = ct.table("final", "s", best="train.learning_rate", metric="test_loss")
    assert table["d_dot"].isna().all()


def test_replicas_are_evaluated_as_runs_alone_are(folder):
    (folder / "modes.py").write_text(
        "from own_model import Model\n\n\nclass Mine(Model):\n    def forward(self, tokens):\n"
        "        return super().forward(tokens) * (1.0 if self.training else 3.0)\n")
    text = (folder / write(folder, precision="fp64")).read_text()
    (folder / "modes.toml").write_text(text.replace('own_model.py:Model"', 'modes.py:Mine"\nfiles = "own_model.py"'))
    sets = {"train.max_steps": 20}
    ct.train("modes.toml", set=sets, out="together", quiet=True)
    ct.train("modes.toml", set=sets, out="alone", replicas=1, quiet=True)
    together, alone = results("together"), results("alone")
    assert {r["provenance"]["pack"] for r in records("together").values()} == {4}
    for id in alone:
        np.testing.assert_allclose(together[id]["eval_loss"], alone[id]["eval_loss"], rtol=1e-9)


def test_how_far_runs_have_come_is_said(folder, capfd, monkeypatch):
    from crosstalk import pack

    monkeypatch.setattr(pack, "TELL_EVERY", 0.0)
    ct.train(write(folder), out="s", set={"train.max_steps": 4})
    assert "crosstalk: mine: 4 runs together, step 3 of at most 4, " in capfd.readouterr().err


def test_replicas_of_a_model_with_a_built_in_memory(folder, capfd):
    (folder / "inside.py").write_text(
        "import crosstalk as ct\n\n\nclass Mine(ct.torch.LanguageModel):\n    def __init__(self, config):\n"
        '        super().__init__(config, memory="gated_delta", short_conv="qk")\n')
    study = write(folder, precision="fp64")
    text = (folder / study).read_text().replace("own_model.py:CLASS", "").replace("own_model.py:Model", "inside.py:Mine")
    (folder / study).write_text(text)
    ct.train(study, out="together")
    assert "vmap refuses" not in capfd.readouterr().err
    ct.train(study, out="alone", replicas=1, quiet=True)
    together, alone = results("together"), results("alone")
    assert together.keys() == alone.keys() and len(alone) == 4
    for id, record in records("together").items():
        assert record["provenance"]["pack"] == 4
        for name in ("train_loss", "eval_loss"):
            np.testing.assert_allclose(together[id]["curves"][name]["y"], alone[id]["curves"][name]["y"], rtol=1e-9)


def test_a_model_may_be_asked_where_answers_are_due(folder):
    ct.train(write(folder), out="a", quiet=True)
    ct.train(write(folder, model="Answers"), out="b", quiet=True)
    a, b = (sorted(r["eval_loss"] for r in records(s).values()) for s in "ab")
    np.testing.assert_allclose(a, b, rtol=1e-5)
    assert not set(records("a")) & set(records("b"))


def test_identity_is_the_text(folder):
    study = write(folder)
    ids = {r["id"] for r in ct.plan(study).configs if r["label"] == "mine"}
    assert ids == {r["id"] for r in ct.plan(study).configs if r["label"] == "mine"}
    moved = folder / "elsewhere"
    moved.mkdir()
    shutil.copy(folder / "own_model.py", moved)
    (folder / "moved.toml").write_text((folder / study).read_text().replace('"own_model.py:', '"elsewhere/own_model.py:'))
    assert {r["id"] for r in ct.plan("moved.toml").configs if r["label"] == "mine"} == ids
    with open(folder / "own_model.py", "a") as file:
        file.write("# another text\n")
    assert not {r["id"] for r in ct.plan(study).configs if r["label"] == "mine"} & ids
    (folder / "none.toml").write_text((folder / study).read_text().replace("own_model.py", "none.py"))
    with pytest.raises(ct.ConfigError, match="none.py"):
        ct.plan("none.toml")
    (folder / "bad.toml").write_text((folder / study).read_text().replace("own_model.py:Model", "own_model.py"))
    with pytest.raises(ct.ConfigError, match="must be FILE:CLASS"):
        ct.plan("bad.toml")


def test_further_files_are_part_of_it(folder):
    (folder / "layers.py").write_text("SCALE = 1.0\n")
    (folder / "with_layers.py").write_text(
        "from layers import SCALE\nfrom own_model import Model\nclass Mine(Model):\n    pass\n")
    study = write(folder)
    text = (folder / study).read_text().replace("own_model.py:Model", "with_layers.py:Mine")
    (folder / study).write_text(text)
    sets = {"train.max_steps": 2, "seeds": [1], "train.learning_rate": 1e-3}
    with pytest.warns(UserWarning, match="imports layers.py"):
        ct.train(study, set=sets, out="s", quiet=True)
    (folder / study).write_text(text.replace("arguments =", 'files = "layers.py own_model.py"\narguments ='))
    first = ct.plan(study, set=sets).configs[0]["id"]
    (folder / "layers.py").write_text("SCALE = 2.0\n")
    assert ct.plan(study, set=sets).configs[0]["id"] != first


def test_what_is_installed_beside_a_model_is_not_of_it(folder):
    places = [".venv/lib/python3/site-packages", "env/here", "node_modules", "own"]
    for place in places:
        (folder / place).mkdir(parents=True)
        for n in range(30):
            (folder / place / f"m{places.index(place)}_{n}.py").write_text("")
    (folder / "env" / "pyvenv.cfg").write_text("")
    (folder / "imports.py").write_text(
        f"import importlib, sys\nfor i, place in enumerate({places}):\n    sys.path.insert(0, {str(folder)!r} + '/' + place)\n"
        "    for n in range(30):\n        importlib.import_module(f'm{i}_{n}')\nfrom own_model import Model as Mine\n")
    names = ", ".join(sorted(f"own/m3_{n}.py" for n in range(30))[:8])
    with pytest.warns(UserWarning) as caught:
        sources.load("imports.py:Mine", "own_model.py")
    (told,) = (str(warning.message) for warning in caught)
    assert told == (f"imports.py imports {names}, 22 more files, which memory.files does not name: a change there makes no new run")


def test_a_class_without_a_file_of_the_study(folder):
    study = write(folder)
    text = (folder / study).read_text().replace('source = "own_model.py:Model"\n', "")
    (folder / study).write_text(text)
    with pytest.raises(ct.ConfigError, match="has no source"):
        ct.train(study, out="s", quiet=True)
    sys.path.insert(0, str(folder))
    import own_model

    sets = {"train.max_steps": 4, "seeds": [1], "train.learning_rate": 1e-3}
    assert ct.train(study, own_model.Model, set=sets, out="s", quiet=True).done == 1
    assert ct.train(study, {"mine": own_model.Answers}, set=sets, out="s", quiet=True).done == 1
    assert len(records("s")) == 2 and len(list((folder / "s" / "python").glob("*.py"))) == 2
    assert ct.verify("s", quiet=True)
    with pytest.raises(ValueError, match="no PyTorch model 'yours'"):
        ct.train(study, {"yours": own_model.Model}, out="s")


def program(*words, code=0, python=None):
    """What the program prints, stdout and stderr, with this Python or another for PyTorch models."""
    environment = {**os.environ, "CROSSTALK_PYTHON": python or sys.executable, "PYTHONPATH": os.path.dirname(os.path.dirname(ct.__file__))}
    done = subprocess.run([ct.studies.program(), *map(str, words)], capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_verify_trains_again(folder, capsys):
    study = write(folder)
    ct.train(study, set={"seeds": [1]}, out="s", replicas=1, quiet=True)
    assert ct.verify("s")
    assert capsys.readouterr().out.count("identical") == 2
    assert "2 runs trained again on cpu: 2 identical" in program("verify", "s")
    told = program("verify", "s", "--python", "none")
    assert told.count("not trained here: no Python (--python none)") == 2 and "python -m crosstalk verify s" in told
    assert "0 runs trained again" in told and "2 of PyTorch models not" in told
    rows = json.loads(program("verify", "s", "--json").strip())["runs"]
    assert [row["result"] for row in rows] == ["identical"] * 2 and all(row["eval_loss"] == row["eval_loss_again"] for row in rows)
    with open("own_model.py", "a") as file:
        file.write("# another text\n")
    with pytest.raises(ct.ConfigError, match="holds another text"):
        ct.verify("s", quiet=True)
    assert program("verify", "s", code=1).count("DIFFERS: ConfigError: own_model.py holds another text") == 2


def test_runs_are_chosen_as_crosstalk_run_chooses_them(folder):
    study = write(folder)

    def seen(out):
        return sorted((r["label"], r["seed"], r["config"]["train.learning_rate"]) for r in records(out).values())

    ct.train(study, where={"train.learning_rate": 3e-3, "label": "m*"}, out="where", quiet=True)
    assert seen("where") == [("mine", 1, 3e-3), ("mine", 2, 3e-3)]
    ct.train(study, seeds=[7], where={"train.learning_rate": 1e-2}, out="seeds", quiet=True)
    assert seen("seeds") == [("mine", 7, 1e-2)]
    ids = [r["id"] for r in ct.plan(study).configs if r["label"] == "mine"]
    ct.train(study, only=ids[0][:12], out="only", quiet=True)
    assert list(records("only")) == ids[:1]
    parts = []
    for i in (1, 2):
        try:
            ct.train(study, shard=f"{i}/2", out=f"part{i}", quiet=True)
            parts += list(records(f"part{i}"))
        except ct.ConfigError as error:  # all of them are in the other part
            assert "no run of a PyTorch model is among these" in str(error)
    assert sorted(parts) == sorted(ids)
    # Rates that one seed chose, of PyTorch models alone.
    ct.train(study, seeds=1, out="tried", quiet=True)
    ct.train(study, chosen_of="tried", best="train.learning_rate", out="chosen", quiet=True)
    best = min(records("tried").values(), key=lambda r: r["best_eval_loss"])["config"]["train.learning_rate"]
    assert seen("chosen") == [("mine", 1, best), ("mine", 2, best)]
    ct.train(study, rates_short=0.5, out="two", quiet=True)
    assert [r["steps"] for r in records("two-rates").values()] == [20, 20]
    assert len({rate for _, _, rate in seen("two")}) == 1 and {seed for _, seed, _ in seen("two")} == {1, 2}


REFUSED = {
    ("--where", "seed"): "--where seed",
    ("--where", "label=none"): "no run matches",
    ("--best", "train.learning_rate"): "needs --chosen-of STORE",
    ("--chosen-of", "nowhere"): "nowhere",
    ("--only", "ct-none"): "--only ct-none",
    ("--shard", "3/2"): "--shard takes I/N",
    ("--best-by", "speed"): "--best-by",
    ("--time-limit", "soon"): "--time-limit takes seconds",
    ("--set", "seeds=1", "--seeds", "2"): "seeds is set already",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_it_refuses_it_refuses_as_crosstalk_run_does(folder, words):
    study = write(folder)
    ours = subprocess.run([sys.executable, "-m", "crosstalk", "train", study, *words], capture_output=True, text=True)
    same = [w if w != "--seeds" else "--set" for w in words]
    same[-1] = "seeds=2" if "--seeds" in words else same[-1]
    theirs = subprocess.run([ct.studies.program(), "run", study, *same], capture_output=True, text=True)
    last = theirs.stderr.removeprefix("crosstalk: ").removeprefix("error: ").strip().splitlines()[0]
    assert ours.returncode == theirs.returncode == 2 and REFUSED[words] in ours.stderr
    assert last in ours.stderr, (ours.stderr, theirs.stderr)
    assert not (folder / "runs").exists()


def test_what_is_not_of_pytorch_models_is_refused_by_name(folder):
    for word in ("--pack", "--pilot", "--streams", "--no-pass"):
        done = subprocess.run([sys.executable, "-m", "crosstalk", "train", write(folder), word, "1"], capture_output=True, text=True)
        assert done.returncode == 2 and word in done.stderr
    (folder / "own.toml").write_text((folder / "study.toml").read_text().replace('[memories.delta]\nname = "deltanet"\n', ""))
    assert "PyTorch models" in program("pilot", "own.toml", code=2) and not (folder / "runs").exists()


def test_a_time_limit_saves_and_the_same_call_goes_on(folder, monkeypatch):
    study = write(folder)
    ct.train(study, out="whole", quiet=True)
    from crosstalk import replicas

    step = replicas.Replicas.step
    monkeypatch.setattr(replicas.Replicas, "step", lambda *given: (time.sleep(0.05), step(*given))[1])
    result = ct.train(study, time_limit=0.8, out="s", quiet=True)
    assert result.stopped and result.missing == 4 and len(list((folder / "s" / "python").glob("*.pt"))) == 4
    assert json.loads(call("status", "s", "--json"))["half_way"] == 4
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert not ct.train(study, out="s", quiet=True).stopped
    assert results("s") == results("whole")


BREAKS = """import os

from own_model import Model


class Mine(Model):
    def forward(self, tokens):
        if os.path.exists("broken") and self.training:
            raise RuntimeError("the disk is on fire")
        return super().forward(tokens)
"""


def test_failed_runs_are_recorded_and_tried_again(folder):
    (folder / "breaks.py").write_text(BREAKS)
    text = (folder / write(folder)).read_text()
    two = text.replace("[memories.delta]", '[memories.broken]\nname = "python"\nsource = "breaks.py:Mine"\nfiles = "own_model.py"\n\n[memories.delta]')
    (folder / "two.toml").write_text(two)
    (folder / "broken").touch()
    with pytest.raises(RuntimeError, match="on fire"):  # who writes a model wants to see it
        ct.train("two.toml", where={"label": "broken"}, out="raised", quiet=True)
    result = ct.train("two.toml", keep_going=True, out="s", quiet=True)
    assert (result.done, result.failed, result.missing) == (4, 4, 0)
    failed = [r for r in records("s").values() if r["status"] == "failed"]
    assert {r["label"] for r in failed} == {"broken"} and failed[0]["message"] == "breaks.py:9: RuntimeError: the disk is on fire"
    assert ct.train("two.toml", keep_going=True, out="s", quiet=True).failed == 4  # not tried again by itself
    told = program("retry", "two.toml", "--out", "s")
    assert "4 runs of PyTorch models" in told and "python -m crosstalk train --failed two.toml --out s" in told
    (folder / "broken").unlink()
    result = ct.train("two.toml", failed=True, out="s", quiet=True)
    assert (result.done, result.failed) == (8, 0)


def test_a_store_is_trained_as_it_was_asked(folder):
    study = write(folder)
    program("run", study, "--set", "seeds=1", "--out", "s", "--quiet")
    assert ct.train("s", quiet=True).done == 2
    program("run", study, "--set", "seeds=2", "--out", "s", "--quiet")
    assert ct.train("s", quiet=True).done == 4 and len(ct.read("s")) == 8
    with pytest.raises(ct.ConfigError, match="s is a store: what was asked of it"):
        ct.train("s", where={"seed": 1})
    # A study that was asked for here alone is known to workers.
    ct.train(study, out="t", quiet=True)
    assert "nothing is left; trained 4 runs here" in program("work", "t")


def test_workers_train_both_kinds(folder):
    study = write(folder, extra="train.patience = 1000000")
    program("run", study, "--out", "whole")
    ct.train(study, out="whole", quiet=True)
    # Asked for, and not trained: the request of a store whose shards are gone.
    shutil.copytree("whole", "shared")
    shutil.rmtree("shared/shards")
    environment = {**os.environ, "CROSSTALK_PYTHON": sys.executable}
    workers = [subprocess.Popen([ct.studies.program(), "work", "shared"], stderr=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    told = [worker.communicate()[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], told
    assert any("4 runs of PyTorch models by " in text for text in told), told
    shared, whole = results("shared"), results("whole")
    assert shared.keys() == whole.keys() and len(whole) == 4
    for id in whole:  # packs of other sizes
        np.testing.assert_allclose(shared[id]["curves"]["eval_loss"]["y"], whole[id]["curves"]["eval_loss"]["y"], rtol=1e-4)
    lines = [json.loads(line)["id"] for path in (folder / "shared" / "shards").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 8


def test_a_process_for_each_device(folder):
    from crosstalk.__main__ import devices_of

    assert devices_of("cuda:0,2") == ["cuda:0", "cuda:2"] and devices_of("cpu:all:2") == ["cpu", "cpu"]
    assert devices_of("cpu") == devices_of("cuda:1") == devices_of("auto") == []
    words = [sys.executable, "-m", "crosstalk", "train", write(folder), "--out", "s", "--device", "cpu:all:2", "--replicas", "2"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "s\n"
    assert len(results("s")) == 4
    # A signal to the one that started them stops all, and what they have begun is saved.
    words += ["--set", "train.max_steps=100000", "--set", "train.patience=1000000"]
    parent = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not list((folder / "s" / "live").glob("*.jsonl")):  # the first evaluation
        time.sleep(0.1)
    parent.send_signal(signal.SIGINT)
    told = parent.communicate()[1]
    assert parent.returncode == 75 and "the same call resumes from there" in told, told
    assert list((folder / "s" / "python").glob("*.pt")) and not (folder / "s" / "claims").exists()


def test_runs_of_a_worker_that_is_killed_are_neither_lost_nor_counted_twice(folder):
    study = write(folder, extra="train.patience = 1000000")
    sets = {"train.max_steps": 400}
    ct.train(study, set=sets, out="whole", replicas=1, quiet=True)
    words = [sys.executable, "-m", "crosstalk", "train", study, "--out", "s", "--set", "train.max_steps=400", "--replicas", "1"]
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not ((folder / "s" / "store.json").exists() and ct._core.statuses("s")):
        time.sleep(0.05)
    second = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    time.sleep(0.5)
    first.kill()
    first.wait()
    told = second.communicate()[1]
    assert second.returncode == 0, told
    assert results("s") == results("whole") and not list((folder / "s" / "python").glob("*.pt"))
    lines = [json.loads(line)["id"] for path in (folder / "s" / "shards").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(lines) == len(set(lines)) == 4


def test_a_mixture_and_a_curriculum(folder):
    mixture = 'task.segments = "16:2:40 32:4:20"'
    text = (folder / write(folder, extra=mixture)).read_text()
    text = text.replace("task.length = 16\n", "").replace("task.pairs = 2\n", "")
    (folder / "mixture.toml").write_text(text)
    sets = {"seeds": [1], "train.learning_rate": 1e-3}
    ct.run("mixture.toml", set=sets, out="m", quiet=True)
    ct.train("mixture.toml", set=sets, out="m", quiet=True)
    frame = ct.read("m")
    ours = {m for r in records("m").values() for m in r["metrics"] if m.startswith("test_accuracy_")}
    assert len(ours) == 2 and frame[sorted(ours)].notna().all().all()


def test_a_curriculum_leaves_its_stages(folder):
    text = (folder / write(folder, extra='task.curriculum = "2 4"\ntrain.promote_accuracy = 0.01')).read_text()
    lines = [x for x in text.splitlines() if not x.startswith(("task.length", "task.pairs", "task.vocabulary"))]
    (folder / "words.toml").write_text("\n".join(lines).replace('"mqar"', '"words"'))
    sets = {"seeds": [1], "train.learning_rate": 1e-3, "train.promote": ["accuracy"]}
    ct.run("words.toml", set=sets, out="c", quiet=True)
    ct.train("words.toml", set=sets, out="c", quiet=True)
    (record,) = records("c").values()
    assert record["metrics"]["stage"] == 2 and record["profiles"]["steps_by_stage"]["x"] == [1, 2]


def test_precisions_and_what_is_refused(folder):
    sets = {"seeds": [1], "train.learning_rate": 1e-3, "train.max_steps": 4}
    assert ct.train(write(folder, precision="bf16"), set=sets, out="b", quiet=True).done == 1
    with pytest.raises(ct.ConfigError, match="wants a GPU"):
        ct.train(write(folder, precision="tf32"), set=sets, out="t", quiet=True)
    text = (folder / write(folder)).read_text().replace('[memories.mine]\nname = "python"', '[memories.mine]\nname = "fox"')
    (folder / "plain.toml").write_text("\n".join(x for x in text.splitlines() if not x.startswith(("source", "arguments"))))
    with pytest.raises(ct.ConfigError, match="has no PyTorch model"):
        ct.train("plain.toml")


def test_a_class_that_is_not_there_is_told_with_those_that_are(folder):
    (folder / "two.py").write_text("from pathlib import Path\nclass One: pass\nclass Two: pass\n")
    with pytest.raises(ct.OptionError, match="two.py has no class Tow; it has One, Two$"):
        sources.load("two.py:Tow", "")


def test_arguments_and_diverging_runs(folder):
    assert sources.arguments_of('a = 1, b = 2.5, c = true, d = "x"') == {"a": 1, "b": 2.5, "c": True, "d": "x"}
    with pytest.raises(ct.OptionError, match="is not NAME = VALUE"):
        sources.arguments_of("a b")
    result = ct.train(write(folder, model="Explodes"), out="e", quiet=True)
    assert result.diverged == 4
    assert all(r["status"] == "diverged" for r in records("e").values())


WRONG = {
    "self.x = config['model.widht']": (KeyError, "the configuration has no model.widht; did you mean model.width?"),
    "self.forward = lambda t: t[..., None].float()": (TypeError, r"gives \[1, 16, 1\]; logits \[B,T,vocabulary\] = \[1, 16, 32\] are"),
    "self.forward = lambda t: (t, None)": (TypeError, "gives a tuple; logits .* are needed, a tensor and nothing else"),
    "self.answer = lambda t, p: t[..., None].float()": (TypeError, r"gives \[1, 16, 1\]; logits \[B,Q,vocabulary\] = \[1, 2, 32\] are"),
}


@pytest.mark.parametrize("line", WRONG)
def test_models_that_cannot_be_are_told(folder, line):
    (folder / "wrong.py").write_text(
        "import torch\n\n\nclass Mine(torch.nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        f"        self.w = torch.nn.Linear(1, 1)\n        {line}\n")
    text = (folder / write(folder)).read_text().replace("own_model.py:Model", "wrong.py:Mine")
    (folder / "wrong.toml").write_text(text)
    error, told = WRONG[line]
    with pytest.raises(error, match=told):
        ct.train("wrong.toml", out="s", replicas=1, quiet=True)


def test_a_class_that_takes_no_configuration_is_told(folder):
    class Mine(torch.nn.Module):
        def __init__(self):
            super().__init__()

    study = write(folder)
    (folder / study).write_text((folder / study).read_text().replace('source = "own_model.py:Model"\n', ""))
    with pytest.raises(TypeError, match="mine: Mine is called with one argument, the run's configuration"):
        ct.train(study, Mine, out="s", quiet=True)  # pyright: ignore[reportArgumentType]


def test_operators_that_vmap_does_not_know_are_told_once(folder, capfd):
    (folder / "attends.py").write_text(
        "import torch\n\n\nclass Mine(torch.nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.e = torch.nn.Embedding(32, 16)\n        self.a = torch.nn.MultiheadAttention(16, 2, batch_first=True)\n"
        "        self.h = torch.nn.Linear(16, 32)\n\n    def forward(self, t):\n        x = self.e(t)\n"
        "        return self.h(self.a(x, x, x, need_weights=False)[0])\n")
    text = (folder / write(folder)).read_text().replace("own_model.py:Model", "attends.py:Mine")
    (folder / "attends.toml").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ct.train("attends.toml", out="s", set={"train.max_steps": 4})
    told = capfd.readouterr().err
    assert told.count("vmap") <= 1 and "performance drop" not in told  # some versions of torch know all of them


def test_models_of_others_beside_built_in_memories(folder):
    """A Transformer of torch.nn and a layer as fla's are, beside delta and softmax: one table, one figure, replicas together."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    shutil.copy(os.path.join(HERE, "foreign_models.py"), folder)
    text = (folder / write(folder)).read_text()
    memories = text.index("[memories.mine]")
    theirs = "".join(f'[memories.{label}]\nname = "python"\nsource = "foreign_models.py:{name}"\n\n'
                     for label, name in (("transformer", "Transformer"), ("fla", "Inside")))
    ours = "".join(f'[memories.{name}]\nname = "{name}"\n\n' for name in ("deltanet", "softmax"))
    (folder / "four.toml").write_text(text[:memories] + theirs + ours + text[text.index("[[grid]]"):])
    ct.run("four.toml", out="s", quiet=True)
    assert ct.train("four.toml", out="s", quiet=True).done == 8
    assert all(r["provenance"]["pack"] == 4 for r in records("s").values())
    labels = {"transformer", "fla", "deltanet", "softmax"}
    frame = ct.read("s")
    assert frame.groupby("label", observed=True).size().to_dict() == dict.fromkeys(labels, 4)
    table = ct.table("final", "s", best="train.learning_rate", metric="test_accuracy")
    assert set(table["label"]) == labels
    figure = ct.plot("accuracy", "s", best="train.learning_rate")
    legends = [legend for legend in (*figure.legends, *(axes.get_legend() for axes in figure.axes)) if legend]
    assert labels <= {text.get_text().lower() for legend in legends for text in legend.get_texts()}


def test_weights_are_kept(folder):
    sets = {"seeds": [1], "train.learning_rate": 1e-3, "train.max_steps": 4, "train.keep_weights": True}
    ct.train(write(folder), set=sets, out="s", quiet=True)
    (id,) = records("s")
    weights = ct.weights("s", id)
    assert weights["embed.weight"].shape == (32, 16)
