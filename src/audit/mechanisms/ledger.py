"""A budget ledger: what was spent, on what, and that it adds up."""

from __future__ import annotations

import dataclasses

import numpy as np

from audit.core import Array

TOLERANCE = 1e-12


@dataclasses.dataclass
class Ledger:
    """Zero-concentrated budget of a batch of runs; raises unless Σ spends = budget, to 1e-12.

    Args:
        budget: ρ that each run may spend, > 0.
        trials: how many runs keep their accounts here.

    >>> ledger = Ledger(1.0, trials=2)
    >>> ledger.spend("measure", 0.25)
    >>> ledger.spend("select", 0.75, where=[0])
    >>> ledger.spent.tolist()
    [1.0, 0.25]
    >>> ledger.close()
    Traceback (most recent call last):
    ValueError: the ledger does not close: run 1 spent 0.25 of 1.0 (measure 0.25)
    """

    budget: float
    trials: int
    entries: list[tuple[str, Array]] = dataclasses.field(default_factory=list)

    @property
    def spent(self) -> Array:
        """(trials,) what each run has spent so far."""
        if not self.entries:
            return np.zeros(self.trials)
        return np.sum([amount for _, amount in self.entries], axis=0)

    @property
    def left(self) -> Array:
        """(trials,) what each run may still spend."""
        return self.budget - self.spent

    def spend(
        self,
        name: str,
        amount: float | Array,
        where: Array | list[int] | slice = slice(None),
    ) -> None:
        """Record ρ spent on ``name`` by the runs at ``where``.

        Args:
            name: what it was spent on.
            amount: ρ ≥ 0, one number or one a run of ``where``.
            where: the runs that spend; all by default.

        Raises:
            ValueError: an amount is negative or not a number, or a run would exceed its budget.
        """
        full = np.zeros(self.trials)
        full[where] = amount
        if not np.all(full >= 0):
            raise ValueError(f"{name} cannot spend {np.min(full)}: an amount is a number ≥ 0")
        after = self.spent + full
        worst = int(np.argmax(after))
        if after[worst] > self.budget + self._slack:
            raise ValueError(
                f"{name} overspends: run {worst} would have spent {after[worst]} of {self.budget}"
            )
        self.entries.append((name, full))

    def close(self) -> None:
        """Check that every run has spent its budget, all of it and no more.

        Raises:
            ValueError: the sum of a run's spends is not the budget.
        """
        error = np.abs(self.left)
        worst = int(np.argmax(error))
        if not error[worst] <= self._slack:  # not ">": a NaN is no closed ledger
            items = []
            for name, amount in self.entries:
                if amount[worst]:
                    items.append(f"{name} {amount[worst]}")
            raise ValueError(
                f"the ledger does not close: run {worst} spent {self.spent[worst]} of {self.budget}"
                f" ({', '.join(items)})"
            )

    @property
    def _slack(self) -> float:
        return TOLERANCE * max(1.0, self.budget)
