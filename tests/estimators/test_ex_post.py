"""Are reports true? True ones are not accused, false ones are, by exact likelihoods and by what was
learnt."""

import dataclasses
import math

import numpy as np
import pytest

from audit import cli, experiment
from audit.accountants import ExPostRDP
from audit.cli import compose
from audit.core import Claim, Domain, Evidence, Fold, NotApplicable, Table, Trials
from audit.estimators.ex_post import ExPost, Payoffs, log_wealth
from audit.mechanisms.broken.brownian import FreshNoise, PreviousStep, ValidationOnly
from audit.mechanisms.brownian import Brownian
from audit.mechanisms.laplace_reduction import LaplaceReduction
from audit.mechanisms.train_and_check import TrainAndCheck
from audit.privacy import GDP

ZEROS = Table(Domain(("a", "b", "c"), (2, 2, 2)), np.zeros((10, 3), int))
CANARY = Table(ZEROS.domain, np.concatenate([ZEROS.records, [[1, 1, 1]]]))


def evidence(mechanism, seed, pairs=2000, slope=1.0):
    """Half as many pairs to choose on as to test; scores are the exact log ratio, times
    ``slope``."""
    rng, sides = np.random.default_rng(seed), []
    for bit, data in enumerate((ZEROS, CANARY)):
        steps = mechanism.release(data, pairs * 3 // 2, rng)
        sides.append((steps.log_ratio(ZEROS, CANARY), steps.spent(), bit))
    index = np.arange(3 * pairs)
    ratio, spent = (np.stack([side[k] for side in sides], axis=1).ravel() for k in (0, 1))
    trials = Trials(("x",), ratio[:, None], index % 2 == 1, index, index, spent, ratio)
    scores = trials.score(slope * ratio)
    cut = pairs
    parts = [trials[:cut].score(scores.values[:cut]), trials[cut:].score(scores.values[cut:])]
    return Evidence((Fold(index[:0], parts[0], 0.0, parts[1]),))


def bound(mechanism, seed, significance=0.05, **how):
    notion = mechanism.claims[0].notion
    return ExPost(significance=significance)(evidence(mechanism, seed, **how), notion).lower


@pytest.mark.parametrize("slope", [1.0, 0.4], ids=["white box", "black box"])
@pytest.mark.parametrize("mechanism", [Brownian(), LaplaceReduction(), TrainAndCheck()])
def test_true_reports_are_accused_at_most_at_the_nominal_rate(mechanism, slope):
    accused = sum(bound(mechanism, seed, 0.05, pairs=400, slope=slope) > 0 for seed in range(20))
    # P(Bin(20, 0.05) > 9) < 1e-6; the fixed seeds give fewer by far.
    assert accused <= 9


@pytest.mark.parametrize("slope", [1.0, 0.4], ids=["white box", "black box"])
@pytest.mark.parametrize("mechanism", [FreshNoise(), PreviousStep(), ValidationOnly()])
def test_false_reports_are_caught(mechanism, slope):
    assert bound(mechanism, 0, 1e-6, pairs=20_000, slope=slope) > 0


def test_a_bound_is_below_the_truth():
    # Every report is too low by 0.25, wherever the run stopped: E[W] = e^(0.25(α − 1)) for Brownian
    # noise.
    @dataclasses.dataclass(frozen=True)
    class Low(Brownian):
        def report(self, stopped):
            return super().report(stopped) - 0.25

    found = bound(Low(ladder=(0.5, 1.0)), 1, 1e-6, pairs=20_000)
    assert 0.05 < found < 0.25  # above 0.25 with probability 1e-6
    assert bound(Low(ladder=(0.5, 1.0)), 1, 0.1, pairs=20_000) > found


def test_a_game_of_mean_above_one_makes_rich_and_one_of_mean_one_does_not():
    rng = np.random.default_rng(0)
    fair, unfair = 2 * rng.random(4000), 2.3 * rng.random(4000)
    # Ville: the fair game reaches 10⁶ with probability 1e-6.
    assert (
        log_wealth([Payoffs(fair, 0.0, 0.2)], 1.0).max()
        < math.log(1e6)
        < log_wealth([Payoffs(unfair, 0.0, 0.2)], 1.0).max()
    )


def test_wealth_falls_in_the_mean_that_is_bet_against_and_rounds_add_up():
    rounds = [Payoffs(np.array([3.0, 0.0, 2.0]), 1.0, 0.3), Payoffs(np.array([4.0, 1.0]), 0.0, 0.1)]
    wealth = [log_wealth(rounds, mean) for mean in (1.0, 1.5, 4.0)]
    assert np.all(np.diff(wealth, axis=0)[:, 1:] <= 1e-12)
    assert wealth[0][-1] == pytest.approx(
        log_wealth(rounds[:1], 1.0)[-1] + log_wealth(rounds[1:], 1.0)[-1]
    )


def test_it_says_what_it_cannot_read():
    made = evidence(Brownian(), 0, pairs=40)
    notion = ExPostRDP(2.0, 2.0)
    with pytest.raises(NotApplicable, match="no reports"):
        ExPost()(made, GDP())
    (fold,) = made.folds
    silent = dataclasses.replace(fold, test=dataclasses.replace(fold.test, spent=None))
    with pytest.raises(NotApplicable, match="no spent"):
        ExPost()(Evidence((silent,)), notion)
    with pytest.raises(NotApplicable, match="selection"):
        ExPost()(Evidence((dataclasses.replace(fold, selection=None),)), notion)
    with pytest.raises(NotApplicable, match="each once"):
        ExPost()(Evidence((fold, fold)), notion)


@pytest.fixture
def play(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def one(*words):
        plan = compose("estimator=ex_post", "backend=serial", *words)
        return experiment.audit(plan)

    return one


def test_an_audit_of_true_reports_finds_no_violation(play):
    result = play("mechanism=brownian", "attacker=likelihood_ratio")
    # of reports there is no share of the claim that an attack could show: they are refuted, or they
    # are not
    assert result.verdict.word == "inconclusive" and result.verdict.accusing.estimator == "ex_post"
    assert result.bounds[0].estimator == "clopper_pearson" and isinstance(
        result.bounds[0].notion, GDP
    )
    assert str(result.claims[0]) == "2-ex-post-RDP"


# In each the bound itself says so with an error probability of 1 %, and these seeds are fixed.
@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("mechanism=broken/brownian_fresh", "attacker=logistic", "trials=40000"),
        ("mechanism=broken/brownian_previous", "attacker=logistic", "trials=60000"),
        (
            "mechanism=broken/brownian_raw_stop",
            "attacker=xgboost",
            "attacker.max_depth=3",
            "trials=40000",
        ),
        ("mechanism=broken/brownian_validation_only", "attacker=xgboost", "trials=10000"),
    ],
    ids=lambda words: words[0],
)
def test_every_broken_twin_is_caught_from_outputs_alone(words, play):
    result = play(*words)
    assert result.verdict.word == "violation", result.verdict.reason
    assert "too low" in result.verdict.reason


BROKEN = sorted(
    path.stem for path in (cli.folder("conf") / "mechanism/broken").glob("brownian_*.yaml")
)


@pytest.mark.parametrize("option", BROKEN)
def test_every_broken_twin_composes_and_claims_what_the_right_one_does(option, play):
    plan = compose(f"mechanism=broken/{option}")
    right = TrainAndCheck() if option.endswith("validation_only") else Brownian()
    assert plan.mechanism.claims == right.claims and type(plan.mechanism) is not type(right)
    assert len(BROKEN) == 4


def test_other_audits_are_not_told_of_reports(play):
    result = play(
        "mechanism=gaussian", "attacker=likelihood_ratio", "estimator=joint_bayes", "trials=400"
    )
    assert "ex_post" not in result.refused and Claim(GDP(), 0.5) not in result.claims
