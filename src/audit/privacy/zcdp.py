"""The curve of zero-concentrated differential privacy.

One direction is D(q, b) = sup over orders a ≥ 1 of D_a(Bernoulli(1 − b) ‖ Bernoulli(q))/a; the
other is D(b, q). Let p = 1 − b, with the log-likelihood ratios c = ln(p/q) and d = ln(b/(1 − q)) of
the two outcomes, and s = a − 1. Then D_a = R(s)/s with the cumulant R(s) = ln(p·e^(cs) + b·e^(ds)),
and at s = 0 it is the Kullback–Leibler divergence p·c + b·d.

References:
    Bun, Steinke, arXiv:1605.02065, Definition 1.1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic.dataclasses import dataclass
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from audit.privacy.notions import Notion
from audit.privacy.parameters import (
    STRICT,
    Floats,
    broadcast_floats,
    format_parameter,
    scalar_or_array,
)

_TINY = 5e-324
"""The least positive double: keeps a logarithm or a quotient finite."""


# --- the divergence of two Bernoulli laws ---------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _BernoulliPair:
    """Bernoulli(p = 1 − b) against Bernoulli(q), q < p, with the log-likelihood ratios c > 0 > d of
    the two outcomes."""

    q: Floats
    p: Floats
    b: Floats
    c: Floats
    d: Floats

    @staticmethod
    def of(q: Floats, p: Floats, b: Floats) -> _BernoulliPair:
        """The pair with its ratios; p is given beside b, since 1 − b may lose its digits."""
        gap = np.maximum(p - q, 0.0)  # rounding may make q > p
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Where the two are close, by log1p, so that nothing cancels.
            not_q = np.maximum(1 - q, _TINY)
            c_near = np.log1p(gap / q)
            d_near = np.log1p(-gap / not_q)
            # Where they are far apart, by a difference of logarithms: no quotient overflows.
            c_far = np.log(p) - np.log(q)
            positive_b = np.maximum(b, _TINY)
            d_far = np.log(positive_b) - np.log1p(-q)
        c = np.where(gap < q, c_near, c_far)
        d = np.where(gap < b, d_near, d_far)
        return _BernoulliPair(q, p, b, c, d)

    @property
    def kullback_leibler(self) -> Floats:
        """p·c + b·d."""
        return self.p * self.c + self.b * self.d

    def cumulant(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """R(s), e^((d − c)s) − 1 and e^(R(s) − cs) = p + b·e^((d − c)s)."""
        drop = np.expm1((self.d - self.c) * s)
        scaled_sum = self.p + self.b * (1 + drop)
        # log1p(−1) where b = 1 to the last bit; there the other branch is taken.
        with np.errstate(divide="ignore"):
            # scaled_sum = 1 + b·drop, since p + b = 1: log1p keeps the digits of a small drop.
            log_sum = np.where(drop < -0.5, np.log(scaled_sum), np.log1p(self.b * drop))
        return self.c * s + log_sum, drop, scaled_sum

    def best_order(self) -> Floats:
        """The s ≥ 0 at which R(s)/(s(1 + s)) is largest: Newton's method, kept in a bracket."""
        spread = np.maximum(self.c - self.d, _TINY)
        low, high = self._order_bracket(spread)
        s = high
        if not np.any(high > 0):
            return s
        for _ in range(24):
            value, _drop, scaled_sum = self.cumulant(s)
            # R' and R'' are the mean and the variance of the ratio under the tilted law.
            tilted_p = self.p / scaled_sum
            first_derivative = tilted_p * self.c + (1 - tilted_p) * self.d
            variance = tilted_p * (1 - tilted_p) * spread**2
            # Numerator of the derivative of R(s)/(s(1 + s)), and the derivative of that.
            rise = first_derivative * s * (1 + s) - value * (1 + 2 * s)
            bend = variance * s * (1 + s) - 2 * value
            low = np.where(rise > 0, s, low)
            high = np.where(rise > 0, high, s)
            with np.errstate(divide="ignore", invalid="ignore"):
                # On rise/s², which has no second root at s = 0.
                newton = s - rise / (bend - 2 * rise / s)
            previous = s
            s = _newton_or_middle(newton, low, high)
            # The divergence is flat at its best order, so six digits of s give twelve of it.
            if np.all(np.abs(s - previous) <= 1e-6 * s):
                break
        return s

    def _order_bracket(self, spread: Floats) -> tuple[Floats, Floats]:
        """Two s between which the best one lies; both 0 where it is 0.

        ln E_Q[(P/Q)^a] has a second derivative that is symmetric and unimodal about
        a₀ = −logit(q)/(c − d), and R(s)/(s(1 + s)) is its average over a triangle on [0, a] with
        its peak at 1. So the best order is 1 if a₀ ≤ 3/4 and else between a₀ + √(a₀² − a₀), exact
        for a narrow peak, and 2a₀ − 1/2, exact for a wide one (checked in 40 digits at 3,000 random
        pairs, not proved).
        """
        with np.errstate(divide="ignore", over="ignore"):
            minus_logit = np.log1p(-self.q) - np.log(self.q)
            # At most 1e100, so that its square is finite.
            centre = np.clip(minus_logit / spread, 0.0, 1e100)
        # In orders the bracket is [a₀ + √(a₀² − a₀), 2a₀ − 1/2]; s is one less.
        square = np.maximum(centre * (centre - 1), 0.0)
        narrow_peak = centre - 1 + np.sqrt(square)
        wide_peak = 2 * centre - 1.5
        low = np.maximum(narrow_peak, 0.0)
        # The derivative at order 1 is half the variance of the log-likelihood ratio less its mean:
        # order 1 is best where it is ≤ 0.
        half_variance = self.p * self.b * spread**2 / 2
        falls_at_one = (centre <= 1) & (half_variance <= self.kullback_leibler)
        high = np.where(falls_at_one, 0.0, np.maximum(wide_peak, 0.0))
        return low, high

    def divergence(self) -> tuple[Floats, Floats, Floats]:
        """D, and its derivatives with respect to b and to q.

        The order is held: at the best one D is stationary in it, or the order stays at 1.
        """
        s = self.best_order()
        value, drop, scaled_sum = self.cumulant(s)
        # There R(s)/s is the Kullback–Leibler divergence, to second order in s, and 0/0 is near.
        is_limit = s < 1e-7
        safe_s = np.where(is_limit, 1.0, s)
        away_from_limit = value / (safe_s * (1 + safe_s))
        level = np.where(is_limit, self.kullback_leibler, away_from_limit)
        # p = 0 or q = 1 to the last bit
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            drop_per_s = np.where(is_limit, self.d - self.c, drop / safe_s)
            slope_b = drop_per_s / scaled_sum
            # The tilted law, p^a·q^(1 − a) and likewise, made to add up to 1.
            tilted_p = self.p / scaled_sum
            tilted_b = 1 - tilted_p
            slope_q = -(tilted_p / self.q - tilted_b / (1 - self.q)) / (1 + s)
        # Rounding may leave a divergence of 0 just below 0.
        return np.maximum(level, 0.0), slope_b, slope_q


def _newton_or_middle(newton: Floats, low: Floats, high: Floats) -> Floats:
    """Newton's step where it stays in the bracket, else the bracket's middle (NaN is outside)."""
    inside = (newton >= low) & (newton <= high)
    middle = (low + high) / 2
    return np.where(inside, newton, middle)


def _divergence(q: Floats, b: Floats) -> Floats:
    """D(q, b): 0 where q + b ≥ 1, ∞ where q = 0 < 1 − b."""
    undefined = np.isnan(q + b)
    free = q + b >= 1
    at_the_edges = np.where(undefined, np.nan, np.inf)
    level = np.where(free, 0.0, at_the_edges)
    inside = (q > 0) & ~free & ~undefined
    if np.any(inside):
        pair = _BernoulliPair.of(q[inside], 1 - b[inside], b[inside])
        level[inside] = pair.divergence()[0]
    return level


# --- its inverse: the curve -----------------------------------------------------------------------

_LEAST_Z = -37.5
"""Φ(−37.5) = 4.6e-308 is the least rate that is looked for, near the least normal double."""


def _solve(known: Floats, rho: Floats, find_b: bool) -> Floats:
    """The b with D(known, b) = ρ, or the q with D(q, known) = ρ; 0 where every one is allowed.

    Newton in z = Φ⁻¹(rate) on √(2D) − √(2ρ), nearly straight there, kept inside a bracket.

    Args:
        known: (n,) in (0, 1).
        rho: (n,) in (0, ∞).
        find_b: which one is unknown.
    """
    target = np.sqrt(2 * rho)
    low = np.full_like(known, _LEAST_Z)
    high = -ndtri(known)  # where the two rates add up to 1
    # For two Gaussians √(2D) is the distance of the two z: the start is exact for them.
    z = np.clip(high - target, low, high)
    for _ in range(100):
        rate = ndtr(z)
        if find_b:
            # ndtr(−z) is 1 − rate without a cancellation.
            level, slope, _ = _BernoulliPair.of(known, ndtr(-z), rate).divergence()
        else:
            level, _, slope = _BernoulliPair.of(rate, 1 - known, known).divergence()
        root = np.sqrt(2 * level)
        error = root - target
        low = np.where(error > 0, z, low)
        high = np.where(error > 0, high, z)
        # The chain rule: d√(2D)/dz = slope·φ(z)/√(2D).
        density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = z - error * root / (slope * density)
        previous = z
        z = _newton_or_middle(newton, low, high)
        move = np.abs(z - previous)
        # A b below q is where D flattens out: there the rate is what settles, not z.
        rate_settled = (move * density <= 1e-17) & (rate < known) & find_b
        z_settled = move <= 1e-12 * (1 + np.abs(z))
        level_reached = np.abs(error) <= 1e-15 * target
        if np.all(rate_settled | z_settled | level_reached):
            break
    return np.where(z <= _LEAST_Z + 1e-6, 0.0, ndtr(z))


def _solve_inside(
    alpha: Floats, rho: Floats, solve: Callable[[Floats, Floats], Floats], at_zero: Floats
) -> Floats:
    """``solve`` where alpha is in (0, 1) and ρ in (0, ∞), and the limits elsewhere.

    Args:
        alpha: FPR, any shape.
        rho: of the same shape.
        solve: (alpha, ρ) → FNR, on one-dimensional arrays of what is inside.
        at_zero: FNR at alpha = 0, of the same shape.
    """
    at_left_end = np.where(rho > 0, at_zero, 1.0)
    without_privacy_loss = np.where(alpha > 0, 1 - alpha, at_left_end)
    b = np.where(np.isinf(rho), 0.0, without_privacy_loss)
    # Below 1e-25 a ρ moves the curve by less than 3e-13, and the solution by less than its own
    # rounding.
    inside = (alpha > 0) & (alpha < 1) & (rho > 1e-25) & np.isfinite(rho)
    if np.any(inside):
        b[inside] = np.minimum(solve(alpha[inside], rho[inside]), b[inside])
    return b


def _solve_b(alpha: Floats, rho: Floats) -> Floats:
    """FNR by the first direction alone: alpha is q."""
    return _solve(alpha, rho, find_b=True)


def _solve_q(alpha: Floats, rho: Floats) -> Floats:
    """FNR by the second direction alone: alpha is b."""
    return _solve(alpha, rho, find_b=False)


def _solve_binding(alpha: Floats, rho: Floats) -> Floats:
    """FNR by the direction that binds: alpha is q where (alpha, alpha) is not allowed, else b."""
    with np.errstate(over="ignore"):
        # At equal rates the best order is 1: the Kullback–Leibler divergence is the exact one.
        log_odds = np.log1p(-alpha) - np.log(alpha)
        below_corner = (1 - 2 * alpha) * log_odds > rho
    below_corner &= alpha < 0.5
    above_corner = ~below_corner
    b = np.empty_like(alpha)
    if np.any(below_corner):
        b[below_corner] = _solve_b(alpha[below_corner], rho[below_corner])
    if np.any(above_corner):
        b[above_corner] = _solve_q(alpha[above_corner], rho[above_corner])
    return b


# --- the families ---------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class ZCDPSide:
    """One half of what zCDP says, for all orders a ≥ 1: D_a(present ‖ absent) ≤ ρa, or the reverse.

    Args:
        mirrored: the reverse, D_a(absent ‖ present) ≤ ρa.
    """

    mirrored: bool = False
    name: ClassVar[str] = "zcdp"
    symbol: ClassVar[str] = "ρ"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        a, rho = broadcast_floats(alpha, parameter)
        with np.errstate(under="ignore"):
            # The limit of order ∞: a rate of 0 is allowed from the other one's e^(−ρ) on.
            end = np.exp(-rho)
        if self.mirrored:
            return scalar_or_array(_solve_inside(a, rho, _solve_q, at_zero=end))
        b = _solve_inside(a, rho, _solve_b, at_zero=np.ones_like(a))
        return scalar_or_array(np.where((a >= end) & (rho > 0), 0.0, b))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = broadcast_floats(alpha, beta)
        if self.mirrored:
            return scalar_or_array(_divergence(b, a))
        return scalar_or_array(_divergence(a, b))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return ZCDP().label(parameter)

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where the curve reaches 0."""
        end = math.exp(-parameter)
        if not self.mirrored and 0 < end < 1:
            return (end,)
        return ()

    def pieces(self) -> tuple[Notion, ...]:
        """The family itself."""
        return (self,)


@dataclass(frozen=True, config=STRICT)
class ZCDP:
    """D_a(Bernoulli(1 − FNR) ‖ Bernoulli(FPR)) ≤ ρa for all orders a ≥ 1, and the reverse.

    That is all that ρ-zCDP implies. The region is larger than that of √(2ρ)-GDP, which only
    compositions of Gaussian mechanisms keep.

    References:
        Bun, Steinke, arXiv:1605.02065, Definition 1.1; Kullback–Leibler is the limit a → 1.

    >>> notion = ZCDP()
    >>> round(notion.parameter(0.2604, 0.2604), 4), round(notion.kinks(0.5)[0], 5)
    (0.5002, 0.26045)
    >>> notion.label(0.103413)
    '0.1034-zCDP'
    """

    name: ClassVar[str] = "zcdp"
    symbol: ClassVar[str] = "ρ"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        a, rho = broadcast_floats(alpha, parameter)
        return scalar_or_array(_solve_inside(a, rho, _solve_binding, at_zero=np.ones_like(a)))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = broadcast_floats(alpha, beta)
        # The direction with the smaller rate as q is the larger divergence; the tests compare with
        # both.
        return scalar_or_array(_divergence(np.minimum(a, b), np.maximum(a, b)))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return f"{format_parameter(parameter)}-zCDP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where FPR = FNR: (1 − 2·alpha)·ln((1 − alpha)/alpha) = ρ.

        There the best order is 1 in both directions.
        """
        if not 0 < parameter < math.inf:
            return ()

        def excess(logit: float) -> float:
            return logit * math.tanh(logit / 2) - parameter

        # x·tanh(x/2) = x − 2x/(1 + e^x) > x − 2, so the root is below ρ + 2.
        logit = brentq(excess, 0.0, parameter + 2.0, xtol=1e-15, rtol=1e-14)
        alpha = math.exp(-logit) / (1 + math.exp(-logit))
        if 0 < alpha < 0.5:
            return (alpha,)
        return ()

    def pieces(self) -> tuple[Notion, ...]:
        """The two directions."""
        return (ZCDPSide(), ZCDPSide(mirrored=True))
