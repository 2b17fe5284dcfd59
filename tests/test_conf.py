"""Every YAML composes and instantiates, and what it makes is of the type that its group
promises."""

import sys

import numpy as np
import pytest

from audit import cli
from audit.cli import compose
from audit.core import AuditError, Challenge, Mechanism, Recorded

ROOT = cli.folder("conf")
OTHER = {*cli.LADDER_GROUPS}  # of the second primary configuration: tests/test_accuracy_first.py
PATHS = [path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("*/**/*.yaml")]
PATHS = [path for path in PATHS if path.parts[0] not in OTHER]
INSIDE = ("mechanism", "claim")  # the group of an option inside an option
OPTIONS = sorted(
    f"{path.parts[0]}={'/'.join(path.parts[1:])}" for path in PATHS if path.parts[:2] != INSIDE
)
NESTED = sorted(f"{'/'.join(INSIDE)}={path.name}" for path in PATHS if path.parts[:2] == INSIDE)
SWEEPS = sorted(
    path.stem for path in cli.folder("sweeps").glob("*.yaml") if path.stem != cli.LADDER
)
NEEDS = {
    "canary=tabular": ["canary.csv={csv}", "canary.domain_json={json}"],
    "mechanism=callable": ["mechanism.target=own_in_conf:count"],
    "mechanism=command": ["mechanism.argv=[{python},{program}]"],
    "mechanism=stored": ["mechanism.path={rows}", "trials=400"],
    "canary=pair": ["mechanism=gaussian"],
    "canary=blank": ["mechanism=dp_sgd", "canary.rows=40"],
    "canary=dirac": ["mechanism=dp_sgd", "canary.rows=40"],
    "canary=mislabelled": ["mechanism=dp_sgd", "canary.rows=40"],
    "estimator=one_run": ["protocol=one_run", "canary=coins", "mechanism=answers"],
    "estimator=one_run_betting": ["protocol=one_run", "canary=coins", "mechanism=answers"],
    "estimator=one_run_fdp": ["protocol=one_run", "canary=coins", "mechanism=answers"],
    "canary=one_bit": ["mechanism=randomised_response"],
    "canary=one_pupil": ["mechanism=class_mean"],
    "canary=one_move": ["mechanism=hierarchical_counts"],
    "canary=answers": ["mechanism=above_threshold"],
    "canary=coins": ["mechanism=answers", "protocol=one_run", "estimator=one_run"],
    "mechanism=answers": ["canary=coins", "canary.count=1"],
    "mechanism=broken/answers_less_noise": ["canary=coins", "canary.count=1"],
    "mechanism=dp_sgd": ["canary.rows=40", "mechanism.epochs=1"],
    "protocol=one_run": ["canary=coins", "mechanism=answers"],
}


PROGRAM = """
import json, random, sys
for line in sys.stdin:
    ask = json.loads(line)
    rng = random.Random(ask["seed"])
    print(json.dumps({"rows": [[rng.gauss(0, 1)] for _ in range(ask["trials"])]}), flush=True)
"""


@pytest.fixture
def words(tmp_path, monkeypatch):
    """Compose in an empty folder, with a small table, function, program or file of rows for what
    needs one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x,y\n0,0\n0,0\n1,1\n")
    (tmp_path / "t.json").write_text('{"x": 2, "y": 2}')
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_in_conf.py").write_text("def count(data, rng):\n    return rng.normal()\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    np.savez(tmp_path / "rows.npz", score=np.arange(400.0), present=np.arange(400) % 2)
    cli._register()
    files = {
        "csv": tmp_path / "t.csv",
        "json": tmp_path / "t.json",
        "python": sys.executable,
        "program": tmp_path / "program.py",
        "rows": tmp_path / "rows.npz",
    }
    small = ["canary.rows=40"]  # what trains is to be quick here

    def needs(option):
        return NEEDS.get(option, small if "dp_sgd" in option else [])

    return lambda option: [option, *(word.format(**files) for word in needs(option))]


def plan(overrides):
    only = compose(*overrides)
    return only


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_composes_and_instantiates(option, words):
    made = plan(words(option))
    assert isinstance(made.mechanism, Mechanism)
    assert isinstance(made.challenge, Challenge)
    assert made.mechanism.block % 2 == 0


@pytest.mark.parametrize("eps", ["1e300", "1e-300"])
@pytest.mark.parametrize("option", [o for o in OPTIONS if o.startswith("mechanism=")])
def test_an_absurd_privacy_parameter_is_refused_before_play(option, eps, words):
    try:
        made = plan([*words(option), f"eps={eps}"])
    except AuditError as refused:
        assert "eps=1e" in str(refused) and "input should be between 1e-06 and 500" in str(refused)
        return
    # One with a parameter of its own takes no notice of eps.
    assert made.mechanism.claims == plan(words(option)).mechanism.claims


@pytest.mark.parametrize("option", NESTED)
def test_every_option_inside_an_option_composes_and_is_a_claim(option, words):
    made = plan([*words("mechanism=callable"), option])
    (claim,) = made.mechanism.claims
    assert claim.parameter > 0 and claim.neighbours == "add_remove"
    assert cli.check([*words("mechanism=callable"), option, "canary=pair"], many=False)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_every_sweep_is_checked_whole(sweep, words):
    name, plans = cli.check([f"sweep={sweep}"], many=False)
    assert name == sweep and len(plans) > 1
    names = [each.name for each in plans]
    assert len(set(names)) == len(names), "audits of a sweep must be told apart by their names"


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.startswith("mechanism=")])
def test_a_claims_curve_is_a_tradeoff_curve(option, words):
    alpha = np.linspace(0, 1, 201)
    for claim in plan(words(option)).mechanism.claims:
        beta = claim.notion.beta(alpha, claim.parameter)
        assert np.all(np.diff(beta) <= 1e-12) and np.all(beta <= 1 - alpha + 1e-12)
        assert np.all(beta[:-2] + beta[2:] - 2 * beta[1:-1] >= -1e-9)


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.startswith("mechanism=")])
def test_a_mechanism_releases_what_it_is_asked_for(option, words):
    made = plan(words(option))
    mechanism, challenge = made.mechanism, made.challenge
    if isinstance(mechanism, Recorded):  # it has what it has
        assert len(mechanism.recorded()) == 400
        return
    for trials in (2, 6):
        releases = mechanism.release(challenge.data([True]), trials, np.random.default_rng(0))
        assert releases.insider().values.shape == (trials, len(releases.insider().names))
        ratio = releases.log_ratio(challenge.data([False]), challenge.data([True]))
        assert ratio is None or (ratio.shape == (trials,) and np.isfinite(ratio).all())


@pytest.mark.parametrize("option", [o for o in OPTIONS if o.startswith("mechanism=")])
def test_the_same_seed_gives_the_same_release_whatever_is_looked_at_first(option, words):
    made = plan(words(option))
    mechanism, data = made.mechanism, made.challenge.data([True])
    if isinstance(mechanism, Recorded):
        assert np.array_equal(mechanism.recorded().rows, mechanism.recorded().rows)
        return
    one, other = (mechanism.release(data, 4, np.random.default_rng(7)) for _ in range(2))
    one.public()
    assert np.array_equal(one.insider().values, other.insider().values)
