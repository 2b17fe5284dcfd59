"""Any two neighbouring data sets of numbers, written out or read from files."""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Neighbours, read_only, relation
from audit.files import read_table
from audit.privacy import STRICT

Record = float | tuple[float, ...]
CHANGED: dict[Neighbours, tuple[int, int]] = {"add_remove": (0, 1), "replace_one": (1, 1)}
"""How many records are gone from the present data set, and how many have come."""


@dataclass(frozen=True, config=STRICT)
class Pair:
    """Two data sets as lists of records, each a number or a list of numbers.

    Args:
        absent: the records without the canary, or ``@`` and the path of a file that holds them: its
            columns are the numbers of a record.
        present: those with it.
        neighbours: ``add_remove``: one record more; ``replace_one``: as many, one of them another;
            with ``_user``: all records of one user more, or others, which takes ``user``.
        user: place of the number that says whose a record is, from 0; it stays among the numbers.

    Raises:
        AuditError: a file that cannot be read, records of different lengths, or data sets that are
            no such neighbours (order does not matter).
    """

    absent: tuple[Record, ...] | str
    present: tuple[Record, ...] | str
    neighbours: Neighbours = "add_remove"
    user: int | None = None

    def __post_init__(self) -> None:
        absent, present = self._sides
        widths = {_width(record) for record in absent + present}
        if len(widths) > 1:
            raise AuditError(
                "canary: the records have different lengths; give each as many numbers"
            )
        if self.neighbours.endswith("_user"):
            self._refuse_unless_one_user(widths.pop() if widths else 0)
            return
        gone, come = self._differences
        other: Neighbours = "replace_one" if self.neighbours == "add_remove" else "add_remove"
        if (len(gone), len(come)) != CHANGED[self.neighbours]:
            fixes = (len(gone), len(come)) == CHANGED[other]
            cure = f"give canary.neighbours={other}" if fixes else "change one record only"
            raise AuditError(
                f"canary.present differs from canary.absent by {len(gone)} records gone and "
                f"{len(come)} come, which are no {relation(self.neighbours)} neighbours; {cure}"
            )
        if self.user is not None:
            raise AuditError(
                f"canary.user={self.user} goes with neighbours that differ in all records of a "
                f"user: canary.neighbours={self.neighbours}_user"
            )

    def _refuse_unless_one_user(self, width: int) -> None:
        """All that differs must be of one user, and all of theirs must differ."""
        if self.user is None or not 0 <= self.user < width:
            raise AuditError(
                f"canary.neighbours={self.neighbours} takes canary.user, the place of the number "
                f"that says whose a record is: 0 … {width - 1}"
                if width
                else "canary.user takes records of several numbers; give lists"
            )
        gone, come = self._differences
        whose = {_user(record, self.user) for record in gone + come}
        # Records of theirs that both data sets have would stay when the user leaves.
        stays = [
            record
            for record in self._sides[0]
            if _user(record, self.user) in whose and record not in gone
        ]
        added = self.neighbours == "add_remove_user"
        if len(whose) != 1 or not come or bool(gone) == added or (added and stays):
            raise AuditError(
                f"canary.present differs from canary.absent in records of {len(whose)} users "
                f"({len(gone)} gone, {len(come)} come), which are no {relation(self.neighbours)} "
                "neighbours; change all records of one user only, or canary.neighbours"
            )

    @property
    def canaries(self) -> Array:
        """(1, d) the record that comes; of a user with several, the first."""
        return np.atleast_2d(np.array(self._differences[1][0], dtype=float))

    def data(self, bits: Sequence[bool]) -> Array:
        """(n,) or (n, d) floats: ``present`` where ``bits[0]``, else ``absent``.

        >>> Pair(absent=(0,), present=(0, 1)).data([True]).tolist()
        [0.0, 1.0]
        """
        return read_only(self._sides[bool(bits[0])], float)

    @functools.cached_property
    def _sides(self) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        absent, present = (_read(key, getattr(self, key)) for key in ("absent", "present"))
        return absent, present

    @functools.cached_property
    def _differences(self) -> tuple[list[Record], list[Record]]:
        """Records that are in one data set only, counted, in their order."""
        before, after = (collections.Counter(side) for side in self._sides)
        return list((before - after).elements()), list((after - before).elements())

    def __str__(self) -> str:
        gone, come = self._differences
        base = len(self._sides[0])
        files = [
            Path(side[1:]).name for side in (self.absent, self.present) if isinstance(side, str)
        ]
        where = f" of {' and '.join(files)}" if files else ""
        return (
            f"{base} record{'s' if base != 1 else ''}{where}, or {_change(gone, come, self.user)}"
        )


def _change(gone: list[Record], come: list[Record], user: int | None) -> str:
    """What differs, in words."""
    if user is not None and isinstance(come[0], tuple):
        theirs = f"of user {come[0][user]:g}"
        return f"{len(come)} records {theirs} {f'in the place of {len(gone)}' if gone else 'more'}"
    return (
        f"one record {_words(gone[0])} replaced by {_words(come[0])}"
        if gone
        else f"one record {_words(come[0])} more"
    )


def _read(key: str, side: tuple[Record, ...] | str) -> tuple[Record, ...]:
    """The records of a side, from its file where it names one.

    Raises:
        AuditError: a file that cannot be read, a cell that is no number.
    """
    if not isinstance(side, str):
        return side
    if not side.startswith("@"):
        raise AuditError(
            f"canary.{key}={side}: give a list of records, or a file as canary.{key}=@{side}"
        )
    table = read_table(side[1:], f"canary.{key}")
    columns = [_numbers(key, table.path, name, column) for name, column in table.columns.items()]
    if len(columns) == 1:
        return tuple(columns[0].tolist())
    return tuple(map(tuple, np.stack(columns, axis=1).tolist()))


def _numbers(key: str, path: Path, name: str, column: Array) -> Array:
    """A column as floats; a missing one is refused, since a NaN is like no other record."""
    numbers = (
        column.astype(float)
        if column.dtype.kind in "biuf"
        else np.array([_number(cell) for cell in column])
    )
    if np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        raise AuditError(
            f"canary.{key}: {path}, row {row + 1}: {name}={str(column[row])[:40]} is no number; "
            "write numbers, or use canary=tabular, which encodes categories"
        )
    return numbers


def _number(cell: object) -> float:
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return np.nan


def _user(record: Record, place: int) -> float:
    return record[place] if isinstance(record, tuple) else record


def _width(record: Record) -> int:
    return len(record) if isinstance(record, tuple) else 0


def _words(record: Record) -> str:
    return (
        f"{record:g}"
        if not isinstance(record, tuple)
        else "(" + ", ".join(f"{x:g}" for x in record) + ")"
    )
