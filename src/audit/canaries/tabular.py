"""A pair made of somebody's own table: a file of records and its public domain."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Domain, Neighbours, Table
from audit.domains import DomainFile, is_missing, read_domain, text_of
from audit.files import FileTable, listed, read_table
from audit.privacy import STRICT

Cell = bool | int | float | str | None
Record = dict[str, Cell]


@dataclasses.dataclass(frozen=True)
class _Parts:
    """What a pair of tables is made of.

    Args:
        base: (n, d) the records that both have.
        comes: (k, d) those of the canary, the rarest first.
        goes: (k, d) what they replace; (0, d) where they are added.
        users: (n,) whose each base record is; None where nobody asked.
        user: whose the canary's are.
    """

    base: Array
    comes: Array
    goes: Array
    users: Array | None = None
    user: int = 0

    def table(self, domain: Domain, present: bool) -> Table:
        """One of the pair; the records in question come last."""
        last = self.comes if present else self.goes
        users = None if self.users is None else np.append(self.users, np.full(len(last), self.user))
        return Table(domain, np.concatenate([self.base, last]), users)


@dataclass(frozen=True, config=STRICT)
class Tabular:
    """The records of a file, and one record, or all records of one user, that are there or not, or
    replaced.

    Args:
        csv: path of a table, of one of `audit.files.KINDS`; columns beyond the domain's are
            ignored.
        domain_json: path of a domain file, see `audit.domains`. The domain is given, never read
            from the data.
        canary: a record as ``{"column": value, …}``, put in beside the file's; or ``outlier``: the
            record of the file whose cells are rarest, or the user with most records, rare ones
            counting more; or the name of a user.
        neighbours: ``add_remove``: the canary is added. ``replace_one``: it replaces ``instead``.
            With ``_user``: all records of one user are, which takes ``user``.
        instead: the record that the canary replaces, as ``{"column": value, …}``; or ``typical``:
            one like the record of the file whose cells are commonest. A user's are replaced by as
            many of it.
        user: the column that says whose record each is, beside those of the domain.

    Raises:
        AuditError: a file that cannot be read, a missing column, a value or a canary outside the
            domain, a user that is not there.
    """

    csv: str
    domain_json: str
    canary: Record | str | int = "outlier"
    neighbours: Neighbours = "add_remove"
    instead: Record | str = "typical"
    user: str | None = None

    def __post_init__(self) -> None:
        if self.neighbours.endswith("_user") != (self.user is not None):
            raise AuditError(
                f"canary.neighbours={self.neighbours} with canary.user={self.user or 'null'}: "
                "neighbours that differ in all records of a user take both, such as "
                "canary.user=name canary.neighbours=add_remove_user"
            )
        if not isinstance(self.instead, dict) and self.instead != "typical":
            raise AuditError(
                f"canary.instead={self.instead}: must be typical, or a record {{column: value, …}}"
            )
        if isinstance(self.canary, dict) and self.user is not None:
            raise AuditError(
                "canary.canary: with canary.user it is outlier, or the name of a user of the file"
            )
        if not isinstance(self.canary, dict) and self.user is None and self.canary != "outlier":
            raise AuditError(
                f"canary.canary={self.canary}: must be outlier, or a record {{column: value, …}}"
            )
        if np.array_equal(self._parts.comes, self._parts.goes):
            raise AuditError(
                "canary.canary and canary.instead are the same records, so nothing differs; "
                "change one"
            )

    @property
    def domain(self) -> Domain:
        """The domain, as its file gives it."""
        return self._known.domain

    @property
    def canaries(self) -> Array:
        """(1, d) the record in question; of a user with several, the rarest."""
        return self._parts.comes[:1]

    def data(self, bits: Sequence[bool]) -> Table:
        """The base records, and the canary where ``bits[0]``, else what it replaces, if
        anything."""
        return self._parts.table(self.domain, bool(bits[0]))

    @functools.cached_property
    def _known(self) -> DomainFile:
        return read_domain(self.domain_json, "canary.domain_json")

    @functools.cached_property
    def _parts(self) -> _Parts:
        known, table = self._known, read_table(self.csv, "canary.csv", as_text=True)
        records = known.encode(table, "canary.csv")
        commonness = _commonness(Table(self.domain, records))
        users, names = (None, []) if self.user is None else _users(table, self.user, self.domain)
        user = 0 if users is None else self._place_of_user(names, users, commonness)
        if isinstance(self.canary, dict):
            ours, comes = (
                np.zeros(len(records), bool),
                _explicit("canary", self.canary, known)[None, :],
            )
        else:
            ours = (
                users == user
                if users is not None
                else np.arange(len(records)) == np.argmin(commonness)
            )
            comes = records[ours][np.argsort(commonness[ours], kind="stable")]
        base = records[~ours]
        goes = base[:0]
        if self.neighbours.startswith("replace"):
            goes = np.repeat(self._instead(base, commonness[~ours])[None, :], len(comes), axis=0)
        return _Parts(base, comes, goes, None if users is None else users[~ours], user)

    def _place_of_user(self, names: Sequence[str], users: Array, commonness: Array) -> int:
        """Which user is the canary: the one that was named, or the one with most records, rare ones
        counting more."""
        if self.canary == "outlier":
            columns = len(self.domain.columns)
            # Σ log(1/share of each cell) ≥ 0
            surprise = columns * (columns + 1) / 2 * np.log(len(users)) - commonness
            return int(np.argmax(np.bincount(users, surprise)))
        if str(self.canary) not in names:
            raise AuditError(
                f"canary.canary={self.canary}: no record of {self.csv} has that {self.user}; name "
                "another"
            )
        return names.index(str(self.canary))

    def _instead(self, base: Array, commonness: Array) -> Array:
        """(d,) the record that the canary replaces."""
        if isinstance(self.instead, dict):
            return _explicit("instead", self.instead, self._known)
        if not len(base):
            raise AuditError(
                f"canary.csv: {self.csv} has no other record to be replaced; give canary.instead"
            )
        return np.asarray(base[np.argmax(commonness)])

    def __str__(self) -> str:
        parts, known = self._parts, self._known
        record = parts.comes[0].tolist()
        cells = ", ".join(
            f"{name}={c.label(v)}"
            for (name, c), v in zip(known.codings.items(), record, strict=True)
        )
        what = f"the record {f'({cells})' if known.coded else record}"
        if self.user is not None:
            count = len(parts.comes)
            what = f"the {count} record{'s' if count > 1 else ''} of one {self.user}"
        how = (
            f"{what}, or with {'others' if self.user else 'another'} instead"
            if len(parts.goes)
            else f"or without {what}"
        )
        draft = f"; {known.path.name} is a draft that nobody has checked" if known.draft else ""
        return f"{len(parts.base):,} records of {Path(self.csv).name}, with {how}{draft}"


def rarest(table: Table) -> int:
    """Place of the record whose cells are rarest: least Σ log(count of its one-way and two-way
    cells); first of ties.

    >>> rarest(Table(Domain(("a", "b"), (2, 2)), np.array([[0, 0], [0, 0], [1, 0], [0, 0]])))
    2
    """
    return int(np.argmin(_commonness(table)))


def _commonness(table: Table) -> Array:
    """(n,) Σ log(count of its one-way and two-way cells) of each record."""
    columns = table.domain.columns
    cliques = [(a,) for a in columns] + [
        (a, b) for i, a in enumerate(columns) for b in columns[i + 1 :]
    ]
    commonness = np.zeros(len(table.records))
    for clique in cliques:
        cells, place = np.unique(table.cells(clique), return_inverse=True)
        commonness += np.log(np.bincount(place, minlength=len(cells)))[place]
    return commonness


def _users(table: FileTable, user: str, domain: Domain) -> tuple[Array, list[str]]:
    """(n,) whose each record is, as a number, and the names behind the numbers."""
    if user in domain.columns:
        raise AuditError(
            f"canary.user: {user!r} is in the domain too; take it out of canary.domain_json"
        )
    if user not in table.columns:
        raise AuditError(
            f"canary.user: {table.path} has no column {user!r}; it has "
            f"{listed(list(table.columns))}: name one of them"
        )
    names = ["" if is_missing(cell) else text_of(cell) for cell in table.columns[user].tolist()]
    if "" in names:
        raise AuditError(
            f"canary.user: {table.path}, row {names.index('') + 1}: {user} is missing; say whose "
            "record it is"
        )
    known, users = np.unique(np.array(names, dtype=object).astype(str), return_inverse=True)
    return users, known.tolist()


def _explicit(key: str, record: Record, known: DomainFile) -> Array:
    """(d,) the codes of a record that a person gave."""
    if set(record) != set(known.codings):
        odd = sorted(set(record) ^ set(known.codings))
        raise AuditError(
            f"canary.{key} must give each column of the domain once; check {', '.join(odd)}"
        )
    codes = {name: coding.code(record[name]) for name, coding in known.codings.items()}
    outside = [name for name, code in codes.items() if code is None]
    if outside:
        raise AuditError(f"canary.{key}: {known.why_outside(outside[0], record[outside[0]])}")
    return np.array(list(codes.values()))
