"""Laplace noise: on a count, and on the mean of a class's scores.

numpy's sampler is for audits, not for release: its low bits tell the number without noise (Mironov
2012).
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Columns, Setup, Table
from audit.mechanisms.queries import Statistic, count, numbers
from audit.privacy import STRICT, PrivacyParameter, PureDP


@dataclasses.dataclass(frozen=True)
class NoisyNumber:
    """One number a run with (discrete) Laplace noise.

    The density falls by a factor e for every ``scale`` of distance.

    Args:
        name: of the number.
        noisy: (n,) the number with noise.
        scale: of the noise that is in it.
        statistic: data set → (1,) the number without noise.
    """

    name: str
    noisy: Array
    scale: float
    statistic: Statistic

    def public(self) -> Columns:
        """(n, 1) the noisy numbers."""
        return Columns((self.name,), self.noisy[:, None])

    def insider(self) -> Columns:
        """(n, 1) the same: nothing is hidden."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) (|y − a| − |y − b|)/scale for the true numbers a and b, to 12 digits."""
        from_absent = np.abs(self.noisy - self.statistic(absent))
        from_present = np.abs(self.noisy - self.statistic(present))
        # Its two atoms, ±|b − a|/scale, must be one number each. The last bits tell a from b
        # (Mironov 2012): a threshold between them would find the Laplace mechanism guilty of what
        # its floating-point numbers do.
        return np.round((from_absent - from_present) / self.scale, 12)


def laplace_beta(alpha: ArrayLike, shift: float) -> Any:
    """Least FNR at FPR ``alpha`` between two Laplace laws of scale 1, ``shift`` ≥ 0 apart.

    1 − e^shift·α up to α = e^(−shift)/2, then e^(−shift)/(4α) up to ½, then e^(−shift)·(1 − α).

    References:
        Neyman, Pearson 1933: the ratio grows with the number, so half-lines are the best tests
        (what the tests check).

    >>> [round(float(laplace_beta(alpha, 1.0)), 6) for alpha in (0.1, 0.25, 0.5, 0.9)]
    [0.728172, 0.367879, 0.18394, 0.036788]
    """
    a = np.asarray(alpha, dtype=float)
    fall = np.exp(-shift)
    low = 1 - np.exp(shift) * a
    middle = fall / (4 * np.clip(a, fall / 2, 0.5))  # clipped, so that α = 0 divides by no zero
    high = fall * (1 - a)
    return np.where(a < fall / 2, low, np.where(a <= 0.5, middle, high))


@dataclass(frozen=True, config=STRICT)
class Laplace:
    """The number of records plus Lap(1/ε): ε-DP under add/remove, exactly.

    Args:
        eps: ε of the claim.

    References:
        Dwork, McSherry, Nissim, Smith, TCC 2006, Proposition 1.

    >>> Laplace(eps=0.5).added_scale
    2.0
    """

    eps: PrivacyParameter

    block: ClassVar[int] = 1000

    @property
    def added_scale(self) -> float:
        """Scale of the noise that is added, 1/ε; the standard deviation is √2 times that."""
        return 1 / self.eps

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> NoisyNumber:
        """``trials`` noisy counts of the records of ``data``."""
        noise = rng.laplace(scale=self.added_scale, size=trials)
        return NoisyNumber("count", count(data) + noise, self.added_scale, count)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, with the noise that is
        added."""
        return laplace_beta(alpha, _distance(count, absent, present) / self.added_scale)


@dataclass(frozen=True, config=STRICT)
class ClassMean:
    """The mean of n scores clipped to [0, top], plus Lap(top/(n·ε)): ε-DP if one pupil is replaced.

    The size n of the class is public.

    Args:
        eps: ε of the claim.
        top: the highest score.

    >>> [round(2**0.5 * ClassMean(eps=1).added_scale(n), 3) for n in (10, 20, 40)]
    [14.142, 7.071, 3.536]
    """

    eps: PrivacyParameter
    top: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 100.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP for a class of known size."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    def added_scale(self, pupils: int) -> float:
        """Scale of the noise, top/(n·ε): the most that one pupil moves the mean, over ε."""
        return self.top / (pupils * self.eps)

    def mean(self, data: Any) -> Array:
        """(1,) the mean of the clipped scores."""
        return np.array([np.mean(np.clip(numbers(data), 0.0, self.top))])

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if a record is not one number."""
        for data in setup.data_sets:
            numbers(data)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> NoisyNumber:
        """``trials`` noisy means of the scores ``data``."""
        scale = self.added_scale(len(numbers(data)))
        noise = rng.laplace(scale=scale, size=trials)
        return NoisyNumber("mean", self.mean(data) + noise, scale, self.mean)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these classes, with the noise that is added."""
        scale = self.added_scale(len(numbers(absent)))
        return laplace_beta(alpha, _distance(self.mean, absent, present) / scale)


def _distance(statistic: Statistic, absent: Any, present: Any) -> float:
    return float(np.abs(statistic(present) - statistic(absent))[0])
