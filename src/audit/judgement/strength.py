"""How much the attack shows at its threshold, how sure that is, and what share of the possible it
is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from audit import privacy
from audit.core import (
    Array,
    Claim,
    Counts,
    Efficiency,
    Estimator,
    Evidence,
    Fold,
    RankedScores,
    Scores,
    Strength,
)
from audit.estimators.exact import Exact
from audit.estimators.joint_bayes import joint_bayes
from audit.estimators.power import mu_from_auc
from audit.privacy import GDP

CONFIDENCE = 0.95
"""Of each limit on what an attack shows."""
TIGHT = 0.8
"""A claim is tight where the attack's parameter is not significantly below this share of it,"""
HALF = 0.5
"""and significantly above this one."""
REPETITIONS, LARGEST = 400, 5000
"""Of the bootstrap, and the trials of a side that it looks at."""


def strength_of(evidence: Evidence, claim: Claim) -> Strength | None:
    """What the attack shows at its threshold, in the claim's own parameter; None where a side has
    no trial.

    The lower limit is finite-sample, the upper one a posterior quantile of both rates together
    (Jeffreys), the standard error asymptotic. Where the trials of each fold fitted the attacks of
    the others, the variance of pooled rates is about twice the binomial one, so half of each count
    is what they are worth.
    """
    counts = _effective(evidence)
    if not counts.fp + counts.tn or not counts.fn + counts.tp:
        return None
    notion = claim.notion
    estimate = float(notion.parameter(counts.fpr, counts.fnr))
    lower = Exact(significance=1 - CONFIDENCE).lower(counts, notion)
    upper = math.inf if math.isinf(estimate) else joint_bayes(counts, notion, CONFIDENCE)
    return Strength(estimate, standard_error(notion.parameter, counts), lower, upper)


def standard_error(parameter: Callable[[float, float], float], counts: Counts) -> float:
    """Standard error of ``parameter(fpr, fnr)``, by moving each rate by its own standard error;
    asymptotic.

    Half an error and half a success more of each kind keep it finite in the corners.

    >>> from audit.privacy import mu_hat
    >>> round(standard_error(mu_hat, Counts(949, 1051, 743, 1257)), 4)
    0.04
    """
    moved = []
    rates = [(counts.fp, counts.tn), (counts.fn, counts.tp)]
    centre = [(errors + 0.5) / (errors + others + 1) for errors, others in rates]
    for place, (errors, others) in enumerate(rates):
        spread = math.sqrt(centre[place] * (1 - centre[place]) / (errors + others + 1))
        high, low = list(centre), list(centre)
        high[place] = min(centre[place] + spread, 1.0 - 1e-12)
        low[place] = max(centre[place] - spread, 1e-12)
        moved.append((float(parameter(*high)) - float(parameter(*low))) / 2)
    return math.hypot(*moved)


def error_of_bound(estimate: Estimator, evidence: Evidence) -> float:
    """Standard error of an estimator's bound on μ: how much it would move if the test trials were
    played again.

    By leaving out a twentieth of the test trials at a time (grouped jackknife), so it holds for
    every recipe. Within about a sixth of the true one.

    References:
        Efron, Stein 1981, The jackknife estimate of variance, Annals of Statistics 9.
    """
    groups = 20
    lowers = np.array(
        [
            estimate(
                dataclasses.replace(
                    evidence, folds=tuple(_without(fold, place, groups) for fold in evidence.folds)
                ),
                GDP(),
            ).lower
            for place in range(groups)
        ]
    )
    return float(np.sqrt((groups - 1) * np.mean((lowers - lowers.mean()) ** 2)))


def _without(fold: Fold, place: int, groups: int) -> Fold:
    """The fold without every ``groups``-th test trial of each side, from ``place`` on."""
    kept = np.ones(len(fold.test), dtype=bool)
    for bit in (False, True):
        side = np.flatnonzero(fold.test.bits == bit)
        kept[side[place::groups]] = False
    return dataclasses.replace(fold, test=part_of(fold.test, kept))


def part_of(scores: Scores, where: Array) -> Scores:
    """The scores at a mask or array of places."""
    arrays: dict[str, Any] = {
        field.name: getattr(scores, field.name) for field in dataclasses.fields(scores)
    }
    kept: dict[str, Any] = {
        name: None if value is None else value[where] for name, value in arrays.items()
    }
    return Scores(**kept)


def _effective(evidence: Evidence) -> Counts:
    """Pooled counts, halved where folds are correlated."""
    counts = evidence.counts
    if evidence.stopped or evidence.design.folds != "kfold":
        return counts
    halves = (value / 2 for value in dataclasses.astuple(counts))
    return Counts(*halves)


# --- beside the exact likelihood ratio ------------------------------------------------------------


def efficiency_of(evidence: Evidence) -> Efficiency | None:
    """Of the last attack against the exact likelihood ratio on the same trials; None where that is
    not known."""
    last = evidence.folds[-1]
    if last.test.log_ratio is None or not len(last.test.absent) or not len(last.test.present):
        return None
    return efficiency(last, dataclasses.replace(last.test, values=last.test.log_ratio))


def efficiency(fold: Fold, control: Scores) -> Efficiency:
    """The shares of μ that an attack shows of what the exact likelihood ratio shows on the same
    trials.

    Its ranking shows √2·Φ⁻¹(area under the curve), its threshold Φ⁻¹(1 − FPR) − Φ⁻¹(FNR).
    Descriptive: no bound depends on it.

    Args:
        fold: the attack's test scores and threshold.
        control: the likelihood ratio's scores of the same trials.

    Returns:
        Estimates and lower 5 % limits, all in [0, 1], by a bootstrap that draws trials, the same
        ones for both; 0 where the control shows nothing. The control's own μ beside them.
    """
    attack = fold.test
    sides = [np.flatnonzero(attack.bits == bit)[:LARGEST] for bit in (False, True)]
    pairs = len(sides[0]) * len(sides[1])
    ranked = [
        RankedScores.of(*(scores.values[side] for side in sides)) for scores in (attack, control)
    ]
    called = [attack.values[side] >= fold.threshold for side in sides]

    def shares(*times: Array) -> tuple[float, float, float]:
        by_ranking, possible = (mu_from_auc(area.auc(*times), pairs) for area in ranked)
        fpr = _inside(float(times[0] @ called[0]), float(times[0].sum()))
        fnr = _inside(float(times[1] @ ~called[1]), float(times[1].sum()))
        by_threshold = max(0.0, float(privacy.mu_hat(fpr, fnr)))
        if possible <= 0:
            return 0.0, 0.0, 0.0
        return min(1.0, by_ranking / possible), min(1.0, by_threshold / possible), possible

    rng = np.random.default_rng(0)
    drawn = [shares(*(_draw(rng, len(side)) for side in sides)) for _ in range(REPETITIONS)]
    low_ranking, low_threshold, _ = np.quantile(np.array(drawn), 0.05, axis=0)
    ranking, threshold, possible = shares(*(np.ones(len(side), int) for side in sides))
    error = float(np.std([possible_again for *_, possible_again in drawn]))
    return Efficiency(ranking, float(low_ranking), threshold, float(low_threshold), possible, error)


def _draw(rng: np.random.Generator, n: int) -> Array:
    """How often each of n trials is drawn in n draws."""
    return np.bincount(rng.integers(n, size=n), minlength=n)


def _inside(errors: float, total: float) -> float:
    """A rate kept inside (0, 1) by half an error, so that an estimate from it is finite."""
    return (errors + 0.5) / (total + 1)
