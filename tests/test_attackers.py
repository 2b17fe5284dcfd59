import dataclasses

import numpy as np
import pytest
from toys import Gaussians

from audit.attackers import GradientBoosting, LikelihoodRatio, Logistic, RandomForest, XGBoost
from audit.core import AuditError
from audit.privacy import mu_hat

LEARNERS = [Logistic(), XGBoost(), GradientBoosting(), RandomForest(trees=100)]


def separation(values, bits):
    """Probability that a present trial scores above an absent one (ties half)."""
    absent, present = np.sort(values[~bits]), values[bits]
    below = (np.searchsorted(absent, present, "left") + np.searchsorted(absent, present, "right")) / 2
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
