"""Tasks: the sequences of the program, wherever and however they are drawn."""
# SPDX-License-Identifier: Apache-2.0
import os
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest

import crosstalk as ct
from conftest import call

MQAR = {"length": 64, "pairs": 8}


@pytest.mark.parametrize("name, options", [
    ("mqar", MQAR),
    ("mqar", {"length": 128, "pairs": 16, "vocabulary": 512}),
    ("words", {}),
    ("induction", {}),
    ("swap", {"layout": "tag"}),
    ("reassign", {"layout": "split"}),
])
def test_batches_are_the_sequences_of_sample(name, options, tmp_path):
    task = ct.task(name, **options)
    for split in ("train", "eval", "test"):
        sets = [w for n, value in options.items() for w in ("--set", f"task.{n}={value}")]
        call("sample", name, "-n", 40, "--seed", 3, "--split", split, "--out", tmp_path / split, *sets)
        tokens, positions, targets = (np.load(tmp_path / split / f"{n}.npy") for n in ("tokens", "positions", "targets"))
        stream = task.batches(split, batch=20, seed=3)
        for i in range(2):
            batch, rows = next(stream), slice(20 * i, 20 * i + 20)
            assert batch.tokens.dtype == np.int32 and batch.first == 20 * i
            np.testing.assert_array_equal(batch.tokens, tokens[rows])
            used = batch.target >= 0
            np.testing.assert_array_equal(batch.target, targets[rows])
            np.testing.assert_array_equal((batch.position - 1)[used], positions[rows][used])


def test_fused_tasks_have_channels(tmp_path):
    task = ct.task("recall", associations=10)
    call("sample", "recall", "-n", 8, "--seed", 1, "--set", "task.associations=10", "--out", tmp_path / "s")
    batch = next(task.batches("train", batch=8, seed=1))
    assert batch.tokens.shape == (8, 10, 2)
    np.testing.assert_array_equal(batch.tokens[..., 0], np.load(tmp_path / "s" / "keys.npy"))
    np.testing.assert_array_equal(batch.tokens[..., 1], np.load(tmp_path / "s" / "values.npy"))
    np.testing.assert_array_equal(batch.query, np.load(tmp_path / "s" / "query.npy"))
    with pytest.raises(ValueError, match="single tokens"):
        batch.labels


@pytest.mark.parametrize("name", ct.tasks())
def test_every_task_draws_the_same_with_more_threads_and_as_replicas(name):
    if name in ("file", "tokens", "text"):
        pytest.skip("its sequences come from files")
    task = ct.task(name)
    one = next(task.batches("train", 16, seed=5)).copy()
    two = next(task.batches("train", 16, seed=5, threads=2))
    three = next(task.batches("train", 16, seed=[4, 5, 6]))
    for field in ("tokens", "query", "position", "target"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field))
        np.testing.assert_array_equal(getattr(one, field), getattr(three, field)[1])
    assert three.tokens.shape == (3, *one.tokens.shape)
    assert not np.array_equal(three.tokens[0], three.tokens[1])


def test_labels_stand_where_answers_are_due():
    batch = next(ct.task("mqar", **MQAR).batches("eval", 8))
    labels = batch.labels
    assert labels.dtype == np.int64 and (labels >= 0).sum() == (batch.target >= 0).sum()
    for b in range(8):
        for position, target in zip(batch.position[b], batch.target[b]):
            if target >= 0:
                assert labels[b, position - 1] == target
    several = next(ct.task("mqar", **MQAR).batches("eval", 8, seed=[1, 2]))
    np.testing.assert_array_equal(several.labels[0], labels)


def test_a_dataset_is_one_of_zoology():
    inputs, labels = ct.task("mqar", **MQAR).dataset(50, split="test", seed=1)
    assert inputs.shape == labels.shape == (50, 64) and inputs.dtype == labels.dtype == np.int64
    assert ((labels >= 0).sum(1) == 8).all()


def test_the_ring_and_copies():
    stream = ct.task("mqar", **MQAR).batches(batch=4, buffers=2)
    first = next(stream)
    kept, seen = first.copy(), first.tokens.copy()
    second, third = next(stream), next(stream)
    assert third.tokens is first.tokens and second.tokens is not first.tokens
    assert not np.array_equal(first.tokens, seen)
    np.testing.assert_array_equal(kept.tokens, seen)


def test_a_mixture_gives_its_segments_in_the_order_of_training():
    task = ct.task("mqar", segments="64:4:40 128:8:20")
    parts = task.segments("train")
    assert list(parts) and all(isinstance(part, ct.Task) for part in parts.values())
    stream = task.batches("train", batch=20)
    seen = [(batch.segment, batch.tokens.shape[1], batch.first) for batch, _ in zip(stream, range(6))]
    assert [s[1] for s in seen] == [64, 64, 128] * 2
    assert [s[2] for s in seen] == [0, 20, 0, 40, 60, 20]
    assert {s[0] for s in seen} == set(parts)


def test_options_are_checked():
    with pytest.raises(ct.OptionError, match="mqar has no option vocabulry; did you mean vocabulary"):
        ct.task("mqar", vocabulry=10)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ct.OptionError, match="mqar has no option num_kv_pairs; did you mean pairs"):
        ct.task("mqar", num_kv_pairs=8)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ct.OptionError):
        ct.task("mqar", length=64, pairs=40)
    with pytest.raises(TypeError, match="an option is a bool, an int, a float or a str"):
        ct.task("mqar", length=[64])
    with pytest.raises(ValueError, match="unknown task"):
        ct.task("mqarr")
    with pytest.raises(ValueError, match="split"):
        ct.task("mqar").batches("validation")
    wrong: dict[str, Any]
    for wrong in ({"batch": 0}, {"buffers": 0}, {"seed": []}, {"seed": -1}, {"first": -1}):
        with pytest.raises(ValueError):
            ct.task("mqar").batches(**wrong)


def test_arrays_of_another_kind_are_refused_and_not_converted():
    core: Any = ct.task("mqar", **MQAR)._core
    T, C, Q = core.shape("train")
    rest = [np.empty((1, 2, Q), np.int32) for _ in range(3)]
    good = np.empty((1, 2, T, C), np.int32)
    core.draw("train", [1], 0, 0, 1, good, *rest)
    for bad in (good.astype(np.int64), np.empty((1, 2, T, 2), np.int32)[..., :1], np.empty((1, 2, T + 1, C), np.int32),
                np.empty((2, 2, T, C), np.int32), good.astype(np.float32)):
        with pytest.raises((TypeError, ValueError)):
            core.draw("train", [1], 0, 0, 1, bad, *rest)
    for i in range(3):
        spoilt = [r.astype(np.int64) if j == i else r for j, r in enumerate(rest)]
        with pytest.raises(TypeError):
            core.draw("train", [1], 0, 0, 1, good, *spoilt)


def test_threads_of_python_draw_at_the_same_time():
    task, ticks, stop = ct.task("mqar", **MQAR), [0], threading.Event()
    results: list[Any] = [None] * 4

    def count():
        while not stop.wait(0.001):
            ticks[0] += 1

    def draw(i):
        results[i] = next(task.batches("train", 4000, seed=7)).tokens

    counter = threading.Thread(target=count)
    counter.start()
    others = [threading.Thread(target=draw, args=(i,)) for i in range(4)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    stop.set()
    counter.join()
    assert all(np.array_equal(r, results[0]) for r in results)
    assert ticks[0] > 3  # the interpreter was not held


def test_a_forked_child_uses_one_thread():
    task = ct.task("mqar", **MQAR)
    first = next(task.batches("train", 64, threads=2)).tokens.copy()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        same = np.array_equal(next(task.batches("train", 64, threads=2)).tokens, first)
        os._exit(0 if same else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_an_interrupt_comes_between_batches():
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in ct.task("mqar", **MQAR).batches(batch=16):
            pass


def test_text_and_baselines():
    task = ct.task("mqar", **MQAR)
    assert task.text(1) == call("sample", "mqar", "-n", 1, "--set", "task.length=64", "--set", "task.pairs=8")
    assert 0 < task.baselines()["chance_accuracy"] < 0.01
    assert task.vocabulary.tokens == 8192 and task.shape("train") == (64, 1, 8)
