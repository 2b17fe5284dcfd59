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
from audit.game.play import CanaryGame, Game, carried

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
        tally: of blocks.
        check_columns: raises AuditError if nothing can be done with these columns; called with
            those of the first block, before any other is played.
    """

    game: Game | CanaryGame
    backend: Backend
    root: Path
    watch: Watch = lambda count: None
    tally: Tally = dataclasses.field(default_factory=Tally)
    check_columns: Callable[[tuple[str, ...]], None] = lambda columns: None
    limit: None = None

    def trials(self, first: int, count: int) -> Trials:
        """Trials ``first`` … ``first + count − 1``; each is played once, then kept.

        Raises:
            AuditError: see `Game.play` and `Cache.save`.
        """
        size = self.game.block
        blocks = range(first // size, -(-(first + count) // size))
        refuse_by_arithmetic(-(-(first + count) // size) - first // size, size)
        one, arrays = Trials((), *(np.empty(0) for _ in range(4))), dict[str, Any]()
        for block, part in self._blocks(blocks):
            # only now is it known how wide they are, and what their columns are called
            if not arrays:
                self.check_columns(part.columns)
                refuse_if_too_many(part, count)
                one, arrays = part[:0], _room_for(part, count)
            refuse_if_unlike(
                one,
                part,
                f"{type(self.game.mechanism).__name__}, block {block} (seed {self.game.seed})",
            )
            start = block * size - first
            inside = slice(max(0, start), min(count, start + size))
            for name, array in arrays.items():
                array[inside] = getattr(part, name)[inside.start - start : inside.stop - start]
        return Trials(one.columns, **arrays)

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
        for block, trials in (
            self.backend.run(play_of(carried(self.game)), missing) if missing else ()
        ):
            cache.save(block, trials)
            self.tally.played += 1
            self.watch(len(trials))
            yield block, trials


@dataclasses.dataclass(frozen=True)
class Stored:
    """Trials that were played elsewhere, each side shuffled and spread evenly over the stream.

    Every slice has both sides in the same proportion: in turn where they are as many, as those of
    `Played` are. Of fewer trials than there are, half are of the smaller side, or all that it has.

    Args:
        recorded: all trials there are.
        seed: of the shuffle.
        asked: how many will be asked for; None: all.
    """

    recorded: Trials
    seed: int
    asked: int | None = None

    @property
    def limit(self) -> int:
        """All that there are, of both sides together."""
        return len(self.recorded)

    @property
    def sides(self) -> tuple[int, int]:
        """How many absent and how many present trials the stream has."""
        asked = self.limit if self.asked is None else min(self.asked, self.limit)
        present = int(np.sum(self.recorded.bits))
        smaller = min(present, self.limit - present)
        scarce = max(min(smaller, asked // 2), asked - (self.limit - smaller))
        return (asked - scarce, scarce) if smaller == present else (scarce, asked - scarce)

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
            raise AuditError(
                f"trials={count} asks for more than the {self.limit:,} stored; give "
                f"trials={self.limit}"
            )

    @functools.cached_property
    def _stream(self) -> Trials:
        rng, bits = np.random.default_rng(self.seed), self.recorded.bits
        sides = [
            rng.permutation(np.flatnonzero(bits == bit))[:count]
            for bit, count in enumerate(self.sides)
        ]
        # The i-th of n stands at (i + ½)/n of the stream; a stable sort takes the absent one first
        # where two are level.
        level = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in self.sides])
        order = np.concatenate(sides)[np.argsort(level, kind="stable")]
        place = np.arange(len(order))
        return dataclasses.replace(self.recorded[order], index=place, run=place)


def _room_for(part: Trials, count: int) -> dict[str, Array]:
    """Arrays for ``count`` trials like those of ``part``."""
    known = {name: getattr(part, name) for name in TRIAL_ARRAYS if getattr(part, name) is not None}
    return {name: np.empty((count, *array.shape[1:]), array.dtype) for name, array in known.items()}


def refuse_if_unlike(one: Trials, other: Trials, where: str) -> None:
    """Raise where the trials of two blocks do not fit together: an array of one would cut off what
    the other has.

    Args:
        one: trials that came first.
        other: some of another block.
        where: the other block, in words.

    Raises:
        AuditError: names the difference.
    """
    kinds = [{"columns": part.columns} | _kinds(part) for part in (one, other)]
    for name in sorted(kinds[0].keys() | kinds[1].keys()):
        first, later = (kind.get(name, "none") for kind in kinds)
        if first != later:
            raise AuditError(
                f"{where}: {name} are {_short(later)} where another block's are {_short(first)}; "
                "the mechanism must release the same columns of the same type in every block"
            )


def _kinds(part: Trials) -> dict[str, Any]:
    known = {name: getattr(part, name) for name in TRIAL_ARRAYS if getattr(part, name) is not None}
    return {name: (str(array.dtype), *array.shape[1:]) for name, array in known.items()}


def _short(kind: Any) -> str:
    """At most sixty characters of it.

    >>> _short(("float64", 3)), _short("none")
    ('float64, 3', 'none')
    """
    words = kind if isinstance(kind, str) else ", ".join(map(str, kind))
    return words if len(words) <= 60 else f"{words[:57]}…"


COPIES, WORK = 1.5, 500
"""Bytes of an audit's peak per byte of its trials, and beside that a trial: measured, see
benchmarks/README.md."""


def memory(part: Trials, count: int) -> float:
    """Bytes that an audit of ``count`` trials like those of ``part`` takes at its peak, beyond what
    an empty one takes."""
    each = sum(
        getattr(part, name).nbytes for name in TRIAL_ARRAYS if getattr(part, name) is not None
    ) / len(part)
    return count * (COPIES * each + WORK)


NARROWEST = Trials(("y",), np.zeros((1, 1)), np.zeros(1, bool), np.zeros(1, int), np.zeros(1, int))
"""A trial of one column: none takes less memory."""
LISTED = 1_000_000
"""Blocks that are looked for one by one, before the first one tells how wide trials are."""


def refuse_by_arithmetic(blocks: int, size: int) -> None:
    """Raise AuditError if a block, or so many of them, would not fit into the free memory.

    It is arithmetic, done before any block is looked for.

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
            f"a block of {size:,} trials is played as a whole and does not fit into the "
            f"{have / 2**30:,.1f} GiB that is free, {fits:,} trials do at most; set "
            "mechanism.block lower"
        )
    if blocks > LISTED and blocks * size > fits:
        raise AuditError(
            f"{blocks * size:,} trials need at least "
            f"{memory(NARROWEST, blocks * size) / 2**30:,.1f} GiB and {have / 2**30:,.1f} GiB is "
            f"free, which is enough for {fits:,} at most; set trials to that or fewer"
        )


def _free() -> int:
    """Bytes of memory."""
    import psutil

    return int(psutil.virtual_memory().available)


def refuse_if_too_many(part: Trials, count: int) -> None:
    """Raise AuditError if ``count`` trials like those of ``part`` would not fit into memory.

    Called before they are played.

    Raises:
        AuditError: with the number that fits.
    """
    need, have = memory(part, count), _free()
    if need > have:
        fits = int(count * have / need) // 1000 * 1000
        raise AuditError(
            f"{count:,} trials of {part.rows.shape[1]} columns need about {need / 2**30:,.1f} GiB "
            f"and {have / 2**30:,.1f} GiB is free, which is enough for {fits:,}; set trials to "
            "that, or features=white_box"
        )
