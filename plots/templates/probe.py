"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 probe.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# --- style
# --- end of style
PANEL_HEIGHT = 1.45  # inches
STYLE.update({"lines.linewidth": 1.1, "lines.markersize": 3.4, "xtick.labelsize": 7, "ytick.labelsize": 7})

# --- settings
FIGURE = {
    "title": "", "x": "associations", "xlabel": "Pairs stored per dimension, $n / d_{\\mathrm{key}}$",
    "xlim": [0.2, 5.0], "facet": "model.d_key", "panels": [["32", "$d_{\\mathrm{key}}$ = 32"]],
    "rows": [["squared_error", "Squared error", "log", [1e-6, 10]], ["recall", "Recall", "linear", [0, 1.03]]],
    "vertical": {"32": [[1.1, "sum rule"]]},
    "footnote": "Line: median over 3 seeds; band: range.",
}
LINES = {  # (label, 0): legend, colour, marker, dash
    ("linear", 0): ("Linear attention", "#0072B2", "s", "-"),
}
OVERLAYS = {  # (label, 0) in the CSV: colour
    ("theory: linear", 0): "#0072B2",
}
OVERLAY_NAMES = {"theory": "Theory, random keys"}  # what stands before ':' in a label: legend
# --- end of settings

DASHES = {"--": (0, (5, 1.5)), ":": (0, (1.2, 1.2)), "-.": (0, (5, 1.5, 1.2, 1.5))}


# --- page
# --- end of page
def read_csv():
    """(metric, panel) -> label -> columns x / d_key, median, lo, hi; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi")]
            point[0] /= float(row[FIGURE["facet"]])
            if row["n"] == "1":  # one seed has no band
                point[2:] = [math.nan, math.nan]
            series = panels.setdefault((row["metric"], row[FIGURE["facet"]]), {})
            series.setdefault(row["label"], []).append(point)
    return {panel: {label: list(zip(*points)) for label, points in series.items()} for panel, series in panels.items()}


def draw(ax, series, log, limits):
    low, high = limits
    for rank, ((label, _), (name, colour, marker, dash)) in enumerate(LINES.items()):
        if label not in series:
            continue
        x, median, lo, hi = [[max(y, low) if log and i and y == y else y for y in column]
                             for i, column in enumerate(series[label])]
        shown = [y if math.isfinite(y) else math.nan for y in median]
        ax.fill_between(x, lo, hi, color=colour, alpha=0.18, linewidth=0, zorder=2)
        ax.plot(x, shown, color=colour, linestyle=DASHES.get(dash, dash), zorder=4 + 0.01 * rank)
        whole = [(at, y) for at, y in zip(x, shown) if low <= y <= high]
        if whole:  # markers are whole where a line ends on the frame
            ax.plot(*zip(*whole), color=colour, marker=marker, linestyle="none", markeredgecolor="white",
                    markeredgewidth=0.4, zorder=4.005 + 0.01 * rank, clip_on=False)
    for (label, _), colour in OVERLAYS.items():
        if label in series:
            ax.plot(*series[label][:2], color=colour, linestyle=(0, (4, 2)), linewidth=0.9, zorder=3)


def figure():
    plt.rcParams.update(STYLE)
    panels, rows, data = FIGURE["panels"], FIGURE["rows"], read_csv()
    fig, grid = plt.subplots(len(rows), len(panels), squeeze=False, sharex=True, sharey="row", figsize=(WIDTH, 3))
    looks = {}  # of the vertical lines
    for axes, (metric, _, scale, limits) in zip(grid, rows):
        for ax, (panel, _) in zip(axes, panels):
            ax.set_xscale("log", base=2)
            ax.set_yscale(scale)
            ax.set(xlim=FIGURE["xlim"], ylim=limits)
            set_ticks(ax.xaxis, "log2", FIGURE["xlim"], None, False)
            set_ticks(ax.yaxis, scale, limits, None, False)
            ax.grid(color="#E6E6E6", linewidth=0.5)
            draw(ax, data.get((metric, panel), {}), scale == "log", limits)
            for x, words in FIGURE["vertical"].get(panel, []) if metric == rows[-1][0] else []:
                looks.setdefault(words, dict(color=GREY, linewidth=0.8, linestyle=[":", "-."][len(looks) % 2]))
                ax.axvline(x, zorder=1, **looks[words])
    handles = [Line2D([], [], color=colour, marker=marker, linestyle=DASHES.get(dash, dash), markeredgecolor="white",
                      markeredgewidth=0.4, label=name) for name, colour, marker, dash in LINES.values()]
    handles += [Line2D([], [], color=GREY, linestyle=(0, (4, 2)), linewidth=0.9, label=name)
                for name in OVERLAY_NAMES.values()]
    handles += [Line2D([], [], label=words, **look) for words, look in looks.items()]
    names = [name for _, name in panels] if len(panels) > 1 else [panels[0][1], ""]
    set_page(fig, grid, names, [ylabel for _, ylabel, _, _ in rows], handles, PANEL_HEIGHT)
    return fig


def main():
    save(figure())


if __name__ == "__main__":
    main()
