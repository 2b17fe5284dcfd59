"""The exact bound: brute force on small tables, figures of larger ones, its region, its folds, and
broken twins."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from estimators.evidence import evidence, scores
from scipy.special import gammaln, ndtr, xlog1py, xlogy

from audit.core import Counts, Evidence, Fold, NotApplicable
from audit.estimators import exact, half_counts
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.exact import Exact
from audit.estimators.folds import Weighted
from audit.estimators.power import detectable, midpoint, power, trials_needed
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP

NOTIONS = (GDP(), ApproximateDP(0.01), PureDP(), ZCDP())
SMALL = [((7, 7), 0.1), ((12, 12), 0.01), ((8, 20), 0.1), ((8, 20), 0.05)]


def table(fp, fn, absent, present):
    return Counts(fp, absent - fp, fn, present - fn)


def bounds(estimate, notion, absent, present):
    """(n₀ + 1, n₁ + 1) the bound of every table."""
    found = np.zeros((absent + 1, present + 1))
    for fp, fn in itertools.product(range(absent + 1), range(present + 1)):
        found[fp, fn] = estimate.lower(table(fp, fn, absent, present), notion)
    return found


def binomial(n, rate):
    """(m, n + 1) probabilities at rates (m,): written down anew, not the code under test."""
    k = np.arange(n + 1)
    rate = np.asarray(rate, float)[:, None]
    return np.exp(
        gammaln(n + 1)
        - gammaln(k + 1)
        - gammaln(n - k + 1)
        + xlogy(k, rate)
        + xlog1py(n - k, -rate)
    )


def curve(notion, parameter, points=801):
    fpr = np.unique(
        np.concatenate([ndtr(np.linspace(-6, 6, points)), notion.kinks(parameter), [1e-12]])
    )
    return fpr, np.asarray(notion.beta(fpr, parameter))


def worst_rate(found, notion):
    """The largest P(bound > truth) over truths just below each value that the bound takes, and over
    their curves."""
    worst, (absent, present) = 0.0, (n - 1 for n in found.shape)
    for value in np.unique(found[found > 0]):
        truth = value * (1 - 1e-9)
        fpr, fnr = curve(notion, truth)
        chance = np.einsum(
            "ak,kl,al->a",
            binomial(absent, fpr),
            (found > truth).astype(float),
            binomial(present, fnr),
        )
        worst = max(worst, float(chance.max()))
    return worst


@pytest.mark.parametrize("notion", NOTIONS, ids=lambda each: each.name)
@pytest.mark.parametrize(("sides", "significance"), SMALL)
def test_every_small_table_holds_its_level_falls_in_errors_and_beats_clopper_pearson(
    sides, significance, notion
):
    found = bounds(Exact(significance), notion, *sides)
    rate = worst_rate(found, notion)
    assert rate <= significance  # exact sums, nothing is drawn
    # and the level is used
    assert rate >= 0.9 * significance or (sides, significance) == ((12, 12), 0.01)
    assert np.all(np.diff(found, axis=0) <= 0) and np.all(np.diff(found, axis=1) <= 0)
    other = bounds(ClopperPearson(significance=significance), notion, *sides)
    assert np.all(found[other > 0] >= other[other > 0])


def test_without_the_half_or_with_a_region_of_one_table_less_the_level_is_broken(monkeypatch):
    right = exact._at_least

    def smaller(notion, parameter, sides, level):
        return right(notion, parameter, sides, level) - 1

    exact._lower.cache_clear()
    monkeypatch.setattr(exact, "_at_least", smaller)
    try:
        assert worst_rate(bounds(Exact(0.1), GDP(), 7, 7), GDP()) > 0.1
    finally:
        exact._lower.cache_clear()


@pytest.mark.parametrize("notion", NOTIONS, ids=lambda each: each.name)
@pytest.mark.parametrize(
    "estimate", [Exact(0.05), ClopperPearson(significance=0.05)], ids=lambda each: each.name
)
def test_a_region_is_where_the_bound_is_above_the_claim(estimate, notion):
    for (absent, present), rate in (((8, 20), 0.3), ((12, 12), 0.42)):
        claim = float(notion.parameter(rate, rate))
        above = bounds(estimate, notion, absent, present) > claim
        region = estimate.region(notion, claim, absent, present)
        mine = [[region.contains(fp, fn) for fn in range(present + 1)] for fp in range(absent + 1)]
        assert above.any() and np.array_equal(above, mine)
        fpr, fnr = 0.2, 0.1
        chance = float((binomial(absent, [fpr]) @ above @ binomial(present, [fnr]).T)[0, 0])
        assert region.probability(fpr, fnr) == pytest.approx(chance, rel=1e-9)


def test_the_order_is_the_likelihood_bound_of_half_counts():
    """T by its definition: the c at which the least distance from the curve is κ, by a dense
    scan."""
    level = half_counts.kappa(0.05)
    for notion, (fp, fn, absent, present) in itertools.product(
        NOTIONS, [(3, 5, 40, 60), (0, 20, 50, 50)]
    ):
        bound = half_counts.likelihood_bound(fp, fn, absent, present, notion, level)
        fpr, fnr = curve(notion, bound, 20001)
        inside = (fpr > 0) & (fnr > 0) & (fpr < 1) & (fnr < 1)
        rates = (fp + 0.5) / (absent + 1), (fn + 0.5) / (present + 1)
        parts = [
            half_counts.entropy(x, side[inside]) for x, side in zip(rates, (fpr, fnr), strict=True)
        ]
        distance = (absent + 1) * parts[0] + (present + 1) * parts[1]
        assert distance.min() == pytest.approx(level, rel=1e-5)
        largest = half_counts.frontier(notion, bound, absent, present, level, np.array([fp]))
        assert largest[0] == pytest.approx(fn, abs=2e-3)


def test_a_frontier_whose_rates_differ_in_their_last_bit_is_one():
    """At this claim two points of the curve lead to rates of the same square root (seen in the
    coverage bench)."""
    notion, claim, level = ApproximateDP(delta=0.01), 0.08056732677589473, 0.821187207574908
    largest = half_counts.frontier(notion, claim, 250, 250, level, np.arange(251))
    there = largest[largest >= 0]
    assert len(there) > 100 and np.all(np.diff(there) < 0)


@pytest.mark.parametrize("notion", NOTIONS, ids=lambda each: each.name)
def test_extreme_counts_have_a_finite_bound(notion):
    estimate = Exact(0.01)
    for absent, present in ((10, 10), (1000, 10), (10**5, 10**5)):
        for fp, fn in ((0, 0), (absent, 0), (0, present), (absent, present), (0, present // 2)):
            found = estimate.lower(table(fp, fn, absent, present), notion)
            assert 0 <= found < math.inf
            assert (fp < absent and fn < present) or found == 0
    assert (
        estimate.lower(Counts(0, 0, 0, 10), notion)
        == estimate.lower(Counts(0, 10, 0, 0), notion)
        == 0
    )
    assert len(estimate.region(notion, 50.0, 100, 100).largest_fn) == 0
    assert len(estimate.region(notion, math.inf, 100, 100).largest_fn) == 0


def middle(notion, parameter):
    return (midpoint(notion, parameter),) * 2


GAUSSIAN = (float(ndtr(-0.4548)),) * 2
LAPLACE = (0.5 * math.exp(-1.25), 0.5)


@pytest.mark.parametrize(
    ("notion", "claim", "rates", "sides", "reached"),
    [
        (GDP(), 0.4548, middle(GDP(), 0.5685), (2508, 2508), 0.80),
        (GDP(), 1.0, middle(GDP(), 1.25), (578, 578), 0.80),
        (GDP(), 2.0, middle(GDP(), 2.5), (212, 212), 0.80),
        (GDP(), 3.0, middle(GDP(), 3.75), (185, 185), 0.80),
        (PureDP(), 1.0, middle(PureDP(), 1.25), (471, 471), 0.80),
        (PureDP(), 1.0, LAPLACE, (1160, 1160), 0.80),
        (ZCDP(), 0.1034, GAUSSIAN, (297, 297), 0.80),
        (GDP(), 0.4548, middle(GDP(), 0.5685), (1570, 6280), 0.78),
        (GDP(), 0.4548, middle(GDP(), 0.5685), (6280, 1570), 0.78),
    ],
)
def test_power_at_one_per_cent(notion, claim, rates, sides, reached):
    assert power(Exact(0.01), notion, claim, *rates, *sides) == pytest.approx(reached, abs=0.0075)


@pytest.mark.parametrize(
    ("claim", "trials", "least"),
    [(0.4548, 250, 0.8183), (0.4548, 2000, 0.5825), (1.0, 800, 1.2118), (3.0, 200, 3.705)],
)
def test_detectable(claim, trials, least):
    assert detectable(Exact(0.01), GDP(), claim, trials, trials) == pytest.approx(least, abs=6e-4)
    assert detectable(Exact(0.01), GDP(), claim, trials, trials, 0.5) == pytest.approx(
        2 * least, abs=2e-3
    )


def test_trials_needed():
    assert trials_needed(Exact(0.01), GDP(), 0.4548) == pytest.approx(2508, rel=0.01)
    assert trials_needed(ClopperPearson(significance=0.01), GDP(), 0.4548) == pytest.approx(
        5085, rel=0.01
    )
    assert trials_needed(
        Exact(0.01), PureDP(), 1.0, point=lambda e: (0.5 * math.exp(-e), 0.5)
    ) == pytest.approx(1160, rel=0.01)
    assert trials_needed(Exact(0.01), GDP(), 0.4548, efficiency=0.8) == math.inf
    assert (
        trials_needed(Exact(0.01), GDP(), 0.0)
        == trials_needed(Exact(0.01), GDP(), math.inf)
        == math.inf
    )


# --- folds ----------------------------------------------------------------------------------------


def adversary(total, test, notion, parameter):
    """The best game against a weighted sum, by plain sums over every count and 4,001 points of the
    curve."""
    fpr, fnr = curve(notion, parameter, 4001)
    value = np.ones(total + 1)
    for absent, present in reversed(test.folds):
        law = np.einsum("ai,aj->aij", binomial(absent, fpr), binomial(present, fnr))
        errors = test.absent * np.arange(absent + 1)[:, None] + test.present * np.arange(
            present + 1
        )
        left = np.arange(total + 1)[:, None, None] - errors
        after = np.where(left >= 0, value[np.maximum(left, 0)], 0.0)
        value = np.einsum("aij,uij->au", law, after).max(axis=0)
    return value[total]


@pytest.mark.parametrize(
    ("notion", "parameter", "weights", "folds", "total"),
    [
        (GDP(), 0.4548, (1, 1), ((5, 5),) * 4, 10),
        (GDP(), 0.4548, (1, 1), ((6, 4), (3, 8)), 5),
        (PureDP(), 1.0, (3, 1), ((6, 6),) * 3, 10),
        (ZCDP(), 0.3, (1, 2), ((5, 5),) * 2, 5),
    ],
)
def test_folds_hold_against_the_worst_adversary(notion, parameter, weights, folds, total):
    test = Weighted(*weights, folds)
    worst = adversary(total, test, notion, parameter)
    found = test.p_value(total, notion, parameter)
    assert worst <= found <= 1.005 * worst
    one = Weighted(*weights, (tuple(sum(side) for side in zip(*folds, strict=True)),))
    assert one.p_value(total, notion, parameter) <= found  # an adversary who chooses once has less


def followed(counts, selections):
    """Evidence of folds that follow each other, each with a selection of its own."""
    folds, first = [], 0
    for test, chosen in zip(counts, selections, strict=True):
        parts = []
        for seen in (chosen, test):
            absent, present = (
                [1] * a + [0] * b for a, b in ((seen.fp, seen.tn), (seen.tp, seen.fn))
            )
            parts.append(scores(absent, present, first))
            first += len(parts[-1])
        folds.append(Fold(np.array([], int), parts[0], 0.5, parts[1]))
    return Evidence(tuple(folds))


def test_folds_that_follow_each_other_have_power():
    """GDP 0.4548, four folds of 627 a side, at 1 %: power 0.80 where the truth is 1.25 times that.

    One error more would be power 0.81, as a coarse grid of the curve allows, and exceed the level.
    """
    test = Weighted(1, 1, ((627, 627),) * 4)
    most, least = 1880, 2060
    while least - most > 1:
        total = (most + least) // 2
        most, least = (
            (total, least) if test.p_value(total, GDP(), 0.4548) <= 0.01 else (most, total)
        )
    rate = float(ndtr(-0.4548 * 1.25 / 2))
    reached = float(binomial(8 * 627, [rate])[0, : most + 1].sum())
    assert reached == pytest.approx(0.7976, abs=1e-3)
    middle = float(ndtr(-0.4548 / 2))
    allowed = binomial(8 * 627, [middle])[0].cumsum()[[most, most + 1]]
    assert allowed[0] < 0.01 < allowed[1]


def test_folds_that_follow_each_other_have_a_bound():
    seen = Counts(240, 387, 240, 387)
    found = Exact(0.01)(followed([seen] * 4, [Counts(100, 160, 100, 160)] * 4), GDP())
    pooled = Exact(0.01).lower(Counts(960, 1548, 960, 1548), GDP())
    assert found.kind == "finite-sample" and 0.9 * pooled < found.lower <= pooled * 1.001
    nothing = Counts(60, 60, 60, 60)
    assert Exact(0.1)(followed([nothing] * 2, [nothing] * 2), GDP()).lower == 0


def test_what_is_not_binomial_is_refused():
    whole = evidence(Counts(2, 8, 2, 8))
    (fold,) = whole.folds
    repeated = dataclasses.replace(fold.test, run=np.zeros(len(fold.test), int))
    chosen = scores([0, 1], [0, 1], 100)
    kfold = tuple(
        Fold(fitted, chosen, 0.5, scores([0, 1] * 5, [0, 1] * 5, first))
        for fitted, first in ((np.arange(20, 40), 0), (np.arange(0, 20), 20))
    )
    for refused in (
        Evidence(whole.folds, stopped=True),
        Evidence((dataclasses.replace(fold, test=repeated),)),
        Evidence(kfold),
        Evidence(followed([Counts(1, 3, 1, 3)] * 2, [Counts(1, 3, 1, 3)] * 2).folds, stopped=True),
    ):
        with pytest.raises(NotApplicable):
            Exact()(refused, GDP())
