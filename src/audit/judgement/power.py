"""What an audit could find, computed by the recipe that tests its claim."""

from __future__ import annotations

import math

from audit import privacy
from audit.accountants import ExPostRDP
from audit.core import Claim, Estimator, Power
from audit.estimators.power import detectable, trials_needed
from audit.privacy import GDP, ZCDP, ApproximateDP, Notion


def references(claims: tuple[Claim, ...]) -> tuple[float | None, float | None]:
    """Implied and direct mu: √(2ρ) through zCDP, and the μ whose GDP curve passes through the
    claimed (ε, δ).

    Reference lines: only a composition of Gaussian mechanisms is √(2ρ)-GDP.
    """
    by_notion = {type(claim.notion): claim for claim in reversed(claims) if not claim.numerical}
    implied = direct = None
    if ApproximateDP in by_notion:
        claim = by_notion[ApproximateDP]
        assert isinstance(claim.notion, ApproximateDP)
        delta = claim.notion.delta
        if math.isinf(claim.parameter):
            direct = math.inf
        elif delta > 0:  # through (ε, 0) goes no GDP curve but that of μ = 0, which says nothing
            direct = privacy.direct_mu(claim.parameter, delta)
    if GDP in by_notion:
        implied = by_notion[GDP].parameter
    elif ZCDP in by_notion:
        implied = privacy.implied_mu(by_notion[ZCDP].parameter)
    return implied, direct


def target_mu(claim: Claim, implied: float | None) -> float:
    """The μ that an audit hopes to see: the implied one, else that of the claim's point
    fpr = fnr."""
    if implied is not None:
        return implied
    miss = 1 - privacy.max_accuracy(claim.notion, claim.parameter)
    return float(privacy.mu_hat(miss, miss))


def power_of(
    claims: tuple[Claim, ...],
    shown: Estimator,
    test: Estimator | None,
    absent: int,
    present: int,
    efficiency: float = 1.0,
) -> Power:
    """What so many test trials could find.

    Args:
        claims: of the mechanism; the first is judged.
        shown: the recipe behind mu_emp.
        test: the recipe that tests the claim; None where its power is not known, as in audits of
            one run.
        absent, present: test trials of each side.
        efficiency: share of the optimal test's μ that the attack reaches at its threshold; 1 for a
            perfect attack.
    """
    claim = claims[0]
    target = target_mu(claim, references(claims)[0])
    expected = shown.expected(GDP(), target, absent, present)
    if test is None or isinstance(claim.notion, ExPostRDP):
        return Power(claim.notion, expected, None, None)
    share = in_own_parameter(claim.notion, efficiency)
    least = detectable(test, claim.notion, claim.parameter, absent, present, efficiency=share)
    needed = trials_needed(test, claim.notion, claim.parameter, efficiency=share)
    return Power(claim.notion, expected, least, needed)


def in_own_parameter(notion: Notion, efficiency: float) -> float:
    """A share of μ as a share of the notion's own parameter: ρ = μ²/2 goes with its square, ε about
    with itself."""
    return efficiency**2 if isinstance(notion, ZCDP) else efficiency
