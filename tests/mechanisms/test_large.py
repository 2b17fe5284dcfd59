"""The way of large domains, taken on a small one, against the dense way."""

import itertools

import numpy as np
import pytest

from audit.core import Domain, Table
from audit.mechanisms import large, marginals
from audit.mechanisms.aim import AIM
from audit.mechanisms.mst import MST

DOMAIN = Domain(tuple("abcde"), (2, 3, 2, 3, 2))
CLIQUES = marginals.cliques_up_to(DOMAIN, 2)
TREE = (("a", "b"), ("b", "d"), ("d", "e"), ("c",))
CYCLE = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("e",))


def table(rows=60):
    rng = np.random.default_rng(0)
    return Table(DOMAIN, np.stack([rng.integers(size, size=rows) for size in DOMAIN.sizes], axis=1))


def joint_of(cliques, n=3):
    """Tables with just the interactions of these cliques."""
    rng, joint = np.random.default_rng(2), np.ones((n, *DOMAIN.sizes))
    for clique in cliques:
        shape = [DOMAIN.size((c,)) if c in clique else 1 for c in DOMAIN.columns]
        joint = joint * rng.uniform(0.1, 2, size=(n, *shape))
    return joint.reshape(n, -1)


@pytest.mark.parametrize("cliques", [TREE, CYCLE])
def test_answers_along_the_junction_tree_are_sums_of_the_joint(cliques):
    joint, tree = joint_of(cliques), large.junction_tree(DOMAIN, cliques)
    fitted = {node: marginals.project(DOMAIN, joint, node) for node in tree.nodes}
    apart = 0
    for clique in CLIQUES:
        expected = marginals.project(DOMAIN, joint, clique)
        np.testing.assert_allclose(large.answer(DOMAIN, fitted, tree, clique), expected, rtol=1e-10)
        apart += not any(set(clique) <= set(node) for node in tree.nodes)
    assert apart >= 4
    assert not np.allclose(
        large.answer(DOMAIN, fitted, tree, ("a", "e")),
        large.answer(DOMAIN, fitted, tree, ("a", "e"))[::-1],
    )


@pytest.mark.parametrize("cliques", [TREE, CYCLE])
def test_fits_are_those_of_the_dense_table(cliques):
    n, rng = 3, np.random.default_rng(1)
    structure = (*((c,) for c in DOMAIN.columns), *cliques)
    structure = tuple(dict.fromkeys(structure))
    noisy = {c: rng.normal(5, 2, size=(n, DOMAIN.size(c))) for c in structure}
    weight = {c: np.full_like(y, 0.25) for c, y in noisy.items()}
    sizes = dict(zip(DOMAIN.columns, DOMAIN.sizes, strict=True))
    constant = marginals.lipschitz(structure, sizes, {c: np.full(n, 0.25) for c in structure})
    problem = marginals.Problem(DOMAIN, noisy, weight, np.full(n, 30.0), constant)
    joint = marginals.fit_dense(problem)
    found = large.answers(problem, [(structure, np.arange(n))], CLIQUES)
    for clique in CLIQUES:
        np.testing.assert_allclose(
            found[clique], marginals.project(DOMAIN, joint, clique), atol=2e-3
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [MST(eps=1, delta=0.01), AIM(eps=1, delta=0.01)], ids=["mst", "aim"]
)
def test_mechanisms_work_without_a_dense_table(mechanism, monkeypatch):
    data = table()
    dense = mechanism.release(data, 3, np.random.default_rng(0))
    monkeypatch.setattr(marginals, "DENSE", 1)
    runs = mechanism.release(data, 3, np.random.default_rng(0))
    records = runs.public().records
    assert records.shape == (3, 50, 5)
    assert (records >= 0).all() and (records < DOMAIN.sizes).all()
    np.testing.assert_array_equal(records, runs.public().records)
    if isinstance(mechanism, MST):  # nothing that it measures depends on how the tree is fitted
        np.testing.assert_array_equal(runs.insider().values, dense.insider().values)
        np.testing.assert_array_equal(runs.log_ratio(data, data), np.zeros(3))
    else:
        assert runs.log_ratio(data, data) is None


def test_model_sizes_are_those_of_mbi():
    library = marginals.mbi()
    space = library.Domain(DOMAIN.columns, DOMAIN.sizes)
    told = large.model_sizes(DOMAIN, TREE, CLIQUES)
    for size, clique in zip(told, CLIQUES, strict=True):
        inside = any(set(clique) <= set(c) for c in TREE)
        expected = (
            0 if inside else library.junction_tree.hypothetical_model_size(space, [*TREE, clique])
        )
        assert size == pytest.approx(expected)
    assert len(set(itertools.chain(*TREE))) == 5 and (told > 0).sum() == 7
