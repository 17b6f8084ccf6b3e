#!/usr/bin/env python3
"""Checks who includes whom: kernels <- models, tasks <- experiments <- python; results <- plots <- experiments; and the rooms
of kernels/ and experiments/ among themselves. And that no option is cut to fewer bits without a look, that every header
may be included twice, and that comments end somewhere.

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
    "results": ["results/", "kernels/base/text/names.h"],
    "plots": ["results/", "plots/"],
    "experiments": ["kernels/", "models/", "tasks/", "results/", "experiments/", "plots/figure.h"],
    "python": ["kernels/", "models/", "tasks/", "results/", "experiments/", "python/"],
}
# Room -> the other rooms that its files may include; kernels/base and experiments/study may be included everywhere.
# Tests may include any room: some hold two ops of different rooms against each other. Files that stand in no room
# (kernels/no_cuda.cpp) may include all, and no room includes them.
ROOMS = {
    "kernels/base": [],
    "kernels/matmul": [],
    "kernels/conv": [],
    "kernels/optimizer": [],
    "kernels/linear": ["kernels/matmul"],
    "kernels/embedding": ["kernels/matmul"],
    "kernels/feature_map": ["kernels/matmul"],
    "kernels/elementwise": ["kernels/matmul"],
    "kernels/norm": ["kernels/matmul"],
    "kernels/loss": ["kernels/matmul", "kernels/linear", "kernels/norm"],
    "kernels/attention": ["kernels/elementwise", "kernels/matmul"],
    "kernels/recurrence": ["kernels/law", "kernels/matmul"],
    "kernels/law": ["kernels/elementwise"],
    "kernels/rule": ["kernels/elementwise", "kernels/law"],
    "kernels/fused": [
        "kernels/elementwise", "kernels/embedding",
        "kernels/feature_map",
        "kernels/law",
        "kernels/matmul",
        "kernels/norm",
        "kernels/recurrence",
    ],
    "experiments/study": [],
    "experiments/training": [],
    "experiments/inspect": ["experiments/training"],
    "experiments/common": ["experiments/training"],
    "experiments/sharing": ["experiments/common", "experiments/training"],
    "experiments/search": ["experiments/training"],
    "experiments/program": [
        "experiments/common", "experiments/inspect", "experiments/search", "experiments/sharing", "experiments/training",
    ],
}
EVERYWHERE = ["kernels/base", "experiments/study"]
IN_TESTS = re.compile(r"_test\.cpp$|_fixture\.|^kernels/testing/|_case\.h$")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
HEADERS = {".h", ".cuh"}
COMMENT_COLUMNS = 150  # of host files; clang-format sees to code
# These do not compile under nvcc, or warn there.
NOT_ON_DEVICE = re.compile(r"^(Eigen|unsupported/Eigen|fmt|boost|toml\+\+|nlohmann)/")
# Its compile time is 5 s and its asserts need a guard: one file includes it.
ONLY_IN = {re.compile(r"^toml\+\+/"): "experiments/study/toml_reader.cpp"}

# An option has 64 bits; cut to fewer without a look it becomes another number (kernels/base/text/narrow.h looks). Maps check
# the bounds of theirs when they are resolved.
CUT_OPTION = re.compile(r"static_cast<(int|unsigned|short|std::u?int(8|16|32)_t)>\([^;]*\bget_int\(")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def violations(root):
    found = []
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            lines = path.read_text(encoding="utf-8").splitlines()
            if path.suffix in HEADERS and "#pragma once" not in lines:
                found.append(f"{name}:1: a header without `#pragma once`")
            for number, line in enumerate(lines, 1):
                if folder != "kernels" and "test" not in name and CUT_OPTION.search(line):
                    found.append(f"{name}:{number}: an option is cut; write narrow<int>(options, key) (kernels/base/text/narrow.h)")
                if path.suffix in {".h", ".cpp"} and len(line) > COMMENT_COLUMNS and line.lstrip().startswith("//"):
                    found.append(f"{name}:{number}: a comment of {len(line)} columns; break it before {COMMENT_COLUMNS}")
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
        return judge_room(name, target)
    if bracket == '"':
        return f'"{target}" is not a path from the repository\'s root; other libraries stand in <...>'
    if name.endswith((".cu", ".cuh")) and NOT_ON_DEVICE.match(target):
        return f"<{target}> in device code; .cu and .cuh include CUDA, the standard library and own headers only"
    for pattern, owner in ONLY_IN.items():
        if pattern.match(target) and name != owner:
            return f"<{target}> belongs into {owner} alone"
    return None


def room_of(name):
    return "/".join(name.split("/")[:2])


def judge_room(name, target):
    here, there = room_of(name), room_of(target)
    # Any form can be deleted: nobody outside knows its files. Ops of tables are named by the passes that make them.
    if there == "kernels/fused" != here and not target.split("/")[-1].startswith("table_"):
        return f'"{target}" belongs to a form, which may be deleted (kernels/base/form.h)'
    if here == there or here not in ROOMS or name.split("/")[0] != target.split("/")[0] or IN_TESTS.search(name):
        return None
    if there in ROOMS and (there in EVERYWHERE or there in ROOMS[here]):
        return None
    allowed = ", ".join(EVERYWHERE[:1] + ROOMS[here]) if here.startswith("kernels") else ", ".join(ROOMS[here])
    return f'{here} must not include "{target}" (allowed: {allowed}; cmake/check_layering.py lists the rooms)'


def rooms_in_circle():
    """Rooms that cannot be put in an order in which each includes earlier ones only."""
    left = {room: set(others) - {room} for room, others in ROOMS.items()}
    while True:
        free = [room for room, others in left.items() if not others & left.keys()]
        if not free:
            return sorted(left)
        for room in free:
            del left[room]


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
        ("python/a.cpp", '#include "experiments/b.h"', True),
        ("python/a.cpp", '#include "plots/b.h"', False),
        ("experiments/a.cpp", '#include "python/b.h"', False),
        ("experiments/a.cpp", "#include <vector>", True),
        ("experiments/a.cpp", "#include <toml++/toml.h>", False),
        ("experiments/study/toml_reader.cpp", "#include <toml++/toml.h>", True),
        ("kernels/a_cuda.cu", "#include <Eigen/Core>", False),
        ("kernels/a.cuh", "#include <fmt/format.h>", False),
        ("kernels/a_cuda.cu", "#include <cuda_runtime.h>", True),
        ("kernels/a_cpu.cpp", "#include <Eigen/Core>", True),
        ("kernels/base/a.h", '#include "kernels/linear/b.h"', False),
        ("kernels/loss/a.cuh", '#include "kernels/linear/b.h"', True),
        ("kernels/linear/a.cuh", '#include "kernels/loss/b.h"', False),
        ("kernels/linear/a.h", '#include "kernels/base/b.h"', True),
        ("kernels/linear/a.h", '#include "kernels/b.h"', False),
        ("kernels/linear/a_test.cpp", '#include "kernels/loss/b.h"', True),
        ("kernels/linear/a_test.cpp", '#include "kernels/fused/b.cuh"', False),
        ("models/a.cpp", '#include "kernels/fused/b.cuh"', False),
        ("experiments/training/a.cpp", '#include "experiments/study/b.h"', True),
        ("experiments/study/a.cpp", '#include "experiments/training/b.h"', False),
        ("experiments/sharing/a.cpp", '#include "experiments/program/b.h"', False),
        ("experiments/sharing/a.cpp", '#include "kernels/linear/b.h"', True),
        ("tasks/a.cpp", 'int n = static_cast<int>(options.get_int("task.n"));', False),
        ("tasks/a.cpp", 'auto n = static_cast<std::uint32_t>(1 + options.get_int("task.n"));', False),
        ("tasks/a.cpp", 'auto n = static_cast<double>(options.get_int("task.n"));', True),
        ("tasks/a.cpp", "//" + 148 * "x", True),
        ("tasks/a.cpp", "  ///" + 146 * "x", False),
    ]
    wrong = 0
    if rooms_in_circle():
        wrong += 1
        print(f"self-test: these rooms include each other in a circle: {', '.join(rooms_in_circle())}")
    for name, line, fine in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for top in list(ALLOWED) + list(ROOMS):
                (root / top).mkdir()
                (root / top / "b.h").write_text("#pragma once\n", encoding="utf-8")
            (root / "plots/figure.h").write_text("#pragma once\n", encoding="utf-8")
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"// A file.\n{line}\n#pragma once\n", encoding="utf-8")
            found = violations(root)
            as_expected = not found if fine else len(found) == 1 and found[0].startswith(f"{name}:2: ")
            if not as_expected:
                wrong += 1
                print(f"self-test: {name} with {line!r} should be {'allowed' if fine else 'refused'}, got {found}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tasks").mkdir()
        (Path(folder) / "tasks/b.h").touch()
        if violations(Path(folder)) != ["tasks/b.h:1: a header without `#pragma once`"]:
            wrong += 1
            print("self-test: a header without `#pragma once` should be refused")
    print(f"layering self-test: {len(cases) + 1} cases, {wrong} wrong")
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
