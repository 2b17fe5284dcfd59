import dataclasses
import decimal
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from audit.privacy import (
    GDP,
    ZCDP,
    AdaptiveBranch,
    ApproximateDP,
    ApproximateDPSide,
    GaussianStep,
    Notion,
    PureDP,
    SelectionStep,
    ZCDPSide,
    adaptive_mu,
    adaptive_profile,
    direct_mu,
    eps_from_rho,
    gdp_delta,
    gdp_epsilon,
    implied_mu,
    least_fnr,
    max_accuracy,
    max_posterior,
    max_posterior_at_fpr,
    max_tpr,
    mu_hat,
    rho_from_eps_delta,
    simple_eps_from_rho,
)

WHOLE = (GDP(), PureDP(), ApproximateDP(0.01), ApproximateDP(0.3), ZCDP())
PIECES = (
    ApproximateDPSide(0.01),
    ApproximateDPSide(0.01, mirrored=True),
    ApproximateDPSide(0.0),
    ZCDPSide(),
    ZCDPSide(mirrored=True),
)
ALPHAS = np.concatenate(
    [[0.0], 10.0 ** np.arange(-15, -2), np.linspace(0.002, 0.999, 400), [1 - 1e-6, 1.0]]
)


def name(notion):
    return repr(notion)


# --- REFERENCE, section 2: ρ / implied μ / direct μ -----------------------------------------------

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


def test_zcdp_corner():
    for rho, corner, mu in ((0.5, 0.2604, 1.284), (0.1034, 0.3873, 0.573)):
        alpha = ZCDP().kinks(rho)[0]
        assert alpha == pytest.approx(corner, abs=1e-4)
        assert ZCDP().beta(alpha, rho) == pytest.approx(alpha, abs=1e-12)
        assert mu_hat(alpha, alpha) == pytest.approx(mu, abs=5e-4)
        # √(2ρ) is no claim for zCDP: the region is larger.
        assert mu_hat(alpha, alpha) > 1.2 * implied_mu(rho)


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [(0.163850, 0.583540), (0.786812, 3.323300), (0.5, 1.99), (0.5 * math.sqrt(10), 7.51)],
)
def test_gdp_epsilon_figures(mu, epsilon):
    assert gdp_epsilon(mu, 1e-5) == pytest.approx(
        epsilon, abs=5e-3 if epsilon in (1.99, 7.51) else 2e-5
    )


# --- REFERENCE, sections 3 and 4 ------------------------------------------------------------------


def test_published_counts_point_estimate():
    assert mu_hat(949 / 2000, 743 / 2000) == pytest.approx(0.391846, abs=5e-7)


def test_tangents_of_the_gaussian_curve_are_gdp_delta():
    """TPR − λ·FPR ≤ Φ(μ/2 − ln λ/μ) − λΦ(−μ/2 − ln λ/μ), with equality at one alpha."""
    alpha = ndtr(np.linspace(-9, 9, 20001))
    for mu in (0.3, 1.0, 3.0):
        for scale in (0.2, 1.0, 4.0):
            excess = 1 - GDP().beta(alpha, mu) - scale * alpha
            assert np.max(excess) == pytest.approx(gdp_delta(mu, math.log(scale)), abs=1e-6)


def test_midpoint_threshold_variance():
    half = 0.4548 / 2
    density = math.exp(-half * half / 2) / math.sqrt(2 * math.pi)
    rate = GDP().kinks(0.4548) or ndtr(-half)
    assert GDP().beta(rate, 0.4548) == pytest.approx(rate, abs=1e-12)
    assert rate * (1 - rate) / density**2 == pytest.approx(1.60, abs=5e-3)


def test_randomised_response():
    for epsilon in (0.5, math.log(3), 2.0, 3.0):
        flip = 1 / (1 + math.exp(epsilon))
        assert PureDP().parameter(flip, flip) == pytest.approx(epsilon, abs=1e-12)
        assert PureDP().kinks(epsilon) == pytest.approx((flip,))
        assert max_accuracy(PureDP(), epsilon) == pytest.approx(1 - flip, abs=1e-12)
    assert mu_hat(0.25, 0.25) == pytest.approx(1.349, abs=5e-4)


def test_one_hot_flips():
    """Per-bit flips of 1/(1 + e^(ε/2)) keep ε: the pattern (1, 0) against (0, 1). Of 1/(1 + e^ε)
    they keep 2ε."""
    for exponent, true in ((2.0, 4.0), (4.0, 8.0)):
        flip = 1 / (1 + math.exp(exponent))
        assert PureDP().parameter(flip**2, 1 - (1 - flip) ** 2) == pytest.approx(true, abs=1e-9)
    assert 1 / (1 + math.exp(2.0)) == pytest.approx(0.119203, abs=5e-7)


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


def laplace_rates(epsilon):
    """FPR and FNR at thresholds between and around two Laplace humps one sensitivity apart."""
    t = np.linspace(-3, 4, 1401)
    above, above_next = (
        np.where(x > 0, np.exp(-epsilon * np.abs(x)) / 2, 1 - np.exp(-epsilon * np.abs(x)) / 2)
        for x in (t, t - 1)
    )
    return above, 1 - above_next


def test_laplace_humps_keep_pure_dp():
    for epsilon, overlap in ((0.5, 0.7788), (1.0, 0.6065), (3.0, 0.2231)):
        fpr, fnr = laplace_rates(epsilon)
        assert np.min(fpr + fnr) == pytest.approx(overlap, abs=5e-5)
        assert 1 - np.min(fpr + fnr) / 2 < max_accuracy(PureDP(), epsilon)
        assert np.max(PureDP().parameter(fpr, fnr)) == pytest.approx(epsilon, abs=1e-9)
    fpr, fnr = laplace_rates(1.0)
    assert 1 - np.min(fpr + fnr) / 2 == pytest.approx(0.69673, abs=5e-6)


# --- contracts of every curve ---------------------------------------------------------------------


def check_curve(notion, parameter, own_inverse=True, alphas=ALPHAS):
    """Convex, non-increasing, ≤ 1 − alpha, in [0, 1], and `parameter` is the inverse of `beta`."""
    b = notion.beta(alphas, parameter)
    assert b.shape == alphas.shape
    assert np.all((b >= 0) & (b <= 1 - alphas + 1e-15))
    assert np.all(np.diff(b) <= 1e-13)
    slope = np.diff(b) / np.diff(alphas)
    # One rounding of b over the distance between two points is what a slope may be off by.
    assert np.all(
        np.diff(slope) >= -(4e-15 / np.diff(alphas)[1:] + 4e-15 / np.diff(alphas)[:-1]) - 1e-9
    )
    # Points a rounding above the curve need no more than the parameter; where the curve is firm, no
    # less either.
    assert np.all(notion.parameter(alphas, np.minimum(b + 1e-13, 1)) <= parameter * (1 + 1e-12))
    back = notion.parameter(alphas, b)
    firm = (b > 1e-6) & (alphas > 1e-6) & (alphas + b < 1 - 1e-4)
    np.testing.assert_allclose(back[firm], parameter, rtol=1e-9, atol=1e-9)
    if own_inverse:
        np.testing.assert_allclose(notion.beta(b[firm], parameter), alphas[firm], rtol=0, atol=1e-9)


def check_pieces(notion, parameter, alphas=ALPHAS):
    """The pieces' pointwise maximum is the curve, and the second is the first with alpha and beta
    exchanged."""
    pieces = notion.pieces()
    best = np.max([piece.beta(alphas, parameter) for piece in pieces], axis=0)
    np.testing.assert_allclose(best, notion.beta(alphas, parameter), rtol=0, atol=1e-12)
    b = np.minimum(1 - alphas, 0.37)
    each = [piece.parameter(alphas, b) for piece in pieces]
    np.testing.assert_allclose(np.max(each, axis=0), notion.parameter(alphas, b), rtol=1e-12)
    if len(pieces) == 2:
        np.testing.assert_array_equal(pieces[0].parameter(b, alphas), each[1])


@pytest.mark.parametrize("notion", WHOLE, ids=name)
@pytest.mark.parametrize(
    "parameter", [0.0, 1e-25, 1e-12, 1e-6, 0.01, 0.1034, 0.45478, 1.0, 3.0, 12.0]
)
def test_curve(notion, parameter):
    check_curve(notion, parameter)
    check_pieces(notion, parameter)


@pytest.mark.parametrize("notion", PIECES, ids=name)
@pytest.mark.parametrize("parameter", [0.0, 0.01, 0.1034, 1.0, 3.0])
def test_piece(notion, parameter):
    check_curve(notion, parameter, own_inverse=False)
    check_pieces(notion, parameter)
    assert notion.pieces() == (notion,)


rates = st.one_of(st.floats(0, 1), st.floats(1e-300, 1e-3), st.sampled_from([0.0, 1.0, 0.5]))


@settings(deadline=None, max_examples=400, derandomize=True)
@given(st.sampled_from(WHOLE + PIECES), rates, rates, st.floats(0, 30), st.floats(0, 30))
@example(ZCDP(), 0.5, 0.5, 0.0, 1e-12)
@example(ZCDP(), 1e-300, 0.4, 5.0, 30.0)
@example(ZCDP(), 0.25, 5e-324, 1.0, 5e-324)
@example(ZCDPSide(), 5e-324, 0.4, 1.0, 1e-20)
def test_curve_properties(notion, alpha, other, parameter, another):
    low, high = sorted((parameter, another))
    # non-increasing in the parameter and in alpha; between them, convex
    assert notion.beta(alpha, low) >= notion.beta(alpha, high) - 1e-12
    left, right = sorted((alpha, other))
    b_left, b_right = notion.beta(left, low), notion.beta(right, low)
    assert b_left >= b_right - 1e-12
    assert notion.beta((left + right) / 2, low) <= (b_left + b_right) / 2 + 1e-12
    # parameter(·) says the same as beta(·): the point is on or above the curve of its parameter,
    # not below
    needed = notion.parameter(alpha, other)
    assert needed >= 0 and (needed == 0 or alpha + other < 1)
    assert notion.beta(alpha, needed) <= other + 1e-9
    if 1e-9 < needed < 1e3 and math.isfinite(needed):
        assert notion.beta(alpha, needed * 0.999) >= other - 1e-12
        assert notion.parameter(alpha, min(1.0, other * 1.01)) <= needed * (1 + 1e-9)


@pytest.mark.parametrize("notion", WHOLE + PIECES, ids=name)
def test_limits_and_shapes(notion):
    ends = np.array([0.0, 0.3, 1.0])
    assert isinstance(notion, Notion)
    assert np.all(notion.beta(ends, math.inf) == 0)
    assert np.all(notion.parameter(ends, 1 - ends) == 0)
    assert notion.parameter(0.7, 0.7) == 0
    assert isinstance(notion.beta(0.1, 1), float) and isinstance(notion.parameter(0.1, 0.2), float)
    assert notion.beta(ends[:, None], np.array([0.1, 1.0])).shape == (3, 2)
    assert notion.parameter(ends[:, None], ends).shape == (3, 3)
    np.testing.assert_allclose(
        notion.beta(ends, 0.0), np.maximum(1 - getattr(notion, "delta", 0) - ends, 0)
    )
    whole = np.array([notion.beta(float(a), 0.7) for a in ALPHAS])
    np.testing.assert_allclose(notion.beta(ALPHAS, 0.7), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("notion", [GDP(), PureDP(), ZCDP()], ids=name)
def test_no_finite_parameter_allows_a_certain_answer(notion):
    assert notion.parameter(0.0, 0.5) == math.inf
    assert notion.parameter(0.5, 0.0) == math.inf
    assert notion.parameter(0.0, 0.0) == math.inf
    assert notion.beta(0.0, 5.0) == 1.0
    assert notion.beta(1.0, 5.0) == 0.0


def test_delta_pays_for_a_certain_answer():
    assert ApproximateDP(0.01).parameter(0.0, 0.99) == 0
    assert ApproximateDP(0.01).parameter(0.0, 0.98) == math.inf
    assert ApproximateDP(0.01).beta([0.0, 0.99, 1.0], 3.0).tolist() == [0.99, 0.0, 0.0]
    assert ZCDPSide(mirrored=True).parameter(0.0, math.exp(-0.5)) == pytest.approx(0.5)
    assert ZCDPSide().parameter(math.exp(-0.5), 0.0) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("notion", "kinks"),
    [
        (GDP(), ()),
        (PureDP(), (1 / (1 + math.e),)),
        (ApproximateDP(0.01), (0.99 / (1 + math.e), 0.99)),
        (ApproximateDPSide(0.01), (0.99 / math.e,)),
        (ApproximateDPSide(0.01, mirrored=True), (0.99,)),
        (ZCDPSide(), (1 / math.e,)),
        (ZCDPSide(mirrored=True), ()),
        (ZCDP(), (0.176041,)),
    ],
    ids=name,
)
def test_kinks_are_where_the_slope_jumps(notion, kinks):
    found = notion.kinks(1.0)
    assert found == pytest.approx(kinks, abs=1e-6)
    grid = np.linspace(0.01, 0.999, 990)
    centres = np.concatenate(
        [grid[np.min(np.abs(grid[:, None] - np.array([*found, 9.0])), axis=1) > 2e-4], found]
    )
    h = 1e-5
    left, at, right = (notion.beta(centres + k * h, 1.0) for k in (-1, 0, 1))
    jump = (left - 2 * at + right) / h
    assert np.all(jump[: len(centres) - len(found)] < 0.02)
    assert np.all(jump[len(centres) - len(found) :] > 0.05)
    assert notion.kinks(math.inf) == ()
    assert all(0 < k < 1 for parameter in (0.0, 1e-9, 800.0) for k in notion.kinks(parameter))


def test_zcdp_has_a_corner_at_equal_rates():
    """So its two directions are two pieces: the slopes there are not −1."""
    alpha = ZCDP().kinks(0.5)[0]
    forward, backward = (
        np.diff(p.beta(alpha + np.array([-1e-6, 1e-6]), 0.5))[0] / 2e-6 for p in ZCDP().pieces()
    )
    assert forward == pytest.approx(-1.19, abs=0.01)
    assert backward == pytest.approx(1 / forward, rel=1e-4)


def test_labels():
    assert GDP().label(0.45478089545) == "0.4548-GDP"
    assert ApproximateDP(0.01).label(1.0) == "(1, 0.01)-DP"
    assert ApproximateDP(1e-5).label(math.inf) == "(∞, 1e-05)-DP"
    assert PureDP().label(1) == "1-DP"
    assert ZCDP().label(0.10341283) == "0.1034-zCDP"
    for notion in WHOLE:
        assert {piece.label(1.2) for piece in notion.pieces()} == {notion.label(1.2)}


@pytest.mark.parametrize(
    "bad", [{"delta": 1.0}, {"delta": -0.1}, {"delta": math.nan}, {"delta": 0.1, "eps": 1}, {}]
)
def test_bad_options_are_refused(bad):
    with pytest.raises(ValidationError):
        ApproximateDP(**bad)
    with pytest.raises(ValidationError):
        GDP(mu=1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rho_from_eps_delta(1.0, 0.0), "delta = 0.0"),
        (lambda: rho_from_eps_delta(math.nan, 0.1), "epsilon = nan"),
        (lambda: direct_mu(-1.0, 0.1), "epsilon = -1.0"),
        (lambda: eps_from_rho(math.inf, 0.1), "rho = inf"),
        (lambda: gdp_epsilon(1.0, 1.5), "delta = 1.5"),
        (lambda: gdp_epsilon(math.nan, 0.5), "mu = nan"),
        (lambda: adaptive_mu([]), "no privacy"),
        (lambda: adaptive_mu([GaussianStep(-1.0)]), "mu=-1.0"),
        (lambda: adaptive_mu([GaussianStep(1.0)], fineness=1), "fineness"),
    ],
)
def test_bad_numbers_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# --- oracles --------------------------------------------------------------------------------------


def slow_rho(alpha, beta):
    """The definition on a fine grid of orders, both directions."""
    a = 1 + np.concatenate([np.logspace(-4, 1, 4000), np.logspace(1, 6, 4000)])
    # each with its complement, which 1 − p may not give back
    absent, present = (alpha, 1 - alpha), (1 - beta, beta)
    best = 0.0
    for (p, not_p), (q, not_q) in ((absent, present), (present, absent)):
        yes = a * math.log(p) + (1 - a) * math.log(q)
        no = a * math.log(not_p) + (1 - a) * math.log(not_q)
        best = max(best, np.max(np.logaddexp(yes, no) / ((a - 1) * a)))
        best = max(best, p * math.log(p / q) + not_p * math.log(not_p / not_q))
    return best


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


def test_gdp_and_approximate_against_riskcal():
    from riskcal.analysis import get_beta_from_adp, get_beta_from_gdp

    alphas = np.linspace(0.001, 0.999, 99)
    for parameter in (0.3, 1.0, 4.0):
        np.testing.assert_allclose(
            GDP().beta(alphas, parameter), get_beta_from_gdp(parameter, alphas), atol=1e-12
        )
        theirs = get_beta_from_adp(parameter, 0.01, alphas)
        np.testing.assert_allclose(ApproximateDP(0.01).beta(alphas, parameter), theirs, atol=1e-12)


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


def density(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


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


# --- the mixture accountant -----------------------------------------------------------------------


def stock_mst(rho, columns):
    """ρ/3 on one-way marginals, ρ/3 on columns − 1 selections, ρ/3 on the chosen tree."""
    noise = GaussianStep(math.sqrt(2 * rho / 3))
    return (noise, *[SelectionStep(math.sqrt(8 * rho / 3 / (columns - 1)))] * (columns - 1), noise)


def stock_aim(rho, columns, halves=(False, True)):
    """Sigma and ε as in AIM: the worse of halving or not at every round until the last; memoised on
    AIM's state."""
    unit, made = rho / (16 * columns), {}

    def course(used, level):
        """``used`` in units of ρ/T."""
        key = (round(used, 9), level)
        if key not in made:
            cost, left = 4.0**level, 16 * columns - used
            if left < 2 * cost:
                made[key] = (
                    SelectionStep(math.sqrt(0.8 * left * unit)),
                    GaussianStep(math.sqrt(1.8 * left * unit)),
                )
            else:
                after = tuple(course(used + cost, level + half) for half in halves)
                step = (
                    SelectionStep(math.sqrt(0.8 * cost * unit)),
                    GaussianStep(math.sqrt(1.8 * cost * unit)),
                )
                made[key] = (*step, AdaptiveBranch(after))
        return made[key]

    return (*[GaussianStep(math.sqrt(1.8 * unit))] * columns, *course(0.9 * columns, 0))


@pytest.mark.parametrize(
    ("rho", "mst", "aim"), [(0.10341283143, 0.4586, 0.4550), (0.5, 1.0075, 1.0005)]
)
def test_tighter_claim_figures(rho, mst, aim):
    found = adaptive_mu(stock_mst(rho, 3)), adaptive_mu(stock_aim(rho, 3))
    assert [round(mu, 4) for mu in found] == [mst, aim]
    assert all(mu > implied_mu(rho) for mu in found)
    fine = adaptive_mu(stock_mst(rho, 3), 9.0), adaptive_mu(stock_aim(rho, 3), 9.0)
    assert found == pytest.approx(fine, abs=2e-6)
    # It says more than zCDP: the corner of the ρ-zCDP region needs a far larger μ.
    corner = ZCDP().kinks(rho)[0]
    assert max(found) < mu_hat(corner, corner) - 0.1


def test_worst_course_is_at_least_each_course():
    worst = adaptive_mu(stock_aim(0.2, 3))
    for halves in ((False,), (True,)):
        assert adaptive_mu(stock_aim(0.2, 3, halves)) <= worst + 1e-9


def test_budget_of_the_courses():
    """Each course spends ρ: Σ μ²/2 + Σ ε²/8."""

    def spent(steps):
        totals = {0.0}
        for step in steps:
            if isinstance(step, AdaptiveBranch):
                more = set().union(*(spent(option) for option in step.options))
            else:
                more = {step.mu**2 / 2 if isinstance(step, GaussianStep) else step.epsilon**2 / 8}
            totals = {round(t + m, 9) for t in totals for m in more}
        return totals

    assert spent(stock_mst(0.1, 3)) == {0.1}
    assert spent(stock_aim(0.1, 1)) == {0.1}


def test_gaussian_steps_add_up():
    grid, profile = adaptive_profile([GaussianStep(0.6), GaussianStep(0.8)])
    np.testing.assert_allclose(profile, gdp_delta(1.0, grid), rtol=1e-12, atol=1e-300)
    assert adaptive_mu([GaussianStep(0.6), GaussianStep(0.8)]) == pytest.approx(1.0, abs=1e-9)


def convolved(mu, last, x):
    """E[δ_last(x − L)], L ~ N(μ²/2, μ²), by quadrature."""
    return quad(
        lambda z: density(z) * last(x - mu * mu / 2 - mu * z), -10, 10, epsabs=1e-12, limit=200
    )[0]


def selected(last, epsilon, x):
    """The selection step by a fine grid of t."""
    ts = np.linspace(0, epsilon, 20001)[1:-1]
    q = (np.exp(-ts) - math.exp(-epsilon)) / -math.expm1(-epsilon)
    return np.max(
        q * np.exp(ts) * last(x - ts) + (1 - q) * np.exp(ts - epsilon) * last(x - ts + epsilon)
    )


def test_selection_is_bounded_range():
    """One step's curve is (1 − alpha)/(1 + (e^ε − 1)·alpha)."""
    alpha = np.linspace(0, 1, 200_001)
    for epsilon in (0.2, 1.0, 4.0):
        beta = (1 - alpha) / (1 + math.expm1(epsilon) * alpha)
        grid, profile = adaptive_profile([SelectionStep(epsilon)])
        picks = range(0, len(grid), len(grid) // 40)
        slow = [np.max(1 - beta - math.exp(grid[i]) * alpha) for i in picks]
        np.testing.assert_allclose(profile[list(picks)], slow, atol=1e-3 * epsilon)


def test_steps_by_quadrature():
    grid, profile = adaptive_profile([GaussianStep(0.5), SelectionStep(0.7), GaussianStep(0.4)])

    def last(x):
        return selected(lambda y: gdp_delta(0.4, y), 0.7, x)

    for i in range(len(grid) // 3, len(grid), len(grid) // 8):
        assert profile[i] == pytest.approx(convolved(0.5, last, grid[i]), abs=1e-6)


@pytest.mark.parametrize(
    "steps", [stock_mst(0.3, 3), stock_aim(0.3, 2), [GaussianStep(1.0), SelectionStep(0.5)]]
)
def test_profile_is_symmetric(steps):
    """All steps are the same with P and Q exchanged, so h(γ) = 1 − γ + γ·h(1/γ)."""
    grid, profile = adaptive_profile(steps)
    near = np.abs(grid) < 3
    mirrored = -np.expm1(grid) + np.exp(grid) * profile[::-1]
    np.testing.assert_allclose(profile[near], mirrored[near], atol=1e-6)
    assert np.all((profile >= np.maximum(-np.expm1(grid), 0) - 1e-9) & (profile <= 1 + 1e-12))
    assert np.all(np.diff(profile) <= 1e-12)


def test_narrow_gaussian_and_idle_steps():
    steps = [GaussianStep(0.5), SelectionStep(0.3), GaussianStep(0.5)]
    plain = adaptive_mu(steps)
    assert adaptive_mu(
        [GaussianStep(1e-6), *steps, GaussianStep(0.0), SelectionStep(0.0)]
    ) == pytest.approx(plain, abs=1e-5)
    assert adaptive_mu([AdaptiveBranch((tuple(steps), (GaussianStep(0.1),)))]) == pytest.approx(
        plain, abs=1e-9
    )
    # An AdaptiveBranch in the middle is followed by the rest, whichever option was taken.
    middle = [
        GaussianStep(0.5),
        AdaptiveBranch(((SelectionStep(0.3),), (SelectionStep(0.1),))),
        GaussianStep(0.5),
    ]
    assert adaptive_mu(middle) == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 10.0, 30.0])
def test_tiny_and_huge_budgets(scale):
    found = adaptive_mu([GaussianStep(scale), SelectionStep(scale / 5), GaussianStep(scale)])
    assert math.sqrt(2) * scale < found < 1.02 * math.sqrt(2) * scale


def test_order_of_steps_hardly_matters_but_size_does():
    a, b = GaussianStep(0.4), SelectionStep(0.6)
    assert adaptive_mu([b, a, a]) == pytest.approx(adaptive_mu([a, b, a]), abs=5e-3)
    assert adaptive_mu([a, SelectionStep(1.2), a]) > adaptive_mu([a, b, a]) + 0.05


# --- broken twins: each check above must fail on a wrong curve ------------------------------------


@dataclasses.dataclass(frozen=True)
class Twin:
    """GDP with one thing wrong."""

    wrong: str

    def beta(self, alpha, parameter):
        if self.wrong == "swapped":
            return GDP().beta(parameter, np.clip(alpha, 0, 1))  # (mu, alpha) given as (alpha, mu)
        b = np.asarray(GDP().beta(alpha, parameter))
        if self.wrong == "concave":
            return np.minimum(b * 1.3, 1 - alpha)
        if self.wrong == "above":
            return b + 0.01
        if self.wrong == "one line":
            return ApproximateDPSide(0.01).beta(alpha, parameter)
        return b

    def parameter(self, alpha, beta):
        if self.wrong == "one line":
            return ApproximateDPSide(0.01).parameter(alpha, beta)
        if self.wrong == "concave":
            return GDP().parameter(alpha, np.asarray(beta) / 1.3)
        return GDP().parameter(alpha, beta) * (1.01 if self.wrong == "scaled" else 1)

    def pieces(self):
        return (ApproximateDPSide(0.01),) if self.wrong == "pieces" else (self,)


@pytest.mark.parametrize("wrong", ["swapped", "concave", "above", "scaled", "one line"])
def test_broken_curves_are_caught(wrong):
    check_curve(Twin("nothing"), 0.45478)
    with pytest.raises(AssertionError), np.errstate(invalid="ignore"):
        check_curve(Twin(wrong), 0.45478)


def test_broken_pieces_are_caught():
    check_pieces(Twin("nothing"), 0.45478)
    with pytest.raises(AssertionError):
        check_pieces(Twin("pieces"), 0.45478)


def test_swapped_arguments_are_no_slip_of_the_eye():
    """The published code's slip: get_beta(fpr, mu) for (mu, alpha). Its curve at the published
    counts is no bound."""
    fpr, mu = 0.4745, 0.340501
    assert GDP().beta(fpr, mu) == pytest.approx(0.391067, abs=1e-6)
    assert GDP().beta(mu, fpr) == pytest.approx(0.475, abs=3e-3)
    assert abs(GDP().beta(mu, fpr) - GDP().beta(fpr, mu)) > 0.05


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
