"""MST: noisy columns, a privately chosen spanning tree of column pairs, noisy pairs, one graphical
model."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.special import log_softmax

from audit import privacy
from audit.core import Array, Claim, Columns, Domain, Setup, Table, Tables
from audit.mechanisms import claims, large, marginals
from audit.mechanisms.ledger import Ledger
from audit.mechanisms.marginals import Clique, Problem
from audit.privacy import STRICT, PrivacyParameter, rho_from_eps_delta


@dataclass(frozen=True, config=STRICT)
class MST:
    """McKenna, Miklau and Sheldon's MST with its stock budget: ρ/3 columns, ρ/3 selection, ρ/3
    pairs.

    Private selection makes it ρ-zCDP and (ε, δ)-DP. √(2ρ)-GDP it is not.

    Args:
        eps: of the (ε, δ) that fixes ρ.
        delta: of the same.
        compress: merge the values of a column whose noisy count is below 3 standard deviations.
        rows: of a synthetic table; given, never read from the data.
        columns: of the data, where they are known beforehand: the numerical claim is computed for
            that many. None: for two, which is worst, since one large selection step leaks more than
                several small ones.

    References:
        McKenna, Miklau, Sheldon, arXiv:2108.04978, Algorithm 1 and the public implementation.
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]
    compress: bool = True
    rows: Annotated[int, Field(ge=1)] = 50
    columns: Annotated[int, Field(ge=2)] | None = None

    block: ClassVar[int] = 200

    @property
    def claims(self) -> tuple[Claim, ...]:
        """zCDP, which is proved; (ε, δ), which it implies; a tighter GDP curve, which is only
        computed."""
        rho = rho_from_eps_delta(self.eps, self.delta)
        return claims.of_selection(self.eps, self.delta, adaptive_mu(rho, self.columns or 2))

    def check_setup(self, setup: Setup) -> None:
        """Tables of two columns or more, as many as the claim was computed for."""
        for data in setup.data_sets:
            marginals.refuse_columns("MST", len(data.domain.columns), self.columns)

    def added_sigma(self, sigma: float) -> float:
        """Standard deviation of the noise that is added where the claim asks for ``sigma``."""
        return sigma

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> Runs:
        """Measure and select now, for the selection needs it; fit the tree and draw rows when
        somebody looks.

        Raises:
            AuditError: with fewer than two columns, or tables that do not fit into memory.
        """
        domain, rho = data.domain, rho_from_eps_delta(self.eps, self.delta)
        columns, cells = (
            len(domain.columns),
            sum(map(domain.size, marginals.cliques_up_to(domain, 2))),
        )
        marginals.refuse_columns("MST", columns, self.columns)
        marginals.refuse_if_too_large(4 * trials * cells, f"MST on {trials} trials at a time")
        ledger = Ledger(rho, trials=1)
        sigma = math.sqrt(3 / (2 * rho))
        synthesis = rng.spawn(1)[0]  # so that the noise is the same whether or not rows are drawn
        column_sigma = sigma * math.sqrt(columns)
        added = self.added_sigma(column_sigma)
        first = measure_columns(data, trials, column_sigma, added, self.compress, rng)
        ledger.spend("measure columns", columns / (2 * (sigma**2 * columns)))
        epsilon = math.sqrt(8 * (rho / 3) / (columns - 1))
        tree = choose_tree(first.scores(data), epsilon, rng)
        ledger.spend("select pairs", (columns - 1) * epsilon**2 / 8)
        pair_sigma = sigma * math.sqrt(columns - 1)
        second = measure_pairs(data, first, tree, pair_sigma, self.added_sigma(pair_sigma), rng)
        ledger.spend("measure pairs", (columns - 1) / (2 * (sigma**2 * (columns - 1))))
        ledger.close()
        return Runs(first, epsilon, tree, second, self.rows, synthesis)


@functools.lru_cache(maxsize=128)
def adaptive_mu(rho: float, columns: int) -> float:
    """Least μ whose curve lies below what MST at ρ may leak on so many columns. Numerical, not
    certified.

    >>> rho = rho_from_eps_delta(1, 0.01)
    >>> round(adaptive_mu(rho, 3), 4), round(adaptive_mu(rho, 2), 4), round(math.sqrt(2 * rho), 4)
    (0.4586, 0.4634, 0.4548)
    """
    steps, noise = columns - 1, privacy.GaussianStep(math.sqrt(2 * rho / 3))
    selection = privacy.SelectionStep(math.sqrt(8 * rho / 3 / steps))
    return privacy.adaptive_mu([noise, *[selection] * steps, noise])


# --- columns --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class NoisyColumns:
    """One noisy marginal a column, and which of its values are merged from then on.

    Args:
        domain: of the data.
        sigma: standard deviation of the noise that was promised.
        added_sigma: standard deviation of the noise that was added.
        noisy: column → (n, size) counts with noise.
        group: column → (n, size) for each value, the first value that shares a cell with it.
        compressed: whether values could be merged.
    """

    domain: Domain
    sigma: float
    added_sigma: float
    noisy: dict[str, Array]
    group: dict[str, Array]
    compressed: bool

    @functools.cached_property
    def merged(self) -> dict[str, Array]:
        """Column → (n, size) how many values share a cell with each."""
        return {c: _sizes(g) for c, g in self.group.items()}

    @functools.cached_property
    def cells(self) -> dict[str, Array]:
        """Column → (n,) how many cells are left of it."""
        return {c: (g == np.arange(g.shape[1])).sum(axis=1) for c, g in self.group.items()}

    @functools.cached_property
    def even(self) -> dict[str, Array]:
        """Column → (n, size) noisy counts, spread evenly inside each merged cell."""
        return {c: spread_evenly(y, self.group[c], self.merged[c]) for c, y in self.noisy.items()}

    @property
    def precision(self) -> float:
        """Of a noisy count, as promised."""
        return self.sigma**-2

    def problem(self) -> Problem:
        """The fit of independent columns that the selection compares the data with."""
        noisy: dict[Clique, Array] = {(c,): y for c, y in self.even.items()}
        weight = {clique: np.full_like(y, self.precision) for clique, y in noisy.items()}
        constant = np.max([self.loss_scale(c) for c in self.noisy], axis=0)
        return Problem(
            self.domain, noisy, weight, marginals.total_of(*self.sums()), constant, self.start
        )

    def loss_scale(self, column: str) -> Array:
        """(n,) precision of a column's most precise cell: a cell merged of m values has variance
        m."""
        return np.asarray(self.precision / self.merged[column].min(axis=1))

    def sums(self) -> tuple[list[Array], list[Array | float]]:
        """Each column's noisy row count, and its variance."""
        return [y.sum(axis=1) for y in self.noisy.values()], [
            self.sigma**2 * y.shape[1] for y in self.noisy.values()
        ]

    @property
    def start(self) -> dict[str, Array] | None:
        """For `Problem.merged`."""
        return self.merged if self.compressed else None

    @functools.cached_property
    def estimate(self) -> tuple[dict[Clique, Array], Array]:
        """Column → (n, size) fitted counts, and (n,) their sum."""
        problem = self.problem()
        return marginals.fit(problem, tuple(problem.noisy)), problem.total

    def scores(self, data: Table) -> Array:
        """(n, pairs) ‖marginal − estimate‖₁ over merged cells; its sensitivity is 1 under
        add/remove."""
        fitted, total = self.estimate
        return np.stack(
            [
                np.abs(
                    self.even_pair(data, pair) - _outer(fitted[pair[:1]], fitted[pair[1:]], total)
                ).sum(axis=1)
                for pair in itertools.combinations(self.domain.columns, 2)
            ],
            axis=1,
        )

    def even_pair(self, data: Table, pair: Clique, where: Array | slice = slice(None)) -> Array:
        """(n, cells) true counts of two columns, spread evenly inside merged cells."""
        table = data.marginal(pair).reshape(1, *self.domain.shape(pair))
        if not self.compressed:
            return np.asarray(table.reshape(1, -1))
        # the first axis is used up and comes back last, so that two turns restore the order
        for column in pair:
            group, size = self.group[column][where], self.merged[column][where]
            same = (group[:, :, None] == group[:, None, :]) / size[:, :, None]
            table = np.matmul(table.transpose(0, 2, 1), same.transpose(0, 2, 1))
        return np.asarray(table.reshape(len(table), -1))


def measure_columns(
    data: Table,
    trials: int,
    sigma: float,
    added_sigma: float,
    compress: bool,
    rng: np.random.Generator,
) -> NoisyColumns:
    """Noisy counts of every column; those below 3 standard deviations are merged into one cell a
    column."""
    noisy, group = {}, {}
    for column in data.domain.columns:
        size = data.domain.size((column,))
        noisy[column] = data.marginal((column,)) + rng.normal(0.0, added_sigma, size=(trials, size))
        small = noisy[column] < (3 * sigma if compress else -np.inf)
        group[column] = np.where(small, small.argmax(axis=1)[:, None], np.arange(size))
    return NoisyColumns(data.domain, sigma, added_sigma, noisy, group, compress)


def _sizes(group: Array) -> Array:
    """(n, size) how many values are in each value's group; only one group has more than one."""
    small = group != np.arange(group.shape[1])
    first = np.take_along_axis(group, small.argmax(axis=1)[:, None], axis=1)
    in_it = (group == first) & small.any(axis=1)[:, None]
    return np.where(in_it, in_it.sum(axis=1)[:, None], 1)


def spread_evenly(values: Array, group: Array, size: Array) -> Array:
    """(n, size) each group's mean in place of its values."""
    together = size > 1
    mean = np.where(together, values, 0.0).sum(axis=1) / np.maximum(together.sum(axis=1), 1)
    return np.where(together, mean[:, None], values)


def _outer(one: Array, other: Array, total: Array) -> Array:
    """(n, cells) the pair of two independent columns."""
    return ((one / total[:, None])[:, :, None] * other[:, None, :]).reshape(len(total), -1)


# --- selection ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Tree:
    """Chosen pairs: (n, steps) places among all pairs, and (n, steps, pairs) which ones each step
    allowed."""

    picks: Array
    allowed: Array


def choose_tree(scores: Array, epsilon: float, rng: np.random.Generator) -> Tree:
    """Kruskal's algorithm with the exponential mechanism: each step joins two components.

    Args:
        scores: (n, pairs) in the order of `itertools.combinations`, of sensitivity 1.
        epsilon: of each step.
        rng: source of Gumbel noise.
    """
    n, pairs = scores.shape
    columns = (1 + math.isqrt(1 + 8 * pairs)) // 2
    ends = np.array(list(itertools.combinations(range(columns), 2)))
    component = np.tile(np.arange(columns), (n, 1))
    picks, allowed = [], []
    for _ in range(columns - 1):
        free = component[:, ends[:, 0]] != component[:, ends[:, 1]]
        noisy = epsilon / 2 * scores + rng.gumbel(size=scores.shape)
        pick = np.where(free, noisy, -np.inf).argmax(axis=1)
        keep, gone = (
            np.take_along_axis(component, ends[pick, side][:, None], axis=1) for side in (0, 1)
        )
        component = np.where(component == gone, keep, component)
        picks.append(pick)
        allowed.append(free)
    return Tree(np.stack(picks, axis=1), np.stack(allowed, axis=1))


def log_chance(tree: Tree, scores: Array, epsilon: float) -> Array:
    """(n,) log-probability of each trial's picks."""
    weights = np.where(tree.allowed, (epsilon / 2 * scores)[:, None, :], -np.inf)
    chances = log_softmax(weights, axis=2)
    return np.asarray(np.take_along_axis(chances, tree.picks[:, :, None], axis=2).sum(axis=(1, 2)))


# --- pairs ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class NoisyPairs:
    """One noisy marginal a chosen pair, over merged cells.

    Args:
        sigma: standard deviation of the noise that was promised.
        added_sigma: standard deviation of the noise that was added.
        where: pair → the trials that chose it.
        noisy: pair → (their number, cells) counts with noise, spread evenly inside merged cells.
        merged: pair → (their number, cells) how many cells share each merged one.
    """

    sigma: float
    added_sigma: float
    where: dict[Clique, Array]
    noisy: dict[Clique, Array]
    merged: dict[Clique, Array]


def measure_pairs(
    data: Table,
    first: NoisyColumns,
    tree: Tree,
    sigma: float,
    added_sigma: float,
    rng: np.random.Generator,
) -> NoisyPairs:
    """Noisy counts of each trial's pairs; a merged cell gets the noise of one cell."""
    where: dict[Clique, Array] = {}
    noisy: dict[Clique, Array] = {}
    merged: dict[Clique, Array] = {}
    for i, pair in enumerate(itertools.combinations(data.domain.columns, 2)):
        trials = np.flatnonzero((tree.picks == i).any(axis=1))
        if not len(trials):
            continue
        one, other = (first.group[c][trials] for c in pair)
        shared = (
            first.merged[pair[0]][trials][:, :, None] * first.merged[pair[1]][trials][:, None, :]
        )
        cell = (one[:, :, None] * data.domain.size(pair[1:]) + other[:, None, :]).reshape(
            len(trials), -1
        )
        noise = rng.normal(0.0, added_sigma, size=cell.shape)
        where[pair], merged[pair] = trials, shared.reshape(len(trials), -1)
        noise = np.take_along_axis(noise, cell, axis=1) / merged[pair]
        noisy[pair] = first.even_pair(data, pair, trials) + noise
    return NoisyPairs(sigma, added_sigma, where, noisy, merged)


# --- what a batch of runs puts out ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Runs:
    """n runs of MST: everything that was measured and chosen. Fits and rows are made when they are
    asked for."""

    first: NoisyColumns
    epsilon: float
    tree: Tree
    second: NoisyPairs
    rows: int
    rng: np.random.Generator

    def __len__(self) -> int:
        return len(self.tree.picks)

    def log_ratio(self, absent: Table, present: Table) -> Array:
        """(n,) exact: columns, then picks given them, then pairs given both."""
        first, second = self.first, self.second
        ratio = log_chance(self.tree, first.scores(present), self.epsilon)
        ratio -= log_chance(self.tree, first.scores(absent), self.epsilon)
        for column, noisy in first.noisy.items():
            a, b = absent.marginal((column,)), present.marginal((column,))
            ratio += marginals.gaussian_log_ratio(noisy, a, b, first.added_sigma**-2)
        for pair, noisy in second.noisy.items():
            trials = second.where[pair]
            a, b = (first.even_pair(data, pair, trials) for data in (absent, present))
            # Spread over its m cells, a merged cell's count and noise are divided by m, and it is
            # summed m times.
            precision = second.merged[pair] * second.added_sigma**-2
            ratio[trials] += marginals.gaussian_log_ratio(noisy, a, b, precision)
        return np.asarray(ratio)

    def insider(self) -> Columns:
        """(n, k) per clique, precision-weighted sums of its noisy counts and their precision; 0
        where not measured.

        A column whose values are all merged leaves a pair, which then measures the other column, or
        the total. Where some of that other column's values may be merged too, it is kept apart as
        ``a merged``: in one sum with the column's own noisy counts, both would be lost.
        """
        weighted, precision = self._pooled()
        names, values = [], []
        for label, sums in weighted.items():
            names += [
                f"precision[{label}]",
                *(f"weighted[{label}][{cell}]" for cell in range(sums.shape[1])),
            ]
            values += [precision[label][:, None], sums]
        return Columns(tuple(names), np.hstack(values))

    def _pooled(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Label → (n, cells) sums and (n,) precisions."""
        domain, first = self.first.domain, self.first
        cliques = [*([()] if first.compressed else []), *marginals.cliques_up_to(domain, 2)]
        labels = {",".join(clique): domain.size(clique) for clique in cliques}
        if first.compressed:  # of two values, both are merged or none
            labels |= {
                f"{c} merged": size
                for c, size in zip(domain.columns, domain.sizes, strict=True)
                if size > 2
            }
        weighted = {label: np.zeros((len(self), size)) for label, size in labels.items()}
        precision = {label: np.zeros(len(self)) for label in labels}
        for column, noisy in first.noisy.items():
            weighted[column] += first.precision * noisy
            precision[column] += first.precision
        for pair, even in self.second.noisy.items():
            trials = self.second.where[pair]
            gone = np.stack([first.cells[c][trials] == 1 for c in pair], axis=1)
            counts = even * self.second.merged[pair]
            for pattern in itertools.product((False, True), repeat=2):
                here = (gone == pattern).all(axis=1)
                if not here.any():
                    continue
                label = ",".join(c for c, out in zip(pair, pattern, strict=True) if not out)
                label = f"{label} merged" if f"{label} merged" in labels else label
                table = counts[here].reshape(-1, *domain.shape(pair))
                # All cells along a merged column hold the same count: the first one tells it.
                table = table[(slice(None), *(0 if out else slice(None) for out in pattern))]
                weighted[label][trials[here]] += (
                    table.reshape(len(table), -1) / self.second.sigma**2
                )
                precision[label][trials[here]] += self.second.sigma**-2
        return weighted, precision

    def problem(self) -> Problem:
        """The fit of each trial's tree."""
        first, second, n = self.first, self.second, len(self)
        columns = first.problem()
        noisy, weight = dict(columns.noisy), dict(columns.weight)
        sums, variances = first.sums()
        for pair, even in second.noisy.items():
            trials = second.where[pair]
            shape = (n, even.shape[1])
            noisy[pair], weight[pair] = np.zeros(shape), np.zeros(shape)
            total, variance = np.zeros(n), np.full(n, np.inf)
            noisy[pair][trials], weight[pair][trials] = even, second.merged[pair] * second.sigma**-2
            total[trials] = even.sum(axis=1)
            variance[trials] = (
                second.sigma**2 * first.cells[pair[0]][trials] * first.cells[pair[1]][trials]
            )
            sums, variances = [*sums, total], [*variances, variance]
        total = marginals.total_of(sums, variances)
        return Problem(first.domain, noisy, weight, total, self._lipschitz(), first.start)

    def _lipschitz(self) -> Array:
        """(n,) see `marginals.lipschitz`: it depends on the order of the picks and on how many
        cells are left."""
        columns, pairs = (
            self.first.domain.columns,
            list(itertools.combinations(self.first.domain.columns, 2)),
        )
        cells = np.stack([self.first.cells[c] for c in columns], axis=1)
        scale = np.stack([self.first.loss_scale(c) for c in columns], axis=1)
        constant = np.empty(len(self))
        for trials in marginals.group_rows(np.hstack([self.tree.picks, cells])):
            structure = (*((c,) for c in columns), *(pairs[i] for i in self.tree.picks[trials[0]]))
            sizes = dict(zip(columns, cells[trials[0]].tolist(), strict=True))
            precision: dict[Clique, Array] = {(c,): scale[trials, i] for i, c in enumerate(columns)}
            precision |= {
                c: np.full(len(trials), self.second.sigma**-2) for c in structure if len(c) == 2
            }
            constant[trials] = marginals.lipschitz(structure, sizes, precision)
        return constant

    def structures(self) -> list[tuple[marginals.Structure, Array]]:
        """Measured cliques, and the trials that measured them."""
        columns, pairs = (
            self.first.domain.columns,
            list(itertools.combinations(self.first.domain.columns, 2)),
        )
        chosen = np.sort(self.tree.picks, axis=1)
        return [
            ((*((c,) for c in columns), *(pairs[i] for i in chosen[trials[0]])), trials)
            for trials in marginals.group_rows(chosen)
        ]

    @functools.cached_property
    def joint(self) -> Array:
        """(n, cells) fitted tables over the whole domain, where that is small enough."""
        return marginals.fit_dense(self.problem())

    def public(self) -> Tables:
        """(n, rows, d) synthetic records of the fitted trees; the same ones whenever they are asked
        for."""
        return self._tables

    @functools.cached_property
    def _tables(self) -> Tables:
        domain = self.first.domain
        if domain.size() <= marginals.DENSE:
            return marginals.dense_rows(domain, self.joint, self.structures(), self.rows, self.rng)
        return large.draw_tables(self.problem(), self.structures(), self.rows, self.rng)
