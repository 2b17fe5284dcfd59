"""Who plays: this process, or Ray on this machine or a cluster. The only door to ray."""

from __future__ import annotations

import atexit
import collections
import logging
import math
import os
import re
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Protocol, runtime_checkable

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import AuditError, Trials
from audit.game.cache import abandoned, open_locked
from audit.game.play import Play
from audit.privacy import STRICT

log = logging.getLogger(__name__)


@runtime_checkable
class Backend(Protocol):
    """Plays blocks, in any order."""

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """(block, its trials) as they finish."""
        ...


@dataclass(frozen=True, config=STRICT)
class Serial:
    """One block after the other, in this process."""

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """In order."""
        for block in blocks:
            yield block, play(block)


@dataclass(frozen=True, config=STRICT)
class Ray:
    """Blocks as Ray tasks, on this machine or on a cluster.

    A task whose worker or node is lost is played again, by another one; what it plays depends on the block alone.

    Args:
        workers: how many play at once; None: one a core.
        address: of a running cluster (``auto``, ``host:port``, ``ray://…``); None starts Ray on this machine.
        task_seconds: tasks are whole numbers of blocks that take at most about so long.
    """

    workers: Annotated[int, Field(ge=1)] | None = None
    address: str | None = None
    task_seconds: Annotated[float, Field(gt=0)] = 1.0

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """Blocks as they finish; at most two tasks a worker are under way, so that little waits in memory.

        Raises:
            AuditError: see `Game.play`; or when Ray does not start, its workers die again and again, or none is left.
        """
        if not blocks:
            return
        ray = start_ray(self.address, self.workers)
        task = ray.remote(_play_all)
        play = ray.put(play)
        waiting, under_way, size = collections.deque(blocks), dict[Any, list[int]](), 1
        try:
            while waiting or under_way:
                room = self._room(ray)
                places = 2 * max(1, room)
                while waiting and len(under_way) < places:
                    # Tasks become smaller towards the end, so that all workers finish at about the same time.
                    batch = [waiting.popleft() for _ in range(min(size, math.ceil(len(waiting) / places)))]
                    under_way[task.remote(play, batch)] = batch
                done, _ = ray.wait(list(under_way), num_returns=1, timeout=PATIENCE)
                if not done:
                    _refuse_without_cores(room)
                    continue
                seconds, played = _take(ray, done[0])
                size = max(1, int(self.task_seconds * len(under_way.pop(done[0])) / max(seconds, 1e-3)))
                yield from played
        finally:
            if under_way:  # nobody waits for these; Ray's own cancel can abort this process (ray-project/ray#54798)
                ray.shutdown()

    def _room(self, ray: Any) -> int:
        """Cores that there are now, of a cluster that may grow and shrink, or as many of them as were asked for."""
        cores = int(ray.cluster_resources().get("CPU", 0))
        return cores if self.workers is None else min(cores, self.workers)


PATIENCE = 30.0
"""Seconds without a finished task after which it is asked whether any node is left."""
STORE = 200 * 2**20
"""Bytes of Ray's object store on this machine: blocks pass through it one by one."""
WORKER_ENV = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""One thread a worker: the cores are shared out by blocks already."""


def start_ray(address: str | None, workers: int | None) -> Any:
    """Ray, connected: the one that this process is connected to already, so that workers stay warm over a sweep's jobs.

    Raises:
        AuditError: when it cannot be started or reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of a change that is not ours
    if (address or "").startswith("ray://") and (Path.home() / ".ray/auth_token").exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray's client shows its token only if told before the import
    import ray

    if ray.is_initialized():
        if _connected.get("to", address) == address:
            return ray
        ray.shutdown()
    log.info("starting Ray%s", f" at {address}" if address else "")
    _refuse_if_nobody_answers(address)
    folder = _own_folder()
    where: dict[str, Any] = {
        "address": address or "local",
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "runtime_env": {"env_vars": WORKER_ENV, "working_dir": str(_luggage(folder / "code"))},
    }
    if address is None:
        where |= {
            "num_cpus": workers or cores(),
            "include_dashboard": False,
            "object_store_memory": STORE,
            "_temp_dir": str(folder),
            "runtime_env": {"env_vars": WORKER_ENV | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}},
        }
    try:
        with warnings.catch_warnings():
            # JAX's; Ray execs at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(**where)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise AuditError(
            f"backend=ray: Ray does not start on {address or 'this machine'} ({said[0]}); use backend=serial"
        ) from error
    _connected["to"] = address
    return ray


_connected: dict[str, str | None] = {}
"""Where this process's Ray is, if it was started here."""


def _refuse_if_nobody_answers(address: str | None) -> None:
    """Ray itself would try for minutes."""
    place = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address or "")
    if place is None:
        return
    try:
        socket.create_connection((place[1], int(place[2])), timeout=10).close()
    except OSError as error:
        raise AuditError(
            f"backend=ray: nobody answers at {address} ({error.strerror or error}); check backend.address, and that the"
            " cluster runs"
        ) from error


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _own_folder() -> Path:
    """A folder for Ray's sockets and logs that goes when this process does; those of dead processes go now.

    Sockets have short names, so that the folder's must be short too.
    """
    home = tempfile.gettempdir()
    home = home if len(home) <= 24 else "/tmp"
    for left in Path(home).glob("audit-ray-*"):
        with abandoned(left / "lock") as free:
            if free:
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="audit-ray-", dir=home))
    lock = open_locked(folder / "lock")
    atexit.register(_leave, folder, lock)
    return folder


def _leave(folder: Path, lock: IO[bytes]) -> None:
    """Stop what this process started, and remove its folder."""
    import ray

    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def _luggage(folder: Path) -> Path:
    """``folder``, filled with a copy of the code that this process uses and that no installation on a cluster has.

    That is this package, and whatever was imported from elsewhere than where Python and its packages are installed.
    """
    installed = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    folder.mkdir()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or file is None or not file.endswith(".py") or name == "__main__":
            continue
        path = Path(file).resolve()
        if name != "audit" and any(path.is_relative_to(Path(home).resolve()) for home in installed):
            continue
        if path.name == "__init__.py":
            shutil.copytree(path.parent, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / f"{name}.py")
    return folder


def _refuse_without_cores(room: int) -> None:
    if room < 1:
        raise AuditError("backend=ray: no node with a core is left; add one, and the same command goes on from here")


def _play_all(play: Play, blocks: Sequence[int]) -> tuple[float, list[tuple[int, Trials]]]:
    start = time.perf_counter()
    played = [(block, play(block)) for block in blocks]
    return time.perf_counter() - start, played


def _take(ray: Any, reference: Any) -> tuple[float, list[tuple[int, Trials]]]:
    try:
        seconds, played = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        missing = re.search(r"No module named '[^']*'", str(error))  # Ray hides the cause of what it cannot unpickle
        if missing:
            raise AuditError(f"backend=ray: {missing[0]} on a worker; install it on every node") from error
        raise error.cause if isinstance(error.cause, AuditError) else error from None
    except ray.exceptions.RayError as error:
        said = " ".join(str(error).split("\n", 1)[0].split())
        raise AuditError(
            f"backend=ray: workers die again and again, perhaps for want of memory ({type(error).__name__}: {said});"
            " set backend.workers lower, and the same command goes on from here"
        ) from error
    return seconds, played


@dataclass(frozen=True, config=STRICT)
class Auto:
    """Serial where that finishes sooner, else Ray: decided by the clock, after two blocks.

    Args:
        workers: as in `Ray`.
        startup: seconds that Ray takes to start.
    """

    workers: Annotated[int, Field(ge=1)] | None = None
    startup: Annotated[float, Field(ge=0)] = 10.0

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """The first two here, the rest where it is sooner."""
        seconds: list[float] = []
        for block in blocks[:2]:
            start = time.perf_counter()
            yield block, play(block)
            seconds.append(time.perf_counter() - start)
        if len(blocks) > 2:
            yield from self._choose(seconds, len(blocks) - 2).run(play, blocks[2:])

    def _choose(self, seconds: Sequence[float], left: int) -> Backend:
        """By two measured blocks: the second is what a block costs, the first one's excess is what compiling costs."""
        workers = self.workers or cores()
        alone = left * seconds[1]
        shared = self.startup + max(0.0, seconds[0] - seconds[1]) + math.ceil(left / workers) * seconds[1]
        chosen = "serial" if alone <= shared else "ray"
        log.info("backend=auto: %s (serial %.0f s, %d Ray workers %.0f s)", chosen, alone, workers, shared)
        return Serial() if alone <= shared else Ray(workers=self.workers)
