"""Of every mechanism that knows the exact curve of its pair: the honest ones keep their claims,
bugs do not."""

from pathlib import Path

import pytest

from audit import cli
from audit.experiment import exact_curve
from audit.judgement.verdict import computed_excess

CONF = Path(__file__).parents[2] / "conf" / "mechanism"
HONEST = sorted(path.stem for path in CONF.glob("*.yaml"))
BUGS = sorted(f"broken/{path.stem}" for path in (CONF / "broken").glob("*.yaml"))
PAIRS = {"answers": ["canary=coins", "canary.count=1"]}  # of those that name no pair of their own
OWN = {"callable", "command", "stored"}  # of people's own code nothing is known
OWN |= {"answers"}  # has many canaries, and no pair
KNOWN = {
    "discrete_gaussian",
    "exponential",
    "gaussian",
    "geometric",
    "laplace",
    "class_mean",
    "noisy_max",
    "one_hot_flip",
    "permute_and_flip",
    "randomised_response",
}


def excess(option):
    """The exact curve of the option's own pair, and what it needs beyond the claim."""
    cli._register()
    _, (plan,) = cli.check(
        [f"mechanism={option}", "backend=serial", *PAIRS.get(option, [])], many=False
    )
    curve = exact_curve(plan.mechanism, plan.challenge)
    return curve, computed_excess(curve, plan.mechanism.claims[0])


@pytest.mark.parametrize("option", [option for option in HONEST if option not in OWN])
def test_honest_mechanisms_exceed_no_claim(option):
    curve, found = excess(option)
    assert found is None
    assert (curve is not None) == (option in KNOWN)


def test_bugs_whose_curve_is_known_are_computed_violations():
    bugs = [option for option in BUGS if option != "broken/answers_less_noise"]
    known = {
        option: found for option in bugs for curve, found in [excess(option)] if curve is not None
    }
    assert "broken/half_noise" in known and all(known.values())
