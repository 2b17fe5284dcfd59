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
    """The last parameter that a gambler gets rich against, before the first that stands.

    A parameter says that no attack comes below its curve; so the payoff X − κY − c of a pair, X
    whether the present trial was called present, Y whether the absent one was, is no favourable
    game for a tangent's slope κ and intercept. Money that is put on it is a supermartingale, which
    ever reaches 1/significance with probability ≤ significance: one may look after each pair, and
    stop whenever one likes. Trials must come in an order that knows nothing of their scores, as
    played ones do; `audit.bound` and `audit.game.Stored` shuffle those that come from elsewhere.

    Args:
        significance: error probability, over the whole course.

    References:
        Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (means of bounded variables by betting).
        Cover 1991, Universal portfolios, Mathematical Finance 1 (money that is shared among
            stakes).
        Ville 1939 (the inequality).
        REFERENCE.md, section 3 (payoffs for (ε, δ)-DP and GDP).
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
        """The bound on expected counts at FPR = FNR, in a random order; half as many pairs chose
        the stake.

        0 where a class is empty.
        """
        pairs = min(n_absent, n_present)
        if not pairs:
            return 0.0
        rate = midpoint(notion, parameter)
        rng = np.random.default_rng(0)
        rank = (rng.permutation(pairs) + 0.5) / pairs
        said_absent, said_present = rank < rate, rng.permutation(rank) < 1 - rate
        return self._lower((Round(said_present, said_absent, 1 - rate, rate, pairs // 2),), notion)

    def _lower(self, rounds: Sequence[Round], notion: Notion) -> float:
        grid, last = parameters(notion), 0.0
        for start in range(0, len(grid) if any(map(len, rounds)) else 0, CHUNK):
            chunk = grid[start : start + CHUNK]
            best = np.max(log_wealth(rounds, notion, chunk, LOOKS), axis=1)
            stands = np.flatnonzero(best < -math.log(self.significance))
            if len(stands):
                return float(chunk[stands[0] - 1]) if stands[0] else last
            last = float(chunk[-1])
        return last


CHUNK, LOOKS = 16, 100
"""Parameters that are looked at together, and how often a bound looks at each round."""


def parameters(notion: Notion) -> Array:
    """Ascending parameters, 0 the first, known before any trial is played: so one true one has to
    be refuted for an error.

    Their curves pass through FPR = FNR = Φ(−μ/2) for μ in steps of 0.005, and of 1 % from ½ on, up
    to 16.

    >>> from audit.privacy import GDP
    >>> parameters(GDP())[:3].round(3).tolist()
    [0.0, 0.005, 0.01]
    """
    mu = np.concatenate([np.arange(0, 0.5, 0.005), np.geomspace(0.5, 16, 350)])
    rate = ndtr(-mu / 2)
    found = np.unique(np.append(0.0, notion.parameter(rate, rate)))
    return found[np.isfinite(found)]


def wealth(folds: Sequence[Fold], notion: Notion, parameter: float) -> Array:
    """(pairs,) the logarithm of what a gambler has after each pair, who began with 1 and bets
    against ``parameter``.

    Raises:
        NotApplicable: see `Betting`.
    """
    return log_wealth(stream(folds), notion, np.array([parameter]))[0]


# --- the pairs ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Round:
    """The pairs of one fold, in the order of the stream, and what was known before they were looked
    at.

    Args:
        present, absent: (n,) whether the pair's present and absent trial were called present.
        tpr, fpr: how often the selection's present and absent trials were, inside (0, 1).
        known: number of pairs of the selection.
    """

    present: Array
    absent: Array
    tpr: float
    fpr: float
    known: int

    def __len__(self) -> int:
        return len(self.present)

    def seen(self, after: Array) -> Array:
        """(4, k) how many of the first ``after`` (k,) pairs were (0, 0), (1, 0), (0, 1), (1, 1) as
        (present, absent)."""
        kinds = self.present + 2 * self.absent
        return np.array([np.append(0, np.cumsum(kinds == kind))[after] for kind in range(4)], float)

    def guessed(self) -> Array:
        """(4,) how often each kind is to be expected, going by the selection."""
        return np.outer([1 - self.fpr, self.fpr], [1 - self.tpr, self.tpr]).ravel()


def allow_pairs(design: Design) -> None:
    """What a bet on pair after pair asks for.

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


def stream(folds: Sequence[Fold]) -> tuple[Round, ...]:
    """The pairs of all folds; of a fold with more trials of one class, the last ones are left out.

    Raises:
        NotApplicable: see `Betting`.
    """
    allow_pairs(Evidence(tuple(folds)).design)
    return tuple(_round(fold) for fold in folds)


def _round(fold: Fold) -> Round:
    assert fold.selection is not None
    pairs = min(len(fold.test.absent), len(fold.test.present))
    chosen = fold.selection.count(fold.threshold)
    # Half an error more of each kind, so that no rate is 0 or 1.
    tpr = (chosen.tp + 0.5) / (chosen.fn + chosen.tp + 1)
    fpr = (chosen.fp + 0.5) / (chosen.fp + chosen.tn + 1)
    known = min(chosen.fp + chosen.tn, chosen.fn + chosen.tp)
    return Round(
        fold.test.present[:pairs] >= fold.threshold,
        fold.test.absent[:pairs] >= fold.threshold,
        tpr,
        fpr,
        known,
    )


# --- the bet --------------------------------------------------------------------------------------


def log_wealth(
    rounds: Sequence[Round], notion: Notion, parameter: Array, looks: int | None = None
) -> Array:
    """(m, k) log wealth against each parameter (m,), as it goes on from pair to pair.

    A notion of two pieces is bet against with half the money on each.

    Args:
        rounds: of pairs.
        notion: the family.
        parameter: (m,).
        looks: how often to look in each round, about; None: after each pair. Fewer looks find less
            and stay valid.
    """
    pieces = [_against(rounds, piece, parameter, looks) for piece in notion.pieces()]
    return np.asarray(functools.reduce(np.logaddexp, pieces)) - math.log(len(pieces))


def _against(rounds: Sequence[Round], piece: Notion, parameter: Array, looks: int | None) -> Array:
    """Rounds follow each other with all the money that there is, but with new stakes."""
    found = [np.zeros((len(parameter), 0))]
    start = np.zeros((len(parameter), 1))
    for each in rounds:
        if len(each):
            found.append(start + _play(each, piece, parameter, looks))
            start = found[-1][:, -1:]
    return np.concatenate(found, axis=1)


def _play(pairs: Round, piece: Notion, parameter: Array, looks: int | None) -> Array:
    """(m, k) log wealth within a round, of a gambler who shares his money among STAKES and leaves
    it there.

    At every moment that is a bet of one stake, the mean of them weighted by what they have become,
    so it learns which is right. At first they are weighted by what each would have become on the
    selection trials.
    """
    slope, most = tangent(lambda alpha: piece.beta(alpha, parameter), pairs.fpr)
    # of each kind of pair
    payoff = np.array([0 * slope, 0 * slope + 1, -slope, 1 - slope]).T - most[:, None]
    # (m, stakes, 4)
    growth = np.log1p((STAKES[:, None] / (slope + most)[:, None, None]) * payoff[:, None, :])
    prior = growth @ (pairs.known * pairs.guessed())
    every = max(1, len(pairs) // looks) if looks else 1
    after = np.unique(np.append(np.arange(every, len(pairs), every), len(pairs)))
    become = prior[:, :, None] + growth @ pairs.seen(after)
    return np.logaddexp.reduce(become, axis=1) - np.logaddexp.reduce(prior, axis=1)[:, None]


STAKES = np.append(0.0, np.geomspace(0.008, 0.8, 16))
"""Shares of what may be lost in one pair, whose stakes the gambler spreads his money over."""


def tangent(curve: Callable[[Array | float], Array], fpr: float) -> tuple[Array, Array]:
    """Slope κ ≥ 0 and intercept c of TPR ≤ c + κ·FPR, which all points allowed by convex curves
    (m,) keep; near ``fpr``.

    κ is a chord's slope on [a, b] around fpr. A convex curve is not below the lines through its
    points on either side of a chord, so c = 1 − min(β + κ·alpha) is bounded, not approximated, at
    corners too.

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
"""Kept for the rounding of curves."""
