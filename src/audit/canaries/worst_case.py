"""The pair on which marginal-based synthesis leaks most: one record that shares no cell with any
other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Domain, Neighbours, Table
from audit.privacy import STRICT


@dataclass(frozen=True, config=STRICT)
class WorstCase:
    """``rows`` records of all zeros, and a canary that has the last value in every column.

    The canary's values are absent from the rest, so each marginal cell that it touches goes from 0
    to 1.

    Args:
        columns: number of columns.
        sizes: number of values of each column; one number stands for all of them.
        rows: records in the base data set.

    Raises:
        AuditError: when the sizes do not fit the columns.

    References:
        Ganev, Annamalai, Kulynych 2026, arXiv:2604.18352: 3 binary columns, 10 rows.
    """

    columns: Annotated[int, Field(ge=1, le=64)] = 3
    sizes: Annotated[int, Field(ge=2)] | tuple[Annotated[int, Field(ge=2)], ...] = 2
    rows: Annotated[int, Field(ge=0)] = 10

    neighbours: ClassVar[Neighbours] = "add_remove"

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, int) and len(self.sizes) != self.columns:
            raise AuditError(
                f"canary.sizes has {len(self.sizes)} entries for {self.columns} columns: give one "
                "number, or one a column"
            )

    @property
    def domain(self) -> Domain:
        """The public domain: columns a, b, c, …"""
        sizes = (self.sizes,) * self.columns if isinstance(self.sizes, int) else self.sizes
        names = tuple(
            chr(ord("a") + i) if self.columns <= 26 else f"c{i}" for i in range(self.columns)
        )
        return Domain(names, sizes)

    @property
    def canaries(self) -> Array:
        """(1, d): the last value in every column."""
        return np.array([[size - 1 for size in self.domain.sizes]])

    def data(self, bits: Sequence[bool]) -> Table:
        """The zeros, and the canary where ``bits[0]``."""
        zeros = np.zeros((self.rows, self.columns), dtype=np.int64)
        return Table(
            self.domain, np.concatenate([zeros, self.canaries[np.asarray(bits, dtype=bool)]])
        )

    def __str__(self) -> str:
        return (
            f"{self.rows} records of zeros, with or without one that differs from them in all "
            f"{self.columns} columns"
        )
