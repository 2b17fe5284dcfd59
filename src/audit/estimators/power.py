"""What an audit could find, before or beside what it found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from audit.core import Areas, Array, Counts, Scores, area
from audit.privacy import Notion


def expected_bound(
    lower: Callable[[Counts, Notion], float], notion: Notion, parameter: float, n_absent: int, n_present: int
) -> float:
    """The bound that a perfect attack with one threshold, at FPR = FNR, is expected to reach: that of expected counts.

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
    """The point FPR = FNR of the curve, in [0, ½]: where one threshold tells most about a symmetric curve.

    >>> from audit.privacy import GDP
    >>> round(midpoint(GDP(), 2.0), 6), midpoint(GDP(), 0.0), midpoint(GDP(), float("inf"))
    (0.158655, 0.5, 0.0)
    """
    if parameter == 0:
        return 0.5
    if notion.parameter(1e-300, 1e-300) <= parameter:
        return 0.0
    return float(brentq(lambda rate: notion.parameter(rate, rate) - parameter, 1e-300, 0.5, xtol=1e-15))


# --- what an audit could have found -------------------------------------------------------------------------------------


def spread(mu: float) -> float:
    """V = Φ(μ/2)Φ(−μ/2)/φ(μ/2)²: a midpoint threshold's bound on μ has variance V/n_absent + V/n_present.

    >>> round(spread(0.4548), 2)
    1.6
    """
    density = math.exp(-((mu / 2) ** 2) / 2) / math.sqrt(2 * math.pi)
    if density**2 == 0:  # beyond μ of about 77 no number of trials sees an error
        return math.inf
    return float(ndtr(mu / 2) * ndtr(-mu / 2)) / density**2


def detectable(claim: float, significance: float, n_absent: int, n_present: int, efficiency: float = 1.0) -> float:
    """The least μ that one threshold would have shown to exceed ``claim`` with probability 0.8, asymptotically.

    [c + (z + 0.8416)·√(V/n_absent + V/n_present)] / e, with z the normal quantile of 1 − significance.

    Args:
        claim: c, the μ that is claimed.
        significance: of the accusing bound.
        n_absent, n_present: test trials of each class.
        efficiency: e, the share of the mechanism's μ that the attack shows, in (0, 1].

    >>> round(detectable(0.4548, 0.1, 2000, 2000), 3)
    0.54
    """
    if not n_absent or not n_present or efficiency <= 0:
        return math.inf
    error = math.sqrt(spread(claim) * (1 / n_absent + 1 / n_present))
    return (claim + (POWER - float(ndtri(significance))) * error) / efficiency


def trials_needed(claim: float, significance: float, ratio: float = 1.25, efficiency: float = 1.0) -> float:
    """Test trials a side with which ``ratio``·claim would be shown to exceed it with probability 0.8; ∞ if none suffice.

    2V·(z + 0.8416)² / ((e·r − 1)·c)².

    >>> round(trials_needed(0.4548, 0.1), -1), trials_needed(0.4548, 0.1, efficiency=0.8)
    (1120.0, inf)
    """
    if efficiency * ratio <= 1 or claim <= 0:
        return math.inf
    gap = (efficiency * ratio - 1) * claim
    if math.isinf(spread(claim)):
        return math.inf
    return float(math.ceil(2 * spread(claim) * (POWER - float(ndtri(significance))) ** 2 / gap**2))


POWER = float(ndtri(0.8))


def efficiency(attack: Scores, control: Scores, repetitions: int = 400) -> tuple[float, float]:
    """The share of μ that an attack shows of what the exact likelihood ratio shows on the same trials.

    μ is read off the area under each curve, √2·Φ⁻¹(AUC). Descriptive: no bound depends on it.

    Args:
        attack, control: scores of the same trials.
        repetitions: of a bootstrap that draws trials, the same ones for both.

    Returns:
        The estimate and its lower 5 % limit, both in [0, 1]; (0, 0) where the control shows nothing.
    """
    sides = [np.flatnonzero(attack.bits == bit)[:LARGEST] for bit in (False, True)]
    if not all(map(len, sides)):
        return 0.0, 0.0
    areas = [Areas.of(*(scores.values[side] for side in sides)) for scores in (attack, control)]

    def share(*times: Array) -> float:
        shown, there = (_mu(each.of_weighted(*times), math.prod(map(len, sides))) for each in areas)
        return min(1.0, shown / there) if there > 0 else 0.0

    rng = np.random.default_rng(0)
    drawn = [
        share(*(np.bincount(rng.integers(len(side), size=len(side)), minlength=len(side)) for side in sides))
        for _ in range(repetitions)
    ]
    return share(*(np.ones(len(side), int) for side in sides)), float(np.quantile(drawn, 0.05))


LARGEST = 5000
"""Trials of a side that the bootstrap looks at."""


def mu_of_area(absent: Array, present: Array) -> float:
    """The μ ≥ 0 whose Gaussian shift has the AUC of these scores; kept finite by half a pair, 0 where a class is empty."""
    if not len(absent) or not len(present):
        return 0.0
    return _mu(area(absent, present), len(absent) * len(present))


def _mu(shown: float, pairs: int) -> float:
    return math.sqrt(2) * float(ndtri(min(max(shown, 0.5), 1 - 0.5 / pairs)))
