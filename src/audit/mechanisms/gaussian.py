"""One count with Gaussian noise: the mechanism whose tradeoff curve is known exactly."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Claim, Columns, Table
from audit.mechanisms import claims
from audit.mechanisms.ledger import Ledger
from audit.mechanisms.queries import count
from audit.privacy import GDP, STRICT, PrivacyParameter, implied_mu, rho_from_eps_delta


@dataclasses.dataclass(frozen=True)
class NoisyCount:
    """Noisy numbers of records, one a run; log-likelihood ratios are exact.

    Args:
        noisy: (n,) counts with noise.
        sigma: standard deviation of the noise that is in them.
    """

    noisy: Array
    sigma: float

    def public(self) -> Columns:
        """(n, 1) the noisy counts."""
        return Columns(("count",), self.noisy[:, None])

    def insider(self) -> Columns:
        """(n, 1) the same: nothing is hidden."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array:
        """(n,) (y·(b − a) − (b² − a²)/2)/σ² for the true counts a and b."""
        a = count(absent)
        b = count(present)
        return (self.noisy * (b - a) - (b * b - a * a) / 2) / self.sigma**2


@dataclass(frozen=True, config=STRICT)
class Gaussian:
    """The number of records plus N(0, 1/μ²), μ = √(2ρ(ε, δ)): exactly μ-GDP under add/remove.

    Args:
        eps: ε of the claim, which with ``delta`` fixes ρ of zCDP.
        delta: δ of the claim.

    >>> noisy = Gaussian(eps=1, delta=0.01).release(np.zeros(10), 3, np.random.default_rng(0))
    >>> noisy.public().values.round(2).tolist()
    [[10.28], [9.71], [11.41]]
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]

    block: ClassVar[int] = 1000

    @property
    def rho(self) -> float:
        """The zCDP budget behind (ε, δ)."""
        return rho_from_eps_delta(self.eps, self.delta)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """μ-GDP, which is exact, and what follows from it."""
        return claims.of_gaussians(self.eps, self.delta)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise that the claim asks for."""
        return 1 / implied_mu(self.rho)

    @property
    def added_sigma(self) -> float:
        """Standard deviation of the noise that is added."""
        return self.sigma

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> NoisyCount:
        """``trials`` noisy counts of the records of ``data``."""
        ledger = Ledger(self.rho, trials)
        ledger.spend("count", 1 / (2 * self.sigma**2))
        ledger.close()
        noise = rng.normal(0.0, self.added_sigma, size=trials)
        return NoisyCount(count(data) + noise, self.added_sigma)

    def tradeoff(self, alpha: ArrayLike, absent: Any, present: Any) -> Any:
        """Exact least FNR at FPR ``alpha`` between these data sets, with the noise that is
        added."""
        return GDP().beta(alpha, self.mu_between(absent, present))

    def mu_between(self, absent: Any, present: Any) -> float:
        """The μ of these two data sets: how many standard deviations their counts are apart."""
        shift = abs(float(count(present)[0] - count(absent)[0]))
        return shift * implied_mu(self.rho)
