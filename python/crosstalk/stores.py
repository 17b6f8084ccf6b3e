"""Stores, studies and tables of results as frames."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import pathlib
import warnings
from typing import Any, Iterable, Mapping

import numpy as np

from . import _core, checks

PathLike = "str | os.PathLike[str]"


def _texts(given: Any, what: str) -> list[str]:
    """KEY=VALUE of a mapping; lists are alternatives."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is a dict of keys and values")
    return [f"{key}={_text(value)}" for key, value in given.items()]


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return ",".join(_text(x) for x in value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return repr(value.item()) if isinstance(value, np.generic) else str(value)


def _names(paths: Any) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        return [checks.path(paths)]
    return [checks.path(path) for path in paths]


def _frame(columns: Iterable[tuple[str, Any]], lib: str) -> Any:
    """Columns of one type each as a frame of pandas or polars, or as a dict of arrays of numpy."""
    if lib == "pandas":
        try:
            import pandas
        except ImportError:
            raise ImportError("pandas is not installed: pip install pandas, or lib='polars' or 'numpy'") from None
        return pandas.DataFrame({name: _pandas(column) for name, column in columns}, copy=False)
    if lib == "polars":
        try:
            import polars
        except ImportError:
            raise ImportError("polars is not installed: pip install polars, or lib='pandas' or 'numpy'") from None
        return polars.DataFrame([_polars(name, column) for name, column in columns])
    if lib == "numpy":
        return {name: _numpy(column) for name, column in columns}
    raise ValueError(f"lib {lib!r}; there are pandas, polars and numpy")


def _pandas(column: Any) -> Any:
    import pandas

    kind, values, more = column
    if kind == "text":
        return pandas.Categorical.from_codes(values, categories=more)
    if kind == "float":
        return values
    missing = more == 0
    if kind == "bool":
        return pandas.arrays.BooleanArray(values.astype(bool), missing)
    return pandas.arrays.IntegerArray(values, missing)


def _polars(name: str, column: Any) -> Any:
    import polars

    kind, values, more = column
    if kind == "text":
        return polars.Series(name, [None if c < 0 else more[c] for c in values], dtype=polars.Categorical)
    if kind == "float":
        return polars.Series(name, values)
    series = polars.Series(name, values.astype(bool) if kind == "bool" else values)
    return series if more.all() else series.zip_with(polars.Series(more == 1), polars.Series([None], dtype=series.dtype))


def _numpy(column: Any) -> Any:
    kind, values, more = column
    if kind == "text":
        table = np.array([*more, None], dtype=object)
        return table[values]
    if kind == "float" or more.all():
        return values.astype(bool) if kind == "bool" else values
    return np.ma.masked_array(values.astype(bool) if kind == "bool" else values, more == 0)


def _key(column: Any) -> list[Any]:
    """Keys of np.lexsort by which a column's rows rise, what is missing last; the one that decides most stands last."""
    kind, values, more = column
    if kind == "float":
        return [values]
    if kind == "text":
        place = np.empty(len(more) + 1, np.int64)  # of a category; of none (-1) the last
        place[np.argsort(np.array(more, dtype=str), kind="stable") if more else []] = np.arange(len(more))
        place[-1] = len(more)
        return [place[values]]
    return [values, more == 0]


def _differs(column: Any) -> bool:
    return any((key[1:] != key[:-1]).any() for key in _key(column))


def _in_order(columns: list[tuple[str, Any]], by: Iterable[str]) -> list[tuple[str, Any]]:
    """Rows that rise by these columns, the first decides most; equal ones stay as they are."""
    of = dict(columns)
    keys = [key for name in reversed([n for n in by if n in of and _differs(of[n])]) for key in _key(of[name])]
    if not keys:
        return columns
    at = np.lexsort(keys)
    return [(n, (kind, x[at], more if kind == "text" else more[at])) for n, (kind, x, more) in columns]


def _keys_of(columns: list[tuple[str, Any]]) -> list[str]:
    """Names of the configuration's columns, `task.pairs` and the like."""
    names = [name for name, _ in columns]
    return [name for name in names[: names.index("d_dot")] if "." in name]


def read(
    paths: Any,
    *,
    where: Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,
    store: Any = None,
    curves: bool = False,
    provenance: bool = False,
    lib: str = "pandas",
) -> Any:
    """Results of stores, studies or tables, as `crosstalk export` gives them, with the type of each option.

    One row a run and label; integers stay integers (`Int64`) and texts are categories, also where some memories lack the
    option. Rows rise by study, label, the keys of the configuration that differ (in the order of their columns) and seed.
    `curves=True`: id, label, seed, step, metric, value, by label, seed, id, metric and step.
    `where={"label": "dpfp*", "task.pairs": [4, 8]}` chooses rows.

    >>> frame = ct.read("runs/mqar", where={"label": "delta*"})
    >>> frame.columns[:5].tolist()
    ['id', 'study', 'label', 'status', 'seed']
    >>> by_pairs = frame.groupby("task.pairs").test_accuracy.median()
    """
    names, conditions = _names(paths), _texts(where, "where")
    sets, place = _texts(set, "set"), None if store is None else checks.path(store)
    if curves:
        if provenance:
            raise ValueError("curves have no provenance; read the runs with provenance=True")
        columns, _, told = _core.curves(names, conditions, sets, place)
        by = ["label", "seed", "id", "metric", "step"]
    else:
        columns, _, told = _core.columns(names, conditions, sets, place, provenance)
        by = ["study", "label", *_keys_of(columns), "seed", "id"]
    for line in told.splitlines():
        warnings.warn(line.removeprefix("crosstalk: ").removeprefix("warning: "), stacklevel=2)
    return _frame(_in_order(columns, by), lib)


def weights(store: Any, id: str) -> dict[str, Any]:
    """The final weights of a run that was trained with `train.keep_weights = true`: arrays by name."""
    folder = pathlib.Path(store)
    if os.path.basename(id) != id:
        raise ValueError(f"{id!r} is no id of a run")
    path = folder / "weights" / f"{id}.npz"
    if not path.is_file():
        kept = sorted((folder / "weights").glob("*.npz"))
        why = f"{len(kept)} runs have" if kept else "no run has: train with train.keep_weights = true"
        raise FileNotFoundError(f"{path}: the store has no weights of this run ({why})")
    with np.load(path) as file:
        of = file.zip.comment.decode("ascii", "replace")
        if of and of != id:
            raise ValueError(f"{path} holds the weights of run {of}, not of {id}")
        return {name: file[name] for name in file.files}
