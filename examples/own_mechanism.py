"""A mechanism of one's own: randomised response, right and wrong.

Two bits say which of two answers a person gave. Each is flipped with probability 1/(1 + e^(ε/2)):
that is ε-DP, since another answer changes both. Flipped with 1/(1 + e^ε), as if each bit had the
whole budget, it is 2ε-DP. (The right one is called "tight": at the threshold it shows more than
half of its claim, and not significantly less than four fifths.)

python examples/own_mechanism.py
"""

import dataclasses
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np

import audit
from audit.attackers import LikelihoodRatio
from audit.canaries.pair import Pair
from audit.core import Columns
from audit.features import WhiteBox


@dataclasses.dataclass(frozen=True)
class Answers:
    """(n, 2) noisy bits, one row a run; each was flipped with probability ``flip``."""

    bits: np.ndarray
    flip: float

    def public(self) -> Columns:
        return Columns(("first", "second"), self.bits)

    def insider(self) -> Columns:
        return self.public()

    def log_ratio(self, absent: np.ndarray, present: np.ndarray) -> np.ndarray:
        kept = np.log1p(-self.flip) - np.log(self.flip)  # what one unflipped bit says
        return kept * ((self.bits == present).sum(axis=1) - (self.bits == absent).sum(axis=1))


@dataclasses.dataclass(frozen=True)
class RandomisedResponse:
    """Flips each of two bits with probability 1/(1 + e^(budget·ε)): a budget of ½ is honest."""

    eps: float
    budget: float = 0.5

    block: ClassVar[int] = 1000  # trials that one seed plays, an even number

    @property
    def claims(self) -> tuple[audit.Claim, ...]:
        return (audit.Claim(audit.PureDP(), self.eps, neighbours="replace_one"),)

    def release(self, data: np.ndarray, trials: int, rng: np.random.Generator) -> Answers:
        flip = 1 / (1 + np.exp(self.budget * self.eps))
        flipped = rng.random((trials, 2)) < flip
        return Answers(np.where(flipped, 1 - data, data), flip)


def played(root: str, mechanism: RandomisedResponse) -> audit.Result:
    """Answer (1, 0) against answer (0, 1)."""
    return audit.audit(
        mechanism=mechanism,
        challenge=Pair(absent=((1, 0),), present=((0, 1),), neighbours="replace_one"),
        features=WhiteBox(),
        attacker=LikelihoodRatio(),
        root=root,
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        for budget in (0.5, 1.0):
            verdict = played(folder, RandomisedResponse(eps=1.0, budget=budget)).verdict
            shown = verdict.accusing.notion.label(verdict.accusing.lower)
            print(f"budget {budget:g} of ε a bit: {verdict.word}; it leaks at least {shown}")
