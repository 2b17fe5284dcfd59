"""What goes wrong in marginal-based synthesis: the budget's units, the reuse of a measurement, the
domain."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Claim, Table
from audit.mechanisms import claims, marginals
from audit.mechanisms.broken.numbers import Numbers
from audit.mechanisms.fixed import NoisyMarginals
from audit.privacy import STRICT, PrivacyParameter, implied_mu, rho_from_eps_delta

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Delta = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True, config=STRICT)
class ShareAsSigma:
    """One-way marginals with noise of sd ρ/3 where a share ρ/3 of the budget was meant: √d·3/ρ-GDP
    for d columns.

    The less budget, the less noise.

    Args:
        eps: of the (ε, δ) that fixes ρ.
        delta: of the same.
        rows: of a synthetic table.
    """

    eps: PrivacyParameter
    delta: Delta
    rows: Annotated[int, Field(ge=1)] = 50

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """√(2ρ)-GDP and what follows from it, true of a sigma of √(3d/(2ρ)) and more."""
        return claims.of_gaussians(self.eps, self.delta)

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> NoisyMarginals:
        """Noisy marginals of every column."""
        sigma = rho_from_eps_delta(self.eps, self.delta) / 3
        synthesis = rng.spawn(1)[0]
        cliques = marginals.cliques_up_to(data.domain, 1)
        noisy = {
            c: data.marginal(c) + rng.normal(0.0, sigma, size=(trials, data.domain.size(c)))
            for c in cliques
        }
        return NoisyMarginals(data.domain, noisy, sigma, sigma, self.rows, synthesis)


@dataclass(frozen=True, config=STRICT)
class ReusedMeasurement:
    """One-way marginals measured twice, the second time with half the noise, as AIM does, but with
    the same draw.

    y₁ = m + σz and y₂ = m + σz/2 give the marginals themselves: 2·y₂ − y₁ = m.

    Args:
        eps: of the (ε, δ) that fixes ρ; a fifth is charged to the first round, the rest to the
            second.
        delta: of the same.
    """

    eps: PrivacyParameter
    delta: Delta

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """√(2ρ)-GDP and what follows from it, true of two fresh measurements."""
        return claims.of_gaussians(self.eps, self.delta)

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 3·cells) both rounds, and twice the second less the first, which anybody can
        compute."""
        cliques = marginals.cliques_up_to(data.domain, 1)
        sigma = math.sqrt(5 * len(cliques)) / implied_mu(rho_from_eps_delta(self.eps, self.delta))
        truth = np.concatenate([data.marginal(c) for c in cliques])
        noise = rng.normal(0.0, sigma, size=(trials, len(truth)))
        first, second = truth + noise, truth + noise / 2
        cells = [name for c in cliques for name in marginals.names_of("", data.domain, c)]
        names = tuple(
            f"{what}{cell}" for what in ("first", "second", "2·second − first") for cell in cells
        )
        return Numbers(names, np.hstack([first, second, 2 * second - first]))


@dataclass(frozen=True, config=STRICT)
class DomainFromData:
    """A noisy histogram over the values that occur: a new value makes it longer.

    A longer output is released as its size beside the noisy total, so that rows stay as wide.

    Args:
        eps: of the (ε, δ) that fixes ρ.
        delta: of the same.
    """

    eps: PrivacyParameter
    delta: Delta

    block: ClassVar[int] = 1000

    @property
    def claims(self) -> tuple[Claim, ...]:
        """√(2ρ)-GDP and what follows from it, true of a domain that was given."""
        return claims.of_gaussians(self.eps, self.delta)

    def release(self, data: Table, trials: int, rng: np.random.Generator) -> Numbers:
        """(n, 2) the number of cells, and the sum of their noisy counts."""
        _, counts = np.unique(data.records, axis=0, return_counts=True)
        sigma = 1 / implied_mu(rho_from_eps_delta(self.eps, self.delta))
        noisy = counts + rng.normal(0.0, sigma, size=(trials, len(counts)))
        return Numbers(
            ("size", "total"), np.stack([np.full(trials, len(counts)), noisy.sum(axis=1)], axis=1)
        )
