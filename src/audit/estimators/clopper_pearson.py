"""Counts → bound, by an exact upper limit on each error rate."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Bound, Counts, Design, Evidence, Refused
from audit.criteria import upper_rate
from audit.estimators.power import expected_bound
from audit.privacy import STRICT, Notion


@dataclass(frozen=True, config=STRICT)
class ClopperPearson:
    """The least parameter that allows both error rates to be as large as they can credibly be.

    With probability 1 − significance both true rates are at most their limits, so the true point lies in a rectangle
    whose corner decides. Holds for every number of trials and every notion, kinked or not.

    Args:
        significance: error probability; each of the two one-sided limits gets half.

    References:
        Clopper, Pearson 1934.
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "clopper_pearson"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound.

        Raises:
            Refused: when the counts are not binomial.
        """
        self.allow(evidence.design, notion)
        return Bound(self.name, notion, self.lower(evidence.counts, notion), self.significance, "finite-sample")

    def allow(self, design: Design, notion: Notion) -> None:
        """Binomial counts, in any notion."""
        if not design.independent:
            raise Refused("Clopper–Pearson needs counts of independent trials under one attack")

    def lower(self, counts: Counts, notion: Notion) -> float:
        """The bound itself, ≥ 0; 0 where a class is empty.

        >>> from audit.privacy import GDP
        >>> round(ClopperPearson(significance=0.1).lower(Counts(949, 1051, 743, 1257), GDP()), 3)
        0.297
        """
        fpr = upper_rate(counts.fp, counts.tn, self.significance / 2)
        fnr = upper_rate(counts.fn, counts.tp, self.significance / 2)
        return float(notion.parameter(float(fpr), float(fnr)))

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """See `audit.estimators.power.expected_bound`."""
        return expected_bound(self.lower, notion, parameter, n_absent, n_present)
