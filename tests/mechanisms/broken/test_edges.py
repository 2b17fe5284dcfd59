"""What goes wrong at the edges: each bug's output, where it is exact."""

import math

import numpy as np
import pytest

from audit.mechanisms.broken.edges import (
    BoundUsedTwice,
    ClippedInVain,
    NaNPasses,
    NewKey,
    ScaleFromData,
)
from audit.privacy import ApproximateDP


def values(mechanism, data, n=1000):
    return mechanism.release(np.array(data, float), n, np.random.default_rng(0)).public().values


def test_a_bound_used_twice_leaves_no_noise():
    mechanism = BoundUsedTwice(eps=1, lower=0, upper=100)
    assert np.all(values(mechanism, [50, 60]) == 110) and np.all(values(mechanism, [50]) == 50)
    # the other way round it is right
    assert np.ptp(values(BoundUsedTwice(eps=1, lower=-100, upper=0), [0])) > 100


def test_what_is_clipped_in_vain_costs_eps_for_every_bound():
    data = np.array([0.0]), np.array([0.0, 50.0])
    released = ClippedInVain(eps=1, bound=1).release(data[0], 1000, np.random.default_rng(0))
    assert released.log_ratio(*data).min() == pytest.approx(-50)
    kept = ClippedInVain(eps=1, bound=50).release(data[0], 1000, np.random.default_rng(0))
    assert kept.log_ratio(*data).min() == pytest.approx(-1)  # within the bound it keeps its claim


def test_nan_passes_a_clip():
    assert np.all(values(NaNPasses(eps=1), [0, math.nan])[:, 1] == 1)
    assert np.all(values(NaNPasses(eps=1), [0, 9])[:, 1] == 0)


def test_equal_records_get_no_noise():
    assert np.all(values(ScaleFromData(eps=1), [5, 5, 5]) == 0)
    assert len(np.unique(values(ScaleFromData(eps=1), [5, 5, 5, 9]))) == 1000


def test_a_new_key_is_shown_more_often_than_its_delta_says():
    mechanism, n = NewKey(eps=1, threshold=2), 100_000
    fall = math.exp(-1)
    exact, notion = fall / (1 + fall), mechanism.claims[0].notion
    assert isinstance(notion, ApproximateDP) and notion.delta == pytest.approx(exact * fall)
    shown = np.mean(values(mechanism, [0, 1], n)[:, 0] > 0)
    assert abs(shown - exact) < 5.2 * math.sqrt(exact * (1 - exact) / n)  # false failure: 2e-7
    assert np.all(values(mechanism, [0]) == 0)
    assert (
        notion.parameter(0.0, 1 - exact) == math.inf
        and notion.parameter(0.0, 1 - notion.delta) == 0
    )
