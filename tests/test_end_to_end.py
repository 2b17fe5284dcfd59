"""The README's own commands, every sweep, and a wheel in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [
    line.split("#")[0].strip()
    for line in re.findall(r"^python -m audit .*", README, flags=re.MULTILINE)
]
SMALL = ["trials=400", "backend=serial"]

pytestmark = pytest.mark.slow


def run(words, folder, **environment):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_readmes_commands_run_as_written(tmp_path):
    """One after the other in one folder, as a reader would: what one has played, the next one does
    not play again."""
    pages = 0
    for command in COMMANDS:
        out = run(shlex.split(command)[1:], tmp_path)
        assert "mu_emp" in out and "compareRunsMode=CHART" in out
        before, pages = pages, len(list(tmp_path.rglob("report.html")))
        assert pages >= before + 2


@pytest.mark.parametrize("sweep", ["epsilon_grid", "thresholds"])
def test_every_sweep_runs(sweep, tmp_path):
    """With few trials; the whole paper sweep is one of the README's commands."""
    out = run(["-m", "audit", f"sweep={sweep}", *SMALL], tmp_path)
    jobs = out.count("leaks at least")
    assert jobs == {"epsilon_grid": 15, "thresholds": 12}[sweep]
    assert list(tmp_path.rglob("mu_emp_against_eps.png")) and list(tmp_path.rglob("mu_emp.png"))


def test_the_readmes_own_mechanism_is_audited_as_written(tmp_path):
    code = re.search(r"```python\n(import dataclasses.*?)```", README, flags=re.DOTALL)
    yaml = re.search(r"```yaml\n(_target_: mine.*?)```", README, flags=re.DOTALL)
    (tmp_path / "conf" / "mechanism").mkdir(parents=True)
    (tmp_path / "mine.py").write_text(code[1])
    (tmp_path / "conf" / "mechanism" / "mine.yaml").write_text(yaml[1])
    (command,) = re.findall(r"`audit (mechanism=mine [^`]*)`", README)
    assert "1-GDP (judged, add/remove)" in run(["-m", "audit", *command.split()], tmp_path)


def test_the_readme_names_every_option():
    for path in (ROOT / "conf").glob("*/*.yaml"):
        if path.parent.name != "case":
            assert f"`{path.stem}`" in README, path
    for path in (ROOT / "sweeps").glob("*.yaml"):
        assert f"`{path.stem}`" in README, path


def test_a_wheel_runs_in_an_empty_folder(tmp_path):
    run(
        ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)],
        tmp_path,
    )
    (wheel,) = (tmp_path / "dist").glob("dp_audit-*.whl")
    site = tmp_path / "site"
    run(
        [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
            str(site),
            str(wheel),
        ],
        tmp_path,
    )
    assert (site / "audit" / "py.typed").exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    where = run(["-c", "import audit.cli; print(audit.cli.__file__)"], empty, PYTHONPATH=str(site))
    assert where.startswith(str(site))
    out = run(["-m", "audit", "mechanism=gaussian", *SMALL], empty, PYTHONPATH=str(site))
    assert "mu_emp" in out
    out = run(
        ["-m", "audit", "sweep=thresholds", "mechanism=gaussian", *SMALL],
        empty,
        PYTHONPATH=str(site),
    )
    assert "compareRunsMode=CHART" in out
