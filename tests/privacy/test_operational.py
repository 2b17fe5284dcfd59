"""What a claim means for tests, guesses and posteriors."""

import math

import numpy as np
import pytest

from audit.privacy import (
    GDP,
    ZCDP,
    PureDP,
    least_fnr,
    max_accuracy,
    max_posterior,
    max_posterior_at_fpr,
    max_tpr,
    mu_hat,
)


def test_published_counts_point_estimate():
    assert mu_hat(949 / 2000, 743 / 2000) == pytest.approx(0.391846, abs=5e-7)


def test_posterior_caps():
    caps = {0.1: 0.52498, 1: 0.73106, math.log(3): 0.75, 2: 0.88080, 4: 0.98201, 8: 0.999665}
    for epsilon, cap in caps.items():
        assert max_posterior(epsilon) == pytest.approx(cap, abs=5e-6)
        # From 1/2 the best guess is right as often as the cap says.
        assert max_accuracy(PureDP(), epsilon) == pytest.approx(max_posterior(epsilon), abs=1e-12)
    low, high = max_posterior(-math.log(3), 0.1), max_posterior(math.log(3), 0.1)
    assert (round(100 * low, 3), round(100 * high, 3)) == (3.571, 25.0)
    assert (max_posterior(-1e6), max_posterior(1e6)) == (0.0, 1.0)
    with pytest.raises(ValueError, match="prior = 1"):
        max_posterior(1.0, 1.0)


def test_posterior_after_a_yes():
    alpha = np.array([0.001, 0.05, 0.2])
    for prior in (0.1, 0.5):
        np.testing.assert_allclose(
            max_posterior_at_fpr(PureDP(), 1.0, alpha, prior), max_posterior(1.0, prior)
        )
        assert np.all(
            np.diff(max_posterior_at_fpr(GDP(), 1.0, alpha, prior)) < 0
        )  # rarer yeses tell more
        assert max_posterior_at_fpr(GDP(), 0.0, 0.05, prior) == pytest.approx(prior)
    assert max_posterior_at_fpr(PureDP(), math.log(3), 0.1, 0.1) == pytest.approx(0.25)
    assert max_posterior_at_fpr(ZCDP(), math.inf, 0.5) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="prior"):
        max_posterior_at_fpr(GDP(), 1.0, 0.05, 0.0)


def test_the_curve_of_two_laws_is_that_of_the_best_events():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(6), size=2)
    p[2] = q[4] = 0.0  # what only one of them has
    p, q = p / p.sum(), q / q.sum()
    events = np.array([[i >> k & 1 for k in range(6)] for i in range(64)], dtype=bool)
    fpr, fnr = events @ p, 1 - events @ q
    curve = least_fnr(p, q, fpr)
    assert np.all(curve <= fnr + 1e-12)  # no event is below it
    corners = np.isclose(curve, fnr, atol=1e-12)
    assert corners.sum() >= 6 and np.any(corners & (fpr > 0) & (fnr > 0))  # and it is reached
    alpha = np.linspace(0, 1, 101)
    beta = least_fnr(p, q, alpha)
    assert np.all(np.diff(beta) <= 1e-12) and np.all(
        beta[:-2] + beta[2:] - 2 * beta[1:-1] >= -1e-12
    )
    # the other way round: its inverse
    np.testing.assert_allclose(least_fnr(q, p, beta[5:60]), alpha[5:60], atol=1e-9)
    assert least_fnr(p, p, 0.3) == pytest.approx(0.7) and least_fnr([1, 0], [0, 1], 0.0) == 0.0


def test_power_of_any_level_alpha_test():
    assert max_tpr(PureDP(), 1.0, 0.05) == pytest.approx(0.1359, abs=5e-5)
    assert max_tpr(GDP(), 0.0, 0.05) == pytest.approx(0.05)
    assert max_tpr(ZCDP(), math.inf, 0.05) == 1.0
