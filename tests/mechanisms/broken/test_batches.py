"""Shuffled batches against Chua et al.'s lower bound."""

import math

import numpy as np
import pytest

from audit.mechanisms.broken.batches import Shuffled

HERE = Shuffled(sigma=0.4, batches=10_000, eps=4, delta=1.17e-5)


def hockey_stick(mechanism, eps):
    """max over C of P(largest ≥ C) − e^ε·Q(largest ≥ C): a lower bound on δ(ε)."""
    c = np.linspace(1, 4, 20_001)
    p, q = (-np.expm1(mechanism.log_below(c, height)) for height in (2.0, 1.0))
    return float(np.max(p - math.exp(eps) * q))


def test_delta_at_4_is_at_least_2261():
    assert hockey_stick(HERE, 4) == pytest.approx(0.2261, abs=6e-5)


def test_poisson_sampling_would_give_far_less():
    accounting = pytest.importorskip("dp_accounting")
    accountant = accounting.pld.PLDAccountant(accounting.NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(
        accounting.PoissonSampledDpEvent(1e-4, accounting.GaussianDpEvent(0.4)), 10_000
    )
    assert accountant.get_delta(4) == pytest.approx(1.168e-5, rel=1e-3)
    assert accountant.get_delta(1) < 0.00196 + 1e-6  # what broken/shuffled claims


def test_the_largest_follows_its_law_and_its_density():
    data, n = np.array([-1.0, -1.0, 1.0]), 20_000
    values = HERE.release(data, n, np.random.default_rng(0)).public().values[:, 0]
    # Dvoretzky–Kiefer–Wolfowitz, Massart: 2·e^(−2·n·d²) = 1e-6
    for height, limit in ((2.0, 0), (1.0, 1)):
        law = np.exp(HERE.log_below(np.sort(values), height))
        distance = np.max(np.abs(law - (np.arange(n) + 0.5) / n))
        assert (distance > math.sqrt(math.log(2e6) / (2 * n))) == limit
    x, step = np.linspace(1, 3.5, 50), 1e-6
    slope = (np.exp(HERE.log_below(x + step, 2.0)) - np.exp(HERE.log_below(x - step, 2.0))) / (
        2 * step
    )
    # a constant, σ√(2π), since the density is up to one
    rate = np.exp(HERE.log_density(x, 2.0)) / slope
    np.testing.assert_allclose(rate, 0.4 * math.sqrt(2 * math.pi), rtol=1e-5)


def test_few_batches_drawn_one_by_one_have_the_same_law():
    mechanism, n = Shuffled(sigma=0.5, batches=5), 20_000
    rng = np.random.default_rng(1)
    batches = rng.normal(0, 0.5, size=(n, 5))
    batches[:, 0] += 1  # the blanked record, in its batch
    slow, fast = (
        np.sort(batches.max(axis=1)),
        mechanism.release(np.array([0.0]), n, rng).public().values[:, 0],
    )
    both = np.concatenate([slow, fast])
    gap = np.searchsorted(slow, both, "right") - np.searchsorted(np.sort(fast), both, "right")
    # two DKW bands: false failure 1e-6
    assert np.max(np.abs(gap)) / n < 2 * math.sqrt(math.log(4e6) / (2 * n))
