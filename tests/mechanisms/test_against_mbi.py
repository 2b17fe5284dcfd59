"""One batched program against mbi run one by one on the same noise, with selection on: equal in
every marginal.

After 100 steps every marginal agrees with mbi's to 1e-6, nearly all to 1e-12. Later mbi's line
search compares losses whose difference is below the last bit, near ½·weight·gap² = 2⁻⁵²·loss, a gap
of about 1e-6: there mbi differs from itself when the noise changes by its last bit. So for all
1,000 steps mbi is given the same loss less a constant (see `centred`), with which its own line
search sees what it does; on the published pair every marginal then agrees to 1e-6.
"""

import itertools

import numpy as np
import pytest

from audit.canaries.worst_case import WorstCase
from audit.core import Domain, Table
from audit.mechanisms import marginals
from audit.mechanisms.aim import AIM
from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.mst import MST

PAIR = WorstCase()


def mixed(rows=120, sizes=(2, 3, 5), seed=5):
    """Columns of unlike sizes with rare values, so that compression merges some values of a column
    and not all."""
    rng = np.random.default_rng(seed)
    chances = [np.array([0.9, *([0.1 / (size - 1)] * (size - 1))]) for size in sizes]
    records = np.stack(
        [rng.choice(size, size=rows, p=p) for size, p in zip(sizes, chances, strict=True)], axis=1
    )
    return Table(Domain(tuple("abc"), sizes), records)


def one_by_one(domain, measurements, total, iterations):
    """mbi on its own measurement objects, cliques and step size."""
    library = marginals.mbi()
    space = library.Domain(domain.columns, domain.sizes)
    listed = [library.LinearMeasurement(y, c, stddev=s) for y, c, s in measurements]
    return descent(space, listed, total, iterations)


def descent(space, listed, total, iterations):
    """mbi's mirror descent as it is; where it takes all steps, once more from the start with its
    loss centred."""
    library = marginals.mbi()
    loss = library.marginal_loss.from_linear_measurements(listed, space)
    model = library.estimation.MirrorDescent().estimate(
        space, loss, known_total=total, iters=iterations
    )
    if iterations <= 100:
        return model
    loss = centred(loss, library.CliqueVector.from_projectable(model, [space.attributes]), total)
    return library.estimation.MirrorDescent().estimate(
        space, loss, known_total=total, iters=iterations
    )


def centred(loss, near, total):
    """mbi's loss less a constant, its value at the table ``near``: written out by its slope there,
    so no digit cancels.

    Of the slope its mean is taken, which changes the loss by a constant again, since a table sums
    to ``total``; the table is one clique, for which this takes away all that would round. Minimum,
    steps and decisions are mbi's.
    """
    library = marginals.mbi()
    import jax

    slope = jax.grad(loss)(near)
    slope = slope - slope.dot(near) / total
    return library.MarginalLossFn(near.cliques, _centred, (loss.data, near, slope), loss.lipschitz)


def _centred(fitted, data):
    measurements, near, slope = data
    change = fitted - near
    far = sum(((m.query(change.project(m.clique)) / m.stddev) ** 2).sum() for m in measurements)
    return 0.5 * far + slope.dot(change)


def gap(domain, joint, model, cliques):
    """Largest difference in any cell of any marginal."""
    ours = [marginals.project(domain, joint[None], c)[0] for c in cliques]
    theirs = [np.asarray(model.project(c).datavector()) for c in cliques]
    return max(np.abs(one - other).max() for one, other in zip(ours, theirs, strict=True))


def close(gaps):
    """Every marginal of every trial."""
    return np.max(gaps) < 1e-6


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_fixed(degree):
    runs = FixedMarginals(eps=1, delta=0.01, degree=degree).release(
        PAIR.data([True]), 6, np.random.default_rng(degree)
    )
    problem = runs.problem()
    joint = marginals.fit_dense(problem, 100)
    measured = [[(y[i], c, runs.sigma) for c, y in runs.noisy.items()] for i in range(len(problem))]
    models = [one_by_one(runs.domain, m, problem.total[i], 100) for i, m in enumerate(measured)]
    assert close(
        [gap(runs.domain, joint[i], model, list(runs.noisy)) for i, model in enumerate(models)]
    )
    assert not close(
        [
            gap(runs.domain, joint[i] * 1.00001, model, list(runs.noisy))
            for i, model in enumerate(models)
        ]
    )


def aim_gaps(data, trials, iterations, shift=0.0):
    runs = AIM(eps=1, delta=0.01).release(data, trials, np.random.default_rng(1))
    problem, everyone = runs.problem(), np.arange(trials)
    joint = marginals.fit_dense(problem, iterations) + shift
    ordered = {
        int(i): structure for structure, where in runs.pool.structures(everyone) for i in where
    }
    assert len(set(map(frozenset, ordered.values()))) > 1, "selection is on"
    found = []
    for i in everyone:
        pooled = [(problem.noisy[c][i], c, runs.pool.precision[c][i] ** -0.5) for c in ordered[i]]
        model = one_by_one(data.domain, pooled, problem.total[i], iterations)
        found.append(gap(data.domain, joint[i], model, marginals.cliques_up_to(data.domain, 2)))
    return found


@pytest.mark.parametrize("data", [PAIR.data([True]), mixed()], ids=["worst_case", "mixed"])
def test_aim(data):
    assert close(aim_gaps(data, 12, 100))
    assert not close(aim_gaps(data, 4, 100, shift=1e-6))


def test_aim_to_the_end():
    assert close(aim_gaps(PAIR.data([True]), 20, 1000))
    assert not close(aim_gaps(PAIR.data([True]), 4, 1000, shift=1e-6))


def mst_gaps(data, compress, trials, iterations):
    library = marginals.mbi()
    runs = MST(eps=1, delta=0.01, compress=compress).release(data, trials, np.random.default_rng(2))
    domain, first, second, problem = data.domain, runs.first, runs.second, runs.problem()
    assert len({tuple(picks) for picks in runs.tree.picks.tolist()}) > 1, "selection is on"
    pairs, space = (
        list(itertools.combinations(domain.columns, 2)),
        library.Domain(domain.columns, domain.sizes),
    )
    joint, found, shrunk = marginals.fit_dense(problem, iterations), [], set()
    for i in range(trials):
        index = {c: np.unique(first.group[c][i], return_inverse=True)[1] for c in domain.columns}
        small = library.Domain(domain.columns, [int(index[c].max()) + 1 for c in domain.columns])
        shrunk |= {small.size() < space.size()}
        cell = {
            p: np.ravel_multi_index(np.ix_(*(index[c] for c in p)), small.project(p).shape).ravel()
            for p in pairs
        }
        listed = [
            library.LinearMeasurement(first.noisy[c][i], (c,), first.sigma).compress(index, space)
            for c in index
        ]
        for pair in (pairs[p] for p in runs.tree.picks[i]):
            even = second.noisy[pair][second.where[pair] == i][0]
            listed.append(
                library.LinearMeasurement(np.bincount(cell[pair], weights=even), pair, second.sigma)
            )
        model = descent(small, listed, problem.total[i], iterations)
        for pair in pairs:
            theirs = np.asarray(model.project(pair).datavector())
            spread = theirs[cell[pair]] / np.bincount(cell[pair])[cell[pair]]
            found.append(
                np.abs(marginals.project(domain, joint[i : i + 1], pair)[0] - spread).max()
            )
    assert (True in shrunk) == compress
    return found


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("data", [PAIR.data([True]), mixed()], ids=["worst_case", "mixed"])
def test_mst(data, compress):
    """mbi fits the compressed domain; each merged cell is then spread evenly over its values."""
    assert close(mst_gaps(data, compress, 10, 100))


@pytest.mark.parametrize("compress", [False, True])
def test_mst_to_the_end(compress):
    assert close(mst_gaps(PAIR.data([True]), compress, 8, 1000))
