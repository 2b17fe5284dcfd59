"""Conversions between notions at their extremes, against mpmath and the textbook formulas as they
are.

Nothing is random. Each inverse is checked by its own forward formula: the exact value is within
1e-9 of what was found where the formula passes through the target between the two ends of that
interval.
"""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from audit.privacy import direct_mu, eps_from_rho, gdp_delta, gdp_epsilon, rho_from_eps_delta

EPS = [0.0, 1e-12, 1e-6, 0.1, 1.0, 30.0, 700.0]
DELTAS = [1e-300, 1e-100, 1e-20, 1e-5, 0.3, 0.5, 0.7, 1 - 1e-6, 1 - 1e-12]
NEAR = mp.mpf(10) ** -9
PAIRS = list(itertools.product(EPS, DELTAS))


@pytest.fixture(autouse=True)
def digits():
    """Enough that neither 1 − 1/order nor a difference of two Φ that agree in 300 digits loses what
    is left."""
    with mp.workdps(380):
        yield


def exact_delta(mu, eps):
    """Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2), as published."""
    mu, eps = mp.mpf(mu), mp.mpf(eps)
    first, second = (mp.erfc((eps / mu + sign * mu / 2) / mp.sqrt(2)) / 2 for sign in (-1, 1))
    return first - mp.exp(eps) * second


def exact_log_delta(rho, eps):
    """ln of min over orders a > 1 of e^((a−1)(aρ−ε))/(a−1)·(1−1/a)^a, as published; the order by
    bisection."""
    rho, eps = mp.mpf(rho), mp.mpf(eps)
    low, high = mp.mpf(-1500), mp.mpf(1500)  # of ln(a − 1)
    # the minimum is flat: half as many digits of the order will do
    while high - low > mp.mpf(10) ** -25:
        u = (low + high) / 2
        rises = (2 * mp.exp(u) + 1) * rho - eps - mp.log(1 + mp.exp(-u)) > 0
        low, high = (low, u) if rises else (u, high)
    a = 1 + mp.exp(low)
    return (a - 1) * (a * rho - eps) - mp.log(a - 1) + a * mp.log(1 - 1 / a)


@pytest.mark.parametrize(("eps", "delta"), PAIRS)
def test_direct_mu_and_gdp_delta(eps, delta):
    mu = direct_mu(eps, delta)
    assert exact_delta(mu * (1 - NEAR), eps) < delta < exact_delta(mu * (1 + NEAR), eps)
    true = exact_delta(mu, eps)
    # A δ of 1e-300 that fell below that by the rounding of μ is still a normal number.
    assert abs(gdp_delta(mu, eps) - true) <= NEAR * true
    opposite = exact_delta(mu, -eps)
    assert abs(gdp_delta(mu, -eps) - opposite) <= NEAR * opposite


@pytest.mark.parametrize(("eps", "delta"), PAIRS)
def test_gdp_epsilon(eps, delta):
    mu = direct_mu(eps, delta)
    found = gdp_epsilon(mu, delta)
    # Where δ(ε) hardly depends on ε, the last digits of δ are many of ε: nobody can know more.
    slope = mp.exp(eps) * mp.erfc((eps / mp.mpf(mu) + mp.mpf(mu) / 2) / mp.sqrt(2)) / 2
    allowed = NEAR * found + mp.mpf(10) ** -13 * delta / slope
    assert exact_delta(mu, found + allowed) <= delta
    assert found <= allowed or exact_delta(mu, found - allowed) >= delta


@pytest.mark.parametrize(("eps", "delta"), PAIRS)
def test_rho_from_eps_delta_and_back(eps, delta):
    rho = rho_from_eps_delta(eps, delta)
    if rho == 0:  # about e/2·δ² at ε = 0, below every number
        assert eps == 0 and delta < 1e-150
        return
    assert (
        exact_log_delta(rho * (1 - NEAR), eps)
        < mp.log(delta)
        < exact_log_delta(rho * (1 + NEAR), eps)
    )
    # ε is a difference of an order's share of ρ and a logarithm: known to their last digits.
    assert eps_from_rho(rho, delta) == pytest.approx(
        eps, rel=1e-9, abs=1e-13 * max(rho, -math.log(delta))
    )


def test_what_was_wrong():
    assert direct_mu(0, 1e-20) == pytest.approx(math.sqrt(2 * math.pi) * 1e-20, rel=1e-12)
    assert direct_mu(1e-12, 1e-300) == pytest.approx(2.77038133558e-14, rel=1e-9)
    assert rho_from_eps_delta(0, 1e-20) == pytest.approx(math.e / 2 * 1e-40, rel=1e-9)


def test_a_whole_grid_of_gdp_delta():
    mu = np.geomspace(1e-14, 40, 24)
    eps = np.array([0.0, 1e-12, 1e-3, 0.05, 1.0, 20.0, 700.0])
    ours = gdp_delta(mu[:, None], eps)
    for i, j in np.ndindex(ours.shape):
        true = exact_delta(mu[i], eps[j])
        assert abs(ours[i, j] - true) <= (NEAR * true if true > 1e-300 else 1e-300)


def test_the_textbook_difference_is_caught():
    """The broken twin: two values of Φ in double precision agree in all digits."""
    from scipy.special import ndtr

    mu, eps = direct_mu(0.0, 1e-20), 0.0
    naive = ndtr(-eps / mu + mu / 2) - math.exp(eps) * ndtr(-eps / mu - mu / 2)
    assert naive == 0.0
    assert gdp_delta(mu, eps) == pytest.approx(1e-20, rel=1e-9)
