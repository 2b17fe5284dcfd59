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
from audit.privacy import STRICT, PrivacyParameter, PureDP

ABOVE, BELOW, SILENT = 1, 0, -1


@dataclasses.dataclass(frozen=True)
class ThresholdAnswers:
    """For each query in turn: above, below, or silence after the last one that was paid for.

    Args:
        outcomes: (n, m) of ABOVE, BELOW, SILENT.
        law: data set, (m,) outcomes → ln P.
    """

    outcomes: Array
    law: Callable[[Any, Array], float]

    def public(self) -> Columns:
        """(n, m) 1 above, 0 below, −1 silent."""
        names = tuple(f"query {j}" for j in range(self.outcomes.shape[1]))
        return Columns(names, self.outcomes.astype(float))

    def insider(self) -> Columns:
        """(n, m) the same: the noisy threshold stays in the machine."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) ln P(outcomes | present) − ln P(outcomes | absent)."""
        # An integral each: worked out once for every pattern that occurs.
        patterns, pattern_of_run = np.unique(self.outcomes, axis=0, return_inverse=True)
        ratios = [self.law(present, pattern) - self.law(absent, pattern) for pattern in patterns]
        return np.array(ratios)[pattern_of_run.reshape(-1)]


def log_probability(
    answers: Array, outcomes: Array, threshold: float, noise: tuple[float, float]
) -> float:
    """ln P(outcomes): the integral over the noisy threshold of a product of probabilities.

    Args:
        answers: (m,) without noise.
        outcomes: (m,) of ABOVE, BELOW, SILENT.
        threshold: without noise.
        noise: scales of the threshold's and of each answer's Laplace noise.

    >>> of_above = log_probability(np.zeros(1), np.array([ABOVE]), 0.0, (2.0, 4.0))
    >>> of_below = log_probability(np.zeros(1), np.array([BELOW]), 0.0, (2.0, 4.0))
    >>> np.exp([of_above, of_below]).round(9).tolist()
    [0.5, 0.5]
    """
    threshold_scale, answer_scale = noise
    answered = outcomes != SILENT
    gaps = answers[answered] - threshold
    kinks = np.append(gaps, 0.0)
    tails = 40 * threshold_scale + 40 * answer_scale  # e^−40 is below the last bit of 1
    x, weights = panels(kinks, min(noise), tails)
    # ABOVE: answer + noise ≥ threshold + x; BELOW the reverse. The Laplace law is symmetric.
    signs = np.where(outcomes[answered] == ABOVE, 1.0, -1.0)
    log_outcomes = log_below(signs * (gaps - x[:, None]), answer_scale)
    log_density = -np.abs(x) / threshold_scale - np.log(2 * threshold_scale)
    return float(logsumexp(log_outcomes.sum(axis=1) + log_density, b=weights))


@dataclass(frozen=True, config=STRICT)
class AboveThreshold:
    """Threshold + Lap(2/ε) once, each answer + Lap(4c/ε); stops after c that are above: ε-DP.

    A record is m numbers in [0, 1], what it adds to each of m queries; so that one record that is
    another moves every answer by at most 1, up or down.

    Args:
        eps: ε of the claim; half for the threshold, half for the answers.
        threshold: without noise.
        cutoff: c, how many answers may be above.

    References:
        Lyu, Su, Li, PVLDB 2017, arXiv:1603.01699, Algorithm 1.
    """

    eps: PrivacyParameter
    threshold: Annotated[float, Field(allow_inf_nan=False)] = 0.5
    cutoff: Annotated[int, Field(ge=1)] = 1

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP when one record is another."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    @property
    def noise(self) -> tuple[float, float]:
        """Scales of the noise that is added to the threshold and to the answers."""
        return 2 / self.eps, 4 * self.cutoff / self.eps

    def release(
        self, data: Table | Array, trials: int, rng: np.random.Generator
    ) -> ThresholdAnswers:
        """``trials`` rounds of the m queries."""
        answers = _answers(data)
        threshold_scale, answer_scale = self.noise
        noisy_threshold = self.threshold + rng.laplace(scale=threshold_scale, size=(trials, 1))
        noisy_answers = answers + rng.laplace(scale=answer_scale, size=(trials, answers.size))
        above = noisy_answers >= noisy_threshold
        above_before: Array = np.cumsum(above, axis=1) - above  # this query not counted
        outcomes = np.where(above, ABOVE, BELOW)
        outcomes = np.where(above_before >= self.cutoff, SILENT, outcomes)
        return ThresholdAnswers(outcomes, self.law)

    def law(self, data: Any, outcomes: Array) -> float:
        """ln P(outcomes) for this data set."""
        return log_probability(_answers(data), outcomes, self.threshold, self.noise)


def _answers(data: Any) -> Array:
    """(m,) what the records add up to in each query."""
    records = np.asarray(data.records if isinstance(data, Table) else data, dtype=float)
    return np.clip(records.reshape(len(records), -1), 0.0, 1.0).sum(axis=0)
