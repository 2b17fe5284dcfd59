"""Tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from audit.core import Power, Result
from audit.privacy import GDP
from audit.report.controls import CONTROLS, are_controls, control_rows, controls_table
from audit.report.facts import facts
from audit.report.sentences import bound_rows, distinct, next_words, number, remarks, tightness
from audit.report.style import COLOURS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable


def plain_table(
    header: Sequence[str],
    numbers: Sequence[str] = (),
    whole: Sequence[str] = (),
    title: str | None = None,
) -> RichTable:
    """An empty table in the one style that all of ours have.

    Args:
        header: names of the columns.
        numbers: those that are set right.
        whole: those whose cells are never broken.
        title: above it.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True, title=title
    )
    for name in header:
        longest = max(map(len, name.split()))  # a header is broken between words only
        shown.add_column(
            name,
            justify="right" if name in numbers else "left",
            min_width=longest,
            overflow="fold",
            no_wrap=name in whole,
        )
    return shown


def table(result: Result) -> RenderableType:
    """What the terminal shows at the end of an audit."""
    from rich.console import Group
    from rich.text import Text

    verdict = Text.assemble(
        (result.verdict.word, COLOURS[result.verdict.word]), "  ", result.verdict.reason
    )
    spent = " · ".join(f"{stage.name} {stage.seconds:.1f} s" for stage in result.stages)
    total = sum(stage.seconds for stage in result.stages)
    notes = [Text(f"note  {note}", style="yellow") for note in remarks(result)]
    step = [] if result.next_step is None else [Text(next_words(result), style="cyan")]
    seconds = Text(f"{total:.1f} s: {spent}", style="dim")
    title = Text(result.name, style="bold")
    return Group(
        title, _facts_table(result), _bounds_table(result), verdict, *step, *notes, seconds
    )


def _facts_table(result: Result) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in facts(result):
        grid.add_row(name, Text(value))
    return grid


def plan_table(plans: Sequence[tuple[str, Power, str]]) -> RenderableType:
    """What each of several audits could find, and what it would take, one row an audit."""
    header = ("audit", "expected mu_emp", "detects (80 % power)", "1.25 × claim needs", "it takes")
    shown = plain_table(
        header, numbers=header[1:], title="With a perfect attack, before anything is played"
    )
    for name, power, takes in plans:
        shown.add_row(name, number(power.expected), *_power_cells(power), takes)
    return shown


def _power_cells(power: Power) -> tuple[str, str]:
    """What is detected and what 1.25 times the claim needs, as short as a cell."""
    if power.detectable is None or power.needed is None:
        return "not computed", "–"
    least = "nothing" if math.isinf(power.detectable) else power.notion.label(power.detectable)
    needed = "no such number" if math.isinf(power.needed) else f"{power.needed:,.0f} tests a side"
    return least, needed


def _bounds_table(result: Result) -> RichTable:
    header = ("bound", "leaks at least", "error prob.", "kind")
    shown = plain_table(header, numbers=header[1:3], whole=header[:3])
    for place, row in enumerate(bound_rows(result)):
        shown.add_row(*row, style="bold" if place == 0 else None)
    return shown


PUBLISHED = {"mu_emp": "published", "corrected": "corrected"}  # key of ``published`` → column
SWEEP = ("audit", "mu_hat", "mu_emp", "exact", "implied mu", "direct mu", "tightness", "verdict")


def sweep_rows(results: Sequence[Result]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of a sweep's table, as strings.

    A configuration may say what others found, ``published: {mu_emp: …, corrected: …}``: it stands
    beside our figures. Where all audits are controls, the columns are `CONTROLS`.
    """
    if are_controls(results):
        return CONTROLS, control_rows(results)
    theirs = [dict(result.config.get("published") or {}) for result in results]
    given = [
        name
        for key, name in PUBLISHED.items()
        if any(found.get(key) is not None for found in theirs)
    ]
    names = distinct([result.name for result in results])
    rows = []
    for name, told_before, result in zip(names, theirs, results, strict=True):
        finite = (b for b in result.bounds if b.estimator == "exact" and isinstance(b.notion, GDP))
        exact = next(finite, None)
        ours = (result.mu_hat, result.bounds[0].lower, exact.lower if exact else None)
        told = [number(value, 3) for value in (*ours, result.mu_implied, result.mu_direct)]
        before = [
            _given(told_before.get(key)) for key, column in PUBLISHED.items() if column in given
        ]
        rows.append((name, *before, *told, number(tightness(result), 2), result.verdict.word))
    return (SWEEP[0], *given, *SWEEP[1:]), rows


def _given(value: Any) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


def sweep_table(results: Sequence[Result]) -> RenderableType:
    """One row an audit, narrow enough for 80 columns: implied and direct mu are on the page.

    Where each audit is a control, of a mechanism whose verdict is known beforehand, what was found
    stands beside that.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if are_controls(results):
        return controls_table(results)
    header, rows = sweep_rows(results)
    kept = [
        place
        for place, name in enumerate(header)
        if name not in ("implied mu", "direct mu", "verdict")
    ]
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    shown.add_column(header[0], overflow="fold", min_width=10)
    for name in (header[place] for place in kept[1:]):
        # breaks between words only
        shown.add_column(name, justify="right", min_width=max(map(len, name.split())))
    shown.add_column(header[-1], no_wrap=True)
    for row in rows:
        shown.add_row(*(Text(row[place]) for place in kept), Text(row[-1], style=COLOURS[row[-1]]))
    return shown
