"""Private choice of a candidate by votes: exponential mechanism, permute-and-flip, noisy max.

Candidates 0, 1, … are what the records vote for; one record that is another moves each count by at
most 1. All three put out the winner only, and are ε-DP for any scores of sensitivity 1; between two
data sets of votes they may leak less. numpy's samplers are for audits, not for release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import log_softmax, logsumexp

from audit.core import Array, Claim, Columns, Setup, Table
from audit.mechanisms.quadrature import log_below, panels
from audit.mechanisms.queries import categories
from audit.privacy import STRICT, PrivacyParameter, PureDP, least_fnr

Candidates = Annotated[int, Field(ge=2)]


@dataclasses.dataclass(frozen=True)
class Winners:
    """One candidate a run.

    Args:
        winner: (n,) which one.
        law: data set → (k,) ln P(candidate).
        candidates: k.
    """

    winner: Array
    law: Callable[[Any], Array]
    candidates: int

    def public(self) -> Columns:
        """(n, k) 1 for the winner, 0 for the others."""
        names = tuple(f"candidate {i}" for i in range(self.candidates))
        return Columns(names, np.eye(self.candidates)[self.winner])

    def insider(self) -> Columns:
        """(n, k) the same: the scores stay in the machine."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) ln P(winner | present) − ln P(winner | absent)."""
        log_ratios = self.law(present) - self.law(absent)
        return np.asarray(log_ratios[self.winner])


def _votes(data: Any, candidates: int) -> Array:
    """(k,) votes for each candidate."""
    return np.bincount(categories(data, candidates), minlength=candidates).astype(float)


@dataclass(frozen=True, config=STRICT)
class Exponential:
    """P(candidate) ∝ e^(ε·votes/2): ε-DP when one vote is another.

    Args:
        eps: ε of the claim.
        candidates: how many.

    References:
        McSherry, Talwar, FOCS 2007, Theorem 6.

    >>> np.exp(Exponential(eps=1).law(np.array([0.0, 0.0, 1.0]))).round(6).tolist()
    [0.622459, 0.377541]
    """

    eps: PrivacyParameter
    candidates: Candidates = 2

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    def log_weights(self, votes: Array) -> Array:
        """(k,) ln of what each candidate's probability is proportional to."""
        return votes * self.eps / 2

    def law(self, data: Any) -> Array:
        """(k,) ln P(candidate)."""
        return np.asarray(log_softmax(self.log_weights(_votes(data, self.candidates))))

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if a record is not a candidate."""
        for data in setup.data_sets:
            _votes(data, self.candidates)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Winners:
        """``trials`` winners."""
        winner = rng.choice(self.candidates, size=trials, p=np.exp(self.law(data)))
        return Winners(winner, self.law, self.candidates)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, with the noise that is
        added."""
        return least_fnr(np.exp(self.law(absent)), np.exp(self.law(present)), alpha)


@dataclass(frozen=True, config=STRICT)
class PermuteAndFlip:
    """In random order, each candidate wins with probability e^(ε·(votes − most votes)/2).

    ε-DP when one vote is another.

    Args:
        eps: ε of the claim.
        candidates: how many.

    References:
        McKenna, Sheldon, NeurIPS 2020, arXiv:2010.12603, Algorithm 1; the law is theirs as an
        integral over the time t in [0, 1] at which a candidate's turn comes.
    """

    eps: PrivacyParameter
    candidates: Candidates = 2

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    def log_heads(self, behind: Array) -> Array:
        """(k,) ln P(coin shows heads) of candidates whose votes minus the most votes is
        ``behind``."""
        return behind * self.eps / 2

    def _heads(self, data: Any) -> Array:
        votes = _votes(data, self.candidates)
        return np.exp(self.log_heads(votes - votes.max()))

    def law(self, data: Any) -> Array:
        """(k,) ln P(candidate) = ln ∫₀¹ p_i·Π_{j≠i} (1 − t·p_j) dt.

        >>> law = PermuteAndFlip(eps=2).law(np.array([0.0]))
        >>> np.exp(law).round(6).tolist()  # ½ + ½(1 − e⁻¹), ½e⁻¹
        [0.81606, 0.18394]
        """
        heads = self._heads(data)
        # The integrand is a polynomial of degree k − 1 in t: with k/2 + 1 nodes this is exact.
        nodes, weights = np.polynomial.legendre.leggauss(self.candidates // 2 + 1)
        t = (1 + nodes) / 2
        log_loses = np.log1p(-np.outer(t, heads))
        log_others_lose = log_loses.sum(axis=1, keepdims=True) - log_loses
        integral = logsumexp(log_others_lose, axis=0, b=(weights / 2)[:, None])
        return np.asarray(integral + np.log(heads))

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if a record is not a candidate."""
        for data in setup.data_sets:
            _votes(data, self.candidates)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Winners:
        """``trials`` winners: the first in order whose coin shows heads."""
        heads = self._heads(data)
        turn = rng.random((trials, self.candidates))
        shows_tails = rng.random((trials, self.candidates)) >= heads
        turn[shows_tails] = np.inf
        return Winners(np.argmin(turn, axis=1), self.law, self.candidates)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, with the noise that is
        added."""
        return least_fnr(np.exp(self.law(absent)), np.exp(self.law(present)), alpha)


@dataclass(frozen=True, config=STRICT)
class NoisyMax:
    """argmax of votes + Lap(2/ε): ε-DP when one vote is another. The noisy votes are not released.

    Args:
        eps: ε of the claim.
        candidates: how many.

    References:
        Dwork, Roth 2014, The algorithmic foundations of differential privacy, Claim 3.9, with twice
        its noise since votes may go up and down.
    """

    eps: PrivacyParameter
    candidates: Candidates = 2

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    @property
    def added_scale(self) -> float:
        """Scale of the noise that is added; the claim asks for 2/ε."""
        return 2 / self.eps

    def law(self, data: Any) -> Array:
        """(k,) ln P(candidate) = ln ∫ f(x − votes_i)·Π_{j≠i} F(x − votes_j) dx.

        f is the Laplace density and F its distribution function.

        >>> law = np.exp(NoisyMax(eps=2).law(np.array([0.0])))
        >>> law.round(6).tolist()  # 1 − e⁻¹(2 + 1)/4: two Laplace numbers 1 apart
        [0.72409, 0.27591]
        """
        votes = _votes(data, self.candidates)
        scale = self.added_scale
        nodes, weights = panels(votes, scale, 40 * scale)  # e^−40 is below the last bit of 1
        gaps = nodes[:, None] - votes
        log_loses = log_below(gaps, scale)
        log_density = -np.abs(gaps) / scale - np.log(2 * scale)
        log_wins = log_density + log_loses.sum(axis=1, keepdims=True) - log_loses
        return np.asarray(logsumexp(log_wins, axis=0, b=weights[:, None]))

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if a record is not a candidate."""
        for data in setup.data_sets:
            _votes(data, self.candidates)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Winners:
        """``trials`` winners."""
        noise = rng.laplace(scale=self.added_scale, size=(trials, self.candidates))
        winner = np.argmax(_votes(data, self.candidates) + noise, axis=1)
        return Winners(winner, self.law, self.candidates)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, with the noise that is
        added."""
        return least_fnr(np.exp(self.law(absent)), np.exp(self.law(present)), alpha)
