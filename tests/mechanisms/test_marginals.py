import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanisms.samples import mean_is

from audit.core import AuditError, Domain
from audit.mechanisms import marginals

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 2))
SIZES = dict(zip(DOMAIN.columns, DOMAIN.sizes, strict=True))
CLIQUES = marginals.cliques_up_to(DOMAIN, 3)
structures = st.lists(st.sampled_from(CLIQUES), min_size=1, max_size=8, unique=True).map(tuple)


@settings(max_examples=60, deadline=None)
@given(structures, st.integers(0, 2**32 - 1))
def test_lipschitz_and_maximal_cliques_are_mbis_own(structure, seed):
    library = marginals.mbi()
    precision = {c: np.random.default_rng(seed).uniform(0.1, 9, size=2) for c in structure}
    ours = marginals.lipschitz(structure, SIZES, precision)
    for i in range(2):
        listed = [
            library.LinearMeasurement(np.zeros(DOMAIN.size(c)), c, precision[c][i] ** -0.5)
            for c in structure
        ]
        space = library.Domain(DOMAIN.columns, DOMAIN.sizes)
        theirs = library.marginal_loss.calculate_l2_lipschitz_from_metadata(space, listed)
        assert ours[i] == pytest.approx(theirs, rel=1e-12)
    assert list(marginals.maximal(structure)) == library.clique_utils.maximal_subset(
        list(structure)
    )


def test_total_is_pooled_by_precision_and_never_below_one():
    rng = np.random.default_rng(0)
    sums = [10 + rng.normal(0, sd, 100_000) for sd in (3.0, 1.0)]
    pooled = marginals.total_of(sums, [9.0, 1.0])
    assert mean_is(pooled, 10.0)
    # relative sd of a sample's sd: 0.0022
    assert np.std(pooled) == pytest.approx(np.sqrt(0.9), rel=0.02)
    assert marginals.total_of([np.array([-50.0])], [1.0]).tolist() == [1.0]


def test_projection_is_a_sum():
    joint = np.random.default_rng(1).random((2, DOMAIN.size()))
    for clique in CLIQUES:
        slow = np.zeros((2, DOMAIN.size(clique)))
        for cell, values in enumerate(itertools.product(*map(range, DOMAIN.sizes))):
            at = tuple(values[DOMAIN.columns.index(c)] for c in clique)
            slow[:, np.ravel_multi_index(at, DOMAIN.shape(clique))] += joint[:, cell]
        np.testing.assert_allclose(marginals.project(DOMAIN, joint, clique), slow)


# --- fits -----------------------------------------------------------------------------------------


def problem(n, seed=0):
    rng = np.random.default_rng(seed)
    noisy = {c: rng.normal(5, 3, size=(n, DOMAIN.size(c))) for c in CLIQUES[:8]}
    weight = {c: np.full_like(y, 0.2) for c, y in noisy.items()}
    constant = marginals.lipschitz(tuple(noisy), SIZES, {c: np.full(n, 0.2) for c in noisy})
    return marginals.Problem(DOMAIN, noisy, weight, np.full(n, 20.0), constant)


def test_a_trials_bits_do_not_depend_on_how_many_are_fitted():
    whole = problem(marginals.LANES + 3)
    fitted = marginals.fit_dense(whole, 50)
    np.testing.assert_array_equal(marginals.fit_dense(whole[:3], 50), fitted[:3])
    np.testing.assert_allclose(fitted.sum(axis=1), 20.0)


# --- rows -----------------------------------------------------------------------------------------


def drawn(joint, rows, structure, n, seed=0):
    where = [(structure, np.arange(n))]
    return marginals.dense_rows(
        DOMAIN, np.tile(joint, (n, 1)), where, rows, np.random.default_rng(seed)
    ).records


def counts_of(records, clique):
    at = [records[:, :, DOMAIN.columns.index(c)] for c in clique]
    cell = np.ravel_multi_index(tuple(at), DOMAIN.shape(clique))
    return np.stack([np.bincount(row, minlength=DOMAIN.size(clique)) for row in cell])


@pytest.mark.parametrize(
    "structure", [tuple((c,) for c in "abcd"), (("a", "b"), ("b", "c"), ("d",)), (tuple("abcd"),)]
)
def test_rows_follow_the_model_and_their_number_is_given(structure):
    rng = np.random.default_rng(4)
    tables = {c: rng.random(DOMAIN.size(c)) for c in structure}
    joint = np.ones(DOMAIN.sizes)
    for clique, table in tables.items():
        shape = [DOMAIN.size((c,)) if c in clique else 1 for c in DOMAIN.columns]
        joint = joint * table.reshape(shape)
    joint = joint.ravel() / joint.sum() * 12.3
    records = drawn(joint, 50, structure, 3000)
    assert records.shape == (3000, 50, 4)
    wrong = 0
    for clique in CLIQUES[:10]:
        counts, expected = (
            counts_of(records, clique),
            marginals.project(DOMAIN, joint[None], clique)[0] / 12.3 * 50,
        )
        # 97 cells of 10 cliques: false failure below 97 · 6e-7 · 3
        for cell in range(DOMAIN.size(clique)):
            spread = counts[:, cell]
            assert mean_is(spread, expected[cell], 6.0) or np.ptp(spread) == 0, (clique, cell)
            wrong += not mean_is(spread, expected[cell] * 1.05 + 0.1)
    assert wrong > 50, "rows of another model are found"


def test_counts_of_a_column_are_rounded_not_sampled():
    joint = np.random.default_rng(3).random(DOMAIN.size())
    counts = counts_of(drawn(joint, 50, tuple((c,) for c in "abcd"), 500), ("c",))
    expected = marginals.project(DOMAIN, joint[None], ("c",))[0] / joint.sum() * 50
    assert np.abs(counts - expected).max() < 2
    sampled = np.random.default_rng(0).multinomial(50, expected / 50, size=500)
    assert np.abs(sampled - expected).max() > 2


def test_too_much_memory_is_refused_with_numbers():
    with pytest.raises(
        AuditError, match=r"my table needs about 7,450,580,596.9 GiB and [\d,.]+ GiB is free"
    ):
        marginals.refuse_if_too_large(1e18, "my table")
    marginals.refuse_if_too_large(10, "my table")
