"""Accountants of ex-post privacy: what a run has spent is part of its output.

A mechanism returns (y, ε). It is ex-post Rényi private of order α if, for all neighbours X and X'
in either direction,

    E over (y, ε) ~ M(X') of W ≤ 1,   W = e^((1 − α)ε)·(p_X(y, ε)/p_X'(y, ε))^α.

Orders are called ``order``, since alpha is a false positive rate in this project. Nothing here
draws a random number.

References:
    Räisä, Koskela, Honkela, Accuracy-first Rényi DP and post-processing immunity, arXiv:2509.22213.
    Whitehouse, Ramdas, Wu, Rogers, Brownian noise reduction, arXiv:2206.07234.
    Mironov, Rényi differential privacy, arXiv:1702.07476 (Proposition 3; randomised response).
    Canonne, Kamath, Steinke, arXiv:2004.00010 (the approximate conversion).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlogy

from audit.privacy import STRICT, Floats, Notion
from audit.privacy.parameters import broadcast_floats, scalar_or_array

Order = Annotated[float, Field(gt=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


# --- ladders --------------------------------------------------------------------------------------


def check_ladder(ladder: Sequence[float]) -> None:
    """Raise ValueError if ``ladder`` is no ascending list of positive, finite numbers.

    Raises:
        ValueError: one line, with the ladder.

    >>> check_ladder((0.5, 0.25))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: the ladder (0.5, 0.25) does not increase: every ε must be larger than the one
        before, the first above 0
    """
    from_zero = np.concatenate([[0.0], np.asarray(ladder, float)])
    increases = len(ladder) > 0 and np.all(np.diff(from_zero) > 0)
    if not increases or not np.all(np.isfinite(ladder)):
        listed = ", ".join(f"{eps:g}" for eps in ladder)
        raise ValueError(
            f"the ladder ({listed}) does not increase: every ε must be larger than the one before, "
            "the first above 0"
        )


def precisions(ladder: ArrayLike, order: float, sensitivity: float) -> Floats:
    """P_k = 1/σ_k² = 2ε_k/(αΔ²): the precision of a Gaussian release of Rényi cost ε_k.

    Args:
        ladder: ε_k ≥ 0 of the given order.
        order: α > 1.
        sensitivity: Δ > 0 in L2.

    Returns:
        P_k ≥ 0, one a step.

    References:
        Mironov, arXiv:1702.07476, Proposition 7.

    >>> precisions([0.5, 1.0], 2.0, 1.0).tolist()
    [0.5, 1.0]
    """
    return 2 * np.asarray(ladder, float) / (order * sensitivity**2)


def gaussian_cost(sigma: float, order: float, sensitivity: float) -> float:
    """αΔ²/(2σ²): the Rényi cost of one Gaussian release.

    >>> gaussian_cost(1.0, 3.0, 1.0)
    1.5
    """
    return order * sensitivity**2 / (2 * sigma**2)


# --- composition ----------------------------------------------------------------------------------


def in_sequence(costs: Sequence[float]) -> float:
    """Σ ε_k: what an adaptive sequence has spent.

    Its steps, costs and end may all depend on the outputs before: Π e^((1 − α)ε_k)·ratio_k^α is a
    nonnegative supermartingale, so optional stopping costs nothing.

    References:
        arXiv:2509.22213 (the accountant); Doob's optional stopping for nonnegative
            supermartingales.
    """
    return math.fsum(costs)  # the exact sum, rounded once: the order of the costs has no effect


def on_shared_data(training: float, checks: Sequence[float]) -> float:
    """ε_train + Σ ε_V: training and validation use the same records, so one record is in both.

    >>> on_shared_data(0.5, [0.1, 0.1])
    0.7
    """
    return in_sequence([training, *checks])


def on_disjoint_data(training: float, checks: Sequence[float]) -> float:
    """max(ε_train, Σ ε_V): the record that differs is either trained on or validated on.

    Which of the two is not known, so the larger one is to be reported; to report the validation
    part alone is a violation.

    >>> on_disjoint_data(0.5, [0.1, 0.1])
    0.5
    """
    return max(training, in_sequence(checks))


# --- AboveThreshold -------------------------------------------------------------------------------


def pure_to_renyi(eps: float, order: float) -> float:
    """ln[(sinh αε − sinh (α − 1)ε)/sinh ε]/(α − 1): the Rényi cost of any ε-DP mechanism.

    Such as AboveThreshold. It is the cost of randomised response, the worst of all ε-DP mechanisms,
    and is below αε²/2.

    Args:
        eps: ε ≥ 0.
        order: α > 1.

    References:
        Mironov, arXiv:1702.07476, Table II; Canonne, Kamath, Steinke, arXiv:2004.00010, Lemma 19.

    >>> round(pure_to_renyi(0.5, 3.0), 4)
    0.3024
    """
    if eps == 0:
        return 0.0
    # p^α·q^(1 − α) + q^α·p^(1 − α) with p = e^ε/(1 + e^ε) and q = 1 − p, in logarithms: sinh
    # overflows at αε > 710, and its difference cancels at a small ε.
    log_normaliser = math.log1p(math.exp(-eps))
    log_p = -log_normaliser
    log_q = -eps - log_normaliser
    log_true_answer = order * log_p + (1 - order) * log_q
    log_false_answer = order * log_q + (1 - order) * log_p
    log_moment = float(np.logaddexp(log_true_answer, log_false_answer))
    return log_moment / (order - 1)


# --- conversions ----------------------------------------------------------------------------------


def probabilistic(eps: float, order: float, delta: float) -> float:
    """ε + ln(1/δ)/(α − 1): no log-likelihood ratio is larger, except on outputs of mass δ.

    It follows from Markov's inequality on W^((α − 1)/α). It is not immune to post-processing;
    `approximate` is.

    References:
        arXiv:2509.22213; equals the linear boundary of arXiv:2206.07234 with
            b = ln(1/δ)/(Δ(α − 1)).

    >>> round(probabilistic(3.0, 3.0, 1e-5), 4)
    8.7565
    """
    return eps - math.log(delta) / (order - 1)


def approximate(eps: float, order: float, delta: float) -> float:
    """ε + ln((α − 1)/α) − (ln δ + ln α)/(α − 1), at least 0: an ex-post (ε, δ).

    It is immune to post-processing.

    References:
        Canonne, Kamath, Steinke, arXiv:2004.00010, Proposition 12; ex post: arXiv:2509.22213.

    >>> [round(approximate(0.5, order, 1e-5), 4) for order in (10, 20, 50)]
    [1.418, 0.897, 0.6349]
    """
    log_delta_order = math.log(delta) + math.log(order)
    # log1p(−1/α) is ln((α − 1)/α) to the last digit also at a large α.
    converted = eps + math.log1p(-1 / order) - log_delta_order / (order - 1)
    return max(0.0, converted)


def best_order(
    cost: Callable[[float], float], delta: float, convert: Callable[[float, float, float], float]
) -> float:
    """The order in (1, 10⁶] at which ``convert(cost(order), order, delta)`` is least.

    Choose it before the run, for the cost that is expected. An order that is picked by what a run
    spent depends on its output, which no conversion accounts for.

    Args:
        cost: order → Rényi ε that is planned for, such as ``lambda order: order * rho``.
        delta: of the conversion.
        convert: `approximate` or `probabilistic`.

    >>> round(best_order(lambda order: 0.1 * order, 1e-5, probabilistic), 3)
    11.73
    """

    def epsilon(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return convert(cost(order), order, delta)

    # In ln(α − 1), since good orders span decades. A grid first: a cost may have several minima.
    grid = np.linspace(math.log(1e-3), math.log(1e6), 200)
    best = int(np.argmin([epsilon(log_excess) for log_excess in grid]))
    left = grid[max(best - 1, 0)]
    right = grid[min(best + 1, len(grid) - 1)]
    minimum = minimize_scalar(
        epsilon, bounds=(left, right), method="bounded", options={"xatol": 1e-10}
    )
    return 1 + math.exp(float(minimum.x))


# --- as a family of tradeoff curves ---------------------------------------------------------------


def bernoulli_renyi(order: float, alpha: Floats, beta: Floats) -> Floats:
    """D_order(Bernoulli(1 − beta) ‖ Bernoulli(alpha)), 0 where alpha + beta ≥ 1.

    >>> float(bernoulli_renyi(2.0, np.array(0.25), np.array(0.25)).round(6))
    0.847298
    """
    tpr = 1 - beta
    with np.errstate(divide="ignore", invalid="ignore"):
        log_yes = _log_term(order, tpr, alpha)
        log_no = _log_term(order, beta, 1 - alpha)
        divergence = np.logaddexp(log_yes, log_no) / (order - 1)
    # Rounding may leave a divergence of 0 just below 0.
    nonnegative = np.maximum(divergence, 0.0)
    return np.where(alpha + beta >= 1, 0.0, nonnegative)


def _log_term(order: float, present: Floats, absent: Floats) -> Floats:
    """ln(present^order·absent^(1 − order)) of one outcome's two probabilities."""
    difference = xlogy(order, present) - xlogy(order - 1, absent)
    # An outcome that present never has adds nothing, also where absent never has it (∞ − ∞).
    return np.where(present > 0, difference, -np.inf)


@dataclass(frozen=True, config=STRICT)
class RenyiSide:
    """One half of `ExPostRDP`: D_order(present ‖ absent) ≤ top + s, or the reverse.

    Args:
        order: α > 1.
        top: the largest ε that is ever reported.
        mirrored: the reverse, D_order(absent ‖ present) ≤ top + s.
    """

    order: Order
    top: Positive
    mirrored: bool = False
    name: ClassVar[str] = "expost_rdp"
    symbol: ClassVar[str] = "s"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`; by bisection."""
        a, s = broadcast_floats(alpha, parameter)
        level = self.top + s
        low = np.zeros_like(a)
        high = 1 - a  # there the divergence is 0
        for _ in range(64):  # halvings: to the last bit of a double in [0, 1]
            middle = (low + high) / 2
            allowed = self._divergence(a, middle) <= level
            low = np.where(allowed, low, middle)
            high = np.where(allowed, middle, high)
        zero_allowed = self._divergence(a, np.zeros_like(a)) <= level
        # The upper end: the rounding is towards an FNR that is allowed.
        b = np.where(np.isinf(s) | zero_allowed, 0.0, np.minimum(high, 1 - a))
        return scalar_or_array(b)

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = broadcast_floats(alpha, beta)
        s = np.maximum(self._divergence(a, b) - self.top, 0.0)
        return scalar_or_array(s)

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return ExPostRDP(self.order, self.top).label(parameter)

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where the curve reaches 0."""
        if self.mirrored:
            return ()
        return (math.exp(-self.top - parameter),)

    def pieces(self) -> tuple[Notion, ...]:
        """The family itself."""
        return (self,)

    def _divergence(self, a: Floats, b: Floats) -> Floats:
        if self.mirrored:
            # By complement, D(Bernoulli(alpha) ‖ Bernoulli(1 − beta)) is the first one with the two
            # rates exchanged.
            return bernoulli_renyi(self.order, b, a)
        return bernoulli_renyi(self.order, a, b)


@dataclass(frozen=True, config=STRICT)
class ExPostRDP:
    """E[W] ≤ e^((order − 1)s): every reported ε is too low by s at most.

    The claim is s = 0: reports are true. The curve is what guesses alone can test: reports are
    never above ``top``, so the mechanism is Rényi private at top + s. That holds but says little;
    `audit.estimators.ex_post.ExPost` reads the reports too, and bounds s.

    Args:
        order: α > 1.
        top: the largest ε that the mechanism ever reports, > 0.

    References:
        arXiv:2509.22213 (E[W] ≤ 1); s is this project's parameter.

    >>> notion = ExPostRDP(order=2.0, top=1.0)
    >>> round(notion.parameter(0.01, 0.5), 4), notion.label(0.0), notion.label(0.1)
    (2.2289, '2-ex-post-RDP', '2-ex-post-RDP with ε reported 0.1 too low')
    """

    order: Order
    top: Positive
    name: ClassVar[str] = "expost_rdp"
    symbol: ClassVar[str] = "s"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        forward, reverse = self.pieces()
        highest = np.maximum(forward.beta(alpha, parameter), reverse.beta(alpha, parameter))
        return scalar_or_array(highest)

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        forward, reverse = self.pieces()
        s = np.maximum(forward.parameter(alpha, beta), reverse.parameter(alpha, beta))
        return scalar_or_array(s)

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        claim = f"{self.order:.4g}-ex-post-RDP"
        if parameter > 0:
            return f"{claim} with ε reported {parameter:.4g} too low"
        return claim

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where FPR = FNR: there the halves cross."""
        level = self.top + parameter

        def excess(rate: float) -> float:
            rates = np.array(rate)
            return float(bernoulli_renyi(self.order, rates, rates)) - level

        least_rate = 1e-300
        if excess(least_rate) <= 0:  # the corner is nearer to 0 than a double can tell
            return ()
        return (float(brentq(excess, least_rate, 0.5, xtol=1e-15)),)

    def pieces(self) -> tuple[Notion, ...]:
        """The two directions."""
        return (RenyiSide(self.order, self.top), RenyiSide(self.order, self.top, mirrored=True))
