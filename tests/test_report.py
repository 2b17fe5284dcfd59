from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from rich.console import Console

from audit import privacy
from audit.core import (
    Bound,
    Claim,
    Efficiency,
    Evidence,
    Fold,
    MeasuredCoverage,
    Power,
    Result,
    Scores,
    Stage,
    Verdict,
)
from audit.criteria import Advantage, MuHat
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.joint_bayes import JointBayes
from audit.privacy import GDP, ZCDP, ApproximateDP
from audit.report import (
    curves,
    facts,
    figures,
    files,
    page,
    reconstruction,
    sentences,
    style,
    tables,
)

# independently checked, eps 1, delta 0.01
RHO, IMPLIED, DIRECT = 0.10341283143, 0.45478089545, 0.53251664850


def page_of(result: Result) -> str:
    return page.page(result, figures.audit_figures(result))


def sweep_page_of(results: list[Result], *words: str) -> str:
    return page.sweep_page(results, figures.sweep_figures(results), *words)


def gaussian(mu: float, per_side: int, first: int, seed: int) -> Scores:
    bits = np.tile([False, True], per_side)
    index = np.arange(first, first + 2 * per_side)
    return Scores(
        np.random.default_rng(seed).normal(size=2 * per_side) + mu * bits, bits, index, index
    )


def fake(
    criterion: str = "advantage",
    eps: float = 1.0,
    mu: float = IMPLIED,
    seed: int = 7,
    name: str = "",
) -> Result:
    selection = gaussian(mu, 1000, 0, seed)
    threshold = (MuHat() if criterion == "mu_hat" else Advantage())(selection)
    evidence = Evidence(
        (Fold(np.array([], int), selection, threshold, gaussian(mu, 2000, 10_000, seed + 100)),)
    )
    rho = privacy.rho_from_eps_delta(eps, 0.01)
    claims = (
        Claim(GDP(), privacy.implied_mu(rho)),
        Claim(ApproximateDP(0.01), eps),
        Claim(ZCDP(), rho),
        Claim(GDP(), 1.01 * privacy.implied_mu(rho), numerical=True),
    )
    estimators = (JointBayes(), ClopperPearson())
    bounds = tuple(
        estimate(evidence, notion)
        for estimate in estimators
        for notion in (GDP(), ApproximateDP(0.01))
    )
    return Result(
        name=name or f"mst_fixed eps={eps:g} xgboost {criterion}",
        config={
            "eps": eps,
            "criterion": {"_target_": f"audit.criteria.{criterion}"},
            "choices": {"criterion": criterion},
        },
        challenge="10 rows of [0, 0, 0], with or without [1, 1, 1] (add/remove neighbours)",
        claims=claims,
        evidence=evidence,
        mu_hat=float(privacy.mu_hat(evidence.counts.fpr, evidence.counts.fnr)),
        bounds=bounds,
        refused={"curve (zcdp)": "it knows GDP only"},
        mu_implied=privacy.implied_mu(rho),
        mu_direct=privacy.direct_mu(eps, 0.01),
        power=Power(GDP(), 0.4035, 0.62, 2480),
        efficiency=Efficiency(0.95, 0.9, 0.85, 0.8, 0.45, 0.03),
        errors=(0.04, 0.035),
        verdict=Verdict(
            "tight",
            "Little room below the claim.",
            ClopperPearson(significance=0.01)(evidence, GDP()),
        ),
        stages=(Stage("trials", 3.0), Stage("attack", 1.25)),
        provenance={
            "git_commit": "abc",
            "trials": "6000",
            "command": "python -m audit mechanism=mst_fixed eps=1",
        },
        notes=("a note",),
    )


@pytest.fixture(scope="module")
def result() -> Result:
    return fake()


# --- the empirical curve --------------------------------------------------------------------------


def slow_tradeoff(scores: Scores) -> list[tuple[float, float]]:
    """Every threshold one by one, from "never" on."""
    counts = [scores.count(t) for t in sorted(set(scores.values.tolist()), reverse=True)]
    return [(0.0, 1.0)] + [(c.fpr, c.fnr) for c in counts]


pairs = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, math.inf]), st.booleans()),
    min_size=2,
    max_size=30,
)


@given(pairs)
@settings(deadline=None)
def test_tradeoff_is_that_of_every_threshold(drawn: list[tuple[float, bool]]) -> None:
    values, bits = (
        np.array(column) for column in zip(*[*drawn, (0.0, False), (0.0, True)], strict=True)
    )
    scores = Scores(values, bits, np.arange(len(bits)), np.arange(len(bits)))
    alpha, beta = curves.tradeoff(scores)
    np.testing.assert_allclose(np.column_stack([alpha, beta]), slow_tradeoff(scores))
    assert np.all(np.diff(alpha) >= 0) and np.all(np.diff(beta) <= 0)
    assert (alpha[-1], beta[-1]) == (1, 0)


def test_tradeoff_tells_ties_apart_from_a_strict_threshold() -> None:
    bits = np.array([False, True])
    scores = Scores(np.array([1.0, 1.0]), bits, np.arange(2), np.arange(2))
    alpha, beta = curves.tradeoff(scores)
    assert alpha.tolist() == [0, 1] and beta.tolist() == [1, 0]  # a strict one would stop at (0, 1)


def test_chosen_point_is_on_the_curve(result: Result) -> None:
    alpha, beta = curves.tradeoff(result.evidence.folds[0].test)
    counts = result.evidence.counts
    # The threshold is a selection score: between two test scores it does what the next one does.
    assert np.min(np.abs(alpha - counts.fpr) + np.abs(beta - counts.fnr)) == 0


# --- frontiers and figures ------------------------------------------------------------------------


def test_frontiers_are_references_and_claims_each_once(result: Result) -> None:
    found = {(type(f.notion).__name__, round(f.parameter, 6)): f for f in curves.frontiers(result)}
    assert len(found) == len(curves.frontiers(result)) == 5
    assert found["GDP", round(IMPLIED, 6)].label == "implied μ, the claim: 0.4548-GDP"
    assert found["GDP", round(DIRECT, 6)].label == "direct μ: 0.5325-GDP"
    assert "claim" not in found["ApproximateDP", 1.0].label
    numerical = found["GDP", round(1.01 * privacy.implied_mu(RHO), 6)]
    assert "numerical" in numerical.label and numerical.dash
    swapped = dataclasses.replace(result, claims=result.claims[1:])
    assert [f.label for f in curves.frontiers(swapped) if "claim" in f.label] == [
        "claim: (1, 0.01)-DP"
    ]


def test_a_frontier_is_its_notions_curve_kinks_included(result: Result) -> None:
    for frontier in curves.frontiers(result):
        alpha, beta = frontier.curve()
        assert np.all(np.diff(alpha) > 0) and np.all(beta <= 1 - alpha + 1e-12)
        assert set(frontier.notion.kinks(frontier.parameter)) <= set(alpha)


def test_tradeoff_figure_shows_the_curve_the_point_and_the_box_that_the_bound_is_read_from(
    result: Result,
) -> None:
    (ax,) = figures.tradeoff_figure(result).axes
    lines = [np.column_stack(line.get_data()) for line in ax.lines]
    measured = np.column_stack(curves.tradeoff(result.evidence.folds[0].test))
    assert any(line.shape == measured.shape and np.allclose(line, measured) for line in lines)
    counts = result.evidence.counts
    assert any(
        line.shape == (1, 2) and np.allclose(line[0], (counts.fpr, counts.fnr)) for line in lines
    )
    (box,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    corner = (box.get_x() + box.get_width(), box.get_y() + box.get_height())
    assert GDP().parameter(*corner) == pytest.approx(
        ClopperPearson(significance=0.1).lower(counts, GDP())
    )
    assert GDP().parameter(box.get_x(), box.get_y()) > result.mu_hat > GDP().parameter(*corner)
    told = " ".join(text.get_text() for text in ax.texts)
    for words in (
        "random guessing",
        "implied μ",
        "direct μ",
        "(1, 0.01)-DP",
        "0.1034-zCDP",
        "numerical",
        "chosen",
    ):
        assert words in told


def test_a_simultaneous_band_lies_around_the_measured_curve(result: Result) -> None:
    alpha, low, high = curves.band(result)
    assert np.all(low <= high) and np.mean(high - low) < 0.2
    curve = [
        float(np.min(beta[measured <= a]))
        for measured, beta in [curves.tradeoff(result.evidence.folds[0].test)]
        for a in alpha
    ]
    assert np.all(low <= curve) and np.all(curve <= high)
    (drawn,) = [
        c
        for c in figures.tradeoff_figure(result).axes[0].collections
        if c.get_alpha() == curves.BAND
    ]
    reach = drawn.get_paths()[0].get_extents()
    assert reach.x0 == 0 and reach.x1 == 1
    header, rows = page.curve_points(result)
    assert header[2:4] == ["β band, low", "β band, high"] and all(
        float(r[2]) <= float(r[1]) <= float(r[3]) for r in rows
    )


def test_the_exact_curve_is_drawn_and_said_where_it_is_known(result: Result) -> None:
    alpha = np.linspace(0, 1, 101)
    known = dataclasses.replace(result, exact=(alpha, np.asarray(GDP().beta(alpha, 0.4))))
    told = " ".join(text.get_text() for text in figures.tradeoff_figure(known).axes[0].texts)
    assert "exact curve of this pair" in told and not touching(figures.tradeoff_figure(known))
    assert dict(facts.facts(known))["exact"].startswith("0.4-GDP  (true of this pair")
    assert "exact" not in dict(facts.facts(result)) and "β exact" in page.curve_points(known)[0]


def test_no_box_where_counts_are_not_binomial(result: Result) -> None:
    fold = result.evidence.folds[0]
    repeated = dataclasses.replace(fold.test, run=np.zeros(len(fold.test), int))
    together = dataclasses.replace(
        result, evidence=Evidence((dataclasses.replace(fold, test=repeated),))
    )
    assert not [
        p for p in figures.tradeoff_figure(together).axes[0].patches if isinstance(p, Rectangle)
    ]
    assert curves.band(together) is None and "band" not in "".join(page.curve_points(together)[0])


def test_no_two_labels_of_the_tradeoff_figure_touch(result: Result) -> None:
    for drawn in (result, fake(eps=4.0, mu=1.3)):
        figure = figures.tradeoff_figure(drawn)
        assert not touching(figure), touching(figure)


def touching(figure: Figure) -> list[tuple[str, str]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure).draw()
    # without leaders
    boxes = [(t.get_text(), Text.get_window_extent(t)) for ax in figure.axes for t in ax.texts]
    return [
        (a, b) for i, (a, one) in enumerate(boxes) for b, other in boxes[:i] if one.overlaps(other)
    ]


def test_touching_notices() -> None:
    figure = Figure()
    for text in ("one", "two"):
        figure.subplots() if not figure.axes else None
        figure.axes[0].text(0.5, 0.5, text)
    assert touching(figure) == [("two", "one")]


def test_threshold_figure_marks_the_choice(result: Result) -> None:
    figure = figures.threshold_figure(result)
    assert figure is not None
    (ax,) = figure.axes
    threshold = result.evidence.folds[0].threshold
    assert any(list(line.get_xdata()) == [threshold, threshold] for line in ax.lines)
    advantage = next(line for line in ax.lines if to_hex(line.get_color()) == style.INK["measured"])
    x, y = (np.asarray(values) for values in advantage.get_data())
    # two grids of quantiles
    assert y[np.argmin(np.abs(x - threshold))] == pytest.approx(y.max(), abs=0.005)
    assert "chosen" in " ".join(text.get_text() for text in ax.texts)


def test_threshold_figure_shows_mu_where_it_was_chosen_by_mu() -> None:
    figure = figures.threshold_figure(fake("mu_hat"))
    assert figure is not None
    assert [ax.get_ylabel() for ax in figure.axes] == ["share of selection trials", "mu_hat"]


def test_no_threshold_figure_where_nothing_was_chosen_on_data(result: Result) -> None:
    fold = dataclasses.replace(result.evidence.folds[0], selection=None)
    unchosen = dataclasses.replace(result, evidence=Evidence((fold,)))
    assert figures.threshold_figure(unchosen) is None
    assert "figure-threshold" not in page_of(unchosen)


@pytest.mark.parametrize("threshold", [math.inf, -math.inf])
def test_a_threshold_outside_the_scores_is_said(result: Result, threshold: float) -> None:
    fold = dataclasses.replace(result.evidence.folds[0], threshold=threshold)
    odd = dataclasses.replace(result, evidence=Evidence((fold,)))
    figure = figures.threshold_figure(odd)
    assert figure is not None
    assert "outside the scores" in " ".join(text.get_text() for text in figure.axes[0].texts)
    page_of(odd)


def test_scores_of_two_values_and_of_infinity_are_drawn(result: Result) -> None:
    for values in ((0.0, 1.0), (-math.inf, math.inf), (math.inf, math.inf)):
        bits = np.tile([False, True], 50)
        drawn = [
            Scores(
                np.where(bits, values[1], values[0]),
                bits,
                np.arange(first, first + 100),
                np.arange(100),
            )
            for first in (0, 100)
        ]
        fold = Fold(np.array([], int), drawn[0], values[1], drawn[1])
        page_of(dataclasses.replace(result, evidence=Evidence((fold,)), mu_hat=math.inf))


# --- why the published criterion collapses --------------------------------------------------------


def test_a_collapsed_threshold_is_explained_and_a_good_one_is_not(result: Result) -> None:
    fold = result.evidence.folds[0]
    assert fold.selection is not None
    # One lucky selection trial: the largest present score above every absent one.
    threshold = float(np.sort(fold.selection.absent)[-1]) + 1e-9
    lucky = dataclasses.replace(fold.selection, values=np.append(fold.selection.values[:-1], 9.0))
    at_corner = Evidence((dataclasses.replace(fold, selection=lucky, threshold=threshold),))
    nothing = (Bound("joint_bayes", GDP(), 0.0, 0.1, "Bayesian"),)
    told = sentences.why_collapsed(dataclasses.replace(result, evidence=at_corner, bounds=nothing))
    assert told is not None
    assert (
        "0 of 1000 absent" in told
        and "∞ on the selection trials" in told
        and "a bound of 0.000" in told
    )
    assert sentences.why_collapsed(result) is None
    kept = dataclasses.replace(
        result, evidence=at_corner, bounds=(Bound("b", GDP(), 0.4, 0.1, "Bayesian"),)
    )
    # a corner that the test confirms is a find, not a collapse
    assert sentences.why_collapsed(kept) is None
    apart = fake("mu_hat", mu=30.0)  # mu_hat is ∞ there too, and rightly so
    assert apart.mu_hat == math.inf and sentences.why_collapsed(apart) is None


# --- tables ---------------------------------------------------------------------------------------


def printed(what: object, width: int = 100) -> str:
    out = StringIO()
    Console(file=out, width=width).print(what)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_table_says_all(result: Result, width: int) -> None:
    lines = printed(tables.table(result), width).splitlines()
    assert any(
        re.search(r"clopper_pearson +\(0\.\d+, 0\.01\)-DP +10 % +finite-sample", line)
        for line in lines
    )
    told = " ".join(" ".join(lines).split())
    counts = result.evidence.counts
    for words in (
        result.name,
        # no markup: brackets stay
        "10 rows of [0, 0, 0], with or without [1, 1, 1] (add/remove neighbours)",
        "0.4548-GDP (judged, add/remove)",
        "numerical, not certified",
        f"{counts.fpr:.4f}",
        f"{counts.fnr:.4f}",
        f"mu_hat {result.mu_hat:.4f}",
        "mu_emp (joint_bayes)",
        f"{result.bounds[0].lower:.4g}-GDP",
        "clopper_pearson",
        "accusing (clopper_pearson)",
        "finite-sample",
        "Bayesian",
        "10 %",
        "1 %",
        "implied mu 0.4548",
        "direct mu 0.5325",
        "perfect attack 0.4035",
        "tight Little room below the claim.",
        "note a note",
        "Left out: curve (zcdp): it knows GDP only",
        "4.2 s: trials 3.0 s · attack 1.2 s",
    ):
        assert words in told, words
    assert "\x1b" not in told  # no colours where it is piped


def test_sweep_table_has_what_was_published_beside_ours(result: Result) -> None:
    paper = [
        dataclasses.replace(
            result, name="default", config={"published": {"mu_emp": 0.43, "corrected": 0.3405}}
        ),
        dataclasses.replace(result, name="black_box", config={"published": {"mu_emp": 0.2}}),
    ]
    header, rows = tables.sweep_rows(paper)
    assert header[:3] == ("audit", "published", "corrected")
    assert rows[0][:3] == ("default", "0.43", "0.3405") and rows[1][:3] == ("black_box", "0.2", "–")
    assert rows[0][header.index("mu_emp")] == f"{result.bounds[0].lower:.3f}"
    assert rows[0][header.index("tightness")] == f"{result.bounds[0].lower / IMPLIED:.2f}"
    assert tables.sweep_rows([result])[0] == tables.SWEEP
    told = printed(tables.sweep_table(paper), 80)
    assert "black_box" in told and "corrected" in told and "tight" in told and "…" not in told


# --- sweeps ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grid() -> list[Result]:
    mus = {0.5: 0.265437, 1.0: 0.454781, 2.0: 0.781125}  # independently checked
    return [
        fake(eps=eps, mu=mu, name=f"{m} eps={eps:g} xgboost")
        for m in ("mst", "aim")
        for eps, mu in mus.items()
    ]


def test_eps_figure_has_a_line_a_mechanism_and_the_references(grid: list[Result]) -> None:
    figure = figures.eps_figure(grid[::-1])
    assert figure is not None
    (ax,) = figure.axes
    lines = {to_hex(line.get_color()): np.asarray(line.get_ydata(), float) for line in ax.lines}
    np.testing.assert_allclose(
        lines[style.INK["implied"]], [0.265437, 0.454781, 0.781125], atol=1e-6
    )
    np.testing.assert_allclose(
        lines[style.INK["direct"]], [0.317772, 0.532517, 0.895853], atol=1e-6
    )
    assert len(ax.lines) == 4
    aim = [r.bounds[0].lower for r in grid[3:]]
    assert any(np.allclose(line, aim) for line in lines.values())
    assert {text.get_text() for text in ax.texts} == {
        "implied μ",
        "direct μ",
        "mu_emp mst",
        "mu_emp aim",
    }
    assert not touching(figure)


def test_no_eps_figure_for_one_eps(grid: list[Result]) -> None:
    assert figures.eps_figure(grid[:1]) is None
    assert figures.eps_figure([grid[0], grid[3]]) is None
    assert figures.bar_figure(grid[:1]) is None


def test_bars_are_as_long_as_mu_emp(grid: list[Result]) -> None:
    figure = figures.bar_figure(grid)
    assert figure is not None
    bars = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert [bar.get_width() for bar in bars] == [r.bounds[0].lower for r in grid]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == sentences.distinct(
        [r.name for r in grid]
    )


def test_sweep_page_and_files(grid: list[Result], tmp_path: Path) -> None:
    path = files.save_sweep(grid, tmp_path, "epsilon_grid", "audit sweep=epsilon_grid")
    assert {p.name for p in tmp_path.iterdir()} == {
        "report.html",
        "sweep.csv",
        "mu_emp.png",
        "mu_emp_against_eps.png",
    }
    read = Page(path.read_text("utf-8"))
    assert "6 audits: 6 tight." in read.text and "audit sweep=epsilon_grid" in read.text
    assert read.text.count("it knows GDP only") == 1  # what all audits share is said once
    assert grid[0].challenge in read.text and "25.5 s in all stages" in read.text
    rows = list(csv.reader((tmp_path / "sweep.csv").read_text("utf-8").splitlines()))
    assert len(rows) == 7 and rows[0][0] == "audit"


# --- the page -------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would make of a page: its text, its tags, and whatever is wrong with them."""

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, f"never closed: {self.open}"
        self.text = " ".join(" ".join(self.parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.parts.append(data)


def test_page_is_well_formed_and_says_the_verdict_first(result: Result) -> None:
    read = Page(page_of(result))
    order = [
        "tight Little room",
        "What was audited",
        "What it leaks at least",
        "Figures",
        "Where it comes from",
        "Do it",
    ]
    places = [read.text.index(words) for words in order]
    assert places == sorted(places)
    for words in (
        "abc",
        "6000",
        "python -m audit mechanism=mst_fixed eps=1",
        "a note",
        "mu_emp (joint_bayes)",
    ):
        assert words in read.text
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_page_needs_no_network(result: Result) -> None:
    html = page_of(result)
    read = Page(html)
    for _, attrs in read.tags:
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert (attrs.get(name) or "#").startswith("#")
    assert "@import" not in html and not re.search(r"url\((?!#)", html)
    assert not {"link", "iframe", "img"} & {tag for tag, _ in read.tags}
    assert not [attrs for tag, attrs in read.tags if tag == "script" and "src" in attrs]
    code = "".join(re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL))
    assert code and not re.search(r"fetch|XMLHttp|WebSocket|import|sendBeacon|https?:", code)


def test_page_has_alt_text_and_a_table_behind_each_figure(result: Result) -> None:
    read = Page(page_of(result))
    drawn = [attrs for tag, attrs in read.tags if tag == "svg"]
    assert len(drawn) == 2
    for attrs in drawn:
        assert attrs["role"] == "img" and len(attrs["aria-label"] or "") > 50
    assert read.text.count("The figure as a table") == 2


def test_page_follows_light_and_dark(result: Result) -> None:
    html = page_of(result)
    assert "prefers-color-scheme: dark" in html
    body = html[html.index("</style>") :]
    # a fixed colour would stay when the scheme changes
    assert not re.findall(r"#[0-9a-f]{6}\b", body)
    for role in ("measured", "implied", "direct", "ink", "paper"):
        assert f"var(--{role})" in body
    assert len(set(style.INK.values())) == len(style.INK)  # roles are told by their colours


def test_page_escapes_everything() -> None:
    evil = "<script>alert('x')</script>&\"</svg>"
    result = dataclasses.replace(
        fake(name=evil),
        challenge=evil,
        notes=(evil,),
        refused={evil: evil},
        provenance={evil: evil, "command": evil},
        config={"a": evil},
        stages=(Stage(evil, 1.0),),
        verdict=Verdict(
            "loose", evil, dataclasses.replace(fake().verdict.accusing, estimator=evil)
        ),
    )
    for html in (page_of(result), sweep_page_of([result, fake()], evil, evil)):
        read = Page(html)
        scripts = re.findall(r"<script.*?</script>", html, flags=re.DOTALL | re.IGNORECASE)
        assert len(scripts) == sum(tag == "script" for tag, _ in read.tags) <= 3
        assert not [script for script in scripts if "alert('x')" in script]
        assert "alert('x')" in read.text


def test_what_is_under_the_pointer_cannot_end_its_script(result: Result) -> None:
    """Labels of claims are a user's own words: JSON in a page must have no < of theirs."""
    figure = figures.tradeoff_figure(result)
    readings = page.Readings(
        "α", np.array([0.0, 1.0]), [("</script><b>&", "measured", np.array([1.0, math.inf]))]
    )
    told = page._hover(figure, readings)
    assert "<" not in told and "&" not in told
    read = json.loads(told)
    assert read["curves"] == [{"name": "</script><b>&", "role": "measured", "y": [1.0, None]}]


def test_the_same_result_is_the_same_page(result: Result) -> None:
    assert page_of(result) == page_of(result)


def test_a_result_with_little_known_is_shown(result: Result) -> None:
    bare = dataclasses.replace(
        result,
        claims=(Claim(ApproximateDP(0.0), math.inf),),
        mu_hat=math.nan,
        mu_implied=None,
        mu_direct=None,
        power=Power(ApproximateDP(0.0), 0.0, math.inf, math.inf),
        efficiency=None,
        provenance={},
        bounds=result.bounds[:1],
    )
    assert "undefined" in Page(page_of(bare)).text
    assert "–" in printed(tables.table(bare))
    sweep_page_of([bare, result])


# --- what a page says beside ----------------------------------------------------------------------


def test_readings_are_the_curves_of_the_figure(result: Result) -> None:
    told = page.curve_readings(result)
    values = {name: y for name, _, y in told.curves}
    slow = slow_tradeoff(result.evidence.folds[0].test)
    for place in (0, 1, 10, 77, 200):
        least = min(b for a, b in slow if a <= told.x[place] + 1e-12)
        assert values["measured"][place] == pytest.approx(least)
        assert values["band, low"][place] <= least <= values["band, high"][place]
    frontier = curves.frontiers(result)[0]
    np.testing.assert_allclose(
        values[frontier.label], frontier.notion.beta(told.x, frontier.parameter)
    )


def test_readings_of_thresholds_ascend_and_are_the_rates(result: Result) -> None:
    told = page._threshold_readings(result)
    assert np.all(np.diff(told.x) >= 0)
    selection = result.evidence.folds[0].selection
    assert selection is not None
    values = {name: y for name, _, y in told.curves}
    for place in (0, len(told.x) // 2, -1):
        counts = selection.count(told.x[place])
        assert (values["fpr"][place], values["fnr"][place]) == pytest.approx(
            (counts.fpr, counts.fnr), abs=1e-9
        )
        assert values["advantage"][place] == pytest.approx(1 - counts.fpr - counts.fnr)


def test_readings_stand_where_the_figure_has_its_axes(result: Result) -> None:
    """matplotlib's own transform, in the units of the drawn figure, is the oracle."""
    figure = figures.tradeoff_figure(result)
    style.svg(figure, "x", "x")
    told = json.loads(page._hover(figure, page.curve_readings(result)))
    ax, (left, top, right, bottom) = figure.axes[0], told["frame"]
    for x, y in ((0.0, 0.0), (0.3, 0.8), (1.0, 1.0)):
        across, up = figure.transFigure.inverted().transform(ax.transData.transform((x, y)))
        assert (left + x * (right - left), bottom - y * (bottom - top)) == pytest.approx(
            (across, 1 - up), abs=1e-9
        )


def meant(result: Result) -> list[tuple[str, ...]]:
    return [row[1:] for row in facts.meaning(result)[1]]


def test_meaning_is_that_of_reference_md(result: Result) -> None:
    """Independently checked: ε = 1 caps the belief at 0.73106; 0.45478-GDP is guessed right in
    58.994 %, caught in 11.7 %."""
    counts = result.evidence.counts
    cap, guess, power = meant(result)
    assert guess[0] == "59.0 %" and guess[2] == f"{100 * (1 - (counts.fpr + counts.fnr) / 2):.1f} %"
    pure = dataclasses.replace(result, claims=(Claim(privacy.PureDP(), 1.0),))
    cap, guess, power = meant(pure)
    assert (cap[0], guess[0], power[0]) == ("73.1 %", "73.1 %", "13.6 %")
    approximate = dataclasses.replace(result, claims=(Claim(ApproximateDP(0.01), 1.0),))
    assert meant(approximate)[0][0] == "73.1 %"
    # (1, 0.01) is what ρ buys at δ = 0.01, so its cap is that of ε = 1.
    concentrated = dataclasses.replace(
        result, claims=(Claim(ZCDP(), RHO), Claim(ApproximateDP(0.01), 1.0))
    )
    assert meant(concentrated)[0][0] == "73.1 %"


@pytest.mark.parametrize("notion", [GDP(), ZCDP(), privacy.PureDP(), ApproximateDP(0.01)])
@pytest.mark.parametrize("parameter", [0.0, math.inf])
def test_meaning_at_the_ends(result: Result, notion: privacy.Notion, parameter: float) -> None:
    end = dataclasses.replace(result, claims=(Claim(notion, parameter),), bounds=())
    cap, guess, _ = meant(end)
    assert cap[0] == ("50.0 %" if parameter == 0 else "100.0 %")
    assert guess[0] == ("50.0 %" if parameter == 0 and notion != ApproximateDP(0.01) else guess[0])


def test_each_bound_stands_beside_its_measured_error_rate(result: Result) -> None:
    said = (
        "in simulation too high in at most 10.3 % of audits (nominal 10 %; 7 cells, 1000 trials a "
        "side)"
    )
    coverage = MeasuredCoverage(rate=0.103, nominal=0.1, cells=7, trials=1000)
    bounds = (dataclasses.replace(result.bounds[0], measured=coverage), *result.bounds[1:])
    told = dataclasses.replace(result, bounds=bounds)
    rows = facts.measured_rows(told)
    assert [row[-1] for row in rows] == ["10.3 %"] + ["–"] * (len(rows) - 1)
    read = Page(page_of(told))
    assert read.text.count(said) == 1 and "joint_bayes, μ: " + said in read.text


def test_slack_is_what_statistics_lose(result: Result) -> None:
    ((name, told),) = facts.slack(result)
    assert name == "slack" and told.startswith(f"{IMPLIED - 0.4035:.4f} ")
    assert facts.slack(dataclasses.replace(result, mu_implied=None)) == []


# --- files ----------------------------------------------------------------------------------------


def test_saved_files_give_the_result_back(result: Result, tmp_path: Path) -> None:
    import pandas

    path = files.save(result, tmp_path / "new" / "folder")
    names = {
        "report.html",
        "config.yaml",
        "tradeoff.csv",
        "tradeoff.png",
        "threshold.png",
        "scores.parquet",
    }
    assert {p.name for p in path.parent.iterdir()} == names
    assert yaml.safe_load((path.parent / "config.yaml").read_text("utf-8")) == result.config

    scores = pandas.read_parquet(path.parent / "scores.parquet")
    test = scores[scores["part"] == "test"]
    said = test["score"] >= result.evidence.folds[0].threshold
    counts = result.evidence.counts
    assert (
        int((said & ~test["present"]).sum()) == counts.fp
        and int((~said & test["present"]).sum()) == counts.fn
    )
    assert len(scores) == 6000

    curve = pandas.read_csv(path.parent / "tradeoff.csv")
    np.testing.assert_array_equal(
        curve[["alpha", "beta"]].T, curves.tradeoff(result.evidence.folds[0].test)
    )


def test_a_long_curve_is_thinned_evenly_and_keeps_its_ends(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas

    monkeypatch.setattr(files, "ROWS", 50)
    files.write_tradeoff(result, tmp_path / "thin.csv")
    thin, whole = (
        pandas.read_csv(tmp_path / "thin.csv"),
        curves.tradeoff(result.evidence.folds[0].test),
    )
    assert len(thin) == 50 < len(whole[0])
    # one rises and the other falls
    places = np.searchsorted(whole[0] - whole[1], thin["alpha"] - thin["beta"])
    np.testing.assert_array_equal(thin[["alpha", "beta"]].T, np.asarray(whole)[:, places])
    assert places[0] == 0 and places[-1] == len(whole[0]) - 1 and np.ptp(np.diff(places)) <= 1


def test_several_folds_are_all_drawn_and_saved(result: Result, tmp_path: Path) -> None:
    other = Fold(np.array([], int), None, 0.1, gaussian(IMPLIED, 500, 50_000, 5))
    folds = dataclasses.replace(result, evidence=Evidence((*result.evidence.folds, other)))
    files.save(folds, tmp_path)
    assert {
        row["fold"]
        for row in csv.DictReader(StringIO((tmp_path / "tradeoff.csv").read_text("utf-8")))
    } == {
        "0",
        "1",
    }


def test_reconstruction_is_drawn_over_what_is_predicted(tmp_path: Path) -> None:
    points = [(30.0, 0.6, 0.01), (10.0, 0.77, 0.02)]
    figure = reconstruction.reconstruction_figure("bits", points, lambda sd: 1 / sd)
    (ax,) = figure.axes
    line = next(line for line in ax.lines if str(line.get_label()).startswith("predicted"))
    np.testing.assert_allclose(np.asarray(line.get_ydata()), 1 / np.asarray(line.get_xdata()))
    (bars,) = ax.containers
    assert list(bars[0].get_xdata()) == [10, 30] and list(bars[0].get_ydata()) == [0.77, 0.6]
    for name in ("a.svg", "b.svg", "c.png"):
        reconstruction.save_reconstruction("bits", points, lambda sd: 1 / sd, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
