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
class Answered:
    """(n, m) answers, higher where the record seems to be there."""

    answers: Array

    def public(self) -> Columns:
        """(n, m) all answers."""
        return Columns(tuple(f"answer[{i}]" for i in range(self.answers.shape[1])), self.answers)

    def insider(self) -> Columns:
        """(n, m) the same: nothing is hidden."""
        return self.public()

    def of_canaries(self) -> Answered:
        """(m, 1) those of the first run, a row each."""
        return Answered(self.answers[:1].T)

    def log_ratio(self, absent: Array, present: Array) -> None:
        """Not computed."""
        return None


@dataclass(frozen=True, config=STRICT)
class Answers:
    """Every record's bit with noise of its own; with probability 1 − together, all answers of a run are coin flips.

    The shared coin makes the canaries depend on each other, which is what a bound from one run must stand: one that
    takes them for independent channels rejects a true claim. A record's own curve mixes that of its noise with the
    blind one; for randomised response at ε = 1 and together = 0.797 it touches that of 1-GDP from above.

    Args:
        law: ``response``: a bit, flipped with probability 1/(1 + e^ε); ``laplace``: shift ε in noise of scale 1;
            ``gaussian``: shift ε = μ in N(0, 1).
        eps: as above: what is claimed.
        together: probability that the records answer, all or none.
        noise_scale: share of the noise that is really there (of ε what is left: ε/noise_scale); less than 1 is a bug.
    """

    law: Literal["response", "laplace", "gaussian"] = "response"
    eps: Annotated[PrivacyParameter, Field(le=30)] = 1.0
    together: Annotated[float, Field(ge=0, le=1)] = 1.0
    noise_scale: Annotated[float, Field(gt=0, le=1)] = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, or μ-GDP for Gaussian noise; and the GDP curve that mixed responses touch at their corner."""
        if self.law == "gaussian":
            return (Claim(GDP(), self.eps),)
        pure = Claim(PureDP(), self.eps)
        if self.law == "laplace":
            return (pure,)
        wrong = float(expit(-self.eps))
        corner = (self.together * wrong, 1 - self.together * (1 - wrong))
        return (pure, Claim(GDP(), GDP().parameter(*corner)))

    def check_setup(self, setup: Setup) -> None:
        """Data that are bits."""
        for data in setup.data_sets:
            _allow(data)

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> Answered:
        """(trials, m) answers to the bits of ``data`` (m,).

        Raises:
            AuditError: when the data are no bits.
        """
        _allow(data)
        answers = self._answer(np.tile(data, (trials, 1)), rng)
        blind = self._answer(rng.random(answers.shape) < 0.5, rng)
        return Answered(np.where(rng.random((trials, 1)) < self.together, answers, blind))

    def _answer(self, bits: Array, rng: np.random.Generator) -> Array:
        eps = self.eps / self.noise_scale
        if self.law == "response":
            return np.where(rng.random(bits.shape) < expit(-eps), ~bits, bits).astype(float)
        noise = rng.laplace(size=bits.shape) if self.law == "laplace" else rng.normal(size=bits.shape)
        return noise + eps * bits


def _allow(data: Any) -> None:
    if not isinstance(data, np.ndarray) or data.dtype != bool:
        raise AuditError("mechanism=answers answers for bits; choose canary=coins")
