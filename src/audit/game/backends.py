"""Who plays: this process, or Ray on this machine or a cluster."""

from __future__ import annotations

import collections
import logging
import math
import re
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import AuditError, Trials
from audit.game.play import Play
from audit.game.ray_session import (
    STEP,
    RayStartError,
    cores,
    cores_now,
    first_line,
    go_on,
    refuse_if_dead,
    start_ray,
    stop_ray,
)
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

    A task whose worker or node is lost is played again, by another one; what it plays depends on
    the block alone.

    Args:
        workers: how many play at once; None: one a core.
        address: of a running cluster (``auto``, ``host:port``, ``ray://…``); None starts Ray on
            this machine.
        task_seconds: tasks are whole numbers of blocks that take at most about so long.
    """

    workers: Annotated[int, Field(ge=1)] | None = None
    address: str | None = None
    task_seconds: Annotated[float, Field(gt=0)] = 1.0

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """Blocks as they finish; at most two tasks a worker are under way, so that little waits in
        memory.

        Raises:
            AuditError: see `Game.play`; or when Ray does not start, its workers die again and
                again, none is left, or Ray itself dies.
        """
        if not blocks:
            return
        ray = start_ray(self.address, self.workers)
        under_way = dict[Any, list[int]]()
        try:
            yield from self._play(ray, play, blocks, under_way)
        except (ConnectionError, ray.exceptions.RayError) as error:
            refuse_if_dead(at_once=True)
            raise AuditError(f"backend=ray: {first_line(error)}; {go_on()}") from error
        finally:
            # nobody waits for these; Ray's own cancel can abort this process
            # (ray-project/ray#54798)
            if under_way:
                stop_ray()

    def _play(
        self, ray: Any, play: Play, blocks: Sequence[int], under_way: dict[Any, list[int]]
    ) -> Iterator[tuple[int, Trials]]:
        task, size, waiting = ray.remote(_play_all), 1, collections.deque(blocks)
        play = ray.put(play)
        while waiting or under_way:
            # before anything is asked of it: a question that nobody answers may wait for a minute
            refuse_if_dead()
            room = self._room(ray)
            places = 2 * max(1, room)
            while waiting and len(under_way) < places:
                # Tasks become smaller towards the end, so that all workers finish at about the same
                # time.
                batch = [
                    waiting.popleft() for _ in range(min(size, math.ceil(len(waiting) / places)))
                ]
                under_way[task.remote(play, batch)] = batch
            finished = _wait(ray, list(under_way))
            if finished is None:
                _refuse_without_cores(room)
                continue
            seconds, played = _take(ray, finished)
            size = max(
                1, int(self.task_seconds * len(under_way.pop(finished)) / max(seconds, 1e-3))
            )
            yield from played

    def _room(self, ray: Any) -> int:
        """Cores that there are now, of a cluster that may grow and shrink, or as many of them as
        were asked for."""
        cores = cores_now(ray)
        return cores if self.workers is None else min(cores, self.workers)


PATIENCE = 30.0
"""Seconds without a finished task after which it is asked whether any node is left."""


def _wait(ray: Any, references: list[Any]) -> Any:
    """A task that has finished, or None after a while without one."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        finished, _ = ray.wait(references, num_returns=1, timeout=min(STEP, PATIENCE))
        if finished:
            return finished[0]
        refuse_if_dead()
    return None


def _refuse_without_cores(room: int) -> None:
    if room < 1:
        raise AuditError(
            "backend=ray: no node with a core is left; add one, and the same command goes on from "
            "here"
        )


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return " ".join(lines[-1].split()).rstrip(".;") if lines else type(error).__name__


def _play_all(play: Play, blocks: Sequence[int]) -> tuple[float, list[tuple[int, Trials]]]:
    start = time.perf_counter()
    played = [(block, play(block)) for block in blocks]
    return time.perf_counter() - start, played


def _take(ray: Any, reference: Any) -> tuple[float, list[tuple[int, Trials]]]:
    try:
        seconds, played = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # Ray hides the cause of what it cannot unpickle
        missing = re.search(r"No module named '[^']*'", str(error))
        if missing:
            raise AuditError(
                f"backend=ray: {missing[0]} on a worker; install it on every node"
            ) from error
        if isinstance(error.cause, AuditError):
            raise error.cause from None
        raise AuditError(
            f"backend=ray: a worker raised {_last_line(error)}; backend=serial shows where"
        ) from error
    except ray.exceptions.RayError as error:
        refuse_if_dead(at_once=True)
        raise AuditError(
            f"backend=ray: workers die again and again, perhaps for want of memory"
            f" ({type(error).__name__}: {first_line(error)});"
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
            yield from self._started(self._choose(seconds, len(blocks) - 2)).run(play, blocks[2:])

    def _started(self, chosen: Backend) -> Backend:
        """What was chosen, or this process where Ray does not start: the trials are the same."""
        if not isinstance(chosen, Ray):
            return chosen
        if not _without_ray:
            try:
                start_ray(chosen.address, chosen.workers)
                return chosen
            except RayStartError as error:
                _without_ray.append(error)
        log.warning(
            "backend=auto: the blocks are played in this process, since Ray cannot be had: %s",
            _without_ray[0],
        )
        return Serial()

    def _choose(self, seconds: Sequence[float], left: int) -> Backend:
        """By two measured blocks: the second is what a block costs, the first one's excess is what
        compiling costs."""
        workers = self.workers or cores()
        alone = left * seconds[1]
        shared = (
            self.startup
            + max(0.0, seconds[0] - seconds[1])
            + math.ceil(left / workers) * seconds[1]
        )
        chosen = "serial" if alone <= shared else "ray"
        log.info(
            "backend=auto: %s (serial %.0f s, %d Ray workers %.0f s)",
            chosen,
            alone,
            workers,
            shared,
        )
        return Serial() if alone <= shared else Ray(workers=self.workers)


_without_ray: list[RayStartError] = []
"""Why Ray did not start, so that not every audit of a sweep waits for it."""
