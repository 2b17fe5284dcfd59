"""Synthetic rows from noisy marginals, and a classifier that learns from them alone."""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit import learning
from audit.core import Array, AuditError, Domain, Table
from audit.mechanisms import large, marginals
from audit.mechanisms.marginals import Problem
from audit.privacy import STRICT
from audit.tasks.data import need_two_classes, split
from audit.tasks.task import Model

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class Synthetic:
    """mbi's model of all marginals of one column with the label, rows drawn from it, and a
    classifier fitted to them.

    The domain and the marginals are public and fixed. Replacing one record moves two cells of each
    of the k marginals by 1, so the sensitivity of all of them together is √(2k) in L2. The number
    of training records is public.

    Args:
        data: option that loads a table and names its label (`audit.tasks.data`).
        rows: of the synthetic table.
        classifier: ``logistic`` or ``xgboost``, on one column for each value.
        train: share of the records that is measured.
        validation: share that validates; the rest tests.
    """

    data: Any
    rows: Annotated[int, Field(ge=10)] = 2000
    classifier: Literal["logistic", "xgboost"] = "logistic"
    train: Share = 0.6
    validation: Share = 0.2

    def __post_init__(self) -> None:
        if not hasattr(self.data, "load"):
            raise AuditError(
                "task.data: the option loads no table; give it a _target_ with a load()"
            )

    def open(self, seed: int) -> SyntheticWork:
        """Load and split.

        Raises:
            AuditError: an empty part, a label with one class, data that cannot be loaded.
        """
        table, label = self.data.load()
        if label not in table.domain.columns or table.domain.shape((label,)) != (2,):
            raise AuditError(
                f"task.data: the label {label!r} is no column of two values; choose another one"
            )
        need_two_classes(table.records[:, table.domain.columns.index(label)], label)
        parts = split(len(table.records), self.train, self.validation, seed)
        return SyntheticWork(
            self, label, *(Table(table.domain, table.records[part]) for part in parts)
        )


@dataclasses.dataclass(frozen=True)
class SyntheticWork:
    """See `audit.tasks.task.Work`."""

    task: Synthetic
    label: str
    training: Table
    validating: Table
    testing: Table

    @property
    def cliques(self) -> tuple[tuple[str, ...], ...]:
        """Each column with the label, in the domain's order."""
        columns = self.training.domain.columns
        return tuple(
            tuple(c for c in columns if c in (name, self.label))
            for name in columns
            if name != self.label
        )

    @functools.cached_property
    def answer(self) -> Array:
        """(d,) the cells of all marginals."""
        return np.concatenate([self.training.marginal(c) for c in self.cliques])

    @property
    def sensitivity(self) -> float:
        """√(2k) for k marginals."""
        return math.sqrt(2 * len(self.cliques))

    @property
    def validators(self) -> int:
        """Number of validation records."""
        return len(self.validating.records)

    def train(self, noisy: Array, precision: float, rng: np.random.Generator) -> Model:
        """Fit, draw rows, learn."""
        rows = self.draw(noisy, precision, rng)
        guess = self._learn(rows)
        validation, test = (self._accuracy(guess, part) for part in (self.validating, self.testing))
        return Model(validation, test, functools.partial(_write, self.training.domain, rows))

    def draw(self, noisy: Array, precision: float, rng: np.random.Generator) -> Array:
        """(rows, columns) synthetic records."""
        domain = self.training.domain
        sizes = dict(zip(domain.columns, domain.sizes, strict=True))
        cells = np.split(
            noisy[None, :], np.cumsum([domain.size(c) for c in self.cliques])[:-1], axis=1
        )
        found = dict(zip(self.cliques, cells, strict=True))
        weight = {c: np.full_like(y, precision) for c, y in found.items()}
        constant = marginals.lipschitz(
            self.cliques, sizes, {c: np.array([precision]) for c in found}
        )
        total = np.array([float(len(self.training.records))])  # public
        problem = Problem(domain, found, weight, total, constant)
        return np.asarray(
            large.draw_tables(
                problem, [(self.cliques, np.array([0]))], self.task.rows, rng
            ).records[0]
        )

    def _learn(self, rows: Array) -> Any:
        features, labels = (
            self._features(rows),
            rows[:, self.training.domain.columns.index(self.label)],
        )
        if len(np.unique(labels)) < 2:  # so much noise that one class was never drawn
            return lambda unseen: np.full(len(unseen), labels[0])
        make = {
            "logistic": functools.partial(learning.logistic, 0.1),
            "xgboost": functools.partial(
                learning.xgboost, max_depth=3, n_estimators=100, learning_rate=0.1
            ),
        }[self.task.classifier]
        decide = learning.fit(make, features, labels)
        return lambda unseen: (np.asarray(decide(unseen)) > 0).astype(np.int64)

    def _features(self, rows: Array) -> Array:
        domain = self.training.domain
        parts = [
            np.eye(size)[rows[:, place]]
            for place, (c, size) in enumerate(zip(domain.columns, domain.sizes, strict=True))
            if c != self.label
        ]
        return np.hstack(parts)

    def _accuracy(self, guess: Any, part: Table) -> float:
        truth = part.records[:, part.domain.columns.index(self.label)]
        return float(np.mean(guess(self._features(part.records)) == truth))

    def __str__(self) -> str:
        return (
            f"{self.task.rows:,} synthetic rows from {len(self.cliques)} marginals of "
            f"{len(self.training.records):,} records (L2 sensitivity {self.sensitivity:.3f}), "
            f"{self.task.classifier} on {self.label!r}, checked on {self.validators:,} other "
            "records"
        )


def _write(domain: Domain, rows: Array, folder: Path) -> Path:
    path = folder / "synthetic.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(domain.columns)
        writer.writerows(rows.tolist())
    return path
