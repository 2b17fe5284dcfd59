"""Selection scores → threshold: from which score on the attack says "present".

Every criterion looks at the same candidates, quantiles of the selection scores, and never at a test
score. Most do not care which claim is tested.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import betainccinv

from audit.core import Array, AuditError, Claim, Criterion, Scores
from audit.error_curve import ErrorCurve
from audit.privacy import GDP, STRICT, ApproximateDP, Notion, PureDP, mu_hat

Quantiles = Annotated[int, Field(ge=2)]
Significance = Annotated[float, Field(gt=0, lt=0.5)]


@dataclass(frozen=True, config=STRICT)
class Advantage:
    """argmax TPR − FPR: the threshold that guesses best from a 50:50 prior.

    Args:
        quantiles: number of candidates.
    """

    quantiles: Quantiles = 200

    def __call__(self, selection: Scores, claim: Claim | None = None) -> float:
        """The threshold, one of the selection scores."""
        thresholds, fpr, fnr = sweep(selection, self.quantiles)
        return float(thresholds[np.argmax(1 - fnr - fpr)])


@dataclass(frozen=True, config=STRICT)
class MuHat:
    """argmax Φ⁻¹(1−FPR) − Φ⁻¹(FNR): kept as published, as an ablation.

    It collapses: at a rate of 0 the estimate is infinite, so one lucky selection trial wins, and
    the test refutes it.

    Args:
        quantiles: number of candidates.
    """

    quantiles: Quantiles = 200

    def __call__(self, selection: Scores, claim: Claim | None = None) -> float:
        """The threshold, one of the selection scores."""
        thresholds, fpr, fnr = sweep(selection, self.quantiles)
        return float(thresholds[np.argmax(mu_hat(fpr, fnr))])


@dataclass(frozen=True, config=STRICT)
class MuLower:
    """argmax of the Clopper–Pearson lower bound on μ: what the selection trials prove, not what
    they suggest.

    Args:
        quantiles: number of candidates.
        significance: of that bound; it steers the choice only and promises nothing.

    References:
        Annamalai, De Cristofaro 2024, arXiv:2405.10994: the lower bound is maximised on validation
            data.
    """

    quantiles: Quantiles = 200
    significance: Significance = 0.1

    def __call__(self, selection: Scores, claim: Claim | None = None) -> float:
        """The threshold, one of the selection scores; that of `Advantage` where no candidate proves
        anything."""
        return _most_proved(selection, GDP(), self.quantiles, self.significance)


@dataclass(frozen=True, config=STRICT)
class ClaimLower:
    """argmax of the Clopper–Pearson lower bound in the claim's own notion: where the claim is most
    likely to break.

    A pure or (ε, δ) claim breaks at rare events, where the advantage is small.

    Args:
        quantiles: number of candidates; many, since the event may be rare.
        significance: of that bound; it steers the choice only and promises nothing.
    """

    quantiles: Quantiles = 1000
    significance: Significance = 0.01

    def __call__(self, selection: Scores, claim: Claim) -> float:
        """The threshold, one of the selection scores; that of `Advantage` where no candidate proves
        anything."""
        return _most_proved(selection, claim.notion, self.quantiles, self.significance)


@dataclass(frozen=True, config=STRICT)
class ByNotion:
    """`ClaimLower` for pure and (ε, δ) claims, `Advantage` for all others: GDP, zCDP, ex-post
    privacy.

    A pure or (ε, δ) curve has a corner, and away from it the advantage is no sign of a violation: a
    Laplace mechanism at 1.25 times its ε is found in 8 of 100 audits by its largest advantage, in
    98 by what proves most of ε (2,500 test trials a side; benchmarks/criterion_power.py).

    Args:
        quantiles: number of candidates; None: as many as the chosen criterion has by itself.
    """

    quantiles: Quantiles | None = None

    def criterion(self, notion: Notion) -> Criterion:
        """The one that is used for a claim in ``notion``.

        >>> ByNotion().criterion(PureDP()), ByNotion(quantiles=50).criterion(GDP())
        (ClaimLower(quantiles=1000, significance=0.01), Advantage(quantiles=50))
        """
        chosen = ClaimLower if isinstance(notion, PureDP | ApproximateDP) else Advantage
        return chosen() if self.quantiles is None else chosen(quantiles=self.quantiles)

    def __call__(self, selection: Scores, claim: Claim) -> float:
        """The threshold that the claim's own criterion chooses."""
        return self.criterion(claim.notion)(selection, claim)


def _most_proved(selection: Scores, notion: Notion, quantiles: int, significance: float) -> float:
    """The candidate whose Clopper–Pearson lower bound is largest; that of `Advantage` where all are
    0."""
    thresholds, fpr, fnr = sweep(selection, quantiles)
    upper = (
        upper_rate(rate * len(side), (1 - rate) * len(side), significance / 2)
        for rate, side in ((fpr, selection.absent), (fnr, selection.present))
    )
    lower = notion.parameter(*upper)
    return float(thresholds[np.argmax(np.where(lower > 0, lower, -fpr - fnr))])


@dataclass(frozen=True, config=STRICT)
class Fixed:
    """A threshold that was known before any trial was played.

    Args:
        threshold: any number; infinities say "always present" (−∞) or "never" (∞).
    """

    threshold: float

    def __post_init__(self) -> None:
        if math.isnan(self.threshold):
            raise ValueError("threshold must be a number, not NaN")

    def __call__(self, selection: Scores, claim: Claim | None = None) -> float:
        """``threshold``, whatever the selection scores are."""
        return self.threshold


def sweep(scores: Scores, quantiles: int) -> tuple[Array, Array, Array]:
    """FPR and FNR at thresholds spread evenly over the scores.

    Args:
        scores: of both classes.
        quantiles: number of candidates before equal ones are merged.

    Returns:
        (thresholds, fpr, fnr), each (k,) with k ≤ quantiles: thresholds ascending and among the
        scores, fpr falling and fnr rising.

    Raises:
        AuditError: when a class is empty or a score is NaN.

    >>> bits = np.array([False, False, True, True])
    >>> scores = Scores(np.array([0.0, 2.0, 1.0, 3.0]), bits, np.arange(4), np.arange(4))
    >>> [column.tolist() for column in sweep(scores, 4)]
    [[0.0, 1.0, 2.0, 3.0], [1.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.5, 0.5]]
    """
    ordered = np.sort(scores.values)
    if not len(scores.absent) or not len(scores.present):
        raise AuditError(
            "the selection trials hold one class only, no threshold can be chosen; play more trials"
        )
    if np.isnan(ordered[-1]):
        raise AuditError(
            "the attack gave NaN scores; check its features, or choose another attacker"
        )
    # Scores themselves, never interpolated: between −∞ and a number there is nothing to
    # interpolate.
    thresholds = np.unique(ordered[np.linspace(0, len(ordered) - 1, quantiles).astype(int)])
    curve = ErrorCurve.at(scores, thresholds)
    return curve.thresholds, curve.fpr, curve.fnr


def upper_rate(errors: Array | float, others: Array | float, significance: float) -> Array:
    """Largest rate at which so few ``errors`` still have probability ``significance``: one-sided
    Clopper–Pearson.

    Args:
        errors, others: how often the event happened and did not, ≥ 0.
        significance: probability that the limit is below the true rate, at most.

    Returns:
        In (0, 1]; 1 where there are no trials.

    References:
        Clopper, Pearson 1934: the upper limit is a quantile of Beta(errors + 1, others).

    >>> round(float(upper_rate(0, 10, 0.05)), 6)
    0.258866
    >>> float(upper_rate(10, 0, 0.05))
    1.0
    >>> float(upper_rate(0, 0, 0.05))
    1.0
    """
    errors, others = np.asarray(errors, float), np.asarray(others, float)
    limit = betainccinv(errors + 1, np.where(others > 0, others, 1.0), significance)
    return np.where(others > 0, limit, 1.0)
