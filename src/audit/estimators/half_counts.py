"""The order of confusion tables behind `audit.estimators.exact`: a likelihood-ratio bound on
half-counts.

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
    """T(fp, fn): the least parameter whose curve comes within ``level`` of the half-counts; 0 where
    that of 0 does.

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
    """The point (FPR, FNR) of the curve of T(fp, fn) that is at distance ``level`` from the
    table."""
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
    x, y = ((fp + 0.5) / (absent + 1))[:, None], ((fn + 0.5) / (present + 1))[:, None]
    # A share t = sin² of κ is spent on the absent side: the arc is then close to an ellipse in its
    # angle.
    low, high = np.zeros(len(x)), np.full(len(x), math.pi / 2)
    for _ in range(9):
        angle = np.linspace(low, high, 33, axis=1)
        fpr = farther(x, level * np.sin(angle) ** 2 / (absent + 1))
        fnr = farther(y, level * np.cos(angle) ** 2 / (present + 1))
        found = np.asarray(notion.parameter(fpr, fnr))
        rows, at = np.arange(len(x)), np.argmin(found, axis=1)
        low, high = angle[rows, np.maximum(at - 1, 0)], angle[rows, np.minimum(at + 1, 32)]
    least = np.where(x[:, 0] + y[:, 0] < 1, found[rows, at], 0.0)
    return least, fpr[rows, at], fnr[rows, at]


def farther(rate: Array, distance: Array) -> Array:
    """The p ≥ ``rate`` with kl(rate, p) = ``distance``, by Newton on √kl, which is nearly straight
    in arcsin √p."""
    root = np.sqrt(2 * distance)
    start = np.arcsin(np.sqrt(rate))
    theta = np.minimum(start + root / 2, math.pi / 2 - 1e-9)
    for _ in range(30):
        p = np.sin(theta) ** 2
        signed = np.sqrt(2 * np.maximum(entropy(rate, p), 0.0))
        # d kl/dθ = 2(p − rate)/√(p(1 − p)); at no distance at all the derivative of √(2kl) is 2
        slope = np.where(
            signed > 1e-8,
            2 * (p - rate) / (np.sqrt(p * np.cos(theta) ** 2) * np.maximum(signed, 1e-8)),
            2.0,
        )
        step = (root - signed) / slope
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
    """Points of a smooth piece of a tradeoff curve, from left to right: rates (k,) and the
    slope −f′ there (k,)."""

    fpr: Array
    fnr: Array
    slope: Array


def inverse(notion: Notion) -> Notion:
    """The family whose curves are the inverse functions: itself, but for a piece that has a mirror
    image."""
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
    rate = ndtr(np.linspace(-7.4, 7.4, 240 if slow else 500))
    fnr_at, mirrored = np.asarray(notion.beta(rate, parameter)), inverse(notion)
    fpr_at = fnr_at if mirrored == notion else np.asarray(mirrored.beta(rate, parameter))
    fpr, fnr = np.concatenate([rate, fpr_at]), np.concatenate([fnr_at, rate])
    corners = [(x, float(notion.beta(x, parameter))) for x in notion.kinks(parameter)]
    corners = [(x, y) for x, y in corners if TINY < y < 1 - TINY and TINY < x < 1 - TINY]
    inside = (fpr > TINY) & (fnr > TINY) & (fpr < 1 - 1e-11) & (fnr < 1 - 1e-11)
    z, w = ndtri(fpr[inside]), ndtri(fnr[inside])
    ends = [-math.inf, *(float(ndtri(x) - ndtri(y)) for x, y in corners), math.inf]
    found = []
    for place in range(len(ends) - 1):
        mine = (z - w > ends[place]) & (z - w < ends[place + 1])
        edge = np.array(corners[max(place - 1, 0) : place + 1]) if corners else np.zeros((0, 2))
        piece = _piece(
            np.append(z[mine], ndtri(edge[:, 0])), np.append(w[mine], ndtri(edge[:, 1])), ends, slow
        )
        found += [piece] if piece is not None else []
    return tuple(found)


TINY = 1e-13  # a rate below this is never seen


def _piece(z: Array, w: Array, ends: list[float], slow: bool) -> Piece | None:
    """A piece through these quantiles; corners stay in it, close neighbours leave."""
    order = np.argsort(z - w)
    across, along = (z - w)[order], (z + w)[order]
    spaced = np.diff(across, prepend=-math.inf) > 0.005
    corner = np.isin(across, ends)
    spaced |= corner
    if corner[-1:].any() and len(across) > 1 and across[-1] - across[-2] < 0.005:
        spaced[-2] = corner[-2]
    across, along = across[spaced], along[spaced]
    if len(across) < 4:
        return None
    if slow:
        spline = CubicSpline(across, along)
        across = np.linspace(across[0], across[-1], 4 * len(across))
        along, bend = spline(across), spline(across, 1)
    else:
        bend = np.gradient(along, across, edge_order=2)
    bend = np.clip(bend, -1 + 1e-15, 1 - 1e-15)
    z, w = (along + across) / 2, (along - across) / 2
    with np.errstate(over="ignore"):
        slope = np.exp((z**2 - w**2) / 2) * (1 - bend) / (1 + bend)
    return Piece(ndtr(z), ndtr(w), slope)


# --- all tables at a distance ---------------------------------------------------------------------


def frontier(
    notion: Notion, parameter: float, absent: int, present: int, level: float, fp: Array
) -> Array:
    """(k,) the largest real fn with T(fp, fn) ≥ ``parameter``, for each fp (k,), and TIES more;
    below 0 for none.

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
    # in arcsin √rate the noise of counts is the same everywhere
    flat, high = np.arcsin(np.sqrt(x)), np.arcsin(np.sqrt(y))
    # rates that differ in their last bit may have the same square root
    ahead = np.diff(flat, prepend=-1.0) > 0
    x, y, tilt, flat, high = (column[ahead] for column in (x, y, tilt, flat, high))
    slopes = tilt * np.sqrt(x * (1 - x) / (y * (1 - y)))
    at = np.arcsin(np.sqrt(rows))
    reached = CubicHermiteSpline(flat, high, slopes)(np.clip(at, flat[0], flat[-1]))
    fn = (present + 1) * np.sin(np.clip(reached + TIES, 0.0, math.pi / 2)) ** 2 - 0.5
    # the last point may be a table itself, up to rounding
    return np.where(at > flat[-1] * (1 + 1e-9), -1.0, fn)


TIES = 5e-6
"""Of arcsin √rate, in which zCDP's frontier is up to 4e-6 wrong (a spline of its curve) and the
others' up to 1e-7."""


def _with_corners(pieces: tuple[Piece, ...], sides: tuple[int, int]) -> Piece:
    """One run of points; between two pieces the corner, with 120 slopes from one piece's to the
    other's."""
    if not pieces:
        return Piece(*(np.zeros(0) for _ in range(3)))
    parts = [dataclasses.astuple(pieces[0])]
    for before, after in itertools.pairwise(pieces):
        fpr, fnr = float(after.fpr[0]), float(after.fnr[0])
        ratio = math.sqrt(fpr * (1 - fpr) / sides[0]) / math.sqrt(fnr * (1 - fnr) / sides[1])
        angle = np.linspace(
            math.atan(before.slope[-1] * ratio), math.atan(after.slope[0] * ratio), 122
        )[1:-1]
        parts += [
            (np.full(120, fpr), np.full(120, fnr), np.tan(angle) / ratio),
            dataclasses.astuple(after),
        ]
    return Piece(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _walk(curve: Piece, sides: tuple[int, int], level: float) -> tuple[Array, Array, Array]:
    """Rates x, y at distance ``level`` from points of a curve, which are the closest ones, and
    dy/dx there."""
    a, b, slope = curve.fpr, curve.fnr, curve.slope
    noise_x, noise_y = a * (1 - a) / sides[0], b * (1 - b) / sides[1]
    scale = np.sqrt(noise_y + slope**2 * noise_x)
    right, up = slope * noise_x / scale, noise_y / scale
    # beyond this a rate would be below 0, and points whose way ends before the distance are closest
    # to no table
    longest = np.minimum(a / np.maximum(right, 1e-300), b / np.maximum(up, 1e-300)) * (1 - 1e-12)

    def excess_at(step: Array) -> tuple[Array, Array, Array]:
        x, y = a - step * right, b - step * up
        return x, y, sides[0] * entropy(x, a) + sides[1] * entropy(y, b) - level

    reaches = excess_at(longest)[2] > 0
    a, b, right, up, high = a[reaches], b[reaches], right[reaches], up[reaches], longest[reaches]
    low, step = np.zeros_like(a), np.minimum(math.sqrt(2 * level), high)
    # Newton in a bracket: the distance is convex in the step, with a logarithmic pole of its slope
    # at a rate of 0
    for _ in range(60):
        x, y, excess = excess_at(step)
        tilt_x, tilt_y = sides[0] * _log_odds_gap(a, x), sides[1] * _log_odds_gap(b, y)
        low, high = np.where(excess < 0, step, low), np.where(excess < 0, high, step)
        if np.all((np.abs(excess) < 1e-11 * level) | (high - low < 1e-14 * high)):
            break
        newton = step - excess / (right * tilt_x + up * tilt_y)
        step = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
    ahead = x > np.maximum.accumulate(np.append(-1.0, x[:-1])) if len(x) else np.zeros(0, bool)
    return x[ahead], y[ahead], -(tilt_x / tilt_y)[ahead]


def _log_odds_gap(high: Array, low: Array) -> Array:
    """logit(high) − logit(low), from the difference of the rates: no cancellation where they are
    close."""
    return np.log1p((high - low) / (low * (1 - high)))
