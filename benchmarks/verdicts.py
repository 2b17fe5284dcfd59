"""How often each word of a verdict is wrong, in simulated audits whose truth is known.

    .venv/bin/python benchmarks/verdicts.py [--audits 1000] [--workers 2] [--seed 0]

An audit is half as many selection trials as test trials, a threshold chosen on them by the
criterion of the claim's notion, and the verdict as `audit.experiment` gives it. Two truths: the
attack reaches the claim exactly, so ``violation``, ``suspicious`` and ``loose`` are wrong; and it
reaches half of it, so ``tight`` is wrong. Intervals are exact (95 %).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from audit.core import (
    Bound,
    Claim,
    Counts,
    Estimator,
    Evidence,
    Fold,
    NotApplicable,
    Scores,
    Strength,
)
from audit.coverage.laws import Law, Response, Shift
from audit.coverage.rows import at_least
from audit.criteria import Advantage, ClaimLower
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.dkw import DKW
from audit.estimators.exact import Exact
from audit.estimators.joint_bayes import joint_bayes
from audit.estimators.power import midpoint
from audit.estimators.whole_score import WholeScore
from audit.judgement.bounds import SUSPICION, with_significance
from audit.judgement.strength import CONFIDENCE, HALF
from audit.judgement.verdict import Findings, judge
from audit.privacy import GDP, ZCDP, ApproximateDP, Notion, PureDP

OTHERS = (ClopperPearson(), Betting(), CurveBetting(), WholeScore(), DKW())
SIZES = (250, 1000, 2500)
CLAIMS: tuple[tuple[Notion, float, str], ...] = (
    (GDP(), 0.4548, "gaussian"), (GDP(), 1.0, "gaussian"), (GDP(), 3.0, "gaussian"),
    (PureDP(), 1.0, "laplace"), (PureDP(), 1.0, "response"), (PureDP(), 3.0, "response"),
    (ApproximateDP(0.01), 1.0, "response"), (ZCDP(), 0.1034, "response"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Cell:
    """One claim, one truth, one size.

    Args:
        truth: share of the claim that the attack reaches, 1 or ½.
        side: test trials a side.
    """

    claim: Claim
    law: str
    truth: float
    side: int

    def scores(self) -> Law:
        parameter = self.truth * self.claim.parameter
        if self.law == "response":
            rate = midpoint(self.claim.notion, parameter)
            return Response(math.log((1 - rate) / rate))
        return Shift(parameter, "normal" if self.law == "gaussian" else "laplace")


def draw(law: Law, rng: np.random.Generator, side: int, first: int) -> Scores:
    index = np.arange(first, first + 2 * side)
    bits = np.arange(2 * side) >= side
    values = np.concatenate([law.draw(rng, side, present=False), law.draw(rng, side, present=True)])
    order = rng.permutation(2 * side)
    return Scores(values[order], bits[order], index, index)


def verdict(cell: Cell, rng: np.random.Generator, significance: float) -> str:
    """The word of one audit. Whether a bound exceeds the claim is looked up in the region of its
    test, which is the same thing (tests/estimators/test_exact.py) and far quicker than the
    bound."""
    law, claim = cell.scores(), cell.claim
    selection, test = draw(law, rng, cell.side // 2, 2 * cell.side), draw(law, rng, cell.side, 0)
    smooth = isinstance(claim.notion, GDP | ZCDP)
    threshold = (Advantage() if smooth else ClaimLower())(selection, claim)
    evidence = Evidence((Fold(np.array([], int), selection, threshold, test),))
    suspicious = exceeds(Exact(significance=SUSPICION / 2), evidence, claim) or any(
        exceeds(with_significance(other, SUSPICION / 2 / len(OTHERS)), evidence, claim)
        for other in OTHERS
    )
    findings = Findings(
        claim=claim,
        accusing=as_bound(
            exceeds(Exact(significance=significance), evidence, claim), claim, significance
        ),
        counts=evidence.counts,
        family=as_bound(suspicious, claim, SUSPICION),
        strength=strength(evidence.counts, claim),
    )
    return judge(findings).word


def exceeds(estimate: Estimator, evidence: Evidence, claim: Claim) -> bool:
    counts = evidence.counts
    if isinstance(estimate, Exact):
        region = estimate.region(
            claim.notion, claim.parameter, counts.fp + counts.tn, counts.fn + counts.tp
        )
        return region.contains(counts.fp, counts.fn)
    if isinstance(estimate, Betting):
        return estimate.rejects(evidence, claim.notion, claim.parameter)
    try:
        return estimate(evidence, claim.notion).lower > claim.parameter
    except NotApplicable:
        return False


def strength(counts: Counts, claim: Claim) -> Strength:
    """As `strength_of`, the lower limit looked up like the tests: only whether it is above half of
    the claim counts."""
    notion, half = claim.notion, HALF * claim.parameter
    region = Exact(significance=1 - CONFIDENCE).region(
        notion, half, counts.fp + counts.tn, counts.fn + counts.tp
    )
    lower = 2 * half if region.contains(counts.fp, counts.fn) else 0.0
    estimate = float(notion.parameter(counts.fpr, counts.fnr))
    upper = math.inf if math.isinf(estimate) else joint_bayes(counts, notion, CONFIDENCE)
    return Strength(estimate, 0.0, lower, upper)


def as_bound(exceeded: bool, claim: Claim, significance: float) -> Bound:
    lower = 2 * claim.parameter if exceeded else 0.0
    return Bound("exact", claim.notion, lower, significance, "finite-sample")


def words(cell: Cell, seed: int, audits: int, significance: float) -> Counter[str]:
    rng = np.random.default_rng(seed)
    return Counter(verdict(cell, rng, significance) for _ in range(audits))


def interval(hits: int, audits: int) -> str:
    low, high = at_least(hits, audits, 0.025), 1 - at_least(audits - hits, audits, 0.025)
    return f"{100 * hits / audits:.1f} ({100 * low:.1f}–{100 * high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=1000, help="of each cell")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--significance", type=float, default=0.01, help="of the test of the claim")
    given = parser.parse_args()
    cells = [
        Cell(Claim(notion, parameter), law, truth, side)
        for (notion, parameter, law), truth, side in itertools.product(CLAIMS, (1.0, 0.5), SIZES)
    ]
    play = partial(words, audits=given.audits, significance=given.significance)
    seeds = [given.seed * 1000 + place for place in range(len(cells))]
    print(
        "| claim | law | truth | tests a side | violation % | suspicious % | loose % | tight % | "
        "inconclusive % |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(given.workers) as pool:
        for cell, found in zip(cells, pool.map(play, cells, seeds), strict=True):
            shares = [
                interval(found[w], given.audits)
                for w in ("violation", "suspicious", "loose", "tight")
            ]
            rest = f"{100 * found['inconclusive'] / given.audits:.1f}"
            row = (
                str(cell.claim),
                cell.law,
                f"{cell.truth:g} × claim",
                str(cell.side),
                *shares,
                rest,
            )
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
