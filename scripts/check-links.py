#!/usr/bin/env python3
"""Whether links of the project's pages lead somewhere: files that are there, and headings of pages. Nothing is asked of a network.

    check-links.py SOURCE
"""
# SPDX-License-Identifier: Apache-2.0
import re
import sys
from pathlib import Path
from urllib.parse import unquote


def without_code(text):
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors_of(text):
    """Headings as GitHub and MkDocs make anchors of them."""
    anchors = set()
    for line in re.findall(r"^#+ +(.*?) *#*$", re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M), re.M):
        words = re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-")
        while words in anchors:
            words += "-1"
        anchors.add(words)
    return anchors | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def main(source):
    pages = [page for page in source.rglob("*.md") if not {"build", ".venv", "node_modules"} & set(page.relative_to(source).parts)]
    wrong, count = [], 0
    for page in sorted(pages):
        for target in re.findall(r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)", without_code(page.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path, _, anchor = unquote(target).partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                wrong.append(f"{page.relative_to(source)}: {target}: there is no such file")
            elif anchor and file.suffix == ".md" and anchor not in anchors_of(file.read_text()):
                wrong.append(f"{page.relative_to(source)}: {target}: the page has no such heading")
    for line in wrong:
        print(line)
    if count < 50:
        wrong.append("few")
        print(f"only {count} links were found: are they read as they should be?")
    print(f"{count} links on {len(pages)} pages, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve()))
