"""The auditor audited: how often each bound exceeds the truth, where the truth is known. ``audit coverage``

A cell is an estimator, a notion, a law with a known tradeoff curve, a number of trials and a way to choose the
threshold. Thousands of audits are simulated in each. Only over-claiming, a lower bound above the truth, is an error:

- bounds from counts are held to the point (FPR*, FNR*) of their threshold, the hardest truth for them;
- bounds from all thresholds are held to the whole curve, the notion's least parameter that allows all of it.

Counts at a threshold that was fixed before they are drawn are binomial, so they are drawn as such. The joint Bayesian
bound is not solved for: it exceeds m if and only if P(parameter ≤ m | counts) < significance, and that probability
grows with the errors, so one critical FN for every FP says all.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from audit import criteria, protocols
from audit.attackers import LikelihoodRatio, Logistic
from audit.core import Array, AuditError, Bound, Claim, Counts, Estimator, Evidence, Fold, Kind, Refused, Scores, Trials
from audit.criteria import upper_rate
from audit.estimators import betting, curve, curve_betting
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve import Curve, calibrated
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.dkw import DKW
from audit.estimators.joint_bayes import JointBayes, posterior
from audit.game import Backend, Play, Ray, Serial
from audit.privacy import GDP, ZCDP, ApproximateDP, Notion, PureDP

TABLE = Path(__file__).with_name("coverage.csv")
ONE_RUN = Path(__file__).with_name("coverage_one_run.csv")
"""Of bounds from one run: benchmarks/one_run_coverage.py."""
SIGNIFICANCE, ACCUSING = 0.1, 0.01
"""The defaults of the bounds that are shown, and of the one that accuses."""
FEW = 30
"""Where fewer errors of a kind are expected, only finite-sample bounds promise anything."""
MARGIN = 0.015
"""By how much the rate of an asymptotic or Bayesian bound may exceed its nominal one."""
DOUBT = 1e-6
"""Probability that chance alone fails any cell of the table, at most."""

# --- laws whose tradeoff curves are known -----------------------------------------------------------------------------

Base = Literal["normal", "laplace", "cauchy"]


@dataclasses.dataclass(frozen=True)
class Shift:
    """Scores of absent trials have the base's law, those of present ones are shifted.

    Args:
        by: shift, ≥ 0.
        base: at location 0 and scale 1.
        step: scores are rounded to its multiples; 0: not at all.
    """

    by: float
    base: Base = "normal"
    step: float = 0.0

    def __str__(self) -> str:
        if self.base == "normal" and not self.step:
            return "null" if self.by == 0 else "gaussian"
        return f"{self.base} shift {self.by:g}" + (f" rounded to {self.step:g}" if self.step else "")

    def draw(self, rng: np.random.Generator, n: int, present: bool) -> Array:
        """(n,) scores."""
        noise: Array
        if self.base == "normal":
            noise = rng.standard_normal(n)
        else:
            noise = rng.laplace(size=n) if self.base == "laplace" else rng.standard_cauchy(n)
        values = noise + (self.by if present else 0.0)
        return np.round(values / self.step) * self.step if self.step else values

    def rates(self, threshold: Any) -> tuple[Array, Array]:
        """True FPR and FNR of "score ≥ threshold", of the shape of ``threshold``."""
        edge = np.asarray(threshold, float)
        if self.step:
            edge = (np.ceil(edge / self.step - 1e-9) - 0.5) * self.step
        return self._below(-edge), self._below(edge - self.by)

    def _below(self, x: Array) -> Array:
        if self.base == "cauchy":
            return 0.5 + np.arctan(x) / np.pi
        tail = 0.5 * np.exp(-np.abs(x))
        return np.asarray(ndtr(x) if self.base == "normal" else np.where(x < 0, tail, 1 - tail))


@dataclasses.dataclass(frozen=True)
class Response:
    """Randomised response: the score is the bit, flipped with probability 1/(1 + e^ε)."""

    epsilon: float

    def __str__(self) -> str:
        return f"randomised response ε={self.epsilon:.3g}"

    def draw(self, rng: np.random.Generator, n: int, present: bool) -> Array:
        """(n,) zeros and ones."""
        flipped = rng.random(n) < 1 / (1 + math.exp(self.epsilon))
        return (flipped != present).astype(float)

    def rates(self, threshold: Any) -> tuple[Array, Array]:
        """True FPR and FNR of "score ≥ threshold"."""
        t, wrong = np.asarray(threshold, float), 1 / (1 + math.exp(self.epsilon))
        fpr = np.where(t <= 0, 1.0, np.where(t <= 1, wrong, 0.0))
        return fpr, np.where(t <= 0, 0.0, np.where(t <= 1, wrong, 1.0))


Law = Shift | Response


def curve_truth(law: Law, notion: Notion) -> float:
    """The least parameter that allows the law's whole curve: the largest of its points; ∞ where none does.

    >>> round(curve_truth(Shift(0.4548), GDP()), 4), round(curve_truth(Shift(1, "laplace"), PureDP()), 4)
    (0.4548, 1.0)
    >>> curve_truth(Shift(0.0), GDP()), round(curve_truth(Response(math.log(3)), GDP()), 3)
    (0.0, 1.349)
    """
    if isinstance(law, Shift) and law.base == "normal" and not law.step and isinstance(notion, GDP):
        return law.by
    if isinstance(law, Shift) and law.base == "normal" and isinstance(notion, PureDP) and law.by > 0:
        return math.inf
    shift = law.by if isinstance(law, Shift) else 1.0
    return float(np.max(notion.parameter(*law.rates(shift / 2 + np.linspace(-8, 8, 8001)))))


# --- what a cell says ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Row:
    """One cell of the table.

    Args:
        estimator, notion, kind, nominal: of the bound; ``nominal`` is its significance.
        law: where the scores come from.
        parameter: the truth; NaN where it differs from audit to audit.
        absent, present: test trials of each class.
        choice: how the threshold was chosen; "all" for bounds that need none.
        protocol: how trials were spent.
        errors: expected test errors, of the rarer kind.
        audits: how many were simulated.
        exceeded: how many bounds were above the truth.
        mean: of the bound.
        efficiency: mean / (μ − z·√(1/absent + 1/present)); NaN where that is not positive, or the law no Gaussian one.
        verdict: ``ok``, ``exceeds``, or ``rare`` for asymptotic and Bayesian bounds with few errors.
    """

    estimator: str
    notion: str
    kind: Kind
    nominal: float
    law: str
    parameter: float
    absent: int
    present: int
    choice: str
    protocol: str
    errors: float
    audits: int
    exceeded: int
    mean: float
    efficiency: float = math.nan
    verdict: str = ""

    @property
    def rate(self) -> float:
        """Share of audits whose bound was above the truth."""
        return self.exceeded / self.audits

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval of the rate (Clopper–Pearson)."""
        return at_least(self.exceeded, self.audits, 0.025), 1 - at_least(
            self.audits - self.exceeded, self.audits, 0.025
        )

    @property
    def rare(self) -> bool:
        """Whether so few errors are expected that only finite-sample bounds promise anything."""
        return self.errors < FEW and self.kind != "finite-sample"


def at_least(hits: int, audits: int, significance: float) -> float:
    """Exact lower limit of a rate, wrong with probability ≤ ``significance``.

    >>> at_least(0, 10, 0.05), round(at_least(10, 10, 0.05), 4)
    (0.0, 0.7411)
    """
    return float(betaincinv(hits, audits - hits + 1, significance)) if hits else 0.0


def judge(rows: Sequence[Row]) -> list[Row]:
    """The rows with their verdicts: all right ones pass together with probability ≥ 1 − 1e-6."""

    def verdict(row: Row) -> str:
        if row.rare:
            return "rare"
        allowed = row.nominal + (0.0 if row.kind == "finite-sample" else MARGIN)
        return "exceeds" if at_least(row.exceeded, row.audits, DOUBT / len(rows)) > allowed else "ok"

    return [dataclasses.replace(row, verdict=verdict(row)) for row in rows]


def ideal(mu: float, absent: int, present: int, significance: float) -> float:
    """μ − z·√(1/absent + 1/present): what no bound on a Gaussian shift exceeds on average; NaN where not positive."""
    if not absent or not present:
        return math.nan
    reached = mu + float(ndtri(significance)) * math.sqrt(1 / absent + 1 / present)
    return reached if reached > 0 else math.nan


# --- bounds from counts, vectorised -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Counts of many audits: (k,) false positives and false negatives, and the truth of each."""

    fp: Array
    fn: Array
    truth: Array
    absent: int
    present: int

    def counts(self, audit: int) -> Counts:
        """The confusion table of one audit."""
        fp, fn = int(self.fp[audit]), int(self.fn[audit])
        return Counts(fp, self.absent - fp, fn, self.present - fn)


def clopper_pearson(drawn: Drawn, notion: Notion, significance: float) -> Array:
    """(k,) `ClopperPearson.lower` of each audit."""
    fpr = upper_rate(drawn.fp, drawn.absent - drawn.fp, significance / 2)
    fnr = upper_rate(drawn.fn, drawn.present - drawn.fn, significance / 2)
    return np.asarray(notion.parameter(fpr, fnr))


@dataclasses.dataclass
class Region:
    """The counts at which the joint Bayesian bound exceeds a parameter: FN ≤ ``critical(FP)``.

    P(parameter ≤ m | counts) grows with both errors, so this is the estimator's own decision, without its root-finding.

    Args:
        notion: a family, or one piece of a kinked one.
        parameter: m.
        absent, present: trials of each class.
        significance: of the bound.
    """

    notion: Notion
    parameter: float
    absent: int
    present: int
    significance: float = SIGNIFICANCE

    def exceeds(self, fp: Array, fn: Array) -> Array:
        """(k,) whether the bound of these counts is above the parameter."""
        if not self.absent or not self.present:
            return np.zeros(len(fp), bool)
        distinct, place = np.unique(fp, return_inverse=True)
        critical, last = np.empty(len(distinct), int), self.present // 2
        for where, each in enumerate(distinct):
            last = self.critical(int(each), last)
            critical[where] = last
        return fn <= critical[place]

    def critical(self, fp: int, guess: int) -> int:
        """The largest FN with a bound above the parameter, −1 where there is none; the guess saves time."""
        low, high, step = -1, self.present + 1, 1
        probe = min(max(guess, 0), self.present)
        while high - low > 1:
            if self._above(fp, probe):
                low = probe
                probe = min(low + step, (low + high) // 2 if high <= self.present else self.present)
            else:
                high = probe
                probe = max(high - step, (low + high) // 2 if low >= 0 else 0)
            step *= 2
            probe = min(max(probe, low + 1), high - 1)
        return low

    def _above(self, fp: int, fn: int) -> bool:
        counts = Counts(fp, self.absent - fp, fn, self.present - fn)
        return posterior(counts, self.notion)(self.parameter) < self.significance


def first_piece(fp: Array, fn: Array, trials: int, notion: Notion, significance: float = SIGNIFICANCE) -> Array:
    """(k,) whether joint Bayes chooses the first piece of a kinked notion on these selection counts.

    Its rule is the larger bound. With as many trials of both classes the pieces are each other's mirror images: equal
    bounds on FP = FN and wherever both are 0, and the first is larger where FP < FN.
    """
    nothing = ~Region(notion.pieces()[0], 0.0, trials, trials, significance).exceeds(fp, fn)
    return np.asarray(nothing | (fp <= fn))


def joint_exceeds(
    drawn: Drawn, notion: Notion, first: Array | None = None, significance: float = SIGNIFICANCE
) -> Array:
    """(k,) whether the joint Bayesian bound is above the truth.

    Args:
        drawn: the counts.
        notion: the family.
        first: which audits use the first piece of a kinked notion; None: the family as it is.
        significance: of the bound.
    """
    if first is not None:
        answer = np.empty(len(drawn.fp), bool)
        for piece, mine in zip(notion.pieces(), (first, ~first), strict=True):
            part = dataclasses.replace(drawn, fp=drawn.fp[mine], fn=drawn.fn[mine], truth=drawn.truth[mine])
            answer[mine] = joint_exceeds(part, piece, None, significance)
        return answer
    if len(np.unique(drawn.truth)) <= 1:
        truth = float(drawn.truth[0]) if len(drawn.truth) else 0.0
        return Region(notion, truth, drawn.absent, drawn.present, significance).exceeds(drawn.fp, drawn.fn)
    triples, place = np.unique(np.stack([drawn.fp, drawn.fn, drawn.truth]), axis=1, return_inverse=True)
    distinct = dataclasses.replace(drawn, fp=triples[0], fn=triples[1], truth=triples[2])
    masses = [posterior(distinct.counts(i), notion)(float(triples[2, i])) for i in range(triples.shape[1])]
    return (np.array(masses) < significance)[place.ravel()]


def joint_mean(drawn: Drawn, notion: Notion, first: Array | None, solved: int) -> float:
    """Mean of the joint Bayesian bound: of Clopper–Pearson's on all audits, plus the difference on ``solved`` of them."""
    if not drawn.absent or not drawn.present:
        return 0.0
    base = clopper_pearson(drawn, notion, SIGNIFICANCE)
    estimate, pieces = JointBayes(SIGNIFICANCE), notion.pieces()
    gap = [
        estimate.lower(drawn.counts(i), notion if first is None else pieces[0 if first[i] else 1]) - base[i]
        for i in range(min(solved, len(base)))
    ]
    return float(np.mean(base) + np.mean(gap))


# --- cells that share their draws -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Size:
    """How many audits are simulated, of bounds from counts and of the others.

    Args:
        counts, scores: in each cell.
        solved: in so many the bound itself is found, for its mean (tenfold for `Curve`); in the others only whether it
            exceeds the truth.
    """

    counts: int = 20_000
    scores: int = 4_000
    solved: int = 100


QUICK = Size(counts=2_000, scores=200, solved=10)


@dataclasses.dataclass(frozen=True)
class Points:
    """Thresholds fixed before the data, on the notion's own curve at ``parameter``: the worst that it allows.

    Args:
        notion: the family.
        parameter: the truth.
        absent, present: test trials; half as many select a piece of a kinked notion.
        fprs: where on the curve.
    """

    notion: Notion
    parameter: float
    absent: int
    present: int
    fprs: tuple[float, ...]

    def play(self, rng: np.random.Generator, size: Size) -> list[Row]:
        """Clopper–Pearson at both significances, and joint Bayes, a row each and threshold."""
        rows = []
        for fpr in self.fprs:
            fnr = float(self.notion.beta(fpr, self.parameter))
            drawn = self._draw(rng, fpr, fnr, size.counts)
            kinked = len(self.notion.pieces()) > 1
            first = self._first(rng, fpr, fnr, size.counts) if kinked else None
            choice = "fpr=fnr" if math.isclose(fpr, fnr, rel_tol=1e-6) else f"fpr={fpr:g}"
            law = "null" if self.parameter == 0 else "curve"
            rows += count_rows(drawn, self.notion, first, law, choice, min(self.absent * fpr, self.present * fnr), size)
        return rows

    def _draw(self, rng: np.random.Generator, fpr: float, fnr: float, audits: int) -> Drawn:
        fp, fn = rng.binomial(self.absent, fpr, audits), rng.binomial(self.present, fnr, audits)
        return Drawn(fp, fn, np.full(audits, self.parameter), self.absent, self.present)

    def _first(self, rng: np.random.Generator, fpr: float, fnr: float, audits: int) -> Array:
        assert self.absent == self.present, "the pieces are mirror images for equal classes only"
        trials = self.absent // 2
        return first_piece(rng.binomial(trials, fpr, audits), rng.binomial(trials, fnr, audits), trials, self.notion)


def count_rows(
    drawn: Drawn, notion: Notion, first: Array | None, law: str, choice: str, errors: float, size: Size
) -> list[Row]:
    """A row for each bound that reads counts."""
    truth = float(drawn.truth[0]) if len(np.unique(drawn.truth)) == 1 else math.nan
    fill = functools.partial(
        Row, notion=notion.name, law=law, parameter=truth, absent=drawn.absent, present=drawn.present, choice=choice,
        protocol="holdout", errors=errors, audits=len(drawn.fp),
    )  # fmt: skip
    rows = []
    for nominal in (SIGNIFICANCE, ACCUSING):
        lower = clopper_pearson(drawn, notion, nominal)
        exceeded = int(np.sum(lower > drawn.truth + ROUNDING))
        rows.append(
            fill("clopper_pearson", kind="finite-sample", nominal=nominal, exceeded=exceeded, mean=float(lower.mean()))
        )
    exceeded = int(np.sum(joint_exceeds(drawn, notion, first)))
    mean = joint_mean(drawn, notion, first, size.solved)
    rows.append(fill("joint_bayes", kind="Bayesian", nominal=SIGNIFICANCE, exceeded=exceeded, mean=mean))
    return [_with_efficiency(row) for row in rows]


def _with_efficiency(row: Row) -> Row:
    """Only a Gaussian shift has that ideal."""
    if row.notion != "gdp" or row.law not in ("curve", "gaussian", LIKELIHOOD):
        return row
    return dataclasses.replace(row, efficiency=row.mean / ideal(row.parameter, row.absent, row.present, row.nominal))


CRITERIA: dict[str, Callable[[Scores], float]] = {
    "advantage": criteria.Advantage(),
    "mu_hat": criteria.MuHat(),
    "mu_lower": criteria.MuLower(),
}


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Thresholds chosen on half as many selection scores, then counts, binomial given the threshold.

    Args:
        law: of the scores.
        absent, present: test trials.
        names: criteria.
    """

    law: Law
    absent: int
    present: int
    names: tuple[str, ...] = tuple(CRITERIA)

    def play(self, rng: np.random.Generator, size: Size) -> list[Row]:
        """Clopper–Pearson at both significances, and joint Bayes, a row each and criterion; in μ."""
        chosen: dict[str, list[float]] = {name: [] for name in self.names}
        for _ in range(size.counts):
            selection = draw_scores(self.law, rng, self.absent // 2, self.present // 2)
            for name in self.names:
                chosen[name].append(CRITERIA[name](selection))
        rows = []
        for name, thresholds in chosen.items():
            fpr, fnr = self.law.rates(np.array(thresholds))
            gaussian = isinstance(self.law, Shift) and self.law.base == "normal" and not self.law.step
            truth = curve_truth(self.law, GDP()) * np.ones(len(fpr)) if gaussian else GDP().parameter(fpr, fnr)
            drawn = Drawn(
                rng.binomial(self.absent, fpr), rng.binomial(self.present, fnr), truth, self.absent, self.present
            )
            errors = float(min(np.mean(self.absent * fpr), np.mean(self.present * fnr)))
            rows += count_rows(drawn, GDP(), None, str(self.law), name, errors, size)
        return rows


def draw_scores(law: Law, rng: np.random.Generator, absent: int, present: int, first: int = 0) -> Scores:
    """Scores of both classes, each trial a run of its own, with places in the stream from ``first`` on."""
    values = np.concatenate([law.draw(rng, absent, False), law.draw(rng, present, True)])
    index = np.arange(first, first + len(values))
    return Scores(values, np.arange(len(values)) >= absent, index, index)


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
        pairs += [(estimate, notion) for notion in (GDP(), *self.notions) for estimate in (DKW(), Betting())]
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
        return [_with_efficiency(fill(t, protocol="holdout", errors=errors)) for t in tallies if t.audits]

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
        solved: after so many audits (tenfold for `Curve`) a bound is only found where it may exceed the truth.
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
        solve = stands is None or self.audits < self.solved * (10 if isinstance(self.estimate, Curve) else 1)
        try:
            if not solve and stands is not None and stands(self.estimate, evidence, self.notion, self.truth):
                self.audits += 1
                return
            bound = self.estimate(evidence, self.notion)
        except Refused:
            return
        self.audits += 1
        self.exceeded += bound.lower > self.truth + ROUNDING
        self.kind = bound.kind
        if solve:  # those that are only found because they may exceed the truth would bias the mean
            self.lowers.append(bound.lower)

    def row(self, law: str, absent: int, present: int, choice: str, protocol: str, errors: float) -> Row:
        """The cell; ``choice`` is of those that look at one threshold."""
        name = self.estimate.name
        return Row(
            name, self.notion.name, self.kind, self.estimate.significance, law, self.truth, absent, present,
            choice if name in AT_ONE_THRESHOLD else "all", protocol, errors, self.audits, self.exceeded,
            float(np.mean(self.lowers)),
        )  # fmt: skip


AT_ONE_THRESHOLD = {"clopper_pearson", "joint_bayes", "betting"}

ROUNDING = 1e-9
"""A bound on the truth itself is no error, though a grid's last bit may put it above."""

# Scans from 0 upward stop at the first parameter that is not refuted. So a bound exceeds the truth only if the first
# parameter of its grid above the truth is refuted, which is one test instead of hundreds. It is asked of the
# estimators' own inner functions: here they are audited, and the tests hold both answers together.


def curve_stands(estimate: Curve, evidence: Evidence, notion: Notion, truth: float) -> bool:
    """Whether neither the coarse nor the fine scan can pass the truth."""
    samples = [(np.sort(a), np.sort(p)) for a, p in calibrated(evidence, notion) if min(len(a), len(p)) > 1]
    if not samples:
        return True
    spread = math.sqrt(sum(1 / sum(len(sample[side]) for sample in samples) for side in (0, 1)))
    steps = float(np.clip(spread / 4, 0.005, 0.05)) * np.array([1, 1 / 32])
    above = (np.floor(truth / steps + 1e-6) + 1) * steps
    inflation = 1.0 if curve.progressive(evidence.folds) else 2.0
    return bool(np.all(curve._studentised(samples, inflation, above) <= -ndtri(estimate.significance)))


def curve_betting_stands(estimate: CurveBetting, evidence: Evidence, notion: Notion, truth: float) -> bool:
    """Whether the first μ of the grid above the truth is not refuted."""
    if not curve.progressive(evidence.folds):
        return False  # it will refuse
    samples = [sample for sample in calibrated(evidence, notion) if min(map(len, sample))]
    rounds = sum(min(map(len, sample)) for sample in samples)
    if not rounds:
        return True
    for grid in curve_betting._grid(estimate._sure(evidence), math.sqrt(2 / rounds)):
        above = grid[grid > truth + ROUNDING]
        if len(above):
            return not curve_betting._refuted(samples, above[:1], estimate.significance)[0]
    return True


def betting_stands(estimate: Betting, evidence: Evidence, notion: Notion, truth: float) -> bool:
    """Whether the first parameter of the grid above the truth is never refuted."""
    grid, rounds = betting.parameters(notion), betting.stream(evidence.folds)
    above = grid[grid > truth + ROUNDING]
    if not len(above) or not any(map(len, rounds)):
        return True
    most = np.max(betting.log_wealth(rounds, notion, above[:1], betting.LOOKS))
    return bool(most < -math.log(estimate.significance))


STANDS: dict[type, Callable[..., bool]] = {
    Curve: curve_stands,
    CurveBetting: curve_betting_stands,
    Betting: betting_stands,
}

# --- whole pipelines ----------------------------------------------------------------------------------------------

UNKNOWING, LIKELIHOOD = "rows that know nothing", "gaussian likelihood ratio"


@dataclasses.dataclass(frozen=True)
class Stream:
    """An endless stream of trials: a Gaussian shift with its exact likelihood ratio, or five columns that know nothing.

    Args:
        mu: the shift; 0: rows know nothing of the bit.
        seed: of the noise.
    """

    mu: float
    seed: int
    limit: int | None = None

    def trials(self, first: int, count: int) -> Trials:
        """See `audit.core.Source`."""
        index = np.arange(first + count)
        bits = index % 2 == 1
        rows = np.random.default_rng(self.seed).standard_normal((len(index), 1 if self.mu else 5))
        rows += self.mu * bits[:, None]
        ratio = self.mu * rows[:, 0] - self.mu**2 / 2 if self.mu else None
        return Trials(tuple("abcde"[: rows.shape[1]]), rows, bits, index, index, log_ratio=ratio)[first:]


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Fit, choose, test, by a real protocol: a trained attack on rows that know nothing, or the perfect one on a shift.

    Args:
        name: of the protocol.
        protocol: an instance; what it is to reject is the truth.
        mu: the truth; 0: a logistic attack is trained on rows that know nothing.
    """

    name: str
    protocol: Any
    mu: float = 0.0

    def play(self, rng: np.random.Generator, size: Size) -> list[Row]:
        """A row for every estimator that reads this evidence."""
        estimators: list[Estimator] = [ClopperPearson(), JointBayes(), Curve(), CurveBetting(), DKW(), Betting()]
        tallies = [Tally(estimate, GDP(), self.mu, size.solved) for estimate in estimators]
        attacker, claim = LikelihoodRatio() if self.mu else Logistic(), Claim(GDP(), self.mu)
        for _ in range(size.scores):
            source = Stream(self.mu, int(rng.integers(2**62)))
            evidence = self.protocol(source, attacker, criteria.Advantage(), claim)
            for tally in tallies:
                tally.add(evidence)
        side = self.protocol.tested // 2
        law = LIKELIHOOD if self.mu else UNKNOWING
        fill = functools.partial(Tally.row, law=law, absent=side, present=side, choice="advantage")
        errors = side * float(ndtr(-self.mu / 2))
        return [_with_efficiency(fill(t, protocol=self.name, errors=errors)) for t in tallies if t.audits]


# --- the whole bench ----------------------------------------------------------------------------------------------

Task = Points | Chosen | Scored | Pipeline

PARAMETERS = (0.1, 0.4548, 1.0, 2.0, 3.0)
TRIALS = (250, 1000, 2000, 5000)
FPRS = (0.05, 0.3, 0.5, 0.6)
NOTIONS: tuple[Notion, ...] = (GDP(), ApproximateDP(0.01), PureDP(), ZCDP())


def tasks(trials: Sequence[int] = TRIALS, parameters: Sequence[float] = PARAMETERS) -> list[Task]:
    """Everything that is simulated, in parts of some seconds; the longest first.

    Parameters are μ; those of other notions are comparable: their curves pass the same point FPR = FNR = Φ(−μ/2).
    """
    found: list[Task] = [*_pipelines(), *_hard()]
    for n in sorted(trials, reverse=True):
        for mu in (0.0, *parameters):
            others = (ApproximateDP(0.01), ZCDP()) if (n, mu) == (2000, 0.4548) else ()
            found += [Scored(Shift(mu), n, n, others), Chosen(Shift(mu), n, n)]
            middle = float(ndtr(-mu / 2))
            for notion in NOTIONS:
                parameter = float(notion.parameter(middle, middle)) if mu else 0.0
                found.append(Points(notion, parameter, n, n, (*FPRS, middle) if mu else FPRS))
    return found


def _hard() -> list[Task]:
    """Where bounds are known, or feared, to fail."""
    laws: tuple[Law, ...] = (Shift(1, "laplace"), Shift(1, "cauchy"), Shift(1, step=0.5), Response(math.log(3)))
    found: list[Task] = [Scored(law, 1000, 1000, (PureDP(), ApproximateDP(0.01))) for law in laws]
    for n in (1000, 5000):
        found += [Chosen(law, n, n, ("advantage",)) for law in laws]
        for epsilon in (0.5, math.log(3), 2.0, 3.0):  # randomised response: counts at the kink
            found.append(Points(PureDP(), epsilon, n, n, (1 / (1 + math.exp(epsilon)),)))
    for mu, n in ((4.0, 1000), (5.0, 250), (6.0, 1000)):  # n·Φ(−μ/2) < 50
        found += [Points(GDP(), mu, n, n, (float(ndtr(-mu / 2)), 0.05)), Scored(Shift(mu), n, n)]
    for sides in ((5000, 250), (250, 5000), (2000, 500)):
        found += [Points(GDP(), 0.4548, *sides, FPRS), Scored(Shift(0.4548), *sides), Chosen(Shift(0.4548), *sides)]
    found += [Points(GDP(), 100.0, 1000, 1000, (0.3, 0.0)), Scored(Shift(100.0), 1000, 1000)]  # fully separable
    for sides in ((1000, 0), (0, 1000)):
        found += [Points(GDP(), 1.0, *sides, (0.3,)), Scored(Shift(1.0), *sides)]
    return found


def _pipelines() -> list[Task]:
    return [
        Pipeline("crossfit kfold", protocols.Crossfit(trials=1000, order="kfold")),
        Pipeline("crossfit", protocols.Crossfit(trials=1000)),
        Pipeline("holdout", protocols.Holdout(trials=1250)),
        Pipeline("sequential", protocols.Sequential(budget=1000, first=200, significance=SIGNIFICANCE), 0.4548),
        Pipeline("crossfit", protocols.Crossfit(trials=2000), 0.4548),
    ]


@dataclasses.dataclass(frozen=True)
class Bench:
    """A list of tasks as blocks that a backend can play, each with a seed of its own."""

    tasks: tuple[Task, ...]
    size: Size
    seed: int

    def play(self, number: int) -> list[Row]:
        """The rows of one task, the same wherever and whenever it is played."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(number,)))
        return self.tasks[number].play(rng, self.size)

    def run(self, backend: Backend, watch: Callable[[], None] = lambda: None) -> list[Row]:
        """All rows in the order of the tasks, judged."""
        found: dict[int, list[Row]] = {}
        for number, rows in backend.run(cast(Play, self.play), range(len(self.tasks))):
            found[number] = cast("list[Row]", rows)
            watch()
        return judge([row for number in sorted(found) for row in found[number]])


# --- the table ----------------------------------------------------------------------------------------------------

COLUMNS = (
    "estimator", "notion", "kind", "nominal", "law", "parameter", "absent", "present", "choice", "protocol", "errors",
    "audits", "exceeded", "rate", "low", "high", "mean", "efficiency", "verdict",
)  # fmt: skip


def write(rows: Iterable[Row], path: Path) -> None:
    """The table as CSV.

    Raises:
        AuditError: when it cannot be written.
    """
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(COLUMNS)
            for row in rows:
                values = dataclasses.asdict(row) | dict(zip(("low", "high"), row.interval, strict=True))
                values["rate"] = row.rate
                table.writerow([_text(values[column]) for column in COLUMNS])
    except OSError as error:
        raise AuditError(f"--out {path}: cannot be written ({error.strerror}); name another file") from error


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.5g}"


@functools.lru_cache
def read(*paths: Path) -> tuple[Row, ...]:
    """The rows of tables, of those that ship with the package where none is named; none where a file is missing."""
    rows: list[Row] = []
    for path in paths or (TABLE, ONE_RUN):
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                rows += [_row(line) for line in csv.DictReader(file)]
    return tuple(rows)


def _row(line: dict[str, str]) -> Row:
    made: dict[str, Any] = {}
    for field in dataclasses.fields(Row):
        text = line[field.name]
        read_as = {"int": int, "float": float}.get(str(field.type), str)
        made[field.name] = math.nan if read_as is float and not text else read_as(text)
    return Row(**made)


def look_up(bound: Bound, counts: Counts) -> str:
    """What was measured of bounds like this one, in one sentence; empty where nothing comparable was.

    Comparable cells have the same estimator, notion, kind and significance, expect few errors of a kind where this
    audit does, and have about as many trials.

    Args:
        bound: to be looked up.
        counts: of its test.
    """
    absent, present = counts.fp + counts.tn, counts.fn + counts.tp
    trials, few = min(absent, present), _few(bound, counts) and bound.kind != "finite-sample"
    if not trials:
        return ""
    alike = [row for row in read() if _comparable(row, bound) and row.rare == few]
    if not alike:
        return ""
    far = [abs(math.log(min(row.absent, row.present) / trials)) for row in alike]
    return _sentence([row for row, each in zip(alike, far, strict=True) if each <= min(far) + 1e-9], few)


def _comparable(row: Row, bound: Bound) -> bool:
    same = (row.estimator, row.notion, row.kind) == (bound.estimator, bound.notion.name, bound.kind)
    return same and math.isclose(row.nominal, bound.significance) and min(row.absent, row.present) > 0


def _few(bound: Bound, counts: Counts) -> bool:
    """Whether this audit has few errors of a kind: seen at its threshold, or expected in the middle of the curve."""
    if bound.estimator in AT_ONE_THRESHOLD:
        return min(counts.fp, counts.fn) < FEW
    trials = min(counts.fp + counts.tn, counts.fn + counts.tp)
    return bound.notion.name == "gdp" and trials * float(ndtr(-bound.lower / 2)) < FEW


def _sentence(rows: Sequence[Row], few: bool) -> str:
    worst = max(rows, key=lambda row: row.rate)
    trials, nominal = min(worst.absent, worst.present), f"{100 * worst.nominal:g} %"
    if few and at_least(worst.exceeded, worst.audits, 0.025) > worst.nominal:
        return (
            f"measured to over-claim where fewer than {FEW} errors of a kind are expected: in {100 * worst.rate:.1f} %"
            f" of audits at a nominal {nominal} (worst of {len(rows)} comparable cells, {trials} trials a side)"
        )
    return (
        f"measured: exceeds the truth in {100 * worst.rate:.1f} % of audits at a nominal {nominal}"
        f" (worst of {len(rows)} comparable cells, {trials} trials a side)"
    )


# --- audit coverage ---------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise AuditError(f"coverage: {message}; see audit coverage --help")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _Parser("audit coverage", description="Measure how often each bound exceeds the truth.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the audits on a third of the cells")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    parser.add_argument("--out", type=Path, default=Path("coverage.csv"), help="the table (default: ./coverage.csv)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(list(words))
    if given.workers < 1 or given.seed < 0:
        parser.error("--workers must be 1 or more, --seed 0 or more")
    if not given.out.resolve().parent.is_dir():
        parser.error(f"--out {given.out}: there is no such folder")
    return given


def main(words: Sequence[str] = ()) -> int:
    """Simulate, show a summary, write the table.

    Args:
        words: ``--quick``, ``--workers``, ``--out``, ``--seed``.

    Returns:
        Exit status: 1 where a bound exceeds the truth too often.

    Raises:
        AuditError: wrong words; a table that cannot be written.
    """
    from rich.console import Console
    from rich.progress import Progress

    given = _parse(words)
    chosen = tasks((250, 2000), (0.4548,)) if given.quick else tasks()
    backend: Backend = Serial() if given.workers == 1 else Ray(workers=given.workers)
    start, console = time.perf_counter(), Console()
    with Progress(console=console) as progress:
        bar = progress.add_task("parts of the bench", total=len(chosen))

        def watch() -> None:
            progress.advance(bar)
            done = round(progress.tasks[0].completed)
            if not console.is_terminal and done % 20 == 0:  # a bar is not drawn into a file
                console.print(f"{done} of {len(chosen)} parts, {time.perf_counter() - start:.0f} s")

        rows = Bench(tuple(chosen), QUICK if given.quick else Size(), given.seed).run(backend, watch)
    write(rows, given.out)
    console.print(summary(rows))
    console.print(f"{len(rows)} cells in {given.out}, {time.perf_counter() - start:.0f} s")
    return int(any(row.verdict == "exceeds" for row in rows))


def summary(rows: Sequence[Row]) -> Any:
    """A table with a line for each estimator, notion and significance."""
    from rich.table import Table

    table = Table("estimator", "notion", "kind", "nominal", "cells", "worst rate", "where", "rare cells", "exceeds")
    groups: dict[tuple[str, str, str, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.estimator, row.notion, row.kind, row.nominal), []).append(row)
    for (estimator, notion, kind, nominal), members in groups.items():
        judged = [row for row in members if row.verdict != "rare"]
        rare = [row.rate for row in members if row.verdict == "rare"]
        worst = max(judged, key=lambda row: row.rate, default=members[0])
        where = f"{worst.law} {worst.parameter:.4g}, {worst.absent}+{worst.present}, {worst.choice}, {worst.protocol}"
        table.add_row(
            estimator, notion, kind, f"{100 * nominal:g} %", str(len(judged)), f"{100 * worst.rate:.1f} %", where,
            f"{len(rare)}: ≤ {100 * max(rare):.1f} %" if rare else "", str(sum(r.verdict == "exceeds" for r in members)),
        )  # fmt: skip
    return table
