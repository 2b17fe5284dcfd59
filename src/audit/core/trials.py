"""Trials, attacks on them, and the evidence that a protocol arranges their scores as."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from audit import plain
from audit.core.data import Array, read_only
from audit.core.mechanism import Claim, Releases


@dataclasses.dataclass(frozen=True)
class Trials:
    """Plays of the game: what the attacker sees (rows) and what it has to guess (bits).

    Args:
        columns: k names.
        rows: (n, k) features of the releases.
        bits: (n,) whether the canary was present.
        index: (n,) place in the stream; what was used to fit or to choose is known by it and cannot
            be tested on.
        run: (n,) which run of the mechanism a row comes from; all different where trials are
            independent.
        spent: (n,) privacy spent, for mechanisms that report it ex post.
        log_ratio: (n,) exact log-likelihood ratio, for the strong adversary.
    """

    columns: tuple[str, ...]
    rows: Array
    bits: Array
    index: Array
    run: Array
    spent: Array | None = None
    log_ratio: Array | None = None

    def __post_init__(self) -> None:
        # they end up on a terminal
        object.__setattr__(self, "columns", tuple(map(plain.line, self.columns)))
        for name in TRIAL_ARRAYS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, read_only(value))

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, where: Any) -> Trials:
        """The trials at a slice, mask or array of places."""
        arrays: dict[str, Any] = {}
        for name in TRIAL_ARRAYS:
            value = getattr(self, name)
            arrays[name] = None if value is None else value[where]
        return Trials(self.columns, **arrays)

    def score(self, values: Array) -> Scores:
        """``values`` (n,), one a trial, kept together with what they are the scores of."""
        return Scores(values, self.bits, self.index, self.run, self.spent, self.log_ratio)

    @staticmethod
    def concatenate(parts: Sequence[Trials]) -> Trials:
        """One after the other; all must have the same columns."""
        arrays: dict[str, Any] = {}
        for name in TRIAL_ARRAYS:
            values = [getattr(part, name) for part in parts]
            arrays[name] = None if values[0] is None else np.concatenate(values)
        return Trials(parts[0].columns, **arrays)


TRIAL_ARRAYS = ("rows", "bits", "index", "run", "spent", "log_ratio")
"""The fields of `Trials` that have one entry a trial."""


@dataclasses.dataclass(frozen=True)
class Counts:
    """A confusion table: false positives, true negatives, false negatives, true positives.

    >>> counts = Counts(fp=949, tn=1051, fn=743, tp=1257)
    >>> counts.fpr, counts.fnr
    (0.4745, 0.3715)
    """

    fp: int
    tn: int
    fn: int
    tp: int

    @property
    def fpr(self) -> float:
        """Share of absent trials called present; NaN where there are none."""
        return self.fp / (self.fp + self.tn) if self.fp + self.tn else math.nan

    @property
    def fnr(self) -> float:
        """Share of present trials called absent; NaN where there are none."""
        return self.fn / (self.fn + self.tp) if self.fn + self.tp else math.nan


@dataclasses.dataclass(frozen=True)
class Scores:
    """How strongly an attack believes, trial by trial, that the canary was present: (n,) values,
    high for yes.

    ``log_ratio`` is the exact likelihood ratio of the same trials, where it is known: a positive
    control.
    """

    values: Array
    bits: Array
    index: Array
    run: Array
    spent: Array | None = None
    log_ratio: Array | None = None

    def __post_init__(self) -> None:
        for field in ("values", "bits", "index", "run", "spent", "log_ratio"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, read_only(value))
        if len(self.values) != len(self.bits):
            raise ValueError(f"{len(self.values)} scores for {len(self.bits)} trials")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def absent(self) -> Array:
        """Scores of the trials without the canary."""
        return self.values[~self.bits]

    @property
    def present(self) -> Array:
        """Scores of the trials with the canary."""
        return self.values[self.bits]

    def count(self, threshold: float) -> Counts:
        """The confusion table when every score ≥ ``threshold`` is called present."""
        said = self.values >= threshold
        tp, fp = int(np.sum(said & self.bits)), int(np.sum(said & ~self.bits))
        present = int(np.sum(self.bits))
        return Counts(fp=fp, tn=len(self) - present - fp, fn=present - tp, tp=tp)


@dataclasses.dataclass(frozen=True)
class RankedScores:
    """RankedScores under the ROC curve of the same scores, each counted more or less often, without
    sorting them again.

    Args:
        order: (n₀,) the absent scores' places from low to high.
        below, up_to: (n₁,) how many absent scores are below each present one, and how many not
            above it.
    """

    order: Array
    below: Array
    up_to: Array

    @staticmethod
    def of(absent: Array, present: Array) -> RankedScores:
        """Of these scores."""
        order = np.argsort(absent)
        below, up_to = (np.searchsorted(absent[order], present, side) for side in ("left", "right"))
        return RankedScores(order, below, up_to)

    def auc(self, absent: Array, present: Array) -> float:
        """The area where score i counts ``absent[i]`` or ``present[i]`` times, ties counting half.

        >>> once = np.array([1, 1])
        >>> RankedScores.of(np.array([0.0, 1.0]), np.array([1.0, 2.0])).auc(once, once)
        0.875
        """
        summed = np.concatenate([[0], np.cumsum(absent[self.order])])
        above = present @ (summed[self.below] + summed[self.up_to])
        return float(above / (2 * summed[-1] * present.sum()))


def area(absent: Array, present: Array) -> float:
    """Area under the ROC curve: the probability that a present score is above an absent one, ties
    counting half.

    >>> area(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.875
    """
    return RankedScores.of(absent, present).auc(
        np.ones(len(absent), int), np.ones(len(present), int)
    )


@runtime_checkable
class Source(Protocol):
    """Where trials come from: played in seeded blocks, or stored. An endless stream, or one of
    ``limit`` trials."""

    @property
    def limit(self) -> int | None:
        """How many trials there are; None for an endless stream."""
        ...

    def trials(self, first: int, count: int) -> Trials:
        """Trials ``first`` … ``first + count − 1`` of the stream, the same ones whenever they are
        asked for."""
        ...


Attack = Callable[[Trials], Array]
Criterion = Callable[[Scores, Claim], float]
"""Selection scores, and the claim that is to be tested, → threshold."""


class Attacker(Protocol):
    """Trials → attack."""

    @property
    def learns(self) -> bool:
        """Whether the attack depends on the trials: one that does not can score them too, as if it
        had not seen them."""
        ...

    def __call__(self, trials: Trials) -> Attack:
        """An attack, fitted to the trials."""
        ...


@dataclasses.dataclass(frozen=True)
class Fold:
    """Scores of one attack: those that chose the threshold, and those that test it.

    Args:
        fitted: (n,) places in the stream that the attack was fitted on.
        selection: scores that chose ``threshold``, of fitted trials only where they are out-of-fold
            scores, given by attacks that did not see them; None where nothing was chosen on data.
        threshold: score from which on the attack says "present".
        test: scores that nothing was fitted to or chosen on.

    Raises:
        ValueError: when a test trial was also fitted on or chosen on.
    """

    fitted: Array
    selection: Scores | None
    threshold: float
    test: Scores

    def __post_init__(self) -> None:
        chosen = self.selection.index if self.selection is not None else np.array([], int)
        for used, name in ((self.fitted, "fitted on"), (chosen, "chosen on")):
            if np.intersect1d(used, self.test.index).size:
                raise ValueError(f"trials that were {name} cannot be tested on")

    @property
    def counts(self) -> Counts:
        """The confusion table of the test."""
        return self.test.count(self.threshold)


def progressive(folds: Sequence[Fold]) -> bool:
    """Whether no fold tests on what it or an earlier fold has used: then the folds are a
    martingale.

    Otherwise each fold's trials fitted the attacks that test the others, which correlates the
    folds.
    """
    used = np.array([], int)
    for fold in folds:
        chosen = fold.selection.index if fold.selection is not None else used[:0]
        used = np.concatenate([used, fold.fitted, chosen])
        if np.isin(fold.test.index, used).any():
            return False
        used = np.concatenate([used, fold.test.index])
    return True


@dataclasses.dataclass(frozen=True)
class Design:
    """How evidence comes about: all that an estimator needs to know of a protocol before anything
    is played.

    Args:
        folds: ``single``; ``progressive``: no fold tests on what an earlier one has used, so they
            are a martingale; ``kfold``: each fold's trials fitted the attacks that test the others.
        runs: ``independent``: each trial is a run of its own; ``one``: all are canaries of a single
            run; ``repeated``.
        selection: whether every threshold was chosen on selection trials.
        stopped: whether the number of trials depends on the data, so that only anytime bounds may
            be read.
    """

    folds: Literal["single", "progressive", "kfold"] = "single"
    runs: Literal["independent", "one", "repeated"] = "independent"
    selection: bool = True
    stopped: bool = False

    @property
    def independent(self) -> bool:
        """Whether so many runs as were planned, each tested once, are judged by one attack: then
        counts are binomial."""
        return not self.stopped and self.folds == "single" and self.runs == "independent"

    @property
    def one_run(self) -> bool:
        """Whether the test trials are canaries of a single run, several of them."""
        return not self.stopped and self.folds == "single" and self.runs == "one"


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What a protocol found.

    Args:
        folds: holdout 1, crossfit and sequential some, one run 1 without selection.
        stopped: the number of trials depended on the data, so that only anytime bounds may be read.
    """

    folds: tuple[Fold, ...]
    stopped: bool = False

    @property
    def counts(self) -> Counts:
        """The test's confusion table, over all folds."""
        tables = [dataclasses.astuple(fold.counts) for fold in self.folds]
        return Counts(*(sum(column) for column in zip(*tables, strict=True)))

    @functools.cached_property
    def design(self) -> Design:
        """How it came about, read off the folds themselves: what their protocol said before."""
        runs = np.concatenate([fold.test.run for fold in self.folds])
        different = len(np.unique(runs))
        ordered: Literal["progressive", "kfold"] = (
            "progressive" if progressive(self.folds) else "kfold"
        )
        return Design(
            folds="single" if len(self.folds) == 1 else ordered,
            runs="independent"
            if different == len(runs)
            else "one"
            if different == 1
            else "repeated",
            selection=all(fold.selection is not None for fold in self.folds),
            stopped=self.stopped,
        )

    @property
    def independent(self) -> bool:
        """Whether so many runs as were planned, each tested once, were judged by one attack: then
        counts are binomial."""
        return self.design.independent

    @property
    def one_run(self) -> bool:
        """Whether the test trials are canaries of a single run, several of them."""
        return self.design.one_run


@runtime_checkable
class Recorded(Protocol):
    """A mechanism whose trials were played elsewhere: it has them already, and no canary or feature
    has a say."""

    def recorded(self) -> Trials:
        """All trials there are, in any order."""
        ...


@runtime_checkable
class RecordedTable(Recorded, Protocol):
    """Trials that were played elsewhere, in a file: a cell may hold anything, and a column may be
    no output at all."""

    def labels(self) -> Array:
        """(n,) whether the canary was present."""
        ...

    def released(self) -> Releases:
        """n rows as they are, for features that read anything."""
        ...

    def suspects(self) -> dict[str, str]:
        """Columns that look like a label or a row number, and what each of them does."""
        ...


@runtime_checkable
class ReadsColumns(Protocol):
    """An attacker that reads columns by name: it is asked as soon as the first block says how they
    are called."""

    def check_columns(self, columns: tuple[str, ...]) -> None:
        """Raise AuditError if it cannot read rows with these columns."""
        ...
