"""Curves of GDP, (ε, δ)-DP, pure DP and zCDP: figures, contracts, and broken curves."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from privacy.curves import ALPHAS, PIECES, WHOLE, check_curve, check_pieces, name
from pydantic import ValidationError
from scipy.special import ndtr

from audit.privacy import (
    GDP,
    ZCDP,
    ApproximateDP,
    ApproximateDPSide,
    Notion,
    PureDP,
    ZCDPSide,
    max_accuracy,
    mu_hat,
)


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
    corners = notion.kinks(1.0)
    assert corners == pytest.approx(kinks, abs=1e-6)
    grid = np.linspace(0.01, 0.999, 990)
    centres = np.concatenate(
        [grid[np.min(np.abs(grid[:, None] - np.array([*corners, 9.0])), axis=1) > 2e-4], corners]
    )
    h = 1e-5
    left, at, right = (notion.beta(centres + k * h, 1.0) for k in (-1, 0, 1))
    jump = (left - 2 * at + right) / h
    assert np.all(jump[: len(centres) - len(corners)] < 0.02)
    assert np.all(jump[len(centres) - len(corners) :] > 0.05)
    assert notion.kinks(math.inf) == ()
    assert all(0 < k < 1 for parameter in (0.0, 1e-9, 800.0) for k in notion.kinks(parameter))


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


def test_gdp_and_approximate_against_riskcal():
    from riskcal.analysis import get_beta_from_adp, get_beta_from_gdp

    alphas = np.linspace(0.001, 0.999, 99)
    for parameter in (0.3, 1.0, 4.0):
        np.testing.assert_allclose(
            GDP().beta(alphas, parameter), get_beta_from_gdp(parameter, alphas), atol=1e-12
        )
        theirs = get_beta_from_adp(parameter, 0.01, alphas)
        np.testing.assert_allclose(ApproximateDP(0.01).beta(alphas, parameter), theirs, atol=1e-12)


@dataclasses.dataclass(frozen=True)
class BrokenGDP:
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
    check_curve(BrokenGDP("nothing"), 0.45478)
    with pytest.raises(AssertionError), np.errstate(invalid="ignore"):
        check_curve(BrokenGDP(wrong), 0.45478)


def test_broken_pieces_are_caught():
    check_pieces(BrokenGDP("nothing"), 0.45478)
    with pytest.raises(AssertionError):
        check_pieces(BrokenGDP("pieces"), 0.45478)


def test_swapped_arguments_are_caught():
    """The published code calls get_beta(fpr, mu) for (mu, alpha): that curve is no bound."""
    fpr, mu = 0.4745, 0.340501
    assert GDP().beta(fpr, mu) == pytest.approx(0.391067, abs=1e-6)
    assert GDP().beta(mu, fpr) == pytest.approx(0.475, abs=3e-3)
    assert abs(GDP().beta(mu, fpr) - GDP().beta(fpr, mu)) > 0.05
