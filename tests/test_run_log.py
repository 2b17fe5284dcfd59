"""Addresses of run logs: escaped, masked, and asked once with a time limit."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from audit import run_log
from audit.core import AuditError
from audit.run_log import check_reachable, masked, public, sqlite_uri, within
from audit.tracking import Store


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


# --- which one ------------------------------------------------------------------------------------

NAMES = [
    "why?",
    "a#b",
    "50%",
    "x%3Fy",
    "a b",
    "ünï☃",
    "new\nline",
    "a:b@c",
    "&=+;",
    "[x",
    "quote'\"",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_database_is_in_its_folder_whatever_the_folders_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    check_reachable(sqlite_uri(tmp_path / name / "mlflow.db"))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "mlflow.db").exists()


def test_runs_are_kept_and_found_in_a_folder_with_any_name(tmp_path: Path) -> None:
    root = tmp_path / "".join(NAMES) / "mlruns"
    store = Store.open(root)
    run = store.start("x", {})
    (store.folder(run) / "report.html").write_text("here")
    store.client.log_text(run, "there", "note.txt")
    store.finish(run, "FINISHED")
    assert [path.name for path in tmp_path.iterdir()] == ["".join(NAMES)]
    assert {path.name.split("-")[0] for path in root.iterdir()} == {
        ".mlflow.lock",
        "artifacts",
        "mlflow.db",
    }
    assert {file.path for file in store.client.list_artifacts(run)} == {"report.html", "note.txt"}
    assert [found.info.run_id for found in Store.existing(root).search()] == [run]


def test_an_unescaped_question_mark_in_an_address_of_ones_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="is written %3F"):
        check_reachable(f"sqlite:///{tmp_path}/x?y/own.db")
    with pytest.raises(AuditError, match=r"does not answer .*Query string argument"):
        check_reachable(f"sqlite:///{tmp_path}/x?y=own.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("open_it", [Store.open, Store.existing])
def test_a_folder_that_is_a_loop_of_links_is_said(open_it: object, tmp_path: Path) -> None:
    (tmp_path / "mlruns").symlink_to("mlruns")
    with pytest.raises(AuditError, match=r"mlruns leads nowhere \([^\n]*root=…$"):
        open_it(tmp_path / "mlruns")  # type: ignore[operator]


def test_a_name_that_is_no_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="not UTF-8"):
        Store.open(tmp_path / os.fsdecode(b"\xff"))


# --- without its secrets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:secret@host:80/x", "http://host:80/x"),
        ("http://secret@host/x", "http://host/x"),
        ("http://me:se@secret@host/x", "http://host/x"),
        ("http://me:se/secret@host/x", "http://host/x"),
        ("postgresql://me:se?secret#@host/db", "postgresql://host/db"),
        (
            "postgresql://host/db?user=me&password=secret",
            "postgresql://host/db?user=me&password=***",
        ),
        ("https://host/users/a@b/mlflow", "https://host/users/a@b/mlflow"),
        ("sqlite:////home/me@work/x:y.db", "sqlite:////home/me@work/x:y.db"),
        ("./mlruns", "./mlruns"),
    ],
)
def test_what_is_secret_in_an_address_is_never_shown(uri: str, shown: str) -> None:
    assert public(uri) == shown
    assert masked(f"cannot reach {uri}: no", uri) == f"cannot reach {shown}: no"


def test_a_secret_is_hidden_where_another_program_quotes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = "postgresql://me:pa%2Fss@host/db"
    assert (
        masked("postgresql+psycopg://me:***@host, pa/ss, pa%2Fss", uri)
        == "postgresql+psycopg://host, ***, ***"
    )
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    assert masked("Bearer t0ken", "http://host") == "Bearer ***"


# --- within a time limit --------------------------------------------------------------------------


def test_a_call_in_time_returns_or_raises_and_a_late_one_is_given_up() -> None:
    assert within(5, lambda: 3) == 3
    with pytest.raises(KeyError, match="x"):
        within(5, lambda: {}["x"])
    start = time.monotonic()
    with pytest.raises(run_log.NoAnswerError, match="no answer in 0 s"):
        within(0.1, lambda: time.sleep(30))
    assert time.monotonic() - start < 10


# --- servers --------------------------------------------------------------------------------------


@contextlib.contextmanager
def answering(answers: object) -> Iterator[str]:
    """A server on 127.0.0.1; ``answers`` takes a path and returns status and body."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = answers(self.path)  # type: ignore[operator]
            with contextlib.suppress(OSError):  # whoever asked may have gone
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

        do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.daemon_threads = True
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_server_that_is_not_there_is_said_at_once(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scheme == "postgresql":
        pytest.importorskip("psycopg", reason='no driver: pip install "dp-audit[postgres]"')
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{scheme}://me:secret@127.0.0.1:{free_port()}/x")
    start = time.monotonic()
    with pytest.raises(
        AuditError, match=r"does not answer \(.*refused.*unset MLFLOW_TRACKING_URI"
    ) as raised:
        Store.open(tmp_path)
    assert time.monotonic() - start < 3
    assert "secret" not in str(raised.value)


def test_a_server_that_keeps_silent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(AuditError, match="does not answer"):
            check_reachable(f"http://127.0.0.1:{silent.getsockname()[1]}")


def test_a_server_that_is_broken_is_said_and_a_guarded_one_is_there() -> None:
    with (
        answering(lambda path: (503, "")) as uri,
        pytest.raises(AuditError, match="HTTP status 503"),
    ):
        check_reachable(uri)
    for status in (200, 401):
        with answering(lambda path, status=status: (status, "")) as uri:
            check_reachable(uri)


def test_a_server_that_is_healthy_and_answers_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_log, "CONNECT_TIMEOUT_S", 0.3)
    ended = threading.Event()

    def hang(path: str) -> tuple[int, str]:
        return (200, "OK") if path == "/health" else (200 if ended.wait(30) else 500, "{}")

    with (
        answering(lambda path: (200, "OK") if path == "/health" else (500, "{}")) as uri,
        pytest.raises(AuditError, match=r"^the tracking server [^\n]*HTTP status 500"),
    ):
        check_reachable(uri)
    with (
        answering(hang) as uri,
        pytest.raises(AuditError, match=r"^the tracking server [^\n]*(no answer|timed out)"),
    ):
        check_reachable(uri)
    ended.set()


def test_a_server_that_speaks_no_http_is_said() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

        def greet() -> None:
            there, _ = other.accept()
            with there:
                there.sendall(b"SSH-2.0-\x1b[31mOpenSSH\r\n")
                there.recv(1000)

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(AuditError, match=r"^the tracking server .*is not HTTP") as raised:
            uri = f"http://127.0.0.1:{other.getsockname()[1]}"
            check_reachable(uri)
        assert "\x1b" not in str(raised.value)


EXPERIMENT = '{"experiment": {"experiment_id": "7", "name": "audit", "lifecycle_stage": "active"}}'
LOGGED = {
    "get-by-name": EXPERIMENT,
    "experiments/get?": EXPERIMENT,
    "runs/search": "{}",
    "set-experiment-tag": "{}",
}


@pytest.mark.parametrize("how", ["hangs", "breaks"])
def test_a_server_that_fails_after_it_was_opened_is_one_line_and_not_waited_for_twice(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def answers(path: str) -> tuple[int, str]:
        known = [body for part, body in LOGGED.items() if part in path]
        if not known and how == "hangs":
            ended.wait(60)
        return (
            (200, known[0])
            if known
            else (500, '{"error_code": "INTERNAL_ERROR", "message": "it\\nbroke"}')
        )

    with answering(answers) as uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        store = Store.open(tmp_path)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2" if how == "hangs" else "20")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        start = time.monotonic()
        with pytest.raises(
            AuditError, match=r"^no run can be started: [^\n]*; check MLFLOW_TRACKING_URI"
        ):
            store.start("x", {})
        assert time.monotonic() - start < 20
        if how == "hangs":
            start = time.monotonic()
            with pytest.raises(AuditError, match="no answer in 2 s"):
                store.finish("x", "FAILED")
            assert time.monotonic() - start < 1
        ended.set()


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:bad",
        "http://127.0.0.1:99999",
        "http://[::1",
        "http://",
        "postgresql://me:se/cret@host/db",
        "postgresql://host:bad/db",
        "mysql://host:99999/db",
        "postgres://me:secret@host/db",
    ],
)
def test_what_is_no_address_is_said(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(AuditError, match=r"^MLFLOW_TRACKING_URI=[^\n]*$") as raised:
        Store.open(tmp_path)
    assert "cret" not in str(raised.value)


@pytest.mark.parametrize(
    "uri", ["nonsense://x", "databricks-uc", "file:///tmp/x", "sqlite+nonsense:////tmp/x.db"]
)
def test_an_address_of_another_kind_is_opened_or_refused_in_one_line(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("/tmp", str(tmp_path)))
    start = time.monotonic()
    with pytest.raises(AuditError, match=r"^[^\n]*$"):
        Store.open(tmp_path / "mlruns")
    assert time.monotonic() - start < 30


# --- databases ------------------------------------------------------------------------------------


def test_a_database_that_cannot_be_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.db").write_text("no database " * 999)
    start = time.monotonic()
    for path, says in (
        ("/proc/x.db", "unable to open"),
        (f"{tmp_path}/text.db", "is not a database"),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
        with pytest.raises(
            AuditError, match=rf"^the database sqlite:///{path} does not answer \([^\n]*{says}"
        ):
            Store.open(tmp_path / "mlruns")
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("uri", "driver", "says"),
    [
        ("postgresql://me:secret@host/db", "psycopg", 'pip install "dp-audit[postgres]"'),
        ("postgresql+psycopg2://me:secret@host/db", "psycopg2", 'pip install "dp-audit[postgres]"'),
        (
            "mysql://me:secret@host/db",
            "MySQLdb",
            r"pip install pymysql, and write mysql\+pymysql://",
        ),
        ("mssql://me:secret@host/db", "pyodbc", "pip install pymssql"),
    ],
)
def test_a_database_without_a_driver_is_said(
    uri: str, driver: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    says = says.replace("[", r"\[").replace("]", r"\]")
    with pytest.raises(AuditError, match=f"^no driver for [^\n]*{driver}[^\n]*{says}") as raised:
        check_reachable(uri)
    assert "secret" not in str(raised.value)


def test_a_folder_that_is_full_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5 * 2**20))
    with pytest.raises(AuditError, match="has 5 MB left"):
        run_log.check_folder(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: usage._replace(free=run_log.MIN_FREE_BYTES)
    )
    run_log.check_folder(tmp_path)
