"""Whole-curve bounds: the asymptotic one, its finite-sample twin, and the band; what they promise,
and broken twins."""

import time

import numpy as np
import pytest
from estimators.evidence import scores
from scipy.special import ndtr, ndtri

from audit.core import Bound, Evidence, Fold, NotApplicable, Scores
from audit.criteria import upper_rate
from audit.estimators import curve, curve_betting, dkw
from audit.estimators.curve import (
    Curve,
    calibration,
    curve_bound,
    fold_statistic,
    progressive,
    staircase,
)
from audit.estimators.curve_betting import CurveBetting, betting_bound
from audit.estimators.dkw import DKW, rates
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP, mu_hat

MU = 0.4548
NOTHING = np.array([], int)


def gaussian(rng, n, mu, m=None):
    return rng.normal(size=n), rng.normal(size=m or n) + mu


def holdout(absent, present, chosen_absent, chosen_present):
    test = scores(absent, present)
    selection = scores(chosen_absent, chosen_present, first=len(test))
    return Evidence((Fold(NOTHING, selection, 0.0, test),))


def quantiles(n, mu):
    z = ndtri((np.arange(n) + 0.5) / n)
    return z, z + mu


# --- the statistic, beside a slow and obvious version ---------------------------------------------


def slow_statistic(absent, present, mu):
    """Independently checked, word by word."""
    t = mu / 2 + np.linspace(-3, 3, 121) / max(1, mu)
    slope = np.exp(mu * t - mu**2 / 2)
    weight = slope**-0.5
    f = np.array([np.sum(weight[s >= t]) for s in present])
    g = np.array([np.sum((weight * slope)[s >= t]) for s in absent])
    largest = np.sum(weight * (ndtr(mu - t) - slope * ndtr(-t)))
    z = quantiles(4000, mu)
    ideal_f, ideal_g = (
        np.array([np.sum(w[s >= t]) for s in z[i]]).var()
        for i, w in ((1, weight), (0, weight * slope))
    )
    measured = f.var(ddof=1) / len(f) + g.var(ddof=1) / len(g)
    return f.mean() - g.mean() - largest, max(measured, ideal_f / len(f) + ideal_g / len(g))


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 4.0])
def test_the_statistic_equals_the_slow_one(mu):
    absent, present = gaussian(np.random.default_rng(0), 200, 0.7, 150)
    fast = fold_statistic((np.sort(absent), np.sort(present)), np.array([mu]))
    assert np.ravel(fast) == pytest.approx(slow_statistic(absent, present, mu), rel=2e-3)


def test_tangents_of_the_true_curve_are_centred_and_of_a_smaller_one_are_passed():
    """With endless trials S(μ) is 0 at the truth, positive below and negative above it."""
    sample = quantiles(200_000, 1.0)
    below, at, above = fold_statistic(sample, np.array([0.9, 1.0, 1.1]))[0]
    assert below > 1 > 0.01 > abs(at) and above < -1


def test_gains_of_the_bet_are_those_of_the_statistic():
    rng, mu = np.random.default_rng(1), np.array([0.2, 1.0, 2.5])
    absent, present = gaussian(rng, 300, 0.7)
    gains, variance, worst = curve_betting._gains([(absent, present)], mu)
    t, root = curve.tangents(mu, curve_betting.REACH, curve_betting.COUNT)
    for row in range(len(mu)):
        f = [np.sum((1 / root[row])[s >= t[row]]) for s in present]
        g = [np.sum(root[row][s >= t[row]]) for s in absent]
        largest = np.sum(ndtr(mu[row] - t[row]) / root[row] - ndtr(-t[row]) * root[row])
        assert gains[row] == pytest.approx(np.array(f) - g - largest)
    # paired rank by rank
    ideal = curve_betting._gains([quantiles(50_000, 1.0)], np.array([1.0]))[0][0]
    assert np.mean(ideal) == pytest.approx(0, abs=2e-3)
    assert np.all(gains.min(axis=1) >= -worst) and variance[:2] == pytest.approx(
        gains.var(axis=1)[:2], rel=0.35
    )


def test_the_larger_class_is_averaged_in_groups():
    t, root = curve.tangents(np.array([1.0]), 1.5, 61)
    values = np.random.default_rng(2).normal(size=10)
    single = curve_betting._grouped(values, t, root, 10)[0]
    grouped = curve_betting._grouped(values, t, root, 4)[0]
    assert grouped == pytest.approx(
        [single[:2].mean(), single[2:5].mean(), single[5:7].mean(), single[7:].mean()]
    )


def test_staircase_moments():
    weights, above = np.array([[1.0, 2.0, 0.5]]), np.array([[0.9, 0.5, 0.2]])
    values, masses = np.array([0, 1, 3, 3.5]), np.array([0.1, 0.4, 0.3, 0.2])
    mean, variance = staircase(above, weights)
    assert mean[0] == pytest.approx(values @ masses)
    assert variance[0] == pytest.approx(values**2 @ masses - (values @ masses) ** 2)


# --- curve: golden figures and coverage -----------------------------------------------------------


def repeated(n, mu, repetitions, significance=0.1, seed=3):
    rng = np.random.default_rng(seed)
    return np.array([curve_bound([gaussian(rng, n, mu)], significance) for _ in range(repetitions)])


@pytest.mark.parametrize(("n", "mean"), [(2000, 0.4136), (5000, 0.4286)])
def test_a_perfect_attack_reaches_the_limit(n, mean):
    """Independently checked (600 repetitions: known to ± 0.0013 at N = 2000)."""
    bounds = repeated(n, MU, 600)
    spread = np.sqrt(2 / n)
    # 5 sd of the difference of two such means: false failure < 1e-6
    tolerance = 7 * spread / np.sqrt(600)
    assert bounds.mean() == pytest.approx(mean, abs=tolerance)
    assert bounds.mean() > 0.99 * (MU - 1.2816 * spread) - 5 * spread / np.sqrt(600)
    twin = repeated(n, MU, 600, significance=0.05)  # the broken twin: two-sided
    assert twin.mean() < mean - tolerance


@pytest.mark.parametrize("mu", [0.1, MU, 1.0, 3.0])
def test_curve_exceeds_the_truth_about_as_often_as_it_says(mu):
    over = np.mean(repeated(1000, mu, 1000, seed=4) > mu)
    # truth 0.085 to 0.115; sd 0.0095, five of them on top: false failure < 1e-5 …
    assert abs(over - 0.1) < 0.055
    assert over <= 0.1 + 0.055  # … each way, < 1e-6 for over-claiming


def test_curve_is_the_same_from_either_side():
    """G_μ is its own inverse: exchanging the classes and turning the scores round changes
    nothing."""
    absent, present = gaussian(np.random.default_rng(5), 800, 1.0)
    there, back = (
        curve_bound([(absent, present)], 0.1),
        curve_bound([(1.0 - present, 1.0 - absent)], 0.1),
    )
    assert there == pytest.approx(back, abs=0.01)


def test_exchanged_classes_show_nothing():
    absent, present = gaussian(np.random.default_rng(6), 1000, 1.0)
    assert curve_bound([(absent, present)], 0.1) > 0.8
    assert curve_bound([(present, absent)], 0.1) == 0


def test_rare_errors_are_no_trouble_and_without_the_floor_they_are(monkeypatch):
    """Independently checked: with the measured variance alone 25 % at N = 250, μ = 5, 28 % at
    N = 1000, μ = 6."""
    over = {
        mu: np.mean(repeated(n, mu, 400, seed=23) > mu)
        for n, mu in ((250, 5.0), (1000, 6.0), (1000, 8.0))
    }
    assert max(over.values()) < 0.1 + 5 * 0.015  # false failure < 1e-6
    monkeypatch.setattr(curve, "fold_statistic", without_the_floor)
    assert np.mean(repeated(250, 5.0, 400, seed=23) > 5) > 0.175


def without_the_floor(sample, mu):
    excess = fold_statistic(sample, mu)[0]
    t, root = curve.tangents(mu)
    absent, present = (1 - np.searchsorted(side, t) / len(side) for side in sample)
    spread = staircase(present, 1 / root)[1] / len(sample[1]) + staircase(absent, root)[1] / len(
        sample[0]
    )
    return excess, spread


def test_separated_classes_show_what_so_many_trials_can_show():
    bounds = [
        curve_bound([gaussian(np.random.default_rng(7), n, 20.0)], 0.1) for n in (200, 2000, 20_000)
    ]
    assert 4 < bounds[0] < bounds[1] < bounds[2] < 8
    assert np.isfinite(curve_bound([(np.zeros(100), np.ones(100) * 1e6)], 0.1))


def test_degenerate_samples():
    for sample in (([], [1.0]), ([1.0], []), ([1.0], [2.0]), ([], [])):
        assert curve_bound([tuple(map(np.array, sample))], 0.1) == 0
        assert (
            betting_bound([tuple(map(np.array, sample))], 0.1) == 0
            or len(sample[0]) == len(sample[1]) == 1
        )
    assert curve_bound([], 0.1) == 0 == betting_bound([], 0.1)


def test_more_of_the_same_trials_never_lower_the_bound():
    bounds = [curve_bound([quantiles(n, MU)], 0.1) for n in (100, 400, 1600, 6400)]
    assert bounds == sorted(bounds) and bounds[0] > 0.2 and bounds[-1] < MU
    bounds = [CurveBetting().expected(GDP(), MU, n, n) for n in (100, 400, 1600, 6400)]
    assert bounds == sorted(bounds) and bounds[-1] < MU


# --- calibration ----------------------------------------------------------------------------------


def test_calibration_is_monotone_and_finds_the_normal_scale():
    rng = np.random.default_rng(8)
    warp = np.arctan  # any attack's scores are a monotone function of better ones
    scale = calibration(scores(*map(warp, gaussian(rng, 4000, 1.0))))
    z = np.linspace(-1.5, 2.5, 41)
    assert scale(warp(z)) == pytest.approx(z, abs=0.15)
    assert np.all(np.diff(scale(np.linspace(-3, 3, 1001))) >= 0)


def test_calibration_takes_atoms_infinities_and_one_class():
    binary = calibration(scores([0, 0, 0, 1], [0, 1, 1, 1]))
    assert binary(np.array([-5.0, 0, 1, 5])) == pytest.approx(
        np.repeat(binary(np.array([0.0, 1.0])), 2)
    )
    endless = calibration(scores([-np.inf, 0, 1], [0, 1, np.inf]))
    assert np.all(np.isfinite(endless(np.array([-np.inf, 0.5, np.inf]))))
    assert np.all(np.isfinite(calibration(scores([np.inf], [np.inf]))(np.array([0.0, np.inf]))))
    assert np.all(np.isfinite(calibration(scores([], [1.0, 2.0]))(np.array([1.5]))))


def test_a_thousand_selection_trials_calibrate_well_enough():
    rng, n = np.random.default_rng(9), 2000
    known, found = [], []
    for _ in range(150):
        absent, present = gaussian(rng, n, MU)
        known.append(curve_bound([(absent, present)], 0.1))
        chosen = gaussian(rng, 500, MU)
        found.append(
            Curve()(holdout(np.tanh(absent), np.tanh(present), *map(np.tanh, chosen)), GDP()).lower
        )
    loss = np.array(known) - found
    assert loss.mean() < 0.004 + 5 * loss.std() / np.sqrt(150)  # of 0.41; measured 0.001


# --- folds ----------------------------------------------------------------------------------------


def unstable(rng, blocks, size, columns, ordered):
    """Folds of an attack that learns noise: rows know nothing, scores are a fitted direction in
    many columns."""
    rows = rng.normal(size=(blocks * size, columns))
    bits = np.arange(len(rows)) % 2 == 1
    place = np.arange(len(rows)).reshape(blocks, size)
    folds = []
    for k in range(2 if ordered else 0, blocks):
        chosen = place[k - 1]
        others = (
            range(k - 1)
            if ordered
            else [j for j in range(blocks) if j not in (k, (k - 1) % blocks)]
        )
        fitted = place[list(others)].ravel()
        direction = rows[fitted][bits[fitted]].mean(axis=0) - rows[fitted][~bits[fitted]].mean(
            axis=0
        )
        parts = [(rows[where] @ direction, bits[where], where) for where in (chosen, place[k])]
        selection, test = (_scored(*part) for part in parts)
        folds.append(Fold(fitted, selection, 0.0, test))
    return tuple(folds)


def _scored(values, bits, index):
    return Scores(values, bits, index, index)


def test_order_of_use_decides_what_folds_are():
    rng = np.random.default_rng(10)
    one_way, all_ways = (unstable(rng, 5, 20, 3, ordered) for ordered in (True, False))
    assert progressive(one_way) and not progressive(all_ways)
    assert progressive(all_ways[:1]) and not progressive(one_way[::-1])
    assert not progressive((one_way[0], one_way[0]))


def null_refuted(ordered, inflation, repetitions=600):
    """How often a mechanism that leaks nothing is said to leak, at a nominal 10 %."""
    rng = np.random.default_rng(11)
    said = 0
    for _ in range(repetitions):
        folds = unstable(rng, 5, 80, 60, ordered)
        samples = [
            tuple(map(np.sort, sample)) for sample in curve.calibrated(Evidence(folds), GDP())
        ]
        said += curve.studentised(samples, inflation, np.zeros(1))[0] > -ndtri(0.1)
    return said / repetitions


def test_folds_of_an_unstable_attack_are_correlated():
    """Independently checked: K-fold with the naive variance says 18–21 % at a nominal 10 %;
    progressive 9.4–10.7 %."""
    # sd at 10 %: 0.0122; five of them, and a little for 40 trials a side: false failure < 1e-6 for
    # the right ones
    assert null_refuted(ordered=False, inflation=2.0) < 0.17
    assert null_refuted(ordered=True, inflation=1.0) < 0.17
    assert (
        null_refuted(ordered=False, inflation=1.0)
        > null_refuted(ordered=False, inflation=2.0) + 0.04
    )


def test_the_variance_follows_from_the_folds():
    rng = np.random.default_rng(12)
    folds = unstable(rng, 5, 200, 2, ordered=False)
    signal = []
    for fold in folds:
        test = _scored(fold.test.values + 3 * fold.test.bits, fold.test.bits, fold.test.index)
        selection = _scored(
            fold.selection.values + 3 * fold.selection.bits,
            fold.selection.bits,
            fold.selection.index,
        )
        signal.append(Fold(fold.fitted, selection, 0.0, test))
    bound, samples = (
        Curve()(Evidence(tuple(signal)), GDP()),
        curve.calibrated(Evidence(tuple(signal)), GDP()),
    )
    assert bound.lower == curve_bound(samples, 0.1, 2.0) < curve_bound(samples, 0.1, 1.0)
    with pytest.raises(NotApplicable, match="not K-fold"):
        CurveBetting()(Evidence(tuple(signal)), GDP())
    assert CurveBetting()(Evidence(tuple(signal[:1])), GDP()).lower > 0


@pytest.mark.parametrize("recipe", [Curve(), CurveBetting()], ids=repr)
def test_what_they_cannot_read_is_refused(recipe):
    rng = np.random.default_rng(13)
    evidence = holdout(*gaussian(rng, 50, 1.0), *gaussian(rng, 50, 1.0))
    for notion in (ApproximateDP(1e-5), PureDP(), ZCDP()):
        with pytest.raises(NotApplicable, match="GDP"):
            recipe(evidence, notion)
    (fold,) = evidence.folds
    with pytest.raises(NotApplicable, match="selection trials"):
        recipe(Evidence((Fold(NOTHING, None, 0.0, fold.test),)), GDP())
    one_run = Scores(
        fold.test.values, fold.test.bits, fold.test.index, np.zeros(len(fold.test), int)
    )
    with pytest.raises(NotApplicable, match="independent"):
        recipe(Evidence((Fold(NOTHING, fold.selection, 0.0, one_run),)), GDP())


def test_curve_warns_where_errors_are_few_and_where_scores_are_atoms():
    rng = np.random.default_rng(14)
    plenty = Curve()(holdout(*gaussian(rng, 1000, 1.0), *gaussian(rng, 500, 1.0)), GDP())
    assert plenty.warnings == () and plenty.kind == "asymptotic"
    few = Curve()(holdout(*gaussian(rng, 250, 3.0), *gaussian(rng, 500, 3.0)), GDP())
    assert "fewer than 50 errors" in few.warnings[0] and "curve_betting" in few.warnings[0]
    flips = [rng.random(1000) < rate for rate in (0.25, 0.75, 0.25, 0.75)]
    atoms = Curve()(holdout(*flips), GDP())
    # independently checked: mean 0.62
    assert "few values" in atoms.warnings[0] and 0.3 < atoms.lower < 1.349


# --- betting --------------------------------------------------------------------------------------


def laplace_mu():
    """Largest μ over the thresholds of Laplace at ε = 1."""
    t = np.linspace(0, 1, 1001)
    return float(np.max(mu_hat(np.exp(-t) / 2, np.exp(t - 1) / 2)))


@pytest.mark.parametrize(
    ("n", "m", "mu"),
    [
        (60, 60, 1.0),
        (300, 300, MU),
        (300, 300, 0.0),
        (200, 200, 3.0),
        (150, 600, MU),
        (25, 25, 2.0),
    ],
)
def test_betting_exceeds_the_truth_no_more_often_than_it_says(n, m, mu):
    """No asymptotics: also where errors are few and the classes unequal."""
    rng = np.random.default_rng(15)
    bounds = np.array([betting_bound([gaussian(rng, n, mu, m)], 0.1, 0.7 * mu) for _ in range(500)])
    assert np.mean(bounds > mu) < 0.1 + 5 * 0.0134  # sd 0.0134: false failure < 1e-6


def test_betting_catches_a_larger_leak_and_the_test_a_twin_that_forgets_half_of_what_is_allowed(
    monkeypatch,
):
    rng = np.random.default_rng(16)
    leaky, correct = ([gaussian(rng, 500, mu) for _ in range(60)] for mu in (2 * MU, MU))
    assert np.mean([betting_bound([s], 0.1) > MU for s in leaky]) > 0.9
    honest = curve_betting._gains

    def twin(samples, mu):
        gains, variance, worst = honest(samples, mu)
        return gains + 0.1 * worst[:, None], variance, worst

    monkeypatch.setattr(curve_betting, "_gains", twin)
    assert np.mean([betting_bound([s], 0.1) > MU for s in correct]) > 0.5


@pytest.mark.parametrize(("n", "least"), [(2000, 0.985), (5000, 0.992)])
def test_betting_is_almost_as_good_as_the_limit(n, least):
    rng = np.random.default_rng(17)
    bounds = [betting_bound([gaussian(rng, n, MU)], 0.1, 0.3) for _ in range(60)]
    spread = np.sqrt(2 / n)
    # measured 0.4104 of 0.4143 at N = 2000; five sd of the mean
    assert np.mean(bounds) > least * (MU - 1.2816 * spread) - 5 * spread / np.sqrt(60)
    assert np.mean(bounds) < MU - 1.2816 * spread + 5 * spread / np.sqrt(60)


def test_heavy_tails_and_laplace_are_no_gaussian_and_no_trouble():
    rng, n, truth = np.random.default_rng(18), 400, laplace_mu()
    over = {"curve": 0, "curve_betting": 0, "dkw": 0}
    for _ in range(200):
        parts = [
            rng.laplace(size=n),
            rng.laplace(size=n) + 1,
            rng.laplace(size=n),
            rng.laplace(size=n) + 1,
        ]
        evidence = holdout(*(np.sinh(part) for part in parts))
        for recipe in (Curve(), CurveBetting(), DKW()):
            over[recipe.name] += recipe(evidence, GDP()).lower > truth
    assert max(over.values()) < 200 * 0.1 + 5 * np.sqrt(200 * 0.09)  # false failure < 1e-6


# --- DKW ------------------------------------------------------------------------------------------


def test_rates_equal_counting():
    sample = scores([0.1, 0.5, 0.5, 2.0], [0.5, 1.0, np.inf])
    tables = [sample.count(t) for t in (*sorted(set(sample.values)), np.nan)]
    fpr, fnr = rates(sample)
    assert fpr.tolist() == [c.fpr for c in tables] and fnr.tolist() == [c.fnr for c in tables]


def dkw_exceeds(recipe, mu, repetitions=1500, n=200):
    rng = np.random.default_rng(19)
    samples = (scores(*gaussian(rng, n, mu)) for _ in range(repetitions))
    return np.mean(
        [recipe(Evidence((Fold(NOTHING, None, 0.0, s),)), GDP()).lower > mu for s in samples]
    )


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_dkw_exceeds_the_truth_no_more_often_than_it_says(mu):
    assert dkw_exceeds(DKW(significance=0.1), mu) < 0.1 + 5 * 0.0078  # false failure < 1e-6


def test_the_best_threshold_without_paying_for_it_over_claims():
    """The broken twin: limits that are right at one threshold (z/√2 on each side), the best of all
    quoted."""
    tail = float(ndtr(-1.2816 / np.sqrt(2)))

    def twin(evidence, notion):
        s = evidence.folds[0].test
        sides = zip(rates(s), (len(s.absent), len(s.present)), strict=True)
        upper = [upper_rate(rate * n, (1 - rate) * n, tail) for rate, n in sides]
        return Bound("twin", notion, float(np.max(notion.parameter(*upper))), 0.1, "finite-sample")

    assert dkw_exceeds(twin, 0.0, 400) > 0.25


def band_fails(band, repetitions=600, n=150):
    rng, fails = np.random.default_rng(20), 0
    for _ in range(repetitions):
        alpha, lower, upper = band(
            Evidence((Fold(NOTHING, None, 0.0, scores(*gaussian(rng, n, 1.0))),))
        )
        truth = GDP().beta(alpha, 1.0)
        fails += bool(np.any((truth < lower - 1e-12) | (truth > upper + 1e-12)))
    return fails / repetitions


def test_the_band_holds_everywhere_at_once():
    assert band_fails(DKW(significance=0.1).band) < 0.1 + 5 * 0.0123  # false failure < 1e-6


def test_a_band_that_is_exchanged_or_too_narrow_is_caught(monkeypatch):
    def exchanged(evidence):
        alpha, lower, upper = DKW(significance=0.1).band(evidence)
        return alpha, upper, lower

    assert band_fails(exchanged, 20) > 0.9
    honest = dkw._margin
    monkeypatch.setattr(dkw, "_margin", lambda n, significance: honest(n, significance) / 3)
    assert band_fails(DKW(significance=0.1).band) > 0.2


def test_the_band_is_ordered_and_needs_one_attack():
    evidence = Evidence((Fold(NOTHING, None, 0.0, scores(*quantiles(500, 1.0))),))
    alpha, lower, upper = DKW().band(evidence, points=51)
    assert (
        len(alpha) == 51
        and np.all(lower <= upper)
        and np.all(np.diff(upper) <= 0)
        and np.all(np.diff(lower) <= 0)
    )
    with pytest.raises(NotApplicable):
        DKW().band(Evidence(evidence.folds * 2))


@pytest.mark.parametrize("notion", [GDP(), ApproximateDP(1e-5), PureDP(), ZCDP()], ids=repr)
def test_dkw_reads_every_notion(notion):
    evidence = Evidence((Fold(NOTHING, None, 0.0, scores(*quantiles(2000, 2.0))),))
    bound, truth = DKW()(evidence, notion), notion.parameter(ndtr(-1.0), ndtr(-1.0))
    assert 0.5 * truth < bound.lower and bound.kind == "finite-sample"
    assert DKW().expected(notion, 1.0, 10**6, 10**6) == pytest.approx(1.0, abs=0.05)
    assert DKW()(Evidence((Fold(NOTHING, None, 0.0, scores([1.0, 2.0], [])),)), notion).lower == 0


# --- all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", [Curve(), CurveBetting(), DKW()], ids=repr)
def test_expected_is_about_what_a_perfect_attack_gets(recipe):
    rng, n = np.random.default_rng(21), 1000
    bounds = [
        recipe(holdout(*gaussian(rng, n, 1.0), *gaussian(rng, 500, 1.0)), GDP()).lower
        for _ in range(60)
    ]
    assert recipe.expected(GDP(), 1.0, n, n) == pytest.approx(np.mean(bounds), abs=0.07)
    assert recipe.expected(GDP(), 1.0, 0, 10) == 0


@pytest.mark.parametrize("recipe", [Curve(), CurveBetting(), DKW()], ids=repr)
def test_ten_thousand_scores_take_well_under_a_second(recipe):
    rng = np.random.default_rng(22)
    evidence = holdout(*gaussian(rng, 5000, MU), *gaussian(rng, 1000, MU))

    def seconds():
        start = time.perf_counter()
        recipe(evidence, GDP())
        return time.perf_counter() - start

    # measured: 3, 26 and 1 ms; the benchmark holds it to 100 ms
    assert min(seconds() for _ in range(3)) < 0.5


@pytest.mark.parametrize("recipe", [Curve, CurveBetting, DKW])
@pytest.mark.parametrize("significance", [0.0, 0.5, 1.0])
def test_significance_is_a_small_probability(recipe, significance):
    with pytest.raises(ValueError, match="significance"):
        recipe(significance=significance)
