"""Less noise than promised: the claim is the honest one's, all of the noise is the honest
mechanism."""

import dataclasses

import numpy as np
import pytest
from mechanisms.samples import BROKEN_VERSIONS
from pydantic import ValidationError

from audit import cli
from audit.cli import compose
from audit.mechanisms.conservative import ConservativeBudget, OverestimatedSensitivity
from audit.mechanisms.dp_sgd import DPSGD
from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.gaussian import Gaussian
from audit.renamed import RENAMED_KEYS

FOLDER = cli.folder("conf") / "mechanism/broken"
OPTIONS = sorted(path.stem for path in FOLDER.glob("*_less_noise.yaml"))


def options_of(mechanism):
    """The least that its constructor needs."""
    names = {field.name for field in dataclasses.fields(mechanism)}
    return {"eps": 1.0} | ({"delta": 0.01} if "delta" in names else {})


@pytest.mark.parametrize("honest", [*BROKEN_VERSIONS, DPSGD], ids=lambda kind: kind.__name__)
def test_an_honest_mechanism_has_no_field_that_makes_it_dishonest(honest):
    names = {field.name for field in dataclasses.fields(honest)}
    switches = {key.removeprefix("mechanism.") for key in RENAMED_KEYS} | {"noise_fraction"}
    assert not names & switches


@pytest.mark.parametrize(
    ("honest", "broken"), BROKEN_VERSIONS.items(), ids=lambda kind: kind.__name__
)
def test_it_claims_what_the_honest_one_claims_and_refuses_a_share_of_none(honest, broken):
    options = options_of(honest)
    assert broken(**options).claims == honest(**options).claims
    for fraction in (0, -1, np.inf, np.nan):
        with pytest.raises(ValidationError):
            broken(**options, noise_fraction=fraction)


@pytest.mark.parametrize("option", OPTIONS)
def test_with_all_of_the_noise_it_is_the_honest_one(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = option.removesuffix("_less_noise")
    words = ["backend=serial"]
    if name == "answers":
        words += ["canary=coins", "protocol=one_run"]
    plan = compose(f"mechanism=broken/{option}", "mechanism.noise_fraction=1", *words)
    honest = compose(f"mechanism={name}", *words)
    outputs = []
    for mechanism in (plan.mechanism, honest.mechanism):
        data = plan.challenge.data([True] * len(plan.challenge.canaries))
        runs = mechanism.release(data, 20, np.random.default_rng(0))
        outputs.append(runs.insider().values)
    assert np.array_equal(*outputs)


def test_every_broken_version_is_an_option():
    targets = {
        line
        for option in OPTIONS
        for line in (FOLDER / f"{option}.yaml").read_text("utf-8").splitlines()
    }
    for broken in BROKEN_VERSIONS.values():
        assert f"_target_: {broken.__module__}.{broken.__name__}" in targets


def test_conservative_ones_add_more_noise_for_the_same_claim():
    careful = ConservativeBudget(eps=1, delta=0.01)
    assert careful.added_sigma == 1.25 * careful.sigma
    assert careful.claims == Gaussian(eps=1, delta=0.01).claims
    doubled = OverestimatedSensitivity(eps=1, delta=0.01)
    assert doubled.added_sigma(3.0) == 6.0
    assert doubled.claims == FixedMarginals(eps=1, delta=0.01).claims
