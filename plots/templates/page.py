# The page of a figure of a study: panels, names, legend, footnote.
# SPDX-License-Identifier: Apache-2.0
END_STEP = 0.118  # inches from a name at the end of a line to the next


def make_legend(fig, handles):
    """The lowest legend that is no wider than the page, names unbroken where that costs no line: it and its height."""
    size, inches = plt.rcParams["legend.fontsize"], WIDTH - 2 * PAD
    options = dict(loc="lower center", frameon=False, borderaxespad=0, borderpad=0.1, columnspacing=1.2,
                   handlelength=2.1, handletextpad=0.5, labelspacing=0.35)
    names = [handle.get_label() for handle in handles]

    def built(across, texts):
        legend = fig.legend(handles=handles, labels=texts, ncol=across, **options)
        extent = legend.get_window_extent(fig.canvas.get_renderer())
        return legend, extent.width / fig.dpi, extent.height / fig.dpi

    found = []
    for across in range(min(4, len(handles)), 0, -1):
        legend, width, height = built(across, names)
        legend.remove()
        if width <= inches:
            found.append((height, False, across, names))
            continue
        room = (inches - 1.2 * (across - 1) * size / 72) / across - 2.8 * size / 72
        texts = [fitted(fig, name, room, size) for name in names]
        legend, width, height = built(across, texts)
        legend.remove()
        if width <= inches or across == 1:
            found.append((height, True, across, texts))
    _, _, across, texts = min(found, key=lambda one: (round(one[0], 2), one[1]))
    legend, _, height = built(across, texts)
    for text in legend.get_texts() if across == 1 else []:
        shrink(text, inches - 2.8 * size / 72)
    return legend, height


def plain(x, _=None):
    return f"{x:.10g}" if x == 0 or 1e-4 <= abs(x) < 1e6 else short(x)


def short(x, _=None):
    digits, power = f"{x:.2e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def scientific(x, _=None):
    digits, power = f"{x:.2e}".split("e")
    digits = f"{float(digits):g}"
    return f"$10^{{{int(power)}}}$" if digits == "1" else f"${digits}{{\\cdot}}10^{{{int(power)}}}$"


def binary(x, _=None):
    for size, unit in ((1 << 20, " Mi"), (1 << 10, " Ki")):
        if x >= size:
            return f"{x / size:.4g}{unit}"
    return f"{x:g}"


def set_ticks(axis, scale, limits, places, whole):
    """Labels that say where one is: at `places`, and on a logarithmic axis of few decades also between these."""
    low, high = limits
    upright = axis.axis_name == "y"  # where labels must be short
    axis.set_minor_formatter(ticker.NullFormatter())
    if scale == "linear":
        axis.set_major_locator(ticker.MaxNLocator(7 if upright else 9, integer=whole, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(plain)
    elif scale == "log2":  # one style along the axis
        axis.set_major_formatter(binary if high >= 10_000 else plain)
    if places is not None:
        axis.set_major_locator(ticker.FixedLocator(places))
        axis.set_minor_locator(ticker.NullLocator())
    if places == []:
        return
    if scale != "log" or low <= 0 or (not places and high > (100 if upright else 1000) * low):
        return
    if not places:
        axis.set_major_locator(ticker.MaxNLocator(5) if high < 3 * low else
                               ticker.LogLocator(subs=(1, 2, 5) if high < 30 * low else (1, 3), numticks=12))
    within = min(places or [low]) >= 6e-4 and max(places or [high]) < 2e4
    axis.set_major_formatter(plain if within else short if upright else scientific)


def set_scales(ax, whole):
    for axis, scale, side in ((ax.xaxis, FIGURE["xscale"], "x"), (ax.yaxis, FIGURE["yscale"], "y")):
        options = {"base": 2} if scale == "log2" else {}
        (ax.set_xscale if side == "x" else ax.set_yscale)(scale[:3] if options else scale, **options)
        set_ticks(axis, scale, FIGURE[side + "lim"], FIGURE.get(side + "ticks"), whole and side == "x")
    ax.set(xlim=FIGURE["xlim"], ylim=FIGURE["ylim"])
    ax.grid(color="#E6E6E6", linewidth=0.5)


def panel_grid(panels):
    """Axes in rows for the panels; those that are left over are hidden."""
    columns = min(len(panels), 2 if WIDTH < 4 else 3 if len(panels) != 4 else 2)
    rows = -(-len(panels) // columns)
    fig, grid = plt.subplots(rows, columns, squeeze=False, sharex=True, sharey=True, figsize=(WIDTH, 3))
    for i, ax in enumerate(grid.flat):
        if i >= len(panels):
            ax.set_visible(False)
            grid.flat[i - columns].tick_params(labelbottom=True)
    return fig, grid


def overhang(ax, renderer):
    """How far the tick labels reach beyond their axes to the left, right, below and above, in inches."""
    box, most = ax.get_window_extent(renderer), [0.0] * 4
    for axis in (ax.xaxis, ax.yaxis) if ax.get_visible() else ():
        extent = axis.get_tightbbox(renderer)
        if extent is not None:
            beyond = (box.x0 - extent.x0, extent.x1 - box.x1, box.y0 - extent.y0, extent.y1 - box.y1)
            most = [max(one, by / ax.figure.dpi) for one, by in zip(most, beyond)]
    return most


def set_page(fig, grid, names, ylabels, handles, inches, ends=()):
    """Sizes the page from the bottom: footnote, legend, axis title, panels (each `inches` high), title. `names` of the
    panels; `ylabels`: one for all rows, or one a row; `ends`: texts that stand to the right of a single panel."""
    renderer, (rows, columns) = fig.canvas.get_renderer(), grid.shape
    size, room = plt.rcParams["axes.labelsize"], WIDTH - 2 * PAD
    note = fig.text(0.5, 0, fitted(fig, FIGURE["footnote"], room, 6.5), ha="center", va="bottom", fontsize=6.5,
                    color=GREY, linespacing=1.1)
    title = fig.text(0, 1, fitted(fig, FIGURE["title"], room, STYLE["axes.titlesize"]), ha="left", va="top",
                     fontsize=STYLE["axes.titlesize"], linespacing=1.1)
    xlabel = fig.text(0.5, 0, fitted(fig, FIGURE["xlabel"], 0.85 * WIDTH, size), ha="center", va="bottom", fontsize=size)
    legend, legend_height = make_legend(fig, handles) if handles else (None, 0)
    for text in (note, title, xlabel):
        shrink(text, room)
    high = lambda text: text.get_window_extent(renderer).height / fig.dpi if text.get_text() else 0
    headings = [ax.set_title(name, loc="left", fontsize=size, pad=3, linespacing=1.1)
                for ax, name in zip(grid.flat, names)] if len(names) > 1 else []
    side = [fig.text(0, 0, "", rotation=90, ha="left", va="center", fontsize=size, linespacing=1.1) for _ in ylabels]
    left, right, below, above, across, between = 0.58, 0.15, 0.2, 0.04, 0.12, [0.2] * (rows - 1)
    heading = [0.16 if headings else 0.0] * rows
    for _ in range(3):  # ticks follow the size, and the size follows the ticks
        wide = (WIDTH - left - right - (columns - 1) * across) / columns
        bottom = (high(note) + PAD if note.get_text() else 0.03) + (legend_height + PAD if legend else 0)
        bottom_of_axes = bottom + high(xlabel) + 1.6 * PAD + below
        over = high(title) + PAD if title.get_text() else 0
        total = bottom_of_axes + rows * inches + sum(between) + heading[0] + above + over + PAD
        fig.set_size_inches(WIDTH, total)
        top = total - over - PAD - above - heading[0]
        for i, row in enumerate(grid):
            low = top - (i + 1) * inches - sum(between[:i])
            for j, ax in enumerate(row):
                ax.set_position([(left + j * (wide + across)) / WIDTH, low / total, wide / WIDTH, inches / total])
        for ax in grid.flat:
            for axis in (ax.xaxis, ax.yaxis) if ax.get_visible() else ():
                thin_ticks(axis, renderer)
        for i, text in enumerate(headings):
            text.set_text(fitted(fig, names[i], wide, size))
            shrink(text, wide)
        heading = [max([high(text) + 0.06 for text in headings[i * columns:(i + 1) * columns]] or [0])
                   for i in range(rows)]
        for text, label in zip(side, ylabels):
            length = rows * inches + sum(between) if len(ylabels) == 1 else inches + min(between, default=0)
            text.set_text(fitted(fig, label, length, size))
            shrink(text, length)
        beside = max(text.get_window_extent(renderer).width for text in side) / fig.dpi
        reach = {ax: overhang(ax, renderer) for ax in grid.flat}
        most = lambda axes, side: max(reach[ax][side] for ax in axes)
        left = PAD + beside + 1.6 * PAD + most(grid[:, 0], 0)
        right = PAD + most(grid[:, -1], 1)
        if ends:
            right = 0.12 * wide + max(measured(fig, text, 7)[0] for text in ends) + PAD
        if columns > 1:
            across = 2 * PAD + most(grid[:, :-1].flat, 1) + most(grid[:, 1:].flat, 0)
        below, above = most(grid[-1], 2), most(grid[0], 3)
        if ends:
            above = max(above, len(ends) * END_STEP - inches)
        between = [PAD + heading[i + 1] + most(grid[i + 1], 3) + most(grid[i], 2) for i in range(rows - 1)]
    note.set_y(0.6 * PAD / total)
    if legend:
        legend.set_bbox_to_anchor((0.5, (bottom - PAD - legend_height) / total), transform=fig.transFigure)
    half = 0.5 * xlabel.get_window_extent(renderer).width / fig.dpi + PAD  # in the middle of the axes, on the page
    xlabel.set_position((min(max((left + WIDTH - right) / 2, half), WIDTH - half) / WIDTH,
                         (bottom + 0.6 * PAD) / total))
    title.set_position((min(left, WIDTH - title.get_window_extent(renderer).width / fig.dpi - PAD) / WIDTH,
                        1 - PAD / total))
    for i, text in enumerate(side):
        middle = (bottom_of_axes + top) / 2 if len(side) == 1 else top - (i + 0.5) * inches - sum(between[:i])
        text.set_position((PAD / WIDTH, middle / total))


