"""Releases → rows: what of a release the attacker looks at."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Challenge, Columns, Domain, Outputs, Releases, Tables
from audit.privacy import STRICT


@dataclass(frozen=True, config=STRICT)
class WhiteBox:
    """What an insider sees: the noisy measurements. Pays for no inference."""

    def __call__(self, releases: Releases, challenge: Challenge) -> Columns:
        """(n, k) the insider's columns as the mechanism gives them."""
        return releases.insider()


@dataclass(frozen=True, config=STRICT)
class BlackBox:
    """What the public sees: numbers as they are, synthetic tables as the counts of their cells.

    Args:
        cells: a domain of at most so many cells is counted whole. A larger one is seen through the
            marginal cells that the canaries touch (one and two columns), and as many others, drawn
            with ``seed``.
        sample: how many other marginal cells.
        seed: of that draw, fixed so that all trials have the same columns.
    """

    cells: Annotated[int, Field(ge=1)] = 256
    sample: Annotated[int, Field(ge=0)] = 64
    seed: int = 0

    def __call__(self, releases: Releases, challenge: Challenge) -> Columns:
        """(n, k) counts of cells, each between 0 and the number of synthetic rows.

        Raises:
            UnreadableOutput: on outputs that are no numbers.
        """
        output = releases.public()
        if isinstance(output, Outputs):
            return output.columns()
        if isinstance(output, Columns):
            return output
        cells = self._cells(output.domain, challenge.canaries)
        names = tuple(f"count[{','.join(columns)}]{list(values)}" for columns, values in cells)
        return Columns(names, count_cells(output, cells))

    def _cells(self, domain: Domain, canaries: Array) -> list[Cell]:
        columns = domain.columns
        if domain.size() <= self.cells:
            return [(columns, values) for values in itertools.product(*map(range, domain.sizes))]
        pairs = [*((c,) for c in columns), *itertools.combinations(columns, 2)]
        touched = [
            (pair, tuple(int(record[columns.index(c)]) for c in pair))
            for pair in pairs
            for record in canaries
        ]
        rng = np.random.default_rng(self.seed)
        drawn = [pairs[i] for i in rng.integers(len(pairs), size=self.sample)]
        others = [
            (pair, tuple(int(rng.integers(size)) for size in domain.shape(pair))) for pair in drawn
        ]
        return list(dict.fromkeys([*touched, *others]))


@dataclass(frozen=True, config=STRICT)
class Hybrid(BlackBox):
    """Both: the counts of the public's cells, then the insider's columns."""

    def __call__(self, releases: Releases, challenge: Challenge) -> Columns:
        """(n, k₁ + k₂) black box, then white box."""
        outside, inside = super().__call__(releases, challenge), releases.insider()
        return Columns(outside.names + inside.names, np.hstack([outside.values, inside.values]))


Cell = tuple[tuple[str, ...], tuple[int, ...]]


def count_cells(tables: Tables, cells: Sequence[Cell]) -> Array:
    """(n, len(cells)) how many rows of each table have the given values in the given columns."""
    counts = np.empty((len(tables.records), len(cells)))
    for j, (columns, values) in enumerate(cells):
        hit = np.ones(tables.records.shape[:2], dtype=bool)
        for column, value in zip(columns, values, strict=True):
            hit &= tables.records[:, :, tables.domain.columns.index(column)] == value
        counts[:, j] = hit.sum(axis=1)
    return counts
