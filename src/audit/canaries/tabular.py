"""A pair made of somebody's own table: a CSV file and its domain, in the convention of private-pgm."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Domain, Neighbours, Table
from audit.privacy import STRICT


@dataclass(frozen=True, config=STRICT)
class Tabular:
    """The records of a CSV file, with or without one canary (add/remove neighbours).

    Args:
        csv: path of integer-coded records with a header line; columns beyond the domain's are ignored.
        domain_json: path of ``{"column": number of values, …}``. The domain is given, never read from the data.
        canary: a record as ``{"column": value, …}``, or ``outlier``: the record of the file whose cells are rarest. The
            outlier is taken out of the base data set; an explicit record is put in beside it.

    Raises:
        AuditError: a file that cannot be read, a missing column, a value or a canary outside the domain.
    """

    csv: str
    domain_json: str
    canary: dict[str, int] | Literal["outlier"] = "outlier"

    neighbours: ClassVar[Neighbours] = "add_remove"

    def __post_init__(self) -> None:
        self._base_and_canary()

    @property
    def domain(self) -> Domain:
        """The domain, as the JSON file gives it."""
        return _read_domain(self.domain_json)

    @property
    def canaries(self) -> Array:
        """(1, d) the record in question."""
        return self._base_and_canary()[1][None, :]

    def data(self, bits: Sequence[bool]) -> Table:
        """The base records, and the canary where ``bits[0]``."""
        base, canary = self._base_and_canary()
        return Table(self.domain, np.concatenate([base, canary[None, :]]) if bits[0] else base)

    def _base_and_canary(self) -> tuple[Array, Array]:
        if self.canary == "outlier":
            return _without_rarest(self.csv, self.domain)
        return _read_records(self.csv, self.domain), _explicit(self.canary, self.domain)

    def __str__(self) -> str:
        base, canary = self._base_and_canary()
        return f"{len(base):,} records of {Path(self.csv).name}, with or without the record {canary.tolist()}"


def rarest(table: Table) -> int:
    """Place of the record whose cells are rarest: least Σ log(count of its one-way and two-way cells); first of ties.

    >>> rarest(Table(Domain(("a", "b"), (2, 2)), np.array([[0, 0], [0, 0], [1, 0], [0, 0]])))
    2
    """
    columns = table.domain.columns
    cliques = [(a,) for a in columns] + [(a, b) for i, a in enumerate(columns) for b in columns[i + 1 :]]
    commonness = np.zeros(len(table.records))
    for clique in cliques:
        commonness += np.log(table.marginal(clique)[table.cells(clique)])
    return int(np.argmin(commonness))


@functools.lru_cache(maxsize=8)
def _without_rarest(path: str, domain: Domain) -> tuple[Array, Array]:
    records = _read_records(path, domain)
    place = rarest(Table(domain, records))
    return np.delete(records, place, axis=0), records[place]


def _explicit(canary: dict[str, int], domain: Domain) -> Array:
    if set(canary) != set(domain.columns):
        odd = sorted(set(canary) ^ set(domain.columns))
        raise AuditError(f"canary.canary must give each column of the domain once; check {', '.join(odd)}")
    for column, size in zip(domain.columns, domain.sizes, strict=True):
        if not 0 <= canary[column] < size:
            raise AuditError(
                f"canary.canary: {column}={canary[column]} is outside its domain 0…{size - 1}; choose a value inside it"
            )
    return np.array([canary[c] for c in domain.columns])


@functools.lru_cache(maxsize=8)
def _read_domain(path: str) -> Domain:
    try:
        sizes: Any = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise AuditError(f"canary.domain_json: cannot read {path} as JSON ({error})") from error
    if not isinstance(sizes, dict) or not sizes or not all(type(n) is int and n >= 1 for n in sizes.values()):
        raise AuditError(f'canary.domain_json: {path} must hold {{"column": number of values, …}}, each at least 1')
    return Domain(tuple(sizes), tuple(sizes.values()))


@functools.lru_cache(maxsize=8)
def _read_records(path: str, domain: Domain) -> Array:
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            header = [name.strip().strip('"') for name in file.readline().split(",")]
            missing = [c for c in domain.columns if c not in header]
            if missing:
                raise AuditError(f"canary.csv: {path} has no column {missing[0]!r}; the domain names it")
            places = [header.index(c) for c in domain.columns]
            lines = file.read().splitlines()
            values = np.loadtxt(lines, delimiter=",", usecols=places, ndmin=2) if lines else np.empty((0, len(places)))
    except (OSError, ValueError) as error:
        raise AuditError(f"canary.csv: cannot read {path} as integer-coded records ({error})") from error
    return _inside(path, values, domain)


def _inside(path: str, values: Array, domain: Domain) -> Array:
    if not len(values):
        raise AuditError(f"canary.csv: {path} has no records")
    wrong = (values < 0) | (values >= np.array(domain.sizes)) | (values != np.floor(values))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise AuditError(
            f"canary.csv: {path}, line {row + 2}: {domain.columns[column]}={values[row, column]:g} is outside its"
            f" domain 0…{domain.sizes[column] - 1} of whole numbers; mend the file or the domain"
        )
    return values.astype(np.int64)
