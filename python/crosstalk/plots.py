"""Figures of the program as figures of matplotlib."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile
from typing import Any, Mapping

from .stores import _names, _text, _texts
from .studies import _call

#: Options of `crosstalk plot` that are lists of keys.
LISTS = ("by", "best")


def plot(
    figure: str,
    paths: Any,
    *,
    where: Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,
    theory: bool = True,
    footnote: bool = True,
    **options: Any,
) -> Any:
    """A figure of the program (`crosstalk list figures`) as a Figure of matplotlib, to be shown by a notebook and changed.

    Options are those of `crosstalk plot`: `by=["model.d_key"]`, `best="train.learning_rate"`, `facet`, `x`, `log`, `width`, `venue`,
    `metric`, `published`, ... `figure.save("fig")` writes fig.csv with the numbers, fig.py that draws them, fig.caption.txt, fig.pdf and fig.png.
    `figure.caption` is that text: how seeds are shown, how many runs lie at chance or are missing, in what labels differ.

    >>> figure = ct.plot("accuracy", "runs/mqar", x="task.pairs")
    >>> len(figure.axes), len(figure.axes[0].lines) >= 3
    (1, True)
    """
    try:
        import matplotlib
        import matplotlib.pyplot as pyplot
    except ImportError:
        raise ImportError("matplotlib is not installed: pip install matplotlib") from None
    folder = tempfile.mkdtemp(prefix="crosstalk_")
    try:
        base = pathlib.Path(folder) / "figure"
        words = ["plot", figure, *_names(paths), "--out", str(base)]
        words += [w for condition in _texts(where, "where") for w in ("--where", condition)]
        words += [w for one in _texts(set, "set") for w in ("--set", one)]
        words += [] if theory else ["--no-theory"]
        words += [] if footnote else ["--footnote", "off"]
        for name, value in options.items():
            if value is not None:
                words += [f"--{name.replace('_', '-')}", _text(value)]
        _call(words)
        script = base.with_suffix(".py")
        before = list(sys.path)
        try:
            names: dict[str, Any] = {"__name__": "crosstalk_figure", "__file__": str(script)}
            exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), names)
            with matplotlib.rc_context():
                drawn = names["figure"]()
        finally:
            sys.path[:] = before
        pyplot.close(drawn)  # whoever gets it shows it
        texts = {ending: base.with_suffix(ending).read_bytes() for ending in (".csv", ".py", ".caption.txt")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    def save(path: Any) -> None:
        """Writes PATH.csv, PATH.py, PATH.pdf and PATH.png."""
        to = pathlib.Path(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        for ending, text in texts.items():
            to.with_name(to.name + ending).write_bytes(text)
        for ending in (".pdf", ".png"):
            drawn.savefig(to.with_name(to.name + ending))

    drawn.save = save
    drawn.caption = texts[".caption.txt"].decode("utf-8")
    return drawn
