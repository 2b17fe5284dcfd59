"""The zCDP curve against its definition, many digits and riskcal."""

import decimal
import math

import numpy as np
import pytest
from privacy.curves import slow_rho
from scipy.special import ndtr

from audit.privacy import (
    GDP,
    ZCDP,
    implied_mu,
    mu_hat,
)


def test_zcdp_corner():
    for rho, corner, mu in ((0.5, 0.2604, 1.284), (0.1034, 0.3873, 0.573)):
        alpha = ZCDP().kinks(rho)[0]
        assert alpha == pytest.approx(corner, abs=1e-4)
        assert ZCDP().beta(alpha, rho) == pytest.approx(alpha, abs=1e-12)
        assert mu_hat(alpha, alpha) == pytest.approx(mu, abs=5e-4)
        # √(2ρ) is no claim for zCDP: the region is larger.
        assert mu_hat(alpha, alpha) > 1.2 * implied_mu(rho)


def test_zcdp_has_a_corner_at_equal_rates():
    """So its two directions are two pieces: the slopes there are not −1."""
    alpha = ZCDP().kinks(0.5)[0]
    forward, backward = (
        np.diff(p.beta(alpha + np.array([-1e-6, 1e-6]), 0.5))[0] / 2e-6 for p in ZCDP().pieces()
    )
    assert forward == pytest.approx(-1.19, abs=0.01)
    assert backward == pytest.approx(1 / forward, rel=1e-4)


def test_zcdp_parameter_by_brute_force():
    rng = np.random.default_rng(0)
    for low in (1e-12, 1e-4, 0.05):
        for _ in range(40):
            alpha, beta = np.exp(rng.uniform(math.log(low), math.log(0.9), 2))
            if alpha + beta < 0.999:
                assert ZCDP().parameter(alpha, beta) == pytest.approx(
                    slow_rho(alpha, beta), rel=2e-6, abs=1e-9
                )
                assert ZCDP().parameter(alpha, beta) >= slow_rho(alpha, beta) * (1 - 1e-9)


def exact_rho(alpha, beta):
    """The definition in 60 digits, by golden section over the order's logarithm (one direction:
    alpha < beta)."""
    with decimal.localcontext(prec=60):
        q, p = decimal.Decimal(alpha), 1 - decimal.Decimal(beta)
        c, d = (p / q).ln(), ((1 - p) / (1 - q)).ln()

        def level(log_s):
            s = log_s.exp()
            return (p * (c * s).exp() + (1 - p) * (d * s).exp()).ln() / (s * (1 + s))

        low, high, golden = (
            decimal.Decimal(-12),
            decimal.Decimal(12),
            (decimal.Decimal(5).sqrt() - 1) / 2,
        )
        for _ in range(80):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, right) if level(left) > level(right) else (left, high)
        return float(level(low))


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [
        (0.1, 0.5),
        (0.01, 0.95),
        (1e-9, 0.9),
        (1e-200, 0.3),
        (0.2, 0.4),
        (0.003, 0.99),
        (0.3, 0.6999),
    ],
)
def test_zcdp_parameter_in_many_digits(alpha, beta):
    expected = exact_rho(alpha, beta)
    assert ZCDP().parameter(alpha, beta) == pytest.approx(expected, rel=1e-10)
    assert ZCDP().parameter(beta, alpha) == pytest.approx(expected, rel=1e-10)
    assert ZCDP().beta(alpha, expected) == pytest.approx(beta, abs=1e-12)


def test_zcdp_against_riskcal():
    from riskcal.analysis import get_beta_from_zcdp

    alphas = np.array([0.001, 0.02, 0.1, 0.3, 0.6, 0.95])
    for rho in (0.1034, 0.5, 3.0):
        theirs = get_beta_from_zcdp(rho, alphas, grid_size=3000)
        ours = ZCDP().beta(alphas, rho)
        # Theirs looks at a grid of orders, so it is below, and within the grid.
        assert np.all(theirs <= ours + 1e-8)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def check_allows(notion, parameter, fpr, fnr):
    assert notion.parameter(fpr, fnr) <= parameter * (1 + 1e-9)


def test_root_of_two_rho_is_rejected_for_zcdp():
    """Randomised response that is exactly ρ-zCDP lies in the zCDP region, and far below
    √(2ρ)-GDP."""
    for rho in (0.1034, 0.5, 2.0):
        flip = ZCDP().kinks(rho)[0]
        assert slow_rho(flip, flip) == pytest.approx(rho, rel=1e-6)
        check_allows(ZCDP(), rho, flip, flip)
        with pytest.raises(AssertionError):
            check_allows(GDP(), implied_mu(rho), flip, flip)
        # A Gaussian mechanism of the same ρ is allowed by both.
        rates = ndtr(np.linspace(-4, 4, 81))
        gaussian = GDP().beta(rates, implied_mu(rho))
        assert np.all(ZCDP().parameter(rates, gaussian) <= rho * (1 + 1e-9))
        assert np.max(ZCDP().parameter(rates, gaussian)) > 0.5 * rho
