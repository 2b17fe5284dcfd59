"""Trees fitted trial by trial, against mbi and against the batched program of `marginals.fit`."""

import dataclasses

import numpy as np
import pytest
from mechanisms.test_against_mbi import mixed, one_by_one
from threadpoolctl import threadpool_info, threadpool_limits

from audit.core import Domain
from audit.mechanisms import large, marginals, trees
from audit.mechanisms.mst import MST

DOMAIN = Domain(tuple("abcdef"), (2, 7, 3, 5, 4, 2))
FORESTS = {
    "chain": (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")),
    "star": (("a", "d"), ("b", "d"), ("c", "d"), ("d", "e"), ("d", "f")),
    "two trees and a column": (("c", "d"), ("a", "b"), ("b", "e"), ("f",)),
    "columns": tuple((c,) for c in DOMAIN.columns),
}


def problem(cliques, n=4, seed=0):
    """Noise as large as the counts, so that many cells end at zero."""
    rng = np.random.default_rng(seed)
    structure = tuple(dict.fromkeys([*((c,) for c in DOMAIN.columns), *cliques]))
    noisy = {c: rng.normal(40 / DOMAIN.size(c), 3, size=(n, DOMAIN.size(c))) for c in structure}
    precision = {c: rng.uniform(0.05, 0.3, size=n) for c in structure}
    weight = {c: np.broadcast_to(precision[c][:, None], y.shape) for c, y in noisy.items()}
    sizes = dict(zip(DOMAIN.columns, DOMAIN.sizes, strict=True))
    constant = marginals.lipschitz(structure, sizes, precision)
    return marginals.Problem(DOMAIN, noisy, weight, np.full(n, 40.0), constant)


def gap(one, other):
    return max(np.abs(one[c] - other[c]).max() for c in one)


def loss(task, fitted):
    """(n,) what is minimised."""
    total = 0.0
    for clique, noisy in task.noisy.items():
        node = next(c for c in fitted if set(clique) <= set(c))
        table = fitted[node].reshape(-1, *DOMAIN.shape(node))
        gone = tuple(1 + i for i, c in enumerate(node) if c not in clique)
        total += 0.5 * (
            task.weight[clique] * (table.sum(axis=gone).reshape(noisy.shape) - noisy) ** 2
        ).sum(axis=1)
    return total


@pytest.mark.parametrize("cliques", FORESTS.values(), ids=FORESTS)
def test_equal_to_the_batched_program_step_by_step(cliques):
    task = problem(cliques)
    ours = trees.fit(task, cliques, 100)
    theirs = marginals.fit(task, cliques, iterations=100)
    assert gap(ours, theirs) < 1e-8
    assert gap(trees.fit(task, cliques, 99), theirs) > 1e-6, "another step is seen"
    assert all(np.allclose(table.sum(axis=1), 40.0) for table in ours.values())


def test_all_steps_end_at_the_same_loss():
    cliques = FORESTS["star"]
    task = problem(cliques)
    ours, theirs = trees.fit(task, cliques), marginals.fit(task, cliques)
    np.testing.assert_allclose(loss(task, ours), loss(task, theirs), rtol=1e-5)


def test_equal_to_mbi_run_one_by_one():
    cliques = FORESTS["two trees and a column"]
    task = problem(cliques)
    ours = trees.fit(task, cliques, 100)
    for trial in range(len(task)):
        listed = [(y[trial], c, task.weight[c][trial][0] ** -0.5) for c, y in task.noisy.items()]
        model = one_by_one(DOMAIN, listed, task.total[trial], 100)
        assert (
            max(
                np.abs(ours[c][trial] - np.asarray(model.project(c).datavector())).max()
                for c in cliques
            )
            < 1e-8
        )


@pytest.mark.parametrize("compress", [False, True])
def test_merged_cells_are_one_cell_and_are_spread_evenly(compress):
    data = mixed(sizes=(6, 4, 5))
    runs = MST(eps=1, delta=0.01, compress=compress).release(data, 8, np.random.default_rng(3))
    task = runs.problem()
    merged = np.concatenate([share.ravel() for share in runs.first.merged.values()])
    assert (merged.max() > 1) == compress and merged.min() == 1
    for structure, where in runs.structures():
        part = task[where].only(structure)
        nodes = large.junction_tree(data.domain, marginals.maximal(structure)).nodes
        assert trees.is_forest(nodes)
        ours, theirs = (fit(part, nodes, iterations=100) for fit in (trees.fit, marginals.fit))
        assert gap(ours, theirs) < 1e-8
        if compress:
            apart = dataclasses.replace(part, merged=None)
            assert gap(ours, trees.fit(apart, nodes, iterations=100)) > 1e-3, "merging is seen"


def test_a_trial_does_not_depend_on_the_others():
    cliques = FORESTS["chain"]
    task = problem(cliques)
    whole, part = trees.fit(task, cliques, 50), trees.fit(task[2:3], cliques, 50)
    for clique in cliques:
        np.testing.assert_array_equal(whole[clique][2:3], part[clique])


def test_sums_are_taken_by_one_thread_as_on_ray(monkeypatch):
    """Else their last bits, and by them which steps are taken, would depend on who plays a
    block."""
    seen, descend = [], trees.Tree.descend

    def threads():
        return {
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        }

    def spied(*given):
        seen.append(threads())
        return descend(*given)

    monkeypatch.setattr(trees.Tree, "descend", spied)
    with threadpool_limits(2, "blas"):
        trees.fit(problem(FORESTS["chain"]), FORESTS["chain"], 3)
        assert threads() == {2}
    assert seen == [{1}] * 4


def test_what_is_no_forest():
    assert all(map(trees.is_forest, FORESTS.values()))
    assert not trees.is_forest((("a", "b"), ("c", "d"), ("b", "c"), ("a", "d")))
    assert not trees.is_forest((("a", "b", "c"),))
