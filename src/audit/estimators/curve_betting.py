"""Scores → finite-sample bound on μ from all thresholds at once, by betting against each μ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import ndtr, ndtri

from audit.core import Array, Bound, Design, Evidence, NotApplicable
from audit.estimators import hedging
from audit.estimators.curve import (
    Sample,
    allow_curve,
    calibrated,
    calibration,
    curve_bound,
    staircase,
    tangents,
)
from audit.estimators.hedging import candidates, last_refuted
from audit.privacy import GDP, STRICT, Notion


@dataclass(frozen=True, config=STRICT)
class CurveBetting:
    """Finite-sample version of `Curve`: the same statistic, tested with a betting e-process.

    The bound is the largest μ of a grid that is rejected, scanning upward to the first that is not.
    Under μ-GDP f(present) − g(absent) − c(μ) of `audit.estimators.curve` has no positive mean, so
    the wealth of bets on it is a supermartingale whatever the bet fractions. It reaches
    1/significance with probability ≤ significance.

    Args:
        significance: error probability, at any number of trials.

    References:
        Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (means of bounded variables by betting).
        Voráček, Orabona 2025, arXiv:2505.22422 (bet fractions from the wealth and the
            rounds that are left).
        Ville 1939 (the inequality).
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "curve_betting"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound on μ.

        Raises:
            NotApplicable: as `Curve`, and for folds whose trials fitted each other.
        """
        self.allow(evidence.design, notion)
        samples = calibrated(evidence, notion)
        lower = betting_bound(samples, self.significance, self.sure(evidence))
        return Bound(self.name, notion, lower, self.significance, "finite-sample")

    def allow(self, design: Design, notion: Notion) -> None:
        """As `Curve`; and no folds whose trials fitted each other."""
        if design.folds == "kfold":
            raise NotApplicable(
                "betting needs folds that are tested in the order in which they are used, not "
                "K-fold"
            )
        allow_curve(design, notion)

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound on the shuffled quantiles of a Gaussian shift; 0 for other notions."""
        if not isinstance(notion, GDP) or not n_absent or not n_present:
            return 0.0
        rng = np.random.default_rng(0)
        absent, present = (
            rng.permutation(ndtri((np.arange(n) + 0.5) / n)) for n in (n_absent, n_present)
        )
        return betting_bound([(absent, present + parameter)], self.significance, 0.7 * parameter)

    def sure(self, evidence: Evidence) -> float:
        """A μ that the first fold's selection scores leave no doubt about.

        The grid is coarse below it and fine above.
        """
        selection = evidence.folds[0].selection
        assert selection is not None
        z = calibration(selection)
        return curve_bound([(z(selection.absent), z(selection.present))], 1e-4)


def betting_bound(samples: Sequence[Sample], significance: float, sure: float = 0.0) -> float:
    """The last μ of a grid that is rejected before the first that is not.

    The grid is known before the test. So the bound is wrong only where one true hypothesis is
    rejected: the least μ of the grid that is not below the truth.

    Args:
        samples: calibrated scores (absent, present) of each fold, (n,) each, in an order that does
            not depend on them.
        significance: of the test of each μ.
        sure: below it the grid is coarse; known before the test.

    Returns:
        ≥ 0, and 0 where a class is empty.

    >>> z = np.random.default_rng(0).permutation(ndtri((np.arange(2000) + 0.5) / 2000))
    >>> round(betting_bound([(z, z[::-1] + 0.4548)], 0.1), 2)
    0.41
    """
    usable = [sample for sample in samples if min(map(len, sample))]
    rounds = sum(min(map(len, sample)) for sample in usable)
    grids = candidates(sure, math.sqrt(2 / rounds)) if rounds else ()
    return last_refuted(lambda mu: refuted(usable, mu, significance), grids)


REACH, COUNT = 1.5, 61
"""Thresholds closer to the middle than those of `Curve`: what one round may lose limits the bet."""


def refuted(samples: Sequence[Sample], mu: Array, significance: float) -> Array:
    """(m,) whether the wealth against each μ reaches 1/significance: `audit.estimators.hedging`."""
    return hedging.refuted(*_gains(samples, mu), significance)


def _gains(samples: Sequence[Sample], mu: Array) -> tuple[Array, Array, Array]:
    """Gains f(present) − g(absent) − c(μ) of the rounds, and what is known of them beforehand.

    Returns:
        (m, rounds) the gains, (m,) their variance under a perfect Gaussian attack, (m,) the largest
        loss of a round.
    """
    t, root = tangents(mu, REACH, COUNT)
    f = 1 / root
    g = root
    f_mean, f_variance = staircase(ndtr(mu[:, None] - t), f)
    g_mean, g_variance = staircase(ndtr(-t), g)
    largest = f_mean - g_mean
    rounds = [(absent, present, min(len(absent), len(present))) for absent, present in samples]
    gains = [
        _grouped(present, t, f, n) - _grouped(absent, t, g, n) for absent, present, n in rounds
    ]
    return (
        np.concatenate(gains, axis=1) - largest[:, None],
        f_variance + g_variance,
        np.sum(g, axis=1) + largest,
    )


def _grouped(values: Array, thresholds: Array, weights: Array, groups: int) -> Array:
    """(m, groups) Σ weight·1[value ≥ threshold], averaged over consecutive values.

    Each group is one value where there are as many values as groups.
    """
    first = thresholds[:, :1]
    step = thresholds[:, 1:2] - first
    # Thresholds are evenly spaced, so a division counts how many of them a value has passed.
    passed = np.clip((values - first) / step + 1, 0, thresholds.shape[1]).astype(np.intp)
    height = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)], axis=1)
    statistic = np.take_along_axis(height, passed, axis=1)
    return hedging.averaged(statistic, groups)
