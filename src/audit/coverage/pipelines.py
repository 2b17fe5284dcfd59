"""Whole audits: a protocol, an attack, and every bound that reads what they found."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from scipy.special import ndtr

from audit import criteria
from audit.attackers import LikelihoodRatio, Logistic
from audit.core import Claim, Estimator, Trials
from audit.coverage.counts import Size
from audit.coverage.rows import ACCUSING, LIKELIHOOD, Row, with_efficiency
from audit.coverage.scores import Tally
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve import Curve
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.dkw import DKW
from audit.estimators.exact import Exact
from audit.estimators.joint_bayes import JointBayes
from audit.privacy import GDP

UNKNOWING = "rows that know nothing"


@dataclasses.dataclass(frozen=True)
class Stream:
    """An endless stream of trials: a Gaussian shift with its exact likelihood ratio, or five
    columns that know nothing.

    Args:
        mu: the shift; 0: rows know nothing of the bit.
        seed: of the noise.
    """

    mu: float
    seed: int
    limit: int | None = None

    def trials(self, first: int, count: int) -> Trials:
        """See `audit.core.Source`."""
        index = np.arange(first + count)
        bits = index % 2 == 1
        rows = np.random.default_rng(self.seed).standard_normal((len(index), 1 if self.mu else 5))
        rows += self.mu * bits[:, None]
        ratio = self.mu * rows[:, 0] - self.mu**2 / 2 if self.mu else None
        return Trials(tuple("abcde"[: rows.shape[1]]), rows, bits, index, index, log_ratio=ratio)[
            first:
        ]


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Fit, choose, test, by a real protocol: a trained attack on rows that know nothing, or the
    perfect one on a shift.

    Args:
        name: of the protocol.
        protocol: an instance; what it is to reject is the truth.
        mu: the truth; 0: a logistic attack is trained on rows that know nothing.
    """

    name: str
    protocol: Any
    mu: float = 0.0

    def play(self, rng: np.random.Generator, size: Size) -> list[Row]:
        """A row for every estimator that reads this evidence."""
        estimators: list[Estimator] = [
            ClopperPearson(),
            JointBayes(),
            Curve(),
            CurveBetting(),
            DKW(),
        ]
        estimators += [Betting(), Betting(ACCUSING), Exact(), Exact(ACCUSING)]
        estimators = [each for each in estimators if size.only in ("", each.name)]
        tallies = [Tally(estimate, GDP(), self.mu, size.solved) for estimate in estimators]
        attacker, claim = LikelihoodRatio() if self.mu else Logistic(), Claim(GDP(), self.mu)
        for _ in range(size.scores):
            source = Stream(self.mu, int(rng.integers(2**62)))
            evidence = self.protocol(source, attacker, criteria.Advantage(), claim)
            for tally in tallies:
                tally.add(evidence)
        side = self.protocol.tested // 2
        law = LIKELIHOOD if self.mu else UNKNOWING
        fill = functools.partial(Tally.row, law=law, absent=side, present=side, choice="advantage")
        errors = side * float(ndtr(-self.mu / 2))
        return [
            with_efficiency(fill(t, protocol=self.name, errors=errors)) for t in tallies if t.audits
        ]
