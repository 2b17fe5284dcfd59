"""Rows, or scores, that somebody has already: a file in the place of a mechanism."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import InstanceOf
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Claim, Outputs, Trials, read_only
from audit.files import FileTable, listed, read_table
from audit.mechanisms.callable import Anything
from audit.mechanisms.claims import ClaimOption
from audit.privacy import STRICT
from audit.repeats import copied

LABELS = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("out", "in"),
    ("non-member", "member"),
    ("absent", "present"),
)
"""What says that the record was not there, and that it was, in any case."""
A_ROW_IS = "a row must be one independent run, with what was seen of it and one label"


@dataclass(frozen=True, config=STRICT)
class File:
    """A table with a row for each independent run of some mechanism, and a column that says whether
    the record was there.

    Args:
        path: a file of one of `audit.files.KINDS`. In an ``.npz`` arrays have one entry, or one
            row, a run, or are two, ``in_scores`` and ``out_scores``; the columns of an ``.npy``
            matrix are c0, c1, …
        claim: what that mechanism promises.
        bits: name of the column that says whether the record was there, in one of the words of
            `LABELS`.
        columns: names of the columns that an attack may see; None: all others.
        repeats: accept rows that look like copies of each other (`audit.repeats`).

    Raises:
        AuditError: a file that cannot be read, a column that is not there, labels that are none,
            rows that are copies.
    """

    path: str
    claim: InstanceOf[ClaimOption]
    bits: str = "present"
    columns: tuple[str, ...] | None = None
    repeats: bool = False

    block = 2

    def __post_init__(self) -> None:
        self.labels()
        self._names()
        if not self.repeats:
            self._refuse_copies()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The one that was given."""
        return (self.claim.claim,)

    def labels(self) -> Array:
        """(n,) whether the record was there, in the order of the file."""
        table = self._table()
        if self.bits not in table.columns:
            raise AuditError(f"mechanism.path: {table.path} {_why_no_labels(table, self.bits)}")
        return _labels(table.path, self.bits, table.columns[self.bits])

    def recorded(self) -> Trials:
        """All rows as numbers, in the order of the file.

        Raises:
            AuditError: a column that holds anything but finite numbers.
        """
        names, table = self._names(), self._table()
        rows = np.stack([_finite(table.path, name, table.columns[name]) for name in names], axis=1)
        index = np.arange(len(rows))
        return Trials(names, rows, self.labels(), index, index)

    def released(self) -> Anything:
        """All rows as they are, one dict a row, in the order of the file."""
        names, table = self._names(), self._table()
        columns = [table.columns[name].tolist() for name in names]
        return Anything(
            Outputs([dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])
        )

    def suspects(self) -> dict[str, str]:
        """Columns that are more likely a label or a row number than an output, and what each of
        them does."""
        labels, table = self.labels(), self._table()
        found = {name: _suspicion(table.columns[name], labels) for name in self._names()}
        return {name: what for name, what in found.items() if what}

    def notes(self, data: Any) -> tuple[str, ...]:
        """What was left out of the file."""
        return self._table().notes

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> Anything:
        """Nothing: the rows are there already.

        Raises:
            AuditError: always.
        """
        raise AuditError(
            f"mechanism=stored: the rows of {self.path} were played elsewhere, and no more can be"
        )

    def __str__(self) -> str:
        labels = self.labels()
        return (
            f"{len(labels):,} stored rows of {Path(self.path).name}, {int(labels.sum()):,} of "
            "them with the record"
        )

    def _refuse_copies(self) -> None:
        """Refuse rows that are copies of each other in all of their numbers (`audit.repeats`)."""
        columns, labels = self._table().columns, self.labels()
        numbers = [
            columns[name].astype(float)
            for name in self._names()
            if columns[name].dtype.kind in "biuf"
        ]
        if not numbers:
            return
        # Whatever is made of each row by itself leaves independent rows independent: a zero for
        # what is missing, too.
        rows = np.nan_to_num(np.stack(numbers, axis=1), nan=0.0, posinf=0.0, neginf=0.0)
        if found := copied(rows, labels, f"rows of {self.path}"):
            raise AuditError(
                f"mechanism.path: {found}, which those of independent runs are not; keep one of "
                "each, or say mechanism.repeats=true"
            )

    def _table(self) -> FileTable:
        return read_table(self.path, "mechanism.path")

    def _names(self) -> tuple[str, ...]:
        """The columns that an attack may see."""
        table = self._table()
        missing = [name for name in self.columns or () if name not in table.columns]
        if missing:
            raise AuditError(f"mechanism.path: {table.path} {_why_no_column(table, missing[0])}")
        names = self.columns or tuple(name for name in table.columns if name != self.bits)
        if not names:
            raise AuditError(
                f"mechanism.path: {table.path} has no column beside {self.bits!r}; an attack "
                "needs one to look at"
            )
        return names


def _why_no_column(table: FileTable, name: str) -> str:
    return (
        f"has no column {name!r}; it has {listed(list(table.columns))}: name them with "
        "mechanism.bits and mechanism.columns"
    )


def _why_no_labels(table: FileTable, bits: str) -> str:
    """Why there is no column of labels, and what the file seems to be instead."""
    shape = table.shapes.get(bits)
    # labels of all examples, or more columns than rows
    if shape is not None or len(table.columns) > len(table):
        models, examples = shape[:2] if shape is not None else (len(table), len(table.columns))
        return (
            f"is a matrix of {models:,} models × {examples:,} examples; {A_ROW_IS}: take one "
            "example's column"
        )
    if all(_is_number(name) for name in table.columns):
        return (
            f"begins with numbers where names are due; give it a header line with a column {bits!r}"
        )
    return _why_no_column(table, bits)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _finite(path: Path, name: str, column: Array) -> Array:
    """A column as floats."""
    numbers = np.full(len(column), np.nan)
    for row, cell in enumerate(column) if column.dtype.kind not in "biuf" else ():
        try:
            numbers[row] = np.nan if cell is None else float(cell)
        except (TypeError, ValueError) as error:
            raise AuditError(
                f"mechanism.path: column {name!r} of {path} holds no numbers ({str(cell)[:40]!r} "
                f"in row {row + 1}); leave it out of mechanism.columns, or count it as an event: "
                "features=events"
            ) from error
    numbers = column.astype(float) if column.dtype.kind in "biuf" else numbers
    odd = ~np.isfinite(numbers)
    if odd.any():
        raise AuditError(
            f"mechanism.path: column {name!r} of {path} is not finite in row "
            f"{int(np.argmax(odd)) + 1}; drop such rows under both data sets alike, or count it "
            "as an event: features=events"
        )
    return numbers


def _labels(path: Path, name: str, column: Array) -> Array:
    """(n,) whether each label says that the record was there."""
    words = [_label(cell) for cell in column]
    used = set(words)
    pair = next((pair for pair in LABELS if used <= set(pair)), None)
    if pair is None:
        known = {word for pair in LABELS for word in pair}
        odd = [row for row, word in enumerate(words) if word not in known]
        said = (
            f"{words[odd[0]]!r} in row {odd[0] + 1}"
            if odd
            else " and ".join(map(repr, sorted(used)))
        )
        pairs = ", ".join(f"{absent} and {present}" for absent, present in LABELS)
        raise AuditError(
            f"mechanism.bits: column {name!r} of {path} holds {said}; labels are {pairs}"
        )
    if len(used) == 1:
        raise AuditError(
            f"mechanism.bits: column {name!r} of {path} is always {words[0]}; rows of both sides "
            "are needed"
        )
    return read_only([word == pair[1] for word in words], bool)


def _label(cell: Any) -> str:
    """A label in one way of writing.

    >>> [_label(cell) for cell in (1.0, "+1", True, " IN", "Non_Member", None)]
    ['1', '1', 'true', 'in', 'non-member', 'none']
    """
    word = str(cell).strip().lower().replace("_", "-").replace(" ", "-")
    word = "non-member" if word == "nonmember" else word
    return f"{float(word):g}" if _is_number(word) else word


# --- columns that are no outputs ------------------------------------------------------------------

OFTEN = 10
"""A column whose values come back so often, on average, has categories."""


def _suspicion(column: Array, labels: Array) -> str:
    """What makes a column suspect; "" where nothing does."""
    values, codes = _ordered(column)
    if len(values) < 2:
        return ""
    absent, present = codes[~labels], codes[labels]
    found = []
    categories = len(values) * OFTEN <= len(codes) and not set(absent.tolist()) & set(
        present.tolist()
    )
    if absent.max() < present.min() or present.max() < absent.min() or categories:
        found.append("separates the sides perfectly")
    steps = np.diff(codes)
    if len(values) > 2 and ((steps >= 0).all() or (steps <= 0).all()):
        found.append(f"only {'rises' if steps.max() > 0 else 'falls'} in the order of the file")
    return " and ".join(found)


def _ordered(column: Array) -> tuple[Array, Array]:
    """The different values of a column, and which of them, from low to high, each entry is; what is
    missing comes first."""
    if column.dtype.kind in "biuf":
        numbers = np.where(np.isnan(column.astype(float)), -np.inf, column.astype(float))
        values, codes = np.unique(numbers, return_inverse=True)
    elif all(isinstance(cell, int | float) for cell in column if cell is not None):
        return _ordered(np.array([np.nan if cell is None else cell for cell in column], float))
    else:
        values, codes = np.unique(
            ["" if cell is None else str(cell) for cell in column], return_inverse=True
        )
    return values, codes
