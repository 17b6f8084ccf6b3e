"""Data as people have them, written once as the .npy files that the tasks `tokens` and `file` read.

Sources: .npz, .safetensors, .pt (weights only), .parquet, a dataset that Hugging Face's `datasets` saved, .npy, and folders of such.
Everything in a source has a path, of folders, files and names inside: "train_inputs", "data/train-00000-of-00002/input_ids". Its words
tell split and array.
"""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile
from typing import Any, Iterable, Mapping

import numpy as np

from . import _core, checks
from .forms import Rows, entries
from .studies import _call

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("eval", "validation", "valid", "val", "dev"), "eval"),
    "test": "test",
}
#: What each array of task tokens is called elsewhere.
NAMES = {
    **{name: "inputs" for name in ("inputs", "input", "input_ids", "tokens", "token_ids", "ids")},
    **{name: "labels" for name in ("labels", "label", "targets", "target")},
    **{name: "positions" for name in ("positions", "position")},
    "segment": "segment",
    **{name: "document" for name in ("document", "documents", "document_ids", "doc_ids")},
    **{name: "mask" for name in ("attention_mask", "mask")},
    **{name: "padding" for name in ("padding_mask", "key_padding_mask", "pad_mask")},
    **{name: "lengths" for name in ("lengths", "length", "lens")},
}
#: Arrays of task file; any of the first makes the source one of it.
OF_FILE = ("query", "keys", "second_keys", "x", "y", "asked_x", "asked_y", "query_position", "answer")
FILE_NAMES = (*OF_FILE, "tokens", "position", "target", "values", "operations")
NONE = -100


def _split_and_name(path: str, names: Mapping[str, str]) -> tuple[str | None, str | None]:
    """("train", "input_ids") of data/train-00000-of-00002/input_ids; None: no word tells."""
    words = re.split(r"([/_.\-])", path)
    split = next((i for i in range(0, len(words), 2) if words[i].lower() in SPLITS), None)
    rest = path if split is None else "".join(words[split + 1 :]).lstrip("/_.-")
    last = rest.split("/")[-1]
    for name in (last, re.sub(r"^\d+-of-\d+[/_.\-]?", "", last)):
        if name in names or name.lower() in NAMES or name.lower() in FILE_NAMES:
            return (None if split is None else SPLITS[words[split].lower()]), name if name in names else name.lower()
    return (None if split is None else SPLITS[words[split].lower()]), None


def _joined(a: Any, b: Any, path: str) -> Any:
    """Shards of one array."""
    if isinstance(a, Rows) and isinstance(b, Rows):
        return Rows(np.concatenate([a.numbers, b.numbers]), np.concatenate([a.lengths, b.lengths]))
    if isinstance(a, Rows) or isinstance(b, Rows) or a.shape[1:] != b.shape[1:]:
        raise ValueError(f"{path} says once more what another array says, in another shape; keep one of them")
    return np.concatenate([a, b])


def _whole(what: str, x: Any) -> Any:
    numbers = x.numbers if isinstance(x, Rows) else x
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"{what} holds {numbers.dtype}; ids and answers are whole numbers: save x.astype('int64')")
    if isinstance(x, Rows):
        return Rows(numbers.astype(np.int64), x.lengths)
    return numbers.astype(np.int64)


def _tokens(where: str, given: dict[str, Any], labels: str) -> dict[str, Any]:
    """The arrays of task tokens of one split: padding at the end, and no answers there."""
    if "inputs" not in given:
        raise ValueError(f"{where} has no token ids (inputs, input_ids, tokens); --name COLUMN=inputs says which they are")
    inputs = _whole(f"{where}: inputs", given["inputs"])
    there = np.ones(0, bool)
    if isinstance(inputs, Rows):
        lengths = inputs.lengths
        inputs, there = inputs.filled(0)
    elif inputs.ndim != 2:
        raise ValueError(f"{where}: inputs have the shape {list(inputs.shape)}; expected [N,T], N sequences of T tokens")
    else:
        there, lengths = np.ones(inputs.shape, bool), np.full(len(inputs), inputs.shape[1])
    answers = given.get("labels")
    if "positions" in given:
        if answers is None or labels != "given" or {"mask", "padding", "lengths"} & given.keys() or not there.all():
            raise ValueError(f"{where}: positions go with targets and with sequences of one length, without a mask and with labels='given'")
        if "document" in given:
            raise ValueError(f"{where}: documents are cut where labels stand at tokens, and there are positions; give labels [N,T]")
        return {"tokens": inputs, "positions": given["positions"], "targets": answers, **_segment(given)}
    if "lengths" in given:
        told = np.asarray(given["lengths"]).reshape(-1)
        if told.shape != lengths.shape or (told < 1).any() or (told > inputs.shape[1]).any():
            raise ValueError(f"{where}: lengths must be {len(inputs)} numbers in 1 .. {inputs.shape[1]}, one a sequence")
        there = there & (np.arange(inputs.shape[1]) < told[:, None])
    for name in ("mask", "padding"):
        if name in given:
            mask = given[name].filled(0)[0] if isinstance(given[name], Rows) else np.asarray(given[name])
            if mask.shape != inputs.shape:
                raise ValueError(f"{where}: the mask has the shape {list(mask.shape)}; expected that of the inputs, {list(inputs.shape)}")
            there = there & ((mask != 0) == (name == "mask"))
    if not there.any(axis=1).all():
        row = int(np.argmin(there.any(axis=1)))
        raise ValueError(
            f"{where}: sequence {row} has no token; a mask (attention_mask) is 1 at tokens, a padding_mask 1 at padding: "
            "--name mask=padding_mask turns one around"
        )
    if answers is None:
        if labels != "next":
            raise ValueError(f"{where} has no labels; --labels next makes the token after each token its answer")
        out = inputs.copy()
    elif labels == "next":
        raise ValueError(f"{where} has labels, and --labels next makes others; --leave labels leaves them out")
    else:
        answers = _whole(f"{where}: labels", answers)
        if isinstance(answers, Rows):
            if not np.array_equal(answers.lengths, lengths):
                row = int(np.argmax(answers.lengths != lengths)) if len(answers.lengths) == len(lengths) else 0
                raise ValueError(f"{where}: labels stand beside tokens; sequence {row} has {lengths[row]} tokens and not as many labels")
            answers = answers.filled(NONE)[0]
        if answers.shape != inputs.shape:
            raise ValueError(f"{where}: labels have the shape {list(answers.shape)}; expected that of the inputs, {list(inputs.shape)}")
        out = np.where(there, answers, NONE)
        if labels == "given" and (out >= 0).any() and (out == inputs)[out >= 0].all():
            raise ValueError(
                f"{where}: all labels are the tokens at which they stand, as Hugging Face's models take them; here an answer stands "
                "at the token before: --labels shift moves them"
            )
    number = np.zeros_like(inputs)  # of each token's document
    if "document" in given:
        number = _whole(f"{where}: document", given["document"])
        number = number.filled(0)[0] if isinstance(number, Rows) else number
        if number.shape != inputs.shape:
            raise ValueError(f"{where}: document has the shape {list(number.shape)}; expected that of the inputs, {list(inputs.shape)}")
        number = np.where(there, number, number.max(axis=1, keepdims=True) + 1)  # padding is one of its own
    # Tokens to the front; a memory that goes on past the last label changes nothing.
    order = np.argsort(~there, axis=1, kind="stable")
    there, inputs, out, number = (np.take_along_axis(x, order, axis=1) for x in (there, inputs, out, number))
    if labels != "given":
        goes_on = there[:, 1:] & (number[:, 1:] == number[:, :-1])
        out = np.concatenate([np.where(goes_on, out[:, 1:], NONE), np.full((len(out), 1), NONE)], axis=1)
    documents = {"document": number} if "document" in given else {}
    return {"inputs": np.where(there, inputs, 0), "labels": np.where(there, out, NONE), **documents, **_segment(given)}


def _ours(where: str, part: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by the names of task tokens."""
    ours: dict[str, Any] = {}
    for name, x in part.items():
        if ours.setdefault(NAMES[name], x) is not x:
            raise ValueError(f"{where}: two arrays are the {NAMES[name]}, and {name} is one of them; --leave {name} leaves it out")
    return ours


def _segment(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"segment": given["segment"]} if "segment" in given else {}


def _sorted(source: pathlib.Path, names: Mapping[str, str], leave: Iterable[str]) -> dict[str, dict[str, Any]]:
    """split -> name -> array, of names that `names` and NAMES or FILE_NAMES have."""
    found: dict[str, dict[str, Any]] = {}
    leave, unknown = set(leave), []
    for path, array in entries(source):
        split, name = _split_and_name(path, {**names, **dict.fromkeys(leave, "")})
        if name in leave:
            continue
        if name is None:
            unknown.append(path.lstrip("/"))
            continue
        if split is None:
            raise ValueError(
                f"{source}: {path.lstrip('/')} does not say of which split it is; call it train_..., eval_... or test_..., or its file so"
            )
        part = found.setdefault(split, {})
        name = names.get(name, name)
        if name in part and not re.search(r"\d-of-\d", path):
            raise ValueError(f"{source}: {path.lstrip('/')} says the {name} of {split} once more; keep one of the two")
        part[name] = _joined(part[name], array, path) if name in part else array
    if unknown:
        raise ValueError(
            f"{source}: no task reads {', '.join(unknown[:8])}; --name {unknown[0].split('/')[-1]}=inputs says what it is, --leave "
            f"{unknown[0].split('/')[-1]} leaves it out"
        )
    missing = [split for split in ("train", "eval", "test") if split not in found]
    if missing:
        have = ", ".join(found) or "none"
        raise ValueError(f"{source} has the splits {have}; {' and '.join(missing)} (eval is validation) must be there too")
    return found


def write_arrays(
    source: Any, folder: Any, *, labels: str = "given", names: Mapping[str, str] | None = None, leave: Iterable[str] = ()
) -> str:
    """Writes the .npy files of task `tokens` (or `file`) into a new folder, from data of another form; returns the folder.

    Arrays are known by their names and those of their files: splits train, eval (or validation) and test; inputs (input_ids, tokens),
    labels, attention_mask (1 at tokens), padding_mask (1 at padding), lengths; `names={"prompt": "inputs"}` tells others, `leave=["text"]`
    leaves some out. Sequences of several lengths are filled up at the end, where no answers are. `labels="next"`: the answer at each
    token is the next one; `"shift"`: labels repeat the tokens, as Hugging Face's models take them. What is written was read by the task.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> ids = np.arange(24).reshape(4, 6)
    >>> np.savez(os.path.join(folder, "all.npz"), **{f"{split}_input_ids": ids for split in ("train", "validation", "test")})
    >>> written = ct.write_arrays(os.path.join(folder, "all.npz"), os.path.join(folder, "tokens"), labels="next")
    >>> ct.task("tokens", folder=written).shape("train")
    Shape(T=6, C=1, Q=5)
    """
    if labels not in ("given", "next", "shift"):
        raise ValueError(f"labels {labels!r}; there are given, next and shift")
    place, target = pathlib.Path(checks.path(source)), pathlib.Path(checks.path(folder))
    if not place.exists():
        raise FileNotFoundError(f"{place}: there is no such file or folder")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} is there already; name a new folder")
    leave = [leave] if isinstance(leave, str) else list(leave)
    known = {name: (value if value in FILE_NAMES else NAMES.get(value.lower(), value)) for name, value in (names or {}).items()}
    for name, value in known.items():
        if value not in NAMES.values() and value not in FILE_NAMES:
            ours = ", ".join(dict.fromkeys(NAMES.values()))
            raise ValueError(f"{name} cannot be {value}; there are {ours} (of task file {', '.join(FILE_NAMES)})")
    found = _sorted(place, known, leave)
    task = "file" if any(name in OF_FILE for part in found.values() for name in part) else "tokens"
    at = next(above for above in target.absolute().parents if above.is_dir())
    made = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=at))
    try:
        for split, part in found.items():
            if task == "tokens":
                part = _tokens(f"{place}: {split}", _ours(f"{place}: {split}", part), labels)
            for name, x in part.items():
                if isinstance(x, Rows):
                    raise ValueError(f"{place}: {name} of {split} has rows of several lengths; task file needs one")
                small = x.dtype.kind in "iu" and x.size and -(1 << 31) <= x.min() and x.max() < 1 << 31
                np.save(made / f"{split}_{name}.npy", np.ascontiguousarray(x, np.int32 if small else None))
        try:
            _call(["sample", task, "--split", "train", "-n", "1", "--set", f"task.folder={made}"])
        except ValueError as error:
            raise _core.OptionError(str(error).replace(str(made), str(target))) from None
        target.parent.mkdir(parents=True, exist_ok=True)
        made.chmod(0o755)
        os.replace(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return str(target)


def main(words: list[str]) -> int:
    """`python -m crosstalk arrays SOURCE FOLDER`."""
    parser = argparse.ArgumentParser(
        prog="python -m crosstalk arrays",
        description="Writes the .npy files of task tokens (or file) into FOLDER, from .npz, .safetensors, .pt, .parquet, a dataset that "
        "save_to_disk wrote, or a folder of such. docs/own_data.md says more.",
    )
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("folder", metavar="FOLDER", help="a new one, for task.folder")
    parser.add_argument("--labels", choices=("given", "next", "shift"), default="given",
                        help="next: the token after each token is its answer; shift: labels repeat the tokens, each is moved one earlier")  # fmt: skip
    parser.add_argument("--name", action="append", default=[], metavar="THEIRS=OURS", help="what an array is, such as prompt=inputs")
    parser.add_argument("--leave", action="append", default=[], metavar="NAME", help="an array that is left out")
    given = parser.parse_args(words)
    try:
        names = dict(word.split("=", 1) if "=" in word else (word, "") for word in given.name)
        print(write_arrays(given.source, given.folder, labels=given.labels, names=names, leave=given.leave))
    except (OSError, ValueError, ImportError) as error:
        print(f"crosstalk: error: {error}", file=sys.stderr)
        return 2
    return 0
