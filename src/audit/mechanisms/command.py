"""Somebody's own program, in any language or environment, over one pipe each way.

The protocol. The program reads one JSON object a line from standard input and answers each with one
JSON object on one line of standard output, until its input ends:

    {"seed": 7, "trials": 100, "data": [[0], [1]], "columns": null}      columns: names, where the
    data set has them {"seed": 7, "trials": 100, "npz": "/tmp/…/data.npz"}                 with
    mechanism.npz=true: arrays data, columns {…, "users": [0, 0, 1]}
                 whose each record is, where canary.user says so

    {"rows": [[0.3], [1.7], …], "columns": ["count"]}                    one row a trial; columns
    may be left out {"npz": "/tmp/mine.npz"}                                             arrays rows
    (trials, k) and, if wanted, columns {"error": "what went wrong", "trial": 3}
            trial (0, 1, …) may be left out

A row that is no list of finite numbers (``null``, ``NaN``, a text, another length) is an output of
another kind, which ``features=events`` counts. All noise is to follow from ``seed``. Standard error
is free for the program's own words.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import dataclasses
import functools
import json
import os
import queue
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
from pydantic import Field, InstanceOf
from pydantic.dataclasses import dataclass

from audit import plain
from audit.core import Array, AuditError, Claim, Outputs, Table, UnreadableOutput
from audit.mechanisms.callable import Anything, written
from audit.mechanisms.claims import Block, ClaimOption
from audit.privacy import STRICT

CHECKED = 20
"""Trials that find out whether a program heeds its seed, or as many as a block has, where that is
fewer."""
LOOK = 0.2
"""Seconds after which it is looked whether a silent program still lives."""


@dataclass(frozen=True, config=STRICT)
class Command:
    """A program that answers requests; one of it runs in every worker process, for as long as that
    lives.

    Args:
        argv: the program and its words. No shell reads them, and names are looked up as usual.
        claim: what the program promises.
        batch: trials of a request.
        timeout: seconds that one request may take, the start of the program included.
        npz: whether the data set goes as the path of an ``.npz`` file, for large ones.
        files: what else the program runs; it is in the trials' fingerprint, as are those words of
            ``argv`` that are files.
        block: trials that are kept or lost together; few for a slow program.

    Raises:
        AuditError: a program that is not there, a file that is not there.
    """

    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    claim: InstanceOf[ClaimOption]
    batch: Annotated[int, Field(ge=1)] = 100
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    npz: bool = False
    files: tuple[str, ...] = ()
    block: Block = 1000

    def __post_init__(self) -> None:
        if shutil.which(self.argv[0]) is None:
            raise AuditError(
                f"mechanism.argv: no program {self.argv[0]!r} is found; give its path, or fix PATH"
            )
        for file in self.files:
            if not Path(file).is_file():
                raise AuditError(f"mechanism.files: there is no file {file!r}; fix its path")

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The one that was given."""
        return (self.claim.claim,)

    @property
    def programs(self) -> tuple[Path, ...]:
        """The files that decide what the program does."""
        return tuple(Path(word) for word in (*self.argv, *self.files) if Path(word).is_file())

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> Anything:
        """``trials`` rows in requests of ``batch``, each with a seed of its own from ``rng``."""
        outputs: list[Any] = []
        for first in range(0, trials, self.batch):
            count = min(self.batch, trials - first)
            try:
                outputs += self._ask(data, count, int(rng.integers(2**53)))
            except _Failed as failed:
                place = first + failed.trial if failed.trial is not None else None
                raise UnreadableOutput(
                    range(first, first + count) if place is None else range(place, place + 1),
                    str(failed),
                ) from failed
        return Anything(Outputs(outputs))

    def notes(self, data: Any) -> tuple[str, ...]:
        """Whether the rows follow from the seed: the same for the same one, others for another one.

        Raises:
            AuditError: when the program does not answer.
        """
        once, again, other = (written(self._sample(data, seed)) for seed in (1, 1, 2))
        name = " ".join(self.argv)
        if once != again:
            return (
                f"Not reproducible: `{name}` takes no notice of its seed, the same request was "
                "answered by different rows.",
            )
        if once == other:
            return (
                f"`{name}` gave the same rows for two seeds: either it adds no noise, or its "
                "trials are copies of each other, and what it seems to leak may be its harness's "
                "fault.",
            )
        return ()

    def _sample(self, data: Any, seed: int) -> list[Any]:
        """A few outputs that follow from ``seed``; no request is larger than ``batch``, which
        ``timeout`` is meant for.

        Raises:
            AuditError: no answer.
        """
        count, outputs = min(CHECKED, self.block), []
        for first in range(0, count, self.batch):
            trials, own = min(self.batch, count - first), seed + 2 * first
            try:
                outputs += self._ask(data, trials, own)
            except _Failed as failed:
                raise AuditError(
                    f"Command, before the first trial (seed {own}, {trials} trials): {failed}"
                ) from failed
        return outputs

    def _ask(self, data: Any, trials: int, seed: int) -> list[Any]:
        """The outputs of one request.

        Raises:
            _Failed: no answer in time, or one that breaks the protocol.
        """
        program = _program(
            self.argv, os.getpid(), tuple(path.stat().st_mtime_ns for path in self.programs)
        )
        with _as_request(data, self.npz) as shown:
            line = json.dumps({"seed": seed, "trials": trials, **shown})
            answer = program.ask(line, self.timeout)
        try:
            return _read(answer, trials)
        except _Failed as failed:
            told = program.last_words()
            program.stop()
            raise _Failed(f"{failed}{told}", failed.trial) from failed


class _Failed(Exception):  # noqa: N818  it becomes an `UnreadableOutput`, which says of which trials
    """A request without a proper answer; ``trial`` is the place in it, where the program named
    one."""

    def __init__(self, why: str, trial: int | None = None) -> None:
        super().__init__(why)
        self.trial = trial


# --- what goes over the pipe ----------------------------------------------------------------------


@contextlib.contextmanager
def _as_request(data: Any, npz: bool) -> Iterator[dict[str, Any]]:
    """A data set as keys of a request."""
    records = np.asarray(data.records if isinstance(data, Table) else data)
    if records.dtype.kind not in "biuf":
        raise AuditError(
            "mechanism=command: a program is sent numbers or a table, and this canary makes "
            f"{type(data).__name__}; choose canary=pair, tabular or worst_case"
        )
    names = list(data.domain.columns) if isinstance(data, Table) else None
    users = data.users if isinstance(data, Table) else None
    if not npz:
        yield {"data": records.tolist(), "columns": names} | (
            {} if users is None else {"users": users.tolist()}
        )
        return
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        path = Path(folder) / "data.npz"
        arrays = {"data": records, "columns": np.array(names or [], dtype=str)}
        arrays |= {} if users is None else {"users": users}
        np.savez(path, **arrays)  # type: ignore[arg-type]
        yield {"npz": str(path)}


def _read(line: str, trials: int) -> list[Any]:
    """The outputs that an answer holds, one a trial.

    >>> _read('{"rows": [[1, 2], null], "columns": ["a", "b"]}', 2)
    [{'a': 1, 'b': 2}, None]
    """
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:  # the latter where it is nested too deeply
        raise _Failed(
            f"its answer is no JSON object on one line but {_short(line)}; print nothing else"
        ) from error
    if not isinstance(answer, dict) or not {"rows", "npz", "error"} & set(answer):
        raise _Failed(
            f'its answer {_short(line)} has no "rows", "npz" or "error"; see docs/own-mechanism.md'
        )
    if "error" in answer:
        trial = answer.get("trial")
        inside = isinstance(trial, int) and 0 <= trial < trials
        raise _Failed(
            f"it says: {' '.join(plain.text(answer['error']).split())}", trial if inside else None
        )
    rows, names = (
        _from_file(str(answer["npz"]))
        if "npz" in answer
        else (answer["rows"], answer.get("columns"))
    )
    if not isinstance(rows, list) or len(rows) != trials:
        count = f"{len(rows)} rows" if isinstance(rows, list) else type(rows).__name__
        raise _Failed(f"it answered {count} where {trials} rows were due; answer one a trial")
    if names is None:
        return rows
    wide = isinstance(names, list) and len({*map(str, names)}) == len(names)
    if not wide:
        raise _Failed(
            f'its "columns" {_short(str(names))} are no list of different names; fix them'
        )
    return [_named(row, names) for row in rows]


def _named(row: Any, names: Sequence[Any]) -> Any:
    """A row with its names, where it has as many numbers; any other one as it is."""
    return (
        dict(zip(map(str, names), row, strict=True))
        if isinstance(row, list) and len(row) == len(names)
        else row
    )


def _from_file(path: str) -> tuple[list[Any], list[str] | None]:
    try:
        with _regular(path) as file, np.load(file, allow_pickle=False) as arrays:
            rows = list(arrays["rows"])
            names = [str(name) for name in arrays["columns"]] if "columns" in arrays.files else []
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        zipfile.BadZipFile,
    ) as error:
        raise _Failed(
            f"its file {path} has no readable array rows ({' '.join(str(error).split())}); fix it"
        ) from error
    return (rows if not names else [row.tolist() for row in rows]), names or None


def _regular(path: str) -> IO[bytes]:
    """A file opened without waiting: a pipe that nobody writes into would hold us past every time
    limit.

    Raises:
        OSError: there is none, or it is a pipe, a device or a folder.
    """
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # noqa: SIM115  the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("it is no regular file")
    return file


def _short(text: str) -> str:
    text = " ".join(plain.line(text).split())
    return repr(text if len(text) <= 80 else text[:77] + "…")


# --- the program ----------------------------------------------------------------------------------


@dataclasses.dataclass
class _Program:
    """One running program, started when it is first asked, and again when it has left."""

    argv: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None
    answers: queue.Queue[str | None] = dataclasses.field(default_factory=queue.Queue)
    words: collections.deque[str] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=20)
    )
    readers: list[threading.Thread] = dataclasses.field(default_factory=list)

    def ask(self, line: str, timeout: float) -> str:
        """The line that answers ``line``.

        A program that left between two requests in good order (status 0) is started again, and
        asked once more.

        Raises:
            _Failed: it left in the middle, or took too long.
        """
        fresh = self.process is None or self.process.poll() is not None
        answer = self._exchange(line, timeout)
        if answer is None and not fresh and self._status() == 0:
            answer = self._exchange(line, timeout)
        if answer is None:
            failed = _Failed(
                f"it left without an answer ({_left(self._status())}){self.last_words()}"
            )
            self.stop()  # what it may have left behind
            raise failed
        return answer

    def _exchange(self, line: str, timeout: float) -> str | None:
        """Ask once; None where it left."""
        if self.process is not None and not self.answers.empty():
            # else its output has ended: it left after the last answer
            more = self.answers.get() is not None
            told = self.last_words()
            self.stop()
            if more:
                raise _Failed(
                    f"it wrote more than one line for the request before{told}; answer each with "
                    "one"
                )
        if self.process is None or self.process.poll() is not None:
            self._start()
        # Written from a thread of its own: a program that does not read must not hold us past the
        # time limit.
        threading.Thread(target=_write, args=(self.process, line), daemon=True).start()
        try:
            answer = self._await(timeout)
        except queue.Empty:
            told = self.last_words()
            self.stop()
            raise _Failed(
                f"no answer within {timeout:g} s{told}; fix it, or raise mechanism.timeout"
            ) from None
        except BaseException:  # Ctrl-C: what it would still answer belongs to no request
            self.stop()
            raise
        return answer

    def _await(self, timeout: float) -> str | None:
        """The next line; None where it left.

        That is asked for itself: what it started may hold its output open after its end.

        Raises:
            queue.Empty: nothing came in time.
        """
        assert self.process is not None
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            try:
                return self.answers.get(timeout=max(0.0, min(LOOK, left)))
            except queue.Empty:
                if self.process.poll() is not None:
                    with contextlib.suppress(queue.Empty):
                        # its last line may still be in the pipe
                        return self.answers.get(timeout=LOOK)
                    return None
                if left <= 0:
                    raise

    def _start(self) -> None:
        self.stop()
        self.answers, self.words = queue.Queue(), collections.deque(maxlen=20)
        try:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                # and so a process group, in which whatever it starts is ended with it
                start_new_session=True,
            )
        except OSError as error:
            raise _Failed(f"it cannot be started ({error.strerror}); fix mechanism.argv") from error
        self.readers = [
            threading.Thread(
                target=_read_all, args=(self.process.stdout, self.answers.put), daemon=True
            ),
            threading.Thread(target=_read_all, args=(self.process.stderr, self._note), daemon=True),
        ]
        for reader in self.readers:
            reader.start()

    def _status(self) -> int | None:
        """Exit status of a program whose output has ended."""
        assert self.process is not None
        try:
            return self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:  # it closed its output and stays
            self.stop()
            return None

    def _note(self, line: str | None) -> None:
        if line is not None:
            self.words.append(line)

    def last_words(self) -> str:
        """The last line of its standard error, where it wrote any."""
        for reader in self.readers[1:]:
            reader.join(
                timeout=0.5
                if self.process is not None and self.process.poll() is not None
                else 0.05
            )
        said = [word for word in self.words if word.strip()]
        return f"; its last words: {_short(said[-1])}" if said else ""

    def leave(self) -> None:
        """End its input, and it too when that is not enough."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
                self.process.stdin.close()
                self.process.wait(timeout=1)
        self.stop()

    def stop(self) -> None:
        """End it, and whatever it started; one that has left may have left others behind.

        A process that went into a group of its own may still hold the pipes. Nobody waits for it: a
        reader closes its pipe when that has ended, and is a daemon.
        """
        if self.process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for reader in self.readers:
            reader.join(timeout=1)
        if self.process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self.process.stdin.close()
        self.process = None


@functools.lru_cache(maxsize=16)
def _program(argv: tuple[str, ...], process: int, changed: tuple[int, ...]) -> _Program:
    """The program of this process; a fork gets one of its own, and so does an edited file."""
    program = _Program(argv)
    atexit.register(program.leave)
    return program


def _write(process: subprocess.Popen[bytes], line: str) -> None:
    left = memoryview((line + "\n").encode())
    with contextlib.suppress(OSError, ValueError):  # it left: the reader finds out
        assert process.stdin is not None
        while left:  # an unbuffered pipe takes as much as it has room for
            left = left[process.stdin.write(left) :]


def _read_all(pipe: IO[bytes], put: Callable[[str | None], None]) -> None:
    """Every line, then None.

    The pipe is unbuffered, since closing a buffer waits for whoever reads from it.
    """
    begun = list[bytes]()  # pieces of a line that may be long; joined once
    with pipe:
        while piece := os.read(pipe.fileno(), 2**16):
            *ends, rest = piece.split(b"\n")
            for end in ends:
                put(b"".join([*begun, end]).decode("utf-8", "replace"))
                begun.clear()
            begun.append(rest)
    if any(begun):
        put(b"".join(begun).decode("utf-8", "replace"))
    put(None)


def _left(status: int | None) -> str:
    if status is None:
        return "it closed its output"
    return f"exit status {status}" if status >= 0 else f"killed by signal {-status}"
