"""Small mechanisms and sources whose answers are known, for the tests of the floors above."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from audit.core import Claim, Columns, Table, Trials
from audit.privacy import GDP


@dataclasses.dataclass(frozen=True)
class Counted:
    """The row count plus noise of sd ``1/mu``, as one column."""

    values: np.ndarray
    mu: float

    def public(self) -> Columns:
        return Columns(("count",), self.values[:, None])

    insider = public

    def log_ratio(self, absent: Table, present: Table) -> np.ndarray:
        a, b = len(absent.records), len(present.records)
        return self.mu**2 * (self.values * (b - a) - (b**2 - a**2) / 2)


@dataclasses.dataclass(frozen=True)
class Toy:
    """A μ-GDP count, without any library behind it."""

    mu: float = 1.0
    block: ClassVar[int] = 20

    @property
    def claims(self) -> tuple[Claim, ...]:
        return (Claim(GDP(), self.mu),)

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> Counted:
        return Counted(len(data.records) + rng.normal(size=trials) / self.mu, self.mu)


class Gaussians:
    """An endless stream of N(0, 1) and N(mu, 1) scores as rows of one column."""

    limit = None

    def __init__(self, mu: float, seed: int = 0) -> None:
        self.mu, self.seed = mu, seed

    def trials(self, first: int, count: int) -> Trials:
        index = np.arange(first + count)
        bits = index % 2 == 1
        rows = np.random.default_rng(self.seed).normal(size=len(index)) + self.mu * bits
        ratio = self.mu * rows - self.mu**2 / 2
        return Trials(("score",), rows[:, None], bits, index, index, log_ratio=ratio)[first:]
