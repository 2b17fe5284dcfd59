import dataclasses

import numpy as np
import pytest

from audit.core import Bound, Claim, Counts, Efficiency, NextStep, Strength, Trials, Verdict
from audit.judgement.diagnosis import Diagnosis, diagnose
from audit.judgement.hints import Situation, changed, next_step, trials_for_delta
from audit.privacy import GDP, ApproximateDP, PureDP
from audit.spending import fresh_seed, share_of_error

NOTHING = Diagnosis(None, None, None, fractions=False)
BELOW = Strength(estimate=0.4, standard_error=0.05, lower=0.3, upper=0.5)


def situation(word="loose", strength=BELOW, claim=None, **changed_parts):
    claim = claim or Claim(GDP(), 1.0)
    accusing = Bound("exact", claim.notion, 0.1, 0.008, "finite-sample")
    usual = {
        "choices": {"mechanism": "callable", "attacker": "xgboost", "features": "hybrid"},
        "criterion": "advantage",
        "claim": claim,
        "verdict": Verdict(word, "", accusing, strength),
        "counts": Counts(600, 1400, 700, 1300),
        "efficiency": None,
        "diagnosis": NOTHING,
        "significance": 0.008,
        "trials": 10_000,
        "tested": 4000,
        "look": 1,
        "command": "python -m audit mechanism=callable",
        "own": True,
        "keeps": False,
    }
    return Situation(**(usual | changed_parts))


def test_a_refuted_claim_leaves_nothing_to_do():
    assert (
        next_step(situation("violation")) is None
        and next_step(situation("violation (computed)")) is None
    )
    assert next_step(situation("tight")) is None


def test_a_pure_claim_with_the_largest_advantage_is_sent_to_claim_lower():
    for notion in (PureDP(), ApproximateDP(0.01)):
        step = next_step(situation(claim=Claim(notion, 1.0)))
        assert step.changes == (("criterion", "claim_lower"), ("look", "2"))
        assert step.command == "python -m audit mechanism=callable criterion=claim_lower look=2"
        assert "look 2" in step.cost and "0.1 of the error probability" in step.cost
        other = next_step(situation(claim=Claim(notion, 1.0), criterion="claim_lower"))
        assert ("criterion", "claim_lower") not in other.changes


def test_a_weak_ranking_is_sent_to_the_optimal_test():
    weak = Efficiency(0.5, 0.45, 0.4, 0.35, 1.0, 0.04)
    assert next_step(situation(efficiency=weak)).changes[0] == ("attacker", "likelihood_ratio")
    strong = Efficiency(0.95, 0.9, 0.9, 0.85, 1.0, 0.04)
    assert next_step(situation(efficiency=strong)).changes == ()


def test_what_only_trees_see_is_said_to_attackers_that_are_none():
    seen = Diagnosis(None, "y", None, fractions=False)
    linear = {"mechanism": "callable", "attacker": "logistic", "features": "hybrid"}
    step = next_step(situation(diagnosis=seen, choices=linear))
    assert step.changes[0] == ("attacker", "xgboost") and "one exact value of y" in step.why
    assert next_step(situation(diagnosis=seen)).changes == ()


def test_an_estimate_above_the_claim_is_sent_to_as_many_trials_as_tell():
    above = Strength(estimate=1.3, standard_error=0.1, lower=1.1, upper=1.5)
    for word in ("suspicious", "tight", "inconclusive"):
        step = next_step(situation(word, above))
        assert dict(step.changes)["look"] == "2" and int(dict(step.changes)["trials"]) >= 20_000
        assert "∞" not in step.why and "inf" not in step.why
        assert next_step(situation(word, above, keeps=True)) is None or word == "inconclusive", (
            "then it is chance"
        )


def test_a_delta_that_counts_cannot_show_is_said_so():
    claim = Claim(ApproximateDP(1e-5), 10.0)
    step = next_step(situation(claim=claim, criterion="claim_lower"))
    assert "4e+10 trials a side" in step.why and not step.changes
    assert trials_for_delta(1.0, 1e-5) > 1e6


def test_the_last_hint_names_another_pair_and_the_low_bits_of_floats():
    assert (
        "features=bits" not in next_step(situation()).why
        and "canary=pair" in next_step(situation()).why
    )
    floats = dataclasses.replace(NOTHING, fractions=True)
    assert "features=bits" in next_step(situation(diagnosis=floats)).why
    assert "features=bits" not in next_step(situation(diagnosis=floats, own=False)).why


def test_what_failed_has_no_command():
    assert next_step(situation("failed", None)).changes == ()


def test_an_option_of_a_hint_replaces_the_commands_own():
    step = NextStep("", (("trials", "50000"), ("look", "3")))
    assert changed("python -m audit trials=100 look=2 'canary.absent=[0, 1]'", step) == (
        "python -m audit 'canary.absent=[0, 1]' trials=50000 look=3"
    )


# --- the spending schedule ------------------------------------------------------------------------


def test_all_looks_together_spend_the_error_probability_and_no_more():
    shares = [share_of_error(look) for look in range(1, 51)]
    assert sum(shares) <= 1 and sum(shares) == pytest.approx(1, abs=1e-12)
    assert shares == sorted(shares, reverse=True)


def test_each_look_has_a_seed_of_its_own():
    seeds = [fresh_seed(seed, look) for seed in range(20) for look in range(1, 20)]
    assert len(set(seeds)) == len(seeds) and [fresh_seed(s, 1) for s in range(3)] == [0, 1, 2]


# --- what the rows say ----------------------------------------------------------------------------


def trials(absent, present):
    rows = np.concatenate([absent, present])[:, None]
    index = np.arange(len(rows))
    return Trials(("y",), rows, index >= len(absent), index, index)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("absent", "present", "stands_out"),
    [
        (RNG.normal(size=2000), RNG.normal(size=2000) + 1, None),
        (RNG.normal(size=2000), 3 * RNG.normal(size=2000), "two_sided"),
        (
            RNG.integers(0, 5, 2000),
            np.where(RNG.random(2000) < 0.2, 2, RNG.integers(0, 5, 2000)),
            "atoms",
        ),
        (RNG.integers(0, 5, 2000), RNG.integers(0, 5, 2000), None),
    ],
)
def test_what_stands_out_in_the_rows(absent, present, stands_out):
    """Laws at fixed seeds; a difference is called one from 6 standard deviations on, so that chance
    has 1e-8 a column."""
    found = diagnose(trials(absent.astype(float), present.astype(float)), constant=False)
    assert [name for name in ("atoms", "two_sided") if getattr(found, name)] == (
        [stands_out] if stands_out else []
    )


def test_one_event_on_both_sides_is_said_in_words():
    found = diagnose(trials(np.zeros(100), np.zeros(100)), constant=True)
    assert found.one_event == "put out one and the same (y = 0)"
    event = Trials(
        ("is_none", "is_exception"),
        np.tile([0.0, 1.0], (4, 1)),
        np.arange(4) % 2 == 1,
        *[np.arange(4)] * 2,
    )
    assert diagnose(event, constant=True).one_event == "ended in one and the same exception"
