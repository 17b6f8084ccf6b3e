#!/usr/bin/env python3
"""Whether README.md and the pages of docs/ are true: runs their commands and Python examples in order, in an empty folder.

    check-readme.py SOURCE CROSSTALK             README's commands and examples
    check-readme.py --page PAGE SOURCE CROSSTALK those of a page; of all of its blocks of sh, python and toml
    check-readme.py --published SOURCE CROSSTALK results/published/README.md: its studies can be planned with what is set there,
                                                 and its figures of exports have the numbers that lie beside it
    check-readme.py --named SOURCE CROSSTALK     every command that a page names: there is such a command with such options, and
                                                 what `describe`, `help` and `list` are asked is known

The commands stand as they do on the page, but every run is cut to some steps. README's first block, which sets the project
up, is replaced by what scripts/quickstart.sh --print says that it runs. A block after `<!-- file: NAME -->` becomes that
file; one after `<!-- not run: WHY -->` is left out, and why is printed. Exit code 77: all else passed, but a Python
package is missing, and it is said which.
"""
# SPDX-License-Identifier: Apache-2.0
import csv
import importlib.util
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEPS = "train.max_steps=60 eval.every=20 train.epochs=0".split()
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
        self.linked = [source / name for name in ("experiments", "results", "docs")]
        for there in self.linked:
            (path / there.name).symlink_to(there)
        self.before = self.files()
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

    def files(self):
        """What lies in the folders of the sources, which no command of a page may write into."""
        return {file for there in self.linked for file in there.rglob("*") if "__pycache__" not in file.parts}

    def run(self, command, what, cwd=None):
        start = time.monotonic()
        done = subprocess.run(command, cwd=cwd or self.path, env=self.environment, text=True, stdin=subprocess.DEVNULL,
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


def commands_in(text):
    """Lines of blocks of sh, and code within sentences that begins with `crosstalk`; each once."""
    lines = [line for language, _, _, code in blocks(text) if language == "sh" for line in re.sub(r"\\\n", " ", code).splitlines()]
    inline = re.findall(r"`(crosstalk [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    return list(dict.fromkeys(re.sub(r"\s+", " ", line).strip() for line in lines + inline))


def same_numbers(one, other):
    """Whether two CSV files say the same, up to the rounding of another processor."""
    def same(a, b):
        try:
            return a == b or math.isclose(float(a), float(b), rel_tol=1e-9)
        except ValueError:
            return False
    rows = [list(csv.reader(open(path, newline=""))) for path in (one, other)]
    return len(rows[0]) == len(rows[1]) and all(
        len(a) == len(b) and all(map(same, a, b)) for a, b in zip(*rows))


def check_published(folder, source):
    here, out = source / "results" / "published", folder.path / "drawn"
    out.mkdir()
    planned, drawn = 0, 0
    for command in commands_in((here / "README.md").read_text()):
        words = shlex.split(command)
        if words[:2] == ["crosstalk", "run"] and len(words) > 2 and words[2].endswith(".toml"):
            # Stores are not here.
            for option in {"--device", "--no-pass", "--chosen-of", "--best", "--best-by"} & set(words):
                del words[words.index(option):words.index(option) + 2]
            folder.run([folder.crosstalk, "plan", *words[2:]], command)
            planned += 1
        elif words[:2] == ["crosstalk", "plot"] and "--out" in words and words[3].endswith(".csv"):
            name = words[words.index("--out") + 1]
            words[words.index("--out") + 1] = str(out / name)
            folder.run([folder.crosstalk, *words[1:]], command, cwd=here)
            if not same_numbers(here / f"{name}.csv", out / f"{name}.csv"):
                sys.exit(f"results/published/{name}.csv is not what this draws today:\n{command}")
            drawn += 1
    if planned < 10 or drawn < 6:
        sys.exit(f"results/published/README.md: {planned} studies and {drawn} figures were found: its commands were lost")
    return []


def check_named(folder, source):
    pages = [page for page in sorted(source.rglob("*.md")) if not {"build", ".venv"} & set(page.relative_to(source).parts)]
    helps, wrong, count = {}, [], 0
    for page in pages:
        text = page.read_text()
        for command in commands_in(text):
            try:
                words = shlex.split(command, comments=True)
            except ValueError:  # an apostrophe of a sentence
                continue
            if words[:1] != ["crosstalk"] or len(words) < 2 or not re.fullmatch(r"[a-z-]+", words[1]):
                continue
            count += 1
            name, place = words[1], f"{page.relative_to(source)}: {command}"
            if name not in helps:
                done = subprocess.run([folder.crosstalk, "help", name], capture_output=True, text=True)
                helps[name] = done.stdout if done.returncode == 0 else ""
            rest = words[2:words.index("--")] if "--" in words else words[2:]
            unknown = [word for word in rest if re.match(r"--[a-z]", word) and not re.search(rf"{word.split('=')[0]}\b", helps[name])]
            if not helps[name] or unknown:
                wrong.append(f"{place}: no such {'option as ' + unknown[0] if unknown else 'command'}")
            elif name in ("describe", "help", "list") and all(re.fullmatch(r"[a-z][\w.-]*|--json", word) for word in rest) and rest:
                done = subprocess.run([folder.crosstalk, *words[1:]], cwd=folder.path, capture_output=True, text=True)
                if done.returncode and not re.search(rf"<!-- file: \S*/{rest[0]}\.", text):  # the page's own example
                    wrong.append(f"{place}: {done.stderr.strip()}")
    print("\n".join(wrong + [f"{count} commands on {len(pages)} pages, {len(wrong)} wrong"]))
    if wrong or count < 100:
        sys.exit(1)
    return []


def main():
    arguments = sys.argv[1:]
    check = check_readme
    if arguments[:1] == ["--named"]:
        check, arguments = check_named, arguments[1:]
    elif arguments[:1] == ["--published"]:
        check, arguments = check_published, arguments[1:]
    elif arguments[:1] == ["--page"]:
        check, arguments = check_page(arguments[1]), arguments[2:]
    if len(arguments) != 2:
        sys.exit(__doc__)
    source, crosstalk = (Path(argument).resolve() for argument in arguments)
    path = Path(tempfile.mkdtemp(prefix="crosstalk readme "))
    try:
        folder = Folder(path, source, crosstalk)
        skipped = check(folder, source)
        if new := folder.files() - folder.before:
            sys.exit(f"the commands wrote into the sources: {', '.join(map(str, sorted(new)))}")
    finally:
        shutil.rmtree(path)
    if skipped:
        print(f"skipped: this Python has no {', '.join(skipped)}")
        sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
