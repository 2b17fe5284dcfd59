"""Ray, from its start to its end: quiet, for this machine and this user only, and known to live.
The only door to ray."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import sys
import sysconfig
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from audit.core import AuditError
from audit.game.cache import abandoned, open_locked

log = logging.getLogger(__name__)

STEP = 1.0
"""Seconds after which a wait looks whether Ray still lives."""
KNOCK = 10.0
"""Seconds between two questions whether a cluster still answers."""
STORE = 200 * 2**20
"""Bytes of Ray's object store on this machine: blocks pass through it one by one."""
WORKER_ENV = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""One thread a worker: the cores are shared out by blocks already."""


class RayStartError(AuditError):
    """Ray could not be started, or reached: nothing was played there."""


@dataclasses.dataclass
class _Session:
    """Ray, as this process started or reached it.

    Args:
        address: of the cluster; None: on this machine.
        folder: of this process alone, with Ray's sockets and logs; it goes when the process does.
        cores: of a Ray on this machine, which do not change.
        servers: name → process, of those on this machine without which nothing is played.
        gcs: where the cluster's head listens, ``host:port``; None where that is not known.
        heard: when the cluster answered last, by `time.monotonic`.
    """

    address: str | None
    folder: Path
    cores: int = 0
    servers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gcs: str | None = None
    heard: float = 0.0

    @property
    def log(self) -> Path:
        """What Ray says in this process."""
        return self.folder / "ray.log"


_sessions: list[_Session] = []
"""The session of this process, if Ray was started here."""


def start_ray(address: str | None, workers: int | None) -> Any:
    """Ray, connected: the one that this process is connected to already, so that workers stay warm
    over a sweep's jobs.

    A Ray that is started here listens on 127.0.0.1 only.

    Raises:
        RayStartError: when it cannot be started or reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # else Ray warns of a change that is not ours
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if (address or "").startswith("ray://") and (Path.home() / ".ray/auth_token").exists():
        # Ray's client shows its token only if told before the import
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    import ray

    if not ray.is_initialized():
        _sessions.clear()  # somebody else has ended it
    elif not _sessions or _sessions[0].address == address:
        return ray
    else:
        stop_ray()
    log.info("starting Ray%s", f" at {address}" if address else "")
    _refuse_if_nobody_answers(address)
    session = _Session(address, _own_folder(), workers or cores())
    try:
        with _quiet(session.log), _sigterm_kept(), _on_loopback(ray, address):
            _private_token()
            ray.init(**_settings(session))
    except Exception as error:
        # Ray raises anything from Exception itself to OSError when its processes do not start
        ray.shutdown()
        _end_processes(session.folder)
        kept = _keep(session.log, session.folder / RAYS)
        raise RayStartError(
            f"backend=ray: Ray does not start on {address or 'this machine'} "
            f"({first_line(error)}; what it said is in {kept}); use backend=serial"
        ) from error
    session.servers = _servers() if address is None else {}
    session.gcs = None if session.servers else _gcs_address(ray, address)
    _sessions[:] = [session]
    return ray


RAYS = "r"
"""Ray's own folder in ours: Ray opens it to everybody, and names in it must be short."""
SERVERS = ("gcs_server", "raylet")
"""Without one of these a session is lost."""


def _settings(session: _Session) -> dict[str, Any]:
    """What `ray.init` is told."""
    common = {"log_to_driver": False, "logging_level": logging.ERROR}
    if session.address is not None:
        luggage = str(_luggage(session.folder / "code"))
        return common | {
            "address": session.address,
            "runtime_env": {"env_vars": WORKER_ENV, "working_dir": luggage},
        }
    path = os.pathsep.join(filter(None, sys.path))
    return common | {
        "address": "local",
        "num_cpus": session.cores,
        "include_dashboard": False,
        "object_store_memory": STORE,
        "_temp_dir": str(session.folder / RAYS),
        "runtime_env": {"env_vars": WORKER_ENV | {"PYTHONPATH": path}},
    }


@contextlib.contextmanager
def _on_loopback(ray: Any, address: str | None) -> Iterator[None]:
    """A Ray that is started meanwhile is for this machine only: its servers bind to 127.0.0.1.

    `ray.init(_node_ip_address="127.0.0.1")` would be turned into the machine's address in its
    network, and everything but that very address has all servers listen on all interfaces. Ray 2.60
    keeps to 127.0.0.1 where it makes no clusters, as RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 says to
    one that is not imported yet.
    """
    from ray._private import ray_constants

    clusters = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = clusters and address is not None
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray puts a handler of its own for SIGTERM, which prints a stack, in the place of the one that
    was there."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is None
    ):
        # only the main thread may set handlers, and only those that Python knows can be put back
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    terminated = False
    try:
        yield
    except SystemExit:  # what Ray's handler raises
        terminated = True
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)
        if terminated:
            signal.raise_signal(signal.SIGTERM)


def cores_now(ray: Any) -> int:
    """Cores that play. One's own Ray is not asked: where its GCS has just died, Ray waits for it
    and ends this process."""
    if _sessions and _sessions[0].address is None:
        return _sessions[0].cores
    return int(ray.cluster_resources().get("CPU", 0))


def _servers() -> dict[str, Any]:
    import psutil

    found: dict[str, Any] = {}
    for process in _children():
        with contextlib.suppress(psutil.Error):
            found |= {process.name(): process} if process.name() in SERVERS else {}
    return found


def _private_token() -> None:
    """Make the token of this user's Ray readable by this user only; Ray would make it readable by
    everybody.

    Whoever has it can run code in this user's sessions.
    """
    elsewhere = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ)
    if elsewhere or os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return
    path = Path.home() / ".ray/auth_token"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file, aside = tempfile.mkstemp(dir=path.parent)  # mode 600
        with open(file, "w") as written:
            written.write(secrets.token_hex(32))
        # another process was sooner, and its token is as good
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)  # whole or not there
        os.unlink(aside)
    if path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _gcs_address(ray: Any, address: str | None) -> str | None:
    """Where a cluster answers as long as it lives: its head, or the server of Ray's client."""
    if (address or "").startswith("ray://"):
        return (address or "").removeprefix("ray://")
    return str(ray.get_runtime_context().gcs_address)


def first_line(error: BaseException) -> str:
    """An error's first line, or its name where it says nothing.

    >>> first_line(ValueError(" No room.\\n(more)")), first_line(ValueError())
    ('No room', 'ValueError')
    """
    lines = str(error).strip().splitlines()
    return " ".join(lines[0].split()).rstrip(".;") if lines else type(error).__name__


def go_on() -> str:
    """The cure, where Ray was lost in the middle of an audit."""
    kept = _keep(_sessions[0].log, _sessions[0].folder / RAYS) if _sessions else None
    said = f"what it said is in {kept}; " if kept else ""
    return f"{said}finished blocks are kept, and the same command goes on from there"


def _refuse_if_nobody_answers(address: str | None) -> None:
    """Ray itself would try for minutes."""
    place = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address or "")
    if place is None:
        return
    try:
        socket.create_connection((place[1], int(place[2])), timeout=10).close()
    except OSError as error:
        raise RayStartError(
            f"backend=ray: nobody answers at {address} ({error.strerror or error}); check "
            "backend.address, and that the cluster runs"
        ) from error


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- whether it lives -----------------------------------------------------------------------------


def refuse_if_dead(at_once: bool = False) -> None:
    """Raise where what plays is gone: Ray itself would wait, print sixty lines, or end this
    process.

    Args:
        at_once: ask a cluster even where it has answered a moment ago.

    Raises:
        AuditError: which process died, or which cluster is silent.
    """
    if not _sessions:
        return
    session = _sessions[0]
    dead = [name for name, process in session.servers.items() if not _lives(process)]
    if dead:
        raise _lost(f"Ray's {dead[0]} died")
    if session.gcs is None or (time.monotonic() < session.heard + KNOCK and not at_once):
        return
    if not any(_answers(session.gcs, pause) for pause in (0, STEP, STEP)):
        raise _lost(f"the cluster at {session.address} answers no longer")
    session.heard = time.monotonic()


def _lost(what: str) -> AuditError:
    """Ray is stopped, so that the next audit of a sweep starts another."""
    said = f"backend=ray: {what}; {go_on()}"
    stop_ray()
    return AuditError(said)


def _lives(process: Any) -> bool:
    import psutil

    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _answers(place: str, pause: float) -> bool:
    time.sleep(pause)
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()
    except OSError:
        return False
    return True


def _children() -> list[Any]:
    """Processes that this one has started."""
    import psutil

    return list(psutil.Process().children(recursive=True))


def _end_processes(folder: Path) -> None:
    """Kill what this process started in ``folder``: Ray leaves it behind where the rest of it does
    not come up."""
    import psutil

    for process in _children():
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in process.cmdline()):
                process.kill()


def stop_ray() -> None:
    """Disconnect, and stop what this process started; Ray has opinions about its own death, which
    go into its log."""
    import ray

    session = _sessions.pop() if _sessions else None
    if session is None:
        ray.shutdown()
        return
    with _quiet(session.log):
        ray.shutdown()
    if session.address is None:
        _end_processes(session.folder)


# --- its folder, and what travels -----------------------------------------------------------------


def _own_folder() -> Path:
    """A folder for Ray's sockets and logs that goes when this process does; those of dead processes
    go now.

    Nobody else can enter it or foretell its name. Sockets have short names, so that the folder's
    must be short too.
    """
    home = tempfile.gettempdir()
    home = home if len(home) <= LONGEST else "/tmp"
    for left in Path(home).glob("audit-ray-*"):
        with abandoned(left / "lock") as free:
            if free and _is_ours(left):
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="audit-ray-", dir=home))
    lock = open_locked(folder / "lock")
    atexit.register(_leave, folder, lock)
    return folder


LONGEST = 107 - len(
    "/audit-ray-12345678/r/session_2026-12-01_02-54-31_564463_1234567/sockets/plasma_store"
)
"""Of the temporary folder's name: a socket's has 107 bytes at most."""


def _is_ours(folder: Path) -> bool:
    """A folder of this user, not a link to one: everybody may put what they like into a temporary
    folder."""
    about = folder.lstat()
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()


def _leave(folder: Path, lock: IO[bytes]) -> None:
    """Stop what this process started, and remove its folder."""
    stop_ray()
    _end_processes(folder)  # of a start that was interrupted
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def _luggage(folder: Path) -> Path:
    """``folder``, filled with a copy of the code that this process uses and that no installation on
    a cluster has.

    That is this package, and whatever was imported from elsewhere than where Python and its
    packages are installed.
    """
    installed = {
        sys.prefix,
        sys.base_prefix,
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
    }
    folder.mkdir()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or file is None or not file.endswith(".py") or name == "__main__":
            continue
        path = Path(file).resolve()
        if name != "audit" and any(path.is_relative_to(Path(home).resolve()) for home in installed):
            continue
        if path.name == "__init__.py":
            shutil.copytree(
                path.parent, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(path, folder / f"{name}.py")
    return folder


# --- what it says ---------------------------------------------------------------------------------

TAIL = 20_000
"""Bytes of each of Ray's logs that are kept after a failure."""
LAST_WORDS = ("gcs_server.out", "gcs_server.err", "raylet.out", "raylet.err")
"""The logs of Ray's processes that say why a session was lost."""


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """What Ray says in this process goes into ``log``.

    Ray speaks in three ways: Python's logging and a thread that prints, both sent there from now
    on, and C++ that writes to file descriptor 2, which is sent there as long as this lasts: Ray's
    start and its end.
    """
    _send_python_to(log)
    with warnings.catch_warnings(), _descriptor_2_to(log):
        # JAX's; Ray execs at once.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        yield


def _send_python_to(log: Path) -> None:
    from ray._private import worker

    rays = logging.getLogger("ray")
    rays.propagate = False
    for handler in rays.handlers[:]:
        rays.removeHandler(handler)
        handler.close()
    rays.addHandler(logging.FileHandler(log, delay=True))

    def write(data: dict[str, Any], ignore_prefix: bool = False) -> None:
        with contextlib.suppress(OSError), log.open("a") as file:
            file.writelines(f"({data.get('pid')}) {line}\n" for line in data["lines"])

    worker.print_to_stdstream = write  # prints a raylet's last words even with log_to_driver=False


@contextlib.contextmanager
def _descriptor_2_to(log: Path) -> Iterator[None]:
    try:
        before = os.dup(2)
    except OSError:  # standard error is closed
        yield
        return
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _keep(log: Path, rays: Path) -> Path:
    """A copy that stays when the session's folder goes: what Ray said here, and the last words of
    its servers.

    Args:
        log: of this process.
        rays: the folder of Ray's sessions.

    Returns:
        A new file beside the session's folder, for this user's eyes only.
    """
    file, name = tempfile.mkstemp(prefix="audit-ray-", suffix=".log", dir=log.parent.parent)
    with open(file, "wb") as kept:
        for path in [log, *(rays / "session_latest/logs" / name for name in LAST_WORDS)]:
            if path.is_file() and path.stat().st_size:
                kept.write(f"--- {path.name}\n".encode())
                kept.write(path.read_bytes()[-TAIL:])
    return Path(name)
