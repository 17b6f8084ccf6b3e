"""Draws this figure from the CSV beside it and writes a PDF and a PNG beside it: python3 named.py

Stand-alone (matplotlib and the standard library) and yours to edit: every number is in the CSV.
"""
# --- style
# --- end of style

# --- settings
FIGURE = {
    "title": "", "x": "bits", "xlabel": "Bits a token", "ylabel": "Test accuracy",
    "xscale": "linear", "yscale": "linear", "xlim": [1.9, 2.4], "ylim": [-0.1, 1.15],
    "edge": 2.1, "families": {"linear": "adds to a state"},
    "footnote": "Bars: range of the seeds.",
}
LINES = {  # label in the CSV: name at its points, colour, marker
    "linear": ("Linear", "#0072B2", "s"),
}
OVERLAYS = {  # label in the CSV: legend
    "front": "Front: no other is better at both",
}
# --- end of settings

# Of families, in the order of the alphabet (Okabe and Ito 2008).
LOOKS = [("#0072B2", "s"), ("#D55E00", "^"), ("#009E73", "D"), ("#CC79A7", "o"), ("#56B4E9", "v"), ("#E69F00", "P")]
NAME = 5.6  # points, the size of a name
FIGURE["xlim"] = [FIGURE["xlim"][0], FIGURE["edge"]]  # what lies beyond stands at the edge, its number beside its name


# --- page
# --- end of page
def read_csv():
    """panel -> label -> rows x, median, lo, hi; NaN where the CSV has no number."""
    panels = {}
    with open(BASE.with_suffix(".csv"), newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = [float(row[name] or "nan") for name in (FIGURE["x"], "median", "lo", "hi")]
            panels.setdefault(row.get(FIGURE.get("facet"), ""), {}).setdefault(row["label"], []).append(numbers)
    return panels


def looks():
    """label -> name, colour, marker; and the legend of the families. Labels of no family keep their own look."""
    families = sorted({family for family in FIGURE["families"].values()})
    look = {family: LOOKS[i % len(LOOKS)] for i, family in enumerate(families)}
    found = {label: (name, *look.get(FIGURE["families"].get(label), (colour, marker)))
             for label, (name, colour, marker) in LINES.items()}
    return found, [Line2D([], [], color=look[family][0], marker=look[family][1], linestyle="none", label=family)
                   for family in families]


def crosses(a, b, c, d):
    """Whether the line from a to b meets that from c to d."""
    side = lambda p, q, r: (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])
    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


def through(a, b, box):
    """Whether the line from a to b runs through a box (left, low, right, high)."""
    corners = [(box[0], box[1]), (box[2], box[1]), (box[2], box[3]), (box[0], box[3])]
    return any(crosses(a, b, corners[i], corners[(i + 1) % 4]) for i in range(4))


def places(spots, sizes, frame, drawn):
    """Where each name stands so that none covers a marker, another name or the lines `drawn`: boxes, and where a line leads to them.
    The nearest of places on circles around the marker; markers among many choose first. All in points of the page."""
    near = [sum(math.dist(one, other) < 25 for other in spots) for one in spots]
    markers = [(x - 2.2, y - 2.2, x + 2.2, y + 2.2) for x, y in spots]
    boxes, lines = {}, {}
    for i in 3 * sorted(range(len(spots)), key=lambda i: (-near[i], spots[i])):  # again, with the others in view
        (x, y), (wide, high), best = spots[i], sizes[i], None
        boxes.pop(i, None), lines.pop(i, None)
        for radius in (5, 8, 12, 17, 23, 30, 38, 47, 57, 68, 80, 95, 112, 130, 150, 175):
            if best and best[0] <= radius:
                break
            for turn in range(36):
                angle = 2 * math.pi * turn / 36
                end = (x + radius * math.cos(angle), y + radius * math.sin(angle))
                left = end[0] - wide * (0.5 - 0.5 * max(-1, min(1, 2.5 * math.cos(angle))))
                low = end[1] - high * (0.5 - 0.5 * max(-1, min(1, 2.5 * math.sin(angle))))
                box = (left, low, left + wide, low + high)
                if box[0] < frame[0] or box[2] > frame[2] or box[1] < frame[1] or box[3] > frame[3]:
                    continue
                cover = sum(box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
                            for other in markers + list(boxes.values()))
                if best and 1000 * cover + radius >= best[0]:
                    continue
                met = sum(crosses((x, y), end, *line) for line in lines.values()) if radius > 8 else 0
                met += sum(through((x, y), end, other) for other in boxes.values())
                met += sum(through((x, y), end, other) for j, other in enumerate(markers) if j != i)
                met += sum(through(*line, box) for line in drawn + list(lines.values()))
                cost = 1000 * cover + 200 * met + radius
                if best is None or cost < best[0]:
                    best = cost, box, ((x, y), end)
        if best:
            _, boxes[i], lines[i] = best
    return boxes, lines


def draw(ax, points):
    """Markers, bars and the overlays; the names of the points are set when the page has its size."""
    found, handles = looks()
    for label, (_, colour, marker) in found.items():
        for x, y, lo, hi in points.get(label, []):
            x = min(x, FIGURE["xlim"][1])
            ax.plot([x, x], [lo, hi], "-", color=colour, linewidth=0.9, zorder=3)
            ax.plot([x], [y], marker, color=colour, zorder=4, clip_on=False)
    for label, name in OVERLAYS.items():
        if label in points:
            x, y = zip(*((row[0], row[1]) for row in points[label]))
            handles += ax.plot(x, y, color=GREY, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1, label=name)
    return handles


def set_names(fig, ax, points):
    found, renderer, scale = looks()[0], fig.canvas.get_renderer(), 72 / fig.dpi
    names, spots, colours = [], [], []
    for label, (name, colour, _) in found.items():
        for x, y, *_ in points.get(label, []):
            beyond = x > FIGURE["xlim"][1]
            names.append(f"{name} {x:.3g} \u2192" if beyond else name)
            spots.append(tuple(scale * c for c in ax.transData.transform((min(x, FIGURE["xlim"][1]), y))))
            colours.append(colour)
    texts = [ax.text(0, 0, name, fontsize=NAME, color=colour, ha="left", va="bottom", transform=None, zorder=5)
             for name, colour in zip(names, colours)]
    sizes = [(scale * box.width + 1, scale * box.height) for box in (text.get_window_extent(renderer) for text in texts)]
    window = ax.get_window_extent(renderer)
    frame = (scale * window.x0, scale * window.y0, scale * window.x1, scale * window.y1 + 2)
    on_page = lambda rows: [tuple(scale * c for c in ax.transData.transform(row[:2])) for row in rows]
    drawn = [part for label in OVERLAYS for ends in [on_page(points.get(label, []))] for part in zip(ends, ends[1:])]
    boxes, lines = places(spots, sizes, frame, drawn)
    for i, text in enumerate(texts):
        if i not in boxes:
            text.remove()
            continue
        text.set_position((boxes[i][0] / scale, boxes[i][1] / scale))
        a, b = (tuple(c / scale for c in end) for end in lines[i])
        if math.dist(*lines[i]) > 9:
            ax.add_line(Line2D([a[0], b[0]], [a[1], b[1]], color=colours[i], linewidth=0.35, alpha=0.7, transform=None, zorder=2))


def figure():
    plt.rcParams.update(STYLE)
    panels, data = FIGURE.get("panels") or [["", ""]], read_csv()
    fig, grid = panel_grid(panels)
    handles = {}
    for ax, (panel, _) in zip(grid.flat, panels):
        set_scales(ax, False)
        for handle in draw(ax, data.get(panel, {})):
            handles.setdefault(handle.get_label(), handle)
    set_page(fig, grid, [name for _, name in panels], [FIGURE["ylabel"]], list(handles.values()),
             AXES_HEIGHT + 0.04 * max(0, len(LINES) - 10))
    for ax, (panel, _) in zip(grid.flat, panels):
        set_names(fig, ax, data.get(panel, {}))
    return fig


def main():
    save(figure())


if __name__ == "__main__":
    main()
