"""Scores → bound on μ, by all thresholds at once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import ndtr, ndtri

from audit.core import Array, Bound, Design, Evidence, NotApplicable, Scores, progressive
from audit.estimators.power import mu_of_area
from audit.privacy import GDP, STRICT, Notion

Sample = tuple[Array, Array]
"""Calibrated scores of one fold's absent and present test trials, in the order of the stream."""


@dataclass(frozen=True, config=STRICT)
class Curve:
    """The smallest μ whose whole tradeoff curve the test scores do not refute.

    A single threshold sees one point of the curve; this adds up tangents at 121 of them. With an
    optimal attack it reaches μ − z·√(1/n_absent + 1/n_present), which no bound can beat under a
    Gaussian shift.

    Args:
        significance: error probability, in the limit of many errors of each kind.
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "curve"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """An asymptotic bound on μ.

        Raises:
            NotApplicable: for other notions, repeated runs, and folds without selection trials.
        """
        samples = calibrated(evidence, notion)
        lower = curve_bound(samples, self.significance, 1.0 if progressive(evidence.folds) else 2.0)
        return Bound(
            self.name,
            notion,
            lower,
            self.significance,
            "asymptotic",
            warnings=_warnings(samples, lower),
        )

    def allow(self, design: Design, notion: Notion) -> None:
        """See `allow_curve`."""
        allow_curve(design, notion)

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """What a perfect attack is expected to reach on a Gaussian shift of ``parameter``.

        0 for other notions.
        """
        if not isinstance(notion, GDP) or not n_absent or not n_present:
            return 0.0
        quantile = float(ndtri(self.significance))
        return max(0.0, parameter + quantile * math.sqrt(1 / n_absent + 1 / n_present))


def curve_bound(samples: Sequence[Sample], significance: float, inflation: float = 1.0) -> float:
    """The last μ that is rejected before the first that is not, scanning upward from 0.

    For every threshold t and slope λ ≥ 0, μ-GDP implies TPR(t) − λ·FPR(t) ≤ Φ(μ/2 − ln
    λ/μ) − λΦ(−μ/2 − ln λ/μ). A sum of such differences over many t, less its largest expectation,
    is centred or negative under μ-GDP. The hypotheses are nested, so stopping at the first one that
    stands costs nothing.

    Args:
        samples: calibrated scores (absent, present) of each fold, each (n,).
        significance: level of the one-sided test of each μ.
        inflation: of the variance: 1 where folds are a martingale, 2 where each fold's trials
            fitted the others.

    Returns:
        ≥ 0, and 0 where a class has fewer than two trials.

    >>> z = ndtri((np.arange(2000) + 0.5) / 2000)
    >>> round(curve_bound([(z, z + 0.4548)], 0.1), 3)
    0.414
    """
    usable = [
        (np.sort(absent), np.sort(present))
        for absent, present in samples
        if min(len(absent), len(present)) > 1
    ]
    if not usable:
        return 0.0
    statistic = functools.partial(studentised, usable, inflation)
    absent_trials = sum(len(absent) for absent, _ in usable)
    present_trials = sum(len(present) for _, present in usable)
    spread = math.sqrt(1 / absent_trials + 1 / present_trials)
    critical = -float(ndtri(significance))
    coarse = float(np.clip(spread / 4, 0.005, 0.05))
    low = _last_refuted(statistic, critical, 0.0, coarse)
    return low if low == 0 else _last_refuted(statistic, critical, low, coarse / 32)


def _last_refuted(
    statistic: Callable[[Array], Array], critical: float, start: float, step: float
) -> float:
    """The last rejected one of start, start + step, … before the first that is not.

    ``start`` where that is not rejected.
    """
    while start < LARGEST:
        grid = start + step * np.arange(CHUNK)
        not_rejected = np.flatnonzero(statistic(grid) <= critical)
        if len(not_rejected):
            return float(grid[max(not_rejected[0] - 1, 0)])
        start = float(grid[-1])
    return start


CHUNK, LARGEST = 32, 30.0


def studentised(samples: Sequence[Sample], inflation: float, mu: Array) -> Array:
    """S/se at each μ (m,); folds weigh by their trials."""
    share = np.array([1 / (1 / len(absent) + 1 / len(present)) for absent, present in samples])
    share /= share.sum()
    # (folds, 2, m) → two arrays (m, folds)
    statistics = np.array([fold_statistic(sample, mu) for sample in samples])
    excess, variance = statistics.transpose(1, 2, 0)
    se = np.sqrt(inflation * (variance @ share**2))
    # Beyond μ = 16 or so all is 0 in floating point: nothing is rejected there.
    positive = se > 0
    return np.asarray(np.where(positive, excess @ share / np.where(positive, se, 1.0), -np.inf))


def fold_statistic(sample: Sample, mu: Array) -> tuple[Array, Array]:
    """S(μ) of a sorted sample and its variance, both (m,) for μ (m,).

    S(μ) = mean f(present) − mean g(absent) − c(μ), where
    f = Σ w·1[s ≥ t], g = Σ wλ·1[s ≥ t], and c = Σ w·(Φ(μ − t) − λΦ(−t)), the largest that μ-GDP
    allows.

    The variance is the measured one, but not below that of a perfect attack on μ-GDP. Where errors
    are rare, a draw with too few of them has a large S and a small measured variance: with that
    alone a nominal 10 % became 23 % at N = 250, μ = 5, and 54 % at N = 1000, μ = 8; with the floor
    8 % and 0.
    """
    absent, present = sample
    t, root = tangents(mu)
    f = 1 / root
    g = root
    f_mean, f_variance = staircase(_above(present, t), f)
    g_mean, g_variance = staircase(_above(absent, t), g)
    # the same under a perfect attack on μ-GDP
    f_most, f_ideal = staircase(ndtr(mu[:, None] - t), f)
    g_most, g_ideal = staircase(ndtr(-t), g)
    measured = f_variance / (len(present) - 1) + g_variance / (len(absent) - 1)
    ideal = f_ideal / len(present) + g_ideal / len(absent)
    return f_mean - g_mean - (f_most - g_most), np.maximum(measured, ideal)


def _above(values: Array, thresholds: Array) -> Array:
    return 1 - np.searchsorted(values, thresholds, side="left") / len(values)


def tangents(mu: Array, reach: float = 3.0, count: int = 121) -> tuple[Array, Array]:
    """Thresholds t (m, count) in μ/2 ± reach/max(1, μ), where tangents are of use, and √λ at each.

    λ(t) = exp(μt − μ²/2) is the slope of the tangent, w = λ^(−1/2) its weight.
    """
    mu = mu[:, None]
    t = mu / 2 + np.linspace(-reach, reach, count) / np.maximum(1, mu)
    return t, np.exp((mu * t - mu**2 / 2) / 2)  # between e^(−reach/2) and e^(reach/2)


def staircase(above: Array, weights: Array) -> tuple[Array, Array]:
    """Mean and variance of s ↦ Σ weight·1[s ≥ threshold] over a law of s.

    Args:
        above: (m, k) the share of all s that is at or above each threshold, ascending ones.
        weights: (m, k).
    """
    height = np.cumsum(weights, axis=1)
    mean = np.sum(weights * above, axis=1)
    # E[height²] by parts: heights squared go up in steps of h² − (h − w)² = w(2h − w).
    square = np.sum(weights * (2 * height - weights) * above, axis=1)
    return mean, np.maximum(square - mean**2, 0)


# --- from evidence to calibrated scores -----------------------------------------------------------


def allow_curve(design: Design, notion: Notion) -> None:
    """Raise NotApplicable if this evidence has no whole-curve bound.

    Raises:
        NotApplicable: for other notions than GDP, evidence that was stopped, repeated runs, and
            folds without selection trials.
    """
    if design.stopped:
        raise NotApplicable(
            "the number of trials depended on the data; only anytime bounds hold, such as betting"
        )
    if not isinstance(notion, GDP):
        raise NotApplicable(
            "whole-curve bounds are made for GDP, whose curves have tangents in closed form"
        )
    if design.runs != "independent":
        raise NotApplicable("whole-curve bounds need independent trials, each tested once")
    if not design.selection:
        raise NotApplicable("whole-curve bounds need selection trials to calibrate the scores on")


def calibrated(evidence: Evidence, notion: Notion) -> tuple[Sample, ...]:
    """Each fold's test scores on the scale of normal quantiles that its own selection scores set.

    Raises:
        NotApplicable: see `allow_curve`.
    """
    allow_curve(evidence.design, notion)
    samples = []
    for fold in evidence.folds:
        assert fold.selection is not None
        scale = calibration(fold.selection)
        samples.append((scale(fold.test.absent), scale(fold.test.present)))
    return tuple(samples)


def calibration(selection: Scores) -> Callable[[Array], Array]:
    """A monotone map of scores to z: absent ones about N(0, 1), present ones about N(μ̂, 1).

    It is constant beyond the ends. μ̂ is what the selection scores' AUC says; z is where the
    mixture of the two normal laws has the rank that the score has among all selection scores. So
    both classes count, and both tails are known. Any map fixed before the test keeps a bound valid;
    a better one makes it larger.
    """
    values = _finite(selection.values)
    bits = selection.bits
    share_present = np.mean(bits)
    shift = mu_of_area(values[~bits], values[bits])
    knots, count = np.unique(values, return_counts=True)
    rank = (np.cumsum(count) - count / 2) / len(values)  # of the middle of equal scores
    z = np.linspace(-9, 9 + shift, 4001)
    mixture = (1 - share_present) * ndtr(z) + share_present * ndtr(z - shift)
    z_of_knots = np.interp(rank, mixture, z)

    def calibrate(scores: Array) -> Array:
        return np.interp(np.clip(scores, knots[0], knots[-1]), knots, z_of_knots)

    return calibrate


def _finite(values: Array) -> Array:
    """Infinities moved to just beyond all other scores, between which one can interpolate."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.clip(values, -1.0, 1.0)
    return np.clip(values, finite.min() - 1, finite.max() + 1)


def _warnings(samples: Sequence[Sample], lower: float) -> tuple[str, ...]:
    warnings = []
    absent_trials = sum(len(absent) for absent, _ in samples)
    present_trials = sum(len(present) for _, present in samples)
    if min(absent_trials, present_trials) * ndtr(-lower / 2) < 50:
        warnings.append(
            "fewer than 50 errors of a kind are expected: here the curve bound over-claims, "
            "prefer curve_betting"
        )
    if min(len(np.unique(np.concatenate(sample))) for sample in samples) < 20:
        warnings.append("the scores take few values: a bound at a single threshold says more")
    return tuple(warnings)
