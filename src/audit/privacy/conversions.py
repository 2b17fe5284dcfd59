"""Conversions between ε at δ, μ and ρ, accurate to 1e-9 also at their extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import erfcinv, erfcx, erfinv, log_ndtr, ndtri

from audit.privacy.parameters import Floats, broadcast_floats, scalar_or_array


def _check(delta: float, **nonnegative: float) -> None:
    """Raise ValueError if ``delta`` or another argument is out of its range."""
    if not 0 < delta < 1:
        raise ValueError(f"delta = {delta} is outside (0, 1)")
    for name, value in nonnegative.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} = {value} must be finite and at least 0")


# --- μ and (ε, δ): the exact formula --------------------------------------------------------------


def gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> Any:
    """δ(ε) = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2): μ-GDP implies exactly these (ε, δ).

    Args:
        mu: ≥ 0, ∞ allowed, any shape.
        epsilon: any real number (negative: the same divergence at e^ε < 1), any shape that
            broadcasts with ``mu``.

    Returns:
        δ in [0, 1], to 1e-9 of itself wherever it is at least 1e-300.

    References:
        Dong, Roth, Su, arXiv:1905.02383, Corollary 1.

    >>> round(gdp_delta(0.53251664850, 1.0), 10), round(gdp_delta(40.0, 800.0), 4)
    (0.01, 0.49)
    """
    m, eps = broadcast_floats(mu, epsilon)
    size = np.abs(eps)
    inside = (m > 0) & np.isfinite(m) & np.isfinite(size)
    # A 1 stands in for what is at a limit: the limits are filled in below.
    inner_mu = np.where(inside, m, 1.0)
    inner_eps = np.where(inside, size, 1.0)
    delta = np.exp(_log_gdp_delta(inner_mu, inner_eps))
    delta = np.where(np.isinf(size), 0.0, delta)
    delta = np.where(np.isinf(m), 1.0, delta)
    delta = np.where(m == 0, 0.0, delta)
    # A Gaussian pair is symmetric, so δ(−ε) = 1 − e^(−ε) + e^(−ε)·δ(ε): a sum, in which nothing
    # cancels.
    at_negative_eps = -np.expm1(-size) + np.exp(-size) * delta
    delta = np.where(eps < 0, at_negative_eps, delta)
    undefined = np.isnan(m) | np.isnan(eps)
    return scalar_or_array(np.where(undefined, np.nan, delta))


# Let a = ε/μ − μ/2 and b = ε/μ + μ/2. Since e^ε·φ(b) = φ(a), δ = φ(a)·(R(a) − R(b)) with Mills'
# ratio R(x) = Φ(−x)/φ(x). A difference of two close Φ loses every digit at small μ; R' = xR − 1
# makes this one an integral of positive numbers.

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_NARROW = 0.05
"""Share of its own scale, max(1, a), below which [a, b] is integrated over: five nodes are exact
there to 1e-16."""
_FAR_OUT = 1e150
"""An ε/μ beyond it is set to it: δ is 0 all the same, and a larger square would overflow."""
_SERIES_FROM = 50.0
"""From this x on, five terms of the asymptotic series of 1 − x·R(x) are exact to the last digit."""


def _log_density(x: Floats) -> Floats:
    """ln φ(x)."""
    return -x * x / 2 - math.log(2 * math.pi) / 2


def _mills(x: Floats) -> Floats:
    """R(x) = Φ(−x)/φ(x); by erfcx, since both Φ and φ underflow far out."""
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


def _mills_fall(x: Floats) -> Floats:
    """−R'(x) = 1 − x·R(x) > 0, by its asymptotic series where the difference would cancel."""
    far = np.maximum(x, _SERIES_FROM) ** -2
    series = far * (1 - 3 * far * (1 - 5 * far * (1 - 7 * far * (1 - 9 * far))))
    near = np.minimum(x, _SERIES_FROM)
    difference = 1 - near * _mills(near)
    return np.where(x > _SERIES_FROM, series, difference)


def _log_gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> Floats:
    """ln δ(ε) of μ-GDP for finite μ > 0 and ε ≥ 0; −∞ where it is below every number.

    Three formulas of the same number, each where it loses no digit.
    """
    m = np.asarray(mu, float)
    eps = np.asarray(epsilon, float)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        middle = np.minimum(eps / m, _FAR_OUT)
        a = middle - m / 2
        b = middle + m / 2
        log_density_a = _log_density(a)

        # [a, b] is narrow: R(a) − R(b) as the integral of −R' by Gauss–Legendre.
        area: Floats | float = 0
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            area = area + weight * _mills_fall(middle + m / 2 * node)
        narrow = log_density_a + np.log(m / 2 * area)

        # a ≥ 0: the difference itself, of two numbers that are far apart.
        right = log_density_a + np.log(_mills(np.maximum(a, 0.0)) - _mills(b))

        # a < 0: there R(a) overflows, while Φ(−a) is at least 1/2: Φ(−a)·(1 − second/first).
        log_first_term = log_ndtr(-a)
        log_second_term = log_density_a + np.log(_mills(b))
        left = log_first_term + np.log1p(-np.exp(log_second_term - log_first_term))

    wide = np.where(a < 0, left, right)
    is_narrow = m < _NARROW * np.maximum(1.0, a)
    return np.asarray(np.where(is_narrow, narrow, wide))


def _log_one_minus_gdp_delta(mu: float, epsilon: float) -> float:
    """ln (1 − δ(ε)) of μ-GDP for finite μ > 0 and ε ≥ 0: of Φ(a) + φ(a)·R(b)."""
    a = np.asarray(epsilon / mu - mu / 2)
    b = np.asarray(epsilon / mu + mu / 2)
    log_first_term = log_ndtr(a)
    log_second_term = _log_density(a) + np.log(_mills(b))
    return float(np.logaddexp(log_first_term, log_second_term))


def _gdp_excess(mu: float, epsilon: float, delta: float) -> float:
    """Grows with μ, falls in ε, and is 0 where δ(ε) = ``delta``.

    On the logarithm of what is small, δ or 1 − δ: so the root keeps its digits at both ends.
    """
    if delta <= 0.5:
        excess = float(_log_gdp_delta(mu, epsilon)) - math.log(delta)
        return max(excess, -1e300)  # brentq needs finite values
    return math.log1p(-delta) - _log_one_minus_gdp_delta(mu, epsilon)


def gdp_epsilon(mu: float, delta: float) -> float:
    """Least ε ≥ 0 with δ(ε) ≤ ``delta`` for μ-GDP: the inverse of `gdp_delta` in ε.

    Right to 1e-9 of itself, and to what a change of ``delta`` in its last digits does, which is
    more where ε is nearly 0.

    >>> round(gdp_epsilon(0.53251664850, 0.01), 8)
    1.0
    """
    _check(delta)
    if not mu >= 0:
        raise ValueError(f"mu = {mu} must be at least 0")
    if math.isinf(mu):
        return math.inf
    if mu == 0 or _gdp_excess(mu, 0.0, delta) <= 0:
        return 0.0
    # δ is below its first term Φ(−ε/μ + μ/2), so the ε that makes that one δ is an upper bound.
    high = mu * mu / 2 - mu * float(ndtri(delta))
    # The two are equal to the last digit where the second term is nothing.
    high *= 1 + 1e-12

    def excess(eps: float) -> float:
        return _gdp_excess(mu, eps, delta)

    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14))


def direct_mu(epsilon: float, delta: float) -> float:
    """Largest μ such that μ-GDP implies (ε, δ)-DP: the inverse of `gdp_delta` in μ.

    Right to 1e-9 of itself for ε up to 700 and δ from 1e-300 to 1 − 1e-12.

    >>> round(direct_mu(1.0, 0.01), 10), f"{direct_mu(0.0, 1e-20):.9e}"
    (0.5325166485, '2.506628275e-20')
    """
    _check(delta, epsilon=epsilon)
    mu_at_zero = _mu_at_epsilon_zero(delta)
    if epsilon == 0:
        return mu_at_zero
    # δ falls in ε and is below its first term, so both μ are lower bounds. The search is over
    # ln μ, since μ spans hundreds of decades.
    low = math.log(max(mu_at_zero, _mu_of_first_term(epsilon, delta))) - 1e-9
    high = low + 1.0
    while _gdp_excess(math.exp(high), epsilon, delta) <= 0:
        high += 1.0

    def excess(log_mu: float) -> float:
        return _gdp_excess(math.exp(log_mu), epsilon, delta)

    return math.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-14))


def _mu_at_epsilon_zero(delta: float) -> float:
    """The μ with δ(0) = erf(μ/√8) = ``delta``."""
    if delta <= 0.5:
        inverse = float(erfinv(delta))
    else:
        inverse = float(erfcinv(1 - delta))  # keeps the digits of 1 − δ
    return 2 * math.sqrt(2) * inverse


def _mu_of_first_term(epsilon: float, delta: float) -> float:
    """The μ with Φ(−ε/μ + μ/2) = ``delta``: the positive root of μ²/2 − zμ − ε = 0."""
    z = float(ndtri(delta))
    root = math.sqrt(z * z + 2 * epsilon)
    if z > 0:
        return z + root
    return 2 * epsilon / (root - z)  # the same root, without a cancellation


# --- ρ and (ε, δ): the best known formula ---------------------------------------------------------
#
# ρ-zCDP gives δ = min over orders a = 1 + s > 1 of e^(s((1 + s)ρ − ε))/s·(1 − 1/(1 + s))^(1 + s).
# At the best order (1 + 2s)ρ = ε + ln(1 + 1/s), and there ln(1/δ) = s²ρ + ln(1 + s): sums of
# positive numbers, from any s to a pair.


def rho_from_eps_delta(epsilon: float, delta: float) -> float:
    """Largest ρ for which ρ-zCDP gives (ε, δ)-DP by the formula of Canonne, Kamath and Steinke.

    Right to 1e-9 of itself for ε up to 700 and δ from 1e-300 to 1 − 1e-12; 0 where it is below
    every number.

    Args:
        epsilon: ≥ 0, finite.
        delta: in (0, 1).

    References:
        Canonne, Kamath, Steinke, arXiv:2004.00010, Corollary 13: δ = min over orders a > 1 of
        e^((a−1)(aρ−ε))/(a−1)·(1−1/a)^a.

    >>> round(rho_from_eps_delta(1.0, 0.01), 11)
    0.10341283143
    """
    _check(delta, epsilon=epsilon)
    target = -math.log(delta)

    def rho_of(s: float) -> float:
        return (epsilon + math.log1p(1 / s)) / (1 + 2 * s)

    def s_squared_rho(s: float) -> float:
        return s * (s * rho_of(s))  # s² alone may overflow

    # Since ln(1/δ) ≤ s²ε + 2s.
    least_s = target / (1 + math.sqrt(1 + epsilon * target))
    return rho_of(_best_order_minus_one(s_squared_rho, least_s, target))


def eps_from_rho(rho: float, delta: float) -> float:
    """Least ε ≥ 0 for which ρ-zCDP gives (ε, δ)-DP: the inverse of `rho_from_eps_delta`.

    Right to 1e-9 of itself, and to what a change of its arguments in their last digits does, which
    is more where ε is nearly 0.

    >>> round(eps_from_rho(2.56, 1e-10), 3), round(eps_from_rho(0.07, 1e-10), 3)
    (17.158, 2.387)
    """
    _check(delta, rho=rho)
    if rho == 0:
        return 0.0
    target = -math.log(delta)

    def s_squared_rho(s: float) -> float:
        return s * (s * rho)  # s² alone may overflow

    # Since ln(1/δ) ≤ s²ρ + s.
    least_s = 2 * target / (1 + math.sqrt(1 + 4 * rho * target))
    s = _best_order_minus_one(s_squared_rho, least_s, target)
    return max(0.0, (1 + 2 * s) * rho - math.log1p(1 / s))


def _best_order_minus_one(
    s_squared_rho: Callable[[float], float], least: float, target: float
) -> float:
    """The s with s²ρ + ln(1 + s) = ``target``, which grows with s.

    Args:
        s_squared_rho: s → s²ρ.
        least: a lower bound of s.
        target: ln(1/δ).
    """

    def excess(log_s: float) -> float:
        s = math.exp(log_s)
        return math.log((s_squared_rho(s) + math.log1p(s)) / target)

    # In logarithms, since s spans hundreds of decades; a little wider than the bounds, whose
    # rounding may put the root outside. ln(1 + s) ≤ target gives the upper one.
    low = math.log(least) - 1e-9
    high = math.log(math.expm1(target)) + 1e-9
    return math.exp(brentq(excess, low, high, xtol=1e-15, rtol=1e-14))


def simple_eps_from_rho(rho: float, delta: float) -> float:
    """ρ + 2√(ρ·ln(1/δ)): the simple, looser conversion of ρ-zCDP to ε at δ.

    References:
        Bun, Steinke, arXiv:1605.02065, Proposition 1.3.

    >>> round(simple_eps_from_rho(2.56, 1e-10), 3), round(simple_eps_from_rho(0.07, 1e-10), 3)
    (17.915, 2.609)
    """
    _check(delta, rho=rho)
    return rho + 2 * math.sqrt(-rho * math.log(delta))


def implied_mu(rho: float) -> float:
    """√(2ρ): the μ of a composition of Gaussian mechanisms that spends ρ.

    Guaranteed from ρ only for (adaptive) compositions of Gaussian mechanisms, else a reference
    line.

    >>> round(implied_mu(0.10341283143), 9)
    0.454780895
    """
    return math.sqrt(2 * rho)
