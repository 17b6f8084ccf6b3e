#!/usr/bin/env python3
"""Whether docs/apply.md is true: runs its Python example, and holds its table of memories against the program.

    check-apply-page.py SOURCE CROSSTALK

What the table has must be as `crosstalk describe` says; a new memory need not be in it. Needs numpy.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def run_examples(text, crosstalk):
    examples = re.findall(r"```python\n(.*?)```", text, re.S)
    if not examples:
        sys.exit("docs/apply.md has no Python example")
    environment = dict(os.environ, PATH=f"{crosstalk.resolve().parent}{os.pathsep}{os.environ['PATH']}")
    for example in examples:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-c", example], cwd=folder, env=environment, check=True)


def check_table(text, crosstalk):
    """Inputs and states of every row against `describe --json`."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()
            if re.match(r"\| `\w+` \|", line) and line.count("|") == 6]
    if len(rows) < 15:
        sys.exit(f"docs/apply.md lists {len(rows)} memories; its table was lost")
    for name, inputs, _, options, states in rows:
        name = name.strip("`")
        told = subprocess.run([crosstalk, "describe", name, "--json"], check=True, capture_output=True, text=True)
        memory = json.loads(told.stdout)
        further = {i["name"] for i in memory["inputs"]} - {"q", "k", "v", "s0"}
        optional = {i["name"] for i in memory["inputs"] if i["optional"]} - {"s0"}
        written = set(re.findall(r"`(\w+)`", inputs)) - {"k", "v"}
        known = {o["key"].split(".")[-1] for o in memory["options"]}
        problems = []
        if written != further:
            problems.append(f"inputs {sorted(written)}, the program has {sorted(further)}")
        if bool(optional) != ("optional" in inputs):
            problems.append(f"the optional inputs are {sorted(optional)}")
        for given in memory["inputs"]:
            shape = given["shape"].replace("[B,T,H]", ".").replace("[B,T,H,", "[.,")
            if given["name"] in written and f"`{given['name']}` {shape}" not in inputs:
                problems.append(f"{given['name']} has shape {shape}")
        if states != ", ".join(memory["states"]):
            problems.append(f"states {states}, the program has {memory['states']}")
        unknown = set(re.findall(r"`(\w+)`", options)) - known
        if unknown:
            problems.append(f"there are no options {sorted(unknown)}")
        if problems:
            sys.exit(f"docs/apply.md, {name}: " + "; ".join(problems))
    print(f"docs/apply.md: the example runs, {len(rows)} memories are as the program describes them")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    page = (Path(sys.argv[1]) / "docs/apply.md").read_text()
    run_examples(page, Path(sys.argv[2]))
    check_table(page, Path(sys.argv[2]))
