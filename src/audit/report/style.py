"""Colours, and empty figures in the house's style."""

from __future__ import annotations

import re
import textwrap
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PALETTE = {  # Okabe and Ito's colours, which colour-blind people tell apart: light, dark
    "ink": ("#1a1a1b", "#ececee"),
    "muted": ("#5d5d66", "#a9a9b3"),
    "grid": ("#e3e3e8", "#3a3a42"),
    "paper": ("#fefefe", "#17171b"),
    "measured": ("#d55e00", "#ff8f4a"),
    "implied": ("#0072b2", "#5bb8f0"),
    "direct": ("#009e73", "#35d0a2"),
    "zcdp": ("#b8860b", "#f0c04a"),
    "approximate": ("#a8437f", "#ea9bc8"),
    "numerical": ("#3f51a3", "#a3b1f5"),
}
Points = tuple[list[str], list[list[str]]]  # header and rows of the table behind a figure
INK = {role: light for role, (light, _) in PALETTE.items()}
COLOURS = {
    "failed": "bold red",
    "violation": "bold red",
    "violation (computed)": "bold red",
    "suspicious": "bold yellow",
    "loose": "bold yellow",
    "tight": "bold green",
    "inconclusive": "bold magenta",
}
# inches of a figure's width: 461 units, so that 10 units of text are 14 px at 640 px and 8 px on a
# phone
FRAME = 6.4


def label_box() -> dict[str, Any]:
    """What keeps a label readable over lines."""
    return {"facecolor": INK["paper"], "edgecolor": "none", "pad": 1.5}


def new_figure(title: str, width: float, height: float) -> Figure:
    """An empty figure, ``width`` × ``height`` inches, in the house's style."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "audit"  # the same figure is the same file
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=INK["paper"])
    wrapped = textwrap.fill(title, 62)
    figure.suptitle(wrapped, fontsize=11, color=INK["ink"], x=0.02, ha="left", fontweight="bold")
    return figure


def new_axes(figure: Figure, rows: int) -> list[Axes]:
    """Axes below one another, without needless lines."""
    axes = list(np.atleast_1d(figure.subplots(rows, 1, sharex=True)))
    for ax in axes:
        ax.set_facecolor(INK["paper"])
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(INK["muted"])
        ax.tick_params(colors=INK["muted"], labelcolor=INK["ink"], labelsize=10)
        ax.grid(color=INK["grid"], lw=0.8)
        ax.set_axisbelow(True)
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set(color=INK["ink"], fontsize=10)
    return axes


def svg(figure: Figure, name: str, alt: str) -> str:
    """``figure`` as an element of a page: colours are CSS variables, ids its own, and ``alt`` tells
    what it shows."""
    import html

    import matplotlib

    out = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    drawn = re.sub(r'(id="|url\(#|href="#)', rf"\1{name}-", drawn)
    for role, color in INK.items():
        drawn = drawn.replace(color, f"var(--{role})")
    size = re.search(r'viewBox="[^"]*"', drawn)
    assert size is not None
    head = (
        '<svg xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg" '
        f'{size[0]} role="img"'
    )
    return f'{head} aria-label="{html.escape(alt)}">' + drawn[drawn.index(">") + 1 :]
