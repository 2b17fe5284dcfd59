"""What goes wrong with noise: drawn once and used twice, paid for once and used k times, or not as
fine as it should be."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim
from audit.mechanisms.broken.numbers import Numbers
from audit.privacy import GDP, STRICT, ApproximateDP, PrivacyParameter, PureDP, gdp_epsilon

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=STRICT)
class SameSeedTwice:
    """Two counts, of all records and of the zeros, each ε-DP, with one and the same noise: their
    difference is exact.

    Args:
        eps: of the claim for both together; each gets half.
    """

    eps: PrivacyParameter

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, as if the noises were independent."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 3) both counts and, since anybody can subtract, their difference."""
        noise = rng.laplace(0.0, 2 / self.eps, size=trials)
        records, zeros = len(data) + noise, np.count_nonzero(data == 0) + noise
        return Numbers(
            ("records", "zeros", "difference"), np.stack([records, zeros, records - zeros], axis=1)
        )


@dataclass(frozen=True, config=STRICT)
class SpentTwice:
    """A count in ``answers`` answers, each with the noise of the whole ε, and ε charged once:
    (answers·ε)-DP in truth.

    Args:
        eps: what is claimed.
        answers: how many are released.
    """

    eps: PrivacyParameter
    answers: Count = 2

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, as if there were one answer."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, answers) noisy counts of the records."""
        noisy = len(data) + rng.laplace(0.0, 1 / self.eps, size=(trials, self.answers))

        def ratio(absent: Array, present: Array) -> Array:
            a, b = len(absent), len(present)
            # Rounded, so that the low bits, another bug, play no part in this one.
            return np.round(self.eps * (np.abs(noisy - a) - np.abs(noisy - b)).sum(axis=1), 12)

        return Numbers(tuple(f"answer[{i}]" for i in range(self.answers)), noisy, ratio)


@dataclass(frozen=True, config=STRICT)
class TunedForFree:
    """One μ-GDP count for each of k settings, all looked at, one charged: (μ√k)-GDP in truth.

    Args:
        mu: of one count, and what is claimed.
        settings: k.
        delta: of the (ε, δ) that is shown beside it.

    References:
        Papernot, Steinke, Hyperparameter tuning with Rényi differential privacy, arXiv:2110.03620.
    """

    mu: PrivacyParameter = 0.5
    settings: Count = 10
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """μ-GDP, as if one setting had been tried, and its (ε, δ)."""
        return (
            Claim(GDP(), self.mu),
            Claim(ApproximateDP(self.delta), gdp_epsilon(self.mu, self.delta)),
        )

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, k) noisy counts of the records."""
        noisy = len(data) + rng.normal(0.0, 1 / self.mu, size=(trials, self.settings))

        def ratio(absent: Array, present: Array) -> Array:
            a, b = len(absent), len(present)
            return np.asarray(self.mu**2 * ((b - a) * noisy - (b * b - a * a) / 2).sum(axis=1))

        return Numbers(tuple(f"setting[{i}]" for i in range(self.settings)), noisy, ratio)


@dataclass(frozen=True, config=STRICT)
class FloatingLaplace:
    """A sum plus numpy's Laplace noise: some floating-point numbers near 0 come from one sum and
    never from another.

    Around 0 noise is a multiple of ever smaller powers of two; noise that is added to 1 was rounded
    to 2⁻⁵³. What is released is that mark alone, whether |y| < ¼ and y·2⁵³ is no integer: any
    attacker can compute it, few look.

    Args:
        eps: what is claimed, for records in [0, 1].

    References:
        Mironov 2012, On significance of the least significant bits for differential privacy.
    """

    eps: PrivacyParameter

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, true of real numbers."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 1) 1 where the noisy sum is finer than 2⁻⁵³."""
        noisy = data.sum() + rng.laplace(0.0, 1 / self.eps, size=trials)
        scaled = noisy * 2.0**53
        finer = (np.abs(noisy) < 0.25) & (scaled != np.floor(scaled))
        return Numbers(("finer",), finer[:, None].astype(float))
