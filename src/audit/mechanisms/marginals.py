"""Marginals of many trials at once: measured, fitted by mbi, and turned into synthetic rows."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from audit.core import Array, AuditError, Domain

Clique = tuple[str, ...]

ITERATIONS = 1000
"""Of cold mirror descent: within 0.001 rows of the optimum in 95 % of AIM's fits. Warm starts saturate."""

DENSE = 4096
"""A domain of at most so many cells is fitted as one dense clique, which holds every structure."""

FIT_LANES = 500
"""How many trials one compiled program fits; always so many, since a program's last bits depend on its shape."""


def cliques_up_to(domain: Domain, degree: int) -> tuple[Clique, ...]:
    """All sets of 1 … ``degree`` columns, smaller ones first.

    >>> cliques_up_to(Domain(("a", "b"), (2, 2)), 2)
    (('a',), ('b',), ('a', 'b'))
    """
    return tuple(c for size in range(1, degree + 1) for c in itertools.combinations(domain.columns, size))


# --- fitting --------------------------------------------------------------------------------------------------------


@functools.cache
def mbi() -> Any:
    """The library, with JAX set up as it wants: doubles, no compilation cache. Imported when the first fit needs it."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    import mbi as library

    return library


@functools.lru_cache(maxsize=32)
def _program(domain: Domain, cliques: tuple[Clique, ...], measured: tuple[Clique, ...], iterations: int) -> Callable[..., Any]:
    """Compile-once: (noisy, weight, total, lipschitz) of FIT_LANES trials → marginals of ``cliques``.

    The loss is ½ Σ weight·(marginal − noisy)² over all ``measured`` cliques, weight 0 where a trial measured none, so
    that one program serves every structure.
    """
    library = mbi()
    import jax

    space = library.Domain(domain.columns, domain.sizes)

    def loss(marginals: Any, data: Any) -> Any:
        noisy, weight = data
        differences = [(marginals.project(c).datavector() - y) ** 2 @ w for c, y, w in zip(measured, noisy, weight, strict=True)]
        return 0.5 * sum(differences)

    def fit(noisy: Any, weight: Any, total: Any, lipschitz: Any) -> Any:
        target = library.MarginalLossFn(cliques, loss, data=(noisy, weight), lipschitz=lipschitz)
        model = library.estimation.MirrorDescent().estimate(space, target, known_total=total, iters=iterations)
        return tuple(model.marginals[c].datavector() for c in cliques)

    return jax.jit(jax.vmap(fit))


def fit(
    domain: Domain,
    cliques: Sequence[Clique],
    noisy: Mapping[Clique, Array],
    weight: Mapping[Clique, Array],
    total: Array,
    iterations: int = ITERATIONS,
) -> tuple[Array, ...]:
    """Maximum-entropy-like fits of many trials: mirror descent on the precision-weighted squared error.

    Args:
        domain: of the data.
        cliques: that the models range over; each measured clique must lie in one.
        noisy: clique → (n, cells) measured counts.
        weight: clique → (n, cells) precisions, 0 where not measured.
        total: (n,) each trial's own estimate of the row count, > 0.
        iterations: of mirror descent, cold.

    Returns:
        For each of ``cliques`` its (n, cells) fitted marginal.
    """
    measured = tuple(noisy)
    program = _program(domain, tuple(cliques), measured, iterations)
    lipschitz = _lipschitz(domain, cliques, weight)
    parts = []
    for start in range(0, len(total), FIT_LANES):
        # The last batch is padded with copies of its first trial.
        lanes = start + np.arange(FIT_LANES)
        lanes[lanes >= len(total)] = start
        fitted = program(
            tuple(noisy[c][lanes] for c in measured), tuple(weight[c][lanes] for c in measured), total[lanes], lipschitz[lanes]
        )
        parts.append([np.asarray(part)[: len(total) - start] for part in fitted])
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _lipschitz(domain: Domain, cliques: Sequence[Clique], weight: Mapping[Clique, Array]) -> Array:
    """(n,) Lipschitz constant of the loss's gradient: max over cliques C of Σ_{c in C} weight·|C|/|c|."""
    by_clique: dict[Clique, Array] = {}
    for clique, w in weight.items():
        home = next(c for c in sorted(cliques, key=domain.size) if set(clique) <= set(c))
        share = w.max(axis=1) * domain.size(home) / domain.size(clique)
        by_clique[home] = by_clique.get(home, 0.0) + share
    return np.max(np.stack(list(by_clique.values())), axis=0)


def noisy_total(noisy: Mapping[Clique, Array], weight: Mapping[Clique, Array]) -> Array:
    """(n,) precision-weighted mean of the measured marginals' sums, at least 1: a trial's own estimate of its row count.

    The true count is never used: 10 against 11 would be an infinite leak under add/remove.
    """
    sums, precisions = [], []
    for clique, y in noisy.items():
        w = weight[clique]
        measured = (w > 0).all(axis=1)
        sums.append(y.sum(axis=1))
        precisions.append(np.where(measured, 1 / np.where(measured[:, None], 1 / np.where(w > 0, w, 1), 1).sum(axis=1), 0))
    pooled = np.average(np.stack(sums), weights=np.stack(precisions), axis=0)
    return np.maximum(1.0, pooled)


# --- synthetic rows ---------------------------------------------------------------------------------------------------


def sample_rows(tables: Array, rows: int, rng: np.random.Generator) -> Array:
    """(n, rows, d) records of each trial's joint distribution, by randomised rounding column by column.

    Within each group of rows that agree so far, the quantiles (rank + u)/size are spread evenly over the next column's
    conditional distribution, so that counts differ from their expectation by less than one.

    Args:
        tables: (n, s₁, …, s_d) nonnegative weights.
        rows: of each synthetic table.
        rng: source of u and of the ranks.
    """
    n, *sizes = tables.shape
    records = np.empty((n, rows, len(sizes)), dtype=np.int64)
    group = np.zeros((n, rows), dtype=np.int64)  # flat index of the values so far
    for j, size in enumerate(sizes):
        weights = tables.reshape(n, math.prod(sizes[:j]), size, -1).sum(axis=-1)
        chances = np.take_along_axis(weights, group[:, :, None], axis=1)
        cumulative = np.cumsum(chances, axis=-1)
        quantile = _spread(group, rng) * cumulative[:, :, -1]
        value = np.minimum((quantile[:, :, None] >= cumulative).sum(axis=-1), size - 1)
        records[:, :, j] = value
        group = group * size + value
    return records


def _spread(group: Array, rng: np.random.Generator) -> Array:
    """(n, rows) numbers in [0, 1): within each row's group stratified, in random order."""
    order = np.argsort(group + rng.random(group.shape), axis=1)
    ordered = np.take_along_axis(group, order, axis=1)
    place = np.arange(group.shape[1])
    starts = np.concatenate([np.ones((len(group), 1), bool), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    first = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    ends = np.concatenate([starts[:, 1:], np.ones((len(group), 1), bool)], axis=1)
    last = np.minimum.accumulate(np.where(ends, place, group.shape[1])[:, ::-1], axis=1)[:, ::-1]
    quantile = (place - first + rng.random(group.shape)) / (last - first + 1)
    spread = np.empty_like(quantile)
    np.put_along_axis(spread, order, quantile, axis=1)
    return spread


def refuse_if_too_large(domain: Domain, cliques: Sequence[Clique], trials: int) -> None:
    """Say so when ``trials`` fitted tables would not fit into memory.

    Raises:
        AuditError: with the numbers.
    """
    import psutil

    # marginals, potentials, gradient and two candidates of each, in doubles
    need = 8 * 6 * trials * sum(domain.size(c) for c in cliques)
    have = psutil.virtual_memory().available
    if need > have:
        raise AuditError(
            f"the domain needs about {need / 2**30:,.0f} GiB for {trials} models and {have / 2**30:,.0f} GiB is free; use"
            " fewer columns, smaller domains or a lower degree"
        )
