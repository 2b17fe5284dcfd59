import math

import numpy as np
import pytest

from audit.core import Bound, Claim, Counts, Efficiency, Strength
from audit.judgement.verdict import Findings, cause, computed_excess, judge
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP

CLAIM = Claim(GDP(), 1.0)
COUNTS = Counts(fp=300, tn=700, fn=320, tp=680)
REACHES = Strength(estimate=0.98, standard_error=0.06, lower=0.87, upper=1.08)


def bound(lower, notion=None):
    return Bound("exact", notion or GDP(), lower, 0.01, "finite-sample")


def findings(**changed):
    usual = {"claim": CLAIM, "accusing": bound(0.8), "counts": COUNTS, "strength": REACHES}
    return Findings(**(usual | changed))


def test_the_words_have_an_order_of_precedence():
    """Each line adds what outranks all that stood before."""
    found = {"strength": Strength(0.9, 0.3, 0.4, 1.4)}
    assert judge(findings(**found)).word == "inconclusive"
    found["strength"] = REACHES
    assert judge(findings(**found)).word == "tight"
    found["strength"] = Strength(0.6, 0.06, 0.51, 0.7)
    assert judge(findings(**found)).word == "loose"
    found["family"] = bound(1.01)
    assert judge(findings(**found)).word == "suspicious"
    found["computed"] = 1.2
    assert judge(findings(**found)).word == "violation (computed)"
    found["accusing"] = bound(1.01)
    assert judge(findings(**found)).word == "violation"
    found["one_event"] = "ended in one and the same exception"
    assert judge(findings(**found)).word == "failed"


def test_a_family_that_does_not_exceed_the_claim_raises_no_suspicion():
    assert judge(findings(family=bound(1.0))).word == "tight"


@pytest.mark.parametrize("strength", [REACHES, Strength(math.inf, 0.4, 2.0, math.inf)])
def test_no_sentence_is_infinite_or_empty(strength):
    for changed in ({}, {"computed": math.inf}, {"family": bound(1.3)}, {"accusing": bound(2.0)}):
        reason = judge(findings(strength=strength, **changed)).reason
        assert (
            "inf" not in reason.replace("infinite", "")
            and "nan" not in reason
            and reason.endswith(".")
        )


def test_a_violation_says_how_often_it_is_wrong_and_on_what_it_rests():
    reason = judge(findings(accusing=bound(1.2))).reason
    assert (
        "at least 1.2-GDP against 1-GDP (exact, finite-sample; wrong in at most 1 % of audits)"
        in reason
    )


def test_what_is_loose_names_its_cause():
    def named(ranking, threshold, possible=1.0, notion=CLAIM):
        control = Efficiency(ranking, ranking - 0.05, threshold, threshold - 0.05, possible, 0.04)
        return cause(findings(claim=notion, efficiency=control))

    assert "There is no exact likelihood ratio" in cause(findings())
    assert "The cause is the attack: it ranks trials at 60%" in named(0.6, 0.55)
    # the area under the curve is fine while the threshold loses the signal
    assert "The cause is the threshold" in named(0.97, 0.0)
    assert "The cause is the mechanism" in named(0.97, 0.95, possible=0.5)
    assert "near the optimal test" in named(0.97, 0.95)
    assert "about 64 %" in named(0.97, 0.95, notion=Claim(ZCDP(), 0.5))


def test_nothing_exceeds_a_claim_of_infinity():
    for notion in (GDP(), PureDP(), ApproximateDP(0.01), ZCDP()):
        endless = Claim(notion, math.inf)
        assert judge(findings(claim=endless, accusing=bound(5.0, notion))).word == "inconclusive"


def test_a_computed_curve_is_compared_with_a_tolerance_for_rounding():
    alpha = np.linspace(0, 1, 501)
    for notion, parameter in (
        (GDP(), 0.4548),
        (PureDP(), 1.0),
        (ApproximateDP(1e-5), 1.0),
        (ZCDP(), 0.1034),
    ):
        curve = np.asarray(notion.beta(alpha, parameter))
        claim = Claim(notion, parameter)
        assert computed_excess((alpha, curve), claim) is None
        assert computed_excess((alpha, np.maximum(curve - 5e-10, 0)), claim) is None, (
            "rounding is no violation"
        )
        worse = np.asarray(notion.beta(alpha, 1.1 * parameter))
        assert computed_excess((alpha, worse), claim) == pytest.approx(1.1 * parameter, rel=1e-6)
    assert computed_excess(None, CLAIM) is None


def test_a_delta_that_is_a_little_too_large_is_a_computed_violation():
    """classic10: (10, 1e-5) is claimed, δ is 2.3e-5; no number of counted trials that anyone has
    shows it."""
    mu = 10 / math.sqrt(2 * math.log(1.25e5))
    # the events that show it have a false positive rate of about 1e-9: a grid in normal quantiles
    # reaches them
    z = np.linspace(-9, 9, 2001)
    alpha = 0.5 * np.array([math.erfc(-x / math.sqrt(2)) for x in z])
    found = computed_excess(
        (alpha, np.asarray(GDP().beta(alpha, mu))), Claim(ApproximateDP(1e-5), 10.0)
    )
    assert found is not None and 10 < found < 11
