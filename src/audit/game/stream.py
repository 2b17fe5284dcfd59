"""The stream of trials: played where they are not kept yet, or stored."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit.core import TRIAL_ARRAYS, Array, AuditError, Trials
from audit.game.backends import Backend
from audit.game.cache import Cache
from audit.game.isolated import play_of
from audit.game.play import CanaryGame, Game, carried, interleave

Watch = Callable[[int], None]


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
        refuse_by_arithmetic(-(-(first + count) // size) - first // size, size)
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
        missing, there = [], cache.kept()
        for block in blocks:
            kept = cache.load(block) if block in there else None
            if kept is None:
                missing.append(block)
                continue
            self.tally.cached += 1
            self.watch(len(kept))
            yield block, kept
        for block, trials in self.backend.run(play_of(carried(self.game)), missing) if missing else ():
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
        return dataclasses.replace(self.recorded[interleave(sides)], index=place, run=place)


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


NARROWEST = Trials(("y",), np.zeros((1, 1)), np.zeros(1, bool), np.zeros(1, int), np.zeros(1, int))
"""A trial of one column: none takes less memory."""
LISTED = 1_000_000
"""Blocks that are looked for one by one, before the first one tells how wide trials are."""


def refuse_by_arithmetic(blocks: int, size: int) -> None:
    """Say so before any block is looked for when a block, or so many of them, would not fit into the free memory.

    Args:
        blocks: how many, more or fewer than can be `LISTED`.
        size: trials of a block.

    Raises:
        AuditError: with the number that fits, of trials as narrow as can be.
    """
    have = _free()
    fits = int(have / memory(NARROWEST, 1)) // 1000 * 1000
    if size > fits:
        raise AuditError(
            f"a block of {size:,} trials is played as a whole and does not fit into the {have / 2**30:,.1f} GiB that is"
            f" free, {fits:,} trials do at most; set mechanism.block lower"
        )
    if blocks > LISTED and blocks * size > fits:
        raise AuditError(
            f"{blocks * size:,} trials need at least {memory(NARROWEST, blocks * size) / 2**30:,.1f} GiB and"
            f" {have / 2**30:,.1f} GiB is free, which is enough for {fits:,} at most; set trials to that or fewer"
        )


def _free() -> int:
    """Bytes of memory."""
    import psutil

    return int(psutil.virtual_memory().available)


def refuse_if_too_many(part: Trials, count: int) -> None:
    """Say so before they are played when ``count`` trials like those of ``part`` would not fit into the free memory.

    Raises:
        AuditError: with the number that fits.
    """
    need, have = memory(part, count), _free()
    if need > have:
        fits = int(count * have / need) // 1000 * 1000
        raise AuditError(
            f"{count:,} trials of {part.rows.shape[1]} columns need about {need / 2**30:,.1f} GiB and"
            f" {have / 2**30:,.1f} GiB is free, which is enough for {fits:,}; set trials to that, or features=white_box"
        )
