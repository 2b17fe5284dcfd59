import math

import numpy as np
import pytest

from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.dkw import DKW
from audit.estimators.exact import Exact
from audit.estimators.power import (
    detectable,
    midpoint,
    mu_of_area,
    power,
    trials_foretold,
    trials_needed,
)
from audit.privacy import GDP, ApproximateDP, PureDP

CLAIM = 0.4548


@pytest.mark.parametrize(
    "accuser", [Exact(0.05), ClopperPearson(significance=0.05)], ids=["exact", "clopper_pearson"]
)
def test_power_is_the_share_of_audits_that_find_it(accuser):
    """2,000 tables drawn at the detectable truth: the share has sd 0.9 %, so 0.045 is 5 sd
    (5.7e-7)."""
    n = 500
    truth = detectable(accuser, GDP(), CLAIM, n, n)
    rate = midpoint(GDP(), truth)
    region = accuser.region(GDP(), CLAIM, n, n)
    rng = np.random.default_rng(0)
    errors = rng.binomial(n, rate, size=(2000, 2))
    found = [fp < len(region.largest_fn) and fn <= region.largest_fn[fp] for fp, fn in errors]
    assert np.mean(found) == pytest.approx(0.8, abs=0.045)
    assert power(accuser, GDP(), CLAIM, rate, rate, n, n) == pytest.approx(0.8, abs=1e-6)


def test_an_estimator_without_a_region_is_simulated():
    """DKW's power from 200 audits rises with the truth and is far below that of the exact test."""
    rates = [midpoint(GDP(), truth) for truth in (CLAIM, 1.0, 1.4, 2.0)]
    found = [power(DKW(significance=0.05), GDP(), CLAIM, rate, rate, 300, 300) for rate in rates]
    exact = [power(Exact(0.05), GDP(), CLAIM, rate, rate, 300, 300) for rate in rates]
    assert found == sorted(found)
    assert found[0] <= 0.05 + 5 * math.sqrt(0.05 / 200)
    assert all(
        dkw <= best + 5 * math.sqrt(0.25 / 200) for dkw, best in zip(found, exact, strict=True)
    )
    assert found[-1] > 0.9


def test_the_normal_law_foretells_the_trials_to_five_per_cent():
    foretold = trials_foretold(0.01, GDP(), CLAIM, 1.25 * CLAIM)
    assert trials_needed(Exact(0.01), GDP(), CLAIM) == pytest.approx(foretold, rel=0.05)


def test_an_attack_that_shows_too_little_never_finds_it():
    accuser = Exact(0.05)
    assert trials_needed(accuser, GDP(), 0.5, ratio=1.25, efficiency=0.8) == math.inf
    assert trials_needed(accuser, GDP(), 0.5, efficiency=0.9) > trials_needed(accuser, GDP(), 0.5)
    assert detectable(accuser, GDP(), 0.5, 100, 100, efficiency=0.0) == math.inf


def test_without_trials_nothing_is_detectable():
    assert detectable(Exact(0.05), GDP(), 0.5, 0, 100) == math.inf
    assert detectable(Exact(0.05), GDP(), 0.5, 100, 0) == math.inf
    assert power(DKW(significance=0.05), GDP(), 0.5, 0.1, 0.1, 0, 100) == 0


@pytest.mark.parametrize("notion", [GDP(), PureDP(), ApproximateDP(1e-5)], ids=str)
def test_a_claim_that_errors_cannot_refute_takes_no_number_of_trials(notion):
    assert trials_needed(Exact(0.05), notion, 100.0) == math.inf
    assert detectable(Exact(0.05), notion, 100.0, 100, 100) == math.inf


def test_the_mu_of_an_area_is_that_of_the_shift():
    """200 by 200 quantiles of N(0, 1) and N(1, 1): the area is exact to 1e-3."""
    from scipy.special import ndtri

    quantiles = ndtri((np.arange(200) + 0.5) / 200)
    assert mu_of_area(quantiles, quantiles + 1) == pytest.approx(1.0, abs=0.01)
    assert mu_of_area(quantiles, quantiles - 1) == 0.0
    assert mu_of_area(quantiles, quantiles[:0]) == 0.0
    assert math.isfinite(mu_of_area(quantiles, quantiles + 100))
