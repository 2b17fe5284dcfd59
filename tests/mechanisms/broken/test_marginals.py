"""Marginal-based synthesis gone wrong."""

import numpy as np
import pytest

from audit.canaries.worst_case import WorstCase
from audit.mechanisms.broken.marginals import DomainFromData, ReusedMeasurement, ShareAsSigma

PAIR = WorstCase()
CLAIM = {"eps": 1, "delta": 0.01}


def values(mechanism, bit, n=1000):
    return mechanism.release(PAIR.data([bit]), n, np.random.default_rng(0)).insider().values


def test_a_share_of_rho_is_a_tiny_sigma():
    noisy = values(ShareAsSigma(**CLAIM), False, 20_000)
    sigma = noisy[:, 0].std()
    # The standard error of a standard deviation is σ/√(2n); 5.2 of them: false failure 2e-7.
    assert abs(sigma - 0.103413 / 3) < 5.2 * sigma / np.sqrt(40_000)
    assert round(0.103413 / 3, 4) == 0.0345 and round(np.sqrt(3 / (2 * 0.103413)), 2) == 3.81
    assert round(3 / 0.103413) == 29  # μ of one marginal
    ratio = ShareAsSigma(**CLAIM).release(PAIR.data([False]), 20_000, np.random.default_rng(0))
    spread = ratio.log_ratio(PAIR.data([False]), PAIR.data([True])).std()
    assert spread == pytest.approx(50.24669, rel=0.03)  # μ of all three: √3 times as much


def test_two_measurements_with_one_draw_give_the_marginals_away():
    for bit in (False, True):
        noisy = values(ReusedMeasurement(**CLAIM), bit)
        truth = np.concatenate([PAIR.data([bit]).marginal((c,)) for c in "abc"])
        np.testing.assert_allclose(noisy[:, 12:], np.tile(truth, (1000, 1)), atol=1e-9)
        assert noisy[:, :12].std(axis=0).min() > 1


def test_a_domain_that_is_read_from_the_data_grows():
    assert set(values(DomainFromData(**CLAIM), False)[:, 0]) == {1.0}
    assert set(values(DomainFromData(**CLAIM), True)[:, 0]) == {2.0}
