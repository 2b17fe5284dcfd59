"""Local mechanisms: each person answers for themselves, with some answers flipped.

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
from audit.mechanisms.queries import Statistic, categories
from audit.privacy import STRICT, PrivacyParameter, PureDP, least_fnr


@dataclasses.dataclass(frozen=True)
class FlippedBits:
    """Bits, each flipped with the same probability.

    Args:
        names: k, one a bit.
        bits: (n, k) the bits that came out.
        log_odds: ln((1 − flip)/flip), what one bit tells.
        truth: data set → (k,) the bits that went in.
    """

    names: tuple[str, ...]
    bits: Array
    log_odds: float
    truth: Statistic

    def public(self) -> Columns:
        """(n, k) the bits."""
        return Columns(self.names, self.bits.astype(float))

    def insider(self) -> Columns:
        """(n, k) the same: nothing is hidden."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) ± the log-odds of a bit, added up over the bits that differ: + where present
        fits."""
        change = self.truth(present).astype(float) - self.truth(absent)
        signs = 2 * self.bits - 1.0
        return self.log_odds * (signs @ change)


def flip_bits(truth: Array, flip: float, trials: int, rng: np.random.Generator) -> Array:
    """(trials, k) the bits of ``truth`` (k,), each flipped with probability ``flip``."""
    return truth.astype(bool) ^ (rng.random((trials, truth.size)) < flip)


def _flip_probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(log_odds))


def _bits_beta(alpha: ArrayLike, differing: int, flip: float) -> Any:
    """Least FNR when ``differing`` bits are flipped: how many are right is all that tells."""
    right = np.arange(differing + 1)
    of_absent = binom.pmf(right, differing, flip)
    of_present = binom.pmf(right, differing, 1 - flip)
    return least_fnr(of_absent, of_present, alpha)


@dataclass(frozen=True, config=STRICT)
class RandomisedResponse:
    """Each person tells their bit with probability p = e^ε/(1 + e^ε), else the other: local ε-DP.

    Args:
        eps: ε of the claim: ln(p/(1 − p)).

    References:
        Warner 1965; Kairouz, Oh, Viswanath, arXiv:1407.1338 (it attains the whole curve of ε-DP).

    >>> round(RandomisedResponse(eps=1.0986122886681098).truthful, 6)
    0.75
    """

    eps: PrivacyParameter

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
    def log_odds(self) -> float:
        """ln((1 − flip)/flip) of the flips that are really made."""
        return self.eps

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if a record is not a bit."""
        for data in setup.data_sets:
            _bits(data)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> FlippedBits:
        """``trials`` rounds of answers, one a person."""
        truth = _bits(data)
        names = tuple(f"answer {i}" for i in range(truth.size))
        answers = flip_bits(truth, _flip_probability(self.log_odds), trials, rng)
        return FlippedBits(names, answers, self.log_odds, _bits)

    def estimate(self, yes: ArrayLike) -> Any:
        """(share of yes − (1 − p))/(2p − 1): the unbiased estimate of the true share.

        >>> round(float(RandomisedResponse(eps=1.0986122886681098).estimate(400 / 1000)), 6)
        0.3
        """
        return (np.asarray(yes, dtype=float) - (1 - self.truthful)) / (2 * self.truthful - 1)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, with the flips that are
        made."""
        differing = int(np.sum(_bits(absent) != _bits(present)))
        return _bits_beta(alpha, differing, _flip_probability(self.log_odds))


def _bits(data: Any) -> Array:
    return categories(data, 2)


@dataclass(frozen=True, config=STRICT)
class OneHotFlip:
    """Each person's category as bits with a single 1, each flipped with 1/(1 + e^(ε/2)): ε-DP.

    Two bits differ between two categories, and each tells ε/2. To flip with 1/(1 + e^ε) instead is
    2ε-DP: half of the noise, a bug.

    Args:
        eps: ε of the claim.
        categories: how many there are.

    References:
        Apple, Learning with privacy at scale, 2017 (one-hot encoding, flip probability
        1/(1 + e^(ε/2))); Erlingsson, Pihur, Korolova, RAPPOR, arXiv:1407.6981.

    >>> round(OneHotFlip(eps=4).flip, 6)
    0.119203
    """

    eps: PrivacyParameter
    categories: Annotated[int, Field(ge=2)] = 4

    block: ClassVar[int] = 1000

    @property
    def flip(self) -> float:
        """Probability with which a bit is really flipped."""
        return _flip_probability(self.log_odds)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP when one person's category is another."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    @property
    def log_odds(self) -> float:
        """ln((1 − flip)/flip) of the flips that are really made."""
        return self.eps / 2

    def vectors(self, data: Any) -> Array:
        """(people · categories,) the bits of everybody, one person after the other."""
        return np.eye(self.categories)[categories(data, self.categories)].reshape(-1)

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if a record is not a category."""
        for data in setup.data_sets:
            self.vectors(data)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> FlippedBits:
        """``trials`` rounds of vectors, one a person."""
        truth = self.vectors(data)
        names = []
        for i in range(truth.size):
            person, bit = divmod(i, self.categories)
            names.append(f"answer {person} bit {bit}")
        answers = flip_bits(truth, self.flip, trials, rng)
        return FlippedBits(tuple(names), answers, self.log_odds, self.vectors)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, with the flips that are
        made."""
        differing = int(np.sum(self.vectors(absent) != self.vectors(present)))
        return _bits_beta(alpha, differing, self.flip)
