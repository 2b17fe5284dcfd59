"""One batched program against mbi run one by one on the same noise, with selection on: equal in every marginal."""

import itertools

import numpy as np
import pytest

from audit.canaries.worst_case import WorstCase
from audit.core import Domain, Table
from audit.mechanisms import marginals
from audit.mechanisms.aim import AIM
from audit.mechanisms.fixed import Fixed
from audit.mechanisms.mst import MST

PAIR = WorstCase()


def mixed(rows=120, sizes=(2, 3, 5), seed=5):
    """Columns of unlike sizes, some values rare, so that compression merges some values of a column and not all."""
    rng = np.random.default_rng(seed)
    chances = [np.array([0.9, *([0.1 / (size - 1)] * (size - 1))]) for size in sizes]
    records = np.stack([rng.choice(size, size=rows, p=p) for size, p in zip(sizes, chances, strict=True)], axis=1)
    return Table(Domain(tuple("abc"), sizes), records)


def one_by_one(domain, measurements, total, iterations=marginals.ITERATIONS):
    """mbi on its own measurement objects and cliques."""
    library = marginals.mbi()
    space = library.Domain(domain.columns, domain.sizes)
    listed = [library.LinearMeasurement(y, c, stddev=s) for y, c, s in measurements]
    return library.estimation.MirrorDescent().estimate(space, listed, known_total=total, iters=iterations)


def gaps(domain, joint, model, cliques):
    tables = [marginals.project(domain, joint[None], c)[0] for c in cliques]
    return [np.abs(t - np.asarray(model.project(c).datavector())).max() for t, c in zip(tables, cliques, strict=True)]


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_fixed(degree):
    runs = Fixed(eps=1, delta=0.01, degree=degree).release(PAIR.data([True]), 4, np.random.default_rng(degree))
    problem = runs._problem()
    joint = marginals.fit_dense(problem)
    for i in range(len(problem)):
        model = one_by_one(runs.domain, [(y[i], c, runs.sigma) for c, y in runs.noisy.items()], problem.total[i])
        assert max(gaps(runs.domain, joint[i], model, list(runs.noisy))) < 1e-6


@pytest.mark.parametrize("data", [PAIR.data([True]), mixed()], ids=["worst_case", "mixed"])
def test_aim(data):
    runs = AIM(eps=1, delta=0.01).release(data, 12, np.random.default_rng(1))
    cliques, problem = marginals.cliques_up_to(data.domain, 2), runs.problem()
    for i in range(len(runs)):
        measured = [((clique,), i) for clique in data.domain.columns]
        del measured
        ordered = next(s for s, where in runs.pool.structures(np.arange(len(runs))) if i in where)
        pooled = [(problem.noisy[c][i], c, runs.pool.precision[c][i] ** -0.5) for c in ordered]
        model = one_by_one(data.domain, pooled, problem.total[i])
        assert max(gaps(data.domain, runs.joint[i], model, cliques)) < 1e-6


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("data", [PAIR.data([True]), mixed()], ids=["worst_case", "mixed"])
def test_mst(data, compress):
    library = marginals.mbi()
    runs = MST(eps=1, delta=0.01, compress=compress).release(data, 12, np.random.default_rng(2))
    domain, first, second, problem = data.domain, runs.first, runs.second, runs.problem()
    merges = set()
    for i in range(len(runs)):
        index = {c: np.unique(first.group[c][i], return_inverse=True)[1] for c in domain.columns}
        small = library.Domain(domain.columns, [int(index[c].max()) + 1 for c in domain.columns])
        merges |= {small.config[c] / domain.size((c,)) for c in domain.columns}
        space = library.Domain(domain.columns, domain.sizes)
        listed = [library.LinearMeasurement(first.noisy[c][i], (c,), first.sigma).compress(index, space) for c in index]
        pairs = list(itertools.combinations(domain.columns, 2))
        for pair in (pairs[p] for p in runs.tree.picks[i]):
            at = np.flatnonzero(second.where[pair] == i)[0]
            cell = np.ravel_multi_index(np.ix_(*(index[c] for c in pair)), small.project(pair).shape).ravel()
            counts = np.bincount(cell, weights=second.noisy[pair][at])
            listed.append(library.LinearMeasurement(counts, pair, second.sigma))
        model = library.estimation.MirrorDescent().estimate(small, listed, known_total=problem.total[i], iters=1000)
        for pair in pairs:
            table = marginals.project(domain, runs.joint[i : i + 1], pair)[0]
            cell = np.ravel_multi_index(np.ix_(*(index[c] for c in pair)), small.project(pair).shape).ravel()
            ours = np.bincount(cell, weights=table)
            assert np.abs(ours - np.asarray(model.project(pair).datavector())).max() < 1e-6
            even = ours[cell] / np.bincount(cell)[cell]
            assert np.abs(table - even).max() < 1e-6, "a merged cell is spread evenly"
    assert (len(merges) > 1) == compress
