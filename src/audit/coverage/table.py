"""The table as a file in the package, and what it says of a bound."""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from scipy.special import ndtr

from audit.core import AuditError, Bound, Counts, MeasuredCoverage
from audit.coverage.rows import AT_ONE_THRESHOLD, FEW, Row, at_least

TABLE = Path(__file__).with_name("coverage.csv")
ONE_RUN = Path(__file__).with_name("one_run.csv")
"""Of bounds from one run: benchmarks/one_run_coverage.py."""

COLUMNS = (
    "estimator",
    "notion",
    "kind",
    "nominal",
    "law",
    "parameter",
    "absent",
    "present",
    "choice",
    "protocol",
    "errors",
    "audits",
    "exceeded",
    "rate",
    "low",
    "high",
    "mean",
    "efficiency",
    "verdict",
)


def write(rows: Iterable[Row], path: Path) -> None:
    """The table as CSV.

    Raises:
        AuditError: when it cannot be written.
    """
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(COLUMNS)
            for row in rows:
                values = dataclasses.asdict(row) | dict(
                    zip(("low", "high"), row.interval, strict=True)
                )
                values["rate"] = row.rate
                table.writerow([_text(values[column]) for column in COLUMNS])
    except OSError as error:
        raise AuditError(
            f"--out {path}: cannot be written ({error.strerror}); name another file"
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.5g}"


@functools.lru_cache
def read(*paths: Path) -> tuple[Row, ...]:
    """The rows of tables, of those that ship with the package where none is named; none where a
    file is missing."""
    rows: list[Row] = []
    for path in paths or (TABLE, ONE_RUN):
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                rows += [_row(line) for line in csv.DictReader(file)]
    return tuple(rows)


def _row(line: dict[str, str]) -> Row:
    made: dict[str, Any] = {}
    for field in dataclasses.fields(Row):
        text = line[field.name]
        read_as = {"int": int, "float": float}.get(str(field.type), str)
        made[field.name] = math.nan if read_as is float and not text else read_as(text)
    return Row(**made)


def look_up(bound: Bound, counts: Counts) -> MeasuredCoverage | None:
    """What was measured of bounds like this one; None where nothing comparable was.

    Comparable cells have the same estimator, notion, kind and significance, expect few errors of a
    kind where this audit does, and have about as many trials.

    Args:
        bound: to be looked up.
        counts: of its test.
    """
    trials = min(counts.fp + counts.tn, counts.fn + counts.tp)
    if not trials:
        return None
    few = expects_few(bound, counts) and bound.kind != "finite-sample"
    comparable = [row for row in read() if _comparable(row, bound) and row.rare == few]
    if not comparable:
        return None
    distances = [abs(math.log(min(row.absent, row.present) / trials)) for row in comparable]
    nearest = min(distances) + 1e-9  # sizes that differ by rounding only are equally near
    rows = [row for row, far in zip(comparable, distances, strict=True) if far <= nearest]
    return _worst(rows, few)


def _comparable(row: Row, bound: Bound) -> bool:
    same = (row.estimator, row.notion, row.kind) == (bound.estimator, bound.notion.name, bound.kind)
    return (
        same and math.isclose(row.nominal, bound.significance) and min(row.absent, row.present) > 0
    )


def expects_few(bound: Bound, counts: Counts) -> bool:
    """Whether this audit has few errors of a kind: seen at its threshold, or expected in the middle
    of the curve."""
    if bound.estimator in AT_ONE_THRESHOLD:
        return min(counts.fp, counts.fn) < FEW
    trials = min(counts.fp + counts.tn, counts.fn + counts.tp)
    return bound.notion.name == "gdp" and trials * float(ndtr(-bound.lower / 2)) < FEW


def _worst(rows: Sequence[Row], few: bool) -> MeasuredCoverage:
    worst = max(rows, key=lambda row: row.rate)
    lower_limit = at_least(worst.exceeded, worst.audits, 0.025)
    over_claims = few and lower_limit > worst.nominal
    return MeasuredCoverage(
        rate=worst.rate,
        nominal=worst.nominal,
        cells=len(rows),
        trials=min(worst.absent, worst.present),
        rare_below=FEW if over_claims else None,
    )
