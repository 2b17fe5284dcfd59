"""Copies are told from laws that repeat themselves: both ways, on fixed seeds."""

import numpy as np
import pytest
from scipy.special import gammaln

import audit
from audit.core import AuditError
from audit.estimators.joint_bayes import JointBayes
from audit.repeats import copied, fills, most_alike

LAWS = {
    "continuous": lambda rng, b, n: rng.normal(b, size=n),
    "a bit": lambda rng, b, n: (rng.random(n) < 0.3 + 0.4 * b).astype(float),
    "counts": lambda rng, b, n: rng.poisson(5 + b, n).astype(float),
    "scaled counts": lambda rng, b, n: rng.poisson(500 + b, n) * np.pi,
    "a fine lattice, far apart": lambda rng, b, n: (
        np.round(rng.normal(3 * b, size=n) * 3000) * np.pi / 3000
    ),
    "rounded": lambda rng, b, n: np.round(rng.normal(b, size=n), 3),
    "single precision": lambda rng, b, n: rng.normal(b, size=n).astype(np.float32).astype(float),
    "half precision": lambda rng, b, n: rng.normal(b, size=n).astype(np.float16).astype(float),
    "clipped at full precision": lambda rng, b, n: np.clip(
        rng.normal(b, size=n), -1 / 3, np.pi / 3
    ),
    "a Laplace ratio": lambda rng, b, n: (
        np.e / 2 * np.clip(2 * (b + rng.laplace(size=n)) - 1, -1, 1)
    ),
    "heavy tailed": lambda rng, b, n: rng.zipf(1.3, n) % 10**9 * np.sqrt(2),
    "as many atoms as runs": lambda rng, b, n: rng.integers(0, n, n) * np.pi,
    "a grid of short decimals": lambda rng, b, n: np.arange(n) % max(n // 2, 1) / 1000 + b,
    "infinite": lambda rng, b, n: np.where(rng.random(n) < 0.5, np.inf, rng.normal(b, size=n)),
    "regression stumps": lambda rng, b, n: sum(
        (rng.normal(b * 0.1, size=n)[:, None] > np.linspace(-2, 2, 40))
        @ np.random.default_rng(j).normal(size=40)
        for j in range(3)
    ),
}


def both(law, n, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([LAWS[law](rng, b, n) for b in (0, 1)]), np.arange(2 * n) >= n


@pytest.mark.parametrize("n", [20, 300, 3000])
@pytest.mark.parametrize("law", LAWS)
def test_laws_that_repeat_themselves_are_left_alone(law, n):
    # Each is called copied with probability 2e-6 at most; seeds are fixed.
    assert all(copied(*both(law, n, seed), "rows") is None for seed in range(5))


@pytest.mark.parametrize("times", [2, 3, 5])
@pytest.mark.parametrize("law", ["continuous", "single precision", "clipped at full precision"])
def test_everything_written_several_times_is_refused_with_a_count(law, times):
    values, bits = both(law, 200)
    for copy in (np.repeat, np.tile):
        told = copied(copy(values, times), copy(bits, times), "rows")
        assert told and told.endswith(f"of {400 * times:,} rows are exact repeats of others")


@pytest.mark.parametrize("share", [0.03, 0.2])
def test_some_rows_that_stand_elsewhere_again_are_refused(share):
    """As where rows to fit on are found again among those to test on: with probability 1 − 1e-6 and
    more."""
    values, bits = both("continuous", 3000)
    rng, many = np.random.default_rng(1), int(share * 6000)
    where = rng.choice(6000, 2 * many, replace=False)
    for array in (values, bits):
        array[where[:many]] = array[where[many:]]
    assert copied(values, bits, "rows") == f"{many:,} of 6,000 rows are exact repeats of others"
    wide = np.stack([values, np.ones(6000), np.round(values)], axis=1)
    assert copied(wide, bits, "rows") == f"{many:,} of 6,000 rows are exact repeats of others"


def test_a_minority_that_was_drawn_again_to_be_as_many_is_refused():
    rng = np.random.default_rng(0)
    values = np.append(rng.normal(size=2000), rng.choice(rng.normal(size=200), 2000))
    assert copied(values, np.arange(4000) >= 2000, "rows")


def test_a_column_apart_makes_rows_different():
    values, bits = both("continuous", 200)
    again, sides = np.tile(values, 2), np.tile(bits, 2)
    assert copied(again, sides, "rows")
    assert copied(np.stack([again, np.arange(800)], axis=1), sides, "rows") is None


def test_the_largest_probability_of_as_many_by_a_grid():
    rate = np.geomspace(1e-3, 200, 200_001)
    for k in (2, 3, 10, 100):
        slow = np.max(np.exp(k * np.log(rate) - gammaln(k + 1) - rate - np.log1p(-np.exp(-rate))))
        assert most_alike(np.array([k]))[0] == pytest.approx(slow, rel=1e-6)


def test_most_doubles_fill_their_precision():
    rng = np.random.default_rng(0)
    values = rng.normal(size=10_000) * 10.0 ** rng.integers(-9, 9, 10_000)
    assert fills(values).mean() > 0.5
    assert not fills(np.round(values, 3)[np.abs(values) < 1e9]).any()


def test_each_score_five_times_is_refused_and_would_have_accused():
    """No leak at all; copies make a tenth of the bounds too high where one in a hundred may be."""
    wrong = 0
    for seed in range(200):
        ins, outs = np.repeat(np.random.default_rng(seed).normal(size=(2, 100)), 5, axis=1)
        found = audit.bound(
            ins, outs, estimator=JointBayes(), significance=0.01, threshold=0.0, repeats=True
        )
        wrong += found.lower > 0
    # P(Bin(200, 0.01) ≥ 14) < 1e-6: more are wrong than is promised, which is why they are refused.
    assert wrong >= 14
    with pytest.raises(
        AuditError, match=r"800 of 1,000 scores are exact repeats of others, .* say repeats=True"
    ):
        audit.bound(ins, outs, significance=0.01)
