import dataclasses
import logging
import pickle
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from toys import Counted, Toy

from audit.canaries.tabular import Tabular
from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Columns, UnreadableOutput
from audit.features import WhiteBox
from audit.game import Auto, Cache, Game, Played, Ray, Serial, carried, fingerprint, memory, sources
from audit.mechanisms.composition import Composition
from audit.mechanisms.geometric import GeometricMechanism
from audit.mechanisms.laplace import Laplace


def game(**changes):
    return Game(
        **(
            {"mechanism": Toy(), "challenge": WorstCase(), "features": WhiteBox(), "seed": 0}
            | changes
        )
    )


@dataclasses.dataclass(frozen=True)
class Spoilt(Toy):
    """A toy that releases something wrong."""

    how: str = "nan"

    def release(self, data, trials, rng):
        releases = super().release(data, trials, rng)
        if self.how == "nan":
            values = releases.values.copy()
            values[3] = np.nan
            return Counted(values, self.mu)
        return dataclasses.replace(releases, values=releases.values[: trials - 1])


@dataclasses.dataclass(frozen=True)
class Strange(Toy):
    """A toy that cannot tell which of some trials went wrong."""

    places: range = range(1)

    def release(self, data, trials, rng):
        raise UnreadableOutput(self.places, "it went wrong; fix it")


@pytest.mark.parametrize(
    ("places", "which"),
    [
        (range(1, 2), "trial 2"),
        (range(1, 3), "one of the trials 2 and 4"),
        (range(4), "one of the trials 0, 2 … 6"),
    ],
)
def test_which_trials_may_have_gone_wrong_is_said(places, which):
    with pytest.raises(AuditError, match=rf"Strange, {which} \(seed 0, block 0\): it went wrong"):
        game(mechanism=Strange(places=places)).play(0)


def test_a_block_is_half_absent_half_present_and_alternates():
    trials = game().play(2)
    assert trials.bits.tolist() == [False, True] * 10
    assert trials.index.tolist() == list(range(40, 60))
    assert trials.log_ratio == pytest.approx(trials.rows[:, 0] - 10.5)


@dataclasses.dataclass(frozen=True)
class Reports(Toy):
    """A toy that reports what it has spent: 0.5 + its bit's row count, or something wrong."""

    wrong: bool = False

    def release(self, data, trials, rng):
        count = trials - self.wrong
        return ReportsSpending(
            super().release(data, trials, rng).values,
            self.mu,
            np.full(count, 0.5 + len(data.records)),
        )


@dataclasses.dataclass(frozen=True)
class ReportsSpending(Counted):
    eps: np.ndarray

    def spent(self):
        return self.eps


def test_what_is_spent_goes_with_its_trial_into_the_cache_and_the_scores(tmp_path):
    reporting = game(mechanism=Reports())
    for trials in (
        reporting.play(0),
        *(Played(reporting, Serial(), tmp_path).trials(0, 20) for _ in range(2)),
    ):
        assert trials.spent.tolist() == [10.5, 11.5] * 10
        assert np.array_equal(trials.score(np.zeros(20)).spent, trials.spent)
    assert game().play(0).spent is None


def test_a_report_that_is_not_one_number_a_trial_is_refused():
    with pytest.raises(AuditError, match="not one finite ε ≥ 0 a trial"):
        game(mechanism=Reports(wrong=True)).play(0)


def test_trials_do_not_depend_on_order_or_slicing(tmp_path):
    whole = Played(game(), Serial(), tmp_path / "a").trials(0, 100)
    source = Played(game(), Serial(), tmp_path / "b")
    late, early = source.trials(35, 65), source.trials(0, 35)
    assert np.array_equal(np.concatenate([early.rows, late.rows]), whole.rows)
    assert np.array_equal(late.index, np.arange(35, 100))


def test_blocks_and_seeds_differ():
    assert not np.array_equal(game().play(0).rows, game().play(1).rows)
    assert not np.array_equal(game().play(0).rows, game(seed=1).play(0).rows)


def test_ray_plays_the_same_trials_as_serial(tmp_path):
    serial = Played(game(), Serial(), tmp_path / "serial").trials(0, 200)
    ray = Played(game(), Ray(workers=2), tmp_path / "ray").trials(0, 200)
    assert np.array_equal(serial.rows, ray.rows)
    assert np.array_equal(serial.log_ratio, ray.log_ratio)
    assert not serial.rows.flags.writeable


def test_a_mechanism_that_fails_on_ray_says_why_in_one_line(tmp_path):
    with pytest.raises(AuditError, match=r"Spoilt, trial \d+ \(seed 0, block \d+\)"):
        Played(game(mechanism=Spoilt()), Ray(workers=2), tmp_path).trials(0, 2000)
    import ray

    assert not ray.is_initialized(), "what was under way went with the connection"


def test_auto_takes_ray_only_where_it_is_sooner():
    choose = Auto(workers=2, startup=10)._choose
    assert isinstance(choose([1.0, 0.5], 10), Serial)
    assert isinstance(choose([1.0, 0.5], 1000), Ray)


def test_the_cache_is_used_and_survives_attackers_but_not_other_games(tmp_path):
    first = Played(game(), Serial(), tmp_path)
    again = Played(game(), Serial(), tmp_path)
    assert np.array_equal(first.trials(0, 40).rows, again.trials(0, 40).rows)
    assert (first.tally.played, again.tally.played, again.tally.cached) == (2, 0, 2)
    for other in (game(seed=1), game(mechanism=Toy(mu=2.0)), game(challenge=WorstCase(rows=2))):
        assert Cache(tmp_path, other).folder != Cache(tmp_path, game()).folder


def test_more_trials_than_memory_are_refused_with_the_number_that_fits(tmp_path, monkeypatch):
    free = 3 * 2**30
    monkeypatch.setattr("psutil.virtual_memory", lambda: types.SimpleNamespace(available=free))
    source = Played(game(), Serial(), tmp_path)
    with pytest.raises(
        AuditError, match=r"10,000,000 trials of 1 columns need about .* enough for ([\d,]+);"
    ) as said:
        source.trials(0, 10_000_000)
    assert "\n" not in str(said.value)
    fits = int(re.search(r"enough for ([\d,]+)", str(said.value))[1].replace(",", ""))
    part = game().play(0)
    assert memory(part, fits) <= free < memory(part, fits + 1000)
    assert source.tally.played <= 1, "and nothing was played in vain"


PEAK = """
import sys
sys.path.insert(0, sys.argv[3])
from test_game import *
from audit.attackers import LikelihoodRatio
from audit.core import Claim
from audit.criteria import Advantage
from audit.estimators.curve import Curve
from audit.estimators.curve_betting import CurveBetting
from audit.privacy import GDP
from audit.protocols import Crossfit

class Big(Toy):
    block = 1000

def audited(count):
    source = Played(game(mechanism=Big()), Serial(), Path(sys.argv[2]))
    evidence = Crossfit(trials=count)(source, LikelihoodRatio(), Advantage(), Claim(GDP(), 1.0))
    return [estimate(evidence, GDP()) for estimate in (Curve(), CurveBetting())]

def peak():  # of this program; getrusage would count its parent's
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])

count = int(sys.argv[1])
audited(2000)
before = peak()
audited(count)
print((peak() - before) / memory(game().play(0), count))
"""


@pytest.mark.slow
def test_what_an_audit_takes_is_foretold_within_a_factor_of_three(tmp_path):
    """Deterministic but for the allocator: measured 0.91 of what is foretold."""
    here = str(Path(__file__).parent)
    words = [sys.executable, "-c", PEAK, "300000", str(tmp_path), here]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert 1 / 3 < float(done.stdout) < 1


def test_a_game_that_is_carried_needs_no_file(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n0,1\n1,1\n0,0\n")
    (tmp_path / "a.json").write_text('{"a": 2, "b": 2}')
    read = game(challenge=Tabular(str(tmp_path / "a.csv"), str(tmp_path / "a.json")))
    sent = pickle.dumps(carried(read))
    for path in tmp_path.iterdir():
        path.unlink()
    arrived = pickle.loads(sent)
    assert np.array_equal(
        arrived.play(1).rows, read_rows := game(challenge=arrived.challenge).play(1).rows
    )
    assert len(read_rows) == Toy.block and arrived.challenge.neighbours == "add_remove"
    with pytest.raises(AuditError, match="cannot read"):
        game(challenge=Tabular(str(tmp_path / "a.csv"), str(tmp_path / "a.json"))).play(1)
    assert arrived.challenge.canary == "outlier", (
        "whatever else is asked for is the challenge's own"
    )


def test_nobody_at_an_address_is_said_at_once():
    with pytest.raises(AuditError, match=r"nobody answers at 127\.0\.0\.1:1 "):
        next(Ray(address="127.0.0.1:1").run(game().play, [0]))


def test_a_truncated_block_is_played_again_and_said(tmp_path, caplog):
    source = Played(game(), Serial(), tmp_path)
    before = source.trials(0, 20)
    path = Cache(tmp_path, game()).path(0)
    path.write_bytes(path.read_bytes()[:100])
    with caplog.at_level(logging.WARNING):
        after = Played(game(), Serial(), tmp_path).trials(0, 20)
    assert np.array_equal(before.rows, after.rows)
    assert "damaged" in caplog.text
    assert Cache(tmp_path, game()).load(0) is not None


def test_a_block_that_cannot_be_written_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(*words, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(AuditError, match=r"No space left on device\); free some room"):
        Played(game(), Serial(), tmp_path).trials(0, 20)
    assert not list(tmp_path.glob("*/*.npz")) and not list(tmp_path.glob("*/.*.part"))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (
            "nan",
            r"Spoilt, trial 6 \(seed 0, block 0\): the released row is not finite.*features=events",
        ),
        ("width", "rows of shape"),
    ],
)
def test_wrong_rows_are_refused_with_trial_and_seed(how, says):
    with pytest.raises(AuditError, match=says):
        game(mechanism=Spoilt(how=how)).play(0)


def test_columns_that_depend_on_the_data_set_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Telling(Toy):
        def release(self, data, trials, rng):
            releases = super().release(data, trials, rng)
            name = f"count of {len(data.records)}"

            class Named(Counted):
                def insider(self):
                    return Columns((name,), self.values[:, None])

            return Named(releases.values, self.mu)

    with pytest.raises(
        AuditError,
        match=r"columns differ between the two data sets \('count of 10' is there without the",
    ):
        game(mechanism=Telling()).play(0)


def test_the_fingerprint_knows_the_source_it_depends_on():
    about = fingerprint(game())
    needed = {
        "toys",
        "audit.features",
        "audit.core.data",
        "audit.core.trials",
        "audit.privacy.notions",
    }
    assert needed <= set(about["source"])
    assert "audit.attackers" not in about["source"]
    assert sources(["no.such.module"]).keys() <= {"numpy"}


def test_the_fingerprint_tells_apart_what_a_composition_is_made_of():
    one, other = (
        game(mechanism=Composition([part(eps=1)])) for part in (Laplace, GeometricMechanism)
    )
    # their fields are the same
    assert Cache(Path("r"), one).folder != Cache(Path("r"), other).folder
    assert "audit.mechanisms.geometric" in fingerprint(other)["source"]
    assert "audit.mechanisms.geometric" not in fingerprint(one)["source"]
