"""Less noise than was promised: each class overrides what is added, and claims what the honest one claims."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array
from audit.mechanisms.aim import AIM
from audit.mechanisms.fixed import Fixed
from audit.mechanisms.mst import MST
from audit.privacy import STRICT

NoiseFraction = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Share of the promised noise that is added: 1 is all of it, less is a bug to be found."""


@dataclass(frozen=True, config=STRICT)
class FixedLessNoise(Fixed):
    """`Fixed` with ``noise_fraction`` of the standard deviation that its claim asks for."""

    noise_fraction: NoiseFraction = 0.5

    def added_sigma(self, sigma: float) -> float:
        """A share of the promised standard deviation."""
        return self.noise_fraction * sigma


@dataclass(frozen=True, config=STRICT)
class MSTLessNoise(MST):
    """`MST` whose Gaussian noise has ``noise_fraction`` of the promised standard deviation."""

    noise_fraction: NoiseFraction = 0.5

    def added_sigma(self, sigma: float) -> float:
        """A share of the promised standard deviation."""
        return self.noise_fraction * sigma


@dataclass(frozen=True, config=STRICT)
class AIMLessNoise(AIM):
    """`AIM` whose Gaussian noise has ``noise_fraction`` of the promised standard deviation."""

    noise_fraction: NoiseFraction = 0.5

    def added_sigma(self, sigma: Array) -> Array:
        """(n,) a share of the promised standard deviations."""
        return self.noise_fraction * sigma
