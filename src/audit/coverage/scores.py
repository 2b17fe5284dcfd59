"""Bounds from scores: simulated audits, one by one."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from audit.core import Estimator, Evidence, Fold, Kind, NotApplicable, progressive
from audit.coverage.counts import Size
from audit.coverage.laws import Law, Shift, curve_truth, draw_scores
from audit.coverage.rows import ACCUSING, AT_ONE_THRESHOLD, ROUNDING, Row, with_efficiency
from audit.estimators import betting, curve, curve_betting, hedging, whole_score
from audit.estimators.betting import Betting
from audit.estimators.curve import Curve, calibrated
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.dkw import DKW
from audit.estimators.exact import Exact
from audit.estimators.whole_score import WholeScore
from audit.privacy import GDP, ApproximateDP, Notion, PureDP


@dataclasses.dataclass(frozen=True)
class Scored:
    """Bounds that need the scores themselves, with half as many selection scores.

    Args:
        law: of the scores.
        absent, present: test trials.
        notions: that bounds which can are measured in too, beside GDP.
    """

    law: Law
    absent: int
    present: int
    notions: tuple[Notion, ...] = ()

    def play(self, rng: np.random.Generator, size: Size) -> list[Row]:
        """A row for each estimator and notion."""
        middle = self.law.rates(self.threshold)
        pairs: list[tuple[Estimator, Notion]] = [(Curve(), GDP()), (CurveBetting(), GDP())]
        pairs += [
            (estimate, notion)
            for notion in (GDP(), *self.notions)
            for estimate in (DKW(), Betting(), Betting(ACCUSING))
        ]
        pairs += [
            (estimate, notion)
            for notion in self.notions
            if isinstance(notion, ApproximateDP | PureDP)
            for estimate in (WholeScore(), WholeScore(ACCUSING))
        ]
        tallies = []
        for estimate, notion in pairs:
            point = isinstance(estimate, Betting)
            truth = float(notion.parameter(*middle)) if point else curve_truth(self.law, notion)
            tallies.append(Tally(estimate, notion, truth, size.solved))
        for _ in range(size.scores):
            evidence = self._draw(rng)
            for tally in tallies:
                tally.add(evidence)
        errors = min(self.absent, self.present) * float(ndtr(-tallies[0].truth / 2))
        fill = functools.partial(
            Tally.row, law=str(self.law), absent=self.absent, present=self.present, choice="middle"
        )
        return [
            with_efficiency(fill(t, protocol="holdout", errors=errors)) for t in tallies if t.audits
        ]

    @property
    def threshold(self) -> float:
        """Where bounds at one threshold look: in the middle, fixed before the data."""
        return self.law.by / 2 if isinstance(self.law, Shift) else 0.5

    def _draw(self, rng: np.random.Generator) -> Evidence:
        test = draw_scores(self.law, rng, self.absent, self.present)
        # A class may be empty in the test; the selection always has both.
        absent, present = (max(n // 2, 10) for n in (self.absent, self.present))
        selection = draw_scores(self.law, rng, absent, present, first=len(test))
        return Evidence((Fold(np.array([], int), selection, self.threshold, test),))


@dataclasses.dataclass
class Tally:
    """How often one estimator's bound was above the truth, and its mean.

    Args:
        estimate: the estimator.
        notion: of the bound.
        truth: the parameter.
        solved: after so many audits (tenfold for `Curve`) a bound is only found where it may exceed
            the truth.
    """

    estimate: Estimator
    notion: Notion
    truth: float
    solved: int
    audits: int = 0
    exceeded: int = 0
    lowers: list[float] = dataclasses.field(default_factory=list)
    kind: Kind = "finite-sample"

    def add(self, evidence: Evidence) -> None:
        """Count one audit; nothing where the estimator refuses its evidence."""
        stands = STANDS.get(type(self.estimate))
        solve = stands is None or self.audits < self.solved * (
            10 if isinstance(self.estimate, Curve) else 1
        )
        try:
            if (
                not solve
                and stands is not None
                and stands(self.estimate, evidence, self.notion, self.truth)
            ):
                self.audits += 1
                return
            bound = self.estimate(evidence, self.notion)
        except NotApplicable:
            return
        self.audits += 1
        self.exceeded += bound.lower > self.truth + ROUNDING
        self.kind = bound.kind
        if solve:  # those that are only found because they may exceed the truth would bias the mean
            self.lowers.append(bound.lower)

    def row(
        self, law: str, absent: int, present: int, choice: str, protocol: str, errors: float
    ) -> Row:
        """The cell; ``choice`` is of those that look at one threshold."""
        name = self.estimate.name
        return Row(
            name,
            self.notion.name,
            self.kind,
            self.estimate.significance,
            law,
            self.truth,
            absent,
            present,
            choice if name in AT_ONE_THRESHOLD else "all",
            protocol,
            errors,
            self.audits,
            self.exceeded,
            float(np.mean(self.lowers)),
        )


# Scans from 0 upward stop at the first parameter that is not refuted. So a bound exceeds the truth
# only if the first parameter of its grid above the truth is refuted, which is one test instead of
# hundreds. It is asked of the estimators' own inner functions: here they are audited, and the tests
# hold both answers together.


def curve_stands(estimate: Curve, evidence: Evidence, notion: Notion, truth: float) -> bool:
    """Whether neither the coarse nor the fine scan can pass the truth."""
    samples = [
        (np.sort(a), np.sort(p)) for a, p in calibrated(evidence, notion) if min(len(a), len(p)) > 1
    ]
    if not samples:
        return True
    spread = math.sqrt(sum(1 / sum(len(sample[side]) for sample in samples) for side in (0, 1)))
    steps = float(np.clip(spread / 4, 0.005, 0.05)) * np.array([1, 1 / 32])
    above = (np.floor(truth / steps + 1e-6) + 1) * steps
    inflation = 1.0 if progressive(evidence.folds) else 2.0
    return bool(
        np.all(curve.studentised(samples, inflation, above) <= -ndtri(estimate.significance))
    )


def curve_betting_stands(
    estimate: CurveBetting, evidence: Evidence, notion: Notion, truth: float
) -> bool:
    """Whether the first μ of the grid above the truth is not refuted."""
    if not progressive(evidence.folds):
        return False  # it will refuse
    samples = [sample for sample in calibrated(evidence, notion) if min(map(len, sample))]
    rounds = sum(min(map(len, sample)) for sample in samples)
    if not rounds:
        return True
    for grid in hedging.candidates(estimate.sure(evidence), math.sqrt(2 / rounds)):
        above = grid[grid > truth + ROUNDING]
        if len(above):
            return not curve_betting.refuted(samples, above[:1], estimate.significance)[0]
    return True


def betting_stands(estimate: Betting, evidence: Evidence, notion: Notion, truth: float) -> bool:
    """Whether the first parameter of the grid above the truth is never refuted."""
    grid, rounds = betting.parameters(notion), betting.stream(evidence.folds)
    above = grid[grid > truth + ROUNDING]
    if not len(above) or not any(map(len, rounds)):
        return True
    most = np.max(betting.log_wealth(rounds, notion, above[:1], betting.LOOKS))
    return bool(most < -math.log(estimate.significance))


def exact_stands(estimate: Exact, evidence: Evidence, notion: Notion, truth: float) -> bool:
    """Whether the test of the truth does not reject it."""
    return not estimate.rejects(evidence, notion, truth + ROUNDING)


def whole_score_stands(
    estimate: WholeScore, evidence: Evidence, notion: Notion, truth: float
) -> bool:
    """Whether the first ε of the grid above the truth is not refuted."""
    samples = whole_score.readable(evidence)
    above = (grid[grid > truth + ROUNDING][:1] for grid in whole_score.grids(samples, notion))
    first = next((eps for eps in above if len(eps)), None)
    if first is None:
        return True
    delta, played = whole_score.delta_of(notion), whole_score.stages(samples)
    return not whole_score.refuted(played, first, delta, estimate.significance)[0]


STANDS: dict[type, Callable[..., bool]] = {
    Exact: exact_stands,
    Curve: curve_stands,
    CurveBetting: curve_betting_stands,
    Betting: betting_stands,
    WholeScore: whole_score_stands,
}
