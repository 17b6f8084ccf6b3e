#!/usr/bin/env python3
"""Does what docs/extending.md says: adds its example memory, op, feature map, task and figure to a copy of the sources, builds, and
uses them.

    check-walkthrough.py SOURCE BUILD            adds, builds, trains
    check-walkthrough.py --apply SOURCE BUILD    adds only: whether the text still fits the sources

A code block after `<!-- file: PATH -->` becomes that file. In a ```diff block after `<!-- edit: PATH -->`, each run of
- lines must stand in PATH exactly once and is replaced by the + lines that follow it.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

STUDY = """
[study]
name = "walkthrough"
seeds = [1]
[base]
task.name = "distract"
task.associations = 6
task.distractors = 4
task.queries = 2
model.d_key = 8
train.learning_rate = 3e-3
train.max_steps = 200
[memories.decaying]
name = "decaying_delta"
feature_map = "relu2"
key_norm = "l2"
[[grid]]
"""


def apply_blocks(text, root):
    blocks = re.findall(r"<!-- (file|edit): (\S+) -->\n```\w+\n(.*?)```\n", text, re.S)
    if len(blocks) < 7:
        sys.exit(f"docs/extending.md has {len(blocks)} blocks to apply; its markers were lost")
    for kind, name, body in blocks:
        path = root / name
        if kind == "file":
            if path.exists():
                sys.exit(f"{name} exists already")
            path.write_text(body)
            continue
        content = path.read_text()
        for hunk in re.findall(r"(?:^-.*\n)+(?:^\+.*\n)+", body, re.M):
            lines = hunk.splitlines()
            old = "\n".join(line[1:] for line in lines if line[0] == "-") + "\n"
            new = "\n".join(line[1:] for line in lines if line[0] == "+") + "\n"
            if content.count(old) != 1:
                sys.exit(f"docs/extending.md edits {name}, where this stands {content.count(old)} times:\n{old}")
            content = content.replace(old, new)
        path.write_text(content)


def call(*command, **options):
    print("$", *command, flush=True)
    return subprocess.run(command, check=True, **options)


def run_tests(program, patterns):
    """The checks over the registry for an example, and its own tests."""
    for pattern in patterns:
        listed = call(str(program), "--gtest_list_tests", f"--gtest_filter={pattern}", stdout=subprocess.PIPE, text=True)
        if "  " not in listed.stdout:
            sys.exit(f"{program.name} has no test {pattern}")
    call(str(program), "--gtest_brief=1", "--gtest_filter=" + ":".join(patterns))


def main(source, build, only_apply):
    copy = build / ("walkthrough-text" if only_apply else "walkthrough")
    tree = copy / "source"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in ["cmake", "kernels", "models", "tasks", "results", "plots", "experiments", "docs", "scripts", "benchmarks"]:
        shutil.copytree(source / name, tree / name)
    for name in ["CMakeLists.txt", "LICENSE", "README.md"]:  # a package of the program wants its licence
        shutil.copy(source / name, tree)
    apply_blocks((source / "docs/extending.md").read_text(), tree)
    if only_apply:
        return

    os.environ["OMP_NUM_THREADS"] = "1"
    made = tree / "build/cpu"  # as in a checkout: a compiler cache then knows the unchanged files
    call("cmake", "-S", str(tree), "-B", str(made), "-G", "Ninja", "-DCROSSTALK_CUDA=OFF")
    call("cmake", "--build", str(made), "-j", "2", "--target", "crosstalk", "tasks_test", "kernels_ops_test",
         "models_memories_test", "plots_test", "experiments_study_files_test", "experiments_training_test")
    call(str(made / "tasks/tasks_test"), "--gtest_brief=1")
    run_tests(made / "kernels/kernels_ops_test", ["*relu2*", "Relu2*", "FeatureMaps.*", "Squash*"])
    run_tests(made / "plots/plots_test", ["Solved*", "FigureTest.*", "OutputTest.*", "RenderTest.*"])
    run_tests(made / "experiments/training/experiments_study_files_test", ["StudyFiles.*"])
    run_tests(made / "experiments/training/experiments_training_test", ["PublishedLayer.*"])
    run_tests(made / "models/models_memories_test", ["*decaying_delta*", "DecayingDelta*", "Resolve*", "Describe*", "OrderLaw*", "RankLaw*"])
    crosstalk = str(made / "crosstalk")
    call(crosstalk, "describe", "decaying_delta")
    call(crosstalk, "describe", "relu2")
    call(crosstalk, "sample", "distract", "-n", "1", "--set", "task.distractors=10")
    (copy / "study.toml").write_text(STUDY)
    shutil.rmtree(copy / "store", ignore_errors=True)
    call(crosstalk, "run", str(copy / "study.toml"), "--out", str(copy / "store"))
    export = call(crosstalk, "export", str(copy / "store"), stdout=subprocess.PIPE, text=True).stdout.splitlines()
    row = dict(zip(export[0].split(","), export[1].split(",")))
    if not (row["status"] == "done" and float(row["eval_loss"]) < 0.5):
        sys.exit(f"the example run ended with {row}")
    print("walkthrough: built and trained; loss", row["eval_loss"])
    call(crosstalk, "plot", "solved", str(copy / "store"), "--out", str(copy / "solved"))
    if "\ndecaying,8,6,1,0," not in (copy / "solved.csv").read_text():  # so short a run solves nothing
        sys.exit(f"the example figure lacks the run, of which none is solved:\n{(copy / 'solved.csv').read_text()}")
    call("cmake", "--build", str(made), "--target", "documents")
    for page in ["README.md", "docs/memories.md", "docs/comparable.md", "docs/apply.md", "docs/reference.md"]:
        if "`decaying_delta`" not in (tree / page).read_text() and "### decaying_delta" not in (tree / page).read_text():
            sys.exit(f"`documents` wrote nothing of the example memory into {page}")
    check_op_in_memory(tree, made)
    check_broken(tree, made)


def check_op_in_memory(tree, made):
    """The example op can be read through by a memory with a `build`."""
    path = tree / "models/memories/gated_oja.cpp"
    text = path.read_text()
    used = text.replace("return read(m, q,", "return read(m, squashed(q),")
    if used == text:
        sys.exit("gated_oja's read changed; use the op elsewhere")
    path.write_text(used.replace("memory_file.h\"\n", "memory_file.h\"\n#include \"models/memories/squashed.h\"\n"))
    call("cmake", "--build", str(made), "-j", "2", "--target", "crosstalk")
    call(str(made / "crosstalk"), "describe", "gated_oja", stdout=subprocess.DEVNULL)
    path.write_text(text)


def check_broken(tree, made):
    """A memory that is wrong is told as its author's, not as the program's bug."""
    path = tree / "models/memories/decaying_delta.cpp"
    text = path.read_text()
    broken = text.replace('m.token("beta")', 'm.token("beta", 3)')
    if broken == text:
        sys.exit("the example's law changed; break it elsewhere")
    path.write_text(broken)
    call("cmake", "--build", str(made), "-j", "2", "--target", "crosstalk")
    said = subprocess.run([str(made / "crosstalk"), "describe", "decaying_delta"], capture_output=True, text=True)
    print(said.stderr, end="")
    right = "memory decaying_delta (models/memories/decaying_delta.cpp): the law of the input beta"
    if said.returncode != 2 or right not in said.stderr:
        sys.exit(f"describe of a broken memory ended with {said.returncode}")


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--apply"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    main(Path(arguments[0]), Path(arguments[1]), "--apply" in sys.argv)
