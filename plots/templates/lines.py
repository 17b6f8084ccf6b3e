"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 lines.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# --- style
# --- end of style

# --- settings
FIGURE = {
    "title": "", "x": "associations", "xlabel": "Associations", "ylabel": "Loss",
    "xscale": "linear", "yscale": "linear", "xlim": [0.0, 100.0], "ylim": [0.0, 0.5],
    "ticks_at_d_dot": True, "vertical": [], "vertical_name": "", "solved": None,
    "footnote": "Line: median over 5 seeds; band: range.",
}
LINES = {  # (label, d_dot) in the CSV, 0 for any d_dot: legend, colour, marker, dash
    ("linear", 16): ("Linear ($d_{\\mathrm{dot}}$ = 16)", "#0072B2", "s", "-"),
}
OVERLAYS = {  # (label, d_dot) in the CSV: colour
    ("theory: rank bound, linear", 16): "#0072B2",
}
OVERLAY_NAMES = {"theory": "Theory: rank bound"}  # what stands before ':' in a label: legend
# --- end of settings

MANY = 8  # so many lines are named at their ends where there is room
DASHES = {"--": (0, (5, 1.5)), ":": (0, (1.2, 1.2)), "-.": (0, (5, 1.5, 1.2, 1.5))}


# --- page
# --- end of page
def read_csv():
    """panel -> (label, d_dot) of LINES -> columns x, median, lo, hi, d_dot, told (as the CSV has it); NaN where it has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            point = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi")]
            low, high = FIGURE["ylim"]
            if FIGURE["yscale"] == "log":  # what is solved stands on the axis
                point[1:] = [max(y, low) if y == y else y for y in point[1:]]
            point[2:] = [min(y, 2 * high) if y == y else y for y in point[2:]]
            if row["n"] == "1":  # one seed has no band
                point[2:] = [math.nan, math.nan]
            d_dot = int(row["d_dot"] or 0)
            key = (row["label"], d_dot)
            key = key if key in LINES or key in OVERLAYS else (row["label"], 0)
            panels.setdefault(row.get(FIGURE.get("facet"), ""), {}).setdefault(key, []).append((*point, d_dot, row.get("told")))
    return {panel: {key: list(zip(*points)) for key, points in series.items()} for panel, series in panels.items()}


def vertical_lines(panel):
    lines = FIGURE["vertical"]
    return lines.get(panel, []) if isinstance(lines, dict) else lines


def draw(ax, panel, series):
    handles, gone_at, marks, any_open = [], {}, {}, False
    alone = len({x for key in LINES if key in series for x in series[key][0]}) == 1  # one place: side by side
    step = min(14, 0.8 * 72 * (WIDTH - 0.8) / len(LINES))
    (left, right), (low, high) = FIGURE["xlim"], FIGURE["ylim"]
    for rank, (key, (name, colour, marker, dash)) in enumerate(LINES.items()):
        look = dict(color=colour, linestyle=DASHES.get(dash, dash))
        spot = dict(color=colour, marker=marker, markeredgecolor="white", markeredgewidth=0.4)
        handles.append(Line2D([], [], label=name, **{**spot, **look}))
        if key not in series:
            continue
        x, median, lo, hi, d_dot, told = series[key]
        shown = [y if math.isfinite(y) else math.nan for y in median]
        every = max(1, math.ceil(len(x) / 16))  # markers, not one a point
        aside = ScaledTranslation((rank - (len(LINES) - 1) / 2) * step / 72 if alone else 0, 0, ax.figure.dpi_scale_trans)
        place = ax.transData + aside
        ax.fill_between(x, lo, hi, color=colour, alpha=0.18, linewidth=0, zorder=2)
        for i, at in enumerate(x):  # a band has no width where there is no neighbour
            if hi[i] > lo[i] and not any(hi[j] == hi[j] for j in (i - 1, i + 1) if 0 <= j < len(x)):
                ax.plot([at] * 2, [lo[i], hi[i]], "_-", color=colour, linewidth=0.9, markersize=4, zorder=3,
                        transform=place)
        if alone and FIGURE["yscale"] == "linear":  # bars: one place has no lines
            for at, y in zip(x, shown):
                if low <= y <= high:
                    ax.vlines(at, max(low, 0), y, color=colour, linewidth=0.7 * step, alpha=0.35, zorder=1.9, transform=place)
        ax.plot(x, shown, zorder=4 + 0.01 * rank, transform=place, **look)
        whole = [(at, y) for at, y in list(zip(x, shown))[rank % every::every] if left <= at <= right and low <= y <= high]
        if whole:  # markers are whole where a line ends on the frame
            ax.plot(*zip(*whole), linestyle="none", clip_on=False, zorder=4.005 + 0.01 * rank, transform=place, **spot)
        hollow = [(at, y) for at, y in whole if told[x.index(at)] == "0"]
        if hollow:  # a difference that may be none
            any_open = True
            ax.plot(*zip(*hollow), linestyle="none", clip_on=False, zorder=4.006 + 0.01 * rank, transform=place,
                    color=colour, marker=marker, markerfacecolor="white", markeredgewidth=0.8)
        for at, y in zip(x, median):
            if y == math.inf:  # half or more of the runs diverged
                gone_at[at] = gone_at.get(at, 0) + 1
                ax.plot([at], [1 - 0.03 * (gone_at[at] - 1) % 0.9], "x", color=colour, markersize=4, clip_on=False,
                        transform=ax.get_xaxis_transform(), zorder=6)
        for size in set(d_dot) if FIGURE["ticks_at_d_dot"] else ():
            if 0 < size <= right and colour not in marks.setdefault(size, []):
                marks[size].append(colour)
    for size, colours in marks.items():  # grey where several memories have one
        ax.plot([size], [0], "^", color=colours[0] if len(colours) == 1 else GREY, markersize=5, markeredgewidth=0,
                clip_on=False, transform=ax.get_xaxis_transform(), zorder=7)
    looks = {"theory": dict(linestyle=(0, (4, 2)), linewidth=0.8),
             "prefix-exact": dict(linestyle="-", linewidth=0.6, zorder=3),
             "published": dict(linestyle="none", marker="o", markersize=4.5, markerfacecolor="none",
                               markeredgewidth=0.9, zorder=5)}
    for key, colour in reversed(list(OVERLAYS.items())):  # the first on top
        kind = key[0].split(":")[0]
        if key in series:
            whole = [(x, y) for x, y in zip(*series[key][:2]) if left <= x <= right and low <= y <= high]
            points = list(zip(*whole)) if kind == "published" else series[key][:2]
            if kind == "theory" and len(set(series[key][1])) == 1 and (alone or key[0] == "theory: chance"):
                points = FIGURE["xlim"], series[key][1][:1] * 2  # a level, from side to side
            if points:
                ax.plot(*points, color=colour, clip_on=kind != "published",
                        **{"zorder": 3 if key[1] else 5, **looks[kind]})
    for kind, name in OVERLAY_NAMES.items():
        own = [colour for key, colour in OVERLAYS.items() if key[0] == kind]  # of one label
        handles.append(Line2D([], [], color=own[0] if own else GREY, label=name, **looks[kind.split(":")[0]]))
    dotted = dict(color=GREY, linewidth=0.7, linestyle=":")
    if FIGURE["solved"] and low <= FIGURE["solved"] <= high:
        ax.axhline(FIGURE["solved"], zorder=1.5, **dotted)
        handles.append(Line2D([], [], label=f"Solved: at most {FIGURE['solved']:g}", **dotted))
    for x in vertical_lines(panel):
        ax.axvline(x, zorder=1, **dotted)
    if vertical_lines(panel):
        handles.append(Line2D([], [], label=FIGURE["vertical_name"], **dotted))
    if any_open:
        handles.append(Line2D([], [], color=GREY, marker="o", markerfacecolor="white", markeredgewidth=0.8,
                              linestyle="none", label="Not told from 0"))
    if marks:
        handles.append(Line2D([], [], color=GREY, marker="^", linestyle="none", markersize=5,
                              markeredgewidth=0, label="$d_{\\mathrm{dot}}$ of the memories"))
    if gone_at:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", markersize=4, label="Diverged"))
    return handles


def names_at_ends(fig, panels):
    """[(end of the line, colour, name)] where lines are many and each has room for its name at the right, or none."""
    labels = []
    if len(panels) > 1 or len(LINES) < MANY or len(LINES) * END_STEP > AXES_HEIGHT + 0.2:
        return labels
    for key, (name, colour, _, _) in LINES.items():
        columns = list(panels.values())[0].get(key, [[], []])
        points = [(x, y) for x, y in zip(*columns[:2]) if math.isfinite(y)]
        if not points or points[-1][0] < FIGURE["xlim"][1] - 0.15 * (FIGURE["xlim"][1] - FIGURE["xlim"][0]):
            return []
        if measured(fig, name, 7)[0] > 0.4 * WIDTH:
            return []
        labels.append((points[-1], colour, name))
    return labels


def write_names(ax, labels):
    """Names at the right of the axes, none over another, each with a thin line to the end of its line."""
    to_axes = lambda x, y: ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    ends = sorted(([*to_axes(x, y), colour, text] for (x, y), colour, text in labels), key=lambda end: -end[1])
    step = END_STEP / (ax.get_window_extent().height / ax.figure.dpi)
    blocks = []  # [mean of the place of the first name, names]: names that would meet stand around their mean
    for i, end in enumerate(ends):
        blocks.append([min(max(end[1], 0), 1) + i * step, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    least, most = (len(ends) - 1) * step - 0.05, 0.98  # there is no room above the frame
    places = [max(least, min(place, most)) for place, names in blocks for _ in range(names)]
    places = [place - i * step for i, place in enumerate(places)]
    for (x, y, colour, text), place in zip(ends, places):
        ax.annotate(text, (x, min(max(y, 0), 1)), (1.09, place), xycoords="axes fraction", va="center",
                    textcoords="axes fraction", fontsize=7, color=colour, annotation_clip=False,
                    arrowprops=dict(arrowstyle="-", color=colour, linewidth=0.5, shrinkA=1, shrinkB=1,
                                    relpos=(0, 0.5)))


def figure():
    plt.rcParams.update(STYLE)
    panels, data = FIGURE.get("panels") or [["", ""]], read_csv()
    fig, grid = panel_grid(panels)
    whole = all(x == round(x) for series in data.values() for key in LINES for x in series.get(key, [[]])[0] if x == x)
    handles = {}
    for ax, (panel, _) in zip(grid.flat, panels):
        set_scales(ax, whole)
        for handle in draw(ax, panel, data.get(panel, {})):
            handles.setdefault(handle.get_label(), handle)
    ends = names_at_ends(fig, data)
    for _, _, name in ends:
        handles.pop(name, None)
    set_page(fig, grid, [name for _, name in panels], [FIGURE["ylabel"]], list(handles.values()),
             AXES_HEIGHT if len(grid) == 1 else 0.7 * AXES_HEIGHT, [name for _, _, name in ends])
    if ends:
        write_names(grid[0, 0], ends)
    return fig


def main():
    save(figure())


if __name__ == "__main__":
    main()
