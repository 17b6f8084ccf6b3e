#!/usr/bin/env python3
"""Copies kernels/ to a folder with what a C++ compiler does not read of CUDA replaced: asm statements by calls of emulate.cuh, shared
memory by static memory. Usage: prepare.py SOURCE TARGET."""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import sys


def sections(text):
    """Text of an asm statement between colons, and of each its parts between commas."""
    parts, part, depth, quoted = [[]], "", 0, False
    for i, c in enumerate(text):
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        if not quoted:
            depth += (c in "([{") - (c in ")]}")
            if depth == 0 and c in ":,":
                parts[-1].append(part.strip())
                part = ""
                if c == ":":
                    parts.append([])
                continue
        part += c
    parts[-1].append(part.strip())
    return parts


def call(text, known):
    parts = sections(text)
    code = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', parts[0][0]))
    if not code:
        return "static_cast<void>(0)"
    name = re.sub(r"[^A-Za-z0-9]", "_", code.split()[0].rstrip(";\\n"))
    if name.startswith("griddepcontrol"):
        return "static_cast<void>(0)"
    if name not in known:
        return f'::emulate::unsupported("{code.split()[0]}")'
    operands = [re.sub(r'^"[^"]*"\s*', "", p) for part in parts[1:3] for p in part if p]
    size = re.search(r"\], (4|16)\b", code)
    if name == "cp_async_ca_shared_global" and size:  # its size is in the text
        operands.insert(2, size[1])
    return f"::emulate::{name}({', '.join(operands)})"


def prepared(text, known):
    out, at = "", 0
    for found in re.finditer(r"\basm\s*(?:volatile)?\s*\(", text):
        if found.start() < at:
            continue
        end, depth, quoted = found.end(), 1, False
        while depth:
            c = text[end]
            if c == '"':
                quoted = not quoted
            if not quoted:
                depth += (c == "(") - (c == ")")
            end += 1
        out += text[at : found.start()] + call(text[found.end() : end - 1], known) + "\n" * text.count("\n", found.start(), end)
        at = end
    out += text[at:]
    out = re.sub(
        r"extern __shared__\s+(?:__align__\(\d+\)\s+)?((?:unsigned )?[\w:<>]+) (\w+)\[\];",
        r"static \1* const \2 = reinterpret_cast<\1*>(::emulate::dynamic_memory);",
        out,
    )
    return re.sub(r"__shared__ ((?:__align__|alignas)\([^()]*\))", r"\1 __shared__", out)


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    known = set(re.findall(r"inline void (\w+)\(", (pathlib.Path(__file__).parent / "emulate.cuh").read_text()))
    for path in source.glob("kernels/**/*"):
        if path.suffix not in (".h", ".cuh", ".cu") or ("testing" in path.parts and path.name != "broken_test.cu"):
            continue
        to = target / path.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        text = prepared(path.read_text(), known)
        if not to.exists() or to.read_text() != text:
            to.write_text(text)


main()
