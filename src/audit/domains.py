"""A table's public domain: which values each column may have, and how they become the whole numbers
that mechanisms count.

A domain file is JSON, an entry a column. The old convention of private-pgm gives the number of
values of a column that is coded as whole numbers 0, 1, … already, and is short for ``{"size": 2}``;
an object says how other values are coded:

    {"sex":    2,                                                        0 or 1
     "job":    {"categories": ["clerk", "none"], "missing": ["", "?"]},  which of them; 2 where it
     is missing "age":    {"edges": [0, 18, 65, "inf"]},                            which bin [0,
     18), [18, 65), [65, ∞] "joined": {"edges": ["2000-01-01", "2010-01-01", "2020-01-01"]}}    the
     same for dates

``categories`` are texts, numbers, or true and false; ``edges`` rise, and the last bin holds its
upper edge. ``missing`` lists what is written where a value is missing, which then is a code of its
own, the last one, as are nulls and NaN. A key that begins with ``//`` is a comment.

The domain is public knowledge and never read from the data that are audited: a draft from `main` is
one only once a person has checked it.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import functools
import itertools
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from audit.core import Array, AuditError, Domain
from audit.files import FileTable, listed, read_table

KEYS = {"size", "categories", "edges", "missing"}
FORMS = (
    'a number of values, or an object with "size", "categories" or "edges", and "missing" if need '
    "be"
)
DRAFT = "//"
"""The key of a draft's first line; a file without it has been checked by a person."""


@dataclasses.dataclass(frozen=True)
class Coding:
    """How the values of one column become whole numbers.

    Args:
        size: number of values of a column that is coded already; None where the next two say.
        categories: values in the order of their codes.
        edges: ascending, as floats; dates as nanoseconds.
        dates: whether the edges are dates.
        missing: what is written where a value is missing; None: none may be.
    """

    size: int | None = None
    categories: tuple[Any, ...] = ()
    edges: tuple[float, ...] = ()
    dates: bool = False
    missing: tuple[str, ...] | None = None

    @property
    def present(self) -> int:
        """Number of codes of values that are not missing."""
        return self.size or len(self.categories) or len(self.edges) - 1

    @property
    def codes(self) -> int:
        """Number of codes."""
        return self.present + (self.missing is not None)

    def code(self, value: Any) -> int | None:
        """The code of one value; None where it is outside of the domain.

        >>> Coding(categories=("a", "b"), missing=("?",)).code("b")
        1
        >>> Coding(edges=(0, 18, 65)).code("65")
        1
        >>> Coding(categories=("a", "b")).code("c") is None
        True
        """
        if is_missing(value) or (self.missing is not None and text_of(value) in self.missing):
            return self.present if self.missing is not None else None
        if self.categories:
            return next(
                (code for code, category in enumerate(self.categories) if _same(value, category)),
                None,
            )
        number = _time(value) if self.dates else _number(value)
        if number is None:
            return None
        if self.size is not None:
            return int(number) if number == math.floor(number) and 0 <= number < self.size else None
        if not self.edges[0] <= number <= self.edges[-1]:
            return None
        return min(int(np.searchsorted(self.edges, number, side="right")) - 1, self.present - 1)

    def label(self, code: int) -> str:
        """What a code means.

        >>> Coding(edges=(0, 18, 65), missing=()).label(1)
        '[18, 65]'
        >>> Coding(edges=(0, 18, 65), missing=()).label(2)
        'missing'
        """
        if self.missing is not None and code == self.present:
            return "missing"
        if self.categories:
            return str(self.categories[code])
        if self.size is not None:
            return str(code)
        low, high = (_edge_text(edge, self.dates) for edge in self.edges[code : code + 2])
        return f"[{low}, {high}{']' if code == self.present - 1 else ')'}"

    def values(self) -> str:
        """What is inside, for a message."""
        if self.categories:
            return f"categories {listed(list(map(str, self.categories)))}"
        if self.size is not None:
            return f"0…{self.size - 1} of whole numbers"
        return (
            f"range {_edge_text(self.edges[0], self.dates)} … "
            f"{_edge_text(self.edges[-1], self.dates)}"
        )


@dataclasses.dataclass(frozen=True)
class DomainFile:
    """A domain file, read.

    Args:
        path: of the file.
        codings: how each column is coded, in the order of the file.
        draft: whether it says that nobody has checked it yet.
    """

    path: Path
    codings: dict[str, Coding]
    draft: bool

    @property
    def domain(self) -> Domain:
        """Names and numbers of codes."""
        return Domain(tuple(self.codings), tuple(coding.codes for coding in self.codings.values()))

    @property
    def coded(self) -> bool:
        """Whether any column has more to it than a number of values."""
        return any(
            coding.size is None or coding.missing is not None for coding in self.codings.values()
        )

    def encode(self, table: FileTable, key: str) -> Array:
        """(n, d) codes of a table's columns, those beyond the domain's ignored.

        Args:
            table: what was read.
            key: that names its file, for messages.

        Raises:
            AuditError: a column that is not there, a value outside of the domain.
        """
        missing = [name for name in self.codings if name not in table.columns]
        if missing:
            raise AuditError(
                f"{key}: {table.path} has no column {missing[0]!r}, which {self.path} names; it has"
                f" {listed(list(table.columns))}"
            )
        return np.column_stack([self._column(table, name, key) for name in self.codings])

    def _column(self, table: FileTable, name: str, key: str) -> Array:
        """(n,) codes of one column; each different value is looked up once."""
        values, places = _different(table.columns[name])
        codes = [self.codings[name].code(value) for value in values]
        known = np.array([-1 if code is None else code for code in codes])[places]
        if (known < 0).any():
            row = int(np.argmax(known < 0))
            where = f"{key}: {table.path}, row {row + 1}"
            raise AuditError(f"{where}: {self.why_outside(name, table.columns[name][row])}")
        return known

    def why_outside(self, name: str, value: Any) -> str:
        """Of a value that is outside of its column's domain: what is inside, and what to fix."""
        if is_missing(value) or text_of(value) == "":
            return (
                f"{name} is missing, and its domain has no code for that; give {name!r} a "
                f'"missing": [""] in {self.path}'
            )
        return (
            f"{name}={text_of(value)[:40]} is outside its domain {self.codings[name].values()}; "
            f"fix the file, or {name!r} in {self.path} (canary.domain_json)"
        )


def read_domain(path: str | Path, key: str) -> DomainFile:
    """A domain file, read again when it has changed.

    Args:
        path: of a JSON file as this module describes it.
        key: what a person sets to name the file, for messages.

    Raises:
        AuditError: what is no such file.
    """
    file = Path(path)
    return _read_domain(file, key, file.stat().st_mtime_ns if file.is_file() else 0)


@functools.lru_cache(maxsize=8)
def _read_domain(path: Path, key: str, changed: int) -> DomainFile:
    try:
        held: Any = json.loads(path.read_text("utf-8-sig"), object_pairs_hook=_without_twins)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or error
        raise AuditError(
            f"{key}: cannot read {path} as JSON ({what}); fix the file or its path"
        ) from error
    entries = (
        {name: entry for name, entry in held.items() if not name.startswith("//")}
        if isinstance(held, dict)
        else {}
    )
    if not entries:
        raise AuditError(f'{key}: {path} must hold {{"column": …}}, each {FORMS}')
    codings = {}
    for name, entry in entries.items():
        try:
            codings[name] = _coding(entry)
        except ValueError as error:
            raise AuditError(f"{key}: {path} must hold for {name!r} {FORMS}: {error}") from error
    return DomainFile(path, codings, DRAFT in held)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs if not name.startswith("//")]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is there twice")
    return dict(pairs)


def _coding(entry: Any) -> Coding:
    """An entry of the file.

    Raises:
        ValueError: says what is wrong with it.
    """
    if type(entry) is int:
        entry = {"size": entry}
    if not isinstance(entry, dict):
        raise ValueError(f"it is {json.dumps(entry)}")
    entry = {key: value for key, value in entry.items() if not key.startswith("//")}
    if set(entry) - KEYS:
        raise ValueError(f"it has a key {sorted(set(entry) - KEYS)[0]!r}")
    if len(set(entry) - {"missing"}) != 1:
        raise ValueError("it has none or several of these")
    missing = entry.get("missing")
    if missing is not None and not isinstance(missing, list):
        raise ValueError('"missing" is no list')
    known = None if missing is None else tuple(text_of(value) for value in missing)
    if "size" in entry:
        if type(entry["size"]) is not int or entry["size"] < 1:
            raise ValueError(f"the number of values is {json.dumps(entry['size'])}, not 1 or more")
        return Coding(size=entry["size"], missing=known)
    if "categories" in entry:
        return Coding(categories=_categories(entry["categories"]), missing=known)
    edges, dates = _edges(entry["edges"])
    return Coding(edges=edges, dates=dates, missing=known)


def _categories(values: Any) -> tuple[Any, ...]:
    if (
        not isinstance(values, list)
        or not values
        or any(isinstance(v, list | dict) or v is None for v in values)
    ):
        raise ValueError(
            '"categories" is no list of texts, numbers, or true and false; null belongs into '
            '"missing"'
        )
    twice = [
        value
        for place, value in enumerate(values)
        if any(_same(value, other) for other in values[:place])
    ]
    if twice:
        raise ValueError(f"category {twice[0]!r} is there twice")
    return tuple(values)


def _edges(values: Any) -> tuple[tuple[float, ...], bool]:
    """Edges as floats, and whether they are dates."""
    if not isinstance(values, list) or len(values) < 2:
        raise ValueError('"edges" is no list of two or more')
    dates = any(isinstance(value, str) and _number(value) is None for value in values)
    edges = [
        _open_end(value) if _open_end(value) is not None else (_time if dates else _number)(value)
        for value in values
    ]
    odd = [value for value, edge in zip(values, edges, strict=True) if edge is None]
    if odd:
        raise ValueError(f"edge {odd[0]!r} is no {'date' if dates else 'number'}")
    floats = tuple(float(edge) for edge in edges if edge is not None)
    if any(low >= high for low, high in itertools.pairwise(floats)):
        raise ValueError('"edges" do not rise')
    return floats, dates


# --- values ---------------------------------------------------------------------------------------


def _different(column: Array) -> tuple[list[Any], Array]:
    """The different values of a column, and which of them each entry is; a number, its text and a
    bool are different."""
    places: dict[Any, int] = {}
    codes = np.empty(len(column), dtype=np.int64)
    for row, value in enumerate(column.tolist() if column.dtype.kind != "M" else column):
        key = (
            None
            if is_missing(value)
            else (type(value), repr(value) if isinstance(value, list | dict) else value)
        )
        codes[row] = places.setdefault(key, len(places))
    return [None if key is None else key[1] for key in places], codes


def is_missing(value: Any) -> bool:
    """None, NaN and NaT."""
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return value is None or (isinstance(value, float) and math.isnan(value))


def text_of(value: Any) -> str:
    """A value as a CSV file has it; a whole number without a decimal point.

    >>> text_of(1.0), text_of(True), text_of(" a ")
    ('1', 'true', 'a')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()


def _same(value: Any, category: Any) -> bool:
    """Whether a value is a category: numbers by their size, true and false in any case, texts as
    they are.

    >>> _same("1.0", 1), _same("TRUE", True), _same("01", "1"), _same(1, True)
    (True, True, False, False)
    """
    if isinstance(category, bool) or isinstance(value, bool):
        return text_of(value).lower() == text_of(category).lower()
    if isinstance(category, int | float):
        return not isinstance(value, bool) and _number(value) == category
    return text_of(value) == text_of(category)


def _number(value: Any) -> float | None:
    """A finite number, or an infinite one; None for anything else, NaN too."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, np.datetime64):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def _time(value: Any) -> float | None:
    """A date as nanoseconds; None for what is none."""
    import pandas as pd

    if isinstance(value, int | float):
        return None
    try:
        return float(pd.Timestamp(value).tz_localize(None).value)
    except (TypeError, ValueError):
        return None


def _open_end(value: Any) -> float | None:
    return {"inf": math.inf, "-inf": -math.inf}.get(value) if isinstance(value, str) else None


def _edge_text(edge: float, dates: bool) -> str:
    if math.isinf(edge):
        return "∞" if edge > 0 else "−∞"
    return str(np.datetime64(int(edge), "ns").astype("datetime64[D]")) if dates else f"{edge:g}"


# --- a draft --------------------------------------------------------------------------------------

MANY, BINS = 30, 10
"""A column of more different numbers gets bins, one of more different texts is left out; about how
many bins."""
WRITTEN_FOR_MISSING = {"", "?", "na", "n/a", "nan", "none", "null", "-"}
DATE = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")


def main(words: Sequence[str]) -> int:
    """Write the draft of a domain file; return the exit status.

    Raises:
        AuditError: a table that cannot be read, a file that is there already.
    """
    asked = _parse(words)
    table = read_table(asked.table, "table", as_text=True)
    name = Path(asked.table).name
    out = Path(
        asked.out or Path(asked.table).with_name(f"{name.split('.', maxsplit=1)[0]}-domain.json")
    )
    text = draft(table)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise AuditError(
            f"audit domain: {out} is there already and is kept; remove it, or give --out"
        ) from error
    except OSError as error:
        raise AuditError(
            f"audit domain: cannot write {out} ({error.strerror}); give another --out"
        ) from error
    print(
        f"{out}: a draft. It was read from the data, and a domain must be public: check every "
        "entry against public knowledge, then remove its first line."
    )
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise AuditError(f"audit domain: {message}; see audit domain --help")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="audit domain",
        description="Draft a domain file for canary=tabular from a table: categories, bin edges "
        "and what stands for a missing value. A domain is public and never read from the data that "
        "are audited, so a person must check every entry against public knowledge, and then "
        "remove the first line. No file is overwritten.",
    )
    parser.add_argument(
        "table", help="a .csv, .tsv, .jsonl, .parquet or .xlsx file, such as table.csv"
    )
    parser.add_argument(
        "--out", help="where the draft goes (default: table-domain.json beside the table)"
    )
    return parser.parse_args(list(words))


def draft(table: FileTable) -> str:
    """The draft of a table's domain file, an entry a line; its first one says that a person must
    check it."""
    entries: dict[str, Any] = {
        DRAFT: f"DRAFT, read from {table.path.name}: a person must check every entry against "
        "public "
        "knowledge, and then remove this line. A domain that is read from the data leaks "
        "them."
    }
    for name, column in table.columns.items():
        key, entry = _draft_of(name, _different(column)[0])
        entries[key] = entry
    lines = [
        f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(e, ensure_ascii=False)}"
        for key, e in entries.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _draft_of(name: str, values: Sequence[Any]) -> tuple[str, Any]:
    """The key and entry of a column with these different values; a comment for one that has no
    categories."""
    gone = [v for v in values if is_missing(v) or text_of(v).lower() in WRITTEN_FOR_MISSING]
    left = [v for v in values if v not in gone] if gone else list(values)
    missing = (
        {"missing": sorted({"" if is_missing(v) else text_of(v) for v in gone})} if gone else {}
    )
    if not left:
        return f"//{name}", "left out: it is empty"
    numbers = [_number(v) for v in left]
    if all(_is_date(v) for v in left):
        times = [time for v in left if (time := _time(v)) is not None]
        return name, {"edges": _date_edges(min(times), max(times)), **missing}
    if all(
        number is not None and not isinstance(v, bool)
        for number, v in zip(numbers, left, strict=True)
    ):
        return name, {
            **_of_numbers([number for number in numbers if number is not None], left),
            **missing,
        }
    if len(left) > MANY:
        return (
            f"//{name}",
            f"left out: {len(left):,} different texts; if they are categories, list them",
        )
    if {text_of(v).lower() for v in left} <= {"false", "true"}:
        return name, {"categories": [False, True], **missing}
    return name, {"categories": sorted(map(text_of, left)), **missing}


def _is_date(value: Any) -> bool:
    written = isinstance(value, str) and DATE.fullmatch(value.strip()) is not None
    return (written or isinstance(value, np.datetime64 | datetime.date)) and _time(
        value
    ) is not None


def _of_numbers(numbers: Sequence[float], values: Sequence[Any]) -> dict[str, Any]:
    whole = all(number == math.floor(number) for number in numbers if math.isfinite(number))
    # Such as 007: the zeros belong to a code, not to a number.
    codes = any(isinstance(v, str) and re.match(r"\s*[-+]?0\d", v) for v in values)
    if codes and len(values) <= MANY:
        return {"categories": sorted(map(text_of, values))}
    finite = [number for number in numbers if math.isfinite(number)]
    if whole and len(finite) == len(numbers) <= MANY:
        return {"categories": sorted(int(number) for number in numbers)}
    edges: list[Any] = _even_edges(min(finite), max(finite)) if finite else [0]
    if -math.inf in numbers or not finite:
        edges = ["-inf", *edges]
    if math.inf in numbers or not finite:
        edges = [*edges, "inf"]
    return {"edges": edges}


def _even_edges(low: float, high: float) -> list[Any]:
    """About `BINS` bins from below ``low`` to above ``high``, at multiples of a round number.

    >>> _even_edges(17, 90)
    [10, 20, 30, 40, 50, 60, 70, 80, 90]
    """
    rough_step = (high - low or abs(low) or 1.0) / BINS
    power = 10.0 ** math.floor(math.log10(rough_step))
    steps = [power * factor for factor in (1, 2, 5, 10)]
    step = next(step for step in steps if step >= rough_step)
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 1)
    edges: list[Any] = []
    for multiple in range(first, last + 1):
        edge = float(f"{multiple * step:.12g}")  # 0.3, not 0.30000000000000004
        is_whole = edge == math.floor(edge) and abs(edge) < 1e15
        edges.append(int(edge) if is_whole else edge)
    return edges


def _date_edges(low: float, high: float) -> list[str]:
    """First days of years, about `BINS` bins; of months or days where that is too coarse."""
    first, last = (np.datetime64(int(time), "ns") for time in (low, high))
    for unit in ("Y", "M", "D"):
        start, end = first.astype(f"datetime64[{unit}]"), last.astype(f"datetime64[{unit}]") + 1
        count = int((end - start).astype(int))
        if count >= 3 or unit == "D":
            break
    step = max(1, math.ceil(count / BINS))
    days = [start + k * step for k in range(math.ceil(count / step) + 1)]
    return [str(day.astype("datetime64[D]")) for day in days]
