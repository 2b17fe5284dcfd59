"""Ray's start and end, without a Ray: what it raises, says and leaves behind. With one:
`test_faults`."""

import logging
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toys import Toy

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError
from audit.features import WhiteBox
from audit.game import Auto, Game, Played, Ray, Serial, backends, ray_session
from audit.game.ray_session import RayStartError, start_ray


def game():
    return Game(Toy(), WorstCase(), WhiteBox(), 0)


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A home and a temporary folder of one's own."""
    home, temporary = tmp_path / "home", tmp_path / "t"
    home.mkdir(), temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(ray_session.tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(ray_session, "LONGEST", 1000)  # no socket is made there
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return temporary


@pytest.fixture
def no_start(desk, monkeypatch):
    """A Ray that says much and does not start."""
    ray = pytest.importorskip("ray")
    ray.shutdown()
    monkeypatch.setattr(backends, "_without_ray", [])

    def init(**settings):
        settings_of.append(settings)
        os.write(2, b"line of C\n" * 60)
        logging.getLogger("ray").error("line of Python")
        raise Exception("The current node timed out during startup.\nSixty more lines.")

    settings_of = []
    monkeypatch.setattr(ray, "init", init)
    return settings_of


def test_a_start_that_fails_is_one_line_that_names_a_private_file_with_the_rest(
    no_start, desk, capfd
):
    with pytest.raises(RayStartError, match="does not start on this machine") as said:
        start_ray(None, 2)
    line = str(said.value)
    assert (
        "\n" not in line
        and "(The current node timed out during startup;" in line
        and "use backend=serial" in line
    )
    (kept,) = desk.glob("*.log")
    assert str(kept) in line and mode(kept) == 0o600
    assert kept.read_text().count("line of C\n") == 60 and "line of Python" in kept.read_text()
    assert capfd.readouterr().err == "", "nothing of Ray's reaches the terminal"
    assert (
        no_start[0]["address"] == "local" and Path(no_start[0]["_temp_dir"]).parent.parent == desk
    )


def test_auto_plays_here_what_ray_cannot_and_says_so(no_start, tmp_path, caplog, monkeypatch):
    alone = Played(game(), Serial(), tmp_path / "serial").trials(0, 200)
    monkeypatch.setattr(Auto, "_choose", lambda self, seconds, left: Ray(workers=2))
    with caplog.at_level(logging.WARNING):
        fallen = Played(game(), Auto(workers=2), tmp_path / "auto").trials(0, 200)
    for name in ("rows", "bits", "index", "run", "log_ratio"):
        assert np.array_equal(getattr(alone, name), getattr(fallen, name))
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("audit")]
    assert (
        said.startswith("backend=auto: the blocks are played in this process")
        and "timed out" in said
    )
    assert len(no_start) == 1


def test_ray_by_name_is_refused_where_it_does_not_start(no_start, tmp_path):
    with pytest.raises(AuditError, match="does not start"):
        Played(game(), Ray(workers=2), tmp_path).trials(0, 200)


def test_a_sweep_of_auto_tries_ray_once(no_start, tmp_path, monkeypatch):
    monkeypatch.setattr(Auto, "_choose", lambda self, seconds, left: Ray(workers=2))
    for name in ("a", "b"):
        Played(game(), Auto(), tmp_path / name).trials(0, 100)
    assert len(no_start) == 1


def test_sigterm_while_ray_starts_goes_to_the_handler_that_was_there(desk, monkeypatch):
    ray = pytest.importorskip("ray")
    ray.shutdown()

    def init(**settings):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))  # as Ray does
        signal.raise_signal(signal.SIGTERM)

    class Ours(KeyboardInterrupt):
        pass

    def ours(number, frame):
        raise Ours

    monkeypatch.setattr(ray, "init", init)
    before = signal.signal(signal.SIGTERM, ours)
    try:
        with pytest.raises(Ours):
            start_ray(None, 2)
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_raylets_last_words_do_not_reach_standard_output(no_start, desk, capfd):
    with pytest.raises(RayStartError):
        start_ray(None, 2)
    from ray._private import worker

    worker.print_to_stdstream(
        {"lines": ["Raylet is terminated."] * 60, "pid": "raylet", "is_err": False}, False
    )
    assert capfd.readouterr().out == ""


# --- its token ------------------------------------------------------------------------------------


def test_the_token_is_for_its_user_alone(desk):
    path = Path.home() / ".ray/auth_token"
    ray_session._private_token()
    first = path.read_text()
    assert mode(path) == 0o600 and mode(path.parent) == 0o700 and len(first) == 64
    assert [file.name for file in path.parent.iterdir()] == ["auth_token"], "nothing is left aside"
    path.chmod(0o644)  # as Ray makes it
    ray_session._private_token()
    assert mode(path) == 0o600 and path.read_text() == first


@pytest.mark.parametrize(
    ("name", "value"),
    [("RAY_AUTH_TOKEN", "x"), ("RAY_AUTH_TOKEN_PATH", "/x"), ("RAY_AUTH_MODE", "disabled")],
)
def test_a_token_that_is_elsewhere_is_left_alone(desk, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    ray_session._private_token()
    assert not (Path.home() / ".ray").exists()


# --- its folder -----------------------------------------------------------------------------------


@pytest.fixture
def own_folder(monkeypatch):
    left = []
    monkeypatch.setattr(ray_session.atexit, "register", lambda call, *words: left.append(words))
    signal.alarm(10)
    yield ray_session._own_folder
    signal.alarm(0)
    for _, lock in left:
        lock.close()


def test_foreign_things_in_the_temporary_folder_neither_hang_nor_go(desk, own_folder, tmp_path):
    """Each of these is what another user can put there."""
    for name in ("fifo", "link", "dead"):
        (desk / f"audit-ray-{name}").mkdir()
    os.mkfifo(desk / "audit-ray-fifo/lock")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/lock").touch()
    (desk / "audit-ray-link/lock").symlink_to(tmp_path / "precious/lock")
    (desk / "audit-ray-folder").symlink_to(tmp_path / "precious")
    os.mkfifo(desk / "audit-ray-bare")
    (desk / "audit-ray-dead/lock").touch()
    folder = own_folder()
    left = {path.name for path in desk.iterdir()} - {folder.name}
    assert left == {"audit-ray-fifo", "audit-ray-link", "audit-ray-folder", "audit-ray-bare"}, (
        "the dead one's is gone"
    )
    assert (tmp_path / "precious/lock").exists()
    assert mode(folder) == 0o700
    assert own_folder() != folder and folder.exists(), "a living one's stays"


def test_another_users_folder_is_left_alone(desk, own_folder, monkeypatch):
    (desk / "audit-ray-theirs").mkdir()
    (desk / "audit-ray-theirs/lock").touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    own_folder()
    assert (desk / "audit-ray-theirs/lock").exists()


def test_a_socket_in_the_longest_temporary_folder_still_has_a_name():
    home = "/" + "x" * (ray_session.LONGEST - 1)
    session = "session_2026-12-01_02-54-31_564463_4194304"  # the largest process number
    assert (
        len(f"{home}/audit-ray-12345678/{ray_session.RAYS}/{session}/sockets/plasma_store") == 107
    )


def test_what_a_start_left_running_is_ended_and_nothing_else(desk):
    folder = desk / "audit-ray-x"
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    rays = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(100)", f"--log={folder}/r"]
    )
    try:
        ray_session._end_processes(folder)
        assert rays.wait(10) == -signal.SIGKILL and other.poll() is None
    finally:
        rays.kill(), other.kill(), rays.wait(), other.wait()


# --- whether it lives -----------------------------------------------------------------------------


def test_a_cluster_that_answers_no_longer_is_said(monkeypatch, desk):
    monkeypatch.setattr(ray_session, "STEP", 0.01)
    folder = desk / "audit-ray-x"
    folder.mkdir()
    session = ray_session._Session("10.0.0.5:6379", folder, gcs="127.0.0.1:1")
    monkeypatch.setattr(ray_session, "_sessions", [session])
    with pytest.raises(
        AuditError,
        match=r"the cluster at 10\.0\.0\.5:6379 answers no longer;.*finished blocks are kept",
    ):
        ray_session.refuse_if_dead()
    assert not ray_session._sessions, "the next audit connects anew"


def test_the_loopback_alone_is_asked_of_a_ray_of_ones_own():
    ray = pytest.importorskip("ray")
    from ray._private import ray_constants, services

    with ray_session._on_loopback(ray, None):
        assert services.get_node_ip_address() == "127.0.0.1" or ray.is_initialized()
    assert ray_constants.ENABLE_RAY_CLUSTER
    with ray_session._on_loopback(ray, "10.0.0.5:6379"):
        assert ray_constants.ENABLE_RAY_CLUSTER
