"""plot: the program's figure as one of matplotlib."""
# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest

import crosstalk as ct

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")


def test_a_figure_is_returned_and_saved(store, tmp_path):
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    size, path = matplotlib.rcParams["font.size"], list(sys.path)
    figure = ct.plot("accuracy", store, x="task.pairs", width=3.25)
    assert Figure in type(figure).__mro__ and figure.axes
    assert figure.get_size_inches()[0] == pytest.approx(3.25, abs=0.3)
    assert matplotlib.rcParams["font.size"] == size and sys.path == path
    assert pyplot.get_fignums() == []
    figure.axes[0].set_title("mine")
    figure.save(tmp_path / "figures" / "fig")
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {"fig.csv", "fig.py", "fig.caption.txt", "fig.pdf", "fig.png"}
    assert "Chance: accuracy" in figure.caption
    subprocess.run([sys.executable, tmp_path / "figures" / "fig.py"], check=True)


def test_wrong_figures_are_told(store):
    with pytest.raises(ct.ConfigError, match="did you mean 'capacity'"):
        ct.plot("capacityy_", store)
    with pytest.raises((ct.ConfigError, ValueError)):
        ct.plot("accuracy", store, colour="red")


def test_best_and_by(store):
    figure = ct.plot("accuracy", store, x="task.pairs", by=["seed"], where={"label": "delta*"}, theory=False, footnote=False)
    assert figure.axes
