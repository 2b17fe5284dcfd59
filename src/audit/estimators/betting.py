"""Scores → bound in any notion, at any number of trials: a bet on each pair of trials."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import ndtr

from audit.core import Array, Bound, Design, Evidence, Fold, NotApplicable
from audit.estimators.power import midpoint
from audit.privacy import STRICT, Notion


@dataclass(frozen=True, config=STRICT)
class Betting:
    """Lower confidence bound by inverting a betting test.

    The bound is the largest parameter of a grid that is rejected at level ``significance``,
    scanning upward and stopping at the first one that is not.

    A parameter says that no attack comes below its curve. X is 1 where a pair's present trial was
    called present, Y where its absent trial was. For a tangent of slope κ and intercept c the
    payoff X − κY − c then has no positive mean, so the wealth of a bettor who starts with 1 is a
    non-negative supermartingale, an e-process. It ever reaches 1/significance with probability
    ≤ significance (Ville), so one may look after each pair and stop at any time. The order of the
    trials must not depend on their scores. That holds for played trials; `audit.bound` and
    `audit.game.Stored` shuffle those that come from elsewhere.

    Args:
        significance: error probability, at all numbers of trials at once.

    References:
        Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (means of bounded variables by betting).
        Cover 1991, Universal portfolios, Mathematical Finance 1 (a mixture of bet fractions).
        Ville 1939 (the inequality).
        docs/method.md (payoffs for (ε, δ)-DP and GDP).
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "betting"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound that holds at every number of trials at once.

        Raises:
            NotApplicable: for repeated runs, folds whose trials fitted each other, and folds
                without selection trials.
        """
        lower = self._lower(stream(evidence.folds), notion)
        return Bound(self.name, notion, lower, self.significance, "finite-sample", anytime=True)

    def allow(self, design: Design, notion: Notion) -> None:
        """Whatever the notion; see `allow_pairs`."""
        allow_pairs(design)

    def rejects(self, evidence: Evidence, notion: Notion, claim: float) -> bool:
        """Whether the wealth against this one parameter ever reaches 1/significance.

        Raises:
            NotApplicable: as the bound.
        """
        logs = log_wealth(stream(evidence.folds), notion, np.array([claim]), LOOKS)
        return bool(np.max(logs, initial=0.0) >= -math.log(self.significance))

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound on expected counts at FPR = FNR, in a random order.

        The bet is chosen on half as many pairs.

        0 where a class is empty.
        """
        pairs = min(n_absent, n_present)
        if not pairs:
            return 0.0
        rate = midpoint(notion, parameter)
        rng = np.random.default_rng(0)
        rank = (rng.permutation(pairs) + 0.5) / pairs
        absent_called = rank < rate
        present_called = rng.permutation(rank) < 1 - rate
        fold = PairedCalls(present_called, absent_called, 1 - rate, rate, pairs // 2)
        return self._lower((fold,), notion)

    def _lower(self, folds: Sequence[PairedCalls], notion: Notion) -> float:
        if not any(map(len, folds)):
            return 0.0
        grid = parameters(notion)
        largest_rejected = 0.0
        for start in range(0, len(grid), CHUNK):
            chunk = grid[start : start + CHUNK]
            highest_log_wealth = np.max(log_wealth(folds, notion, chunk, LOOKS), axis=1)
            not_rejected = np.flatnonzero(highest_log_wealth < -math.log(self.significance))
            if len(not_rejected):
                first = not_rejected[0]
                return float(chunk[first - 1]) if first else largest_rejected
            largest_rejected = float(chunk[-1])
        return largest_rejected


CHUNK = 16
"""Parameters that are tested together."""

LOOKS = 100
"""How often a bound looks at the wealth in each fold."""


def parameters(notion: Notion) -> Array:
    """Ascending parameters, 0 the first, fixed before any trial is played.

    So the bound is wrong only where one fixed true parameter is rejected. Their curves pass through
    FPR = FNR = Φ(−μ/2) for μ in steps of 0.005, and of 1 % from ½ on, up to 16.

    >>> from audit.privacy import GDP
    >>> parameters(GDP())[:3].round(3).tolist()
    [0.0, 0.005, 0.01]
    """
    mu = np.concatenate([np.arange(0, 0.5, 0.005), np.geomspace(0.5, 16, 350)])
    rate = ndtr(-mu / 2)
    grid = np.unique(np.append(0.0, notion.parameter(rate, rate)))
    return grid[np.isfinite(grid)]


def wealth(folds: Sequence[Fold], notion: Notion, parameter: float) -> Array:
    """(pairs,) log wealth after each pair of the e-process against ``parameter``, from 0 on.

    Raises:
        NotApplicable: see `Betting`.
    """
    return log_wealth(stream(folds), notion, np.array([parameter]))[0]


# --- the pairs ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class PairedCalls:
    """What the attack called the test pairs of one fold, and its rates on the selection trials.

    Args:
        present, absent: (n,) whether the pair's present and absent trial were called present, in
            the order of the stream.
        tpr, fpr: share of the selection's present and absent trials that were, inside (0, 1).
        known: number of pairs of the selection.
    """

    present: Array
    absent: Array
    tpr: float
    fpr: float
    known: int

    def __len__(self) -> int:
        return len(self.present)

    def counts(self, after: Array) -> Array:
        """(4, k) how many of the first ``after`` (k,) pairs were of each kind.

        The kinds are (0, 0), (1, 0), (0, 1), (1, 1) as (present, absent).
        """
        kinds = self.present + 2 * self.absent
        running_counts = (np.append(0, np.cumsum(kinds == kind)) for kind in range(4))
        return np.array([count[after] for count in running_counts], float)

    def expected_shares(self) -> Array:
        """(4,) the share of pairs of each kind that the selection's rates lead to expect."""
        return np.outer([1 - self.fpr, self.fpr], [1 - self.tpr, self.tpr]).ravel()


def allow_pairs(design: Design) -> None:
    """Raise NotApplicable if evidence of this design cannot be bet on pair after pair.

    Raises:
        NotApplicable: see `Betting`.
    """
    if design.runs != "independent":
        raise NotApplicable("betting needs independent trials, each tested once")
    if design.folds == "kfold":
        raise NotApplicable(
            "betting needs folds that are tested in the order in which they are used, not K-fold"
        )
    if not design.selection:
        raise NotApplicable("betting needs selection trials, which say where to bet")


def stream(folds: Sequence[Fold]) -> tuple[PairedCalls, ...]:
    """The pairs of all folds; of a fold with more trials of one class, the last ones are left out.

    Raises:
        NotApplicable: see `Betting`.
    """
    allow_pairs(Evidence(tuple(folds)).design)
    return tuple(_paired_calls(fold) for fold in folds)


def _paired_calls(fold: Fold) -> PairedCalls:
    assert fold.selection is not None
    pairs = min(len(fold.test.absent), len(fold.test.present))
    chosen = fold.selection.count(fold.threshold)
    # Half an error more of each kind, so that no rate is 0 or 1.
    tpr = (chosen.tp + 0.5) / (chosen.fn + chosen.tp + 1)
    fpr = (chosen.fp + 0.5) / (chosen.fp + chosen.tn + 1)
    known = min(chosen.fp + chosen.tn, chosen.fn + chosen.tp)
    return PairedCalls(
        fold.test.present[:pairs] >= fold.threshold,
        fold.test.absent[:pairs] >= fold.threshold,
        tpr,
        fpr,
        known,
    )


# --- the bet --------------------------------------------------------------------------------------


def log_wealth(
    folds: Sequence[PairedCalls], notion: Notion, parameter: Array, looks: int | None = None
) -> Array:
    """(m, k) log wealth against each parameter (m,), as it goes on from pair to pair.

    Against a notion of two pieces half of the wealth is bet on each.

    Args:
        folds: the calls of each fold.
        notion: the family.
        parameter: (m,).
        looks: how often to look in each fold, about; None: after each pair. Fewer looks reject
            less and stay valid.
    """
    pieces = [_against(folds, piece, parameter, looks) for piece in notion.pieces()]
    return np.asarray(functools.reduce(np.logaddexp, pieces)) - math.log(len(pieces))


def _against(
    folds: Sequence[PairedCalls], piece: Notion, parameter: Array, looks: int | None
) -> Array:
    """Folds follow each other: each starts with all the wealth there is, and with a new bet."""
    log_wealths = [np.zeros((len(parameter), 0))]
    start = np.zeros((len(parameter), 1))
    for fold in folds:
        if not len(fold):
            continue
        log_wealths.append(start + _within_fold(fold, piece, parameter, looks))
        start = log_wealths[-1][:, -1:]
    return np.concatenate(log_wealths, axis=1)


def _within_fold(pairs: PairedCalls, piece: Notion, parameter: Array, looks: int | None) -> Array:
    """(m, k) log wealth within a fold, mixed over BET_FRACTIONS (Cover's universal portfolio).

    Such a mixture bets, at every pair, the mean of the fractions weighted by the wealth of each, so
    it learns which one is right. It starts from the weights that each would have reached on the
    selection trials.
    """
    slope, intercept = tangent(lambda alpha: piece.beta(alpha, parameter), pairs.fpr)
    zero = 0 * slope
    one = zero + 1
    # (m, 4): X − κY − c of each kind of pair
    payoff = np.array([zero, one, -slope, 1 - slope]).T - intercept[:, None]
    # The most that one pair can lose is κ + c, so that a fraction of it below 1 keeps wealth > 0.
    largest_loss = (slope + intercept)[:, None, None]
    # (m, fractions, 4)
    growth = np.log1p((BET_FRACTIONS[:, None] / largest_loss) * payoff[:, None, :])
    prior = growth @ (pairs.known * pairs.expected_shares())
    step = max(1, len(pairs) // looks) if looks else 1
    after = np.unique(np.append(np.arange(step, len(pairs), step), len(pairs)))
    by_fraction = prior[:, :, None] + growth @ pairs.counts(after)
    return np.logaddexp.reduce(by_fraction, axis=1) - np.logaddexp.reduce(prior, axis=1)[:, None]


BET_FRACTIONS = np.append(0.0, np.geomspace(0.008, 0.8, 16))
"""Fractions of the largest possible loss of a pair, over which the bet is mixed."""


def tangent(curve: Callable[[Array | float], Array], fpr: float) -> tuple[Array, Array]:
    """Slope κ ≥ 0 and intercept c of a line TPR ≤ c + κ·FPR that touches convex curves near
    ``fpr``.

    All points that the curves (m,) allow keep it. κ is a chord's slope on [a, b] around fpr. A
    convex curve is not below the lines through its points on either side of a chord, so
    c = 1 − min(β + κ·alpha) is bounded, not approximated, at corners too.

    >>> from audit.privacy import GDP
    >>> slope, most = tangent(lambda alpha: GDP().beta(alpha, np.array([1.0])), 0.3085375387259869)
    >>> slope.round(5).tolist(), most.round(5).tolist()
    ([1.0], [0.38293])
    """
    near = min(fpr, 1 - fpr) / 1000
    alpha = fpr + near * np.array([-3, -1, 1, 3])
    outer, a, b, other = (np.asarray(curve(x), float) for x in alpha)
    slope = np.maximum((a - b) / (2 * near), 0.0)
    # β + κ·alpha falls on the left and rises on the right; in between it is above both outer
    # chords' continuations.
    low, left, right, high = (
        value + slope * x for value, x in zip((outer, a, b, other), alpha, strict=True)
    )
    fall, rise = np.maximum(low - left, 0.0), np.maximum(high - right, 0.0)
    least = np.minimum(left, right) - np.minimum(fall, rise)
    return slope, 1 - least + MARGIN


MARGIN = 1e-9
"""Added to the intercept, for the rounding of curves."""
