"""One self-contained page for an audit or a sweep."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import Array, Bound, Result
from audit.criteria import sweep
from audit.report.curves import band, frontiers, tradeoff
from audit.report.facts import facts, meaning, measured_rows, measured_words, slack
from audit.report.figures import chooses_by_mu, measured_on, threshold_words
from audit.report.sentences import distinct, number, percent, remarks
from audit.report.style import COLOURS, PALETTE, Points, svg
from audit.report.tables import sweep_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page(result: Result, figures: Mapping[str, Figure]) -> str:
    """One HTML file that says everything: no network, light and dark, a phone and print.

    Args:
        result: of the audit.
        figures: of the same, by name; they lose their titles, for the page has headings of its own.
    """
    curves = curve_readings(result)
    drawn = [
        _part(figures["tradeoff"], "tradeoff", _tradeoff_alt(result), curve_points(result), curves)
    ]
    if "threshold" in figures:
        rates = _threshold_readings(result)
        drawn.append(
            _part(
                figures["threshold"],
                "threshold",
                _threshold_alt(result),
                _threshold_points(result),
                rates,
            )
        )
    return render(
        "audit",
        result=result,
        facts=[*facts(result), *slack(result)],
        means=meaning(result),
        tested="the canaries of this run" if result.evidence.one_run else "the test trials",
        bounds=measured_rows(result),
        remarks=remarks(result, over_claims_only=True),
        rates=measured_words(result),
        seconds=f"{sum(stage.seconds for stage in result.stages):.1f} s",
        figures=drawn,
        stages=[(stage.name, f"{stage.seconds:.1f} s") for stage in result.stages],
        config=config_yaml(result),
    )


def sweep_page(
    results: Sequence[Result],
    figures: Mapping[str, Figure],
    name: str = "sweep",
    command: str = "",
    together: str = "",
) -> str:
    """The page of a sweep: a table and its figures, as in `page`."""
    header, rows = sweep_rows(results)
    told = (
        (
            "mu_emp",
            "bars",
            "Bars of mu_emp, one an audit; the numbers are those of the table above.",
        ),
        (
            "mu_emp_against_eps",
            "eps",
            "Lines of mu_emp against eps with implied and direct mu, as in the table above.",
        ),
    )
    drawn = [
        _part(figures[figure], key, what, None) for figure, key, what in told if figure in figures
    ]
    return render(
        "sweep",
        name=name,
        command=command,
        summary=" ".join(filter(None, (summary(results), together))),
        header=header,
        rows=rows,
        figures=drawn,
        remarks=_shared_remarks(results),
        about=[("audited", told) for told in dict.fromkeys(result.challenge for result in results)],
        provenance=_shared_provenance(results),
    )


def family_words(audits: int, best: tuple[Result, Bound] | None) -> str:
    """The largest bound of several audits that holds all the same."""
    if best is None:
        return ""
    result, bound = best
    return (
        f"Largest bound after Bonferroni correction over {audits} audits "
        f"({percent(1 - bound.significance * audits)} confidence): "
        f"{bound.notion.label(bound.lower)} ({bound.estimator}, {bound.kind}), of {result.name}."
    )


def summary(results: Sequence[Result]) -> str:
    """How many audits say what, the worst first."""
    words = [result.verdict.word for result in results]
    told = [f"{words.count(word)} {word}" for word in COLOURS if word in words]
    return f"{len(words)} audit{'s' * (len(words) != 1)}: {', '.join(told)}."


def _shared_remarks(results: Sequence[Result]) -> list[str]:
    """Each remark once, with the audits that it belongs to."""
    who: dict[str, list[str]] = {}
    for name, result in zip(distinct([result.name for result in results]), results, strict=True):
        for remark in remarks(result):
            who.setdefault(remark, []).append(name)
    return [
        f"{remark} ({'all' if len(names) == len(results) else ', '.join(names)})"
        for remark, names in who.items()
    ]


def _shared_provenance(results: Sequence[Result]) -> list[tuple[str, str]]:
    """What all audits of a sweep have in common: versions, commit; and the seconds that they took
    together."""
    first, *others = [result.provenance for result in results]
    shared = [
        (k, v)
        for k, v in first.items()
        if k != "command" and all(other.get(k) == v for other in others)
    ]
    seconds = sum(stage.seconds for result in results for stage in result.stages)
    return [*shared, ("time", f"{seconds:.1f} s in all stages of all audits")]


@dataclass(frozen=True)
class Readings:
    """What is read off a figure's first axes at a place: the values of some curves at ``x``.

    Args:
        name: of x.
        x: (k,) ascending.
        curves: (name, role in the palette, (k,) values).
    """

    name: str
    x: Array
    curves: Sequence[tuple[str, str, Array]]


def _part(
    figure: Figure, name: str, alt: str, points: Points | None, readings: Readings | None = None
) -> dict[str, Any]:
    figure.suptitle("")
    drawn = svg(figure, name, alt)
    hover = _hover(figure, readings) if readings else ""
    return {"name": name, "svg": drawn, "alt": alt, "points": points, "hover": hover}


def _hover(figure: Figure, readings: Readings) -> str:
    """``readings`` and where they are in the drawn figure, as JSON that can stand in a page's
    script element."""
    ax = figure.axes[0]
    place = ax.get_position()  # after layout, in shares of the figure, from below
    told = {
        "frame": [place.x0, 1 - place.y1, place.x1, 1 - place.y0],
        "xlim": ax.get_xlim(),
        "ylim": ax.get_ylim(),
        "name": readings.name,
        "x": [float(f"{x:.5g}") for x in readings.x],
        "curves": [
            {
                "name": name,
                "role": role,
                "y": [round(float(y), 4) if math.isfinite(y) else None for y in values],
            }
            for name, role, values in readings.curves
        ],
    }
    return (
        json.dumps(told, separators=(",", ":"), ensure_ascii=False)
        .replace("<", "\\u003c")
        .replace("&", "\\u0026")
    )


def curve_readings(result: Result) -> Readings:
    """β of every curve in the tradeoff figure at α = 0, 0.005, … 1."""
    grid = np.arange(201) / 200
    alpha, beta = tradeoff(result.evidence.folds[0].test)
    # α ascends and β does not: the least FNR at an FPR of at most a is the last one there.
    curves = [
        ("measured", "measured", beta[np.searchsorted(alpha, grid + 1e-12, side="right") - 1])
    ]
    around = band(result)
    if around is not None:
        at = np.minimum(np.searchsorted(around[0], grid), len(around[0]) - 1)
        curves += [
            (f"band, {name}", "measured", around[side][at])
            for name, side in (("low", 1), ("high", 2))
        ]
    curves += [
        (f.label, f.role, np.asarray(f.notion.beta(grid, f.parameter), float))
        for f in frontiers(result)
    ]
    return Readings("α", grid, curves)


def _threshold_readings(result: Result) -> Readings:
    selection = result.evidence.folds[0].selection
    assert selection is not None
    thresholds, fpr, fnr = (values[::-1] for values in sweep(selection, 200))
    order = np.argsort(thresholds, kind="stable")
    order = order[np.isfinite(thresholds[order])]
    rates = (
        ("fpr", "implied", fpr),
        ("fnr", "approximate", fnr),
        ("advantage", "measured", 1 - fpr - fnr),
    )
    return Readings(
        "threshold",
        thresholds[order],
        [(name, role, values[order]) for name, role, values in rates],
    )


def _tradeoff_alt(result: Result) -> str:
    counts = result.evidence.counts
    told = "; ".join(frontier.label for frontier in frontiers(result))
    around = (
        ""
        if band(result) is None
        else " in a band that holds the attack's true curve everywhere at once"
    )
    box = (
        "; the box is where Clopper and Pearson place the true rates, and their bound is read "
        "from its upper right corner"
        if result.evidence.independent
        else ""
    )
    shared = (
        " If the claim holds, each canary's own rates are not below its curve, and so are not "
        "their means. The canaries share the noise of one run, so no box and no band is drawn: "
        "the bounds above count right guesses instead."
        if result.evidence.one_run
        else ""
    )
    return (
        f"The tradeoff between the two error rates, {measured_on(result)}{around}, over random "
        "guessing and the curves below which no attack can come on a mechanism that is as "
        f"private as they say ({told}). At the {threshold_words(result)} fpr is "
        f"{number(counts.fpr)} and fnr {number(counts.fnr)}{box}.{shared}"
    )


def _threshold_alt(result: Result) -> str:
    threshold = result.evidence.folds[0].threshold
    told = (
        "fpr, fnr and advantage of the selection trials against the threshold; "
        f"{number(threshold)} was chosen."
    )
    return told + (
        " Below, mu_hat on selection and on test trials." if chooses_by_mu(result) else ""
    )


def curve_points(result: Result) -> Points:
    """Measured and allowed FNR at round FPRs: the table behind the figure."""
    alpha, beta = tradeoff(result.evidence.folds[0].test)
    grid = np.array([0.01, 0.05, *np.arange(1, 10) / 10])
    columns = {"measured": [float(np.min(beta[alpha <= a])) for a in grid]}
    around = band(result)
    if around is not None:
        _, low, high = around
        places = np.searchsorted(around[0], grid)
        columns |= {"band, low": list(low[places]), "band, high": list(high[places])}
    if result.exact is not None:
        columns["exact"] = list(np.interp(grid, *result.exact))
    columns |= {
        frontier.label: list(frontier.notion.beta(grid, frontier.parameter))
        for frontier in frontiers(result)
    }
    rows = [
        [f"{a:g}", *(number(float(column[i]), 3) for column in columns.values())]
        for i, a in enumerate(grid)
    ]
    return ["α (fpr)", *(f"β {name}" for name in columns)], rows


def _threshold_points(result: Result) -> Points:
    selection = result.evidence.folds[0].selection
    assert selection is not None
    thresholds, fpr, fnr = sweep(selection, 11)
    columns = zip(thresholds, fpr, fnr, 1 - fpr - fnr, strict=True)
    rows = [[f"{t:.4g}", *(number(float(rate), 3) for rate in rates)] for t, *rates in columns]
    return ["threshold", "fpr", "fnr", "advantage"], rows


def config_yaml(result: Result) -> str:
    """The resolved configuration."""
    import yaml  # type: ignore[import-untyped]

    return str(yaml.safe_dump(result.config, sort_keys=False, allow_unicode=True))


def render(kind: str, **values: Any) -> str:
    """The page of that kind, with its values filled in."""
    return str(_template().render(kind=kind, palette=PALETTE, **values))


@functools.cache
def _template() -> Any:
    import jinja2

    world = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return world.from_string(Path(__file__).with_name("page.html").read_text("utf-8"))
