import dataclasses

import numpy as np
import pytest
from scipy.special import ndtr
from toys import Gaussians

from audit.attackers import LikelihoodRatio
from audit.core import Claim, Counts, Evidence, Fold, Scores
from audit.criteria import Advantage, Fixed
from audit.estimators.curve import Curve
from audit.estimators.joint_bayes import JointBayes
from audit.judgement.strength import efficiency_of, error_of_bound, standard_error, strength_of
from audit.privacy import GDP, PureDP, mu_hat
from audit.protocols import Crossfit, Holdout

CLAIM = Claim(GDP(), 1.0)


def evidence(mu, trials=10_000, seed=0, criterion=None, protocol=Holdout):
    return protocol(trials=trials)(
        Gaussians(mu, seed), LikelihoodRatio(), criterion or Advantage(), CLAIM
    )


def test_the_standard_error_of_mu_hat_is_that_of_repeated_audits():
    """2,000 draws: their sd is known to 1.6 %, 6 sd of that are 10 %."""
    rng, n = np.random.default_rng(0), 2000
    rates = 0.4745, 0.3715
    fp, fn = (rng.binomial(n, rate, 2000) for rate in rates)
    spread = np.std(mu_hat(fp / n, fn / n))
    assert standard_error(mu_hat, Counts(949, 1051, 743, 1257)) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("estimate", [JointBayes(), Curve()])
def test_the_standard_error_of_a_bound_is_that_of_repeated_audits(estimate):
    """40 audits: the sd of their bounds is known to 11 %, the mean of 10 jackknife errors to 6 %: 5
    sd are 63 %."""
    found = [evidence(1.0, trials=2000, seed=seed) for seed in range(40)]
    spread = np.std([estimate(each, GDP()).lower for each in found])
    stated = np.mean([error_of_bound(estimate, each) for each in found[:10]])
    assert stated == pytest.approx(spread, rel=0.65)


def test_strength_is_in_the_claims_own_parameter():
    shown = strength_of(evidence(1.0), CLAIM)
    # mu_hat has sd 0.042 with 2,000 test trials a side: 6 sd
    assert (
        shown.estimate == pytest.approx(1.0, abs=0.25)
        and shown.lower < shown.estimate < shown.upper
    )
    pure = strength_of(evidence(1.0), Claim(PureDP(), 1.5))
    assert pure.estimate == pytest.approx(PureDP().parameter(ndtr(-0.5), ndtr(-0.5)), abs=0.25)


def test_the_upper_limit_is_too_low_in_no_more_than_five_per_cent():
    """60 tables at the midpoint of μ = 1, 500 a side: 3 expected below the truth; 15 or more has a
    chance of 2e-7."""
    rng, rate = np.random.default_rng(1), float(ndtr(-0.5))
    low = 0
    for fp, fn in rng.binomial(500, rate, (60, 2)):
        counts = Counts(int(fp), 500 - int(fp), int(fn), 500 - int(fn))
        low += strength_of(table(counts), CLAIM).upper < 1.0
    assert low < 15


def table(counts):
    """Evidence with these counts."""
    values = np.repeat([1.0, 0.0, 0.0, 1.0], [counts.fp, counts.tn, counts.fn, counts.tp])
    index = np.arange(len(values))
    scores = Scores(values, index >= counts.fp + counts.tn, index, index)
    return Evidence((Fold(np.array([], int), None, 0.5, scores),))


def test_the_lower_limit_is_too_high_in_no_more_than_five_per_cent():
    """As above, at a corner: randomised response of ε = 1, where a Bayesian limit is too high in
    far more."""
    rng, rate = np.random.default_rng(2), 1 / (1 + np.e)
    claim, high = Claim(PureDP(), 2.0), 0
    for fp, fn in rng.binomial(500, rate, (60, 2)):
        counts = Counts(int(fp), 500 - int(fp), int(fn), 500 - int(fn))
        high += strength_of(table(counts), claim).lower > 1.0
    assert high < 15


def test_pooled_counts_of_k_folds_count_half():
    """Their variance is about twice the binomial one: the upper limit is farther off than that of
    progressive folds."""
    crossed = evidence(1.0, protocol=Crossfit)
    # no longer in the order in which they were used
    folds = dataclasses.replace(crossed, folds=crossed.folds[::-1])
    one, other = strength_of(crossed, CLAIM), strength_of(folds, CLAIM)
    assert other.upper - other.estimate == pytest.approx(1.41 * (one.upper - one.estimate), rel=0.1)


def test_the_efficiency_at_the_threshold_is_not_that_of_the_ranking():
    found = efficiency_of(evidence(1.0, criterion=Fixed(4.0)))  # hardly any trial is called present
    assert found.ranking == 1.0
    assert found.threshold_low < 0.8 <= efficiency_of(evidence(1.0)).threshold
    # √2·Φ⁻¹(area) of N(0, 1) and N(1, 1) is 1, with a standard error of about 0.032
    assert found.possible == pytest.approx(1.0, abs=0.2) and found.error == pytest.approx(
        0.033, abs=0.01
    )


def test_without_an_exact_likelihood_ratio_no_efficiency_is_known():
    whole = evidence(1.0, trials=1000)
    fold = whole.folds[0]
    bare = dataclasses.replace(fold, test=dataclasses.replace(fold.test, log_ratio=None))
    assert efficiency_of(Evidence((bare,))) is None
