"""The child's side: calls what it is sent, one request after the other, until its parent closes the
connection."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import mmap
import os
import pickle
import select
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from audit.runner import marks

OOM_SCORE = 500
"""Added to this process's badness (0 to 1,000): where memory runs out, the system ends the child
before the audit."""


def serve(requests: int, lifeline: int, shared: int, crash: int) -> None:
    """Answer requests.

    Args:
        requests: file descriptor of the connection.
        lifeline: of a pipe whose other end is open as long as the parent lives.
        shared: of the memory of `marks`.
        crash: of the file in which a fatal signal writes the stack.
    """
    _end_with(lifeline)
    with contextlib.suppress(OSError):  # no Linux, or no such file in a container
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE), "ascii")
    faulthandler.enable(file=crash, all_threads=False)
    faulthandler.register(signal.SIGUSR1, file=crash, all_threads=False)
    marks.attach(memoryview(mmap.mmap(shared, marks.SIZE)).cast("q"))
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # out before a death can lose it
    connection = Connection(requests)
    function: Callable[..., Any] | None = None
    with contextlib.suppress(EOFError):  # the parent is done with us
        while True:
            function, answer = _answer(function, _checked(connection.recv_bytes))
            marks.end_fork()
            _checked(connection.send_bytes, answer)


def _checked(transfer: Callable[..., Any], *arguments: Any) -> Any:
    """A transfer, or the end without a word: somebody's code that closes every descriptor has
    closed this one too."""
    try:
        return transfer(*arguments)
    except OSError:
        os._exit(1)


def _answer(
    function: Callable[..., Any] | None, message: bytes
) -> tuple[Callable[..., Any] | None, bytes]:
    """The function that is known from now on, and what it returned or raised."""
    try:
        new_function, packed, path, folder = pickle.loads(message)
        if sys.path != path:
            sys.path[:] = path
            importlib.invalidate_caches()
        if os.getcwd() != folder:
            os.chdir(folder)
        function = pickle.loads(new_function) if new_function is not None else function
        assert function is not None
        arguments = pickle.loads(packed)
        marks.reset()  # not before: what these import is not in the time of the call
        result = function(*arguments)
        return function, pickle.dumps(("returned", result, ""), protocol=5)
    except BaseException as error:
        return function, _raised(error)


def _raised(error: BaseException) -> bytes:
    """An error that is sure to arrive: one that does not survive pickling goes as its text."""
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:
        trace = f"{type(error).__name__}, whose text cannot be had"
    try:
        answer = pickle.dumps(("raised", error, trace), protocol=5)
        pickle.loads(answer)
    except BaseException:
        last = trace.strip().splitlines()[-1]
        return pickle.dumps(("raised", RuntimeError(last), trace), protocol=5)
    return answer


def _end_with(lifeline: int) -> None:
    """Be killed by the system, with all that was started here, when the other end of the pipe is
    closed.

    A thread that waits for it would need the interpreter, which somebody's C code may hold for
    ever.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    ready = select.poll()
    ready.register(lifeline, select.POLLIN)
    if ready.poll(0):  # closed before we came here
        os._exit(1)
