"""One noisy answer for each record: known curves, to calibrate audits in one run on."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import expit

from audit.core import Array, AuditError, Claim, Columns, Setup
from audit.privacy import GDP, STRICT, PrivacyParameter, PureDP


@dataclasses.dataclass(frozen=True)
class NoisyAnswers:
    """(n, m) answers, higher where the record seems to be there."""

    answers: Array

    def public(self) -> Columns:
        """(n, m) all answers."""
        names = tuple(f"answer[{i}]" for i in range(self.answers.shape[1]))
        return Columns(names, self.answers)

    def insider(self) -> Columns:
        """(n, m) the same: nothing is hidden."""
        return self.public()

    def of_canaries(self) -> NoisyAnswers:
        """(m, 1) those of the first run, a row each."""
        return NoisyAnswers(self.answers[:1].T)

    def log_ratio(self, absent: Array, present: Array) -> None:
        """Not computed."""
        return None


@dataclass(frozen=True, config=STRICT)
class Answers:
    """Every record's bit with its own noise; with probability 1 − together, coin flips for all.

    The shared coin makes the canaries depend on each other, which is what a bound from one run must
    stand: one that takes them for independent channels rejects a true claim. A record's own curve
    mixes that of its noise with the blind one; for randomised response at ε = 1 and
    together = 0.797 it touches that of 1-GDP from above.

    Args:
        law: ``response``: a bit, flipped with probability 1/(1 + e^ε); ``laplace``: shift ε in
            noise of scale 1; ``gaussian``: shift ε = μ in N(0, 1).
        eps: as above: ε of the claim.
        together: probability that the records answer, all or none.
    """

    law: Literal["response", "laplace", "gaussian"] = "response"
    eps: Annotated[PrivacyParameter, Field(le=30)] = 1.0
    together: Annotated[float, Field(ge=0, le=1)] = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, or μ-GDP for Gaussian noise; for responses also the GDP curve that they touch."""
        if self.law == "gaussian":
            return (Claim(GDP(), self.eps),)
        pure = Claim(PureDP(), self.eps)
        if self.law == "laplace":
            return (pure,)
        flip = float(expit(-self.eps))
        corner_fpr = self.together * flip
        corner_fnr = 1 - self.together * (1 - flip)
        return (pure, Claim(GDP(), GDP().parameter(corner_fpr, corner_fnr)))

    @property
    def signal(self) -> float:
        """ε of the answers that are really given."""
        return self.eps

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if the data are not bits."""
        for data in setup.data_sets:
            _check_bits(data)

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> NoisyAnswers:
        """(trials, m) answers to the bits of ``data`` (m,).

        Raises:
            AuditError: the data are not bits.
        """
        _check_bits(data)
        answers = self._answer(np.tile(data, (trials, 1)), rng)
        blind_answers = self._answer(rng.random(answers.shape) < 0.5, rng)
        records_answer = rng.random((trials, 1)) < self.together
        return NoisyAnswers(np.where(records_answer, answers, blind_answers))

    def _answer(self, bits: Array, rng: np.random.Generator) -> Array:
        if self.law == "response":
            flipped = rng.random(bits.shape) < expit(-self.signal)
            return np.where(flipped, ~bits, bits).astype(float)
        if self.law == "laplace":
            noise = rng.laplace(size=bits.shape)
        else:
            noise = rng.normal(size=bits.shape)
        return noise + self.signal * bits


def _check_bits(data: Any) -> None:
    if not isinstance(data, np.ndarray) or data.dtype != bool:
        raise AuditError("mechanism=answers answers for bits; choose canary=coins")
