"""What a cell says, and whether a bound exceeds the truth too often in it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from scipy.special import betaincinv, ndtri

from audit.core import Kind

SIGNIFICANCE, ACCUSING = 0.1, 0.01
"""The defaults of the bounds that are shown, and of the one that accuses."""
FEW = 30
"""Where fewer errors of a kind are expected, only finite-sample bounds promise anything."""
MARGIN = 0.015
"""By how much the rate of an asymptotic or Bayesian bound may exceed its nominal one."""
DOUBT = 1e-6
"""Probability that chance alone fails any cell of the table, at most."""

AT_ONE_THRESHOLD = {"clopper_pearson", "exact", "joint_bayes", "betting"}

ROUNDING = 1e-9
"""A bound on the truth itself is no error, though a grid's last bit may put it above."""
LIKELIHOOD = "gaussian likelihood ratio"


@dataclasses.dataclass(frozen=True)
class Row:
    """One cell of the table.

    Args:
        estimator, notion, kind, nominal: of the bound; ``nominal`` is its significance.
        law: where the scores come from.
        parameter: the truth; NaN where it differs from audit to audit.
        absent, present: test trials of each class.
        choice: how the threshold was chosen; "all" for bounds that need none.
        protocol: how trials were spent.
        errors: expected test errors, of the rarer kind.
        audits: how many were simulated.
        exceeded: how many bounds were above the truth.
        mean: of the bound.
        efficiency: mean / (μ − z·√(1/absent + 1/present)); NaN where that is not positive, or the
            law no Gaussian one.
        verdict: ``ok``, ``exceeds``, or ``rare`` for asymptotic and Bayesian bounds with few
            errors.
    """

    estimator: str
    notion: str
    kind: Kind
    nominal: float
    law: str
    parameter: float
    absent: int
    present: int
    choice: str
    protocol: str
    errors: float
    audits: int
    exceeded: int
    mean: float
    efficiency: float = math.nan
    verdict: str = ""

    @property
    def rate(self) -> float:
        """Share of audits whose bound was above the truth."""
        return self.exceeded / self.audits

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval of the rate (Clopper–Pearson)."""
        return at_least(self.exceeded, self.audits, 0.025), 1 - at_least(
            self.audits - self.exceeded, self.audits, 0.025
        )

    @property
    def rare(self) -> bool:
        """Whether so few errors are expected that only finite-sample bounds promise anything."""
        return self.errors < FEW and self.kind != "finite-sample"


def at_least(hits: int, audits: int, significance: float) -> float:
    """Exact lower limit of a rate, wrong with probability ≤ ``significance``.

    >>> at_least(0, 10, 0.05), round(at_least(10, 10, 0.05), 4)
    (0.0, 0.7411)
    """
    return float(betaincinv(hits, audits - hits + 1, significance)) if hits else 0.0


def judge(rows: Sequence[Row]) -> list[Row]:
    """The rows with their verdicts: all right ones pass together with probability ≥ 1 − 1e-6."""

    def verdict(row: Row) -> str:
        if row.rare:
            return "rare"
        allowed = row.nominal + (0.0 if row.kind == "finite-sample" else MARGIN)
        return (
            "exceeds" if at_least(row.exceeded, row.audits, DOUBT / len(rows)) > allowed else "ok"
        )

    return [dataclasses.replace(row, verdict=verdict(row)) for row in rows]


def ideal(mu: float, absent: int, present: int, significance: float) -> float:
    """μ − z·√(1/absent + 1/present): what no bound on a Gaussian shift exceeds on average; NaN
    where not positive."""
    if not absent or not present:
        return math.nan
    reached = mu + float(ndtri(significance)) * math.sqrt(1 / absent + 1 / present)
    return reached if reached > 0 else math.nan


def with_efficiency(row: Row) -> Row:
    """Only a Gaussian shift has that ideal."""
    if row.notion != "gdp" or row.law not in ("curve", "gaussian", LIKELIHOOD):
        return row
    return dataclasses.replace(
        row, efficiency=row.mean / ideal(row.parameter, row.absent, row.present, row.nominal)
    )
