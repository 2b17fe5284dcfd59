"""One block of trials, or one run of many canaries: what decides what a trial looks like."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from audit import plain, runner
from audit.core import (
    Array,
    AuditError,
    CanaryReleases,
    Challenge,
    Columns,
    Mechanism,
    Neighbours,
    Releases,
    ReportsSpending,
    Trials,
    UnreadableOutput,
)

log = logging.getLogger(__name__)
Features = Callable[[Releases, Challenge], Columns]
Play = Callable[[int], Trials]
Side = tuple[Columns, Array | None, Array | None]


@dataclasses.dataclass(frozen=True)
class _Setting:
    """Everything that decides what a trial looks like; two equal games have equal trials."""

    mechanism: Mechanism
    challenge: Challenge
    features: Features
    seed: int


@contextlib.contextmanager
def _said_of(where: str) -> Iterator[None]:
    """Whatever goes wrong is one line that says ``where``: a mechanism may be anybody's code."""
    try:
        yield
    except AuditError:
        raise
    except BaseException as error:
        # a person's Ctrl-C, and no part of the game
        if isinstance(error, KeyboardInterrupt) and not runner.apart():
            raise
        log.debug("%s", where, exc_info=True)
        raise AuditError(
            f"{where}: {plain.of_error(error)}; fix the mechanism or the features"
        ) from error


@dataclasses.dataclass(frozen=True)
class Game(_Setting):
    """A block is so many runs of the mechanism on two neighbouring data sets."""

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
                f"{self._where(block, 0)}: the columns differ between the two data sets "
                f"({_difference(*names)}); they would tell all: count that as an event with "
                "features=events"
            )
        ratios = [ratio for _, ratio, _ in sides if ratio is not None]
        spent = [eps for _, _, eps in sides if eps is not None]
        first = block * self.mechanism.block
        index = np.arange(first, first + self.mechanism.block)
        return Trials(
            columns=names[0],
            rows=interleave([columns.values for columns, _, _ in sides]),
            bits=index % 2 == 1,
            index=index,
            run=index,
            spent=interleave(spent) if len(spent) == 2 else None,
            log_ratio=interleave(ratios) if len(ratios) == 2 else None,
        )

    def _safely(self, block: int, bit: bool, pair: tuple[Any, Any]) -> Side:
        """One side, with whatever goes wrong in it said of its trial."""
        try:
            with _said_of(self._where(block, int(bit))):
                return self._side(block, bit, pair)
        except UnreadableOutput as odd:
            places = [2 * place + int(bit) for place in (odd.places[0], odd.places[-1])]
            raise AuditError(f"{self._where(block, *places)}: {odd}") from odd

    def _side(self, block: int, bit: bool, pair: tuple[Any, Any]) -> Side:
        half = self.mechanism.block // 2
        runner.enter(int(bit))
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block, int(bit))))
        releases = self.mechanism.release(pair[bit], half, rng)
        columns = self.features(releases, self.challenge)
        _check(columns, half, lambda row: self._where(block, 2 * row + int(bit)))
        spent = releases.spent() if isinstance(releases, ReportsSpending) else None
        if spent is not None and not (
            np.shape(spent) == (half,) and np.all(spent >= 0) and np.all(np.isfinite(spent))
        ):
            raise AuditError(
                f"{self._where(block, int(bit))}: what was spent is not one finite ε ≥ 0 a trial; "
                "fix the mechanism"
            )
        return columns, releases.log_ratio(*pair), spent

    def where(self, block: int, side: int, place: int) -> str:
        """Of which trial something is said: the ``place``-th one of a side; −1 for either where it
        is not known."""
        if side < 0:
            return self._where(block, 0)
        return (
            self._where(block, side, side + self.block - 2)
            if place < 0
            else self._where(block, side + 2 * place)
        )

    def _where(self, block: int, place: int, last: int | None = None) -> str:
        """Of which trial, or of which of every second trial up to ``last``, something is said."""
        start, name = block * self.mechanism.block, type(self.mechanism).__name__
        which = f"trial {start + place}"
        if last is not None and last > place:
            others = (
                f", {start + place + 2} … {start + last}"
                if last > place + 2
                else f" and {start + last}"
            )
            which = f"one of the trials {start + place}{others}"
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
class CanaryGame(_Setting):
    """One run of the mechanism is a block: m canaries, each in the data by a fair coin; a trial is
    one of them.

    Bits are drawn, not alternating, since a bound from one run rests on the coins alone.
    """

    @property
    def block(self) -> int:
        """How many canaries a run holds."""
        return len(self.challenge.canaries)

    def play(self, block: int) -> Trials:
        """What run ``block`` shows of each canary; all have the same ``run``.

        Raises:
            AuditError: when the mechanism shows nothing of single canaries, or rows that are not
                numbers.
        """
        coins, rng = (
            np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(block, k)))
            for k in (2, 3)
        )
        bits = coins.random(self.block) < 0.5
        with _said_of(self._where(block, 0)):
            columns = self._rows(bits, rng)
        _check(columns, self.block, lambda row: self._where(block, row))
        index = np.arange(block * self.block, (block + 1) * self.block)
        return Trials(
            columns.names, np.asarray(columns.values), bits, index, np.full(self.block, block)
        )

    def _rows(self, bits: Array, rng: np.random.Generator) -> Columns:
        releases = self.mechanism.release(self.challenge.data(list(bits)), 1, rng)
        if not isinstance(releases, CanaryReleases):
            raise AuditError(
                f"protocol=one_run: {type(self.mechanism).__name__} shows nothing of single "
                "canaries; choose a mechanism that does, such as dp_sgd, or protocol=holdout"
            )
        return self.features(releases.of_canaries(), self.challenge)

    def where(self, block: int, side: int, place: int) -> str:
        """Of which run something is said; it has no sides."""
        return f"{type(self.mechanism).__name__}, run {block} (seed {self.seed})"

    def _where(self, block: int, place: int) -> str:
        return f"{type(self.mechanism).__name__}, canary {place} of run {block} (seed {self.seed})"


def _check(columns: Columns, trials: int, where: Callable[[int], str]) -> None:
    """Refuse rows that are not as many numbers as were asked for; ``where`` says whose row it
    is."""
    values = np.asarray(columns.values)
    if not columns.names:
        raise AuditError(f"{where(0)}: the released rows are empty; release at least one number")
    if values.shape != (trials, len(columns.names)):
        raise AuditError(
            f"{where(0)}: rows of shape {values.shape} where {(trials, len(columns.names))} was "
            "due; the mechanism must release one row a trial, always as wide"
        )
    if values.dtype.kind not in "biuf":
        raise AuditError(
            f"{where(0)}: the released rows are no numbers ({values.dtype}); the mechanism must "
            "release floats"
        )
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise AuditError(
            f"{where(row)}: the released row is not finite "
            f"({columns.names[int(np.argmax(~np.isfinite(values[row])))]}); fix the mechanism, "
            "or count it as an event with features=events"
        )


@dataclasses.dataclass(frozen=True)
class Carried:
    """A challenge with its pair of data sets made once: it can be played where the files that it
    was read from are not.

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


def interleave(sides: Sequence[Array]) -> Array:
    """Two (n, …) arrays as one (2n, …): absent, present, absent, present, …"""
    return np.stack(sides, axis=1).reshape(-1, *np.shape(sides[0])[1:])
