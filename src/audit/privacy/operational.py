"""What a claim means: for a test at one FPR, for the best guess, and for a posterior."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from audit.privacy.notions import Notion
from audit.privacy.parameters import broadcast_floats, scalar_or_array


def mu_hat(fpr: ArrayLike, fnr: ArrayLike) -> Any:
    """Φ⁻¹(1 − fpr) − Φ⁻¹(fnr): the plug-in estimate of μ; negative if worse than a guess.

    Args:
        fpr: in [0, 1], any shape.
        fnr: in [0, 1], any shape that broadcasts with ``fpr``.

    Returns:
        A number in [−∞, ∞]; exactly 0 where fpr + fnr = 1.

    >>> round(mu_hat(0.4745, 0.3715), 6), mu_hat(0.0, 0.5), mu_hat(1.0, 0.0)
    (0.391846, inf, 0.0)
    """
    a, b = broadcast_floats(fpr, fnr)
    # ∞ − ∞ at (0, 1) and (1, 0), where the estimate is 0.
    with np.errstate(invalid="ignore"):
        mu = -ndtri(a) - ndtri(b)
    return scalar_or_array(np.where(a + b == 1, 0.0, mu))


@functools.lru_cache(maxsize=1024)
def max_accuracy(notion: Notion, parameter: float) -> float:
    """1 − min (alpha + beta(alpha))/2: best accuracy of a guess when both sets are equally likely.

    >>> from audit.privacy import GDP, PureDP
    >>> round(max_accuracy(PureDP(), 1.0), 5), round(max_accuracy(GDP(), 0.45478), 5)
    (0.73106, 0.58994)
    """

    def error_sum(alpha: float) -> float:
        return float(alpha + notion.beta(alpha, parameter))

    minimum = minimize_scalar(
        error_sum, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12}
    )
    # The search never reaches an end of its interval, nor a corner exactly.
    candidates = [float(minimum.fun), error_sum(0.0)]
    candidates += [error_sum(alpha) for alpha in notion.kinks(parameter)]
    return 1 - min(candidates) / 2


def max_tpr(notion: Notion, parameter: ArrayLike, alpha: ArrayLike) -> Any:
    """1 − beta(alpha): the largest power (TPR) of a test whose FPR is at most ``alpha``.

    >>> from audit.privacy import PureDP
    >>> round(max_tpr(PureDP(), 1.0, 0.05), 4)
    0.1359
    """
    return 1 - notion.beta(alpha, parameter)


def max_posterior(epsilon: float, prior: float = 0.5) -> float:
    """prior·e^ε/(1 − prior + prior·e^ε): highest posterior after one output of an ε-DP mechanism.

    At −ε it is the lowest.

    >>> round(max_posterior(1.0), 5), round(max_posterior(1.0986, 0.1), 4)
    (0.73106, 0.25)
    >>> round(max_posterior(-1.0986, 0.1), 5)
    0.03571
    """
    _check_prior(prior)
    log_odds = epsilon + math.log(prior) - math.log1p(-prior)
    if log_odds <= -700:  # e^(−log odds) would overflow
        return 0.0
    return 1 / (1 + math.exp(-log_odds))


def max_posterior_at_fpr(
    notion: Notion, parameter: ArrayLike, alpha: ArrayLike, prior: float = 0.5
) -> Any:
    """prior·TPR/(prior·TPR + (1 − prior)·alpha): highest posterior after a yes at this FPR.

    For ε-DP it is at most `max_posterior`. Other notions have no cap: the rarer the yes, the higher
    the posterior.

    Args:
        notion: of the claim.
        parameter: of the claim, any shape that broadcasts with ``alpha``.
        alpha: FPR in (0, 1], any shape.
        prior: in (0, 1).

    >>> from audit.privacy import GDP, PureDP
    >>> round(max_posterior_at_fpr(PureDP(), 1.0, 0.05), 5)
    0.73106
    >>> max_posterior_at_fpr(GDP(), 1.0, [0.05, 1e-6]).round(3).tolist()
    [0.838, 0.989]
    """
    _check_prior(prior)
    tpr = max_tpr(notion, parameter, alpha)
    true_yes = prior * tpr
    false_yes = (1 - prior) * np.asarray(alpha, float)
    return scalar_or_array(np.asarray(true_yes / (true_yes + false_yes)))


def _check_prior(prior: float) -> None:
    """Raise ValueError if ``prior`` is outside (0, 1)."""
    if not 0 < prior < 1:
        raise ValueError(f"prior = {prior} is outside (0, 1)")


def least_fnr(absent: ArrayLike, present: ArrayLike, alpha: ArrayLike) -> Any:
    """Least FNR at FPR ``alpha`` between two laws on the same outcomes.

    Exact: it is the curve of likelihood-ratio tests.

    Args:
        absent: (k,) probability of each outcome, ≥ 0.
        present: likewise; outcomes of probability 0 under both are allowed.
        alpha: FPR in [0, 1], any shape.

    Returns:
        FNR, of the shape of ``alpha``; a float where that is a scalar.

    References:
        Neyman, Pearson 1933: outcomes are called present in the order of their ratio, the last one
            by a coin.

    >>> round(least_fnr([0.75, 0.25], [0.25, 0.75], 0.25), 6)
    0.25
    >>> least_fnr([1.0, 0.0], [0.5, 0.5], 0.0)
    0.5
    """
    p_absent = np.asarray(absent, float)
    p_present = np.asarray(present, float)
    only_present = p_absent == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        minus_ratio = np.where(p_absent > 0, -p_present / p_absent, -np.inf)
    # Stable, so that ties keep their order and a rerun gives the same bits.
    most_likely_present_first = np.argsort(minus_ratio, kind="stable")
    fpr = np.cumsum(p_absent[most_likely_present_first])
    fnr = 1 - np.cumsum(p_present[most_likely_present_first])
    # Outcomes that only present has come first and cost no FPR: the curve starts below them.
    free = int(np.sum(only_present))
    start = 1.0
    if free:
        start = float(fnr[free - 1])
    curve = np.interp(np.asarray(alpha, float), [0.0, *fpr[free:]], [start, *fnr[free:]])
    # Sums of probabilities may miss 0 or 1 by a rounding.
    return scalar_or_array(np.clip(curve, 0.0, 1.0))
