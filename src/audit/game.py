"""Where trials come from: the game is played in seeded blocks, here or on Ray, and every finished block is kept.

A block is the unit of seed, of retry and of the cache. Trial i has bit i mod 2, so that any even slice of the stream is
balanced (in `CanaryGame` a block is one run of many canaries, and bits are coins); block b of seed s always holds the
same trials, whoever plays it and in whatever order. The only door to ray.
"""

from __future__ import annotations

import ast
import atexit
import collections
import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import logging
import os
import re
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
import types
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Protocol

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import (
    TRIAL_ARRAYS,
    Array,
    AuditError,
    CanaryReleases,
    Challenge,
    Columns,
    Mechanism,
    Neighbours,
    Odd,
    Releases,
    Reporting,
    Trials,
)
from audit.privacy import STRICT

log = logging.getLogger(__name__)

Features = Callable[[Releases, Challenge], Columns]
Watch = Callable[[int], None]
Play = Callable[[int], Trials]
Side = tuple[Columns, Array | None, Array | None]


# --- one block ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Game:
    """Everything that decides what a trial looks like; two equal games have equal trials."""

    mechanism: Mechanism
    challenge: Challenge
    features: Features
    seed: int

    @property
    def block(self) -> int:
        """How many trials one seed plays."""
        return self.mechanism.block

    def play(self, block: int) -> Trials:
        """The trials of one block: half of them without the canary, half with it, alternating.

        Raises:
            AuditError: when the mechanism's rows are not numbers, or not as many as were asked for.
        """
        pair = (self.challenge.data([False]), self.challenge.data([True]))
        sides = [self._safely(block, bit, pair) for bit in (False, True)]
        names = [columns.names for columns, _, _ in sides]
        if names[0] != names[1]:
            raise AuditError(
                f"{self._where(block, 0)}: the columns differ between the two data sets ({_difference(*names)}); they"
                " would tell all: count that as an event with features=events"
            )
        ratios = [ratio for _, ratio, _ in sides if ratio is not None]
        spent = [eps for _, _, eps in sides if eps is not None]
        first = block * self.mechanism.block
        index = np.arange(first, first + self.mechanism.block)
        return Trials(
            columns=names[0],
            rows=_interleave([columns.values for columns, _, _ in sides]),
            bits=index % 2 == 1,
            index=index,
            run=index,
            spent=_interleave(spent) if len(spent) == 2 else None,
            log_ratio=_interleave(ratios) if len(ratios) == 2 else None,
        )

    def _safely(self, block: int, bit: bool, pair: tuple[Any, Any]) -> Side:
        """One side, with whatever goes wrong in it said of its trial: a mechanism may be anybody's code."""
        try:
            return self._side(block, bit, pair)
        except Odd as odd:
            places = [2 * place + int(bit) for place in (odd.places[0], odd.places[-1])]
            raise AuditError(f"{self._where(block, *places)}: {odd}") from odd
        except AuditError:
            raise
        except (Exception, SystemExit) as error:
            log.debug("in block %d", block, exc_info=True)
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise AuditError(f"{self._where(block, int(bit))}: {what}; mend the mechanism or the features") from error

    def _side(self, block: int, bit: bool, pair: tuple[Any, Any]) -> Side:
        half = self.mechanism.block // 2
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block, int(bit))))
        releases = self.mechanism.release(pair[bit], half, rng)
        columns = self.features(releases, self.challenge)
        _check(columns, half, lambda row: self._where(block, 2 * row + int(bit)))
        spent = releases.spent() if isinstance(releases, Reporting) else None
        if spent is not None and not (np.shape(spent) == (half,) and np.all(spent >= 0) and np.all(np.isfinite(spent))):
            raise AuditError(
                f"{self._where(block, int(bit))}: what was spent is not one finite ε ≥ 0 a trial; mend the mechanism"
            )
        return columns, releases.log_ratio(*pair), spent

    def _where(self, block: int, place: int, last: int | None = None) -> str:
        """Of which trial, or of which of every second trial up to ``last``, something is said."""
        start, name = block * self.mechanism.block, type(self.mechanism).__name__
        which = f"trial {start + place}"
        if last is not None and last != place:
            which = f"one of the trials {start + place}, {start + place + 2} … {start + last}"
        return f"{name}, {which} (seed {self.seed}, block {block})"


def _difference(absent: Sequence[str], present: Sequence[str]) -> str:
    """The first column that one side has and the other has not.

    >>> _difference(("y[0]",), ("y[0]", "y[1]"))
    "'y[1]' is there with the canary only"
    """
    only = [name for name in [*absent, *present] if (name in absent) != (name in present)]
    if not only:
        return "in another order"
    return f"{only[0]!r} is there {'without' if only[0] in absent else 'with'} the canary only"


@dataclasses.dataclass(frozen=True)
class CanaryGame:
    """One run of the mechanism is a block: m canaries, each in the data by a fair coin; a trial is one of them.

    Bits are drawn, not alternating, since a bound from one run rests on the coins alone.
    """

    mechanism: Mechanism
    challenge: Challenge
    features: Features
    seed: int

    @property
    def block(self) -> int:
        """How many canaries a run holds."""
        return len(self.challenge.canaries)

    def play(self, block: int) -> Trials:
        """What run ``block`` shows of each canary; all have the same ``run``.

        Raises:
            AuditError: when the mechanism shows nothing of single canaries, or rows that are not numbers.
        """
        coins, rng = (np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block, k))) for k in (2, 3))
        bits = coins.random(self.block) < 0.5
        try:
            columns = self._rows(bits, rng)
        except AuditError:
            raise
        except (Exception, SystemExit) as error:  # a mechanism may be anybody's code
            log.debug("in run %d", block, exc_info=True)
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise AuditError(f"{self._where(block, 0)}: {what}; mend the mechanism or the features") from error
        _check(columns, self.block, lambda row: self._where(block, row))
        index = np.arange(block * self.block, (block + 1) * self.block)
        return Trials(columns.names, np.asarray(columns.values), bits, index, np.full(self.block, block))

    def _rows(self, bits: Array, rng: np.random.Generator) -> Columns:
        releases = self.mechanism.release(self.challenge.data(list(bits)), 1, rng)
        if not isinstance(releases, CanaryReleases):
            raise AuditError(
                f"protocol=one_run: {type(self.mechanism).__name__} shows nothing of single canaries; choose a mechanism"
                " that does, such as dp_sgd, or protocol=holdout"
            )
        return self.features(releases.of_canaries(), self.challenge)

    def _where(self, block: int, place: int) -> str:
        return f"{type(self.mechanism).__name__}, canary {place} of run {block} (seed {self.seed})"


def _check(columns: Columns, trials: int, where: Callable[[int], str]) -> None:
    """Refuse rows that are not as many numbers as were asked for; ``where`` says whose row it is."""
    values = np.asarray(columns.values)
    if values.shape != (trials, len(columns.names)):
        raise AuditError(
            f"{where(0)}: rows of shape {values.shape} where {(trials, len(columns.names))} was due; the mechanism must"
            " release one row a trial, always as wide"
        )
    if values.dtype.kind not in "biuf":
        raise AuditError(
            f"{where(0)}: the released rows are no numbers ({values.dtype}); the mechanism must release floats"
        )
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise AuditError(
            f"{where(row)}: the released row is not finite ({columns.names[int(np.argmax(~np.isfinite(values[row])))]});"
            " mend the mechanism, or count it as an event with features=events"
        )


@dataclasses.dataclass(frozen=True)
class Carried:
    """A challenge with its pair of data sets made once: it can be played where the files that it was read from are not.

    Args:
        challenge: asked for everything else.
        pair: its data sets without and with the canary.
        canaries: (m, d).
    """

    challenge: Challenge
    pair: tuple[Any, Any]
    canaries: Array

    @property
    def neighbours(self) -> Neighbours:
        """As the challenge has it."""
        return self.challenge.neighbours

    def data(self, bits: Sequence[bool]) -> Any:
        """The made ones where there is one bit."""
        return self.pair[bool(bits[0])] if len(bits) == 1 else self.challenge.data(bits)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "challenge" not in self.__dict__:  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self.challenge, name)


def carried(game: Game | CanaryGame) -> Game | CanaryGame:
    """The same game with its data sets in it, where they are two; many canaries have too many."""
    challenge = game.challenge
    if len(challenge.canaries) != 1:
        return game
    pair = (challenge.data([False]), challenge.data([True]))
    return dataclasses.replace(game, challenge=Carried(challenge, pair, challenge.canaries))


def _interleave(sides: Sequence[Array]) -> Array:
    """Two (n, …) arrays as one (2n, …): absent, present, absent, present, …"""
    return np.stack(sides, axis=1).reshape(-1, *np.shape(sides[0])[1:])


# --- what is played before is not played again -----------------------------------------------------------------


def fingerprint(game: Game | CanaryGame) -> dict[str, Any]:
    """What a game's trials depend on: the objects, the data sets, the seed, and the source that plays them.

    A mechanism that runs other code than its own names it: ``modules`` (names) and ``programs`` (paths).

    Attackers, criteria, estimators and the number of trials are not in it, so that a sweep over them plays once.
    """
    pair = [game.challenge.data([bit] * len(game.challenge.canaries)) for bit in (False, True)]
    files = getattr(game.mechanism, "programs", ())
    about = {
        "game": type(game).__name__,
        "mechanism": _describe(game.mechanism),
        "features": _describe(game.features),
        "canaries": _digest(game.challenge.canaries),
        "data": [_digest(data) for data in pair],
        "seed": game.seed,
        "source": sources([*sorted(_modules(game.mechanism) | _modules(game.features)), __name__]),
    }
    return about | ({"programs": {str(path): _contents(path) for path in files}} if files else {})


def _contents(path: Path) -> str:
    """Digest of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise AuditError(f"cannot read {path} ({error.strerror}); it tells whether kept trials are stale") from error


def _describe(thing: Any) -> list[Any]:
    """Class, block and fields, down to the parts of a mechanism that is made of others."""
    fields = {name: _inside(value) for name, value in _fields(thing).items()} if _is_record(thing) else repr(thing)
    return [f"{type(thing).__module__}.{type(thing).__qualname__}", getattr(thing, "block", None), fields]


def _inside(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_inside(item) for item in value]
    return _describe(value) if _is_record(value) else value


def _modules(thing: Any) -> set[str]:
    """Where the classes of a thing and of its parts are written, and what other code they name."""
    parts = thing if isinstance(thing, list | tuple) else _fields(thing).values() if _is_record(thing) else ()
    own = set() if isinstance(thing, list | tuple) else {type(thing).__module__, *getattr(thing, "modules", ())}
    nested = (part for part in parts if isinstance(part, list | tuple) or _is_record(part))
    return own.union(*(_modules(part) for part in nested))


def _is_record(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def _fields(thing: Any) -> dict[str, Any]:
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


def _digest(data: Any) -> str:
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return _digest([_digest(getattr(data, field.name)) for field in dataclasses.fields(data)])
    if isinstance(data, np.ndarray):
        return hashlib.sha256(repr((data.shape, data.dtype)).encode() + data.tobytes()).hexdigest()
    return hashlib.sha256(repr(data).encode()).hexdigest()


def sources(modules: Sequence[str]) -> dict[str, str]:
    """Module → digest of its text, for modules and what they use; installed packages → version.

    Followed are uses of the same package, and of modules that are somebody's own: not installed, not the language's.

    Args:
        modules: names of imported modules.
    """
    found: dict[str, str] = {}
    packages: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        module, theirs = sys.modules.get(name), _top(name) != _top(__name__)
        if name in found or (module is None and not _own(name)):
            continue
        found[name] = _text(name)
        used = (_used_by(module) if module is not None else set()) | (_imported_by(name) if theirs else set())
        waiting += [other for other in used if _top(other) == _top(name) or _own(other)]
        packages |= {_top(other) for other in used} if theirs else set()
    ours = ("mbi", "jax", "dp_accounting") if any("mechanisms" in module for module in found) else ()
    heavy = {"numpy", *ours}
    return found | {name: version for name in sorted(heavy | packages) if (version := _version(name))}


def _top(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


def _own(name: str) -> bool:
    """Whether a module is a file of somebody's own."""
    file = _file(name)
    if file is None or _top(name) == _top(__name__):
        return False
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and not Path(file).is_relative_to(sysconfig.get_path("stdlib"))


def _file(name: str) -> str | None:
    """The file of a module, imported already or not; None where there is none, or finding out would import a package."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec.origin if spec is not None and spec.has_location else None


@functools.lru_cache(maxsize=512)
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.lru_cache(maxsize=512)
def _text(name: str) -> str:
    """Digest of a module's source when it was first asked for: the process goes on with that, whatever is edited since."""
    text = _source(name)
    return "no source" if text is None else hashlib.sha256(text.encode()).hexdigest()


def _source(name: str) -> str | None:
    """A module's text; None where it is built in, compiled, or typed at a prompt."""
    try:
        if name in sys.modules:
            return inspect.getsource(sys.modules[name])
        return Path(_file(name) or "").read_text("utf-8")
    except (OSError, TypeError, UnicodeDecodeError):
        return None


def _imported_by(name: str) -> set[str]:
    """Names that a module's text imports anywhere, of modules and of what is in them.

    The namespace alone does not tell: a number knows no module that it came from.
    """
    try:
        tree = ast.parse(_source(name) or "")
    except SyntaxError:
        return set()
    package = name if hasattr(sys.modules.get(name), "__path__") else name.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names - {""}


def _used_by(module: types.ModuleType) -> set[str]:
    """Names of the modules whose objects stand in a module's namespace."""
    values = list(vars(module).values())
    named = {v.__name__ for v in values if isinstance(v, types.ModuleType)}
    return named | {v.__module__ for v in values if isinstance(getattr(v, "__module__", None), str)}


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
            with _open_locked(aside) as file:
                write(file)
                file.flush()  # all of it is there before the file takes its name
                os.replace(aside, self.folder / name)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def tidy(self) -> None:
        """Remove what writers that died left aside."""
        for aside in self.folder.glob(".*.part"):
            with _abandoned(aside) as free:
                if free:
                    aside.unlink(missing_ok=True)


# --- what the dead leave behind ---------------------------------------------------------------------------------------


def _open_locked(path: Path) -> IO[bytes]:
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
def _abandoned(path: Path) -> Iterator[bool]:
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


# --- the stream ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Tally:
    """How many blocks were played, and how many were found in the cache."""

    played: int = 0
    cached: int = 0


@dataclasses.dataclass(frozen=True)
class Played:
    """An endless stream of trials, played where they are not cached yet.

    Args:
        game: what is played.
        backend: who plays.
        root: folder of the cache.
        watch: told the number of trials whenever some have arrived.
    """

    game: Game | CanaryGame
    backend: Backend
    root: Path
    watch: Watch = lambda count: None
    tally: Tally = dataclasses.field(default_factory=Tally)
    limit: None = None

    def trials(self, first: int, count: int) -> Trials:
        """Trials ``first`` … ``first + count − 1``; each is played once, then kept.

        Raises:
            AuditError: see `Game.play` and `Cache.save`.
        """
        size = self.game.block
        blocks = range(first // size, -(-(first + count) // size))
        columns, arrays = tuple[str, ...](), dict[str, Any]()
        for block, part in self._blocks(blocks):
            if not arrays:  # only now is it known how wide they are
                refuse_if_too_many(part, count)
                columns, arrays = part.columns, _room_for(part, count)
            start = block * size - first
            inside = slice(max(0, start), min(count, start + size))
            for name, array in arrays.items():
                array[inside] = getattr(part, name)[inside.start - start : inside.stop - start]
        return Trials(columns, **arrays)

    def _blocks(self, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        cache = Cache(self.root, self.game)
        cache.tidy()
        missing = []
        for block in blocks:
            kept = cache.load(block)
            if kept is None:
                missing.append(block)
                continue
            self.tally.cached += 1
            self.watch(len(kept))
            yield block, kept
        for block, trials in self.backend.run(carried(self.game).play, missing) if missing else ():
            cache.save(block, trials)
            self.tally.played += 1
            self.watch(len(trials))
            yield block, trials


@dataclasses.dataclass(frozen=True)
class Stored:
    """Trials that were played elsewhere, each side shuffled, then one of each side in turn.

    Even slices are balanced, as those of `Played` are. Where one side has more trials, the rest of it is left out.

    Args:
        recorded: all trials there are.
        seed: of the shuffle.
    """

    recorded: Trials
    seed: int

    @property
    def limit(self) -> int:
        """Twice as many as the smaller side has."""
        present = int(np.sum(self.recorded.bits))
        return 2 * min(present, len(self.recorded) - present)

    def trials(self, first: int, count: int) -> Trials:
        """Trials ``first`` … ``first + count − 1`` of the shuffled stream.

        Raises:
            AuditError: more than there are.
        """
        self.allow(first + count)
        return self._stream[first : first + count]

    def allow(self, count: int) -> None:
        """Refuse to go on where more trials are asked for than there are.

        Raises:
            AuditError: says how many there are.
        """
        if count > self.limit:
            raise AuditError(f"trials={count} asks for more than the {self.limit:,} stored; give trials={self.limit}")

    @functools.cached_property
    def _stream(self) -> Trials:
        rng, bits = np.random.default_rng(self.seed), self.recorded.bits
        sides = [rng.permutation(np.flatnonzero(bits == bit))[: self.limit // 2] for bit in (False, True)]
        place = np.arange(self.limit)
        return dataclasses.replace(self.recorded[_interleave(sides)], index=place, run=place)


def _room_for(part: Trials, count: int) -> dict[str, Array]:
    """Arrays for ``count`` trials like those of ``part``."""
    known = {name: getattr(part, name) for name in TRIAL_ARRAYS if getattr(part, name) is not None}
    return {name: np.empty((count, *array.shape[1:]), array.dtype) for name, array in known.items()}


COPIES, WORK = 1.5, 500
"""Bytes of an audit's peak per byte of its trials, and beside that a trial: measured, see benchmarks/README.md."""


def memory(part: Trials, count: int) -> float:
    """Bytes that an audit of ``count`` trials like those of ``part`` takes at its peak, beyond what an empty one takes."""
    each = sum(getattr(part, name).nbytes for name in TRIAL_ARRAYS if getattr(part, name) is not None) / len(part)
    return count * (COPIES * each + WORK)


def refuse_if_too_many(part: Trials, count: int) -> None:
    """Say so before they are played when ``count`` trials like those of ``part`` would not fit into the free memory.

    Raises:
        AuditError: with the number that fits.
    """
    import psutil

    need, have = memory(part, count), psutil.virtual_memory().available
    if need > have:
        fits = int(count * have / need) // 1000 * 1000
        raise AuditError(
            f"{count:,} trials of {part.rows.shape[1]} columns need about {need / 2**30:,.1f} GiB and"
            f" {have / 2**30:,.1f} GiB is free, which is enough for {fits:,}; set trials to that, or features=white_box"
        )


# --- who plays ------------------------------------------------------------------------------------------------------


class Backend(Protocol):
    """Plays blocks, in any order."""

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """(block, its trials) as they finish."""
        ...


@dataclass(frozen=True, config=STRICT)
class Serial:
    """One block after the other, in this process."""

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """In order."""
        for block in blocks:
            yield block, play(block)


@dataclass(frozen=True, config=STRICT)
class Ray:
    """Blocks as Ray tasks, on this machine or on a cluster.

    A task whose worker or node is lost is played again, by another one; what it plays depends on the block alone.

    Args:
        workers: how many play at once; None: one a core.
        address: of a running cluster (``auto``, ``host:port``, ``ray://…``); None starts Ray on this machine.
        task_seconds: tasks are whole numbers of blocks that take about so long.
    """

    workers: Annotated[int, Field(ge=1)] | None = None
    address: str | None = None
    task_seconds: Annotated[float, Field(gt=0)] = 1.0

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """Blocks as they finish; at most two tasks a worker are under way, so that little waits in memory.

        Raises:
            AuditError: see `Game.play`; or when Ray does not start, its workers die again and again, or none is left.
        """
        if not blocks:
            return
        ray = _start(self.address, self.workers)
        task = ray.remote(_play_all)
        play = ray.put(play)
        waiting, under_way, size = collections.deque(blocks), dict[Any, list[int]](), 1
        try:
            while waiting or under_way:
                room = self._room(ray)
                while waiting and len(under_way) < 2 * max(1, room):
                    batch = [waiting.popleft() for _ in range(min(size, len(waiting)))]
                    under_way[task.remote(play, batch)] = batch
                done, _ = ray.wait(list(under_way), num_returns=1, timeout=PATIENCE)
                if not done:
                    _refuse_without_cores(room)
                    continue
                seconds, played = _take(ray, done[0])
                size = max(1, int(self.task_seconds * len(under_way.pop(done[0])) / max(seconds, 1e-3)))
                yield from played
        finally:
            for left in under_way:
                ray.cancel(left, force=False)

    def _room(self, ray: Any) -> int:
        """Cores that there are now, of a cluster that may grow and shrink, or as many of them as were asked for."""
        cores = int(ray.cluster_resources().get("CPU", 0))
        return cores if self.workers is None else min(cores, self.workers)


PATIENCE = 30.0
"""Seconds without a finished task after which it is asked whether any node is left."""

STORE = 200 * 2**20
"""Bytes of Ray's object store on this machine: blocks pass through it one by one."""

WORKER_ENV = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "JAX_ENABLE_COMPILATION_CACHE": "false",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""One thread a worker: the cores are shared out by blocks already."""


def _start(address: str | None, workers: int | None) -> Any:
    """Ray, connected: the one that this process is connected to already, so that workers stay warm over a sweep's jobs.

    Raises:
        AuditError: when it cannot be started or reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of a change that is not ours
    import ray

    if ray.is_initialized():
        if _connected.get("to", address) == address:
            return ray
        ray.shutdown()
    log.info("starting Ray%s", f" at {address}" if address else "")
    _refuse_if_nobody_answers(address)
    folder = _own_folder()
    where: dict[str, Any] = {
        "address": address or "local",
        "logging_level": logging.ERROR,
        "log_to_driver": False,
        "runtime_env": {"env_vars": WORKER_ENV, "working_dir": str(_luggage(folder / "code"))},
    }
    if address is None:
        where |= {
            "num_cpus": workers or cores(),
            "include_dashboard": False,
            "object_store_memory": STORE,
            "_temp_dir": str(folder),
            "runtime_env": {"env_vars": WORKER_ENV | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}},
        }
    try:
        with warnings.catch_warnings():
            # JAX's; Ray execs at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(**where)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise AuditError(
            f"backend=ray: Ray does not start on {address or 'this machine'} ({said[0]}); use backend=serial"
        ) from error
    _connected["to"] = address
    return ray


_connected: dict[str, str | None] = {}
"""Where this process's Ray is, if it was started here."""


def _refuse_if_nobody_answers(address: str | None) -> None:
    """Ray itself would try for minutes."""
    place = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address or "")
    if place is None:
        return
    try:
        socket.create_connection((place[1], int(place[2])), timeout=10).close()
    except OSError as error:
        raise AuditError(
            f"backend=ray: nobody answers at {address} ({error.strerror or error}); check backend.address, and that the"
            " cluster runs"
        ) from error


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _own_folder() -> Path:
    """A folder for Ray's sockets and logs that goes when this process does; those of dead processes go now.

    Sockets have short names, so that the folder's must be short too.
    """
    home = tempfile.gettempdir()
    home = home if len(home) <= 24 else "/tmp"
    for left in Path(home).glob("audit-ray-*"):
        with _abandoned(left / "lock") as free:
            if free:
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix="audit-ray-", dir=home))
    lock = _open_locked(folder / "lock")
    atexit.register(_leave, folder, lock)
    return folder


def _leave(folder: Path, lock: IO[bytes]) -> None:
    """Stop what this process started, and remove its folder."""
    import ray

    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def _luggage(folder: Path) -> Path:
    """``folder``, filled with a copy of the code that this process uses and that no installation on a cluster has.

    That is this package, and whatever was imported from elsewhere than where Python and its packages are installed.
    """
    installed = {sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    folder.mkdir()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or file is None or not file.endswith(".py") or name == "__main__":
            continue
        path = Path(file).resolve()
        if name != "audit" and any(path.is_relative_to(Path(home).resolve()) for home in installed):
            continue
        if path.name == "__init__.py":
            shutil.copytree(path.parent, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / f"{name}.py")
    return folder


def _refuse_without_cores(room: int) -> None:
    if room < 1:
        raise AuditError("backend=ray: no node with a core is left; add one, and the same command goes on from here")


def _play_all(play: Play, blocks: Sequence[int]) -> tuple[float, list[tuple[int, Trials]]]:
    start = time.perf_counter()
    played = [(block, play(block)) for block in blocks]
    return time.perf_counter() - start, played


def _take(ray: Any, reference: Any) -> tuple[float, list[tuple[int, Trials]]]:
    try:
        seconds, played = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        missing = re.search(r"No module named '[^']*'", str(error))  # Ray hides the cause of what it cannot unpickle
        if missing:
            raise AuditError(f"backend=ray: {missing[0]} on a worker; install it on every node") from error
        raise error.cause if isinstance(error.cause, AuditError) else error from None
    except ray.exceptions.RayError as error:
        said = " ".join(str(error).split("\n", 1)[0].split())
        raise AuditError(
            f"backend=ray: workers die again and again, perhaps for want of memory ({type(error).__name__}: {said});"
            " set backend.workers lower, and the same command goes on from here"
        ) from error
    return seconds, played


@dataclass(frozen=True, config=STRICT)
class Auto:
    """Serial where that finishes sooner, else Ray: decided by the clock, after two blocks.

    Args:
        workers: as in `Ray`.
        startup: seconds that Ray takes to start.
    """

    workers: Annotated[int, Field(ge=1)] | None = None
    startup: Annotated[float, Field(ge=0)] = 10.0

    def run(self, play: Play, blocks: Sequence[int]) -> Iterator[tuple[int, Trials]]:
        """The first two here, the rest where it is sooner."""
        seconds: list[float] = []
        for block in blocks[:2]:
            start = time.perf_counter()
            yield block, play(block)
            seconds.append(time.perf_counter() - start)
        if len(blocks) > 2:
            yield from self._choose(seconds, len(blocks) - 2).run(play, blocks[2:])

    def _choose(self, seconds: Sequence[float], left: int) -> Backend:
        """By two measured blocks: the second is what a block costs, the first one's excess is what compiling costs."""
        workers = self.workers or cores()
        alone = left * seconds[1]
        shared = self.startup + max(0.0, seconds[0] - seconds[1]) + alone / workers
        chosen = "serial" if alone <= shared else "ray"
        log.info("backend=auto: %s (serial %.0f s, %d Ray workers %.0f s)", chosen, alone, workers, shared)
        return Serial() if alone <= shared else Ray(workers=self.workers)
