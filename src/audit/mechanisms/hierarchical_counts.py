"""Census-style counts: at every level of a tree, with discrete Gaussian noise, and the total as it is.

Its sampler is for audits, not for release.
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
        """(n,) Σ (y·(b − a) − (b² − a²)/2)/σ² over the cells: whole-number shifts leave the normaliser as it is."""
        a, b = self.truth(absent), self.truth(present)
        precision = self.sigma**-2
        return self.noisy @ ((b - a) * precision) - np.sum((b**2 - a**2) / 2 * precision)


@dataclass(frozen=True, config=STRICT)
class HierarchicalCounts:
    """Counts at each level of a tree plus discrete Gaussian noise, and the exact total: ρ-zCDP when a record moves.

    A record is a leaf, 0 … branching^levels − 1. One that moves changes two cells of a level by 1 each, so a level
    with the share ρ_l has σ² = 2/(2ρ_l). Totals are kept, hence replace-one neighbours: whether somebody is counted
    at all is no secret here.

    Args:
        eps: what is claimed, with ``delta``, by way of ρ-zCDP.
        delta: as above.
        branching: children of a node.
        shares: of ρ, one a level from the top down, in any unit.
        noise_scale: share of σ that is really added: 1 is honest; less is a bug to be found.

    References:
        Abowd et al., The 2020 Census disclosure avoidance system TopDown algorithm, HDSR 2022, arXiv:2204.08986 (one
        query a level, and none of its post-processing).

    >>> HierarchicalCounts(eps=1, delta=0.01).leaves
    8
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]
    branching: Annotated[int, Field(ge=2)] = 2
    shares: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0, 1.0, 1.0)
    noise_scale: Positive = 1.0

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
        return np.concatenate([np.bincount(leaf * size // self.leaves, minlength=size) for size in self.sizes])

    def check_setup(self, setup: Setup) -> None:
        """Records that are leaves."""
        for data in setup.data_sets:
            self.counts(data)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> NoisyCells:
        """``trials`` sets of noisy counts of the records ``data``."""
        ledger, sigmas = Ledger(self.rho, trials), []
        for level, share in enumerate(self.shares):
            part = self.rho * share / math.fsum(self.shares)
            sigmas.append(math.sqrt(2 / (2 * part)))
            ledger.spend(f"level {level}", 2 / (2 * sigmas[-1] ** 2))
        ledger.close()
        real = [self.noise_scale * sigma for sigma in sigmas]
        noise = [sample(sigma, (trials, size), rng) for sigma, size in zip(real, self.sizes, strict=True)]
        names = tuple(f"level {level} cell {cell}" for level, size in enumerate(self.sizes) for cell in range(size))
        noisy = self.counts(data) + np.hstack(noise).astype(float)
        return NoisyCells(names, noisy, np.repeat(real, self.sizes), len(numbers(data)), self.counts)
