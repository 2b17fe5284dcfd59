"""What a mechanism promises, what it runs on, and what it can show."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from audit.core.data import Array, Columns, Neighbours, Outputs, Tables
from audit.privacy import Notion


@dataclasses.dataclass(frozen=True)
class Claim:
    """A notion of privacy and the parameter that a mechanism promises in it.

    Args:
        notion: the one-parameter family of tradeoff curves.
        parameter: μ, ε or ρ, ≥ 0 (∞ allowed).
        numerical: computed on a grid and not certified; shown, never judged.
        neighbours: the relation that it is promised under; it says nothing about a pair of the
            other one.
    """

    notion: Notion
    parameter: float
    numerical: bool = False
    neighbours: Neighbours = "add_remove"

    def __str__(self) -> str:
        return self.notion.label(self.parameter) + (
            " (numerical, not certified)" if self.numerical else ""
        )


@runtime_checkable
class Challenge(Protocol):
    """A base data set, the canaries in question, and the neighbouring relation.

    A pair of neighbours is one canary and one bit; audits in one run have as many as they like.
    """

    @property
    def neighbours(self) -> Neighbours:
        """Whether a record, or all records of one user, are added or removed, or replaced."""
        ...

    @property
    def canaries(self) -> Array:
        """(m, d) the records in question."""
        ...

    def data(self, bits: Sequence[bool]) -> Any:
        """The data set in which canary i is present where ``bits[i]``."""
        ...


class Releases(Protocol):
    """What a number of independent runs put out. Everything is computed only when it is asked
    for."""

    def public(self) -> Columns | Tables | Outputs:
        """What the mechanism publishes."""
        ...

    def insider(self) -> Columns:
        """What an adversary inside the machine sees too."""
        ...

    def log_ratio(self, absent: Any, present: Any) -> Array | None:
        """(n,) log P(run | present) − log P(run | absent), exact, or None where it is not known."""
        ...


@runtime_checkable
class ReportsSpending(Protocol):
    """Releases of a mechanism that reports what it has spent after the fact."""

    def spent(self) -> Array:
        """(n,) the ε ≥ 0 that each run has reported; part of its output."""
        ...


@runtime_checkable
class CanaryReleases(Protocol):
    """Releases that show something of each canary by itself, for audits in one run."""

    def of_canaries(self) -> Releases:
        """A single run, seen canary by canary: as many rows as the challenge has canaries, in their
        order."""
        ...


@runtime_checkable
class Mechanism(Protocol):
    """Frozen hyperparameters, what they promise, and a way to run many times at once.

    ``block`` is the number of trials that one seed plays: a constant, since an array program's last
    bits depend on the shape of its batch. One that knows the exact tradeoff curve of a pair has
    ``tradeoff(alpha, absent, present)`` too.
    """

    @property
    def block(self) -> int:
        """Trials of a block, an even number."""
        ...

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The first one is judged; the others are shown."""
        ...

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> Releases:
        """``trials`` independent runs on one data set."""
        ...


@runtime_checkable
class HasNotes(Protocol):
    """A mechanism that has something to say beside its result, such as that it takes no notice of
    its seed.

    What it says is found out once, before the first trial, on one data set. It is the only part of
    a mechanism that need not be there.
    """

    def notes(self, data: Any) -> tuple[str, ...]:
        """Whole sentences; they end up in ``Result.notes``."""
        ...


@runtime_checkable
class Isolated(Protocol):
    """A mechanism that is somebody's own code and is played in a child process: it may end that, or
    never return."""

    @property
    def time_limit(self) -> float | None:
        """Seconds that one call of the code may take; None: no limit."""
        ...
