"""Accountants of privacy that is reported after the fact: what a run has spent is part of its
output.

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

Order = Annotated[float, Field(gt=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


# --- ladders --------------------------------------------------------------------------------------


def check_ladder(ladder: Sequence[float]) -> None:
    """Raise AuditError if ``ladder`` is no ascending list of positive numbers.

    Raises:
        ValueError: one line.

    >>> check_ladder((0.5, 0.25))
    Traceback (most recent call last):
    ValueError: the ladder (0.5, 0.25) does not increase: every ε must be larger than the one before, the first above 0
    """
    steps = np.diff(np.concatenate([[0.0], np.asarray(ladder, float)]))
    if not len(ladder) or not np.all(steps > 0) or not np.all(np.isfinite(ladder)):
        told = ", ".join(f"{eps:g}" for eps in ladder)
        raise ValueError(
            f"the ladder ({told}) does not increase: every ε must be larger than the one before, "
            "the first above 0"
        )


def precisions(ladder: ArrayLike, order: float, sensitivity: float) -> Floats:
    """P_k = 1/σ_k² = 2ε_k/(αΔ²): what a Gaussian release of Rényi cost ε_k has, one a step.

    Args:
        ladder: ε_k ≥ 0 of the given order.
        order: α > 1.
        sensitivity: Δ > 0 in L2.

    References:
        Mironov, arXiv:1702.07476, Proposition 7.

    >>> precisions([0.5, 1.0], 2.0, 1.0).tolist()
    [0.5, 1.0]
    """
    return 2 * np.asarray(ladder, float) / (order * sensitivity**2)


def gaussian_cost(sigma: float, order: float, sensitivity: float) -> float:
    """αΔ²/(2σ²): Rényi cost of one Gaussian release.

    >>> gaussian_cost(1.0, 3.0, 1.0)
    1.5
    """
    return order * sensitivity**2 / (2 * sigma**2)


# --- composition ----------------------------------------------------------------------------------


def in_sequence(costs: Sequence[float]) -> float:
    """Σ ε_k: what a sequence has spent whose steps, costs and end may all depend on what came out
    before.

    Π e^((1 − α)ε_k)·ratio_k^α is a nonnegative supermartingale, so optional stopping costs nothing.

    References:
        arXiv:2509.22213 (the accountant); Doob's optional stopping for nonnegative
            supermartingales.
    """
    return math.fsum(costs)


def on_shared_data(training: float, checks: Sequence[float]) -> float:
    """ε_train + Σ ε_V: the same records trained and validated, so one of them is in both.

    >>> on_shared_data(0.5, [0.1, 0.1])
    0.7
    """
    return in_sequence([training, *checks])


def on_disjoint_data(training: float, checks: Sequence[float]) -> float:
    """max(ε_train, Σ ε_V): one record differs, and it is either among those that train or among
    those that validate.

    Which one is not known, so the larger is to be reported; the validation part alone is a
    violation.

    >>> on_disjoint_data(0.5, [0.1, 0.1])
    0.5
    """
    return max(training, in_sequence(checks))


# --- AboveThreshold -------------------------------------------------------------------------------


def pure_to_renyi(eps: float, order: float) -> float:
    """ln[(sinh αε − sinh (α − 1)ε)/sinh ε]/(α − 1): the Rényi cost of anything that is ε-DP, such
    as AboveThreshold.

    It is that of randomised response, the worst of all ε-DP mechanisms; below αε²/2.

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
    # p^α·q^(1 − α) + q^α·p^(1 − α) with p = e^ε/(1 + e^ε), in logarithms.
    log_p, log_q = -math.log1p(math.exp(-eps)), -eps - math.log1p(math.exp(-eps))
    both = np.logaddexp(order * log_p + (1 - order) * log_q, order * log_q + (1 - order) * log_p)
    return float(both) / (order - 1)


# --- conversions ----------------------------------------------------------------------------------


def probabilistic(eps: float, order: float, delta: float) -> float:
    """ε + ln(1/δ)/(α − 1): but for outputs of mass δ, no log-likelihood ratio is larger.

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
    """ε + ln((α − 1)/α) − (ln δ + ln α)/(α − 1), at least 0: an ex-post (ε, δ) that post-processing
    does not harm.

    References:
        Canonne, Kamath, Steinke, arXiv:2004.00010, Proposition 12; ex post: arXiv:2509.22213.

    >>> [round(approximate(0.5, order, 1e-5), 4) for order in (10, 20, 50)]
    [1.418, 0.897, 0.6349]
    """
    return max(
        0.0, eps + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    )


def best_order(
    cost: Callable[[float], float], delta: float, convert: Callable[[float, float, float], float]
) -> float:
    """The order in (1, 10⁶] at which ``convert(cost(order), order, delta)`` is least.

    To be chosen before the run, for the cost that is expected: an order picked by what a run spent
    is chosen on its output, which no conversion pays for.

    Args:
        cost: order → Rényi ε that is planned for, such as ``lambda order: order * rho``.
        delta: of the conversion.
        convert: `approximate` or `probabilistic`.

    >>> round(best_order(lambda order: 0.1 * order, 1e-5, probabilistic), 3)
    11.73
    """

    def value(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return convert(cost(order), order, delta)

    grid = np.linspace(math.log(1e-3), math.log(1e6), 200)
    place = int(np.argmin([value(x) for x in grid]))
    around = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
    found = minimize_scalar(value, bounds=around, method="bounded", options={"xatol": 1e-10})
    return 1 + math.exp(float(found.x))


# --- as a family of tradeoff curves ---------------------------------------------------------------


def bernoulli_renyi(order: float, alpha: Floats, beta: Floats) -> Floats:
    """D_order(Bernoulli(1 − beta) ‖ Bernoulli(alpha)), 0 where alpha + beta ≥ 1.

    >>> float(bernoulli_renyi(2.0, np.array(0.25), np.array(0.25)).round(6))
    0.847298
    """
    p = 1 - beta
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(p > 0, xlogy(order, p) - xlogy(order - 1, alpha), -np.inf)
        miss = np.where(beta > 0, xlogy(order, beta) - xlogy(order - 1, 1 - alpha), -np.inf)
        level = np.logaddexp(hit, miss) / (order - 1)
    return np.where(alpha + beta >= 1, 0.0, np.maximum(level, 0.0))


@dataclass(frozen=True, config=STRICT)
class RenyiSide:
    """D_order(present ‖ absent) ≤ top + s, or D_order(absent ‖ present) ≤ top + s: one half of
    `ExPostRDP`.

    Args:
        order: α > 1.
        top: the largest ε that is ever reported.
        mirrored: the second of the two.
    """

    order: Order
    top: Positive
    mirrored: bool = False
    name: ClassVar[str] = "expost_rdp"
    symbol: ClassVar[str] = "s"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`; by bisection."""
        a, s = (
            np.array(v)
            for v in np.broadcast_arrays(np.asarray(alpha, float), np.asarray(parameter, float))
        )
        low, high, level = np.zeros_like(a), 1 - a, self.top + s
        for _ in range(64):
            middle = (low + high) / 2
            allowed = self._divergence(a, middle) <= level
            low, high = np.where(allowed, low, middle), np.where(allowed, middle, high)
        b = np.where(
            np.isinf(s) | (self._divergence(a, np.zeros_like(a)) <= level),
            0.0,
            np.minimum(high, 1 - a),
        )
        return float(b) if b.ndim == 0 else b

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = (
            np.array(v)
            for v in np.broadcast_arrays(np.asarray(alpha, float), np.asarray(beta, float))
        )
        s = np.maximum(self._divergence(a, b) - self.top, 0.0)
        return float(s) if s.ndim == 0 else s

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return ExPostRDP(self.order, self.top).label(parameter)

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where the curve reaches 0."""
        return () if self.mirrored else (math.exp(-self.top - parameter),)

    def pieces(self) -> tuple[Notion, ...]:
        """The family itself."""
        return (self,)

    def _divergence(self, a: Floats, b: Floats) -> Floats:
        # By complement, D(Bernoulli(alpha) ‖ Bernoulli(1 − beta)) is the first one with the two
        # rates exchanged.
        return bernoulli_renyi(self.order, *((b, a) if self.mirrored else (a, b)))


@dataclass(frozen=True, config=STRICT)
class ExPostRDP:
    """E[W] ≤ e^((order − 1)s): every reported ε is too low by s at most. The claim is s = 0:
    reports are true.

    What guesses alone can say of that: reports are never above ``top``, so the whole is Rényi
    private at top + s, whose curve this is. It holds but says little;
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
        b = np.maximum(*(piece.beta(alpha, parameter) for piece in self.pieces()))
        return float(b) if np.ndim(b) == 0 else b

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        s = np.maximum(*(piece.parameter(alpha, beta) for piece in self.pieces()))
        return float(s) if np.ndim(s) == 0 else s

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        said = f" with ε reported {parameter:.4g} too low" if parameter > 0 else ""
        return f"{self.order:.4g}-ex-post-RDP" + said

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where FPR = FNR, and the halves cross."""
        level = self.top + parameter

        def excess(rate: float) -> float:
            return float(bernoulli_renyi(self.order, np.array(rate), np.array(rate))) - level

        return (float(brentq(excess, 1e-300, 0.5, xtol=1e-15)),) if excess(1e-300) > 0 else ()

    def pieces(self) -> tuple[Notion, ...]:
        """The two directions."""
        return (RenyiSide(self.order, self.top), RenyiSide(self.order, self.top, mirrored=True))
