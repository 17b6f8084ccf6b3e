#!/usr/bin/env python3
"""Makes what documents say of the program from the program: docs/reference.md, and what stands between markers in
README.md, docs/memories.md, docs/comparable.md, docs/apply.md, docs/search.md and
results/published/README.md; and the tables of benchmarks/README.md from its CSVs.
A mark <!-- made: COMMAND --> stands before lines, <!-- said: COMMAND --> within a sentence; either ends with <!-- end -->.

    documents.py SOURCE CROSSTALK            writes them (`ninja -C build/cpu documents`)
    documents.py --check SOURCE CROSSTALK    says which are old, and exits with 1 if one is
"""
# SPDX-License-Identifier: Apache-2.0
import difflib
import re
import subprocess
import sys
from pathlib import Path

REGION = re.compile(r"(<!-- made: (crosstalk|python3) (.*?) -->\n\n?).*?(\n?<!-- end -->)", re.S)
SENTENCE = re.compile(r"(<!-- said: (crosstalk|python3) (.*?) -->\s*)(.*?)<!-- end -->", re.S)


def said(program, arguments, folder=None):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"documents: {program} {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def made(path, crosstalk):
    """What a document should be; its commands run in its folder."""
    text = path.read_text()
    regions = REGION.findall(text)
    if not regions:
        sys.exit(f"{path}: has no region between <!-- made: crosstalk ... --> (or python3 ...) and <!-- end -->")
    heads = set()

    def one(match):
        text = said(crosstalk if match[2] == "crosstalk" else sys.executable, match[3].split(), path.parent)
        head = re.search(r"\nOf the published numbers: .*\n", text)
        if head and head[0] in heads:  # said of the same file further up
            text = text.replace(head[0], "")
        heads.add(head and head[0])
        return match[1] + text + "\n" + match[4].lstrip("\n")

    def sentence(match):
        """Line breaks within it stay where it says the same."""
        before = text[:match.start()]
        if before.endswith("\n") and not (before.endswith("\n\n") and match[1].endswith("\n")) or match[4].endswith("\n"):
            sys.exit(f"{path}: {match[1].strip()}: for Markdown a mark at the beginning of a line ends the paragraph; put it behind "
                     "a word, or on a line of its own in front of the paragraph")
        now = said(crosstalk if match[2] == "crosstalk" else sys.executable, match[3].split(), path.parent).split()
        return match[0] if match[4].split() == now else f"{match[1]}{' '.join(now)}<!-- end -->"

    return REGION.sub(one, SENTENCE.sub(sentence, text))


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 2 + check:
        sys.exit(__doc__)
    source, crosstalk = Path(arguments[-2]), Path(arguments[-1]).resolve()
    pages = {source / "docs/reference.md": said(crosstalk, ["reference"])}
    for name in ["README.md", "docs/memories.md", "docs/comparable.md", "docs/apply.md", "docs/search.md", "results/published/README.md",
                 "benchmarks/README.md"]:
        pages[source / name] = made(source / name, crosstalk)
    old = [path for path, text in pages.items() if path.read_text() != text]
    for path in old:
        if check:
            print(f"{path} is old: ninja -C build/cpu documents")
            print(*difflib.unified_diff(path.read_text().splitlines(), pages[path].splitlines(), "is", "should be", n=0, lineterm=""),
                  sep="\n")
        else:
            path.write_text(pages[path])
            print(f"{path}: written")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
