"""Counts of folds that follow each other → bound.

The statistic is a weighted sum of errors, tested against the worst adaptive choice of thresholds.
Each fold's threshold was chosen after the earlier folds were seen. So an adversary may pick another
point of the claimed curve for every fold, by what has been counted so far; regions that are exact
for one threshold are not valid then (their 1 % becomes up to 4 %). For a sum of integer weights the
adversary's best game is a recursion over the sum alone.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr, ndtri

from audit.core import Array, Counts, Design, Evidence, NotApplicable
from audit.estimators.half_counts import kappa, likelihood_bound
from audit.estimators.regions import Levels
from audit.estimators.roots import last_below
from audit.estimators.sizes import scan
from audit.privacy import Notion

Sizes = tuple[tuple[int, int], ...]
"""Absent and present test trials of each fold, in order."""


@dataclasses.dataclass(frozen=True)
class Weighted:
    """The test that rejects a claim where absent·Σ fp + present·Σ fn is small.

    Args:
        absent, present: integer weights of the two kinds of error, ≥ 1.
        folds: test trials of each fold.
    """

    absent: int
    present: int
    folds: Sizes

    def total(self, counts: Sequence[Counts]) -> int:
        """The statistic."""
        return sum(self.absent * table.fp + self.present * table.fn for table in counts)

    @functools.lru_cache(maxsize=4096)  # noqa: B019  tests are few and small
    def p_value(self, total: int, notion: Notion, parameter: float) -> float:
        """The largest P(statistic ≤ total) that an adversary reaches on the parameter's curve.

        It chooses a point of the curve fold by fold, knowing the sum so far. With a budget of u
        left before a fold, its chance is W(u) = max over points of E V(u − errors), where V(u) is
        the chance after the fold: 1 after the last, and 0 below 0. It grows in the parameter, as
        curves are nested.
        """
        largest_sum = max(self.absent * n0 + self.present * n1 for n0, n1 in self.folds)
        # Room for the largest sum of a fold, so that the circular convolution does not wrap around.
        length = next_fast_len(total + 1 + largest_sum, real=True)
        transforms = {
            fold: self._transforms(notion, parameter, *fold, length) for fold in set(self.folds)
        }
        value = np.ones(total + 1)
        for fold in reversed(self.folds):
            convolved = irfft(transforms[fold] * rfft(value, length), length, axis=1)
            chance_by_point = convolved[:, : total + 1]
            value = np.clip(chance_by_point.max(axis=0), 0.0, 1.0)  # transforms round
        return min(1.0, float(value[total]) * (1 + SLACK))

    def _transforms(
        self, notion: Notion, parameter: float, absent: int, present: int, length: int
    ) -> Array:
        """(m, length/2 + 1) transforms of the law of a fold's sum, at points worth choosing."""
        fpr, fnr = game_points(notion, parameter, absent, present, self.absent, self.present)
        of_absent = rfft(_law(absent, self.absent, fpr, length), axis=1)
        of_present = rfft(_law(present, self.present, fnr, length), axis=1)
        return np.asarray(of_absent * of_present)


def _law(n: int, weight: int, rate: Array, length: int) -> Array:
    """(m, length) the law of ``weight`` times a binomial count at each rate."""
    first, mass = Levels.every(n).law(rate)
    law = np.zeros((len(rate), length))
    place = weight * (first[:, None] + np.arange(mass.shape[1]))
    np.put_along_axis(law, place, mass / mass.sum(axis=1, keepdims=True), axis=1)
    return law


SLACK = 2e-3
"""Share added to the p-value for what lies between neighbouring points.

Near the best one they are a quarter of a standard deviation apart. Measured against grids eight
times as dense: 7e-4 for folds of hundreds of trials, 3e-4 for 50 folds of five a side.
"""


@functools.lru_cache(maxsize=64)
def game_points(
    notion: Notion,
    parameter: float,
    absent: int,
    present: int,
    weight_absent: int,
    weight_present: int,
) -> tuple[Array, Array]:
    """FPR and FNR of the points of a curve that are worth choosing.

    All of it roughly, and densely around where the expected sum is least: that is a flat minimum,
    the tangent point of its slope, or a corner.
    """
    few = min(absent, present) <= 100
    fpr, fnr = scan(notion, parameter, absent, present, 0.06 if few else 0.25)
    mean = weight_absent * absent * fpr + weight_present * present * fnr
    noise = math.sqrt(weight_absent**2 * absent + weight_present**2 * present) / 2
    # Where the sum is expected 12 standard deviations above the least, an adversary gains nothing.
    worth = mean <= mean.min() + 12 * noise
    number = np.arange(len(mean))
    near = np.abs(number - int(np.argmin(mean))) <= DENSE
    every_fourth = number % 4 == 0
    taken = worth & (near | every_fourth | few)
    return fpr[taken], fnr[taken]


DENSE = 20
"""Points on either side of the best one that are all looked at."""


def allow_folds(design: Design) -> None:
    """Raise NotApplicable if folds of this design cannot be added up.

    Raises:
        NotApplicable: evidence that was stopped, repeated runs, folds that fitted each other, no
            selection trials.
    """
    if design.stopped:
        raise NotApplicable(
            "the number of trials depended on the data; only anytime bounds hold, such as betting"
        )
    if design.runs != "independent":
        raise NotApplicable("the exact bound needs independent trials, each tested once")
    if design.folds == "kfold":
        raise NotApplicable(
            "the exact bound adds folds up only where none was tested on what another was fitted to"
        )
    if not design.selection:
        raise NotApplicable(
            "the exact bound of several folds needs selection trials, which say how errors weigh"
        )


def weighted(
    evidence: Evidence, notion: Notion, significance: float
) -> tuple[Weighted, list[Counts]]:
    """The test for these folds, weighted by the first fold's selection, and the folds' counts.

    Raises:
        NotApplicable: see `allow_folds`.
    """
    folds = evidence.folds
    allow_folds(evidence.design)
    assert folds[0].selection is not None
    counts = [fold.counts for fold in folds]
    sizes = tuple((table.fp + table.tn, table.fn + table.tp) for table in counts)
    chosen = folds[0].selection.count(folds[0].threshold)
    return Weighted(*weights(chosen, sizes, notion, significance), sizes), counts


def weights(chosen: Counts, folds: Sizes, notion: Notion, significance: float) -> tuple[int, int]:
    """Small integers whose test would prove most of rates like the selection's, by the normal law.

    An adversary plays the point of the curve where the weighted sum is least. So weights may not
    favour one kind of error by more than the curve's own slope allows: else the corner (0, 1) or
    (1, 0), which every curve has, has a small sum too.
    """
    absent = sum(fold[0] for fold in folds)
    present = sum(fold[1] for fold in folds)
    fpr = (chosen.fp + 0.5) / (chosen.fp + chosen.tn + 1)
    fnr = (chosen.fn + 0.5) / (chosen.fn + chosen.tp + 1)
    if fpr + fnr >= 1 or not absent or not present:
        return 1, 1
    # An event of one side only: there the normal law says nothing.
    if min(chosen.fp, chosen.fn) < RARE:
        return (LARGEST_WEIGHT, 1) if chosen.fp < chosen.fn else (1, LARGEST_WEIGHT)
    parameters = float(notion.parameter(fpr, fnr)) * np.linspace(1 / GRID, 1, GRID)
    alpha = np.concatenate([[0.0], ndtr(np.linspace(-5, 5, 201)), [1.0]])
    beta = np.array([notion.beta(alpha, parameter) for parameter in parameters])
    critical = -float(ndtri(significance))

    def proven(pair: tuple[int, int]) -> float:
        """How many of the parameters are rejected, and nearly the next; large weights cost some."""
        weight_fp, weight_fn = pair
        sums = weight_fp * absent * alpha + weight_fn * present * beta
        worst = np.argmin(sums, axis=1)
        worst_fpr = alpha[worst]
        worst_fnr = beta[np.arange(GRID), worst]
        variance_fp = weight_fp**2 * absent * worst_fpr * (1 - worst_fpr)
        variance_fn = weight_fn**2 * present * worst_fnr * (1 - worst_fnr)
        # The last term: a corner has no variance of its own.
        variance = variance_fp + variance_fn + (weight_fp**2 + weight_fn**2)
        excess = sums.min(axis=1) - weight_fp * absent * fpr - weight_fn * present * fnr
        score = excess / np.sqrt(variance)
        rejected = int(np.sum(np.minimum.accumulate(score >= critical)))
        next_score = score[min(rejected, GRID - 1)]
        return rejected + float(np.tanh(next_score / critical)) - 0.01 * sum(pair)

    return max(_weight_pairs(), key=proven)


def _weight_pairs() -> list[tuple[int, int]]:
    """Pairs of coprime weights, one of them 1 or 2."""
    weights = range(1, LARGEST_WEIGHT + 1)
    return [(a, b) for a in weights for b in weights if min(a, b) <= 2 and math.gcd(a, b) == 1]


GRID = 40
"""Parameters that weights are compared at."""

RARE = 10
"""Fewer errors than these count as an error that never happens."""

LARGEST_WEIGHT = 20
"""Of one kind of error against the other."""


def lower_of_folds(evidence: Evidence, notion: Notion, significance: float) -> float:
    """The largest parameter whose p-value is ≤ ``significance``, rounded down; else 0.

    Raises:
        NotApplicable: see `weighted`.
    """
    test, counts = weighted(evidence, notion, significance)
    if not all(map(all, test.folds)):
        return 0.0
    total = test.total(counts)

    def p_value(parameter: float) -> float:
        return test.p_value(total, notion, parameter)

    absent = sum(fold[0] for fold in test.folds)
    present = sum(fold[1] for fold in test.folds)
    fp = sum(table.fp for table in counts)
    fn = sum(table.fn for table in counts)
    start = likelihood_bound(fp, fn, absent, present, notion, kappa(significance))
    return last_below(p_value, start, significance) if start > 0 else 0.0


def rejected_by_folds(
    evidence: Evidence, notion: Notion, claim: float, significance: float
) -> bool:
    """Whether the p-value of a claim is ≤ ``significance``.

    Raises:
        NotApplicable: see `weighted`.
    """
    test, counts = weighted(evidence, notion, significance)
    if not all(map(all, test.folds)):
        return False
    return test.p_value(test.total(counts), notion, claim) <= significance
