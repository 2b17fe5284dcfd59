"""Census-style counts: every level of a tree with discrete Gaussian noise, and the exact total.

The sampler is for audits, not for release.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Columns, Setup, Table
from audit.mechanisms.discrete_gaussian import sample
from audit.mechanisms.ledger import Ledger
from audit.mechanisms.queries import Positive, Statistic, categories, numbers
from audit.privacy import STRICT, ZCDP, ApproximateDP, PrivacyParameter, rho_from_eps_delta


@dataclasses.dataclass(frozen=True)
class NoisyCells:
    """Noisy counts of the cells of all levels, from the top down, and the exact total.

    Args:
        names: k, one a cell.
        noisy: (n, k).
        sigma: (k,) of the noise that is in each.
        total: of the records, the same in both data sets.
        truth: data set → (k,) the counts without noise.
    """

    names: tuple[str, ...]
    noisy: Array
    sigma: Array
    total: int
    truth: Statistic

    def public(self) -> Columns:
        """(n, 1 + k) the total, then the noisy counts."""
        total = np.full((len(self.noisy), 1), float(self.total))
        return Columns(("total", *self.names), np.hstack([total, self.noisy]))

    def insider(self) -> Columns:
        """(n, 1 + k) the same: nothing is hidden."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) Σ (y·(b − a) − (b² − a²)/2)/σ² over the cells, for the true counts a and b."""
        # As for real Gaussians: whole-number shifts leave the discrete law's normaliser as it is.
        a = self.truth(absent)
        b = self.truth(present)
        precision = self.sigma**-2
        return self.noisy @ ((b - a) * precision) - np.sum((b**2 - a**2) / 2 * precision)


@dataclass(frozen=True, config=STRICT)
class HierarchicalCounts:
    """Counts at each level of a tree plus discrete Gaussian noise: ρ-zCDP when a record moves.

    A record is a leaf, 0 … branching^levels − 1. One that moves changes two cells of a level by 1
    each, so a level with the share ρ_l has σ² = 2/(2ρ_l). The exact total is released, hence
    replace-one neighbours: whether somebody is counted at all is no secret here.

    Args:
        eps: ε of the claim, which with ``delta`` fixes ρ.
        delta: δ of the claim.
        branching: children of a node.
        shares: of ρ, one a level from the top down, in any unit.

    References:
        Abowd et al., The 2020 Census disclosure avoidance system TopDown algorithm, HDSR 2022,
        arXiv:2204.08986 (one query a level, and none of its post-processing).

    >>> HierarchicalCounts(eps=1, delta=0.01).leaves
    8
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]
    branching: Annotated[int, Field(ge=2)] = 2
    shares: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0, 1.0, 1.0)

    block: ClassVar[int] = 1000

    @property
    def rho(self) -> float:
        """The zCDP budget behind (ε, δ)."""
        return rho_from_eps_delta(self.eps, self.delta)

    @property
    def leaves(self) -> int:
        """Number of cells of the lowest level."""
        return int(self.branching ** len(self.shares))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of cells of each level."""
        return tuple(self.branching ** (level + 1) for level in range(len(self.shares)))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ρ-zCDP, and the (ε, δ) that it implies, for a record that moves."""
        return (
            Claim(ZCDP(), self.rho, neighbours="replace_one"),
            Claim(ApproximateDP(self.delta), self.eps, neighbours="replace_one"),
        )

    def counts(self, data: Any) -> Array:
        """(k,) the counts of the cells of all levels, from the top down."""
        leaf = categories(data, self.leaves)
        levels = [np.bincount(leaf * size // self.leaves, minlength=size) for size in self.sizes]
        return np.concatenate(levels)

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if a record is not a leaf."""
        for data in setup.data_sets:
            self.counts(data)

    def added_sigma(self, sigma: float) -> float:
        """σ of the noise that is added where the claim asks for ``sigma``."""
        return sigma

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> NoisyCells:
        """``trials`` sets of noisy counts of the records ``data``."""
        added_sigmas = [self.added_sigma(sigma) for sigma in self._charged_sigmas(trials)]
        names: list[str] = []
        noise = []
        for level, (sigma, size) in enumerate(zip(added_sigmas, self.sizes, strict=True)):
            names += [f"level {level} cell {cell}" for cell in range(size)]
            noise.append(sample(sigma, (trials, size), rng))
        noisy = self.counts(data) + np.hstack(noise).astype(float)
        sigma_of_cell = np.repeat(added_sigmas, self.sizes)
        return NoisyCells(tuple(names), noisy, sigma_of_cell, len(numbers(data)), self.counts)

    def _charged_sigmas(self, trials: int) -> list[float]:
        """σ of each level, as the claim asks for, charged to a ledger that must close."""
        ledger = Ledger(self.rho, trials)
        sigmas = []
        for level, share in enumerate(self.shares):
            level_rho = self.rho * share / math.fsum(self.shares)
            sigma = math.sqrt(2 / (2 * level_rho))
            ledger.spend(f"level {level}", 2 / (2 * sigma**2))
            sigmas.append(sigma)
        ledger.close()
        return sigmas
