import math

import numpy as np
import pytest

from audit.core import Scores
from audit.estimators.power import detectable, efficiency, spread, trials_needed


def gaussian(mu, n=4000, noise=0.0, seed=0):
    """Scores of a shift μ, and the same ones blurred: an attack that shows μ/√(1 + noise²)."""
    rng = np.random.default_rng(seed)
    bits = np.arange(2 * n) % 2 == 1
    exact = rng.normal(size=2 * n) + mu * bits
    blurred = exact + noise * rng.normal(size=2 * n)
    index = np.arange(2 * n)
    return Scores(blurred, bits, index, index), Scores(exact, bits, index, index)


def test_the_figures_of_the_reference():
    assert spread(0.4548) == pytest.approx(1.60, abs=0.005)
    assert detectable(0.4548, 0.1, 2000, 2000) == pytest.approx(0.540, abs=0.001)
    assert trials_needed(0.4548, 0.1) == pytest.approx(1120, abs=5)


def test_power_is_what_was_promised():
    """A z-test at one midpoint threshold finds the detectable μ in 80 % of 20,000 draws: sd 0.3 %, so 78–82 % is 7 sd.

    The formula takes V at the claim, where μ is a little larger: that moves the share by less than 1 %.
    """
    from scipy.special import ndtr, ndtri

    claim, n, significance = 0.4548, 2000, 0.05
    mu = detectable(claim, significance, n, n)
    rng = np.random.default_rng(0)
    fpr, fnr = (rng.binomial(n, ndtr(-mu / 2), 20_000) / n for _ in range(2))
    estimate = -ndtri(fpr) - ndtri(fnr)
    found = estimate - claim > -ndtri(significance) * math.sqrt(2 * spread(claim) / n)
    assert found.mean() == pytest.approx(0.8, abs=0.03)
    assert abs((estimate > claim).mean() - 0.8) > 0.03  # without the critical value it would be far more


def test_an_attack_that_shows_too_little_never_finds_it():
    assert trials_needed(0.5, 0.05, ratio=1.25, efficiency=0.8) == math.inf
    assert trials_needed(0.5, 0.05, ratio=1.25, efficiency=0.9) > trials_needed(0.5, 0.05, ratio=1.25)
    assert detectable(0.5, 0.05, 0, 100) == math.inf


def test_efficiency_is_the_share_of_mu_and_its_limit_is_below_it():
    blurred, exact = gaussian(1.0, noise=0.75)  # shows 0.8
    share, sure = efficiency(blurred, exact)
    assert share == pytest.approx(0.8, abs=0.06)  # sd 0.012: 5 sd
    assert share - 0.06 < sure < share
    assert efficiency(exact, exact) == (1.0, 1.0)


def test_no_signal_is_not_called_an_efficiency():
    blurred, exact = gaussian(-0.5)
    assert efficiency(blurred, exact) == (0.0, 0.0)


def test_a_claim_that_errors_cannot_refute_takes_no_number_of_trials():
    assert spread(100.0) == math.inf and trials_needed(100.0, 0.05) == math.inf
    assert detectable(100.0, 0.05, 100, 100) == math.inf
