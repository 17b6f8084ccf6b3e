"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 window.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# --- style
# --- end of style
STYLE.update({"lines.linewidth": 1.1, "lines.markersize": 3.4, "xtick.labelsize": 7, "ytick.labelsize": 7})

# --- settings
FIGURE = {
    "title": "", "x": "train.learning_rate", "xlabel": "Learning rate", "xlim": [1e-5, 1e-1], "facet": "",
    "xticks": [1e-4, 1e-3, 1e-2], "chance": None,
    "panels": [["", ""]], "small": False,
    "rows": [["test_accuracy", "Test accuracy", "linear", [-0.02, 1.02]], ["solved", "Solved", "linear", [-0.02, 1.02]],
             ["gradient_norm", "Gradient norm", "log", [1e-3, 10]]],
    "footnote": "Points: 3 seeds; line: their median.",
}
LINES = {  # (label, 0): legend, colour, marker, dash
    ("delta", 0): ("Delta", "#0072B2", "s", "-"),
}
OVERLAYS = {  # (label, 0) in the CSV: colour
    ("chosen: delta", 0): "#0072B2",
}
OVERLAY_NAMES = {"chosen": "Best rate on validation"}  # what stands before ':' in a label: legend
# --- end of settings

MOST_LABELS = 6     # rates of which each has its number on the axis
PANEL_HEIGHT = 1.3  # inches
SMALL_HEIGHT = 1.0  # inches of a memory's panel, where each has one
BELOW = 0.3         # of it: the gradient's norm
DASHES = {"--": (0, (5, 1.5)), ":": (0, (1.2, 1.2)), "-.": (0, (5, 1.5, 1.2, 1.5))}
CHANCE = dict(color="#777777", linestyle=(0, (1, 2)), linewidth=0.8)
LARGEST = dict(linestyle=(0, (1.5, 1.5)), linewidth=0.7)


# --- page
# --- end of page
def read_csv():
    """(metric, panel) -> label -> [(x, median)]; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = tuple(float(row[name] or "nan") for name in (FIGURE["x"], "median"))
            panel = re.sub("^(seed|chosen): ", "", row["label"]) if FIGURE["small"] else row.get(FIGURE["facet"], "")
            series = panels.setdefault((row["metric"], panel), {})
            series.setdefault(row["label"], []).append(point)
    return panels


def draw(ax, series, scale, limits, looks, seeds=True):
    """Lines of these labels, their seeds as points, a ring at the chosen rate."""
    low, high = limits
    on_axis = lambda y: max(y, low) if scale == "log" and y == y else y  # what is smaller stands on the axis
    gone = {}
    for rank, (label, (_, colour, marker, dash)) in enumerate(looks.items()):
        if label not in series:
            continue
        for at, y in series.get("seed: " + label, []) if seeds else []:
            if low <= on_axis(y) <= high:
                ax.plot([at], [on_axis(y)], ".", color=colour, markersize=2.6, alpha=0.55, markeredgewidth=0, zorder=3,
                        clip_on=False)
        x, median = zip(*series[label])
        shown = [on_axis(y) if math.isfinite(y) else math.nan for y in median]
        ax.plot(x, shown, color=colour, linestyle=DASHES.get(dash, dash), zorder=4 + 0.01 * rank)
        whole = [(at, y) for at, y in zip(x, shown) if low <= y <= high]
        if whole and marker:
            ax.plot(*zip(*whole), color=colour, marker=marker, linestyle="none", markeredgecolor="white",
                    markeredgewidth=0.4, zorder=4.005 + 0.01 * rank, clip_on=False)
        for at, y in zip(x, median):
            if math.isinf(y):  # half or more of the runs diverged
                gone[at] = gone.get(at, 0) + 1
                ax.plot([at], [1 - 0.07 * (gone[at] - 1) % 0.9], "x", color=colour, markersize=4, clip_on=False,
                        transform=ax.get_xaxis_transform(), zorder=6)
        for at, y in series.get("chosen: " + label, []):
            if low <= on_axis(y) <= high:
                ax.plot([at], [on_axis(y)], "o", markerfacecolor="none", markeredgecolor=colour, markersize=7,
                        markeredgewidth=0.9, zorder=5, clip_on=False)
    return bool(gone)


def draw_norms(ax, data, panel, limits, looks):
    draw(ax, data.get(("gradient_norm", panel), {}), "log", limits, looks, seeds=False)
    low, high = limits
    for label, (_, colour, _, _) in looks.items():
        points = [(x, min(max(y, low), 2 * high)) for x, y in data.get(("largest_gradient_norm", panel), {}).get(label, [])
                  if math.isfinite(y)]
        if points:
            ax.plot(*zip(*points), color=colour, zorder=3, **LARGEST)


def draw_chance(ax):
    if FIGURE["chance"] is not None:
        ax.axhline(FIGURE["chance"], zorder=1.8, **CHANCE)


def set_axes(ax, scale, limits):
    ax.set_xscale("log")
    ax.set_yscale(scale)
    ax.set(xlim=FIGURE["xlim"], ylim=limits)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(ticker.NullLocator())
    decades = [10.0**power for power in range(-12, 6) if FIGURE["xlim"][0] <= 10.0**power <= FIGURE["xlim"][1]]
    tried = FIGURE["xticks"]
    if not FIGURE["small"] and len(tried) <= MOST_LABELS:  # every rate has its number
        set_ticks(ax.xaxis, "log", FIGURE["xlim"], tried, False)
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:.3g}"))
    else:
        set_ticks(ax.xaxis, "log", FIGURE["xlim"], decades if len(decades) > 1 else None, False)
        if len(decades) > 1:
            ax.xaxis.set_major_formatter(scientific)
        ax.xaxis.set_minor_locator(ticker.FixedLocator(tried))
        ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    set_ticks(ax.yaxis, scale, limits, None, False)
    ax.grid(color="#E6E6E6", linewidth=0.5)


def handles_of(names, gone, norms, small=False):
    handles = [Line2D([], [], color=colour, marker=marker, linestyle=DASHES.get(dash, dash), markeredgecolor="white",
                      markeredgewidth=0.4, label=name) for name, colour, marker, dash in names]
    handles.append(Line2D([], [], color=GREY, marker=".", linestyle="none", markersize=4, markeredgewidth=0, alpha=0.7,
                          label="One seed"))
    handles += [Line2D([], [], color=GREY, marker="o", markerfacecolor="none", markersize=6, linestyle="none",
                       markeredgewidth=0.9, label=name) for name in OVERLAY_NAMES.values()]
    if norms and small:
        handles.append(Line2D([], [], color=GREY, linewidth=1.1, label="Below: gradient norm"))
    if norms:
        handles.append(Line2D([], [], color=GREY, label="Largest gradient norm", **LARGEST))
    if FIGURE["chance"] is not None:
        handles.append(Line2D([], [], label="Chance", **CHANCE))
    if gone:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", markersize=4, label="Diverged"))
    return handles


def lines_of_all():
    """A row of panels for each metric, all memories in each."""
    panels, rows, data = FIGURE["panels"], FIGURE["rows"], read_csv()
    looks = {label: look for (label, _), look in LINES.items()}
    fig, grid = plt.subplots(len(rows), len(panels), squeeze=False, sharex=True, sharey="row", figsize=(WIDTH, 3))
    gone = False
    for axes, (metric, _, scale, limits) in zip(grid, rows):
        for ax, (panel, _) in zip(axes, panels):
            set_axes(ax, scale, limits)
            if metric == "gradient_norm":
                draw_norms(ax, data, panel, limits, looks)
            else:
                if metric == rows[0][0]:
                    draw_chance(ax)
                gone |= draw(ax, data.get((metric, panel), {}), scale, limits, looks)
    names = [name for _, name in panels] if len(panels) > 1 else [panels[0][1]] + [""] * (len(rows) - 1)
    set_page(fig, grid, names, [ylabel for _, ylabel, _, _ in rows],
             handles_of(LINES.values(), gone, rows[-1][0] == "gradient_norm"), PANEL_HEIGHT)
    return fig


def one_panel_each():
    """A small panel for each memory, the others in grey behind it, rates shaded by the share of seeds that solve the task."""
    panels, rows, data = FIGURE["panels"], FIGURE["rows"], read_csv()
    metric, ylabel, scale, limits = rows[0]
    norms = next((row for row in rows if row[0] == "gradient_norm"), None)
    lines = -(-len(panels) // (3 if WIDTH < 4 else 4 if WIDTH < 6 else 5))
    columns = -(-len(panels) // lines)  # as even as rows can be
    fig, grid = plt.subplots(lines, columns, squeeze=False, sharex=True, sharey=True,
                             figsize=(WIDTH, 3))
    gone = False
    for i, ax in enumerate(grid.flat):
        if i >= len(panels):
            ax.set_visible(False)
            grid.flat[i - columns].tick_params(labelbottom=True)
            continue
        label = panels[i][0]
        colour = LINES[label, 0][1]
        set_axes(ax, scale, limits)
        for other, _ in panels:
            points = [(x, y) for x, y in data.get((metric, other), {}).get(other, []) if math.isfinite(y)]
            if other != label and points:
                ax.plot(*zip(*points), color="#D8D8D8", linewidth=0.5, zorder=1.5)
        draw_chance(ax)
        gone |= draw(ax, data.get((metric, label), {}), scale, limits, {label: ("", colour, "", "-")})
        solved = data.get(("solved", label), {}).get(label, [])
        edges = [math.sqrt(a * b) for (a, _), (b, _) in zip(solved, solved[1:])]
        for (x, share), left, right in zip(solved, [FIGURE["xlim"][0]] + edges, edges + [FIGURE["xlim"][1]]):
            if share > 0:
                ax.axvspan(left, right, color=colour, alpha=0.25 * share, linewidth=0, zorder=1)
    handles = handles_of([], gone, norms is not None, True)
    handles.append(Line2D([], [], color="#D8D8D8", linewidth=1, label="Other memories"))
    handles.append(plt.Rectangle((0, 0), 1, 1, color=GREY, alpha=0.25, linewidth=0, label="Solved, by share of seeds"))
    set_page(fig, grid, [name for _, name in panels], [ylabel], handles, SMALL_HEIGHT)
    if norms is None:
        return fig
    for i, (ax, (label, _)) in enumerate(zip(grid.flat, panels)):  # the upper axes give room to the lower ones
        box, is_first = ax.get_position(), i % columns == 0
        below = fig.add_axes([box.x0, box.y0, box.width, BELOW * box.height])
        ax.set_position([box.x0, box.y0 + (BELOW + 0.06) * box.height, box.width, (0.94 - BELOW) * box.height])
        set_axes(below, "log", norms[3])
        below.tick_params(labelbottom=i + columns >= len(panels), labelleft=is_first)
        ax.tick_params(labelbottom=False, bottom=False)
        low, high = (math.log10(limit) for limit in norms[3])
        below.yaxis.set_major_locator(ticker.FixedLocator([10.0 ** round((low + high) / 2)]))
        draw_norms(below, data, label, norms[3], {label: ("", LINES[label, 0][1], "", "-")})
        thin_ticks(below.xaxis, fig.canvas.get_renderer())
    return fig


def figure():
    plt.rcParams.update(STYLE)
    return one_panel_each() if FIGURE["small"] else lines_of_all()


def main():
    save(figure())


if __name__ == "__main__":
    main()
