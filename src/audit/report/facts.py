"""What stands beside the numbers: what was audited, what could be found, what the parameters
mean."""

from __future__ import annotations

import math

import numpy as np

from audit.core import Bound, Efficiency, Power, Result
from audit.privacy import (
    GDP,
    ZCDP,
    ApproximateDP,
    Notion,
    PureDP,
    eps_from_rho,
    gdp_epsilon,
    max_accuracy,
    max_posterior,
    max_tpr,
)
from audit.report.controls import control_of
from audit.report.curves import tradeoff
from audit.report.sentences import (
    bound_rows,
    claim_words,
    coverage_words,
    number,
    percent,
    percent_of,
)


def facts(result: Result) -> list[tuple[str, str]]:
    """What was audited and what was measured, in words."""
    counts, of = result.evidence.counts, tested(result)
    return [
        ("audited", result.challenge),
        ("claims", ", ".join(claim_words(result))),
        (
            "fpr",
            f"{number(counts.fpr)}  ({counts.fp} of {counts.fp + counts.tn} absent {of} called "
            "present)",
        ),
        (
            "fnr",
            f"{number(counts.fnr)}  ({counts.fn} of {counts.fn + counts.tp} present {of} called "
            "absent)",
        ),
        *_mu_facts(result),
        *_exact_facts(result),
        (
            "perfect attack",
            f"{number(result.power.expected)}  (the mu_emp to expect from one with as many {of})",
        ),
        ("attack efficiency", _efficiency_words(result)),
        *(
            []
            if result.evidence.one_run
            else [("power", power_words(result.power, result.efficiency))]
        ),
        *_control_facts(result),
    ]


def tested(result: Result) -> str:
    """What is guessed about: trials, or the canaries of one run."""
    return "canaries" if result.evidence.one_run else "trials"


def _mu_facts(result: Result) -> list[tuple[str, str]]:
    """The point estimate and the reference lines; canaries of one run are no pair, and have no
    direct mu."""
    hat, implied = number(result.mu_hat), ("implied mu", number(result.mu_implied))
    if result.evidence.one_run:
        told = (
            f"{hat}  (of all guesses together: the canaries share one run, so its error is not "
            "known)"
        )
        return [("mu_hat", told), *([] if result.mu_implied is None else [implied])]
    shown = result.bounds[0]
    return [
        ("mu_hat", f"{hat} ± {number(result.errors[0])}  (estimate and standard error)"),
        ("mu_emp", f"{number(shown.lower)} ± {number(result.errors[1])}  ({bound_words(shown)})"),
        implied,
        ("direct mu", number(result.mu_direct)),
    ]


def _exact_facts(result: Result) -> list[tuple[str, str]]:
    """The true parameters of this pair, where its exact tradeoff curve is known."""
    if result.exact is None:
        return []
    claimed = result.claims[0].notion
    most = [
        (notion, float(np.max(notion.parameter(*result.exact))))
        for notion in dict.fromkeys((claimed, GDP()))
    ]
    told = " and ".join(
        notion.label(parameter) if parameter < math.inf else "no bound"
        for notion, parameter in most
    )
    return [("exact", f"{told}  (true of this pair: no attack shows more)")]


def _control_facts(result: Result) -> list[tuple[str, str]]:
    """Of a control: what must be found, and where such a bug was seen."""
    control = control_of(result)
    truth = control.get("truth")
    known = (
        ""
        if truth is None
        else f"; {result.claims[0].notion.symbol} is {number(float(truth), 3)} in truth"
    )
    told = {"expected verdict": control.get("expected"), "seen": control.get("seen")}
    return [
        (name, f"{value}{known if name != 'seen' else ''}") for name, value in told.items() if value
    ]


def _efficiency_words(result: Result) -> str:
    """Of the ranking, and of the threshold that was chosen, each with its lower 5 % limit."""
    efficiency = result.efficiency
    if efficiency is None:
        return "unknown  (no exact likelihood ratio to compare with)"
    ranking = (
        f"ranking {percent_of(efficiency.ranking)} (at least {percent_of(efficiency.ranking_low)})"
    )
    threshold = (
        f"threshold {percent_of(efficiency.threshold)} (at least "
        f"{percent_of(efficiency.threshold_low)})"
    )
    return f"{ranking}, {threshold} of the optimal test"


def power_words(power: Power, efficiency: Efficiency | None) -> str:
    """What would be detected, and what it takes."""
    if power.detectable is None or power.needed is None:
        return (
            "not computed for this kind of audit; audit plan says what a perfect attack would "
            "detect"
        )
    attack = "a perfect attack" if efficiency is None else "this attack"
    if math.isinf(power.detectable):
        return f"none: with these trials {attack} detects no violation, however large"
    symbol = power.notion.symbol
    least = f"80 % chance that {attack} detects {symbol} ≥ {power.detectable:.4g}"
    if math.isinf(power.needed):
        return f"{least}; it is too weak to detect 1.25 × the claim"
    return f"{least}; 1.25 × the claim needs {power.needed:,.0f} test trials a side"


def bound_words(bound: Bound) -> str:
    """A bound's recipe and confidence.

    >>> bound_words(Bound("joint_bayes", GDP(), 0.3, 0.1, "Bayesian"))
    'lower bound, 90 %, joint_bayes, and its standard error'
    """
    return (
        f"lower bound, {percent(1 - bound.significance)}, {bound.estimator}, and its standard error"
    )


def meaning(result: Result) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """What a parameter means in plain figures: the claimed one, the measured one, and what this
    attack did.

    The measured one is the first bound in the notion of the judged claim. Both are read from the
    notion's curve; the attack's own rates are plug-in estimates on the test trials.

    Returns:
        (header, rows): what, what the claim allows, what a leak as large as the bound allows, what
        the attack did.
    """
    claim, counts = result.claims[0], result.evidence.counts
    alpha, beta = tradeoff(result.evidence.folds[0].test)
    found = next((b for b in result.bounds if b.notion == claim.notion), result.verdict.accusing)
    parameters = (claim.parameter, found.lower)
    delta = _delta(result)
    cap = [percent_of(_posterior(claim.notion, parameter, delta)) for parameter in parameters]
    guess = [percent_of(max_accuracy(claim.notion, parameter)) for parameter in parameters]
    caught = [percent_of(float(max_tpr(claim.notion, parameter, 0.05))) for parameter in parameters]
    header = (
        "an attacker's",
        f"the claim, {claim}",
        f"the bound, {found.notion.label(found.lower)}",
        "this attack",
    )
    rows = [
        (f"highest posterior, from a 50:50 prior, at δ = {delta:g}", *cap, "–"),
        (
            "best guess rate, from a 50:50 prior",
            *guess,
            percent_of(1 - (counts.fpr + counts.fnr) / 2),
        ),
        (
            "power at a false positive rate of 5 %",
            *caught,
            percent_of(1 - float(np.min(beta[alpha <= 0.05]))),
        ),
    ]
    return header, rows


def _delta(result: Result) -> float:
    """δ of the judged claim, else of another one, else 0.01, for what has to be said at some δ."""
    found = [0.0] if isinstance(result.claims[0].notion, PureDP) else []
    found += [
        claim.notion.delta for claim in result.claims if isinstance(claim.notion, ApproximateDP)
    ]
    return found[0] if found else 0.01


def _posterior(notion: Notion, parameter: float, delta: float) -> float | None:
    """Cap on the belief from 1/2 at the ε that ``parameter`` buys at ``delta``; None where it buys
    none."""
    if isinstance(notion, ApproximateDP | PureDP):
        return max_posterior(parameter)
    if parameter == 0 or delta == 0:
        return 0.5 if parameter == 0 else 1.0
    if math.isinf(parameter):
        return 1.0
    if isinstance(notion, GDP):
        return max_posterior(gdp_epsilon(parameter, delta))
    return max_posterior(eps_from_rho(parameter, delta)) if isinstance(notion, ZCDP) else None


def slack(result: Result) -> list[tuple[str, str]]:
    """How far below the implied μ the bound of a perfect attack is expected: what is lost to
    statistics alone."""
    if result.mu_implied is None or not math.isfinite(result.mu_implied):
        return []
    lost = number(result.mu_implied - result.power.expected)
    return [
        (
            "slack",
            f"{lost}  (statistical: what a perfect attack's bound loses of the implied mu with "
            f"these {tested(result)})",
        )
    ]


def measured_rows(result: Result) -> list[tuple[str, ...]]:
    """The bounds in words, each with its error rate in simulation."""
    bounds = [*result.bounds, result.verdict.accusing]
    return [(*row, _rate(bound)) for row, bound in zip(bound_rows(result), bounds, strict=True)]


def _rate(bound: Bound) -> str:
    return "–" if bound.measured is None else f"{100 * bound.measured.rate:.1f} %"


def measured_words(result: Result) -> list[str]:
    """What was measured of each bound, in whole sentences, once each."""
    claim_test = result.verdict.accusing
    named_bounds = [(bound.estimator, bound) for bound in result.bounds]
    named_bounds.append((f"accusing ({claim_test.estimator})", claim_test))
    sentences = [
        f"{name}, {bound.notion.symbol}: {coverage_words(bound.measured)}"
        for name, bound in named_bounds
        if bound.measured is not None
    ]
    return list(dict.fromkeys(sentences))
