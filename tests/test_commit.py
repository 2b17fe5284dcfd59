"""The commit of a working directory, and that nothing of it is run to learn it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from audit.commit import commit

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    fixed = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "core.fsmonitor="]
    done = subprocess.run(
        ["git", *fixed, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in ("one.txt", "two.txt"):
        (folder / name).write_text(name)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")
    return folder


def test_the_commit_of_a_folder_and_of_those_inside_it(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(repository, "rev-parse", "HEAD")
    (repository / "inner").mkdir()
    (repository / "untracked").write_text("")
    assert commit(repository) == commit(repository / "inner") == head
    monkeypatch.chdir(repository)
    assert commit() == head
    os.utime(repository / "one.txt", (1, 1))  # touched, and the same
    assert commit() == head
    git(repository, "pack-refs", "--all")
    git(repository, "gc", "-q")
    assert commit() == head
    git(repository, "checkout", "-q", "--detach")
    assert commit() == head


@pytest.mark.parametrize("staged", [False, True])
def test_a_plus_where_files_differ(staged: bool, repository: Path) -> None:
    (repository / "one.txt").write_text("other")
    if staged:
        git(repository, "add", ".")
    assert commit(repository) == git(repository, "rev-parse", "HEAD") + "+"
    (repository / ".git/index").write_bytes(b"broken")
    assert commit(repository).endswith("+")  # not known


def test_a_worktree_and_another_hash(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert commit(tmp_path / "tree") == git(repository, "rev-parse", "HEAD")
    (tmp_path / "tree/one.txt").write_text("other")
    assert commit(tmp_path / "tree").endswith("+") and not commit(repository).endswith("+")
    (tmp_path / "long").mkdir()
    git(tmp_path / "long", "init", "-q", "--object-format=sha256")
    (tmp_path / "long/x").write_text("")
    git(tmp_path / "long", "add", ".")
    git(tmp_path / "long", "commit", "-q", "-m", "x")
    assert commit(tmp_path / "long") == git(tmp_path / "long", "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "head", ["", "nonsense", "ref: refs/heads/no", "ref: ../../secret", "ref: HEAD"]
)
def test_what_is_no_repository_has_none(head: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a" * 40)
    (tmp_path / "x/.git").mkdir(parents=True)
    (tmp_path / "x/.git/HEAD").write_text(head)
    assert commit(tmp_path / "x") == "none"


def hostile(repository: Path) -> Path:
    """Everything by which a repository's own files make `git status` run a program; returns the
    file that it writes."""
    ran = repository.parent / "ran"
    program = repository / "run.sh"
    program.write_text(f"#!/bin/sh\necho $0 >>{ran}\ncat\n")
    program.chmod(0o755)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        shutil.copy(program, repository / ".git/hooks" / hook)
    with (repository / ".git/config").open("a") as config:
        config.write(f"[core]\nfsmonitor = {program}\npager = {program}\nsshCommand = {program}\n")
        config.write(
            '[filter "x"]\n'
            f"clean = {program}\n"
            f"smudge = {program}\n"
            f"process = {program}\n"
            "required = true\n"
        )
        config.write(
            f'[diff "x"]\ntextconv = {program}\ncommand = {program}\n[diff]\nexternal = {program}\n'
        )
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    # as long as before: git must read it, through the filter
    (repository / "one.txt").write_text("eno.txt")
    return ran


def test_nothing_in_the_folder_is_run(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    ran = hostile(repository)
    assert commit(repository) == head + "+"
    assert not ran.exists()
    subprocess.run(
        ["git", "status", "--porcelain"], cwd=repository, capture_output=True, check=False
    )
    assert ran.exists(), "the twin: git by itself does run it"
