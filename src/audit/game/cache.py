"""Finished blocks, a file each; and what the dead leave behind."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import logging
import os
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from audit.core import TRIAL_ARRAYS, AuditError, Trials
from audit.game.identity import fingerprint
from audit.game.play import CanaryGame, Game

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Cache:
    """Finished blocks of one game, a file each, under ``root/<hash>``."""

    root: Path
    game: Game | CanaryGame

    def __post_init__(self) -> None:
        about = json.dumps(fingerprint(self.game), sort_keys=True, default=repr)
        object.__setattr__(self, "folder", self.root / hashlib.sha256(about.encode()).hexdigest()[:16])
        object.__setattr__(self, "_about", about)

    folder: Path = dataclasses.field(init=False)
    _about: str = dataclasses.field(init=False, repr=False)

    def path(self, block: int) -> Path:
        """Where a block is kept."""
        return self.folder / f"{block:08d}.npz"

    def kept(self) -> set[int]:
        """The blocks that have a file, whole or damaged: one look at the folder for all of them."""
        return {int(path.stem) for path in self.folder.glob("*.npz") if path.stem.isdigit()}

    def load(self, block: int) -> Trials | None:
        """A kept block, or None: never played, or its file is damaged (which is said)."""
        path = self.path(block)
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                arrays = {name: kept[name] for name in kept.files}
            return Trials(columns=tuple(map(str, arrays.pop("columns"))), **arrays)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            log.warning("block %d was damaged (%s) and is played again: %s", block, type(error).__name__, path)
            return None

    def save(self, block: int, trials: Trials) -> None:
        """Write a block aside, then rename it: a file is whole or not there.

        Raises:
            AuditError: when the folder cannot be written or is full.
        """
        arrays = {name: getattr(trials, name) for name in TRIAL_ARRAYS}
        kept = {name: array for name, array in arrays.items() if array is not None}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / "about.json").exists():
                self._write("about.json", lambda file: file.write(self._about.encode()))
            columns = np.array(trials.columns, dtype=str)
            self._write(self.path(block).name, lambda file: np.savez(file, columns=columns, **kept))
        except OSError as error:
            raise AuditError(
                f"cannot keep trials in {self.folder} ({error.strerror or error}); free some room, or set root= to a"
                " folder that can be written"
            ) from error

    def _write(self, name: str, write: Callable[[Any], Any]) -> None:
        # The name is made before the file is: a Ctrl-C at any point after that leaves nothing behind.
        aside = self.folder / f".{uuid.uuid4().hex}.part"
        try:
            with open_locked(aside) as file:
                write(file)
                file.flush()  # all of it is there before the file takes its name
                os.replace(aside, self.folder / name)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def tidy(self) -> None:
        """Remove what writers that died left aside."""
        for aside in self.folder.glob(".*.part"):
            with abandoned(aside) as free:
                if free:
                    aside.unlink(missing_ok=True)


def open_locked(path: Path) -> IO[bytes]:
    """A new file, locked for as long as it is open; the system unlocks it when its process ends, however it ends."""
    while True:
        file = path.open("xb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # somebody tidied it away between its opening and its locking


@contextlib.contextmanager
def abandoned(path: Path) -> Iterator[bool]:
    """Whether nobody holds ``path`` open and locked; it is locked meanwhile, so that the answer stays true."""
    try:
        file = path.open("rb")
    except OSError:
        yield False
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
