"""What somebody says of a mechanism of their own: one claim, in one notion of privacy, under one neighbouring relation."""

from __future__ import annotations

from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Claim, Neighbours
from audit.privacy import GDP, STRICT, ZCDP, ApproximateDP, PrivacyParameter, PureDP

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Delta = Annotated[float, Field(ge=0, lt=1)]
Block = Annotated[int, Field(ge=2, le=1_000_000, multiple_of=2)]
"""Trials that are kept or lost together; a block is played and held in memory as a whole, however few were asked for."""


@runtime_checkable
class Promise(Protocol):
    """An option of the group ``mechanism/claim``."""

    @property
    def claim(self) -> Claim:
        """What is judged."""
        ...


@dataclass(frozen=True, config=STRICT)
class Approximate:
    """(ε, δ)-DP.

    Args:
        eps: ε > 0.
        delta: 0 ≤ δ < 1.
        neighbours: the relation that it is promised under.

    >>> print(Approximate(eps=1, delta=0.01).claim)
    (1, 0.01)-DP
    """

    eps: PrivacyParameter
    delta: Delta
    neighbours: Neighbours = "add_remove"

    @property
    def claim(self) -> Claim:
        """ε at δ."""
        return Claim(ApproximateDP(self.delta), self.eps, neighbours=self.neighbours)


@dataclass(frozen=True, config=STRICT)
class Pure:
    """ε-DP.

    Args:
        eps: ε > 0.
        neighbours: the relation that it is promised under.
    """

    eps: PrivacyParameter
    neighbours: Neighbours = "add_remove"

    @property
    def claim(self) -> Claim:
        """ε."""
        return Claim(PureDP(), self.eps, neighbours=self.neighbours)


@dataclass(frozen=True, config=STRICT)
class GaussianDP:
    """μ-GDP.

    Args:
        mu: μ > 0.
        neighbours: the relation that it is promised under.
    """

    mu: PrivacyParameter
    neighbours: Neighbours = "add_remove"

    @property
    def claim(self) -> Claim:
        """μ."""
        return Claim(GDP(), self.mu, neighbours=self.neighbours)


@dataclass(frozen=True, config=STRICT)
class Concentrated:
    """ρ-zCDP.

    Args:
        rho: ρ > 0.
        neighbours: the relation that it is promised under.
    """

    rho: PrivacyParameter
    neighbours: Neighbours = "add_remove"

    @property
    def claim(self) -> Claim:
        """ρ."""
        return Claim(ZCDP(), self.rho, neighbours=self.neighbours)
