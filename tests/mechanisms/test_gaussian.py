import math

import numpy as np
import pytest
from mechanisms.samples import curve_is, is_log_ratio, log_ratios, scale_is, with_noise
from pydantic import ValidationError
from scipy.stats import norm

from audit.canaries.worst_case import WorstCase
from audit.mechanisms.gaussian import Gaussian
from audit.privacy import GDP

PAIR = WorstCase()
ABSENT, PRESENT = PAIR.data([False]), PAIR.data([True])


def release(scale=1.0, trials=20_000, data=ABSENT, seed=0):
    return with_noise(Gaussian, scale, eps=1, delta=0.01).release(
        data, trials, np.random.default_rng(seed)
    )


def test_claims_the_implied_mu():
    claim = Gaussian(eps=1, delta=0.01).claims[0]
    assert claim.notion == GDP() and not claim.numerical
    assert claim.parameter == pytest.approx(0.45478089545, abs=1e-10)


def test_noise_is_what_the_claim_says_and_a_broken_one_is_found():
    sigma = 1 / 0.45478089545
    assert scale_is(release().noisy, sigma)
    for scale in (0.7, 1.3):
        assert not scale_is(release(scale).noisy, sigma)


def test_log_ratio_is_the_one_of_two_normal_densities():
    runs = release(0.8, 50)
    expected = norm.logpdf(runs.noisy, 11, runs.sigma) - norm.logpdf(runs.noisy, 10, runs.sigma)
    np.testing.assert_allclose(runs.log_ratio(ABSENT, PRESENT), expected, atol=1e-12)
    ratios = [
        release(data=data, seed=i).log_ratio(ABSENT, PRESENT)
        for i, data in enumerate((ABSENT, PRESENT))
    ]
    assert is_log_ratio(*ratios)
    assert not is_log_ratio(*(1.3 * r for r in ratios))


@pytest.mark.parametrize(
    "bad", [{"eps": 0}, {"eps": math.nan}, {"delta": 0}, {"delta": 1}, {"mu": 1}]
)
def test_refuses_what_is_out_of_range(bad):
    with pytest.raises(ValidationError):
        Gaussian(**({"eps": 1, "delta": 0.01} | bad))


def test_likelihood_ratio_tests_lie_on_the_curve_and_those_of_other_noise_do_not():
    honest = Gaussian(eps=1, delta=0.01)
    ratios = log_ratios(honest, ABSENT, PRESENT)
    assert curve_is(lambda a: honest.tradeoff(a, ABSENT, PRESENT), *ratios)  # false failure 1e-6
    for share in (0.7, 1.3):
        broken = with_noise(Gaussian, share, eps=1, delta=0.01)
        assert not curve_is(lambda a, m=broken: m.tradeoff(a, ABSENT, PRESENT), *ratios)
