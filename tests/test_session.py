"""What becomes of a result when the run log is lost while it is played: it is shown, said, and the
status is 2."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from audit import session
from audit.cli import main

WORDS = ["mechanism=gaussian", "attacker=likelihood_ratio", "trials=200", "backend=serial"]


def rows(statement: str) -> None:
    with sqlite3.connect("mlruns/mlflow.db") as database:
        database.execute(statement)
    database.close()


def begun_since() -> set[str]:
    with sqlite3.connect("mlruns/mlflow.db") as database:
        found = database.execute(
            "SELECT run_uuid FROM runs WHERE lifecycle_stage = 'active'"
        ).fetchall()
    database.close()
    return {run for (run,) in found}


def replaced() -> None:
    shutil.copytree("mlruns", "copy")
    shutil.rmtree("mlruns")
    Path("copy").rename("mlruns")


def read_only() -> None:
    rows(
        "CREATE TRIGGER frozen BEFORE INSERT ON metrics BEGIN SELECT RAISE(ABORT, 'readonly "
        "database'); END"
    )


LOSSES: dict[str, tuple[Callable[[], object], str]] = {
    "all removed": (lambda: shutil.rmtree("mlruns"), "mlflow.db was removed while the command ran"),
    "the database removed": (
        lambda: Path("mlruns/mlflow.db").unlink(),
        "mlflow.db was removed while the command ran",
    ),
    "replaced by a copy": (replaced, "mlflow.db was replaced while the command ran"),
    "the run deleted": (
        lambda: rows("UPDATE runs SET lifecycle_stage = 'deleted'"),
        "cannot be logged",
    ),
    "the run gone": (lambda: rows("DELETE FROM runs"), "not found"),
    "not writable": (read_only, "make .*mlruns writable"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "words"),
    [*((loss, []) for loss in LOSSES), *((loss, ["eps=1,2", "-m"]) for loss in list(LOSSES)[::3])],
)
def test_a_run_log_lost_during_play_is_said(
    loss: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lose, says = LOSSES[loss]
    played = []
    audit = session.audit

    def audit_and_lose(plan: object, bars: object) -> object:
        result = audit(plan, bars)  # type: ignore[arg-type]
        if not played:
            lose()
        played.append(result)
        return result

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(session, "audit", audit_and_lose)
    monkeypatch.setattr(session.err, "width", 1000)
    assert main([*WORDS, *words]) == 2
    printed = capfd.readouterr()
    assert [line for line in printed.err.splitlines() if re.search(says, line)], printed.err
    assert "Traceback" not in printed.err and len(printed.err.splitlines()) <= 4
    assert "mu_emp" in printed.out, "what was found is shown"
    linked = set(re.findall(r"/runs/(\w+)", printed.out))
    # the second audit of a sweep has a run of its own, begun after the loss: the only one that may
    # be linked
    assert linked <= (begun_since() if words and loss == "the run deleted" else set()), (
        "no link to a run that is lost"
    )


def test_files_of_other_runs_removed_during_play_cost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    audit = session.audit

    def audit_and_tidy(plan: object, bars: object) -> object:
        shutil.rmtree("mlruns/artifacts", ignore_errors=True)
        return audit(plan, bars)  # type: ignore[arg-type]

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(session, "audit", audit_and_tidy)
    assert main(WORDS) == 0
    (page,) = Path("mlruns/artifacts").rglob("report.html")
    assert page.name in capfd.readouterr().out


FILLED = """
import pathlib, shutil, sys
from audit import session
from audit.cli import main
audit = session.audit
def audit_and_fill(plan, bars):
    result = audit(plan, bars)
    with open("mlruns/big", "wb", buffering=0) as file:
        try:
            for size in (2**16, 2**10, 1):
                while True:
                    file.write(bytes(size))
        except OSError: pass
    return result
session.audit = audit_and_fill
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_fills_up_during_play_is_one_line_that_says_where(tmp_path: Path) -> None:
    (tmp_path / "mlruns").mkdir()
    mount = f"mount -t tmpfs -o size=110m none {tmp_path}/mlruns"
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
        FILLED,
        *WORDS,
    ]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "mu_emp" in done.stdout, done.stderr
    (line,) = done.stderr.splitlines()
    assert (
        line.startswith("failed")
        and f"make room in {tmp_path}/mlruns, which has 0.0 MB left" in line
    ), line
