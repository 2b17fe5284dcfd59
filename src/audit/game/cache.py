"""Finished blocks, a file each; and what the dead leave behind."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import logging
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from audit.core import TRIAL_ARRAYS, Array, AuditError, Trials
from audit.game.identity import fingerprint, without_words
from audit.game.play import CanaryGame, Game

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Cache:
    """Finished blocks of one game, a file each, under ``root/<hash>``."""

    root: Path
    game: Game | CanaryGame

    def __post_init__(self) -> None:
        found = fingerprint(self.game)
        about = json.dumps(found, sort_keys=True, default=repr)
        object.__setattr__(
            self, "folder", self.root / hashlib.sha256(about.encode()).hexdigest()[:16]
        )
        object.__setattr__(
            self, "_about", json.dumps(without_words(found), sort_keys=True, default=repr)
        )

    folder: Path = dataclasses.field(init=False)
    _about: str = dataclasses.field(init=False, repr=False)

    def path(self, block: int) -> Path:
        """Where a block is kept."""
        return self.folder / f"{block:08d}.npz"

    def kept(self) -> set[int]:
        """The blocks that have a file, whole or damaged: one look at the folder for all of them."""
        return {int(path.stem) for path in self.folder.glob("*.npz") if path.stem.isdigit()}

    def load(self, block: int) -> Trials | None:
        """A kept block, or None: never played, or its file is not what was kept as that block
        (which is said)."""
        path = self.path(block)
        try:
            trials, seal = _read(path)
        except FileNotFoundError:
            return None
        except Exception as error:  # a file that somebody else has written can be wrong in any way
            why = (
                (error.strerror if isinstance(error, OSError) else None)
                or str(error)
                or "it is cut short"
            )
            log.warning(
                "block %d is damaged (%s) and is played again: %s",
                block,
                " ".join(why.split()),
                path,
            )
            return None
        if seal != self._seal(block, trials):
            log.warning(
                "block %d is damaged (%s) and is played again: %s",
                block,
                self._fault(block, trials),
                path,
            )
            return None
        return trials

    def _seal(self, block: int, trials: Trials) -> str:
        """Digest of a game, a block's number and its trials: a file that is not that block cannot
        have it by accident."""
        digest = hashlib.sha256(f"{self.folder.name} {block} {_names(trials).tolist()}".encode())
        for name, array in _arrays(trials).items():
            digest.update(f"{name} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()

    def _fault(self, block: int, trials: Trials) -> str:
        """What is wrong with trials that lack the seal, as far as it shows."""
        first, count = block * self.game.block, self.game.block
        if any(array.shape[:1] != (count,) for array in _arrays(trials).values()):
            return f"it does not hold {count} trials"
        if not np.array_equal(trials.index, np.arange(first, first + count)):
            return (
                f"it holds the trials from {trials.index[0]} on where those from {first} on are due"
            )
        if (
            trials.rows.shape != (count, len(trials.columns))
            or trials.rows.dtype.kind not in "biuf"
        ):
            return f"its rows are {trials.rows.dtype} of shape {trials.rows.shape}"
        if not np.isfinite(trials.rows).all():
            return "its rows are not finite"
        return "it was changed, or is of another game"

    def save(self, block: int, trials: Trials) -> None:
        """Write a block aside, then rename it: a file is whole or not there.

        Raises:
            AuditError: when the folder cannot be written or is full.
        """
        arrays: dict[str, Any] = {
            "columns": _names(trials),
            "seal": np.array(self._seal(block, trials)),
        }
        arrays |= _arrays(trials)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / "about.json").exists():
                self._write("about.json", lambda file: file.write(self._about.encode()))
            self._write(self.path(block).name, lambda file: np.savez(file, **arrays))
        except OSError as error:
            raise AuditError(
                f"cannot keep trials in {self.folder} ({error.strerror or error}); free some "
                "room, or set root= to a folder that can be written"
            ) from error

    def _write(self, name: str, write: Callable[[Any], Any]) -> None:
        # The name is made before the file is: a Ctrl-C at any point after that leaves nothing
        # behind.
        aside = self.folder / f".{uuid.uuid4().hex}.part"
        try:
            with open_locked(aside) as file:
                write(file)
                file.flush()  # all of it is there before the file takes its name
                _give_way(self.folder / name)
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


def _arrays(trials: Trials) -> dict[str, Array]:
    """Those that there are."""
    arrays = {name: getattr(trials, name) for name in TRIAL_ARRAYS}
    return {name: array for name, array in arrays.items() if array is not None}


def _names(trials: Trials) -> Array:
    return np.array(trials.columns, dtype=str)


def _read(path: Path) -> tuple[Trials, str]:
    """A file's trials and their seal.

    Raises:
        FileNotFoundError: there is none.
        Exception: of any kind, where it is no such file.
    """
    with open_regular(path) as file, np.load(file, allow_pickle=False) as kept:
        arrays = {name: kept[name] for name in kept.files}
    columns, seal = (arrays.pop(name, None) for name in ("columns", "seal"))
    missing = {"rows", "bits", "index", "run"} - set(arrays)
    strange = set(arrays) - set(TRIAL_ARRAYS)
    if columns is None or seal is None or missing or strange:
        raise ValueError("it has other arrays than a block")
    return Trials(columns=tuple(map(str, columns)), **arrays), str(seal)


def open_regular(path: Path) -> IO[bytes]:
    """A regular file, opened for reading without waiting: a FIFO would wait for somebody who
    writes.

    Raises:
        OSError: it cannot be opened, or is anything else, such as a folder.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _give_way(path: Path) -> None:
    """A folder that stands where a file is due goes aside, whole: a file cannot take its name."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.{uuid.uuid4().hex}.aside"))


def open_locked(path: Path) -> IO[bytes]:
    """A new file, locked for as long as it is open; the system unlocks it when its process ends,
    however it ends."""
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
    """Whether nobody holds ``path`` open and locked; it is locked meanwhile, so that the answer
    stays true.

    What is no file, or somebody else's, was not left by a process of ours and is not abandoned.
    """
    try:
        file = open_regular(path)
    except OSError:
        yield False
        return
    with file:
        if path.is_symlink() or os.fstat(file.fileno()).st_uid != os.geteuid():
            yield False
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
