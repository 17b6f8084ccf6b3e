"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 points.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# --- style
# --- end of style

# --- settings
FIGURE = {
    "title": "", "x": "d_dot", "xlabel": "$d_{\\mathrm{dot}}$", "ylabel": "Capacity (associations)",
    "xscale": "log2", "yscale": "log2", "xlim": [6.0, 600.0], "ylim": [6.0, 600.0],
    "fit": "Fit: slope 1.00 [0.90, 1.10]",
    "footnote": "Bars: range of the seeds.",
}
LINES = {  # label in the CSV: legend, colour, marker
    "linear": ("Linear", "#0072B2", "s"),
}
OVERLAYS = {  # label in the CSV: legend
    "theory: capacity of the rank bound": "Theory: rank bound",
}
# --- end of settings

BESIDE = 5.5  # points of the page from one marker to the next where several have one x


# --- page
# --- end of page
def read_csv():
    """panel -> label -> rows x, capacity, lo, hi, censored; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi", "censored")]
            panels.setdefault(row.get(FIGURE.get("facet"), ""), {}).setdefault(row["label"], []).append(numbers)
    return panels


def beside(points, inches):
    """(label, row) -> how far, in points of the page, a marker stands from its x: markers that would cover each other
    stand side by side; the x that have several; and the first and last place on the page."""
    low, high = FIGURE["xlim"]
    scale = math.log if FIGURE["xscale"] != "linear" else float
    at = sorted(((scale(row[0]) - scale(low)) / (scale(high) - scale(low)) * 72 * inches, rank, label, i)
                for rank, label in enumerate(LINES) for i, row in enumerate(points.get(label, []))
                if math.isfinite(row[0]) and (row[0] > 0 or scale is float))
    groups = []
    for one in at:
        if groups and one[0] - groups[-1][-1][0] < BESIDE:
            groups[-1].append(one)
        else:
            groups.append([one])
    aside, shared, ends = {}, set(), [0.0, 72 * inches]
    for n, group in enumerate(groups):
        room = [abs(other[0][0] - group[0][0]) for other in groups[max(n - 1, 0):n + 2] if other is not group]
        step = max(min([BESIDE] + [0.8 * gap / len(group) for gap in room]), 2)
        for rank, (place, _, label, i) in enumerate(group):
            aside[label, i] = (rank - (len(group) - 1) / 2) * step
            ends = [min(ends[0], place + aside[label, i] - BESIDE), max(ends[1], place + aside[label, i] + BESIDE)]
            if len(group) > 1:
                shared.add(points[label][i][0])
    return aside, shared, ends


def make_room(panels, inches):
    """Widens the axis where markers that stand beside their x would leave it."""
    ends = [beside(points, inches)[2] for points in panels.values()] or [[0.0, 72 * inches]]
    first, last = min(end[0] for end in ends), max(end[1] for end in ends)
    low, high = FIGURE["xlim"]
    log = FIGURE["xscale"] != "linear"
    a, b = (math.log(low), math.log(high)) if log else (low, high)
    unit = (b - a) / max(72 * inches - (last - first - 72 * inches), 36)
    wider = [a + first * unit, b + (last - 72 * inches) * unit]
    FIGURE["xlim"] = [math.exp(x) for x in wider] if log else wider


def draw(ax, points, inches):
    handles, floor, ceiling = [], FIGURE["ylim"][0], FIGURE["ylim"][1]
    seen_censored = seen_zero = False
    aside, shared, _ = beside(points, inches)
    for x in shared:
        ax.axvline(x, color="#AAAAAA", linewidth=0.5, linestyle=(0, (1, 2)), zorder=0.6)
    for label, (name, colour, marker) in LINES.items():
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="none", label=name))
        for i, (x, y, lo, hi, censored) in enumerate(points.get(label, [])):
            place = ax.transData + ScaledTranslation(aside.get((label, i), 0) / 72, 0, ax.figure.dpi_scale_trans)
            if hi > max(lo, floor):  # capped, lest a bar on a triangle look like an arrow
                ends = [max(lo, floor), min(hi, ceiling)]
                ax.plot([x, x], ends, "-", color=colour, linewidth=0.9, zorder=3, transform=place)
                ax.plot([x] * (2 if hi < ceiling else 1), ends if hi < ceiling else ends[:1], "_", color=colour,
                        markersize=4, zorder=3, transform=place)
            if y <= 0:  # not even the smallest number of associations: a cross on the axis
                ax.plot([x], [floor], "x", color=colour, markersize=4.5, clip_on=False, zorder=6, transform=place)
                seen_zero = True
                continue
            if not y == y:
                continue
            ax.plot([x], [y], marker, color=colour, markerfacecolor="white" if censored else colour, zorder=4,
                    clip_on=False, transform=place)
            if censored:  # at least this: larger numbers were not tried
                ax.annotate("", (x, y), (0, 13), xycoords=place, textcoords="offset points", zorder=3,
                            annotation_clip=False, arrowprops=dict(arrowstyle="<-", color=colour, linewidth=0.9,
                                                                   shrinkA=0, shrinkB=2, mutation_scale=7))
                seen_censored = True
    for label, name in OVERLAYS.items():
        if label in points:
            x, y = zip(*((row[0], row[1]) for row in points[label]))
            handles += ax.plot(x, y, color=GREY, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1, label=name)
    sizes = [row[0] for label in LINES for row in points.get(label, []) if row[0] > 0]
    if FIGURE["fit"] and "fit: slope" in points and sizes:
        slope, intercept, (low, high) = points["fit: slope"][0][1], points["fit: intercept"][0][1], (min(sizes), max(sizes))
        x = [low * (high / low) ** (i / 200) for i in range(201)]
        handles += ax.plot(x, [slope * value + intercept for value in x], color="black", linewidth=0.8,
                           zorder=2, label=FIGURE["fit"])
    if seen_censored:
        handles.append(Line2D([], [], color=GREY, marker="$\\uparrow$", linestyle="none", markersize=7,
                              label="At least (largest number tested)"))
    if seen_zero:
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle="none", label="Below the smallest number tested"))
    if shared:
        handles.append(Line2D([], [], color="#AAAAAA", linewidth=0.5, linestyle=(0, (1, 2)),
                              label="True x of the markers beside it"))
    return handles


def figure():
    plt.rcParams.update(STYLE)
    panels, data = FIGURE.get("panels") or [["", ""]], read_csv()
    fig, grid = panel_grid(panels)
    handles, inches = {}, 0.9 * (WIDTH - 0.75) / grid.shape[1]
    make_room(data, inches)
    for ax, (panel, _) in zip(grid.flat, panels):
        set_scales(ax, True)
        for handle in draw(ax, data.get(panel, {}), inches):
            handles.setdefault(handle.get_label(), handle)
    set_page(fig, grid, [name for _, name in panels], [FIGURE["ylabel"]], list(handles.values()),
             AXES_HEIGHT if len(grid) == 1 else 0.7 * AXES_HEIGHT)
    return fig


def main():
    save(figure())


if __name__ == "__main__":
    main()
