"""What goes wrong at the edges: the noise, the bounds or the shape of the output depend on the
data."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim
from audit.mechanisms.broken.numbers import Numbers
from audit.privacy import STRICT, ApproximateDP, PrivacyParameter, PureDP

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class BoundUsedTwice:
    """A clipped sum whose sensitivity is computed from (lower, lower): for bounds (0, 100) it is 0,
    and so is the noise.

    Args:
        eps: what is claimed.
        lower, upper: records are clipped to these.
    """

    eps: PrivacyParameter
    lower: float = 0.0
    upper: float = 100.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, as for the sensitivity max(\\|lower\\|, \\|upper\\|)."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 1) noisy sums."""
        sensitivity = max(abs(self.lower), abs(self.lower))
        noise = rng.laplace(0.0, sensitivity / self.eps, size=(trials, 1))
        return Numbers(("sum",), np.clip(data, self.lower, self.upper).sum() + noise)


@dataclass(frozen=True, config=STRICT)
class ClippedInVain:
    """Clips the records to [0, bound], scales the noise to that, and sums the records as they were.

    In truth a record x costs ε·x/bound, without limit.

    Args:
        eps: what is claimed.
        bound: that records are clipped to.
    """

    eps: PrivacyParameter
    bound: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, true of the clipped sum."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 1) noisy sums."""
        scale = self.bound / self.eps
        noisy = data.sum() + rng.laplace(0.0, scale, size=(trials, 1))

        def ratio(absent: Array, present: Array) -> Array:
            return np.round(
                (np.abs(noisy - absent.sum()) - np.abs(noisy - present.sum())).sum(axis=1) / scale,
                12,
            )

        return Numbers(("sum",), noisy, ratio)


@dataclass(frozen=True, config=STRICT)
class NaNPasses:
    """A clipped sum; not-a-number is neither below nor above a bound, so it passes the clip and
    makes the sum one too.

    Args:
        eps: what is claimed, for records clipped to [0, 1].
    """

    eps: PrivacyParameter

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, true of numbers."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 2) noisy sums with 0 in the place of NaN, and whether it was one."""
        noisy = np.clip(data, 0.0, 1.0).sum() + rng.laplace(0.0, 1 / self.eps, size=trials)
        return Numbers(("sum", "is nan"), np.stack([np.nan_to_num(noisy), np.isnan(noisy)], axis=1))


@dataclass(frozen=True, config=STRICT)
class ScaleFromData:
    """A sum whose noise is scaled to the range of the records that are there: where all are equal
    there is none.

    Args:
        eps: what is claimed.
    """

    eps: PrivacyParameter

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, as for a range that was given."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 1) noisy sums of what the records are above the least one."""
        return Numbers(
            ("sum",),
            (data - data.min()).sum() + rng.laplace(0.0, np.ptp(data) / self.eps, (trials, 1)),
        )


@dataclass(frozen=True, config=STRICT)
class NewKey:
    """Shows a key where its count + discrete Laplace noise is ≥ ``threshold``, and reports the δ
    of >: e^ε times too small.

    With r = e^(−ε), a key of one record is shown with probability r^(threshold − 1)/(1 + r);
    r^threshold/(1 + r) is what is reported.

    Args:
        eps: what is claimed.
        threshold: least noisy count that is shown, > 1.
    """

    eps: PrivacyParameter
    threshold: Annotated[int, Field(gt=1)] = 2

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """(ε, δ)-DP with the wrong δ."""
        fall = math.exp(-self.eps)
        return (Claim(ApproximateDP(fall**self.threshold / (1 + fall)), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 9) counts of the keys 1 … 9 where they are shown, else 0; a key without records is
        never shown."""
        counts = np.bincount(data.astype(int), minlength=10)[1:10]
        up, down = rng.geometric(-math.expm1(-self.eps), size=(2, trials, len(counts)))
        noisy = counts + up - down
        shown = np.where((counts > 0) & (noisy >= self.threshold), noisy, 0)
        return Numbers(tuple(f"key[{key}]" for key in range(1, 10)), shown.astype(float))
