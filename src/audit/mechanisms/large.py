"""Domains too large for one dense table: trees of pairs are fitted trial by trial, other structures
one by one by mbi."""

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
"""Tables of a model's size that mirror descent keeps: potentials, marginals, messages, gradients,
candidates."""


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
    found = [frozenset(node) for node in library.junction_tree.maximal_cliques(tree)]
    nodes = sorted(
        found,
        key=lambda node: [domain.columns.index(c) for c in sorted(node, key=domain.columns.index)],
    )
    place = {node: i for i, node in enumerate(nodes)}
    beside: list[list[int]] = [[] for _ in nodes]
    for one, other in tree.edges:
        beside[place[frozenset(one)]].append(place[frozenset(other)])
        beside[place[frozenset(other)]].append(place[frozenset(one)])
    ordered = tuple(tuple(c for c in domain.columns if c in node) for node in nodes)
    ways: dict[tuple[int, int], tuple[int, ...]] = {}
    for start in range(len(nodes)):
        waiting: list[tuple[int, ...]] = [(start,)]
        while waiting:
            way = waiting.pop()
            ways[start, way[-1]] = way
            waiting += [(*way, to) for to in beside[way[-1]] if len(way) < 2 or to != way[-2]]
    return JunctionTree(ordered, ways)


@functools.lru_cache(maxsize=4096)
def model_sizes(
    domain: Domain, cliques: tuple[Clique, ...], candidates: tuple[Clique, ...]
) -> Array:
    """(candidates,) MiB of the model with each candidate added; 0 where it is in the model
    already."""

    def size(clique: Clique) -> float:
        if any(set(clique) <= set(other) for other in cliques):
            return 0.0
        nodes = junction_tree(domain, marginals.maximal((*cliques, clique))).nodes
        return sum(map(domain.size, nodes)) * 8 / 2**20

    return np.array([size(c) for c in candidates])


def solve(problem: Problem, structures: Sequence[tuple[Structure, Array]]) -> list[Fitted]:
    """One fit a structure: the marginals of its junction tree's nodes, for the trials that share
    it.

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
    if not ways:
        left, right = (answer(domain, fitted, tree, (c,)) for c in clique)
        total = right.sum(axis=1)
        return np.asarray(
            (left[:, :, None] * right[:, None, :] / total[:, None, None]).reshape(len(left), -1)
        )
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
    letters = {c: chr(ord("A") + i) for i, c in enumerate(dict.fromkeys((*before, *after)))}
    old, new, both = ("".join(letters[c] for c in group) for group in (before, after, letters))
    under = np.einsum(f"z{both}->z{old}", step)
    table = table.reshape(*table.shape[:2], *domain.shape(before))
    ratio = np.divide(table, under[:, None], out=np.zeros_like(table), where=under[:, None] > 0)
    found = np.einsum(f"zy{old},z{both}->zy{new}", ratio, step)
    return np.asarray(found.reshape(*found.shape[:2], -1))


def _project(domain: Domain, fitted: Fitted, node: Clique, clique: Clique) -> Array:
    table = fitted[node].reshape(-1, *domain.shape(node))
    gone = tuple(1 + i for i, c in enumerate(node) if c not in clique)
    left = [c for c in node if c in clique]
    moved = table.sum(axis=gone).transpose(0, *(1 + left.index(c) for c in clique))
    return np.asarray(moved.reshape(len(table), -1))


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
    """Synthetic tables of ``rows`` rows, each column given those that its trial's structure ties it
    to."""
    domain = problem.domain
    records = np.empty((len(problem), rows, len(domain.columns)), dtype=np.int64)
    for (structure, trials), fitted in zip(structures, solve(problem, structures), strict=True):

        def marginal(clique: Clique, fitted: Fitted = fitted) -> Array:
            node = min((node for node in fitted if set(clique) <= set(node)), key=domain.size)
            return _project(domain, fitted, node, clique)

        order = marginals.column_order(domain, marginals.maximal(structure))
        records[trials] = marginals.draw_rows(domain, order, marginal, rows, rng)
    return Tables(domain, records)
