"""Betting tests of a fixed number of rounds: does the wealth reach 1/significance at the end?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from scipy.special import log_ndtr, ndtri

from audit.core import Array

SLACK = 1.1
"""By how much the goal is set above 1/significance, since the last bets are of a finite size."""
ROUNDS_BEFORE = 25
"""How many rounds of the expected variance the running variance starts from."""
LARGEST_LOSS = 0.95
"""Largest fraction of the wealth that one round may lose: never all of it."""


def refuted(gains: Array, variance: Array, worst: Array, significance: float) -> Array:
    """(m,) whether the wealth of each of m hypotheses reaches 1/significance after the last round.

    The wealth is ∏ (1 + bet·gain). A bet depends on earlier rounds only. So where each gain has
    mean ≤ 0 given the earlier ones, the wealth is a supermartingale, and by Markov's inequality it
    reaches 1/significance with probability ≤ significance.

    The bet hedges the option that pays 1/significance if all gains, were they normal, add up to
    more than their quantile: φ(Φ⁻¹(u))/u/√(variance that is left), with u = significance·wealth. So
    the error probability is used up when the trials are, where a bet that may go on for ever has to
    save some.

    Args:
        gains: (m, rounds).
        variance: (m,) of a gain, as it is expected before the first round; > 0.
        worst: (m,) the largest possible loss of a round, > 0.
        significance: of each test.

    References:
        Waudby-Smith, Ramdas 2024, arXiv:2010.09686 (means of bounded variables by betting).
        Voráček, Orabona 2025, arXiv:2505.22422 (bet fractions from the wealth and the
            rounds that are left).
        Ville 1939 (the inequality).
    """
    rounds = gains.shape[1]
    wealth = np.ones(len(gains))
    sum_of_squares = ROUNDS_BEFORE * variance
    for first, last in _blocks(rounds):
        done = significance * wealth >= 1
        # The clip keeps the quantile finite where the wealth is nearly 0 or at its goal.
        goal = ndtri(np.clip(significance * wealth / SLACK, 1e-200, 0.999))
        variance_left = sum_of_squares / (ROUNDS_BEFORE + first) * (rounds - first)
        # φ(z)/Φ(z) by way of log Φ, which does not underflow far below 0.
        bet = np.exp(-(goal**2) / 2 - log_ndtr(goal)) / np.sqrt(2 * math.pi * variance_left)
        bet = np.where(done, 0.0, np.minimum(bet, LARGEST_LOSS / worst))
        block = gains[:, first:last]
        wealth = wealth * np.prod(1 + bet[:, None] * block, axis=1)
        sum_of_squares = sum_of_squares + np.sum(block**2, axis=1)
    return np.asarray(significance * wealth >= 1)


def _blocks(rounds: int) -> Iterator[tuple[int, int]]:
    """Rounds that share a bet: a fortieth of those that are left."""
    first = 0
    while first < rounds:
        last = first + max(1, (rounds - first) // 40)
        yield first, last
        first = last


def averaged(values: Array, groups: int) -> Array:
    """(m, groups) means of consecutive ``values`` (m, n), n ≥ groups.

    The larger class has several trials a round.
    """
    if groups == values.shape[1]:
        return values
    starts = np.arange(groups) * values.shape[1] // groups
    return np.asarray(
        np.add.reduceat(values, starts, axis=1) / np.diff(np.append(starts, values.shape[1]))
    )


def candidates(sure: float, spread: float) -> Iterator[Array]:
    """Ascending parameters from 0 on in chunks: coarse up to ``sure``, fine beyond.

    Steps are at least ``spread`` up to ``sure``. Both are known before the test, and so is the
    grid. A bound is wrong only where one true hypothesis is rejected: the least parameter of the
    grid that is not below the truth.
    """
    wide = max(spread, sure / CHUNK)
    coarse = np.arange(0, sure, wide)
    yield from (coarse[first : first + CHUNK] for first in range(0, len(coarse), CHUNK))
    start, step = len(coarse) * wide, spread / 12 * max(1.0, sure)
    while start < LARGEST:
        yield start + step * np.arange(CHUNK)
        start += step * CHUNK


CHUNK, LARGEST = 32, 30.0


def last_refuted(is_refuted: Callable[[Array], Array], grids: Iterable[Array]) -> float:
    """The last parameter that is rejected before the first that is not, scanning upward.

    0 where the first one is not rejected.

    Args:
        is_refuted: (m,) parameters → (m,) whether each is rejected.
        grids: ascending parameters in chunks, 0 the first.
    """
    last = 0.0
    for grid in grids:
        not_rejected = np.flatnonzero(~is_refuted(grid))
        if len(not_rejected):
            first = not_rejected[0]
            return float(grid[first - 1]) if first else last
        last = float(grid[-1])
    return last
