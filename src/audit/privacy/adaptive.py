"""Adaptive composition of Gaussian steps and steps of private selection, as one GDP claim.

References:
    Dong, Durfee, Rogers, arXiv:1909.13830 (bounded range).
    Cesar, Rogers, Bounding, concentrating, and truncating, arXiv:2004.07223.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq

from audit.privacy.conversions import gdp_delta
from audit.privacy.parameters import Floats

_DEVIATIONS = 9.0
"""Beyond so many standard deviations a normal has a mass of 1e-19: nothing that counts."""
_INTERVALS = 16
"""Of a selection step's t, before the parabola through the best three."""
_MOST_POINTS = 4_000
"""On each side of ln γ = 0: bounds the time of a step."""

# --- steps ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class GaussianStep:
    """A step that adds Gaussian noise.

    Args:
        mu: its sensitivity over its noise's standard deviation, ≥ 0.
    """

    mu: float


@dataclasses.dataclass(frozen=True)
class SelectionStep:
    """A step by the exponential mechanism, which is ε-DP and ε-bounded-range.

    Args:
        epsilon: ≥ 0.
    """

    epsilon: float


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AdaptiveBranch:
    """A point from which the steps depend on the outputs before it; the worst is counted.

    Several may share an option: it is worked out once (a graph, not a tree).

    Args:
        options: each a sequence of steps.
    """

    options: tuple[tuple[Step, ...], ...]


Step = GaussianStep | SelectionStep | AdaptiveBranch


# --- the composition ------------------------------------------------------------------------------


def adaptive_profile(steps: Sequence[Step], fineness: float = 3.0) -> tuple[Floats, Floats]:
    """h(γ) = sup over events and adaptive courses of P(event) − γ·Q(event) of running ``steps``.

    The recursion runs backwards from (1 − γ)₊. A Gaussian step: h ← E[h(γ·e^(−L))], L ~ N(μ²/2,
    μ²). A selection step: h ← max over t in [0, ε] of
    q·e^t·h(γ·e^(−t)) + (1 − q)·e^(t−ε)·h(γ·e^(ε−t)), with q = (e^(−t) − e^(−ε))/(1 − e^(−ε)).
    AdaptiveBranch: the larger, γ by γ.

    This is **numerical, not certified**: h is known on a grid of ln γ, between whose points it is
    interpolated (the best t too), and cut off 9 standard deviations out. Doubling ``fineness``
    shows the error.

    Args:
        steps: in the order in which they are run.
        fineness: grid points per smallest Gaussian step's μ, at least 2.

    Returns:
        ln γ, (2n + 1,) symmetric about 0, and h there.

    Raises:
        ValueError: a μ or ε that is negative or infinite, no privacy spent at all, a fineness below
            2.

    References:
        Dong, Durfee, Rogers, arXiv:1909.13830 (bounded range); Cesar, Rogers, arXiv:2004.07223.

    >>> grid, delta = adaptive_profile([GaussianStep(0.3), GaussianStep(0.4)])
    >>> bool(np.allclose(delta, gdp_delta(0.5, grid)))
    True
    """
    if not fineness >= 2:
        raise ValueError(f"fineness = {fineness} is below 2")
    rho, smallest_mu = _extent(tuple(steps), {})
    if rho == 0:
        raise ValueError("the steps spend no privacy")
    # The privacy loss of ρ has a mean of ρ at most, and a variance of 2ρ.
    limit = rho + _DEVIATIONS * math.sqrt(2 * rho)
    wanted_points = max(fineness * limit / smallest_mu, 100 * fineness)
    points = math.ceil(min(wanted_points, _MOST_POINTS))
    grid = np.linspace(-limit, limit, 2 * points + 1)
    nothing_left = _Profile(grid, gdp_delta(0.0, grid), 0.0)
    return grid, _precede(tuple(steps), nothing_left, {}).values


def adaptive_mu(steps: Sequence[Step], fineness: float = 3.0) -> float:
    """Least μ whose curve lies below every adaptive course of ``steps``: their GDP claim.

    `adaptive_profile` read as GDP. **Numerical, not certified**; read where h ≥ 1e-9.

    >>> round(adaptive_mu([GaussianStep(0.3), GaussianStep(0.4)]), 9)
    0.5
    >>> 0.5 < adaptive_mu([GaussianStep(0.3), SelectionStep(0.1), GaussianStep(0.4)]) < 0.51
    True
    """
    grid, profile = adaptive_profile(steps, fineness)
    # h(1/γ) says the same as h(γ), so half the grid is enough.
    used = (grid >= 0) & (profile > 1e-9)
    log_gamma = grid[used]
    log_profile = np.log(profile[used])

    def excess(mu: float) -> float:
        with np.errstate(divide="ignore"):
            log_delta = np.log(np.maximum(gdp_delta(mu, log_gamma), 1e-300))
        # 1e-12 allows for rounding: h can be 1 to the last bit, which no finite μ would reach.
        return float(np.max(log_profile - log_delta)) - 1e-12

    high = 1.0
    while excess(high) > 0 and high < 1e9:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-12))


def _extent(steps: tuple[Step, ...], known: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """The most ρ that a course spends (Σ μ²/2 + Σ ε²/8), and the smallest μ > 0 (∞ if none).

    Args:
        steps: a course.
        known: results by the identity of an `AdaptiveBranch`, which may be reached on many ways.
    """
    rho = 0.0
    smallest_mu = math.inf
    for step in steps:
        if isinstance(step, AdaptiveBranch):
            if id(step) not in known:
                extents = [_extent(option, known) for option in step.options]
                largest_rho = max(extent[0] for extent in extents)
                known[id(step)] = largest_rho, min(extent[1] for extent in extents)
            step_rho, step_mu = known[id(step)]
        else:
            step_rho, step_mu = _extent_of_one(step)
        rho += step_rho
        smallest_mu = min(smallest_mu, step_mu)
    return rho, smallest_mu


def _extent_of_one(step: GaussianStep | SelectionStep) -> tuple[float, float]:
    """Its ρ, and its μ (∞ if it has none); raises ValueError if its parameter is out of range."""
    if isinstance(step, GaussianStep):
        _check_finite(step, step.mu)
        return step.mu**2 / 2, step.mu if step.mu > 0 else math.inf
    _check_finite(step, step.epsilon)
    return step.epsilon**2 / 8, math.inf


def _check_finite(step: Step, parameter: float) -> None:
    """Raise ValueError if ``parameter`` is negative or infinite."""
    if not 0 <= parameter < math.inf:
        raise ValueError(f"{step} must be finite and at least 0")


# --- one profile, and what a step makes of it -----------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _Profile:
    """h on a grid of ln γ.

    Args:
        grid: ln γ, evenly spaced.
        values: h there.
        mu: where h is that of μ-GDP exactly (0 the start), None where only the grid is known.
    """

    grid: Floats
    values: Floats
    mu: float | None = None

    @property
    def spacing(self) -> float:
        return float(self.grid[1] - self.grid[0])

    def padded(self, width: int) -> Floats:
        """h continued by ``width`` points on each side: 1 − γ to the left, 0 to the right."""
        left = -np.expm1(self.grid[0] - self.spacing * np.arange(width, 0, -1))
        right = np.zeros(width)
        return np.concatenate([left, self.values, right])

    def shifted(self, t: float) -> Floats:
        """h(γ·e^(−t)) on the grid, by six-point Lagrange interpolation."""
        if self.mu is not None:
            return np.asarray(gdp_delta(self.mu, self.grid - t), float)
        # A shift by t is one by a whole number of points, and one by less than a point.
        whole = math.floor(t / self.spacing)
        fraction = t / self.spacing - whole
        size = len(self.grid)
        # Beyond the grid's width everything is padding: more of it changes nothing.
        width = min(abs(whole) + 4, size)
        padded = self.padded(width)
        total = np.zeros_like(self.values)
        nodes = np.arange(-2, 4)
        for node in nodes:
            start = min(max(width - whole - int(node), 0), 2 * width)
            total += _lagrange_weight(fraction, node, nodes) * padded[start : start + size]
        return total


def _lagrange_weight(x: float, node: np.signedinteger, nodes: np.ndarray) -> float:
    """The polynomial at ``x`` that is 1 at ``node`` and 0 at the other ``nodes``."""
    others = [other for other in nodes if other != node]
    return math.prod((x - other) / (node - other) for other in others)


def _precede(
    steps: tuple[Step, ...],
    tail: _Profile,
    known: dict[tuple[int, int], tuple[_Profile, _Profile]],
) -> _Profile:
    """The profile of ``steps`` followed by what ``tail`` stands for.

    Args:
        steps: a course.
        tail: the profile of what comes after it.
        known: (tail, result) by the identities of an `AdaptiveBranch` and of what comes after it.
            The tail is kept so that no later profile can have its identity.
    """
    for step in reversed(steps):
        if isinstance(step, GaussianStep):
            tail = _precede_by_gaussian(tail, step.mu)
        elif isinstance(step, SelectionStep):
            tail = _precede_by_selection(tail, step.epsilon)
        else:
            key = (id(step), id(tail))
            if key not in known:
                profiles = [_precede(option, tail, known) for option in step.options]
                worst = np.maximum.reduce([profile.values for profile in profiles])
                known[key] = tail, _Profile(tail.grid, worst)
            tail = known[key][1]
    return tail


def _precede_by_gaussian(tail: _Profile, mu: float) -> _Profile:
    """E[h(γ·e^(−L))], L ~ N(μ²/2, μ²).

    Exact for a Gaussian tail, else the trapezoid rule on the grid.
    """
    if mu == 0:
        return tail
    mean = mu * mu / 2  # of the privacy loss L, whose deviation is μ
    if tail.mu is not None:
        composed_mu = math.hypot(tail.mu, mu)
        delta = np.asarray(gdp_delta(composed_mu, tail.grid), float)
        return _Profile(tail.grid, delta, composed_mu)
    if mu < 1.5 * tail.spacing:
        # The density is too narrow for the grid: three Gauss–Hermite nodes, exact for a quintic h.
        distance = math.sqrt(3) * mu
        below = tail.shifted(mean - distance)
        centre = tail.shifted(mean)
        above = tail.shifted(mean + distance)
        return _Profile(tail.grid, (below + 4 * centre + above) / 6)
    farthest_loss = _DEVIATIONS * mu + mean
    width = math.ceil(farthest_loss / tail.spacing)
    loss = np.arange(-width, width + 1) * tail.spacing
    z = (loss - mean) / mu
    # The trapezoid rule converges exponentially for a normal density.
    normaliser = mu * math.sqrt(2 * math.pi)
    weights = np.exp(-z * z / 2) * tail.spacing / normaliser
    values = np.convolve(tail.padded(width), weights, mode="valid")
    return _Profile(tail.grid, values)


def _precede_by_selection(tail: _Profile, epsilon: float) -> _Profile:
    """The selection step's maximum over t in [0, ε].

    On 16 intervals, and then by the parabola through the best three.
    """
    if epsilon == 0:
        return tail
    ts = np.linspace(0.0, epsilon, _INTERVALS + 1)
    chances = np.expm1(epsilon - ts) / math.expm1(epsilon)  # q, without a cancellation
    rows = [tail.values]  # at t = 0 and t = ε the output says nothing
    for t, q in zip(ts[1:-1], chances[1:-1], strict=True):
        likelier = q * math.exp(t) * tail.shifted(t)
        less_likely = (1 - q) * math.exp(t - epsilon) * tail.shifted(t - epsilon)
        rows.append(likelier + less_likely)
    rows.append(tail.values)
    values = np.array(rows)
    # An inner row, so that it has a neighbour on both sides.
    best = np.clip(np.argmax(values, axis=0), 1, _INTERVALS - 1)
    columns = np.arange(values.shape[1])
    before = values[best - 1, columns]
    at_best = values[best, columns]
    after = values[best + 1, columns]
    bend = 2 * at_best - before - after
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # How far the parabola's peak lies above its middle point.
        parabola_rise = (after - before) ** 2 / (8 * bend)
        peak = at_best + np.where(bend > 0, parabola_rise, 0.0)
    # The parabola is about an inner row: the largest may be one at an end.
    best_row = np.max(values, axis=0)
    return _Profile(tail.grid, np.maximum(peak, best_row))
