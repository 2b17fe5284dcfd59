"""The parent's side: one child a process, started when it is first asked, and again when it has
ended."""

from __future__ import annotations

import array
import atexit
import contextlib
import logging
import mmap
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import cloudpickle

from audit.runner import marks

log = logging.getLogger(__name__)
PATIENCE = 0.25
"""Seconds after which it is looked whether a silent child still lives."""
POLITE = 2.0
"""Seconds that a child has to write its stack, or to leave by itself when this process ends."""

NOTHING = array.array("q", [marks.NONE, marks.NONE, 0])
"""What `marks` say while no call is under way."""


class Ended(Exception):  # noqa: N818  it becomes an `AuditError`, which says of which trial
    """The child ended in the middle of a request.

    Args:
        how: in words.
        part, place: what it was working on, as `enter` and `begin` said; −1 where they did not.
    """

    def __init__(self, how: str, part: int, place: int) -> None:
        super().__init__(how)
        self.part, self.place = part, place


class TimedOut(Ended):
    """The child was ended since one call took longer than its time limit."""


def run(function: Callable[..., Any], *arguments: Any, time_limit: float | None = None) -> Any:
    """``function(*arguments)``, called in the child process of this one.

    Args:
        function: sent once as long as it is the same one; the child keeps its copy.
        arguments: anything that can be pickled, as must be what comes back.
        time_limit: seconds that one call may take: of ``function``, or of what it says to `begin`;
            None: no limit.

    Raises:
        Ended: the child is gone; the next call starts another one.
        TimedOut: it was killed.
        BaseException: what ``function`` raised; one that cannot be pickled comes as a
            `RuntimeError` with its text.
    """
    if marks.apart():
        return function(*arguments)
    return _child().call(function, arguments, time_limit)


def stop() -> None:
    """End the child, if there is one; what it has imported is forgotten with it."""
    _child().stop()


_children: dict[int, _Child] = {}
"""Process → its child; a fork has none of its own yet."""


def _child() -> _Child:
    owner = os.getpid()
    if owner not in _children:
        _children[owner] = _Child()
        atexit.register(lambda: _children[owner].leave() if os.getpid() == owner else None)
    return _children[owner]


class _Child:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._sent: Callable[..., Any] | None = None

    def call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], time_limit: float | None
    ) -> Any:
        with self._lock:
            try:
                answer = self._exchange(self._message(function, arguments), time_limit)
            except BaseException:  # Ctrl-C too: what it would still answer belongs to no request
                self.stop()
                raise
        how, value, trace = pickle.loads(answer)
        if how == "returned":
            return value
        log.debug("in the child process:\n%s", trace)
        raise value

    def _message(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
        if self._process is None:
            self._start()
        new_function = None
        if function != self._sent:  # bound methods of one object are equal, and never the same
            new_function, self._sent = cloudpickle.dumps(function), function
        # Pickled apart, so that the path is set before anything has to be imported.
        path = [str(folder) for folder in sys.path]
        return pickle.dumps(
            (new_function, cloudpickle.dumps(arguments), path, os.getcwd()), protocol=5
        )

    def _exchange(self, message: bytes, time_limit: float | None) -> bytes:
        assert self._process is not None
        # of the last request; the child waits, and does not write now
        self._marks[:] = memoryview(NOTHING)
        try:
            self._connection.send_bytes(message)
            while not self._connection.poll(self._patience(time_limit)):
                # Asked for itself: what somebody's code started may hold the connection open after
                # the child's end.
                if self._process.poll() is not None and not self._connection.poll(0):
                    raise EOFError
                if time_limit is not None and self._seconds() > time_limit:
                    raise self._timed_out(time_limit)
            return self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._ended() from error

    def _patience(self, time_limit: float | None) -> float:
        """Seconds to wait before looking again."""
        if time_limit is None:
            return PATIENCE
        return min(PATIENCE, max(0.001, time_limit - self._seconds()))

    def _seconds(self) -> float:
        """How long the present call has been running; 0 where none is."""
        since = self._marks[marks.SINCE]
        return (time.monotonic_ns() - since) / 1e9 if since else 0.0

    def _ended(self) -> Ended:
        assert self._process is not None
        try:
            status = self._process.wait(timeout=POLITE)
        except subprocess.TimeoutExpired:
            return Ended("its process closed the connection to the audit", *self._where())
        how = f"exit status {status}" if status >= 0 else _signal(-status)
        return Ended(f"it ended its process ({how}{self._line()})", *self._where())

    def _timed_out(self, time_limit: float) -> TimedOut:
        assert self._process is not None
        with contextlib.suppress(OSError):
            # it writes its stack, in the midst of C code too
            os.kill(self._process.pid, signal.SIGUSR1)
        end = time.monotonic() + POLITE
        while not self._line() and time.monotonic() < end:
            time.sleep(0.01)
        return TimedOut(f"it did not return within {time_limit:g} s{self._line()}", *self._where())

    def _where(self) -> tuple[int, int]:
        return self._marks[marks.PART], self._marks[marks.PLACE]

    def _line(self) -> str:
        """The innermost line of somebody's own that was running, where a stack was written."""
        # Read in place: the child writes from where this descriptor, which is its own too, has come
        # to.
        stack = os.pread(self._crash.fileno(), 2**16, 0).decode("utf-8", "replace")
        calls = re.findall(r'File "(.+)", line (\d+) in (.+)\n', stack)
        ours, standard = str(Path(__file__).parents[1]), str(Path(os.__file__).parent)
        for file, number, name in calls:
            if file != "<string>" and (
                not file.startswith((ours, standard)) or "site-packages" in file
            ):
                return f", at {Path(file).name}:{number} in {name}"
        return ""

    def _start(self) -> None:
        self.stop()
        self._connection, theirs = Pipe()
        shared, self._crash = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115  `stop` closes it
        shared.truncate(marks.SIZE)
        self._memory = mmap.mmap(shared.fileno(), marks.SIZE)
        self._marks = memoryview(self._memory).cast("q")
        read, self._lifeline = os.pipe()
        given = (theirs.fileno(), read, shared.fileno(), self._crash.fileno())
        code = f"import sys; sys.path[:] = {[str(folder) for folder in sys.path]!r}"
        code += f"; from audit.runner.child import serve; serve{given}"
        # A session of its own: a Ctrl-C is for us to answer, and all that it starts is ended with
        # it.
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=given,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            theirs.close()
            shared.close()
            os.close(read)

    def leave(self) -> None:
        """Let it leave by itself, at the end of this process."""
        if self._process is not None:
            self._connection.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=POLITE)
        self.stop()

    def stop(self) -> None:
        """End it, and whatever it started."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process, self._sent = None, None
        self._connection.close()
        os.close(self._lifeline)
        self._marks.release()
        self._memory.close()
        self._crash.close()


def _signal(number: int) -> str:
    """A signal by its name, and what it may mean.

    >>> _signal(11), _signal(9)
    ('killed by SIGSEGV', 'killed by SIGKILL, as the system does where memory runs out')
    """
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        name = f"signal {number}"
    return f"killed by {name}" + (
        ", as the system does where memory runs out" if number == signal.SIGKILL else ""
    )
