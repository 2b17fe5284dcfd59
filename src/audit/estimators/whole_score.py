"""Scores → bound on ε by the whole score: an e-process that bets on how sure each guess is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.optimize import isotonic_regression

from audit.core import Array, Bound, Design, Evidence, Fold, NotApplicable, Scores
from audit.criteria import sweep, upper_rate
from audit.estimators import hedging
from audit.estimators.hedging import averaged, candidates, last_refuted
from audit.estimators.power import midpoint
from audit.privacy import STRICT, ApproximateDP, Notion, PureDP


@dataclass(frozen=True, config=STRICT)
class WholeScore:
    """Lower bound on ε by a test of every (ε, δ) that abstains where a score says little and bets
    more where it says more.

    Let a and b be functions of the score with values in [0, 1]: how much is bet that a trial is
    present, or absent. Under (ε, δ)-DP both E a(Y) ≤ e^ε·E a(X) + δ and E b(X) ≤ e^ε·E b(Y) + δ, X
    an absent trial and Y a present one. So

        a(Y) − e^ε·a(X) − δ·max a  +  b(X) − e^ε·b(Y) − δ·max b

    has mean ≤ 0 whatever the laws of X and Y are, and wealth that is staked on it reaches
    1/significance with probability ≤ significance. The functions come from trials that were looked
    at before, the selection's first.

    Args:
        significance: error probability, at the number of trials that was planned.

    References:
        Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (means of bounded variables by betting).
        Barlow, Bartholomew, Bremner, Brunk 1972, Statistical inference under order restrictions
            (isotonic regression).
        Steinke, Nasr, Jagielski 2023, arXiv:2305.08846 (abstention).
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "whole_score"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound on ε.

        Raises:
            NotApplicable: for other notions, evidence that was stopped, repeated runs, folds whose
                trials fitted each other, and folds without selection trials of both classes.
        """
        self.allow(evidence.design, notion)
        lower = lower_bound(readable(evidence), notion, self.significance)
        return Bound(self.name, notion, lower, self.significance, "finite-sample")

    def allow(self, design: Design, notion: Notion) -> None:
        """A notion with an ε, and see `allow_bets`."""
        delta_of(notion)
        allow_bets(design)

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound on expected counts of a two-valued score at FPR = FNR, in a random order; 0 for
        other notions."""
        if not isinstance(notion, ApproximateDP | PureDP) or not n_absent or not n_present:
            return 0.0
        rate, rng = midpoint(notion, parameter), np.random.default_rng(0)

        def side(share: float, trials: int) -> Array:
            return ((rng.permutation(trials) + 0.5) / trials < share).astype(float)

        known = [
            side(share, max(n // 2, 1)) for share, n in ((rate, n_absent), (1 - rate, n_present))
        ]
        sample = Sample(known[0], known[1], side(rate, n_absent), side(1 - rate, n_present))
        return lower_bound([sample], notion, self.significance)

    def power(
        self,
        notion: Notion,
        claim: float,
        p: ArrayLike,
        q: ArrayLike,
        absent: int,
        present: int,
        audits: int = 400,
    ) -> float:
        """Probability that ``claim`` is refuted, simulated from a fixed seed; standard
        error ≤ 0.5/√audits.

        Args:
            notion: pure or (ε, δ)-DP.
            claim: the ε that is tested.
            p, q: (k,) law of the k values of the score, ascending, of an absent and of a present
                trial.
            absent, present: test trials of each class; the selection has half as many.
            audits: how many are simulated.

        >>> rate = 1 / (1 + math.exp(1.25))  # randomised response of 1.25
        >>> WholeScore(significance=0.01).power(PureDP(), 1.0, [1 - rate, rate], [rate, 1 - rate],
        ...     1000, 1000, 20)
        1.0
        """
        rng, delta, eps = np.random.default_rng(0), delta_of(notion), np.array([claim])
        laws = [np.asarray(law, float) for law in (p, q)]
        sizes = (absent // 2, present // 2, absent, present)
        found = 0
        for _ in range(audits):
            drawn = (rng.choice(len(law), n, p=law) for law, n in zip(laws * 2, sizes, strict=True))
            found += bool(refuted(stages([Sample(*drawn)]), eps, delta, self.significance)[0])
        return found / audits


# --- what is read ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Sample:
    """Scores of one fold: the selection's, and the test's in an order independent of them."""

    known_absent: Array
    known_present: Array
    absent: Array
    present: Array

    @property
    def rounds(self) -> int:
        """As many as the smaller class of the test has trials."""
        return min(len(self.absent), len(self.present))

    def before(self, rounds: int) -> tuple[Array, Array]:
        """Scores of both classes that are known after so many rounds."""
        total = max(self.rounds, 1)
        tested_absent = self.absent[: rounds * len(self.absent) // total]
        tested_present = self.present[: rounds * len(self.present) // total]
        return (
            np.concatenate([self.known_absent, tested_absent]),
            np.concatenate([self.known_present, tested_present]),
        )

    def between(self, first: int, last: int) -> tuple[Array, Array]:
        """Test scores of both classes that these rounds consist of."""

        def part(side: Array) -> Array:
            start = first * len(side) // self.rounds
            end = last * len(side) // self.rounds
            return side[start:end]

        return part(self.absent), part(self.present)


def delta_of(notion: Notion) -> float:
    """δ of a pure or approximate notion.

    Raises:
        NotApplicable: for others.
    """
    if isinstance(notion, PureDP):
        return 0.0
    if isinstance(notion, ApproximateDP):
        return notion.delta
    raise NotApplicable(
        "the whole score is bet on for pure and (ε, δ) claims; for GDP there is curve_betting"
    )


def allow_bets(design: Design) -> None:
    """Raise NotApplicable if evidence of this design cannot be bet on by its whole score.

    Raises:
        NotApplicable: see `WholeScore`.
    """
    if design.stopped:
        raise NotApplicable(
            "the number of trials depended on the data; only anytime bounds hold, such as betting"
        )
    if design.runs != "independent":
        raise NotApplicable("betting needs independent trials, each tested once")
    if design.folds == "kfold":
        raise NotApplicable(
            "betting needs folds that are tested in the order in which they are used, not K-fold"
        )
    if not design.selection:
        raise NotApplicable(NEEDS_SELECTION)


NEEDS_SELECTION = (
    "the whole score needs selection trials of both classes, which say how much to bet on which "
    "score"
)


def readable(evidence: Evidence) -> list[Sample]:
    """The folds' scores, each side of a test in a random order.

    Raises:
        NotApplicable: see `WholeScore`.
    """
    allow_bets(evidence.design)
    # Trials may arrive sorted; then the bets, which learn from earlier rounds, would know the later
    # ones.
    rng = np.random.default_rng(0)
    return [_sample(fold, rng) for fold in evidence.folds]


def _sample(fold: Fold, rng: np.random.Generator) -> Sample:
    known: Scores | None = fold.selection
    if known is None or not len(known.absent) or not len(known.present):
        raise NotApplicable(NEEDS_SELECTION)
    return Sample(
        known.absent,
        known.present,
        rng.permutation(fold.test.absent),
        rng.permutation(fold.test.present),
    )


# --- how much is bet on which score ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Levels:
    """Isotonic estimate of the probability that a trial with some score is present.

    The prior is 50:50.

    Args:
        starts: (k,) the lowest score of each level, ascending.
        posterior: (k,) the estimate, ascending.
        mass: (k,) the level's share of absent trials plus its share of present ones.
    """

    starts: Array
    posterior: Array
    mass: Array

    @staticmethod
    def fit(absent: Array, present: Array) -> Levels:
        """Least squares among estimates that rise with the score: both classes weigh the same.

        >>> levels = Levels.fit(np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]))
        >>> levels.starts.tolist()
        [0.0, 1.0]
        >>> levels.posterior.round(3).tolist()
        [0.333, 0.667]
        >>> levels.mass.round(3).tolist()
        [1.0, 1.0]
        """
        values = np.unique(np.concatenate([absent, present]))

        def share_at_each_value(side: Array) -> Array:
            counts = np.bincount(np.searchsorted(values, side), minlength=len(values))
            return counts / len(side)

        share_absent = share_at_each_value(absent)
        share_present = share_at_each_value(present)
        mass = share_absent + share_present
        fitted = isotonic_regression(share_present / mass, weights=mass)
        first = fitted.blocks[:-1]
        return Levels(values[first], fitted.x[first], np.add.reduceat(mass, first))

    def of(self, scores: Array) -> Array:
        """(n,) which level each score is on; scores below all others are on the lowest."""
        return np.maximum(np.searchsorted(self.starts, scores, side="right") - 1, 0)


PRIOR = 100.0
"""Trials a side at the claim's own odds that each level is mixed with.

An excess of 0.045 over the odds of the claim is as large as the noise of so many. Without them the
bet follows noise: power 0.60 in place of 0.74 for a Laplace.
"""
CAPS = np.linspace(1 / 16, 1, 16)
"""Shares of the largest excess that the excess is cut at: δ is paid for the largest bet."""
GROWTH = 1.15
"""The levels are fitted again whenever so many times as many trials are known.

That gives a power of 0.74 in place of 0.70.
"""


def bets(
    levels: Levels, trials: float, eps: Array, delta: float, parts: tuple[float, float]
) -> tuple[Array, Array]:
    """How much is bet on "present" and on "absent" at each level, both (m, k), ≥ 0.

    They are scaled so that one round's gains have variance 1.

    Args:
        levels: k of them.
        trials: a side, that the levels were fitted on.
        eps: (m,) to be tested.
        delta: of the notion.
        parts: 1 over the absent, and over the present, trials of a round.
    """
    odds = np.exp(eps)[:, None]
    largest_posterior = odds / (1 + odds)  # that the claim allows
    weight = levels.mass * trials / 2

    def bet_on(posterior: Array, noise: Array) -> tuple[Array, Array]:
        excess = np.maximum((posterior - largest_posterior) * weight / (weight + PRIOR), 0.0)
        return _direction(excess, levels.mass, odds, delta, noise / (1 + odds))

    noise_if_present = odds**2 * parts[0] + odds * parts[1]
    noise_if_absent = odds * parts[0] + odds**2 * parts[1]
    on_present, present_noise = bet_on(levels.posterior, noise_if_present)
    on_absent, absent_noise = bet_on(1 - levels.posterior, noise_if_absent)
    present_variance = np.sum(levels.mass * on_present**2, axis=1) * present_noise
    absent_variance = np.sum(levels.mass * on_absent**2, axis=1) * absent_noise
    variance = present_variance + absent_variance
    is_bet = variance > 0
    scale = np.where(is_bet, 1 / np.sqrt(np.where(is_bet, variance, 1.0)), 0.0)[:, None]
    return on_present * scale, on_absent * scale


def _direction(
    excess: Array, mass: Array, odds: Array, delta: float, noise: Array
) -> tuple[Array, Array]:
    """(m, k) bets in the direction of the excess, and (m,) the noise as it is.

    The bet is the excess, cut where mean/deviation is largest, times mean/variance. A bet of the
    excess maximises mean/deviation where δ = 0. The δ that is paid for the largest bet makes it
    worth while to cut it, and the whole direction is left out where nothing remains.
    """
    caps = CAPS if delta else CAPS[-1:]
    # (m, caps, k)
    largest = np.max(excess, axis=1)[:, None, None]
    bet = np.minimum(excess[:, None, :], caps[:, None] * largest)
    gained = np.sum((1 + odds)[:, :, None] * mass * excess[:, None, :] * bet, axis=2)
    mean = gained - delta * np.max(bet, axis=2)
    variance = noise * np.sum(mass * bet**2, axis=2)
    variance = np.where(variance > 0, variance, 1.0)  # 0 where nothing is bet: no division by it
    best = np.argmax(mean / np.sqrt(variance), axis=1)
    row = np.arange(len(excess))
    factor = np.maximum(mean[row, best], 0.0) / variance[row, best]
    return bet[row, best] * factor[:, None], noise[:, 0]


# --- the test -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Stage:
    """Rounds that share their levels.

    Args:
        levels: fitted on what was known before the first of these rounds.
        trials: a side, that they were fitted on.
        absent, present: the level of each test trial of these rounds.
        rounds: their number.
    """

    levels: Levels
    trials: int
    absent: Array
    present: Array
    rounds: int

    def gains(self, eps: Array, delta: float) -> tuple[Array, Array]:
        """Gains (m, rounds) against each ε (m,), and the largest possible loss (m,) of a round."""
        odds = np.exp(eps)[:, None]
        parts = (self.rounds / len(self.absent), self.rounds / len(self.present))
        present, absent = bets(self.levels, self.trials, eps, delta, parts)
        # (m, levels): what a trial of each level gains
        of_absent = absent - odds * present
        of_present = present - odds * absent
        paid = delta * (np.max(present, axis=1) + np.max(absent, axis=1))
        absent_gains = averaged(of_absent[:, self.absent], self.rounds)
        present_gains = averaged(of_present[:, self.present], self.rounds)
        gains = absent_gains + present_gains - paid[:, None]
        largest_loss = paid - np.min(of_absent, axis=1) - np.min(of_present, axis=1)
        return gains, largest_loss


def stages(samples: Sequence[Sample]) -> list[Stage]:
    """All rounds of all folds: a new stage whenever GROWTH times as many trials are known."""
    played = []
    for sample in samples:
        first = 0
        while first < sample.rounds:
            known = sample.before(first)
            fewest = min(map(len, known))
            levels = Levels.fit(*known)
            last = min(sample.rounds, first + math.ceil((GROWTH - 1) * fewest))
            absent, present = map(levels.of, sample.between(first, last))
            played.append(Stage(levels, fewest, absent, present, last - first))
            first = last
    return played


def refuted(played: Sequence[Stage], eps: Array, delta: float, significance: float) -> Array:
    """(m,) whether the wealth against each ε reaches 1/significance."""
    gains, worst = zip(*(stage.gains(eps, delta) for stage in played), strict=True)
    largest = np.maximum(np.max(worst, axis=0), 1e-9)  # 0 where nothing is bet
    return hedging.refuted(np.concatenate(gains, axis=1), np.ones(len(eps)), largest, significance)


def lower_bound(samples: Sequence[Sample], notion: Notion, significance: float) -> float:
    """The last ε that is rejected before the first that is not, scanning upward from 0.

    0 where a class is empty.
    """
    played = stages(samples)
    delta = delta_of(notion)

    def is_refuted(eps: Array) -> Array:
        return refuted(played, eps, delta, significance)

    return last_refuted(is_refuted, grids(samples, notion))


def grids(samples: Sequence[Sample], notion: Notion) -> Iterator[Array]:
    """Ascending ε that are tested, in chunks; known before the test. None where a class is
    empty."""
    rounds = sum(sample.rounds for sample in samples)
    if rounds:
        yield from candidates(_sure(samples[0], notion), math.sqrt(2 / rounds))


def _sure(sample: Sample, notion: Notion) -> float:
    """An ε that the first selection leaves no doubt about.

    It is Clopper–Pearson's bound at 1e-4, at the best of 100 thresholds.
    """
    sides = (sample.known_absent, sample.known_present)
    values = np.concatenate(sides)
    index = np.arange(len(values))
    _, fpr, fnr = sweep(Scores(values, index >= len(sides[0]), index, index), 100)
    upper = (
        upper_rate(rate * len(side), (1 - rate) * len(side), 5e-5)
        for rate, side in zip((fpr, fnr), sides, strict=True)
    )
    return min(float(np.max(notion.parameter(*upper))), hedging.LARGEST / 2)
