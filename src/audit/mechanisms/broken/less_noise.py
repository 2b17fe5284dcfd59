"""Less noise than was promised: each class overrides what is added, not what is claimed.

Every class has one field more than the mechanism that it breaks:

    noise_fraction: share of the promised noise that is added, > 0. 1 is all of it; less is a bug to
        be found. Where a mechanism flips or draws at random, 1/ε counts as all of the noise.

The order of each product is part of the results: floating-point numbers round differently in
another one.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array
from audit.mechanisms.above_threshold import AboveThreshold
from audit.mechanisms.aim import AIM
from audit.mechanisms.answers import Answers
from audit.mechanisms.discrete_gaussian import DiscreteGaussian
from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.gaussian import Gaussian
from audit.mechanisms.geometric import GeometricMechanism
from audit.mechanisms.hierarchical_counts import HierarchicalCounts
from audit.mechanisms.laplace import ClassMean, Laplace
from audit.mechanisms.mst import MST
from audit.mechanisms.randomised_response import OneHotFlip, RandomisedResponse
from audit.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
from audit.privacy import STRICT

NoiseFraction = Annotated[float, Field(gt=0, allow_inf_nan=False)]


# --- Gaussian noise -------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class GaussianLessNoise(Gaussian):
    """`Gaussian` with a share of the standard deviation."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def added_sigma(self) -> float:
        """A share of the promised standard deviation."""
        return self.sigma * self.noise_fraction

    def mu_between(self, absent: Any, present: Any) -> float:
        """As many more standard deviations apart as there is less noise."""
        return super().mu_between(absent, present) / self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class DiscreteGaussianLessNoise(DiscreteGaussian):
    """`DiscreteGaussian` with a share of σ."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def added_sigma(self) -> float:
        """A share of the promised σ."""
        return self.sigma * self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class HierarchicalCountsLessNoise(HierarchicalCounts):
    """`HierarchicalCounts` with a share of σ at every level."""

    noise_fraction: NoiseFraction = 0.5

    def added_sigma(self, sigma: float) -> float:
        """A share of the promised σ."""
        return self.noise_fraction * sigma


@dataclass(frozen=True, config=STRICT)
class FixedMarginalsLessNoise(FixedMarginals):
    """`FixedMarginals` with a share of the standard deviation."""

    noise_fraction: NoiseFraction = 0.5

    def added_sigma(self, sigma: float) -> float:
        """A share of the promised standard deviation."""
        return self.noise_fraction * sigma


@dataclass(frozen=True, config=STRICT)
class MSTLessNoise(MST):
    """`MST` whose Gaussian noise has a share of the standard deviation; it selects honestly."""

    noise_fraction: NoiseFraction = 0.5

    def added_sigma(self, sigma: float) -> float:
        """A share of the promised standard deviation."""
        return self.noise_fraction * sigma


@dataclass(frozen=True, config=STRICT)
class AIMLessNoise(AIM):
    """`AIM` whose Gaussian noise has a share of the standard deviation; it selects honestly."""

    noise_fraction: NoiseFraction = 0.5

    def added_sigma(self, sigma: Array) -> Array:
        """(n,) a share of the promised standard deviations."""
        return self.noise_fraction * sigma


# --- Laplace noise --------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class LaplaceLessNoise(Laplace):
    """`Laplace` with a share of the scale."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def added_scale(self) -> float:
        """A share of the promised scale."""
        return super().added_scale * self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class ClassMeanLessNoise(ClassMean):
    """`ClassMean` with a share of the scale."""

    noise_fraction: NoiseFraction = 0.5

    def added_scale(self, pupils: int) -> float:
        """A share of the promised scale."""
        return super().added_scale(pupils) * self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class GeometricLessNoise(GeometricMechanism):
    """`GeometricMechanism` with a share of the scale 1/ε."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def added_scale(self) -> float:
        """A share of the promised scale."""
        return self.noise_fraction / self.eps

    @property
    def added_rate(self) -> float:
        """One over the scale."""
        return self.eps / self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class NoisyMaxLessNoise(NoisyMax):
    """`NoisyMax` with a share of the scale."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def added_scale(self) -> float:
        """A share of the promised scale."""
        return super().added_scale * self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class AboveThresholdLessNoise(AboveThreshold):
    """`AboveThreshold` with a share of both scales."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def noise(self) -> tuple[float, float]:
        """A share of the promised scales, of the threshold and of the answers."""
        threshold_scale = self.noise_fraction * 2 / self.eps
        answer_scale = self.noise_fraction * 4 * self.cutoff / self.eps
        return threshold_scale, answer_scale


# --- random choices -------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class RandomisedResponseLessNoise(RandomisedResponse):
    """`RandomisedResponse` that flips too rarely."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def log_odds(self) -> float:
        """ε/noise_fraction: more than the claimed ε."""
        return super().log_odds / self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class OneHotFlipLessNoise(OneHotFlip):
    """`OneHotFlip` that flips too rarely."""

    noise_fraction: NoiseFraction = 0.5

    @property
    def log_odds(self) -> float:
        """ε/2/noise_fraction: more than the claim allows."""
        return super().log_odds / self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class AnswersLessNoise(Answers):
    """`Answers` with a stronger signal in the same noise: ε/noise_fraction."""

    noise_fraction: Annotated[float, Field(gt=0, le=1)] = 0.5

    @property
    def signal(self) -> float:
        """ε/noise_fraction: more than the claimed ε."""
        return self.eps / self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class ExponentialLessNoise(Exponential):
    """`Exponential` that follows the votes too closely."""

    noise_fraction: NoiseFraction = 0.5

    def log_weights(self, votes: Array) -> Array:
        """(k,) as for ε/noise_fraction."""
        return super().log_weights(votes) / self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class PermuteAndFlipLessNoise(PermuteAndFlip):
    """`PermuteAndFlip` that follows the votes too closely."""

    noise_fraction: NoiseFraction = 0.5

    def log_heads(self, behind: Array) -> Array:
        """(k,) as for ε/noise_fraction."""
        return super().log_heads(behind) / self.noise_fraction
