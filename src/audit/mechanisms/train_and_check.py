"""Accuracy first, in miniature: a noisy model, a noisy check on other records, and again with less noise."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.accountants import ExPostRDP, Order, Positive, check_ladder, precisions
from audit.core import Array, Claim, Columns, Table
from audit.mechanisms.brownian import Steps, answer, first, sequence
from audit.mechanisms.marginals import gaussian_log_ratio
from audit.privacy import GDP, STRICT


@dataclass(frozen=True, config=STRICT)
class TrainAndCheck:
    """One-way marginals of the records that train, Brownian; after each, its noisy accuracy on those that validate.

    A record tells by its own first value which it does: 0 validates, anything else trains. The model guesses for each
    column the value whose noisy count is largest. Its accuracy is the number of right guesses divided by ``validators``
    and the number of columns; one record moves it by 1/validators. A record is in one part only, so what is reported
    is the larger of what training and all checks have spent.

    Args:
        ladder: ε_1 < ε_2 < … of the marginals, of the order below.
        check: ε_V of each check.
        order: α > 1.
        threshold: noisy accuracy that is good enough; else the last step's model is taken.
        validators: public number of records that validate.

    References:
        arXiv:2509.22213 (validation data apart from training data); this small build is the project's.
    """

    ladder: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    check: Positive = 0.05
    order: Order = 2.0
    threshold: Annotated[float, Field(gt=0, le=1)] = 0.9
    validators: Annotated[int, Field(ge=1)] = 10

    block: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        check_ladder(self.ladder)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every report is true; and nobody learns more than all steps would tell."""
        top = max(self.ladder[-1], self.check * len(self.ladder))
        return (Claim(ExPostRDP(self.order, top), 0.0), Claim(GDP(), math.sqrt(2 * top / self.order)))

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> CheckedSteps:
        """``trials`` runs, each up to its own stop."""
        training, validating = parts(data)
        centre, sensitivity = answer(training, "l2")
        precision = precisions(self.ladder, self.order, sensitivity)
        seen = sequence(centre, precision, trials, rng)
        sigma = 1 / math.sqrt(precisions(self.check, self.order, 1 / self.validators))
        noisy = accuracy(seen, validating, self.validators) + rng.normal(0, sigma, size=seen.shape[:2])
        stopped = first(noisy >= self.threshold)
        return CheckedSteps(seen, stopped, self.report(stopped), precision, None, noisy, sigma, self.validators)

    def report(self, stopped: Array) -> Array:
        """(trials,) max(ε_train, Σ ε_V)."""
        return np.maximum(np.asarray(self.ladder)[stopped], self.check * (stopped + 1))


def parts(data: Table) -> tuple[Table, Table]:
    """The records that train, and those that validate."""
    trains = data.records[:, 0] != 0
    return Table(data.domain, data.records[trains]), Table(data.domain, data.records[~trains])


def accuracy(seen: Array, validating: Table, validators: int) -> Array:
    """(n, K) share of right guesses, of the value with the largest noisy count, over all columns."""
    sizes, columns = validating.domain.sizes, validating.domain.columns
    right = np.zeros(seen.shape[:2])
    for column, counts in zip(columns, np.split(seen, np.cumsum(sizes)[:-1], axis=2), strict=True):
        right += validating.marginal((column,))[counts.argmax(axis=2)]
    return right / (validators * len(columns))


@dataclasses.dataclass(frozen=True)
class CheckedSteps(Steps):
    """`Steps` with a noisy accuracy ``noisy`` (n, K) of standard deviation ``sigma`` beside each release."""

    noisy: Array
    sigma: float
    validators: int

    def insider(self) -> Columns:
        """As `Steps`, and the noisy accuracies, 0 where none was measured."""
        steps = super().insider()
        names = tuple(f"accuracy[{k}]" for k in range(self.noisy.shape[1]))
        return Columns(steps.names + names, np.hstack([steps.values, np.where(self.made, self.noisy, 0.0)]))

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) of the last release, and of all accuracies up to the stop given the releases."""
        (a, other_a), (b, other_b) = parts(absent), parts(present)
        precision = self.precision[self.stopped][:, None]
        trained = gaussian_log_ratio(self.last, answer(a, "l2")[0], answer(b, "l2")[0], precision)
        before, after = (accuracy(self.seen, other, self.validators) for other in (other_a, other_b))
        return trained + gaussian_log_ratio(self.noisy, before, after, self.made / self.sigma**2)
