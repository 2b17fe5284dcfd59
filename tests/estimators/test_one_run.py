"""Bounds from one run: independently checked figures, slow oracles, exact coverage, and twins that
break."""

import itertools
import math
import time
from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import betainc, betaincinv, expit

from audit.core import Evidence, Fold, NotApplicable, Scores
from audit.estimators import one_run, one_run_betting, one_run_fdp
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve import Curve
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.dkw import DKW
from audit.estimators.joint_bayes import JointBayes
from audit.estimators.one_run import OneRun, guesses, ideal_guesses
from audit.estimators.one_run_betting import OneRunBetting
from audit.estimators.one_run_fdp import OneRunFDP
from audit.privacy import (
    GDP,
    ZCDP,
    ApproximateDP,
    ApproximateDPSide,
    PureDP,
    eps_from_rho,
    gdp_epsilon,
)

ALL = (OneRun, OneRunFDP, OneRunBetting)
FALSE = 1e-6


def evidence(values, bits, run=None, threshold=0.0):
    index = np.arange(len(values))
    run = np.zeros(len(values), int) if run is None else run
    return Evidence(
        (
            Fold(
                index[:0], None, threshold, Scores(np.asarray(values), np.asarray(bits), index, run)
            ),
        )
    )


def at_least(hits, audits):
    """Lower limit of a rate, wrong with probability ≤ 1e-6."""
    return float(betaincinv(hits, audits - hits + 1, FALSE)) if hits else 0.0


# --- golden ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "eps"),
    [
        (100, 100, 75, 0.0, 0.7022),
        (100, 100, 75, 1e-4, 0.6995),
        (1000, 100, 75, 1e-4, 0.6730),
        (100_000, 1510, 1439, 1e-5, 2.6759),
        (10_000, 10_000, 9820, 1e-5, 3.8713),
        (16, 16, 16, 0.0, 1.58032),
    ],
)
def test_references_figures(m, r, v, delta, eps):
    digits = 5 if m == 16 else 4
    assert round(one_run.epsilon(m, r, v, delta, 0.05), digits) == eps


@pytest.mark.parametrize("r", [8, 16, 100])
def test_all_right_has_a_closed_form(r):
    assert one_run.epsilon(r, r, r, 0.0, 0.05) == pytest.approx(
        -math.log(0.05 ** (-1 / r) - 1), abs=1e-8
    )


@pytest.mark.parametrize(
    ("made", "right", "mu", "eps"), [(1000, 600, 0.163850, 0.583540), (100, 95, 0.786812, 3.3233)]
)
def test_references_figures_of_f_dp(made, right, mu, eps):
    found = one_run_fdp.mu(1000, made, right, 0.05)
    assert round(found, 6) == mu
    assert gdp_epsilon(found, 1e-5) == pytest.approx(eps, abs=5e-6)


# --- oracles --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "r", "v", "delta"),
    [(12, 9, 7, 0.0), (12, 9, 7, 0.01), (30, 20, 20, 1e-3), (5, 5, 0, 0.1)],
)
def test_the_p_value_is_the_formula(m, r, v, delta):
    q = 1 / (1 + math.exp(-0.3))

    def f(x):
        return sum(math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(max(x, 0), r + 1))

    spare = max(((f(v - i) - f(v)) / i for i in range(1, v + 1)), default=0.0)
    assert one_run.p_value(0.3, m, r, v, delta) == pytest.approx(
        min(1, f(v) + 2 * m * delta * spare), rel=1e-10
    )


@pytest.mark.parametrize(
    ("m", "g", "v"), [(50, 50, 35), (50, 20, 18), (200, 100, 80), (40, 40, 40)]
)
def test_f_dp_is_the_recursion_without_shortcuts(m, g, v):
    normal = NormalDist()

    def refuted(mu, tau=0.05):
        r, h = tau * v / m, tau * (g - v) / m
        for i in range(v - 1, -1, -1):
            above = max(h, normal.cdf(normal.inv_cdf(min(r, 1 - 1e-12)) - mu))
            r, h = r + i / (g - i) * (above - h), above
        return r + h > g / m

    for mu in np.arange(0.05, 3, 0.11):
        assert one_run_fdp.refutes(mu, m, g, v, 0.05) == refuted(mu)


def test_a_gamblers_money_is_a_martingale_at_the_hardest_law(monkeypatch):
    """Exactly: over all 2^9 outcomes of guesses that are right with probability q, he has 1 in the
    mean at every look."""
    q = expit(0.7)
    mean = 0.0
    for outcome in itertools.product([True, False], repeat=9):
        right = np.array(outcome)
        mean = mean + q ** right.sum() * (1 - q) ** (~right).sum() * np.exp(
            one_run_betting.log_wealth(right, 0.7)
        )
    assert np.allclose(mean, 1, rtol=1e-12)
    assert len(mean) == 9, "looked at after every guess"


def test_the_gamblers_money_is_what_he_bets_step_by_step():
    right = np.random.default_rng(1).random(30) < 0.8
    money = np.ones(len(one_run_betting.BET_FRACTIONS))
    for hit in right:
        money *= (
            1 + one_run_betting.BET_FRACTIONS * math.exp(-0.5)
            if hit
            else 1 - one_run_betting.BET_FRACTIONS
        )
    assert one_run_betting.log_wealth(right, 0.5)[-1] == pytest.approx(
        math.log(money.mean()), rel=1e-12
    )


@pytest.mark.parametrize("make", ALL)
def test_a_bound_grows_with_right_guesses_and_knows_nothing_of_wrong_ones(make):
    bounds = [make().lower(np.arange(500) % 10 < hits, GDP()) for hits in (5, 6, 7, 8, 9, 10)]
    assert bounds[0] == 0 and np.all(np.diff(bounds) >= 0) and bounds[-1] > bounds[1]
    assert make().lower(np.zeros(500, bool), GDP()) == 0
    assert make().lower(np.zeros(0, bool), GDP()) == 0
    assert np.isfinite(make().lower(np.ones(500, bool), GDP()))


# --- a bound in one notion is one in another ------------------------------------------------------


@pytest.mark.parametrize("make", [OneRun, OneRunBetting])
def test_bounds_on_mu_and_rho_are_those_on_epsilon_at_a_small_delta(make):
    right = ideal_guesses(GDP(), 1.5, 1000)
    small = one_run.small_delta(1000, 0.1)
    eps = make().lower(right, ApproximateDP(small))
    assert gdp_epsilon(make().lower(right, GDP()), small) == pytest.approx(eps, abs=1e-9)
    assert eps_from_rho(make().lower(right, ZCDP()), small) == pytest.approx(eps, abs=1e-9)
    assert make().lower(right, PureDP()) >= eps > 0


def test_delta_costs_and_too_many_canaries_refute_nothing():
    right = np.ones(200, bool)
    for make in (OneRun, OneRunBetting):
        bounds = [make().lower(right, ApproximateDP(delta)) for delta in (0.0, 1e-5, 1e-4, 1e-3)]
        assert np.all(np.diff(bounds[1:]) < 0) and bounds[0] >= bounds[1]
        said = make()(evidence(np.ones(200), right), ApproximateDP(0.01))
        assert "may all be told by the δ" in said.warnings[0]
        assert not make()(evidence(np.ones(200), right), ApproximateDP(1e-5)).warnings


def test_f_dp_says_what_it_assumes():
    right = np.arange(1000) % 10 < 8
    made = evidence(np.ones(1000), right)
    on_mu, on_eps = (OneRunFDP()(made, notion) for notion in (GDP(), ApproximateDP(1e-5)))
    assert "assumes a Gaussian tradeoff curve" in on_mu.warnings[0]
    assert "not of a claim" in on_eps.warnings[0]
    assert on_eps.lower == pytest.approx(gdp_epsilon(on_mu.lower, 1e-5))
    for notion in (PureDP(), ZCDP(), ApproximateDP(0.0)):
        with pytest.raises(NotApplicable, match="Gaussian"):
            OneRunFDP()(made, notion)


@pytest.mark.parametrize("make", ALL)
def test_what_is_expected_is_finite_and_grows(make):
    few, many = (make().expected(GDP(), 1.0, n, n) for n in (200, 2000))
    assert 0 < few < many < 1
    assert make().expected(GDP(), 0.0, 500, 500) == 0
    assert make().expected(GDP(), 1.0, 0, 0) == 0


def test_ideal_guesses_are_as_often_right_as_a_gaussian_shift_allows():
    right = ideal_guesses(GDP(), 1.0, 10_000)
    assert right.mean() == pytest.approx(NormalDist().cdf(0.5), abs=1e-3)
    z = np.random.default_rng(0).normal(size=200_000) + 0.5
    order = np.argsort(-np.abs(z))
    # The first tenth, against 200,000 draws: 6 standard deviations are 0.012 (1e-8).
    assert right[:1000].mean() == pytest.approx((z[order] > 0)[:20_000].mean(), abs=0.012)


# --- what is read, and what is refused ------------------------------------------------------------


def test_the_surest_guess_comes_first():
    values, bits = np.array([0.1, -3.0, 2.0, -0.2]), np.array([True, True, True, False])
    assert guesses(evidence(values, bits)).tolist() == [False, True, True, True]
    assert guesses(evidence(values, bits, threshold=1.0)).tolist() == [False, True, True, False]


@pytest.mark.parametrize("make", ALL)
def test_independent_trials_are_refused(make):
    many = evidence(np.ones(10), np.ones(10, bool), run=np.arange(10))
    with pytest.raises(NotApplicable, match="one run"):
        make()(many, GDP())
    two_runs = evidence(np.ones(10), np.ones(10, bool), run=np.arange(10) // 5)
    with pytest.raises(NotApplicable, match="one run"):
        make()(two_runs, GDP())


@pytest.mark.parametrize("make", ALL)
def test_guesses_whose_threshold_the_bits_of_the_run_chose_are_refused(make):
    index = np.arange(20)
    scores = Scores(np.ones(20), index % 2 == 1, index, 0 * index)
    half = [dataclass_slice(scores, where) for where in (slice(0, 10), slice(10, 20))]
    with pytest.raises(NotApplicable, match="bits of the same run"):
        make()(Evidence((Fold(index[:0], half[0], 0.5, half[1]),)), GDP())


def dataclass_slice(scores, where):
    return Scores(scores.values[where], scores.bits[where], scores.index[where], scores.run[where])


@pytest.mark.parametrize("make", [OneRun, OneRunBetting])
def test_a_piece_of_a_notion_is_refused(make):
    with pytest.raises(NotApplicable, match="pure and approximate"):
        make()(evidence(np.ones(10), np.ones(10, bool)), ApproximateDPSide(0.01))


@pytest.mark.parametrize("make", [Betting, ClopperPearson, Curve, CurveBetting, DKW, JointBayes])
def test_estimators_for_independent_trials_refuse_one_run(make):
    bits = np.arange(100) % 2 == 1
    one = evidence(bits.astype(float), bits)
    with pytest.raises(NotApplicable, match="independent"):
        make()(one, GDP())
    index = np.arange(200)
    halves = [
        Scores(bits.astype(float), bits, index[k : k + 100], 0 * index[:100]) for k in (0, 100)
    ]
    with pytest.raises(NotApplicable, match="independent"):
        make()(Evidence((Fold(index[:0], halves[0], 0.5, halves[1]),)), GDP())


# --- how often a bound exceeds the truth ----------------------------------------------------------

AUDITS = 1_000


def responses(eps, m, audits, seed, together=1.0):
    """(audits, m) guesses about randomised responses, all blind in a share of the audits."""
    rng = np.random.default_rng(seed)
    rate = np.where(rng.random((audits, 1)) < together, expit(eps), 0.5)
    return rng.random((audits, m)) < rate


def exceeded(estimate, truth, notion, right):
    return sum(estimate.lower(each, notion) > truth for each in right)


@pytest.mark.parametrize("make", [OneRun, OneRunBetting])
@pytest.mark.parametrize("notion", [PureDP(), ApproximateDP(1e-5)])
def test_the_truth_is_exceeded_no_more_often_than_promised(make, notion):
    """Randomised response at ε = 1, the hardest law; chance of a false failure ≤ 1e-6 a case."""
    over = exceeded(make(0.1), 1.0, notion, responses(1.0, 200, AUDITS, 0))
    assert over > 0 and at_least(over, AUDITS) <= 0.1


def test_a_twin_that_does_not_pay_for_its_search_is_caught():
    """Each number of guesses at the full significance: at least one exceeds the truth far too
    often."""
    right = responses(1.0, 200, AUDITS, 0)
    twins = [OneRun(0.1, (portion,)) for portion in one_run.PORTIONS]
    over = np.any(
        [[twin.lower(each, PureDP()) > 1.0 for each in right] for twin in twins], axis=0
    ).sum()
    assert at_least(int(over), AUDITS) > 0.1


def test_a_twin_that_looks_at_a_p_value_after_every_guess_is_caught():
    """What the gambler may do, a fixed-number test may not."""
    right = responses(0.0, 200, AUDITS, 1)
    seen, made = np.cumsum(right, axis=1), np.arange(1, 201)
    p = betainc(np.maximum(seen, 1), made - seen + 1, 0.5)
    assert at_least(int(np.sum(np.any(p < 0.1, axis=1))), AUDITS) > 0.1


@pytest.mark.slow
def test_dependence_between_canaries_is_no_violation():
    """All answer at ε = 1 with probability 0.797, or none: each record is 1-GDP. False
    failure ≤ 1e-6."""
    right = responses(1.0, 1000, AUDITS, 2, together=0.797)
    for estimate, notion in (
        (OneRun(0.1), PureDP()),
        (OneRunBetting(0.1), PureDP()),
        (OneRunFDP(0.1), GDP()),
    ):
        assert at_least(exceeded(estimate, 1.0, notion, right[:300]), 300) <= 0.1


def test_a_twin_that_takes_canaries_for_independent_channels_is_caught_by_the_dependent_mixture():
    """Clopper–Pearson on the canaries as if they were runs: it rejects 1-GDP in most of the
    runs."""
    right = responses(1.0, 1000, AUDITS, 2, together=0.797)
    rate = right.mean(axis=1)
    z = 1.2816 * np.sqrt(rate * (1 - rate) / 1000)
    implied = [2 * NormalDist().inv_cdf(low) for low in rate - z]
    assert at_least(int(np.sum(np.array(implied) > 1.0)), AUDITS) > 0.5


# --- cost -----------------------------------------------------------------------------------------


def test_ten_thousand_scores_are_bet_on_within_50_ms():
    right = ideal_guesses(GDP(), 1.0, 10_000)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        OneRunBetting().lower(right, ApproximateDP(1e-5))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.05
