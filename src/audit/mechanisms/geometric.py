"""A count with two-sided geometric noise: Laplace noise on the whole numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Table
from audit.mechanisms.laplace import Noisy
from audit.mechanisms.queries import Positive, count
from audit.privacy import STRICT, PrivacyParameter, PureDP, least_fnr


@dataclass(frozen=True, config=STRICT)
class Geometric:
    """The number of records plus noise with P(k) ∝ e^(−ε|k|) on the whole numbers: ε-DP under add/remove, exactly.

    One record more moves every log-likelihood by exactly ±ε, so its tradeoff curve is that of ε-DP itself.
    numpy's sampler is for audits, not for release.

    Args:
        eps: what is claimed.
        noise_scale: share of the scale 1/ε that is really added: 1 is honest; less is a bug to be found.

    References:
        Ghosh, Roughgarden, Sundararajan, STOC 2009, arXiv:0811.2841 (the α-geometric mechanism, α = e^(−ε)).
    """

    eps: PrivacyParameter
    noise_scale: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Noisy:
        """``trials`` noisy counts of the records of ``data``; the noise is a difference of two geometric numbers."""
        real = self.noise_scale / self.eps
        up, down = rng.geometric(-math.expm1(-1 / real), size=(2, trials))
        return Noisy("count", count(data) + (up - down), real, count)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these two data sets, but for 1e-16 of the mass."""
        rate = self.eps / self.noise_scale
        shift = abs(int(count(present)[0] - count(absent)[0]))
        k = np.arange(-math.ceil(40 / rate), math.ceil(40 / rate) + shift + 1)
        size = math.tanh(rate / 2)
        return least_fnr(size * np.exp(-rate * np.abs(k)), size * np.exp(-rate * np.abs(k - shift)), alpha)
