"""The figure of `audit reconstruct`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from audit.core import Array
from audit.report.style import FRAME, INK, new_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reconstruction_figure(
    title: str, points: Sequence[tuple[float, float, float]], curve: Callable[[Array], Array]
) -> Figure:
    """Share of bits recovered against the noise, with two standard errors, over the predicted
    share.

    Args:
        title: what was attacked.
        points: (sd, share, standard error), one a strength of the noise.
        curve: sd → predicted share.
    """
    sd, share, error = np.array(sorted(points)).T
    grid = np.geomspace(sd[0] / 2, sd[-1] * 2, 200)
    figure = new_figure(title, FRAME, 4.4)
    (ax,) = new_axes(figure, 1)
    ax.plot(grid, curve(grid), color=INK["implied"], lw=1.5, label="predicted: Φ(√(m − n)/(4·sd))")
    ax.errorbar(
        sd,
        share,
        yerr=2 * error,
        fmt="o",
        color=INK["measured"],
        capsize=3,
        label="recovered, ± 2 s.e.",
    )
    ax.axhline(0.5, color=INK["muted"], lw=1, ls=(0, (4, 3)), label="a coin")
    ax.set(
        xscale="log",
        xlabel="standard deviation of the noise",
        ylabel="share of bits recovered",
        ylim=(0.45, 1.02),
    )
    ax.set_xticks(sd, [f"{value:.3g}" for value in sd])
    ax.minorticks_off()
    ax.legend(frameon=False, labelcolor=INK["ink"])
    return figure


def save_reconstruction(
    title: str,
    points: Sequence[tuple[float, float, float]],
    curve: Callable[[Array], Array],
    path: Path,
) -> None:
    """Write that figure; an .svg holds its letters as outlines, so that either file needs nothing
    beside it."""
    undated = {"Date": None} if path.suffix == ".svg" else None
    reconstruction_figure(title, points, curve).savefig(path, dpi=160, metadata=undated)
