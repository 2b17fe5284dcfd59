import dataclasses

import numpy as np
import pytest
from toys import Gaussians

from audit import cost
from audit.core import Claim
from audit.criteria import Advantage
from audit.features import Hybrid, WhiteBox
from audit.mechanisms.aim import AIM
from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.mst import MST
from audit.privacy import GDP
from audit.protocols import Crossfit, Holdout, Sequential

WORK = cost.Work("MST Hybrid", 10_000, 200, "XGBoost", 4000, 4000)


@dataclasses.dataclass
class Counting:
    """An attacker that learns nothing, and notes on how many trials it was fitted."""

    fitted: list
    learns = True

    def __call__(self, trials):
        self.fitted.append(len(trials))
        return lambda trials: np.zeros(len(trials))


@pytest.mark.parametrize(
    "protocol",
    [
        Holdout(trials=1000),
        Crossfit(trials=1000),
        Crossfit(trials=1000, order="kfold"),
        Sequential(budget=2000),
    ],
)
def test_protocols_know_on_how_many_trials_attacks_are_fitted(protocol):
    attacker = Counting([])
    protocol(Gaussians(0.0), attacker, Advantage(), Claim(GDP(), 5.0))
    assert sum(attacker.fitted) == pytest.approx(protocol.fitted, abs=2 * len(attacker.fitted))


def test_more_of_anything_takes_longer_and_more_cores_less():
    once = cost.cost(WORK)
    for more in ({"count": 10**6}, {"fitted": 10**6}, {"tested": 10**6}, {"ray": True}):
        assert cost.cost(dataclasses.replace(WORK, **more)).seconds > once.seconds
    shared = dataclasses.replace(WORK, count=10**7, ray=True)
    assert (
        cost.cost(dataclasses.replace(shared, workers=8)).seconds < 0.25 * cost.cost(shared).seconds
    )
    assert cost.cost(dataclasses.replace(WORK, count=10**6)).memory > once.memory


def test_what_was_never_measured_is_not_foretold():
    assert cost.cost(dataclasses.replace(WORK, trials="Mine Hybrid")) is None
    assert cost.cost(dataclasses.replace(WORK, attacker="Mine")) is None
    assert cost.key(FixedMarginals(eps=1, delta=0.01, degree=2), WhiteBox()) not in {
        k.removeprefix("trials ") for k in cost.parts()
    }


@pytest.mark.parametrize("mechanism", [MST, AIM])
def test_the_shipped_constants_are_of_mechanisms_that_there_are(mechanism):
    known = cost.parts()
    part = known[f"trials {cost.key(mechanism(eps=1, delta=0.01), Hybrid())}"]
    assert part.each > 0 and part.bytes > 8 * 14
    assert all(value >= 0 for part in known.values() for value in dataclasses.astuple(part))
