"""Trees of column pairs on domains of any size, fitted trial by trial: no structure has to be
compiled.

Nearly every trial of MST may choose a tree of its own, and merges other cells. A model is kept as
its own marginals: those of the pairs divided by those of the columns between them. A step of mirror
descent multiplies each by exp(−step·slope); one sweep to the root and one back make marginals of
that again. Step by step this is the descent of `marginals.fit`, on tables that hold a trial's
merged cells once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from audit.core import Array, Domain
from audit.mechanisms.marginals import ITERATIONS, Clique, Problem

LEAST = 1e-200
"""Rows that a cell holds at least: none that counts, and no division by zero."""

Fitted = dict[Clique, Array]
"""Clique, or node of a junction tree → (n, cells)."""


def is_forest(cliques: Sequence[Clique]) -> bool:
    """Whether the cliques are single columns and pairs without a cycle.

    >>> is_forest((("a", "b"), ("b", "c"), ("d",))), is_forest((("a", "b"), ("b", "c"), ("a", "c")))
    (True, False)
    """
    part = {column: {column} for clique in cliques for column in clique}
    for clique in cliques:
        found = list({id(part[column]): part[column] for column in clique}.values())
        if len(clique) > 2 or len(found) < len(clique):
            return False
        together = set().union(*found)
        part |= dict.fromkeys(together, together)
    return True


def fit(problem: Problem, cliques: Sequence[Clique], iterations: int = ITERATIONS) -> Fitted:
    """Mirror descent, cold, on every trial's weighted squared error.

    Args:
        problem: of n trials; their measurements are of columns and of pairs.
        cliques: of the model: a forest; each clique of the problem must lie in one.
        iterations: of mirror descent.

    Returns:
        clique → (n, cells) fitted marginals.
    """
    links = _links(cliques)
    found = {clique: np.empty((len(problem), problem.domain.size(clique))) for clique in cliques}
    with threadpool_limits(1, "blas"):  # else a sum's last bits depend on how many cores there are
        for trial in range(len(problem)):
            for clique, table in _fit(problem, trial, cliques, links, iterations).items():
                found[clique][trial] = table
    return found


def _fit(
    problem: Problem,
    trial: int,
    cliques: Sequence[Clique],
    links: tuple[Clique, ...],
    iterations: int,
) -> Fitted:
    """Clique → (cells,) of one trial."""
    columns = dict.fromkeys(column for clique in cliques for column in clique)
    values = {column: Values.of(problem, column, trial) for column in columns}
    tree = Tree.of(links, {column: len(values[column].first) for column in columns})
    target, weight = _targets(problem, trial, tree, values)
    total = float(problem.total[trial])
    flat = tree.descend(
        target, weight, total, 2 / (float(problem.lipschitz[trial]) * total), iterations
    )
    tables = tree.split(flat)
    return {clique: _spread(tables, clique, values) for clique in cliques}


# --- merged cells ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Values:
    """A column's values in one trial.

    Args:
        cell: (size,) where each value is counted.
        first: (cells,) a value that is counted there.
        share: (size,) how many values are counted there too, itself among them.
    """

    cell: Array
    first: Array
    share: Array

    @staticmethod
    def of(problem: Problem, column: str, trial: int) -> Values:
        """Values that share a cell share the last one: a column has no two such cells."""
        size = problem.domain.size((column,))
        share = (
            np.ones(size, dtype=int)
            if problem.merged is None
            else problem.merged[column][trial].astype(int)
        )
        alone = share == 1
        first = np.flatnonzero(alone)
        if not alone.all():
            first = np.append(first, np.argmin(alone))
        return Values(np.where(alone, np.cumsum(alone) - 1, np.sum(alone)), first, share)


def _targets(
    problem: Problem, trial: int, tree: Tree, values: Mapping[str, Values]
) -> tuple[Array, Array]:
    """Noisy counts and their precision over merged cells, as a flat vector of ``tree`` each;
    precision 0: not measured."""
    flat = np.zeros((2, tree.size))
    tables = [tree.split(vector) for vector in flat]
    for clique, noisy in problem.noisy.items():
        order = tree.order(clique)
        at = np.ix_(*(values[column].first for column in order))
        share = _outer([values[column].share[values[column].first] for column in order])
        tables[0][order][...] = _table(problem.domain, noisy[trial], clique, order)[at] * share
        tables[1][order][...] = (
            _table(problem.domain, problem.weight[clique][trial], clique, order)[at] / share
        )
    return flat[0], flat[1]


def _table(domain: Domain, cells: Array, clique: Clique, order: Clique) -> Array:
    table = cells.reshape(domain.shape(clique))
    return table if clique == order else table.T


def _spread(tables: Mapping[Clique, Array], clique: Clique, values: Mapping[str, Values]) -> Array:
    """(cells,) of the whole domain: what is in a merged cell, evenly."""
    order = clique if clique in tables else clique[::-1]
    table = tables[order][np.ix_(*(values[column].cell for column in order))]
    table = table / _outer([values[column].share for column in order])
    return np.asarray((table if clique == order else table.T).ravel())


def _outer(shares: Sequence[Array]) -> Array:
    return shares[0] if len(shares) == 1 else np.multiply.outer(*shares)


# --- one trial's descent --------------------------------------------------------------------------


def _links(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """The pairs as (parent, child), each after the one that its parent is the child of."""
    left, links = [clique for clique in cliques if len(clique) == 2], list[Clique]()
    reached: set[str] = set()
    while left:
        at = next((pair for pair in left if reached & set(pair)), left[0])
        left.remove(at)
        links.append(at if at[0] in reached or at[1] not in reached else at[::-1])
        reached |= set(at)
    return tuple(links)


@dataclasses.dataclass(frozen=True)
class Tree:
    """Where the tables of a forest lie in one flat vector: those of the pairs (parent by child),
    then the columns.

    Args:
        shapes: clique → shape of its table, in the order in which they lie.
        links: (parent, child), parents first.
        roots: columns without a parent.
        row: of each cell of a pair, which entry of all pairs' parents' values, one after the other,
            is its.
        child: of each cell of a pair, which entry of all columns' values is its child's.
    """

    shapes: dict[Clique, tuple[int, ...]]
    links: tuple[Clique, ...]
    roots: tuple[str, ...]
    row: Array
    child: Array

    @staticmethod
    def of(links: tuple[Clique, ...], sizes: Mapping[str, int]) -> Tree:
        """A forest with these links, of columns with so many cells."""
        shapes: dict[Clique, tuple[int, ...]] = {
            link: (sizes[link[0]], sizes[link[1]]) for link in links
        }
        shapes |= {(column,): (size,) for column, size in sizes.items()}
        start = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        above = np.cumsum([0, *(sizes[parent] for parent, _ in links)]).tolist()
        row = [
            np.repeat(np.arange(sizes[p]) + first, sizes[c])
            for (p, c), first in zip(links, above, strict=False)
        ]
        child = [np.tile(np.arange(sizes[c]) + start[c], sizes[p]) for p, c in links]
        roots = tuple(column for column in sizes if column not in {child for _, child in links})
        nothing = np.empty(0, dtype=int)
        return Tree(
            shapes, links, roots, np.concatenate([nothing, *row]), np.concatenate([nothing, *child])
        )

    @property
    def size(self) -> int:
        """Cells of all tables."""
        return sum(map(math.prod, self.shapes.values()))

    def order(self, clique: Clique) -> Clique:
        """The clique with its columns as they lie."""
        return clique if clique in self.shapes else clique[::-1]

    def split(self, flat: Array) -> dict[Clique, Array]:
        """Clique → its table: views of ``flat``."""
        parts = np.split(flat, np.cumsum([math.prod(shape) for shape in self.shapes.values()])[:-1])
        return {
            c: part.reshape(shape)
            for (c, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def descend(
        self, target: Array, weight: Array, total: float, step: float, iterations: int
    ) -> Array:
        """(size,) marginals after so many steps from the uniform table on ½ Σ
        weight·(marginal − target)²."""
        now, then = State.of(self), State.of(self)
        for table in now.tables.values():
            table[...] = total / table.size
        # a step that goes too far is not taken
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            for _ in range(iterations):
                slope = weight * (now.flat - target)
                self._tilt(now, np.exp(-step * slope), total, then)
                change = now.flat - then.flat
                gain = slope @ change
                taken = gain - 0.5 * ((weight * change) @ change) >= 0.5 * step * gain
                now, then, step = (then, now, 1.01 * step) if taken else (now, then, 0.5 * step)
        return now.flat

    def _tilt(self, now: State, factor: Array, total: float, then: State) -> None:
        """Let ``then`` be the marginals of the model whose tables are those of ``now`` multiplied
        by ``factor``.

        On the way to the root, a pair tells its parent how much more or less there is below each of
        its values; on the way back, a parent's new marginal decides on its children's.
        """
        pairs = len(self.row)
        np.multiply(now.flat[:pairs], factor[:pairs], out=then.flat[:pairs])
        then.flat[pairs:] = factor[pairs:]
        for old, new in zip(reversed(now.links), reversed(then.links), strict=True):
            table, parent, child, below = new
            np.dot(table, child, out=below)
            np.multiply(parent, below / old.parent, out=parent)
        children = then.flat[pairs:].copy()
        for root in self.roots:
            table = then.tables[root,]
            table *= now.tables[root,]
            table *= total / table.sum()
        for table, parent, child, below in then.links:
            np.divide(parent, below, out=below)
            np.multiply(child, below @ table, out=child)
        then.flat[:pairs] *= then.below[self.row]
        then.flat[:pairs] *= children[self.child]
        np.maximum(then.flat, LEAST, out=then.flat)


class Link(NamedTuple):
    """Views of what belongs to one pair: its table, its columns', and a number for each value of
    the parent."""

    table: Array
    parent: Array
    child: Array
    below: Array


@dataclasses.dataclass(frozen=True)
class State:
    """A forest's marginals, and views of their parts."""

    flat: Array
    tables: dict[Clique, Array]
    below: Array
    links: tuple[Link, ...]

    @staticmethod
    def of(tree: Tree) -> State:
        """All zero."""
        flat = np.zeros(tree.size)
        tables = tree.split(flat)
        sizes = [len(tables[parent,]) for parent, _ in tree.links]
        below = np.zeros(sum(sizes))
        parts = np.split(below, np.cumsum(sizes)[:-1]) if sizes else []
        links = [
            Link(tables[p, c], tables[p,], tables[c,], part)
            for (p, c), part in zip(tree.links, parts, strict=True)
        ]
        return State(flat, tables, below, tuple(links))
