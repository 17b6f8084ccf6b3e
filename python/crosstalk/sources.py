"""Models of one's own: the class, the text that identifies it, and what its constructor is told."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import contextlib
import difflib
import importlib.util
import inspect
import linecache
import os
import pathlib
import sys
import warnings
from typing import Any, Callable, Iterator

from . import _core

#: Folders of what others wrote; a virtual environment is known by its pyvenv.cfg.
INSTALLED = frozenset(("site-packages", "dist-packages", "node_modules", "__pycache__", ".git"))
MOST_NAMES = 8  #: files that a warning names


class Config(dict[str, Any]):
    """Every key of a run's configuration ("model.width", "train.batch"), "task.vocabulary" among them; `arguments`: the study's
    `arguments = "gate = true, window = 8"` as a dict."""

    def __init__(self, config: dict[str, Any], vocabulary: int):
        super().__init__(config)
        self["task.vocabulary"] = vocabulary
        self.vocabulary = vocabulary
        self.arguments = arguments_of(config.get("memory.arguments", ""))

    def __missing__(self, key: str) -> Any:
        near = difflib.get_close_matches(str(key), self, 1)
        raise KeyError(f"the configuration has no {key}" + (f"; did you mean {near[0]}?" if near else ""))


def arguments_of(text: str) -> dict[str, Any]:
    """"gate = true, window = 8" as a dict: whole numbers, numbers, true and false, else texts."""
    all: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name.isidentifier():
            raise _core.OptionError(f'memory.arguments = "{text}": {part!r} is not NAME = VALUE')
        all[name] = _value(value)
    return all


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text.strip("\"'")


@contextlib.contextmanager
def _on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _is_own(file: str, folder: str) -> bool:
    """Whether a module that was imported is the user's own: below the folder of the model, and in nothing installed there."""
    if not file.startswith(folder + os.sep):
        return False
    between = os.path.relpath(os.path.dirname(file), folder).split(os.sep)
    places = [os.path.join(folder, *between[: i + 1]) for i in range(len(between)) if between[0] != "."]
    return not INSTALLED.intersection(between) and not any(os.path.isfile(os.path.join(p, "pyvenv.cfg")) for p in places)


def load(source: str, files: str) -> Callable[[Config], Any]:
    """The class that "FILE.py:CLASS" names. Warns of modules beside it that it imports and `files` does not name."""
    path, _, name = source.rpartition(":")
    folder = os.path.abspath(os.path.dirname(path))
    known = {os.path.abspath(p) for p in (path, *files.split())}
    script = getattr(sys.modules.get("__main__"), "__file__", None)  # it trains the model, and may have further names
    if script:
        known.add(os.path.abspath(script))
    before = set(sys.modules)
    spec = importlib.util.spec_from_file_location(f"crosstalk_model_{abs(hash(os.path.abspath(path)))}", path)
    if spec is None or spec.loader is None:
        raise _core.OptionError(f'memory.source = "{source}": {path} is no Python file')
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look it up
    with _on_path(folder):
        spec.loader.exec_module(module)
    beside = [
        file
        for file in (getattr(sys.modules[m], "__file__", None) for m in set(sys.modules) - before - {spec.name})
        if file and os.path.isfile(file) and _is_own(os.path.abspath(file), folder)
        and os.path.abspath(file) not in known
    ]
    if beside:
        names = sorted(os.path.relpath(file, folder) for file in beside)
        if len(names) > MOST_NAMES:
            names[MOST_NAMES:] = [f"{len(names) - MOST_NAMES} more files"]
        warnings.warn(
            f"{path} imports {', '.join(names)}, which memory.files does not name: a change there makes no new run",
            stacklevel=3,
        )
    found = getattr(module, name, None)
    if not callable(found):
        there = [n for n, x in vars(module).items() if isinstance(x, type) and x.__module__ == module.__name__]
        has = f"; it has {', '.join(there)}" if there else ""
        raise _core.OptionError(f'memory.source = "{source}": {path} has no class {name}{has}')
    return found  # type: ignore[no-any-return]


def text_of(model: Any) -> str:
    """The source text of a class: its file, or its own lines where it was typed into a notebook or a console."""
    module = inspect.getmodule(model)
    path = getattr(module, "__file__", None)
    if path and pathlib.Path(path).is_file():
        return pathlib.Path(path).read_text(encoding="utf-8")
    try:
        return inspect.getsource(model)
    except (OSError, TypeError):
        typed = _typed(model)
        if typed is not None:
            return typed
        raise ValueError(
            f"the source text of {getattr(model, '__name__', model)} cannot be found, and it identifies the run: write the "
            'class into a file and name it in the study, source = "mine.py:Mine"'
        ) from None


def _typed(model: Any) -> str | None:
    """The lines of a class in the cell where it was typed: inspect does not find classes of notebooks, but their functions."""
    for function in vars(model).values():
        code = getattr(function, "__code__", None)
        lines = linecache.getlines(code.co_filename) if code else []
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse("".join(lines))):
                if isinstance(node, ast.ClassDef) and node.name == model.__name__:
                    return ast.get_source_segment("".join(lines), node)
    return None


def digest_of(model: Any) -> tuple[str, str]:
    """(digest, text) of a class that is given as an object."""
    text = text_of(model)
    return _core.source_digest([text, model.__qualname__]), text
