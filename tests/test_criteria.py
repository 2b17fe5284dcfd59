import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.special import ndtri

from audit.accountants import ExPostRDP
from audit.core import AuditError, Claim, Scores
from audit.criteria import Advantage, ByNotion, ClaimLower, Fixed, MuHat, MuLower, sweep, upper_rate
from audit.estimators.clopper_pearson import ClopperPearson
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP

CLAIM = Claim(PureDP(), 1.0)
CHOOSING = (Advantage(), MuHat(), MuLower(), ClaimLower(), ByNotion())


def scores(absent, present):
    values = np.concatenate([np.asarray(absent, float), np.asarray(present, float)])
    index = np.arange(len(values))
    return Scores(values, index >= len(absent), index, index)


def gaussian(mu, n=1000, seed=0):
    rng = np.random.default_rng(seed)
    return scores(rng.normal(size=n), rng.normal(size=n) + mu)


def quantiles(mu, n=1000):
    """Scores that are quantiles, not samples, so that no test can flake."""
    z = ndtri((np.arange(n) + 0.5) / n)
    return scores(z, z + mu)


values = st.lists(
    st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 3.0, np.inf]) | st.floats(-5, 5),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(absent=values, present=values, candidates=st.integers(2, 50))
def test_sweep_equals_counting_at_every_threshold(absent, present, candidates):
    selection = scores(absent, present)
    thresholds, fpr, fnr = sweep(selection, candidates)
    tables = [selection.count(threshold) for threshold in thresholds]
    assert np.allclose(fpr, [table.fpr for table in tables]) and np.allclose(
        fnr, [table.fnr for table in tables]
    )
    assert len(thresholds) <= candidates and np.all(thresholds[:-1] < thresholds[1:])
    assert set(thresholds) <= set(selection.values)


def test_advantage_finds_the_middle_between_two_humps():
    assert Advantage()(quantiles(1.0)) == pytest.approx(0.5, abs=0.1)
    assert Advantage()(quantiles(3.0)) == pytest.approx(1.5, abs=0.2)


def test_advantage_is_the_best_candidate():
    selection = gaussian(1.0)
    tables = [selection.count(threshold) for threshold in sweep(selection, 200)[0]]
    chosen = selection.count(Advantage()(selection))
    assert 1 - chosen.fpr - chosen.fnr == pytest.approx(
        max(1 - table.fpr - table.fnr for table in tables)
    )


def test_mu_hat_runs_into_a_corner_and_mu_lower_does_not():
    """At a rate of 0 the plug-in estimate is infinite: kept as published."""
    selection, test, prove = gaussian(0.5), gaussian(0.5, seed=1), ClopperPearson(significance=0.1)
    corner, sensible = (selection.count(criterion(selection)) for criterion in (MuHat(), MuLower()))
    assert corner.fpr == 0 or corner.fnr == 0
    assert min(sensible.fp, sensible.fn) > 20
    proved, refuted = (
        prove.lower(test.count(criterion(selection)), GDP()) for criterion in (MuLower(), MuHat())
    )
    assert proved > 0.2 > refuted


def test_mu_lower_is_the_best_candidate():
    selection, prove = gaussian(0.5), ClopperPearson(significance=0.1)
    best = max(
        prove.lower(selection.count(threshold), GDP()) for threshold in sweep(selection, 200)[0]
    )
    assert prove.lower(selection.count(MuLower()(selection)), GDP()) == pytest.approx(best)


def test_mu_lower_chooses_as_advantage_where_nothing_is_proved():
    selection = gaussian(0.0, n=20)
    assert MuLower()(selection) == Advantage()(selection)


def test_claim_lower_finds_the_rare_event_that_breaks_a_pure_claim():
    """2 % of the present trials show what no absent one shows: no advantage to speak of, and an ε
    of ∞."""
    rng = np.random.default_rng(0)
    absent, present = rng.normal(size=5000), rng.normal(size=5000) + 0.3
    present[:100] = 9.0
    selection, prove = scores(absent, present), ClopperPearson(significance=0.01)
    rare, common = (
        prove.lower(selection.count(criterion(selection, CLAIM)), PureDP())
        for criterion in (ClaimLower(), Advantage())
    )
    assert rare > 2 > 1 > common


@pytest.mark.parametrize(
    "notion", [PureDP(), ApproximateDP(0.01), GDP(), ZCDP(), ExPostRDP(order=4.0, top=10.0)]
)
def test_the_criterion_follows_the_claim(notion):
    kinked = isinstance(notion, PureDP | ApproximateDP)
    for ours, named in ((ByNotion(), {}), (ByNotion(quantiles=50), {"quantiles": 50})):
        assert ours.criterion(notion) == (ClaimLower if kinked else Advantage)(**named)
    if not isinstance(notion, ExPostRDP):
        selection = gaussian(1.0)
        claim = Claim(notion, 1.0)
        assert ByNotion()(selection, claim) == ByNotion().criterion(notion)(selection, claim)


def test_claim_lower_finds_a_laplace_mechanism_that_advantage_misses():
    """At 1.25 times a claim of ε = 1, with 1,250 selection and 2,500 test trials a side: power 0.08
    and 0.98."""
    rng, prove, found = (
        np.random.default_rng(0),
        ClopperPearson(significance=0.01),
        {Advantage: 0, ByNotion: 0},
    )
    for _ in range(60):
        draws = [
            1.25 * (abs(x) - abs(x - 1))
            for x in rng.laplace(size=(4, 2500)) / 1.25 + [[0], [1], [0], [1]]
        ]
        selection, test = scores(draws[0][:1250], draws[1][:1250]), scores(draws[2], draws[3])
        for make in found:
            found[make] += prove.lower(test.count(make()(selection, CLAIM)), PureDP()) > 1.0
    # Binomial(60, 0.95) is below 45 with probability 1e-7, and binomial(60, 0.1) above 20 with
    # 2e-7.
    assert found[Advantage] <= 20 and found[ByNotion] >= 45


def test_fixed_looks_at_nothing():
    assert Fixed(threshold=0.7)(gaussian(1.0)) == 0.7
    assert Fixed(threshold=float("inf"))(gaussian(1.0)) == float("inf")
    with pytest.raises(ValidationError, match="not NaN"):
        Fixed(threshold=float("nan"))


@pytest.mark.parametrize("criterion", CHOOSING)
def test_atoms_and_infinities_are_scores_like_any_other(criterion):
    infinite = np.repeat([-np.inf, np.inf], [80, 20])
    selection = scores(infinite, -infinite)
    counts = selection.count(criterion(selection, CLAIM))
    assert (counts.fpr, counts.fnr) == (0.2, 0.2)


@pytest.mark.parametrize("criterion", CHOOSING)
def test_what_cannot_be_chosen_on_is_refused(criterion):
    with pytest.raises(AuditError, match="one class only"):
        criterion(scores([], [1.0, 2.0]), CLAIM)
    with pytest.raises(AuditError, match="one class only"):
        criterion(scores([1.0], []), CLAIM)
    with pytest.raises(AuditError, match="NaN"):
        criterion(scores([np.nan, 1.0], [2.0]), CLAIM)


@pytest.mark.parametrize("option", [{"quantiles": 1}, {"quantile": 20}, {"quantiles": 2.5}])
@pytest.mark.parametrize("criterion", [Advantage, MuHat, MuLower, ClaimLower, ByNotion])
def test_wrong_options_are_refused(criterion, option):
    with pytest.raises(ValidationError):
        criterion(**option)


def test_an_upper_limit_is_one_sided():
    """0 of n: the limit solves (1 − p)^n = significance; a two-sided one would solve for half of
    it."""
    assert upper_rate(0, 50, 0.05) == pytest.approx(1 - 0.05 ** (1 / 50))
    assert upper_rate(0, 50, 0.05) < 1 - 0.025 ** (1 / 50)
