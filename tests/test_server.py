from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from audit import server
from audit.core import AuditError
from audit.tracking import Store


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_nothing_logged_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"nothing is logged in .* yet; run an audit first"):
        server.main(["--root", str(tmp_path / "mlruns")])
    assert not (tmp_path / "mlruns").exists()
    Store.open(tmp_path)
    with pytest.raises(AuditError, match="nothing is logged"):
        server.main([f"root={tmp_path}"])


@pytest.mark.parametrize(
    "words", [["--prot", "1"], ["--port", "x"], ["more"], ["--port", "0"], ["port=70000"]]
)
def test_wrong_words_are_one_line(words: list[str], tmp_path: Path) -> None:
    Store.open(tmp_path).start("x", {})
    with pytest.raises(AuditError, match=r"^(ui: |--port)[^\n]*$"):
        server.main([*words, "--root", str(tmp_path)])


def test_a_busy_port_gives_way_to_the_next() -> None:
    with socket.socket() as busy:
        busy.bind((server.HOST, 0))
        busy.listen()
        port = int(busy.getsockname()[1])
        assert port < server.free_port(port) < port + 20
    assert server.free_port(port) == port


def test_the_newest_is_shown(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    parent = store.start_sweep("grid", 1)
    store.start("child", {}, parent=parent)
    assert parent in server._newest(
        store, "http://u"
    ) and "compareRunsMode=CHART" in server._newest(store, "http://u")
    time.sleep(0.002)  # start times are milliseconds
    alone = store.start("alone", {})
    assert f"/runs/{alone}" in server._newest(store, "http://u")


def test_a_ui_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(AuditError, match=r"did not start \([^\n]+\); try another port"),
        server.serve("nonsense://x", 5999),
    ):
        pass


def test_a_password_is_neither_on_a_command_line_nor_in_what_is_said() -> None:
    lines: list[str] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            listed = subprocess.run(
                ["ps", "-e", "-o", "args="], capture_output=True, text=True, check=True
            ).stdout
            lines.extend(line for line in listed.splitlines() if "mlflow" in line)
            time.sleep(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    uri = "mysql+nonsense://me:pass%2Fword123@127.0.0.1/db"
    with pytest.raises(AuditError, match="did not start") as raised, server.serve(uri, 5998):
        pass
    ended.set()
    looking.join()
    assert any("mlflow ui" in line and "5998" in line for line in lines), "it was seen"
    assert not [line for line in lines if "word123" in line] and "word123" not in str(raised.value)


def test_an_echo_is_no_answer() -> None:
    """What Linux does to whoever knocks on a free port of its own range, now and then: it connects
    him to himself."""
    with socket.socket() as echo, tempfile.TemporaryFile() as log:
        echo.bind((server.HOST, 0))
        echo.listen()

        def repeat() -> None:
            with contextlib.suppress(OSError):
                while True:
                    there, _ = echo.accept()
                    with there:
                        there.sendall(there.recv(1000))

        threading.Thread(target=repeat, daemon=True).start()
        sleeping = [sys.executable, "-c", "import time; time.sleep(1)"]
        with (
            subprocess.Popen(sleeping) as process,
            pytest.raises(AuditError, match="did not start"),
        ):
            server._wait_until_healthy(process, echo.getsockname()[1], log)
        echo.shutdown(socket.SHUT_RDWR)


def group(pid: int) -> list[str]:
    listed = subprocess.run(
        ["ps", "-e", "-o", "pgid=,args="], capture_output=True, text=True, check=True
    ).stdout
    return [
        line
        for line in listed.splitlines()
        if line.split()[0] == str(pid) and "defunct" not in line
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ui_serves_until_it_is_stopped_and_leaves_nothing(
    number: signal.Signals, tmp_path: Path
) -> None:
    run = Store.open(tmp_path).start("an audit", {})
    with socket.socket() as busy:
        busy.bind((server.HOST, 0))
        busy.listen()
        port = busy.getsockname()[1]
        words = [f"root={tmp_path}", f"port={port}", "--open"]
        code = f"import sys; from audit import server; sys.exit(server.main({words}))"
        opened = tmp_path / "opened"
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
        browser.chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"BROWSER": f"{browser} %s"},
        )
        assert process.stdout is not None
        said = ""
        while "Ctrl-C" not in said and (line := process.stdout.readline()):
            said += line
        link = re.search(r"http://127\.0\.0\.1:(\d+)/#/experiments/1/runs/(\w+)", said)
        assert (
            link is not None and link[2] == run and f"port {port} is taken; using {link[1]}" in said
        ), said
        assert "viewStateShareKey=audits" in said
        deadline = time.monotonic() + 20
        while not opened.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert opened.read_text().strip() == re.search(r"newest +(\S+)", said)[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{link[1]}/health", timeout=5) as answer:
            assert answer.status == 200
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, check=True
        )
        child = int(listed.stdout.split()[0])
        assert len(group(child)) >= 2  # the UI and its worker
        assert not [line for line in group(child) if "mlflow.db" in line], (
            "an address may hold a password"
        )
        os.kill(process.pid, number)
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and rest.strip() == "stopped"
    assert group(child) == []
    assert {p.name.split("-")[0] for p in tmp_path.iterdir()} <= {
        "mlflow.db",
        ".mlflow.lock",
        "browser",
        "opened",
    }  # no stray folders
