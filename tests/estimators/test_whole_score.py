"""Bets on the whole score: no pair that keeps the claim lets them gain, what they find, and broken
twins."""

import itertools
import math
import time

import numpy as np
import pytest
from estimators.evidence import scores
from scipy.optimize import linprog
from scipy.stats import binom

from audit.core import Evidence, Fold, NotApplicable
from audit.estimators import whole_score
from audit.estimators.whole_score import Levels, Sample, Stage, WholeScore, refuted, stages
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP

NOTHING = np.array([], int)


def laplace(rng, eps, *sizes):
    """Scores of absent and present trials in turn."""
    return [rng.laplace(place % 2, 1 / eps, n) for place, n in enumerate(sizes)]


def fold(rng, eps, known, absent, present=None):
    """A Laplace shift of ε, with so many selection trials a side."""
    drawn = laplace(rng, eps, known, known, absent, present or absent)
    return Fold(NOTHING, scores(*drawn[:2]), 0.5, scores(*drawn[2:], 2 * known))


# --- validity: the worst pair, found by linear programming ----------------------------------------


def largest_mean(of_absent, of_present, eps, delta):
    """The largest E f(X) + E g(Y) over all (ε, δ)-indistinguishable pairs of laws on k values, X
    absent, Y present."""
    k = len(of_absent)
    subsets = np.array(list(itertools.product([0.0, 1.0], repeat=k)))
    rows = np.concatenate(
        [
            np.hstack([-math.exp(eps) * subsets, subsets]),
            np.hstack([subsets, -math.exp(eps) * subsets]),
        ]
    )
    sums = np.kron(np.eye(2), np.ones(k))
    found = linprog(
        -np.concatenate([of_absent, of_present]), rows, np.full(len(rows), delta), sums, np.ones(2)
    )
    return -found.fun


def a_stage(rng, k, absent, present):
    """Levels of a score with k values, and rounds that show each of them."""
    posterior = np.sort(rng.random(k))
    levels = Levels(np.arange(k, dtype=float), posterior, rng.dirichlet(np.ones(k)) * 2)
    rounds = min(absent, present)
    return Stage(
        levels, int(rng.integers(5, 5000)), np.arange(absent) % k, np.arange(present) % k, rounds
    )


@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize(("absent", "present"), [(8, 8), (8, 40)])
def test_no_pair_that_keeps_the_claim_lets_a_round_gain(delta, absent, present):
    rng, some_gain = np.random.default_rng(0), False
    for _ in range(25):
        stage, eps = a_stage(rng, 5, absent, present), float(rng.uniform(0.1, 1.5))
        parts = stage.rounds / absent, stage.rounds / present
        bets = whole_score.bets(stage.levels, stage.trials, np.array([eps]), delta, parts)
        sure, other = (bet[0] for bet in bets)
        paid = delta * (sure.max() + other.max())
        of_absent, of_present = other - math.exp(eps) * sure, sure - math.exp(eps) * other
        assert largest_mean(of_absent, of_present, eps, delta) <= paid + 1e-9
        # the bets are no trivial ones: a pair that keeps no more than 1.2·ε lets them gain
        some_gain |= largest_mean(of_absent, of_present, 1.2 * eps, delta) > paid + 1e-6
        gains, worst = stage.gains(np.array([eps]), delta)
        expected = np.array([of_present[stage.present]]).reshape(1, stage.rounds, -1).mean(axis=2)
        expected = expected + of_absent[stage.absent] - paid
        assert gains == pytest.approx(expected) and gains.min() >= -worst[0] - 1e-12
    assert some_gain


def test_a_twin_that_does_not_pay_for_delta_gains():
    rng, delta = np.random.default_rng(1), 0.02
    stage = a_stage(rng, 5, 8, 8)
    sure, other = (
        bet[0] for bet in whole_score.bets(stage.levels, 1000, np.array([0.2]), delta, (1, 1))
    )
    assert (
        largest_mean(other - math.exp(0.2) * sure, sure - math.exp(0.2) * other, 0.2, delta) > 1e-4
    )


# --- validity: all outcomes of a small test, over a scan of all pairs of three-valued scores ------


def rejecting(eps, delta, significance, absent, present):
    """(k, 3, 2) how often each value was seen in each class in the outcomes that are refuted."""
    known = np.repeat([0.0, 1.0, 2.0], [12, 6, 2]), np.repeat([0.0, 1.0, 2.0], [2, 6, 12])
    found = []
    for outcome in itertools.product([0.0, 1.0, 2.0], repeat=absent + present):
        sides = np.array(outcome[:absent]), np.array(outcome[absent:])
        if refuted(stages([Sample(*known, *sides)]), np.array([eps]), delta, significance)[0]:
            found.append([[np.sum(side == value) for side in sides] for value in (0.0, 1.0, 2.0)])
    return np.array(found)


def size(refuted_counts, eps, delta):
    """The largest probability of these outcomes over a grid of extreme pairs (p₊, q₋)."""
    most = 0.0
    for x, y in itertools.product(np.linspace(0, 1, 41), repeat=2):
        low, high = min(1 - x, math.exp(eps) * y + delta), min(1 - y, math.exp(eps) * x + delta)
        p, q = np.array([low, 1 - x - low, x]), np.array([y, 1 - y - high, high])
        p, q = np.clip(p, 0, 1), np.clip(q, 0, 1)
        chances = np.prod(p ** refuted_counts[:, :, 0], axis=1) * np.prod(
            q ** refuted_counts[:, :, 1], axis=1
        )
        most = max(most, float(chances.sum()))
    return most


@pytest.mark.slow
@pytest.mark.parametrize(("absent", "present", "delta"), [(3, 3, 0.0), (3, 4, 0.0), (3, 3, 0.005)])
def test_the_size_of_a_small_test_is_at_most_nominal_for_every_pair(absent, present, delta):
    eps, significance = 0.1, 0.4
    found = rejecting(eps, delta, significance, absent, present)
    assert len(found) and size(found, eps, delta) <= significance
    # a test that takes ε for a twentieth of itself would fail
    assert size(found, 20 * eps, delta) > significance


# --- validity: whole bounds, simulated ------------------------------------------------------------


@pytest.mark.slow
def test_bounds_exceed_a_laplace_no_more_often_than_nominal():
    """False failure: P(Bin(150, 0.1) > limit) ≤ 1e-6."""
    rng, audits = np.random.default_rng(2), 150
    limit = int(binom.ppf(1 - 1e-6, audits, 0.1))
    honest = peeking = 0
    for _ in range(audits):
        drawn = laplace(rng, 1.0, 100, 100, 200, 200)
        honest += refuted(stages([Sample(*drawn)]), np.array([1.0]), 0.0, 0.1)[0]
        peeking += refuted(
            stages([Sample(drawn[2], drawn[3], *drawn[2:])]), np.array([1.0]), 0.0, 0.1
        )[0]
    assert honest <= limit < peeking  # the twin fits its levels on the test itself


def test_sorted_trials_are_no_evidence():
    """False failure: P(Bin(40, 0.1) > limit) ≤ 1e-6; without the permutation sorted trials are
    refuted more often."""
    rng, audits = np.random.default_rng(3), 40
    found = twin = 0
    for _ in range(audits):
        drawn = [np.sort(side) for side in laplace(rng, 1.0, 100, 100, 300, 300)]
        drawn[3] = drawn[3][::-1]  # the present ones from high to low: at first all rounds gain
        evidence = Evidence((Fold(NOTHING, scores(*drawn[:2]), 0.5, scores(*drawn[2:], 200)),))
        found += refuted(stages(whole_score.readable(evidence)), np.array([1.0]), 0.0, 0.1)[0]
        twin += refuted(stages([Sample(*drawn)]), np.array([1.0]), 0.0, 0.1)[0]
    assert found <= binom.ppf(1 - 1e-6, audits, 0.1) < twin


# --- what it finds --------------------------------------------------------------------------------


def test_a_laplace_of_a_quarter_more_is_found_where_one_threshold_needs_1160_trials():
    """Power at 1,000 trials a side is about 0.89; P(Bin(40, 0.85) < 21) ≤ 1e-6."""
    rng = np.random.default_rng(4)
    found = sum(
        refuted(
            stages([Sample(*laplace(rng, 1.25, 500, 500, 1000, 1000))]), np.array([1.0]), 0.0, 0.01
        )[0]
        for _ in range(40)
    )
    assert found >= 21


def test_power_is_that_of_the_same_test():
    rate = 1 / (1 + math.exp(1.25))
    p, q = [1 - rate, rate], [rate, 1 - rate]
    # 5 sd
    assert WholeScore(0.01).power(PureDP(), 1.0, p, q, 471, 471, 80) == pytest.approx(0.8, abs=0.23)
    # P(Bin(40, 0.01) > 6) ≤ 1e-6
    assert WholeScore(0.01).power(PureDP(), 1.25, p, q, 471, 471, 40) <= 0.15


@pytest.mark.parametrize("notion", [PureDP(), ApproximateDP(0.01)], ids=["pure", "approximate"])
def test_a_bound_is_below_the_truth_and_quick(notion):
    evidence = Evidence((fold(np.random.default_rng(5), 1.0, 2500, 5000),))
    start = time.process_time()
    bound = WholeScore(0.01)(evidence, notion)
    assert time.process_time() - start < 2  # 0.15 s on an idle machine
    assert 0.75 < bound.lower < 1 and bound.kind == "finite-sample" and bound.notion == notion
    assert WholeScore(0.01)(evidence, notion) == bound


def test_folds_that_follow_each_other_share_the_wealth():
    rng = np.random.default_rng(6)
    first = fold(rng, 1.0, 500, 1000)
    drawn = laplace(rng, 1.0, 1000, 1000)
    later = Fold(first.fitted, first.test, 0.5, scores(*drawn, 3000))
    both = WholeScore()(Evidence((first, later)), PureDP()).lower
    assert WholeScore()(Evidence((first,)), PureDP()).lower - 0.02 < both < 1


def test_expected_is_near_the_truth_and_0_where_nothing_can_be_said():
    assert 0.75 < WholeScore().expected(PureDP(), 1.0, 2000, 2000) < 1
    assert (
        WholeScore().expected(GDP(), 1.0, 2000, 2000)
        == WholeScore().expected(PureDP(), 1.0, 0, 10)
        == 0
    )


def test_infinite_scores_and_empty_classes():
    rng = np.random.default_rng(7)
    known = scores(np.full(50, -np.inf), np.where(rng.random(50) < 0.5, np.inf, -np.inf))
    test = scores(np.full(500, -np.inf), np.where(rng.random(500) < 0.5, np.inf, -np.inf), 100)
    assert WholeScore(0.01)(Evidence((Fold(NOTHING, known, 0.0, test),)), PureDP()).lower > 3
    empty = scores(np.zeros(0), np.ones(5), 100)
    assert WholeScore()(Evidence((Fold(NOTHING, known, 0.0, empty),)), PureDP()).lower == 0


# --- what it refuses ------------------------------------------------------------------------------


def test_evidence_that_it_cannot_read_is_refused():
    one = fold(np.random.default_rng(8), 1.0, 20, 20)
    unchosen = Fold(NOTHING, None, 0.5, one.test)
    one_class = Fold(NOTHING, scores(np.zeros(0), np.ones(4)), 0.5, one.test)
    for evidence, notion, why in (
        (Evidence((one,)), GDP(), "curve_betting"),
        (Evidence((one,)), ZCDP(), "curve_betting"),
        (Evidence((one,), stopped=True), PureDP(), "anytime"),
        (Evidence((one, one)), PureDP(), "independent"),
        (Evidence((unchosen,)), PureDP(), "selection"),
        (Evidence((one_class,)), PureDP(), "both classes"),
    ):
        with pytest.raises(NotApplicable, match=why):
            WholeScore()(evidence, notion)
