"""Ways to get ex-post privacy wrong, each one line away from the right one: what an audit of reports must catch."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array
from audit.mechanisms.brownian import Brownian, Ratio, Steps, first
from audit.mechanisms.marginals import gaussian_log_ratio
from audit.mechanisms.train_and_check import TrainAndCheck
from audit.privacy import STRICT


def all_ratio(steps: Steps, absent: Array, present: Array) -> Array:
    """(n,) of independent releases up to the stop: each adds its own."""
    each = zip(steps.seen.transpose(1, 0, 2), steps.precision, steps.made.T, strict=True)
    return np.asarray(sum(made * gaussian_log_ratio(y, absent, present, p) for y, p, made in each))


@dataclass(frozen=True, config=STRICT)
class FreshNoise(Brownian):
    """Each release has noise of its own, so that together they tell more than the last one; only the last is charged."""

    def draw(self, centre: Array, precision: Array, trials: int, rng: np.random.Generator) -> Array:
        """(trials, K, d) independent releases."""
        return centre + rng.normal(size=(trials, len(precision), len(centre))) / np.sqrt(precision)[:, None]

    def ratio(self) -> Ratio | None:
        """Each release adds its own."""
        return all_ratio


@dataclass(frozen=True, config=STRICT)
class PreviousStep(Brownian):
    """The ε of the step before the last is reported, and 0 for the first: an index that is off by one."""

    def report(self, stopped: Array) -> Array:
        """(trials,) too little by one step."""
        return np.concatenate([[0.0], self.ladder])[stopped]


@dataclass(frozen=True, config=STRICT)
class StopsOnRawData(Brownian):
    """It stops when the release is within ``near`` of the raw answer, root mean square a coordinate, and so leaks it."""

    near: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.5

    def ratio(self) -> Ratio | None:
        """The stop is part of what is seen, and its ratio has no closed form."""
        return None

    def stopped(self, seen: Array, centre: Array, precision: Array) -> Array:
        """(trials,) decided by what nobody may see."""
        return first(np.linalg.norm(seen - centre, axis=2) <= self.near * np.sqrt(len(centre)))


@dataclass(frozen=True, config=STRICT)
class ValidationOnly(TrainAndCheck):
    """Only the checks are reported: nothing for a record that trains."""

    def report(self, stopped: Array) -> Array:
        """(trials,) Σ ε_V."""
        return self.check * (stopped + 1.0)
