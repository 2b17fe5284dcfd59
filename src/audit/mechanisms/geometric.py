"""A count with two-sided geometric noise: Laplace noise on the whole numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Table
from audit.mechanisms.laplace import NoisyNumber
from audit.mechanisms.queries import count
from audit.privacy import STRICT, PrivacyParameter, PureDP, least_fnr


@dataclass(frozen=True, config=STRICT)
class GeometricMechanism:
    """The number of records plus noise with P(k) ∝ e^(−ε|k|), k whole: exactly ε-DP, add/remove.

    One record more moves every log-likelihood by exactly ±ε, so its tradeoff curve is that of ε-DP
    itself. numpy's sampler is for audits, not for release.

    Args:
        eps: ε of the claim.

    References:
        Ghosh, Roughgarden, Sundararajan, STOC 2009, arXiv:0811.2841 (the α-geometric mechanism,
        α = e^(−ε)).
    """

    eps: PrivacyParameter

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps),)

    @property
    def added_scale(self) -> float:
        """Scale of the noise that is added; the claim asks for 1/ε."""
        return 1 / self.eps

    @property
    def added_rate(self) -> float:
        """What one step of the noise that is added tells: ln P(k) − ln P(k + 1), k ≥ 0."""
        return self.eps

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> NoisyNumber:
        """``trials`` noisy counts of the records of ``data``."""
        # The difference of two geometric numbers has this law; expm1 keeps small ε exact.
        success = -math.expm1(-1 / self.added_scale)
        up, down = rng.geometric(success, size=(2, trials))
        return NoisyNumber("count", count(data) + (up - down), self.added_scale, count)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, but for 1e-16 of the mass."""
        rate = self.added_rate
        shift = abs(int(count(present)[0] - count(absent)[0]))
        far = math.ceil(40 / rate)  # e^−40 is below the last bit of 1
        k = np.arange(-far, far + shift + 1)
        mass_at_zero = math.tanh(rate / 2)
        of_absent = mass_at_zero * np.exp(-rate * np.abs(k))
        of_present = mass_at_zero * np.exp(-rate * np.abs(k - shift))
        return least_fnr(of_absent, of_present, alpha)
