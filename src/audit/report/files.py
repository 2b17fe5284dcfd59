"""Everything that tells of an audit, written into a folder."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import Result
from audit.report.curves import tradeoff
from audit.report.figures import audit_figures, sweep_figures
from audit.report.page import config_yaml, page, sweep_page
from audit.report.tables import sweep_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(result: Result, folder: Path) -> Path:
    """Write all that tells of one audit into ``folder``: page, figures, curve, scores,
    configuration.

    Returns:
        The page's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tradeoff(result, folder / "tradeoff.csv")
    write_scores(result, folder / "scores.parquet")
    (folder / "config.yaml").write_text(config_yaml(result), "utf-8")
    drawn = audit_figures(result)
    write_pngs(drawn, folder)
    (folder / "report.html").write_text(page(result, drawn), "utf-8")
    return folder / "report.html"


def save_sweep(
    results: Sequence[Result],
    folder: Path,
    name: str = "sweep",
    command: str = "",
    together: str = "",
) -> Path:
    """Write a sweep's page, table and figures into ``folder``; ``together`` is said of all its
    audits.

    Returns:
        The page's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header, rows = sweep_rows(results)
    write_csv(folder / "sweep.csv", header, rows)
    drawn = sweep_figures(results)
    write_pngs(drawn, folder)
    (folder / "report.html").write_text(
        sweep_page(results, drawn, name, command, together), "utf-8"
    )
    return folder / "report.html"


ROWS = 100_000
"""Most rows of ``tradeoff.csv`` a fold; all scores are in ``scores.parquet``."""


def write_tradeoff(result: Result, path: Path) -> None:
    """The empirical curve, one row a threshold: fold, alpha, beta; of more thresholds than `ROWS`,
    as many evenly."""
    rows = []
    for place, fold in enumerate(result.evidence.folds):
        alpha, beta = tradeoff(fold.test)
        kept = np.linspace(0, len(alpha) - 1, min(len(alpha), ROWS)).astype(int)
        rows += [
            (place, a, b) for a, b in zip(alpha[kept].tolist(), beta[kept].tolist(), strict=True)
        ]
    write_csv(path, ("fold", "alpha", "beta"), rows)


def write_scores(result: Result, path: Path) -> None:
    """Every selection and test score with its bit, one row a trial."""
    import pyarrow
    import pyarrow.parquet

    parts = [
        (place, part, scores)
        for place, fold in enumerate(result.evidence.folds)
        for part, scores in (("selection", fold.selection), ("test", fold.test))
        if scores is not None
    ]
    tables = [
        pyarrow.table(
            {
                "fold": np.full(len(scores), place, np.int32),
                "part": pyarrow.array([part] * len(scores)).dictionary_encode(),
                "index": scores.index,
                "run": scores.run,
                "present": scores.bits,
                "score": np.asarray(scores.values, np.float64),
            }
        )
        for place, part, scores in parts
    ]
    pyarrow.parquet.write_table(pyarrow.concat_tables(tables).unify_dictionaries(), path)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table with one header line."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def write_pngs(figures: Mapping[str, Figure], folder: Path) -> None:
    """Figures by their names."""
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=160)
