import dataclasses
import math

import numpy as np
import pytest
from mechanisms.samples import is_log_ratio, mean_is, scale_is
from mechanisms.test_against_mbi import mixed
from scipy.special import ndtri

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Domain, Table
from audit.mechanisms import aim, marginals
from audit.mechanisms.aim import AIM
from audit.mechanisms.broken.less_noise import AIMLessNoise
from audit.privacy import GDP, ZCDP

PAIR = WorstCase()
ABSENT, PRESENT = PAIR.data([False]), PAIR.data([True])
RHO = 0.10341283143
SIGMA, EPSILON = math.sqrt(48 / (2 * 0.9 * RHO)), math.sqrt(8 * 0.1 * RHO / 48)


def release(trials=200, data=ABSENT, seed=0, **options):
    mechanism = AIMLessNoise if "noise_fraction" in options else AIM
    return mechanism(**({"eps": 1, "delta": 0.01} | options)).release(
        data, trials, np.random.default_rng(seed)
    )


@pytest.fixture(scope="module")
def played():
    return [release(4000, data, seed) for seed, data in enumerate((ABSENT, PRESENT))]


def test_claims_zcdp_and_never_the_implied_mu():
    claims = AIM(eps=1, delta=0.01, columns=3).claims
    assert claims[0].notion == ZCDP() and claims[0].parameter == pytest.approx(RHO, abs=1e-10)
    assert claims[1].parameter == 1
    assert claims[2].notion == GDP() and claims[2].numerical
    assert claims[2].parameter == pytest.approx(0.4550, abs=5e-5)
    assert claims[2].parameter > math.sqrt(2 * RHO)


# --- rounds ---------------------------------------------------------------------------------------


def test_rounds_follow_the_stock_schedule():
    """One trial's rounds, recomputed from what was picked and how far the model moved."""
    runs = release(60, mixed())
    for trial in range(60):
        spent, sigma, epsilon = 3 / (2 * SIGMA**2), SIGMA, EPSILON
        rounds = [
            (r, int(np.flatnonzero(r.trials == trial)[0]))
            for r in runs.history
            if trial in r.trials
        ]
        for k, (now, at) in enumerate(rounds):
            last = RHO - spent < 2 * (1 / (2 * sigma**2) + epsilon**2 / 8)
            if last:
                sigma, epsilon = (
                    math.sqrt(1 / (1.8 * (RHO - spent))),
                    math.sqrt(0.8 * (RHO - spent)),
                )
            assert now.sigma[at] == pytest.approx(sigma, rel=1e-8) and now.epsilon[
                at
            ] == pytest.approx(epsilon, rel=1e-8)
            assert last == (k == len(rounds) - 1)
            spent += 1 / (2 * sigma**2) + epsilon**2 / 8
            if not last:
                clique = list(now.estimate)[now.pick[at]]
                after, there = rounds[k + 1]
                moved = np.abs(after.estimate[clique][there] - now.estimate[clique][at]).sum()
                if moved <= sigma * math.sqrt(2 / math.pi) * len(now.estimate[clique][at]):
                    sigma, epsilon = sigma / 2, epsilon * 2
        assert spent == pytest.approx(RHO, abs=1e-10)


def test_about_four_rounds_and_at_most_seven(played):
    count = sum(np.isin(np.arange(4000), r.trials).astype(int) for r in played[0].history)
    assert 4 <= np.mean(count) < 4.5 and 5 <= count.max() <= 7


def test_each_round_knows_the_fit_of_those_before():
    """The model that a round chose by is the one that the measurements before it give."""
    runs = release(30)
    problem = runs.pool.problem(np.arange(30))
    final = marginals.fit_dense(problem)
    longest = runs.history[-1]
    assert set(longest.trials) < set(range(30)) or len(runs.history) == 4
    assert not np.allclose(
        marginals.project(ABSENT.domain, final, ("a",)), runs.history[0].estimate["a",]
    )
    first = runs.history[0].estimate
    for column in "abc":  # after the columns alone, every pair is independent
        np.testing.assert_allclose(first[column,].sum(axis=1), first["a", "b"].sum(axis=1))
    total = first["a",].sum(axis=1)
    product = first["a",][:, :, None] * first["b",][:, None, :] / total[:, None, None]
    np.testing.assert_allclose(first["a", "b"], product.reshape(30, -1), atol=1e-6)


def test_chances_are_those_of_the_exponential_mechanism():
    runs = release(20)
    now, weights = runs.history[1], aim.weights_of(ABSENT.domain)
    told = now.chances(ABSENT, weights)
    np.testing.assert_allclose(np.exp(told).sum(axis=1), 1)
    for i in range(20):
        scores = []
        for clique, weight in weights.items():
            error = np.abs(ABSENT.marginal(clique) - now.estimate[clique][i]).sum()
            scores.append(
                weight * (error - math.sqrt(2 / math.pi) * now.sigma[i] * 2 ** len(clique))
            )
        raw = np.exp(0.5 * now.epsilon[i] / 4 * (np.array(scores) - max(scores)))
        np.testing.assert_allclose(np.exp(told[i]), raw / raw.sum())


def test_picks_come_as_often_as_their_chances_say(played):
    """Σ over trials of (picked − chance) has mean 0 for every candidate; 6 candidates: false
    failure 4e-6 / 10."""
    for runs, data in zip(played, (ABSENT, PRESENT), strict=True):
        weights = aim.weights_of(data.domain)
        for now in runs.history[:2]:
            chance = np.exp(now.chances(data, weights))
            picked = now.pick[:, None] == np.arange(6)
            assert all(mean_is(picked[:, i] - chance[:, i], 0.0, 5.5) for i in range(6))
            flat = np.exp(np.log(chance) * 3) / np.exp(np.log(chance) * 3).sum(
                axis=1, keepdims=True
            )
            sharper = [mean_is(picked[:, i] - flat[:, i], 0.0, 5.5) for i in range(6)]
            assert not all(sharper)


# --- the whole ------------------------------------------------------------------------------------


def test_noise_is_what_was_promised_and_a_broken_one_is_found():
    for scale in (1.0, 0.7, 1.3):
        runs = release(600, noise_fraction=scale)
        weighted, precision = runs.pool.weighted["a", "b"], runs.pool.precision["a", "b"]
        some = precision > 0
        residual = weighted[some] - precision[some, None] * ABSENT.marginal(("a", "b"))
        assert scale_is(residual / np.sqrt(precision[some, None]), 1.0) == (scale == 1)


def test_log_ratio_is_exact_and_leaks_as_much_as_the_reference_says(played):
    """mu_hat .442 (20,000 a side); sd .0285 at 4,000 a side; 5 sigmas: false failure 6e-7."""
    ratios = [runs.log_ratio(ABSENT, PRESENT) for runs in played]
    assert is_log_ratio(*ratios)
    found = -ndtri(np.mean(ratios[0] >= 0)) - ndtri(np.mean(ratios[1] < 0))
    assert abs(found - 0.445) < 5 * 0.0285
    half = [
        release(2000, data, 7, noise_fraction=0.5).log_ratio(ABSENT, PRESENT)
        for data in (ABSENT, PRESENT)
    ]
    assert -ndtri(np.mean(half[0] >= 0)) - ndtri(np.mean(half[1] < 0)) > 0.445 + 5 * 0.0285


@pytest.mark.parametrize("scale", [0.7, 1.3])
def test_a_log_ratio_for_another_noise_is_not(scale):
    both = [release(2500, data, 3, noise_fraction=scale) for data in (ABSENT, PRESENT)]
    ratios = [
        dataclasses.replace(runs, noise_fraction=1.0).log_ratio(ABSENT, PRESENT) for runs in both
    ]
    assert not is_log_ratio(*ratios)


def test_insider_columns_hold_the_score_of_the_gaussian_part(played):
    """Σ precision·noisy canary cell: its μ² is about 1.811ρ."""
    values = []
    for runs in played:
        columns = runs.insider()
        at = {name: columns.values[:, i] for i, name in enumerate(columns.names)}
        canary = [f"weighted[{c}][1]" for c in "abc"] + [
            f"weighted[{p}][3]" for p in ("a,b", "a,c", "b,c")
        ]
        values.append(sum(at[name] for name in canary))
    mean, variance = np.mean(values[1]) - np.mean(values[0]), np.var(values[0])
    # Relative sd of the variance √(2/4000) = .022, of the mean .05.
    assert abs(variance / (1.811 * RHO) - 1) < 0.12 and abs(mean / (1.811 * RHO) - 1) < 0.26
    assert columns.values.shape[1] == len(columns.names) == 24


def test_the_ledger_is_closed_in_every_trial(books):
    release(100)
    np.testing.assert_allclose(books[0].spent, RHO, atol=1e-12 + 1e-11)
    assert len(books[0].entries) >= 3 + 4


def test_a_small_model_size_allows_columns_only():
    runs = release(50, max_model_size=1e-6)
    assert all((r.pick < 3).all() for r in runs.history)
    assert any((r.pick >= 3).any() for r in release(50).history)
    assert np.isfinite(runs.log_ratio(ABSENT, PRESENT)).all()


def test_rows_do_not_change_the_noise_and_come_again():
    runs, again = release(30, rows=9), release(30, rows=9)
    records = runs.public().records
    assert records.shape == (30, 9, 3)
    np.testing.assert_array_equal(runs.insider().values, again.insider().values)
    np.testing.assert_array_equal(again.public().records, records)


def test_bad_input_is_one_line():
    alone = Table(Domain(("a",), (2,)), np.zeros((5, 1), int))
    with pytest.raises(
        AuditError, match="AIM needs at least 2 columns; give more, or use aim_fixed"
    ):
        release(1, alone)
    with pytest.raises(AuditError, match=r"mechanism.columns is 4 but the data have 3"):
        release(1, columns=4)
