"""The commit of a working directory, read without running anything that stands in it.

Git runs programs that a repository's configuration names, such as ``core.fsmonitor`` and filters,
on a mere ``git status``. So HEAD is read as a file, and the comparison is made by git with a
configuration of our own.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

TIMEOUT_S = 10.0
OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1, SHA-256
LONGEST = 2**24  # bytes of packed-refs that are read


def commit(folder: Path | None = None) -> str:
    """The commit of the repository that ``folder`` is in, with ``+`` where files may differ from
    it; else ``none``.

    Args:
        folder: the working directory by default.
    """
    try:
        start = (folder or Path.cwd()).resolve()
        top = next((each for each in (start, *start.parents) if (each / ".git").exists()), None)
        if top is None:
            return "none"
        own, common = _git_folders(top)
        head = _resolve("HEAD", own, common)
        return head + ("+" if _differs(top, own, common, head) else "") if head else "none"
    except (OSError, RuntimeError, ValueError):
        return "none"


def _git_folders(top: Path) -> tuple[Path, Path]:
    """The repository's folder, and the one that it shares with other worktrees; both are the same
    without any."""
    own = top / ".git"
    if own.is_file():  # a worktree's or submodule's
        own = top / _text(own).removeprefix("gitdir:").strip()
    shared = own / "commondir"
    return own, own / _text(shared).strip() if shared.is_file() else own


def _resolve(name: str, own: Path, common: Path, depth: int = 5) -> str | None:
    """What a reference points at: in a file of its own, in packed-refs, or by another reference."""
    for folder in (own, common):
        path = folder / name
        if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
            content = _text(path).strip()
            if content.startswith("ref:") and depth:
                return _resolve(content.removeprefix("ref:").strip(), own, common, depth - 1)
            return content if OBJECT_ID.fullmatch(content) else None
    packed = common / "packed-refs"
    for line in _text(packed).splitlines() if packed.is_file() else ():
        value, _, known = line.partition(" ")
        if known == name and OBJECT_ID.fullmatch(value):
            return value
    return None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(LONGEST).decode(errors="replace")


def _differs(top: Path, own: Path, common: Path, head: str) -> bool:
    """Whether tracked files differ from ``head``, by a repository whose configuration is ours; True
    if not known.

    It has the other one's objects, index and files, and none of its filters, monitors, hooks or
    submodules.
    """
    object_format = "sha256" if len(head) == 64 else "sha1"
    with tempfile.TemporaryDirectory(prefix="audit-git-") as ours:
        for name in ("refs", "objects"):
            Path(ours, name).mkdir()
        Path(ours, "HEAD").write_text(head)
        version = 1 if object_format == "sha256" else 0
        extension = "[extensions]\nobjectFormat = sha256\n" if version else ""
        Path(ours, "config").write_text(
            f"[core]\nrepositoryFormatVersion = {version}\nfileMode = false\n{extension}"
        )
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("GIT_")
        } | {
            "GIT_DIR": ours,
            "GIT_WORK_TREE": str(top),
            "GIT_INDEX_FILE": str(own / "index"),
            "GIT_OBJECT_DIRECTORY": str(common / "objects"),
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
        }
        words = ["--porcelain", "--untracked-files=no", "--ignore-submodules=all", "--no-renames"]
        try:
            status = subprocess.run(
                [
                    "git",
                    "-c",
                    "core.fsmonitor=",
                    "-c",
                    "core.hooksPath=/dev/null",
                    "status",
                    *words,
                ],
                cwd=top,
                env=environment,
                capture_output=True,
                check=True,
                timeout=TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError):
            return True
        return bool(status.stdout)
