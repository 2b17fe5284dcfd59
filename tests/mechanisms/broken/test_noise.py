"""What goes wrong with noise: exact figures of section 5 of the reference."""

import numpy as np
import pytest

from audit.mechanisms.broken.noise import FloatingLaplace, SameSeedTwice, SpentTwice, TunedForFree
from audit.privacy import gdp_epsilon

ZERO, ZERO_ONE = np.array([0.0]), np.array([0.0, 1.0])


def sample(mechanism, data, n=1000, seed=0):
    return mechanism.release(data, n, np.random.default_rng(seed))


def test_the_difference_of_two_releases_with_one_seed_is_exact():
    for data, difference in ((ZERO, 0), (ZERO_ONE, 1)):
        values = sample(SameSeedTwice(eps=1), data).public().values
        np.testing.assert_allclose(values[:, 2], difference, atol=1e-12)
        assert np.ptp(values[:, 0]) > 1  # there is noise in each of them


def test_tuning_ten_times_costs_7_51_where_1_99_is_claimed():
    mechanism = TunedForFree(mu=0.5, settings=10, delta=1e-5)
    assert round(mechanism.claims[1].parameter, 2) == 1.99
    assert round(gdp_epsilon(0.5 * np.sqrt(10), 1e-5), 2) == 7.51
    ratio = sample(mechanism, ZERO, 100_000).log_ratio(ZERO, ZERO_ONE)
    # Under the absent data set the ratio is N(−μ²/2, μ²) with μ = 0.5·√10; five standard errors
    # twice: 1.2e-6 → 5.2.
    assert abs(ratio.mean() + 1.25) < 5.2 * np.sqrt(2.5 / len(ratio))
    assert abs(ratio.var() - 2.5) < 5.2 * 2.5 * np.sqrt(2 / len(ratio))
    assert abs(ratio.var() - 0.25) > 1  # one setting's


def test_spending_twice_costs_twice():
    released = sample(SpentTwice(eps=0.7, answers=2), ZERO)
    ratio = released.log_ratio(ZERO, ZERO_ONE)
    assert ratio.max() == pytest.approx(1.4) and ratio.min() == pytest.approx(-1.4)
    once = sample(SpentTwice(eps=0.7, answers=1), ZERO).log_ratio(ZERO, ZERO_ONE)
    assert once.max() == pytest.approx(0.7)


def finer_than_2_to_the_minus_53():
    """Σ over the binades [2^−(k+1), 2^−k) below ¼ of P(|Laplace| there)·(share of their numbers
    that 2⁻⁵³ misses)."""
    k = np.arange(2, 60)
    inside = np.exp(-(2.0 ** -(k + 1))) - np.exp(-(2.0**-k))
    return float(np.sum(inside * (1 - 2.0 ** -(k + 0.0))))


def test_low_bits_tell_a_sum_of_0_from_a_sum_of_1():
    n = 100_000
    shares = [
        sample(FloatingLaplace(eps=1), data, n).public().values.mean() for data in (ZERO, ZERO_ONE)
    ]
    exact = finer_than_2_to_the_minus_53()
    assert round(exact, 3) == 0.186
    assert abs(shares[0] - exact) < 5.2 * np.sqrt(exact * (1 - exact) / n)  # false failure: 2e-7
    assert shares[1] == 0
