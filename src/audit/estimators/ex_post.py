"""Scores and reported ε → how far the reports are too low: a bet against E[W] ≤ 1."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.accountants import ExPostRDP
from audit.core import Array, Bound, Design, Evidence, Fold, NotApplicable, Scores, WrongEvidence
from audit.privacy import STRICT, Notion


@dataclass(frozen=True, config=STRICT)
class ExPost:
    """Anytime-valid lower bound on the under-report s, by testing E[W] ≤ e^((α − 1)s) with bets.

    s > 0 says that reported ε are too low.

    Black box: whatever g ≥ 0, Young's inequality a^α ≥ α·a·g^(α − 1) − (α − 1)·g^α at a = p/q gives

        E_P[α·e^((1 − α)ε)·g^(α − 1)] − (α − 1)·E_Q[e^((1 − α)ε)·g^α] ≤ E_Q[W] ≤ 1,   equal at
        g = p/q.

    g is a function of the attack's score, chosen on the selection trials and capped so that the
    second term is at most C; then the payoff of a pair of a P- and a Q-trial is bounded. White box,
    where the scores are the exact log-likelihood ratio: V = e^((1 − α)ε)·(p/q)^(α − 1) on P-trials
    has mean E_Q[W] too, so it is an e-value without any cap. The box, g, the cap, and whether P is
    present or absent are those whose wealth would have grown fastest on the selection.

    Args:
        significance: error probability, at all numbers of trials at once.

    References:
        arXiv:2509.22213 (E[W] ≤ 1); Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (betting);
            docs/accuracy-first.md (which reports are audited).
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "ex_post"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound that holds at every number of trials at once.

        Raises:
            NotApplicable: for other notions, trials without reports, repeated runs, folds whose
                trials fitted each other, and folds without selection trials.
        """
        self.allow(evidence.design, notion)
        assert isinstance(notion, ExPostRDP)
        if any(fold.test.spent is None for fold in evidence.folds):
            raise WrongEvidence("the mechanism reports no spent ε")
        rounds = [chosen_payoffs(fold, notion.order) for fold in evidence.folds]
        lower = math.log(self.least_mean(rounds)) / (notion.order - 1)
        return Bound(self.name, notion, lower, self.significance, "finite-sample", anytime=True)

    def allow(self, design: Design, notion: Notion) -> None:
        """A claim about reports; independent trials, tested in order, with selection trials."""
        if not isinstance(notion, ExPostRDP):
            raise WrongEvidence(
                "it bounds how far reported ε are too low, and this claim is about no reports"
            )
        if design.runs != "independent":
            raise NotApplicable("reports are tested on independent trials, each once")
        if design.folds == "kfold":
            raise NotApplicable(
                "reports are tested on folds in the order in which they are used, not K-fold"
            )
        if not design.selection:
            raise NotApplicable("testing reports needs selection trials, which say where to bet")

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """0: the claim does not say how a mechanism's reports go with its leaks."""
        return 0.0

    def least_mean(self, rounds: Sequence[Payoffs]) -> float:
        """The least m ≥ 1 for which E[W] ≤ m is not rejected; wealth falls in m, so by
        bisection."""

        def stands(mean: float) -> bool:
            return float(np.max(log_wealth(rounds, mean))) < -math.log(self.significance)

        low, high = 0.0, 1.0  # of ln m
        if stands(1.0):
            return 1.0
        while not stands(math.exp(high)):
            low, high = high, 2 * high
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            if stands(math.exp(middle)):
                high = middle
            else:
                low = middle
        return math.exp(low)


# --- payoffs --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Payoffs:
    """Gains of one fold, each ≥ −cap and of mean E[W] at most, and what fraction to bet on them.

    Args:
        gain: (n,) in the order of the stream.
        cap: C ≥ 0.
        bet_fraction: the one whose wealth grew fastest on the selection trials, in (0, 1).
    """

    gain: Array
    cap: float
    bet_fraction: float

    @property
    def bet_fractions(self) -> Array:
        """(4,) fractions around the chosen one, over which the bet is mixed."""
        return np.minimum(self.bet_fraction * np.array([0.25, 0.5, 1.0, 2.0]), LARGEST_BET)


LARGEST_BET = 0.9
"""Largest fraction of what may be lost that is bet."""


@dataclasses.dataclass(frozen=True)
class PayoffRule:
    """How scores and reports become gains; chosen on selection trials, applied to others.

    Args:
        order: α.
        swapped: whether P is the absent side and Q the present one.
        slope, offset: ln g = slope·score + offset, of present against absent.
        cap: most that a Q-trial can cost; None: white box, without Q-trials.
    """

    order: float
    swapped: bool
    slope: float
    offset: float
    cap: float | None

    def gains(self, scores: Scores) -> Array:
        """(n,) of each pair; the last trials of the larger class are left out."""
        assert scores.spent is not None
        count = min(len(scores.absent), len(scores.present))
        over, under = (~scores.bits, scores.bits) if self.swapped else (scores.bits, ~scores.bits)
        a = self.order
        gain = self._exp((a - 1) * (self._log_g(scores, over) - scores.spent[over]))[:count]
        if self.cap is None:
            return gain
        cost = (a - 1) * self._exp(a * self._log_g(scores, under) - (a - 1) * scores.spent[under])
        return np.asarray(a * gain - np.minimum(cost[:count], self.cap))

    def _log_g(self, scores: Scores, where: Array) -> Array:
        assert scores.spent is not None
        log_g = self.slope * np.clip(scores.values[where], -1e6, 1e6) + self.offset
        log_g = -log_g if self.swapped else log_g
        if self.cap is None:
            return np.asarray(log_g)
        a = self.order
        # where the second term of Young's inequality would be the cap
        log_g_at_cap = (math.log(self.cap / (a - 1)) + (a - 1) * scores.spent[where]) / a
        return np.minimum(log_g, log_g_at_cap)

    @staticmethod
    def _exp(value: Array) -> Array:
        # e^600 is near the largest double; a gain below the true one keeps the test valid.
        return np.exp(np.minimum(value, 600.0))


CAPS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
SLOPES, OFFSETS = np.geomspace(0.1, 4, 9), np.linspace(-1.5, 1.5, 7)
"""Of the standardised score: what a Gaussian shift of 0.1 to 4 standard deviations would have."""


def payoff_rules(selection: Scores, order: float, exact: bool) -> Iterator[PayoffRule]:
    """All candidates, known before any test trial is looked at."""
    mean = float(np.mean(selection.values))
    deviation = float(np.std(selection.values)) or 1.0
    shapes = [(1.0, 0.0)]  # the score is the log-likelihood ratio itself
    for slope in SLOPES:
        for offset in OFFSETS:
            shapes.append((slope / deviation, offset - slope * mean / deviation))
    for swapped in (False, True):
        if exact:
            yield PayoffRule(order, swapped, 1.0, 0.0, None)
        for slope, offset in shapes:
            for cap in CAPS:
                yield PayoffRule(order, swapped, slope, offset, cap)


def chosen_payoffs(fold: Fold, order: float) -> Payoffs:
    """The test trials under the rule whose wealth would have grown fastest on the selection."""
    selection, test = fold.selection, fold.test
    assert selection is not None
    if not len(selection.absent) or not len(selection.present):
        raise NotApplicable("the selection trials hold one class only")
    exact = test.log_ratio is not None and np.array_equal(test.values, test.log_ratio)
    candidates = []
    for rule in payoff_rules(selection, order, exact):
        rate, bet_fraction = growth(rule.gains(selection), rule.cap or 0.0)
        candidates.append((rate, bet_fraction, rule))
    _, bet_fraction, rule = max(candidates, key=lambda candidate: candidate[0])
    return Payoffs(rule.gains(test), rule.cap or 0.0, bet_fraction)


def growth(gain: Array, cap: float) -> tuple[float, float]:
    """Growth of log wealth a pair against E[W] ≤ 1 at nearly the best bet fraction, and that one.

    Where no bet grows, the growth is ≤ 0 and the fraction a small one.

    >>> rate, bet_fraction = growth(np.array([2.0, 2.0, 0.5, 0.0]), 0.0)
    >>> round(rate, 4), round(bet_fraction, 2)
    (0.0098, 0.15)
    """
    payoff = (gain - 1) / (1 + cap)
    mean = float(np.mean(payoff))
    # mean/second moment maximises the growth to second order; 1e-300 avoids 0/0.
    best = mean / float(np.mean(payoff**2) + 1e-300)
    bet_fraction = min(max(best, 0.02), LARGEST_BET / 2)
    return float(np.mean(np.log1p(bet_fraction * payoff))), bet_fraction


def log_wealth(rounds: Sequence[Payoffs], mean: float) -> Array:
    """(n,) log wealth after each pair of the e-process against E[W] ≤ ``mean``, from 0 on.

    Within a fold the bet is mixed over several fractions; each fold starts with all the wealth.
    """
    log_wealths = [np.zeros(1)]
    start = 0.0
    for fold in rounds:
        payoff = (fold.gain - mean) / (mean + fold.cap)  # ≥ −1
        bets = np.maximum(fold.bet_fractions[:, None] * payoff, -LARGEST_BET)
        by_fraction = np.cumsum(np.log1p(bets), axis=1)
        mixed = np.logaddexp.reduce(by_fraction, axis=0)
        log_wealths.append(start + mixed - math.log(len(by_fraction)))
        if len(fold.gain):
            start = float(log_wealths[-1][-1])
    return np.concatenate(log_wealths)
