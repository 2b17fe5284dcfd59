"""What an audit could find, before or beside what it found."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from audit.core import Array, Counts, Estimator, Evidence, Fold, NotApplicable, Scores, area
from audit.estimators.regions import Region
from audit.privacy import Notion


def expected_bound(
    lower: Callable[[Counts, Notion], float],
    notion: Notion,
    parameter: float,
    n_absent: int,
    n_present: int,
) -> float:
    """The bound that a perfect attack with one threshold, at FPR = FNR, is expected to reach: that
    of expected counts.

    Args:
        lower: an estimator's bound on counts, such as ``JointBayes().lower``.
        notion: the family.
        parameter: the truth, ≥ 0.
        n_absent, n_present: test trials of each class.

    Returns:
        In [0, parameter], in the notion's parameter; 0 where a class is empty.

    >>> from audit.estimators.joint_bayes import JointBayes
    >>> from audit.privacy import GDP
    >>> round(expected_bound(JointBayes().lower, GDP(), 0.45478089545, 2000, 2000), 4)
    0.4035
    """
    if not n_absent or not n_present:
        return 0.0
    rate = midpoint(notion, parameter)
    # Expected counts are no integers; every bound from counts reads them all the same.
    counts = Counts(*(n * share for n in (n_absent, n_present) for share in (rate, 1 - rate)))  # type: ignore[arg-type]
    return max(lower(counts, piece) for piece in notion.pieces())


def midpoint(notion: Notion, parameter: float) -> float:
    """The point FPR = FNR of the curve, in [0, ½]: where one threshold tells most about a symmetric
    curve.

    >>> from audit.privacy import GDP
    >>> round(midpoint(GDP(), 2.0), 6), midpoint(GDP(), 0.0), midpoint(GDP(), float("inf"))
    (0.158655, 0.5, 0.0)
    """
    if parameter == 0:
        return 0.5
    if notion.parameter(1e-300, 1e-300) <= parameter:
        return 0.0
    return float(
        brentq(lambda rate: notion.parameter(rate, rate) - parameter, 1e-300, 0.5, xtol=1e-15)
    )


# --- what an audit could have found ---------------------------------------------------------------


SURE = 0.8
"""The power that "detectable" and "needed" speak of."""

Point = Callable[[float], tuple[float, float]]
"""A truth, in the notion's parameter → the FPR and FNR at which it is tested."""


@runtime_checkable
class Tests(Protocol):
    """An estimator whose test of a claim is a region of confusion tables, so that its power is a
    binomial sum."""

    def region(self, notion: Notion, claim: float, absent: int, present: int) -> Region:
        """The tables whose bound exceeds the claim."""
        ...


def power(
    accuser: Estimator,
    notion: Notion,
    claim: float,
    fpr: float,
    fnr: float,
    absent: int,
    present: int,
) -> float:
    """The probability that a bound exceeds a claim, where the threshold's true rates are ``fpr``
    and ``fnr``.

    Exact for bounds from counts that know their region (`Tests`). For the others the share among
    AUDITS simulated audits of two-valued scores with these rates, with half as many selection
    trials, from one seed; 0 where they refuse.

    Args:
        accuser: the estimator that tests the claim, at its significance.
        claim: ≥ 0, in the notion's parameter.
        absent, present: test trials of each class.

    >>> from audit.estimators.clopper_pearson import ClopperPearson
    >>> from audit.privacy import GDP
    >>> round(power(ClopperPearson(significance=0.01), GDP(), 0.4548, 0.388, 0.388, 2486, 2486), 2)
    0.31
    """
    if isinstance(accuser, Tests):
        return accuser.region(notion, claim, absent, present).probability(fpr, fnr)
    return _simulated(accuser, notion, claim, fpr, fnr, absent, present)


AUDITS = 200


@functools.lru_cache(maxsize=1024)
def _simulated(
    accuser: Estimator,
    notion: Notion,
    claim: float,
    fpr: float,
    fnr: float,
    absent: int,
    present: int,
) -> float:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(AUDITS if absent and present else 0):
        # uniform numbers in a fixed order: the same draws at every rate, so that power rises with
        # the truth
        test, chosen = (
            _guesses(rng, fpr, fnr, round(absent * part), round(present * part))
            for part in (1.0, 0.5)
        )
        shifted = dataclasses.replace(
            chosen, index=chosen.index + len(test), run=chosen.run + len(test)
        )
        evidence = Evidence((Fold(np.array([], int), shifted, 0.5, test),))
        try:
            found += _rejects(accuser, evidence, notion, claim)
        except NotApplicable:
            return 0.0
    return found / AUDITS


def _rejects(accuser: Estimator, evidence: Evidence, notion: Notion, claim: float) -> bool:
    """Whether a claim is rejected: by its own test where a recipe has one, which is quicker than
    its whole bound."""
    rejects = getattr(accuser, "rejects", None)
    return bool(
        rejects(evidence, notion, claim) if rejects else accuser(evidence, notion).lower > claim
    )


def _guesses(rng: np.random.Generator, fpr: float, fnr: float, absent: int, present: int) -> Scores:
    """Scores 1 for "present" and 0 for "absent", both classes in random order."""
    bits = rng.permutation(np.arange(absent + present) >= absent)
    said = np.where(bits, rng.random(len(bits)) >= fnr, rng.random(len(bits)) < fpr)
    place = np.arange(len(bits))
    return Scores(said.astype(float), bits, place, place)


@functools.lru_cache(maxsize=256)
def detectable(
    accuser: Estimator,
    notion: Notion,
    claim: float,
    absent: int,
    present: int,
    efficiency: float = 1.0,
    point: Point | None = None,
) -> float:
    """The least truth that the accuser shows to exceed ``claim`` with probability 0.8, in the
    notion's parameter.

    The root m of `power` = 0.8 at the middle FPR = FNR of the curve of m, times 1/efficiency.

    Args:
        accuser: the estimator that tests the claim.
        claim: c ≥ 0.
        absent, present: test trials of each class.
        efficiency: the share of the mechanism's parameter that the attack shows, in (0, 1].
        point: where a truth is tested instead of in the middle of its curve, such as at the
            threshold that was chosen.

    Returns:
        > claim; ∞ where no truth is shown so often.

    >>> from audit.estimators.clopper_pearson import ClopperPearson
    >>> from audit.privacy import GDP
    >>> round(detectable(ClopperPearson(significance=0.01), GDP(), 0.4548, 2000, 2000), 4)
    0.6363
    """
    if not absent or not present or efficiency <= 0 or math.isinf(claim):
        return math.inf
    if point is None:

        def missing(rate: float) -> float:
            return power(accuser, notion, claim, rate, rate, absent, present) - SURE

        if missing(0.0) < 0:
            return math.inf
        rate = float(brentq(missing, 0.0, 0.5, xtol=1e-12 if isinstance(accuser, Tests) else 5e-4))
        return float(notion.parameter(rate, rate)) / efficiency

    def lacking(truth: float) -> float:
        return power(accuser, notion, claim, *point(truth), absent, present) - SURE

    low, high = claim, max(2 * claim, 0.1)
    while lacking(high) < 0:
        low, high = high, 2 * high
        if high > FARTHEST:
            return math.inf
    return (
        float(brentq(lacking, low, high, xtol=1e-10 if isinstance(accuser, Tests) else 1e-3))
        / efficiency
    )


FARTHEST, MOST = 200.0, 1e8
"""Truths and trials beyond which ∞ is said."""


@functools.lru_cache(maxsize=256)
def trials_needed(
    accuser: Estimator,
    notion: Notion,
    claim: float,
    ratio: float = 1.25,
    efficiency: float = 1.0,
    point: Point | None = None,
) -> float:
    """Test trials a side with which ``ratio``·claim is shown to exceed it with probability 0.8; ∞
    if none suffice.

    It begins with `trials_foretold` and goes on with n·((z_α + z_.2)/(z_α + Φ⁻¹(power)))² until the
    power is 0.8 to 0.8 + TOLERANCE. Beyond MANY trials the first is the answer: there it is right
    to 1 %, since counts are nearly normal. What a perfect attack needs is worked out once a claim;
    a weaker one needs more in the ratio of what is foretold for both.

    Args:
        accuser, notion, claim, efficiency, point: see `detectable`.
        ratio: of the truth to the claim.
    """
    shown = ratio * claim * efficiency
    if not 0 < claim < shown < math.inf:
        return math.inf
    n: float = trials_foretold(accuser.significance, notion, claim, shown, point)
    if not n <= MANY:
        return n if n <= MOST else math.inf
    if efficiency < 1:
        perfect = trials_needed(accuser, notion, claim, ratio, point=point)
        foretold = trials_foretold(accuser.significance, notion, claim, ratio * claim, point)
        return float(math.ceil(perfect * n / foretold))
    middle = midpoint(notion, shown)
    rates = point(shown) if point else (middle, middle)
    z = -float(ndtri(accuser.significance))
    too_few, enough = 1.0, math.inf
    exact = isinstance(accuser, Tests)
    # a simulated power has a standard error of 0.03
    tolerance, rounds = (TOLERANCE, 24) if exact else (0.03, 6)
    for _ in range(rounds):
        reached = power(accuser, notion, claim, *rates, int(n), int(n))
        too_few, enough = (
            (too_few, min(enough, n)) if reached >= SURE else (max(too_few, n), enough)
        )
        if 0 <= reached - SURE <= tolerance or enough - too_few <= 1:
            break
        score = float(ndtri(min(max(reached, 1e-12), 1 - 1e-12)))
        step = min(max(((z + POWER) / max(z + score, 0.4)) ** 2, 0.25), 4.0)
        guess = n * step * (1.002 if reached < SURE else 1.0)
        between = (too_few + enough) / 2 if math.isfinite(enough) else guess
        n = math.ceil(guess if too_few < guess < enough else between)
        n = min(max(n, too_few + 1), enough - 1, 2 * MANY)
    return float(enough)


def trials_foretold(
    significance: float, notion: Notion, claim: float, shown: float, point: Point | None = None
) -> float:
    """Test trials a side for power 0.8 by the normal law of the best weighted sum of both errors; ∞
    where none do.

    [(z_α·√V₀ + z_.2·√V₁)/(b₀ − b₁)]² with V = λ²·a(1 − a) + b(1 − b), at the FPR a that the truth
    is tested at, b₀ and b₁ the FNRs of the claim's and the truth's curve there, and −λ the slope of
    the claim's curve.

    >>> from audit.privacy import GDP
    >>> round(trials_foretold(0.01, GDP(), 0.4548, 1.25 * 0.4548))
    2537
    """
    middle = midpoint(notion, shown)
    fpr, missed = point(shown) if point else (middle, middle)
    near = max(min(fpr, 1 - fpr) / 100, 1e-12)
    # a truth that never calls absent trials present is at an end
    ends = max(fpr - near, 0.0), min(fpr + near, 1.0)
    before, allowed, after = (float(notion.beta(rate, claim)) for rate in (ends[0], fpr, ends[1]))
    slope = max((before - after) / (ends[1] - ends[0]), 0.0)
    gap = allowed - missed
    if not gap > 0:
        return math.inf
    claimed, true = (slope**2 * fpr * (1 - fpr) + fnr * (1 - fnr) for fnr in (allowed, missed))
    spread = -float(ndtri(significance)) * math.sqrt(claimed) + POWER * math.sqrt(true)
    return float(max(2, math.ceil((spread / gap) ** 2)))


TOLERANCE, MANY = 0.004, 100_000
"""How much more than 0.8 the power may be, and from how many trials a side on counts are as good as
normal."""
POWER = float(ndtri(SURE))


def mu_of_area(absent: Array, present: Array) -> float:
    """The μ ≥ 0 whose Gaussian shift has the AUC of these scores; kept finite by half a pair, 0
    where a class is empty."""
    if not len(absent) or not len(present):
        return 0.0
    return mu_from_auc(area(absent, present), len(absent) * len(present))


def mu_from_auc(auc: float, pairs: int) -> float:
    """√2·Φ⁻¹(auc) ≥ 0, kept finite by half a pair of the ``pairs`` that were compared.

    >>> round(mu_from_auc(0.760250, 10**6), 3), mu_from_auc(0.4, 100)
    (1.0, 0.0)
    """
    return math.sqrt(2) * float(ndtri(min(max(auc, 0.5), 1 - 0.5 / pairs)))
