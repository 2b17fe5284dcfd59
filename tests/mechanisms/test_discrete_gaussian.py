import math

import numpy as np
import pytest
from mechanisms.samples import curve_is, is_log_ratio, log_ratios, mean_is, shares_are, with_noise

from audit.mechanisms.discrete_gaussian import DiscreteGaussian, discrete_gaussian, sample
from audit.privacy import GDP, ZCDP, ApproximateDP, eps_from_rho, simple_eps_from_rho

ABSENT, PRESENT = np.zeros(10), np.zeros(11)
CLAIMED = {"eps": 3.4, "delta": 0.01}  # sigma 0.83


@pytest.mark.parametrize(
    ("variance", "zero", "second"),
    [(0.25, 0.786571, 0.215013), (1.0, 0.398942, None), (1e4, None, 1e4)],
)
def test_the_law(variance, zero, second):
    k, p = discrete_gaussian(math.sqrt(variance))
    assert p.sum() == pytest.approx(1, abs=1e-12) and np.allclose(p, p[::-1])
    if zero is not None:
        assert p[k == 0].item() == pytest.approx(zero, abs=5e-7)
    if second is not None:
        assert p @ k**2 == pytest.approx(second, rel=3e-6)


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.0, 5.0])
def test_samples_have_the_law(sigma):
    k, p = discrete_gaussian(sigma)
    drawn = sample(sigma, 20_000, np.random.default_rng(0))
    seen = np.abs(k) <= 3 * math.ceil(sigma)
    assert shares_are([np.sum(drawn == i) for i in k[seen]], p[seen])  # false failure 1e-6
    _, wrong = discrete_gaussian(1.3 * sigma)
    wrong = np.interp(k, _, wrong)
    assert not shares_are([np.sum(drawn == i) for i in k[seen]], wrong[seen])


def test_claims_rho_and_adds_noise_for_it_and_a_broken_one_is_found():
    mechanism = DiscreteGaussian(**CLAIMED)
    first, second = mechanism.claims
    assert first.notion == ZCDP() and first.parameter == pytest.approx(1 / (2 * mechanism.sigma**2))
    assert (second.notion, second.parameter) == (ApproximateDP(0.01), 3.4)
    k, p = discrete_gaussian(mechanism.sigma)

    def squares(share):
        runs = with_noise(DiscreteGaussian, share, **CLAIMED).release(
            ABSENT, 20_000, np.random.default_rng(0)
        )
        return (runs.noisy - 10) ** 2

    assert mean_is(squares(1.0), p @ k**2)
    for share in (0.7, 1.3):
        assert not mean_is(squares(share), p @ k**2)


def test_its_curve_keeps_zcdp_and_is_not_that_of_the_gaussian():
    mechanism, alpha = DiscreteGaussian(**CLAIMED), np.linspace(0.001, 0.999, 333)
    exact = mechanism.tradeoff(alpha, ABSENT, PRESENT)
    assert np.all(exact >= ZCDP().beta(alpha, mechanism.rho) - 1e-9)
    assert np.any(exact < GDP().beta(alpha, math.sqrt(2 * mechanism.rho)) - 1e-3)
    # its own inverse
    assert np.allclose(mechanism.tradeoff(exact, ABSENT, PRESENT), alpha, atol=1e-9)


def test_likelihood_ratio_tests_lie_on_the_curve_and_those_of_other_noise_do_not():
    mechanism = DiscreteGaussian(**CLAIMED)
    ratios = log_ratios(mechanism, ABSENT, PRESENT)
    assert is_log_ratio(*ratios) and not is_log_ratio(*(1.3 * r for r in ratios))
    assert curve_is(lambda a: mechanism.tradeoff(a, ABSENT, PRESENT), *ratios)  # false failure 1e-6
    for share in (0.7, 1.3):
        broken = with_noise(DiscreteGaussian, share, **CLAIMED)
        assert not curve_is(lambda a, m=broken: m.tradeoff(a, ABSENT, PRESENT), *ratios)


def test_census_2020_budgets():
    # as published
    assert [round(eps_from_rho(rho, 1e-10), 2) for rho in (2.5553, 0.0747)] == [17.14, 2.47]
    assert [round(simple_eps_from_rho(rho, 1e-10), 3) for rho in (2.56, 0.07)] == [17.915, 2.609]
