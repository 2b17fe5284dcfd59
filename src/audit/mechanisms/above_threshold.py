"""The sparse vector technique: which queries are above a threshold, paid for by those that are.

numpy's sampler is for audits, not for release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import logsumexp

from audit.core import Array, Claim, Columns, Table
from audit.mechanisms.quadrature import log_below, panels
from audit.mechanisms.queries import Positive
from audit.privacy import STRICT, PrivacyParameter, PureDP

ABOVE, BELOW, SILENT = 1, 0, -1


@dataclasses.dataclass(frozen=True)
class Told:
    """For each query in turn: above, below, or silence after the last one that was paid for.

    Args:
        said: (n, m) of ABOVE, BELOW, SILENT.
        law: data set, (m,) what is said → ln P.
    """

    said: Array
    law: Callable[[Any, Array], float]

    def public(self) -> Columns:
        """(n, m) 1 above, 0 below, −1 silent."""
        return Columns(tuple(f"query {j}" for j in range(self.said.shape[1])), self.said.astype(float))

    def insider(self) -> Columns:
        """(n, m) the same: the noisy threshold stays in the machine."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) ln P(said | present) − ln P(said | absent), each pattern worked out once."""
        patterns, place = np.unique(self.said, axis=0, return_inverse=True)
        ratios = [self.law(present, pattern) - self.law(absent, pattern) for pattern in patterns]
        return np.array(ratios)[place.reshape(-1)]


def log_chance(answers: Array, said: Array, threshold: float, noise: tuple[float, float]) -> float:
    """ln P(what is said): the integral over the noisy threshold of a product of Laplace probabilities.

    Args:
        answers: (m,) without noise.
        said: (m,) of ABOVE, BELOW, SILENT.
        threshold: without noise.
        noise: scales of the threshold's and of each answer's Laplace noise.

    >>> chances = [log_chance(np.zeros(1), np.array([said]), 0.0, (2.0, 4.0)) for said in (ABOVE, BELOW)]
    >>> np.exp(chances).round(9).tolist()
    [0.5, 0.5]
    """
    heard = said != SILENT
    gaps = answers[heard] - threshold
    x, w = panels(np.append(gaps, 0.0), min(noise), 40 * noise[0] + 40 * noise[1])
    # ABOVE: answer + noise ≥ threshold + x; BELOW the reverse. The Laplace law is symmetric.
    signs = np.where(said[heard] == ABOVE, 1.0, -1.0)
    each = log_below(signs * (gaps - x[:, None]), noise[1])
    density = -np.abs(x) / noise[0] - np.log(2 * noise[0])
    return float(logsumexp(each.sum(axis=1) + density, b=w))


@dataclass(frozen=True, config=STRICT)
class AboveThreshold:
    """Threshold + Lap(2/ε) once, each answer + Lap(4c/ε); stops after c that are above: ε-DP.

    A record is m numbers in [0, 1], what it adds to each of m queries; so that one record that is another moves every
    answer by at most 1, up or down.

    Args:
        eps: what is claimed; half for the threshold, half for the answers.
        threshold: without noise.
        cutoff: c, how many answers may be above.
        noise_scale: share of all the noise that is really added: 1 is honest; less is a bug to be found.

    References:
        Lyu, Su, Li, PVLDB 2017, arXiv:1603.01699, Algorithm 1.
    """

    eps: PrivacyParameter
    threshold: Annotated[float, Field(allow_inf_nan=False)] = 0.5
    cutoff: Annotated[int, Field(ge=1)] = 1
    noise_scale: Positive = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP when one record is another."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    @property
    def noise(self) -> tuple[float, float]:
        """Scales of the noise that is really added to the threshold and to the answers."""
        return self.noise_scale * 2 / self.eps, self.noise_scale * 4 * self.cutoff / self.eps

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Told:
        """``trials`` rounds of the m queries."""
        answers, (once, each) = _answers(data), self.noise
        limit = self.threshold + rng.laplace(scale=once, size=(trials, 1))
        above = answers + rng.laplace(scale=each, size=(trials, answers.size)) >= limit
        spent: Array = np.cumsum(above, axis=1) - above  # before this query
        return Told(np.where(spent >= self.cutoff, SILENT, np.where(above, ABOVE, BELOW)), self.law)

    def law(self, data: Any, said: Array) -> float:
        """ln P(what is said)."""
        return log_chance(_answers(data), said, self.threshold, self.noise)


def _answers(data: Any) -> Array:
    """(m,) what the records add up to in each query."""
    records = np.asarray(data.records if isinstance(data, Table) else data, dtype=float)
    return np.clip(records.reshape(len(records), -1), 0.0, 1.0).sum(axis=0)
