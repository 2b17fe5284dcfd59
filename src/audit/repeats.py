"""Whether rows are copies of each other, which independent runs are not.

A law may repeat itself: counts, categories, numbers that were rounded, clipped or ranked. So a
repeat alone says nothing, and two rules look for what no law does. Together they refuse independent
rows with probability `FALSE_ALARM` at most.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtr, bdtrc, gammaln, lambertw

from audit.core import Array

FALSE_ALARM = 1e-6
"""Probability with which independent rows are called copies, at most, by each of the two rules."""


def copied(rows: Array, bits: Array, what: str) -> str | None:
    """What is copied, in words with a count; None where the rows may well be independent.

    - *Alike*: under any law, discrete or not, a value that shows up at all shows up k times with
      probability at most `most_alike`. So not too many different rows occur the same number of
      times k ≥ 2, as they do where everything was written twice, or five times. Rows of short
      decimals are left out: they may stand for a grid.
    - *Copies*: of numbers that fill their double precision, most occur once, and those that occur
      again do so on their own side only, in the midst of numbers of both sides. A law that repeats
      such numbers (a classifier's scores, say) repeats them on both sides there: with probability
      `BOTH` at least. An atom or two is too few to be seen.

    Args:
        rows: (n,) or (n, k) numbers, a row a run.
        bits: (n,) which side each is of.
        what: the rows are called.

    >>> z = np.random.default_rng(0).normal(size=400)
    >>> copied(z, np.arange(400) < 200, "scores")
    >>> copied(np.round(z, 1), np.arange(400) < 200, "scores")
    >>> copied(np.tile(z, 2), np.arange(800) < 400, "scores")
    '400 of 800 scores are exact repeats of others'
    """
    # −0.0 is 0.0
    table = np.ascontiguousarray(np.asarray(rows, float).reshape(len(rows), -1) + 0.0)
    whole = table.view([("", table.dtype)] * table.shape[1]).ravel()
    first, place, times = np.unique(
        whole, return_index=True, return_inverse=True, return_counts=True
    )[1:]
    place = place.ravel()
    long = longer(table[first], ROUNDED).any(axis=1)
    if not (
        _alike(times[long], bits) or _copies(table[first], times, np.bincount(place, bits), bits)
    ):
        return None
    return f"{len(table) - len(first):,} of {len(table):,} {what} are exact repeats of others"


def most_alike(times: Array) -> Array:
    """Largest probability, over all rates λ, that a Poisson number is k ≥ 2, given that it is not
    0.

    λ^k/(k!·(e^λ − 1)) is largest where λ = k(1 − e^(−λ)), λ = k + W(−k·e^(−k)).

    >>> most_alike(np.array([2, 5, 100])).round(3).tolist()
    [0.324, 0.177, 0.04]
    """
    k = np.asarray(times, float)
    rate = k + np.real(lambertw(-k * np.exp(-k)))
    return np.exp(k * np.log(rate) - gammaln(k + 1) - rate - np.log1p(-np.exp(-rate)))


def _alike(times: Array, bits: Array) -> bool:
    """Whether too many different rows occur equally often.

    With a Poisson number of runs a side, how often a value occurs is Poisson and independent of all
    others. Their numbers are fixed in truth, which makes nothing likelier than by
    1/P(Poisson(n) = n) ≤ e·√n a side. All k share the false alarm: Σ 1/(k(k − 1)) = 1.
    """
    k, distinct = np.unique(times[times > 1], return_counts=True)
    if not len(k):
        return False
    sides = (max(int(np.sum(bits == side)), 1) for side in (False, True))
    fixed = math.prod(math.e * math.sqrt(side) for side in sides)
    chance = bdtrc(distinct - 1, len(times), most_alike(k))  # P(at least so many)
    return bool(np.any(chance * fixed * k * (k - 1) <= FALSE_ALARM))


FILLED, MOSTLY = 14, 0.3
"""Significant digits that a number which fills its precision has more of; share of the rows that
occur once."""
WINDOW, MIXED, BOTH = 101, (0.4, 0.6), 0.4
"""Different numbers around a repeated one, and which share of them on the present side counts as
both sides alike.

The share has a standard deviation of 0.05, so the true one is in [0.28, 0.72]: two runs at one
place are then on different sides with probability 0.4 at least.
"""


def _copies(distinct: Array, times: Array, present: Array, bits: Array) -> bool:
    """Whether numbers that should never occur again do so, and on their own side only.

    Args:
        distinct: (m, k) the different rows.
        times: (m,) how often each occurs.
        present: (m,) how often on the present side.
    """
    again = np.flatnonzero(times > 1)
    if np.sum(times == 1) < MOSTLY * len(bits) or not len(again):
        return False
    full = fills(distinct[again])
    columns = np.flatnonzero(full.any(axis=0))
    if not len(columns):
        return False
    amid = np.all([_amid_both(distinct[:, j], times, present)[again] for j in columns], axis=0)
    seen = again[amid & full.any(axis=1)]
    both = int(np.sum((present[seen] > 0) & (present[seen] < times[seen])))
    # P(at most ``both`` of them are on both sides)
    return bool(len(seen) and bdtr(both, len(seen), BOTH) <= FALSE_ALARM)


def _amid_both(values: Array, times: Array, present: Array) -> Array:
    """(m,) whether the rows around each, in the order of these numbers, are of both sides alike."""
    if len(values) < WINDOW:
        return np.zeros(len(values), bool)
    order = np.argsort(values, kind="stable")
    first = np.clip(np.arange(len(values)) - WINDOW // 2, 0, len(values) - WINDOW)
    runs, ours = (np.append(0.0, np.cumsum(count[order])) for count in (times, present))
    around = (ours[first + WINDOW] - ours[first]) / (runs[first + WINDOW] - runs[first])
    found = np.empty(len(values), bool)
    found[order] = (around >= MIXED[0]) & (around <= MIXED[1])
    return found


ROUNDED = 7
"""Significant digits up to which a number may have been rounded, or counted."""


def longer(values: Array, digits: int) -> Array:
    """Whether numbers have more significant digits than these.

    >>> longer(np.array([0.1, 1200.0, 0.123456789, -1 / 3, np.inf, 0.0]), 7).tolist()
    [False, False, True, True, False, False]
    """
    finite = np.isfinite(values) & (values != 0)
    x = np.where(finite, values, 1.0)
    unit = 10.0 ** (np.floor(np.log10(np.abs(x))) - digits + 1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        short = np.abs(np.round(x / unit) * unit - x) <= 1e-15 * np.abs(x)
    return np.asarray(finite & ~short)


def fills(values: Array) -> Array:
    """Whether numbers have all digits that a double can have: not those of a shorter decimal or of
    single precision.

    >>> fills(np.array([0.1, 3.0, 1 / 3, np.float32(1 / 3), -0.123456, np.pi, np.inf])).tolist()
    [False, False, True, False, False, True, False]
    """
    with np.errstate(over="ignore", under="ignore"):
        single = np.asarray(values, np.float32).astype(float) == values
    return longer(values, FILLED) & ~single
