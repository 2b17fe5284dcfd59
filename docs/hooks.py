"""What the documentation's build computes: tables from the code and its data, and formulas as
MathML.

A comment such as ``<!-- coverage -->`` on a line of its own is replaced by what the function of
that name returns, and ``<!-- include path -->`` by a file of the checkout.
"""

from __future__ import annotations

import html
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from latex2mathml.converter import convert

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import audit  # noqa: E402
from audit.cli import GROUPS  # noqa: E402
from audit.coverage.rows import Row  # noqa: E402
from audit.coverage.table import read  # noqa: E402


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what is computed or included; a link to a file outside the site becomes its text."""
    markdown = re.sub(
        r"^<!-- (\w+) -->$", lambda match: PARTS[match[1]](), markdown, flags=re.MULTILINE
    )
    markdown = re.sub(
        r"^<!-- include (\S+) -->$", lambda match: _text(match[1]), markdown, flags=re.MULTILINE
    )
    # the checkout's files are not on the site
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", markdown)


def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8").rstrip()


def on_page_content(content: str, **_: Any) -> str:
    """Formulas → MathML, which browsers draw themselves: no script, no font, no network."""
    return re.sub(
        r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
        _formula,
        content,
        flags=re.DOTALL,
    )


def _formula(match: re.Match[str]) -> str:
    display = "block" if match[1] == "div" else "inline"
    return convert(html.unescape(match[2]), display=display)


# --- tables ---------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [header, ["---"] * len(header), *rows]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([text[0], text[1].replace(" ", ""), *text[2:]])


def coverage() -> str:
    """A line for each estimator, notion and error probability."""
    header = [
        "bound",
        "in",
        "kind",
        "nominal",
        "cells",
        "largest rate",
        "where",
        "few errors",
        "exceed",
    ]
    groups = _grouped(read(), lambda row: (row.estimator, row.notion, row.kind, row.nominal))
    return table(header, [_summary(members) for members in groups.values()])


def _summary(rows: Sequence[Row]) -> list[str]:
    common, rare = (
        [row for row in rows if row.verdict != "rare"],
        [row for row in rows if row.verdict == "rare"],
    )
    first, worst = rows[0], max(common or rows, key=lambda row: row.rate)
    return [
        f"`{first.estimator}`",
        NOTIONS[first.notion],
        first.kind,
        f"{100 * first.nominal:g}&nbsp;%",
        str(len(common)),
        f"**{_percent(worst.rate)}** ({_interval(worst)})",
        f"{_law(worst)}, {_sides(worst)}, {_choice(worst)}",
        f"{len(rare)} cells, ≤ {_percent(max(row.rate for row in rare))}" if rare else "–",
        str(sum(row.verdict == "exceeds" for row in rows)),
    ]


def coverage_by_law() -> str:
    """For each estimator, in GDP at 10 %: the largest rate for each law and number of trials."""
    common = [
        row
        for row in read()
        if row.nominal == 0.1 and row.absent == row.present and row.protocol == "holdout"
    ]
    rows = [row for row in common if row.notion == "gdp"]
    parts = []
    for estimator, members in _grouped(rows, lambda row: row.estimator).items():
        sizes = sorted({row.absent for row in members})
        laws = _grouped(members, _law)
        lines = [
            [law, *(_worst(cells, size) for size in sizes)] for law, cells in sorted(laws.items())
        ]
        parts.append(
            f"### `{estimator}`\n\n" + table(["scores", *(f"{n:,} a side" for n in sizes)], lines)
        )
    return "\n\n".join(parts)


def coverage_of_protocols() -> str:
    """Whole pipelines: attack fitted, threshold chosen, folds tested."""
    rows = [row for row in read() if row.protocol not in ("holdout", "one_run")]
    header = ["bound", "protocol", "scores", "trials a side", "audits", "rate (95 % interval)"]
    return table(
        header,
        [
            [
                f"`{row.estimator}`",
                row.protocol,
                _law(row),
                f"{row.absent:,}",
                f"{row.audits:,}",
                f"{_percent(row.rate)} ({_interval(row)})",
            ]
            for row in rows
        ],
    )


def coverage_in_one_run() -> str:
    """For each estimator and law: the largest rate over notions, for each number of canaries."""
    rows = [row for row in read() if row.protocol == "one_run" and row.nominal == 0.1]
    sizes = sorted({row.absent for row in rows})
    groups = _grouped(rows, lambda row: (row.estimator, row.law))
    lines = [
        [f"`{name}`", _law_name(law), *(_worst(cells, n) for n in sizes)]
        for (name, law), cells in groups.items()
    ]
    return table(["bound", "canaries' scores", *(f"{2 * n:,} canaries" for n in sizes)], lines)


def coverage_size() -> str:
    """How many cells and audits there are."""
    rows = read()
    exceed = sum(row.verdict == "exceeds" for row in rows)
    return (
        f"The table has **{len(rows):,} cells** and {sum(r.audits for r in rows):,} simulated "
        f"audits; {exceed} exceed."
    )


NOTIONS = {"gdp": "GDP", "pure": "ε-DP", "approximate": "(ε, δ)-DP", "zcdp": "zCDP"}


def _grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    return {name: list(members) for name, members in itertools.groupby(sorted(rows, key=key), key)}


def _worst(rows: Sequence[Row], size: int) -> str:
    rates = [(row.rate, row.verdict == "rare") for row in rows if row.absent == size]
    if not rates:
        return "–"
    rate, rare = max(rates)
    return _percent(rate) + (" †" if rare else "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}&nbsp;%"


def _interval(row: Row) -> str:
    low, high = row.interval
    return f"{100 * low:.1f}&#8288;–&#8288;{100 * high:.1f}"  # in one piece


def _law(row: Row) -> str:
    name = _law_name(row.law)
    return (
        name
        if row.parameter != row.parameter or row.parameter == 0
        else f"{name}, {row.parameter:.4g}"
    )


def _law_name(law: str) -> str:
    return {"curve": "counts on the curve", "null": "no signal", "gaussian": "Gaussian shift"}.get(
        law, law
    )


def _sides(row: Row) -> str:
    return (
        f"{row.absent:,} a side"
        if row.absent == row.present
        else f"{row.absent:,} + {row.present:,}"
    )


def _choice(row: Row) -> str:
    return {"all": "all thresholds"}.get(row.choice, row.choice)


# --- configuration reference ----------------------------------------------------------------------


def options() -> str:
    """Every option of every group: what its class or its file says first, and its YAML; known bugs
    in one line each."""
    folders = {
        str(folder.relative_to(ROOT / "conf")): folder
        for folder in sorted((ROOT / "conf").rglob("*"))
    }
    groups = [name for name, folder in folders.items() if folder.is_dir()]
    order = {name: place for place, name in enumerate(GROUPS)}
    groups.sort(key=lambda name: (order.get(name.split("/")[0], len(order)), name))
    return "\n\n".join(_group(name, folders[name]) for name in groups)


CONTROLS = ("mechanism/broken", "mechanism/correct")


def _group(name: str, folder: Path) -> str:
    paths = sorted(folder.glob("*.yaml"))
    if name in CONTROLS:  # options of the group above, in a folder
        rows = [
            [f"`mechanism={folder.name}/{path.stem}`", html.escape(_said(path))] for path in paths
        ]
        return f"## {name}\n\n" + table(["option", "what it is"], rows)
    return f"## {name}\n\n" + "\n\n".join(_option(name, path) for path in paths)


def _option(group: str, path: Path) -> str:
    target = (yaml.safe_load(path.read_text("utf-8")) or {}).get("_target_")
    first = _said(path) or (_first_line(target) if target else "")
    title = f"### `{group}={path.stem}` {{: #{group.replace('/', '-')}-{path.stem} }}"
    return f"{title}\n\n{html.escape(first)}{_yaml(path)}"


def _yaml(path: Path) -> str:
    """A file without its comments' lines, as a block; nothing where nothing is left."""
    code = "\n".join(
        line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")
    ).strip()
    return f"\n\n```yaml\n{code}\n```" if code else ""


def _said(path: Path) -> str:
    """The comment at the head of a YAML file."""
    lines = itertools.takewhile(
        lambda line: line.startswith("#"), path.read_text("utf-8").splitlines()
    )
    return " ".join(line[1:].strip() for line in lines if "@package" not in line)


def _first_line(target: str) -> str:
    module, _, name = target.rpartition(".")
    return (inspect.getdoc(getattr(importlib.import_module(module), name)) or "").split("\n\n")[0]


def sweeps() -> str:
    """Every sweep, with its first comment and its parameters."""
    return "\n\n".join(_sweep(path) for path in sorted((ROOT / "sweeps").glob("*.yaml")))


def _sweep(path: Path) -> str:
    return f"### `sweep={path.stem}`\n\n{html.escape(_said(path))}{_yaml(path)}"


def published() -> str:
    """Each published figure beside what the paper's own counts give."""
    header = ["case", "what", "published", "corrected", "ours"]
    cases = [
        (path, yaml.safe_load(path.read_text("utf-8")))
        for path in sorted((ROOT / "conf" / "case").glob("*.yaml"))
    ]
    rows = [
        [
            f"`{path.stem}`",
            _said(path),
            *(_figure(case["published"][key]) for key in ("mu_emp", "corrected")),
            f"`audit case={path.stem}`",
        ]
        for path, case in cases
        if "published" in (case or {})
    ]
    return table(header, rows)


def _figure(value: float | None) -> str:
    return "counts not public" if value is None else f"{value:.4f}"


# --- what the README and benchmarks/ measured -----------------------------------------------------


def controls() -> str:
    """The README's table of controls, which benchmarks/controls.py makes, with what each bug is."""
    text = _text("README.md").split("<!-- controls -->")[1].split("<!-- /controls -->")[0]
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    lines = [[f"`{name}`", html.escape(_control(name)), *cells] for name, *cells in rows]
    said = re.search(r"^Controls: .*", text, re.MULTILINE)
    return table([header[0], "what it is", *header[1:]], lines) + f"\n\n{said[0] if said else ''}"


def _control(name: str) -> str:
    """What the YAML of a known bug, or of a correct twin, says at its head."""
    found = [ROOT / "conf" / group / f"{name}.yaml" for group in CONTROLS]
    return next((_said(path) for path in found if path.exists()), "")


def controls_over_seeds() -> str:
    """The section of benchmarks/README.md."""
    section = _text("benchmarks/README.md").split("\n## Controls\n")[1]
    return section.split("\n## ")[0].strip()


# --- public names ---------------------------------------------------------------------------------


def names() -> str:
    """The public names, for mkdocstrings to render."""
    return "\n\n".join(f"::: {audit._HOMES[name]}.{name}" for name in audit.__all__)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part
    for part in (
        controls,
        controls_over_seeds,
        coverage,
        coverage_by_law,
        coverage_in_one_run,
        coverage_of_protocols,
        coverage_size,
        published,
        options,
        sweeps,
        names,
    )
}
