"""Guesses about the canaries of one run → bound on μ, by the whole Gaussian curve."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import ndtr, ndtri

from audit.core import Array, Bound, Design, Evidence, NotApplicable
from audit.estimators.one_run import PORTIONS, Portions, allow_guesses, guesses, ideal_guesses, root
from audit.privacy import GDP, STRICT, ApproximateDP, Notion, gdp_epsilon

LARGEST = 30.0
"""No μ beyond it is looked for."""

ASSUMES = "assumes a Gaussian tradeoff curve: it refutes μ-GDP"
CONVERTED = "; this ε is that of the Gaussian curve, not of a claim that is none"


@dataclass(frozen=True, config=STRICT)
class OneRunFDP:
    """The largest μ at which so many right guesses are refuted by `refutes`.

    For μ-GDP this is a bound of finite samples. A mechanism whose curve is not Gaussian may keep
    (ε, δ) where this refutes the Gaussian curve through it, so its ε is a figure and no accusation;
    a warning says so.

    Args:
        significance: error probability.
        portions: as in `audit.estimators.one_run.OneRun`: all that are searched are counted.

    References:
        Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235.
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    portions: Annotated[Portions, Field(min_length=1)] = PORTIONS
    name: ClassVar[str] = "one_run_fdp"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A bound on μ, or on the ε of a Gaussian curve.

        Raises:
            NotApplicable: when the evidence is not one run, and for notions that no Gaussian curve
                keeps.
        """
        self.allow(evidence.design, notion)
        warning = ASSUMES + ("" if isinstance(notion, GDP) else CONVERTED)
        lower = self.lower(guesses(evidence), notion)
        return Bound(
            self.name, notion, lower, self.significance, "finite-sample", warnings=(warning,)
        )

    def allow(self, design: Design, notion: Notion) -> None:
        """See `allow_guesses`; and a notion that a Gaussian curve keeps."""
        if not isinstance(notion, GDP | ApproximateDP) or notion == ApproximateDP(0.0):
            raise NotApplicable(
                "it assumes a Gaussian curve, and has bounds on μ and on (ε, δ) with δ > 0 only"
            )
        allow_guesses(design)

    def lower(self, right: Array, notion: Notion) -> float:
        """The bound itself, ≥ 0.

        Args:
            right: (m,) whether each canary's guess is right, the most confident one first.
            notion: GDP, or (ε, δ) through it.
        """
        share, m = self.significance / len(self.portions), len(right)
        seen = np.cumsum(right)
        made = sorted({max(1, round(portion * m)) for portion in self.portions}) if m else []
        found = max((mu(m, r, int(seen[r - 1]), share) for r in made), default=0.0)
        return gdp_epsilon(found, notion.delta) if isinstance(notion, ApproximateDP) else found

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound on the guesses of `ideal_guesses`; 0 for notions without a bound."""
        if not isinstance(notion, GDP | ApproximateDP) or notion == ApproximateDP(0.0):
            return 0.0
        return self.lower(ideal_guesses(notion, parameter, n_absent + n_present), notion)


def refutes(mu: float, canaries: int, made: int, right: int, significance: float) -> bool:
    """Whether so many right guesses have a probability of at most ``significance`` under μ-GDP.

    With r = τv/m and h = τ(g − v)/m, for i = v − 1 … 0: h' = max(h, Φ(Φ⁻¹(r) − μ)),
    r += i/(g − i)·(h' − h), h = h'; refuted where r + h > g/m. Both only grow, so it may be said
    before the end.

    Args:
        mu: ≥ 0.
        canaries: m.
        made: g ≤ m guesses.
        right: v ≤ g of them.
        significance: τ.

    References:
        Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235, Algorithm 3.
    """
    r, h, full = (
        significance * right / canaries,
        significance * (made - right) / canaries,
        made / canaries,
    )
    for i in range(right - 1, -1, -1):
        if r + h > full or r >= 1:
            return True
        above = max(h, float(ndtr(ndtri(r) - mu)))
        r += i / (made - i) * (above - h)
        h = above
    return r + h > full


def mu(canaries: int, made: int, right: int, significance: float) -> float:
    """The largest μ that is refuted; 0 where none is.

    >>> round(mu(1000, 1000, 600, 0.05), 6), round(mu(1000, 100, 95, 0.05), 6)
    (0.16385, 0.786812)
    """
    return root(
        lambda mu: -1.0 if refutes(mu, canaries, made, right, significance) else 1.0, LARGEST
    )
