"""How trials are spent: which ones fit the attack, which choose its threshold, which test it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Attacker, AuditError, Criterion, Evidence, Fold, Source
from audit.privacy import STRICT

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class Holdout:
    """Fit on the first trials, choose on the next, test once on the rest.

    Args:
        trials: in all, both sides together.
        train: share that the attack is fitted on.
        validation: share that chooses the threshold.
        test: share that is looked at once.

    Raises:
        AuditError: shares that do not sum to 1, or parts with fewer than ``least`` trials a side.
    """

    trials: Annotated[int, Field(ge=1)] = 10_000
    train: Share = 0.4
    validation: Share = 0.2
    test: Share = 0.4
    least: Annotated[int, Field(ge=1)] = 10

    def __post_init__(self) -> None:
        total = self.train + self.validation + self.test
        if abs(total - 1) > 1e-9:
            raise AuditError(
                f"protocol: train + validation + test = {total:g}; make them sum to 1, such as 0.4, 0.2 and 0.4"
            )
        for name, count in zip(("train", "validation", "test"), self.split(), strict=True):
            if count < 2 * self.least:
                raise AuditError(
                    f"trials={self.trials} leaves {count} for {name}, which needs {2 * self.least}; raise trials or"
                    f" protocol.{name}"
                )

    def split(self) -> tuple[int, int, int]:
        """Number of trials of each part; the first two are even, so that both sides are as many."""
        train, validation = (2 * round(self.trials * share / 2) for share in (self.train, self.validation))
        return train, validation, self.trials - train - validation

    @property
    def tested(self) -> int:
        """How many trials are tested."""
        return self.split()[2]

    def __call__(self, source: Source, attacker: Attacker, criterion: Criterion) -> Evidence:
        """One fold."""
        train, validation, _ = self.split()
        trials = source.trials(0, self.trials)
        fitted, chosen, tested = trials[:train], trials[train : train + validation], trials[train + validation :]
        attack = attacker(fitted)
        selection = chosen.score(attack(chosen))
        threshold = criterion(selection)
        return Evidence((Fold(fitted.index, selection, threshold, tested.score(attack(tested))),))
