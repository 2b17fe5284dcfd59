"""Bounds that read trials one after another: an order that knows the scores breaks them, and a
shuffle by a seed fixes it.

Trials that were played come in an order that knows nothing. Scores and rows from elsewhere may be
sorted, so `audit.bound` and `audit.game.Stored` shuffle each side. Each test has its broken twin:
the same trials in the order in which they came.
"""

import numpy as np
import pytest

import audit
from audit.attackers import Column
from audit.core import Claim, Evidence, Fold, Scores, Trials
from audit.criteria import Advantage
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve import Curve
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.dkw import DKW
from audit.estimators.ex_post import ExPost
from audit.estimators.joint_bayes import JointBayes
from audit.estimators.one_run_betting import OneRunBetting
from audit.game import Stored
from audit.mechanisms.brownian import Brownian
from audit.privacy import GDP, PureDP
from audit.protocols import Crossfit, Sequential

MU, RUNS, MOST = 1.0, 40, 7
"""At a promised 1 % each, P(more than 7 of 40 are wrong) = 7e-9."""
NONE = np.array([], int)


def sides(seed, n=300):
    """Sorted scores of a Gaussian shift, both sides the same way: the likeliest present ones
    first."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.normal(MU, size=n))[::-1], np.sort(rng.normal(size=n))


def as_they_came(estimator, ins, outs, seed):
    """The broken twin: the same split, tested in the order of the scores."""
    rng, parts = np.random.default_rng(seed), []
    chosen = np.zeros(len(ins) + len(outs), bool)
    values, bits = np.concatenate([outs, ins]), np.arange(len(chosen)) >= len(outs)
    for bit in (False, True):
        side = rng.permutation(np.flatnonzero(bits == bit))
        chosen[side[: len(side) // 2]] = True
    for where in (np.flatnonzero(chosen), np.flatnonzero(~chosen)):
        parts.append(Scores(values[where], bits[where], where, where))
    threshold = Advantage()(parts[0])
    return estimator(Evidence((Fold(NONE, parts[0], threshold, parts[1]),)), GDP()).lower


@pytest.mark.parametrize("make", [Betting, CurveBetting])
def test_sorted_scores_make_no_bet_rich(make):
    estimator, ours, twin = make(significance=0.01), 0, 0
    for seed in range(RUNS):
        pair = sides(seed)
        ours += audit.bound(*pair, estimator=estimator, seed=seed).lower > MU
        twin += as_they_came(estimator, *pair, seed) > MU
    assert ours <= MOST and twin >= RUNS // 2


@pytest.mark.parametrize("make", [ClopperPearson, JointBayes, Curve, DKW])
def test_other_bounds_do_not_see_the_order(make):
    ins, outs = sides(0)
    estimator = make(significance=0.05)
    assert (
        audit.bound(ins, outs, estimator=estimator, seed=3).lower
        == as_they_came(estimator, ins, outs, 3)
        > 0
    )


@pytest.mark.parametrize(
    "spend", [Crossfit(trials=1200, folds=4), Sequential(budget=1200, first=400)]
)
def test_rows_of_a_sorted_file_make_no_bet_rich(spend):
    """A file written lot by lot, each sorted; tested in progressive folds, and until a claim that
    holds is refuted."""
    bound, ours, twin, runs = Betting(significance=0.01), 0, 0, 10
    cuts = np.array(spend.cuts(False) if isinstance(spend, Crossfit) else [0, *spend.cuts()])
    place = np.arange(1200)
    for seed in range(runs):
        lots = [sides(1000 * seed + k, size // 2) for k, size in enumerate(np.diff(cuts))]
        values = np.concatenate([np.stack([outs, ins], axis=1).ravel() for ins, outs in lots])
        rows = Trials(("s",), values[:, None], place % 2 == 1, place, place)
        for source in (Stored(rows, seed), AsItIs(rows)):
            evidence = spend(source, Column(), Advantage(), Claim(GDP(), MU))
            wrong = bound(evidence, GDP()).lower > MU
            ours, twin = (
                (ours + wrong, twin) if isinstance(source, Stored) else (ours, twin + wrong)
            )
    assert ours <= 4 and twin >= runs // 2  # P(more than 4 of 10 are wrong at 1 % each) = 2e-8


class AsItIs:
    """A source that keeps the order of the file."""

    limit = None

    def __init__(self, rows):
        self.rows = rows

    def trials(self, first, count):
        return self.rows[first : first + count]


def test_a_longer_look_at_stored_rows_leaves_the_shorter_one_as_it_was():
    """A stopping rule sees no future: what it has tested does not depend on what it would have
    asked for next."""
    ins, outs = sides(0, 600)
    place = np.arange(1200)
    stored = Stored(Trials(("s",), np.append(outs, ins)[:, None], place >= 600, place, place), 0)
    assert np.array_equal(stored.trials(0, 400).rows, stored.trials(0, 1200).rows[:400])


def reports(seed, n=400):
    """True reports of Brownian noise: scores, bits and what was spent, in the order of the
    stream."""
    from estimators.test_ex_post import evidence

    (fold,) = evidence(Brownian(), seed, pairs=n).folds
    return fold


def best_first(fold):
    """Test trials of each side, those first that say most against the reports."""
    test = fold.test
    says = np.where(test.bits, test.values, -test.values) - test.spent
    where = np.concatenate(
        [side[np.argsort(-says[side])] for side in map(np.flatnonzero, (~test.bits, test.bits))]
    )
    arrays = (test.values, test.bits, test.index, test.run, test.spent, test.log_ratio)
    moved = Scores(*(array[where] for array in arrays))
    return Fold(fold.fitted, fold.selection, fold.threshold, moved)


def test_reports_are_read_in_the_order_of_play():
    """Nothing from elsewhere has reports, so they are never sorted; if they were, true ones would
    be accused."""
    notion, bound, ours, twin = Brownian().claims[0].notion, ExPost(significance=0.01), 0, 0
    for seed in range(12):
        fold = reports(seed)
        ours += bound(Evidence((fold,)), notion).lower > 0
        twin += bound(Evidence((best_first(fold),)), notion).lower > 0
    assert ours <= 4 and twin >= 6  # P(more than 4 of 12 are wrong at 1 % each) = 8e-8


def test_coins_of_one_run_must_not_come_sorted():
    """Guesses that are equally sure are read in the order of the canaries, whose coins know nothing
    of it."""
    bound, ours, twin = OneRunBetting(significance=0.01), 0, 0
    for seed in range(RUNS):
        coins = np.random.default_rng(seed).random(200) < 0.5
        for bits in (coins, np.sort(coins)[::-1]):
            place = np.arange(200)
            scores = Scores(np.zeros(200), bits, place, np.zeros(200, int))
            wrong = bound(Evidence((Fold(NONE, None, 0.0, scores),)), PureDP()).lower > 0
            ours, twin = (ours + wrong, twin) if bits is coins else (ours, twin + wrong)
    assert ours <= MOST and twin >= RUNS // 2
