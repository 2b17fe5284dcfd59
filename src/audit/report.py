"""What an audit shows: figures, tables for the terminal, and one self-contained page.

A result goes in; nothing here computes a bound or judges. Figures are drawn in named colours (`PALETTE`), which the
page replaces by CSS variables, so that one drawing serves light and dark.
"""

from __future__ import annotations

import csv
import json
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from audit.core import Array, Bound, Fold, LadderRun, Power, Refused, Result, Scores, relation
from audit.criteria import sweep, upper_rate
from audit.estimators.dkw import DKW
from audit.privacy import (
    GDP,
    ZCDP,
    ApproximateDP,
    Notion,
    PureDP,
    eps_from_rho,
    gdp_epsilon,
    guess_rate,
    mu_hat,
    posterior_cap,
    power,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType
    from rich.table import Table as RichTable

PALETTE = {  # Okabe and Ito's colours, which colour-blind people tell apart: light, dark
    "ink": ("#1a1a1b", "#ececee"),
    "muted": ("#5d5d66", "#a9a9b3"),
    "grid": ("#e3e3e8", "#3a3a42"),
    "paper": ("#fefefe", "#17171b"),
    "measured": ("#d55e00", "#ff8f4a"),
    "implied": ("#0072b2", "#5bb8f0"),
    "direct": ("#009e73", "#35d0a2"),
    "zcdp": ("#b8860b", "#f0c04a"),
    "approximate": ("#a8437f", "#ea9bc8"),
    "numerical": ("#3f51a3", "#a3b1f5"),
}
Points = tuple[list[str], list[list[str]]]  # header and rows of the table behind a figure
INK = {role: light for role, (light, _) in PALETTE.items()}
FRAME = 6.4  # inches of a figure's width: 461 units, so that 10 units of text are 14 px at 640 px and 8 px on a phone
CORNER = 10  # a threshold chosen by this few selection errors is chosen by luck


# --- words and numbers ------------------------------------------------------------------------------------------------


def number(value: float | None, digits: int = 4) -> str:
    """``value`` for people: a fixed number of decimals, and words for what has none.

    >>> number(0.40351), number(None), number(math.inf), number(-math.inf), number(math.nan)
    ('0.4035', '–', '∞', '−∞', 'undefined')
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}f}"


def percent(value: float) -> str:
    """A share in per cent, without needless zeros.

    >>> percent(0.1), percent(0.01), percent(0.005)
    ('10 %', '1 %', '0.5 %')
    """
    return f"{100 * value:.4g} %"


def tightness(result: Result) -> float | None:
    """mu_emp / implied mu; None where there is nothing to divide by."""
    implied = result.mu_implied
    return result.bounds[0].lower / implied if implied and math.isfinite(implied) else None


def bound_rows(result: Result) -> list[tuple[str, str, str, str]]:
    """The bounds in words, one a row: recipe, lower bound, error probability, kind. mu_emp comes first."""

    def row(bound: Bound, role: str) -> tuple[str, str, str, str]:
        told = f"{role} ({bound.estimator})" if role else bound.estimator
        value = bound.notion.label(bound.lower)
        return told, value, percent(bound.significance), bound.kind + (", anytime" if bound.anytime else "")

    named = [row(bound, "" if place else "mu_emp") for place, bound in enumerate(result.bounds)]
    return [*named, row(result.verdict.accusing, "accusing")]


def claim_words(result: Result) -> list[str]:
    """The claims in words; the first one says that it is the one that is judged, and for which neighbours."""
    first, *others = result.claims
    return [f"{first} (judged, {relation(first.neighbours)})", *map(str, others)]


def why_collapsed(result: Result) -> str | None:
    """Why a threshold that looked good on the selection trials shows nothing on the test trials, where that is so.

    Near a corner μ̂ is the difference of two far quantiles: a handful of errors decides it.
    """
    fold = result.evidence.folds[0]
    if fold.selection is None or not len(fold.selection.absent) or not len(fold.selection.present):
        return None
    chosen, kept = fold.selection.count(fold.threshold), result.bounds[0].lower
    promised = float(mu_hat(chosen.fpr, chosen.fnr))
    _, fpr, fnr = sweep(fold.selection, 200)
    ordinary = float(mu_hat(fpr, fnr)[np.argmin(fpr + fnr)])  # at the threshold of the largest advantage
    if min(chosen.fp, chosen.fn, chosen.tp, chosen.tn) > CORNER or not promised > ordinary > 2 * kept:
        return None
    return (
        f"The threshold lies in a corner: of the selection trials it calls {chosen.fp} of {chosen.fp + chosen.tn} "
        f"absent and {chosen.tp} of {chosen.fn + chosen.tp} present ones present. There mu_hat is a difference of two "
        f"far quantiles, which a handful of trials decides, so a lucky one wins: it is {number(promised, 3)} on the "
        f"selection trials, {number(result.mu_hat, 3)} on the test trials, with a bound of {kept:.3f}."
    )


def remarks(result: Result) -> list[str]:
    """Every sentence that must stand beside the numbers, once each."""
    told = (("mu_emp", result.bounds[0]), ("accusing", result.verdict.accusing))
    measured = [f"{role} ({bound.estimator}): {bound.measured}" for role, bound in told if bound.measured]
    warnings = [*measured, *(warning for bound in result.bounds for warning in bound.warnings)]
    refused = [f"Left out: {name}: {reason}" for name, reason in result.refused.items()]
    collapsed = why_collapsed(result)
    return list(dict.fromkeys([*([collapsed] if collapsed else []), *result.notes, *warnings, *refused]))


def distinct(names: Sequence[str]) -> list[str]:
    """Names without the words that all of them share, or only their cases (``case: …``) where these are all different.

    >>> distinct(["mst eps=1 xgboost", "mst eps=2 xgboost"]), distinct(["mst eps=1"]), distinct(["a: mst", "b: aim"])
    (['eps=1', 'eps=2'], ['mst eps=1'], ['a', 'b'])
    """
    cases = [name.partition(":")[0] for name in names]
    if len(set(cases)) == len(names) > 1 and all(":" in name for name in names):
        return cases
    split = [name.split() for name in names]
    shared = set.intersection(*map(set, split)) if len(set(names)) > 1 else set()
    short = [" ".join(word for word in words if word not in shared) for words in split]
    return [kept or name for kept, name in zip(short, names, strict=True)]


# --- curves -----------------------------------------------------------------------------------------------------------


def tradeoff(scores: Scores) -> tuple[Array, Array]:
    """The empirical tradeoff curve: (FPR, FNR) at every threshold.

    Args:
        scores: of both classes.

    Returns:
        (alpha, beta), each (k + 1,) for k different scores: alpha from 0 to 1, beta from 1 to 0.

    >>> bits = np.array([False, False, True, True])
    >>> [c.tolist() for c in tradeoff(Scores(np.array([0.0, 2.0, 1.0, 3.0]), bits, np.arange(4), np.arange(4)))]
    [[0.0, 0.0, 0.5, 0.5, 1.0], [1.0, 0.5, 0.5, 0.0, 0.0]]
    """
    absent, present = np.sort(scores.absent), np.sort(scores.present)
    thresholds = np.append(np.unique(scores.values), np.inf)[::-1]
    alpha = 1 - np.searchsorted(absent, thresholds, side="left") / max(len(absent), 1)
    beta = np.searchsorted(present, thresholds, side="left") / max(len(present), 1)
    # A score of ∞ is ≥ every threshold: "never present" is no threshold then, but it is a test all the same.
    alpha[0], beta[0] = 0.0, 1.0
    return alpha, beta


@dataclass(frozen=True)
class Frontier:
    """A curve that no attack on a mechanism that keeps it can come below."""

    label: str
    role: str
    notion: Notion
    parameter: float
    dash: tuple[float, ...] = ()

    def curve(self) -> tuple[Array, Array]:
        """(alpha, beta), each (k,), from alpha = 0 to 1, kinks included."""
        grid = np.concatenate([[0.0, 1.0], ndtr(np.linspace(-7, 7, 141)), self.notion.kinks(self.parameter)])
        alpha = np.unique(np.clip(grid, 0, 1))
        return alpha, np.asarray(self.notion.beta(alpha, self.parameter))


def frontiers(result: Result) -> list[Frontier]:
    """Implied and direct GDP, then every claim that is neither."""
    found = []
    for name, value, dash in (("implied", result.mu_implied, ()), ("direct", result.mu_direct, (7.0, 2.0))):
        if value is not None:
            found.append(Frontier(f"{name} μ: {GDP().label(value)}", name, GDP(), value, dash))
    for place, claim in enumerate(result.claims):
        if isinstance(claim.notion, GDP) and not claim.numerical and claim.parameter == result.mu_implied:
            told = "implied μ" if place else "implied μ, the claim"
            found[0] = Frontier(f"{told}: {claim}", "implied", GDP(), claim.parameter)
            continue
        label = claim.notion.label(claim.parameter)
        told = f"numerical: {label}" if claim.numerical else f"claim: {label}" if place == 0 else label
        role = "numerical" if claim.numerical else claim.notion.name if claim.notion.name in INK else "approximate"
        style = (3.0, 3.0) if claim.numerical else (9.0, 2.0, 2.0, 2.0)
        found.append(Frontier(told, role, claim.notion, claim.parameter, style))
    return found


# --- figures ----------------------------------------------------------------------------------------------------------


def tradeoff_figure(result: Result) -> Figure:
    """What was measured over what is claimed: FNR against FPR, and the region that the judged claim forbids."""
    figure = _figure(result.name, FRAME, 6.4)
    (ax,) = _axes(figure, 1)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set_xlabel("α: false positive rate (absent called present)")
    ax.set_ylabel("β: false negative rate (present called absent)")
    _forbidden(ax, result)
    around = band(result)
    if around is not None:
        ax.fill_between(*around, color=INK["measured"], alpha=BAND, lw=0)
    ax.plot([0, 1], [1, 0], color=INK["muted"], lw=1)
    ends = np.array([0.0, 1.0])
    told: list[tuple[str, str, Array, Array]] = [("random guessing", "muted", ends, 1 - ends)]
    for frontier in frontiers(result):
        alpha, beta = frontier.curve()
        ax.plot(alpha, beta, color=INK[frontier.role], lw=1.5, ls=(0, frontier.dash) if frontier.dash else "-")
        told.append((frontier.label, frontier.role, alpha, beta))
    if result.exact is not None:
        ax.plot(*result.exact, color=INK["ink"], lw=1.5, ls=(0, (1.0, 1.5)))
        told.append(("exact curve of this pair", "ink", *result.exact))
    for fold in result.evidence.folds:
        alpha, beta = tradeoff(fold.test)
        ax.plot(alpha, beta, color=INK["measured"], lw=2)
    sure = f", in a {percent(1 - result.bounds[0].significance)} band" if around is not None else ""
    told.append((f"measured on test trials{sure}", "measured", alpha, beta))
    _fan_of_labels(ax, told)
    _operating_point(ax, result, 0.96 - 0.06 * len(told))
    return figure


BAND = 0.22
"""Opacity of the band around the measured curve."""


def band(result: Result) -> tuple[Array, Array, Array] | None:
    """Between which (alpha, lower, upper) the attack's true curve lies everywhere at once, with 1 − significance.

    None where the test trials are not independent or of one class only.
    """
    try:
        return DKW(significance=result.bounds[0].significance).band(result.evidence)
    except Refused:
        return None


def _forbidden(ax: Axes, result: Result) -> None:
    claim = result.claims[0]
    alpha, beta = Frontier("", "", claim.notion, claim.parameter).curve()
    ax.fill_between(alpha, 0, beta, color=INK["implied"], alpha=0.09, lw=0)
    if 1 - guess_rate(claim.notion, claim.parameter) > 0.1:
        ax.text(0.03, 0.03, "the claim forbids\nwhat is down here", color=INK["muted"], va="bottom")


def _fan_of_labels(ax: Axes, told: Sequence[tuple[str, str, Array, Array]]) -> None:
    """Labels in the empty half above random guessing, each with a leader to its curve."""
    for place, (label, role, alpha, beta) in enumerate(told):
        y = 0.93 - 0.06 * place
        x = float(np.interp(-y, -beta, alpha))
        ax.plot([x, 0.985], [y, y], color=INK[role], lw=0.5, alpha=0.55)
        ax.plot(x, y, "o", ms=4, color=INK[role])
        ax.text(0.985, y, label, color=INK[role], ha="right", va="center", bbox=_box())


def _operating_point(ax: Axes, result: Result, y: float) -> None:
    """The chosen threshold on the test trials, in the rectangle that Clopper and Pearson allow it."""
    from matplotlib.patches import Rectangle

    counts, significance = result.evidence.counts, result.bounds[0].significance
    if math.isnan(counts.fpr) or math.isnan(counts.fnr):
        return
    label = "chosen threshold"
    if result.evidence.independent:
        left, right = _interval(counts.fp, counts.tn, significance)
        low, high = _interval(counts.fn, counts.tp, significance)
        ax.add_patch(Rectangle((left, low), right - left, high - low, fill=False, ec=INK["ink"], lw=1.2, zorder=4))
        label += f"\nin its {percent(significance)} Clopper–Pearson box"
    ax.plot(counts.fpr, counts.fnr, "o", ms=6, mfc=INK["measured"], mec=INK["ink"], zorder=5)
    arrow = {"arrowstyle": "-", "color": INK["ink"], "lw": 0.7, "shrinkB": 4}
    at = (counts.fpr, counts.fnr)
    ax.annotate(label, at, (0.985, y), ha="right", va="top", color=INK["ink"], arrowprops=arrow, bbox=_box())


def _interval(errors: int, others: int, significance: float) -> tuple[float, float]:
    """Both one-sided limits of a rate, each at half the significance."""
    low, high = upper_rate(others, errors, significance / 2), upper_rate(errors, others, significance / 2)
    return 1 - float(low), float(high)


def threshold_figure(result: Result) -> Figure | None:
    """fpr, fnr and advantage on the selection trials against the threshold; None where nothing was chosen on data.

    Where the criterion looked at μ, mu_hat on selection and on test trials stands below.
    """
    fold = result.evidence.folds[0]
    if fold.selection is None or not len(fold.selection.absent) or not len(fold.selection.present):
        return None
    thresholds, fpr, fnr = sweep(fold.selection, 400)
    seen = np.isfinite(thresholds)
    if not seen.any():
        return None
    thresholds, fpr, fnr = thresholds[seen], fpr[seen], fnr[seen]
    with_mu = _chooses_by_mu(result)
    more = f", fold 1 of {len(result.evidence.folds)}" if len(result.evidence.folds) > 1 else ""
    figure = _figure(result.name + more, FRAME, 6.4 if with_mu else 4.4)
    axes = _axes(figure, 2 if with_mu else 1)
    _rates(axes[0], thresholds, fpr, fnr)
    if with_mu:
        _mu_panel(axes[1], result, fold, thresholds, mu_hat(fpr, fnr))
    span = thresholds[[len(thresholds) // 200, -1 - len(thresholds) // 200]]
    reach = np.append(span, fold.threshold) if math.isfinite(fold.threshold) else span
    pad = 0.03 * (np.ptp(reach) or 1)
    axes[0].set_xlim(reach.min() - pad, reach.max() + pad)
    axes[-1].set_xlabel("threshold: scores from here on are called present")
    _mark_choice(axes, fold)
    return figure


def _chooses_by_mu(result: Result) -> bool:
    told = re.sub("[^a-z]", "", str(result.config.get("criterion", "")).lower())
    return "muhat" in told or "mulower" in told


def _rates(ax: Axes, thresholds: Array, fpr: Array, fnr: Array) -> None:
    advantage = 1 - fpr - fnr
    for values, role, dash in ((fpr, "implied", (7, 2)), (fnr, "approximate", (2, 2)), (advantage, "measured", ())):
        ax.plot(thresholds, values, color=INK[role], lw=2, ls=(0, dash) if dash else "-")
    ax.set(ylim=(min(-0.02, float(advantage.min()) - 0.02), 1.04), ylabel="share of selection trials")

    def label(name: str, role: str, place: int, y: float, dx: int, ha: str) -> None:
        where = (thresholds[place], y)
        ax.annotate(name, where, (dx, 0), textcoords="offset points", color=INK[role], ha=ha, va="center")

    label("fpr", "implied", int(np.argmin(np.abs(fpr - 0.75))), 0.75, 9, "left")
    label("fnr", "approximate", int(np.argmin(np.abs(fnr - 0.88))), 0.88, -9, "right")
    top = int(np.argmax(advantage))
    room = 11 if advantage[top] < 0.9 else -14
    ax.annotate("advantage", (thresholds[top], advantage[top]), (0, room), textcoords="offset points",
                color=INK["measured"], ha="center", va="center", bbox=_box())  # fmt: skip


def _mu_panel(ax: Axes, result: Result, fold: Fold, thresholds: Array, selected: Array) -> None:
    absent, present = np.sort(fold.test.absent), np.sort(fold.test.present)
    fpr = 1 - np.searchsorted(absent, thresholds, side="left") / max(len(absent), 1)
    fnr = np.searchsorted(present, thresholds, side="left") / max(len(present), 1)
    tested = mu_hat(fpr, fnr)
    finite = np.concatenate([selected[np.isfinite(selected)], tested[np.isfinite(tested)], [0.0]])
    low, high = float(finite.min()), float(finite.max())
    if result.mu_implied is not None and math.isfinite(result.mu_implied):
        high = max(high, result.mu_implied)
        ax.axhline(result.mu_implied, color=INK["implied"], lw=1.2)
        ax.annotate("implied μ", (1, result.mu_implied), (5, 0), xycoords=ax.get_yaxis_transform(), va="center",
                    textcoords="offset points", color=INK["implied"])  # fmt: skip
    pad = 0.14 * (high - low or 1)
    ax.set(ylim=(low - pad, high + 2 * pad), ylabel="mu_hat")
    endless = thresholds[np.isposinf(selected)]
    if len(endless):
        ax.plot(endless, np.full(len(endless), high + 0.8 * pad), "^", ms=6, color=INK["measured"])
        ax.annotate("∞", (endless[0], high + 0.8 * pad), (0, -13), textcoords="offset points", color=INK["measured"],
                    ha="center")  # fmt: skip
    ax.plot(thresholds, _finite(selected), color=INK["measured"], lw=2)
    ax.plot(thresholds, _finite(tested), color=INK["muted"], lw=1.4, ls=(0, (4, 2)))
    told = (("on selection trials", "measured", 0.02), ("on test trials (dashed)", "muted", 0.98))
    for text, role, x in told:
        ha = "left" if x < 0.5 else "right"
        ax.text(x, 0.97, text, color=INK[role], transform=ax.transAxes, va="top", ha=ha, bbox=_box())


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.nan)


def _mark_choice(axes: Sequence[Axes], fold: Fold) -> None:
    if not math.isfinite(fold.threshold):
        told = f"threshold {number(fold.threshold)}: outside the scores"
        axes[0].text(0.5, 0.5, told, transform=axes[0].transAxes, ha="center", color=INK["ink"], bbox=_box())
        return
    for ax in axes:
        ax.axvline(fold.threshold, color=INK["ink"], lw=1.2)
    left, right = axes[0].get_xlim()
    near = (fold.threshold - left) / (right - left)
    ha = "left" if near < 0.25 else "right" if near > 0.75 else "center"
    told, top = f"chosen: {fold.threshold:.4g}", axes[0].get_xaxis_transform()
    axes[0].annotate(told, (fold.threshold, 1), (0, 4), xycoords=top, textcoords="offset points", ha=ha, va="bottom",
                     color=INK["ink"])  # fmt: skip


def eps_figure(results: Sequence[Result]) -> Figure | None:
    """mu_emp against ε, a line per kind of audit, with the implied and the direct μ; None for fewer than two ε."""
    placed = [(claimed_eps(result), result) for result in results]
    finite = ((eps, result) for eps, result in placed if eps is not None and math.isfinite(eps))
    known = sorted(finite, key=lambda pair: pair[0])
    if len({eps for eps, _ in known}) < 2:
        return None
    figure = _figure("mu_emp against eps", FRAME, 5.0)
    (ax,) = _axes(figure, 1)
    ax.set_xlabel("eps (claimed)")
    if len({eps for eps, _ in known}) <= 8:
        ax.set_xticks(sorted({eps for eps, _ in known}), [f"{eps:g}" for eps in sorted({eps for eps, _ in known})])
    ax.set_ylabel("μ")
    ends = _reference_lines(ax, known)
    names = [re.sub(r"\beps=\S+\s*", "", result.name).strip() for _, result in known]
    short = dict(zip(names, distinct(names), strict=True))
    roles, marks = ("measured", "approximate", "zcdp", "numerical", "ink", "muted"), "osD^vPX"
    for place, name in enumerate(dict.fromkeys(names)):
        points = [(eps, result.bounds[0].lower) for (eps, result), n in zip(known, names, strict=True) if n == name]
        eps, lower = zip(*points, strict=True)
        color = INK[roles[place % len(roles)]]
        ax.plot(eps, lower, marker=marks[place % len(marks)], color=color, lw=1.8, ms=6)
        ends.append((lower[-1], f"mu_emp {short[name]}", color))
    ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    _end_labels(ax, known[-1][0], ends)
    return figure


def claimed_eps(result: Result) -> float | None:
    """ε of the (ε, δ) claim; None where there is none."""
    found = (c.parameter for c in result.claims if isinstance(c.notion, ApproximateDP) and not c.numerical)
    return next(found, None)


def _reference_lines(ax: Axes, known: Sequence[tuple[float, Result]]) -> list[tuple[float, str, str]]:
    """Implied and direct μ; returns the end of each line: value, label, colour."""
    ends = []
    for name, dash in (("implied", ()), ("direct", (7, 2))):
        valued = ((eps, getattr(result, f"mu_{name}")) for eps, result in known)
        points = {eps: value for eps, value in valued if value is not None}
        if points:
            style: Any = (0, dash) if dash else "-"
            ax.plot(list(points), list(points.values()), color=INK[name], lw=1.5, ls=style)
            ends.append((list(points.values())[-1], f"{name} μ", INK[name]))
    return ends


def _end_labels(ax: Axes, x: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """A label at the right end of each line, pushed apart until none touches another."""
    low, high = ax.get_ylim()
    gap = 0.055 * (high - low)
    places: list[float] = []
    ordered = sorted(ends, key=lambda end: end[0])
    for value, _, _ in ordered:
        places.append(max(value, places[-1] + gap) if places else value)
    shift = (places[-1] - ordered[-1][0]) / 2  # half of the push goes down
    for (value, text, color), y in zip(ordered, places, strict=True):
        arrow = {"arrowstyle": "-", "color": color, "lw": 0.5}
        rise = (y - shift - value) / (high - low) * _height(ax)
        ax.annotate(text, (x, value), (12, rise), textcoords="offset points", color=color, va="center",
                    arrowprops=arrow, annotation_clip=False)  # fmt: skip


def _height(ax: Axes) -> float:
    figure = ax.figure
    return float(ax.get_position().height * figure.get_figheight() * 72)  # type: ignore[union-attr]


def bar_figure(results: Sequence[Result]) -> Figure | None:
    """A bar a result, as long as mu_emp, with mu_hat, the implied μ and what a perfect attack is expected to get."""
    if len(results) < 2:
        return None
    figure = _figure("mu_emp of each audit", FRAME, 1.5 + 0.36 * len(results))
    (ax,) = _axes(figure, 1)
    rows = np.arange(len(results))[::-1]
    lower = [result.bounds[0].lower for result in results]
    bars = ax.barh(rows, lower, height=0.62, color=INK["measured"], label="mu_emp")
    hats = [result.mu_hat if math.isfinite(result.mu_hat) else math.nan for result in results]
    ax.plot(hats, rows, "o", ms=6, mfc=INK["paper"], mec=INK["ink"], label="mu_hat", zorder=4)
    implied, expected = [result.mu_implied for result in results], [result.power.expected for result in results]
    ticks = (("implied μ", "implied", implied), ("perfect attack, expected", "direct", expected))
    for label, role, values in ticks:
        shown = [math.nan if v is None or math.isinf(v) else v for v in values]
        ax.plot(shown, rows, "|", ms=17, mew=2.2, color=INK[role], label=label, zorder=3)
    ax.set_yticks(rows, [textwrap.fill(name, 30) for name in distinct([result.name for result in results])])
    ax.set(xlabel="μ", xlim=(min(0, *lower), None))
    ax.grid(axis="y", visible=False)
    for row, value in zip(rows, lower, strict=True):
        ax.text(1.01, row, f"{value:.3f}", va="center", color=INK["measured"], transform=ax.get_yaxis_transform())
    handles: list[Any] = [bars, *ax.lines]
    labels = [str(handle.get_label()) for handle in handles]
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, labelcolor=INK["ink"])
    return figure


def _box() -> dict[str, Any]:
    """What keeps a label readable over lines."""
    return {"facecolor": INK["paper"], "edgecolor": "none", "pad": 1.5}


def _figure(title: str, width: float, height: float) -> Figure:
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "audit"  # the same figure is the same file
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=INK["paper"])
    wrapped = textwrap.fill(title, 62)
    figure.suptitle(wrapped, fontsize=11, color=INK["ink"], x=0.02, ha="left", fontweight="bold")
    return figure


def _axes(figure: Figure, rows: int) -> list[Axes]:
    axes = list(np.atleast_1d(figure.subplots(rows, 1, sharex=True)))
    for ax in axes:
        ax.set_facecolor(INK["paper"])
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(INK["muted"])
        ax.tick_params(colors=INK["muted"], labelcolor=INK["ink"], labelsize=10)
        ax.grid(color=INK["grid"], lw=0.8)
        ax.set_axisbelow(True)
        for label in (ax.xaxis.label, ax.yaxis.label):
            label.set(color=INK["ink"], fontsize=10)
    return axes


def svg(figure: Figure, name: str, alt: str) -> str:
    """``figure`` as an element of a page: colours are CSS variables, ids its own, and ``alt`` tells what it shows."""
    import html

    import matplotlib

    out = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    drawn = re.sub(r'(id="|url\(#|href="#)', rf"\1{name}-", drawn)
    for role, color in INK.items():
        drawn = drawn.replace(color, f"var(--{role})")
    size = re.search(r'viewBox="[^"]*"', drawn)
    assert size is not None
    head = f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg" {size[0]} role="img"'
    return f'{head} aria-label="{html.escape(alt)}">' + drawn[drawn.index(">") + 1 :]


# --- the terminal -----------------------------------------------------------------------------------------------------

COLOURS = {"violation": "bold red", "tight": "bold green", "loose": "bold yellow", "inconclusive": "bold magenta"}


def plain_table(
    header: Sequence[str], numbers: Sequence[str] = (), whole: Sequence[str] = (), title: str | None = None
) -> RichTable:
    """An empty table in the one style that all of ours have.

    Args:
        header: names of the columns.
        numbers: those that are set right.
        whole: those whose cells are never broken.
        title: above it.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True, title=title)
    for name in header:
        longest = max(map(len, name.split()))  # a header is broken between words only
        shown.add_column(
            name,
            justify="right" if name in numbers else "left",
            min_width=longest,
            overflow="fold",
            no_wrap=name in whole,
        )
    return shown


def table(result: Result) -> RenderableType:
    """What the terminal shows at the end of an audit."""
    from rich.console import Group
    from rich.text import Text

    verdict = Text.assemble((result.verdict.word, COLOURS[result.verdict.word]), "  ", result.verdict.reason)
    spent = " · ".join(f"{stage.name} {stage.seconds:.1f} s" for stage in result.stages)
    total = sum(stage.seconds for stage in result.stages)
    notes = [Text(f"note  {note}", style="yellow") for note in remarks(result)]
    seconds = Text(f"{total:.1f} s: {spent}", style="dim")
    title = Text(result.name, style="bold")
    return Group(title, _facts_table(result), _bounds_table(result), verdict, *notes, seconds)


def _facts_table(result: Result) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, value in facts(result):
        grid.add_row(name, Text(value))
    return grid


def facts(result: Result) -> list[tuple[str, str]]:
    """What was audited and what was measured, in words."""
    counts = result.evidence.counts
    return [
        ("audited", result.challenge),
        ("claims", ", ".join(claim_words(result))),
        ("fpr", f"{number(counts.fpr)}  ({counts.fp} of {counts.fp + counts.tn} absent trials called present)"),
        ("fnr", f"{number(counts.fnr)}  ({counts.fn} of {counts.fn + counts.tp} present trials called absent)"),
        ("mu_hat", number(result.mu_hat)),
        ("implied mu", number(result.mu_implied)),
        ("direct mu", number(result.mu_direct)),
        *_exact_facts(result),
        ("perfect attack", f"{number(result.power.expected)}  (the mu_emp to expect from one with as many trials)"),
        ("efficiency", _efficiency_words(result)),
        ("power", _power_words(result)),
        *_control_facts(result),
    ]


def _exact_facts(result: Result) -> list[tuple[str, str]]:
    """What endless trials would show on this pair, where that is known."""
    if result.exact is None:
        return []
    claimed = result.claims[0].notion
    most = [(notion, float(np.max(notion.parameter(*result.exact)))) for notion in dict.fromkeys((claimed, GDP()))]
    told = " and ".join(notion.label(parameter) if parameter < math.inf else "no bound" for notion, parameter in most)
    return [("exact", f"{told}  (what endless trials could show on this pair at most)")]


def _control_facts(result: Result) -> list[tuple[str, str]]:
    """Of a control: what must be found, and where such a bug was seen."""
    control = control_of(result)
    truth = control.get("truth")
    known = "" if truth is None else f"; {result.claims[0].notion.symbol} is {number(float(truth), 3)} in truth"
    told = {"expected verdict": control.get("expected"), "seen": control.get("seen")}
    return [(name, f"{value}{known if name != 'seen' else ''}") for name, value in told.items() if value]


def _efficiency_words(result: Result) -> str:
    if result.power.efficiency is None:
        return "unknown  (no positive control)"
    share, sure = result.power.efficiency
    return f"{percent(share)}  (at least {percent(sure)}; of what the exact likelihood ratio shows on the same trials)"


def _power_words(result: Result) -> str:
    """What would have been found, and what it takes; with the attack's own efficiency where it is known."""
    could = result.power
    who = "a perfect attack" if could.efficiency is None else "this attack"
    needed = "no number of trials" if math.isinf(could.needed) else f"{could.needed:,.0f} test trials a side"
    return f"{who} finds a μ of {number(could.detectable)} 4 times in 5; 1.25 × the claim takes {needed}"


def plan_table(plans: Sequence[tuple[str, Power, str]]) -> RenderableType:
    """What each of several audits could find, and what it would take, one row an audit."""
    header = ("audit", "expected mu_emp", "finds 4 times in 5", "1.25 × claim takes", "it takes")
    shown = plain_table(header, numbers=header[1:], title="With a perfect attack, before anything is played")
    for name, could, takes in plans:
        needed = f"{could.needed:,.0f} tests a side"
        shown.add_row(name, number(could.expected), f"μ of {number(could.detectable)}", needed, takes)
    return shown


def _bounds_table(result: Result) -> RichTable:
    header = ("bound", "leaks at least", "error prob.", "kind")
    shown = plain_table(header, numbers=header[1:3], whole=header[:3])
    for place, row in enumerate(bound_rows(result)):
        shown.add_row(*row, style="bold" if place == 0 else None)
    return shown


PUBLISHED = {"mu_emp": "published", "corrected": "corrected"}  # key of ``published`` → column
SWEEP = ("audit", "mu_hat", "mu_emp", "Clopper Pearson", "implied mu", "direct mu", "tightness", "verdict")


def sweep_rows(results: Sequence[Result]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of a sweep's table, as strings.

    A configuration may say what others found, ``published: {mu_emp: …, corrected: …}``: it stands beside our figures.
    Where all audits are controls, the columns are `CONTROLS`.
    """
    if are_controls(results):
        return CONTROLS, control_rows(results)
    theirs = [dict(result.config.get("published") or {}) for result in results]
    given = [name for key, name in PUBLISHED.items() if any(found.get(key) is not None for found in theirs)]
    names = distinct([result.name for result in results])
    rows = []
    for name, told_before, result in zip(names, theirs, results, strict=True):
        found = (b for b in result.bounds if b.estimator == "clopper_pearson" and isinstance(b.notion, GDP))
        pearson = next(found, None)
        ours = (result.mu_hat, result.bounds[0].lower, pearson.lower if pearson else None)
        told = [number(value, 3) for value in (*ours, result.mu_implied, result.mu_direct)]
        before = [_given(told_before.get(key)) for key, column in PUBLISHED.items() if column in given]
        rows.append((name, *before, *told, number(tightness(result), 2), result.verdict.word))
    return (SWEEP[0], *given, *SWEEP[1:]), rows


def _given(value: Any) -> str:
    return "–" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


def sweep_table(results: Sequence[Result]) -> RenderableType:
    """One row an audit, narrow enough for 80 columns: implied and direct mu are on the page.

    Where each audit is a control, of a mechanism whose verdict is known beforehand, what was found stands beside that.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if are_controls(results):
        return _controls_table(results)
    header, rows = sweep_rows(results)
    kept = [place for place, name in enumerate(header) if name not in ("implied mu", "direct mu", "verdict")]
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    shown.add_column(header[0], overflow="fold", min_width=10)
    for name in (header[place] for place in kept[1:]):
        shown.add_column(name, justify="right", min_width=max(map(len, name.split())))  # breaks between words only
    shown.add_column(header[-1], no_wrap=True)
    for row in rows:
        shown.add_row(*(Text(row[place]) for place in kept), Text(row[-1], style=COLOURS[row[-1]]))
    return shown


# --- controls: mechanisms of which it is known whether they keep their claim ------------------------------------------

CONTROLS = ("control", "claim", "truth", "found", "verdict", "expected", "trials")


def control_of(result: Result) -> dict[str, Any]:
    """What a configuration says should be found: ``control: {expected: violation, truth: .inf, seen: "…"}``, else {}."""
    return dict(result.config.get("control") or {})


def are_controls(results: Sequence[Result]) -> bool:
    """Whether of each audit it is known what it must say."""
    return bool(results) and all(control_of(result) for result in results)


def control_rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Rows of the table of controls, see `CONTROLS`; *truth* and *found* are in the claim's notion.

    *found* is the accusing lower bound; *truth* what the mechanism keeps on this pair, "kept" where it is the claim.
    """
    rows: list[tuple[str, ...]] = []
    for result in results:
        control, name = control_of(result), str(result.config.get("choices", {}).get("mechanism") or result.name)
        truth = "kept" if control.get("truth") is None else number(float(control["truth"]), 3)
        found = number(result.verdict.accusing.lower, 3)
        told = (result.verdict.word, str(control.get("expected")), result.provenance.get("trials", "–"))
        rows.append((name.rpartition("/")[2], str(result.claims[0]), truth, found, *told))  # its shelf is "expected"
    return rows


def gone_wrong(results: Sequence[Result]) -> tuple[list[str], list[str]]:
    """Names of the controls that were missed, and of those that were accused falsely."""
    missed: list[str] = []
    accused: list[str] = []
    for result, row in zip(results, control_rows(results), strict=True):
        expected = control_of(result).get("expected") == "violation"
        if (result.verdict.word == "violation") != expected:
            (missed if expected else accused).append(row[0])
    return missed, accused


def control_words(results: Sequence[Result]) -> str:
    """How many controls went wrong, in one sentence; "" where the results are no controls."""
    if not are_controls(results):
        return ""
    broken = sum(control_of(result).get("expected") == "violation" for result in results)
    missed, accused = (f"{len(names)}{_listed(names)}" for names in gone_wrong(results))
    return f"Controls: {missed} of {broken} bugs missed, {accused} of {len(results) - broken} correct ones falsely accused."


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _controls_table(results: Sequence[Result]) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for place, name in enumerate(CONTROLS):
        justify: Any = "right" if name in ("truth", "found", "trials") else "left"
        shown.add_column(name, justify=justify, no_wrap=place > 0, overflow="fold")
    wrong = {name for names in gone_wrong(results) for name in names}
    for row in control_rows(results):
        shown.add_row(
            *row[:4], Text(row[4], style=COLOURS[row[4]]), *row[5:], style="bold" if row[0] in wrong else None
        )
    return shown


# --- the page ---------------------------------------------------------------------------------------------------------


def page(result: Result) -> str:
    """One HTML file that says everything: no network, light and dark, a phone and print."""
    curves = _curve_readings(result)
    drawn = [_part(tradeoff_figure(result), "tradeoff", _tradeoff_alt(result), _curve_points(result), curves)]
    chosen = threshold_figure(result)
    if chosen is not None:
        rates = _threshold_readings(result)
        drawn.append(_part(chosen, "threshold", _threshold_alt(result), _threshold_points(result), rates))
    return _render(
        "audit",
        result=result,
        facts=[*facts(result), *slack(result)],
        means=meaning(result),
        bounds=measured_rows(result),
        remarks=[remark for remark in remarks(result) if "): measured: " not in remark],
        rates=measured_words(result),
        seconds=f"{sum(stage.seconds for stage in result.stages):.1f} s",
        figures=drawn,
        stages=[(stage.name, f"{stage.seconds:.1f} s") for stage in result.stages],
        config=config_yaml(result),
    )


def sweep_page(results: Sequence[Result], name: str = "sweep", command: str = "", together: str = "") -> str:
    """The page of a sweep: a table and its figures."""
    header, rows = sweep_rows(results)
    drawn = []
    for figure, key, what in (
        (bar_figure(results), "bars", "Bars of mu_emp, one an audit; the numbers are those of the table above."),
        (eps_figure(results), "eps", "Lines of mu_emp against eps with implied and direct mu, as in the table above."),
    ):
        if figure is not None:
            drawn.append(_part(figure, key, what, None))
    return _render(
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
    """How many audits were compared, and what holds of the best of them all the same."""
    if best is None:
        return ""
    result, bound = best
    return (
        f"{audits} audits were compared. All of their bounds at once, with error probability"
        f" {percent(bound.significance * audits)} together: the largest is {bound.notion.label(bound.lower)}"
        f" ({bound.estimator}, {bound.kind}, Bonferroni), of {result.name}."
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
    return [f"{remark} ({'all' if len(names) == len(results) else ', '.join(names)})" for remark, names in who.items()]


def _shared_provenance(results: Sequence[Result]) -> list[tuple[str, str]]:
    """What all audits of a sweep have in common: versions, commit; and the seconds that they took together."""
    first, *others = [result.provenance for result in results]
    shared = [(k, v) for k, v in first.items() if k != "command" and all(other.get(k) == v for other in others)]
    seconds = sum(stage.seconds for result in results for stage in result.stages)
    return [*shared, ("time", f"{seconds:.1f} s in all stages of all audits")]


def meaning(result: Result) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """What a parameter means in plain figures: the claimed one, the measured one, and what this attack did.

    The measured one is the first bound in the notion of the judged claim. Both are read from the notion's curve; the
    attack's own rates are plug-in estimates on the test trials.

    Returns:
        (header, rows): what, what the claim allows, what a leak as large as the bound allows, what the attack did.
    """
    claim, counts = result.claims[0], result.evidence.counts
    alpha, beta = tradeoff(result.evidence.folds[0].test)
    found = next((b for b in result.bounds if b.notion == claim.notion), result.verdict.accusing)
    parameters = (claim.parameter, found.lower)
    delta = _delta(result)
    cap = [percent_of(_posterior(claim.notion, parameter, delta)) for parameter in parameters]
    guess = [percent_of(guess_rate(claim.notion, parameter)) for parameter in parameters]
    caught = [percent_of(float(power(claim.notion, parameter, 0.05))) for parameter in parameters]
    header = ("an attacker's", f"the claim, {claim}", f"the bound, {found.notion.label(found.lower)}", "this attack")
    rows = [
        (f"belief from even odds: its cap e^ε/(1 + e^ε) at δ = {delta:g}", *cap, "–"),
        ("best guess rate from even odds", *guess, percent_of(1 - (counts.fpr + counts.fnr) / 2)),
        ("power at a false positive rate of 5 %", *caught, percent_of(1 - float(np.min(beta[alpha <= 0.05])))),
    ]
    return header, rows


def percent_of(share: float | None) -> str:
    """A share in per cent with one decimal.

    >>> percent_of(0.58994), percent_of(None), percent_of(math.nan)
    ('59.0 %', '–', 'undefined')
    """
    if share is None:
        return "–"
    return "undefined" if math.isnan(share) else f"{100 * share:.1f} %"


def _delta(result: Result) -> float:
    """δ of the judged claim, else of another one, else 0.01, for what has to be said at some δ."""
    found = [0.0] if isinstance(result.claims[0].notion, PureDP) else []
    found += [claim.notion.delta for claim in result.claims if isinstance(claim.notion, ApproximateDP)]
    return found[0] if found else 0.01


def _posterior(notion: Notion, parameter: float, delta: float) -> float | None:
    """Cap on the belief from 1/2 at the ε that ``parameter`` buys at ``delta``; None where it buys none."""
    if isinstance(notion, ApproximateDP | PureDP):
        return posterior_cap(parameter)
    if parameter == 0 or delta == 0:
        return 0.5 if parameter == 0 else 1.0
    if math.isinf(parameter):
        return 1.0
    if isinstance(notion, GDP):
        return posterior_cap(gdp_epsilon(parameter, delta))
    return posterior_cap(eps_from_rho(parameter, delta)) if isinstance(notion, ZCDP) else None


def slack(result: Result) -> list[tuple[str, str]]:
    """How far below the implied μ the bound of a perfect attack is expected: what is lost to statistics alone."""
    if result.mu_implied is None or not math.isfinite(result.mu_implied):
        return []
    lost = number(result.mu_implied - result.power.expected)
    return [
        ("slack", f"{lost}  (statistical: what a perfect attack's bound loses of the implied mu with these trials)")
    ]


def measured_rows(result: Result) -> list[tuple[str, ...]]:
    """The bounds in words, with the share of audits in which bounds like them were measured to be too high."""
    told = [*result.bounds, result.verdict.accusing]
    return [(*row, _rate(bound)) for row, bound in zip(bound_rows(result), told, strict=True)]


def _rate(bound: Bound) -> str:
    found = re.search(r"([\d.]+ %) of audits", bound.measured)
    return found[1] if found else "–"


def measured_words(result: Result) -> list[str]:
    """What was measured of each bound, in whole sentences."""
    told = [*((b.estimator, b) for b in result.bounds), (f"accusing ({result.verdict.accusing.estimator})",
            result.verdict.accusing)]  # fmt: skip
    return list(dict.fromkeys(f"{name}, {b.notion.symbol}: {b.measured}" for name, b in told if b.measured))


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
    figure.suptitle("")  # the page has headings of its own
    drawn = svg(figure, name, alt)
    hover = _hover(figure, readings) if readings else ""
    return {"name": name, "svg": drawn, "alt": alt, "points": points, "hover": hover}


def _hover(figure: Figure, readings: Readings) -> str:
    """``readings`` and where they are in the drawn figure, as JSON that can stand in a page's script element."""
    ax = figure.axes[0]
    place = ax.get_position()  # after layout, in shares of the figure, from below
    told = {
        "frame": [place.x0, 1 - place.y1, place.x1, 1 - place.y0],
        "xlim": ax.get_xlim(),
        "ylim": ax.get_ylim(),
        "name": readings.name,
        "x": [float(f"{x:.5g}") for x in readings.x],
        "curves": [
            {"name": name, "role": role, "y": [round(float(y), 4) if math.isfinite(y) else None for y in values]}
            for name, role, values in readings.curves
        ],
    }
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c").replace("&", "\\u0026")


def _curve_readings(result: Result) -> Readings:
    """β of every curve in the tradeoff figure at α = 0, 0.005, … 1."""
    grid = np.arange(201) / 200
    alpha, beta = tradeoff(result.evidence.folds[0].test)
    # α ascends and β does not: the least FNR at an FPR of at most a is the last one there.
    curves = [("measured", "measured", beta[np.searchsorted(alpha, grid + 1e-12, side="right") - 1])]
    around = band(result)
    if around is not None:
        at = np.minimum(np.searchsorted(around[0], grid), len(around[0]) - 1)
        curves += [(f"band, {name}", "measured", around[side][at]) for name, side in (("low", 1), ("high", 2))]
    curves += [(f.label, f.role, np.asarray(f.notion.beta(grid, f.parameter), float)) for f in frontiers(result)]
    return Readings("α", grid, curves)


def _threshold_readings(result: Result) -> Readings:
    selection = result.evidence.folds[0].selection
    assert selection is not None
    thresholds, fpr, fnr = (values[::-1] for values in sweep(selection, 200))
    order = np.argsort(thresholds, kind="stable")
    order = order[np.isfinite(thresholds[order])]
    rates = (("fpr", "implied", fpr), ("fnr", "approximate", fnr), ("advantage", "measured", 1 - fpr - fnr))
    return Readings("threshold", thresholds[order], [(name, role, values[order]) for name, role, values in rates])


def _tradeoff_alt(result: Result) -> str:
    counts = result.evidence.counts
    told = "; ".join(frontier.label for frontier in frontiers(result))
    around = "" if band(result) is None else " in a band that holds the attack's true curve everywhere at once"
    return (
        f"The tradeoff between the two error rates, measured on the test trials{around}, over random guessing and the"
        f" curves below which no attack can come on a mechanism that is as private as they say ({told}). At the chosen"
        f" threshold fpr is {number(counts.fpr)} and fnr {number(counts.fnr)}; the box is where Clopper and Pearson"
        f" place the true rates, and their bound is read from its upper right corner."
    )


def _threshold_alt(result: Result) -> str:
    threshold = result.evidence.folds[0].threshold
    told = f"fpr, fnr and advantage of the selection trials against the threshold; {number(threshold)} was chosen."
    return told + (" Below, mu_hat on selection and on test trials." if _chooses_by_mu(result) else "")


def _curve_points(result: Result) -> Points:
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
    columns |= {frontier.label: list(frontier.notion.beta(grid, frontier.parameter)) for frontier in frontiers(result)}
    rows = [[f"{a:g}", *(number(float(column[i]), 3) for column in columns.values())] for i, a in enumerate(grid)]
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


def _render(kind: str, **values: Any) -> str:
    import jinja2

    template = Path(__file__).with_name("report.html").read_text("utf-8")
    world = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return world.from_string(template).render(kind=kind, palette=PALETTE, **values)


# --- accuracy first -----------------------------------------------------------------------------------------------------


def ladder_figure(run: LadderRun) -> Figure:
    """The path up the ladder: accuracy against the ε of training, what was asked for, and what was spent in the end."""
    figure = _figure(run.name, FRAME, 4.4)
    (ax,) = _axes(figure, 1)
    ax.axhline(run.threshold, color=INK["implied"], lw=1.5, ls=(0, (7, 2)))
    ax.annotate("asked for", (run.ladder[0], run.threshold), (2, 4), textcoords="offset points", color=INK["implied"])
    test = [(rung.eps, rung.test) for rung in run.rungs]
    ax.plot(*zip(*test, strict=True), "o-", color=INK["measured"], lw=2, label="test (for the reader)")
    shown = [(rung.eps, rung.noisy) for rung in run.rungs if rung.noisy is not None]
    if shown:
        ax.plot(*zip(*shown, strict=True), "s--", color=INK["direct"], lw=1, label="noisy validation (private)")
    ax.axvline(run.spent, color=INK["muted"], lw=1, label=f"spent, checks included: {run.spent:.3g}")
    ax.set(xscale="log", xlim=(0.8 * run.ladder[0], 1.25 * max(run.ladder[-1], run.spent)))
    ax.set(xlabel=f"training: Rényi ε of order {run.order:g}", ylabel="accuracy")
    ax.legend(frameon=False, labelcolor=INK["ink"], fontsize=10, loc="lower right")
    return figure


def ladder_facts(run: LadderRun) -> list[tuple[str, str]]:
    """What an accuracy-first run found, in words."""
    last, steps = run.rungs[-1], f"{len(run.rungs)} of {len(run.ladder)}"
    reached = f"yes, at step {steps}" if run.passed else f"no; all {len(run.ladder)} steps are charged all the same"
    return [
        ("task", run.task),
        ("accuracy", f"{run.threshold:g} was asked for; reached on private validation: {reached}"),
        ("test", f"{last.test:.4f} (for the reader; outside of the guarantee)"),
        ("spent", f"ε = {run.spent:.4g}, ex-post RDP of order {run.order:g}: the larger of training {last.eps:.4g}"
                  f" and checks {last.checked:.4g}"),
        ("as (ε, δ)", f"({run.approximate:.4g}, {run.delta:g}) approximate, ({run.probabilistic:.4g}, {run.delta:g})"
                      " probabilistic, ex post"),
        ("fixed ε", f"a run without looking pays for the ladder's top: RDP {run.fixed[0]:.4g},"
                    f" ({run.fixed[1]:.4g}, {run.delta:g})"),
        ("neighbours", "one record replaced; numbers of records, domain and marginals are public"),
    ]  # fmt: skip


def ladder_table(run: LadderRun) -> RenderableType:
    """An accuracy-first run for the terminal."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    facts = RichTable.grid(padding=(0, 2))
    for name, value in ladder_facts(run):
        facts.add_row(Text(name, style="dim"), value)
    steps = RichTable("step", "training ε", "checks ε", "spent ε", "noisy accuracy", "passed", "test")
    for place, rung in enumerate(run.rungs):
        figures = (f"{value:.4g}" for value in (rung.eps, rung.checked, rung.spent))
        steps.add_row(str(place + 1), *figures, number(rung.noisy), "yes" if rung.passed else "no", number(rung.test))
    return Group(Text(run.name, style="bold"), facts, steps)


LADDER_COLUMNS = ("run", "passed", "steps", "spent RDP ε", "approximate ε", "fixed RDP ε", "test")


def ladder_rows(runs: Sequence[LadderRun]) -> list[tuple[str, ...]]:
    """A row for each accuracy-first run of a sweep, and one for the mean of those that differ in their seed only."""
    rows: list[tuple[str, ...]] = []
    groups: dict[str, list[LadderRun]] = {}
    for run, name in zip(runs, distinct([run.name for run in runs]), strict=True):
        rows.append((name, "yes" if run.passed else "no", *_ladder_figures([run])))
        groups.setdefault(re.sub(r" ?seed=\d+", "", run.name), []).append(run)
    for members, name in zip(groups.values(), distinct(list(groups)), strict=True):
        if len(members) > 1:
            reached = sum(run.passed for run in members)
            rows.append((f"mean: {name}", f"{reached} of {len(members)}", *_ladder_figures(members)))
    return rows


def _ladder_figures(runs: Sequence[LadderRun]) -> list[str]:
    figures = np.array([
        (len(run.rungs), run.spent, run.approximate, run.fixed[0], run.rungs[-1].test) for run in runs
    ])  # fmt: skip
    return [f"{value:.4g}" for value in figures.mean(axis=0)]


def ladder_sweep_table(runs: Sequence[LadderRun]) -> RenderableType:
    """A sweep of accuracy-first runs for the terminal: which spends less; means only, where there are seeds."""
    from rich.table import Table as RichTable

    table, rows = RichTable(*LADDER_COLUMNS), ladder_rows(runs)
    table.columns[0].min_width = 26
    for row in [row for row in rows if row[0].startswith("mean: ")] or rows:
        table.add_row(*row)
    return table


def save_ladder(run: LadderRun, folder: Path) -> Path:
    """Write an accuracy-first run's figure and steps into ``folder``; return the figure's path."""
    folder.mkdir(parents=True, exist_ok=True)
    _png(ladder_figure(run), folder / "ladder.png")
    names = ("eps", "checked", "spent", "noisy", "passed", "test")
    _csv(folder / "steps.csv", names, [[getattr(rung, name) for name in names] for rung in run.rungs])
    return folder / "ladder.png"


def save_ladder_sweep(runs: Sequence[LadderRun], folder: Path) -> Path:
    """Write a sweep's table into ``folder``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    _csv(folder / "sweep.csv", LADDER_COLUMNS, ladder_rows(runs))
    return folder / "sweep.csv"


# --- files ------------------------------------------------------------------------------------------------------------


def save(result: Result, folder: Path) -> Path:
    """Write all that tells of one audit into ``folder``: page, figures, curve, scores, configuration.

    Returns:
        The page's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tradeoff(result, folder / "tradeoff.csv")
    write_scores(result, folder / "scores.parquet")
    (folder / "config.yaml").write_text(config_yaml(result), "utf-8")
    _png(tradeoff_figure(result), folder / "tradeoff.png")
    _png(threshold_figure(result), folder / "threshold.png")
    (folder / "report.html").write_text(page(result), "utf-8")
    return folder / "report.html"


def save_sweep(
    results: Sequence[Result], folder: Path, name: str = "sweep", command: str = "", together: str = ""
) -> Path:
    """Write a sweep's page, table and figures into ``folder``; ``together`` is said of all its audits.

    Returns:
        The page's path.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header, rows = sweep_rows(results)
    _csv(folder / "sweep.csv", header, rows)
    _png(eps_figure(results), folder / "mu_emp_against_eps.png")
    _png(bar_figure(results), folder / "mu_emp.png")
    (folder / "report.html").write_text(sweep_page(results, name, command, together), "utf-8")
    return folder / "report.html"


def write_tradeoff(result: Result, path: Path) -> None:
    """The empirical curve, one row a threshold: fold, alpha, beta."""
    rows = [
        (place, float(a), float(b))
        for place, fold in enumerate(result.evidence.folds)
        for a, b in zip(*tradeoff(fold.test), strict=True)
    ]
    _csv(path, ("fold", "alpha", "beta"), rows)


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
        pyarrow.table({
            "fold": np.full(len(scores), place, np.int32),
            "part": pyarrow.array([part] * len(scores)).dictionary_encode(),
            "index": scores.index,
            "run": scores.run,
            "present": scores.bits,
            "score": np.asarray(scores.values, np.float64),
        })
        for place, part, scores in parts
    ]  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.concat_tables(tables).unify_dictionaries(), path)


def _csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _png(figure: Figure | None, path: Path) -> None:
    if figure is not None:
        figure.savefig(path, dpi=160)


# --- audit reconstruct ------------------------------------------------------------------------------------------------


def reconstruction_figure(
    title: str, points: Sequence[tuple[float, float, float]], curve: Callable[[Array], Array]
) -> Figure:
    """Share of bits recovered against the noise, with two standard errors, over the predicted share.

    Args:
        title: what was attacked.
        points: (sd, share, standard error), one a strength of the noise.
        curve: sd → predicted share.
    """
    sd, share, error = np.array(sorted(points)).T
    grid = np.geomspace(sd[0] / 2, sd[-1] * 2, 200)
    figure = _figure(title, FRAME, 4.4)
    (ax,) = _axes(figure, 1)
    ax.plot(grid, curve(grid), color=INK["implied"], lw=1.5, label="predicted: Φ(√(m − n)/(4·sd))")
    ax.errorbar(sd, share, yerr=2 * error, fmt="o", color=INK["measured"], capsize=3, label="recovered, ± 2 s.e.")
    ax.axhline(0.5, color=INK["muted"], lw=1, ls=(0, (4, 3)), label="a coin")
    ax.set(xscale="log", xlabel="standard deviation of the noise", ylabel="share of bits recovered", ylim=(0.45, 1.02))
    ax.set_xticks(sd, [f"{value:.3g}" for value in sd])
    ax.minorticks_off()
    ax.legend(frameon=False, labelcolor=INK["ink"])
    return figure


def save_reconstruction(
    title: str, points: Sequence[tuple[float, float, float]], curve: Callable[[Array], Array], path: Path
) -> None:
    """Write that figure; an .svg holds its letters as outlines, so that either file needs nothing beside it."""
    undated = {"Date": None} if path.suffix == ".svg" else None
    reconstruction_figure(title, points, curve).savefig(path, dpi=160, metadata=undated)
