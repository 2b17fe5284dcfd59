"""Is it good enough yet? Private answers, asked again and again of a number that moves little."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

import numpy as np
from pydantic.dataclasses import dataclass

from audit.accountants import Order, pure_to_renyi
from audit.core import Array
from audit.privacy import STRICT, PrivacyParameter


class ThresholdCheck(Protocol):
    """One run of a check: asked once a step, until it says yes."""

    def passes(self, value: float) -> bool:
        """Whether ``value``, privately, is above the threshold."""
        ...

    @property
    def costs(self) -> list[float]:
        """Rényi ε of what was asked so far, to be summed."""
        ...

    @property
    def last_noisy_value(self) -> float | None:
        """The last noisy value, where it is paid for and may be published."""
        ...


class ThresholdMechanism(Protocol):
    """How checks against a threshold are made private."""

    def begin(
        self, threshold: float, sensitivity: float, order: float, rng: np.random.Generator
    ) -> ThresholdCheck:
        """A run whose values move by at most ``sensitivity`` with a record."""
        ...


@dataclass(frozen=True, config=STRICT)
class GaussianThreshold:
    """Each value plus N(0, αΔ²/(2ε)): a check costs ε of order α, and its value may be published.

    Args:
        eps: of each check, > 0.
    """

    eps: PrivacyParameter

    def begin(
        self, threshold: float, sensitivity: float, order: Order, rng: np.random.Generator
    ) -> GaussianCheck:
        """See `ThresholdMechanism.begin`."""
        sigma = sensitivity * math.sqrt(order / (2 * self.eps))
        return GaussianCheck(self.eps, sigma, threshold, rng)


@dataclasses.dataclass
class GaussianCheck:
    """Noisy values of standard deviation ``sigma``."""

    eps: float
    sigma: float
    threshold: float
    rng: np.random.Generator
    costs: list[float] = dataclasses.field(default_factory=list)
    last_noisy_value: float | None = None

    def passes(self, value: float) -> bool:
        """See `ThresholdCheck.passes`; the noisy value stays in ``last_noisy_value``."""
        self.costs.append(self.eps)
        self.last_noisy_value = value + float(self.rng.normal(0.0, self.sigma))
        return self.last_noisy_value >= self.threshold


@dataclass(frozen=True, config=STRICT)
class LaplaceThreshold:
    """Lap(2Δ/ε) on the threshold once, Lap(4Δ/ε) on each value: ε-DP until it says yes.

    The sparse vector technique: that ε pays for any number of checks. Its Rényi cost is
    `pure_to_renyi`, once; no noisy value may be published.

    Args:
        eps: pure ε > 0 of all checks together.

    References:
        Lyu, Su, Li, Understanding the sparse vector technique, arXiv:1603.01699, Algorithm 1 with
        c = 1.
    """

    eps: PrivacyParameter

    def begin(
        self, threshold: float, sensitivity: float, order: Order, rng: np.random.Generator
    ) -> LaplaceCheck:
        """See `ThresholdMechanism.begin`."""
        noisy_threshold = threshold + float(rng.laplace(scale=2 * sensitivity / self.eps))
        cost = pure_to_renyi(self.eps, order)
        return LaplaceCheck(cost, 4 * sensitivity / self.eps, noisy_threshold, rng)


@dataclasses.dataclass
class LaplaceCheck:
    """One noisy threshold, and fresh Laplace noise of ``scale`` at each check.

    Raises:
        ValueError: when it is asked again after its yes, which would have to be paid for again.
    """

    cost: float
    scale: float
    noisy_threshold: float
    rng: np.random.Generator
    costs: list[float] = dataclasses.field(default_factory=list)
    over: bool = False
    last_noisy_value: None = None

    def passes(self, value: float) -> bool:
        """See `ThresholdCheck.passes`."""
        if self.over:
            raise ValueError("this check has said yes; begin another one, at its own cost")
        self.costs = [self.cost]
        self.over = value + float(self.rng.laplace(scale=self.scale)) >= self.noisy_threshold
        return self.over


def stopping_law(values: Array, eps: float, sensitivity: float, threshold: float = 0.0) -> Array:
    """(n + 1,) probability that `LaplaceThreshold` says yes at each value, and that it never does.

    Exact, by Gauss–Legendre quadrature between the kinks, over the threshold's noise.

    Args:
        values: (n,) multiples of sensitivity/2 away from ``threshold``, so that kinks lie between
            the panels.
        eps: pure ε.
        sensitivity: Δ > 0.
        threshold: before noise.

    >>> stopping_law(np.array([0.0, 0.0]), 1.0, 1.0).round(4).tolist()
    [0.5, 0.2083, 0.2917]
    """
    threshold_scale = 2 * sensitivity / eps
    value_scale = 4 * sensitivity / eps
    z, weights = _threshold_noise(values - threshold, threshold_scale, sensitivity / 4)
    # Of each node: its weight times the Laplace density of the threshold's noise.
    mass = weights * np.exp(-np.abs(z) / threshold_scale) / (2 * threshold_scale)
    gap = z[:, None] - (values - threshold)
    tail = 0.5 * np.exp(-np.abs(gap) / value_scale)
    below = np.where(gap < 0, tail, 1 - tail)  # (nodes, n) P(no at this value | threshold's noise)
    # (nodes, n + 1) P(no at all values before); the last: at all of them.
    reached = np.cumprod(np.hstack([np.ones((len(z), 1)), below]), axis=1)
    says_yes = mass @ (reached[:, :-1] * (1 - below))
    never = mass @ reached[:, -1]
    return np.append(says_yes, never)


def _threshold_noise(gaps: Array, scale: float, half: float) -> tuple[Array, Array]:
    """Nodes and weights of panels of width 2·``half`` around 0, as far as the noise reaches.

    45 scales leave out a mass of e^−45, far below the last bit of 1.
    """
    nodes, weights = np.polynomial.legendre.leggauss(16)
    far_noise = math.ceil(45 * scale / (2 * half))
    far_values = math.ceil(np.max(np.abs(gaps)) / (2 * half))
    reach = far_noise + 2 * far_values
    centres = 2 * half * (np.arange(-reach, reach) + 0.5)
    return (centres[:, None] + half * nodes).ravel(), np.tile(half * weights, len(centres))
