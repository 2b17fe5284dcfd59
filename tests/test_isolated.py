"""Somebody's own function that ends its process, hangs or raises what it likes: one line, status 2,
the run closed."""

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from audit import cli, runner
from audit.canaries.pair import Pair
from audit.core import AuditError
from audit.events import Events
from audit.features import BlackBox, WhiteBox
from audit.game import Game, Played, Serial, fingerprint, notes_of
from audit.game.isolated import is_isolated, play_of, time_limit
from audit.mechanisms.callable import Target
from audit.mechanisms.claims import GaussianDP
from audit.mechanisms.composition import Composition

PAIR = Pair(absent=(0, 0), present=(0, 0, 1))

CODE = """
import asyncio, ctypes, os, signal, sys, time

def count(data, rng):
    return len(data) + rng.normal()

def at_call(number, how):
    def f(data, rng, calls=[]):
        calls.append(0)
        if len(calls) == number:
            how()
        return len(data) + rng.normal()
    return f

# two checks of the seed, the side without the record, and the fourth with it
TRIAL_7 = 20 + 20 + 50 + 4
leaves = at_call(TRIAL_7, lambda: os._exit(0))
crashes = at_call(TRIAL_7, lambda: ctypes.string_at(0))
is_killed = at_call(TRIAL_7, lambda: os.kill(os.getpid(), signal.SIGKILL))
hangs = at_call(TRIAL_7, lambda: time.sleep(600))
# with blocks of 10: in block 9, the third with the record
leaves_late = at_call(9 * 10 + 5 + 3, lambda: os._exit(0))

def leaves_batch(data, trials, rng):
    if len(data) == 3 and trials == 50:
        os._exit(3)
    return len(data) + rng.normal(size=trials)

def leaves_at_once(data, rng):
    os._exit(0)

class Own(BaseException):
    pass

class Mute(Exception):
    def __repr__(self):
        raise ValueError("no")
    __str__ = __repr__

class Quiet:
    def __repr__(self):
        raise ValueError("no")

def raiser(error):
    def f(data, rng):
        raise error
    return f

raises_cancelled, raises_exit = raiser(asyncio.CancelledError()), raiser(GeneratorExit())
raises_own = raiser(Own("x"))
raises_interrupt = raiser(KeyboardInterrupt())
raises_mute = raiser(Mute())
raises_escape = raiser(ValueError("\\x1b[31mred"))

def empty(data, rng):
    return []

def quiet(data, rng):
    return Quiet()

def many_digits(data, rng):
    return 10**5000

def prints(data, rng):
    print("hello")
    return 1.0
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Targets in a module of somebody's own: ``own(name)`` makes the mechanism, in blocks of
    100."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    module = f"own_{abs(hash(tmp_path.name))}"
    (tmp_path / f"{module}.py").write_text(CODE)
    yield lambda name, **more: Target(
        **{"target": f"{module}:{name}", "claim": GaussianDP(mu=1), "block": 100} | more
    )
    runner.stop()


def game(mechanism, features=None):
    return Game(mechanism, PAIR, features or BlackBox(), seed=0)


def outcome(mechanism, features=None):
    """The line that an audit of one block ends with."""
    played = game(mechanism, features)
    with pytest.raises(AuditError) as error:
        notes_of(mechanism, PAIR.data([True]))
        play_of(played)(0)
    assert str(error.value).isprintable()
    return str(error.value)


def test_the_child_plays_what_this_process_plays_bit_by_bit(own):
    for mechanism in (own("count"), own("count", block=10)):
        for features in (BlackBox(), Events()):
            here, there = (game(mechanism, features).play(3), play_of(game(mechanism, features))(3))
            assert here.columns == there.columns
            for name in ("rows", "bits", "index", "run"):
                assert np.array_equal(getattr(here, name), getattr(there, name))


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        (
            "leaves",
            {},
            "Target, trial 7 (seed 0, block 0): it ended its process (exit status 0); fix the "
            "mechanism",
        ),
        (
            "crashes",
            {},
            "Target, trial 7 (seed 0, block 0): it ended its process (killed by SIGSEGV, at own_",
        ),
        (
            "is_killed",
            {},
            "trial 7 (seed 0, block 0): it ended its process (killed by SIGKILL, as the system "
            "does",
        ),
        (
            "hangs",
            {"timeout": 1.0},
            "Target, trial 7 (seed 0, block 0): it did not return within 1 s, at own_",
        ),
        (
            "leaves_batch",
            {"batched": True},
            "one of the trials 1, 3 … 99 (seed 0, block 0): it ended its process (exit",
        ),
        (
            "leaves_at_once",
            {},
            "Target, before the first trial (seed 0): it ended its process (exit status 0)",
        ),
        ("raises_cancelled", {}, "Target, trial 0 (seed 0, block 0): it raised CancelledError"),
        ("raises_exit", {}, "it raised GeneratorExit"),
        ("raises_interrupt", {}, "it raised KeyboardInterrupt"),
        ("raises_own", {}, "it raised Own: x"),
        ("raises_mute", {}, "it raised Mute: <its __str__ raised ValueError>"),
        ("raises_escape", {}, r"it raised ValueError: \x1b[31mred"),
        ("empty", {}, "it put out [] (list), which holds no number"),
        ("quiet", {}, "it put out <its __repr__ raised ValueError> (Quiet)"),
        ("many_digits", {}, "it put out <its __repr__ raised ValueError> (int)"),
    ],
)
def test_whatever_it_does_is_one_line(own, name, more, says):
    assert says in outcome(own(name, **more))


@pytest.mark.parametrize("name", ["raises_own", "raises_mute", "empty", "quiet", "many_digits"])
def test_any_output_is_an_event(own, name):
    rows = play_of(game(own(name), Events()))(0).rows
    assert rows.shape[0] == 100 and np.isfinite(rows).all()


def test_a_module_that_ends_its_process_when_it_is_imported(tmp_path, own):
    (tmp_path / "ends_at_import.py").write_text("import os\nos._exit(0)\n")
    with pytest.raises(
        AuditError,
        match=r"^mechanism.target=ends_at_import:f: it ended its process \(exit status 0\)",
    ):
        Target(target="ends_at_import:f", claim=GaussianDP(mu=1))


def test_a_part_of_a_composition_is_isolated_too(own):
    parts = [own("count", timeout=3.0), own("count", timeout=2.0)]
    assert is_isolated(Composition(parts=parts)) and time_limit(Composition(parts=parts)) == 2.0
    trials = play_of(game(Composition(parts=parts), WhiteBox()))(0)
    assert np.array_equal(trials.rows, game(Composition(parts=parts), WhiteBox()).play(0).rows)


def test_a_function_of_the_running_script_is_sent_by_value(monkeypatch):
    import __main__

    def typed(data, rng):
        return 7.0

    typed.__module__, typed.__qualname__ = "__main__", "typed"
    monkeypatch.setattr(__main__, "typed", typed, raising=False)
    mechanism = Target(target="__main__:typed", claim=GaussianDP(mu=1), block=10)
    assert play_of(game(mechanism))(0).rows.tolist() == [[7.0]] * 10


def test_a_child_started_after_an_edit_never_keeps_its_trials_under_the_old_name(own, tmp_path):
    before = fingerprint(game(own("count")))["source"]
    (path,) = tmp_path.glob("own_*.py")
    path.write_text(CODE + "\n# edited\n")
    assert fingerprint(game(own("count")))["source"] == before, "the child goes on with what it has"
    runner.stop()
    assert fingerprint(game(own("count")))["source"] != before


def test_finished_blocks_are_kept_when_it_dies(own, tmp_path):
    source = Played(
        game(dataclasses.replace(own("leaves_late"), block=10)), Serial(), tmp_path / "trials"
    )
    with pytest.raises(AuditError, match=r"trial 95 \(seed 0, block 9\): it ended its process"):
        source.trials(0, 2000)
    assert source.tally.played == 9


# --- whole commands -------------------------------------------------------------------------------


WORDS = (
    "mechanism=callable",
    "mechanism/claim=pure",
    "canary=pair",
    "canary.absent=[0,0]",
    "canary.present=[0,0,1]",
)
QUICK = ("attacker=logistic", "trials=400", "mechanism.block=100", "backend=serial")


def test_a_death_is_one_line_with_status_2_and_the_run_is_failed(own, tmp_path, capfd):
    module = own("count").target.partition(":")[0]
    status = cli.main([*WORDS, *QUICK, f"mechanism.target={module}:leaves_at_once"])
    said = capfd.readouterr().err
    assert status == 2 and said.count("\n") == 1 and "it ended its process (exit status 0)" in said
    with sqlite3.connect(tmp_path / "mlruns/mlflow.db") as database:
        assert database.execute("SELECT status FROM runs").fetchall() == [("FAILED",)]
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "body", ["while True: pass", "import ctypes; ctypes.PyDLL(None).sleep(1000)"]
)
def test_ctrl_c_ends_a_function_in_python_and_in_c(tmp_path, body):
    (tmp_path / "endless.py").write_text(
        f"import os\ndef f(data, rng):\n    open('pid', 'w').write(str(os.getpid()))\n    {body}\n"
    )
    command = [sys.executable, "-m", "audit", *WORDS, *QUICK, "mechanism.target=endless:f"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    end = time.monotonic() + 120
    while not (tmp_path / "pid").exists() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.startswith("audit: stopped"), said
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text()}").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
def test_under_ray_a_worker_survives_and_says_the_same(own, tmp_path):
    ray = pytest.importorskip("ray")
    from audit.game import Ray

    ray.shutdown()
    try:
        source = Played(
            game(own("leaves_batch", batched=True)), Ray(workers=1), tmp_path / "trials"
        )
        with pytest.raises(
            AuditError,
            match=r"trials 1, 3 … 99 \(seed 0, block 0\): it ended its process \(exit status 3\)",
        ):
            source.trials(0, 100)
    finally:
        ray.shutdown()


# --- before play ----------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [10**9, 10**18])
def test_absurd_numbers_of_trials_are_refused_by_arithmetic(tmp_path, trials):
    from toys import Toy

    from audit.canaries.worst_case import WorstCase

    source = Played(Game(Toy(), WorstCase(), WhiteBox(), 0), Serial(), tmp_path)
    start = time.process_time()
    with pytest.raises(
        AuditError, match=r"trials need at least [\d,.]+ GiB and .* set trials to that or fewer"
    ):
        source.trials(0, trials)
    assert time.process_time() - start < 1 and source.tally.played == 0


def test_a_block_that_fits_into_no_memory_is_not_played(tmp_path, own):
    with pytest.raises(Exception, match="less than or equal to 1000000"):
        own("count", block=10**11)

    @dataclasses.dataclass(frozen=True)
    class Huge:
        block = 10**12

    with pytest.raises(
        AuditError,
        match=r"a block of 1,000,000,000,000 trials is played as a whole .*mechanism\.block",
    ):
        Played(
            dataclasses.replace(game(own("count")), mechanism=Huge()), Serial(), tmp_path
        ).trials(0, 400)
