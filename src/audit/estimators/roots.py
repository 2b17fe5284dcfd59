"""Roots of monotone probabilities, from the safe side."""

from __future__ import annotations

from collections.abc import Callable

from scipy.special import ndtri


def last_below(at: Callable[[float], float], start: float, target: float) -> float:
    """Where a probability that rises with the parameter is ``target``, from below.

    It looks no farther than three times as high as ``start``; 0 where the probability is above
    ``target`` all the way down.
    """

    def excess(parameter: float) -> float:
        return quantile(at(parameter)) - quantile(target)

    low = high = (start, excess(start))
    step = 0.02 * start
    while low[1] > 0:
        high, parameter = low, max(low[0] - step, low[0] / 8)
        if parameter < 1e-9:
            return 0.0
        low, step = (parameter, excess(parameter)), 3 * step
    while high[1] <= 0:
        low, parameter = high, high[0] + step
        if parameter > 3 * start:
            return low[0]
        high, step = (parameter, excess(parameter)), 3 * step
    return narrowed(excess, low, high, close=-2e-6)[0]


def quantile(probability: float) -> float:
    """Φ⁻¹, finite: probabilities of regions are nearly straight on this scale."""
    return float(ndtri(min(max(probability, 1e-300), 1 - 1e-16)))


Sample = tuple[float, float]
"""An argument and the value of a rising function there."""


def narrowed(
    rising: Callable[[float], float],
    low: Sample,
    high: Sample,
    width: float = 1e-7,
    close: float = 0.0,
) -> tuple[float, float]:
    """A bracket of a root, narrowed to ``width`` of itself, or to where the value at an end is
    within ``close`` (Illinois).

    Args:
        low, high: where the function is ≤ 0, and > 0.
        close: of 0; its sign says which end must be, below 0 the lower one.
    """
    side = 0
    while high[0] - low[0] > width * high[0]:
        share = min(max(-low[1] / (high[1] - low[1]), 0.02), 0.98)
        middle = low[0] + (high[0] - low[0]) * share
        value = rising(middle)
        if value <= 0:
            low, high = (middle, value), (high[0], high[1] / 2 if side == -1 else high[1])
            side = -1
        else:
            low, high = (low[0], low[1] / 2 if side == 1 else low[1]), (middle, value)
            side = 1
        if min(close, 0.0) <= value <= max(close, 0.0):
            break
    return low[0], high[0]


def first_below(
    at: Callable[[float], float],
    start: float,
    most: float,
    target: float,
    width: float,
    close: float,
) -> float:
    """The least argument, up to ``most``, at which a falling probability is ≤ ``target``; see
    `narrowed`."""

    def spare(parameter: float) -> float:
        return quantile(target) - quantile(at(parameter))

    low = high = (start, spare(start))
    step = 0.01 * start
    while low[1] >= 0:
        high, parameter = low, max(low[0] - step, low[0] / 8)
        if parameter < 1e-9:
            return high[0]
        low, step = (parameter, spare(parameter)), 3 * step
    while high[1] < 0:
        if high[0] >= most:
            return most
        low, parameter = high, min(high[0] + step, most)
        high, step = (parameter, spare(parameter)), 3 * step
    return narrowed(spare, low, high, width, close)[1]
