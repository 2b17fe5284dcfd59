"""A PostgreSQL of our own as the run log: a sweep is logged into it and read back."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.core import AuditError
from audit.run_log import check_reachable

pytestmark = pytest.mark.slow

PASSWORD = "p@ss/w?rd%"
ESCAPED = "p%40ss%2Fw%3Frd%25"


def programs() -> Path:
    """The folder of PostgreSQL's programs: Debian keeps them off the PATH."""
    on_path = shutil.which("initdb")
    debian = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"),
        key=lambda path: int(path.parent.name.split(".")[0]),
    )
    found = ([Path(on_path).parent] if on_path else []) + debian[::-1]
    if not found:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    return found[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _missing_user(name: str) -> bool:
    return bool(subprocess.run(["id", name], capture_output=True, check=False).returncode)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a server that ends with the tests, on 127.0.0.1, in a temporary folder, without the name
    of a driver."""
    pytest.importorskip("psycopg", reason='no driver: pip install "dp-audit[postgres]"')
    here, port = programs(), free_port()
    nobody: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        if os.getuid() == 0:  # it refuses to be root
            if not shutil.which("setpriv") or _missing_user("postgres"):
                pytest.skip(
                    "PostgreSQL refuses to run as root, and there is no user postgres to run it as"
                )
            nobody = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            shutil.chown(folder, "postgres")
        data, word = Path(folder, "data"), Path(folder, "word")
        word.write_text(PASSWORD)
        word.chmod(0o644)

        def run(program: str, *words: str) -> None:
            command = [*nobody, str(here / program), "-D", str(data), *words]
            # a pipe would stay open in the server that it starts
            with Path(folder, "said").open("w") as said:
                status = subprocess.run(
                    command, cwd=folder, stdout=said, stderr=said, check=False
                ).returncode
            assert status == 0, Path(folder, "said").read_text()

        run("initdb", "-A", "scram-sha-256", "-U", "me", f"--pwfile={word}")
        options = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        )
        run("pg_ctl", "-o", options, "-l", str(data / "log"), "-w", "start")
        try:
            yield f"postgresql://me:{ESCAPED}@127.0.0.1:{port}/postgres"
        finally:
            with contextlib.suppress(AssertionError):
                run("pg_ctl", "-m", "immediate", "-w", "stop")


def audit(folder: Path, uri: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "audit", *words],
        cwd=folder,
        env=os.environ | {"MLFLOW_TRACKING_URI": uri, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for word in (PASSWORD, ESCAPED):
        assert word not in done.stdout + done.stderr
        assert not [
            path
            for path in folder.rglob("*")
            if path.is_file() and word.encode() in path.read_bytes()
        ]
    return done.stdout


def test_a_sweep_is_logged_into_postgresql_and_read_back(address: str, tmp_path: Path) -> None:
    words = [
        "mechanism=gaussian",
        "attacker=likelihood_ratio",
        "trials=200",
        "backend=serial",
        "eps=1,2",
        "-m",
    ]
    audit(tmp_path, address, *words)
    assert not (tmp_path / "mlruns/mlflow.db").exists()
    rows = [line for line in audit(tmp_path, address, "runs").splitlines() if "gaussian" in line]
    assert [row.split()[:3] for row in rows] == [
        ["gaussian", "2", "likelihood_ratio"],
        ["gaussian", "1", "likelihood_ratio"],
    ]
    assert address.startswith("postgresql://")
    check_reachable(address.replace("postgresql:", "postgresql+psycopg:"))


def test_a_password_or_database_that_is_wrong_is_one_line(address: str) -> None:
    for wrong, says in (
        (address.replace("p%40", "q%40"), "password authentication failed"),
        (f"{address}x", "postgresx"),
    ):
        with pytest.raises(
            AuditError, match=rf"^the database postgresql://127.0.0.1:[^\n]*{says}[^\n]*$"
        ) as raised:
            check_reachable(wrong)
        assert PASSWORD not in str(raised.value) and ESCAPED not in str(raised.value)
