"""Local mechanisms: each person answers for themselves, with some answers turned over.

numpy's sampler is for audits, not for release.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.stats import binom

from audit.core import Array, Claim, Columns, Setup, Table
from audit.mechanisms.queries import Positive, Statistic, categories
from audit.privacy import STRICT, PrivacyParameter, PureDP, least_fnr


@dataclasses.dataclass(frozen=True)
class Answers:
    """Bits, each turned over with the same probability.

    Args:
        names: k, one a bit.
        said: (n, k) the bits that came out.
        log_odds: ln((1 − flip)/flip), what one bit tells.
        truth: data set → (k,) the bits that went in.
    """

    names: tuple[str, ...]
    said: Array
    log_odds: float
    truth: Statistic

    def public(self) -> Columns:
        """(n, k) the bits."""
        return Columns(self.names, self.said.astype(float))

    def insider(self) -> Columns:
        """(n, k) the same: nothing is hidden."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) the log-odds of a bit, added up over the bits that differ: + where present is right, − where absent is."""
        change = self.truth(present).astype(float) - self.truth(absent)
        return self.log_odds * ((2 * self.said - 1.0) @ change)


def turned(truth: Array, flip: float, trials: int, rng: np.random.Generator) -> Array:
    """(trials, k) the bits of ``truth``, each turned over with probability ``flip``."""
    return truth.astype(bool) ^ (rng.random((trials, truth.size)) < flip)


def _bits_beta(alpha: ArrayLike, differing: int, flip: float) -> Any:
    """Least FNR when ``differing`` bits are turned over with ``flip``: how many are right is all that tells."""
    k = np.arange(differing + 1)
    return least_fnr(binom.pmf(k, differing, flip), binom.pmf(k, differing, 1 - flip), alpha)


@dataclass(frozen=True, config=STRICT)
class RandomisedResponse:
    """Each person tells their bit with probability p = e^ε/(1 + e^ε) and the other one else: ε-DP, locally.

    Args:
        eps: what is claimed: ln(p/(1 − p)).
        noise_scale: share of the noise that is really added, 1/ε being all of it: 1 is honest; less is a bug.

    References:
        Warner 1965; Kairouz, Oh, Viswanath, arXiv:1407.1338 (it attains the whole curve of ε-DP).

    >>> round(RandomisedResponse(eps=1.0986122886681098).truthful, 6)
    0.75
    """

    eps: PrivacyParameter
    noise_scale: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def truthful(self) -> float:
        """p, which the claim asks for."""
        return 1 / (1 + math.exp(-self.eps))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP when one person's bit is another."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    @property
    def _log_odds(self) -> float:
        return self.eps / self.noise_scale

    def check_setup(self, setup: Setup) -> None:
        """Records that are bits."""
        for data in setup.data_sets:
            _bits(data)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Answers:
        """``trials`` rounds of answers, one a person."""
        bits = _bits(data)
        names = tuple(f"answer {i}" for i in range(bits.size))
        return Answers(names, turned(bits, 1 / (1 + math.exp(self._log_odds)), trials, rng), self._log_odds, _bits)

    def estimate(self, yes: ArrayLike) -> Any:
        """(share of yes − (1 − p))/(2p − 1): the unbiased estimate of the true share.

        >>> round(float(RandomisedResponse(eps=1.0986122886681098).estimate(400 / 1000)), 6)
        0.3
        """
        return (np.asarray(yes, dtype=float) - (1 - self.truthful)) / (2 * self.truthful - 1)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these two data sets, with the noise that is really added."""
        differing = int(np.sum(_bits(absent) != _bits(present)))
        return _bits_beta(alpha, differing, 1 / (1 + math.exp(self._log_odds)))


def _bits(data: Any) -> Array:
    return categories(data, 2)


@dataclass(frozen=True, config=STRICT)
class OneHotFlip:
    """Each person's category as a vector of bits with a single 1, every bit turned over with 1/(1 + e^(ε/2)): ε-DP.

    Two bits differ between two categories, and each tells ε/2. Turning over with 1/(1 + e^ε) instead, which is
    ``noise_scale`` ½, is 2ε-DP.

    Args:
        eps: what is claimed.
        categories: how many there are.
        noise_scale: share of the noise that is really added, 1/ε being all of it: 1 is honest; less is a bug.

    References:
        Apple, Learning with privacy at scale, 2017 (one-hot encoding, flip probability 1/(1 + e^(ε/2))); Erlingsson,
        Pihur, Korolova, RAPPOR, arXiv:1407.6981.

    >>> round(OneHotFlip(eps=4).flip, 6)
    0.119203
    """

    eps: PrivacyParameter
    categories: Annotated[int, Field(ge=2)] = 4
    noise_scale: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def flip(self) -> float:
        """Probability that a bit is really turned over."""
        return 1 / (1 + math.exp(self._log_odds))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP when one person's category is another."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    @property
    def _log_odds(self) -> float:
        return self.eps / 2 / self.noise_scale

    def vectors(self, data: Any) -> Array:
        """(people · categories,) the bits of everybody, one person after the other."""
        return np.eye(self.categories)[categories(data, self.categories)].reshape(-1)

    def check_setup(self, setup: Setup) -> None:
        """Records that are categories."""
        for data in setup.data_sets:
            self.vectors(data)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Answers:
        """``trials`` rounds of vectors, one a person."""
        bits = self.vectors(data)
        names = tuple(f"answer {i // self.categories} bit {i % self.categories}" for i in range(bits.size))
        return Answers(names, turned(bits, self.flip, trials, rng), self._log_odds, self.vectors)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these two data sets, with the noise that is really added."""
        return _bits_beta(alpha, int(np.sum(self.vectors(absent) != self.vectors(present))), self.flip)
