"""Guesses about the canaries of one run → bound, by how many of them are right.

One training holds m canaries, each in it by a fair coin. Whatever came out, a mechanism that keeps
ε-DP leaves each coin a posterior of at most q = e^ε/(1 + e^ε), also to somebody who knows the coins
before it. So the number of right guesses is no larger than a binomial one, though the canaries
share all of the mechanism's noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.optimize import brentq
from scipy.special import betainc, expit, ndtri

from audit.core import Array, Bound, Design, Evidence, NotApplicable, WrongEvidence
from audit.estimators.power import midpoint
from audit.privacy import (
    GDP,
    STRICT,
    ZCDP,
    ApproximateDP,
    Notion,
    PureDP,
    direct_mu,
    rho_from_eps_delta,
)

LARGEST = 60.0
"""No ε beyond it is looked for."""

Portions = tuple[Annotated[float, Field(gt=0, le=1)], ...]
PORTIONS: Portions = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Shares of the canaries that are guessed, the most confident ones first; fixed before the run."""


@dataclass(frozen=True, config=STRICT)
class OneRun:
    """The largest ε at which so many right guesses have a probability below the significance.

    How many guesses to make is searched over ``portions`` on the same canaries, and paid for: each
    is tested at significance / len(portions), whichever is best (Bonferroni). A bound on μ or ρ is
    the one on ε at a small δ, since μ-GDP and ρ-zCDP imply (ε, δ)-DP.

    Args:
        significance: error probability.
        portions: shares of the canaries that may be guessed, in (0, 1].

    References:
        Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Theorem 5.2 and Proposition 5.7.
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    portions: Annotated[Portions, Field(min_length=1)] = PORTIONS
    name: ClassVar[str] = "one_run"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound.

        Raises:
            NotApplicable: when the evidence is not one run, or the notion is a piece of another.
        """
        right = guesses(evidence)
        lower = self.lower(right, notion)
        return Bound(
            self.name,
            notion,
            lower,
            self.significance,
            "finite-sample",
            warnings=too_many(len(right), notion, self.significance),
        )

    def allow(self, design: Design, notion: Notion) -> None:
        """See `allow_guesses`; and a notion with bounds on ε."""
        allow_guesses(design)
        _allow_epsilon(notion)

    def lower(self, right: Array, notion: Notion) -> float:
        """The bound itself, ≥ 0.

        Args:
            right: (m,) whether each canary's guess is right, the most confident one first.
            notion: GDP, (ε, δ), pure or zCDP.
        """
        share, m = self.significance / len(self.portions), len(right)
        seen = np.cumsum(right)
        made = sorted({max(1, round(portion * m)) for portion in self.portions}) if m else []
        return at_delta(
            notion,
            small_delta(m, self.significance),
            lambda delta: max(
                (epsilon(m, r, int(seen[r - 1]), delta, share) for r in made), default=0.0
            ),
        )

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound on the guesses of `ideal_guesses`; 0 where there are no canaries."""
        return self.lower(ideal_guesses(notion, parameter, n_absent + n_present), notion)


# --- the bound on ε -------------------------------------------------------------------------------


def p_value(eps: float, canaries: int, made: int, right: int, delta: float) -> float:
    """Probability of at least so many right guesses under (ε, δ)-DP, at most: in [0, 1], growing
    with ε.

    min(1, f(v) + 2mδ·max over 1 ≤ i ≤ v of (f(v − i) − f(v))/i), with f(x) = P[Bin(r,
    e^ε/(1 + e^ε)) ≥ x].

    Args:
        eps: ≥ 0.
        canaries: m, guessed or not.
        made: r ≤ m guesses.
        right: v ≤ r of them.
        delta: in [0, 1).

    References:
        Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Theorem 5.2.
    """
    q = float(expit(eps))
    if not delta:
        return float(_tail(made, q, np.array([right]))[0])
    f = _tail(made, q, np.arange(right + 1))
    lost = (f[:-1] - f[-1]) / np.arange(right, 0, -1) if right else np.zeros(1)
    return float(min(1.0, f[-1] + 2 * canaries * delta * lost.max()))


def _tail(trials: int, rate: float, least: Array) -> Array:
    """P[Bin(trials, rate) ≥ least]."""
    return np.where(least <= 0, 1.0, betainc(np.maximum(least, 1), trials - least + 1.0, rate))


def epsilon(canaries: int, made: int, right: int, delta: float, significance: float) -> float:
    """The largest ε whose `p_value` is below ``significance``; 0 where there is none.

    >>> round(epsilon(1000, 100, 75, 1e-4, 0.05), 4), round(epsilon(16, 16, 16, 0.0, 0.05), 5)
    (0.673, 1.58032)
    """

    def excess(eps: float) -> float:
        return p_value(eps, canaries, made, right, delta) - significance

    return root(excess, LARGEST)


def root(excess: Callable[[float], float], largest: float) -> float:
    """Where a growing function of a parameter reaches 0, in [0, ``largest``]."""
    if excess(0.0) >= 0:
        return 0.0
    if excess(largest) < 0:
        return largest
    return float(brentq(excess, 0.0, largest, xtol=1e-10))


# --- what estimators of one run share -------------------------------------------------------------


def allow_guesses(design: Design) -> None:
    """What counting the guesses of one run asks for.

    Raises:
        WrongEvidence: when the evidence is not one run.
        NotApplicable: when its own bits chose the threshold.
    """
    if not design.one_run:
        raise WrongEvidence(
            "it needs the canaries of one run, each in by its own coin; choose protocol=one_run"
        )
    if design.selection:
        raise NotApplicable("it needs guesses that no bits of the same run have chosen")


def guesses(evidence: Evidence) -> Array:
    """(m,) whether each canary's guess is right: "present" from the threshold on, the farthest from
    it first.

    The order and the guesses are functions of the scores, which are what came out; only the
    rightness knows the bits. Equally sure guesses stay in the order of the canaries, of which the
    coins know nothing.

    Raises:
        NotApplicable: when the evidence is not one run.
    """
    allow_guesses(evidence.design)
    (fold,) = evidence.folds
    scores = fold.test
    order = np.argsort(-np.abs(scores.values - fold.threshold), kind="stable")
    return ((scores.values >= fold.threshold) == scores.bits)[order]


def at_delta(notion: Notion, small: float, bound: Callable[[float], float]) -> float:
    """A bound in ``notion`` by way of a bound on ε at a δ: the notion's own, else ``small``.

    Args:
        notion: GDP, (ε, δ), pure or zCDP.
        small: δ at which a bound on μ or ρ is read; any one that does not depend on the data will
            do.
        bound: δ → lower bound on ε.

    Raises:
        NotApplicable: for other notions.
    """
    if isinstance(notion, PureDP):
        return bound(0.0)
    if isinstance(notion, ApproximateDP):
        return bound(notion.delta)
    _allow_epsilon(notion)
    eps = bound(small)
    if eps == 0:
        return 0.0
    return direct_mu(eps, small) if isinstance(notion, GDP) else rho_from_eps_delta(eps, small)


def _allow_epsilon(notion: Notion) -> None:
    if not isinstance(notion, PureDP | ApproximateDP | GDP | ZCDP):
        raise NotApplicable(
            "bounds from one run are made for pure and approximate DP, GDP and zCDP"
        )


def small_delta(canaries: int, significance: float) -> float:
    """The δ at which a bound on μ or ρ is read, with m·δ a third of the significance.

    A larger δ costs more guesses and buys more μ for the same ε; at a third the bound on ideal
    guesses is within a tenth of its largest for μ from 0.5 to 2 and m from 100 to 10,000.
    """
    return significance / (3 * max(canaries, 1))


def too_many(canaries: int, notion: Notion, significance: float) -> tuple[str, ...]:
    """A warning where so many canaries can refute no (ε, δ): any of them may fail with probability
    δ."""
    if not isinstance(notion, ApproximateDP) or canaries * notion.delta < significance:
        return ()
    return (
        f"{canaries} canaries at δ = {notion.delta:g} may all be told by the δ: so many refute "
        "hardly any ε; lower delta, or take fewer canaries",
    )


def ideal_guesses(notion: Notion, parameter: float, canaries: int) -> Array:
    """(m,) what guesses by the best test would look like, the most confident first, at their
    expected rates.

    For GDP the scores are evenly spaced quantiles of N(±μ/2, 1), and a guess at distance a from 0
    is right with probability 1/(1 + e^(−aμ)). For other notions each is right with the probability
    of FPR = FNR.
    """
    if isinstance(notion, GDP) and canaries:
        rank = (np.arange(canaries) + 0.5) / canaries
        away = np.sort(np.abs(np.append(ndtri(rank) + parameter / 2, ndtri(rank) - parameter / 2)))[
            ::-2
        ]
        rate = expit(away * parameter)
    else:
        rate = np.full(
            canaries, 1 - midpoint(notion, parameter) if math.isfinite(parameter) else 1.0
        )
    return np.diff(np.floor(np.append(0.0, np.cumsum(rate)) + 1e-9)) > 0
