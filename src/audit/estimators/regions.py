"""Rejection regions of tests from counts, and their probabilities by exact binomial sums."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import gammaln

from audit.core import Array


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """The confusion tables in which a test rejects: fn ≤ ``largest_fn[fp]``.

    Args:
        largest_fn: (k,) ints, k ≤ n_absent + 1, non-increasing: the largest fn rejected at each
            fp, −1 for none; none at any fp ≥ k.
        absent, present: trials of each class.
    """

    largest_fn: Array
    absent: int
    present: int

    def contains(self, fp: int, fn: int) -> bool:
        """Whether this table is rejected."""
        return fp < len(self.largest_fn) and fn <= int(self.largest_fn[fp])

    def probability(self, fpr: float, fnr: float) -> float:
        """P(reject) where fp ~ Bin(absent, fpr) and fn ~ Bin(present, fnr): the power at that
        point.

        The sum runs over all but 2e-10 of the absent counts; it falls in both rates.

        >>> round(Region(np.array([2, 0]), 2, 2).probability(0.5, 0.5), 6)
        0.375
        """
        return float(self.probabilities(np.array([fpr]), np.array([fnr]))[0])

    def probabilities(self, fpr: Array, fnr: Array) -> Array:
        """(m,) `probability` at points (m,)."""
        if not len(self.largest_fn) or self.largest_fn[0] < 0:
            return np.zeros(len(fpr))
        absent, present = Levels.every(self.absent), Levels.every(self.present)
        # places of levels are counts here
        return probabilities(
            self.largest_fn, absent, present, np.asarray(fpr, float), np.asarray(fnr, float)
        )


# --- counts, grouped where there are very many ----------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Levels:
    """The values that a number of errors is rounded up to, and what the binomial law of each group
    takes.

    Up to FINE trials every count is its own level. Beyond that groups are 1/48 of a standard
    deviation wide, so that sums take as long as with FINE trials; rounding errors up before a bound
    is taken only lowers it.

    Args:
        n: trials.
        top: (k,) ascending levels from 0 to n: group i is the counts above level i − 1 up to level
            i.
        middle: (k,) the group's mean count.
        log_weight: (k,) logarithm of the group's size times the binomial coefficient at its middle.
    """

    n: int
    top: Array
    middle: Array
    log_weight: Array

    @staticmethod
    @functools.lru_cache(maxsize=32)
    def of(n: int) -> Levels:
        """Grouped beyond FINE."""
        if n <= FINE:
            return Levels.every(n)
        # equal steps of arcsin √rate are equal shares of a standard deviation
        theta = np.linspace(0, math.pi / 2, math.ceil(48 * math.pi * math.sqrt(n)))
        return Levels._at(n, np.unique(np.ceil(n * np.sin(theta) ** 2 - 1e-6).astype(int)))

    @staticmethod
    @functools.lru_cache(maxsize=32)
    def every(n: int) -> Levels:
        """Each count by itself."""
        return Levels._at(n, np.arange(n + 1))

    @staticmethod
    def _at(n: int, top: Array) -> Levels:
        size = np.diff(top, prepend=-1)
        middle = top - (size - 1) / 2
        return Levels(
            n,
            top,
            middle,
            gammaln(n + 1) - gammaln(middle + 1) - gammaln(n - middle + 1) + np.log(size),
        )

    def up(self, count: float) -> int:
        """The place of the level that a count is rounded up to."""
        return int(np.searchsorted(self.top, count - 1e-9))

    def window(self, rate: Array) -> tuple[Array, int]:
        """First places (m,) and the common width of windows that hold all but 2e^(−REACH) of each
        law (Bernstein)."""
        mean, variance = self.n * rate, self.n * rate * (1 - rate)
        reach = REACH / 3 + np.sqrt(REACH**2 / 9 + 2 * REACH * variance)
        first = np.searchsorted(self.top, mean - reach)
        last = np.searchsorted(self.top, mean + reach)
        return first, int(np.max(last - first)) + 1

    def law(self, rate: Array) -> tuple[Array, Array]:
        """First places (m,), and what the groups (m, w) from there on weigh, in proportion to their
        probabilities.

        Dividing by the window's sum takes away what gammaln has lost to rounding (3e-8 at 1e7
        trials).
        """
        first, width = self.window(rate)
        width = min(width, len(self.top))
        first = np.minimum(first, len(self.top) - width)
        low, high = np.log(np.maximum(rate, 1e-300)), np.log1p(-np.minimum(rate, 1 - 1e-16))
        logs = sliding_window_view(self.middle, width)[first] * (low - high)[:, None]
        logs += sliding_window_view(self.log_weight, width)[first]
        logs += self.n * high[:, None]
        return first, np.exp(logs, out=logs)


FINE = 20_000
"""Trials of a class up to which no counts are grouped."""
REACH = 24.0
"""Tails of e^(−24) = 4e-11 are left out on either side."""


def probabilities(largest: Array, absent: Levels, present: Levels, fpr: Array, fnr: Array) -> Array:
    """(m,) probability of a region at points (m,), which should be neighbours: windows are as wide
    as the widest.

    Args:
        largest: (k,) for each absent level the place of the largest present level in the region, −1
            for none.
    """
    return np.concatenate(
        [
            _probabilities(
                largest, absent, present, fpr[start : start + CHUNK], fnr[start : start + CHUNK]
            )
            for start in range(0, len(fpr), CHUNK)
        ]
        or [np.zeros(0)]
    )


CHUNK = 32


def _probabilities(
    largest: Array, absent: Levels, present: Levels, fpr: Array, fnr: Array
) -> Array:
    first, mass = absent.law(fpr)
    start, below = present.law(fnr)
    whole = mass.sum(axis=1)
    below = np.cumsum(below, axis=1)
    whole *= below[:, -1]
    rows = np.append(largest, np.full(max(0, len(absent.top) - len(largest)), -1))
    reached = sliding_window_view(rows, mass.shape[1])[first] - start[:, None]
    # a column of 0 in front is for rows whose part of the region ends before the window
    below = np.concatenate([np.zeros((len(below), 1)), below], axis=1)
    inside = np.take_along_axis(below, np.clip(reached + 1, 0, below.shape[1] - 1), axis=1)
    return np.asarray(np.einsum("ij,ij->i", mass, inside) / whole)
