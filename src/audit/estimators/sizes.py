"""The size of a region: its largest probability along a tradeoff curve."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from audit.core import Array
from audit.estimators.half_counts import Piece, inverse, pieces_of
from audit.estimators.regions import Levels, probabilities
from audit.privacy import Notion


@dataclasses.dataclass(frozen=True)
class Points:
    """Points of the curves of a notion, each known by its smaller rate.

    Args:
        rate: (m,) the smaller of FPR and FNR.
        is_fnr: (m,) whether that is FNR.
    """

    rate: Array
    is_fnr: Array

    def on(self, notion: Notion, parameter: float) -> tuple[Array, Array]:
        """(m,) FPR and (m,) FNR of these points on a curve; the true one, at corners too."""
        mirrored = inverse(notion)
        if mirrored == notion:  # one call: the curve of zCDP takes its time
            other = np.asarray(notion.beta(self.rate, parameter))
        else:
            fnr = notion.beta(self.rate, parameter)
            fpr = mirrored.beta(self.rate, parameter)
            other = np.where(self.is_fnr, fpr, fnr)
        return np.where(self.is_fnr, other, self.rate), np.where(self.is_fnr, self.rate, other)

    @staticmethod
    def near(fpr: Array, fnr: Array) -> Points:
        """The points of a curve that share the smaller rate with points (m,) next to it."""
        return Points(np.minimum(fpr, fnr), fnr < fpr)

    @staticmethod
    def corners(notion: Notion, parameter: float) -> Points:
        """The corners of a curve."""
        rate = np.array(notion.kinks(parameter))
        return Points(rate, np.zeros(len(rate), bool))

    def joined(self, other: Points) -> Points:
        """All of both."""
        return Points(
            np.concatenate([self.rate, other.rate]), np.concatenate([self.is_fnr, other.is_fnr])
        )


@functools.lru_cache(maxsize=32)
def scan(
    notion: Notion, parameter: float, absent: int, present: int, spacing: float, rough: bool = False
) -> tuple[Array, Array]:
    """(m,) FPR and (m,) FNR of points all along a curve, its corners and ends among them.

    Args:
        spacing: in standard deviations of the rates that the trials show, of both together.
        rough: whether interpolated points are enough, as they are to see where it is worth looking.
    """
    fpr_parts = [np.zeros(0)]
    fnr_parts = [np.zeros(0)]
    for piece in pieces_of(notion, parameter):
        length = _length_along(piece, absent, present)
        count = max(12, math.ceil(length[-1] / spacing)) + 1
        steps = np.linspace(0, length[-1], count)
        fpr_parts.append(np.interp(steps, length, piece.fpr))
        fnr_parts.append(np.interp(steps, length, piece.fnr))
    fpr = np.concatenate(fpr_parts)
    fnr = np.concatenate(fnr_parts)
    ends = Points(np.zeros(2), np.array([False, True]))
    fixed = Points.corners(notion, parameter).joined(ends)
    if rough:
        fixed_fpr, fixed_fnr = fixed.on(notion, parameter)
        fpr = np.concatenate([fpr, fixed_fpr])
        fnr = np.concatenate([fnr, fixed_fnr])
    else:
        # Interpolated points lie next to the curve; this moves them onto it.
        fpr, fnr = Points.near(fpr, fnr).joined(fixed).on(notion, parameter)
    order = np.argsort(fpr - fnr, kind="stable")
    return fpr[order], fnr[order]


def _length_along(piece: Piece, absent: int, present: int) -> Array:
    """(k,) length along a piece, in standard deviations of both rates.

    In 2·arcsin √rate the noise of counts is the same everywhere.
    """
    across = 2 * math.sqrt(absent) * np.diff(np.arcsin(np.sqrt(piece.fpr)))
    down = 2 * math.sqrt(present) * np.diff(np.arcsin(np.sqrt(piece.fnr)))
    return np.append(0.0, np.cumsum(np.hypot(across, down)))


@dataclasses.dataclass(frozen=True)
class Size:
    """A region in places of `regions.Levels`, and its probabilities along curves."""

    notion: Notion
    sides: tuple[Levels, Levels]
    largest: Array

    @property
    def spacing(self) -> float:
        """Of the points of a scan, in standard deviations: at most about MOST points."""
        length = math.pi * math.hypot(*(math.sqrt(side.n) for side in self.sides))
        return max(0.5 if length < 300 else 1.0, length / MOST)

    @property
    def slack(self) -> float:
        """Share of a significance kept for what a scan misses between its points and in the tails.

        Along a curve the probability of a region is its indicator, averaged by a law of one
        standard deviation in both directions: waves as long as two standard deviations keep 0.7 %
        of their height, and the steps of counts are no more than some percent high. So points that
        are one apart, and the way between the highest ones and their neighbours in 1/64 of that,
        miss less than 1e-4 of the maximum. Among very many trials, grouped, points are farther
        apart, and steps of 1/48 of a standard deviation move the probability by less than 2 %.
        """
        return 1e-4 if self.spacing <= 1 else 0.02

    def everywhere(self, parameter: float) -> tuple[float, Points]:
        """The largest probability along the whole curve, and points near its highest maxima."""
        fpr, fnr = scan(self.notion, parameter, self.sides[0].n, self.sides[1].n, self.spacing)
        chance = self.of(fpr, fnr)
        for most in (4, 2):
            fpr, fnr = self._between(parameter, fpr, fnr, _peaks(chance, most))
            chance = self.of(fpr, fnr)
        return float(chance.max()), _highest(fpr, fnr, chance)

    def roughly(self, parameter: float) -> Points:
        """Points where the probability is among the highest, to begin with."""
        fpr, fnr = scan(
            self.notion, parameter, self.sides[0].n, self.sides[1].n, 2.5 * self.spacing, rough=True
        )
        return _highest(fpr, fnr, self.of(fpr, fnr))

    def at(self, points: Points, parameter: float) -> float:
        """The largest probability at a few points and at the corners."""
        joined = points.joined(Points.corners(self.notion, parameter))
        return float(np.max(self.of(*joined.on(self.notion, parameter))))

    def of(self, fpr: Array, fnr: Array) -> Array:
        """(m,) probabilities at points."""
        return probabilities(self.largest, *self.sides, fpr, fnr)

    def _between(
        self, parameter: float, fpr: Array, fnr: Array, peaks: Array
    ) -> tuple[Array, Array]:
        """The peaks, and 7 points of the curve between each and either neighbour."""
        share = np.arange(1, 8) / 8
        neighbours = np.clip(np.concatenate([peaks - 1, peaks + 1]), 0, len(fpr) - 1)

        def between(rate: Array) -> Array:
            from_peak = np.tile(rate[peaks], 2)[:, None] * (1 - share)
            from_neighbour = rate[neighbours][:, None] * share
            return (from_peak + from_neighbour).ravel()

        new = Points.near(between(fpr), between(fnr))
        new_fpr, new_fnr = new.on(self.notion, parameter)
        new_fpr = np.append(new_fpr, fpr[peaks])
        new_fnr = np.append(new_fnr, fnr[peaks])
        order = np.argsort(new_fpr - new_fnr, kind="stable")
        return new_fpr[order], new_fnr[order]


MOST = 4000
"""Points of a scan, at most about."""


def _highest(fpr: Array, fnr: Array, chance: Array) -> Points:
    few = np.argsort(chance)[-10:]
    return Points.near(fpr[few], fnr[few])


def _peaks(chance: Array, most: int) -> Array:
    """Places of the maxima that are not far below the highest one, ``most`` of them."""
    padded = np.concatenate([[-1.0], chance, [-1.0]])
    tops = np.flatnonzero((padded[1:-1] >= padded[:-2]) & (padded[1:-1] >= padded[2:]))
    tops = tops[chance[tops] >= 0.97 * chance.max()]
    return tops[np.argsort(chance[tops])[-most:]]
