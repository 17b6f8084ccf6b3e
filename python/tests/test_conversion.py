"""ct.write_arrays: the same sequences from every form, padding, and the remedy of each wrong one."""
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import crosstalk as ct
from conftest import call

N, T = 6, 8
IDS = np.random.default_rng(0).integers(1, 20, size=(N, T))
ANSWERS = np.where(np.random.default_rng(1).uniform(size=(N, T)) < 0.5, np.random.default_rng(2).integers(1, 20, size=(N, T)), -100)
LENGTHS = np.array([8, 5, 3, 8, 2, 7])
THERE = np.arange(T) < LENGTHS[:, None]
SPLITS = ("train", "eval", "test")


def write(source, folder, **options):
    """The arrays that are written, by the names of their files."""
    assert ct.write_arrays(source, folder, **options) == str(folder)
    return {path.name: np.load(path) for path in sorted(folder.glob("*.npy"))}


def splits(**arrays):
    return {f"{split}_{name}": x for split in SPLITS for name, x in arrays.items()}


def same(found, inputs, labels):
    assert sorted(found) == sorted(f"{split}_{name}.npy" for split in SPLITS for name in ("inputs", "labels"))
    for split in SPLITS:
        np.testing.assert_array_equal(found[f"{split}_inputs.npy"], inputs)
        np.testing.assert_array_equal(found[f"{split}_labels.npy"], labels)


def as_npz(folder):
    np.savez(folder / "data.npz", **splits(inputs=IDS, labels=ANSWERS))
    return folder / "data.npz"


def as_npz_compressed(folder):
    for split in SPLITS:
        np.savez_compressed(folder / f"{split}.npz", input_ids=np.asfortranarray(IDS), targets=ANSWERS)
    return folder


def as_safetensors(folder):
    package = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    for split, name in zip(SPLITS, ("train", "validation", "test")):
        package.save_file({"tokens": IDS, "labels": ANSWERS}, folder / f"{name}.safetensors")
    return folder


def as_pt(folder):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save({split: {"input_ids": torch.tensor(IDS), "labels": list(torch.tensor(ANSWERS))} for split in SPLITS}, folder / "all.pt")
    return folder / "all.pt"


def as_single_pts(folder):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for split in SPLITS:
        (folder / split).mkdir()
        torch.save(torch.tensor(IDS), folder / split / "inputs.pt")
        np.save(folder / split / "labels.npy", ANSWERS)
    return folder


def as_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet

    (folder / "data").mkdir()
    for split in ("train", "validation", "test"):
        for shard in range(2):
            rows = slice(3 * shard, 3 * shard + 3)
            table = pyarrow.table({"input_ids": IDS[rows].tolist(), "labels": ANSWERS[rows].tolist()})
            pyarrow.parquet.write_table(table, folder / "data" / f"{split}-0000{shard}-of-00002.parquet")
    return folder


def as_dataset(folder):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    part = datasets.Dataset.from_dict({"input_ids": IDS.tolist(), "labels": ANSWERS.tolist()})
    datasets.DatasetDict({"train": part, "validation": part, "test": part}).save_to_disk(str(folder / "saved"))
    return folder / "saved"


FORMS = [as_npz, as_npz_compressed, as_safetensors, as_pt, as_single_pts, as_parquet, as_dataset]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_arrays(form, tmp_path):
    (tmp_path / "source").mkdir()
    same(write(form(tmp_path / "source"), tmp_path / "new" / "folder"), IDS, ANSWERS)
    assert ct.task("tokens", folder=str(tmp_path / "new" / "folder")).shape("train").T == T


def test_the_task_of_keys_and_values(tmp_path):
    arrays = {"tokens": np.stack([IDS, IDS], 2), "query": IDS, "position": np.tile(np.arange(1, T + 1), (N, 1)), "target": np.maximum(ANSWERS, -1)}
    np.savez(tmp_path / "data.npz", **splits(**arrays))
    ct.write_arrays(tmp_path / "data.npz", tmp_path / "folder")
    assert ct.task("file", folder=str(tmp_path / "folder")).shape("train") == (T, 2, T)


def ragged(x):
    return [list(map(int, row[:n])) for row, n in zip(x, LENGTHS)]


def padded(how):
    """Arrays of sequences of several lengths, filled up at the end or at the beginning."""
    filled = {"inputs": np.where(THERE, IDS, 7), "labels": np.where(THERE, ANSWERS, 3)}
    if how == "lengths":
        return {**filled, "lengths": LENGTHS}
    if how == "attention_mask":
        return {**filled, "attention_mask": THERE.astype(np.int64)}
    if how == "padding_mask":
        return {**filled, "padding_mask": ~THERE}
    left = {n: np.stack([np.roll(row, T - k) for row, k in zip(x, LENGTHS)]) for n, x in filled.items()}
    return {**left, "attention_mask": THERE[:, ::-1]}


@pytest.mark.parametrize("how", ["lengths", "attention_mask", "padding_mask", "at the left", "rows"])
def test_padding_is_no_answer(how, tmp_path):
    if how == "rows":
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        import pyarrow.parquet

        for split in SPLITS:
            table = pyarrow.table({"input_ids": ragged(IDS), "labels": ragged(ANSWERS)})
            pyarrow.parquet.write_table(table, tmp_path / f"{split}.parquet")
        source = tmp_path
    else:
        np.savez(tmp_path / "data.npz", **splits(**padded(how)))
        source = tmp_path / "data.npz"
    same(write(source, tmp_path / "folder"), np.where(THERE, IDS, 0), np.where(THERE, ANSWERS, -100))


@pytest.mark.parametrize("labels", ["next", "shift"])
def test_answers_are_the_next_tokens(labels, tmp_path):
    arrays: dict[str, Any] = {"inputs": IDS, "lengths": LENGTHS}
    if labels == "shift":
        arrays["labels"] = np.where(THERE, IDS, -100)
    np.savez(tmp_path / "data.npz", **splits(**arrays))
    following = np.full((N, T), -100)
    following[:, :-1] = np.where(THERE[:, 1:], IDS[:, 1:], -100)
    same(write(tmp_path / "data.npz", tmp_path / "folder", labels=labels), np.where(THERE, IDS, 0), following)


WRONG = [
    ({"labels": ANSWERS}, {}, "train has no token ids .* --name COLUMN=inputs"),
    ({"inputs": IDS}, {}, "train has no labels; --labels next"),
    ({"inputs": IDS, "labels": ANSWERS}, {"labels": "next"}, "train has labels, and --labels next makes others; --leave labels"),
    ({"inputs": IDS, "labels": IDS}, {}, "labels are the tokens at which they stand.*--labels shift"),
    ({"inputs": IDS, "labels": ANSWERS, "text": IDS}, {}, "no task reads train_text.*--name train_text=inputs.*--leave train_text"),
    ({"inputs": IDS, "tokens": IDS, "labels": ANSWERS}, {}, "two arrays are the inputs"),
    ({"inputs": IDS * 1.0, "labels": ANSWERS}, {}, "inputs holds float64; ids and answers are whole numbers"),
    ({"inputs": IDS, "labels": ANSWERS, "padding_mask": np.ones((N, T), bool)}, {}, "sequence 0 has no token; a mask"),
    ({"inputs": IDS, "labels": ANSWERS, "attention_mask": THERE[:, 1:]}, {}, "mask has the shape \\[6, 7\\]; expected .* \\[6, 8\\]"),
    ({"inputs": IDS, "labels": ANSWERS, "lengths": LENGTHS[:3]}, {}, "lengths must be 6 numbers in 1 .. 8"),
    ({"inputs": IDS[:, :4], "labels": ANSWERS}, {}, "labels have the shape \\[6, 8\\]; expected that of the inputs, \\[6, 4\\]"),
    ({"inputs": IDS - 5, "labels": ANSWERS}, {}, "train_inputs.npy: holds -\\d+ at .*a token must lie in 0"),
    ({"inputs": IDS, "labels": ANSWERS}, {"names": {"inputs": "keyz"}}, "inputs cannot be keyz; there are inputs, labels"),
]


@pytest.mark.parametrize("arrays, options, why", WRONG)
def test_what_is_wrong_is_said_and_nothing_is_written(arrays, options, why, tmp_path):
    np.savez(tmp_path / "data.npz", **splits(**arrays))
    with pytest.raises(ValueError, match=why) as told:
        ct.write_arrays(tmp_path / "data.npz", tmp_path / "new" / "folder", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"] and "/." not in str(told.value)


def test_sources_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file or folder"):
        ct.write_arrays(tmp_path / "no.npz", tmp_path / "folder")
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"a.csv is none of .npz, .safetensors, .pt"):
        ct.write_arrays(tmp_path / "a.csv", tmp_path / "folder")
    np.savez(tmp_path / "data.npz", train_inputs=IDS, train_labels=ANSWERS)
    with pytest.raises(ValueError, match=r"has the splits train; eval and test \(eval is validation\)"):
        ct.write_arrays(tmp_path / "data.npz", tmp_path / "folder")
    np.savez(tmp_path / "data.npz", inputs=IDS)
    with pytest.raises(ValueError, match="inputs does not say of which split it is"):
        ct.write_arrays(tmp_path / "data.npz", tmp_path / "folder")
    with pytest.raises(FileExistsError, match="name a new folder"):
        ct.write_arrays(tmp_path / "data.npz", tmp_path)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.save({"train": np.array, "x": subprocess.run}, tmp_path / "code.pt")
    with pytest.raises(ValueError, match="code.pt holds more than tensors, dicts and lists"):
        ct.write_arrays(tmp_path / "code.pt", tmp_path / "folder")


def test_the_program_names_the_command(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    as_npz_compressed(source)
    for given in (source, source / "train.npz"):
        with pytest.raises(ct.OptionError, match=r"(eval|train).npz is brought into .npy files .*python -m crosstalk arrays \S+ NEW_FOLDER"):
            ct.task("tokens", folder=str(given))
    with pytest.raises(ct.OptionError, match="python -m crosstalk arrays"):
        ct.task("file", folder=str(source))
    words = [sys.executable, "-m", "crosstalk", "arrays", str(source), str(tmp_path / "new")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'new'}\n"
    assert call("sample", "tokens", "-n", "1", "--set", f"task.folder={tmp_path / 'new'}")
    again = subprocess.run(words, capture_output=True, text=True)
    assert again.returncode == 2 and "is there already; name a new folder" in again.stderr


def test_fortran_order_is_read_as_it_is(tmp_path):
    for folder, order in (("c", np.ascontiguousarray), ("fortran", np.asfortranarray)):
        (tmp_path / folder).mkdir()
        for name, x in splits(inputs=IDS.astype(np.int16), labels=ANSWERS.astype(np.int16)).items():
            np.save(tmp_path / folder / f"{name}.npy", order(x))
    assert b"'fortran_order': True" in (tmp_path / "fortran/train_inputs.npy").read_bytes()
    a, b = (ct.task("tokens", folder=str(tmp_path / folder)).dataset(N) for folder in ("c", "fortran"))
    for x, y in zip(a, b):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("labels", ["next", "shift"])
def test_a_document_has_no_answer_in_the_next_one(labels, tmp_path):
    number = np.array([[4, 4, 4, 0, 0, 9, 9, 9]] * N)
    source = splits(input_ids=IDS, document_ids=number, attention_mask=THERE.astype(int), **({"labels": IDS} if labels == "shift" else {}))
    np.savez(tmp_path / "data.npz", **source)
    found = write(tmp_path / "data.npz", tmp_path / "out", labels=labels)
    last = np.concatenate([number[:, 1:] != number[:, :-1], np.ones((N, 1), bool)], axis=1)
    follows = np.concatenate([THERE[:, 1:], np.zeros((N, 1), bool)], axis=1)
    next_one = np.concatenate([IDS[:, 1:], IDS[:, :1]], axis=1)
    np.testing.assert_array_equal(found["train_labels.npy"], np.where(THERE & follows & ~last, next_one, -100))
    np.testing.assert_array_equal(found["train_document.npy"], np.where(THERE, number, 10))
    task = ct.task("tokens", folder=str(tmp_path / "out"), order="file")
    assert task.shape("train").T == 3
    batch = next(iter(task.batches("train", 8)))
    np.testing.assert_array_equal(batch.tokens[:3], [IDS[0, :3], [*IDS[0, 3:5], 0], IDS[0, 5:]])
    with pytest.raises(ValueError, match="document has the shape"):
        np.savez(tmp_path / "wrong.npz", **splits(inputs=IDS, labels=ANSWERS, document=number[:, 1:]))
        write(tmp_path / "wrong.npz", tmp_path / "wrong")
