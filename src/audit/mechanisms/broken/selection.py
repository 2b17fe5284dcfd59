"""What goes wrong with private selection: its sensitivity is halved, or its budget is not
charged."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import log_expit, log_softmax

from audit.core import Array, Claim
from audit.mechanisms.broken.numbers import Numbers
from audit.privacy import STRICT, ZCDP, PrivacyParameter, PureDP

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class HalvedSensitivity:
    """The exponential mechanism on differences of two scores, each within ±2, with their
    sensitivity taken as 2, not 4.

    A record x in [−4, 4] adds x to the first candidate's difference and −x to all others. The
    weights are exp(ε·u/(2·2)), so that the selection costs up to 2ε.

    Args:
        eps: what is claimed.
        candidates: how many to choose from.
    """

    eps: PrivacyParameter
    candidates: Annotated[int, Field(ge=2)] = 30

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, true if one record moved a difference by 2 at most."""
        return (Claim(PureDP(), self.eps),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 1) whether the first candidate was chosen: the others are alike."""
        picked = rng.random(trials) < np.exp(self._log_chance(data)[0])

        def ratio(absent: Array, present: Array) -> Array:
            first, other = self._log_chance(present) - self._log_chance(absent)
            return np.where(picked, first, other)

        return Numbers(("first",), picked[:, None].astype(float), ratio)

    def _log_chance(self, data: Array) -> Array:
        """(2,) log probability of the first candidate, and of any one other."""
        score = np.full(self.candidates, -data.sum())
        score[0] = data.sum()
        return np.asarray(log_softmax(self.eps * score / (2 * 2))[:2])


@dataclass(frozen=True, config=STRICT)
class SelectionNotCharged:
    """Chooses which of two columns goes with the first, and measures that pair with all of ρ.

    The choice spends ε_s, which nobody charges.

    The ledger holds the measurement only: in truth up to ρ + ε_s²/8.

    Args:
        rho: what is claimed, all of it spent on N(0, 1/(2ρ)) on the number of records that agree.
        selection_eps: ε_s.

    References:
        MST and AIM charge ε²/8 for such a step (McKenna, Miklau, Sheldon, arXiv:2108.04978).
    """

    rho: PrivacyParameter
    selection_eps: Positive

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ρ-zCDP, true of the measurement alone."""
        return (Claim(ZCDP(), self.rho),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 2) the chosen column, and the noisy number of records where it agrees with the
        first."""
        chance_of_second = np.exp(self._log_chance(data)[1])
        picked = (rng.random(trials) < chance_of_second).astype(int)
        noise = rng.normal(0.0, 1 / np.sqrt(2 * self.rho), size=trials)
        noisy = _agree(data)[picked] + noise

        def ratio(absent: Array, present: Array) -> Array:
            a = _agree(absent)[picked]
            b = _agree(present)[picked]
            of_choice = (self._log_chance(present) - self._log_chance(absent))[picked]
            of_measurement = 2 * self.rho * ((b - a) * noisy - (b * b - a * a) / 2)
            return np.asarray(of_choice + of_measurement)

        return Numbers(("column", "agree"), np.stack([picked, noisy], axis=1), ratio)

    def _log_chance(self, data: Array) -> Array:
        """(2,) log probability of each column: one record moves a score by 1."""
        one, other = _agree(data)
        gap = self.selection_eps * (other - one) / 2
        return np.array([log_expit(-gap), log_expit(gap)])


def _agree(data: Array) -> Array:
    """(2,) how many records have in the second, and in the third, column what they have in the
    first.

    >>> _agree(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])).tolist()
    [2, 1]
    """
    return np.asarray((data[:, 1:3] == data[:, :1]).sum(axis=0))
