"""Which word an audit ends with.

The words in their order of precedence, each with the error rate that ``benchmarks/verdicts.py``
measures:

- ``failed``: every run of both data sets put out one and the same.
- ``violation``: the bound of the recipe that tests the claim exceeds it. Wrong with probability ≤
  its significance.
- ``violation (computed)``: the exact tradeoff curve of the pair is known and exceeds the claim: no
  statistics needed.
- ``suspicious``: finite-sample bounds at 10 %, as a family, exceed the claim, and the test of the
  claim does not.
- ``loose``: the attack's 95 % upper limit is below 80 % of the claim. Wrong in ≤ 5 % where the
  attack reaches the claim.
- ``tight``: it is not, and the lower one is above half of the claim. Wrong in ≤ 5 % where the truth
  is half of the claim.
- ``inconclusive``: these trials could not tell the last two apart.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from audit import privacy
from audit.core import Array, Bound, Claim, Counts, Efficiency, Strength, Verdict
from audit.judgement.power import references, target_mu
from audit.judgement.strength import CONFIDENCE, HALF, TIGHT
from audit.privacy import ZCDP

ROUNDING = 1e-9
"""Probability by which a computed curve may lie below a claimed one through rounding alone."""


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a verdict rests on.

    Args:
        claim: the mechanism's first.
        accusing: bound of the recipe that tests the claim, in the claim's notion.
        family: the largest of the finite-sample bounds at 10 % as a family; None where it was not
            needed.
        strength: what the attack shows, in the claim's parameter; None where that has no meaning.
        efficiency: beside the exact likelihood ratio; None where that is not known.
        counts: of the test.
        computed: what the pair's exact curve needs, where that is known and more than the claim.
        one_event: what every single run put out, where that was one and the same.
    """

    claim: Claim
    accusing: Bound
    counts: Counts
    family: Bound | None = None
    strength: Strength | None = None
    efficiency: Efficiency | None = None
    computed: float | None = None
    one_event: str | None = None


def judge(found: Findings) -> Verdict:
    """The first word that fits, and why."""
    claim, accusing, strength = found.claim, found.accusing, found.strength
    if found.one_event is not None:
        return Verdict(
            "failed",
            f"Nothing was audited: every run of both data sets {found.one_event}.",
            accusing,
        )
    if accusing.lower > claim.parameter:
        return Verdict("violation", _violation(found), accusing, strength)
    if found.computed is not None:
        return Verdict("violation (computed)", _computed(found, found.computed), accusing, strength)
    if math.isinf(claim.parameter):
        return Verdict("inconclusive", _nothing_promised(found), accusing, strength)
    if found.family is not None and found.family.lower > claim.parameter:
        return Verdict("suspicious", _suspicious(found, found.family), accusing, strength)
    if strength is None:
        reason = (
            f"No violation found: the bound is {accusing.notion.label(accusing.lower)}, the claim "
            f"{claim}."
        )
        return Verdict("inconclusive", reason, accusing)
    if strength.upper < TIGHT * claim.parameter:
        return Verdict(
            "loose",
            f"No violation found. {_shown(claim, strength)} {cause(found)}",
            accusing,
            strength,
        )
    if strength.lower > HALF * claim.parameter:
        reason = f"No violation found, and little room below the claim. {_shown(claim, strength)}"
        return Verdict("tight", reason, accusing, strength)
    return Verdict(
        "inconclusive",
        f"No violation found. {_shown(claim, strength)} {_too_few()}",
        accusing,
        strength,
    )


def computed_excess(exact: tuple[Array, Array] | None, claim: Claim) -> float | None:
    """The parameter that a pair's exact curve needs, where it lies below the claimed curve by more
    than rounding.

    Args:
        exact: (alpha, beta), each (k,); None where it is not known.
        claim: that is judged.

    >>> from audit.privacy import GDP
    >>> alpha = np.linspace(0, 1, 101)
    >>> curve = (alpha, np.asarray(GDP().beta(alpha, 0.6)))
    >>> computed_excess(curve, Claim(GDP(), 0.6))
    >>> round(computed_excess(curve, Claim(GDP(), 0.5)), 6)
    0.6
    """
    if exact is None or math.isinf(claim.parameter):
        return None
    alpha, beta = exact
    below = np.asarray(claim.notion.beta(alpha, claim.parameter)) - beta > ROUNDING
    if not below.any():
        return None
    return float(np.max(claim.notion.parameter(alpha[below], beta[below])))


# --- why ------------------------------------------------------------------------------------------


def _violation(found: Findings) -> str:
    accusing = found.accusing
    reason = (
        f"It leaks more than it claims: at least {accusing.notion.label(accusing.lower)} against "
        f"{found.claim} ({accusing.estimator}, {accusing.kind}; wrong in at most "
        f"{_percent(accusing.significance)} of audits)."
    )
    return reason + _explain_infinite_estimate(found.counts)


def _explain_infinite_estimate(counts: Counts) -> str:
    """That the point estimate behind a violation is infinite, where it is; the bound stays
    finite."""
    if not math.isinf(privacy.mu_hat(counts.fpr, counts.fnr)):
        return ""
    total, side, called = counts.fp + counts.tn, "absent", "present"
    if counts.fp:
        total, side, called = counts.fn + counts.tp, "present", "absent"
    return (
        f" The leak may be infinite: not one of {total:,} {side} trials was called {called}, as "
        "where an event happens under one data set only."
    )


def _computed(found: Findings, parameter: float) -> str:
    needs = (
        found.claim.notion.label(parameter) if math.isfinite(parameter) else "an infinite parameter"
    )
    return (
        "It leaks more than it claims: the exact tradeoff curve of this pair is known and needs "
        f"{needs} against {found.claim}. This is computed, not estimated; these trials alone "
        f"would not have shown it at {_percent(found.accusing.significance)}."
    )


def _nothing_promised(found: Findings) -> str:
    bound = found.accusing.notion.label(found.accusing.lower)
    return (
        f"It promises {found.claim}, which nothing exceeds: the bound is {bound}, and there is "
        "nothing to judge."
    )


def _suspicious(found: Findings, family: Bound) -> str:
    accusing = found.accusing
    return (
        "Chance or a leak: the finite-sample bounds at 10 % reach "
        f"{family.notion.label(family.lower)} against {found.claim} ({family.estimator}), the one "
        f"at {_percent(accusing.significance)} only {accusing.notion.label(accusing.lower)}."
    )


def _shown(claim: Claim, strength: Strength) -> str:
    """What the attack shows, beside the claim, with its error."""
    symbol, claimed = claim.notion.symbol, claim.parameter
    if math.isinf(strength.estimate):
        return (
            f"The attack made no error of one kind: its estimate of {symbol} is infinite, and "
            f"what {CONFIDENCE:.0%} of such audits prove is {strength.lower:.4g}."
        )
    share = f", {strength.estimate / claimed:.0%} of the claim" if claimed > 0 else ""
    return (
        f"The attack shows {symbol} = {strength.estimate:.4g} ± "
        f"{strength.standard_error:.2g}{share} ({CONFIDENCE:.0%} limits {strength.lower:.4g} and "
        f"{strength.upper:.4g})."
    )


def _too_few() -> str:
    return "These trials fit an attack at half of the claim as well as one at 80 % of it."


def cause(found: Findings) -> str:
    """What keeps a loose audit below its claim: the attack, its threshold, chance, or the
    mechanism."""
    efficiency, claim = found.efficiency, found.claim
    if efficiency is None:
        return (
            "There is no exact likelihood ratio to compare with, so a weak attack, a bad "
            "threshold and a mechanism that leaks less look alike."
        )
    if efficiency.ranking < TIGHT:
        return (
            f"The cause is the attack: it ranks trials at {efficiency.ranking:.0%} of the optimal "
            "test."
        )
    if efficiency.threshold < TIGHT * efficiency.ranking:
        return (
            f"The cause is the threshold: the attack ranks trials at {efficiency.ranking:.0%} of "
            f"the optimal test, and its threshold keeps {efficiency.threshold:.0%}."
        )
    if efficiency.possible + 1.645 * efficiency.error < TIGHT * target_mu(
        claim, references((claim,))[0]
    ):
        return (
            "The cause is the mechanism: on this pair the exact likelihood ratio itself shows a "
            f"μ of only {efficiency.possible:.3f}."
        )
    if isinstance(claim.notion, ZCDP):
        return "The cause is the single threshold: of the ρ of a Gaussian it keeps about 64 %."
    return "The attack is near the optimal test, so the cause is the threshold, or chance."


def _percent(value: float) -> str:
    return f"{100 * value:.4g} %"
