"""`audit runs` and `audit.runs()`: what was found so far, as a table in the terminal and as a data
frame."""

from __future__ import annotations

import argparse
import datetime
import difflib
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from audit.core import AuditError
from audit.tracking import PARENT, Store

if TYPE_CHECKING:
    import pandas
    from rich.console import RenderableType

SHOWN = ("name", "mechanism", "eps", "attacker", "criterion", "mu_emp", "verdict", "when")
FIRST = (
    "name",
    "mechanism",
    "eps",
    "attacker",
    "criterion",
    "mu_emp",
    "mu_hat",
    "mu_implied",
    "tightness",
    "verdict",
)
NEWEST = "newest"


def runs(root: Path | str = "mlruns", sweep: str | None = None, **equal: Any) -> pandas.DataFrame:
    """Every audit that was logged, one row each, the newest first.

    Args:
        root: the project's ``mlruns`` folder; ``MLFLOW_TRACKING_URI`` wins.
        sweep: name of a sweep, the beginning of its run's id, or ``newest``; None for all audits.
        equal: columns and what must be in them, such as ``mechanism="aim"``.

    Returns:
        Columns name, mechanism, eps, … first, then every parameter and metric under its own name,
        then ``sweep``, ``status``, ``when`` (UTC) and ``run``. What an audit does not have is
        missing. Empty where nothing fits.

    Raises:
        AuditError: nothing is logged; there is no such sweep or column.
    """
    import pandas

    store = Store.existing(root)
    sweeps = store.search("tags.sweep LIKE '%'")
    names = {run.info.run_id: run.info.run_name for run in sweeps}
    found = store.search("" if sweep is None else _children(sweep, names))
    table = pandas.DataFrame([_row(run, names) for run in found if run.info.run_id not in names])
    for column in table.columns.difference(["when", "run", "name"]):
        numbers = pandas.to_numeric(table[column], errors="coerce")
        if numbers.notna().eq(table[column].notna()).all():
            table[column] = numbers
    for column, value in equal.items():
        table = table[_equal(table, column, value)]
    first = [name for name in FIRST if name in table]
    return table[[*first, *table.columns.difference(first, sort=False)]].reset_index(drop=True)


def _children(sweep: str, names: Mapping[str, str]) -> str:
    """A filter in MLflow's language for the audits of one of the sweeps, the newest first: id →
    name."""
    fits = [run for run, name in names.items() if sweep in (NEWEST, name) or run.startswith(sweep)]
    if not fits:
        known = ", ".join(dict.fromkeys(names.values())) or "none"
        raise AuditError(f"no sweep {sweep!r} is logged; there are: {known}")
    return f"tags.`{PARENT}` = '{fits[0]}'"


def _row(run: Any, names: Mapping[str, str]) -> dict[str, Any]:
    parent, tags = run.data.tags.get(PARENT), run.data.tags
    return {
        **run.data.params,
        **run.data.metrics,
        "name": run.info.run_name,
        "verdict": tags.get("verdict"),
        "claim": tags.get("claim"),
        "sweep": names.get(parent, parent) if parent else None,
        "status": run.info.status,
        "when": datetime.datetime.fromtimestamp(run.info.start_time / 1000, datetime.UTC),
        "run": run.info.run_id,
    }


def _equal(table: pandas.DataFrame, column: str, value: Any) -> Any:
    """Which rows have ``value``, a number or its text, in a column."""
    from pandas.api.types import is_numeric_dtype

    if column not in table:
        if table.empty:
            return []
        columns = list(map(str, table.columns))
        close = difflib.get_close_matches(column, columns, n=1)
        known = ", ".join(name for name in columns if "." not in name)
        raise AuditError(
            f"no column {column!r}; "
            f"{f'did you mean {close[0]!r}?' if close else f'there are: {known}'}"
        )
    if is_numeric_dtype(table[column]):
        try:
            return table[column] == float(value)
        except ValueError:
            raise AuditError(f"{column}={value}: {column} is a number") from None
    return table[column].astype(str) == str(value)


# --- the command ----------------------------------------------------------------------------------


def main(words: Sequence[str] = ()) -> int:
    """List and compare.

    Returns:
        Exit status.

    Raises:
        AuditError: wrong words; nothing is logged.
    """
    given = _parse(words)
    equal = dict(word.split("=", 1) for word in given.equal if "=" in word)
    root = equal.pop("root", given.root)
    table = runs(root, given.sweep, **equal)
    if given.csv:
        table.to_csv(sys.stdout, index=False)
        return 0
    from rich.console import Console

    Console().print(shown(table))
    return 0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise AuditError(f"runs: {message}; there are key=value, --sweep, --csv and --root")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="audit runs", description="List and compare what was found so far, the newest first."
    )
    parser.add_argument(
        "equal", nargs="*", metavar="key=value", help="only audits with it, such as mechanism=aim"
    )
    parser.add_argument(
        "--sweep",
        nargs="?",
        const=NEWEST,
        help="only those of a sweep: its name or id; the newest one without",
    )
    parser.add_argument(
        "--csv", action="store_true", help="everything that is known of them, as CSV"
    )
    parser.add_argument(
        "--root", default="mlruns", help="where the runs are (default: %(default)s)"
    )
    given = parser.parse_intermixed_args(list(words))
    wrong = [word for word in given.equal if "=" not in word]
    if wrong:
        parser.error(f"cannot read {wrong[0]!r}")
    return given


def shown(table: pandas.DataFrame) -> RenderableType:
    """The main columns for the terminal."""
    from rich.text import Text

    from audit.report.style import COLOURS
    from audit.report.tables import plain_table

    if table.empty:
        return Text("no audit fits")
    grid = plain_table(SHOWN, numbers=("eps", "mu_emp"), whole=SHOWN[1:])
    for row in table.reindex(columns=[*SHOWN, "status"]).to_dict("records"):
        verdict = str(row["verdict"]) if row["verdict"] in COLOURS else str(row["status"]).lower()
        told = [_told(row[name], name) for name in SHOWN]
        told[0] = Text(_rest(row))
        told[SHOWN.index("verdict")] = Text(verdict, style=COLOURS.get(verdict, "dim"))
        grid.add_row(*told)
    return grid


def _rest(row: Mapping[Any, Any]) -> str:
    """The words of a name that no other column tells.

    >>> _rest({"name": "mst: mst eps=1 xgboost seed=3", "mechanism": "mst", "eps": 1.0,
    ...     "attacker": "xgboost"})
    'mst: seed=3'
    """
    told = {str(row.get(name)) for name in SHOWN[1:]} | {
        f"eps={row.get('eps'):g}" if _known(row.get("eps")) else ""
    }
    return " ".join(word for word in str(row["name"]).split() if word not in told)


def _known(value: Any) -> bool:
    return isinstance(value, int | float) and not math.isnan(value)


def _told(value: Any, column: str) -> Any:
    from rich.text import Text

    if column == "when":
        return Text(value.to_pydatetime().astimezone().strftime("%d %b %H:%M"))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Text("–")
    if column == "mu_emp":
        return Text(f"{value:.3f}")
    return Text(f"{value:g}" if isinstance(value, float) else str(value))
