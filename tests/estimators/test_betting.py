"""The bet: what it promises at every moment, what it finds, and broken twins."""

import functools
import math
import time

import numpy as np
import pytest
from estimators.evidence import evidence, scores
from hypothesis import example, given
from hypothesis import strategies as st

from audit.core import Counts, Evidence, Fold, NotApplicable
from audit.estimators import betting
from audit.estimators.betting import Betting, PairedCalls, log_wealth, parameters, tangent, wealth
from audit.estimators.clopper_pearson import ClopperPearson
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP

MU = 0.4548
NOTHING = np.array([], int)
NOTIONS = [GDP(), ZCDP(), ApproximateDP(0.01), PureDP()]
IDS = [notion.name for notion in NOTIONS]


def pairs(rng, n, tpr, fpr, known=200, guess=None):
    """Pairs of one fold whose selection suggested ``guess``, the truth if None."""
    said = rng.random((2, n)) < [[tpr], [fpr]]
    return PairedCalls(said[0], said[1], *(guess or (tpr, fpr)), known)


def fold(rng, mu, n, first=0, fitted=NOTHING, known=400):
    chosen = scores(rng.normal(size=known), rng.normal(size=known) + mu, first)
    test = scores(rng.normal(size=n), rng.normal(size=n) + mu, first + 2 * known)
    return Fold(fitted, chosen, mu / 2, test)


# --- beside a slow and obvious version ------------------------------------------------------------


def slow_wealth(rounds, notion, parameter):
    """Each stake's money, pair by pair; tangents by a fine grid of the curve."""
    piece_money = []
    for piece in notion.pieces():
        alpha = np.linspace(0, 1, 200_001)
        beta = piece.beta(alpha, parameter)
        after, money = [], 1.0
        for each in rounds:
            near = each.fpr * 1e-3 if each.fpr < 0.5 else (1 - each.fpr) * 1e-3
            a, b = piece.beta(np.array([each.fpr - near, each.fpr + near]), parameter)
            slope = (a - b) / (2 * near)
            most = 1 - np.min(beta + slope * alpha)
            kinds = [(0, 0, (1 - each.tpr) * (1 - each.fpr)), (1, 0, each.tpr * (1 - each.fpr))]
            kinds += [(0, 1, (1 - each.tpr) * each.fpr), (1, 1, each.tpr * each.fpr)]
            stakes = [share / (slope + most) for share in betting.BET_FRACTIONS]
            shares = [
                math.exp(
                    each.known
                    * sum(
                        chance * math.log(1 + stake * (x - slope * y - most))
                        for x, y, chance in kinds
                    )
                )
                for stake in stakes
            ]
            shares = [money * share / sum(shares) for share in shares]
            for x, y in zip(each.present, each.absent, strict=True):
                shares = [
                    s * (1 + stake * (x - slope * y - most))
                    for s, stake in zip(shares, stakes, strict=True)
                ]
                after.append(sum(shares))
            money = sum(shares)
        piece_money.append(after)
    return np.log(np.mean(piece_money, axis=0))


@pytest.mark.parametrize("notion", NOTIONS, ids=IDS)
@pytest.mark.parametrize("parameter", [0.0, 0.3, 1.2])
def test_the_wealth_equals_the_slow_one(notion, parameter):
    rng = np.random.default_rng(0)
    rounds = [pairs(rng, 60, 0.6, 0.35), pairs(rng, 80, 0.7, 0.3, known=300)]
    fast = log_wealth(rounds, notion, np.array([parameter]))[0]
    assert len(fast) == 140 and fast == pytest.approx(
        slow_wealth(rounds, notion, parameter), abs=2e-4
    )


def test_fewer_looks_see_the_same_course():
    rounds = [pairs(np.random.default_rng(1), 1003, 0.6, 0.4)]
    every, some = (log_wealth(rounds, GDP(), np.array([0.2]), looks)[0] for looks in (None, 10))
    assert (
        np.allclose(some, every[[99, 199, 299, 399, 499, 599, 699, 799, 899, 999, 1002]])
        and len(some) == 11
    )


@pytest.mark.parametrize("notion", NOTIONS, ids=IDS)
@given(st.floats(0, 6), st.floats(0.001, 0.999))
@example(2e-29, 0.5)  # a ρ whose curve is random guessing to the last bits
@example(2e-25, 0.5)
def test_no_allowed_point_makes_the_game_favourable(notion, parameter, fpr):
    for piece in notion.pieces():
        slope, most = tangent(functools.partial(piece.beta, parameter=np.array([parameter])), fpr)
        alpha = np.concatenate(
            [np.linspace(0, 1, 501), fpr + np.linspace(-1, 1, 101) * min(fpr, 1 - fpr) / 300]
        )
        # the best that the piece allows at each fpr has an expectation of at most 0
        gain = 1 - piece.beta(alpha, parameter) - slope * alpha - most
        # and little is given away for that
        assert -1e-3 < np.max(gain) <= 0 and slope[0] >= 0 and most[0] > 0


def test_an_intercept_read_off_the_curve_at_a_kink_is_caught():
    """The broken twin: c = 1 − β(f) − κf with a slope from a chord across the kink of (ε, 0)-DP."""
    notion, eps = PureDP(), 1.0
    (kink,) = notion.kinks(eps)
    a, b = notion.beta(np.array([kink * 1.001, kink * 0.9995]), eps)
    slope, at = (b - a) / (kink * 0.0015), kink * 1.001
    assert 1 - notion.beta(kink, eps) - slope * kink > 1 - notion.beta(at, eps) - slope * at + 1e-6
    safe, most = tangent(lambda alpha: notion.beta(alpha, np.array([eps])), kink)
    assert 1 - notion.beta(kink, eps) - safe[0] * kink <= most[0]


# --- what it promises -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("notion", "parameter", "tpr", "fpr"),
    [
        (GDP(), 1.0, 0.6914625, 0.3085375),
        (GDP(), 1.0, 0.5, 0.1586553),
        (GDP(), 0.0, 0.4, 0.4),
        (PureDP(), 1.0, 0.7310586, 0.2689414),
        (ApproximateDP(0.01), 1.0, 0.01 + math.e * 0.2, 0.2),
    ],
)
def test_the_truth_is_refuted_at_any_time_no_more_often_than_nominal(notion, parameter, tpr, fpr):
    """1,000 courses of 500 pairs at a nominal 10 %, at points on the curve: 152 or more has a
    chance below 1e-6.

    Measured: about 20. The selection was lucky, so that the gambler is bold. The broken twin, who
    claims so for a parameter that is smaller by 0.35, is caught.
    """
    rng = np.random.default_rng(3)
    rounds = [pairs(rng, 500, tpr, fpr, 100, (min(tpr + 0.05, 0.99), fpr)) for _ in range(1000)]
    rich = [
        log_wealth([each], notion, np.array([parameter])).max() >= math.log(10) for each in rounds
    ]
    assert sum(rich) < 152
    if parameter > 0:
        smaller = np.array([parameter - 0.35])
        wrong = [log_wealth([each], notion, smaller).max() >= math.log(10) for each in rounds]
        assert sum(wrong) >= 152


def test_a_stake_that_saw_the_pairs_is_caught():
    """The broken twin whose selection is the test itself: at μ = 0 and a nominal 10 %, 1,000
    courses of 400 pairs."""
    rng, rich = np.random.default_rng(4), 0
    for _ in range(1000):
        absent, present = rng.normal(size=(2, 400))
        places = np.linspace(-1.5, 1.5, 41)
        best = places[np.argmax([np.mean(present >= t) - np.mean(absent >= t) for t in places])]
        seen = PairedCalls(
            present >= best, absent >= best, np.mean(present >= best), np.mean(absent >= best), 400
        )
        rich += log_wealth([seen], GDP(), np.array([0.0])).max() >= math.log(10)
    assert rich >= 152


def test_bounds_exceed_the_truth_no_more_often_than_nominal():
    """400 audits of 600 pairs at a nominal 10 %: 72 or more has a chance below 1e-6."""
    rng = np.random.default_rng(5)
    recipe = Betting(significance=0.1)
    found = [recipe(Evidence((fold(rng, 1.0, 600),)), GDP()).lower for _ in range(400)]
    assert sum(lower > 1.0 for lower in found) < 72


# --- what it finds --------------------------------------------------------------------------------


def test_half_the_noise_is_found_after_a_few_hundred_pairs():
    """At 1 %: measured median 167 pairs, mean 184, sd 102. A mean of 100 has a sd of 10: 235 is 5
    sd above."""
    rng, needed = np.random.default_rng(6), []
    for _ in range(100):
        course = wealth([fold(rng, 2 * MU, 3000, known=200)], GDP(), MU)
        needed.append(
            int(np.argmax(course >= math.log(100))) if course.max() >= math.log(100) else 3000
        )
    assert np.mean(needed) < 235


def test_holding_at_any_time_costs_nothing_beside_clopper_pearson():
    """N = 2000, nominal 10 %: means 0.3626 and 0.3616 of 200 audits, sd of a difference
    0.020; −0.016 is 6 sd of 50."""
    rng = np.random.default_rng(7)
    found = [Evidence((fold(rng, MU, 2000, known=1000),)) for _ in range(50)]
    bets, counts = (
        np.mean([recipe(each, GDP()).lower for each in found])
        for recipe in (Betting(), ClopperPearson())
    )
    assert bets > counts - 0.016


@pytest.mark.parametrize("notion", NOTIONS, ids=IDS)
def test_bounds_are_finite_for_any_counts(notion):
    for counts in (
        Counts(0, 200, 0, 200),
        Counts(200, 0, 200, 0),
        Counts(0, 200, 200, 0),
        Counts(5, 0, 3, 4),
    ):
        bound = Betting()(evidence(counts, Counts(0, 100, 0, 100)), notion)
        assert 0 <= bound.lower < math.inf and bound.anytime and bound.kind == "finite-sample"
    assert Betting()(evidence(Counts(0, 200, 0, 200), Counts(0, 100, 0, 100)), notion).lower > 0
    assert Betting()(evidence(Counts(0, 0, 3, 4), Counts(0, 100, 0, 100)), notion).lower == 0


@pytest.mark.parametrize(
    ("notion", "parameter"), [(GDP(), MU), (PureDP(), 1.0), (ApproximateDP(0.01), 1.0)]
)
def test_what_is_expected_is_a_little_less_than_the_truth(notion, parameter):
    few, many = (Betting().expected(notion, parameter, n, n) for n in (500, 50_000))
    assert 0 < few < many < parameter and many > 0.9 * parameter
    assert Betting().expected(notion, parameter, 0, 10) == 0


@pytest.mark.parametrize("notion", NOTIONS, ids=IDS)
def test_the_grid_is_fixed_and_ascends_from_nothing(notion):
    grid = parameters(notion)
    assert (
        grid[0] == 0 and np.all(np.diff(grid) > 0) and np.isfinite(grid).all() and len(grid) > 400
    )


def test_a_million_pairs_take_no_more_than_a_second():
    """μ is 0.4551 there; measured 0.448, sd 0.0024: 5 sd are 0.012."""
    rounds = (pairs(np.random.default_rng(8), 1_000_000, 0.59, 0.41, 1000),)
    start = time.perf_counter()
    lower = Betting()._lower(rounds, GDP())
    assert time.perf_counter() - start < 2 and lower == pytest.approx(0.448, abs=0.012)


# --- what it refuses ------------------------------------------------------------------------------


def test_evidence_that_does_not_allow_a_bet_is_refused():
    rng = np.random.default_rng(9)
    one = fold(rng, 1.0, 50)
    later = fold(rng, 1.0, 50, first=2000)
    assert Betting()(Evidence((one, later), stopped=True), GDP()).lower >= 0
    with pytest.raises(NotApplicable, match="selection trials"):
        Betting()(Evidence((Fold(NOTHING, None, 0.0, one.test),)), GDP())
    with pytest.raises(NotApplicable, match="each tested once"):
        Betting()(Evidence((one, one)), GDP())
    with pytest.raises(NotApplicable, match="not K-fold"):
        Betting()(Evidence((Fold(later.test.index, one.selection, 0.0, one.test), later)), GDP())
