"""Less and less noise until the answer is good enough; only the last release's privacy is spent.

The releases of a vector are points of one Brownian motion, so each holds all that the ones before
it told.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.accountants import ExPostRDP, Order, check_ladder, precisions
from audit.core import Array, Claim, Columns, Table
from audit.mechanisms.marginals import gaussian_log_ratio
from audit.privacy import GDP, STRICT

Ratio = Callable[["StoppedRuns", Array, Array], Array]
"""Runs, the raw answers of the absent and of the present data set → (n,) log-likelihood ratios."""


def last_ratio(runs: StoppedRuns, absent: Array, present: Array) -> Array:
    """(n,) of the last release of a Brownian motion.

    Given that one, the releases before it do not depend on the data.
    """
    precision = runs.precision[runs.stopped][:, None]
    return gaussian_log_ratio(runs.last, absent, present, precision)


@dataclass(frozen=True, config=STRICT)
class Brownian:
    """y_k ~ N(f(X), σ_k²), σ_k² = αΔ²/(2ε_k), with Cov(y_j, y_k) = min(σ_j², σ_k²).

    z_k ~ N(f(X), 1/(P_k − P_(k−1))), P_k = 1/σ_k², and y_k = Σ_(j ≤ k) (P_j − P_(j−1))z_j/P_k, the
    precision-weighted mean of all that was drawn so far. It stops when a release is good enough.
    Stopping at K costs ε_K in all, whatever decided it, if that saw releases only. f is
    `vector_query`: the one-way marginals of a table, the sum of an array's clipped records.

    Args:
        ladder: ε_1 < ε_2 < …, of the order below.
        order: α > 1 that ε is accounted at.
        stop: a release is good enough when ‖y_k‖ ≥ stop·σ_k·√d; else the last step's is taken.

    References:
        Whitehouse, Ramdas, Wu, Rogers, arXiv:2206.07234; Räisä, Koskela, Honkela, arXiv:2509.22213.
        The default ladder, order and stopping rule are this project's.
    """

    ladder: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    order: Order = 2.0
    stop: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 3.0

    block: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        check_ladder(self.ladder)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every report is true; and nobody learns more than the last step would tell."""
        top = self.ladder[-1]
        reports_are_true = Claim(ExPostRDP(self.order, top), 0.0)
        whole_ladder = Claim(GDP(), math.sqrt(2 * top / self.order))
        return (reports_are_true, whole_ladder)

    def release(self, data: Table | Array, trials: int, rng: np.random.Generator) -> StoppedRuns:
        """``trials`` runs, each up to its own stop."""
        centre, sensitivity = vector_query(data, "l2")
        precision = precisions(self.ladder, self.order, sensitivity)
        releases = self.draw(centre, precision, trials, rng)
        stopped = self.stopped(releases, centre, precision)
        return StoppedRuns(releases, stopped, self.report(stopped), precision, self.ratio())

    def draw(self, centre: Array, precision: Array, trials: int, rng: np.random.Generator) -> Array:
        """(trials, K, d) releases."""
        return sequence(centre, precision, trials, rng)

    def stopped(self, releases: Array, centre: Array, precision: Array) -> Array:
        """(trials,) the step of each run's last release, from 0.

        ``centre`` is the raw answer, which must not decide.
        """
        size = np.linalg.norm(releases, axis=2) * np.sqrt(precision / len(centre))
        return first(size >= self.stop)

    def report(self, stopped: Array) -> Array:
        """(trials,) the ε that each run reports as spent."""
        return np.asarray(self.ladder)[stopped]

    def ratio(self) -> Ratio | None:
        """Log-likelihood ratio of all that a run has released; None where it is not known."""
        return last_ratio


def vector_query(data: Table | Array, norm: Literal["l1", "l2"]) -> tuple[Array, float]:
    """The vector query, and how far one record moves it when it is added or removed.

    Args:
        data: a table, whose one-way marginals are counted: each record is 1 in one cell a column,
            so that d columns have sensitivity d in L1 and √d in L2. Or (n,) or (n, d) numbers,
            whose records are scaled down to norm 1 where they are longer, and summed: sensitivity
            1.
        norm: that distances are measured in.

    Returns:
        (d,) the answer, and its sensitivity.

    >>> vector_query(np.array([[3.0, 4.0], [0.5, 0.0]]), "l2")
    (array([1.1, 0.8]), 1.0)
    """
    if isinstance(data, Table):
        columns = data.domain.columns
        counts = np.concatenate([data.marginal((column,)) for column in columns])
        power = 1.0 if norm == "l1" else 0.5
        return counts, len(columns) ** power
    records = np.asarray(data, float)
    if records.ndim == 1:
        records = records[:, None]
    length = np.linalg.norm(records, axis=1, ord=1 if norm == "l1" else 2)
    clipped = records / np.maximum(length, 1.0)[:, None]
    return clipped.sum(axis=0), 1.0


def sequence(centre: Array, precision: Array, trials: int, rng: np.random.Generator) -> Array:
    """(trials, K, d) releases: each the precision-weighted mean of all Gaussians drawn so far.

    Args:
        centre: (d,) the raw answer.
        precision: (K,) of each release, ascending.
        trials: independent runs.
        rng: source of the noise.
    """
    gain = np.diff(precision, prepend=0.0)[:, None]
    standard_normal = rng.normal(size=(trials, len(precision), len(centre)))
    weighted_noise = standard_normal * np.sqrt(gain)  # (P_j − P_(j−1))·(z_j − centre)
    return centre + np.cumsum(weighted_noise, axis=1) / precision[:, None]


def first(passed: Array) -> Array:
    """(n,) index of each row's first True; the last index where there is none.

    >>> first(np.array([[False, True, True], [False, False, False]])).tolist()
    [1, 2]
    """
    last = passed.shape[1] - 1
    return np.where(passed.any(axis=1), passed.argmax(axis=1), last)


@dataclasses.dataclass(frozen=True)
class StoppedRuns:
    """Runs that stopped at different steps, and what each reports as spent.

    Args:
        releases: (n, K, d); those after the stop were never made.
        stopped: (n,) step of the last one, from 0.
        reported: (n,) ε.
        precision: (K,) of each release.
        ratio: exact log-likelihood ratio of all releases up to the stop, from the two raw answers;
            None: not known.
    """

    releases: Array
    stopped: Array
    reported: Array
    precision: Array
    ratio: Ratio | None

    @property
    def last(self) -> Array:
        """(n, d) the last release of each run."""
        return self.releases[np.arange(len(self.releases)), self.stopped]

    @property
    def made(self) -> Array:
        """(n, K) whether a run has come to each step."""
        return np.arange(self.releases.shape[1]) <= self.stopped[:, None]

    def public(self) -> Columns:
        """(n, 1 + d) what was reported, and the last release."""
        coordinates = (f"last[{j}]" for j in range(self.releases.shape[2]))
        return Columns(("eps", *coordinates), np.hstack([self.reported[:, None], self.last]))

    def insider(self) -> Columns:
        """(n, 1 + K + K·d) the report, whether each step was made, and its release, else 0."""
        runs, steps, width = self.releases.shape
        names = ["eps"]
        names += [f"made[{k}]" for k in range(steps)]
        for k in range(steps):
            names += [f"release[{k}][{j}]" for j in range(width)]
        # What was never made must not reach an attacker.
        releases = np.where(self.made[:, :, None], self.releases, 0.0).reshape(runs, -1)
        return Columns(tuple(names), np.hstack([self.reported[:, None], self.made, releases]))

    def log_ratio(self, absent: Table | Array, present: Table | Array) -> Array | None:
        """(n,) of everything up to the stop, where it is known."""
        if self.ratio is None:
            return None
        absent_answer, _ = vector_query(absent, "l2")
        present_answer, _ = vector_query(present, "l2")
        return self.ratio(self, absent_answer, present_answer)

    def spent(self) -> Array:
        """(n,) what was reported."""
        return self.reported
