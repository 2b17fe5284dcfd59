"""Contracts of every tradeoff curve, and slow formulas to compare with."""

import math

import numpy as np

from audit.privacy import (
    GDP,
    ZCDP,
    ApproximateDP,
    ApproximateDPSide,
    PureDP,
    ZCDPSide,
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
    needed = [piece.parameter(alphas, b) for piece in pieces]
    np.testing.assert_allclose(np.max(needed, axis=0), notion.parameter(alphas, b), rtol=1e-12)
    if len(pieces) == 2:
        np.testing.assert_array_equal(pieces[0].parameter(b, alphas), needed[1])


def density(x):
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


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
