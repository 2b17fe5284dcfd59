"""Private answers to "is it good enough?": their laws, and what they cost."""

import math

import numpy as np
import pytest

from audit.accountants import pure_to_renyi
from audit.mechanisms.checks import GaussianThreshold, LaplaceThreshold, stopping_law


def test_every_gaussian_look_costs():
    looks = GaussianThreshold(eps=0.1).begin(0.9, 0.01, 2.0, np.random.default_rng(0))
    assert not looks.passes(0.1) and not looks.passes(0.2) and looks.passes(2.0)
    assert looks.costs == [0.1] * 3
    assert looks.sigma == pytest.approx(0.01 * math.sqrt(2.0 / 0.2))


def test_above_threshold_costs_once_and_stops():
    looks = LaplaceThreshold(eps=0.5).begin(0.9, 0.001, 3.0, np.random.default_rng(0))
    assert looks.costs == []
    assert not looks.passes(0.1) and not looks.passes(0.2) and looks.passes(2.0)
    assert looks.costs == [pytest.approx(0.3024, abs=5e-5)] == [pure_to_renyi(0.5, 3.0)]
    with pytest.raises(ValueError, match="said yes"):
        looks.passes(0.1)


def test_the_law_of_the_stop_is_the_one_that_is_played():
    values, n = np.array([-1.0, 0.0, 1.0]), 20_000
    law = stopping_law(values, 1.0, 1.0)
    assert law.sum() == pytest.approx(1, abs=1e-10)
    rng, counts = np.random.default_rng(1), np.zeros(4)
    for _ in range(n):
        looks = LaplaceThreshold(eps=1.0).begin(0.0, 1.0, 2.0, rng)
        counts[next((k for k, value in enumerate(values) if looks.passes(float(value))), 3)] += 1
    # Four cells within 5.1 standard errors each: a false failure in 4·3.4e-7.
    assert np.all(np.abs(counts / n - law) < 5.1 * np.sqrt(law * (1 - law) / n))
    halved = stopping_law(values, 2.0, 1.0)  # half the noise is told apart
    assert np.any(np.abs(counts / n - halved) > 5.1 * np.sqrt(halved * (1 - halved) / n))


def test_above_threshold_is_pure_and_needs_all_of_its_noise():
    worst = 0.0
    for code in range(3**4):
        move = np.array([code // 3**k % 3 - 1 for k in range(4)], float)
        p, q = stopping_law(move, 1.0, 1.0), stopping_law(np.zeros(4), 1.0, 1.0)
        worst = max(worst, float(np.max(np.abs(np.log(p / q)))))
    assert 0.5 < worst <= 1.0 + 1e-9
