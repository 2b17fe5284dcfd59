"""Bounds from counts: independently checked figures, slow oracles beside fast code, and what must
hold for all counts."""

import itertools
import time

import numpy as np
import pytest
from estimators.evidence import evidence
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import bdtr, betaincc
from scipy.stats import beta as beta_law
from scipy.stats import binom

from audit.core import Counts, Evidence, NotApplicable
from audit.criteria import upper_rate
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.joint_bayes import JointBayes, joint_bayes, posterior
from audit.estimators.power import expected_bound, midpoint
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP, mu_hat

PAPER = Counts(fp=949, tn=1051, fn=743, tp=1257)
NOTIONS = (GDP(), ApproximateDP(1e-5), PureDP(), ZCDP())
PIECES = [piece for notion in NOTIONS for piece in notion.pieces()]
RECIPES = [
    *(
        (recipe, piece)
        for recipe in (JointBayes(), JointBayes(prior="uniform"))
        for piece in PIECES
    ),
    *((ClopperPearson(), notion) for notion in NOTIONS),
]


# --- golden figures, checked independently --------------------------------------------------------


@pytest.mark.parametrize(
    ("fp", "tn", "fn", "tp", "jeffreys", "uniform"),
    [
        (949, 1051, 743, 1257, 0.340501, 0.340313),
        (0, 2000, 1990, 10, 0.612042, 0.465869),
        (5, 95, 3, 97, 3.099794, 3.012205),
        (0, 2000, 2000, 0, 0, 0),
    ],
)
def test_mu_at_ten_percent(fp, tn, fn, tp, jeffreys, uniform):
    counts = Counts(fp, tn, fn, tp)
    assert joint_bayes(counts, GDP(), 0.1) == pytest.approx(jeffreys, abs=6e-7)
    assert joint_bayes(counts, GDP(), 0.1, "uniform") == pytest.approx(uniform, abs=6e-7)


@pytest.mark.parametrize(
    ("tp", "tn", "fp", "fn", "low", "high"),
    [
        (487, 1, 512, 0, 0, 6.4144),
        (2000, 2250, 250, 500, 1.98060, 2.18067),
        (100, 100, 0, 0, 4.89638, 12.1961),
    ],
)
def test_eps_at_five_and_ninetyfive_percent(tp, tn, fp, fn, low, high):
    counts = Counts(fp, tn, fn, tp)
    digits = 6e-6 if high != 6.4144 else 6e-5
    assert joint_bayes(counts, ApproximateDP(1e-5), 0.05) == pytest.approx(low, abs=digits)
    assert joint_bayes(counts, ApproximateDP(1e-5), 0.95) == pytest.approx(high, abs=digits * 10)


def test_the_published_figure_came_from_exchanged_arguments():
    """The only place that emulates the slip: G called as (FPR, μ) where (μ, FPR) is meant."""
    assert mu_hat(PAPER.fpr, PAPER.fnr) == pytest.approx(0.391846, abs=6e-7)
    rng = np.random.default_rng(0)
    fpr, fnr = rng.beta(949.5, 1051.5, 400_000), rng.beta(743.5, 1257.5, 400_000)

    grid = np.linspace(0.42, 0.43, 11)
    # beta(alpha, parameter), called the wrong way round
    mass = [np.mean(fnr >= GDP().beta(mu, fpr)) for mu in grid]
    swapped = np.interp(0.1, mass, grid)
    assert swapped == pytest.approx(0.426234, abs=2e-4)  # sd of the simulated quantile 2e-5
    assert joint_bayes(PAPER, GDP(), 0.1) < mu_hat(PAPER.fpr, PAPER.fnr) < swapped


@pytest.mark.parametrize(
    ("trials", "bound"),
    [(250, 0.310), (500, 0.352), (1000, 0.382), (2000, 0.4035), (5000, 0.4223), (50_000, 0.4445)],
)
def test_what_a_perfect_attack_is_expected_to_reach(trials, bound):
    found = JointBayes(significance=0.1).expected(GDP(), 0.45478089545, trials, trials)
    assert found == pytest.approx(bound, abs=6e-5 if bound > 0.4 else 6e-4)


# --- oracles --------------------------------------------------------------------------------------


def slow_mass(counts, notion, parameter):
    """P(FNR ≥ T(FPR)) by adaptive quadrature over the FPR itself."""
    fpr = beta_law(counts.fp + 0.5, counts.tn + 0.5)
    fnr = beta_law(counts.fn + 0.5, counts.tp + 0.5)
    points = [*fpr.ppf([1e-9, 0.01, 0.5, 0.99, 1 - 1e-9]), *notion.kinks(parameter)]
    ends = sorted({0.0, 1.0, *points})

    def integrand(f):
        return fpr.pdf(f) * fnr.sf(notion.beta(f, parameter))

    return sum(
        integrate.quad(integrand, a, b, limit=200, epsabs=1e-11)[0]
        for a, b in itertools.pairwise(ends)
    )


@pytest.mark.parametrize("notion", PIECES, ids=repr)
@pytest.mark.parametrize(
    "counts", [PAPER, Counts(5, 95, 3, 97), Counts(40, 10, 3, 5000), Counts(2, 500, 20, 12)]
)
def test_joint_bayes_equals_slow_quadrature(counts, notion):
    bound = joint_bayes(counts, notion, 0.1)
    mass = slow_mass(counts, notion, bound)
    assert mass == pytest.approx(0.1, abs=1e-7) if bound else mass >= 0.1


def test_a_wrong_prior_does_not_pass_the_oracle():
    assert abs(slow_mass(PAPER, GDP(), joint_bayes(PAPER, GDP(), 0.1, "uniform")) - 0.1) > 1e-4


def test_clopper_pearson_is_the_corner_of_exact_one_sided_limits():
    counts, significance = Counts(7, 93, 12, 188), 0.1
    fpr, fnr = (_exact_limit(k, n, significance / 2) for k, n in ((7, 100), (12, 200)))
    assert ClopperPearson(significance=significance).lower(counts, GDP()) == pytest.approx(
        mu_hat(fpr, fnr), abs=1e-9
    )


def _exact_limit(errors, n, significance):
    """The rate at which P(at most so many errors) = significance, by bisection on the binomial
    law."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if bdtr(errors, n, middle) > significance else (low, middle)
    return low


# --- coverage -------------------------------------------------------------------------------------


def exceedance(recipe, notion, fpr, fnr, trials, truth):
    """Probability that the bound exceeds the truth, exactly: the sum over all counts that can
    happen."""
    fp, fn = (
        np.arange(*binom.ppf((1e-7, 1 - 1e-7), trials, rate).astype(int)) for rate in (fpr, fnr)
    )
    weight = np.outer(binom.pmf(fp, trials, fpr), binom.pmf(fn, trials, fnr))
    over = [
        [recipe.lower(Counts(a, trials - a, b, trials - b), notion) > truth for b in fn] for a in fp
    ]
    return float(np.sum(weight * over))


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
@pytest.mark.parametrize("fpr", [0.02, 0.3])
def test_clopper_pearson_exceeds_the_truth_no_more_often_than_it_says(notion, fpr):
    fnr = float(notion.beta(fpr, 1.0))
    assert exceedance(ClopperPearson(significance=0.1), notion, fpr, fnr, 60, 1.0 + 1e-9) <= 0.1


def test_the_lower_limits_in_place_of_the_upper_ones_are_caught():
    """The broken twin. (One rectangle for two rates is careful: the right bound exceeds the truth
    in about 1 %.)"""

    class Twin(ClopperPearson):
        def lower(self, counts, notion):
            fpr, fnr = (
                1 - upper_rate(ok, bad, 0.05)
                for bad, ok in ((counts.fp, counts.tn), (counts.fn, counts.tp))
            )
            return notion.parameter(float(fpr), float(fnr))

    fnr = float(GDP().beta(0.3, 1.0))
    assert exceedance(Twin(significance=0.1), GDP(), 0.3, fnr, 60, 1.0) > 0.9
    assert exceedance(ClopperPearson(significance=0.1), GDP(), 0.3, fnr, 60, 1.0) < 0.02


@pytest.mark.parametrize(("fpr", "mu"), [(0.3, 0.4548), (0.5, 1.0), (0.3, 2.0)])
def test_joint_bayes_is_calibrated_on_a_smooth_curve(fpr, mu):
    fnr = float(GDP().beta(fpr, mu))
    # Truth measured on 200,000 draws: 9.7 % to 10.4 %. Six sd of 4,000 draws are 2.8 points: false
    # failure < 1e-6.
    assert abs(over_claims(GDP(), (fpr, fnr), mu, trials=1000, draws=4000) - 0.1) < 0.033


def over_claims(notion, rates, truth, trials, draws):
    """Share of simulated audits whose bound exceeds the truth, which is where the posterior has too
    little below it."""
    tables = np.random.default_rng(1).binomial(trials, rates, (draws, 2))
    return np.mean(
        [posterior(Counts(a, trials - a, b, trials - b), notion)(truth) < 0.1 for a, b in tables]
    )


def test_the_posterior_says_where_the_bound_is():
    assert posterior(PAPER, GDP())(joint_bayes(PAPER, GDP(), 0.1)) == pytest.approx(0.1, abs=1e-12)


def test_a_kink_makes_the_whole_curve_over_claim_and_one_line_alone_does_not():
    """Randomised response at ε = ln 3: an independent computation says 22 % for the joint bound at
    a nominal 10 %."""
    # sd at most 0.0083; six of them are 0.05: false failure < 1e-8
    whole, line = (
        over_claims(n, (0.25, 0.25), np.log(3), 500, 2500) for n in (PureDP(), PureDP().pieces()[0])
    )
    assert abs(whole - 0.22) < 0.05 and abs(line - 0.10) < 0.037


# --- what must hold for all counts ----------------------------------------------------------------

count = st.one_of(st.just(0), st.integers(0, 30), st.integers(0, 10_000_000))
inner = st.integers(5, 2000)


@pytest.mark.parametrize(("recipe", "notion"), RECIPES, ids=lambda value: repr(value))
@settings(max_examples=15, deadline=None)
@given(fp=count, tn=count, fn=count, tp=count)
def test_finite_never_nan_and_zero_without_a_class(recipe, notion, fp, tn, fn, tp):
    bound = recipe.lower(Counts(fp, tn, fn, tp), notion)
    assert np.isfinite(bound) and bound >= 0
    if fp + tn == 0 or fn + tp == 0:
        assert bound == 0


@pytest.mark.parametrize(("recipe", "notion"), RECIPES, ids=lambda value: repr(value))
def test_perfect_cells_are_finite(recipe, notion):
    for n in (1, 100, 10_000_000):
        assert 0 <= recipe.lower(Counts(0, n, 0, n), notion) < np.inf
        assert recipe.lower(Counts(n, 0, n, 0), notion) == 0
        assert np.isfinite(recipe.lower(Counts(n, 0, 0, n), notion))
        assert np.isfinite(recipe.lower(Counts(0, n, n, 0), notion))


@pytest.mark.parametrize(("recipe", "notion"), RECIPES, ids=lambda value: repr(value))
@settings(max_examples=10, deadline=None)
@given(fp=inner, tn=inner, fn=inner, tp=inner)
def test_never_above_the_plug_in_estimate(recipe, notion, fp, tn, fn, tp):
    counts = Counts(fp, tn, fn, tp)
    assert recipe.lower(counts, notion) <= notion.parameter(counts.fpr, counts.fnr) + 1e-9


@pytest.mark.parametrize(
    "recipe", [JointBayes(), JointBayes(prior="uniform"), ClopperPearson()], ids=repr
)
@settings(max_examples=25, deadline=None)
@given(fp=count, tn=count, fn=count, tp=count)
def test_symmetric_under_exchange_of_the_classes(recipe, fp, tn, fn, tp):
    for notion in (GDP(), ApproximateDP(1e-5)):
        there, back = (
            recipe.lower(c, notion) for c in (Counts(fp, tn, fn, tp), Counts(fn, tp, fp, tn))
        )
        assert there == pytest.approx(back, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("recipe", "notion"), RECIPES, ids=lambda value: repr(value))
@settings(max_examples=8, deadline=None)
@given(fp=inner, tn=inner, fn=inner, tp=inner, times=st.integers(2, 50))
def test_more_of_the_same_trials_never_lower_the_bound(recipe, notion, fp, tn, fn, tp, times):
    once, more = Counts(fp, tn, fn, tp), Counts(*(times * k for k in (fp, tn, fn, tp)))
    assert recipe.lower(more, notion) >= recipe.lower(once, notion) - 1e-9


@settings(max_examples=30, deadline=None)
@given(fp=inner, tn=inner, fn=inner, tp=inner)
def test_a_smaller_significance_gives_a_smaller_bound(fp, tn, fn, tp):
    counts = Counts(fp, tn, fn, tp)
    for recipe in (JointBayes, ClopperPearson):
        assert recipe(significance=0.01).lower(counts, GDP()) <= recipe(significance=0.1).lower(
            counts, GDP()
        )


# --- evidence -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "recipe", [JointBayes(significance=0.05), ClopperPearson(significance=0.05)]
)
def test_a_bound_says_what_it_is(recipe):
    bound = recipe(evidence(PAPER), GDP())
    assert (bound.estimator, bound.significance, bound.notion) == (recipe.name, 0.05, GDP())
    assert bound.lower == recipe.lower(PAPER, GDP())
    assert bound.kind == ("Bayesian" if recipe.name == "joint_bayes" else "finite-sample")


@pytest.mark.parametrize("recipe", [JointBayes(), ClopperPearson()])
def test_counts_of_several_folds_are_refused(recipe):
    (fold,) = evidence(PAPER).folds
    with pytest.raises(NotApplicable, match="independent trials under one attack"):
        recipe(Evidence((fold, fold)), GDP())


def test_one_side_of_a_kink_is_chosen_on_selection_trials_only():
    test, line, mirror = Counts(250, 2250, 500, 2000), *ApproximateDP(1e-5).pieces()
    below = JointBayes()(evidence(test, selection=Counts(100, 900, 200, 800)), ApproximateDP(1e-5))
    above = JointBayes()(evidence(test, selection=Counts(200, 800, 100, 900)), ApproximateDP(1e-5))
    assert below.lower == joint_bayes(test, line) > above.lower == joint_bayes(test, mirror)
    with pytest.raises(NotApplicable, match="no selection trials"):
        JointBayes()(evidence(test), ApproximateDP(1e-5))
    assert ClopperPearson()(evidence(test), ApproximateDP(1e-5)).lower > 0


# --- power ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
def test_the_midpoint_lies_on_the_curve(notion):
    for parameter in (0.1, 1.0, 5.0):
        rate = midpoint(notion, parameter)
        assert notion.beta(rate, parameter) == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize("recipe", [JointBayes(), ClopperPearson()])
@pytest.mark.parametrize("notion", NOTIONS, ids=repr)
def test_the_expected_bound_grows_to_the_truth(recipe, notion):
    bounds = [recipe.expected(notion, 1.0, n, n) for n in (0, 100, 10_000, 1_000_000)]
    assert bounds[0] == 0 and bounds == sorted(bounds) and 0.99 < bounds[-1] < 1
    assert expected_bound(recipe.lower, notion, 1.0, 100, 100) == bounds[1]


# --- speed ----------------------------------------------------------------------------------------


def test_ten_million_trials_take_no_longer_than_a_thousand():
    """A factor 40 is allowed for a noisy machine; two-dimensional quadrature would need ten
    thousand."""

    def seconds(counts):
        start = time.perf_counter()
        joint_bayes(counts, GDP())
        return time.perf_counter() - start

    small, large = Counts(300, 700, 400, 600), Counts(3_000_000, 7_000_000, 4_000_000, 6_000_000)
    assert min(seconds(large) for _ in range(5)) < 40 * min(seconds(small) for _ in range(5))


def test_very_unequal_classes_are_integrated_over_the_right_rate():
    bound = joint_bayes(Counts(3, 5, 1_000_000, 9_000_000), GDP(), 0.1)
    fpr = np.linspace(0, 1, 200_001)[1:-1]
    above = betaincc(1e6 + 0.5, 9e6 + 0.5, GDP().beta(fpr, bound))
    assert np.trapezoid(beta_law(3.5, 5.5).pdf(fpr) * above, fpr) == pytest.approx(0.1, abs=1e-5)
