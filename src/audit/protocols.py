"""How trials are spent: which ones fit the attack, which choose its threshold, which test it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import (
    Array,
    Attacker,
    AuditError,
    Claim,
    Criterion,
    Design,
    Evidence,
    Fold,
    Scores,
    Setup,
    Source,
    Trials,
)
from audit.estimators.betting import Betting
from audit.privacy import STRICT

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Several = Annotated[int, Field(ge=2)]


@dataclass(frozen=True, config=STRICT)
class Holdout:
    """Fit on the first trials, choose on the next, test once on the rest.

    Args:
        trials: in all, both sides together.
        train: share that the attack is fitted on.
        validation: share that chooses the threshold.
        test: share that is looked at once.

    Raises:
        AuditError: shares that do not sum to 1, or parts with fewer than ``least`` trials a side.
    """

    trials: Count = 10_000
    train: Share = 0.4
    validation: Share = 0.2
    test: Share = 0.4
    least: Count = 10

    design: ClassVar[Design] = Design()

    def __post_init__(self) -> None:
        total = self.train + self.validation + self.test
        if abs(total - 1) > 1e-9:
            raise AuditError(
                f"protocol: train + validation + test = {total:g}; make them sum to 1, such as "
                "0.4, 0.2 and 0.4"
            )
        for name, count in zip(("train", "validation", "test"), self.split(), strict=True):
            if count < 2 * self.least:
                raise AuditError(
                    f"trials={self.trials} leaves {count} for {name}, which needs "
                    f"{2 * self.least}; raise trials or protocol.{name}"
                )

    def split(self) -> tuple[int, int, int]:
        """Number of trials of each part; the first two are even, so that both sides are as many."""
        train, validation = (
            2 * round(self.trials * share / 2) for share in (self.train, self.validation)
        )
        return train, validation, self.trials - train - validation

    @property
    def asked(self) -> int:
        """How many trials it takes, at most."""
        return self.trials

    @property
    def tested(self) -> int:
        """How many trials are tested."""
        return self.split()[2]

    @property
    def fitted(self) -> int:
        """How many trials attacks are fitted on, all fits together."""
        return self.split()[0]

    def __call__(
        self, source: Source, attacker: Attacker, criterion: Criterion, claim: Claim
    ) -> Evidence:
        """One fold, whatever the claim is."""
        train, validation, _ = self.split()
        trials = source.trials(0, self.trials)
        fitted, chosen, tested = (
            trials[:train],
            trials[train : train + validation],
            trials[train + validation :],
        )
        refuse_scarce_side((fitted, chosen, tested), self.least)
        attack = attacker(fitted)
        selection = chosen.score(attack(chosen))
        threshold = criterion(selection, claim)
        return Evidence((Fold(fitted.index, selection, threshold, tested.score(attack(tested))),))


@dataclass(frozen=True, config=STRICT)
class Crossfit:
    """Cut the trials into parts; each is tested by an attack, and a threshold, that saw other parts
    only.

    The threshold is chosen on inner out-of-fold scores: those that the other parts get when each of
    ``inner`` slices of them is scored by an attack fitted to the rest. Two orders:

    - ``progressive``: a part is attacked by all that came before it, so the first one is never
      tested. What a part shows is then centred whatever the parts before it showed (a martingale).
    - ``kfold``: a part is attacked by all others. Each part is tested, but its trials fitted the
      attacks that test the others, so estimators have to count twice the variance.

    An attacker that does not learn needs no part to be fitted to: then a first part of ``START`` of
    the trials chooses the first threshold, and nearly all are tested.

    Args:
        trials: in all, both sides together.
        folds: number of parts.
        order: which other parts attack a part.
        inner: number of slices for the out-of-fold scores.
        least: trials a side of every part and slice.

    Raises:
        AuditError: parts or slices with fewer than ``least`` trials a side.
    """

    trials: Count = 10_000
    folds: Several = 5
    order: Literal["progressive", "kfold"] = "progressive"
    inner: Several = 5
    least: Count = 10

    def __post_init__(self) -> None:
        smallest = int(np.diff(self.cuts(learns=True)).min())
        if smallest < 2 * self.least:
            raise AuditError(
                f"trials={self.trials} leaves {smallest} for each of {self.folds} parts, which "
                f"need {2 * self.least}; raise trials or lower protocol.folds"
            )
        used = smallest if self.order == "progressive" else self.trials - smallest
        if used // self.inner < 2 * self.least:
            raise AuditError(
                f"trials={self.trials} leaves {used // self.inner} for each of {self.inner} inner "
                f"slices, which need {2 * self.least}; raise trials or lower protocol.inner"
            )

    def cuts(self, learns: bool) -> list[int]:
        """Where parts begin, and where the last one ends; all even but the end, so that both sides
        are as many."""
        if learns or self.order == "kfold":
            return even(0, self.trials, self.folds)
        first = max(2 * round(START * self.trials / 2), 2 * self.least)
        return [0, *even(first, self.trials, self.folds - 1)]

    @property
    def asked(self) -> int:
        """How many trials it takes, at most."""
        return self.trials

    @property
    def tested(self) -> int:
        """How many trials are tested where the attacker learns."""
        return self.trials - (self.cuts(learns=True)[1] if self.order == "progressive" else 0)

    @property
    def design(self) -> Design:
        """Folds, each of them tested once; of two parts in order, one fold."""
        if self.order == "kfold":
            return Design(folds="kfold")
        return Design(folds="progressive" if self.folds > 2 else "single")

    @property
    def fitted(self) -> int:
        """How many trials attacks are fitted on, all fits together: a fold's own, and ``inner`` for
        its threshold."""
        cuts = self.cuts(learns=True)
        kfold = (self.folds - 1) * self.trials
        return self.inner * (sum(cuts[1:-1]) if self.order == "progressive" else kfold)

    def __call__(
        self, source: Source, attacker: Attacker, criterion: Criterion, claim: Claim
    ) -> Evidence:
        """A fold for each part that is tested, in the order of the stream, whatever the claim
        is."""
        trials = source.trials(0, self.trials)
        cuts = self.cuts(attacker.learns)
        parts = [trials[first:last] for first, last in itertools.pairwise(cuts)]
        refuse_scarce_side(parts, self.least)
        folds = []
        for k in range(1 if self.order == "progressive" else 0, len(parts)):
            before = trials[: cuts[k]]  # a view: what is long need not be copied
            others = (
                before
                if self.order == "progressive"
                else Trials.concatenate([before, trials[cuts[k + 1] :]])
            )
            folds.append(fold(others, parts[k], attacker, criterion, claim, self.inner))
        return Evidence(tuple(folds))


START = 0.05
"""Share of the trials that chooses the first threshold where nothing is learnt."""


@dataclass(frozen=True, config=STRICT)
class Sequential:
    """Play and test in growing parts, until the claim is rejected or the trials are spent.

    Each part is about a third of all trials before it, and is tested by an attack fitted to all of
    those. After each part a gambler's bound is read, which holds however often one looks
    (`audit.estimators.betting.Betting`).

    Args:
        budget: trials in all, at most.
        first: trials that are only fitted to; an attacker that does not learn chooses its first
            threshold on them.
        significance: probability of rejecting a claim that holds, over the whole course; take the
            accusing bound's.
        close: also stop when the bound is at least (1 − close)·claim; None: never for that.
        inner: slices for out-of-fold scores, as in `Crossfit`.
        least: trials a side of every part and slice.

    Raises:
        AuditError: parts or slices with fewer than ``least`` trials a side.
    """

    budget: Count = 10_000
    first: Count = 400
    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.01
    close: Annotated[float, Field(gt=0, lt=1)] | None = None
    inner: Several = 5
    least: Count = 10

    design: ClassVar[Design] = Design(folds="progressive", stopped=True)

    def __post_init__(self) -> None:
        if self.first // self.inner < 2 * self.least:
            raise AuditError(
                f"protocol.first={self.first} leaves {self.first // self.inner} for each of "
                f"{self.inner} inner slices, which need {2 * self.least}; raise protocol.first"
            )
        if self.budget < self.first + 2 * self.least:
            raise AuditError(
                f"protocol.budget={self.budget} leaves nothing to test after "
                f"protocol.first={self.first}; raise trials"
            )

    @property
    def asked(self) -> int:
        """How many trials it takes, at most."""
        return self.budget

    @property
    def tested(self) -> int:
        """How many trials are tested, at most."""
        return self.budget - self.first

    @property
    def fitted(self) -> int:
        """How many trials attacks are fitted on, all fits together, at most."""
        return self.inner * sum(self.cuts()[:-1])

    def __call__(
        self, source: Source, attacker: Attacker, criterion: Criterion, claim: Claim
    ) -> Evidence:
        """A fold for each part that was tested before there was reason to stop."""
        bound = Betting(significance=self.significance)
        cuts, folds = self.cuts(), list[Fold]()
        used = source.trials(0, cuts[0])
        for first, last in itertools.pairwise(cuts):
            part = source.trials(first, last - first)
            refuse_scarce_side((used, part), self.least)
            folds.append(fold(used, part, attacker, criterion, claim, self.inner))
            evidence = Evidence(tuple(folds), stopped=True)
            if self._enough(bound(evidence, claim.notion).lower, claim.parameter):
                break
            used = Trials.concatenate([used, part])
        return evidence

    def cuts(self) -> list[int]:
        """Where the tested parts begin, and where the last one ends: at the budget."""
        cuts = [2 * round(self.first / 2)]
        while cuts[-1] < self.budget:
            part = max(2 * round(cuts[-1] / 6), 2 * self.least)
            # A rest too small for a part of its own goes with the last one.
            cuts.append(cuts[-1] + part if cuts[-1] + 1.5 * part < self.budget else self.budget)
        return cuts

    def _enough(self, lower: float, claimed: float) -> bool:
        return lower > claimed or (self.close is not None and lower >= (1 - self.close) * claimed)


@dataclass(frozen=True, config=STRICT)
class OneRun:
    """One run of the mechanism with many canaries, each in by a fair coin; a trial is a canary.

    The threshold cuts the scores into halves and knows no coin; how many of the canaries that are
    farthest from it are guessed is the estimator's business. An attacker that learns is told the
    coins of the first canaries, which are then not tested: those of the others are as fair as
    before.

    Args:
        trials: canaries of the run.
        fit: share of them that an attacker that learns is fitted on.
        least: canaries that must be left to test.

    Raises:
        AuditError: where fewer are left.
    """

    trials: Count = 1000
    fit: Annotated[float, Field(gt=0, lt=1)] = 0.5
    least: Count = 10

    design: ClassVar[Design] = Design(runs="one", selection=False)

    def __post_init__(self) -> None:
        if self.trials - round(self.fit * self.trials) < self.least:
            raise AuditError(
                f"trials={self.trials} canaries leave fewer than {self.least} to test; raise "
                "trials or lower protocol.fit"
            )

    @property
    def asked(self) -> int:
        """How many canaries it takes."""
        return self.trials

    @property
    def tested(self) -> int:
        """How many canaries are tested, at most: where the attacker does not learn."""
        return self.trials

    def check_setup(self, setup: Setup) -> None:
        """Go on only with a mechanism that shows single canaries, and a challenge of as many as are
        asked for.

        Raises:
            AuditError: names the mechanism, or the number of canaries.
        """
        releases, there = setup.releases, len(setup.challenge.canaries)
        if releases is not None and not hasattr(releases, "of_canaries"):
            raise AuditError(
                f"protocol=one_run: {type(setup.mechanism).__name__} shows nothing of single "
                "canaries; choose a mechanism that does, such as dp_sgd, or protocol=holdout"
            )
        if there < 2:
            raise AuditError(
                "protocol=one_run needs many canaries; choose one that has them, such as "
                "canary=coins"
            )
        self._allow(there)

    def _allow(self, there: int) -> None:
        if there < self.trials:
            raise AuditError(
                f"trials={self.trials} are more canaries than one run has ({there}); lower trials "
                "or raise canary.count"
            )

    def __call__(
        self, source: Source, attacker: Attacker, criterion: Criterion, claim: Claim
    ) -> Evidence:
        """One fold without selection, whatever the criterion and the claim are.

        Raises:
            AuditError: when the challenge has fewer canaries than are asked for.
        """
        trials = source.trials(0, self.trials)
        self._allow(int(np.sum(trials.run == trials.run[0])))
        fitted = trials[: round(self.fit * self.trials) if attacker.learns else 0]
        tested = trials[len(fitted) :]
        values = attacker(fitted)(tested)
        return Evidence((Fold(fitted.index, None, middle(values), tested.score(values)),))


def middle(values: Array) -> float:
    """Between two different values, with as nearly as many on one side as on the other; the value
    where all are equal.

    >>> middle(np.array([3.0, 1.0, 2.0, 4.0])), middle(np.array([0.0, 0.0, 0.0, 1.0]))
    (2.5, 0.5)
    """
    ordered = np.sort(values)
    steps = np.flatnonzero(np.diff(ordered) > 0)
    if not len(steps):
        return float(ordered[0])
    cut = steps[np.argmin(np.abs(steps + 1 - len(ordered) / 2))]
    return float(ordered[cut] / 2 + ordered[cut + 1] / 2)


# --- one fold, and where to cut -------------------------------------------------------------------


def refuse_scarce_side(parts: Sequence[Trials], least: int) -> None:
    """Stored trials may have few of one side; what is played has as many of each.

    Raises:
        AuditError: a part with fewer than ``least`` trials of a side.
    """
    for part in parts:
        present = int(np.sum(part.bits))
        scarce = min(present, len(part) - present)
        if scarce < least:
            which = "with" if present == scarce else "without"
            raise AuditError(
                f"{scarce} of the {len(part):,} trials of a part are {which} the record, and "
                f"{least} are needed; give more such rows, or set +protocol.least={max(scarce, 1)}"
            )


def fold(
    used: Trials, part: Trials, attacker: Attacker, criterion: Criterion, claim: Claim, inner: int
) -> Fold:
    """``part`` tested by an attack fitted to ``used``, with a threshold chosen on out-of-fold
    scores of ``used``."""
    attack = attacker(used)
    selection = out_of_fold(used, attacker, inner) if attacker.learns else used.score(attack(used))
    return Fold(used.index, selection, criterion(selection, claim), part.score(attack(part)))


def out_of_fold(trials: Trials, attacker: Attacker, inner: int) -> Scores:
    """Scores of all trials, each of ``inner`` slices scored by an attack fitted to the others."""
    slices = [trials[first:last] for first, last in itertools.pairwise(even(0, len(trials), inner))]
    values = []
    for j, left_out in enumerate(slices):
        attack = attacker(Trials.concatenate(slices[:j] + slices[j + 1 :]))
        values.append(attack(left_out))
    return trials.score(np.concatenate(values))


def even(first: int, last: int, parts: int) -> list[int]:
    """``parts`` + 1 cuts of first … last into parts as equal as can be, all even but the last cut.

    >>> even(0, 10_000, 5), even(0, 21, 2)
    ([0, 2000, 4000, 6000, 8000, 10000], [0, 10, 21])
    """
    return [*(first + 2 * round((last - first) * k / parts / 2) for k in range(parts)), last]
