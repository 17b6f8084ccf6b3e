"""Trains records of PyTorch models again and compares, as `crosstalk verify` does for built-in memories."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any, Sequence

from . import _core
from .sources import load
from .training import How, Session


def verify(store: Any, n: int = 4, *, device: Any = "cpu", quiet: bool = False) -> bool:
    """Whether the first `n` records by id (which are hashes: a sample) come out again: equal to the bit, or within 5 % or 0.01 of
    the loss, as between devices. The model's text is that beside the record, else that of its source."""
    lines = [(json.loads(line), line) for line in _core.foreign_records(str(store))]
    chosen = [(record, line) for record, line in lines if record["status"] != "failed"][:n]
    fine = True
    for record, line in chosen:
        result = _compared(record, line, again(pathlib.Path(store), record, device))
        fine &= result != "DIFFERS"
        if not quiet:
            print(f"{record['id'][:11]} {record['label']} seed {record['seed']}: {result}")
    if not quiet:
        print(f"{len(chosen)} of {len(lines)} records of PyTorch models trained again")
    return fine


def verify_for_program(store: str, only: Sequence[str], device: Any) -> None:
    """Prints for `crosstalk verify`, which compares, a line for each of these records: the record that training gives again, or
    {"id", "problem"}."""
    for line in _core.foreign_records(store):
        record = json.loads(line)
        if record["id"] not in only:
            continue
        try:
            told = again(pathlib.Path(store), record, device) or "no record came of it"
        except Exception as error:  # whatever the model raises
            told = f"{type(error).__name__}: {error}"
        print(told if told.startswith("{") else json.dumps({"id": record["id"], "problem": told}), flush=True)


def again(store: pathlib.Path, record: dict[str, Any], device: Any) -> str:
    """The line of the record that training gives again; "" where it gives none."""
    config = record["config"]
    run = {
        "id": record["id"], "label": record["label"], "labels": [record["label"]], "seed": record["seed"],
        "config": config, "keep_weights": False, "study": record["study"],
    }  # fmt: skip
    kept = store / "python" / f"{config['memory.digest']}.py"
    with tempfile.TemporaryDirectory() as folder:
        facts = {"name": record["study"], "labels": [], "runs": [run], "notes": ""}
        session = Session(facts, None, os.path.join(folder, "again"), How(device, 1, True), None)
        if not config["memory.source"]:
            name = (kept.with_suffix(".name")).read_text(encoding="utf-8").strip()
            _check_text({**config, "memory.source": f"{kept}:{name}"})
            session.makers[record["id"]] = load(f"{kept}:{name}", "")
        else:
            _check_text(config)
        session.train()
        return (_core.foreign_records(os.path.join(folder, "again")) or [""])[0]


def _compared(record: dict[str, Any], line: str, found: str) -> str:
    if not found:
        return "DIFFERS"
    if _core.same_records(line, found):
        return "identical"
    second = json.loads(found)
    a, b = record["eval_loss"], second["eval_loss"]
    if record["status"] != second["status"] or a is None or b is None:
        return "DIFFERS"
    near = abs(a - b) <= max(0.05 * max(abs(a), abs(b)), 0.01)
    return "within tolerance" if near else "DIFFERS"


def _check_text(config: dict[str, Any]) -> None:
    """The files of the source hold what they held."""
    path, _, name = config["memory.source"].rpartition(":")
    texts = [pathlib.Path(p).read_bytes().decode("utf-8", "surrogateescape") for p in (path, *config["memory.files"].split())]
    if _core.source_digest([*texts, name]) != config["memory.digest"]:
        raise _core.ConfigError(f"{path} holds another text than when the record was made (memory.digest)")
