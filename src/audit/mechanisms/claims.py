"""What mechanisms claim: options to state one's own claim, and what (ε, δ) mechanisms claim.

An option says one thing of a mechanism: a notion of privacy, its parameter, and the neighbouring
relation that it holds under.
"""

from __future__ import annotations

from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Claim, Neighbours
from audit.privacy import (
    GDP,
    STRICT,
    ZCDP,
    ApproximateDP,
    PrivacyParameter,
    PureDP,
    implied_mu,
    rho_from_eps_delta,
)

Delta = Annotated[float, Field(ge=0, lt=1)]
Block = Annotated[int, Field(ge=2, le=1_000_000, multiple_of=2)]
"""Trials that are kept or lost together; a block is played and held in memory as a whole."""

# --- options of the group mechanism/claim ---------------------------------------------------------


@runtime_checkable
class ClaimOption(Protocol):
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
        neighbours: the relation that it holds under.

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
        neighbours: the relation that it holds under.
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
        neighbours: the relation that it holds under.
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
        neighbours: the relation that it holds under.
    """

    rho: PrivacyParameter
    neighbours: Neighbours = "add_remove"

    @property
    def claim(self) -> Claim:
        """ρ."""
        return Claim(ZCDP(), self.rho, neighbours=self.neighbours)


# --- claims of mechanisms that are given (ε, δ), the judged claim first ---------------------------


def of_gaussians(eps: float, delta: float) -> tuple[Claim, ...]:
    """Of a composition of Gaussian mechanisms at ρ(ε, δ): √(2ρ)-GDP, and what follows from it."""
    rho = rho_from_eps_delta(eps, delta)
    return (Claim(GDP(), implied_mu(rho)), Claim(ZCDP(), rho), Claim(ApproximateDP(delta), eps))


def of_selection(eps: float, delta: float, tighter: float) -> tuple[Claim, ...]:
    """With private selection at ρ(ε, δ): zCDP, proved; (ε, δ), implied; a GDP curve, only computed.

    Args:
        tighter: μ of that curve.
    """
    rho = rho_from_eps_delta(eps, delta)
    return (
        Claim(ZCDP(), rho),
        Claim(ApproximateDP(delta), eps),
        Claim(GDP(), tighter, numerical=True),
    )
