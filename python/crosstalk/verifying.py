"""Trains records of PyTorch models again and compares, as `crosstalk verify` does for built-in memories."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import Any

from . import _core
from .sources import load
from .training import Session


def verify(store: Any, n: int = 4, *, device: Any = "cpu", quiet: bool = False) -> bool:
    """Whether the first `n` records by id (which are hashes: a sample) come out again: equal to the bit, or within 5 % or 0.01 of
    the loss, as between devices. The model's text is that beside the record, else that of its source."""
    lines = [(json.loads(line), line) for line in _core.foreign_records(str(store))]
    chosen = [(record, line) for record, line in lines if record["status"] != "failed"][:n]
    fine = True
    for record, line in chosen:
        result = _verified(pathlib.Path(store), record, line, device)
        fine &= result != "DIFFERS"
        if not quiet:
            print(f"{record['id'][:11]} {record['label']} seed {record['seed']}: {result}")
    if not quiet:
        print(f"{len(chosen)} of {len(lines)} records of PyTorch models trained again")
    return fine


def _verified(store: pathlib.Path, record: dict[str, Any], line: str, device: Any) -> str:
    config = record["config"]
    run = {
        "id": record["id"], "label": record["label"], "labels": [record["label"]], "seed": record["seed"],
        "config": config, "keep_weights": False,
    }  # fmt: skip
    facts = {"name": record["study"], "title": "", "text": "", "labels": [(record["label"], "")], "runs": [run]}
    kept = store / "python" / f"{config['memory.digest']}.py"
    with tempfile.TemporaryDirectory() as folder:
        session = Session(facts, {}, os.path.join(folder, "again"), device, 1, True)
        if not config["memory.source"]:
            name = (kept.with_suffix(".name")).read_text(encoding="utf-8").strip()
            session.makers[record["id"]] = load(f"{kept}:{name}", "")
        else:
            _check_text(config)
        session.train()
        lines = _core.foreign_records(os.path.join(folder, "again"))
    if not lines:
        return "DIFFERS"
    again = json.loads(lines[0])
    if _core.same_records(line, lines[0]):
        return "identical"
    a, b = record["eval_loss"], again["eval_loss"]
    if record["status"] != again["status"] or a is None or b is None:
        return "DIFFERS"
    near = abs(a - b) <= max(0.05 * max(abs(a), abs(b)), 0.01)
    return "within tolerance" if near else "DIFFERS"


def _check_text(config: dict[str, Any]) -> None:
    """The files of the source hold what they held."""
    path, _, name = config["memory.source"].rpartition(":")
    texts = [pathlib.Path(p).read_bytes().decode("utf-8", "surrogateescape") for p in (path, *config["memory.files"].split())]
    if _core.source_digest([*texts, name]) != config["memory.digest"]:
        raise _core.ConfigError(f"{path} holds another text than when the record was made (memory.digest)")
