"""Every bound that the evidence allows, and the one that can declare a violation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from audit.accountants import ExPostRDP
from audit.core import (
    AuditError,
    Bound,
    Claim,
    Estimator,
    Evidence,
    NotApplicable,
    WrongEvidence,
    progressive,
)
from audit.coverage.table import look_up
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.ex_post import ExPost
from audit.estimators.one_run import OneRun
from audit.estimators.whole_score import WholeScore
from audit.privacy import GDP, Notion

SUSPICION = 0.1
"""Error probability of all finite-sample bounds together that make a claim suspicious."""


def bound_all(
    estimators: tuple[Estimator, ...], evidence: Evidence, claims: tuple[Claim, ...]
) -> tuple[tuple[Bound, ...], dict[str, str]]:
    """Every estimator in GDP and in every claimed notion; and those that have no bound at all, with
    the reason.

    Raises:
        AuditError: when the first estimator, which is behind mu_emp, refuses the evidence.
    """
    notions: list[Notion] = list(dict.fromkeys([GDP(), *(claim.notion for claim in claims)]))
    bounds: list[Bound] = []
    refused: dict[str, NotApplicable] = {}
    for estimate in estimators:
        reasons = []
        for notion in notions:
            try:
                bounds.append(estimate(evidence, notion))
            except NotApplicable as reason:
                reasons.append(reason)
        if len(reasons) == len(notions):  # one that is made for some notions only is no news
            refused[estimate.name] = reasons[0]
    first = estimators[0].name
    if not bounds or bounds[0].estimator != first or not isinstance(bounds[0].notion, GDP):
        why = refused.get(first, "it has no bound in GDP")
        raise AuditError(f"estimator={first} cannot give mu_emp: {why}")
    reasons_to_show = {
        name: str(reason)
        for name, reason in refused.items()
        if not isinstance(reason, WrongEvidence)
    }
    return tuple(measured(bound, evidence) for bound in bounds), reasons_to_show


def in_order(chosen: Estimator, others: Sequence[Estimator]) -> tuple[Estimator, ...]:
    """The one behind mu_emp first: the chosen one, or Clopper–Pearson where that has no bound in μ.

    That is so for reports of spent privacy, and for bets on the whole score, which are for ε.
    """
    if not isinstance(chosen, ExPost | WholeScore):
        return (chosen, *others)
    behind = ClopperPearson(significance=chosen.significance)
    return (behind, chosen, *(other for other in others if other.name != behind.name))


def measured(bound: Bound, evidence: Evidence) -> Bound:
    """A bound with what the coverage table says of bounds like it."""
    return dataclasses.replace(bound, measured=look_up(bound, evidence.counts))


def test_claim(estimate: Estimator, evidence: Evidence, notion: Notion) -> Bound:
    """The bound that can declare a violation: on everything where ``estimate`` can read it.

    Otherwise at the same significance: the right guesses of one run, betting where folds follow
    each other or the number of trials depended on the data, and else the last fold alone: one
    attack, and as many trials as were planned. Whether reports of spent privacy are true, `ExPost`
    alone can tell.
    """
    significance = estimate.significance
    if isinstance(notion, ExPostRDP):
        return ExPost(significance=significance)(evidence, notion)
    try:
        return estimate(evidence, notion)
    except NotApplicable:
        if evidence.one_run:
            return OneRun(significance=significance)(evidence, notion)
        if evidence.stopped or progressive(evidence.folds):
            return Betting(significance=significance)(evidence, notion)
        return estimate(Evidence(evidence.folds[-1:]), notion)


def with_significance(estimate: Estimator, significance: float) -> Estimator:
    """The same recipe at another error probability."""
    return dataclasses.replace(cast(Any, estimate), significance=significance)


def suspicion(
    test: Estimator,
    others: Sequence[Estimator],
    evidence: Evidence,
    bounds: Sequence[Bound],
    notion: Notion,
) -> Bound:
    """The largest finite-sample bound of a family that is wrong with probability ≤ 10 % all
    together.

    The recipe that tests the claim gets one half of that, since it is the sharpest; all others
    share the other half (Bonferroni). Bayesian and asymptotic bounds have no say.

    Args:
        test: the recipe that tests the claim.
        others: every estimator of the audit.
        evidence: of the audit.
        bounds: of ``others``, which say which of them are finite-sample in this notion.
        notion: of the claim.
    """
    half = SUSPICION / 2
    family = [test_claim(with_significance(test, half), evidence, notion)]
    finite = {
        bound.estimator
        for bound in bounds
        if bound.kind == "finite-sample" and bound.notion == notion
    }
    sharing = [estimate for estimate in others if estimate.name in finite - {family[0].estimator}]
    family += [
        with_significance(estimate, half / len(sharing))(evidence, notion) for estimate in sharing
    ]
    return max(family, key=lambda bound: bound.lower)
