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
    """Points of the curves of a notion, each known by the smaller of its two rates: (m,) that rate, and whether it is FNR."""

    rate: Array
    is_fnr: Array

    def on(self, notion: Notion, parameter: float) -> tuple[Array, Array]:
        """(m,) FPR and (m,) FNR of these points on a curve; the true one, at corners too."""
        fpr, fnr = self.rate.copy(), self.rate.copy()
        if not np.all(self.is_fnr):
            fnr[~self.is_fnr] = notion.beta(self.rate[~self.is_fnr], parameter)
        if np.any(self.is_fnr):
            fpr[self.is_fnr] = inverse(notion).beta(self.rate[self.is_fnr], parameter)
        return fpr, fnr

    def joined(self, other: Points) -> Points:
        """All of both."""
        return Points(np.concatenate([self.rate, other.rate]), np.concatenate([self.is_fnr, other.is_fnr]))


@functools.lru_cache(maxsize=32)
def scan(notion: Notion, parameter: float, absent: int, present: int, spacing: float = 0.5) -> tuple[Array, Array]:
    """(m,) FPR and (m,) FNR of points all along a curve from left to right, its corners and ends among them.

    ``spacing`` is in standard deviations of the rates that the trials show, of both together.
    """
    pieces = pieces_of(notion, parameter)
    fprs, fnrs = [], []
    for piece in pieces:
        way = _way(piece, absent, present)
        steps = np.linspace(0, way[-1], max(12, math.ceil(way[-1] / spacing)) + 1)
        fpr, fnr = np.interp(steps, way, piece.fpr), np.interp(steps, way, piece.fnr)
        points = Points(np.minimum(fpr, fnr), fnr < fpr).on(notion, parameter)
        fprs.append(points[0])
        fnrs.append(points[1])
    corners = np.array([x for x in notion.kinks(parameter)])
    ends = np.append(corners, 0.0)
    last = float(inverse(notion).beta(0.0, parameter))
    fpr = np.concatenate([*fprs, ends, [last]])
    fnr = np.concatenate([*fnrs, np.asarray(notion.beta(ends, parameter)), [0.0]])
    order = np.argsort(fpr - fnr, kind="stable")
    return fpr[order], fnr[order]


def _way(piece: Piece, absent: int, present: int) -> Array:
    """(k,) length of the way along a piece; the noise of counts is the same everywhere in 2·arcsin √rate."""
    return np.concatenate(
        [
            [0.0],
            np.cumsum(
                np.hypot(
                    2 * math.sqrt(absent) * np.diff(np.arcsin(np.sqrt(piece.fpr))),
                    2 * math.sqrt(present) * np.diff(np.arcsin(np.sqrt(piece.fnr))),
                )
            ),
        ]
    )


@dataclasses.dataclass(frozen=True)
class Size:
    """A region in places of levels (`audit.estimators.regions.Levels`), and its probabilities along curves."""

    notion: Notion
    sides: tuple[Levels, Levels]
    largest: Array

    def everywhere(self, parameter: float) -> tuple[float, Points]:
        """The largest probability along the whole curve, and the points near its highest maxima."""
        fpr, fnr = scan(self.notion, parameter, self.sides[0].n, self.sides[1].n)
        chance = self.of(fpr, fnr)
        for _ in range(2):
            high = _peaks(chance)
            fpr, fnr = self._between(parameter, fpr, fnr, high)
            chance = self.of(fpr, fnr)
        near = chance >= 0.995 * chance.max()
        few = np.flatnonzero(near)[:: max(1, int(near.sum()) // 24)]
        few = np.union1d(few, np.argsort(chance)[-8:])
        return float(chance.max()), Points(np.minimum(fpr, fnr)[few], (fnr < fpr)[few])

    def at(self, points: Points, parameter: float) -> float:
        """The largest probability at a few points and at the corners."""
        fpr, fnr = points.on(self.notion, parameter)
        corners = np.array(self.notion.kinks(parameter))
        fpr = np.append(fpr, corners)
        fnr = np.append(fnr, np.asarray(self.notion.beta(corners, parameter)) if len(corners) else [])
        return float(np.max(self.of(fpr, fnr)))

    def of(self, fpr: Array, fnr: Array) -> Array:
        """(m,) probabilities at points."""
        return probabilities(self.largest, *self.sides, fpr, fnr)

    def _between(self, parameter: float, fpr: Array, fnr: Array, peaks: Array) -> tuple[Array, Array]:
        """The peaks, and 7 points of the curve between each and either neighbour."""
        share = np.arange(1, 8) / 8
        found = [(fpr[peaks], fnr[peaks])]
        for step in (-1, 1):
            other = np.clip(peaks + step, 0, len(fpr) - 1)
            x, y = ((r[peaks][:, None] * (1 - share) + r[other][:, None] * share).ravel() for r in (fpr, fnr))
            found.append(Points(np.minimum(x, y), y < x).on(self.notion, parameter))
        x, y = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(x - y, kind="stable")
        return x[order], y[order]


def _peaks(chance: Array) -> Array:
    """Places of the maxima that are not far below the highest one, six at most, and of the highest."""
    padded = np.concatenate([[-1.0], chance, [-1.0]])
    tops = np.flatnonzero((padded[1:-1] >= padded[:-2]) & (padded[1:-1] >= padded[2:]))
    tops = tops[chance[tops] >= 0.97 * chance.max()]
    return tops[np.argsort(chance[tops])[-6:]]
