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
    """The largest s such that a gambler gets rich against "E[W] ≤ e^((α − 1)s)"; s > 0 says that
    reports are too low.

    Black box: whatever g ≥ 0, Young's inequality a^α ≥ α·a·g^(α − 1) − (α − 1)·g^α at a = p/q gives

        E_P[α·e^((1 − α)ε)·g^(α − 1)] − (α − 1)·E_Q[e^((1 − α)ε)·g^α] ≤ E_Q[W] ≤ 1,   equal at
        g = p/q.

    g is a function of the attack's score, chosen on the selection trials and capped so that the
    second term is at most C; then each pair of a P- and a Q-trial is a bounded game. White box,
    where the scores are the exact log-likelihood ratio: V = e^((1 − α)ε)·(p/q)^(α − 1) on P-trials
    has mean E_Q[W] too, so it is an e-value without any cap. Which game, which g, which cap, and
    whether P is present or absent: what would have grown fastest on the selection.

    Args:
        significance: error probability, over the whole course.

    References:
        arXiv:2509.22213 (E[W] ≤ 1); Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (betting);
            REFERENCE.md, section 6.
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
        rounds = [chosen_round(fold, notion.order) for fold in evidence.folds]
        lower = math.log(self.least_mean(rounds)) / (notion.order - 1)
        return Bound(self.name, notion, lower, self.significance, "finite-sample", anytime=True)

    def allow(self, design: Design, notion: Notion) -> None:
        """A claim about reports, and independent trials on folds that are a martingale, with
        selection trials."""
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
        """0: it depends on how a mechanism's reports go with its leaks, which the claim does not
        say."""
        return 0.0

    def least_mean(self, rounds: Sequence[Round]) -> float:
        """The least m ≥ 1 that E[W] ≤ m is not rejected at; wealth falls in m, so by bisection."""

        def stands(mean: float) -> bool:
            return float(np.max(log_wealth(rounds, mean))) < -math.log(self.significance)

        low, high = 0.0, 1.0  # of ln m
        if stands(1.0):
            return 1.0
        while not stands(math.exp(high)):
            low, high = high, 2 * high
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if stands(math.exp(middle)) else (middle, high)
        return math.exp(low)


# --- games ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Round:
    """A game whose every gain is ≥ −cap and has mean E[W] at most, and how much to put on it.

    Args:
        gain: (n,) in the order of the stream.
        cap: C ≥ 0.
        stake: share of what may be lost that grew fastest where the game was chosen, in (0, 1).
    """

    gain: Array
    cap: float
    stake: float

    @property
    def stakes(self) -> Array:
        """(4,) stakes around the chosen one, which the money is shared among."""
        return np.minimum(self.stake * np.array([0.25, 0.5, 1.0, 2.0]), MOST)


MOST = 0.9
"""Largest stake."""


@dataclasses.dataclass(frozen=True)
class Game:
    """How scores and reports become gains; chosen on selection trials, applied to others.

    Args:
        order: α.
        swapped: whether P is the absent side and Q the present one.
        slope, offset: ln g = slope·score + offset, of present against absent.
        cap: most that a Q-trial can cost; None: the white-box game, which has no Q-trials.
    """

    order: float
    swapped: bool
    slope: float
    offset: float
    cap: float | None

    def gains(self, scores: Scores) -> Array:
        """(n,) of each pair; of a class with more trials than the other the last ones are left
        out."""
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
        believed = self.slope * np.clip(scores.values[where], -1e6, 1e6) + self.offset
        believed = -believed if self.swapped else believed
        if self.cap is None:
            return np.asarray(believed)
        a = self.order
        return np.minimum(
            believed, (math.log(self.cap / (a - 1)) + (a - 1) * scores.spent[where]) / a
        )

    @staticmethod
    def _exp(value: Array) -> Array:
        return np.exp(np.minimum(value, 600.0))  # a smaller gain than the true one is safe


CAPS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
SLOPES, OFFSETS = np.geomspace(0.1, 4, 9), np.linspace(-1.5, 1.5, 7)
"""Of the standardised score: what a Gaussian shift of 0.1 to 4 standard deviations would have."""


def games(selection: Scores, order: float, exact: bool) -> Iterator[Game]:
    """All candidates, known before any test trial is looked at."""
    middle, width = float(np.mean(selection.values)), float(np.std(selection.values)) or 1.0
    shapes = [(1.0, 0.0), *((b / width, a - b * middle / width) for b in SLOPES for a in OFFSETS)]
    for swapped in (False, True):
        if exact:
            yield Game(order, swapped, 1.0, 0.0, None)
        for slope, offset in shapes:
            for cap in CAPS:
                yield Game(order, swapped, slope, offset, cap)


def chosen_round(fold: Fold, order: float) -> Round:
    """The test trials in the game that would have grown fastest on the selection trials."""
    selection, test = fold.selection, fold.test
    assert selection is not None
    if not len(selection.absent) or not len(selection.present):
        raise NotApplicable("the selection trials hold one class only")
    exact = test.log_ratio is not None and np.array_equal(test.values, test.log_ratio)
    ranked = [
        (*growth(game.gains(selection), game.cap or 0.0), game)
        for game in games(selection, order, exact)
    ]
    _, stake, game = max(ranked, key=lambda each: each[0])
    return Round(game.gains(test), game.cap or 0.0, stake)


def growth(gain: Array, cap: float) -> tuple[float, float]:
    """Log wealth a pair against E[W] ≤ 1 at nearly the best stake, and that stake; (≤ 0, a small
    one) where none grows.

    >>> rate, stake = growth(np.array([2.0, 2.0, 0.5, 0.0]), 0.0)
    >>> round(rate, 4), round(stake, 2)
    (0.0098, 0.15)
    """
    payoff = (gain - 1) / (1 + cap)
    mean = float(np.mean(payoff))
    stake = min(max(mean / float(np.mean(payoff**2) + 1e-300), 0.02), MOST / 2)
    return float(np.mean(np.log1p(stake * payoff))), stake


def log_wealth(rounds: Sequence[Round], mean: float) -> Array:
    """(n,) log wealth after each pair of a gambler who began with 1 and bets against
    E[W] ≤ ``mean``.

    Within a round the money is shared among stakes and left there; rounds follow each other with
    all that there is.
    """
    found, start = [np.zeros(1)], 0.0
    for each in rounds:
        payoff = (each.gain - mean) / (mean + each.cap)  # ≥ −1
        become = np.cumsum(np.log1p(np.maximum(each.stakes[:, None] * payoff, -MOST)), axis=1)
        found.append(start + np.logaddexp.reduce(become, axis=0) - math.log(len(become)))
        start = float(found[-1][-1]) if len(each.gain) else start
    return np.concatenate(found)
