import dataclasses

import numpy as np
import pytest
from pydantic import ValidationError
from toys import Gaussians

from audit.attackers import (
    BestOf,
    Column,
    GradientBoosting,
    LikelihoodRatio,
    Logistic,
    RandomForest,
    XGBoost,
)
from audit.core import AuditError, area
from audit.privacy import mu_hat

LEARNERS = [Logistic(), XGBoost(), GradientBoosting(), RandomForest(n_estimators=100)]


def sides(scores):
    return scores.absent, scores.present


def separation(values, bits):
    """Probability that a present trial scores above an absent one (ties half)."""
    absent, present = np.sort(values[~bits]), values[bits]
    below = (
        np.searchsorted(absent, present, "left") + np.searchsorted(absent, present, "right")
    ) / 2
    return below.mean() / len(absent)


def test_the_likelihood_ratio_is_the_trials_own_and_needs_no_fit():
    trials = Gaussians(1.0).trials(0, 4000)
    values = LikelihoodRatio()(trials[:2])(trials[2:])
    assert np.array_equal(values, trials.log_ratio[2:])
    scores = trials[2:].score(values)
    counts = scores.count(0.0)
    # sd of this mu_hat is 0.045; 6 sd has a chance of 2e-9
    assert mu_hat(counts.fpr, counts.fnr) == pytest.approx(1.0, abs=0.27)


def test_a_mechanism_without_likelihood_is_refused_in_one_line():
    trials = dataclasses.replace(Gaussians(1.0).trials(0, 10), log_ratio=None)
    with pytest.raises(AuditError, match="gives no exact likelihood; use attacker=logistic"):
        LikelihoodRatio()(trials)


@pytest.mark.parametrize("attacker", LEARNERS, ids=lambda a: type(a).__name__)
def test_learners_find_a_shift_and_nothing_where_nothing_is(attacker):
    signal, silence = Gaussians(2.0).trials(0, 3000), Gaussians(0.0, seed=1).trials(0, 3000)
    seen = attacker(signal[:1500])(signal[1500:])
    # AUC of a shift of 2 is 0.921, its sd 0.007; the learners lose little. 0.85 is 10 sd off.
    assert separation(seen, signal.bits[1500:]) > 0.85
    # without a signal the AUC is 0.5, its sd 0.015; 6 sd has a chance of 2e-9
    unseen = attacker(silence[:1500])(silence[1500:])
    assert separation(unseen, silence.bits[1500:]) == pytest.approx(0.5, abs=0.09)


@pytest.mark.parametrize("attacker", LEARNERS, ids=lambda a: type(a).__name__)
def test_the_same_trials_give_the_same_scores(attacker):
    trials = Gaussians(1.0).trials(0, 400)
    assert np.array_equal(attacker(trials)(trials), attacker(trials)(trials))


def test_one_side_only_is_refused():
    trials = Gaussians(1.0).trials(0, 40)
    with pytest.raises(AuditError, match="one side only"):
        Logistic()(trials[~trials.bits])


# --- the best of several --------------------------------------------------------------------------


class Reads:
    """An attack that reads its column times a sign; it counts the trials that it was given."""

    learns = True

    def __init__(self, sign, seen=None):
        self.sign, self.seen = sign, [] if seen is None else seen

    def __call__(self, trials):
        self.seen.append(trials.index)
        return lambda unseen: self.sign * unseen.rows[:, 0]


def test_the_better_one_is_chosen_wherever_it_stands_and_fitted_to_all():
    trials, good, bad = Gaussians(2.0).trials(0, 402), Reads(1), Reads(-1)
    for attackers in ([good, bad], [bad, good]):
        values = BestOf(attackers)(trials)(trials)
        assert np.array_equal(values, trials.rows[:, 0])  # the worse one's would be their negatives
    assert [len(index) for index in bad.seen] == [302, 302] and [
        len(index) for index in good.seen
    ] == [302, 402] * 2


def test_it_is_compared_on_trials_it_was_not_fitted_to():
    """One that knows its own trials by heart, and nothing else, wins only if it is compared on
    those."""

    class ByHeart:
        learns = True

        def __call__(self, trials):
            known = dict(zip(trials.index.tolist(), trials.bits.tolist(), strict=True))
            return lambda unseen: np.array(
                [known.get(i, 0.5) for i in unseen.index.tolist()], float
            )

    trials, honest = Gaussians(2.0).trials(0, 400), Reads(1)
    assert BestOf([ByHeart(), honest]).best(trials) is honest
    by_heart = ByHeart()(trials)
    assert area(*sides(trials.score(by_heart(trials)))) == 1.0  # the broken comparison prefers it


def test_whether_a_choice_learns():
    assert BestOf([Logistic(), XGBoost()]).learns and BestOf([LikelihoodRatio(), Logistic()]).learns
    assert not BestOf([LikelihoodRatio()]).learns and not LikelihoodRatio().learns
    assert all(attacker.learns for attacker in LEARNERS)


def test_a_list_that_is_none_is_refused():
    with pytest.raises(ValidationError):
        BestOf([])
    with pytest.raises(AuditError, match="'logistic' is no attacker; give each one a _target_"):
        BestOf(["logistic"])
    trials = Gaussians(1.0).trials(0, 40)
    with pytest.raises(AuditError, match="one side only; raise trials"):
        BestOf([Reads(1)])(trials[trials.bits])


def test_the_area_equals_the_slow_one():
    rng = np.random.default_rng(0)
    values, bits = rng.integers(0, 5, 60).astype(float), rng.random(60) < 0.4
    trials = Gaussians(0.0).trials(0, 60)
    scores = dataclasses.replace(trials, bits=bits).score(values)
    pairs = [(p > a) + (p == a) / 2 for a in values[~bits] for p in values[bits]]
    assert (
        area(*sides(scores))
        == pytest.approx(np.mean(pairs))
        == pytest.approx(separation(values, bits))
    )


def test_a_column_is_read_as_it_is_and_one_that_is_not_there_is_said():
    trials = Gaussians(1.0).trials(0, 20)
    assert (
        np.array_equal(Column("score")(trials)(trials), trials.rows[:, 0])
        and not Column("score").learns
    )
    with pytest.raises(
        AuditError, match=r"attacker\.column=no: there is no such column; there are score"
    ):
        Column("no")(trials)
