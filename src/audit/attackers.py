"""Trials → attack → scores: who guesses whether the canary was there.

An attacker is a recipe. Called with trials it returns an attack, fitted to them, that gives each
unseen trial a score: the higher, the more it believes that the canary was present.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit import learning
from audit.core import Array, Attack, Attacker, AuditError, ChecksSetup, Scores, Setup, Trials, area
from audit.privacy import STRICT

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]


NO_LIKELIHOOD = (
    "attacker=likelihood_ratio: this mechanism gives no exact likelihood; use attacker=logistic "
    "or xgboost"
)


@dataclass(frozen=True, config=STRICT)
class LikelihoodRatio:
    """The strong adversary: log P(run | present) − log P(run | absent), the most powerful test
    there is.

    It needs a mechanism that knows its own likelihood; nothing is learnt, so no trial is spent on
    fitting.

    References:
        Neyman, Pearson 1933.
    """

    learns: ClassVar[bool] = False

    def check_setup(self, setup: Setup) -> None:
        """Go on only where trials may have an exact likelihood ratio.

        Raises:
            AuditError: stored rows without one, a mechanism that says it knows none, or canaries
                that share a run.
        """
        if setup.protocol.design.runs == "one":
            raise AuditError(
                "attacker=likelihood_ratio reads one ratio a run, and protocol=one_run has one "
                "run; use attacker=column or logistic"
            )
        rows = setup.recorded
        if not (setup.ratio_may_be_known if rows is None else rows.log_ratio is not None):
            raise AuditError(NO_LIKELIHOOD)

    def __call__(self, trials: Trials) -> Attack:
        """An attack that reads the exact ratio off each trial.

        Raises:
            AuditError: when the mechanism gives no likelihood.
        """
        if trials.log_ratio is None:
            raise AuditError(NO_LIKELIHOOD)
        return _read_log_ratio


def _read_log_ratio(trials: Trials) -> Array:
    if trials.log_ratio is None:
        raise AuditError(
            "a trial without a likelihood ratio: the mechanism gives it for some trials only"
        )
    return trials.log_ratio


@dataclass(frozen=True, config=STRICT)
class Column:
    """One column as it is: a score that somebody's own attack gave already, or what an insider
    knows to look at.

    Nothing is learnt, so protocols that fit as they go spend nearly no trial on fitting.

    Args:
        column: its name; None: the only one there is.
    """

    column: str | None = None
    learns: ClassVar[bool] = False

    def check_setup(self, setup: Setup) -> None:
        """Stored rows must have the column: of others, names are known when they have been
        played."""
        if setup.recorded is not None:
            self.check_columns(setup.recorded.columns)

    def check_columns(self, columns: tuple[str, ...]) -> None:
        """Raise AuditError if none of these columns, or more than one, is the one to read."""
        self._place(columns)

    def _place(self, columns: tuple[str, ...]) -> int:
        """Which of these columns it is."""
        known = ", ".join(columns)
        if self.column is None and len(columns) != 1:
            raise AuditError(
                f"attacker=column: there are {len(columns)} columns; set attacker.column to one "
                f"of {known}, or features=white_box"
            )
        if self.column is not None and self.column not in columns:
            raise AuditError(
                f"attacker.column={self.column}: there is no such column; there are {known}"
            )
        return columns.index(self.column) if self.column is not None else 0

    def __call__(self, trials: Trials) -> Attack:
        """An attack that reads the column.

        Raises:
            AuditError: when there is no such column, or more than one and no name.
        """
        place = self._place(trials.columns)
        return lambda unseen: np.asarray(unseen.rows[:, place], dtype=float)


@dataclass(frozen=True, config=STRICT)
class Logistic:
    """Logistic regression on standardised rows: right where evidence adds up over columns.

    Gaussian noise's evidence does.

    Args:
        C: inverse strength of the L2 penalty, as in scikit-learn.
    """

    C: Positive = 0.01
    learns: ClassVar[bool] = True

    def __call__(self, trials: Trials) -> Attack:
        """An attack fitted to the rows."""
        return _learn(functools.partial(learning.logistic, self.C), trials)


@dataclass(frozen=True, config=STRICT)
class XGBoost:
    """Boosted trees. Shallow and strongly regularised: the signal is additive over columns and
    weak.

    The parameters are XGBoost's own, passed through.

    Args:
        max_depth: of each tree; 1 is additive.
        n_estimators: number of trees.
        learning_rate: shrinkage of each tree.
        reg_lambda: L2 penalty on leaf weights (λ).
        min_child_weight: least sum of hessians in a leaf.
        subsample: share of the trials that each tree is fitted to.
        colsample_bytree: share of the columns that each tree is fitted to.
        random_state: seed of the subsampling.
    """

    max_depth: Count = 1
    n_estimators: Count = 400
    learning_rate: Positive = 0.03
    reg_lambda: Annotated[float, Field(ge=0)] = 10.0
    min_child_weight: Annotated[float, Field(ge=0)] = 1.0
    subsample: Share = 0.5
    colsample_bytree: Share = 0.2
    random_state: int = 0
    learns: ClassVar[bool] = True

    def __call__(self, trials: Trials) -> Attack:
        """An attack fitted to the rows."""
        parameters = dataclasses.asdict(self)
        return _learn(functools.partial(learning.xgboost, **parameters), trials)


@dataclass(frozen=True, config=STRICT)
class GradientBoosting:
    """scikit-learn's boosted trees, with its own parameters passed through.

    The published code has depth 3, 100 trees, rate 0.1 and all rows.

    Args:
        max_depth: of each tree.
        n_estimators: number of trees.
        learning_rate: shrinkage of each tree.
        subsample: share of the trials that each tree is fitted to.
        random_state: seed of the subsampling.
    """

    max_depth: Count = 1
    n_estimators: Count = 200
    learning_rate: Positive = 0.05
    subsample: Share = 0.5
    random_state: int = 0
    learns: ClassVar[bool] = True

    def __call__(self, trials: Trials) -> Attack:
        """An attack fitted to the rows."""
        parameters = dataclasses.asdict(self)
        return _learn(functools.partial(learning.gradient_boosting, **parameters), trials)


@dataclass(frozen=True, config=STRICT)
class RandomForest:
    """scikit-learn's random forest, with its own parameters passed through.

    Args:
        n_estimators: number of trees.
        min_samples_leaf: least number of trials in a leaf.
        random_state: seed of the bootstrap.
    """

    n_estimators: Count = 300
    min_samples_leaf: Count = 100
    random_state: int = 0
    learns: ClassVar[bool] = True

    def __call__(self, trials: Trials) -> Attack:
        """An attack fitted to the rows."""
        parameters = dataclasses.asdict(self)
        return _learn(functools.partial(learning.random_forest, **parameters), trials)


@dataclass(frozen=True, config=STRICT)
class BestOf:
    """The one of several attackers that guesses best on trials that it was not fitted to, fitted
    again to all.

    The choice is paid for: it is made within the trials that an attacker is given, so that no trial
    which chooses the threshold or tests has a say in it.

    Args:
        attackers: at least one; the first of equally good ones is taken.
    """

    attackers: Annotated[list[Any], Field(min_length=1)]

    def __post_init__(self) -> None:
        for attacker in self.attackers:
            if not callable(attacker):
                raise AuditError(
                    f"attacker.attackers: {attacker!r} is no attacker; give each one a _target_"
                )

    @property
    def learns(self) -> bool:
        """A choice is learnt too, so only a single attacker that learns nothing leaves nothing to
        learn."""
        return len(self.attackers) > 1 or self.attackers[0].learns

    def check_setup(self, setup: Setup) -> None:
        """What each of them asks for."""
        for attacker in self.attackers:
            if isinstance(attacker, ChecksSetup):
                attacker.check_setup(setup)

    def __call__(self, trials: Trials) -> Attack:
        """The best attack: each is fitted to three quarters and compared by the area under its
        curve on the last."""
        return self.best(trials)(trials)

    def best(self, trials: Trials) -> Attacker:
        """Which of the attackers ranks the last quarter of ``trials`` best, fitted to the
        others."""
        cut = 2 * round(3 * len(trials) / 8)
        fitted, compared = trials[:cut], trials[cut:]
        areas = [_area(compared.score(attacker(fitted)(compared))) for attacker in self.attackers]
        return self.attackers[int(np.argmax(areas))]


def _area(scores: Scores) -> float:
    if not len(scores.absent) or not len(scores.present):
        raise AuditError(
            "attacker=best_of: a quarter of the fitted trials holds one side only; raise trials"
        )
    return area(scores.absent, scores.present)


def _learn(make: Callable[[], Any], trials: Trials) -> Attack:
    """Fit a classifier to the rows; its scores know nothing of a trial but its row."""
    if np.unique(trials.bits).size < 2:
        raise AuditError(
            "the attacker's share of the trials has one side only; raise trials or the train "
            "fraction"
        )
    predict = learning.fit(make, trials.rows, trials.bits)
    return lambda unseen: np.asarray(predict(unseen.rows), dtype=float)
