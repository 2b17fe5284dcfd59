"""A game whose mechanism is somebody's own code, played in a child process: its death is one line,
not ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from audit import runner
from audit.core import AuditError, Isolated, Trials
from audit.game.play import CanaryGame, Game, Play


def play_of(game: Game | CanaryGame) -> Play:
    """What plays a block of a game: in this process, or in a child of it where the mechanism is
    somebody's own code."""
    return _InChild(game) if is_isolated(game.mechanism) else game.play


@dataclasses.dataclass(frozen=True)
class _InChild:
    """Plays blocks in the child of whichever process it is called in: this one, or a worker of
    Ray's."""

    game: Game | CanaryGame

    def __call__(self, block: int) -> Trials:
        """The trials of a block.

        Raises:
            AuditError: see `Game.play`; or the child has ended, or a call took too long.
        """
        try:
            return runner.run(self.game.play, block, time_limit=time_limit(self.game.mechanism))
        except runner.Ended as ended:
            where = self.game.where(block, ended.part, ended.place)
            raise AuditError(f"{where}: {ended}; {_cure(ended)}") from ended


def notes_of(mechanism: Any, data: Any) -> tuple[str, ...]:
    """What a mechanism has to say before the first trial, found out where its trials are played.

    Raises:
        AuditError: the child has ended, or a call took too long.
    """
    if not is_isolated(mechanism):
        return tuple(mechanism.notes(data))
    try:
        return tuple(runner.run(mechanism.notes, data, time_limit=time_limit(mechanism)))
    except runner.Ended as ended:
        where = f"{type(mechanism).__name__}, before the first trial (seed 0)"
        raise AuditError(f"{where}: {ended}; {_cure(ended)}") from ended


def _cure(ended: runner.Ended) -> str:
    return (
        "fix it, or raise mechanism.timeout"
        if isinstance(ended, runner.TimedOut)
        else "fix the mechanism"
    )


def is_isolated(mechanism: Any) -> bool:
    """Whether a mechanism, or a part of it, is to be played in a child process."""
    return any(_isolated_parts(mechanism))


def time_limit(mechanism: Any) -> float | None:
    """Seconds that one call may take: the least of the parts'."""
    limits = [part.time_limit for part in _isolated_parts(mechanism)]
    return min((limit for limit in limits if limit is not None), default=None)


def _isolated_parts(mechanism: Any) -> Iterator[Isolated]:
    """A mechanism and the parts that it is made of, as far as they are somebody's own code."""
    if isinstance(mechanism, Isolated):
        yield mechanism
    parts = getattr(mechanism, "parts", ())
    for part in parts if isinstance(parts, list | tuple) else ():
        yield from _isolated_parts(part)
