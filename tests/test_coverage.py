"""The bench that measures error rates: its shortcuts are the estimators' own answers, and it
catches broken bounds."""

import dataclasses
import math
import time

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from audit import criteria
from audit.core import AuditError, Bound, Claim, Counts, Evidence, Fold
from audit.coverage import bench
from audit.coverage import table as shipped
from audit.coverage.bench import FPRS, Bench, tasks
from audit.coverage.counts import (
    Chosen,
    Drawn,
    Points,
    Region,
    Size,
    clopper_pearson,
    first_piece,
    joint_exceeds,
    joint_mean,
)
from audit.coverage.laws import Response, Shift, curve_truth, draw_scores
from audit.coverage.pipelines import UNKNOWING, Pipeline, Stream
from audit.coverage.rows import LIKELIHOOD, Row, at_least, judge
from audit.coverage.scores import Scored, Tally
from audit.coverage.table import look_up, read, write
from audit.criteria import upper_rate
from audit.estimators import curve
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve import Curve, calibrated
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.joint_bayes import JointBayes
from audit.game import Serial
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP
from audit.protocols import Crossfit

NOTIONS = (GDP(), ApproximateDP(0.01), PureDP(), ZCDP())
SMALL = Size(counts=2_000, scores=100, solved=5)
PIECES = [piece for notion in NOTIONS for piece in notion.pieces()]


def binomials(rng, notion, parameter, fpr, n, audits, m=None):
    m = n if m is None else m
    fnr = float(notion.beta(fpr, parameter))
    return Drawn(
        rng.binomial(n, fpr, audits), rng.binomial(m, fnr, audits), np.full(audits, parameter), n, m
    )


# --- shortcuts: the estimator's own decision, found faster ----------------------------------------


@pytest.mark.parametrize("piece", PIECES, ids=str)
def test_a_region_holds_the_counts_whose_joint_bound_exceeds(piece):
    rng = np.random.default_rng(0)
    for absent, present, parameter in (
        (40, 40, 0.5),
        (300, 50, 0.2),
        (30, 200, 1.5),
        (25, 25, 0.0),
    ):
        fp, fn = rng.integers(0, absent + 1, 20), rng.integers(0, present + 1, 20)
        fast = Region(piece, parameter, absent, present).exceeds(fp, fn)
        slow = [
            JointBayes(0.1).lower(Counts(int(a), absent - int(a), int(b), present - int(b)), piece)
            > parameter
            for a, b in zip(fp, fn, strict=True)
        ]
        assert fast.tolist() == slow


def test_the_critical_count_is_found_from_any_guess():
    region = Region(GDP(), 0.3, 60, 60)
    found = {region.critical(20, guess) for guess in (0, 1, 15, 30, 59, 60)}
    assert len(found) == 1
    (critical,) = found
    assert region._above(20, critical) and not region._above(20, critical + 1)
    assert region.critical(60, 30) == -1
    assert Region(GDP(), 0.0, 60, 60).critical(0, 0) >= 50


@pytest.mark.parametrize(
    "notion", [notion for notion in NOTIONS if len(notion.pieces()) > 1], ids=str
)
def test_the_piece_is_the_one_that_the_estimator_chooses(notion):
    rng, n = np.random.default_rng(1), 125
    fp = rng.integers(0, n + 1, 40)
    fn = np.where(
        np.arange(40) % 2, np.clip(fp + rng.integers(-2, 3, 40), 0, n), rng.integers(0, n + 1, 40)
    )
    bound = JointBayes(0.1).lower
    for a, b, first in zip(fp, fn, first_piece(fp, fn, n, notion), strict=True):
        counts = Counts(int(a), n - int(a), int(b), n - int(b))
        assert first == (
            max(notion.pieces(), key=lambda piece: bound(counts, piece)) == notion.pieces()[0]
        )


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_vectorised_clopper_pearson_is_the_estimator(notion):
    drawn = binomials(np.random.default_rng(2), notion, 0.5, 0.3, 80, 20, 50)
    slow = [ClopperPearson(0.1).lower(drawn.counts(i), notion) for i in range(20)]
    assert clopper_pearson(drawn, notion, 0.1) == pytest.approx(slow, rel=1e-12)


def test_joint_bayes_with_a_truth_of_its_own_in_each_audit():
    drawn = binomials(np.random.default_rng(3), GDP(), 0.5, 0.3, 80, 30)
    drawn = dataclasses.replace(drawn, truth=np.linspace(0, 1, 30))
    slow = [JointBayes(0.1).lower(drawn.counts(i), GDP()) > drawn.truth[i] for i in range(30)]
    assert joint_exceeds(drawn, GDP()).tolist() == slow


def test_the_mean_joint_bound_from_few_solved_is_that_of_all():
    drawn = binomials(np.random.default_rng(4), GDP(), 0.5, 0.3, 200, 400)
    every = np.mean([JointBayes(0.1).lower(drawn.counts(i), GDP()) for i in range(400)])
    assert joint_mean(drawn, GDP(), None, 40) == pytest.approx(every, abs=0.003)


@pytest.mark.parametrize(
    ("estimate", "notion", "law"),
    [
        (Curve(0.4), GDP(), Shift(0.0)),
        (Curve(0.4), GDP(), Shift(1.0)),
        (CurveBetting(0.4), GDP(), Shift(0.0)),
        (CurveBetting(0.4), GDP(), Shift(1.0)),
        (Betting(0.49), GDP(), Response(1.0)),
        (Betting(0.4), PureDP(), Response(1.0)),
    ],
    ids=str,
)
def test_a_bound_that_is_only_tested_at_the_truth_exceeds_when_the_whole_one_does(
    estimate, notion, law
):
    task, rng = Scored(law, 150, 100), np.random.default_rng(5)
    point = isinstance(estimate, Betting)
    truth = (
        float(notion.parameter(*law.rates(task.threshold))) if point else curve_truth(law, notion)
    )
    fast, whole = (
        Tally(estimate, notion, truth, solved=0),
        Tally(estimate, notion, truth, solved=10**9),
    )
    for _ in range(60):
        evidence = task._draw(rng)
        fast.add(evidence)
        whole.add(evidence)
        assert fast.exceeded == whole.exceeded
    assert 0 < whole.exceeded < 60  # both answers were given


# --- truths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "law",
    [Shift(0.7), Shift(1, "laplace"), Shift(1, "cauchy"), Shift(1, step=0.5), Response(1.0)],
    ids=str,
)
def test_laws_have_the_rates_that_they_say(law):
    rng, n = np.random.default_rng(6), 50_000
    absent, present = law.draw(rng, n, False), law.draw(rng, n, True)
    for threshold in (-0.5, 0.3, 0.5, 1.0, 1.2):
        fpr, fnr = law.rates(threshold)
        # 50 binomials in all, two-sided: 1e-6 / 100 beyond each end, so 1e-6 for a false failure
        for hits, rate in ((np.sum(absent >= threshold), fpr), (np.sum(present < threshold), fnr)):
            assert binom.ppf(1e-8, n, rate) <= hits <= binom.isf(1e-8, n, rate)


def test_the_truth_over_a_curve_allows_all_its_points_and_is_reached():
    law = Shift(1, "cauchy")
    truth = curve_truth(law, GDP())
    reached = GDP().parameter(*law.rates(np.linspace(-6, 7, 100_001)))
    assert truth == pytest.approx(np.max(reached), abs=1e-5)
    assert curve_truth(Shift(0.5), ZCDP()) <= 0.125 + 1e-9  # a Gaussian shift of μ is μ²/2-zCDP
    assert math.isinf(curve_truth(Shift(0.5), PureDP()))


# --- the simulation, beside exact sums ------------------------------------------------------------


@pytest.mark.parametrize("fpr", FPRS)
def test_simulated_rates_are_the_exact_ones(fpr):
    n, parameter, audits = 100, 0.4548, 5_000
    fnr = float(GDP().beta(fpr, parameter))
    every = np.arange(n + 1)
    region = Region(GDP(), parameter, n, n)
    critical = np.array([region.critical(int(fp), 50) for fp in every])
    joint = np.sum(binom.pmf(every, n, fpr) * binom.cdf(critical, n, fnr))
    table = Drawn(
        every.repeat(n + 1), np.tile(every, n + 1), np.full((n + 1) ** 2, parameter), n, n
    )
    over = (clopper_pearson(table, GDP(), 0.1) > parameter).reshape(n + 1, n + 1)
    exact = float(binom.pmf(every, n, fpr) @ over @ binom.pmf(every, n, fnr))
    rows = Points(GDP(), parameter, n, n, (fpr,)).play(np.random.default_rng(7), Size(audits, 0, 5))
    measured = {(row.estimator, row.nominal): row for row in rows}
    # 8 binomials in all, two-sided: 6e-8 beyond each end, so 1e-6 for a false failure
    for key, rate in ((("joint_bayes", 0.1), joint), (("clopper_pearson", 0.1), exact)):
        assert (
            binom.ppf(6e-8, audits, rate) <= measured[key].exceeded <= binom.isf(6e-8, audits, rate)
        )
    assert exact <= 0.1
    assert abs(joint - 0.1) < 0.04


@pytest.mark.parametrize("parameter", [0.1, 0.4548, 1.0, 3.0])
@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_clopper_pearson_never_exceeds_more_often_than_nominal_in_exact_sums(notion, parameter):
    n, every = 60, np.arange(61)
    table = Drawn(
        every.repeat(n + 1), np.tile(every, n + 1), np.full((n + 1) ** 2, parameter), n, n
    )
    for nominal in (0.1, 0.01):
        over = (clopper_pearson(table, notion, nominal) > parameter + 1e-9).reshape(n + 1, n + 1)
        for fpr in (*FPRS, 0.01, 0.9):
            fnr = float(notion.beta(fpr, parameter))
            assert binom.pmf(every, n, fpr) @ over @ binom.pmf(every, n, fnr) <= nominal


# --- a smaller bench, and broken twins ------------------------------------------------------------


def smaller():
    found = [task for task in tasks((250,), (1.0,)) if not isinstance(task, Pipeline)]
    return [task for task in found if task.absent <= 1000 and task.present <= 1000]


@pytest.mark.slow
def test_no_bound_exceeds_in_the_smaller_bench():
    # `judge` fails a bound that keeps its promise (finite-sample ≤ nominal, others ≤ nominal + 1.5
    # points) with probability ≤ 1e-6 over all cells.
    rows = Bench(tuple(smaller()), SMALL, 0).run(Serial())
    assert len(rows) > 100
    assert [row for row in rows if row.verdict == "exceeds"] == []
    assert {row.estimator for row in rows} >= {
        "clopper_pearson",
        "joint_bayes",
        "curve",
        "curve_betting",
        "dkw",
    }
    assert all(math.isfinite(row.mean) and row.mean >= 0 for row in rows)
    assert all(row.mean == 0 for row in rows if not min(row.absent, row.present))


def verdict(over, nominal=0.1, kind="finite-sample", errors=100.0):
    """What the bench says of a bound that exceeded in these audits, among 1,000 cells."""
    exceeded = int(np.sum(over))
    row = Row(
        "twin",
        "gdp",
        kind,
        nominal,
        "curve",
        1.0,
        1000,
        1000,
        "all",
        "holdout",
        errors,
        len(over),
        exceeded,
        0.5,
    )
    return judge([row] * 1000)[0].verdict


def test_swapped_rates_are_caught():
    """Lower limits of the rates where upper ones are due."""
    drawn = binomials(np.random.default_rng(8), GDP(), 0.4548, 0.3, 1000, 2000)
    right = clopper_pearson(drawn, GDP(), 0.1)
    fpr, fnr = (1 - upper_rate(n - e, e, 0.05) for n, e in ((1000, drawn.fp), (1000, drawn.fn)))
    # it exceeds in 98 % or more: missed with probability < 1e-300
    assert verdict(GDP().parameter(fpr, fnr) > drawn.truth) == "exceeds"
    assert verdict(right > drawn.truth) == "ok"


def test_exchanged_classes_are_caught():
    """Each class's errors read against the trials of the other one."""
    drawn = binomials(np.random.default_rng(9), GDP(), 0.4548, 0.3, 400, 2000, 1200)
    swapped = dataclasses.replace(
        drawn, fp=np.minimum(drawn.fp, 400), fn=drawn.fn, absent=1200, present=1200
    )
    assert verdict(clopper_pearson(swapped, GDP(), 0.1) > drawn.truth) == "exceeds"
    assert verdict(clopper_pearson(drawn, GDP(), 0.1) > drawn.truth) == "ok"


@pytest.mark.parametrize("epsilon", [0.5, math.log(3), 2.0, 3.0])
def test_joint_bayes_on_a_whole_kinked_curve_is_caught(epsilon):
    """Independently checked: 15, 22, 28 and 32 % at a nominal 10 %; 11.5 % are allowed. Missed with
    probability < 1e-6:

    at 15 % and 4,000 audits the limit 11.5 % + 6 sd lies 1.9 sd of the twin's below its mean for
    ε = 0.5, so that one draws 20,000.
    """
    rng, kink = np.random.default_rng(10), 1 / (1 + math.exp(epsilon))
    audits = 20_000 if epsilon == 0.5 else 4_000
    drawn = binomials(rng, PureDP(), epsilon, kink, 1000, audits)
    whole = joint_exceeds(drawn, PureDP())
    first = first_piece(
        rng.binomial(500, kink, audits), rng.binomial(500, kink, audits), 500, PureDP()
    )
    expected = {0.5: 0.15, math.log(3): 0.22, 2.0: 0.28, 3.0: 0.32}[epsilon]
    assert np.mean(whole) == pytest.approx(expected, abs=0.035)
    assert verdict(whole, kind="Bayesian") == "exceeds"
    assert verdict(joint_exceeds(drawn, PureDP(), first), kind="Bayesian") == "ok"


def test_a_threshold_chosen_on_the_test_itself_is_caught():
    """Joint Bayes at the best of all thresholds of a test that knows nothing: 30 % or more at a
    nominal 10 %."""
    rng, over = np.random.default_rng(11), []
    for _ in range(500):
        scores = draw_scores(Shift(0.0), rng, 300, 300)
        over.append(JointBayes(0.1).lower(scores.count(criteria.Advantage()(scores)), GDP()) > 0)
    # 500 audits at a rate of 30 %: above the limit of 22 % but with probability < 1e-4; the seed is
    # fixed
    assert verdict(np.array(over), kind="Bayesian") == "exceeds"


class MeanDifference:
    """An attacker as unstable as logistic regression without a signal, and fitted in no time."""

    learns = True

    def __call__(self, trials):
        way = trials.rows[trials.bits].mean(axis=0) - trials.rows[~trials.bits].mean(axis=0)
        # as spread out however many it was fitted to
        return lambda unseen: unseen.rows @ (way / np.linalg.norm(way))


@pytest.mark.slow
def test_the_naive_variance_of_k_folds_is_caught():
    """Independently checked: 18–21 % at a nominal 10 %, against 11.5 % that are allowed."""
    critical = 1.2815515655446004  # z of 90 %

    def rejects(protocol, inflation, seed):
        evidence = protocol(
            Stream(0.0, seed), MeanDifference(), criteria.Advantage(), Claim(GDP(), 1.0)
        )
        samples = [
            (np.sort(absent), np.sort(present)) for absent, present in calibrated(evidence, GDP())
        ]
        return curve.studentised(samples, inflation, np.zeros(1))[0] > critical

    kfold, progressive = Crossfit(trials=600, order="kfold", inner=2), Crossfit(trials=600, inner=2)
    found = {"naive": [], "doubled": [], "progressive": []}
    for seed in range(1_800):
        found["naive"].append(rejects(kfold, 1.0, seed))
        found["doubled"].append(rejects(kfold, 2.0, seed))
        found["progressive"].append(rejects(progressive, 1.0, seed))
    # Of 1,800 audits 17 % have to exceed; the twin's rate is 18 to 21 % and the seeds are fixed.
    # The right ones, at 10 % or less, would need 6 sd above 11.5 %: 1e-9.
    verdicts = {name: verdict(np.array(over), kind="asymptotic") for name, over in found.items()}
    assert verdicts == {"naive": "exceeds", "doubled": "ok", "progressive": "ok"}


def test_verdicts():
    many, none = np.arange(20_000) < 2_300, np.zeros(4_000, bool)
    assert verdict(many) == "exceeds"  # 11.5 % where 10 % are promised
    assert verdict(many, kind="asymptotic") == "ok"
    assert verdict(np.arange(20_000) < 3_000, kind="asymptotic") == "exceeds"
    assert verdict(np.arange(20_000) < 3_000, kind="asymptotic", errors=29) == "rare"
    assert verdict(none) == "ok"
    assert verdict(many, errors=3) == "exceeds"  # rare errors excuse no finite-sample bound


def test_the_exact_lower_limit_is_the_textbook_one():
    limit = at_least(30, 200, 0.01)
    assert binom.sf(29, 200, limit) == pytest.approx(0.01)


# --- the bench is the same wherever it is played --------------------------------------------------


class Backwards:
    def run(self, play, blocks):
        for block in reversed(blocks):
            yield block, play(block)


def test_rows_depend_neither_on_the_order_nor_on_the_backend():
    few = (
        Points(PureDP(), 0.5, 60, 60, (0.3,)),
        Chosen(Shift(1.0), 60, 60, ("advantage",)),
        Scored(Shift(1.0), 60, 40),
    )
    size = Size(counts=100, scores=4, solved=2)
    once, again = Bench(few, size, 3).run(Serial()), Bench(few, size, 3).run(Backwards())
    assert [repr(row) for row in once] == [repr(row) for row in again]
    other = Bench(few, size, 4).run(Serial())
    assert [row.exceeded for row in once] != [row.exceeded for row in other]


def test_a_whole_pipeline_and_a_stopped_one():
    size = Size(counts=1, scores=3, solved=1)
    found = {task.name: task.play(np.random.default_rng(0), size) for task in bench.pipelines()}
    assert {row.estimator for row in found["holdout"]} >= {
        "clopper_pearson",
        "joint_bayes",
        "curve",
        "dkw",
    }
    assert [row.estimator for row in found["crossfit kfold"]] == ["curve"]
    assert [row.estimator for row in found["sequential"]] == ["betting"] * 2


def test_rows_that_know_nothing_know_nothing():
    trials = Stream(0.0, 1).trials(10, 5_000)
    assert trials.rows.shape == (5_000, 5) and trials.index[0] == 10
    gap = trials.rows[trials.bits].mean(axis=0) - trials.rows[~trials.bits].mean(axis=0)
    assert np.all(np.abs(gap) < 5.2 * math.sqrt(4 / 5_000))  # 5 normals, two-sided: 1e-6


# --- the table, and what is said of a bound -------------------------------------------------------


def row(**changes):
    usual = Row(
        "joint_bayes",
        "gdp",
        "Bayesian",
        0.1,
        "curve",
        1.0,
        1000,
        1000,
        "fpr=0.3",
        "holdout",
        300.0,
        20_000,
        1_940,
        0.9,
    )
    return dataclasses.replace(usual, **changes)


@pytest.fixture
def table(monkeypatch):
    def use(*rows):
        monkeypatch.setattr(shipped, "read", lambda: tuple(rows))

    return use


BOUND = Bound("joint_bayes", GDP(), 0.5, 0.1, "Bayesian")
COUNTS = Counts(300, 700, 250, 750)


def test_a_table_is_written_and_read(tmp_path):
    rows = judge(
        [
            row(),
            row(parameter=math.nan, efficiency=0.97),
            row(law="randomised response ε=1.1", errors=3.0),
        ]
    )
    write(rows, tmp_path / "table.csv")
    assert [repr(each) for each in read(tmp_path / "table.csv")] == [repr(each) for each in rows]
    assert read(tmp_path / "missing.csv") == ()


def test_the_worst_of_the_nearest_comparable_cells_is_said(table):
    table(
        row(),
        row(exceeded=1_900),
        row(exceeded=9_000, absent=250, present=250),  # fewer trials
        row(exceeded=9_000, estimator="clopper_pearson", kind="finite-sample"),
        row(exceeded=9_000, notion="pure"),
        row(exceeded=9_000, nominal=0.05),
        row(exceeded=9_000, errors=3.0),  # rare
    )
    measured = look_up(BOUND, COUNTS)
    assert f"{100 * measured.rate:.1f}" == "9.7" and measured.nominal == 0.1
    assert (measured.cells, measured.trials, measured.rare_below) == (2, 1000, None)


def test_rare_errors_are_flagged(table):
    table(row(), row(exceeded=3_000, errors=3.0))
    measured = look_up(BOUND, Counts(3, 997, 250, 750))
    assert measured.rate == 0.15 and measured.rare_below == 30
    table(row(), row(exceeded=1_000, errors=3.0))
    measured = look_up(BOUND, Counts(3, 997, 250, 750))
    assert measured.rate == 0.05 and measured.rare_below is None


def test_rare_errors_of_a_whole_curve_are_those_in_its_middle(table):
    table(
        row(estimator="curve", kind="asymptotic"),
        row(estimator="curve", kind="asymptotic", errors=3.0),
    )
    steep = Bound("curve", GDP(), 5.0, 0.1, "asymptotic")
    assert look_up(steep, COUNTS).cells == 1
    assert shipped.expects_few(steep, COUNTS) and not shipped.expects_few(
        dataclasses.replace(steep, lower=0.5), COUNTS
    )


def test_nothing_is_said_where_nothing_comparable_was_measured(table):
    table(row())
    assert look_up(dataclasses.replace(BOUND, significance=0.2), COUNTS) is None
    assert look_up(dataclasses.replace(BOUND, estimator="new"), COUNTS) is None
    assert look_up(BOUND, Counts(0, 0, 3, 4)) is None
    table()
    assert look_up(BOUND, COUNTS) is None


def test_the_shipped_table_says_something_of_every_bound_and_is_read_quickly():
    read.cache_clear()
    start = time.perf_counter()
    rows = read()
    assert time.perf_counter() - start < 0.5
    assert len(rows) > 1_000
    assert [each for each in rows if each.verdict == "exceeds"] == []
    bounds = (ClopperPearson(), JointBayes(), Curve(), CurveBetting(), Betting())
    evidence = Scored(Shift(0.4548), 2000, 2000)._draw(np.random.default_rng(0))
    for estimate in (*bounds, ClopperPearson(0.01)):
        measured = look_up(estimate(evidence, GDP()), evidence.counts)
        assert 0 <= measured.rate < 1 and measured.nominal in (0.1, 0.01)


def test_the_shipped_table_has_as_many_audits_as_it_should_and_judges_itself_the_same():
    # that of audit coverage; the one of bounds from one run is held to in test_one_run.py
    rows = read(shipped.TABLE)
    assert [each.verdict for each in judge(rows)] == [each.verdict for each in rows]
    counted = {"clopper_pearson", "joint_bayes"}
    for each in rows:
        whole = each.law in (UNKNOWING, LIKELIHOOD)
        assert each.audits >= (20_000 if each.estimator in counted and not whole else 4_000)
    best = [
        r.efficiency
        for r in rows
        if r.estimator == "curve"
        and r.law == "gaussian"
        and r.absent >= 2000
        and r.absent == r.present
        and r.parameter in (0.4548, 1.0, 2.0, 3.0)
    ]
    assert min(best) > 0.97


# --- audit coverage -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["--workers", "0"],
        ["--quik"],
        ["--seed", "x"],
        ["--seed", "-1"],
        ["--out", "/nowhere/at/all.csv"],
        ["word"],
    ],
)
def test_wrong_words_are_one_line(words):
    with pytest.raises(AuditError, match=r"^coverage: [^\n]+$"):
        bench.main(words)


def test_the_command_writes_the_table_and_says_the_worst(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        bench, "tasks", lambda *_: [Points(GDP(), 0.5, 60, 60, (0.3,)), Scored(Shift(0.5), 60, 60)]
    )
    monkeypatch.setattr(bench, "QUICK", Size(counts=200, scores=4, solved=2))
    out = tmp_path / "table.csv"
    assert bench.main(["--quick", "--workers", "1", "--out", str(out), "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert "clopper_pearson" in said and "worst rate" in said and "10 cells" in said
    assert len(read(out)) == 10


def test_the_command_fails_where_a_bound_exceeds(tmp_path, monkeypatch):
    class Broken:
        def play(self, rng, size):
            return [row(exceeded=15_000)]

    monkeypatch.setattr(bench, "tasks", lambda *_: [Broken()])
    assert bench.main(["--workers", "1", "--out", str(tmp_path / "table.csv")]) == 1


def test_parameters_of_the_notions_are_comparable():
    points = [task for task in tasks() if isinstance(task, Points) and len(task.fprs) == 5]
    assert len(points) == 4 * 5 * 4
    for task in points:
        middle = task.fprs[-1]
        assert float(task.notion.beta(middle, task.parameter)) == pytest.approx(middle)


def test_evidence_without_test_trials_of_a_class_bounds_nothing():
    evidence = Scored(Shift(1.0), 100, 0)._draw(np.random.default_rng(0))
    assert isinstance(evidence, Evidence) and isinstance(evidence.folds[0], Fold)
    for estimate in (Curve(), CurveBetting(), Betting(), ClopperPearson(), JointBayes()):
        assert estimate(evidence, GDP()).lower == 0
    assert Claim(GDP(), float(ndtr(0))).parameter == 0.5
