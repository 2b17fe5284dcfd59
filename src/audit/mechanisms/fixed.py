"""MST and AIM without private selection, where both coincide: given marginals, the whole budget on measurement."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Columns, Domain, Table, Tables
from audit.mechanisms.ledger import Ledger
from audit.mechanisms.marginals import Clique, cliques_up_to, fit, noisy_total, refuse_if_too_large, sample_rows
from audit.privacy import GDP, ZCDP, ApproximateDP, implied_mu, rho_from_eps_delta


@dataclass(frozen=True)
class Fixed:
    """All marginals of up to ``degree`` columns with noise of sd √(k/(2ρ)) a cell, k marginals: jointly √(2ρ)-GDP.

    Args:
        eps: of the (ε, δ) that fixes ρ.
        delta: of the same.
        degree: most columns of a marginal.
        rows: of a synthetic table; given, never read from the data.
        noise_scale: share of the promised noise that is added: 1 is honest, less is a bug to be found.

    References:
        Ganev, Annamalai, Kulynych 2026, arXiv:2604.18352, section 4.
    """

    eps: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    degree: Annotated[int, Field(ge=1, le=3)] = 1
    rows: Annotated[int, Field(ge=1)] = 50
    noise_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """GDP first, since there are only Gaussian measurements; then what it implies."""
        rho = rho_from_eps_delta(self.eps, self.delta)
        return (Claim(GDP(), implied_mu(rho)), Claim(ZCDP(), rho), Claim(ApproximateDP(self.delta), self.eps))

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> Measured:
        """Measure now; fit and draw rows only when somebody looks at them."""
        rho = rho_from_eps_delta(self.eps, self.delta)
        cliques = cliques_up_to(data.domain, self.degree)
        ledger = Ledger(rho, trials=1)
        sigma = math.sqrt(len(cliques) / (2 * rho))
        for clique in cliques:
            ledger.spend(f"measure {','.join(clique)}", 1 / (2 * sigma**2))
        ledger.close()
        synthesis = rng.spawn(1)[0]  # so that the noise is the same whether or not rows are drawn
        noisy = {c: data.marginal(c) + self.noise_scale * sigma * rng.normal(size=(trials, data.domain.size(c))) for c in cliques}
        return Measured(data.domain, noisy, self.noise_scale * sigma, self.rows, synthesis)


@dataclasses.dataclass(frozen=True)
class Measured:
    """Noisy marginals of ``n`` trials, all measured alike with standard deviation ``sigma``."""

    domain: Domain
    noisy: dict[Clique, Array]
    sigma: float
    rows: int
    rng: np.random.Generator

    def insider(self) -> Columns:
        """(n, k) the noisy cells of every marginal."""
        names = tuple(f"noisy[{','.join(c)}][{i}]" for c, y in self.noisy.items() for i in range(y.shape[1]))
        return Columns(names, np.hstack(list(self.noisy.values())))

    def log_ratio(self, absent: Table, present: Table) -> Array:
        """(n,) of one Gaussian per cell; fits and rows are post-processing and add nothing."""
        ratio = np.zeros(len(next(iter(self.noisy.values()))))
        for clique, y in self.noisy.items():
            a, b = absent.marginal(clique), present.marginal(clique)
            ratio += (y - (a + b) / 2) @ (b - a) / self.sigma**2
        return ratio

    def public(self) -> Tables:
        """(n, rows, d) synthetic records of the fitted models."""
        weight = {c: np.full_like(y, 1 / self.sigma**2) for c, y in self.noisy.items()}
        total = noisy_total(self.noisy, weight)
        cliques = self._models()
        refuse_if_too_large(self.domain, cliques, len(total))
        fitted = fit(self.domain, cliques, self.noisy, weight, total)
        parts = []
        for clique, table in zip(cliques, fitted, strict=True):
            shaped = table.reshape(len(total), *self.domain.shape(clique))
            parts.append(sample_rows(shaped, self.rows, self.rng))
        return Tables(self.domain, np.concatenate(parts, axis=2))

    def _models(self) -> tuple[Clique, ...]:
        """Independent columns where only those were measured, else one dense clique."""
        singles = tuple(c for c in self.noisy if len(c) == 1)
        return singles if len(singles) == len(self.noisy) else (self.domain.columns,)
