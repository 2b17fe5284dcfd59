"""The few types that every floor speaks.

An audit plays a distinguishing game. A `Challenge` holds the two neighbouring data sets, a
`Mechanism` releases something about one of them, a `Source` turns releases into `Trials` (rows and
bits), an attack turns trials into `Scores`, a protocol arranges scores as `Evidence`, and an
estimator reads a `Bound` off the evidence.

Everything here is immutable. Arrays are read-only, whichever backend made them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from audit import plain
from audit.privacy import Notion

Array = NDArray[Any]
Kind = Literal["finite-sample", "asymptotic", "Bayesian"]
Neighbours = Literal["add_remove", "replace_one", "add_remove_user", "replace_one_user"]
"""A record more, or another one; all records of one user more, or others."""


def relation(neighbours: Neighbours) -> str:
    """A neighbouring relation in words.

    >>> relation("add_remove"), relation("replace_one_user")
    ('add/remove', 'replace-one-user')
    """
    return neighbours.replace("add_remove", "add/remove").replace("_", "-")


class AuditError(Exception):
    """Something a person can fix. Its text is one line, fit for a terminal whatever it quotes: what
    is wrong, and the cure.

    >>> str(AuditError("it raised \\x1b[31mred"))
    'it raised \\\\x1b[31mred'
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(plain.line(text))


def read_only(array: Any, dtype: Any = None) -> Array:
    """A read-only view of ``array``, as Ray hands arrays out, so that serial and Ray refuse the
    same things."""
    view = np.asarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


# --- data -----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Domain:
    """What values a record may have. It is given by a person, never read from the data.

    Args:
        columns: names, one a column.
        sizes: number of values of each column; a value is an integer in ``[0, size)``.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]

    def size(self, columns: Sequence[str] | None = None) -> int:
        """Number of cells of the marginal over ``columns`` (of the whole domain without argument).

        >>> Domain(("age", "sex"), (5, 2)).size()
        10
        >>> Domain(("age", "sex"), (5, 2)).size(("sex",))
        2
        >>> Domain((), ()).size()
        1
        """
        return math.prod(self.shape(self.columns if columns is None else columns))

    def shape(self, columns: Sequence[str]) -> tuple[int, ...]:
        """Sizes of ``columns``, in their order."""
        return tuple(self.sizes[self.columns.index(c)] for c in columns)


@dataclasses.dataclass(frozen=True)
class Table:
    """A data set: integer-coded records over a given domain.

    Args:
        domain: the public domain.
        records: (n, d) integers, column j in ``[0, domain.sizes[j])``.
        users: (n,) whose record each is, for mechanisms that bound what one user contributes; None:
            nobody asked.
    """

    domain: Domain
    records: Array
    users: Array | None = None

    made_by: ClassVar[str] = "canary=worst_case or canary=tabular"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "records", read_only(self.records, np.int64).reshape(-1, len(self.domain.columns))
        )
        if self.users is not None:
            object.__setattr__(self, "users", read_only(self.users))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Counts of the cells of ``columns``, flattened in C order, (∏ sizes,) floats; the empty
        one is the total.

        >>> records = np.array([[0, 1], [0, 1], [1, 1]])
        >>> Table(Domain(("a", "b"), (2, 2)), records).marginal(("a", "b")).tolist()
        [0.0, 2.0, 0.0, 1.0]
        """
        return np.bincount(self.cells(columns), minlength=self.domain.size(columns)).astype(float)

    def cells(self, columns: Sequence[str]) -> Array:
        """(n,) which cell of the marginal over ``columns`` each record falls into."""
        if not columns:
            return np.zeros(len(self.records), dtype=np.int64)
        picked = self.records[:, [self.domain.columns.index(c) for c in columns]]
        return np.ravel_multi_index(tuple(picked.T), self.domain.shape(columns))


@dataclasses.dataclass(frozen=True)
class Tables:
    """Synthetic tables, one a trial: ``records`` is (n, rows, d) integers over ``domain``."""

    domain: Domain
    records: Array


@dataclasses.dataclass(frozen=True)
class Columns:
    """Named numbers, one row a trial: ``values`` is (n, k) floats."""

    names: tuple[str, ...]
    values: Array


class UnreadableOutput(AuditError):  # noqa: N818  which trial it is of is still to be said
    """A trial that put out something that the features cannot read: which of the trials that were
    asked for, and why."""

    def __init__(self, places: range, why: str) -> None:
        super().__init__(why)
        self.places = places

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.places, str(self))


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Any Python objects, one a trial; the exception that a trial raised is one too.

    The objects are kept as they came, so that ``features=events`` reads each of them by itself,
    whatever the others are.

    Args:
        values: n objects.
    """

    values: Sequence[Any]

    def columns(self) -> Columns:
        """The objects as named numbers, where all of them are finite numbers of one shape, or dicts
        of such.

        Raises:
            UnreadableOutput: names the first trial whose output is anything else, or unlike the
                first one's.

        >>> Outputs([{"n": 3, "mean": np.array([0.5, 1.5])}]).columns().names
        ('n', 'mean[0]', 'mean[1]')
        >>> Outputs([1.0, None]).columns()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        audit.core.UnreadableOutput: it put out None (NoneType); release finite numbers, or ...
        """
        parts = [self._parts(place, value) for place, value in enumerate(self.values)]
        shapes = [{name: numbers.shape for name, numbers in part.items()} for part in parts]
        for place, shape in enumerate(shapes):
            if list(shape.items()) != list(shapes[0].items()):
                raise UnreadableOutput(
                    range(place, place + 1),
                    f"it put out {_listed(shape)} where the first one put out "
                    f"{_listed(shapes[0])}; release always the same, or count it as an event: "
                    "features=events",
                )
        names = [cell for name, shape in shapes[0].items() for cell in _cells(name, shape)]
        if not names:
            raise UnreadableOutput(
                range(1), f"it {_told(self.values[0])}, which holds no number; {RELEASE_NUMBERS}"
            )
        rows = [
            [number for numbers in part.values() for number in numbers.ravel().tolist()]
            for part in parts
        ]
        return Columns(tuple(names), np.array(rows, dtype=float).reshape(len(rows), len(names)))

    def _parts(self, place: int, value: Any) -> dict[str, Array]:
        """The numbers of one output under their names."""
        parts = value if isinstance(value, dict) else {"y": value}
        named = {plain.text(key): _numbers(part) for key, part in parts.items()}
        if not named or any(numbers is None for numbers in named.values()):
            cure = FIX_IT if isinstance(value, BaseException) else RELEASE_NUMBERS
            why = f"it {_told(value)}; {cure}"
            raise UnreadableOutput(range(place, place + 1), why)
        return {name: numbers for name, numbers in named.items() if numbers is not None}


FIX_IT = "fix it, or count it as an event: features=events"
RELEASE_NUMBERS = "release finite numbers, or count it as an event: features=events"


def _cells(name: str, shape: tuple[int, ...]) -> list[str]:
    """Names of the entries of an array.

    >>> _cells("y", ()), _cells("y", (1, 2))
    (['y'], ['y[0,0]', 'y[0,1]'])
    """
    return [
        f"{name}[{','.join(map(str, where))}]" if where else name for where in np.ndindex(shape)
    ]


def _numbers(value: Any) -> Array | None:
    """An array of finite numbers; None for anything else."""
    try:
        array = np.asarray(value)
    except Exception:  # ragged lists, or an object with opinions
        return None
    return array if array.dtype.kind in "biuf" and np.isfinite(array).all() else None


def _told(value: Any) -> str:
    if isinstance(value, BaseException):
        return f"raised {plain.of_error(value)}"
    return f"put out {plain.shown(value)} ({type(value).__name__})"


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return " and ".join(f"{name} of shape {shape}" for name, shape in shapes.items())[:200]


# --- what is promised, and by whom ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Claim:
    """A notion of privacy and the parameter that a mechanism promises in it.

    Args:
        notion: the one-parameter family of tradeoff curves.
        parameter: μ, ε or ρ, ≥ 0 (∞ allowed).
        numerical: computed on a grid and not certified; shown, never judged.
        neighbours: the relation that it is promised under; it says nothing about a pair of the
            other one.
    """

    notion: Notion
    parameter: float
    numerical: bool = False
    neighbours: Neighbours = "add_remove"

    def __str__(self) -> str:
        return self.notion.label(self.parameter) + (
            " (numerical, not certified)" if self.numerical else ""
        )


@runtime_checkable
class Challenge(Protocol):
    """A base data set, the canaries in question, and the neighbouring relation.

    A pair of neighbours is one canary and one bit; audits in one run have as many as they like.
    """

    @property
    def neighbours(self) -> Neighbours:
        """Whether a record, or all records of one user, are added or removed, or replaced."""
        ...

    @property
    def canaries(self) -> Array:
        """(m, d) the records in question."""
        ...

    def data(self, bits: Sequence[bool]) -> Any:
        """The data set in which canary i is present where ``bits[i]``."""
        ...


class Releases(Protocol):
    """What a number of independent runs put out. Everything is computed only when it is asked
    for."""

    def public(self) -> Columns | Tables | Outputs:
        """What the mechanism publishes."""
        ...

    def insider(self) -> Columns:
        """What an adversary inside the machine sees too."""
        ...

    def log_ratio(self, absent: Any, present: Any) -> Array | None:
        """(n,) log P(run | present) − log P(run | absent), exact, or None where it is not known."""
        ...


@runtime_checkable
class ReportsSpending(Protocol):
    """Releases of a mechanism that reports what it has spent after the fact."""

    def spent(self) -> Array:
        """(n,) the ε ≥ 0 that each run has reported; part of its output."""
        ...


@runtime_checkable
class CanaryReleases(Protocol):
    """Releases that show something of each canary by itself, for audits in one run."""

    def of_canaries(self) -> Releases:
        """A single run, seen canary by canary: as many rows as the challenge has canaries, in their
        order."""
        ...


@runtime_checkable
class Mechanism(Protocol):
    """Frozen hyperparameters, what they promise, and a way to run many times at once.

    ``block`` is the number of trials that one seed plays: a constant, since an array program's last
    bits depend on the shape of its batch. One that knows the exact tradeoff curve of a pair has
    ``tradeoff(alpha, absent, present)`` too.
    """

    @property
    def block(self) -> int:
        """Trials of a block, an even number."""
        ...

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The first one is judged; the others are shown."""
        ...

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> Releases:
        """``trials`` independent runs on one data set."""
        ...


@runtime_checkable
class HasNotes(Protocol):
    """A mechanism that has something to say beside its result, such as that it takes no notice of
    its seed.

    What it says is found out once, before the first trial, on one data set. It is the only part of
    a mechanism that need not be there.
    """

    def notes(self, data: Any) -> tuple[str, ...]:
        """Whole sentences; they end up in ``Result.notes``."""
        ...


@runtime_checkable
class Isolated(Protocol):
    """A mechanism that is somebody's own code and is played in a child process: it may end that, or
    never return."""

    @property
    def time_limit(self) -> float | None:
        """Seconds that one call of the code may take; None: no limit."""
        ...


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


# --- what is played, and what is made of it -------------------------------------------------------


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


@dataclasses.dataclass(frozen=True)
class MeasuredCoverage:
    """How often bounds like one were above the truth in simulated audits, whose truth is known.

    Args:
        rate: share of audits whose bound was too high, in the worst comparable cell, in [0, 1].
        nominal: the share that was promised, in (0, 1).
        cells: how many cells of the coverage table are comparable.
        trials: test trials a side in the worst of them.
        rare_below: where the bound over-claims because it expects few errors of a kind, how many
            are few; None where it does not over-claim.
    """

    rate: float
    nominal: float
    cells: int
    trials: int
    rare_below: int | None = None


@dataclasses.dataclass(frozen=True)
class Bound:
    """How much a mechanism leaks at least, and how sure that is.

    Args:
        estimator: name of the recipe.
        notion: the family that ``lower`` is a parameter of.
        lower: lower bound on the parameter, ≥ 0, finite.
        significance: error probability promised.
        kind: what sort of promise: finite-sample, asymptotic or Bayesian.
        upper: upper bound on what this attack can show, where the recipe has one.
        anytime: holds at every number of trials at once.
        warnings: sentences that must stand beside the number.
        measured: how often bounds like this one were too high in simulation; None where no
            comparable one was simulated.
    """

    estimator: str
    notion: Notion
    lower: float
    significance: float
    kind: Kind
    upper: float | None = None
    anytime: bool = False
    warnings: tuple[str, ...] = ()
    measured: MeasuredCoverage | None = None


class NotApplicable(Exception):  # noqa: N818  a refusal is no error
    """An estimator cannot read this evidence; its text says why. Not an error: the bound is left
    out and said."""


class WrongEvidence(NotApplicable):
    """An estimator is made for another game than this evidence is of: no news unless it was asked
    for."""


@runtime_checkable
class Estimator(Protocol):
    """Evidence → Bound. One that may refuse evidence says so beforehand, as `ChecksDesign`."""

    @property
    def name(self) -> str:
        """The recipe's name."""
        ...

    @property
    def significance(self) -> float:
        """Error probability of its bounds."""
        ...

    def __hash__(self) -> int:
        """Of its options: what is computed of a recipe is computed once."""
        ...

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound that a perfect attack is expected to reach where ``parameter`` is the
        truth, ≥ 0."""
        ...

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A bound on the parameter of ``notion``.

        Raises:
            NotApplicable: when the evidence does not allow this recipe.
        """
        ...


@runtime_checkable
class ChecksDesign(Protocol):
    """An estimator that cannot read the evidence of every protocol, and says so before anything is
    played."""

    def allow(self, design: Design, notion: Notion) -> None:
        """Go on only where evidence of this design gives a bound in ``notion``.

        Raises:
            NotApplicable: where it does not, with the reason.
        """
        ...


# --- how trials are spent, and what goes with what ------------------------------------------------


@runtime_checkable
class AuditProtocol(Protocol):
    """How trials are spent: which of them fit the attack, which choose its threshold, which test
    it."""

    @property
    def asked(self) -> int:
        """How many trials it takes, at most."""
        ...

    @property
    def tested(self) -> int:
        """How many trials are tested, at most."""
        ...

    @property
    def design(self) -> Design:
        """What kind of evidence it gives, whatever the trials turn out to be."""
        ...

    def __call__(
        self, source: Source, attacker: Attacker, criterion: Criterion, claim: Claim
    ) -> Evidence:
        """Fit, choose, test; ``claim`` is what is tested, for protocols that stop when it is
        refuted."""
        ...


@dataclasses.dataclass(frozen=True)
class Setup:
    """What an option may ask of the others before anything is played.

    Args:
        mechanism: what is audited.
        challenge: the data sets that it runs on.
        protocol: how trials are spent.
        recorded: the trials themselves where they were played elsewhere.
    """

    mechanism: Mechanism
    challenge: Challenge
    protocol: AuditProtocol
    recorded: Trials | None = None

    @functools.cached_property
    def data_sets(self) -> tuple[Any, Any]:
        """The data sets without any canary, and with all of them."""
        canaries = len(self.challenge.canaries)
        return self.challenge.data([False] * canaries), self.challenge.data([True] * canaries)

    @property
    def releases(self) -> type | None:
        """What the mechanism's ``release`` is annotated to return; None where it does not say."""
        found = _hints(getattr(type(self.mechanism), "release", None)).get("return")
        return (
            found if isinstance(found, type) and not getattr(found, "_is_protocol", False) else None
        )

    @property
    def takes(self) -> tuple[type, ...]:
        """Types of data sets that the mechanism's ``release`` is annotated to take; () where it
        does not say."""
        annotation = _hints(getattr(type(self.mechanism), "release", None)).get("data", Any)
        parts = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
        plain = [get_origin(part) or part for part in parts]
        return (
            tuple(plain)
            if all(isinstance(part, type) and part is not Any for part in plain)
            else ()
        )

    @property
    def ratio_may_be_known(self) -> bool:
        """False where the releases' ``log_ratio`` is annotated to be None always."""
        if self.releases is None:
            return True
        return _hints(getattr(self.releases, "log_ratio", None)).get("return") is not type(None)

    def check_data(self) -> None:
        """Go on only where the mechanism can be run on the challenge's data sets.

        Raises:
            AuditError: they are of another type, or the mechanism's own `ChecksSetup.check_setup`
                refuses them.
        """
        if self.takes and not isinstance(self.data_sets[0], self.takes):
            name, makes = type(self.mechanism).__name__, type(self.data_sets[0])
            wanted = " or ".join(kind.__name__ for kind in self.takes)
            cures = " or ".join(getattr(kind, "made_by", "canary=pair") for kind in self.takes)
            raise AuditError(
                f"{name} takes {wanted}, and {type(self.challenge).__name__} makes "
                f"{makes.__name__}; choose {cures}"
            )
        if isinstance(self.mechanism, ChecksSetup):
            self.mechanism.check_setup(self)


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:
        # an annotation may be anybody's code, or a name that only a type checker knows
        return {}


@runtime_checkable
class ChecksSetup(Protocol):
    """An option that does not go with every other one, and says so before anything is played."""

    def check_setup(self, setup: Setup) -> None:
        """Go on only where it can work with the others.

        Raises:
            AuditError: what does not go together, and what does.
        """
        ...


# --- what one audit found -------------------------------------------------------------------------


@runtime_checkable
class ReadsColumns(Protocol):
    """An attacker that reads columns by name: it is asked as soon as the first block says how they
    are called."""

    def check_columns(self, columns: tuple[str, ...]) -> None:
        """Raise AuditError if it cannot read rows with these columns."""
        ...


@dataclasses.dataclass(frozen=True)
class Stage:
    """Wall-clock seconds spent in one part of an audit."""

    name: str
    seconds: float


Word = Literal[
    "violation", "violation (computed)", "suspicious", "tight", "loose", "inconclusive", "failed"
]


@dataclasses.dataclass(frozen=True)
class Strength:
    """What an attack shows at its threshold, in the parameter of the judged claim.

    Args:
        estimate: plug-in from both error rates, ≥ 0; ∞ where one kind of error never happened.
        standard_error: of the estimate, asymptotic.
        lower, upper: 95 % limits, one-sided: the lower one finite-sample, the upper one Bayesian.
    """

    estimate: float
    standard_error: float
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True)
class Efficiency:
    """Shares of the optimal test's μ that an attack reaches, in [0, 1]; the optimal test is the
    exact likelihood ratio.

    Args:
        ranking, ranking_low: by the area under its curve, over all thresholds; estimate and lower 5
            % limit.
        threshold, threshold_low: at the threshold that was chosen.
        possible, error: the μ that the exact likelihood ratio shows on the same trials, and its
            standard error.
    """

    ranking: float
    ranking_low: float
    threshold: float
    threshold_low: float
    possible: float
    error: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What an audit says of the first claim; the words are told in `audit.judgement.verdict`.

    Args:
        word: one of seven.
        reason: whole sentences.
        accusing: the bound of the recipe that tests the claim: finite-sample, in the claim's own
            notion.
        strength: what the attack shows; None where that has no meaning.
    """

    word: Word
    reason: str
    accusing: Bound
    strength: Strength | None = None

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, by trials or by a computation."""
        return self.word in ("violation", "violation (computed)")


@dataclasses.dataclass(frozen=True)
class Power:
    """What an audit could have found, computed by the recipe that tests its claim (exact sums over
    its counts).

    Args:
        notion: of the judged claim; the parameters below are its own.
        expected: the mu_emp that a perfect attack on a mechanism at its claim is expected to reach
            with these trials.
        detectable: least parameter that is detected with probability 0.8; ∞ where none is, None
            where it is not known.
        needed: test trials a side that detect 1.25 times the claim with probability 0.8; ∞ where no
            number does, None where it is not known.
    """

    notion: Notion
    expected: float
    detectable: float | None
    needed: float | None


@dataclasses.dataclass(frozen=True)
class NextStep:
    """What to do next.

    Args:
        why: a whole sentence.
        changes: options to change in the command that played this audit; none where no command
            helps.
        command: the changed command; "" where the audit did not come from one.
        cost: what the next look may spend of the error probability, in words.
    """

    why: str
    changes: tuple[tuple[str, str], ...] = ()
    command: str = ""
    cost: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """Everything that one audit found, spent and used: what tracking and report read.

    Args:
        name: readable, such as ``mst_fixed eps=1 xgboost advantage``.
        config: the resolved configuration, nested plain dicts.
        challenge: one sentence on the pair and the neighbouring relation.
        claims: what the mechanism promises; the first is judged.
        evidence: folds with selection and test scores, thresholds, counts.
        mu_hat: plug-in point estimate Φ⁻¹(1 − fpr) − Φ⁻¹(fnr).
        bounds: every bound that the evidence allows; the first is the one behind mu_emp, in GDP.
        refused: estimator → why it is left out.
        mu_implied: √(2ρ) through zCDP; None where no claim gives one.
        mu_direct: solved from (ε, δ); None where no claim gives one.
        power: what these trials and this attack could have found.
        efficiency: of the attack beside the exact likelihood ratio; None where that is not known.
        errors: standard errors of mu_hat and of mu_emp.
        verdict: what the audit says.
        stages: seconds per stage.
        provenance: commit, versions, seed, trials, cache hits.
        notes: sentences that must stand beside the result.
        exact: (alpha, beta), each (k,): the tradeoff curve of this pair, where the mechanism knows
            it; None elsewhere.
        next_step: what to do next; None where nothing is left to do.
    """

    name: str
    config: dict[str, Any]
    challenge: str
    claims: tuple[Claim, ...]
    evidence: Evidence
    mu_hat: float
    bounds: tuple[Bound, ...]
    refused: dict[str, str]
    mu_implied: float | None
    mu_direct: float | None
    power: Power
    efficiency: Efficiency | None
    errors: tuple[float, float]
    verdict: Verdict
    stages: tuple[Stage, ...]
    provenance: dict[str, str]
    notes: tuple[str, ...] = ()
    exact: tuple[Array, Array] | None = None
    next_step: NextStep | None = None


# --- what one accuracy-first run found ------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Rung:
    """One step up the ladder.

    Args:
        eps: Rényi ε of all training releases up to here.
        checked: Rényi ε of all checks up to here.
        spent: what would be reported if this were the last step.
        noisy: the noisy accuracy, where the check may show one; the raw one stays inside.
        passed: whether the check said yes.
        test: accuracy on the test set: outside of the guarantee, for the reader of an experiment on
            public data.
    """

    eps: float
    checked: float
    spent: float
    noisy: float | None
    passed: bool
    test: float


@dataclasses.dataclass(frozen=True)
class LadderRun:
    """Everything that one accuracy-first run found and spent: what tracking and report read.

    Args:
        name: readable.
        config: the resolved configuration.
        task: one sentence.
        order: α that every ε is of, but those below.
        delta: of the two conversions.
        threshold: accuracy that was asked for.
        ladder: every step's ε, those too that were not needed.
        rungs: the steps that were taken; the last one's model is the output.
        approximate, probabilistic: ex-post (ε, δ) of what was spent, in either sense.
        fixed: (Rényi ε, approximate ε) of a run at the ladder's top, which is what must be paid
            where nobody looks.
        provenance: commit, versions, seed.
        seconds: wall clock.
    """

    name: str
    config: dict[str, Any]
    task: str
    order: float
    delta: float
    threshold: float
    ladder: tuple[float, ...]
    rungs: tuple[Rung, ...]
    approximate: float
    probabilistic: float
    fixed: tuple[float, float]
    provenance: dict[str, str]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the accuracy was reached; if not, everything is charged all the same."""
        return self.rungs[-1].passed

    @property
    def spent(self) -> float:
        """Ex-post Rényi ε."""
        return self.rungs[-1].spent
