"""A count with discrete Gaussian noise."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Table
from audit.mechanisms.gaussian import NoisyCount
from audit.mechanisms.ledger import Ledger
from audit.mechanisms.queries import count
from audit.privacy import (
    STRICT,
    ZCDP,
    ApproximateDP,
    PrivacyParameter,
    least_fnr,
    rho_from_eps_delta,
)


def discrete_gaussian(sigma: float) -> tuple[Array, Array]:
    """The whole numbers k within 12σ + 2 of 0, and P(k) ∝ e^(−k²/(2σ²)).

    What is left out weighs less than 1e-30.

    >>> k, p = discrete_gaussian(1.0)
    >>> round(p[k == 0].item(), 6), round((p @ k**2).item(), 6)
    (0.398942, 1.0)
    >>> k, p = discrete_gaussian(0.5)
    >>> round(p[k == 0].item(), 6), round((p @ k**2).item(), 6)
    (0.786571, 0.215013)
    """
    far = math.ceil(12 * sigma) + 2
    k = np.arange(-far, far + 1)
    weight = np.exp(-((k / sigma) ** 2) / 2)
    return k, weight / weight.sum()


def sample(sigma: float, size: int | tuple[int, ...], rng: np.random.Generator) -> Array:
    """Discrete Gaussian numbers by inversion: for audits, not for release.

    Events below 2⁻⁵³ never happen.
    """
    k, p = discrete_gaussian(sigma)
    # Without the last sum, which rounding may leave below 1, no draw falls beyond the last k.
    upper_ends = np.cumsum(p)[:-1]
    return k[np.searchsorted(upper_ends, rng.random(size), side="right")]


@dataclass(frozen=True, config=STRICT)
class DiscreteGaussian:
    """The number of records plus discrete Gaussian noise, σ² = 1/(2ρ): ρ-zCDP under add/remove.

    It is not √(2ρ)-GDP: for small σ its curve falls below that one.

    Args:
        eps: ε of the claim, which with ``delta`` fixes ρ.
        delta: δ of the claim.

    References:
        Canonne, Kamath, Steinke, arXiv:2004.00010, Definition 1 and Theorem 4.
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]

    block: ClassVar[int] = 1000

    @property
    def rho(self) -> float:
        """The zCDP budget behind (ε, δ)."""
        return rho_from_eps_delta(self.eps, self.delta)

    @property
    def sigma(self) -> float:
        """√(1/(2ρ)), which the claim asks for: σ of the density, not the standard deviation."""
        return math.sqrt(1 / (2 * self.rho))

    @property
    def added_sigma(self) -> float:
        """σ of the noise that is added."""
        return self.sigma

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ρ-zCDP, and the (ε, δ) that it implies."""
        return (Claim(ZCDP(), self.rho), Claim(ApproximateDP(self.delta), self.eps))

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> NoisyCount:
        """``trials`` noisy counts of the records of ``data``."""
        ledger = Ledger(self.rho, trials)
        ledger.spend("count", 1 / (2 * self.sigma**2))
        ledger.close()
        noise = sample(self.added_sigma, trials, rng)
        return NoisyCount(count(data) + noise, self.added_sigma)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, but for 1e-30 of the mass."""
        _, p = discrete_gaussian(self.added_sigma)
        shift = abs(int(count(present)[0] - count(absent)[0]))
        outside = np.zeros(shift)  # outputs that only the other data set can have
        of_absent = np.concatenate([p, outside])
        of_present = np.concatenate([outside, p])
        return least_fnr(of_absent, of_present, alpha)
