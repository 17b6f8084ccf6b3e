#!/usr/bin/env python3
"""Whether README.md and the pages of docs/ are true: runs their commands and Python examples in order, in an empty folder.

    check-readme.py SOURCE CROSSTALK             README's commands and examples
    check-readme.py --page PAGE SOURCE CROSSTALK those of a page; of all of its blocks of sh, python and toml

The commands stand as they do on the page, but every run is cut to some steps. README's first block, which sets the project
up, is replaced by what scripts/quickstart.sh --print says that it runs. A block after `<!-- file: NAME -->` becomes that
file; one after `<!-- not run: WHY -->` is left out, and why is printed. Exit code 77: all else passed, but a Python
package is missing, and it is said which.
"""
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = "train.max_steps=60 eval.every=20".split()
SKIPPED = 77
SET_UP = "bash scripts/quickstart.sh"


def blocks(text):
    """(language, name of the file that it is, why it is not run, content) of every fenced block."""
    pattern = r"(?:^<!-- (file|not run): ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```"
    return [(m[3], m[2] if m[1] == "file" else "", m[2] if m[1] == "not run" else "", m[4])
            for m in re.finditer(pattern, text, re.S | re.M)]


def missing_packages(code):
    imported = re.findall(r"^(?:import|from) ([\w, ]+)", code, re.M)
    names = {name.strip().split()[0] for line in imported for name in line.split(" import ")[0].split(",")}
    return sorted(name for name in names if importlib.util.find_spec(name) is None)


class Folder:
    """Where the commands run: studies and published results are there, and `crosstalk` trains some steps only."""

    def __init__(self, path, source, crosstalk):
        self.path, self.crosstalk = path, crosstalk
        for name in ("experiments", "results", "docs"):
            (path / name).symlink_to(source / name)
        shim = path / ".bin" / "crosstalk"
        shim.parent.mkdir()
        sets = " ".join(f"--set {step}" for step in STEPS)
        # What reads a study must mean the same, shortened runs.
        shim.write_text(f'#!/bin/sh\ncase "$1:$*" in\n  *probe*) ;;\n'  # learns nothing
                        f'  run:*.toml*|report:*.toml*|plot:*.toml*|table:*.toml*|export:*.toml*)\n'
                        f'    exec "{crosstalk}" "$@" {sets} ;;\nesac\nexec "{crosstalk}" "$@"\n')
        shim.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
        self.environment.setdefault("CROSSTALK_PYTHON", sys.executable)

    def run(self, command, what):
        start = time.monotonic()
        done = subprocess.run(command, cwd=self.path, env=self.environment, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"this ended with {done.returncode}:\n{what}\n{done.stdout}")
        print(f"{time.monotonic() - start:5.1f} s  {what.splitlines()[0]}", flush=True)
        return done.stdout

    def shell(self, text):
        return self.run(["bash", "-euo", "pipefail", "-c", text], text.strip())


def set_up_commands(source):
    printed = subprocess.run(["bash", source / "scripts" / "quickstart.sh", "--print"], check=True, text=True,
                             capture_output=True).stdout
    commands = re.findall(r"^build/\w+/(crosstalk (?:run|plot) .*)$", printed, re.M)
    if len(commands) != 2:
        sys.exit(f"scripts/quickstart.sh --print names {len(commands)} commands of crosstalk, not two:\n{printed}")
    return commands


def run_page(folder, source, page):
    """Runs the blocks of a page; the packages that are missing, and how many blocks there are of each language."""
    skipped = []
    ran = {"sh": 0, "python": 0, "toml": 0, "not run": 0}
    for language, name, not_run, text in blocks((source / page).read_text()):
        if not_run:
            print(f"  not run ({not_run}): {text.splitlines()[0]}")
            ran["not run"] += 1
            continue
        ran[language] = ran.get(language, 0) + 1
        if language == "sh" and SET_UP in text:
            for command in set_up_commands(source):
                folder.shell(command)
        elif language == "sh":
            for command in re.sub(r"\\\n", " ", text).strip().splitlines():
                folder.shell(command)
        elif language == "python" and name:
            (folder.path / name).write_text(text)
        elif language == "python":
            missing = missing_packages(text)
            if missing:
                skipped += missing
            else:
                folder.run([sys.executable, "-c", text], text)
        elif language == "toml":
            if not name:
                sys.exit(f"{page}: which file is this?\n{text}")
            (folder.path / name).write_text(text)
    return skipped, ran


def check_page(page):
    def check(folder, source):
        skipped, ran = run_page(folder, source, page)
        if sum(ran[language] for language in ("sh", "python", "not run")) < 1:
            sys.exit(f"{page} has nothing to run: its blocks were lost, or it does not belong here")
        return skipped
    return check


def check_readme(folder, source):
    skipped, ran = run_page(folder, source, "README.md")
    for language, least in {"sh": 3, "toml": 1}.items():
        if ran[language] < least:
            sys.exit(f"README.md has {ran[language]} blocks of {language}: they were lost")
    for made in ("figures/tracking.csv", "tracking.tex", "runs.csv", "report.html", "mine.html"):
        if (folder.path / made).stat().st_size == 0:
            sys.exit(f"README.md: {made} is empty")
    return skipped


def main():
    arguments = sys.argv[1:]
    check = check_readme
    if arguments[:1] == ["--page"]:
        check, arguments = check_page(arguments[1]), arguments[2:]
    if len(arguments) != 2:
        sys.exit(__doc__)
    source, crosstalk = (Path(argument).resolve() for argument in arguments)
    path = Path(tempfile.mkdtemp(prefix="crosstalk readme "))
    try:
        skipped = check(Folder(path, source, crosstalk), source)
    finally:
        shutil.rmtree(path)
    if skipped:
        print(f"skipped: this Python has no {', '.join(skipped)}")
        sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
