#!/usr/bin/env python3
"""Checks who includes whom: kernels <- models, tasks <- experiments; results <- plots <- experiments.

    check_layering.py ROOT          checks the sources under ROOT
    check_layering.py --self-test   checks that each kind of violation is caught

Prints one line a violation, `path:line: what is wrong`, and exits with 1 if there is one.
"""
# SPDX-License-Identifier: Apache-2.0
import re
import sys
import tempfile
from pathlib import Path

# Folder -> what its files may include: a folder (all of it) or one header.
ALLOWED = {
    "kernels": ["kernels/"],
    "models": ["kernels/", "models/"],
    "tasks": ["kernels/", "tasks/"],
    "results": ["results/"],
    "plots": ["results/", "plots/"],
    "experiments": ["kernels/", "models/", "tasks/", "results/", "experiments/", "plots/figure.h"],
}
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# These do not compile under nvcc, or warn there.
NOT_ON_DEVICE = re.compile(r"^(Eigen|unsupported/Eigen|fmt|boost|toml\+\+|nlohmann)/")
# Its compile time is 5 s and its asserts need a guard: one file includes it.
ONLY_IN = {re.compile(r"^toml\+\+/"): "experiments/toml_reader.cpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def violations(root):
    found = []
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if match:
                    problem = judge(root, name, folder, allowed, match.group(1), match.group(2))
                    if problem:
                        found.append(f"{name}:{number}: {problem}")
    return found


def judge(root, name, folder, allowed, bracket, target):
    top = target.split("/")[0]
    if top in ALLOWED and (bracket == '"' or (root / target).is_file()):
        if ".." in target.split("/"):
            return f'"{target}" goes through ".."; write the path from the repository\'s root'
        if not any(target == a or (a.endswith("/") and target.startswith(a)) for a in allowed):
            return f'{folder} must not include "{target}" (allowed: {", ".join(allowed)})'
        if not (root / target).is_file():
            return f'"{target}" does not exist'
        return None
    if bracket == '"':
        return f'"{target}" is not a path from the repository\'s root; other libraries stand in <...>'
    if name.endswith((".cu", ".cuh")) and NOT_ON_DEVICE.match(target):
        return f"<{target}> in device code; .cu and .cuh include CUDA, the standard library and own headers only"
    for pattern, owner in ONLY_IN.items():
        if pattern.match(target) and name != owner:
            return f"<{target}> belongs into {owner} alone"
    return None


def self_test():
    # (file, line, whether it is allowed)
    cases = [
        ("kernels/a.h", '#include "kernels/b.h"', True),
        ("kernels/a.h", '#include "models/b.h"', False),
        ("kernels/deep/er/a.cpp", '#include "tasks/b.h"', False),
        ("models/a.cpp", '#include "kernels/b.h"', True),
        ("models/a.cpp", '#include "tasks/b.h"', False),
        ("models/a.cpp", "#include <tasks/b.h>", False),
        ("models/a.cpp", '  #  include "tasks/b.h"', False),
        ("models/a.cpp", '// #include "tasks/b.h"', True),
        ("models/a_test.cpp", '#include "tasks/b.h"', False),
        ("tasks/a.cpp", '#include "models/b.h"', False),
        ("tasks/a.cpp", '#include "kernels/b.h"', True),
        ("results/a.cpp", '#include "kernels/b.h"', False),
        ("results/a.cpp", '#include "results/b.h"', True),
        ("plots/a.cpp", '#include "results/b.h"', True),
        ("plots/a.cpp", '#include "experiments/b.h"', False),
        ("experiments/a.cpp", '#include "plots/figure.h"', True),
        ("experiments/a.cpp", '#include "plots/b.h"', False),
        ("experiments/a.cpp", '#include "plots/figure.h.h"', False),
        ("experiments/a.cpp", '#include "experiments/../plots/b.h"', False),
        ("experiments/a.cpp", '#include "models/b.h"', True),
        ("experiments/a.cpp", '#include "models/missing.h"', False),
        ("experiments/a.cpp", '#include "b.h"', False),
        ("experiments/a.cpp", "#include <vector>", True),
        ("experiments/a.cpp", "#include <toml++/toml.h>", False),
        ("experiments/toml_reader.cpp", "#include <toml++/toml.h>", True),
        ("kernels/a_cuda.cu", "#include <Eigen/Core>", False),
        ("kernels/a.cuh", "#include <fmt/format.h>", False),
        ("kernels/a_cuda.cu", "#include <cuda_runtime.h>", True),
        ("kernels/a_cpu.cpp", "#include <Eigen/Core>", True),
    ]
    wrong = 0
    for name, line, fine in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for top in ALLOWED:
                (root / top).mkdir()
                (root / top / "b.h").touch()
            (root / "plots/figure.h").touch()
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"// A file.\n{line}\n", encoding="utf-8")
            found = violations(root)
            as_expected = not found if fine else len(found) == 1 and found[0].startswith(f"{name}:2: ")
            if not as_expected:
                wrong += 1
                print(f"self-test: {name} with {line!r} should be {'allowed' if fine else 'refused'}, got {found}")
    print(f"layering self-test: {len(cases)} cases, {wrong} wrong")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1 or not (Path(arguments[0]) / "kernels").is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    found = violations(Path(arguments[0]))
    print("\n".join(found) if found else "layering: no violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
