"""Shuffled batches whose privacy is computed as if each batch were drawn anew."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import log_ndtr, ndtri

from audit.core import Array, Claim
from audit.mechanisms.broken.numbers import Numbers
from audit.privacy import STRICT, ApproximateDP, PrivacyParameter

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class Shuffled:
    """One epoch of noisy batch sums; shuffling puts a record into exactly one of T batches, and the
    claim is Poisson's.

    All other records are −1, the one in question is 1 or is blanked to 0, so that one batch in T is
    2 (or 1) above the others, whose level is public. What is released is the largest of the T noisy
    sums above that level; its law is exact.

    Args:
        sigma: standard deviation of the noise of a batch.
        batches: T.
        eps, delta: what Poisson sampling at the rate 1/T would give.

    References:
        Chua et al. 2024, How private are DP-SGD implementations?, arXiv:2403.17673 (the pair, and
            the maximum as a test).
    """

    sigma: Positive = 0.4
    batches: Annotated[int, Field(ge=2)] = 10_000
    eps: PrivacyParameter = 4.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """(ε, δ)-DP where a record is replaced by a blank."""
        return (Claim(ApproximateDP(self.delta), self.eps, neighbours="replace_one"),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 1) the largest noisy batch sum, counted from what the batches without the record in
        question have."""
        # The largest of T − 1 normal numbers by its distribution function, in place of T − 1 draws.
        others = ndtri(rng.random(trials) ** (1 / (self.batches - 1)))
        own = self._height(data) / self.sigma + rng.normal(size=trials)
        largest = self.sigma * np.maximum(others, own)

        def ratio(absent: Array, present: Array) -> Array:
            return self.log_density(largest, self._height(present)) - self.log_density(
                largest, self._height(absent)
            )

        return Numbers(("largest",), largest[:, None], ratio)

    @staticmethod
    def _height(data: Array) -> float:
        """How far the batch of the record in question, the last one, stands out."""
        return float(data[-1] + 1)

    def log_below(self, x: Array, height: float) -> Array:
        """log P(largest < x) = log Φ((x − height)/σ) + (T − 1)·log Φ(x/σ)."""
        return np.asarray(
            log_ndtr((x - height) / self.sigma) + (self.batches - 1) * log_ndtr(x / self.sigma)
        )

    def log_density(self, x: Array, height: float) -> Array:
        """log of the derivative of P(largest < x), up to a constant."""
        own, other = (x - height) / self.sigma, x / self.sigma
        hazards = np.logaddexp(
            -(own**2) / 2 - log_ndtr(own), np.log(self.batches - 1) - other**2 / 2 - log_ndtr(other)
        )
        return self.log_below(x, height) + np.asarray(hazards)
