# Texts are measured before they are placed, so that nothing is cut off and no two of them meet.
# SPDX-License-Identifier: Apache-2.0
BASE = pathlib.Path(__file__).resolve()
# What stays whole where a line is broken: a formula, an escaped dollar, letters.
WORD = re.compile(r"(?:\\\$|\$(?:\\\$|[^$])*\$|\S)+")
PAD = 0.05  # inches between one thing and the next
KNOWN_SIZES = {}  # of texts


def measured(fig, text, size):
    """Width and height of a text, in inches."""
    if (text, size) not in KNOWN_SIZES:
        probe = fig.text(0, 0, text, fontsize=size, linespacing=1.1)
        extent = probe.get_window_extent(fig.canvas.get_renderer())
        probe.remove()
        KNOWN_SIZES[text, size] = extent.width / fig.dpi, extent.height / fig.dpi
    return KNOWN_SIZES[text, size]


def fitted(fig, text, inches, size):
    """`text` in lines of at most so many inches; formulas stay whole, other words are broken where they must be."""
    fits = lambda line: measured(fig, line, size)[0] <= inches
    if "\n" not in text and fits(text):
        return text
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in WORD.findall(paragraph):
            longer = f"{line} {word}" if line else word
            if fits(longer):
                line = longer
                continue
            if line:
                lines.append(line)
            while "$" not in word and len(word) > 1 and not fits(word):
                most, beyond = 1, len(word)
                while beyond - most > 1:
                    middle = (most + beyond) // 2
                    most, beyond = (middle, beyond) if fits(word[:middle]) else (most, middle)
                lines.append(word[:most])
                word = word[most:]
            line = word
        lines.append(line)
    return "\n".join(lines)


def shrink(text, inches):
    """A text that cannot be broken (a long formula) is set smaller."""
    extent = text.get_window_extent(text.figure.canvas.get_renderer())
    wide = (extent.height if text.get_rotation() == 90 else extent.width) / text.figure.dpi
    if wide > inches:
        text.set_fontsize(text.get_fontsize() * max(inches / wide, 0.1))


def thin_ticks(axis, renderer):
    """Of the labels of an axis that would touch, every second, third, ... is kept."""
    axis.get_tightbbox(renderer)  # brings the ticks up to date
    low, high = sorted(axis.get_view_interval())
    gap = (3 if axis.axis_name == "x" else 0.5) * axis.figure.dpi / 72
    ticks = [tick for tick in axis.get_major_ticks()
             if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text()]
    extents = [tick.label1.get_window_extent(renderer) for tick in ticks]
    spans = [(e.x0, e.x1) if axis.axis_name == "x" else (e.y0, e.y1) for e in extents]
    for every in range(1, len(ticks) + 1):
        kept = spans[::every]
        if all(a[1] + gap <= b[0] for a, b in zip(kept, kept[1:])):
            break
    if ticks and every > 1:
        axis.set_major_locator(ticker.FixedLocator([tick.get_loc() for tick in ticks[::every]]))


def save(fig):
    for kind, options in (("pdf", {"metadata": {"CreationDate": None}}), ("png", {})):
        temporary = BASE.with_suffix(f".{kind}.{os.getpid()}.tmp")
        try:
            fig.savefig(temporary, format=kind, **options)
            os.replace(temporary, BASE.with_suffix("." + kind))
        finally:
            temporary.unlink(missing_ok=True)


