"""What a notion of privacy is, and the three whose curves are closed formulas."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from pydantic.dataclasses import dataclass
from scipy.special import ndtr, ndtri

from audit.privacy.parameters import (
    STRICT,
    Delta,
    broadcast_floats,
    format_parameter,
    scalar_or_array,
)


@runtime_checkable
class Notion(Protocol):
    """A one-parameter family of tradeoff curves.

    Each curve is convex, non-increasing and at most 1 − alpha; it falls as the parameter grows. A
    curve of a whole notion is its own inverse; a curve of a piece need not be.
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
        """Equal notions are one key, so that what is slow to compute of a curve can be cached."""
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
        """The alphas in (0, 1) at which the curve has a corner, ascending.

        An integral along the curve is split there.
        """
        ...

    def pieces(self) -> tuple[Notion, ...]:
        """Families without a corner (but where they reach 0) whose pointwise maximum is ``beta``.

        The joint Bayesian bound over-claims at a corner: choose one piece on selection trials and
        use it alone. The second of two pieces is the first with alpha and beta exchanged.
        """
        ...


# --- Gaussian differential privacy ----------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class GDP:
    """FNR ≥ Φ(Φ⁻¹(1 − FPR) − μ): as hard to distinguish as N(0, 1) and N(μ, 1).

    References:
        Dong, Roth, Su, arXiv:1905.02383, Eq. 6.

    >>> round(GDP().beta(0.05, 1.0), 6), round(GDP().parameter(0.4745, 0.3715), 6)
    (0.740489, 0.391846)
    >>> GDP().label(0.45478)
    '0.4548-GDP'
    """

    name: ClassVar[str] = "gdp"
    symbol: ClassVar[str] = "μ"

    def beta(self, alpha: ArrayLike, parameter: ArrayLike) -> Any:
        """See `Notion.beta`."""
        a, mu = broadcast_floats(alpha, parameter)
        # ∞ − ∞ where alpha is 0 and μ is ∞: that entry is replaced below.
        with np.errstate(invalid="ignore"):
            # By symmetry Φ⁻¹(1 − alpha) = −Φ⁻¹(alpha), which keeps the digits of a small alpha.
            curve = np.minimum(ndtr(-ndtri(a) - mu), 1 - a)
        finite = np.where(mu == 0, 1 - a, curve)
        return scalar_or_array(np.where(np.isinf(mu), 0.0, finite))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = broadcast_floats(alpha, beta)
        # ∞ − ∞ at (0, 1) and (1, 0): both are on the line alpha + beta = 1, replaced below.
        with np.errstate(invalid="ignore"):
            mu = np.maximum(-ndtri(a) - ndtri(b), 0.0)
        return scalar_or_array(np.where(a + b >= 1, 0.0, mu))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return f"{format_parameter(parameter)}-GDP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """None: the curve is smooth."""
        return ()

    def pieces(self) -> tuple[Notion, ...]:
        """The family itself."""
        return (self,)


# --- (ε, δ) and pure differential privacy ---------------------------------------------------------

_SAFE_EXPONENT = 700.0
"""exp of it is finite: the largest double is about e^709.8."""


@dataclass(frozen=True, config=STRICT)
class ApproximateDPSide:
    """One half of what (ε, δ)-DP says: FNR ≥ 1 − δ − e^ε·FPR, or FPR ≥ 1 − δ − e^ε·FNR.

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
        a, eps = broadcast_floats(alpha, parameter)
        intercept = 1 - self.delta
        with np.errstate(over="ignore", invalid="ignore"):
            if self.mirrored:
                line = np.exp(-eps) * (intercept - a)
            else:
                # e^ε in two factors, with alpha between them: e^ε may overflow where e^ε·alpha
                # does not.
                small_factor = np.exp(np.minimum(eps, _SAFE_EXPONENT))
                large_factor = np.exp(np.maximum(eps - _SAFE_EXPONENT, 0.0))
                product = small_factor * a * large_factor
                line = intercept - np.where(a == 0, 0.0, product)
        finite = np.clip(line, 0.0, 1 - a)
        return scalar_or_array(np.where(np.isinf(eps), 0.0, finite))

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        a, b = broadcast_floats(alpha, beta)
        if self.mirrored:
            a, b = b, a
        above_delta = 1 - self.delta - b
        with np.errstate(divide="ignore", invalid="ignore"):
            # A difference of logarithms, since the quotient overflows at a tiny alpha.
            eps = np.maximum(np.log(above_delta) - np.log(a), 0.0)
        free = (above_delta <= 0) | (a + b >= 1)
        return scalar_or_array(np.where(free, 0.0, eps))

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        if self.delta:
            return ApproximateDP(self.delta).label(parameter)
        return PureDP().label(parameter)

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """Where the line reaches 0."""
        if math.isinf(parameter):
            return ()
        end = 1 - self.delta
        if not self.mirrored:
            end *= math.exp(-parameter)
        return _interior(end)

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
        line, mirrored_line = self.pieces()
        highest = np.maximum(line.beta(alpha, parameter), mirrored_line.beta(alpha, parameter))
        return scalar_or_array(highest)

    def parameter(self, alpha: ArrayLike, beta: ArrayLike) -> Any:
        """See `Notion.parameter`."""
        line, mirrored_line = self.pieces()
        eps = np.maximum(line.parameter(alpha, beta), mirrored_line.parameter(alpha, beta))
        return scalar_or_array(eps)

    def label(self, parameter: float) -> str:
        """See `Notion.label`."""
        return f"({format_parameter(parameter)}, {format_parameter(self.delta)})-DP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """(1 − δ)/(1 + e^ε), where FPR = FNR, and 1 − δ, where the curve reaches 0."""
        if math.isinf(parameter):
            return ()
        end = 1 - self.delta
        if parameter <= 0:  # at ε = 0 the two lines are one, without a corner between them
            return _interior(end)
        # By e^(−ε), which cannot overflow.
        corner = (1 - self.delta) * math.exp(-parameter) / (1 + math.exp(-parameter))
        return _interior(corner) + _interior(end)

    def pieces(self) -> tuple[Notion, ...]:
        """The two lines."""
        return (ApproximateDPSide(self.delta), ApproximateDPSide(self.delta, mirrored=True))


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
        return f"{format_parameter(parameter)}-DP"

    def kinks(self, parameter: float) -> tuple[float, ...]:
        """1/(1 + e^ε)."""
        return ApproximateDP(0.0).kinks(parameter)

    def pieces(self) -> tuple[Notion, ...]:
        """The two lines."""
        return ApproximateDP(0.0).pieces()


def _interior(alpha: float) -> tuple[float, ...]:
    """``alpha`` alone where it lies in (0, 1), else nothing."""
    if 0 < alpha < 1:
        return (alpha,)
    return ()
