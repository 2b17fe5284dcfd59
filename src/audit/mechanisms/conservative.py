"""Mechanisms with more noise than they need: wasteful, and as private as they claim."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.gaussian import Gaussian
from audit.privacy import STRICT


@dataclass(frozen=True, config=STRICT)
class ConservativeBudget(Gaussian):
    """`Gaussian` that spends only 64 % of its budget ρ: its noise is 1/√0.64 = 1.25 times as large.

    >>> mechanism = ConservativeBudget(eps=1, delta=0.01)
    >>> round(mechanism.added_sigma / mechanism.sigma, 12)
    1.25
    """

    @property
    def added_sigma(self) -> float:
        """1.25 times the standard deviation that the claim asks for."""
        return self.sigma * 1.25

    def mu_between(self, absent: object, present: object) -> float:
        """1.25 times nearer than the claim says."""
        return super().mu_between(absent, present) / 1.25


@dataclass(frozen=True, config=STRICT)
class OverestimatedSensitivity(FixedMarginals):
    """`FixedMarginals` for a record that counts twice, so with twice the noise; it counts once.

    >>> OverestimatedSensitivity(eps=1, delta=0.01).added_sigma(3.0)
    6.0
    """

    def added_sigma(self, sigma: float) -> float:
        """Twice the standard deviation that the claim asks for."""
        return 2 * sigma
