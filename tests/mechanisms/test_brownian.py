"""The Brownian and the Laplace ladder: their laws, their reports, and what a wrong scale would look
like."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from audit.core import Domain, ReportsSpending, Table
from audit.mechanisms import train_and_check
from audit.mechanisms.broken import brownian as broken_brownian
from audit.mechanisms.brownian import Brownian, sequence, vector_query
from audit.mechanisms.laplace_reduction import LaplaceReduction, coupled
from audit.mechanisms.train_and_check import TrainAndCheck

ABSENT, PRESENT = np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [0.6, 0.8]])
FAR = np.array([[0.0, 0.0], [30.0, -40.0]])
ZEROS = Table(Domain(("a", "b"), (2, 2)), np.zeros((10, 2), int))
CANARY = Table(ZEROS.domain, np.concatenate([ZEROS.records, [[1, 1]]]))
CERTAIN = 4.9  # standard deviations that a normal is off by with probability 1e-6, two-sided


@pytest.mark.parametrize("norm, most", [("l1", 2.0), ("l2", 2**0.5)])
def test_one_record_moves_the_answer_by_the_sensitivity_at_most(norm, most):
    order = 1 if norm == "l1" else 2
    for before, after, limit in ((ZEROS, CANARY, most), (ABSENT, PRESENT, 1.0), (ABSENT, FAR, 1.0)):
        (a, promised), (b, _) = (
            vector_query(data if isinstance(data, Table) else np.array(data), norm)
            for data in (before, after)
        )
        assert promised == limit
        assert np.linalg.norm(b - a, ord=order) <= limit + 1e-12


def test_covariances_are_the_smaller_variance_and_a_wrong_one_is_seen():
    precision, n = np.array([0.5, 1.0, 4.0]), 40_000
    seen = sequence(np.zeros(1), precision, n, np.random.default_rng(0))[:, :, 0]
    due = 1 / np.maximum.outer(precision, precision)
    off = np.abs(np.cov(seen.T) - due) / np.sqrt((np.outer(*[1 / precision] * 2) + due**2) / n)
    # The standard error of a covariance is √((σ_i²σ_j² + c²)/n); nine of them, so 9e-6·… a false
    # failure: 1e-6 at 5.3.
    assert off.max() < 5.3
    fresh = np.random.default_rng(0).normal(size=(n, 3)) / np.sqrt(precision)
    assert (
        np.abs(np.cov(fresh.T) - due) / np.sqrt((np.outer(*[1 / precision] * 2) + due**2) / n)
    ).max() > 50


def test_the_noise_is_what_the_ladder_says_and_a_scale_off_by_a_tenth_is_seen():
    mechanism = Brownian(ladder=(0.5, 2.0), order=3.0, stop=1e6)
    steps = mechanism.release(PRESENT, 20_000, np.random.default_rng(1))
    due = np.sqrt(3.0 / (2 * 2.0))
    spread = np.std(steps.last - [0.6, 0.8])
    error = due / np.sqrt(2 * 40_000)
    assert abs(spread - due) < CERTAIN * error  # 1e-6
    assert abs(1.1 * spread - due) > CERTAIN * error


def test_each_step_of_the_laplace_ladder_is_laplace_and_a_gaussian_is_not():
    scale = np.array([4.0, 2.0, 1.0])
    noise = coupled(scale, 20_000, 1, np.random.default_rng(2))[:, :, 0]
    for k in range(3):
        # 1e-6 in all
        assert stats.kstest(noise[:, k], stats.laplace(scale=scale[k]).cdf).pvalue > 1e-6 / 3
    assert stats.kstest(noise[:, 2], stats.norm(scale=2**0.5).cdf).pvalue < 1e-6
    assert stats.kstest(noise[:, 2] * 1.3, stats.laplace(scale=1.0).cdf).pvalue < 1e-6


def test_given_the_last_step_the_first_does_not_depend_on_the_data():
    # What it adds is its own: the increment is independent of the last step's noise.
    noise = coupled(np.array([2.0, 1.0]), 20_000, 1, np.random.default_rng(3))[:, :, 0]
    correlation = np.corrcoef(noise[:, 0] - noise[:, 1], noise[:, 1])[0, 1]
    # fourth moments of a Laplace are 6 times a normal's
    assert abs(correlation) < CERTAIN * np.sqrt(1 / 20_000) * 3


@pytest.mark.parametrize(
    "mechanism", [Brownian(), LaplaceReduction(), TrainAndCheck(validators=10)]
)
def test_reports_are_the_last_steps_and_releases_after_the_stop_are_not_shown(mechanism):
    steps = mechanism.release(CANARY, 200, np.random.default_rng(4))
    assert isinstance(steps, ReportsSpending)
    columns = dict(zip(steps.insider().names, steps.insider().values.T, strict=True))
    assert np.array_equal(columns["eps"], steps.spent())
    for k in range(4):
        assert np.array_equal(columns[f"made[{k}]"] == 1, steps.stopped >= k)
        assert np.all(columns[f"release[{k}][0]"][steps.stopped < k] == 0)
    if not isinstance(mechanism, TrainAndCheck):
        assert np.array_equal(steps.spent(), np.array(mechanism.ladder)[steps.stopped])
        assert len(np.unique(steps.stopped)) > 1, "a stop that never varies would test nothing"


def test_a_pure_report_caps_every_ratio():
    mechanism = LaplaceReduction()
    for data in (ZEROS, CANARY):
        steps = mechanism.release(data, 5000, np.random.default_rng(5))
        assert np.all(np.abs(steps.log_ratio(ZEROS, CANARY)) <= steps.spent() + 1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [
        Brownian(),
        broken_brownian.FreshNoise(),
        broken_brownian.PreviousStep(),
        LaplaceReduction(),
        TrainAndCheck(),
    ],
)
def test_log_ratios_are_those_of_a_likelihood(mechanism):
    # E_absent[e^L] = 1 whatever the mechanism reports; L is bounded well enough here for a normal
    # tail.
    ratio = mechanism.release(ZEROS, 60_000, np.random.default_rng(6)).log_ratio(ZEROS, CANARY)
    value = np.minimum(np.exp(ratio), 1e3)
    assert abs(value.mean() - 1) < CERTAIN * value.std() / np.sqrt(len(value)) + 0.02
    wrong = np.exp(1.3 * ratio)
    assert abs(wrong.mean() - 1) > 10 * wrong.std() / np.sqrt(len(wrong))


def test_the_ratio_of_the_last_release_is_that_of_the_whole_path():
    mechanism = dataclasses.replace(Brownian(), stop=1e6)
    steps = mechanism.release(CANARY, 50, np.random.default_rng(7))
    gain = np.diff(steps.precision, prepend=0.0)
    drawn = np.diff(steps.releases * steps.precision[:, None], axis=1, prepend=0.0) / gain[:, None]
    a, b = vector_query(ZEROS, "l2")[0], vector_query(CANARY, "l2")[0]
    density = [
        stats.norm(m, 1 / np.sqrt(gain)[:, None]).logpdf(drawn).sum(axis=(1, 2)) for m in (a, b)
    ]
    assert steps.log_ratio(ZEROS, CANARY) == pytest.approx(density[1] - density[0])


def test_validation_and_training_are_apart_and_the_larger_is_reported():
    training, validating = train_and_check.parts(CANARY)
    assert len(training.records) == 1 and len(validating.records) == 10
    assert TrainAndCheck(check=0.3).report(np.array([0, 3])).tolist() == [0.3, 2.0]
    assert broken_brownian.ValidationOnly(check=0.3).report(
        np.array([0, 3])
    ).tolist() == pytest.approx([0.3, 1.2])


@pytest.mark.parametrize("kind", [Brownian, LaplaceReduction, TrainAndCheck])
@pytest.mark.parametrize("ladder", [(), (2.0, 1.0), (0.0, 1.0)])
def test_a_ladder_that_does_not_increase_is_refused(kind, ladder):
    with pytest.raises(ValueError, match="does not increase"):
        kind(ladder=ladder)


@pytest.mark.parametrize("kind", [Brownian, LaplaceReduction, TrainAndCheck])
def test_an_order_of_one_is_refused(kind):
    with pytest.raises(ValueError, match="greater than 1"):
        kind(order=1.0)
