"""What goes wrong on a real machine: processes and nodes killed, a full disk, two commands at once,
Ctrl-C.

Each time the outcome is that of an undisturbed run, bit by bit, and nothing is left behind.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import faults
import numpy as np
import psutil
import pytest
from faults import Slow

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Trials
from audit.features import WhiteBox
from audit.game import Cache, Game, Played, Ray, Serial, backends, ray_session, start_ray
from audit.game import cache as blocks

HERE = Path(__file__).parent
BLOCKS = 20
TRIALS = BLOCKS * Slow.block

# Ray forks where a test before may have used JAX, which warns of that; ray execs at once.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]


def game(folder, seconds=0.0, mechanism=Slow):
    return Game(mechanism(str(folder), seconds), WorstCase(), WhiteBox(), 0)


def undisturbed(count=TRIALS):
    with tempfile.TemporaryDirectory() as folder:
        return Played(game(folder), Serial(), Path(folder)).trials(0, count)


def same(one, other):
    """Bit by bit, each trial once and in its place."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("rows", "bits", "index", "log_ratio")
    )


def left_aside(folder):
    return [path for path in Path(folder).rglob("*") if path.name.endswith(".part")]


def soon(condition, seconds=20.0):
    """Wait for a condition, at most so long; return what it said last."""
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return held


@pytest.fixture
def no_ray():
    """No connection before, none after."""
    ray = pytest.importorskip("ray")
    ray.shutdown()
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def machines():
    """A cluster's head, with one core."""
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    head = {
        "num_cpus": 1,
        "include_dashboard": False,
        "object_store_memory": STORE,
        "ray_client_server_port": free_port(),
    }
    with warnings.catch_warnings():
        # Ray's own, of its client's server
        warnings.filterwarnings("ignore", "unclosed file", ResourceWarning)
        made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


STORE = 80 * 2**20


def free_port():
    with socket.socket() as asked:
        asked.bind(("", 0))
        return asked.getsockname()[1]


@pytest.fixture
def cluster(no_ray, machines):
    """Two nodes with a core each, the driver on none of them."""
    if len(machines.worker_nodes) == 0:
        machines.add_node(num_cpus=1, object_store_memory=STORE)
        machines.wait_for_nodes()
    return machines


# --- workers and nodes ----------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle_of_a_block(tmp_path, no_ray):
    (tmp_path / "die").touch()
    source = Played(game(tmp_path, 0.02), Ray(workers=2, task_seconds=0.1), tmp_path / "trials")
    assert same(source.trials(0, TRIALS), undisturbed())
    assert not (tmp_path / "die").exists(), "a worker was killed"
    assert source.tally.played == BLOCKS


def listening(session):
    """Addresses at which this process and what it has started listen."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    seen = {
        f"{process.name()} {connection.laddr.ip}"
        for process in processes
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {name for line in seen if (name := line.split()[0]) in session.servers} == {
        "gcs_server",
        "raylet",
    }
    return {line.split()[-1].removeprefix("::ffff:") for line in seen}


# Ray drops its handles of the processes that it ends, without a last look at them.
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <function Popen:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("victim", ["gcs_server", "raylet"])
def test_a_session_of_ones_own_is_for_this_machine_and_its_death_is_one_line(
    tmp_path, no_ray, victim, capfd
):
    """Ray would listen on all interfaces; and print a dump, or end this process after a minute of
    silence."""
    found = []

    def kill(count):
        if not found:
            (session,) = ray_session._sessions
            found.append(listening(session))
            found.append(stat.S_IMODE(session.folder.stat().st_mode))
            session.servers[victim].kill()

    source = Played(
        game(tmp_path, 0.1), Ray(workers=2, task_seconds=0.2), tmp_path / "trials", kill
    )
    with pytest.raises(
        AuditError, match=rf"Ray's {victim} died; what it said is in .*finished blocks are kept"
    ) as said:
        source.trials(0, TRIALS)
    addresses, mode = found
    assert "127.0.0.1" in addresses and addresses <= {"127.0.0.1", "::1"}, "loopback alone"
    assert mode == 0o700
    assert stat.S_IMODE((Path.home() / ".ray/auth_token").stat().st_mode) == 0o600
    assert "\n" not in str(said.value) and capfd.readouterr() == ("", "")
    log = Path(re.search(r"said is in (\S+\.log);", str(said.value))[1])
    assert "raylet.out" in log.read_text() and stat.S_IMODE(log.stat().st_mode) == 0o600
    log.unlink()
    assert not no_ray.is_initialized(), "the next audit starts another"
    kept = len(list(tmp_path.glob("trials/*/*.npz")))
    again = Played(game(tmp_path, 0.1), Serial(), tmp_path / "trials")
    assert same(again.trials(0, TRIALS), undisturbed()) and again.tally.cached == kept > 0


def nodes(folder):
    return {path.name.split("-")[1] for path in folder.glob("node-*")}


def test_a_node_lost_while_it_plays(tmp_path, cluster):
    lost = []

    def lose(count):
        if not lost and len(nodes(tmp_path)) == 2:
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
            lost.append(count)

    source = Played(
        game(tmp_path, 0.1),
        Ray(address=cluster.address, task_seconds=0.3),
        tmp_path / "trials",
        lose,
    )
    assert same(source.trials(0, TRIALS), undisturbed())
    assert lost and source.tally.played == BLOCKS


def test_no_node_left_is_said_and_not_waited_for(tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(backends, "PATIENCE", 0.5)
    backend = Ray(address=cluster.address)
    monkeypatch.setattr(Ray, "_room", lambda self, ray: 0)  # what a cluster without cores says
    with pytest.raises(AuditError, match="no node with a core is left"):
        Played(game(tmp_path, 2.0), backend, tmp_path / "trials").trials(0, 200)


def test_a_two_node_cluster_plays_what_serial_plays_with_code_that_no_node_has(
    tmp_path, cluster, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    text = Path(faults.__file__).read_text("utf-8")
    (elsewhere / "own_mechanism.py").write_text(text)
    monkeypatch.syspath_prepend(str(elsewhere))
    import own_mechanism

    source = Played(
        game(tmp_path, 0.1, own_mechanism.Slow),
        Ray(address=cluster.address, task_seconds=0.2),
        tmp_path / "trials",
    )
    start_ray(cluster.address, None)
    (elsewhere / "own_mechanism.py").write_text(
        "raise ImportError('read on the machine of the driver')"
    )
    assert same(source.trials(0, TRIALS), undisturbed())
    assert len(nodes(tmp_path)) == 2, "both nodes played"


def test_without_luggage_a_cluster_lacks_a_module_and_says_which(tmp_path, cluster, monkeypatch):
    """The twin of the test above: what it shows is that the luggage is needed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "left_at_home.py").write_text(Path(faults.__file__).read_text("utf-8"))
    monkeypatch.syspath_prepend(str(elsewhere))
    import left_at_home

    monkeypatch.setattr(ray_session, "_luggage", lambda folder: folder.mkdir() or folder)
    source = Played(
        game(tmp_path, 0, left_at_home.Slow), Ray(address=cluster.address), tmp_path / "trials"
    )
    with pytest.raises(AuditError, match="left_at_home"):
        source.trials(0, 200)


# --- files ----------------------------------------------------------------------------------------


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    cache = Cache(tmp_path, game(tmp_path))
    cache.folder.mkdir()
    killed = (
        "import os, signal, sys; from pathlib import Path; from audit.game.cache import "
        "open_locked;file = open_locked(Path(sys.argv[1])); file.write(b'half'); file.flush(); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", killed, str(cache.folder / ".dead.part")], check=False)
    assert left_aside(tmp_path)

    def meanwhile(file):
        file.write(b"whole")
        Cache(tmp_path, game(tmp_path)).tidy()
        assert len(left_aside(tmp_path)) == 1, "the dead one's is gone, ours is not"

    cache._write("kept", meanwhile)
    assert (cache.folder / "kept").read_bytes() == b"whole" and not left_aside(tmp_path)


def test_a_file_tidied_away_before_it_was_locked_is_made_anew(tmp_path, monkeypatch):
    lock, path = blocks.fcntl.flock, tmp_path / ".x.part"
    late = iter([True, False])

    def slow_lock(file, how):
        if next(late, False):
            path.unlink()
        return lock(file, how)

    monkeypatch.setattr(blocks.fcntl, "flock", slow_lock)
    with blocks.open_locked(path) as file:
        file.write(b"there")
    assert path.read_bytes() == b"there"


FULL = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_faults import *
folder = Path(sys.argv[1])
try:
    Played(game(folder), Serial(), folder / "trials").trials(0, TRIALS)
except AuditError as error:
    print(error)
kept = len(list(folder.rglob("*.npz")))
assert 0 < kept < BLOCKS and not left_aside(folder), (kept, left_aside(folder))
subprocess.run(["mount", "-o", "remount,size=10m", str(folder / "trials")], check=True)
again = Played(game(folder), Serial(), folder / "trials")
assert same(again.trials(0, TRIALS), undisturbed())
assert (again.tally.cached, again.tally.played) == (kept, BLOCKS - kept)
print("whole")
"""


def test_the_disk_full_while_a_block_is_written(tmp_path):
    (tmp_path / "trials").mkdir()
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}/trials"
    if (
        not shutil.which("unshare")
        or subprocess.run(["unshare", "-Urm", "sh", "-c", mount], check=False).returncode
    ):
        pytest.skip("no small file system can be mounted here")
    words = [
        "unshare",
        "-Urm",
        "sh",
        "-c",
        f'{mount} && exec "$@"',
        "sh",
        sys.executable,
        "-c",
        FULL,
    ]
    done = subprocess.run(
        [*words, str(tmp_path), str(HERE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "No space left on device); free some room" in done.stdout and "whole" in done.stdout


# --- whole commands -------------------------------------------------------------------------------


@contextlib.contextmanager
def made_desk():
    """An empty working directory with the slow mechanism in it, and a short temporary folder for
    Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))
    (folder / "conf/mechanism").mkdir(parents=True)
    (folder / "tmp").mkdir()
    (folder / "conf/mechanism/slow.yaml").write_text(
        f"_target_: faults.Slow\nfolder: {folder}\nseconds: 0.1\n"
    )
    shutil.copy(faults.__file__, folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def desk():
    with made_desk() as folder:
        yield folder


@pytest.fixture(scope="module")
def calm():
    """The bounds that an undisturbed command prints."""
    with made_desk() as folder:
        return bounds(finish(start(folder, "backend=serial")))


def start(desk, *words, program=("-m", "audit")):
    """A command of its own, in a session of its own, ended with the test."""
    fixed = [
        "mechanism=slow",
        "features=white_box",
        "attacker=likelihood_ratio",
        f"trials={TRIALS}",
    ]
    environment = os.environ | {"TMPDIR": str(desk / "tmp"), "COLUMNS": "200"}
    command = [sys.executable, *program, *fixed, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        cwd=desk,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    )


def finish(process, status=0):
    out, said = process.communicate(timeout=120)
    assert process.returncode == status, said
    return out


def played(desk):
    return sorted(desk.glob("mlruns/trials/*/*.npz"))


def kept(desk):
    """All trials of the one game that was played here."""
    (folder,) = (desk / "mlruns/trials").iterdir()
    assert len(played(desk)) == BLOCKS and not left_aside(desk)
    cache = Cache(desk, game(desk))
    object.__setattr__(cache, "folder", folder)
    return Trials.concatenate([cache.load(block) for block in range(BLOCKS)])


def processes(word):
    """Processes with ``word`` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if word in path.read_text() else []
        except OSError:
            continue
    return found


def bounds(out):
    return [line for line in out.splitlines() if "-GDP" in line]


STATUS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.parametrize("how", STATUS)
def test_the_command_stopped_under_ray_and_repeated(desk, calm, how):
    stopped = start(desk, "backend=ray", "backend.workers=2", "backend.task_seconds=0.2")
    assert (
        soon(lambda: len(played(desk)) >= 3 or stopped.poll() is not None, 60)
        and stopped.poll() is None
    )
    if how != signal.SIGINT:
        stopped.send_signal(how)
    else:
        os.killpg(stopped.pid, how)  # as a terminal does: everybody in it is told
    _, said = stopped.communicate(timeout=60)
    assert stopped.returncode == STATUS[how], said
    assert "SIGTERM received" not in said and len(said.splitlines()) <= 2, (
        "a line on the start, a line of ours"
    )
    assert soon(lambda: not processes(f"{desk}/tmp")), "no process of Ray's is left"
    before = len(played(desk))
    assert 3 <= before < BLOCKS
    if how != signal.SIGKILL:
        assert not list((desk / "tmp").iterdir()) and not left_aside(desk)
    out = finish(start(desk, "backend=ray", "backend.workers=2"))
    assert same(kept(desk), undisturbed())
    assert not list((desk / "tmp").iterdir()), "nor its folder"
    assert bounds(out) == calm


RAYLESS = """
import sys
import ray._private.services
ray._private.services.RAYLET_EXECUTABLE = "/bin/false"
from audit.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_command_whose_ray_does_not_start_plays_without_it_and_says_so(desk, calm):
    """After the half minute that Ray waits for its raylet."""
    auto = start(
        desk, "backend=auto", "+backend.startup=0", "backend.workers=20", program=["-c", RAYLESS]
    )
    out, said = auto.communicate(timeout=300)
    assert auto.returncode == 0 and bounds(out) == calm, said
    assert "since Ray cannot be had" in said and "timed out during startup" in said
    assert len(said.splitlines()) <= 4 and "Traceback" not in said, said
    assert not processes(f"{desk}/tmp"), "nothing is left running"
    assert [path.suffix for path in (desk / "tmp").iterdir()] == [".log"]
    assert same(kept(desk), undisturbed())


def test_a_command_outside_the_cluster_plays_there_by_rays_client(desk, calm, machines):
    head = machines.head_node
    address = f"ray://{head.node_ip_address}:{head._ray_params.ray_client_server_port}"
    out = finish(start(desk, "backend=ray", f"backend.address={address}"))
    assert same(kept(desk), undisturbed()) and bounds(out) == calm
    assert nodes(desk), "workers played, not the command"


def test_two_sweeps_at_once_with_the_same_fresh_database_and_cache(desk):
    words = ["criterion=advantage,mu_lower", "backend=serial", "-m"]
    both = [start(desk, *words) for _ in range(2)]
    one, other = map(finish, both)
    assert bounds(one) == bounds(other) and len(bounds(one)) > 4
    assert same(kept(desk), undisturbed())
    with sqlite3.connect(desk / "mlruns/mlflow.db") as database:
        runs = database.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall()
    database.close()
    assert runs == [("FINISHED", 6)], "two sweeps of two audits each"
