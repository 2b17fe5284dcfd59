import dataclasses
import itertools
import math

import numpy as np
import pytest
from mechanisms.samples import is_log_ratio, mean_is, scale_is
from mechanisms.test_against_mbi import mixed
from scipy.special import ndtri

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Domain, Table
from audit.mechanisms import mst
from audit.mechanisms.broken.less_noise import MSTLessNoise
from audit.mechanisms.mst import MST
from audit.privacy import GDP, ZCDP

PAIR = WorstCase()
ABSENT, PRESENT = PAIR.data([False]), PAIR.data([True])
RHO = 0.10341283143
PAIRS = list(itertools.combinations("abc", 2))


def release(trials=400, data=ABSENT, seed=0, **options):
    mechanism = MSTLessNoise if "noise_fraction" in options else MST
    return mechanism(**({"eps": 1, "delta": 0.01} | options)).release(
        data, trials, np.random.default_rng(seed)
    )


def test_claims_zcdp_and_never_the_implied_mu():
    claims = MST(eps=1, delta=0.01, columns=3).claims
    assert claims[0].notion == ZCDP() and claims[0].parameter == pytest.approx(RHO, abs=1e-10)
    assert claims[1].parameter == 1
    assert claims[2].notion == GDP() and claims[2].numerical
    assert claims[2].parameter == pytest.approx(0.4586, abs=5e-5)
    assert MST(eps=1, delta=0.01).claims[2].parameter > claims[2].parameter > math.sqrt(2 * RHO)


# --- columns --------------------------------------------------------------------------------------


def test_columns_and_pairs_get_the_stock_noise_and_a_broken_one_is_found():
    one_way, pair_sd = math.sqrt(3 * 3 / (2 * RHO)), math.sqrt(2 * 3 / (2 * RHO))
    for scale in (1.0, 0.7, 1.3):
        runs = release(3000, compress=False, noise_fraction=scale)
        for column, noisy in runs.first.noisy.items():
            assert scale_is(noisy - ABSENT.marginal((column,)), one_way) == (scale == 1)
        for pair, noisy in runs.second.noisy.items():
            assert scale_is(noisy - ABSENT.marginal(pair), pair_sd) == (scale == 1)


def test_compression_merges_what_is_below_three_standard_deviations():
    table = mixed()
    runs = release(200, table)
    first, partly = runs.first, 0
    for column, noisy in first.noisy.items():
        for i in range(200):
            small = [v for v, y in enumerate(noisy[i]) if y < 3 * first.sigma]
            for v in range(noisy.shape[1]):
                shares = small if v in small else [v]
                assert first.group[column][i, v] == shares[0]
                assert first.merged[column][i, v] == len(shares)
                assert first.even[column][i, v] == pytest.approx(np.mean(noisy[i, shares]))
            partly += 1 < len(small) < noisy.shape[1]
            assert first.cells[column][i] == noisy.shape[1] - max(len(small) - 1, 0)
    assert partly > 20, "some columns are merged in part"


@pytest.mark.parametrize("compress", [False, True])
def test_scores_are_l1_distances_over_merged_cells(compress):
    table = mixed()
    first = release(30, table, compress=compress).first
    scores, (fitted, total) = first.scores(table), first.estimate
    for i in range(30):
        for p, pair in enumerate(PAIRS):
            product = np.outer(fitted[pair[:1]][i], fitted[pair[1:]][i]).ravel() / total[i]
            cell = [
                first.group[pair[0]][i, u] * 99 + first.group[pair[1]][i, v]
                for u, v in np.ndindex(table.domain.shape(pair))
            ]
            differs = dict.fromkeys(cell, 0.0)
            for c, answer, guess in zip(cell, table.marginal(pair), product, strict=True):
                differs[c] += answer - guess
            assert scores[i, p] == pytest.approx(sum(map(abs, differs.values())), abs=1e-8)


def test_scores_have_sensitivity_one():
    first = release(50).first
    assert np.abs(first.scores(PRESENT) - first.scores(ABSENT)).max() <= 1 + 1e-9


# --- selection ------------------------------------------------------------------------------------


def trees_of(columns):
    """All sequences of picks that join the columns."""
    pairs = list(itertools.combinations(range(columns), 2))
    found = []
    for picks in itertools.permutations(range(len(pairs)), columns - 1):
        group = list(range(columns))
        for p in picks:
            a, b = (group[x] for x in pairs[p])
            if a == b:
                break
            group = [a if g == b else g for g in group]
        else:
            found.append(picks)
    return found


def slow_chance(scores, epsilon, picks, columns):
    """Probability of a sequence of picks by the exponential mechanism of sensitivity 1."""
    pairs, group, chance = (
        list(itertools.combinations(range(columns), 2)),
        list(range(columns)),
        1.0,
    )
    for p in picks:
        free = [q for q, (a, b) in enumerate(pairs) if group[a] != group[b]]
        chance *= math.exp(epsilon / 2 * scores[p]) / sum(
            math.exp(epsilon / 2 * scores[q]) for q in free
        )
        a, b = (group[x] for x in pairs[p])
        group = [a if g == b else g for g in group]
    return chance


def test_trees_are_chosen_by_the_exponential_mechanism():
    scores, epsilon, n = np.array([0.0, 2.0, 1.0, 0.5, 3.0, 1.5]), 0.9, 60_000
    tree = mst.choose_tree(np.tile(scores, (n, 1)), epsilon, np.random.default_rng(0))
    told = np.exp(mst.log_chance(tree, np.tile(scores, (n, 1)), epsilon))
    sequences, total, rejected = trees_of(4), 0.0, 0
    for picks in sequences:
        here = (tree.picks == picks).all(axis=1)
        chance = slow_chance(scores, epsilon, picks, 4)
        total += chance
        assert mean_is(here, chance, 6.0)  # 96 sequences: false failure 2e-7 in all
        np.testing.assert_allclose(told[here], chance, rtol=1e-9)
        rejected += not mean_is(here, slow_chance(scores, 2 * epsilon, picks, 4), 6.0)
    assert len(sequences) == 96 and total == pytest.approx(1) and rejected > 10, (
        "a factor of ½ forgotten is found"
    )


# --- the whole ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played():
    return {
        (compress, bit): release(5000, (ABSENT, PRESENT)[bit], [compress, bit], compress=compress)
        for compress in (True, False)
        for bit in (0, 1)
    }


@pytest.mark.parametrize("compress", [True, False])
def test_log_ratio_is_exact(played, compress):
    ratios = [played[compress, bit].log_ratio(ABSENT, PRESENT) for bit in (0, 1)]
    assert is_log_ratio(*ratios)


@pytest.mark.parametrize("scale", [0.7, 1.3])
def test_a_log_ratio_for_another_noise_is_not(scale):
    ratios = []
    for data in (ABSENT, PRESENT):
        runs = release(5000, data, 3, noise_fraction=scale)
        honest = dataclasses.replace(
            runs,
            first=dataclasses.replace(runs.first, added_sigma=runs.first.sigma),
            second=dataclasses.replace(runs.second, added_sigma=runs.second.sigma),
        )
        ratios.append(honest.log_ratio(ABSENT, PRESENT))
    assert not is_log_ratio(*ratios)


def test_log_ratio_against_probabilities_one_by_one():
    table, other = mixed(), mixed()
    other = Table(other.domain, np.concatenate([other.records, [[1, 2, 4]]]))
    runs = release(40, table)
    told, first, second = runs.log_ratio(table, other), runs.first, runs.second
    for i in range(40):
        slow = 0.0
        for data, sign in ((other, 1), (table, -1)):
            scores = first.scores(data)[i]
            slow += sign * math.log(slow_chance(scores, runs.epsilon, runs.tree.picks[i], 3))
            for column, noisy in first.noisy.items():
                slow -= (
                    sign * np.sum((noisy[i] - data.marginal((column,))) ** 2) / (2 * first.sigma**2)
                )
            for pair in (PAIRS[p] for p in runs.tree.picks[i]):
                shape, at = data.domain.shape(pair), np.flatnonzero(second.where[pair] == i)[0]
                noisy, truth = np.zeros(shape), np.zeros(shape)
                for u, v in np.ndindex(shape):
                    cell = first.group[pair[0]][i, u], first.group[pair[1]][i, v]
                    noisy[cell] += second.noisy[pair][at].reshape(shape)[u, v]
                    truth[cell] += data.marginal(pair).reshape(shape)[u, v]
                slow -= sign * np.sum((noisy - truth) ** 2) / (2 * second.sigma**2)
        assert told[i] == pytest.approx(slow, abs=1e-7)


def test_leaks_as_much_as_the_reference_says(played):
    """Exact likelihood ratio: mu_hat .373 (20,000 a side); sd .0253 at 5,000 a side; 5 sigmas:
    false failure 6e-7."""
    ratios = [played[True, bit].log_ratio(ABSENT, PRESENT) for bit in (0, 1)]
    found = -ndtri(np.mean(ratios[0] >= 0)) - ndtri(np.mean(ratios[1] < 0))
    assert abs(found - 0.375) < 5 * 0.0255
    half = [
        release(5000, data, 9, noise_fraction=0.5).log_ratio(ABSENT, PRESENT)
        for data in (ABSENT, PRESENT)
    ]
    assert -ndtri(np.mean(half[0] >= 0)) - ndtri(np.mean(half[1] < 0)) > 0.375 + 5 * 0.0255


def test_all_columns_collapse_in_four_trials_of_five(played):
    collapsed = np.all([played[True, 0].first.cells[c] == 1 for c in "abc"], axis=0)
    assert mean_is(collapsed, 0.80)
    assert not mean_is(collapsed, 0.75)
    assert not np.any([played[False, 0].first.cells[c] == 1 for c in "abc"])


def test_insider_columns_hold_the_score_of_the_gaussian_part(played):
    """Σ precision·(noisy canary cell − D_out count) is linear in them, and its μ² is 4ρ/3."""
    values = []
    for bit in (0, 1):
        columns = played[True, bit].insider()
        at = {name: columns.values[:, i] for i, name in enumerate(columns.names)}
        canary = [f"weighted[{c}][1]" for c in "abc"] + [
            f"weighted[{','.join(p)}][3]" for p in PAIRS
        ]
        values.append(
            sum(at[name] for name in canary) + at["weighted[][0]"] - 10 * at["precision[]"]
        )
    mean, variance = np.mean(values[1]) - np.mean(values[0]), np.var(values[0])
    # Relative sd of the variance √(2/5000) = .02, of the mean .055.
    assert abs(variance / (4 * RHO / 3) - 1) < 0.1 and abs(mean / (4 * RHO / 3) - 1) < 0.28
    assert columns.values.shape[1] == len(columns.names) == 26


def test_insider_columns_lose_no_measurement_where_values_are_partly_merged():
    """The fresh counts of every column can be read back in every trial, and the pairs' counts
    beside them."""
    runs = release(400, mixed(rows=25))
    columns, first, apart = runs.insider(), runs.first, 0
    at = {name: columns.values[:, i] for i, name in enumerate(columns.names)}
    for column, noisy in first.noisy.items():
        told = np.stack([at[f"weighted[{column}][{v}]"] for v in range(noisy.shape[1])], axis=1)
        if noisy.shape[1] > 2:
            np.testing.assert_allclose(told / at[f"precision[{column}]"][:, None], noisy, rtol=1e-9)
            apart += np.count_nonzero(at[f"precision[{column} merged]"])
    assert apart > 20, "else there was nothing that could have been lost"


def test_insider_does_not_fit_the_tree(monkeypatch, played):
    monkeypatch.setattr(mst.marginals, "fit_dense", None)
    played[True, 0].insider()


def test_rows_do_not_change_the_noise_and_come_again():
    runs, again = release(30, rows=9), release(30, rows=9)
    records = runs.public().records
    assert records.shape == (30, 9, 3)
    np.testing.assert_array_equal(runs.insider().values, again.insider().values)
    np.testing.assert_array_equal(again.public().records, records)


def test_the_ledger_is_closed(books):
    release(1)
    names = [name for name, _ in books[0].entries]
    assert names == ["measure columns", "select pairs", "measure pairs"]
    np.testing.assert_allclose([amount[0] for _, amount in books[0].entries], RHO / 3, atol=1e-11)


def test_bad_input_is_one_line():
    alone = Table(Domain(("a",), (2,)), np.zeros((5, 1), int))
    with pytest.raises(
        AuditError, match="MST needs at least 2 columns; give more, or use mst_fixed"
    ):
        release(1, alone)
    with pytest.raises(AuditError, match=r"mechanism.columns is 4 but the data have 3"):
        release(1, columns=4)
