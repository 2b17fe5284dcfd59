"""One run, played and spent: coins, blocks, the cache, abstention, and whole audits of mechanisms
that are known."""

import dataclasses

import numpy as np
import pytest
from scipy.special import betaincinv
from toys import Toy

from audit.attackers import Column, LikelihoodRatio, Logistic
from audit.canaries.coins import Coins
from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Claim, Evidence
from audit.coverage.rows import judge
from audit.coverage.table import ONE_RUN, read
from audit.criteria import Advantage
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.one_run import OneRun as Estimate
from audit.estimators.one_run_betting import OneRunBetting
from audit.experiment import Plan, audit
from audit.features import BlackBox, WhiteBox
from audit.game import Cache, CanaryGame, Game, Played, Serial, fingerprint
from audit.judgement.bounds import test_claim as claim_test
from audit.mechanisms.answers import Answers
from audit.mechanisms.broken.less_noise import AnswersLessNoise
from audit.privacy import GDP, PureDP
from audit.protocols import Holdout, OneRun, middle


def game(**changes):
    return dataclasses.replace(
        CanaryGame(Answers(), Coins(count=50), WhiteBox(), seed=3), **changes
    )


def plan(tmp_path, **changes):
    count = changes.pop("count", 1000)
    given = {
        "name": "one run",
        "config": {},
        "mechanism": Answers(),
        "challenge": Coins(count=count),
        "features": WhiteBox(),
        "attacker": Column(),
        "criterion": Advantage(),
        "estimators": (Estimate(), OneRunBetting()),
        "accusing": ClopperPearson(0.01),
        "protocol": OneRun(trials=count),
        "backend": Serial(),
        "seed": 0,
        "root": tmp_path,
    }
    return Plan(**(given | changes))


# --- the game -------------------------------------------------------------------------------------


def test_a_block_is_one_run_of_all_canaries():
    trials = game().play(2)
    assert len(trials) == 50 and set(trials.run) == {2}
    assert trials.index.tolist() == list(range(100, 150))
    assert trials.columns == ("answer[0]",) and trials.rows.shape == (50, 1)


def test_the_same_seed_gives_the_same_coins_and_rows_and_another_block_others():
    one, again, other = game().play(0), game().play(0), game().play(1)
    assert np.array_equal(one.rows, again.rows) and np.array_equal(one.bits, again.bits)
    assert not np.array_equal(one.bits, other.bits)  # equal with probability 2⁻⁵⁰
    assert not np.array_equal(one.bits, game(seed=4).play(0).bits)


def test_coins_are_fair_and_independent_of_their_neighbours():
    bits = np.concatenate([game(challenge=Coins(count=2000)).play(b).bits for b in range(10)])
    # 20,000 coins: 5 standard deviations are 0.0177 (6e-7), for the coins and for their products.
    assert abs(bits.mean() - 0.5) < 0.0177
    assert abs((bits[1:] == bits[:-1]).mean() - 0.5) < 0.0177
    twin = np.arange(20_000) % 2 == 1  # alternating, as in the game of two neighbours
    assert abs((twin[1:] == twin[:-1]).mean() - 0.5) > 0.0177


def test_the_rows_belong_to_their_bits():
    exact = game(mechanism=Answers(eps=30.0)).play(0)
    assert np.array_equal(exact.rows[:, 0] > 0.5, exact.bits)  # wrong with probability 50·e⁻³⁰


def test_a_run_is_kept_and_not_played_again(tmp_path):
    first = Played(game(), Serial(), tmp_path)
    second = Played(game(), Serial(), tmp_path)
    a, b = first.trials(0, 50), second.trials(10, 30)
    assert (first.tally.played, second.tally.played, second.tally.cached) == (1, 0, 1)
    assert np.array_equal(a[10:40].rows, b.rows)


def test_one_run_never_meets_trials_of_the_other_game(tmp_path):
    pair = Game(Answers(), Coins(count=1), WhiteBox(), seed=3)
    one = CanaryGame(Answers(), Coins(count=1), WhiteBox(), seed=3)
    assert fingerprint(pair) != fingerprint(one)
    assert Cache(tmp_path, pair).folder != Cache(tmp_path, one).folder


def test_a_mechanism_that_shows_nothing_of_single_canaries_is_refused_in_one_line():
    with pytest.raises(AuditError, match="shows nothing of single canaries") as caught:
        game(mechanism=Toy(), challenge=WorstCase()).play(0)
    assert "\n" not in str(caught.value)


def test_a_failure_inside_a_run_names_the_run():
    with pytest.raises(AuditError, match=r"choose canary=coins"):
        game(challenge=WorstCase()).play(0)
    with pytest.raises(
        AuditError, match=r"Answers, canary 0 of run 7 \(seed 3, .*|Answers, canary 0 of run 7"
    ):
        game(features=lambda releases, challenge: 1 / 0).play(7)


# --- the protocol ---------------------------------------------------------------------------------


def spend(protocol, attacker, played, tmp_path):
    return protocol(Played(played, Serial(), tmp_path), attacker, Advantage(), Claim(PureDP(), 1.0))


def test_an_attacker_that_learns_nothing_is_tested_on_every_canary(tmp_path):
    evidence = spend(OneRun(trials=50), Column(), game(), tmp_path)
    (fold,) = evidence.folds
    assert evidence.one_run and not evidence.independent
    assert len(fold.test) == 50 and len(fold.fitted) == 0 and fold.selection is None
    assert OneRun(trials=50).tested == 50


def test_an_attacker_that_learns_is_told_some_coins_and_tested_on_the_others(tmp_path):
    evidence = spend(OneRun(trials=50), Logistic(), game(mechanism=Answers(eps=30.0)), tmp_path)
    (fold,) = evidence.folds
    assert fold.fitted.tolist() == list(range(25)) and fold.test.index.tolist() == list(
        range(25, 50)
    )
    assert fold.counts.fp == fold.counts.fn == 0


def test_the_threshold_knows_the_scores_only():
    assert middle(np.array([1.0, 1.0, 1.0, 5.0])) == 3.0
    assert middle(np.full(4, 2.0)) == 2.0
    values = np.random.default_rng(0).normal(size=101)
    assert np.sum(values >= middle(values)) in (50, 51)


def test_more_canaries_than_a_run_has_are_refused(tmp_path):
    with pytest.raises(AuditError, match="more canaries than one run has"):
        spend(OneRun(trials=60), Column(), game(), tmp_path)
    with pytest.raises(AuditError, match="fewer than 10 to test"):
        OneRun(trials=12, fit=0.9)


def test_two_runs_are_not_one(tmp_path):
    fold = spend(OneRun(trials=50), Column(), game(), tmp_path).folds[0]
    assert not Evidence((fold, fold)).one_run
    assert not Evidence((fold,), stopped=True).one_run


# --- whole audits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["response", "laplace", "gaussian"])
def test_an_honest_mechanism_is_not_accused_and_a_broken_one_is(law, tmp_path):
    """False alarm ≤ 1 % by the bound, but the seeds are fixed: 20 of them, at most 5 alarms
    (P ≤ 4e-8 by the binomial)."""
    alarms = 0
    for seed in range(20):
        result = audit(plan(tmp_path, mechanism=Answers(law=law), seed=seed))
        alarms += result.verdict.word == "violation"
        assert result.verdict.accusing.estimator == "one_run"
    assert alarms <= 5
    broken = AnswersLessNoise(law=law, noise_fraction=0.25)
    assert audit(plan(tmp_path, mechanism=broken, count=4000)).verdict.word == "violation"


def test_dependent_canaries_do_not_fool_the_accusing_bound(tmp_path):
    """Answers all or none, at ε = 1: 200 runs, exceedance at 10 %; false failure ≤ 1e-6."""
    mechanism = Answers(together=0.797)
    assert mechanism.claims[1].parameter == pytest.approx(1.0, abs=1e-3)
    over = 0
    for block in range(200):
        source = Played(CanaryGame(mechanism, Coins(count=300), WhiteBox(), 0), Serial(), tmp_path)
        trials = source.trials(300 * block, 300)
        shifted = dataclasses.replace(trials, index=np.arange(300), run=np.zeros(300, int))
        evidence = OneRun(trials=300)(Fixed(shifted), Column(), Advantage(), Claim(PureDP(), 1.0))
        over += Estimate(0.1)(evidence, PureDP()).lower > 1.0
    assert (betaincinv(over, 201 - over, 1e-6) if over else 0) <= 0.1


@dataclasses.dataclass
class Fixed:
    kept: object
    limit = None

    def trials(self, first, count):
        return self.kept[first : first + count]


def test_the_claim_is_tested_by_one_run_bounds_where_counts_are_not_binomial(tmp_path):
    evidence = spend(OneRun(trials=50), Column(), game(), tmp_path)
    assert claim_test(ClopperPearson(0.01), evidence, PureDP()).estimator == "one_run"
    assert claim_test(ClopperPearson(0.01), evidence, GDP()).significance == 0.01


def test_an_estimator_for_independent_trials_names_the_cure(tmp_path):
    with pytest.raises(AuditError, match="use estimator=one_run"):
        audit(plan(tmp_path, estimators=(ClopperPearson(), Estimate(0.1))))


def test_the_number_of_canaries_fits_the_protocol(tmp_path):
    with pytest.raises(AuditError, match=r"canary\.count=1"):
        plan(tmp_path, protocol=Holdout())
    with pytest.raises(AuditError, match="needs many canaries"):
        plan(tmp_path, challenge=Coins(count=1))


# --- the attacker that reads a column -------------------------------------------------------------


def test_score_reads_the_column_that_is_meant():
    trials = game().play(0)
    two = dataclasses.replace(
        trials, columns=("a", "b"), rows=np.hstack([trials.rows, -trials.rows])
    )
    assert np.array_equal(Column()(trials)(trials), trials.rows[:, 0])
    assert np.array_equal(Column(column="b")(two)(two), -trials.rows[:, 0])
    with pytest.raises(AuditError, match=r"2 columns; set attacker\.column to one of a, b"):
        Column()(two)
    with pytest.raises(AuditError, match="no such column; there are a, b"):
        Column(column="c")(two)


def test_black_box_sees_the_public_answers():
    assert np.array_equal(game(features=BlackBox()).play(0).rows, game().play(0).rows)


def test_a_bound_from_one_run_says_what_was_measured_of_bounds_like_it(tmp_path):
    bounds = audit(plan(tmp_path)).bounds
    for bound in bounds:
        assert bound.measured.rate < 1 and bound.measured.trials == 500


def test_the_shipped_table_holds_no_bound_from_one_run_that_exceeds_its_rate():
    rows = read(ONE_RUN)
    assert {row.estimator for row in rows} == {"one_run", "one_run_fdp", "one_run_betting"}
    assert all(row.kind == "finite-sample" for row in rows)
    assert [row.verdict for row in judge(rows)] == ["ok"] * len(rows)
    worse = [
        dataclasses.replace(row, exceeded=min(row.audits, row.exceeded + row.audits // 5))
        for row in rows
    ]
    assert any(row.verdict == "exceeds" for row in judge(worse))


def test_a_report_speaks_of_canaries_and_of_no_pair(tmp_path):
    """What a pair would show (its direct μ, a box, a chosen threshold, a power) has no place beside
    canaries of one run."""
    from audit.report.facts import facts
    from audit.report.figures import audit_figures
    from audit.report.page import page

    result = audit(plan(tmp_path, mechanism=Answers(law="gaussian"), count=500))
    assert result.mu_direct is None
    told = dict(facts(result))
    assert (
        "absent canaries called present" in told["fpr"]
        and "present canaries called absent" in told["fnr"]
    )
    assert not {"direct mu", "power"} & set(told)
    figures = audit_figures(result)
    drawn = " ".join(text.get_text() for text in figures["tradeoff"].axes[0].texts)
    assert list(figures) == ["tradeoff"] and "measured on the canaries of one run" in drawn
    html = page(result, figures)
    wrong = (
        "direct μ",
        "direct mu",
        "test trials",
        "the box is",
        "Clopper and Pearson place",
        "4 times in 5",
        "chosen threshold",
    )
    assert not [words for words in wrong if words in html]
    assert "did on the canaries of this run" in html and "middle of the scores" in html


def test_a_report_on_a_pair_says_what_it_said(tmp_path):
    """The other way round: with two neighbours all of it is there."""
    from audit.mechanisms.gaussian import Gaussian
    from audit.report.facts import facts
    from audit.report.figures import audit_figures
    from audit.report.page import page

    pair = {
        "mechanism": Gaussian(eps=1.0, delta=0.01),
        "challenge": WorstCase(),
        "features": WhiteBox(),
    }
    how = {
        "attacker": LikelihoodRatio(),
        "protocol": Holdout(trials=400),
        "estimators": (ClopperPearson(0.1),),
    }
    result = audit(plan(tmp_path, **pair, **how))
    assert result.mu_direct is not None and {"direct mu", "power"} <= set(dict(facts(result)))
    html = page(result, audit_figures(result))
    assert (
        "the box is where" in html
        and "At the chosen threshold" in html
        and "did on the test trials" in html
    )
