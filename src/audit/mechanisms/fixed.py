"""MST and AIM without private selection, where both coincide: given marginals, the whole budget on
measurement."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Columns, Domain, Table, Tables
from audit.mechanisms import claims, marginals
from audit.mechanisms.ledger import Ledger
from audit.mechanisms.marginals import Clique, Problem
from audit.privacy import STRICT, PrivacyParameter, rho_from_eps_delta


@dataclass(frozen=True, config=STRICT)
class FixedMarginals:
    """All k marginals of up to ``degree`` columns, noise of sd √(k/(2ρ)): jointly √(2ρ)-GDP.

    Args:
        eps: of the (ε, δ) that fixes ρ.
        delta: of the same.
        degree: most columns of a marginal.
        rows: of a synthetic table; given, never read from the data.

    References:
        Ganev, Annamalai, Kulynych 2026, arXiv:2604.18352: fixed structure, no selection, no
        compression.
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]
    degree: Annotated[int, Field(ge=1, le=3)] = 1
    rows: Annotated[int, Field(ge=1)] = 50

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """GDP first, since there are only Gaussian measurements; then what it implies."""
        return claims.of_gaussians(self.eps, self.delta)

    def added_sigma(self, sigma: float) -> float:
        """Standard deviation of the noise that is added where the claim asks for ``sigma``."""
        return sigma

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> NoisyMarginals:
        """Measure now; fit and draw rows only when somebody looks at them."""
        domain = data.domain
        cliques = marginals.cliques_up_to(domain, self.degree)
        cells = sum(map(domain.size, cliques))
        marginals.refuse_if_too_large(2 * trials * cells, "measuring these marginals")
        sigma = self._charged_sigma(cliques)
        added_sigma = self.added_sigma(sigma)
        # A stream of its own for the rows: the noise is the same whether or not rows are drawn.
        rows_rng = rng.spawn(1)[0]
        noisy = {}
        for clique in cliques:
            noise = rng.normal(0.0, added_sigma, size=(trials, domain.size(clique)))
            noisy[clique] = data.marginal(clique) + noise
        return NoisyMarginals(domain, noisy, sigma, added_sigma, self.rows, rows_rng)

    def _charged_sigma(self, cliques: Sequence[Clique]) -> float:
        """Standard deviation that the claim asks for, charged to a ledger that must close."""
        rho = rho_from_eps_delta(self.eps, self.delta)
        sigma = math.sqrt(len(cliques) / (2 * rho))
        ledger = Ledger(rho, trials=1)
        for clique in cliques:
            ledger.spend(f"measure {','.join(clique)}", 1 / (2 * sigma**2))
        ledger.close()
        return sigma


@dataclasses.dataclass(frozen=True)
class NoisyMarginals:
    """The same noisy marginals in each of n trials.

    Args:
        domain: of the data.
        noisy: clique → (n, cells).
        sigma: standard deviation of the noise that was promised.
        added_sigma: standard deviation of the noise that was added.
        rows: of a synthetic table.
        rng: for these rows.
    """

    domain: Domain
    noisy: dict[Clique, Array]
    sigma: float
    added_sigma: float
    rows: int
    rng: np.random.Generator

    def insider(self) -> Columns:
        """(n, k) the noisy cells of every marginal."""
        names: list[str] = []
        for clique in self.noisy:
            names += marginals.names_of("noisy", self.domain, clique)
        return Columns(tuple(names), np.hstack(list(self.noisy.values())))

    def log_ratio(self, absent: Table, present: Table) -> Array:
        """(n,) of one Gaussian per cell; fits and rows are post-processing and add nothing."""
        precision = self.added_sigma**-2
        parts = []
        for clique, noisy in self.noisy.items():
            a = absent.marginal(clique)
            b = present.marginal(clique)
            parts.append(marginals.gaussian_log_ratio(noisy, a, b, precision))
        return np.asarray(np.sum(parts, axis=0))

    def public(self) -> Tables:
        """(n, rows, d) synthetic records of the fitted models; the same whenever asked for."""
        return self._tables

    @functools.cached_property
    def _tables(self) -> Tables:
        cliques = tuple(self.noisy)
        columns = self.domain.columns
        if len(marginals.maximal(cliques)) == len(columns) == len(cliques):
            return self._independent_columns(cliques)
        needed = 8 * marginals.LANES * self.domain.size()
        marginals.refuse_if_too_large(needed, "fitting all pairs of these columns")
        joint = marginals.fit_dense(self.problem())
        all_trials = [(cliques, np.arange(len(joint)))]
        return marginals.dense_rows(self.domain, joint, all_trials, self.rows, self.rng)

    def _independent_columns(self, cliques: tuple[Clique, ...]) -> Tables:
        """One-way marginals only: each column is drawn by itself."""
        fitted = marginals.fit(self.problem(), cliques)
        order = [(column, ()) for column in self.domain.columns]
        draw_from = fitted.__getitem__
        records = marginals.draw_rows(self.domain, order, draw_from, self.rows, self.rng)
        return Tables(self.domain, records)

    def problem(self) -> Problem:
        """The fit to all marginals, each weighted by the precision that was promised."""
        precision = self.sigma**-2
        trials = len(next(iter(self.noisy.values())))
        totals = [noisy.sum(axis=1) for noisy in self.noisy.values()]
        variances = [noisy.shape[1] for noisy in self.noisy.values()]
        total = marginals.total_of(totals, variances)
        sizes = dict(zip(self.domain.columns, self.domain.sizes, strict=True))
        precisions = {clique: np.full(trials, precision) for clique in self.noisy}
        constant = marginals.lipschitz(tuple(self.noisy), sizes, precisions)
        weight = {clique: np.full_like(noisy, precision) for clique, noisy in self.noisy.items()}
        return Problem(self.domain, self.noisy, weight, total, constant)
