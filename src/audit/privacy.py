"""Notions of privacy as families of tradeoff curves, the conversions between them, and an
accountant for mixtures.

T(P, Q)(alpha) is the least FNR of a test of P (absent) against Q (present) whose FPR is at most
alpha. A notion is a one-parameter family of such curves: a mechanism that keeps it at a parameter
allows no attack below its curve.

References:
    Dong, Roth, Su, Gaussian differential privacy, arXiv:1905.02383 (tradeoff functions, GDP, Eq. 6,
        Corollary 1).
    Bun, Steinke, Concentrated differential privacy, arXiv:1605.02065 (zCDP).
    Canonne, Kamath, Steinke, The discrete Gaussian for differential privacy, arXiv:2004.00010
        (Corollary 13).
    Dong, Durfee, Rogers, Optimal differential privacy composition for exponential mechanisms,
        arXiv:1909.13830.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcinv, erfcx, erfinv, log_ndtr, ndtr, ndtri

Floats = NDArray[np.float64]
Delta = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
LEAST, LARGEST = 1e-6, 500.0
"""Of ε, μ or ρ. Below, no number of trials tells a leak from none; above, e^ε comes near the
largest double."""
STRICT = ConfigDict(extra="forbid")


def _in_range(parameter: float) -> float:
    if not LEAST <= parameter <= LARGEST:
        limits = {"least": LEAST, "largest": LARGEST}
        raise PydanticCustomError("range", "input should be between {least} and {largest}", limits)
    return parameter


PrivacyParameter = Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(_in_range)]
"""ε, μ or ρ that a mechanism is given; everything that is computed from it is finite."""


@runtime_checkable
class Notion(Protocol):
    """A one-parameter family of tradeoff curves: convex, non-increasing, at most 1 − alpha, falling
    in the parameter.

    A curve of a whole notion is its own inverse; a curve of a piece need not be.
    """

    @property
    def name(self) -> str:
        """``gdp``, ``approximate``, ``pure`` or ``zcdp``."""
        ...

    @property
    def symbol(self) -> str:
        """What the parameter is called: ``μ``, ``ε`` or ``ρ``."""
        ...

    def __hash__(self) -> int:
        """Equal notions are one key: what is slow to compute of a curve is kept."""
        ...

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """Least FNR at FPR ``alpha``.

        Args:
            alpha: FPR in [0, 1], any shape.
            parameter: ≥ 0, ∞ allowed (the curve is 0 there), any shape that broadcasts with
                ``alpha``.

        Returns:
            FNR in [0, 1 − alpha], of the broadcast shape; a float where both are scalars.
        """
        ...

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """Least parameter that allows the point (``alpha``, ``beta``).

        Args:
            alpha: FPR in [0, 1], any shape.
            beta: FNR in [0, 1], any shape that broadcasts with ``alpha``.

        Returns:
            ≥ 0, of the broadcast shape; 0 where alpha + beta ≥ 1, ∞ where no finite parameter
            allows the point.
        """
        ...

    def label(self, parameter: float) -> str:
        """The claim in words, with 4 significant digits."""
        ...

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """The alphas in (0, 1) at which the curve has a corner, ascending: where to split an
        integral along it."""
        ...

    def pieces(self) -> tuple[Notion, ...]:
        """Families without a corner (but where they reach 0) whose pointwise maximum is ``beta``.

        The joint Bayesian bound over-claims at a corner: choose one piece on selection trials and
        use it alone. The second of two pieces is the first with alpha and beta exchanged.
        """
        ...


def _broadcast(*values: ArrayLike) -> list[Floats]:
    return [np.array(v) for v in np.broadcast_arrays(*(np.asarray(v, float) for v in values))]


def _out(value: Floats) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.4g}"


# --- Gaussian differential privacy ----------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class GDP:
    """FNR ≥ Φ(Φ⁻¹(1 − FPR) − μ): as hard to tell apart as N(0, 1) and N(μ, 1).

    References:
        Dong, Roth, Su, arXiv:1905.02383, Eq. 6.

    >>> round(GDP().beta(0.05, 1.0), 6), round(GDP().parameter(0.4745, 0.3715), 6), GDP().label(0.45478)
    (0.740489, 0.391846, '0.4548-GDP')
    """

    name: ClassVar[str] = "gdp"
    symbol: ClassVar[str] = "μ"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        a, mu = _broadcast(alpha, parameter)
        with np.errstate(invalid="ignore"):
            b = np.minimum(ndtr(-ndtri(a) - mu), 1 - a)
        return _out(np.where(np.isinf(mu), 0.0, np.where(mu == 0, 1 - a, b)))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = _broadcast(alpha, beta)
        with np.errstate(invalid="ignore"):
            mu = np.maximum(-ndtri(a) - ndtri(b), 0.0)
        return _out(np.where(a + b >= 1, 0.0, mu))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return f"{_number(parameter)}-GDP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """None: the curve is smooth."""
        return ()

    def pieces(self) -> tuple[Notion, ...]:
        """The family itself."""
        return (self,)


# --- (ε, δ) and pure differential privacy ---------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class Line:
    """FNR ≥ 1 − δ − e^ε·FPR, or its mirror image FPR ≥ 1 − δ − e^ε·FNR: one half of what (ε, δ)-DP
    says.

    Args:
        delta: in [0, 1).
        mirrored: the second of the two.
    """

    delta: Delta
    mirrored: bool = False
    name: ClassVar[str] = "approximate"
    symbol: ClassVar[str] = "ε"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        a, eps = _broadcast(alpha, parameter)
        room = 1 - self.delta
        with np.errstate(over="ignore", invalid="ignore"):
            # In two factors, since e^ε may overflow where e^ε·alpha does not.
            used = np.exp(np.minimum(eps, 700.0)) * a * np.exp(np.maximum(eps - 700.0, 0.0))
            b = np.exp(-eps) * (room - a) if self.mirrored else room - np.where(a == 0, 0.0, used)
        return _out(np.where(np.isinf(eps), 0.0, np.clip(b, 0.0, 1 - a)))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = _broadcast(beta, alpha) if self.mirrored else _broadcast(alpha, beta)
        top = 1 - self.delta - b
        with np.errstate(divide="ignore", invalid="ignore"):
            eps = np.maximum(np.log(top) - np.log(a), 0.0)
        return _out(np.where((top <= 0) | (a + b >= 1), 0.0, eps))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return (
            ApproximateDP(self.delta).label(parameter) if self.delta else PureDP().label(parameter)
        )

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where the line reaches 0."""
        if math.isinf(parameter):
            return ()
        end = 1 - self.delta if self.mirrored else (1 - self.delta) * math.exp(-parameter)
        return (end,) if 0 < end < 1 else ()

    def pieces(self) -> tuple[Notion, ...]:
        """The family itself."""
        return (self,)


@dataclass(frozen=True, config=STRICT)
class ApproximateDP:
    """FNR ≥ max(0, 1 − δ − e^ε·FPR, e^(−ε)·(1 − δ − FPR)) at a fixed δ; the parameter is ε.

    Args:
        delta: in [0, 1).

    >>> notion = ApproximateDP(0.01)
    >>> round(notion.beta(0.1, 1.0), 6), round(notion.parameter(0.1, 0.718172), 4), notion.label(1)
    (0.718172, 1.0, '(1, 0.01)-DP')
    """

    delta: Delta
    name: ClassVar[str] = "approximate"
    symbol: ClassVar[str] = "ε"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        return _out(np.maximum(*(piece.beta(alpha, parameter) for piece in self.pieces())))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        return _out(np.maximum(*(piece.parameter(alpha, beta) for piece in self.pieces())))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return f"({_number(parameter)}, {_number(self.delta)})-DP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """(1 − δ)/(1 + e^ε), where FPR = FNR, and 1 − δ, where the curve reaches 0."""
        if math.isinf(parameter):
            return ()
        # At ε = 0 the two lines are one.
        corner = (
            (1 - self.delta) * math.exp(-parameter) / (1 + math.exp(-parameter))
            if parameter > 0
            else 0.0
        )
        return tuple(alpha for alpha in (corner, 1 - self.delta) if 0 < alpha < 1)

    def pieces(self) -> tuple[Notion, ...]:
        """The two lines."""
        return (Line(self.delta), Line(self.delta, mirrored=True))


@dataclass(frozen=True, config=STRICT)
class PureDP:
    """FNR ≥ max(0, 1 − e^ε·FPR, e^(−ε)·(1 − FPR)): (ε, 0)-DP.

    >>> round(PureDP().beta(0.05, 1.0), 6), PureDP().label(1)
    (0.864086, '1-DP')
    """

    name: ClassVar[str] = "pure"
    symbol: ClassVar[str] = "ε"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        return ApproximateDP(0.0).beta(alpha, parameter)

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        return ApproximateDP(0.0).parameter(alpha, beta)

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return f"{_number(parameter)}-DP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """1/(1 + e^ε)."""
        return ApproximateDP(0.0).kinks(parameter)

    def pieces(self) -> tuple[Notion, ...]:
        """The two lines."""
        return ApproximateDP(0.0).pieces()


# --- zero-concentrated differential privacy -------------------------------------------------------
#
# One direction is D(q, b) = sup over orders a ≥ 1 of D_a(Bernoulli(1 − b) ‖ Bernoulli(q))/a; the
# other direction is D(b, q). With p = 1 − b, the log-likelihood ratios c = ln(p/q) and d = ln(b/(1
# − q)), and s = a − 1, D_a = R(s)/s with R(s) = ln(p·e^(cs) + b·e^(ds)), and KL = p·c + b·d at s =
# 0.


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Bernoulli(p = 1 − b) against Bernoulli(q), q < p: the log-likelihood ratios c > 0 > d of the
    two outcomes."""

    q: Floats
    p: Floats
    b: Floats
    c: Floats
    d: Floats

    @staticmethod
    def of(q: Floats, p: Floats, b: Floats) -> _Pair:
        gap = np.maximum(p - q, 0.0)  # a rounding may exchange them
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # log1p where the two are close (no cancellation), a difference of logarithms where they
            # are far apart
            c = np.where(gap < q, np.log1p(gap / q), np.log(p) - np.log(q))
            far = np.log(np.maximum(b, 5e-324)) - np.log1p(-q)
            d = np.where(gap < b, np.log1p(-gap / np.maximum(1 - q, 5e-324)), far)
        return _Pair(q, p, b, c, d)

    def cumulant(self, s: Floats) -> tuple[Floats, Floats, Floats]:
        """R(s), e^((d − c)s) − 1 and e^(R(s) − cs) = p + b·e^((d − c)s)."""
        drop = np.expm1((self.d - self.c) * s)
        rest = self.p + self.b * (1 + drop)
        # log1p(−1) where b = 1 to the last bit; the other branch is taken there
        with np.errstate(divide="ignore"):
            return (
                self.c * s + np.where(drop < -0.5, np.log(rest), np.log1p(self.b * drop)),
                drop,
                rest,
            )

    def best_order(self) -> Floats:
        """The s ≥ 0 at which R(s)/(s(1 + s)) is largest.

        ln E_Q[(P/Q)^a] has a second derivative that is symmetric and unimodal about
        a₀ = −logit(q)/(c − d), and R(s)/(s(1 + s)) is its average over a triangle on [0, a] with
        its peak at 1. So the best order is 1 if a₀ ≤ 3/4 and else between a₀ + √(a₀² − a₀), exact
        for a narrow peak, and 2a₀ − 1/2, exact for a wide one (checked in 40 digits at 3,000 random
        pairs, not proved).
        """
        spread = np.maximum(self.c - self.d, 5e-324)
        with np.errstate(divide="ignore", over="ignore"):
            centre = np.clip((np.log1p(-self.q) - np.log(self.q)) / spread, 0.0, 1e100)
        low = np.maximum(centre - 1 + np.sqrt(np.maximum(centre * (centre - 1), 0.0)), 0.0)
        # The derivative at order 1 is half the variance of the log-likelihood ratio less its mean:
        # 1 is best if ≤ 0.
        falls = (centre <= 1) & (
            self.p * self.b * spread**2 / 2 <= self.p * self.c + self.b * self.d
        )
        high = np.where(falls, 0.0, np.maximum(2 * centre - 1.5, 0.0))
        s = high
        for _ in range(24 if np.any(high > 0) else 0):
            value, _, rest = self.cumulant(s)
            weight = self.p / rest
            first = weight * self.c + (1 - weight) * self.d
            rise = first * s * (1 + s) - value * (1 + 2 * s)
            bend = weight * (1 - weight) * spread**2 * s * (1 + s) - 2 * value
            low, high = np.where(rise > 0, s, low), np.where(rise > 0, high, s)
            with np.errstate(divide="ignore", invalid="ignore"):
                # Newton on rise/s², whose root at 0 is gone
                step = s - rise / (bend - 2 * rise / s)
            inside = (step >= low) & (step <= high)
            s, before = np.where(inside, step, (low + high) / 2), s
            if np.all(np.abs(s - before) <= 1e-6 * s):
                break
        return s

    def divergence(self) -> tuple[Floats, Floats, Floats]:
        """D and its derivatives with respect to b and q (at the best order: it is stationary, or
        held at 1)."""
        s = self.best_order()
        value, drop, rest = self.cumulant(s)
        limit = s < 1e-7  # there R(s)/s is the Kullback–Leibler divergence, to second order in s
        safe = np.where(limit, 1.0, s)
        level = np.where(limit, self.p * self.c + self.b * self.d, value / (safe * (1 + safe)))
        # p = 0 or q = 1 to the last bit
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            slope = np.where(limit, self.d - self.c, drop / safe) / rest
            weight = self.p / rest
            slope_q = -(weight / self.q - (1 - weight) / (1 - self.q)) / (1 + s)
        return np.maximum(level, 0.0), slope, slope_q


def _divergence(q: Floats, b: Floats) -> Floats:
    """D(q, b): 0 where q + b ≥ 1, ∞ where q = 0 < 1 − b."""
    free = q + b >= 1
    inside = (q > 0) & ~free & ~np.isnan(q + b)
    level = np.where(free, 0.0, np.where(np.isnan(q + b), np.nan, np.inf))
    if np.any(inside):
        level[inside] = _Pair.of(q[inside], 1 - b[inside], b[inside]).divergence()[0]
    return level


_LEAST = -37.5  # Φ(−37.5) = 4.6e-308, the least rate that is looked for


def _solve(known: Floats, rho: Floats, find_b: bool) -> Floats:
    """The b with D(known, b) = ρ, or the q with D(q, known) = ρ; 0 where every one is allowed.

    Newton in z = Φ⁻¹(rate) on √(2D) − √(2ρ), nearly straight there, kept inside a bracket.

    Args:
        known: (n,) in (0, 1).
        rho: (n,) in (0, ∞).
        find_b: which one is unknown.
    """
    target = np.sqrt(2 * rho)
    low, high = np.full_like(known, _LEAST), -ndtri(known)
    z = np.clip(high - target, low, high)
    for _ in range(100):
        rate = ndtr(z)
        pair = _Pair.of(known, ndtr(-z), rate) if find_b else _Pair.of(rate, 1 - known, known)
        level, slope_b, slope_q = pair.divergence()
        root = np.sqrt(2 * level)
        error = root - target
        density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        low, high = np.where(error > 0, z, low), np.where(error > 0, high, z)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = z - error * root / ((slope_b if find_b else slope_q) * density)
        inside = (step >= low) & (step <= high)
        z, before = np.where(inside, step, (low + high) / 2), z
        move = np.abs(z - before)
        # A b below q is where D flattens out: there the rate is what settles, not z.
        flat = (move * density <= 1e-17) & (rate < known) & find_b
        if np.all(flat | (move <= 1e-12 * (1 + np.abs(z))) | (np.abs(error) <= 1e-15 * target)):
            break
    return np.where(z <= _LEAST + 1e-6, 0.0, ndtr(z))


def _curve(
    alpha: Floats, rho: Floats, solve: Callable[[Floats, Floats], Floats], at_zero: Floats
) -> Floats:
    """``solve`` where alpha is in (0, 1) and ρ in (0, ∞), and the limits elsewhere."""
    b = np.where(
        np.isinf(rho), 0.0, np.where(alpha > 0, 1 - alpha, np.where(rho > 0, at_zero, 1.0))
    )
    # Below 1e-25 a ρ moves the curve by less than 3e-13, and the solution by less than its own
    # rounding.
    inside = (alpha > 0) & (alpha < 1) & (rho > 1e-25) & np.isfinite(rho)
    if np.any(inside):
        b[inside] = np.minimum(solve(alpha[inside], rho[inside]), b[inside])
    return b


@dataclass(frozen=True, config=STRICT)
class Direction:
    """D_a(present ‖ absent) ≤ ρa for all orders a ≥ 1, or D_a(absent ‖ present) ≤ ρa: one half of
    what zCDP says.

    Args:
        mirrored: the second of the two.
    """

    mirrored: bool = False
    name: ClassVar[str] = "zcdp"
    symbol: ClassVar[str] = "ρ"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        a, rho = _broadcast(alpha, parameter)
        with np.errstate(under="ignore"):
            floor = np.exp(-rho)
        if self.mirrored:
            return _out(_curve(a, rho, lambda x, r: _solve(x, r, find_b=False), floor))
        b = _curve(a, rho, lambda x, r: _solve(x, r, find_b=True), np.ones_like(a))
        return _out(np.where((a >= floor) & (rho > 0), 0.0, b))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = _broadcast(alpha, beta)
        return _out(_divergence(b, a) if self.mirrored else _divergence(a, b))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return ZCDP().label(parameter)

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where the curve reaches 0."""
        end = math.exp(-parameter)
        return (end,) if not self.mirrored and 0 < end < 1 else ()

    def pieces(self) -> tuple[Notion, ...]:
        """The family itself."""
        return (self,)


@dataclass(frozen=True, config=STRICT)
class ZCDP:
    """D_a(Bernoulli(1 − FNR) ‖ Bernoulli(FPR)) ≤ ρa for all orders a ≥ 1, and the reverse: all that
    ρ-zCDP implies.

    The region is larger than that of √(2ρ)-GDP, which only compositions of Gaussian mechanisms
    keep.

    References:
        Bun, Steinke, arXiv:1605.02065, Definition 1.1; Kullback–Leibler is the limit a → 1.

    >>> notion = ZCDP()
    >>> round(notion.parameter(0.2604, 0.2604), 4), round(notion.kinks(0.5)[0], 5), notion.label(0.103413)
    (0.5002, 0.26045, '0.1034-zCDP')
    """

    name: ClassVar[str] = "zcdp"
    symbol: ClassVar[str] = "ρ"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        a, rho = _broadcast(alpha, parameter)
        return _out(_curve(a, rho, _binding, np.ones_like(a)))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = _broadcast(alpha, beta)
        # The direction with the smaller rate as q is the larger divergence (the tests compare with
        # both).
        return _out(_divergence(np.minimum(a, b), np.maximum(a, b)))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return f"{_number(parameter)}-zCDP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where FPR = FNR: there the best order is 1 in both directions, so
        (1 − 2·alpha)·ln((1 − alpha)/alpha) = ρ."""
        if not 0 < parameter < math.inf:
            return ()
        logit = brentq(
            lambda x: x * math.tanh(x / 2) - parameter, 0.0, parameter + 2.0, xtol=1e-15, rtol=1e-14
        )
        alpha = math.exp(-logit) / (1 + math.exp(-logit))
        return (alpha,) if 0 < alpha < 0.5 else ()

    def pieces(self) -> tuple[Notion, ...]:
        """The two directions."""
        return (Direction(), Direction(mirrored=True))


def _binding(alpha: Floats, rho: Floats) -> Floats:
    """beta by the direction that binds: alpha is q where (alpha, alpha) is not allowed, b where it
    is."""
    with np.errstate(over="ignore"):
        below = (1 - 2 * alpha) * (np.log1p(-alpha) - np.log(alpha)) > rho
    below &= alpha < 0.5
    b = np.empty_like(alpha)
    for mask, find_b in ((below, True), (~below, False)):
        if np.any(mask):
            b[mask] = _solve(alpha[mask], rho[mask], find_b)
    return b


# --- conversions ----------------------------------------------------------------------------------


def _check(delta: float, **nonnegative: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta = {delta} is outside (0, 1)")
    for name, value in nonnegative.items():
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} = {value} must be finite and at least 0")


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
    m, eps = _broadcast(mu, epsilon)
    size = np.abs(eps)
    inside = (m > 0) & np.isfinite(m) & np.isfinite(size)
    delta = np.exp(_log_gdp_delta(np.where(inside, m, 1.0), np.where(inside, size, 1.0)))
    delta = np.where(m == 0, 0.0, np.where(np.isinf(m), 1.0, np.where(np.isinf(size), 0.0, delta)))
    # A Gaussian pair is symmetric, so δ(−ε) = 1 − e^(−ε) + e^(−ε)·δ(ε): a sum, in which nothing
    # cancels.
    delta = np.where(eps < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)
    return _out(np.where(np.isnan(m) | np.isnan(eps), np.nan, delta))


# Let a = ε/μ − μ/2 and b = ε/μ + μ/2. Since e^ε·φ(b) = φ(a), δ = φ(a)·(R(a) − R(b)) with Mills'
# ratio R = Φ(−x)/φ(x). A difference of two close Φ loses every digit at small μ; R' = xR − 1 makes
# this one an integral of positive numbers.

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_NARROW = 0.05
"""Share of its own scale, max(1, a), below which [a, b] is integrated over: five nodes are exact
there to 1e-16."""


def _log_density(x: Floats) -> Floats:
    """ln φ(x)."""
    return -x * x / 2 - math.log(2 * math.pi) / 2


def _mills(x: Floats) -> Floats:
    """R(x) = Φ(−x)/φ(x)."""
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


def _mills_fall(x: Floats) -> Floats:
    """−R'(x) = 1 − x·R(x) > 0, by its asymptotic series where the difference would cancel."""
    far = np.maximum(x, 50.0) ** -2
    series = far * (1 - 3 * far * (1 - 5 * far * (1 - 7 * far * (1 - 9 * far))))
    return np.where(x > 50, series, 1 - np.minimum(x, 50.0) * _mills(np.minimum(x, 50.0)))


def _log_gdp_delta(mu: ArrayLike, epsilon: ArrayLike) -> Floats:
    """ln δ(ε) of μ-GDP for finite μ > 0 and ε ≥ 0; −∞ where it is below every number."""
    m, eps = np.asarray(mu, float), np.asarray(epsilon, float)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        middle = np.minimum(eps / m, 1e150)  # farther out δ is 0 all the same, and squares overflow
        a, b = middle - m / 2, middle + m / 2
        area = sum(
            w * _mills_fall(middle + m / 2 * x) for x, w in zip(_NODES, _WEIGHTS, strict=True)
        )
        narrow = _log_density(a) + np.log(m / 2 * area)
        right = _log_density(a) + np.log(_mills(np.maximum(a, 0.0)) - _mills(b))
        left = log_ndtr(-a) + np.log1p(-np.exp(_log_density(a) + np.log(_mills(b)) - log_ndtr(-a)))
        wide = np.where(a < 0, left, right)
    return np.asarray(np.where(m < _NARROW * np.maximum(1.0, a), narrow, wide))


def _log_gdp_rest(mu: float, epsilon: float) -> float:
    """ln (1 − δ(ε)) of μ-GDP for finite μ > 0 and ε ≥ 0: of Φ(a) + φ(a)·R(b)."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return float(
        np.logaddexp(log_ndtr(a), _log_density(np.asarray(a)) + np.log(_mills(np.asarray(b))))
    )


def _gdp_excess(mu: float, epsilon: float, delta: float) -> float:
    """Grows with μ, falls in ε, and is 0 where δ(ε) = ``delta``: on the scale of what is small, δ
    or 1 − δ."""
    if delta <= 0.5:
        return max(float(_log_gdp_delta(mu, epsilon)) - math.log(delta), -1e300)
    return math.log1p(-delta) - _log_gdp_rest(mu, epsilon)


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
    high = mu * mu / 2 - mu * float(ndtri(delta))  # the first term alone
    # The two are equal to the last digit where the second term is nothing.
    high *= 1 + 1e-12
    return float(
        brentq(lambda eps: _gdp_excess(mu, eps, delta), 0.0, high, xtol=1e-300, rtol=1e-14)
    )


def direct_mu(epsilon: float, delta: float) -> float:
    """Largest μ such that μ-GDP implies (ε, δ)-DP: the inverse of `gdp_delta` in μ.

    Right to 1e-9 of itself for ε up to 700 and δ from 1e-300 to 1 − 1e-12.

    >>> round(direct_mu(1.0, 0.01), 10), f"{direct_mu(0.0, 1e-20):.9e}"
    (0.5325166485, '2.506628275e-20')
    """
    _check(delta, epsilon=epsilon)
    # δ(0) = erf(μ/√8)
    at_zero = 2 * math.sqrt(2) * float(erfinv(delta) if delta <= 0.5 else erfcinv(1 - delta))
    if epsilon == 0:
        return at_zero
    z = float(ndtri(delta))
    root = math.sqrt(z * z + 2 * epsilon)
    # Φ(−ε/μ + μ/2) = δ; without a cancellation
    first_term = z + root if z > 0 else 2 * epsilon / (root - z)
    low = math.log(max(at_zero, first_term)) - 1e-9  # δ is below its first term, and falls in ε
    high = low + 1.0
    while _gdp_excess(math.exp(high), epsilon, delta) <= 0:
        high += 1.0
    found = brentq(
        lambda log_mu: _gdp_excess(math.exp(log_mu), epsilon, delta),
        low,
        high,
        xtol=1e-15,
        rtol=1e-14,
    )
    return math.exp(found)


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

    def rho(s: float) -> float:
        return (epsilon + math.log1p(1 / s)) / (1 + 2 * s)

    # ln(1 + s) ≤ ln(1/δ) ≤ s²ε + 2s
    s = _order(lambda s: s * (s * rho(s)), target / (1 + math.sqrt(1 + epsilon * target)), target)
    return rho(s)


def eps_from_rho(rho: float, delta: float) -> float:
    """Least ε ≥ 0 for which ρ-zCDP gives (ε, δ)-DP by the same formula: the inverse of
    `rho_from_eps_delta`.

    Right to 1e-9 of itself, and to what a change of its arguments in their last digits does, which
    is more where ε is nearly 0.

    >>> round(eps_from_rho(2.56, 1e-10), 3), round(eps_from_rho(0.07, 1e-10), 3)
    (17.158, 2.387)
    """
    _check(delta, rho=rho)
    if rho == 0:
        return 0.0
    target = -math.log(delta)
    s = _order(lambda s: s * (s * rho), 2 * target / (1 + math.sqrt(1 + 4 * rho * target)), target)
    return max(0.0, (1 + 2 * s) * rho - math.log1p(1 / s))


def _order(square: Callable[[float], float], least: float, target: float) -> float:
    """The s with ``square(s)`` + ln(1 + s) = ``target``, which grows with s: at least ``least``, at
    most e^target − 1."""

    def excess(log_s: float) -> float:
        s = math.exp(log_s)
        return math.log((square(s) + math.log1p(s)) / target)

    low, high = math.log(least) - 1e-9, math.log(math.expm1(target)) + 1e-9
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
    """√(2ρ). Guaranteed from ρ only for (adaptive) compositions of Gaussian mechanisms, else a
    reference line.

    >>> round(implied_mu(0.10341283143), 9)
    0.454780895
    """
    return math.sqrt(2 * rho)


# --- plain figures --------------------------------------------------------------------------------


def mu_hat(fpr: ArrayLike, fnr: ArrayLike) -> Any:
    """Φ⁻¹(1 − fpr) − Φ⁻¹(fnr): the plug-in estimate of μ; negative where the attack is worse than a
    guess.

    Args:
        fpr: in [0, 1], any shape.
        fnr: in [0, 1], any shape that broadcasts with ``fpr``.

    Returns:
        A number in [−∞, ∞]; exactly 0 where fpr + fnr = 1.

    >>> round(mu_hat(0.4745, 0.3715), 6), mu_hat(0.0, 0.5), mu_hat(1.0, 0.0)
    (0.391846, inf, 0.0)
    """
    a, b = _broadcast(fpr, fnr)
    with np.errstate(invalid="ignore"):
        return _out(np.where(a + b == 1, 0.0, -ndtri(a) - ndtri(b)))


@functools.lru_cache(maxsize=1024)
def guess_rate(notion: Notion, parameter: float) -> float:
    """1 − min (alpha + beta(alpha))/2: the best accuracy of a guess when both data sets are equally
    likely.

    >>> round(guess_rate(PureDP(), 1.0), 5), round(guess_rate(GDP(), 0.45478), 5)
    (0.73106, 0.58994)
    """

    def miss(alpha: float) -> float:
        return float(alpha + notion.beta(alpha, parameter))

    found = minimize_scalar(miss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    return (
        1 - min([float(found.fun), *(miss(alpha) for alpha in (0.0, *notion.kinks(parameter)))]) / 2
    )


def power(notion: Notion, parameter: ArrayLike, alpha: ArrayLike) -> Any:
    """1 − beta(alpha): the largest power (TPR) of a test whose FPR is at most ``alpha``.

    >>> round(power(PureDP(), 1.0, 0.05), 4)
    0.1359
    """
    return 1 - notion.beta(alpha, parameter)


def posterior_cap(epsilon: float, prior: float = 0.5) -> float:
    """prior·e^ε/(1 − prior + prior·e^ε): the most that one output of an ε-DP mechanism can make of
    a prior.

    At −ε it is the least.

    >>> round(posterior_cap(1.0), 5), round(posterior_cap(1.0986, 0.1), 4), round(posterior_cap(-1.0986, 0.1), 5)
    (0.73106, 0.25, 0.03571)
    """
    if not 0 < prior < 1:
        raise ValueError(f"prior = {prior} is outside (0, 1)")
    odds = epsilon + math.log(prior) - math.log1p(-prior)
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def least_fnr(absent: ArrayLike, present: ArrayLike, alpha: ArrayLike) -> Any:
    """Least FNR at FPR ``alpha`` between two laws on the same outcomes: exact, the curve of
    likelihood-ratio tests.

    Args:
        absent, present: (k,) probability of each outcome, ≥ 0; outcomes of probability 0 under both
            are allowed.
        alpha: FPR in [0, 1], any shape.

    Returns:
        FNR, of the shape of ``alpha``; a float where that is a scalar.

    References:
        Neyman, Pearson 1933: outcomes are called present in the order of their ratio, the last one
            by a coin.

    >>> round(least_fnr([0.75, 0.25], [0.25, 0.75], 0.25), 6), least_fnr([1.0, 0.0], [0.5, 0.5], 0.0)
    (0.25, 0.5)
    """
    p, q = np.asarray(absent, float), np.asarray(present, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(p > 0, -q / p, -np.inf), kind="stable")
    fpr, fnr = np.cumsum(p[order]), 1 - np.cumsum(q[order])
    free = int(np.sum(p == 0))  # outcomes that only present has: called so at no cost
    start = float(fnr[free - 1]) if free else 1.0
    curve = np.interp(np.asarray(alpha, float), [0.0, *fpr[free:]], [start, *fnr[free:]])
    return _out(np.clip(curve, 0.0, 1.0))


def posterior(notion: Notion, parameter: ArrayLike, alpha: ArrayLike, prior: float = 0.5) -> Any:
    """prior·power/(prior·power + (1 − prior)·alpha): the most that a test at FPR ``alpha`` makes of
    a prior by a yes.

    For ε-DP it is at most `posterior_cap`; other notions have no cap, but rare yeses only go
    further.

    Args:
        alpha: FPR in (0, 1], any shape.
        prior: in (0, 1).

    >>> round(posterior(PureDP(), 1.0, 0.05), 5), [round(p, 3) for p in posterior(GDP(), 1.0, [0.05, 1e-6]).tolist()]
    (0.73106, [0.838, 0.989])
    """
    if not 0 < prior < 1:
        raise ValueError(f"prior = {prior} is outside (0, 1)")
    hit = power(notion, parameter, alpha)
    return _out(np.asarray(prior * hit / (prior * hit + (1 - prior) * np.asarray(alpha, float))))


# --- Gaussian steps mixed with private selection --------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GaussianStep:
    """A step that adds Gaussian noise: ``mu`` is its sensitivity over its noise's standard
    deviation, ≥ 0."""

    mu: float


@dataclasses.dataclass(frozen=True)
class Selection:
    """A step by the exponential mechanism at ``epsilon`` ≥ 0: ε-DP, and ε-bounded-range."""

    epsilon: float


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Either:
    """What comes next depends on what came out: one of ``options``, each a course of steps; the
    worst is counted.

    Options may be shared between several Either: each shared one is worked out once (a graph, not a
    tree).
    """

    options: tuple[tuple[Step, ...], ...]


Step = GaussianStep | Selection | Either


def adaptive_profile(steps: Sequence[Step], fineness: float = 3.0) -> tuple[Floats, Floats]:
    """h(γ) = sup over events and adaptive courses of P(event) − γ·Q(event), for a mechanism that
    runs ``steps``.

    The recursion runs backwards from (1 − γ)₊. A Gaussian step: h ← E[h(γ·e^(−L))], L ~ N(μ²/2,
    μ²). A selection step: h ← max over t in [0, ε] of
    q·e^t·h(γ·e^(−t)) + (1 − q)·e^(t−ε)·h(γ·e^(ε−t)), with q = (e^(−t) − e^(−ε))/(1 − e^(−ε)).
    Either: the larger, γ by γ.

    This is **numerical, not certified**: h is known on a grid of ln γ, between whose points it is
    interpolated (the best t too), and cut off 9 standard deviations out. Doubling ``fineness``
    shows the error.

    Args:
        steps: in the order in which they are run.
        fineness: grid points per smallest Gaussian step's μ, at least 2.

    Returns:
        ln γ, (2n + 1,) symmetric about 0, and h there.

    Raises:
        ValueError: a μ or ε that is negative or infinite, no privacy spent at all, a fineness below
            2.

    References:
        Dong, Durfee, Rogers, arXiv:1909.13830 (bounded range); Cesar, Rogers, arXiv:2004.07223.

    >>> grid, delta = adaptive_profile([GaussianStep(0.3), GaussianStep(0.4)])
    >>> bool(np.allclose(delta, gdp_delta(0.5, grid)))
    True
    """
    if not fineness >= 2:
        raise ValueError(f"fineness = {fineness} is below 2")
    spent, smallest = _extent(tuple(steps), {})
    if spent == 0:
        raise ValueError("the steps spend no privacy")
    limit = spent + 9 * math.sqrt(2 * spent)
    points = math.ceil(min(max(fineness * limit / smallest, 100 * fineness), 4_000))
    grid = np.linspace(-limit, limit, 2 * points + 1)
    return grid, _run(tuple(steps), _Profile(grid, gdp_delta(0.0, grid), 0.0), {}).values


def adaptive_mu(steps: Sequence[Step], fineness: float = 3.0) -> float:
    """Least μ whose curve lies below every adaptive course of ``steps``: `adaptive_profile` read as
    GDP.

    **Numerical, not certified**; read where h ≥ 1e-9.

    >>> round(adaptive_mu([GaussianStep(0.3), GaussianStep(0.4)]), 9)
    0.5
    >>> 0.5 < adaptive_mu([GaussianStep(0.3), Selection(0.1), GaussianStep(0.4)]) < 0.51
    True
    """
    grid, profile = adaptive_profile(steps, fineness)
    # h(1/γ) says the same as h(γ), so half the grid will do.
    used = (grid >= 0) & (profile > 1e-9)
    x, h = grid[used], np.log(profile[used])

    def excess(mu: float) -> float:
        with np.errstate(divide="ignore"):
            # A rounding is forgiven: h can be 1 to the last bit, which no finite μ would reach.
            return float(np.max(h - np.log(np.maximum(gdp_delta(mu, x), 1e-300)))) - 1e-12

    high = 1.0
    while excess(high) > 0 and high < 1e9:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-12))


def _extent(steps: tuple[Step, ...], seen: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """The most ρ that a course spends (Σ μ²/2 + Σ ε²/8), and the smallest Gaussian step (∞ without
    one)."""
    spent, smallest = 0.0, math.inf
    for step in steps:
        if isinstance(step, Either):
            if id(step) not in seen:
                options = [_extent(option, seen) for option in step.options]
                seen[id(step)] = max(o[0] for o in options), min(o[1] for o in options)
            more, size = seen[id(step)]
        else:
            value = step.mu if isinstance(step, GaussianStep) else step.epsilon
            if not 0 <= value < math.inf:
                raise ValueError(f"{step} must be finite and at least 0")
            more = value**2 / (2 if isinstance(step, GaussianStep) else 8)
            size = value if isinstance(step, GaussianStep) and value > 0 else math.inf
        spent, smallest = spent + more, min(smallest, size)
    return spent, smallest


@dataclasses.dataclass(frozen=True, eq=False)
class _Profile:
    """h on a grid of ln γ; ``mu`` where h is that of μ-GDP exactly (0 the start), None where only
    the grid is known."""

    grid: Floats
    values: Floats
    mu: float | None = None

    @property
    def spacing(self) -> float:
        return float(self.grid[1] - self.grid[0])

    def padded(self, width: int) -> Floats:
        """h continued by ``width`` points on each side: 1 − γ to the left, 0 to the right."""
        left = -np.expm1(self.grid[0] - self.spacing * np.arange(width, 0, -1))
        return np.concatenate([left, self.values, np.zeros(width)])

    def shifted(self, t: float) -> Floats:
        """h(γ·e^(−t)) on the grid, by six-point Lagrange interpolation."""
        if self.mu is not None:
            return np.asarray(gdp_delta(self.mu, self.grid - t), float)
        whole = math.floor(t / self.spacing)
        nodes = np.arange(-2, 4)
        weights = [
            math.prod((t / self.spacing - whole - m) / (n - m) for m in nodes if m != n)
            for n in nodes
        ]
        width = min(abs(whole) + 4, len(self.grid))
        known = self.padded(width)
        starts = [min(max(width - whole - int(n), 0), 2 * width) for n in nodes]
        total = np.zeros_like(self.values)
        for weight, start in zip(weights, starts, strict=True):
            total += weight * known[start : start + len(self.grid)]
        return total


def _run(
    steps: tuple[Step, ...], tail: _Profile, seen: dict[tuple[int, int], _Profile]
) -> _Profile:
    """The profile of ``steps`` followed by what ``tail`` stands for."""
    for step in reversed(steps):
        if isinstance(step, GaussianStep):
            tail = _noise(tail, step.mu)
        elif isinstance(step, Selection):
            tail = _select(tail, step.epsilon)
        else:
            key = (id(step), id(tail))
            if key not in seen:
                after = [_run(option, tail, seen) for option in step.options]
                seen[key] = _Profile(
                    tail.grid, np.maximum.reduce([profile.values for profile in after])
                )
            tail = seen[key]
    return tail


def _noise(tail: _Profile, mu: float) -> _Profile:
    """E[h(γ·e^(−L))], L ~ N(μ²/2, μ²): exact for a Gaussian tail, else the trapezoid rule on the
    grid."""
    if mu == 0:
        return tail
    if tail.mu is not None:
        both = math.hypot(tail.mu, mu)
        return _Profile(tail.grid, np.asarray(gdp_delta(both, tail.grid), float), both)
    if mu < 1.5 * tail.spacing:  # too narrow for the grid: three Gauss–Hermite nodes
        moves = [tail.shifted(mu * mu / 2 + z * mu) for z in (-math.sqrt(3), 0.0, math.sqrt(3))]
        return _Profile(tail.grid, (moves[0] + 4 * moves[1] + moves[2]) / 6)
    width = math.ceil((9 * mu + mu * mu / 2) / tail.spacing)
    z = (np.arange(-width, width + 1) * tail.spacing - mu * mu / 2) / mu
    weights = np.exp(-z * z / 2) * tail.spacing / (mu * math.sqrt(2 * math.pi))
    return _Profile(tail.grid, np.convolve(tail.padded(width), weights, mode="valid"))


def _select(tail: _Profile, epsilon: float) -> _Profile:
    """The selection step's maximum over t, on 16 intervals and then by the parabola through the
    best three."""
    if epsilon == 0:
        return tail
    ts = np.linspace(0.0, epsilon, 17)
    chance = np.expm1(epsilon - ts) / math.expm1(epsilon)  # q
    rows = [tail.values]  # at t = 0 and t = ε nothing is learnt
    for t, q in zip(ts[1:-1], chance[1:-1], strict=True):
        rows.append(
            q * math.exp(t) * tail.shifted(t)
            + (1 - q) * math.exp(t - epsilon) * tail.shifted(t - epsilon)
        )
    values = np.array([*rows, tail.values])
    best = np.clip(np.argmax(values, axis=0), 1, len(ts) - 2)
    before, at, after = (values[best + k, np.arange(values.shape[1])] for k in (-1, 0, 1))
    bend = 2 * at - before - after
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        peak = at + np.where(bend > 0, (after - before) ** 2 / (8 * bend), 0.0)
    return _Profile(tail.grid, np.maximum(peak, np.max(values, axis=0)))
