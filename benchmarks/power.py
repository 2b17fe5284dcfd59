"""Trials a side for power 0.8, and whether what is said to be detectable is detected four times in
five.

python benchmarks/power.py              both tables
python benchmarks/power.py --trials     trials a side with Clopper–Pearson and with the exact bound
python benchmarks/power.py --said       4,000 simulated audits a cell at what is said to be
detectable
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy.special import ndtr

from audit.core import Counts
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.exact import Exact
from audit.estimators.power import Point, detectable, midpoint, power, trials_needed
from audit.privacy import GDP, ZCDP, ApproximateDP, Notion, PureDP

LEVEL = 0.01
AUDITS = 4000


def laplace(delta: float = 0.0) -> Point:
    """The worst threshold of a Laplace mechanism of ε."""
    return lambda eps: ((1 - delta) / 2 * math.exp(-eps), (1 - delta) / 2)


def gaussian(mu: float) -> Point:
    """The middle of a Gaussian shift, whatever the claim."""
    return lambda _: (float(ndtr(-mu / 2)),) * 2


def rates(fpr: float, fnr: float) -> Point:
    """A leak with these rates."""
    return lambda _: (fpr, fnr)


CASES: tuple[tuple[str, Notion, float, Point | None], ...] = (
    *((f"GDP {c:g}", GDP(), c, None) for c in (0.4548, 1.0, 2.0, 3.0)),
    ("zCDP 0.1034, two-valued", ZCDP(), 0.1034, None),
    ("zCDP 0.1034, Gaussian of 2 × the μ", ZCDP(), 0.1034, gaussian(2 * 0.4548)),
    *((f"pure {c:g}, randomised response", PureDP(), c, None) for c in (1.0, 2.0)),
    *((f"pure {c:g}, Laplace", PureDP(), c, laplace()) for c in (1.0, 2.0)),
    ("(1, 0.01), randomised response", ApproximateDP(0.01), 1.0, None),
    ("(1, 0.01), Laplace", ApproximateDP(0.01), 1.0, laplace(0.01)),
    ("(4, 1e-5), randomised response", ApproximateDP(1e-5), 4.0, None),
    *(
        (f"{n.name}, event of 0 against 0.02", n, c, rates(0.0, 0.98))
        for n, c in ((GDP(), 0.4548), (PureDP(), 1.0))
    ),
    *(
        (f"{n.name}, event of 0 against 0.5", n, c, rates(0.0, 0.5))
        for n, c in ((GDP(), 0.4548), (PureDP(), 1.0))
    ),
)


def trials() -> None:
    """Trials a side, before and after."""
    print(f"trials a side for power 0.8 at {LEVEL:.0%}, truth 1.25 × the claim unless said")
    print("| case | Clopper–Pearson | exact | ratio |\n|---|---|---|---|")
    for name, notion, claim, point in CASES:
        before, after = (
            trials_needed(estimate, notion, claim, point=point)
            for estimate in (ClopperPearson(significance=LEVEL), Exact(LEVEL))
        )
        print(f"| {name} | {before:,.0f} | {after:,.0f} | {after / before:.2f} |", flush=True)
    middle = (midpoint(GDP(), 1.25 * 0.4548),) * 2
    for sides in ((1570, 6280), (6280, 1570)):
        reached = [
            power(estimate, GDP(), 0.4548, *middle, *sides)
            for estimate in (ClopperPearson(significance=LEVEL), Exact(LEVEL))
        ]
        print(
            f"| GDP 0.4548, {sides[0]:,} and {sides[1]:,} | power {reached[0]:.2f} | power "
            f"{reached[1]:.2f} | |"
        )


def said() -> None:
    """Simulated power at what is said to be detectable, by the bound itself on the counts of each
    audit."""
    print(f"power over {AUDITS:,} audits at what is said to be detectable at {LEVEL:.0%} with 0.8")
    print("| notion, claim | trials a side | detectable | power | seconds |\n|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    cells = ((GDP(), 0.4548), (ZCDP(), 0.1034), (PureDP(), 1.0), (ApproximateDP(0.01), 1.0))
    for notion, claim in cells:
        for side in (250, 1000, 4000):
            start = time.perf_counter()
            truth = detectable(Exact(LEVEL), notion, claim, side, side)
            found = simulated(notion, claim, midpoint(notion, truth), side, rng)
            spent = time.perf_counter() - start
            print(
                f"| {notion.label(claim)} | {side:,} | {truth:.4f} | {found:.3f} | {spent:.0f} |",
                flush=True,
            )


def simulated(
    notion: Notion, claim: float, rate: float, side: int, rng: np.random.Generator
) -> float:
    """Share of audits whose bound exceeds the claim.

    The bound falls in both errors: a table with no more errors of either kind than one whose bound
    is above is above too, and one with no fewer than one whose bound is not is not. So few bounds
    have to be found.
    """
    fp, fn = rng.binomial(side, rate, (2, AUDITS))
    above, known = np.zeros(AUDITS, bool), np.zeros(AUDITS, bool)
    while not known.all():
        place = int(rng.choice(np.flatnonzero(~known)))
        counts = Counts(
            int(fp[place]), side - int(fp[place]), int(fn[place]), side - int(fn[place])
        )
        if Exact(LEVEL).lower(counts, notion) > claim:
            alike = (fp <= fp[place]) & (fn <= fn[place])
            above |= alike
        else:
            alike = (fp >= fp[place]) & (fn >= fn[place])
        known |= alike
    return float(np.mean(above))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", action="store_true")
    parser.add_argument("--said", action="store_true")
    given = parser.parse_args()
    if given.trials or not given.said:
        trials()
    if given.said or not given.trials:
        said()
