"""Any two neighbouring data sets of numbers, written out."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Neighbours, frozen, relation
from audit.privacy import STRICT

Record = float | tuple[float, ...]
CHANGED: dict[Neighbours, tuple[int, int]] = {"add_remove": (0, 1), "replace_one": (1, 1)}
"""How many records are gone from the present data set, and how many have come."""


@dataclass(frozen=True, config=STRICT)
class Pair:
    """Two data sets as lists of records, each a number or a list of numbers.

    Args:
        absent: the records without the canary.
        present: those with it.
        neighbours: ``add_remove``: one record more; ``replace_one``: as many, one of them another.

    Raises:
        AuditError: records of different lengths, or data sets that are no such neighbours (order does not matter).
    """

    absent: tuple[Record, ...]
    present: tuple[Record, ...]
    neighbours: Neighbours = "add_remove"

    def __post_init__(self) -> None:
        if len({_width(record) for record in self.absent + self.present}) > 1:
            raise AuditError("canary: the records have different lengths; give each as many numbers")
        gone, come = _differences(self.absent, self.present)
        other: Neighbours = "replace_one" if self.neighbours == "add_remove" else "add_remove"
        if (len(gone), len(come)) != CHANGED[self.neighbours]:
            mends = (len(gone), len(come)) == CHANGED[other]
            cure = f"give canary.neighbours={other}" if mends else "change one record only"
            raise AuditError(
                f"canary.present differs from canary.absent by {len(gone)} records gone and {len(come)} come, which are"
                f" no {relation(self.neighbours)} neighbours; {cure}"
            )

    @property
    def canaries(self) -> Array:
        """(1, d) the record that comes."""
        return np.atleast_2d(np.array(_differences(self.absent, self.present)[1][0], dtype=float))

    def data(self, bits: Sequence[bool]) -> Array:
        """(n,) or (n, d) floats: ``present`` where ``bits[0]``, else ``absent``.

        >>> Pair(absent=(0,), present=(0, 1)).data([True]).tolist()
        [0.0, 1.0]
        """
        return frozen(self.present if bits[0] else self.absent, float)

    def __str__(self) -> str:
        gone, come = _differences(self.absent, self.present)
        what = (
            f"one record {_words(gone[0])} replaced by {_words(come[0])}"
            if gone
            else f"one record {_words(come[0])} more"
        )
        return f"{len(self.absent)} record{'s' if len(self.absent) != 1 else ''}, or {what}"


def _width(record: Record) -> int:
    return len(record) if isinstance(record, tuple) else 0


def _words(record: Record) -> str:
    return f"{record:g}" if not isinstance(record, tuple) else "(" + ", ".join(f"{x:g}" for x in record) + ")"


def _differences(absent: tuple[Record, ...], present: tuple[Record, ...]) -> tuple[list[Any], list[Any]]:
    """Records that are in one data set only, counted."""
    before, after = collections.Counter(absent), collections.Counter(present)
    return list((before - after).elements()), list((after - before).elements())
