"""Counts → bound, by the exact probability of all tables that speak as strongly against the
claim."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Bound, Counts, Design, Evidence, NotApplicable
from audit.estimators.folds import allow_folds, lower_of_folds, rejected_by_folds
from audit.estimators.half_counts import frontier, kappa, likelihood_bound, likelihood_bounds
from audit.estimators.power import expected_bound
from audit.estimators.regions import Levels, Region
from audit.estimators.roots import first_below, last_below
from audit.estimators.sizes import Points, Size
from audit.privacy import STRICT, Notion


@dataclass(frozen=True, config=STRICT)
class Exact:
    """Buehler's lower confidence bound: the least parameter under which tables as extreme as this
    one are not rare.

    Tables are ordered by T, a likelihood-ratio bound on half-counts
    (`audit.estimators.half_counts`). The bound is the least c at which {tables: T ≥ T(seen)} has a
    probability above ``significance`` at some point of the curve of c. Finite-sample, for every
    notion, threshold and number of trials; close to the limit of any bound from counts.

    T falls in both errors, so the region is a down-set and its probability falls in both rates: the
    worst point lies on the curve. Curves are nested and T does not depend on c, so that
    P(bound > truth) ≤ significance (Buehler).

    Args:
        significance: error probability.

    References:
        Buehler 1957, Confidence intervals for the product of two binomial parameters, JASA 52.
        Lloyd, Kabaila 2003, On the optimality and limitations of Buehler bounds (a good order makes
            a good bound).
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    name: ClassVar[str] = "exact"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A finite-sample bound: of folds that follow each other by `audit.estimators.folds`, which
        adds them up.

        Raises:
            NotApplicable: for evidence that was stopped, repeated runs, and folds whose trials
                fitted each other.
        """
        self.allow(evidence.design, notion)
        if len(evidence.folds) > 1:
            lower = lower_of_folds(evidence, notion, self.significance)
        else:
            lower = self.lower(evidence.counts, notion)
        return Bound(self.name, notion, lower, self.significance, "finite-sample")

    def allow(self, design: Design, notion: Notion) -> None:
        """Independent trials, as many as were planned, in one fold or in folds that follow each
        other."""
        if design.folds != "single":
            allow_folds(design)
        elif not design.independent:
            raise NotApplicable(
                "the exact bound needs counts of independent trials, as many as were planned"
            )

    def rejects(self, evidence: Evidence, notion: Notion, claim: float) -> bool:
        """Whether the bound exceeds a claim: by its test, which is quicker where many audits test
        the same claim.

        Raises:
            NotApplicable: as the bound.
        """
        self.allow(evidence.design, notion)
        if len(evidence.folds) > 1:
            return rejected_by_folds(evidence, notion, claim, self.significance)
        counts = evidence.counts
        region = self.region(notion, claim, counts.fp + counts.tn, counts.fn + counts.tp)
        return region.contains(counts.fp, counts.fn)

    def lower(self, counts: Counts, notion: Notion) -> float:
        """The bound itself, ≥ 0, rounded down; 0 where a class is empty. Fractions of errors are
        rounded up.

        >>> from audit.privacy import GDP
        >>> round(Exact(significance=0.1).lower(Counts(949, 1051, 743, 1257), GDP()), 3)
        0.34
        """
        fp, fn = (math.ceil(errors - 1e-9) for errors in (counts.fp, counts.fn))
        absent, present = (round(n) for n in (counts.fp + counts.tn, counts.fn + counts.tp))
        if not absent or not present or fp > absent or fn > present:
            return 0.0
        return _lower(notion, fp, fn, absent, present, self.significance)

    def region(self, notion: Notion, claim: float, absent: int, present: int) -> Region:
        """The rejection region of the test of a claim: the tables whose bound exceeds it."""
        return _region(notion, float(claim), absent, present, self.significance)

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """See `audit.estimators.power.expected_bound`."""
        return expected_bound(self.lower, notion, parameter, n_absent, n_present)


# --- bound and region -----------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _lower(
    notion: Notion, fp: int, fn: int, absent: int, present: int, significance: float
) -> float:
    sides = Levels.of(absent), Levels.of(present)
    row, column = sides[0].up(fp), sides[1].up(fn)
    level = kappa(significance)
    seen = likelihood_bound(
        float(sides[0].top[row]), float(sides[1].top[column]), absent, present, notion, level
    )
    if not 1e-12 < seen < math.inf:
        return 0.0
    largest = _at_least(notion, seen, sides, level)
    # the table itself belongs to the region whatever was lost to rounding
    largest = np.maximum(largest, np.where(np.arange(len(largest)) <= row, column, -1))
    return _invert(Size(notion, sides, largest), seen, significance)


def _at_least(
    notion: Notion, parameter: float, sides: tuple[Levels, Levels], level: float
) -> Array:
    """(k,) the region {T ≥ parameter} in places of levels."""
    absent, present = sides
    furthest = frontier(notion, parameter, absent.n, present.n, level, absent.top)
    largest = np.searchsorted(present.top, furthest, side="right") - 1
    return np.minimum.accumulate(largest)


def _invert(size: Size, start: float, significance: float) -> float:
    """The largest parameter at which the region's size is ≤ ``significance``, from below.

    The size is a maximum over points of the curve. It is solved for on the few points where it was
    largest, then all points are looked at; where one is above, it joins the few. So the last look
    at all points proves the answer.
    """
    target = significance * (1 - size.slack)
    few, last = size.roughly(start), start
    for _ in range(30):
        at = functools.partial(size.at, few)
        last = last_below(at, last, target)
        if last <= 0:
            return 0.0
        worst, points = size.everywhere(last)
        # below the target only where `last_below` was not allowed to go on
        if 0.999 * target <= worst <= significance:
            return last
        few = few.joined(points)
    return last if worst <= significance else 0.0


@functools.lru_cache(maxsize=256)
def _region(notion: Notion, claim: float, absent: int, present: int, significance: float) -> Region:
    """{T ≥ c}, c the least at which the size at the claim is ≤ ``significance``: found as `_invert`
    finds its root."""
    level = kappa(significance)
    most = likelihood_bound(0, 0, absent, present, notion, level) if absent and present else 0.0
    if not 0 <= claim < most:
        return Region(np.zeros(0, int), absent, present)
    sides = Levels.of(absent), Levels.of(present)

    def sized(parameter: float) -> Size:
        return Size(notion, sides, _at_least(notion, parameter, sides, level))

    least = min(max(claim, 1e-3 * most), most)
    # beyond a few trials a table more or less is far less than 1e-4 of the probability
    enough = (1e-5, 1e-4) if max(absent, present) > FEW else (1e-9, 1e-6)
    start = sized(least)
    few = start.roughly(claim)
    target = significance * (1 - start.slack)
    for _ in range(30):
        least = first_below(
            functools.partial(_chance, sized, few, claim), least, most, target, *enough
        )
        found = sized(least)
        worst, points = found.everywhere(claim)
        if worst <= significance:
            return _expanded(_whole(found, claim, level, significance))
        if least >= most:
            break
        few = few.joined(points)
    return Region(np.zeros(0, int), absent, present)


def _whole(size: Size, claim: float, level: float, significance: float) -> Size:
    """A region of few trials without half a tie: {T ≥ c} for the T of a table, so that it is where
    the bound is above.

    Its corners are the tables that might have the least T. Where the region of that T, ties and
    all, is too large, those of its corners go. With many trials one table more or less is nothing.
    """
    absent, present = size.sides
    if max(absent.n, present.n) > FEW:
        return size
    for _ in range(absent.n * present.n):
        corner = np.flatnonzero(size.largest > np.append(size.largest[1:], -1))
        if not len(corner):
            return size
        tables = corner.astype(float), size.largest[corner].astype(float)
        bounds = likelihood_bounds(*tables, absent.n, present.n, size.notion, level)
        tied = Size(
            size.notion, size.sides, _at_least(size.notion, float(bounds.min()), size.sides, level)
        )
        if tied.everywhere(claim)[0] <= significance * (1 - size.slack):
            return tied
        fewer = size.largest.copy()
        fewer[corner[bounds <= bounds.min() * (1 + 1e-7)]] -= 1
        size = Size(size.notion, size.sides, fewer)
    return size


FEW = 100
"""Trials of a class up to which a region is exactly that of its bound."""


def _chance(sized: Callable[[float], Size], few: Points, claim: float, parameter: float) -> float:
    return sized(parameter).at(few, claim)


def _expanded(size: Size) -> Region:
    """A region in counts: those above one level up to the next share its largest fn."""
    absent, present = size.sides
    inside = int(np.sum(size.largest >= 0))
    largest = np.append(present.top, -1)[size.largest[:inside]]
    repeats = np.diff(absent.top[:inside], prepend=-1)
    return Region(np.repeat(largest, repeats), absent.n, present.n)
