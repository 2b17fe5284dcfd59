"""Data sets and outputs: what goes into a mechanism, and what comes out of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from audit import plain

Array = NDArray[Any]
Neighbours = Literal["add_remove", "replace_one", "add_remove_user", "replace_one_user"]
"""A record more, or another one; all records of one user more, or others."""


def relation(neighbours: Neighbours) -> str:
    """A neighbouring relation in words.

    >>> relation("add_remove"), relation("replace_one_user")
    ('add/remove', 'replace-one-user')
    """
    return neighbours.replace("add_remove", "add/remove").replace("_", "-")


class AuditError(Exception):
    """Something a person can fix. Its text is one line, fit for a terminal whatever it quotes: what
    is wrong, and the cure.

    >>> str(AuditError("it raised \\x1b[31mred"))
    'it raised \\\\x1b[31mred'
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(plain.line(text))


def read_only(array: Any, dtype: Any = None) -> Array:
    """A read-only view of ``array``, as Ray hands arrays out, so that serial and Ray refuse the
    same things."""
    view = np.asarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


@dataclasses.dataclass(frozen=True)
class Domain:
    """What values a record may have. It is given by a person, never read from the data.

    Args:
        columns: names, one a column.
        sizes: number of values of each column; a value is an integer in ``[0, size)``.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]

    def size(self, columns: Sequence[str] | None = None) -> int:
        """Number of cells of the marginal over ``columns`` (of the whole domain without argument).

        >>> Domain(("age", "sex"), (5, 2)).size()
        10
        >>> Domain(("age", "sex"), (5, 2)).size(("sex",))
        2
        >>> Domain((), ()).size()
        1
        """
        return math.prod(self.shape(self.columns if columns is None else columns))

    def shape(self, columns: Sequence[str]) -> tuple[int, ...]:
        """Sizes of ``columns``, in their order."""
        return tuple(self.sizes[self.columns.index(c)] for c in columns)


@dataclasses.dataclass(frozen=True)
class Table:
    """A data set: integer-coded records over a given domain.

    Args:
        domain: the public domain.
        records: (n, d) integers, column j in ``[0, domain.sizes[j])``.
        users: (n,) whose record each is, for mechanisms that bound what one user contributes; None:
            nobody asked.
    """

    domain: Domain
    records: Array
    users: Array | None = None

    made_by: ClassVar[str] = "canary=worst_case or canary=tabular"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "records", read_only(self.records, np.int64).reshape(-1, len(self.domain.columns))
        )
        if self.users is not None:
            object.__setattr__(self, "users", read_only(self.users))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Counts of the cells of ``columns``, flattened in C order, (∏ sizes,) floats; the empty
        one is the total.

        >>> records = np.array([[0, 1], [0, 1], [1, 1]])
        >>> Table(Domain(("a", "b"), (2, 2)), records).marginal(("a", "b")).tolist()
        [0.0, 2.0, 0.0, 1.0]
        """
        return np.bincount(self.cells(columns), minlength=self.domain.size(columns)).astype(float)

    def cells(self, columns: Sequence[str]) -> Array:
        """(n,) which cell of the marginal over ``columns`` each record falls into."""
        if not columns:
            return np.zeros(len(self.records), dtype=np.int64)
        picked = self.records[:, [self.domain.columns.index(c) for c in columns]]
        return np.ravel_multi_index(tuple(picked.T), self.domain.shape(columns))


@dataclasses.dataclass(frozen=True)
class Tables:
    """Synthetic tables, one a trial: ``records`` is (n, rows, d) integers over ``domain``."""

    domain: Domain
    records: Array


@dataclasses.dataclass(frozen=True)
class Columns:
    """Named numbers, one row a trial: ``values`` is (n, k) floats."""

    names: tuple[str, ...]
    values: Array


class UnreadableOutput(AuditError):  # noqa: N818  which trial it is of is still to be said
    """A trial that put out something that the features cannot read: which of the trials that were
    asked for, and why."""

    def __init__(self, places: range, why: str) -> None:
        super().__init__(why)
        self.places = places

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.places, str(self))


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Any Python objects, one a trial; the exception that a trial raised is one too.

    The objects are kept as they came, so that ``features=events`` reads each of them by itself,
    whatever the others are.

    Args:
        values: n objects.
    """

    values: Sequence[Any]

    def columns(self) -> Columns:
        """The objects as named numbers, where all of them are finite numbers of one shape, or dicts
        of such.

        Raises:
            UnreadableOutput: names the first trial whose output is anything else, or unlike the
                first one's.

        >>> Outputs([{"n": 3, "mean": np.array([0.5, 1.5])}]).columns().names
        ('n', 'mean[0]', 'mean[1]')
        >>> Outputs([1.0, None]).columns()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        audit.core.data.UnreadableOutput: it put out None (NoneType); release finite numbers, or ...
        """
        parts = [self._parts(place, value) for place, value in enumerate(self.values)]
        shapes = [{name: numbers.shape for name, numbers in part.items()} for part in parts]
        for place, shape in enumerate(shapes):
            if list(shape.items()) != list(shapes[0].items()):
                raise UnreadableOutput(
                    range(place, place + 1),
                    f"it put out {_listed(shape)} where the first one put out "
                    f"{_listed(shapes[0])}; release always the same, or count it as an event: "
                    "features=events",
                )
        names = [cell for name, shape in shapes[0].items() for cell in _cells(name, shape)]
        if not names:
            raise UnreadableOutput(
                range(1), f"it {_told(self.values[0])}, which holds no number; {RELEASE_NUMBERS}"
            )
        rows = [
            [number for numbers in part.values() for number in numbers.ravel().tolist()]
            for part in parts
        ]
        return Columns(tuple(names), np.array(rows, dtype=float).reshape(len(rows), len(names)))

    def _parts(self, place: int, value: Any) -> dict[str, Array]:
        """The numbers of one output under their names."""
        parts = value if isinstance(value, dict) else {"y": value}
        named = {plain.text(key): _numbers(part) for key, part in parts.items()}
        if not named or any(numbers is None for numbers in named.values()):
            cure = FIX_IT if isinstance(value, BaseException) else RELEASE_NUMBERS
            why = f"it {_told(value)}; {cure}"
            raise UnreadableOutput(range(place, place + 1), why)
        return {name: numbers for name, numbers in named.items() if numbers is not None}


FIX_IT = "fix it, or count it as an event: features=events"
RELEASE_NUMBERS = "release finite numbers, or count it as an event: features=events"


def _cells(name: str, shape: tuple[int, ...]) -> list[str]:
    """Names of the entries of an array.

    >>> _cells("y", ()), _cells("y", (1, 2))
    (['y'], ['y[0,0]', 'y[0,1]'])
    """
    return [
        f"{name}[{','.join(map(str, where))}]" if where else name for where in np.ndindex(shape)
    ]


def _numbers(value: Any) -> Array | None:
    """An array of finite numbers; None for anything else."""
    try:
        array = np.asarray(value)
    except Exception:  # ragged lists, or an object with opinions
        return None
    return array if array.dtype.kind in "biuf" and np.isfinite(array).all() else None


def _told(value: Any) -> str:
    if isinstance(value, BaseException):
        return f"raised {plain.of_error(value)}"
    return f"put out {plain.shown(value)} ({type(value).__name__})"


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return " and ".join(f"{name} of shape {shape}" for name, shape in shapes.items())[:200]
