#!/usr/bin/env python3
"""Makes what documents say of the program from the program: docs/reference.md, and what stands between markers in
README.md, docs/memories.md, docs/apply.md and results/published/README.md; and the tables of benchmarks/README.md from its CSVs.

    documents.py SOURCE CROSSTALK            writes them (`ninja -C build/cpu documents`)
    documents.py --check SOURCE CROSSTALK    says which are old, and exits with 1 if one is
"""
# SPDX-License-Identifier: Apache-2.0
import re
import subprocess
import sys
from pathlib import Path

REGION = re.compile(r"(<!-- made: (crosstalk|python3) (.*?) -->\n\n?).*?(\n?<!-- end -->)", re.S)


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

    return REGION.sub(one, text)


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 2 + check:
        sys.exit(__doc__)
    source, crosstalk = Path(arguments[-2]), Path(arguments[-1]).resolve()
    pages = {source / "docs/reference.md": said(crosstalk, ["reference"])}
    for name in ["README.md", "docs/memories.md", "docs/apply.md", "results/published/README.md",
                 "benchmarks/README.md"]:
        pages[source / name] = made(source / name, crosstalk)
    old = [path for path, text in pages.items() if path.read_text() != text]
    for path in old:
        if check:
            print(f"{path} is old: ninja -C build/cpu documents")
        else:
            path.write_text(pages[path])
            print(f"{path}: written")
    return 1 if check and old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
