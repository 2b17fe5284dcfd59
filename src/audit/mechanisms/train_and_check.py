"""Accuracy first, in miniature: a noisy model, a noisy check, and again with less noise."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.accountants import ExPostRDP, Order, Positive, check_ladder, precisions
from audit.core import Array, Claim, Columns, Table
from audit.mechanisms.brownian import StoppedRuns, first, sequence, vector_query
from audit.mechanisms.marginals import gaussian_log_ratio
from audit.privacy import GDP, STRICT


@dataclass(frozen=True, config=STRICT)
class TrainAndCheck:
    """Brownian one-way marginals of the records that train; after each, a noisy accuracy.

    A record tells by its own first value which it does: 0 validates, anything else trains. The
    model guesses for each column the value whose noisy count is largest. Its accuracy is the number
    of right guesses divided by ``validators`` and the number of columns; one record moves it by
    1/validators. A record is in one part only, so what is reported is the larger of what training
    and all checks have spent.

    Args:
        ladder: ε_1 < ε_2 < … of the marginals, of the order below.
        check: ε_V of each check.
        order: α > 1.
        threshold: noisy accuracy that is good enough; else the last step's model is taken.
        validators: public number of records that validate.

    References:
        arXiv:2509.22213 (validation data apart from training data); this small build is the
        project's.
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
        reports_are_true = Claim(ExPostRDP(self.order, top), 0.0)
        whole_ladder = Claim(GDP(), math.sqrt(2 * top / self.order))
        return (reports_are_true, whole_ladder)

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> CheckedRuns:
        """``trials`` runs, each up to its own stop."""
        training, validating = parts(data)
        centre, sensitivity = vector_query(training, "l2")
        precision = precisions(self.ladder, self.order, sensitivity)
        releases = sequence(centre, precision, trials, rng)
        sigma = 1 / math.sqrt(precisions(self.check, self.order, 1 / self.validators))
        true_accuracy = accuracy(releases, validating, self.validators)
        noisy = true_accuracy + rng.normal(0, sigma, size=true_accuracy.shape)
        stopped = first(noisy >= self.threshold)
        return CheckedRuns(
            releases=releases,
            stopped=stopped,
            reported=self.report(stopped),
            precision=precision,
            ratio=None,
            noisy=noisy,
            sigma=sigma,
            validators=self.validators,
        )

    def report(self, stopped: Array) -> Array:
        """(trials,) max(ε_train, Σ ε_V)."""
        trained = np.asarray(self.ladder)[stopped]
        checked = self.check * (stopped + 1)
        return np.maximum(trained, checked)


def parts(data: Table) -> tuple[Table, Table]:
    """The records that train, and those that validate."""
    trains = data.records[:, 0] != 0
    return Table(data.domain, data.records[trains]), Table(data.domain, data.records[~trains])


def accuracy(releases: Array, validating: Table, validators: int) -> Array:
    """(n, K) share of right guesses over all columns; a guess is the largest noisy count's value.

    Args:
        releases: (n, K, cells) noisy one-way marginals, column after column.
        validating: records that the guesses are compared with.
        validators: public number of these.
    """
    columns = validating.domain.columns
    column_ends = np.cumsum(validating.domain.sizes)[:-1]
    right = np.zeros(releases.shape[:2])
    for column, counts in zip(columns, np.split(releases, column_ends, axis=2), strict=True):
        guess = counts.argmax(axis=2)
        right += validating.marginal((column,))[guess]
    return right / (validators * len(columns))


@dataclasses.dataclass(frozen=True)
class CheckedRuns(StoppedRuns):
    """`StoppedRuns` with a noisy accuracy beside each release.

    Args:
        noisy: (n, K) accuracies.
        sigma: standard deviation of their noise.
        validators: public number of records that validate.
    """

    noisy: Array
    sigma: float
    validators: int

    def insider(self) -> Columns:
        """As `StoppedRuns`, and the noisy accuracies, 0 where none was measured."""
        runs = super().insider()
        names = tuple(f"accuracy[{k}]" for k in range(self.noisy.shape[1]))
        accuracies = np.where(self.made, self.noisy, 0.0)
        return Columns(runs.names + names, np.hstack([runs.values, accuracies]))

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) of the last release, and of all accuracies up to the stop given the releases."""
        absent_training, absent_validating = parts(absent)
        present_training, present_validating = parts(present)
        a, _ = vector_query(absent_training, "l2")
        b, _ = vector_query(present_training, "l2")
        precision = self.precision[self.stopped][:, None]
        trained = gaussian_log_ratio(self.last, a, b, precision)
        before = accuracy(self.releases, absent_validating, self.validators)
        after = accuracy(self.releases, present_validating, self.validators)
        # Steps that were not made have precision 0, and so tell nothing.
        checks_precision = self.made / self.sigma**2
        return trained + gaussian_log_ratio(self.noisy, before, after, checks_precision)
