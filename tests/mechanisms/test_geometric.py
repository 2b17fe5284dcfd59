import numpy as np
import pytest
from mechanisms.samples import curve_is, is_log_ratio, log_ratios, mean_is, shares_are, with_noise

from audit.mechanisms.geometric import GeometricMechanism
from audit.privacy import PureDP

ABSENT, PRESENT = np.zeros(10), np.zeros(11)


def noise(share=1.0, trials=20_000):
    return (
        with_noise(GeometricMechanism, share, eps=1)
        .release(ABSENT, trials, np.random.default_rng(0))
        .noisy
        - 10
    )


def test_noise_has_the_two_sided_geometric_law_and_a_broken_one_is_found():
    k = np.arange(-3, 4)
    chances = np.tanh(0.5) * np.exp(-np.abs(k))
    assert shares_are(
        [np.sum(noise() == i) for i in k] + [np.sum(np.abs(noise()) > 3)],
        [*chances, 1 - chances.sum()],
    )
    size = 1 / np.sinh(1)  # E|noise|
    assert mean_is(np.abs(noise()), size)
    for share in (0.7, 1.3):
        assert not mean_is(np.abs(noise(share)), size)


def test_its_curve_is_that_of_its_claim():
    alpha = np.linspace(0, 1, 101)
    for eps in (0.1, 1.0, 3.0):
        mechanism = GeometricMechanism(eps=eps)
        (claim,) = mechanism.claims
        assert (claim.notion, claim.parameter) == (PureDP(), eps)
        exact = mechanism.tradeoff(alpha, ABSENT, PRESENT)
        np.testing.assert_allclose(exact, PureDP().beta(alpha, eps), atol=1e-9)
        assert np.allclose(mechanism.tradeoff(alpha, PRESENT, ABSENT), exact)


def test_likelihood_ratio_tests_lie_on_the_curve_and_those_of_other_noise_do_not():
    ratios = log_ratios(GeometricMechanism(eps=1), ABSENT, PRESENT)
    assert set(np.round(np.concatenate(ratios), 12)) == {-1.0, 1.0}
    assert is_log_ratio(*ratios) and not is_log_ratio(*(1.3 * r for r in ratios))
    # false failure 1e-6
    assert curve_is(lambda a: GeometricMechanism(eps=1).tradeoff(a, ABSENT, PRESENT), *ratios)
    for share in (0.7, 1.3):
        broken = with_noise(GeometricMechanism, share, eps=1)
        assert not curve_is(lambda a, m=broken: m.tradeoff(a, ABSENT, PRESENT), *ratios)


def test_records_further_apart_are_easier_to_tell():
    beta = [
        GeometricMechanism(eps=1).tradeoff(0.1, np.zeros(5), np.zeros(5 + k)) for k in (0, 1, 2, 3)
    ]
    assert beta[0] == pytest.approx(0.9) and beta[0] > beta[1] > beta[2] > beta[3]
    assert beta[2] >= PureDP().beta(0.1, 2.0)  # groups of k: at most kε
