"""MST and AIM without private selection, where both coincide: given marginals, the whole budget on measurement."""

from __future__ import annotations

import dataclasses
import functools
import math
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
class Fixed:
    """All marginals of up to ``degree`` columns with noise of sd √(k/(2ρ)) a cell, k marginals: jointly √(2ρ)-GDP.

    Args:
        eps: of the (ε, δ) that fixes ρ.
        delta: of the same.
        degree: most columns of a marginal.
        rows: of a synthetic table; given, never read from the data.

    References:
        Ganev, Annamalai, Kulynych 2026, arXiv:2604.18352: fixed structure, no selection, no compression.
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
        rho, cliques = rho_from_eps_delta(self.eps, self.delta), marginals.cliques_up_to(data.domain, self.degree)
        marginals.refuse_if_too_large(2 * trials * sum(map(data.domain.size, cliques)), "measuring these marginals")
        sigma = math.sqrt(len(cliques) / (2 * rho))
        ledger = Ledger(rho, trials=1)
        for clique in cliques:
            ledger.spend(f"measure {','.join(clique)}", 1 / (2 * sigma**2))
        ledger.close()
        synthesis = rng.spawn(1)[0]  # so that the noise is the same whether or not rows are drawn
        added = self.added_sigma(sigma)
        noisy = {
            c: data.marginal(c) + rng.normal(0.0, added, size=(trials, data.domain.size(c)))
            for c in cliques
        }
        return NoisyMarginals(data.domain, noisy, sigma, added, self.rows, synthesis)


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
        names = tuple(name for c in self.noisy for name in marginals.names_of("noisy", self.domain, c))
        return Columns(names, np.hstack(list(self.noisy.values())))

    def log_ratio(self, absent: Table, present: Table) -> Array:
        """(n,) of one Gaussian per cell; fits and rows are post-processing and add nothing."""
        precision = self.added_sigma**-2
        parts = [
            marginals.gaussian_log_ratio(y, absent.marginal(c), present.marginal(c), precision)
            for c, y in self.noisy.items()
        ]
        return np.asarray(np.sum(parts, axis=0))

    def public(self) -> Tables:
        """(n, rows, d) synthetic records of the fitted models; the same ones whenever they are asked for."""
        return self._tables

    @functools.cached_property
    def _tables(self) -> Tables:
        problem, structure = self.problem(), tuple(self.noisy)
        if len(marginals.maximal(structure)) == len(self.domain.columns) == len(structure):
            fitted = marginals.fit(problem, structure)
            order = [(column, ()) for column in self.domain.columns]
            records = marginals.draw_rows(self.domain, order, fitted.__getitem__, self.rows, self.rng)
            return Tables(self.domain, records)
        marginals.refuse_if_too_large(8 * marginals.LANES * self.domain.size(), "fitting all pairs of these columns")
        joint = marginals.fit_dense(problem)
        everyone = [(structure, np.arange(len(joint)))]
        return marginals.dense_rows(self.domain, joint, everyone, self.rows, self.rng)

    def problem(self) -> Problem:
        """The fit to all marginals."""
        precision = self.sigma**-2
        n = len(next(iter(self.noisy.values())))
        total = marginals.total_of(
            [y.sum(axis=1) for y in self.noisy.values()], [y.shape[1] for y in self.noisy.values()]
        )
        sizes = dict(zip(self.domain.columns, self.domain.sizes, strict=True))
        constant = marginals.lipschitz(tuple(self.noisy), sizes, {c: np.full(n, precision) for c in self.noisy})
        weight = {c: np.full_like(y, precision) for c, y in self.noisy.items()}
        return Problem(self.domain, self.noisy, weight, total, constant)
