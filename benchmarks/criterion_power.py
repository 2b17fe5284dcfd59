"""How often a leak of 1.25 × the claim is found, by the criterion that chooses the threshold: a row
a notion.

    python benchmarks/criterion_power.py [audits]

Scores are exact likelihood ratios. The threshold is chosen on half as many trials as are tested;
the claim is tested by `exact` at 1 %, in the claim's own notion.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from audit.core import Claim, Evidence, Fold, Scores
from audit.criteria import Advantage, ByNotion, ClaimLower
from audit.estimators.exact import Exact
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP

RATIO = 1.25


def laplace(eps, n, rng):
    """Likelihood ratios of a Laplace mechanism at ε, clipped at ±ε as they are."""
    absent, present = rng.laplace(size=n) / eps, 1 + rng.laplace(size=n) / eps
    return tuple(eps * (np.abs(x) - np.abs(x - 1)) for x in (absent, present))


def gaussian(mu, n, rng):
    """Scores of a Gaussian shift."""
    return rng.normal(size=n), rng.normal(mu, size=n)


CASES = {  # the claim, its law, the law's parameter at 1.25 × the claim, test trials a side
    "pure 1, Laplace": (Claim(PureDP(), 1.0), laplace, RATIO, 2500),
    "(1, 1e-5), Laplace": (Claim(ApproximateDP(1e-5), 1.0), laplace, RATIO, 2500),
    "GDP 0.4548, Gaussian": (Claim(GDP(), 0.4548), gaussian, RATIO * 0.4548, 5085),
    "zCDP 0.1034, Gaussian at twice the μ": (
        Claim(ZCDP(), 0.1034),
        gaussian,
        2 * math.sqrt(2 * 0.1034),
        608,
    ),
}


def scores(law, parameter, n, rng, first=0):
    """n independent trials a side, whose places in the stream begin at ``first``."""
    absent, present = law(parameter, n, rng)
    index = np.arange(2 * n)
    return Scores(np.concatenate([absent, present]), index >= n, first + index, first + index)


def power(case, criterion, audits, seed=0):
    """Share of ``audits`` whose bound exceeds the claim."""
    claim, law, parameter, n = CASES[case]
    rng, test_of_claim, rejected = np.random.default_rng(seed), Exact(significance=0.01), 0
    for _ in range(audits):
        selection, test = (
            scores(law, parameter, n // 2, rng),
            scores(law, parameter, n, rng, first=n),
        )
        fold = Fold(np.array([], int), selection, criterion(selection, claim), test)
        rejected += test_of_claim.rejects(Evidence((fold,)), claim.notion, claim.parameter)
    return rejected / audits


if __name__ == "__main__":
    audits = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(
        "| claim and law | tests a side | `advantage` | `claim_lower` | by default |\n"
        "|---|---|---|---|---|"
    )
    for case, (_, _, _, n) in CASES.items():
        found = [
            power(case, criterion, audits) for criterion in (Advantage(), ClaimLower(), ByNotion())
        ]
        print(f"| {case} | {n:,} | {' | '.join(f'{share:.2f}' for share in found)} |")
