#!/usr/bin/env python3
"""Writes what editors and type checkers know of the Python package from the registries of memories, tasks and models.

    python_stubs.py [--check]    in a Python that finds crosstalk; --check: fails where a file is not as it would be written

python/crosstalk/_options.py: names of inputs and options with their types, which editors offer (`| Any`: arguments of a dict, `**x`, are
taken); __init__.pyi: the package, `apply` and `task` with an overload for each memory and each task.
"""
# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

from crosstalk import _core

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "python" / "crosstalk"
WIDTH = 130
MADE = "Made by scripts/python_stubs.py from the registries; a test holds it against them."

HEAD = """\
from typing import Any, Literal, Mapping, Sequence, TypeVar, overload

from typing_extensions import Unpack

from . import jax as jax, torch as torch
from ._core import ConfigError as ConfigError, DeviceError as DeviceError, OptionError as OptionError
from ._core import OutOfMemory as OutOfMemory, StoreError as StoreError
from ._options import Given, OfTask, Shared
from .conversion import write_arrays as write_arrays
from .memories import Description as Description, describe as describe, memories as memories
from .memories import release as release, set_threads as set_threads
from .plots import plot as plot
from .rules import Rule as Rule, rule as rule
from .stores import read as read, weights as weights
from .studies import Plan as Plan, Result as Result, difference as difference, plan as plan, run as run, table as table
from .tasks import Batch as Batch, Task as Task, tasks as tasks
from .training import train as train
from .verifying import verify as verify

__all__: list[str]
__version__: str
Array = Any  #: of numpy or torch, or with __dlpack__ or __cuda_array_interface__; all of one kind in a call
_A = TypeVar("_A")  #: the kind
"""

#: What apply takes beside inputs and options of memories.
KEYWORDS = {"form": "str | Any", "precision": "Literal[\"fp64\", \"fp32\", \"tf32\", \"bf16\"] | Any", "threads": "int | Any",
            "reset": "Any", "cu_seqlens": "Any"}
READ = "tuple[_A, dict[str, _A]]"


def kind_of(option):
    if option["choices"]:
        return f"Literal[{', '.join(repr(x) for x in option['choices'])}]".replace("'", '"')
    return option["type"]


def packed(items, indent="    "):
    """Items in lines, each as full as fits; none is broken."""
    lines = [indent]
    for item in items:
        if lines[-1] != indent and len(lines[-1]) + len(item) > WIDTH:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += item + ", "
    return "\n".join(lines).rstrip()


def function(name, parameters, returns):
    """An overload in as few lines as fit."""
    line = f"def {name}({', '.join(parameters)}) -> {returns}: ..."
    if len(line) > WIDTH:
        line = f"def {name}(\n{packed(parameters)}\n) -> {returns}: ..."
    return f"@overload\n{line}\n"


def several(options):
    """name -> type of options of several owners: those of one name as a union."""
    kinds = {}
    for option in options:
        kinds.setdefault(option["name"], []).append(kind_of(option))
    literal = "Literal["
    union = {}
    for name, all in kinds.items():
        words = dict.fromkeys(w for k in all if k.startswith(literal) for w in k[len(literal) : -1].split(", "))
        rest = list(dict.fromkeys(k for k in all if not k.startswith(literal)))
        if words and "str" in rest:
            words = {}
        union[name] = " | ".join(rest + ([f"{literal}{', '.join(words)}]"] if words else []))
    return union


def typed_dict(name, doc, kinds, base="TypedDict"):
    fields = "\n".join(f"    {key}: {kind}{'' if kind.endswith('Any') else ' | Any'}" for key, kind in sorted(kinds.items()))
    return f'class {name}({base}, total=False):\n    """{doc}"""\n\n{fields}\n'


def described():
    memories = {name: _core.describe_memory(name) for name in _core.memories() if name != "python"}
    for facts in memories.values():
        facts["options"] = [option for option in facts["options"] if option["name"] != "form"]
    return memories, {name: _core.describe_task(name) for name in _core.tasks()}


def shared_options(memories):
    """Options of nine in ten memories, with one type there."""
    all = several(option for facts in memories.values() for option in facts["options"])
    count = {name: sum(any(o["name"] == name for o in facts["options"]) for facts in memories.values()) for name in all}
    return {name: kind for name, kind in all.items() if 10 * count[name] >= 9 * len(memories)}


def options_text():
    memories, tasks = described()
    of_memories = several(option for facts in memories.values() for option in facts["options"])
    inputs = {name for facts in memories.values() for name, *_ in facts["inputs"]} - set("qkv")
    given = {**of_memories, **dict.fromkeys(inputs, "Any")}
    model = [option for option in _core.model_options() if option["name"] not in ("name", "width")]
    of_layer = several(model + [option for facts in memories.values() for option in facts["options"]])
    of_layer["law"] = "str | Sequence[str]"
    parts = [
        typed_dict("Shared", "Options of nearly every memory, and how it is calculated.", {**shared_options(memories), **KEYWORDS}),
        typed_dict("Given", "Inputs of memories beside q, k and v, and their options.", given),
        typed_dict("Named", "The same with q, k and v.", dict.fromkeys("qkv", "Any"), "Given"),
        typed_dict("OfLayer", "Options of a memory and of the language model around it.", of_layer),
        typed_dict("OfModel", "Options of a whole language model.", {"width": "int"}, "OfLayer"),
        typed_dict("OfTask", "Options of tasks.", several(o for facts in tasks.values() for o in facts["options"])),
    ]
    head = "# SPDX-License-Identifier: Apache-2.0\nfrom __future__ import annotations\n\nfrom typing import Any, Literal, Sequence, TypedDict\n"
    return f'"""Names and types of inputs and options. {MADE}"""\n{head}\n\n' + "\n\n".join(parts)


def parameters_of(name, facts, shared):
    inputs = {i[0]: i[3] for i in facts["inputs"]}
    places = ["q: Array", "k: Array", "v: _A"] if all(x in inputs for x in "qkv") else []
    rest = [f"{x}: {'_A' if x == 'v' else 'Array'}{' = ...' if optional else ''}" for x, optional in inputs.items() if not (places and x in "qkv")]
    own = [f"{o['name']}: {kind_of(o)} = ..." for o in facts["options"] if o["name"] not in shared and o["name"] not in inputs]
    return [f'memory: Literal["{name}"]', *places, "*", *rest, *own, "**options: Unpack[Shared]"]


def package_text():
    memories, tasks = described()
    shared = shared_options(memories)
    text = [f'"""What editors and type checkers know of the package. {MADE}"""\n# SPDX-License-Identifier: Apache-2.0\n{HEAD}\n']
    for name, facts in memories.items():
        if name != "rule":  # its inputs are those of its law
            text.append(function("apply", parameters_of(name, facts, shared), READ))
    how = [f"{name}: {kind} = ..." for name, kind in KEYWORDS.items()]
    any_of = ["memory: str", "q: Array = ...", "k: Array = ...", "v: _A = ...", "*"]
    text.append(function("apply", [*any_of, *how, "**given: Unpack[Given]"], READ))
    back = "tuple[_A, dict[str, _A], dict[str, _A]]"
    for given in (["d_o: Array", "d_state: Mapping[str, Array] | None = ..."], ["d_o: Array = ...", "d_state: Mapping[str, Array]"]):
        text.append(function("apply", [*any_of, *given, *how, "**given: Unpack[Given]"], back))
    for name, facts in tasks.items():
        own = [f"{o['name']}: {kind_of(o)} = ..." for o in facts["options"]]
        text.append(function("task", [f'name: Literal["{name}"]', "*", *own], "Task"))
    text.append(function("task", ["name: str", "**options: Unpack[OfTask]"], "Task"))
    return "".join(text)


def made():
    return {PACKAGE / "_options.py": options_text(), PACKAGE / "__init__.pyi": package_text()}


def main(words):
    stale = [path for path, text in made().items() if not path.exists() or path.read_text() != text]
    if words == ["--check"]:
        for path in stale:
            print(f"{path} is not as the registries have it; python3 scripts/python_stubs.py writes it anew", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        path.write_text(made()[path])
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
