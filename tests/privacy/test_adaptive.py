"""Adaptive composition of Gaussian and selection steps."""

import math

import numpy as np
import pytest
from privacy.curves import density
from scipy.integrate import quad

from audit.privacy import (
    ZCDP,
    AdaptiveBranch,
    GaussianStep,
    SelectionStep,
    adaptive_mu,
    adaptive_profile,
    gdp_delta,
    implied_mu,
    mu_hat,
)


def mst_steps(rho, columns):
    """ρ/3 on one-way marginals, ρ/3 on columns − 1 selections, ρ/3 on the chosen tree."""
    noise = GaussianStep(math.sqrt(2 * rho / 3))
    return (noise, *[SelectionStep(math.sqrt(8 * rho / 3 / (columns - 1)))] * (columns - 1), noise)


def aim_steps(rho, columns, halves=(False, True)):
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
    mus = adaptive_mu(mst_steps(rho, 3)), adaptive_mu(aim_steps(rho, 3))
    assert [round(mu, 4) for mu in mus] == [mst, aim]
    assert all(mu > implied_mu(rho) for mu in mus)
    fine = adaptive_mu(mst_steps(rho, 3), 9.0), adaptive_mu(aim_steps(rho, 3), 9.0)
    assert mus == pytest.approx(fine, abs=2e-6)
    # It says more than zCDP: the corner of the ρ-zCDP region needs a far larger μ.
    corner = ZCDP().kinks(rho)[0]
    assert max(mus) < mu_hat(corner, corner) - 0.1


def test_worst_course_is_at_least_each_course():
    worst = adaptive_mu(aim_steps(0.2, 3))
    for halves in ((False,), (True,)):
        assert adaptive_mu(aim_steps(0.2, 3, halves)) <= worst + 1e-9


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

    assert spent(mst_steps(0.1, 3)) == {0.1}
    assert spent(aim_steps(0.1, 1)) == {0.1}


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
    "steps", [mst_steps(0.3, 3), aim_steps(0.3, 2), [GaussianStep(1.0), SelectionStep(0.5)]]
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
    mu = adaptive_mu([GaussianStep(scale), SelectionStep(scale / 5), GaussianStep(scale)])
    assert math.sqrt(2) * scale < mu < 1.02 * math.sqrt(2) * scale


def test_order_of_steps_hardly_matters_but_size_does():
    a, b = GaussianStep(0.4), SelectionStep(0.6)
    assert adaptive_mu([b, a, a]) == pytest.approx(adaptive_mu([a, b, a]), abs=5e-3)
    assert adaptive_mu([a, SelectionStep(1.2), a]) > adaptive_mu([a, b, a]) + 0.05


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: adaptive_mu([]), "no privacy"),
        (lambda: adaptive_mu([GaussianStep(-1.0)]), "mu=-1.0"),
        (lambda: adaptive_mu([GaussianStep(1.0)], fineness=1), "fineness"),
    ],
)
def test_bad_numbers_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
