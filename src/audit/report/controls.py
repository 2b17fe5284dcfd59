"""Mechanisms of which it is known whether they keep their claim: what was found beside what must
be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from audit.core import Result
from audit.report.sentences import number
from audit.report.style import COLOURS

if TYPE_CHECKING:
    from rich.table import Table as RichTable


CONTROLS = ("control", "claim", "truth", "found", "verdict", "expected", "trials")


def control_of(result: Result) -> dict[str, Any]:
    """What a configuration says should be found:
    ``control: {expected: violation, truth: .inf, seen: "…"}``, else {}."""
    return dict(result.config.get("control") or {})


def are_controls(results: Sequence[Result]) -> bool:
    """Whether of each audit it is known what it must say."""
    return bool(results) and all(control_of(result) for result in results)


def control_rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Rows of the table of controls, see `CONTROLS`; *truth* and *found* are in the claim's notion.

    *found* is the accusing lower bound; *truth* what the mechanism keeps on this pair, "kept" where
    it is the claim.
    """
    rows: list[tuple[str, ...]] = []
    for result in results:
        control, name = (
            control_of(result),
            str(result.config.get("choices", {}).get("mechanism") or result.name),
        )
        truth = "kept" if control.get("truth") is None else number(float(control["truth"]), 3)
        found = number(result.verdict.accusing.lower, 3)
        told = (
            result.verdict.word,
            str(control.get("expected")),
            result.provenance.get("trials", "–"),
        )
        # its shelf is "expected"
        rows.append((name.rpartition("/")[2], str(result.claims[0]), truth, found, *told))
    return rows


def gone_wrong(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    """Names of the controls that were missed, and of those that were accused falsely."""
    missed: list[str] = []
    accused: list[str] = []
    for result, row in zip(results, control_rows(results), strict=True):
        expected = control_of(result).get("expected") == "violation"
        # Of a bug the trials have to show the violation; of a correct mechanism a computed one is
        # wrong too.
        violated = result.verdict.word == "violation" if expected else result.verdict.violated
        if violated != expected:
            (missed if expected else accused).append(row[0])
    return missed, accused


def control_words(results: Sequence[Result]) -> str:
    """How many controls went wrong, in one sentence; "" where the results are no controls."""
    if not are_controls(results):
        return ""
    broken = sum(control_of(result).get("expected") == "violation" for result in results)
    missed, accused = (f"{len(names)}{_listed(names)}" for names in gone_wrong(results))
    return (
        f"Controls: {missed} of {broken} bugs missed, {accused} of {len(results) - broken} "
        "correct ones falsely accused."
    )


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def controls_table(results: Sequence[Result]) -> RichTable:
    """`control_rows` for the terminal; what went wrong is bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for place, name in enumerate(CONTROLS):
        justify: Any = "right" if name in ("truth", "found", "trials") else "left"
        shown.add_column(name, justify=justify, no_wrap=place > 0, overflow="fold")
    wrong = {name for names in gone_wrong(results) for name in names}
    for row in control_rows(results):
        shown.add_row(
            *row[:4],
            Text(row[4], style=COLOURS[row[4]]),
            *row[5:],
            style="bold" if row[0] in wrong else None,
        )
    return shown
