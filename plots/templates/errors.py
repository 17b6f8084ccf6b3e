"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 errors.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# --- style
# --- end of style

# --- settings
FIGURE = {
    "title": "", "x": "test_accuracy", "xlabel": "Share of test queries", "xlim": [0, 1], "facet": "", "panels": [["", ""]],
    "kinds": [["error_other_value", "Value of another key", "#0072B2"], ["error_never", "Never written", "#999999"]],
    "footnote": "Means over 3 seeds.",
}
LINES = {  # (label, 0): legend, colour, marker, dash
    ("delta", 0): ("Delta", "#0072B2", "s", "-"),
}
OVERLAYS = {}
OVERLAY_NAMES = {}
# --- end of settings

BAR = 0.17    # inches
SPACE = 0.05  # inches between two bars


# --- page
# --- end of page
def read_csv():
    """panel -> (label, kind) -> mean share."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            panels.setdefault(row.get(FIGURE["facet"], ""), {})[row["label"], row["metric"]] = float(row["mean"] or "nan")
    return panels


def figure():
    plt.rcParams.update(STYLE)
    panels, kinds, data = FIGURE["panels"], FIGURE["kinds"], read_csv()
    columns = min(len(panels), 1 if WIDTH < 4 else 2)
    fig, grid = plt.subplots(-(-len(panels) // columns), columns, squeeze=False, sharex=True, sharey=True,
                             figsize=(WIDTH, 3))
    labels = [label for label, _ in LINES][::-1]  # the first at the top
    size, room = plt.rcParams["ytick.labelsize"], 0.34 * WIDTH
    names = [fitted(fig, name, room, size) for name, _, _, _ in reversed(LINES.values())]
    lines = [1 + name.count("\n") for name in names]
    step = max(BAR + SPACE, 1.25 * size / 72 * max(lines))  # inches from one bar to the next
    for i, ax in enumerate(grid.flat):
        if i >= len(panels):
            ax.set_visible(False)
            grid.flat[i - columns].tick_params(labelbottom=True)
            continue
        for place, label in enumerate(labels):
            left = 0
            for kind, _, colour in kinds:
                share = data.get(panels[i][0], {}).get((label, kind), math.nan)
                if share > 0:
                    ax.barh(place, share, BAR / step, left=left, color=colour, linewidth=0.3, edgecolor="white", zorder=2)
                    left += share
        ax.set(xlim=FIGURE["xlim"], ylim=(-0.6, len(labels) - 0.4))
        ax.set_yticks(range(len(labels)), names)
        ax.tick_params(axis="y", length=0)
        ax.xaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        ax.xaxis.set_major_formatter(plain)
        ax.grid(axis="x", color="#E6E6E6", linewidth=0.5)
        for tick in ax.get_yticklabels():
            tick.set_linespacing(1.1)
            shrink(tick, room)
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour, linewidth=0, label=name) for _, name, colour in kinds]
    titles = [name for _, name in panels]
    set_page(fig, grid, titles, [""], handles, step * len(labels) + 0.02)
    return fig


def main():
    save(figure())


if __name__ == "__main__":
    main()
