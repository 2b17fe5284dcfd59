"""Tables as people have them: a file → named columns, as they stand in it. Nothing is ever
unpickled."""

from __future__ import annotations

import collections
import csv
import dataclasses
import functools
import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from audit.core import Array, AuditError, read_only

if TYPE_CHECKING:
    import pandas as pd

KINDS = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".jsonl",
    ".jsonl.gz",
    ".parquet",
    ".xlsx",
    ".npz",
    ".npy",
)


@dataclasses.dataclass(frozen=True)
class FileTable:
    """What a file holds.

    Args:
        path: of the file.
        columns: name → (n,) entries, numbers where all entries are, else objects; None where one is
            missing.
        notes: whole sentences about what was left out.
        shapes: name → shape of the arrays that an ``.npz`` or ``.npy`` file holds; its matrices are
            as many columns.
    """

    path: Path
    columns: dict[str, Array]
    notes: tuple[str, ...] = ()
    shapes: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def read_table(path: str | Path, key: str, as_text: bool = False) -> FileTable:
    """The columns of a file, read again when it has changed.

    Comma, semicolon and tab separate the cells of a ``.csv``, whichever its header has most of;
    beside a semicolon, a comma is a decimal point. A first column without a name is a data frame's
    index, and left out.

    Args:
        path: of a file of one of `KINDS`.
        key: what a person sets to name the file, for messages.
        as_text: cells of text files stay texts, an empty one too, so that a reader decides what
            they mean.

    Raises:
        AuditError: no such kind, a file that cannot be read, a header that repeats, columns of
            different lengths.
    """
    file = Path(path)
    return _read(file, key, as_text, file.stat().st_mtime_ns if file.is_file() else 0)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names for a message; of many only the first.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], 2)
    ('a, b', 'a, b, … (3 in all)')
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names):,} in all)"


@functools.lru_cache(maxsize=8)
def _read(path: Path, key: str, as_text: bool, changed: int) -> FileTable:
    kind = _kind(path)
    if kind not in READERS:
        raise AuditError(f"{key}={path} is no {', '.join(KINDS)} file; convert it into one of them")
    try:
        table = READERS[kind](path, as_text)
    except AuditError as error:
        raise AuditError(f"{key}: {path} {error}") from error
    except ImportError as error:
        raise AuditError(
            f'{key}: {path} needs openpyxl to be read; pip install "dp-audit[xlsx]"'
        ) from error
    except Exception as error:  # four libraries, each with errors of its own
        what = getattr(error, "strerror", None) or " ".join(str(error).split())[:120]
        raise AuditError(f"{key}: cannot read {path} ({what}); fix the file or its path") from error
    lengths = {len(column) for column in table.columns.values()}
    if not lengths or lengths == {0}:
        raise AuditError(f"{key}: {path} has no records; write one a row, below a header line")
    if len(lengths) > 1:
        entries = listed([f"{name}: {len(column):,}" for name, column in table.columns.items()])
        raise AuditError(
            f"{key}: the columns of {path} have unequal lengths ({entries}); give each one entry "
            "a row"
        )
    return table


def _kind(path: Path) -> str:
    """The ending that says how a file is read, without that of its compression."""
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix if name.endswith(tuple(KINDS)) else ""


# --- text -----------------------------------------------------------------------------------------


def _read_csv(path: Path, as_text: bool) -> FileTable:
    import pandas as pd

    header, sample = _first_lines(path)
    separator = "\t" if _kind(path) == ".tsv" else _separator(header)
    # Files with semicolons come from where 1,5 is a number; one that is written 1.5 says otherwise.
    decimal = "," if separator == ";" and re.search(r"(^|;)\s*-?\d+,\d+", sample) else "."
    names = [
        name.strip()
        for name in next(csv.reader([header], delimiter=separator, skipinitialspace=True), [])
    ]
    _refuse_twins(names)
    kept: dict[str, Any] = (
        {"dtype": str, "keep_default_na": False, "na_filter": False} if as_text else {}
    )
    frame = pd.read_csv(
        path, sep=separator, decimal=decimal, skipinitialspace=True, encoding="utf-8-sig", **kept
    )
    return _from_frame(path, frame)


def _first_lines(path: Path) -> tuple[str, str]:
    """The first line that is not blank, and the beginning of what follows."""
    with _opened(path) as file:
        head = file.read(1 << 16).decode("utf-8-sig", "replace")
    lines = [line for line in head.splitlines() if line.strip()]
    return (lines[0], "\n".join(lines[1:])) if lines else ("", "")


def _opened(path: Path) -> IO[bytes]:
    """A text file's bytes, whether it is compressed or not."""
    return (
        cast(IO[bytes], gzip.open(path)) if path.name.lower().endswith(".gz") else path.open("rb")
    )


def _separator(header: str) -> str:
    """What the header has most of, outside quotes; a comma where it has none of them.

    >>> _separator("a;b;c"), _separator('"x;y",b'), _separator("alone")
    (';', ',', ',')
    """
    bare = re.sub(r'"[^"]*"', "", header)
    return max((",", ";", "\t"), key=bare.count)


def _read_jsonl(path: Path, as_text: bool) -> FileTable:
    import pandas as pd

    rows = []
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                rows.append(_json_row(line.decode("utf-8-sig"), number))
    return _from_frame(path, pd.DataFrame(rows))


def _json_row(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise AuditError(
            f"holds no JSON in line {number} ({error}); write one object a line"
        ) from error
    if not isinstance(row, dict):
        raise AuditError(
            f"holds no object in line {number} but {line.strip()[:40]!r}; write one object a line"
        )
    return row


# --- data frames ----------------------------------------------------------------------------------


def _read_parquet(path: Path, as_text: bool) -> FileTable:
    import pandas as pd

    return _from_frame(path, pd.read_parquet(path))


def _read_xlsx(path: Path, as_text: bool) -> FileTable:
    import pandas as pd

    cells = pd.read_excel(path, header=None, engine="openpyxl")
    if not len(cells):
        raise AuditError("has an empty first sheet; put the table there")
    names = ["" if pd.isna(name) else str(name).strip() for name in cells.iloc[0]]
    _refuse_twins(names)
    frame = cells.iloc[1:].reset_index(drop=True).infer_objects()
    frame.columns = pd.Index([name or f"Unnamed: {place}" for place, name in enumerate(names)])
    return _from_frame(path, frame)


def _refuse_twins(names: Sequence[str]) -> None:
    twice = [name for name, count in collections.Counter(names).items() if name and count > 1]
    if twice:
        raise AuditError(f"has two columns {twice[0]!r} in its header; rename one of them")


def _from_frame(path: Path, frame: pd.DataFrame) -> FileTable:
    """The named columns of a data frame."""
    import pandas as pd

    notes = []
    # named columns that a data frame used as its index
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    names = [str(name).strip() for name in frame.columns]
    unnamed = bool(names) and names[0] in ("", "Unnamed: 0")
    # A header that is one name short is how R writes the names of rows: pandas has made an index of
    # them.
    if unnamed or not frame.index.equals(pd.RangeIndex(len(frame))):
        notes.append(
            f"The first column of {path.name} has no name: it is taken for a data frame's index, "
            "and left out."
        )
    columns = dict(zip(names, (_as_array(column) for _, column in frame.items()), strict=True))
    columns = dict(list(columns.items())[1:]) if unnamed else columns
    empty = [
        name
        for name, column in columns.items()
        if name.startswith("Unnamed: ") and _all_missing(column)
    ]
    for name in empty:  # a separator too many at the end of each line
        del columns[name]
    _refuse_header_in_the_middle(columns)
    return FileTable(path, columns, tuple(notes))


def _as_array(column: pd.Series[Any]) -> Array:
    """(n,) numbers, times, or objects with None where one is missing."""
    import pandas as pd

    kind = column.dtype
    if isinstance(kind, np.dtype) and kind.kind in "biufM":
        return read_only(column.to_numpy())
    if isinstance(kind, pd.DatetimeTZDtype):
        return read_only(column.dt.tz_convert(None).to_numpy())
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind):
        return read_only(
            column.to_numpy()
            if not column.isna().any()
            else column.to_numpy(dtype=float, na_value=np.nan)
        )
    values = column.to_numpy(dtype=object).copy()
    values[column.isna().to_numpy()] = None
    return read_only(values)


def _all_missing(column: Array) -> bool:
    texts = column.astype(str)
    return bool(np.isin(texts, ["", "None", "nan"]).all())


def _refuse_header_in_the_middle(columns: dict[str, Array]) -> None:
    """As where files with a header each were put one after the other."""
    if not columns or any(column.dtype.kind != "O" for column in columns.values()):
        return
    same = [
        np.array([str(cell).strip() == name for cell in column]) for name, column in columns.items()
    ]
    repeated = np.logical_and.reduce(same)
    if repeated.any():
        raise AuditError(
            f"repeats its header in row {int(np.argmax(repeated)) + 1}; remove that row"
        )


# --- arrays ---------------------------------------------------------------------------------------

SIDES = ("out_scores", "in_scores")
"""Arrays that are a side each, instead of a column that says of which side a row is."""


def _read_npz(path: Path, as_text: bool) -> FileTable:
    with np.load(path, allow_pickle=False) as arrays:
        held = {name: np.atleast_1d(arrays[name]) for name in arrays.files}
    if set(SIDES) <= set(held):
        held = _of_two_sides(held)
    return _from_arrays(path, held)


def _of_two_sides(held: dict[str, Array]) -> dict[str, Array]:
    """Scores and what side they are of."""
    others = sorted(set(held) - set(SIDES))
    absent, present = (held[side].reshape(len(held[side]), -1) for side in SIDES)
    if others or absent.shape[1:] != present.shape[1:]:
        wrong = (
            f"also {others[0]}"
            if others
            else f"{absent.shape[1]} and {present.shape[1]} numbers a run"
        )
        raise AuditError(
            f"holds in_scores and out_scores and {wrong}; give two arrays of one score a run"
        )
    return {
        "score": np.concatenate([absent, present]),
        "present": np.repeat([False, True], [len(absent), len(present)]),
    }


def _read_npy(path: Path, as_text: bool) -> FileTable:
    array = np.load(path, allow_pickle=False)
    if array.dtype.names:
        return _from_arrays(path, {name: array[name] for name in array.dtype.names})
    rows = np.atleast_1d(array)
    flat = rows.reshape(len(rows), -1)
    table = _from_arrays(path, {f"c{j}": column for j, column in enumerate(flat.T)})
    return dataclasses.replace(table, shapes={"c": array.shape})


def _from_arrays(path: Path, held: dict[str, Array]) -> FileTable:
    columns: dict[str, Array] = {}
    for name, array in held.items():
        flat = array.reshape(len(array), -1)
        names = [name] if flat.shape[1] == 1 else [f"{name}[{j}]" for j in range(flat.shape[1])]
        columns |= dict(zip(names, flat.T, strict=True))
    return FileTable(path, columns, shapes={name: array.shape for name, array in held.items()})


READERS: dict[str, Callable[[Path, bool], FileTable]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
    ".xlsx": _read_xlsx,
    ".npz": _read_npz,
    ".npy": _read_npy,
}
