"""Every basic mechanism as it is audited, on its own pair: the honest one is not accused, a quarter
of its noise is."""

import dataclasses

import pytest
from mechanisms.samples import with_noise

from audit.attackers import LikelihoodRatio
from audit.cli import compose
from audit.criteria import ClaimLower
from audit.estimators.clopper_pearson import ClopperPearson
from audit.game import Game, Played, Serial
from audit.mechanisms.composition import Composition
from audit.protocols import Holdout

SHELF = (
    "laplace",
    "geometric",
    "gaussian",
    "discrete_gaussian",
    "randomised_response",
    "one_hot_flip",
    "exponential",
    "permute_and_flip",
    "noisy_max",
    "above_threshold",
    "class_mean",
    "hierarchical_counts",
    "composition",
)


def all_with_noise(mechanism, share):
    if isinstance(mechanism, Composition):
        return Composition([all_with_noise(part, share) for part in mechanism.parts])
    fields = {field.name: getattr(mechanism, field.name) for field in dataclasses.fields(mechanism)}
    return with_noise(type(mechanism), share, **fields)


@pytest.mark.parametrize("name", SHELF)
def test_the_honest_one_is_not_accused_and_a_quarter_of_its_noise_is(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = compose(f"mechanism={name}")
    (claim, *_) = plan.mechanism.claims

    def found(share):
        game = Game(all_with_noise(plan.mechanism, share), plan.challenge, plan.features, seed=0)
        source = Played(game, Serial(), tmp_path / "trials")
        evidence = Holdout(trials=10_000)(source, LikelihoodRatio(), ClaimLower(), claim)
        # finite-sample: false failure 1e-7
        return ClopperPearson(significance=1e-7)(evidence, claim.notion).lower

    assert 0 < found(1.0) <= claim.parameter
    assert found(0.25) > claim.parameter
