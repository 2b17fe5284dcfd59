import math

import numpy as np
import pytest
from mechanisms.samples import is_log_ratio, scale_is
from pydantic import ValidationError
from scipy.special import ndtri
from scipy.stats import norm

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Domain, Table
from audit.mechanisms.broken.less_noise import FixedMarginalsLessNoise
from audit.mechanisms.fixed import FixedMarginals
from audit.privacy import GDP, ZCDP

PAIR = WorstCase()
ABSENT, PRESENT = PAIR.data([False]), PAIR.data([True])
RHO = 0.10341283143


def release(trials=3000, data=ABSENT, seed=0, **options):
    mechanism = FixedMarginalsLessNoise if "noise_fraction" in options else FixedMarginals
    return mechanism(**({"eps": 1, "delta": 0.01} | options)).release(
        data, trials, np.random.default_rng(seed)
    )


@pytest.mark.parametrize(("degree", "count", "cells"), [(1, 3, 6), (2, 6, 18), (3, 7, 26)])
def test_noise_is_what_the_claim_says_and_a_broken_one_is_found(degree, count, cells):
    sigma = math.sqrt(count / (2 * RHO))
    runs = release(degree=degree)
    assert len(runs.noisy) == count and len(runs.insider().names) == cells
    for clique, noisy in runs.noisy.items():
        assert scale_is(noisy - ABSENT.marginal(clique), sigma)
    for scale in (0.7, 1.3):
        broken = release(degree=degree, noise_fraction=scale)
        assert not any(
            scale_is(noisy - ABSENT.marginal(c), sigma) for c, noisy in broken.noisy.items()
        )


def test_claims_gdp_first():
    claims = FixedMarginals(eps=1, delta=0.01, degree=2).claims
    assert [type(c.notion).__name__ for c in claims] == ["GDP", "ZCDP", "ApproximateDP"]
    assert claims[0].notion == GDP() and claims[0].parameter == pytest.approx(
        0.45478089545, abs=1e-10
    )
    assert claims[1].notion == ZCDP() and claims[1].parameter == pytest.approx(RHO, abs=1e-10)
    assert claims[2].parameter == 1 and not any(c.numerical for c in claims)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_log_ratio_is_exact(degree):
    runs = release(5, degree=degree, noise_fraction=0.8)
    slow = np.zeros(5)
    for clique, noisy in runs.noisy.items():
        sd = 0.8 * runs.sigma
        a, b = (
            norm.logpdf(noisy, data.marginal(clique), sd).sum(axis=1) for data in (ABSENT, PRESENT)
        )
        slow += b - a
    np.testing.assert_allclose(runs.log_ratio(ABSENT, PRESENT), slow, atol=1e-10)


def test_the_strong_adversary_sees_exactly_the_claim():
    """mu_hat at the best threshold is 0.4548 ± 0.0126 · √(20/n in thousands) a side; half the noise
    shows 0.91."""
    for scale, mu in ((1.0, 0.45478), (0.5, 0.90956)):
        ratios = [
            release(20_000, data, seed, noise_fraction=scale).log_ratio(ABSENT, PRESENT)
            for seed, data in enumerate((ABSENT, PRESENT))
        ]
        assert is_log_ratio(*ratios)
        fpr, fnr = np.mean(ratios[0] >= 0), np.mean(ratios[1] < 0)
        assert abs(-ndtri(fpr) - ndtri(fnr) - mu) < 5 * 0.0135  # 5 sigmas: false failure 6e-7


def test_rows_are_fixed_and_do_not_change_the_noise():
    runs, again = release(20, rows=17), release(20, rows=17)
    records = runs.public().records
    assert records.shape == (20, 17, 3) and set(np.unique(records)) <= {0, 1}
    assert runs.public() is runs.public()
    np.testing.assert_array_equal(again.insider().values, runs.insider().values)
    np.testing.assert_array_equal(again.public().records, records)


def test_another_seed_is_another_release():
    assert not np.array_equal(release(5, seed=1).insider().values, release(5).insider().values)


def test_columns_alone_fit_any_domain_and_pairs_are_refused_in_time():
    wide = Table(Domain(tuple(f"c{i}" for i in range(14)), (40,) * 14), np.zeros((30, 14), int))
    assert release(3, wide).public().records.shape == (3, 50, 14)
    with pytest.raises(AuditError, match="fitting all pairs of these columns needs about"):
        release(3, wide, degree=2).public()


@pytest.mark.parametrize(
    "bad", [{"eps": -1}, {"eps": math.inf}, {"delta": 1.0}, {"degree": 4}, {"rows": 0}, {"row": 5}]
)
def test_refuses_what_is_out_of_range(bad):
    with pytest.raises(ValidationError):
        FixedMarginals(**({"eps": 1, "delta": 0.01} | bad))
