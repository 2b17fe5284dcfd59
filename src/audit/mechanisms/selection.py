"""Private choice of a candidate by votes: the exponential mechanism, permute-and-flip, and report noisy max.

Candidates 0, 1, … are what the records vote for; one record that is another moves each count by at most 1. All three
put out the winner only, and are ε-DP for any scores of sensitivity 1; between two data sets of votes they may leak less.
numpy's samplers are for audits, not for release.
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
from audit.mechanisms.queries import Positive, categories
from audit.privacy import STRICT, PrivacyParameter, PureDP, least_fnr

Candidates = Annotated[int, Field(ge=2)]


@dataclasses.dataclass(frozen=True)
class Chosen:
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
        return np.asarray((self.law(present) - self.law(absent))[self.winner])


def _votes(data: Any, candidates: int) -> Array:
    """(k,) votes for each candidate."""
    return np.bincount(categories(data, candidates), minlength=candidates).astype(float)


@dataclass(frozen=True, config=STRICT)
class Exponential:
    """P(candidate) ∝ e^(ε·votes/2): ε-DP when one vote is another.

    Args:
        eps: what is claimed.
        candidates: how many.
        noise_scale: share of the noise that is really added, 1/ε being all of it: 1 is honest; less is a bug.

    References:
        McSherry, Talwar, FOCS 2007, Theorem 6.

    >>> np.exp(Exponential(eps=1).law(np.array([0.0, 0.0, 1.0]))).round(6).tolist()
    [0.622459, 0.377541]
    """

    eps: PrivacyParameter
    candidates: Candidates = 2
    noise_scale: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    def law(self, data: Any) -> Array:
        """(k,) ln P(candidate)."""
        return np.asarray(log_softmax(_votes(data, self.candidates) * self.eps / 2 / self.noise_scale))

    def check_setup(self, setup: Setup) -> None:
        """Records that are candidates."""
        for data in setup.data_sets:
            _votes(data, self.candidates)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Chosen:
        """``trials`` winners."""
        winner = rng.choice(self.candidates, size=trials, p=np.exp(self.law(data)))
        return Chosen(winner, self.law, self.candidates)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these two data sets, with the noise that is really added."""
        return least_fnr(np.exp(self.law(absent)), np.exp(self.law(present)), alpha)


@dataclass(frozen=True, config=STRICT)
class PermuteAndFlip:
    """In random order, each candidate wins with probability e^(ε·(votes − most votes)/2): ε-DP when one vote is another.

    Args:
        eps: what is claimed.
        candidates: how many.
        noise_scale: share of the noise that is really added, 1/ε being all of it: 1 is honest; less is a bug.

    References:
        McKenna, Sheldon, NeurIPS 2020, arXiv:2010.12603, Algorithm 1; the law is theirs as an integral over the
        time t in [0, 1] at which a candidate's turn comes.
    """

    eps: PrivacyParameter
    candidates: Candidates = 2
    noise_scale: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    def _heads(self, data: Any) -> Array:
        votes = _votes(data, self.candidates)
        return np.exp((votes - votes.max()) * self.eps / 2 / self.noise_scale)

    def law(self, data: Any) -> Array:
        """(k,) ln P(candidate) = ln ∫₀¹ p_i·Π_{j≠i} (1 − t·p_j) dt, a polynomial that Gauss–Legendre integrates exactly.

        >>> np.exp(PermuteAndFlip(eps=2).law(np.array([0.0]))).round(6).tolist()  # ½ + ½(1 − e⁻¹), ½e⁻¹
        [0.81606, 0.18394]
        """
        heads = self._heads(data)
        x, w = np.polynomial.legendre.leggauss(self.candidates // 2 + 1)
        t, w = (1 + x) / 2, w / 2
        others = np.log1p(-np.outer(t, heads))
        return np.asarray(logsumexp(others.sum(axis=1, keepdims=True) - others, axis=0, b=w[:, None]) + np.log(heads))

    def check_setup(self, setup: Setup) -> None:
        """Records that are candidates."""
        for data in setup.data_sets:
            _votes(data, self.candidates)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Chosen:
        """``trials`` winners: the first in order whose coin shows heads."""
        heads = self._heads(data)
        turn = rng.random((trials, self.candidates))
        turn[rng.random((trials, self.candidates)) >= heads] = np.inf
        return Chosen(np.argmin(turn, axis=1), self.law, self.candidates)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these two data sets, with the noise that is really added."""
        return least_fnr(np.exp(self.law(absent)), np.exp(self.law(present)), alpha)


@dataclass(frozen=True, config=STRICT)
class NoisyMax:
    """argmax of votes + Lap(2/ε): ε-DP when one vote is another. The noisy votes stay in the machine.

    Args:
        eps: what is claimed.
        candidates: how many.
        noise_scale: share of the noise that is really added: 1 is honest; less is a bug to be found.

    References:
        Dwork, Roth 2014, The algorithmic foundations of differential privacy, Claim 3.9, with twice its noise since
        votes may go up and down.
    """

    eps: PrivacyParameter
    candidates: Candidates = 2
    noise_scale: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    @property
    def scale(self) -> float:
        """2/ε, which the claim asks for."""
        return 2 / self.eps

    def law(self, data: Any) -> Array:
        """(k,) ln P(candidate) = ln ∫ f(x − votes_i)·Π_{j≠i} F(x − votes_j) dx for the Laplace density f and its F.

        >>> law = np.exp(NoisyMax(eps=2).law(np.array([0.0])))  # 1 − e⁻¹(2 + 1)/4: two Laplace numbers 1 apart
        >>> law.round(6).tolist()
        [0.72409, 0.27591]
        """
        votes, scale = _votes(data, self.candidates), self.scale * self.noise_scale
        x, w = panels(votes, scale, 40 * scale)
        below = log_below(x[:, None] - votes, scale)
        density = -np.abs(x[:, None] - votes) / scale - np.log(2 * scale)
        return np.asarray(logsumexp(density + below.sum(axis=1, keepdims=True) - below, axis=0, b=w[:, None]))

    def check_setup(self, setup: Setup) -> None:
        """Records that are candidates."""
        for data in setup.data_sets:
            _votes(data, self.candidates)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Chosen:
        """``trials`` winners."""
        noise = rng.laplace(scale=self.scale * self.noise_scale, size=(trials, self.candidates))
        return Chosen(np.argmax(_votes(data, self.candidates) + noise, axis=1), self.law, self.candidates)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these two data sets, with the noise that is really added."""
        return least_fnr(np.exp(self.law(absent)), np.exp(self.law(present)), alpha)
