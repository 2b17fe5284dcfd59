"""The sparse vector variants against the figures that Lyu, Su and Li's analysis gives, by
quadrature."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from audit.mechanisms.broken.svt import Answered, SparseVector


def below(x, scale):
    return np.exp(x / scale) / 2 if x < 0 else 1 - np.exp(-x / scale) / 2


def loss(made_by, said, absent, present, value=0.0):
    """|log P(said | present) − log P(said | absent)|, all queries asked."""
    yes = np.array([said], bool)
    answered = Answered(made_by, yes, np.ones_like(yes), np.where(yes, value, 0.0))
    return abs(float(answered.log_ratio(np.array([absent], float), np.array([present], float))[0]))


def two_halves(n, c):
    """0ⁿ1ᶜ, 1ⁿ0ᶜ, and the output ⊥ⁿ⊤ᶜ that tells them apart."""
    return [0] * n + [1] * c, [1] * n + [0] * c, [0] * n + [1] * c


@pytest.mark.parametrize(("cutoff", "eps"), [(1, 1.75), (2, 3.25), (5, 7.75)])
def test_algorithm_4_costs_1_plus_6c_quarters(cutoff, eps):
    absent, present, said = two_halves(100, cutoff)
    assert loss(SparseVector(1, 4, 4 / 3, cutoff), said, absent, present) == pytest.approx(
        eps, abs=5e-4
    )
    assert eps == (1 + 6 * cutoff) / 4


@pytest.mark.parametrize("cutoff", [1, 2, 5])
def test_algorithm_1_costs_1_on_the_same_pair(cutoff):
    absent, present, said = two_halves(100, cutoff)
    assert loss(SparseVector(1, 2, 4 * cutoff, cutoff), said, absent, present) == pytest.approx(
        1, abs=5e-4
    )


@pytest.mark.parametrize(("m", "eps"), [(1, 0.737), (2, 1.530), (5, 4.031), (10, 8.347)])
def test_algorithm_6_has_no_cutoff(m, eps):
    absent, present, said = two_halves(m, m)
    assert loss(SparseVector(1, 2, 2, None), said, absent, present) == pytest.approx(eps, abs=6e-4)


@pytest.mark.parametrize(("m", "eps"), [(5, 2.63), (10, 4.77), (20, 9.62)])
def test_algorithm_3_costs_what_its_value_tells_of_the_threshold(m, eps):
    absent, present, said = two_halves(m, 1)
    mechanism = SparseVector(1, 2, 2, 1, tells_value=True)
    worst = minimize_scalar(
        lambda v: -loss(mechanism, said, absent, present, v), bounds=(0, 1.5), method="bounded"
    )
    assert -worst.fun == pytest.approx(eps, abs=6e-3)


@pytest.mark.parametrize("value", [-1.3, 0.21, 0.8, 1.0, 2.7])
def test_the_density_of_a_value_is_that_of_a_slow_integral(value):
    m, scale, threshold = 4, 1.5, 0.3
    mechanism = SparseVector(1, scale, scale, 1, threshold, tells_value=True)
    yes = np.array([[0] * m + [1]], bool)
    answered = Answered(mechanism, yes, np.ones_like(yes), np.where(yes, value, 0.0))

    def integrand(bar, answer):
        return np.exp(-abs(bar) / scale) / (2 * scale) * below(threshold + bar - answer, scale) ** m

    for answer, last in ((0.0, 1.0), (1.0, 0.0)):
        top = value - threshold
        cuts = sorted({-60.0, top, *(x for x in (-10.0, 0.0, answer - threshold) if x < top)})
        slow = sum(
            quad(integrand, a, b, (answer,), epsrel=1e-11)[0] for a, b in itertools.pairwise(cuts)
        )
        slow *= np.exp(-abs(value - last) / scale) / (2 * scale)
        fast = answered._log_density(np.array([answer] * m + [last]))[0]
        assert fast == pytest.approx(np.log(slow), abs=3e-3)


def test_algorithm_5_has_an_output_that_one_data_set_never_gives():
    absent, present = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    mechanism = SparseVector(1, 2, 0, None)
    n = 100_000
    seen = [mechanism.release(data, n, np.random.default_rng(0)).yes for data in (absent, present)]
    no_yes = [float(np.mean(~yes[:, 0] & yes[:, 1])) for yes in seen]
    exact = (1 - np.exp(-0.5)) / 2  # the threshold's noise lies in (0, 1]
    assert round(exact, 4) == 0.1967 and no_yes[1] == 0
    assert abs(no_yes[0] - exact) < 5 * np.sqrt(exact * (1 - exact) / n)  # false failure: 6e-7
    assert mechanism.release(absent, 4, np.random.default_rng(0)).log_ratio(absent, present) is None


def worst_deviation(sampled, computed):
    """Of the frequencies of all that may be said, in standard errors of the computed
    probabilities."""
    answers = np.array([[0.0, 1.0, 0.0]])
    n = 200_000
    said = sampled.release(answers, n, np.random.default_rng(1))
    _, first, times = np.unique(said.public().values, axis=0, return_index=True, return_counts=True)
    each = Answered(computed, said.yes[first], said.asked[first], said.value[first])
    p = np.exp(each._log_density(answers.sum(axis=0)))
    return np.max(np.abs(times / n - p) / np.sqrt(p * (1 - p) / n)), p.sum()


@pytest.mark.parametrize("cutoff", [1, None], ids=["Algorithm 1", "Algorithm 6"])
def test_what_is_said_is_as_frequent_as_computed(cutoff):
    honest, other = SparseVector(1, 2, 4, cutoff), SparseVector(1, 2, 4 * 0.7, cutoff)
    deviation, total = worst_deviation(honest, honest)
    assert total == pytest.approx(1, abs=1e-3)
    assert deviation < 6  # at most 8 outputs, each at most 6 standard errors: false failure 2e-8
    assert worst_deviation(other, honest)[0] > 6  # 30 % less noise is caught


def test_nothing_is_asked_after_the_last_yes():
    data = np.array([[9.0] * 6])
    columns = SparseVector(1, 0.01, 0.01, 2).release(data, 10, np.random.default_rng(0)).public()
    assert columns.names[-1] == "asked" and np.array_equal(
        columns.values, [[1, 1, 0, 0, 0, 0, 2]] * 10
    )


def test_values_need_one_noisy_yes():
    for cutoff, noise in ((2, 1.0), (None, 1.0), (1, 0.0)):
        with pytest.raises(ValueError, match="tells_value needs"):
            SparseVector(1, 1, noise, cutoff, tells_value=True)
