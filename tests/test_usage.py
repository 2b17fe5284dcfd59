"""`audit --help`, `-sc`, and how the terminal is written to."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from audit import cli, usage

CONF, SWEEPS = cli.folder("conf"), cli.folder("sweeps")
OPTIONS = sorted([*CONF.glob("*/*.yaml"), *SWEEPS.glob("*.yaml")])
OF_AUDITS = [path for path in OPTIONS if path.parent.name not in cli.LADDER_GROUPS]


@pytest.fixture
def page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert cli.main(["--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("path", OPTIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_option_says_in_a_line_what_it_is(path: Path) -> None:
    """In a comment at the top of its YAML, which help shows."""
    assert 10 < len(usage.told(path)) < 140, (
        f"begin {path} with a comment: what it is, in a sentence"
    )


def test_help_has_every_option_beside_its_line(page: str) -> None:
    told = " ".join(page.split())
    for path in OF_AUDITS:
        assert re.search(
            rf"\b{path.stem}( \*)? {re.escape(' '.join(usage.told(path).split()))}", told
        ), path
    for group in cli.GROUPS:
        assert f"{group}=…" in page
    assert re.search(r"broken/… +\d\d more, such as broken/above_threshold_less_noise", page)
    for name in cli.commands():
        assert re.search(rf"^  {name} ", page, flags=re.MULTILINE)
    for value in (
        "eps=1",
        "delta=0.01",
        "trials=10000",
        "significance=0.1",
        "seed=0",
        "root=mlruns",
    ):
        assert value in page
    assert max(map(len, page.splitlines())) <= 100 and "\x1b" not in page


def test_help_marks_what_is_chosen_if_nothing_is_given(page: str) -> None:
    marked = re.findall(r"^  (\w+) \* ", page, flags=re.MULTILINE)
    assert sorted(marked) == sorted(usage.usual(CONF / "config.yaml").values()) and len(
        marked
    ) == len(cli.GROUPS)


def test_help_has_a_users_own_options(
    page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "mine" not in page.split()
    (tmp_path / "conf" / "mechanism").mkdir(parents=True)
    (tmp_path / "conf" / "mechanism" / "mine.yaml").write_text(
        "# My own; and more.\n_target_: mine.Mine\n"
    )
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "both.yaml").write_text("hydra: {mode: MULTIRUN}\n")
    cli.main(["mechanism=mine", "-h"])
    told = capsys.readouterr().out
    assert re.search(r"^  mine +My own *$", told, flags=re.MULTILINE) and "  both" in told


@pytest.mark.parametrize("example", [words for words, _ in usage.EXAMPLES])
def test_the_examples_can_be_played(
    example: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word for word in shlex.split(example)[1:] if word not in cli.commands()]
    cli._register()
    _, plans = cli.check([word for word in words if word != "-m"], "-m" in words)
    assert len(plans) >= 1


def test_no_colour_where_it_is_not_wanted(tmp_path: Path) -> None:
    """Piped: none. FORCE_COLOR: some. NO_COLOR: no colour all the same."""
    words = [sys.executable, "-m", "audit", "--help"]
    base = {
        k: v
        for k, v in os.environ.items()
        if k not in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM")
    }

    def said(**more: str) -> str:
        return subprocess.run(
            words, cwd=tmp_path, env=base | more, capture_output=True, text=True, check=True
        ).stdout

    coloured = re.compile("\x1b\\[[0-9;]*3[0-9]m")
    assert "\x1b" not in said()
    assert coloured.search(said(FORCE_COLOR="1", TERM="xterm-256color"))
    assert not coloured.search(said(FORCE_COLOR="1", TERM="xterm-256color", NO_COLOR="1"))


BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="there is no bash to complete in")
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("audit mechanism=ms", {"mechanism=mst", "mechanism=mst_fixed"}),
        ("audit mechanism=mst crit", {"criterion=", "criterion."}),
        ("audit ru", {"runs"}),
    ],
)
def test_bash_completes(line: str, wanted: set[str], tmp_path: Path) -> None:
    assert BASH is not None
    program = tmp_path / "audit"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m audit "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(audit --shell-completion install=bash)"; complete -p audit >/dev/null || exit 3;'
        f"COMP_LINE={line!r} COMP_POINT={len(line)} COMP_CWORD={line.count(' ')};"
        'hydra_bash_completion; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        [BASH, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert wanted <= set(done.stdout.split()), done.stdout
    if "ru" in line.split():
        assert set(done.stdout.split()) == wanted
