"""AIM: round by round, measure the marginal that the current model gets most wrong, as far as the
budget goes."""

from __future__ import annotations

import dataclasses
import functools
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
from audit.mechanisms.marginals import Clique, Problem, Structure
from audit.privacy import STRICT, PrivacyParameter, rho_from_eps_delta

ROUNDS = 16
"""Most rounds, per column."""

MEASURING = 0.9
"""Share of a round's budget that is measured with; the rest selects."""


@dataclass(frozen=True, config=STRICT)
class AIM:
    """McKenna, Mullins, Sheldon and Miklau's AIM with its stock budget; the workload is all pairs
    of columns.

    Private selection makes it ρ-zCDP and (ε, δ)-DP. √(2ρ)-GDP it is not.

    Args:
        eps: of the (ε, δ) that fixes ρ.
        delta: of the same.
        rows: of a synthetic table; given, never read from the data.
        max_model_size: MiB that the model may take when all budget is spent; a share of it before.
        columns: of the data, where they are known beforehand: the numerical claim is computed for
            that many. None: for two, within 1e-5 of the worst of 2, 3, 4, 6, 10 and 14.

    References:
        McKenna, Mullins, Sheldon, Miklau, PVLDB 2022, arXiv:2201.12677, Algorithm 2 and the public
            implementation.
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]
    rows: Annotated[int, Field(ge=1)] = 50
    max_model_size: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 80.0
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
            marginals.refuse_columns("AIM", len(data.domain.columns), self.columns)

    def added_sigma(self, sigma: Array) -> Array:
        """(n,) standard deviations of the noise that is added where the claim asks for ``sigma``
        (n,)."""
        return sigma

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> Runs:
        """All rounds now, for each needs the model before it; the last fit and rows when somebody
        looks.

        Raises:
            AuditError: with fewer than two columns, or tables that do not fit into memory.
        """
        marginals.refuse_columns("AIM", len(data.domain.columns), self.columns)
        cliques = marginals.cliques_up_to(data.domain, 2)
        marginals.refuse_if_too_large(
            6 * trials * sum(map(data.domain.size, cliques)), f"AIM on {trials} trials at a time"
        )
        synthesis = rng.spawn(1)[0]  # so that the noise is the same whether or not rows are drawn
        course = Course.start(self, data, trials)
        course.measure_columns(rng)
        while len(course.active):
            course.play_round(rng)
        course.ledger.close()
        noise_fraction = float(self.added_sigma(np.ones(1))[0])
        return Runs(course.pool, tuple(course.history), noise_fraction, self.rows, synthesis)


@functools.lru_cache(maxsize=128)
def adaptive_mu(rho: float, columns: int) -> float:
    """Least μ whose curve lies below what AIM at ρ may leak on so many columns. Numerical, not
    certified.

    After each round the noise may be halved or not, whatever the data make of it: the worse is
    counted.

    >>> rho = rho_from_eps_delta(1, 0.01)
    >>> round(adaptive_mu(rho, 3), 4), round(math.sqrt(2 * rho), 4)
    (0.455, 0.4548)
    """
    unit = rho / (ROUNDS * columns)

    def steps(units: float) -> tuple[privacy.Step, ...]:
        sigma, epsilon = _noise(units * unit)
        return (privacy.SelectionStep(float(epsilon)), privacy.GaussianStep(float(1 / sigma)))

    @functools.cache
    def rest(spent: int, halvings: int) -> tuple[privacy.Step, ...]:
        cost, left = 4**halvings, (ROUNDS - MEASURING) * columns - spent
        if left < 2 * cost:
            return steps(left)
        after = privacy.AdaptiveBranch(
            (rest(spent + cost, halvings), rest(spent + cost, halvings + 1))
        )
        return (*steps(cost), after)

    first = privacy.GaussianStep(math.sqrt(2 * MEASURING * columns * unit))
    return privacy.adaptive_mu([first, *rest(0, 0)])


def _noise(rho: Array | float) -> tuple[Array, Array]:
    """Standard deviation and selection ε of a round that spends ρ."""
    return np.sqrt(1 / (2 * MEASURING * np.asarray(rho))), np.sqrt(
        8 * (1 - MEASURING) * np.asarray(rho)
    )


def _cost(sigma: Array, epsilon: Array) -> Array:
    """ρ of a round."""
    return 1 / (2 * sigma**2) + epsilon**2 / 8


def weights_of(domain: Domain) -> dict[Clique, float]:
    """Candidate → Σ over pairs of how many columns they share: the downward closure of all pairs.

    >>> weights_of(Domain(("a", "b", "c"), (2, 2, 2)))
    {('a',): 2.0, ('b',): 2.0, ('c',): 2.0, ('a', 'b'): 4.0, ('a', 'c'): 4.0, ('b', 'c'): 4.0}
    """
    candidates = marginals.cliques_up_to(domain, 2)
    pairs = [c for c in candidates if len(c) == 2]
    return {c: float(sum(len(set(c) & set(pair)) for pair in pairs)) for c in candidates}


# --- what has been measured -----------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pool:
    """Measurements of n trials, pooled by precision; filled as the rounds go.

    Args:
        domain: of the data.
        weighted: clique → (n, cells) Σ precision·noisy.
        precision: clique → (n,) as promised.
        order: clique → (n,) which measurement of its trial was this clique's first; −1: not
            measured.
    """

    domain: Domain
    weighted: dict[Clique, Array]
    precision: dict[Clique, Array]
    order: dict[Clique, Array]

    @staticmethod
    def empty(domain: Domain, trials: int) -> Pool:
        """Nothing measured yet."""
        cliques = marginals.cliques_up_to(domain, 2)
        return Pool(
            domain,
            {c: np.zeros((trials, domain.size(c))) for c in cliques},
            {c: np.zeros(trials) for c in cliques},
            {c: np.full(trials, -1) for c in cliques},
        )

    def add(self, clique: Clique, noisy: Array, sigma: Array, trials: Array, when: int) -> None:
        """Pool another measurement of ``trials``, the ``when``-th of theirs."""
        self.weighted[clique][trials] += noisy / sigma[:, None] ** 2
        self.precision[clique][trials] += 1 / sigma**2
        order = self.order[clique]
        order[trials] = np.where(order[trials] < 0, when, order[trials])

    def problem(self, trials: Array) -> Problem:
        """The fit of these trials to all that they have measured."""
        precision = {c: p[trials] for c, p in self.precision.items()}
        noisy = {
            c: w[trials] / np.where(precision[c], precision[c], 1)[:, None]
            for c, w in self.weighted.items()
        }
        weight = {c: np.broadcast_to(precision[c][:, None], y.shape) for c, y in noisy.items()}
        with np.errstate(divide="ignore"):
            variances = [y.shape[1] / precision[c] for c, y in noisy.items()]
        total = marginals.total_of([y.sum(axis=1) for y in noisy.values()], variances)
        sizes = dict(zip(self.domain.columns, self.domain.sizes, strict=True))
        constant = np.empty(len(trials))
        for structure, where in self.structures(trials):
            constant[where] = marginals.lipschitz(
                structure, sizes, {c: precision[c][where] for c in structure}
            )
        return Problem(self.domain, noisy, weight, total, constant)

    def structures(self, trials: Array) -> list[tuple[Structure, Array]]:
        """Measured cliques in order, and the places in ``trials`` that measured them."""
        keys = np.stack([order[trials] for order in self.order.values()], axis=1)
        cliques = list(self.order)
        found = []
        for where in marginals.group_rows(keys):
            key = keys[where[0]]
            structure = tuple(cliques[i] for i in np.argsort(key, kind="stable") if key[i] >= 0)
            found.append((structure, where))
        return found


@dataclasses.dataclass(frozen=True)
class Round:
    """One round of the trials that were still at it: what `log_ratio` needs of it.

    Args:
        trials: (m,) which ones.
        estimate: clique → (m, cells) answers of the model so far.
        sigma: (m,) of the coming measurement, as promised.
        epsilon: (m,) of the selection.
        allowed: (m, candidates) those whose model would not be too large.
        pick: (m,) place of the chosen candidate.
    """

    trials: Array
    estimate: dict[Clique, Array]
    sigma: Array
    epsilon: Array
    allowed: Array
    pick: Array

    def chances(self, data: Table, weights: dict[Clique, float]) -> Array:
        """(m, candidates) log-probabilities of each pick, had the data been ``data``."""
        scores = np.empty(self.allowed.shape)
        for i, (clique, weight) in enumerate(weights.items()):
            answer = data.marginal(clique)
            bias = math.sqrt(2 / math.pi) * self.sigma * len(answer)
            scores[:, i] = weight * (np.abs(answer - self.estimate[clique]).sum(axis=1) - bias)
        sharpness = self.epsilon / (2 * max(weights.values()))
        return np.asarray(
            log_softmax(np.where(self.allowed, sharpness[:, None] * scores, -np.inf), axis=1)
        )


@dataclasses.dataclass
class Course:
    """The state of n trials between rounds."""

    mechanism: AIM
    data: Table
    weights: dict[Clique, float]
    pool: Pool
    ledger: Ledger
    sigma: Array
    epsilon: Array
    active: Array
    rounds: int = 0
    estimate: dict[Clique, Array] = dataclasses.field(default_factory=dict)
    history: list[Round] = dataclasses.field(default_factory=list)

    @staticmethod
    def start(mechanism: AIM, data: Table, trials: int) -> Course:
        """Before the first measurement."""
        rho = rho_from_eps_delta(mechanism.eps, mechanism.delta)
        sigma, epsilon = _noise(np.full(trials, rho / (ROUNDS * len(data.domain.columns))))
        pool, ledger = Pool.empty(data.domain, trials), Ledger(rho, trials)
        return Course(
            mechanism,
            data,
            weights_of(data.domain),
            pool,
            ledger,
            sigma,
            epsilon,
            np.arange(trials),
        )

    def measure_columns(self, rng: np.random.Generator) -> None:
        """All columns once, then the first model."""
        for i, column in enumerate(self.data.domain.columns):
            self._measure((column,), self.active, i, rng)
            self.ledger.spend(f"measure {column}", 1 / (2 * self.sigma**2))
        self.estimate = self._fit(self.active)

    def play_round(self, rng: np.random.Generator) -> None:
        """Choose, measure, and, where budget is left, fit again and see whether the noise was too
        much."""
        trials = self.active
        left, sigma, epsilon = self.ledger.left[trials], self.sigma[trials], self.epsilon[trials]
        last = left < 2 * _cost(sigma, epsilon)
        # What is left would not do for two more rounds: all of it goes into this one.
        sigma, epsilon = (
            np.where(last, end, now)
            for end, now in zip(_noise(left), (sigma, epsilon), strict=True)
        )
        self.ledger.spend("round", _cost(sigma, epsilon), trials)
        chosen = Round(
            trials, self.estimate, sigma, epsilon, self._allowed(trials), np.empty(0, int)
        )
        chances = chosen.chances(self.data, self.weights)
        pick = (chances + rng.gumbel(size=chances.shape)).argmax(axis=1)
        when = len(self.data.domain.columns) + self.rounds
        self.sigma[trials], self.epsilon[trials] = sigma, epsilon
        for i, clique in enumerate(self.weights):
            if len(at := trials[pick == i]):
                self._measure(clique, at, when, rng)
        self.rounds += 1
        if self.data.domain.size() <= marginals.DENSE:
            self.history.append(dataclasses.replace(chosen, pick=pick))
        self.active = trials[~last]
        if len(self.active):
            self._refit(pick[~last], ~last)

    def _measure(self, clique: Clique, trials: Array, when: int, rng: np.random.Generator) -> None:
        sigma, answer = self.sigma[trials], self.data.marginal(clique)
        noise = (
            rng.normal(size=(len(trials), len(answer))) * self.mechanism.added_sigma(sigma)[:, None]
        )
        self.pool.add(clique, answer + noise, sigma, trials, when)

    def _fit(self, trials: Array) -> dict[Clique, Array]:
        domain = self.data.domain
        if domain.size() > marginals.DENSE:
            return large.answers(
                self.pool.problem(trials), self.pool.structures(trials), tuple(self.weights)
            )
        joint = marginals.fit_dense(self.pool.problem(trials))
        return {c: marginals.project(domain, joint, c) for c in self.weights}

    def _refit(self, pick: Array, going_on: Array) -> None:
        """The next model; noise is halved where it moved the chosen marginal by less than its own
        noise would."""
        before = {c: answer[going_on] for c, answer in self.estimate.items()}
        self.estimate = self._fit(self.active)
        for i, clique in enumerate(self.weights):
            here = pick == i
            trials = self.active[here]
            moved = np.abs(self.estimate[clique][here] - before[clique][here]).sum(axis=1)
            small = moved <= self.sigma[trials] * math.sqrt(2 / math.pi) * self.data.domain.size(
                clique
            )
            self.sigma[trials] /= np.where(small, 2, 1)
            self.epsilon[trials] *= np.where(small, 2, 1)

    def _allowed(self, trials: Array) -> Array:
        """(m, candidates) whether the model with a candidate in it stays below its share of
        `max_model_size`."""
        share = self.mechanism.max_model_size * self.ledger.spent[trials] / self.ledger.budget
        columns, cells = len(self.data.domain.columns), self.data.domain.size()
        allowed = np.ones((len(trials), len(self.weights)), dtype=bool)
        if columns * cells * 8 / 2**20 <= share.min():  # not even the model of everything is larger
            return allowed
        for structure, where in self.pool.structures(trials):
            sizes = large.model_sizes(
                self.data.domain, marginals.maximal(structure), tuple(self.weights)
            )
            allowed[where] = sizes <= share[where][:, None]
        return allowed


# --- what a batch of runs puts out ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Runs:
    """n runs of AIM: all that was measured and chosen. The last fit and rows are made when they are
    asked for."""

    pool: Pool
    history: tuple[Round, ...]
    noise_fraction: float
    rows: int
    rng: np.random.Generator

    def __len__(self) -> int:
        return len(next(iter(self.pool.precision.values())))

    @property
    def _everyone(self) -> Array:
        return np.arange(len(self))

    def log_ratio(self, absent: Table, present: Table) -> Array | None:
        """(n,) exact: all Gaussian measurements, and each round's pick given the rounds before.

        None where the domain is too large to keep every round's model, which the chances of the
        picks depend on.
        """
        if not self.history:
            return None
        weights, ratio = weights_of(self.pool.domain), np.zeros(len(self))
        for clique, weighted in self.pool.weighted.items():
            a, b = absent.marginal(clique), present.marginal(clique)
            middle = self.pool.precision[clique] * ((a + b) @ (b - a) / 2)
            ratio += (weighted @ (b - a) - middle) / self.noise_fraction**2
        for played in self.history:
            for data, sign in ((present, 1), (absent, -1)):
                chances = played.chances(data, weights)
                ratio[played.trials] += (
                    sign * np.take_along_axis(chances, played.pick[:, None], axis=1)[:, 0]
                )
        return ratio

    def insider(self) -> Columns:
        """(n, k) per candidate, precision-weighted sums of noisy counts and their precision; 0
        where not measured."""
        names, values = [], []
        for clique, sums in self.pool.weighted.items():
            names += [
                f"precision[{','.join(clique)}]",
                *marginals.names_of("weighted", self.pool.domain, clique),
            ]
            values += [self.pool.precision[clique][:, None], sums]
        return Columns(tuple(names), np.hstack(values))

    def problem(self) -> Problem:
        """The last fit: to everything that was measured."""
        return self.pool.problem(self._everyone)

    @functools.cached_property
    def joint(self) -> Array:
        """(n, cells) fitted tables over the whole domain, where that is small enough."""
        return marginals.fit_dense(self.problem())

    def public(self) -> Tables:
        """(n, rows, d) synthetic records of the last models; the same ones whenever they are asked
        for."""
        return self._tables

    @functools.cached_property
    def _tables(self) -> Tables:
        domain, structures = self.pool.domain, self.pool.structures(self._everyone)
        if domain.size() <= marginals.DENSE:
            return marginals.dense_rows(domain, self.joint, structures, self.rows, self.rng)
        return large.draw_tables(self.problem(), structures, self.rows, self.rng)
