"""``audit coverage``: the whole bench, its tasks and its command."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from scipy.special import ndtr

from audit import protocols
from audit.core import AuditError
from audit.coverage.counts import QUICK, Chosen, Points, Size
from audit.coverage.laws import Law, Response, Shift
from audit.coverage.pipelines import Pipeline
from audit.coverage.rows import SIGNIFICANCE, Row, judge
from audit.coverage.scores import Scored
from audit.coverage.table import write
from audit.game import Backend, Play, Ray, Serial
from audit.privacy import GDP, ZCDP, ApproximateDP, Notion, PureDP

Task = Points | Chosen | Scored | Pipeline

PARAMETERS = (0.1, 0.4548, 1.0, 2.0, 3.0)
TRIALS = (250, 1000, 2000, 5000)
FPRS = (0.05, 0.3, 0.5, 0.6)
NOTIONS: tuple[Notion, ...] = (GDP(), ApproximateDP(0.01), PureDP(), ZCDP())


def tasks(trials: Sequence[int] = TRIALS, parameters: Sequence[float] = PARAMETERS) -> list[Task]:
    """Everything that is simulated, in parts of some seconds; the longest first.

    Parameters are μ; those of other notions are comparable: their curves pass the same point
    FPR = FNR = Φ(−μ/2).
    """
    found: list[Task] = [*pipelines(), *hard()]
    for n in sorted(trials, reverse=True):
        for mu in (0.0, *parameters):
            others = (ApproximateDP(0.01), ZCDP()) if (n, mu) == (2000, 0.4548) else ()
            found += [Scored(Shift(mu), n, n, others), Chosen(Shift(mu), n, n)]
            middle = float(ndtr(-mu / 2))
            for notion in NOTIONS:
                parameter = float(notion.parameter(middle, middle)) if mu else 0.0
                found.append(Points(notion, parameter, n, n, (*FPRS, middle) if mu else FPRS))
    return found


def hard() -> list[Task]:
    """Where bounds are known, or feared, to fail."""
    laws: tuple[Law, ...] = (
        Shift(1, "laplace"),
        Shift(1, "cauchy"),
        Shift(1, step=0.5),
        Response(math.log(3)),
    )
    found: list[Task] = [Scored(law, 1000, 1000, (PureDP(), ApproximateDP(0.01))) for law in laws]
    for n in (1000, 5000):
        found += [Chosen(law, n, n, ("advantage",)) for law in laws]
        for epsilon in (0.5, math.log(3), 2.0, 3.0):  # randomised response: counts at the kink
            found.append(Points(PureDP(), epsilon, n, n, (1 / (1 + math.exp(epsilon)),)))
    for mu, n in ((4.0, 1000), (5.0, 250), (6.0, 1000)):  # n·Φ(−μ/2) < 50
        found += [Points(GDP(), mu, n, n, (float(ndtr(-mu / 2)), 0.05)), Scored(Shift(mu), n, n)]
    for sides in ((5000, 250), (250, 5000), (2000, 500)):
        found += [
            Points(GDP(), 0.4548, *sides, FPRS),
            Scored(Shift(0.4548), *sides),
            Chosen(Shift(0.4548), *sides),
        ]
    # fully separable
    found += [Points(GDP(), 100.0, 1000, 1000, (0.3, 0.0)), Scored(Shift(100.0), 1000, 1000)]
    for sides in ((1000, 0), (0, 1000)):
        found += [Points(GDP(), 1.0, *sides, (0.3,)), Scored(Shift(1.0), *sides)]
    return found


def pipelines() -> list[Task]:
    """Whole audits, of rows that know nothing and of a perfect attack."""
    return [
        Pipeline("crossfit kfold", protocols.Crossfit(trials=1000, order="kfold")),
        Pipeline("crossfit", protocols.Crossfit(trials=1000)),
        Pipeline("holdout", protocols.Holdout(trials=1250)),
        Pipeline(
            "sequential",
            protocols.Sequential(budget=1000, first=200, significance=SIGNIFICANCE),
            0.4548,
        ),
        Pipeline("crossfit", protocols.Crossfit(trials=2000), 0.4548),
    ]


@dataclasses.dataclass(frozen=True)
class Bench:
    """A list of tasks as blocks that a backend can play, each with a seed of its own."""

    tasks: tuple[Task, ...]
    size: Size
    seed: int

    def play(self, number: int) -> list[Row]:
        """The rows of one task, the same wherever and whenever it is played."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(number,)))
        return self.tasks[number].play(rng, self.size)

    def run(self, backend: Backend, watch: Callable[[], None] = lambda: None) -> list[Row]:
        """All rows in the order of the tasks, judged."""
        found: dict[int, list[Row]] = {}
        for number, rows in backend.run(cast(Play, self.play), range(len(self.tasks))):
            found[number] = cast("list[Row]", rows)
            watch()
        return judge([row for number in sorted(found) for row in found[number]])


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise AuditError(f"coverage: {message}; see audit coverage --help")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        "audit coverage", description="Measure how often each bound exceeds the truth."
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the audits on a third of the cells"
    )
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("coverage.csv"), help="the table (default: ./coverage.csv)"
    )
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(list(words))
    if given.workers < 1 or given.seed < 0:
        parser.error("--workers must be 1 or more, --seed 0 or more")
    if not given.out.resolve().parent.is_dir():
        parser.error(f"--out {given.out}: there is no such folder")
    return given


def main(words: Sequence[str] = ()) -> int:
    """Simulate, show a summary, write the table.

    Args:
        words: ``--quick``, ``--workers``, ``--out``, ``--seed``.

    Returns:
        Exit status: 1 where a bound exceeds the truth too often.

    Raises:
        AuditError: wrong words; a table that cannot be written.
    """
    from rich.console import Console
    from rich.progress import Progress

    given = _parse(words)
    chosen = tasks((250, 2000), (0.4548,)) if given.quick else tasks()
    backend: Backend = Serial() if given.workers == 1 else Ray(workers=given.workers)
    start, console = time.perf_counter(), Console()
    with Progress(console=console) as progress:
        bar = progress.add_task("parts of the bench", total=len(chosen))

        def watch() -> None:
            progress.advance(bar)
            done = round(progress.tasks[0].completed)
            if not console.is_terminal and done % 20 == 0:  # a bar is not drawn into a file
                console.print(f"{done} of {len(chosen)} parts, {time.perf_counter() - start:.0f} s")

        rows = Bench(tuple(chosen), QUICK if given.quick else Size(), given.seed).run(
            backend, watch
        )
    write(rows, given.out)
    console.print(summary(rows))
    console.print(f"{len(rows)} cells in {given.out}, {time.perf_counter() - start:.0f} s")
    return int(any(row.verdict == "exceeds" for row in rows))


def summary(rows: Sequence[Row]) -> Any:
    """A table with a line for each estimator, notion and significance."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    columns = (
        "estimator",
        "notion",
        "kind",
        "nominal",
        "cells",
        "worst rate",
        "where",
        "rare cells",
        "exceeds",
    )
    table = Table(*columns, box=SIMPLE_HEAD, pad_edge=False)  # as in audit.report.plain_table
    groups: dict[tuple[str, str, str, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.estimator, row.notion, row.kind, row.nominal), []).append(row)
    for (estimator, notion, kind, nominal), members in groups.items():
        judged = [row for row in members if row.verdict != "rare"]
        rare = [row.rate for row in members if row.verdict == "rare"]
        worst = max(judged, key=lambda row: row.rate, default=members[0])
        where = (
            f"{worst.law} {worst.parameter:.4g}, {worst.absent}+{worst.present}, {worst.choice}, "
            f"{worst.protocol}"
        )
        table.add_row(
            estimator,
            notion,
            kind,
            f"{100 * nominal:g} %",
            str(len(judged)),
            f"{100 * worst.rate:.1f} %",
            where,
            f"{len(rare)}: ≤ {100 * max(rare):.1f} %" if rare else "",
            str(sum(r.verdict == "exceeds" for r in members)),
        )
    return table
