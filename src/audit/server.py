"""`audit ui`: the MLflow UI on what the runs logged, on 127.0.0.1, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NoReturn

from audit.core import AuditError
from audit.run_log import is_server, masked, public, tracking_uri
from audit.tracking import ALL, PARENT, Store, run_link, sweep_link

HOST, PORT = "127.0.0.1", 5000
START = 90.0  # seconds that the UI may take to start; 7 on an idle machine
STOP = 8.0  # seconds that it may take to stop when asked; then it is made to


def main(words: Sequence[str] = ()) -> int:
    """Start the UI, say where it is, serve until Ctrl-C.

    Returns:
        Exit status.

    Raises:
        AuditError: nothing is logged yet; wrong words; the UI does not start.
    """
    given = _parse(words)
    uri, store = tracking_uri(Path(given.root)), Store.existing(given.root)
    if is_server(uri):
        print(f"the tracking server has a UI of its own: {_newest(store, store.ui)}")
        return 0
    port = free_port(given.port)
    link = _newest(store, f"http://{HOST}:{port}")
    if port != given.port:
        print(f"port {given.port} is taken; using {port}")
    print("starting the MLflow UI …", flush=True)
    try:
        with serve(uri, port) as process:
            everything = sweep_link(f"http://{HOST}:{port}", store.experiment, ALL)
            print(f"newest      {link}\nall audits  {everything}\n(Ctrl-C stops it)", flush=True)
            if given.open:
                webbrowser.open(link)
            process.wait()
    except KeyboardInterrupt:
        print("\nstopped", flush=True)
        return 0
    raise AuditError(
        f"the MLflow UI ended by itself, with status {process.returncode}; start it again: audit ui"
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise AuditError(f"ui: {message}; there are --port, --open and --root")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="audit ui", description="The MLflow UI on what the runs logged, until Ctrl-C."
    )
    parser.add_argument(
        "--port", type=int, default=PORT, help="the first one that is tried (default: %(default)s)"
    )
    parser.add_argument("--open", action="store_true", help="open the newest in a browser")
    parser.add_argument(
        "--root", default="mlruns", help="where the runs are (default: %(default)s)"
    )
    # key=value too, as everywhere else on the command line
    return parser.parse_args(
        [f"--{word}" if "=" in word and not word.startswith("-") else word for word in words]
    )


def _newest(store: Store, ui: str) -> str:
    """Link to the newest sweep's charts, or to the newest audit where that is newer."""
    run = store.newest()
    if run is None:
        raise AuditError(f"nothing is logged in {public(store.uri)} yet; run an audit first: audit")
    link = sweep_link if "sweep" in run.data.tags and PARENT not in run.data.tags else run_link
    return link(ui, store.experiment, run.info.run_id)


def free_port(first: int) -> int:
    """The first port from ``first`` on that nobody listens on.

    Raises:
        AuditError: when none of twenty is free.
    """
    if not 0 < first < 65536:
        raise AuditError(f"--port {first}: must be between 1 and 65535")
    for port in range(first, min(first + 20, 65536)):
        with socket.socket() as probe:
            # one that was just left is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise AuditError(
        f"ports {first} to {first + 19} are all taken; give another one: audit ui --port N"
    )


@contextlib.contextmanager
def serve(uri: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The UI, healthy inside the block, gone with all its children after it, whatever ends it.

    Raises:
        AuditError: when it does not start.
    """
    given = {
        # no option: everybody may read the command line of a process
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_LOGGING_LEVEL": "WARNING",
    }
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "ui",
        "--host",
        HOST,
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    with _terminate_is_interrupt(), tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            env=os.environ | given,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            _wait_until_healthy(process, port, log, uri)
            yield process
        finally:
            _end(process)


def _wait_until_healthy(
    process: subprocess.Popen[bytes], port: int, log: IO[bytes], uri: str = ""
) -> None:
    """Ask until the UI answers; it must be ours that answers, so it must be alive too."""
    stop = time.monotonic() + START
    while time.monotonic() < stop and process.poll() is None:
        # Before anybody listens, Linux may connect us to ourselves, and what answers is our own
        # question: no HTTP.
        quiet = contextlib.suppress(OSError, http.client.HTTPException)
        with quiet, urllib.request.urlopen(f"http://{HOST}:{port}/health", timeout=2):
            if process.poll() is None:
                return
        time.sleep(0.2)
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    cause = masked(lines[-1].strip(), uri) if lines else f"no answer in {START:.0f} s"
    raise AuditError(f"the MLflow UI did not start ({cause}); try another port: audit ui --port N")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the UI and every child of it: they are one process group."""
    for ask, patience in ((signal.SIGTERM, STOP), (signal.SIGKILL, STOP)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, ask)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            if not _group_lives(process.pid, patience if ask == signal.SIGTERM else 0):
                return


def _group_lives(group: int, patience: float) -> bool:
    """Whether a process of ``group`` is still there after ``patience`` seconds."""
    stop = time.monotonic() + patience
    while True:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        if time.monotonic() >= stop:
            return True
        time.sleep(0.05)


@contextlib.contextmanager
def _terminate_is_interrupt() -> Iterator[None]:
    """SIGTERM ends us like Ctrl-C, so that the children go with us."""

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
