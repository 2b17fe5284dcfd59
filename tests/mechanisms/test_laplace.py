import math

import numpy as np
import pytest
from mechanisms.samples import curve_is, is_log_ratio, log_ratios, mean_is, with_noise
from pydantic import ValidationError
from scipy.stats import laplace

from audit.mechanisms.laplace import ClassMean, Laplace, laplace_beta
from audit.privacy import PureDP

ABSENT, PRESENT = np.zeros(10), np.zeros(11)
CLASS = np.array([90.0, *[70.0] * 19])
REPLACED = np.array([0.0, *[70.0] * 19])
GRID = np.linspace(0, 1, 200_001)


def least_error(curve):
    """min alpha + beta: the overlap of the two laws."""
    return float(np.min(GRID + curve(GRID)))


def test_the_figures_of_one_count():
    scale = Laplace(eps=0.5).added_scale
    assert scale == 2 and laplace.std(scale=scale) == pytest.approx(2.828, abs=5e-4)
    assert 2 * laplace.sf(5, scale=scale) == pytest.approx(0.082085, abs=5e-7)


def test_claims_eps_for_one_record_more():
    (claim,) = Laplace(eps=0.5).claims
    assert (claim.notion, claim.parameter, claim.neighbours) == (PureDP(), 0.5, "add_remove")
    (claim,) = ClassMean(eps=0.5).claims
    assert (claim.notion, claim.parameter, claim.neighbours) == (PureDP(), 0.5, "replace_one")


@pytest.mark.parametrize(
    ("mechanism", "data", "centre", "scale"), [(Laplace, ABSENT, 10, 2), (ClassMean, CLASS, 71, 10)]
)
def test_noise_is_what_the_claim_says_and_a_broken_one_is_found(mechanism, data, centre, scale):
    def noise(share):
        return (
            with_noise(mechanism, share, eps=0.5)
            .release(data, 20_000, np.random.default_rng(1))
            .noisy
            - centre
        )

    # E|noise| = scale, and half of it is below 0: false failure 6e-7 each.
    assert mean_is(np.abs(noise(1.0)), scale) and mean_is(noise(1.0) < 0, 0.5)
    for share in (0.7, 1.3):
        assert not mean_is(np.abs(noise(share)), scale)


@pytest.mark.parametrize(("eps", "overlap"), [(0.5, 0.7788), (1, 0.6065), (3, 0.2231)])
def test_overlap_of_two_humps(eps, overlap):
    assert least_error(lambda a: Laplace(eps=eps).tradeoff(a, ABSENT, PRESENT)) == pytest.approx(
        overlap, abs=5e-5
    )


def test_the_midpoint_guesser():
    def guesses(mechanism, *pair):
        return 1 - least_error(lambda a: mechanism.tradeoff(a, *pair)) / 2

    assert guesses(Laplace(eps=1), ABSENT, PRESENT) == pytest.approx(0.69673, abs=5e-6)
    assert guesses(ClassMean(eps=1), CLASS, REPLACED) == pytest.approx(0.68119, abs=5e-6)
    assert 1 - math.exp(-0.45) / 2 == pytest.approx(0.68119, abs=5e-6)
    right = np.mean(Laplace(eps=1).release(PRESENT, 100_000, np.random.default_rng(2)).noisy > 10.5)
    # 5 standard deviations: false failure 6e-7; the bound of the other figure, 0.68119, is 10 away.
    assert abs(right - 0.69673) < 5 * math.sqrt(0.69673 * 0.30327 / 100_000) < 0.69673 - 0.68119


def test_the_curve_is_the_envelope_of_half_line_tests():
    z = np.linspace(-30, 30, 4001)
    for shift in (0.3, 1.0, 4.0):
        np.testing.assert_allclose(
            laplace_beta(laplace.sf(z), shift), laplace.cdf(z - shift), atol=1e-12
        )
    assert np.all(laplace_beta(GRID, 1.0) >= PureDP().beta(GRID, 1.0) - 1e-12)  # it keeps its claim


@pytest.mark.parametrize(
    ("mechanism", "pair"), [(Laplace, (ABSENT, PRESENT)), (ClassMean, (CLASS, REPLACED))]
)
def test_likelihood_ratio_tests_lie_on_the_curve_and_those_of_other_noise_do_not(mechanism, pair):
    ratios = log_ratios(mechanism(eps=1), *pair)
    assert is_log_ratio(*ratios)
    assert not is_log_ratio(*(1.3 * r for r in ratios))
    assert curve_is(lambda a: mechanism(eps=1).tradeoff(a, *pair), *ratios)  # false failure 1e-6
    for share in (0.7, 1.3):
        assert not curve_is(
            lambda a, s=share: with_noise(mechanism, s, eps=1).tradeoff(a, *pair), *ratios
        )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_group_of_k_leaks_at_most_k_eps_and_so_does_it_here(k):
    group = np.zeros(10 + k)
    ratio = (
        Laplace(eps=0.5).release(ABSENT, 5000, np.random.default_rng(0)).log_ratio(ABSENT, group)
    )
    assert np.max(np.abs(ratio)) == pytest.approx(0.5 * k)
    alpha = np.linspace(0.001, 1, 100)
    most = np.max(PureDP().parameter(alpha, Laplace(eps=0.5).tradeoff(alpha, ABSENT, group)))
    # replace-one, one gone and one come, is a group of 2: twice add/remove
    assert most == pytest.approx(0.5 * k)


def test_log_ratio_is_the_one_of_two_laplace_densities():
    runs = with_noise(Laplace, 0.8, eps=1).release(ABSENT, 50, np.random.default_rng(0))
    expected = laplace.logpdf(runs.noisy, 11, 0.8) - laplace.logpdf(runs.noisy, 10, 0.8)
    np.testing.assert_allclose(runs.log_ratio(ABSENT, PRESENT), expected, atol=1e-12)


def test_scores_out_of_range_are_clipped():
    assert ClassMean(eps=1).mean(np.array([-50.0, 250.0])) == 50.0


@pytest.mark.parametrize("bad", [{"eps": 0}, {"eps": math.inf}, {"top": 0}, {"delta": 0.1}])
def test_refuses_what_is_out_of_range(bad):
    with pytest.raises(ValidationError):
        ClassMean(**({"eps": 1} | bad))
