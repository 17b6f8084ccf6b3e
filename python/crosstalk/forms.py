"""Arrays in files and data sets of every form, by their paths: of folders, files and names inside."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import pathlib
from typing import Any, Callable, Iterator, Mapping

import numpy as np


class Rows:
    """Rows of several lengths: their numbers one after the other."""

    def __init__(self, numbers: Any, lengths: Any):
        self.numbers, self.lengths = np.asarray(numbers), np.asarray(lengths, np.int64)

    def filled(self, value: int) -> tuple[Any, Any]:
        """`[N,T]` with `value` behind each row, and where its numbers are."""
        there = np.arange(max(1, int(self.lengths.max(initial=0)))) < self.lengths[:, None]
        array = np.full(there.shape, value, self.numbers.dtype)
        array[there] = self.numbers
        return array, there


def _needs(package: str, path: pathlib.Path) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f"{path} is read by the package {package.split('.')[0]}: pip install {package.split('.')[0]}") from None


def _nested(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Arrays in dicts of dicts, and lists of rows."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _nested(one, f"{path}/{name}")
    elif isinstance(value, (list, tuple)):
        rows = [np.asarray(row) for row in value]
        if not rows or any(row.ndim != 1 for row in rows):
            raise ValueError(f"{path} is a list that is none of rows of tokens; save it as an array")
        yield path, Rows(np.concatenate(rows), [len(row) for row in rows])
    elif hasattr(value, "numpy"):
        if str(value.dtype) == "torch.bfloat16":
            raise ValueError(f"{path} is bfloat16; save it as {path}.float()")
        yield path, value.detach().cpu().numpy()
    else:
        yield path, np.asarray(value)


def _of_table(table: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Columns of numbers and of lists of numbers of an Arrow table."""
    import pyarrow

    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if isinstance(column, pyarrow.ChunkedArray):
            column = pyarrow.concat_arrays(column.chunks)
        if column.null_count:
            raise ValueError(f"{path}/{name} lacks {column.null_count} of its {len(column)} rows; leave them out first")
        if not hasattr(column, "flatten") or pyarrow.types.is_struct(column.type):
            yield f"{path}/{name}", column.to_numpy(zero_copy_only=False)
            continue
        lengths = pyarrow.compute.list_value_length(column).to_numpy(zero_copy_only=False)
        yield f"{path}/{name}", Rows(column.flatten().to_numpy(zero_copy_only=False), lengths)


def _npz(path: pathlib.Path, at: str) -> Iterator[tuple[str, Any]]:
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            yield f"{at}/{name}", file[name]


def _safetensors(path: pathlib.Path, at: str) -> Iterator[tuple[str, Any]]:
    yield from _nested(_needs("safetensors.numpy", path).load_file(str(path)), at)


def _pt(path: pathlib.Path, at: str) -> Iterator[tuple[str, Any]]:
    torch = _needs("torch", path)
    try:
        held = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:
        why = str(error).splitlines()[0].split(". ")[0] if str(error) else type(error).__name__  # what follows is of torch.load alone
        raise ValueError(
            f"{path} holds more than tensors, dicts and lists ({why}); save those alone: torch.save(dict(inputs=...), ...)"
        ) from None
    yield from _nested(held, at)


def _parquet(path: pathlib.Path, at: str) -> Iterator[tuple[str, Any]]:
    _needs("pyarrow.compute", path)
    yield from _of_table(_needs("pyarrow.parquet", path).read_table(path), at)


def _dataset(path: pathlib.Path, at: str) -> Iterator[tuple[str, Any]]:
    """A folder that `save_to_disk` of a Dataset or a DatasetDict wrote."""
    held = _needs("datasets", path).load_from_disk(str(path))
    _needs("pyarrow.compute", path)
    for name, part in (held if isinstance(held, dict) else {"": held}).items():
        yield from _of_table(part.with_format("arrow")[:], f"{at}/{name}" if name else at)


READERS: dict[str, Callable[[pathlib.Path, str], Iterator[tuple[str, Any]]]] = {
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".pt": _pt,
    ".pth": _pt,
    ".parquet": _parquet,
    ".npy": lambda path, at: iter([(at, np.load(path, allow_pickle=False))]),
}


def entries(source: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """(path, array or rows) of all that is in a source."""
    if not source.is_dir():
        if source.suffix not in READERS:
            raise ValueError(f"{source} is none of {', '.join(READERS)}, nor a folder of such")
        yield from READERS[source.suffix](source, "")
    elif (source / "dataset_dict.json").exists() or (source / "dataset_info.json").exists():
        yield from _dataset(source, "")
    else:
        files = sorted(path for path in source.rglob("*") if path.suffix in READERS)
        if not files:
            raise ValueError(f"{source} holds no {', '.join(READERS)}, and is no dataset that save_to_disk wrote")
        for path in files:
            yield from READERS[path.suffix](path, str(path.relative_to(source).with_suffix("")))
