"""Counts → bound, by an exact upper limit on each error rate."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Bound, Counts, Design, Evidence, NotApplicable
from audit.criteria import upper_rate
from audit.estimators.power import expected_bound
from audit.estimators.regions import Region
from audit.privacy import STRICT, Notion


@dataclass(frozen=True, config=STRICT)
class ClopperPearson:
    """The least parameter that allows both error rates to be as large as they can credibly be.

    With probability 1 − significance both true rates are at most their limits, so the true point
    lies in a rectangle whose corner decides. Holds for every number of trials and every notion,
    kinked or not.

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
            NotApplicable: when the counts are not binomial.
        """
        self.allow(evidence.design, notion)
        return Bound(
            self.name,
            notion,
            self.lower(evidence.counts, notion),
            self.significance,
            "finite-sample",
        )

    def allow(self, design: Design, notion: Notion) -> None:
        """Binomial counts, in any notion."""
        if not design.independent:
            raise NotApplicable(
                "Clopper–Pearson needs counts of independent trials under one attack"
            )

    def lower(self, counts: Counts, notion: Notion) -> float:
        """The bound itself, ≥ 0; 0 where a class is empty.

        >>> from audit.privacy import GDP
        >>> round(ClopperPearson(significance=0.1).lower(Counts(949, 1051, 743, 1257), GDP()), 3)
        0.297
        """
        fpr = upper_rate(counts.fp, counts.tn, self.significance / 2)
        fnr = upper_rate(counts.fn, counts.tp, self.significance / 2)
        return float(notion.parameter(float(fpr), float(fnr)))

    def region(self, notion: Notion, claim: float, absent: int, present: int) -> Region:
        """The rejection region of the test of a claim: the tables whose bound exceeds it."""
        nothing = Region(np.zeros(0, int), absent, present)
        if not absent or not present or not 0 <= claim < math.inf:
            return nothing
        fp, fn = np.arange(absent + 1), np.arange(present + 1)
        fpr, fnr = (
            upper_rate(k, n - k, self.significance / 2) for k, n in ((fp, absent), (fn, present))
        )
        # The first guess is from the curve's side; the notion's parameter, which is what the bound
        # is, has the last word.
        largest = np.searchsorted(fnr, notion.beta(fpr, claim)) - 1
        for step in (1, -1):
            for _ in range(3):
                at = np.clip(largest + max(step, 0), 0, present)
                above = np.asarray(notion.parameter(fpr, fnr[at])) > claim
                moves = above & (largest < present) if step > 0 else ~above & (largest >= 0)
                if not moves.any():
                    break
                largest = largest + step * moves
        return Region(largest[: int(np.sum(largest >= 0))], absent, present)

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """See `audit.estimators.power.expected_bound`."""
        return expected_bound(self.lower, notion, parameter, n_absent, n_present)
