"""Bounds from counts, vectorised: counts at a threshold fixed before they are drawn are
binomial."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from audit import criteria
from audit.core import Array, Counts, Scores
from audit.coverage.laws import Law, Shift, curve_truth, draw_scores
from audit.coverage.rows import ACCUSING, ROUNDING, SIGNIFICANCE, Row, with_efficiency
from audit.criteria import upper_rate
from audit.estimators.exact import Exact
from audit.estimators.joint_bayes import JointBayes, posterior
from audit.privacy import GDP, Notion


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

    P(parameter ≤ m | counts) grows with both errors, so this is the estimator's own decision,
    without its root-finding.

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
        """The largest FN with a bound above the parameter, −1 where there is none; the guess saves
        time."""
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


def first_piece(
    fp: Array, fn: Array, trials: int, notion: Notion, significance: float = SIGNIFICANCE
) -> Array:
    """(k,) whether joint Bayes chooses the first piece of a kinked notion on these selection
    counts.

    Its rule is the larger bound. With as many trials of both classes the pieces are each other's
    mirror images: equal bounds on FP = FN and wherever both are 0, and the first is larger where
    FP < FN.
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
            part = dataclasses.replace(
                drawn, fp=drawn.fp[mine], fn=drawn.fn[mine], truth=drawn.truth[mine]
            )
            answer[mine] = joint_exceeds(part, piece, None, significance)
        return answer
    if len(np.unique(drawn.truth)) <= 1:
        truth = float(drawn.truth[0]) if len(drawn.truth) else 0.0
        return Region(notion, truth, drawn.absent, drawn.present, significance).exceeds(
            drawn.fp, drawn.fn
        )
    triples, place = np.unique(
        np.stack([drawn.fp, drawn.fn, drawn.truth]), axis=1, return_inverse=True
    )
    distinct = dataclasses.replace(drawn, fp=triples[0], fn=triples[1], truth=triples[2])
    masses = [
        posterior(distinct.counts(i), notion)(float(triples[2, i])) for i in range(triples.shape[1])
    ]
    return (np.array(masses) < significance)[place.ravel()]


def joint_mean(drawn: Drawn, notion: Notion, first: Array | None, solved: int) -> float:
    """Mean of the joint Bayesian bound: of Clopper–Pearson's on all audits, plus the difference on
    ``solved`` of them."""
    if not drawn.absent or not drawn.present:
        return 0.0
    base = clopper_pearson(drawn, notion, SIGNIFICANCE)
    estimate, pieces = JointBayes(SIGNIFICANCE), notion.pieces()
    gap = [
        estimate.lower(drawn.counts(i), notion if first is None else pieces[0 if first[i] else 1])
        - base[i]
        for i in range(min(solved, len(base)))
    ]
    return float(np.mean(base) + np.mean(gap))


def exact_row(
    drawn: Drawn, notion: Notion, nominal: float, fill: Callable[..., Row], solved: int
) -> Row:
    """Of `Exact`, where all audits have one truth: those whose counts lie in the region of its test
    at that truth.

    The mean is that of Clopper–Pearson's bound on all audits, plus the difference on ``solved`` of
    them.
    """
    estimate = Exact(nominal)
    base = clopper_pearson(drawn, notion, nominal)
    audits = len(drawn.fp)
    lower = np.array([estimate.lower(drawn.counts(i), notion) for i in range(min(solved, audits))])
    region = estimate.region(notion, float(drawn.truth[0]) + ROUNDING, drawn.absent, drawn.present)
    largest = np.append(region.largest_fn, np.full(drawn.absent + 1 - len(region.largest_fn), -1))
    exceeded = int(np.sum(drawn.fn <= largest[drawn.fp]))
    mean = float(np.mean(base) + np.mean(lower - base[: len(lower)]))
    return fill(
        "exact", kind="finite-sample", nominal=nominal, exceeded=exceeded, mean=mean, audits=audits
    )


@dataclasses.dataclass(frozen=True)
class Size:
    """How many audits are simulated, of bounds from counts and of the others.

    Args:
        counts, scores: in each cell.
        solved: in so many the bound itself is found, for its mean (tenfold for `Curve`); in the
            others only whether it exceeds the truth.
        only: the name of the one estimator whose rows are made, from the same draws; "" for all.
    """

    counts: int = 20_000
    scores: int = 4_000
    solved: int = 100
    only: str = ""


QUICK = Size(counts=2_000, scores=200, solved=10)


@dataclasses.dataclass(frozen=True)
class Points:
    """Thresholds fixed before the data, on the notion's own curve at ``parameter``: the worst that
    it allows.

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
        """Clopper–Pearson and exact at both significances, and joint Bayes, a row each and
        threshold."""
        rows = []
        for fpr in self.fprs:
            fnr = float(self.notion.beta(fpr, self.parameter))
            drawn = self._draw(rng, fpr, fnr, size.counts)
            kinked = len(self.notion.pieces()) > 1
            first = self._first(rng, fpr, fnr, size.counts) if kinked else None
            choice = "fpr=fnr" if math.isclose(fpr, fnr, rel_tol=1e-6) else f"fpr={fpr:g}"
            law = "null" if self.parameter == 0 else "curve"
            rows += count_rows(
                drawn,
                self.notion,
                first,
                law,
                choice,
                min(self.absent * fpr, self.present * fnr),
                size,
            )
        return rows

    def _draw(self, rng: np.random.Generator, fpr: float, fnr: float, audits: int) -> Drawn:
        fp, fn = rng.binomial(self.absent, fpr, audits), rng.binomial(self.present, fnr, audits)
        return Drawn(fp, fn, np.full(audits, self.parameter), self.absent, self.present)

    def _first(self, rng: np.random.Generator, fpr: float, fnr: float, audits: int) -> Array:
        assert self.absent == self.present, "the pieces are mirror images for equal classes only"
        trials = self.absent // 2
        return first_piece(
            rng.binomial(trials, fpr, audits),
            rng.binomial(trials, fnr, audits),
            trials,
            self.notion,
        )


def count_rows(
    drawn: Drawn,
    notion: Notion,
    first: Array | None,
    law: str,
    choice: str,
    errors: float,
    size: Size,
) -> list[Row]:
    """A row for each bound that reads counts."""
    truth = float(drawn.truth[0]) if len(np.unique(drawn.truth)) == 1 else math.nan
    fill = functools.partial(
        Row,
        notion=notion.name,
        law=law,
        parameter=truth,
        absent=drawn.absent,
        present=drawn.present,
        choice=choice,
        protocol="holdout",
        errors=errors,
    )
    made = []
    # where the truth differs from audit to audit, each needs a bound of its own: minutes for a rate
    # that says little
    if size.only in ("", "exact") and not math.isnan(truth):
        made = [
            exact_row(drawn, notion, nominal, fill, size.solved)
            for nominal in (SIGNIFICANCE, ACCUSING)
        ]
    return [
        with_efficiency(row)
        for row in (*(others(drawn, notion, first, fill, size) if not size.only else ()), *made)
    ]


def others(
    drawn: Drawn, notion: Notion, first: Array | None, fill: Callable[..., Row], size: Size
) -> list[Row]:
    """Clopper–Pearson at both significances, and joint Bayes."""
    fill = functools.partial(fill, audits=len(drawn.fp))
    rows = []
    for nominal in (SIGNIFICANCE, ACCUSING):
        lower = clopper_pearson(drawn, notion, nominal)
        exceeded = int(np.sum(lower > drawn.truth + ROUNDING))
        rows.append(
            fill(
                "clopper_pearson",
                kind="finite-sample",
                nominal=nominal,
                exceeded=exceeded,
                mean=float(lower.mean()),
            )
        )
    exceeded = int(np.sum(joint_exceeds(drawn, notion, first)))
    mean = joint_mean(drawn, notion, first, size.solved)
    rows.append(
        fill("joint_bayes", kind="Bayesian", nominal=SIGNIFICANCE, exceeded=exceeded, mean=mean)
    )
    return rows


CRITERIA: dict[str, Callable[[Scores], float]] = {
    "advantage": criteria.Advantage(),
    "mu_hat": criteria.MuHat(),
    "mu_lower": criteria.MuLower(),
}


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Thresholds chosen on half as many selection scores, then counts, binomial given the
    threshold.

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
        """Clopper–Pearson and exact at both significances, and joint Bayes, a row each and
        criterion; in μ."""
        chosen: dict[str, list[float]] = {name: [] for name in self.names}
        for _ in range(size.counts):
            selection = draw_scores(self.law, rng, self.absent // 2, self.present // 2)
            for name in self.names:
                chosen[name].append(CRITERIA[name](selection))
        rows = []
        for name, thresholds in chosen.items():
            fpr, fnr = self.law.rates(np.array(thresholds))
            gaussian = (
                isinstance(self.law, Shift) and self.law.base == "normal" and not self.law.step
            )
            truth = (
                curve_truth(self.law, GDP()) * np.ones(len(fpr))
                if gaussian
                else GDP().parameter(fpr, fnr)
            )
            drawn = Drawn(
                rng.binomial(self.absent, fpr),
                rng.binomial(self.present, fnr),
                truth,
                self.absent,
                self.present,
            )
            errors = float(min(np.mean(self.absent * fpr), np.mean(self.present * fnr)))
            rows += count_rows(drawn, GDP(), None, str(self.law), name, errors, size)
        return rows
