import math

import numpy as np
import pytest
from mechanisms.samples import curve_is, is_log_ratio, log_ratios, mean_is, with_noise

from audit.core import AuditError
from audit.mechanisms.randomised_response import OneHotFlip, RandomisedResponse
from audit.privacy import PureDP

NO, YES = np.array([0.0]), np.array([1.0])
ALPHA = np.linspace(0, 1, 101)


def test_the_figures():
    assert RandomisedResponse(eps=math.log(3)).truthful == pytest.approx(0.75)
    assert RandomisedResponse(eps=math.log(3)).estimate(400 / 1000) == pytest.approx(0.30)
    assert OneHotFlip(eps=4).flip == pytest.approx(0.119203, abs=5e-7)


def test_the_estimate_is_unbiased():
    mechanism, truth = RandomisedResponse(eps=1), np.repeat([1.0, 0.0], [300, 700])
    answers = mechanism.release(truth, 200, np.random.default_rng(0)).bits
    assert mean_is(mechanism.estimate(answers.mean(axis=1)), 0.3)


@pytest.mark.parametrize(("make", "flip"), [(RandomisedResponse, 0.268941), (OneHotFlip, 0.377541)])
def test_noise_is_what_the_claim_says_and_a_broken_one_is_found(make, flip):
    def turned(share):
        runs = with_noise(make, share, eps=1).release(NO, 20_000, np.random.default_rng(0))
        return runs.bits[:, -1]  # a bit that is 0 in truth

    assert mean_is(turned(1.0), flip)
    for share in (0.7, 1.3):
        assert not mean_is(turned(share), flip)


def test_the_curve_of_one_answer_is_that_of_the_claim():
    for eps in (0.1, 1.0, math.log(3), 4.0):
        (claim,) = RandomisedResponse(eps=eps).claims
        assert (claim.notion, claim.parameter, claim.neighbours) == (PureDP(), eps, "replace_one")
        np.testing.assert_allclose(
            RandomisedResponse(eps=eps).tradeoff(ALPHA, NO, YES),
            PureDP().beta(ALPHA, eps),
            atol=1e-12,
        )


def test_one_hot_vectors_keep_eps_and_flipping_with_the_whole_of_it_spends_twice():
    exact, twice = (
        with_noise(OneHotFlip, share, eps=1).tradeoff(ALPHA, NO, YES) for share in (1.0, 0.5)
    )
    assert np.max(PureDP().parameter(ALPHA, exact)) == pytest.approx(1.0)
    assert np.max(PureDP().parameter(ALPHA, twice)) == pytest.approx(2.0)
    assert with_noise(OneHotFlip, 0.5, eps=1).flip == pytest.approx(1 / (1 + math.e))


@pytest.mark.parametrize("make", [RandomisedResponse, OneHotFlip])
def test_likelihood_ratio_tests_lie_on_the_curve_and_those_of_other_noise_do_not(make):
    ratios = log_ratios(make(eps=1), NO, YES)
    assert np.max(np.abs(np.concatenate(ratios))) == pytest.approx(1.0)
    assert is_log_ratio(*ratios) and not is_log_ratio(*(1.3 * r for r in ratios))
    assert curve_is(lambda a: make(eps=1).tradeoff(a, NO, YES), *ratios)  # false failure 1e-6
    for share in (0.7, 1.3):
        assert not curve_is(
            lambda a, s=share: with_noise(make, s, eps=1).tradeoff(a, NO, YES), *ratios
        )


def test_only_the_answers_that_differ_tell():
    absent, present = np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0])
    runs = RandomisedResponse(eps=2).release(absent, 100, np.random.default_rng(0))
    np.testing.assert_allclose(
        runs.log_ratio(absent, present), np.where(runs.bits[:, 0], 2.0, -2.0)
    )


def test_a_category_that_there_is_not():
    with pytest.raises(AuditError, match="records 0 … 3;"):
        OneHotFlip(eps=1).release(np.array([4.0]), 2, np.random.default_rng(0))
