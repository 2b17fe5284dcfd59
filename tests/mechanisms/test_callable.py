import dataclasses
import sys

import numpy as np
import pytest

from audit import runner
from audit.canaries.pair import Pair
from audit.core import AuditError, Claim
from audit.events import Events
from audit.features import BlackBox
from audit.game import Cache, Game, fingerprint
from audit.mechanisms.callable import Target
from audit.mechanisms.claims import Approximate, Concentrated, GaussianDP, Pure
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP

PAIR = Pair(absent=(0,), present=(0, 1))

CODE = """
import numpy as np
from own_helper import SHIFT

def count(data, rng):
    return len(data) + rng.normal() + SHIFT

def named(data, trials, rng):
    return {"n": len(data) + rng.normal(size=trials), "two": rng.normal(size=(trials, 2))}

def listed(data, trials, rng):
    return [None] * trials

def short(data, trials, rng):
    return np.zeros(trials - 1)

def raising(data, trials, rng):
    raise KeyError("lost")

def sometimes(data, rng):
    y = rng.normal()
    if len(data) > 1 and y > 1:
        raise ValueError("more than\\none")
    return y

def always(data, rng):
    return None / 1

def careless(data, rng):
    return np.random.default_rng().normal()

def telling(data, rng):
    return [0.0] * len(data)

class Deep:
    @staticmethod
    def inside(data, rng):
        return 0.0

number = 3
"""


@pytest.fixture
def target(tmp_path, monkeypatch):
    """Targets in a module of somebody's own: ``target(name)`` makes the mechanism."""
    monkeypatch.syspath_prepend(str(tmp_path))
    module = f"own_{abs(hash(tmp_path.name))}"
    (tmp_path / f"{module}.py").write_text(CODE)
    (tmp_path / "own_helper.py").write_text("SHIFT = 0\n\ndef unused(): pass\n")
    monkeypatch.delitem(sys.modules, "own_helper", raising=False)
    return lambda name, **options: Target(
        **{"target": f"{module}:{name}", "claim": GaussianDP(mu=1)} | options
    )


def play(mechanism, features=None):
    return Game(mechanism, PAIR, features or BlackBox(), seed=0).play(0)


def test_a_function_is_played_once_a_trial(target):
    trials = play(target("count"))
    assert trials.columns == ("y",) and trials.rows.shape == (1000, 1)
    # sd of the difference of means: √(2/500) = 0.063; 5 sd: a false failure has probability 6e-7
    assert trials.rows[trials.bits].mean() - trials.rows[~trials.bits].mean() == pytest.approx(
        1, abs=0.316
    )
    assert np.array_equal(play(target("count")).rows, trials.rows)
    assert play(target("Deep.inside")).rows.max() == 0


def test_a_batched_function_names_its_numbers(target):
    trials = play(target("named", batched=True))
    assert trials.columns == ("n", "two[0]", "two[1]") and trials.rows.shape == (1000, 3)


def test_what_one_trial_raises_is_an_event_or_one_line(target):
    with pytest.raises(
        AuditError,
        match=r"Target, trial \d+ \(seed 0, block 0\): it raised ValueError: more than one",
    ):
        play(target("sometimes"))
    trials = play(target("sometimes"), Events())
    raised = trials.rows[:, trials.columns.index("is_exception")] == 1
    assert raised.any() and trials.bits[raised].all()


def test_the_trial_that_is_named_is_the_one_that_raised(target):
    with pytest.raises(AuditError) as error:
        play(target("sometimes"))
    place = int(str(error.value).split("trial ")[1].split()[0])
    trials = play(target("sometimes"), Events())
    raised = np.flatnonzero(trials.rows[:, trials.columns.index("is_exception")])
    assert place == raised[0]


@pytest.mark.parametrize(
    ("name", "batched", "says"),
    [
        (
            "raising",
            True,
            "one of the trials 0, 2 … 998 (seed 0, block 0): it raised KeyError: 'lost'; fix it",
        ),
        (
            "short",
            True,
            "one of the trials 0, 2 … 998 (seed 0, block 0): 499 outputs where 500 were due",
        ),
        (
            "listed",
            True,
            "it put out None (NoneType); release finite numbers, or count it as an event: "
            "features=events",
        ),
        ("telling", False, "'y[1]' is there with the canary only"),
    ],
)
def test_a_bad_batch_is_one_line(target, name, batched, says):
    with pytest.raises(AuditError) as error:
        play(target(name, batched=batched))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_another_shape_is_an_event(target):
    trials = play(target("telling"), Events())
    assert not np.array_equal(trials.rows[0], trials.rows[1])


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nowhere", {}, "cannot be imported (AttributeError"),
        ("number", {}, "is no function but int; name a function"),
        ("named", {}, "cannot be called as (data, rng)"),
        ("count", {"batched": True}, "cannot be called as (data, trials, rng)"),
    ],
)
def test_a_target_that_cannot_be_called_is_refused_at_once(target, name, options, says):
    with pytest.raises(AuditError) as error:
        target(name, **options)
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("target_", "says"),
    [
        ("no_such_module_anywhere:f", "ModuleNotFoundError"),
        ("numpy", "has not the form"),
        (":f", "has not the form"),
    ],
)
def test_a_module_that_is_not_there_is_refused(target_, says):
    with pytest.raises(AuditError, match=says):
        Target(target=target_, claim=GaussianDP(mu=1))


def test_a_target_that_takes_no_notice_of_its_seed_is_found_out(target):
    (said,) = target("careless").notes(PAIR.data([True]))
    assert said.startswith("Not reproducible") and "careless" in said
    assert target("count").notes(PAIR.data([True])) == ()
    assert target("named", batched=True).notes(PAIR.data([True])) == ()


def test_a_target_that_always_raises_is_said(target):
    (said,) = target("always").notes(PAIR.data([True]))
    assert "came to no end in any of 20 runs: it raised TypeError" in said


def test_an_edited_function_and_what_it_imports_never_meet_stale_trials(target, tmp_path):
    def folder(mechanism):
        # A process goes on with the code that it has; only another one sees an edit.
        runner.stop()
        return Cache(tmp_path, Game(mechanism, PAIR, BlackBox(), 0)).folder

    mechanism = target("count")
    module = mechanism.target.partition(":")[0]
    before = folder(mechanism)
    assert folder(dataclasses.replace(mechanism)) == before
    assert module in fingerprint(Game(mechanism, PAIR, BlackBox(), 0))["source"]
    path = tmp_path / f"{module}.py"
    path.write_text(CODE.replace("+ SHIFT", "+ 2 * SHIFT"))
    edited = folder(mechanism)
    path.write_text(CODE)
    assert edited != before == folder(mechanism)


def test_the_modules_that_a_target_imports_are_followed(tmp_path, monkeypatch):
    from audit.game import sources

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "followed").mkdir()
    (tmp_path / "followed" / "__init__.py").write_text("from .deep import DEEP\n")
    (tmp_path / "followed" / "deep.py").write_text("DEEP = 1\n")
    (tmp_path / "followed_far.py").write_text("import json, pandas\nNUMBER = 1.0\n")
    (tmp_path / "followed_late.py").write_text("import followed_last\n")
    (tmp_path / "followed_last.py").write_text("LAST = 1\n")
    (tmp_path / "followed_near.py").write_text(
        "from followed_far import NUMBER\nimport followed\n"
        "def f(data, rng):\n    import followed_late\n    return NUMBER\n"
    )
    mechanism = Target(target="followed_near:f", claim=GaussianDP(mu=1))
    found = sources(mechanism.modules)
    ours = {"near", "far", "late", "last"}
    assert {
        *(f"followed_{name}" for name in ours),
        "followed",
        "followed.deep",
        "pandas",
        "numpy",
    } <= set(found)
    assert (
        not {"json", "audit.attackers", "followed_far.NUMBER"} & set(found)
        and "no source" not in found.values()
    )


@pytest.mark.parametrize(
    ("promise", "claim"),
    [
        (Approximate(eps=2, delta=0.1), Claim(ApproximateDP(0.1), 2.0)),
        (Pure(eps=2, neighbours="replace_one"), Claim(PureDP(), 2.0, neighbours="replace_one")),
        (GaussianDP(mu=2), Claim(GDP(), 2.0)),
        (Concentrated(rho=2), Claim(ZCDP(), 2.0)),
    ],
)
def test_the_claim_is_the_one_that_was_given(target, promise, claim):
    assert target("count", claim=promise).claims == (claim,)
