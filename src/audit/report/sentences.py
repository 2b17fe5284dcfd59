"""Numbers and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit.core import Bound, MeasuredCoverage, Result, relation
from audit.criteria import sweep
from audit.privacy import mu_hat

CORNER = 10  # a threshold chosen by this few selection errors is chosen by luck


def number(value: float | None, digits: int = 4) -> str:
    """``value`` for people: a fixed number of decimals, and words for what has none.

    >>> number(0.40351), number(None), number(math.inf), number(-math.inf), number(math.nan)
    ('0.4035', '–', '∞', '−∞', 'undefined')
    """
    if value is None:
        return "–"
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}f}"


def percent(value: float) -> str:
    """A share in per cent, without needless zeros.

    >>> percent(0.1), percent(0.01), percent(0.005)
    ('10 %', '1 %', '0.5 %')
    """
    return f"{100 * value:.4g} %"


def tightness(result: Result) -> float | None:
    """mu_emp / implied mu; None where there is nothing to divide by."""
    implied = result.mu_implied
    return result.bounds[0].lower / implied if implied and math.isfinite(implied) else None


def bound_rows(result: Result) -> list[tuple[str, str, str, str]]:
    """The bounds in words, one a row: recipe, lower bound, error probability, kind. mu_emp comes
    first."""

    def row(bound: Bound, role: str) -> tuple[str, str, str, str]:
        told = f"{role} ({bound.estimator})" if role else bound.estimator
        value = bound.notion.label(bound.lower)
        return (
            told,
            value,
            percent(bound.significance),
            bound.kind + (", anytime" if bound.anytime else ""),
        )

    named = [row(bound, "" if place else "mu_emp") for place, bound in enumerate(result.bounds)]
    return [*named, row(result.verdict.accusing, "accusing")]


def claim_words(result: Result) -> list[str]:
    """The claims in words; the first one says that it is the one that is judged, and for which
    neighbours."""
    first, *others = result.claims
    return [f"{first} (judged, {relation(first.neighbours)})", *map(str, others)]


def why_collapsed(result: Result) -> str | None:
    """Why a threshold that looked good on the selection trials shows nothing on the test trials,
    where that is so.

    Near a corner μ̂ is the difference of two far quantiles: a handful of errors decides it.
    """
    fold = result.evidence.folds[0]
    if fold.selection is None or not len(fold.selection.absent) or not len(fold.selection.present):
        return None
    chosen, kept = fold.selection.count(fold.threshold), result.bounds[0].lower
    promised = float(mu_hat(chosen.fpr, chosen.fnr))
    _, fpr, fnr = sweep(fold.selection, 200)
    # at the threshold of the largest advantage
    ordinary = float(mu_hat(fpr, fnr)[np.argmin(fpr + fnr)])
    if (
        min(chosen.fp, chosen.fn, chosen.tp, chosen.tn) > CORNER
        or not promised > ordinary > 2 * kept
    ):
        return None
    return (
        f"The threshold lies in a corner: of the selection trials it calls {chosen.fp} of "
        f"{chosen.fp + chosen.tn} absent and {chosen.tp} of {chosen.fn + chosen.tp} present ones "
        "present. There mu_hat is a difference of two far quantiles, which a handful of trials "
        f"decides, so a lucky one wins: it is {number(promised, 3)} on the selection trials, "
        f"{number(result.mu_hat, 3)} on the test trials, with a bound of {kept:.3f}."
    )


def next_words(result: Result) -> str:
    """What to do next, with the command for it and what it costs; "" where nothing is left to
    do."""
    step = result.next_step
    if step is None:
        return ""
    lines = [f"next  {step.why}"]
    if step.command:
        lines += [f"      {step.command}", f"      ({step.cost})"]
    return "\n".join(lines)


def remarks(result: Result, over_claims_only: bool = False) -> list[str]:
    """Every sentence that must stand beside the numbers, once each.

    Args:
        result: of one audit.
        over_claims_only: leave out the coverage of bounds that do not over-claim, which the page
            has in a table.
    """
    sentences = list(result.notes)
    collapsed = why_collapsed(result)
    if collapsed is not None:
        sentences.insert(0, collapsed)
    for role, bound in (("mu_emp", result.bounds[0]), ("accusing", result.verdict.accusing)):
        coverage = bound.measured
        if coverage is not None and (coverage.rare_below is not None or not over_claims_only):
            sentences.append(f"{role} ({bound.estimator}): {coverage_words(coverage)}")
    for bound in result.bounds:
        sentences += bound.warnings
    sentences += [f"Left out: {name}: {reason}" for name, reason in result.refused.items()]
    return list(dict.fromkeys(sentences))


def coverage_words(coverage: MeasuredCoverage) -> str:
    """How often bounds like one were too high in simulated audits.

    >>> coverage_words(MeasuredCoverage(0.108, 0.1, 7, 1000))
    'in simulation too high in at most 10.8 % of audits (nominal 10 %; 7 cells, 1000 trials a side)'
    """
    rate = f"{100 * coverage.rate:.1f} % of audits"
    measured_on = (
        f"(nominal {percent(coverage.nominal)}; {coverage.cells} cells, {coverage.trials} trials "
        "a side)"
    )
    if coverage.rare_below is None:
        return f"in simulation too high in at most {rate} {measured_on}"
    return (
        f"it over-claims where fewer than {coverage.rare_below} errors of a kind are expected: "
        f"in simulation too high in {rate} {measured_on}"
    )


def distinct(names: Sequence[str]) -> list[str]:
    """Names without the words that all of them share, or only their cases (``case: …``) where these
    are all different.

    >>> distinct(["mst eps=1 xgboost", "mst eps=2 xgboost"])
    ['eps=1', 'eps=2']
    >>> distinct(["mst eps=1"])
    ['mst eps=1']
    >>> distinct(["a: mst", "b: aim"])
    ['a', 'b']
    """
    cases = [name.partition(":")[0] for name in names]
    if len(set(cases)) == len(names) > 1 and all(":" in name for name in names):
        return cases
    split = [name.split() for name in names]
    shared = set.intersection(*map(set, split)) if len(set(names)) > 1 else set()
    short = [" ".join(word for word in words if word not in shared) for words in split]
    return [kept or name for kept, name in zip(short, names, strict=True)]


def percent_of(share: float | None) -> str:
    """A share in per cent with one decimal.

    >>> percent_of(0.58994), percent_of(None), percent_of(math.nan)
    ('59.0 %', '–', 'undefined')
    """
    if share is None:
        return "–"
    return "undefined" if math.isnan(share) else f"{100 * share:.1f} %"
