"""What mechanisms that are given (ε, δ) claim, the judged claim first."""

from __future__ import annotations

from audit.core import Claim
from audit.privacy import GDP, ZCDP, ApproximateDP, implied_mu, rho_from_eps_delta


def of_gaussians(eps: float, delta: float) -> tuple[Claim, ...]:
    """Of a composition of Gaussian mechanisms at ρ(ε, δ): √(2ρ)-GDP, and what follows from it."""
    rho = rho_from_eps_delta(eps, delta)
    return (Claim(GDP(), implied_mu(rho)), Claim(ZCDP(), rho), Claim(ApproximateDP(delta), eps))


def of_selection(eps: float, delta: float, tighter: float) -> tuple[Claim, ...]:
    """With private selection at ρ(ε, δ): zCDP, which is proved; (ε, δ), which it implies; a GDP curve, only computed.

    Args:
        tighter: μ of that curve.
    """
    rho = rho_from_eps_delta(eps, delta)
    return (Claim(ZCDP(), rho), Claim(ApproximateDP(delta), eps), Claim(GDP(), tighter, numerical=True))
