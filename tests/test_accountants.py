"""Figures of the ex-post accountants against closed formulas, and contracts of their curve."""

import math

import numpy as np
import pytest

from audit import accountants
from audit.accountants import ExPostRDP, approximate, best_order, probabilistic, pure_to_renyi
from audit.privacy import Notion, gdp_epsilon


def test_a_release_of_cost_eps_has_the_promised_noise():
    sigma = 1 / np.sqrt(accountants.precisions([0.25, 1.0], order=3.0, sensitivity=2.0))
    assert sigma == pytest.approx([math.sqrt(3 * 4 / 0.5), math.sqrt(3 * 4 / 2)])
    assert accountants.gaussian_cost(float(sigma[0]), 3.0, 2.0) == pytest.approx(0.25)


def test_adding_up_and_taking_the_larger():
    checks = [0.1] * 4
    assert accountants.on_shared_data(0.5, checks) == pytest.approx(0.9)
    assert accountants.on_disjoint_data(0.5, checks) == 0.5
    assert accountants.on_disjoint_data(0.3, checks) == pytest.approx(0.4)


def test_above_threshold_costs_less_than_the_simple_figure():
    assert pure_to_renyi(0.5, 3.0) == pytest.approx(0.3024, abs=5e-5)
    assert 3.0 * 0.5**2 / 2 == 0.375 > pure_to_renyi(0.5, 3.0)
    assert pure_to_renyi(0.0, 3.0) == 0


@pytest.mark.parametrize("eps", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("order", [1.5, 3.0, 20.0])
def test_the_renyi_figure_is_the_printed_formula_and_below_eps(eps, order):
    printed = math.log((math.sinh(order * eps) - math.sinh((order - 1) * eps)) / math.sinh(eps)) / (
        order - 1
    )
    assert pure_to_renyi(eps, order) == pytest.approx(printed, rel=1e-9)
    assert pure_to_renyi(eps, order) < eps


def test_the_renyi_figure_does_not_overflow():
    assert pure_to_renyi(50.0, 1000.0) == pytest.approx(50.0, rel=1e-3)


def test_probabilistic_is_the_linear_boundary_of_brownian_noise_reduction():
    order, time, delta, sensitivity = 3.0, 2.0, 1e-5, 1.0
    # Noise of variance 1/time; the boundary of arXiv:2206.07234 is linear in the Brownian motion's
    # precision.
    b = math.log(1 / delta) / (sensitivity * (order - 1))
    a = sensitivity * order / 2
    boundary = sensitivity * (a * (1 / time) + b)
    cost = order * sensitivity**2 * (1 / time) / 2
    assert (
        boundary
        == pytest.approx(probabilistic(cost, order, delta))
        == pytest.approx(6.506463, abs=5e-7)
    )


@pytest.mark.parametrize("order, eps", [(10, 1.4180), (20, 0.8970), (50, 0.6349)])
def test_approximate_at_given_orders(order, eps):
    assert approximate(0.5, order, 1e-5) == pytest.approx(eps, abs=5e-5)


def test_approximate_is_never_negative_and_below_probabilistic():
    assert approximate(0.0, 1000.0, 0.5) == 0
    assert all(
        approximate(1.0, order, 1e-5) < probabilistic(1.0, order, 1e-5)
        for order in (1.1, 2.0, 8.0, 64.0)
    )


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 5.0])
def test_the_best_order_beats_its_neighbours_and_the_closed_form(rho):
    cost = lambda order: order * rho  # noqa: E731
    order = best_order(cost, 1e-5, probabilistic)
    assert probabilistic(cost(order), order, 1e-5) == pytest.approx(
        rho + 2 * math.sqrt(rho * math.log(1e5)), rel=1e-6
    )
    order = best_order(cost, 1e-5, approximate)
    least = approximate(cost(order), order, 1e-5)
    assert all(
        least <= approximate(cost(x), x, 1e-5) + 1e-9 for x in 1 + np.geomspace(1e-3, 1e5, 3000)
    )


def test_the_optimised_conversion_of_a_gaussian_is_above_its_exact_epsilon_and_near_it():
    mu = 0.5
    order = best_order(lambda a: a * mu**2 / 2, 1e-5, approximate)
    assert 1 < approximate(order * mu**2 / 2, order, 1e-5) / gdp_epsilon(mu, 1e-5) < 1.1


@pytest.mark.parametrize(
    "ladder", [(), (0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (1.0, math.nan), (1.0, math.inf)]
)
def test_a_ladder_must_increase(ladder):
    with pytest.raises(ValueError, match="does not increase") as told:
        accountants.check_ladder(ladder)
    assert "\n" not in str(told.value)


# --- the notion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("order, top", [(1.5, 0.2), (3.0, 1.0), (30.0, 4.0)])
@pytest.mark.parametrize("s", [0.0, 0.3, 5.0])
def test_curves_are_tradeoff_curves_and_their_own_inverse(order, top, s):
    notion = ExPostRDP(order, top)
    assert isinstance(notion, Notion)
    alpha = np.linspace(0, 1, 401)
    beta = notion.beta(alpha, s)
    assert np.all(np.diff(beta) <= 1e-12) and np.all(beta <= 1 - alpha + 1e-12)
    assert np.all(beta[:-2] + beta[2:] - 2 * beta[1:-1] >= -1e-9)
    inside = (beta > 1e-6) & (alpha > 1e-6)
    assert notion.beta(beta[inside], s) == pytest.approx(alpha[inside], abs=1e-7)
    assert notion.parameter(alpha[inside], beta[inside]) == pytest.approx(s, abs=1e-6)


def test_a_kink_is_where_the_two_directions_meet():
    notion = ExPostRDP(3.0, 1.0)
    (kink,) = notion.kinks(0.2)
    first, second = (piece.beta(kink, 0.2) for piece in notion.pieces())
    assert first == pytest.approx(kink) and second == pytest.approx(kink)


def test_randomised_response_lies_on_the_curve_of_its_renyi_cost():
    eps, order = 1.0, 3.0
    rate = 1 / (1 + math.exp(eps))
    notion = ExPostRDP(order, pure_to_renyi(eps, order))
    assert notion.parameter(rate, rate) == pytest.approx(0.0, abs=1e-12)
    assert notion.parameter(0.99 * rate, rate) > 0
