"""Guesses about the canaries of one run → bound, by betting on one guess after the other."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Bound, Design, Evidence
from audit.estimators.one_run import (
    LARGEST,
    OneRun,
    at_delta,
    guesses,
    ideal_guesses,
    root,
    small_delta,
    too_many,
)
from audit.privacy import STRICT, Notion

BET_FRACTIONS = np.geomspace(0.004, 0.98, 24)
"""Fractions of the wealth that a wrong guess costs, over which the bet is mixed."""

LOOKS = 400
"""How often the wealth is looked at, most often at the beginning; fewer looks stay valid."""


@dataclass(frozen=True, config=STRICT)
class OneRunBetting:
    """The largest ε whose e-process reaches 1/significance, from the surest guess on.

    Given what came out and the coins before, a guess is right with probability at most
    q = e^ε/(1 + e^ε) under ε-DP. So wealth that loses the fraction s with a wrong guess and gains
    s(1 − q)/q = s·e^(−ε) with a right one is a supermartingale, and so is a mixture over s. It
    reaches 1/significance with probability ≤ significance (Ville), after however many guesses: none
    have to be abstained from, and their number is not chosen.

    **δ.** A posterior exceeds q in coordinate i by (P − e^ε·Q)₊/((P + Q)(1 + e^ε)), whose
    expectation is at most δ/(1 + e^ε) on both sides together; that holds in any order that the
    scores give, since knowing more coins only increases a convex divergence. A guess that is right
    with probability min(posterior, q) can be coupled to the real one, and differs from any of m
    with probability ≤ mδ/2: that much is taken off the significance.

    Args:
        significance: error probability, over all numbers of guesses at once.

    References:
        Steinke, Nasr, Jagielski 2023, arXiv:2305.08846, Proposition 5.1 (the posteriors).
        Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (bets). Ville 1939 (the inequality).
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "one_run_betting"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound that holds for every number of guesses at once.

        Raises:
            NotApplicable: when the evidence is not one run, or the notion is a piece of another.
        """
        right = guesses(evidence)
        return Bound(
            self.name,
            notion,
            self.lower(right, notion),
            self.significance,
            "finite-sample",
            anytime=True,
            warnings=too_many(len(right), notion, self.significance),
        )

    def allow(self, design: Design, notion: Notion) -> None:
        """As `OneRun`."""
        OneRun().allow(design, notion)

    def lower(self, right: Array, notion: Notion) -> float:
        """The bound itself, ≥ 0.

        Args:
            right: (m,) whether each canary's guess is right, the most confident one first.
            notion: GDP, (ε, δ), pure or zCDP.
        """
        small = small_delta(len(right), self.significance)
        return at_delta(notion, small, lambda delta: epsilon(right, delta, self.significance))

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound on the guesses of `ideal_guesses`; 0 where there are no canaries."""
        return self.lower(ideal_guesses(notion, parameter, n_absent + n_present), notion)


def epsilon(right: Array, delta: float, significance: float) -> float:
    """The largest ε that is rejected; 0 where none is.

    Wealth falls with ε on every path of guesses, so the rejected ε are an interval from 0 on.

    >>> round(epsilon(np.ones(100, bool), 0.0, 0.05), 2)
    2.82
    """
    significance_left = significance - len(right) * delta / 2
    if significance_left <= 0 or not len(right):
        return 0.0

    def shortfall(eps: float) -> float:
        """How much log wealth is missing to reject ``eps``; negative where it is rejected."""
        return -float(np.max(log_wealth(right, eps))) - math.log(significance_left)

    return root(shortfall, LARGEST)


def log_wealth(right: Array, eps: float) -> Array:
    """(k,) log wealth at each look of the e-process against ε, from 0 on.

    Args:
        right: (m,) whether each guess is right, the most confident one first.
        eps: ≥ 0.
    """
    m = len(right)
    after = np.unique(np.append(np.geomspace(1, m, LOOKS).astype(int), m))
    hits = np.cumsum(right)[after - 1]
    gains = np.outer(np.log1p(BET_FRACTIONS * math.exp(-eps)), hits)
    losses = np.outer(np.log1p(-BET_FRACTIONS), after - hits)
    by_fraction = gains + losses
    return np.logaddexp.reduce(by_fraction, axis=0) - math.log(len(BET_FRACTIONS))
