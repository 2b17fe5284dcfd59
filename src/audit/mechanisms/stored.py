"""Rows, or scores, that somebody has already: a file in the place of a mechanism."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import InstanceOf
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Claim, Trials
from audit.mechanisms.callable import Anything
from audit.mechanisms.promises import Promise
from audit.privacy import STRICT
from audit.repeats import copied


@dataclass(frozen=True, config=STRICT)
class File:
    """A table with a row for each independent run of some mechanism, and a column that says whether the record was there.

    Args:
        path: an ``.npz`` (arrays with one entry, or one row, a run; nothing pickled), ``.csv`` or ``.parquet`` file.
        claim: what that mechanism promises.
        bits: name of the column that says whether the record was there: 0 or 1, or false or true.
        columns: names of the columns that an attack may see; None: all others.
        repeats: accept rows that look like copies of each other (`audit.repeats`).

    Raises:
        AuditError: a file that cannot be read, a column that is not there or holds no finite numbers, bits that are none,
            rows that are copies.
    """

    path: str
    claim: InstanceOf[Promise]
    bits: str = "present"
    columns: tuple[str, ...] | None = None
    repeats: bool = False

    block = 2

    def __post_init__(self) -> None:
        trials = self.recorded()
        if not self.repeats and (found := copied(trials.rows, trials.bits, f"rows of {self.path}")):
            raise AuditError(
                f"mechanism.path: {found}, which those of independent runs are not; keep one of each, or say"
                " mechanism.repeats=true"
            )

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The one that was given."""
        return (self.claim.claim,)

    def recorded(self) -> Trials:
        """All rows, in the order of the file."""
        path = Path(self.path)
        table = _read(path, path.stat().st_mtime_ns if path.is_file() else 0)
        for name in (self.bits, *(self.columns or ())):
            if name not in table:
                raise AuditError(
                    f"mechanism.path: {path} has no column {name!r}; it has {', '.join(table)}: name them with"
                    " mechanism.bits and mechanism.columns"
                )
        names = self.columns or tuple(name for name in table if name != self.bits)
        if not names:
            raise AuditError(
                f"mechanism.path: {path} has no column beside {self.bits!r}; an attack needs one to look at"
            )
        rows = np.stack([_finite(path, name, table[name]) for name in names], axis=1)
        index = np.arange(len(rows))
        return Trials(names, rows, _bits(path, self.bits, table[self.bits]), index, index)

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> Anything:
        """Nothing: the rows are there already.

        Raises:
            AuditError: always.
        """
        raise AuditError(f"mechanism=stored: the rows of {self.path} were played elsewhere, and no more can be")

    def __str__(self) -> str:
        bits = self.recorded().bits
        return f"{len(bits):,} stored rows of {Path(self.path).name}, {int(bits.sum()):,} of them with the record"


@functools.lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> dict[str, Array]:
    """Column → (n,) entries; a matrix in an ``.npz`` file is as many columns, name[0], name[1], …"""
    readers = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise AuditError(f"mechanism.path={path} is no {', '.join(readers)} file; convert it into one of them")
    try:
        table = readers[path.suffix.lower()](path)
    except AuditError:
        raise
    except Exception as error:  # three libraries, each with errors of its own
        what = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise AuditError(f"mechanism.path: cannot read {path} ({what}); mend the file or its path") from error
    lengths = {name: len(column) for name, column in table.items()}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        raise AuditError(f"mechanism.path: the columns of {path} have {lengths} entries; give each one entry a run")
    return table


def _read_npz(path: Path) -> dict[str, Array]:
    table: dict[str, Array] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for name in arrays.files:
            array = np.atleast_1d(arrays[name])
            flat = array.reshape(len(array), -1)
            table |= {name: array} if array.ndim == 1 else {f"{name}[{j}]": column for j, column in enumerate(flat.T)}
    return table


def _read_csv(path: Path) -> dict[str, Array]:
    import pandas as pd

    return {str(name): column.to_numpy() for name, column in pd.read_csv(path, skipinitialspace=True).items()}


def _read_parquet(path: Path) -> dict[str, Array]:
    import pandas as pd

    return {str(name): column.to_numpy() for name, column in pd.read_parquet(path).items()}


def _finite(path: Path, name: str, column: Array) -> Array:
    """A column as floats."""
    try:
        numbers = column.astype(float)
    except (TypeError, ValueError) as error:
        raise AuditError(
            f"mechanism.path: column {name!r} of {path} holds no numbers ({' '.join(str(error).split())}); leave it out of"
            " mechanism.columns, or encode it"
        ) from error
    odd = ~np.isfinite(numbers)
    if odd.any():
        raise AuditError(
            f"mechanism.path: column {name!r} of {path} is not finite in row {int(np.argmax(odd)) + 1}; mend or drop such"
            " rows under both data sets alike, or add a column that flags them"
        )
    return numbers


def _bits(path: Path, name: str, column: Array) -> Array:
    words = np.char.lower(column.astype(str))
    present, absent = np.isin(words, ["1", "1.0", "true"]), np.isin(words, ["0", "0.0", "false"])
    if not (present | absent).all():
        odd = str(words[np.argmin(present | absent)])
        raise AuditError(
            f"mechanism.bits: column {name!r} of {path} holds {odd!r}; 0 and 1, or false and true, are bits"
        )
    if present.all() or absent.all():
        raise AuditError(
            f"mechanism.bits: column {name!r} of {path} is always {words[0]}; rows of both sides are needed"
        )
    return present
