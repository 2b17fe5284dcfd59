"""Scores → a band around the whole tradeoff curve, and the bound that it implies: every threshold
is paid for."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import ndtr

from audit.core import Array, Bound, Design, Evidence, NotApplicable, Scores
from audit.privacy import GDP, STRICT, Notion


@dataclass(frozen=True, config=STRICT)
class DKW:
    """The least parameter that allows FPR + ε₀ and FNR + ε₁ at every threshold,
    ε² = ln(2/significance)/(2n).

    With probability 1 − significance all true rates lie below that at once, so the best threshold
    may be quoted though it was found on the test trials themselves.

    Args:
        significance: error probability; each class gets half.

    References:
        Dvoretzky, Kiefer, Wolfowitz 1956; Massart 1990, Corollary 1 (one side, with its best
            constant).
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "dkw"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound.

        Raises:
            NotApplicable: when the test trials are not independent.
        """
        self.allow(evidence.design, notion)
        test = evidence.folds[0].test
        lower = self._best(*rates(test), len(test.absent), len(test.present), notion)
        return Bound(self.name, notion, lower, self.significance, "finite-sample")

    def allow(self, design: Design, notion: Notion) -> None:
        """Independent trials under one attack, in any notion."""
        if not design.independent:
            raise NotApplicable("a simultaneous band needs independent trials under one attack")

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound on the rates of the curve itself; see
        `audit.estimators.power.expected_bound`."""
        fpr = ndtr(np.linspace(-8, 8, 801))
        return self._best(fpr, notion.beta(fpr, parameter), n_absent, n_present, notion)

    def _best(self, fpr: Array, fnr: Array, n_absent: int, n_present: int, notion: Notion) -> float:
        if not n_absent or not n_present:
            return 0.0
        margin = (_margin(n, self.significance / 2) for n in (n_absent, n_present))
        upper = (
            np.minimum(rate + wide, 1.0) for rate, wide in zip((fpr, fnr), margin, strict=True)
        )
        return float(np.max(notion.parameter(*upper)))

    def band(self, evidence: Evidence, points: int = 201) -> tuple[Array, Array, Array]:
        """Two curves between which the attack's true tradeoff curve lies everywhere at once.

        Args:
            evidence: of one attack.
            points: number of alphas, even on [0, 1].

        Returns:
            (alpha, lower, upper), each (points,): the least FNR at FPR ≤ alpha is in [lower, upper]
            for all alpha with probability 1 − significance.

        Raises:
            NotApplicable: when the test trials are not independent.
        """
        self.allow(evidence.design, GDP())
        scores = evidence.folds[0].test
        if not len(scores.absent) or not len(scores.present):
            raise NotApplicable("a band needs test trials of both classes")
        fpr, fnr = rates(scores)
        # Four sides: each class may err upward and downward.
        wide_fpr, wide_fnr = (
            _margin(len(side), self.significance / 4) for side in (scores.absent, scores.present)
        )
        alpha = np.linspace(0, 1, points)
        lower = _least(fpr, fnr, alpha + wide_fpr) - wide_fnr
        upper = _least(fpr, fnr, alpha - wide_fpr) + wide_fnr
        return alpha, np.clip(lower, 0, 1 - alpha), np.clip(upper, 0, 1)


def rates(scores: Scores) -> tuple[Array, Array]:
    """FPR, falling, and FNR, rising, at every threshold that makes a difference, from "always" to
    "never".

    >>> index = np.arange(4)
    >>> scores = Scores(np.array([0.0, 2.0, 1.0, 3.0]), index > 1, index, index)
    >>> [rate.tolist() for rate in rates(scores)]
    [[1.0, 0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5, 1.0]]
    """
    # NaN sorts behind all numbers: "never"
    thresholds = np.append(np.unique(scores.values), np.nan)
    absent, present = np.sort(scores.absent), np.sort(scores.present)
    fpr = 1 - np.searchsorted(absent, thresholds, side="left") / max(len(absent), 1)
    return fpr, np.searchsorted(present, thresholds, side="left") / max(len(present), 1)


def _margin(n: int, significance: float) -> float:
    """Distance that an empirical distribution of n keeps from the true one on one side, with
    1 − significance."""
    return math.sqrt(-math.log(significance) / (2 * n))


def _least(fpr: Array, fnr: Array, alpha: Array) -> Array:
    """Least FNR of the thresholds with FPR ≤ alpha; 1 where there is none."""
    # FPR falls, FNR rises: the first allowed one is the best
    place = np.searchsorted(-fpr, -alpha, side="left")
    return np.append(fnr, 1.0)[place]
