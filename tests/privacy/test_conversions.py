"""Conversions between ε, δ, μ and ρ: published figures, slow formulas, dp_accounting."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy.curves import density
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from audit.privacy import (
    GDP,
    direct_mu,
    eps_from_rho,
    gdp_delta,
    gdp_epsilon,
    implied_mu,
    rho_from_eps_delta,
    simple_eps_from_rho,
)

TABLE = """
0.1 0.0033828 0.0822533 0.104802 0.000432994 0.0294277 0.0325208 0.000177138 0.0188222 0.0199164
0.5 0.0352284 0.265437 0.317772 0.00850553 0.130426 0.142211 0.00395319 0.0889178 0.0936865
1   0.103413 0.454781 0.532517 0.0305566 0.247211 0.268051 0.0149731 0.173049 0.181975
2   0.305078 0.781125 0.895853 0.108256 0.465309 0.501552 0.0561305 0.335054 0.351550
4   0.884072 1.32972 1.49468 0.373144 0.863880 0.924931 0.206313 0.642360 0.672132
10  3.39901 2.60730 2.85635 1.78270 1.88822 2.00045 1.09079 1.47701 1.53788
"""

CELLS = [
    (row[0], delta, row[1 + 3 * k : 4 + 3 * k])
    for row in (list(map(float, line.split())) for line in TABLE.strip().splitlines())
    for k, delta in enumerate((1e-2, 1e-5, 1e-9))
]


def six_digits(value):
    return float(f"{value:.6g}")


@pytest.mark.parametrize(("epsilon", "delta", "cells"), CELLS)
def test_conversion_table(epsilon, delta, cells):
    rho = rho_from_eps_delta(epsilon, delta)
    assert [six_digits(v) for v in (rho, implied_mu(rho), direct_mu(epsilon, delta))] == cells
    assert eps_from_rho(rho, delta) == pytest.approx(epsilon, rel=1e-10)
    assert gdp_epsilon(direct_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-10)
    assert simple_eps_from_rho(rho, delta) > epsilon


def test_default_budget_to_eleven_digits():
    rho = rho_from_eps_delta(1.0, 0.01)
    assert rho == pytest.approx(0.10341283143, abs=1e-11)
    assert implied_mu(rho) == pytest.approx(0.45478089545, abs=1e-11)
    assert direct_mu(1.0, 0.01) == pytest.approx(0.53251664850, abs=1e-11)


def test_census_budgets():
    assert [round(simple_eps_from_rho(rho, 1e-10), 3) for rho in (2.56, 0.07)] == [17.915, 2.609]
    assert [round(eps_from_rho(rho, 1e-10), 3) for rho in (2.56, 0.07)] == [17.158, 2.387]
    assert [round(eps_from_rho(rho, 1e-10), 2) for rho in (2.5553, 0.0747)] == [17.14, 2.47]


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [(0.163850, 0.583540), (0.786812, 3.323300), (0.5, 1.99), (0.5 * math.sqrt(10), 7.51)],
)
def test_gdp_epsilon_figures(mu, epsilon):
    assert gdp_epsilon(mu, 1e-5) == pytest.approx(
        epsilon, abs=5e-3 if epsilon in (1.99, 7.51) else 2e-5
    )


def test_tangents_of_the_gaussian_curve_are_gdp_delta():
    """TPR − λ·FPR ≤ Φ(μ/2 − ln λ/μ) − λΦ(−μ/2 − ln λ/μ), with equality at one alpha."""
    alpha = ndtr(np.linspace(-9, 9, 20001))
    for mu in (0.3, 1.0, 3.0):
        for scale in (0.2, 1.0, 4.0):
            excess = 1 - GDP().beta(alpha, mu) - scale * alpha
            assert np.max(excess) == pytest.approx(gdp_delta(mu, math.log(scale)), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rho_from_eps_delta(1.0, 0.0), "delta = 0.0"),
        (lambda: rho_from_eps_delta(math.nan, 0.1), "epsilon = nan"),
        (lambda: direct_mu(-1.0, 0.1), "epsilon = -1.0"),
        (lambda: eps_from_rho(math.inf, 0.1), "rho = inf"),
        (lambda: gdp_epsilon(1.0, 1.5), "delta = 1.5"),
        (lambda: gdp_epsilon(math.nan, 0.5), "mu = nan"),
    ],
)
def test_bad_numbers_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_conversions_against_dp_accounting():
    import dp_accounting
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    for epsilon, delta in ((0.5, 1e-2), (1.0, 1e-5), (4.0, 1e-9)):
        mu = direct_mu(epsilon, delta)
        assert 1 / dp_accounting.get_sigma_gaussian(epsilon, delta) == pytest.approx(mu, rel=1e-6)
        assert dp_accounting.get_epsilon_gaussian(1 / mu, delta) == pytest.approx(epsilon, rel=1e-6)
        rho = rho_from_eps_delta(epsilon, delta)
        orders = np.logspace(math.log10(1.02), 4, 20000)
        assert compute_epsilon(orders, rho * orders, delta)[0] == pytest.approx(epsilon, rel=1e-5)
        assert compute_epsilon(orders, rho * orders, delta)[0] >= epsilon * (1 - 1e-9)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 0.1), (1.0, 1.0), (2.0, -0.7), (1.5, 4.0)])
def test_gdp_delta_by_integration(mu, epsilon):
    edge = epsilon / mu + mu / 2
    slow = quad(
        lambda x: density(x - mu) - math.exp(epsilon) * density(x), edge, edge + 40, epsabs=1e-13
    )[0]
    assert gdp_delta(mu, epsilon) == pytest.approx(slow, abs=1e-11)


def test_gdp_delta_extremes():
    assert gdp_delta(0.0, 0.0) == 0.0
    assert gdp_delta(0.0, -1.0) == pytest.approx(1 - math.exp(-1))
    assert gdp_delta(math.inf, 5.0) == 1.0
    assert gdp_delta(1.0, math.inf) == 0.0
    assert gdp_delta(1.0, -math.inf) == 1.0
    assert gdp_delta(40.0, 800.0) == pytest.approx(0.49, abs=5e-3)
    assert gdp_delta(200.0, 5000.0) == pytest.approx(1.0, abs=1e-12)
    assert 0 < gdp_delta(0.01, 0.3) < 1e-100
    assert gdp_delta(1e-6, 0.0) == pytest.approx(1e-6 / math.sqrt(2 * math.pi), rel=1e-8)
    assert gdp_epsilon(0.0, 0.1) == 0.0 and gdp_epsilon(math.inf, 0.1) == math.inf
    assert direct_mu(0.0, 0.1) == pytest.approx(2 * ndtri(0.55), rel=1e-12)
    assert eps_from_rho(0.0, 0.1) == 0.0


@settings(deadline=None, max_examples=150, derandomize=True)
@given(st.floats(1e-4, 60), st.floats(-14, -0.1))
def test_conversions_invert_each_other(epsilon, log10_delta):
    delta = 10.0**log10_delta
    rho = rho_from_eps_delta(epsilon, delta)
    assert eps_from_rho(rho, delta) == pytest.approx(epsilon, rel=1e-9, abs=1e-10)
    mu = direct_mu(epsilon, delta)
    assert gdp_delta(mu, epsilon) == pytest.approx(delta, rel=1e-9)
    # ρ = μ²/2 for a Gaussian, and zCDP knows less about it than its curve does.
    assert implied_mu(rho) <= mu * (1 + 1e-9)


def test_formula_of_canonne_by_brute_force():
    for rho, epsilon in ((0.1, 1.0), (1.0, 0.2), (0.001, 0.3), (3.0, 12.0)):
        a = 1 + np.logspace(-8, 5, 200_001)
        slow = np.min((a - 1) * (a * rho - epsilon) - np.log(a - 1) + a * np.log1p(-1 / a))
        assert eps_from_rho(rho, math.exp(slow)) == pytest.approx(epsilon, abs=1e-6)
