"""E[W] ≤ 1, figure by figure; and that the same computation is above 1 for what is broken."""

import math

import numpy as np
import pytest

from audit import cli, verify
from audit.accountants import on_disjoint_data, on_shared_data
from audit.mechanisms.broken.brownian import FreshNoise, PreviousStep, StopsOnRawData
from audit.mechanisms.brownian import Brownian

PAIR = np.zeros((0, 3)), np.array([[0.6, 0.8, 0.0]])


@pytest.mark.parametrize("order", verify.ORDERS)
@pytest.mark.parametrize("ladder", verify.LADDERS)
@pytest.mark.parametrize("rule", verify.RULES)
def test_every_weighted_sample_is_one_whatever_stops_a_brownian_ladder(rule, ladder, order):
    weights = verify.stopped_by(verify.RULES[rule], ladder, order, 2, 200, 0)
    assert np.abs(weights - 1).max() < 1e-12


@pytest.mark.parametrize("order", verify.ORDERS)
def test_a_ladder_that_makes_itself_is_paid_by_its_sum(order):
    assert np.abs(verify.adaptive(order, 200, 0) - 1).max() < 1e-12


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_the_mechanism_itself_in_both_directions_and_its_broken_twins(order):
    for pair in (PAIR, PAIR[::-1]):
        assert np.abs(verify.tilted(Brownian(order=order), pair, 500, 0) - 1).max() < 1e-12
        # No test of chance: a twin's weights are e^((α − 1)·what is missing) ≥ 1, and above 1 by
        # far on average.
        for twin in (PreviousStep(order=order), FreshNoise(order=order)):
            weights = verify.tilted(twin, pair, 500, 0)
            assert weights.min() > 1 - 1e-12 and weights.mean() > 1.05
    with pytest.raises(ValueError, match="likelihood"):
        verify.tilted(StopsOnRawData(), PAIR, 10, 0)


@pytest.mark.parametrize("order", [1.5, 3.0])
def test_disjoint_data_need_the_larger_part_and_shared_data_the_sum(order):
    for where in ("train", "validate"):
        assert verify.train_and_validate(where, on_disjoint_data, order, 0) <= 1
    assert 0.8 < verify.train_and_validate("both", on_shared_data, order, 0) <= 1
    assert verify.train_and_validate("both", on_disjoint_data, order, 0) > 1.05
    assert verify.train_and_validate("train", lambda train, checks: sum(checks), order, 0) > 1.05
    assert verify.train_and_validate("validate", lambda train, checks: checks[-1], order, 0) > 1.05


@pytest.mark.parametrize("order", [1.5, 3.0, 32.0])
def test_the_other_mechanisms(order):
    assert verify.laplace(order, 0) <= 1 + 1e-12
    assert 0 < verify.above_threshold(order, 0.5) <= 1


def test_above_threshold_needs_its_noise():
    assert verify.above_threshold(3.0, 0.5) < 1
    p, q = (
        verify.stopping_law(values, 1.0, 1.0) for values in (np.array([1.0, -1.0]), np.zeros(2))
    )
    # Told to be half of what it is, the ratio would be above e^ε: the law is not degenerate.
    assert math.exp(0.1) < np.max(p / q) < math.exp(1.0)


def test_post_processing_never_raises_the_mean():
    largest, usual = verify.immunity(300, 1)
    assert largest <= 1 + 1e-12 and 0 < usual < 1


def test_the_two_figures_of_the_counterexample():
    p, q, eps = verify.COUNTEREXAMPLE
    assert verify.violation_mass(p, q, eps) == pytest.approx(0.01, abs=1e-12)
    assert verify.violation_mass(p @ verify.MERGED, q @ verify.MERGED, eps) == pytest.approx(
        0.61, abs=1e-12
    )
    assert math.log(0.61 / 0.30) > eps
    assert verify.excess_mass(p, q, eps) == pytest.approx(0.01, abs=1e-12)
    assert verify.excess_mass(p @ verify.MERGED, q @ verify.MERGED, eps) <= 0.01 + 1e-12


def test_the_command_prints_all_and_exits_with_2_where_a_figure_is_off(monkeypatch, capsys):
    assert cli.main(["verify"]) == 0
    assert "62 of 62 hold" in capsys.readouterr().out
    monkeypatch.setattr(verify, "findings", lambda seed: [verify.Finding("an E[W]", 1.1, 0, 1)])
    assert cli.main(["verify"]) == 2
    assert "fails: an E[W]" in capsys.readouterr().out
    assert cli.main(["verify", "--sed", "1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
