"""Is it good enough yet? Private answers to that question, asked again and again of a number that records move little."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

import numpy as np
from pydantic.dataclasses import dataclass

from audit.accountants import Order, pure_to_renyi
from audit.core import Array
from audit.privacy import STRICT, PrivacyParameter


class Looks(Protocol):
    """One run of a check: asked once a step, until it says yes."""

    def passes(self, value: float) -> bool:
        """Whether ``value``, privately, is above the threshold."""
        ...

    @property
    def costs(self) -> list[float]:
        """Rényi ε of what was asked so far, to be summed."""
        ...

    @property
    def shown(self) -> float | None:
        """The last noisy value, where it is paid for."""
        ...


class Checker(Protocol):
    """How looks are made private."""

    def begin(self, threshold: float, sensitivity: float, order: float, rng: np.random.Generator) -> Looks:
        """A run whose values move by ``sensitivity`` with a record, at most."""
        ...


@dataclass(frozen=True, config=STRICT)
class Gaussian:
    """Each value plus N(0, αΔ²/(2ε)): every look costs ε of order α, and its noisy value may be shown.

    Args:
        eps: of each look, > 0.
    """

    eps: PrivacyParameter

    def begin(self, threshold: float, sensitivity: float, order: Order, rng: np.random.Generator) -> GaussianLooks:
        """See `Checker.begin`."""
        return GaussianLooks(self.eps, sensitivity * math.sqrt(order / (2 * self.eps)), threshold, rng)


@dataclasses.dataclass
class GaussianLooks:
    """Noisy values of standard deviation ``sigma``."""

    eps: float
    sigma: float
    threshold: float
    rng: np.random.Generator
    costs: list[float] = dataclasses.field(default_factory=list)
    shown: float | None = None

    def passes(self, value: float) -> bool:
        """See `Looks.passes`; the noisy value is left in ``shown``, for everybody to see."""
        self.costs.append(self.eps)
        self.shown = value + float(self.rng.normal(0.0, self.sigma))
        return self.shown >= self.threshold


@dataclass(frozen=True, config=STRICT)
class AboveThreshold:
    """Lap(2Δ/ε) on the threshold once, Lap(4Δ/ε) on each value: ε-DP however often it is asked, until it says yes.

    Its Rényi cost is `pure_to_renyi`, once; no noisy value may be shown.

    Args:
        eps: pure ε > 0 of all looks together.

    References:
        Lyu, Su, Li, Understanding the sparse vector technique, arXiv:1603.01699, Algorithm 1 with c = 1.
    """

    eps: PrivacyParameter

    def begin(
        self, threshold: float, sensitivity: float, order: Order, rng: np.random.Generator
    ) -> AboveThresholdLooks:
        """See `Checker.begin`."""
        noisy = threshold + float(rng.laplace(scale=2 * sensitivity / self.eps))
        return AboveThresholdLooks(pure_to_renyi(self.eps, order), 4 * sensitivity / self.eps, noisy, rng)


@dataclasses.dataclass
class AboveThresholdLooks:
    """One noisy threshold, and fresh Laplace noise of ``scale`` at each look.

    Raises:
        ValueError: when it is asked again after it has said yes, which would have to be paid for again.
    """

    cost: float
    scale: float
    noisy_threshold: float
    rng: np.random.Generator
    costs: list[float] = dataclasses.field(default_factory=list)
    over: bool = False
    shown: None = None

    def passes(self, value: float) -> bool:
        """See `Looks.passes`."""
        if self.over:
            raise ValueError("this check has said yes; begin another one, at its own cost")
        self.costs = [self.cost]
        self.over = value + float(self.rng.laplace(scale=self.scale)) >= self.noisy_threshold
        return self.over


def stopping_law(values: Array, eps: float, sensitivity: float, threshold: float = 0.0) -> Array:
    """(n + 1,) probability that `AboveThreshold` says yes at each of ``values``, and that it never does; exact.

    By Gauss–Legendre quadrature between the kinks, over the threshold's noise.

    Args:
        values: (n,) multiples of sensitivity/2 away from ``threshold``, so that kinks lie between the panels.
        eps: pure ε.
        sensitivity: Δ > 0.
        threshold: before noise.

    >>> stopping_law(np.array([0.0, 0.0]), 1.0, 1.0).round(4).tolist()
    [0.5, 0.2083, 0.2917]
    """
    outer, inner = 2 * sensitivity / eps, 4 * sensitivity / eps
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = sensitivity / 4
    reach = math.ceil(45 * outer / (2 * half)) + 2 * math.ceil(np.max(np.abs(values - threshold)) / (2 * half))
    centres = 2 * half * (np.arange(-reach, reach) + 0.5)
    z = (centres[:, None] + half * nodes).ravel()
    mass = np.tile(half * weights, len(centres)) * np.exp(-np.abs(z) / outer) / (2 * outer)
    gap = z[:, None] - (values - threshold)
    below = np.where(gap < 0, 0.5 * np.exp(-np.abs(gap) / inner), 1 - 0.5 * np.exp(-np.abs(gap) / inner))
    reached = np.cumprod(np.hstack([np.ones((len(z), 1)), below]), axis=1)
    return np.append(mass @ (reached[:, :-1] * (1 - below)), mass @ reached[:, -1])
