"""The child process: what it returns and raises, how it ends, and that nothing of it is left."""

import contextlib
import operator
import os
import signal
import subprocess
import sys
import time

import endings
import numpy as np
import pytest

from audit import runner
from audit.runner import parent


@pytest.fixture(autouse=True)
def no_child_left():
    yield
    runner.stop()


def soon(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return held


def alive(pid):
    """Whether a process runs; one that has ended and that nobody has asked for its status does
    not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_child_answers_all_requests_and_is_another_process():
    first = runner.run(os.getpid)
    assert first != os.getpid() and runner.run(os.getpid) == first
    assert runner.run(operator.add, np.arange(3), 1).tolist() == [1, 2, 3]


def test_a_function_that_no_import_finds_goes_by_value():
    shift = 3
    typed = {}
    exec("def typed_in(x):\n    return x + 1\n", typed | {"__name__": "__main__"}, typed)
    assert runner.run(lambda x: x + shift, 1) == 4
    assert runner.run(typed["typed_in"], 1) == 2


def test_what_it_raises_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        runner.run(operator.truediv, 1, 0)
    with pytest.raises(KeyboardInterrupt):
        runner.run(endings.raises, KeyboardInterrupt)
    assert runner.run(operator.add, 1, 1) == 2, "it lives on"


def test_an_error_that_cannot_be_pickled_arrives_as_its_text():
    with pytest.raises(RuntimeError, match="UnpicklableError: 1 and 2"):
        runner.run(endings.raises_unpicklable)


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (os._exit, (0,), "it ended its process (exit status 0)"),
        (os._exit, (3,), "it ended its process (exit status 3)"),
        (endings.crashes, (), "(killed by SIGSEGV, at endings.py:"),
        (os.abort, (), "killed by SIGABRT"),
        (
            signal.raise_signal,
            (signal.SIGKILL,),
            "killed by SIGKILL, as the system does where memory runs out",
        ),
        (os.closerange, (3, 256), "it ended its process (exit status 1)"),
    ],
)
def test_its_end_is_an_outcome_and_the_next_request_starts_another(function, arguments, says):
    with pytest.raises(runner.Ended) as ended:
        runner.run(function, *arguments)
    assert says in str(ended.value) and "\n" not in str(ended.value)
    assert runner.run(operator.add, 1, 1) == 2


def test_an_end_says_in_which_part_and_call_it_came():
    def work():
        runner.enter(1)
        for place in range(5):
            runner.begin(place)
            if place == 3:
                os._exit(0)

    with pytest.raises(runner.Ended) as ended:
        runner.run(work)
    assert (ended.value.part, ended.value.place) == (1, 3)


@pytest.mark.parametrize(
    ("hang", "line"), [(endings.spins, "in spins"), (endings.sleeps_in_c, "in sleeps_in_c")]
)
def test_a_call_that_takes_too_long_is_killed_in_c_code_too(hang, line):
    runner.run(operator.add, 1, 1)
    start = time.monotonic()
    with pytest.raises(
        runner.TimedOut, match=r"did not return within 0\.5 s, at endings\.py:\d+ " + line
    ):
        runner.run(hang, time_limit=0.5)
    assert time.monotonic() - start < 30


def test_the_time_limit_is_of_one_call_and_not_of_all():
    def work():
        for place in range(5):
            runner.begin(place)
            time.sleep(0.3)
        runner.end()
        time.sleep(1.2)  # not in any call
        return "done"

    assert runner.run(work, time_limit=1.0) == "done"


def test_what_it_started_is_ended_with_it(tmp_path):
    def work():
        with contextlib.suppress(OSError):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            (tmp_path / "pid").write_text(str(child.pid))
        os._exit(0)

    with pytest.raises(runner.Ended):
        runner.run(work)
    pid = int((tmp_path / "pid").read_text())
    assert soon(lambda: not alive(pid))


def test_a_copy_that_comes_back_from_a_fork_does_not_go_on(tmp_path):
    def work():
        runner.begin(0)
        os.fork()
        runner.begin(1)
        (tmp_path / str(os.getpid())).touch()
        return 7

    assert runner.run(work) == 7
    time.sleep(0.3)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("hang", ["spins", "sleeps_in_c"])
def test_it_does_not_outlive_a_killed_parent(tmp_path, hang):
    """Whatever it is doing: it would go on for ever, and nobody would know of it."""
    code = (
        "import os, sys; from pathlib import Path; sys.path[:0] = sys.argv[2:]\n"
        "import endings; from audit import runner\n"
        "Path(sys.argv[1], 'pid.new').write_text(str(runner.run(os.getpid)))\n"
        "os.rename(sys.argv[1] + '/pid.new', sys.argv[1] + '/pid')\n"
        f"runner.run(endings.{hang})\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), os.path.dirname(endings.__file__)]
    )
    assert soon((tmp_path / "pid").exists, 60)
    pid = int((tmp_path / "pid").read_text())
    time.sleep(0.3)
    assert alive(pid)
    started.kill()
    started.wait()
    assert soon(lambda: not alive(pid))


def test_ctrl_c_ends_it_whatever_it_is_doing(monkeypatch):
    pid = runner.run(os.getpid)
    child = parent._child()
    monkeypatch.setattr(child, "_patience", lambda limit: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        runner.run(endings.sleeps_in_c)
    assert not alive(pid)
    monkeypatch.undo()
    assert runner.run(os.getpid) != pid


def test_its_output_is_not_swallowed(capfd):
    runner.run(print, "from the child")
    assert capfd.readouterr().out == "from the child\n"


def test_it_follows_the_path_and_the_working_directory(tmp_path, monkeypatch):
    runner.run(os.getpid)
    (tmp_path / "own_of_runner.py").write_text(
        "def where():\n    import os\n    return os.getcwd()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    import own_of_runner

    assert runner.run(own_of_runner.where) == str(tmp_path)
