"""Draws what the tokens decide as histograms: gates, and half-lives where the state fades. python3 gates.py

Needs numpy and matplotlib, and is yours to edit.
"""
# SPDX-License-Identifier: Apache-2.0

# --- style
# --- end of style

# --- settings
TITLE = "delta, seed 1"
WIDTH = 3.25
TOKENS = []
GATES = []
# --- end of settings
NAMES = {"beta": r"$\beta$", "decay": r"Decay $\alpha$", "step": r"Step", "write_gain": "Write gain",
         "erase_gain": "Erase gain", "in_context_rate": "In-context rate", "bonus": "Bonus", "slope": "Slope",
         "correction": "Correction"}


def histograms():
    """[(axis title, values, logarithmic axis)]"""
    found = []
    for name in GATES:
        values = load(name).ravel()
        if name == "log_decay":
            found.append((r"Decay $\alpha$", np.exp(values), False))
        else:
            found.append((NAMES.get(name, name.replace("_", " ")), values, False))
    lives = load("half_life")
    if lives is not None and np.isfinite(lives).any():
        lives = lives[np.isfinite(lives) & (lives > 0)]
        if len(lives):
            found.append(("Half-life (tokens)", lives, lives.max() > 30 * lives.min()))
    return found


def main():
    found = histograms()
    columns = min(len(found), 2)
    rows = -(-len(found) // columns)
    wide = WIDTH if columns > 1 else 0.62 * WIDTH
    fig, grid = plt.subplots(rows, columns, squeeze=False, figsize=(wide, 2))
    for ax, (name, values, log) in zip(grid.flat, found):
        low, high = float(values.min()), float(values.max())
        if high - low < 1e-6 * max(abs(high), 1e-300):  # one value alone
            low, high = (low / 2, 2 * high) if log else (low - 0.5, high + 0.5)
        if 0 <= low and high <= 1 and not log:
            low, high = 0.0, 1.0
        bins = np.geomspace(low, high, 25) if log else np.linspace(low, high, 25)
        ax.hist(values, bins, weights=np.full(len(values), 1 / len(values)), color="#0072B2", linewidth=0)
        if log:
            ax.set_xscale("log")
            few = high / low < 300
            ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 3) if few else (1,), numticks=9))
            ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
            ax.xaxis.set_minor_formatter(ticker.NullFormatter())
        else:
            ax.xaxis.set_major_locator(ticker.MaxNLocator(4))
            ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:.10g}"))
        ax.yaxis.set_major_locator(ticker.MaxNLocator(3))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:.6g}"))
        ax.set_xlabel(name, labelpad=2)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in grid.flat[len(found):]:
        ax.set_visible(False)
    for row in grid:
        row[0].set_ylabel("Share")
    place(fig, grid, 0.72)
    save(fig)


if __name__ == "__main__":
    main()
