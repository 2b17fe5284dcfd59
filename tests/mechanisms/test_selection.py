import numpy as np
import pytest
from mechanisms.samples import curve_is, is_log_ratio, log_ratios, shares_are, with_noise
from scipy.integrate import quad
from scipy.stats import laplace

from audit.mechanisms.selection import Exponential, NoisyMax, PermuteAndFlip
from audit.privacy import PureDP

ALL = pytest.mark.parametrize("make", [Exponential, PermuteAndFlip, NoisyMax])
VOTES = np.array([0.0, 0.0, 1.0, 2.0, 0.0, 1.0])  # 3, 2, 1
ABSENT, PRESENT = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0])


def test_the_exponential_mechanisms_law():
    weight = np.exp(0.75 * np.array([3, 2, 1]))
    np.testing.assert_allclose(
        np.exp(Exponential(eps=1.5, candidates=3).law(VOTES)), weight / weight.sum()
    )


def test_noisy_maxs_law_is_the_plain_integral():
    def chance(i, j, k):
        inside = lambda x: laplace.pdf(x, i, 2) * laplace.cdf(x, j, 2) * laplace.cdf(x, k, 2)  # noqa: E731
        return quad(inside, -80, 80, points=[1, 2, 3], epsabs=1e-12)[0]

    law = np.exp(NoisyMax(eps=1, candidates=3).law(VOTES))
    np.testing.assert_allclose(law, [chance(3, 2, 1), chance(2, 1, 3), chance(1, 3, 2)], atol=1e-9)


def test_permute_and_flip_is_noisy_max_with_exponential_noise():
    noise = np.random.default_rng(3).exponential(2, size=(100_000, 3))
    winners = np.argmax(np.array([3, 2, 1]) + noise, axis=1)
    law = np.exp(PermuteAndFlip(eps=1, candidates=3).law(VOTES))
    # false failure 1e-6; Ding et al. 2021
    assert shares_are(np.bincount(winners, minlength=3), law)
    assert not shares_are(
        np.bincount(winners, minlength=3), np.exp(Exponential(eps=1, candidates=3).law(VOTES))
    )


@ALL
def test_winners_have_the_law_and_those_of_other_noise_do_not(make):
    def winners(share):
        runs = with_noise(make, share, eps=1.5, candidates=3).release(
            VOTES, 20_000, np.random.default_rng(0)
        )
        return np.bincount(runs.winner, minlength=3)

    law = np.exp(make(eps=1.5, candidates=3).law(VOTES))
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert shares_are(winners(1.0), law)  # false failure 1e-6
    for share in (0.7, 1.3):
        assert not shares_are(winners(share), law)


@ALL
def test_keeps_its_claim_on_every_replaced_vote_and_comes_near_it(make):
    def most(share):
        """The largest loss when one of so many votes for 0 becomes a vote for 1."""
        mechanism = with_noise(make, share, eps=1)
        pairs = (
            (np.zeros(votes), np.append(np.zeros(votes - 1), 1.0)) for votes in range(1, 62, 3)
        )
        return max(float(np.max(np.abs(mechanism.law(b) - mechanism.law(a)))) for a, b in pairs)

    assert 0.95 < most(1.0) <= 1 + 1e-9
    assert most(0.7) > 1.2


@ALL
def test_likelihood_ratio_tests_lie_on_the_curve_and_those_of_other_noise_do_not(make):
    ratios = log_ratios(make(eps=2), ABSENT, PRESENT)
    assert is_log_ratio(*ratios) and not is_log_ratio(*(1.5 * r for r in ratios))
    # false failure 1e-6
    assert curve_is(lambda a: make(eps=2).tradeoff(a, ABSENT, PRESENT), *ratios)
    for share in (0.7, 1.3):
        assert not curve_is(
            lambda a, s=share: with_noise(make, s, eps=2).tradeoff(a, ABSENT, PRESENT), *ratios
        )
    alpha = np.linspace(0, 1, 101)
    assert np.all(make(eps=2).tradeoff(alpha, ABSENT, PRESENT) >= PureDP().beta(alpha, 2.0) - 1e-12)
