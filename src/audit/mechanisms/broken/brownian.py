"""Ways to get ex-post privacy wrong, each one line away from the right one."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array
from audit.mechanisms.brownian import Brownian, Ratio, StoppedRuns, first
from audit.mechanisms.marginals import gaussian_log_ratio
from audit.mechanisms.train_and_check import TrainAndCheck
from audit.privacy import STRICT


def all_ratio(runs: StoppedRuns, absent: Array, present: Array) -> Array:
    """(n,) log-likelihood ratio of independent releases up to the stop: each adds its own."""
    total: Array | int = 0
    for step, precision in enumerate(runs.precision):
        step_ratio = gaussian_log_ratio(runs.releases[:, step], absent, present, precision)
        total = total + runs.made[:, step] * step_ratio
    return np.asarray(total)


@dataclass(frozen=True, config=STRICT)
class FreshNoise(Brownian):
    """Each release has its own noise: together they tell more than the last, which is charged."""

    def draw(self, centre: Array, precision: Array, trials: int, rng: np.random.Generator) -> Array:
        """(trials, K, d) independent releases."""
        standard_normal = rng.normal(size=(trials, len(precision), len(centre)))
        return centre + standard_normal / np.sqrt(precision)[:, None]

    def ratio(self) -> Ratio | None:
        """Each release adds its own."""
        return all_ratio


@dataclass(frozen=True, config=STRICT)
class PreviousStep(Brownian):
    """The ε of the step before the last is reported, 0 for the first: an index off by one."""

    def report(self, stopped: Array) -> Array:
        """(trials,) too little by one step."""
        return np.concatenate([[0.0], self.ladder])[stopped]


@dataclass(frozen=True, config=STRICT)
class StopsOnRawData(Brownian):
    """It stops when the release is near the raw answer, and so leaks that answer.

    Args:
        near: root mean square distance of a coordinate at which it stops.
    """

    near: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.5

    def ratio(self) -> Ratio | None:
        """None: the stop is part of what is released, and its ratio has no closed form."""
        return None

    def stopped(self, releases: Array, centre: Array, precision: Array) -> Array:
        """(trials,) decided by what nobody may see."""
        distance = np.linalg.norm(releases - centre, axis=2)
        return first(distance <= self.near * np.sqrt(len(centre)))


@dataclass(frozen=True, config=STRICT)
class ValidationOnly(TrainAndCheck):
    """Only the checks are reported: nothing for a record that trains."""

    def report(self, stopped: Array) -> Array:
        """(trials,) Σ ε_V."""
        return self.check * (stopped + 1.0)
