"""What an accuracy-first run shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from audit.core import LadderRun
from audit.report.files import write_csv, write_pngs
from audit.report.sentences import distinct, number
from audit.report.style import FRAME, INK, new_axes, new_figure
from audit.report.tables import plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


def ladder_figure(run: LadderRun) -> Figure:
    """The path up the ladder: accuracy against the ε of training, what was asked for, and what was
    spent in the end."""
    figure = new_figure(run.name, FRAME, 4.4)
    (ax,) = new_axes(figure, 1)
    ax.axhline(run.threshold, color=INK["implied"], lw=1.5, ls=(0, (7, 2)))
    ax.annotate(
        "asked for",
        (run.ladder[0], run.threshold),
        (2, 4),
        textcoords="offset points",
        color=INK["implied"],
    )
    test = [(rung.eps, rung.test) for rung in run.rungs]
    ax.plot(
        *zip(*test, strict=True), "o-", color=INK["measured"], lw=2, label="test (for the reader)"
    )
    shown = [(rung.eps, rung.noisy) for rung in run.rungs if rung.noisy is not None]
    if shown:
        ax.plot(
            *zip(*shown, strict=True),
            "s--",
            color=INK["direct"],
            lw=1,
            label="noisy validation (private)",
        )
    ax.axvline(
        run.spent, color=INK["muted"], lw=1, label=f"spent, checks included: {run.spent:.3g}"
    )
    ax.set(xscale="log", xlim=(0.8 * run.ladder[0], 1.25 * max(run.ladder[-1], run.spent)))
    ax.set(xlabel=f"training: Rényi ε of order {run.order:g}", ylabel="accuracy")
    ax.legend(frameon=False, labelcolor=INK["ink"], fontsize=10, loc="lower right")
    return figure


def ladder_facts(run: LadderRun) -> list[tuple[str, str]]:
    """What an accuracy-first run found, in words."""
    last, steps = run.rungs[-1], f"{len(run.rungs)} of {len(run.ladder)}"
    reached = (
        f"yes, at step {steps}"
        if run.passed
        else f"no; all {len(run.ladder)} steps are charged all the same"
    )
    return [
        ("task", run.task),
        ("accuracy", f"{run.threshold:g} was asked for; reached on private validation: {reached}"),
        ("test", f"{last.test:.4f} (for the reader; outside of the guarantee)"),
        (
            "spent",
            f"ε = {run.spent:.4g}, ex-post RDP of order {run.order:g}: the larger of training "
            f"{last.eps:.4g} and checks {last.checked:.4g}",
        ),
        (
            "as (ε, δ)",
            f"({run.approximate:.4g}, {run.delta:g}) approximate, ({run.probabilistic:.4g}, "
            f"{run.delta:g}) probabilistic, ex post",
        ),
        (
            "fixed ε",
            f"a run without looking pays for the ladder's top: RDP {run.fixed[0]:.4g},"
            f" ({run.fixed[1]:.4g}, {run.delta:g})",
        ),
        ("neighbours", "one record replaced; numbers of records, domain and marginals are public"),
    ]


def ladder_table(run: LadderRun) -> RenderableType:
    """An accuracy-first run for the terminal."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    facts = RichTable.grid(padding=(0, 2))
    for name, value in ladder_facts(run):
        facts.add_row(Text(name, style="dim"), value)
    header = ("step", "training ε", "checks ε", "spent ε", "noisy accuracy", "passed", "test")
    steps = plain_table(header, numbers=header)
    for place, rung in enumerate(run.rungs):
        figures = (f"{value:.4g}" for value in (rung.eps, rung.checked, rung.spent))
        steps.add_row(
            str(place + 1),
            *figures,
            number(rung.noisy),
            "yes" if rung.passed else "no",
            number(rung.test),
        )
    return Group(Text(run.name, style="bold"), facts, steps)


LADDER_COLUMNS = ("run", "passed", "steps", "spent RDP ε", "approximate ε", "fixed RDP ε", "test")


def ladder_rows(runs: Sequence[LadderRun]) -> list[tuple[str, ...]]:
    """A row for each accuracy-first run of a sweep, and one for the mean of those that differ in
    their seed only."""
    rows: list[tuple[str, ...]] = []
    groups: dict[str, list[LadderRun]] = {}
    for run, name in zip(runs, distinct([run.name for run in runs]), strict=True):
        rows.append((name, "yes" if run.passed else "no", *_ladder_figures([run])))
        groups.setdefault(re.sub(r" ?seed=\d+", "", run.name), []).append(run)
    for members, name in zip(groups.values(), distinct(list(groups)), strict=True):
        if len(members) > 1:
            reached = sum(run.passed for run in members)
            rows.append(
                (f"mean: {name}", f"{reached} of {len(members)}", *_ladder_figures(members))
            )
    return rows


def _ladder_figures(runs: Sequence[LadderRun]) -> list[str]:
    figures = np.array(
        [
            (len(run.rungs), run.spent, run.approximate, run.fixed[0], run.rungs[-1].test)
            for run in runs
        ]
    )
    return [f"{value:.4g}" for value in figures.mean(axis=0)]


def ladder_sweep_table(runs: Sequence[LadderRun]) -> RenderableType:
    """A sweep of accuracy-first runs for the terminal: which spends less; means only, where there
    are seeds."""
    table, rows = plain_table(LADDER_COLUMNS, numbers=LADDER_COLUMNS[2:]), ladder_rows(runs)
    table.columns[0].min_width = 26
    for row in [row for row in rows if row[0].startswith("mean: ")] or rows:
        table.add_row(*row)
    return table


def save_ladder(run: LadderRun, folder: Path) -> Path:
    """Write an accuracy-first run's figure and steps into ``folder``; return the figure's path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_pngs({"ladder": ladder_figure(run)}, folder)
    names = ("eps", "checked", "spent", "noisy", "passed", "test")
    write_csv(
        folder / "steps.csv", names, [[getattr(rung, name) for name in names] for rung in run.rungs]
    )
    return folder / "ladder.png"


def save_ladder_sweep(runs: Sequence[LadderRun], folder: Path) -> Path:
    """Write a sweep's table into ``folder``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "sweep.csv", LADDER_COLUMNS, ladder_rows(runs))
    return folder / "sweep.csv"
