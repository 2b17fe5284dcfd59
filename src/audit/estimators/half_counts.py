"""How `audit.estimators.exact` orders confusion tables: a likelihood-ratio bound on half-counts.

With x = (fp + ½)/(n₀ + 1), y = (fn + ½)/(n₁ + 1) and kl the binary relative entropy, a table is as
far from a tradeoff curve f as L = min over a of (n₀ + 1)·kl(x, a) + (n₁ + 1)·kl(y, f(a)), and T is
the parameter c at which L = κ. The ½ keeps every sum finite and monotone, and is worth a tenth of
the power at a few thousand trials.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, cast

import numpy as np
from scipy.interpolate import CubicHermiteSpline, CubicSpline
from scipy.special import ndtr, ndtri

from audit.core import Array
from audit.privacy import ZCDP, Notion, ZCDPSide


def kappa(significance: float) -> float:
    """κ = z²/2: the distance that an asymptotic likelihood-ratio test of this level asks for."""
    return float(ndtri(significance)) ** 2 / 2


# --- the bound of one table -----------------------------------------------------------------------


def likelihood_bound(
    fp: float, fn: float, absent: int, present: int, notion: Notion, level: float
) -> float:
    """T(fp, fn): the least parameter whose curve comes within ``level`` of the half-counts.

    It is 0 where the curve of 0 does.

    >>> from audit.privacy import GDP
    >>> round(likelihood_bound(949, 743, 2000, 2000, GDP(), kappa(0.1)), 4)
    0.3404
    """
    return float(
        likelihood_bounds(np.array([fp]), np.array([fn]), absent, present, notion, level)[0]
    )


def likelihood_bounds(
    fp: Array, fn: Array, absent: int, present: int, notion: Notion, level: float
) -> Array:
    """(k,) T of tables (k,)."""
    return _touched(fp, fn, absent, present, notion, level)[0]


def closest(
    fp: float, fn: float, absent: int, present: int, notion: Notion, level: float
) -> tuple[float, float]:
    """The point (FPR, FNR) of the curve of T(fp, fn) at distance ``level`` from the table."""
    _, fpr, fnr = _touched(np.array([fp]), np.array([fn]), absent, present, notion, level)
    return float(fpr[0]), float(fnr[0])


def _touched(
    fp: Array, fn: Array, absent: int, present: int, notion: Notion, level: float
) -> tuple[Array, Array, Array]:
    """(k,) T of tables, and the points of its curves that touch them.

    T is the least parameter on the arc (n₀ + 1)·kl(x, a) + (n₁ + 1)·kl(y, b) = κ above the table.
    That arc is concave and every curve convex, so parameter ≤ c is an interval of the arc and a
    zoom on the least of a grid finds the minimum.
    """
    x = ((fp + 0.5) / (absent + 1))[:, None]
    y = ((fn + 0.5) / (present + 1))[:, None]
    rows = np.arange(len(x))
    # A share sin² of κ is spent on the absent side: the arc is then close to an ellipse in its
    # angle, so that an even grid of angles is an even grid on the arc.
    low = np.zeros(len(x))
    high = np.full(len(x), math.pi / 2)
    for _ in range(ZOOMS):
        angle = np.linspace(low, high, GRID, axis=1)
        fpr = farther(x, level * np.sin(angle) ** 2 / (absent + 1))
        fnr = farther(y, level * np.cos(angle) ** 2 / (present + 1))
        parameter = np.asarray(notion.parameter(fpr, fnr))
        least = np.argmin(parameter, axis=1)
        # The minimum lies between the neighbours of the least one.
        low = angle[rows, np.maximum(least - 1, 0)]
        high = angle[rows, np.minimum(least + 1, GRID - 1)]
    beats_guessing = x[:, 0] + y[:, 0] < 1
    bound = np.where(beats_guessing, parameter[rows, least], 0.0)
    return bound, fpr[rows, least], fnr[rows, least]


GRID = 33
"""Angles of one zoom."""

ZOOMS = 9
"""Each narrows the angle 16 times: 9 reach 2e-11 of a right angle."""


def farther(rate: Array, distance: Array) -> Array:
    """The p ≥ ``rate`` with kl(rate, p) = ``distance``.

    By Newton on √(2kl), which is nearly a straight line in θ = arcsin √p.
    """
    root = np.sqrt(2 * distance)
    start = np.arcsin(np.sqrt(rate))
    theta = np.minimum(start + root / 2, math.pi / 2 - 1e-9)
    for _ in range(30):
        p = np.sin(theta) ** 2
        reached = np.sqrt(2 * np.maximum(entropy(rate, p), 0.0))
        # d kl/dθ = 2(p − rate)/√(p(1 − p)), so that of √(2kl) is that over √(2kl) itself …
        deviation = np.sqrt(p * np.cos(theta) ** 2)
        slope = 2 * (p - rate) / (deviation * np.maximum(reached, 1e-8))
        # … which is 0/0 at no distance; its limit there is 2.
        slope = np.where(reached > 1e-8, slope, 2.0)
        step = (root - reached) / slope
        theta = np.clip(theta + step, start, (theta + math.pi / 2) / 2)
        if np.max(np.abs(step)) < 1e-14:
            break
    return np.asarray(np.sin(theta) ** 2)


def entropy(rate: Any, p: Array) -> Array:
    """kl(rate, p) for rates and p in (0, 1), without cancellation where they are close."""
    gap = p - rate
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(-rate * np.log1p(gap / rate) - (1 - rate) * np.log1p(-gap / (1 - rate)))


# --- a curve as points ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Piece:
    """Points of a smooth piece of a tradeoff curve, from left to right.

    Args:
        fpr, fnr: (k,) rates.
        slope: (k,) −f′ at these points.
    """

    fpr: Array
    fnr: Array
    slope: Array


def inverse(notion: Notion) -> Notion:
    """The family of the inverse curves: the notion itself, or a piece's mirror image."""
    if not hasattr(notion, "mirrored"):
        return notion
    return cast(Notion, dataclasses.replace(cast(Any, notion), mirrored=not notion.mirrored))


@functools.lru_cache(maxsize=64)
def pieces_of(notion: Notion, parameter: float) -> tuple[Piece, ...]:
    """A curve between its corners, as points that are dense at both ends.

    With z and w the normal quantiles of FPR and FNR, z + w is a smooth function of z − w: constant
    for GDP, and with a slope inside (−1, 1) for every falling curve, however steep. zCDP's curve,
    slow to solve for, is a spline there: it orders tables and places points, no size is computed
    with it.
    """
    slow = isinstance(notion, ZCDP | ZCDPSide)
    fpr, fnr = _points(notion, parameter, 240 if slow else 500)
    z = ndtri(fpr)
    w = ndtri(fnr)
    corners = _corners(notion, parameter)
    ends = [-math.inf, *(float(ndtri(x) - ndtri(y)) for x, y in corners), math.inf]
    pieces = []
    for place in range(len(ends) - 1):
        between = (z - w > ends[place]) & (z - w < ends[place + 1])
        # the corners at both ends of this piece, (0 to 2, 2)
        edge = np.array(corners[max(place - 1, 0) : place + 1]) if corners else np.zeros((0, 2))
        piece_z = np.append(z[between], ndtri(edge[:, 0]))
        piece_w = np.append(w[between], ndtri(edge[:, 1]))
        piece = _piece(piece_z, piece_w, ends, slow)
        if piece is not None:
            pieces.append(piece)
    return tuple(pieces)


def _points(notion: Notion, parameter: float, count: int) -> tuple[Array, Array]:
    """FPR and FNR of points of a curve, dense at both ends; rates of nearly 0 or 1 are left out.

    A curve and its inverse are both read at small rates, since each is flat where the other is
    steep.
    """
    rate = ndtr(np.linspace(-7.4, 7.4, count))
    fnr_at = np.asarray(notion.beta(rate, parameter))
    mirrored = inverse(notion)
    fpr_at = fnr_at if mirrored == notion else np.asarray(mirrored.beta(rate, parameter))
    fpr = np.concatenate([rate, fpr_at])
    fnr = np.concatenate([fnr_at, rate])
    inside = (fpr > TINY) & (fnr > TINY) & (fpr < 1 - 1e-11) & (fnr < 1 - 1e-11)
    return fpr[inside], fnr[inside]


def _corners(notion: Notion, parameter: float) -> list[tuple[float, float]]:
    """(FPR, FNR) of the curve's corners, but for those at a rate of nearly 0 or 1."""
    corners = []
    for x in notion.kinks(parameter):
        y = float(notion.beta(x, parameter))
        if TINY < y < 1 - TINY and TINY < x < 1 - TINY:
            corners.append((x, y))
    return corners


TINY = 1e-13
"""A rate below this is never seen."""

CLOSE = 0.005
"""Of z − w: points nearer than this would make the numerical derivative noisy."""


def _piece(z: Array, w: Array, ends: list[float], slow: bool) -> Piece | None:
    """A piece through these quantiles; corners stay in it, close neighbours leave."""
    order = np.argsort(z - w)
    across = (z - w)[order]
    along = (z + w)[order]
    corner = np.isin(across, ends)
    keep = (np.diff(across, prepend=-math.inf) > CLOSE) | corner
    if corner[-1:].any() and len(across) > 1 and across[-1] - across[-2] < CLOSE:
        keep[-2] = corner[-2]  # the neighbour of a last corner leaves, not the corner
    across = across[keep]
    along = along[keep]
    if len(across) < 4:
        return None
    if slow:
        spline = CubicSpline(across, along)
        across = np.linspace(across[0], across[-1], 4 * len(across))
        along = spline(across)
        bend = spline(across, 1)
    else:
        bend = np.gradient(along, across, edge_order=2)
    # Rounding may make the slope of a vertical or flat end ±1 or more.
    bend = np.clip(bend, -1 + 1e-15, 1 - 1e-15)
    z = (along + across) / 2
    w = (along - across) / 2
    with np.errstate(over="ignore"):
        slope = np.exp((z**2 - w**2) / 2) * (1 - bend) / (1 + bend)
    return Piece(ndtr(z), ndtr(w), slope)


# --- all tables at a distance ---------------------------------------------------------------------


def frontier(
    notion: Notion, parameter: float, absent: int, present: int, level: float, fp: Array
) -> Array:
    """(k,) the largest real fn with T(fp, fn) ≥ ``parameter``, plus TIES; below 0 for none.

    Two tables whose T is the same number, mirror images say, must not be told apart by rounding:
    each belongs to the region of the other, or the two together could exceed the level. So the
    frontier lies TIES farther than computed, which is more than its own error; the region is valid
    all the same, its probability is what it is.

    From each point of the curve, and from corners in every direction between their two slopes, one
    walks against the gradient until the distance is κ. The end is on the frontier, and that point
    of the curve is the closest to it. In between it is a cubic, with slopes that are exact by the
    envelope theorem.
    """
    sides = (absent + 1, present + 1)
    curve = _with_corners(pieces_of(notion, parameter), sides)
    x, y, tilt = _walk(curve, sides, level)
    if len(x) < 2:
        return np.full(len(fp), -1.0)
    rows = (np.asarray(fp) + 0.5) / (absent + 1)
    # In arcsin √rate the noise of counts is the same everywhere.
    x_angle = np.arcsin(np.sqrt(x))
    y_angle = np.arcsin(np.sqrt(y))
    # Rates that differ in their last bit may have the same square root.
    increasing = np.diff(x_angle, prepend=-1.0) > 0
    x = x[increasing]
    y = y[increasing]
    x_angle = x_angle[increasing]
    y_angle = y_angle[increasing]
    slopes = tilt[increasing] * np.sqrt(x * (1 - x) / (y * (1 - y)))
    at = np.arcsin(np.sqrt(rows))
    spline = CubicHermiteSpline(x_angle, y_angle, slopes)
    reached = spline(np.clip(at, x_angle[0], x_angle[-1]))
    fn = (present + 1) * np.sin(np.clip(reached + TIES, 0.0, math.pi / 2)) ** 2 - 0.5
    # The last point may be a table itself, up to rounding.
    return np.where(at > x_angle[-1] * (1 + 1e-9), -1.0, fn)


TIES = 5e-6
"""Of arcsin √rate, in which zCDP's frontier is up to 4e-6 wrong (a spline of its curve) and the
others' up to 1e-7."""


def _with_corners(pieces: tuple[Piece, ...], sides: tuple[int, int]) -> Piece:
    """One run of points; a corner is repeated with slopes from one piece's to the other's."""
    if not pieces:
        return Piece(*(np.zeros(0) for _ in range(3)))
    parts = [dataclasses.astuple(pieces[0])]
    for before, after in itertools.pairwise(pieces):
        fpr = float(after.fpr[0])
        fnr = float(after.fnr[0])
        # Slopes are spaced evenly in the angle, in units of both rates' standard deviations.
        ratio = math.sqrt(fpr * (1 - fpr) / sides[0]) / math.sqrt(fnr * (1 - fnr) / sides[1])
        first_angle = math.atan(before.slope[-1] * ratio)
        last_angle = math.atan(after.slope[0] * ratio)
        angle = np.linspace(first_angle, last_angle, CORNER_SLOPES + 2)[1:-1]
        corner = (
            np.full(CORNER_SLOPES, fpr),
            np.full(CORNER_SLOPES, fnr),
            np.tan(angle) / ratio,
        )
        parts += [corner, dataclasses.astuple(after)]
    return Piece(*(np.concatenate(column) for column in zip(*parts, strict=True)))


CORNER_SLOPES = 120
"""Directions in which the frontier is followed from a corner."""


def _walk(curve: Piece, sides: tuple[int, int], level: float) -> tuple[Array, Array, Array]:
    """Where walks against the gradient, from points of a curve, reach distance ``level``.

    Returns:
        (k,) rates x and y there, from left to right, and (k,) dy/dx of the frontier. Points whose
        walk ends at a rate of 0 before are closest to no table and are left out.
    """
    fpr = curve.fpr
    fnr = curve.fnr
    variance_x = fpr * (1 - fpr) / sides[0]
    variance_y = fnr * (1 - fnr) / sides[1]
    scale = np.sqrt(variance_y + curve.slope**2 * variance_x)
    # One step moves by about one standard deviation, perpendicular to the curve.
    right = curve.slope * variance_x / scale
    up = variance_y / scale
    # Beyond this a rate would be below 0.
    longest_x = fpr / np.maximum(right, 1e-300)
    longest_y = fnr / np.maximum(up, 1e-300)
    longest = np.minimum(longest_x, longest_y) * (1 - 1e-12)

    def excess_at(step: Array) -> tuple[Array, Array, Array]:
        x = fpr - step * right
        y = fnr - step * up
        return x, y, sides[0] * entropy(x, fpr) + sides[1] * entropy(y, fnr) - level

    reaches = excess_at(longest)[2] > 0
    fpr = fpr[reaches]
    fnr = fnr[reaches]
    right = right[reaches]
    up = up[reaches]
    low = np.zeros_like(fpr)
    high = longest[reaches]
    step = np.minimum(math.sqrt(2 * level), high)
    # Newton in a bracket: the distance is convex in the step, and its slope has a logarithmic pole
    # at a rate of 0, where Newton alone could leave the range.
    for _ in range(60):
        x, y, excess = excess_at(step)
        tilt_x = sides[0] * _log_odds_gap(fpr, x)
        tilt_y = sides[1] * _log_odds_gap(fnr, y)
        low = np.where(excess < 0, step, low)
        high = np.where(excess < 0, high, step)
        if np.all((np.abs(excess) < 1e-11 * level) | (high - low < 1e-14 * high)):
            break
        newton = step - excess / (right * tilt_x + up * tilt_y)
        step = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    if not len(x):
        return x, y, -(tilt_x / tilt_y)
    # Near a corner walks may cross by rounding; the frontier is read from left to right.
    ahead = x > np.maximum.accumulate(np.append(-1.0, x[:-1]))
    return x[ahead], y[ahead], -(tilt_x / tilt_y)[ahead]


def _log_odds_gap(high: Array, low: Array) -> Array:
    """logit(high) − logit(low), from their difference: no cancellation where they are close."""
    return np.log1p((high - low) / (low * (1 - high)))
