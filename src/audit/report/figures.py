"""What an audit and a sweep draw."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import Array, Fold, Result
from audit.criteria import sweep, upper_rate
from audit.privacy import ApproximateDP, max_accuracy, mu_hat
from audit.report.curves import BAND, Frontier, band, frontiers, tradeoff
from audit.report.sentences import distinct, number, percent
from audit.report.style import FRAME, INK, label_box, new_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def audit_figures(result: Result) -> dict[str, Figure]:
    """An audit's figures by their names, those that there are."""
    found = {"tradeoff": tradeoff_figure(result), "threshold": threshold_figure(result)}
    return {name: figure for name, figure in found.items() if figure is not None}


def sweep_figures(results: Sequence[Result]) -> dict[str, Figure]:
    """A sweep's figures by their names, those that there are."""
    found = {"mu_emp": bar_figure(results), "mu_emp_against_eps": eps_figure(results)}
    return {name: figure for name, figure in found.items() if figure is not None}


def tradeoff_figure(result: Result) -> Figure:
    """What was measured over what is claimed: FNR against FPR, and the region that the judged claim
    forbids."""
    figure = new_figure(result.name, FRAME, 6.4)
    (ax,) = new_axes(figure, 1)
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
        ax.plot(
            alpha,
            beta,
            color=INK[frontier.role],
            lw=1.5,
            ls=(0, frontier.dash) if frontier.dash else "-",
        )
        told.append((frontier.label, frontier.role, alpha, beta))
    if result.exact is not None:
        ax.plot(*result.exact, color=INK["ink"], lw=1.5, ls=(0, (1.0, 1.5)))
        told.append(("exact curve of this pair", "ink", *result.exact))
    for fold in result.evidence.folds:
        alpha, beta = tradeoff(fold.test)
        ax.plot(alpha, beta, color=INK["measured"], lw=2)
    sure = f", in a {percent(1 - result.bounds[0].significance)} band" if around is not None else ""
    told.append((f"{measured_on(result)}{sure}", "measured", alpha, beta))
    _fan_of_labels(ax, told)
    _operating_point(ax, result, 0.96 - 0.06 * len(told))
    return figure


def measured_on(result: Result) -> str:
    """What the measured curve was measured on."""
    return (
        "measured on the canaries of one run"
        if result.evidence.one_run
        else "measured on test trials"
    )


def threshold_words(result: Result) -> str:
    """How the marked threshold came about."""
    return "middle of the scores" if result.evidence.one_run else "chosen threshold"


def _forbidden(ax: Axes, result: Result) -> None:
    claim = result.claims[0]
    alpha, beta = Frontier("", "", claim.notion, claim.parameter).curve()
    ax.fill_between(alpha, 0, beta, color=INK["implied"], alpha=0.09, lw=0)
    if 1 - max_accuracy(claim.notion, claim.parameter) > 0.1:
        ax.text(0.03, 0.03, "the claim forbids\nwhat is down here", color=INK["muted"], va="bottom")


def _fan_of_labels(ax: Axes, told: Sequence[tuple[str, str, Array, Array]]) -> None:
    """Labels in the empty half above random guessing, each with a leader to its curve."""
    for place, (label, role, alpha, beta) in enumerate(told):
        y = 0.93 - 0.06 * place
        x = float(np.interp(-y, -beta, alpha))
        ax.plot([x, 0.985], [y, y], color=INK[role], lw=0.5, alpha=0.55)
        ax.plot(x, y, "o", ms=4, color=INK[role])
        ax.text(0.985, y, label, color=INK[role], ha="right", va="center", bbox=label_box())


def _operating_point(ax: Axes, result: Result, y: float) -> None:
    """The chosen threshold on the test trials, in the rectangle that Clopper and Pearson allow
    it."""
    from matplotlib.patches import Rectangle

    counts, significance = result.evidence.counts, result.bounds[0].significance
    if math.isnan(counts.fpr) or math.isnan(counts.fnr):
        return
    label = threshold_words(result)
    if result.evidence.independent:
        left, right = _interval(counts.fp, counts.tn, significance)
        low, high = _interval(counts.fn, counts.tp, significance)
        ax.add_patch(
            Rectangle(
                (left, low), right - left, high - low, fill=False, ec=INK["ink"], lw=1.2, zorder=4
            )
        )
        label += f"\nin its {percent(significance)} Clopper–Pearson box"
    ax.plot(counts.fpr, counts.fnr, "o", ms=6, mfc=INK["measured"], mec=INK["ink"], zorder=5)
    arrow = {"arrowstyle": "-", "color": INK["ink"], "lw": 0.7, "shrinkB": 4}
    at = (counts.fpr, counts.fnr)
    ax.annotate(
        label,
        at,
        (0.985, y),
        ha="right",
        va="top",
        color=INK["ink"],
        arrowprops=arrow,
        bbox=label_box(),
    )


def _interval(errors: int, others: int, significance: float) -> tuple[float, float]:
    """Both one-sided limits of a rate, each at half the significance."""
    low, high = (
        upper_rate(others, errors, significance / 2),
        upper_rate(errors, others, significance / 2),
    )
    return 1 - float(low), float(high)


def threshold_figure(result: Result) -> Figure | None:
    """fpr, fnr and advantage on the selection trials against the threshold; None where nothing was
    chosen on data.

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
    with_mu = chooses_by_mu(result)
    more = f", fold 1 of {len(result.evidence.folds)}" if len(result.evidence.folds) > 1 else ""
    figure = new_figure(result.name + more, FRAME, 6.4 if with_mu else 4.4)
    axes = new_axes(figure, 2 if with_mu else 1)
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


def chooses_by_mu(result: Result) -> bool:
    """Whether the threshold was chosen by what it says of μ."""
    told = re.sub("[^a-z]", "", str(result.config.get("criterion", "")).lower())
    return "muhat" in told or "mulower" in told


def _rates(ax: Axes, thresholds: Array, fpr: Array, fnr: Array) -> None:
    advantage = 1 - fpr - fnr
    for values, role, dash in (
        (fpr, "implied", (7, 2)),
        (fnr, "approximate", (2, 2)),
        (advantage, "measured", ()),
    ):
        ax.plot(thresholds, values, color=INK[role], lw=2, ls=(0, dash) if dash else "-")
    ax.set(
        ylim=(min(-0.02, float(advantage.min()) - 0.02), 1.04), ylabel="share of selection trials"
    )

    def label(name: str, role: str, place: int, y: float, dx: int, ha: str) -> None:
        where = (thresholds[place], y)
        ax.annotate(
            name, where, (dx, 0), textcoords="offset points", color=INK[role], ha=ha, va="center"
        )

    label("fpr", "implied", int(np.argmin(np.abs(fpr - 0.75))), 0.75, 9, "left")
    label("fnr", "approximate", int(np.argmin(np.abs(fnr - 0.88))), 0.88, -9, "right")
    top = int(np.argmax(advantage))
    room = 11 if advantage[top] < 0.9 else -14
    ax.annotate(
        "advantage",
        (thresholds[top], advantage[top]),
        (0, room),
        textcoords="offset points",
        color=INK["measured"],
        ha="center",
        va="center",
        bbox=label_box(),
    )


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
        ax.annotate(
            "implied μ",
            (1, result.mu_implied),
            (5, 0),
            xycoords=ax.get_yaxis_transform(),
            va="center",
            textcoords="offset points",
            color=INK["implied"],
        )
    pad = 0.14 * (high - low or 1)
    ax.set(ylim=(low - pad, high + 2 * pad), ylabel="mu_hat")
    endless = thresholds[np.isposinf(selected)]
    if len(endless):
        ax.plot(endless, np.full(len(endless), high + 0.8 * pad), "^", ms=6, color=INK["measured"])
        ax.annotate(
            "∞",
            (endless[0], high + 0.8 * pad),
            (0, -13),
            textcoords="offset points",
            color=INK["measured"],
            ha="center",
        )
    ax.plot(thresholds, _finite(selected), color=INK["measured"], lw=2)
    ax.plot(thresholds, _finite(tested), color=INK["muted"], lw=1.4, ls=(0, (4, 2)))
    told = (("on selection trials", "measured", 0.02), ("on test trials (dashed)", "muted", 0.98))
    for text, role, x in told:
        ha = "left" if x < 0.5 else "right"
        ax.text(
            x,
            0.97,
            text,
            color=INK[role],
            transform=ax.transAxes,
            va="top",
            ha=ha,
            bbox=label_box(),
        )


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.nan)


def _mark_choice(axes: Sequence[Axes], fold: Fold) -> None:
    if not math.isfinite(fold.threshold):
        told = f"threshold {number(fold.threshold)}: outside the scores"
        axes[0].text(
            0.5,
            0.5,
            told,
            transform=axes[0].transAxes,
            ha="center",
            color=INK["ink"],
            bbox=label_box(),
        )
        return
    for ax in axes:
        ax.axvline(fold.threshold, color=INK["ink"], lw=1.2)
    left, right = axes[0].get_xlim()
    near = (fold.threshold - left) / (right - left)
    ha = "left" if near < 0.25 else "right" if near > 0.75 else "center"
    told, top = f"chosen: {fold.threshold:.4g}", axes[0].get_xaxis_transform()
    axes[0].annotate(
        told,
        (fold.threshold, 1),
        (0, 4),
        xycoords=top,
        textcoords="offset points",
        ha=ha,
        va="bottom",
        color=INK["ink"],
    )


def eps_figure(results: Sequence[Result]) -> Figure | None:
    """mu_emp against ε, a line per kind of audit, with the implied and the direct μ; None for fewer
    than two ε."""
    placed = [(claimed_eps(result), result) for result in results]
    finite = ((eps, result) for eps, result in placed if eps is not None and math.isfinite(eps))
    known = sorted(finite, key=lambda pair: pair[0])
    if len({eps for eps, _ in known}) < 2:
        return None
    figure = new_figure("mu_emp against eps", FRAME, 5.0)
    (ax,) = new_axes(figure, 1)
    ax.set_xlabel("eps (claimed)")
    if len({eps for eps, _ in known}) <= 8:
        ax.set_xticks(
            sorted({eps for eps, _ in known}),
            [f"{eps:g}" for eps in sorted({eps for eps, _ in known})],
        )
    ax.set_ylabel("μ")
    ends = _reference_lines(ax, known)
    names = [re.sub(r"\beps=\S+\s*", "", result.name).strip() for _, result in known]
    short = dict(zip(names, distinct(names), strict=True))
    roles, marks = ("measured", "approximate", "zcdp", "numerical", "ink", "muted"), "osD^vPX"
    for place, name in enumerate(dict.fromkeys(names)):
        points = [
            (eps, result.bounds[0].lower)
            for (eps, result), n in zip(known, names, strict=True)
            if n == name
        ]
        eps, lower = zip(*points, strict=True)
        color = INK[roles[place % len(roles)]]
        ax.plot(eps, lower, marker=marks[place % len(marks)], color=color, lw=1.8, ms=6)
        ends.append((lower[-1], f"mu_emp {short[name]}", color))
    ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    _end_labels(ax, known[-1][0], ends)
    return figure


def claimed_eps(result: Result) -> float | None:
    """ε of the (ε, δ) claim; None where there is none."""
    found = (
        c.parameter
        for c in result.claims
        if isinstance(c.notion, ApproximateDP) and not c.numerical
    )
    return next(found, None)


def _reference_lines(
    ax: Axes, known: Sequence[tuple[float, Result]]
) -> list[tuple[float, str, str]]:
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
        ax.annotate(
            text,
            (x, value),
            (12, rise),
            textcoords="offset points",
            color=color,
            va="center",
            arrowprops=arrow,
            annotation_clip=False,
        )


def _height(ax: Axes) -> float:
    figure = ax.figure
    return float(ax.get_position().height * figure.get_figheight() * 72)  # type: ignore[union-attr]


def bar_figure(results: Sequence[Result]) -> Figure | None:
    """A bar a result, as long as mu_emp, with mu_hat, the implied μ and what a perfect attack is
    expected to get."""
    if len(results) < 2:
        return None
    figure = new_figure("mu_emp of each audit", FRAME, 1.5 + 0.36 * len(results))
    (ax,) = new_axes(figure, 1)
    rows = np.arange(len(results))[::-1]
    lower = [result.bounds[0].lower for result in results]
    bars = ax.barh(rows, lower, height=0.62, color=INK["measured"], label="mu_emp")
    hats = [result.mu_hat if math.isfinite(result.mu_hat) else math.nan for result in results]
    ax.plot(hats, rows, "o", ms=6, mfc=INK["paper"], mec=INK["ink"], label="mu_hat", zorder=4)
    implied, expected = (
        [result.mu_implied for result in results],
        [result.power.expected for result in results],
    )
    ticks = (("implied μ", "implied", implied), ("perfect attack, expected", "direct", expected))
    for label, role, values in ticks:
        shown = [math.nan if v is None or math.isinf(v) else v for v in values]
        ax.plot(shown, rows, "|", ms=17, mew=2.2, color=INK[role], label=label, zorder=3)
    ax.set_yticks(
        rows, [textwrap.fill(name, 30) for name in distinct([result.name for result in results])]
    )
    ax.set(xlabel="μ", xlim=(min(0, *lower), None))
    ax.grid(axis="y", visible=False)
    for row, value in zip(rows, lower, strict=True):
        ax.text(
            1.01,
            row,
            f"{value:.3f}",
            va="center",
            color=INK["measured"],
            transform=ax.get_yaxis_transform(),
        )
    handles: list[Any] = [bars, *ax.lines]
    labels = [str(handle.get_label()) for handle in handles]
    figure.legend(
        handles, labels, loc="outside lower center", ncols=4, frameon=False, labelcolor=INK["ink"]
    )
    return figure
