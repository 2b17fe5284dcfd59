"""Domains too large for one dense table.

Trees of pairs are fitted trial by trial, other structures one by one by mbi.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import numpy as np

from audit.core import Array, Domain, Tables
from audit.mechanisms import marginals, trees
from audit.mechanisms.marginals import Clique, Problem, Structure
from audit.mechanisms.trees import Fitted

LANES = 8
"""Most trials that are fitted at once."""

CELLS = 2**21
"""Most cells that are fitted at once."""

COPIES = 24
"""Tables of a model's size that mirror descent keeps.

They are potentials, marginals, messages, gradients and candidates.
"""


@dataclasses.dataclass(frozen=True)
class JunctionTree:
    """Nodes, their columns in the domain's order, and the way between any two that are linked."""

    nodes: tuple[Clique, ...]
    ways: dict[tuple[int, int], tuple[int, ...]]


@functools.lru_cache(maxsize=4096)
def junction_tree(domain: Domain, cliques: tuple[Clique, ...]) -> JunctionTree:
    """mbi's junction tree of a model with these cliques."""
    library = marginals.mbi()
    tree, _ = library.junction_tree.make_junction_tree(
        library.Domain(domain.columns, domain.sizes), list(cliques)
    )

    def column_numbers(node: frozenset[str]) -> list[int]:
        return sorted(domain.columns.index(column) for column in node)

    cliques_found = [frozenset(node) for node in library.junction_tree.maximal_cliques(tree)]
    nodes = sorted(cliques_found, key=column_numbers)
    number = {node: i for i, node in enumerate(nodes)}
    neighbours: list[list[int]] = [[] for _ in nodes]
    for one, other in tree.edges:
        first = number[frozenset(one)]
        second = number[frozenset(other)]
        neighbours[first].append(second)
        neighbours[second].append(first)
    ordered = tuple(tuple(c for c in domain.columns if c in node) for node in nodes)
    return JunctionTree(ordered, _paths(neighbours))


def _paths(neighbours: Sequence[Sequence[int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """(start, end) → the nodes of the only path between them in a forest, both ends included."""
    paths: dict[tuple[int, int], tuple[int, ...]] = {}
    for start in range(len(neighbours)):
        waiting: list[tuple[int, ...]] = [(start,)]
        while waiting:
            path = waiting.pop()
            end = path[-1]
            paths[start, end] = path
            came_from = path[-2] if len(path) > 1 else None
            waiting += [(*path, node) for node in neighbours[end] if node != came_from]
    return paths


@functools.lru_cache(maxsize=4096)
def model_sizes(
    domain: Domain, cliques: tuple[Clique, ...], candidates: tuple[Clique, ...]
) -> Array:
    """(candidates,) MiB of the model with each candidate added; 0 where it is in it already."""

    def size(clique: Clique) -> float:
        if any(set(clique) <= set(other) for other in cliques):
            return 0.0
        nodes = junction_tree(domain, marginals.maximal((*cliques, clique))).nodes
        return sum(map(domain.size, nodes)) * 8 / 2**20

    return np.array([size(c) for c in candidates])


def solve(problem: Problem, structures: Sequence[tuple[Structure, Array]]) -> list[Fitted]:
    """One fit a structure: the marginals of its junction tree's nodes, for the trials it has.

    Raises:
        AuditError: when a model does not fit into memory.
    """
    return [_solve(problem[trials], structure) for structure, trials in structures]


def _solve(problem: Problem, structure: Structure) -> Fitted:
    nodes = junction_tree(problem.domain, marginals.maximal(structure)).nodes
    measured = problem.only(structure)
    if trees.is_forest(nodes):
        return trees.fit(measured, nodes)
    cells = sum(map(problem.domain.size, nodes))
    marginals.refuse_if_too_large(COPIES * cells, f"a graphical model of {len(nodes)} cliques")
    # Two batch shapes only, for each is compiled anew.
    lanes = LANES if len(problem) >= LANES and LANES * cells <= CELLS else 1
    return marginals.fit(measured, nodes, lanes)


def answer(domain: Domain, fitted: Fitted, tree: JunctionTree, clique: Clique) -> Array:
    """(n, cells) marginals of one or two columns, in the order in which they are named.

    Columns that share no node are joined along the way between two nodes that hold them:
    P(a, S') = Σ P(a, S)·P(node)/P(S) over what is left behind, S and S' the columns shared with the
    nodes before and after.
    """
    inside = [node for node in tree.nodes if set(clique) <= set(node)]
    if inside:
        return _project(domain, fitted, min(inside, key=domain.size), clique)
    holding = [[i for i, node in enumerate(tree.nodes) if column in node] for column in clique]
    ways = [tree.ways[i, j] for i in holding[0] for j in holding[1] if (i, j) in tree.ways]
    one, other = clique
    if not ways:  # two parts of a forest are independent
        left, right = (answer(domain, fitted, tree, (c,)) for c in clique)
        total = right.sum(axis=1)[:, None, None]
        product = left[:, :, None] * right[:, None, :] / total
        return np.asarray(product.reshape(len(left), -1))
    way = [tree.nodes[i] for i in min(ways, key=lambda w: (len(w), w))]
    shared = [tuple(c for c in node if c in after) for node, after in itertools.pairwise(way)]
    table = _project(domain, fitted, way[0], (one, *shared[0])).reshape(
        -1, domain.size((one,)), domain.size(shared[0])
    )
    for node, before, after in zip(way[1:], shared, [*shared[1:], (other,)], strict=True):
        both = tuple(dict.fromkeys((*before, *after)))
        step = _project(domain, fitted, node, both).reshape(-1, *domain.shape(both))
        table = _advance(domain, table, step, before, after)
    return table.reshape(len(table), -1)


def _advance(domain: Domain, table: Array, step: Array, before: Clique, after: Clique) -> Array:
    """(n, a, S') from (n, a, S) and the (n, S ∪ S'…) marginal of the node between."""
    # One letter a column, for einsum; z stands for trials and y for the values of a.
    columns = tuple(dict.fromkeys((*before, *after)))
    letters = {column: chr(ord("A") + i) for i, column in enumerate(columns)}
    old = "".join(letters[column] for column in before)
    new = "".join(letters[column] for column in after)
    both = "".join(letters.values())
    separator = np.einsum(f"z{both}->z{old}", step)[:, None]
    table = table.reshape(*table.shape[:2], *domain.shape(before))
    # P(a, S)/P(S), and 0 where S is impossible
    given = np.divide(table, separator, out=np.zeros_like(table), where=separator > 0)
    joined = np.einsum(f"zy{old},z{both}->zy{new}", given, step)
    return np.asarray(joined.reshape(*joined.shape[:2], -1))


def _project(domain: Domain, fitted: Fitted, node: Clique, clique: Clique) -> Array:
    """(n, cells) the marginal of ``clique``, in its own order of columns, from a node's."""
    table = fitted[node].reshape(-1, *domain.shape(node))
    summed_axes = tuple(1 + i for i, column in enumerate(node) if column not in clique)
    kept = [column for column in node if column in clique]
    new_order = [1 + kept.index(column) for column in clique]
    marginal = table.sum(axis=summed_axes).transpose(0, *new_order)
    return np.asarray(marginal.reshape(len(table), -1))


def answers(
    problem: Problem, structures: Sequence[tuple[Structure, Array]], cliques: Sequence[Clique]
) -> dict[Clique, Array]:
    """Clique → (n, cells) what each trial's model says of it."""
    domain = problem.domain
    found = {c: np.empty((len(problem), domain.size(c))) for c in cliques}
    for (structure, trials), fitted in zip(structures, solve(problem, structures), strict=True):
        tree = junction_tree(domain, marginals.maximal(structure))
        for clique in cliques:
            found[clique][trials] = answer(domain, fitted, tree, clique)
    return found


def draw_tables(
    problem: Problem,
    structures: Sequence[tuple[Structure, Array]],
    rows: int,
    rng: np.random.Generator,
) -> Tables:
    """Synthetic tables of ``rows`` rows.

    Each column is drawn given those that its trial's structure ties it to.
    """
    domain = problem.domain
    records = np.empty((len(problem), rows, len(domain.columns)), dtype=np.int64)
    for (structure, trials), fitted in zip(structures, solve(problem, structures), strict=True):

        def marginal(clique: Clique, fitted: Fitted = fitted) -> Array:
            node = min((node for node in fitted if set(clique) <= set(node)), key=domain.size)
            return _project(domain, fitted, node, clique)

        order = marginals.column_order(domain, marginals.maximal(structure))
        records[trials] = marginals.draw_rows(domain, order, marginal, rows, rng)
    return Tables(domain, records)
