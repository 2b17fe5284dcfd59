"""What a bound costs, beside Microsoft's joint beta on the same counts.

    python benchmarks/bounds.py              ours, and theirs in an environment that is made for it
    python benchmarks/bounds.py --no-rival   ours only

Each time is the least of three. privacy-estimates 0.1.0.post1 gives a two-sided interval at
``alpha``; its lower end is compared with ours at alpha/2. Its region has an upper side too, so near
chance the two differ by convention.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from audit.core import Counts, Evidence, Fold, Scores
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve import Curve
from audit.estimators.curve_betting import CurveBetting
from audit.estimators.dkw import DKW
from audit.estimators.exact import Exact, _lower
from audit.estimators.joint_bayes import JointBayes, joint_bayes
from audit.privacy import GDP, ZCDP, ApproximateDP, Notion, PureDP

RIVAL = "privacy-estimates==0.1.0.post1"
DELTA = 1e-5
COMPARED = (
    Counts(fp=250, tn=2250, fn=500, tp=2000),
    Counts(fp=0, tn=100, fn=0, tp=100),
    Counts(fp=512, tn=1, fn=0, tp=487),
    Counts(fp=949, tn=1051, fn=743, tp=1257),
    Counts(fp=0, tn=5000, fn=2500, tp=2500),
    Counts(fp=20_000, tn=80_000, fn=30_000, tp=70_000),
    Counts(fp=10**6, tn=9 * 10**6, fn=3 * 10**6, tp=7 * 10**6),
)


def least(call: Callable[[], object], times: int = 3) -> tuple[float, object]:
    """Milliseconds, and what came out."""
    best, value = float("inf"), None
    for _ in range(times):
        start = time.perf_counter()
        value = call()
        best = min(best, time.perf_counter() - start)
    return 1e3 * best, value


def grid() -> list[Counts]:
    """Corners, edges and insides, balanced and not, up to 1e7 a side."""
    found = []
    for absent, present in itertools.product((10, 1000, 10**5, 10**7), repeat=2):
        for a, b in itertools.product((0, 0.001, 0.05, 0.3, 0.5, 0.95, 1), repeat=2):
            fp, fn = int(a * absent), int(b * present)
            found.append(Counts(fp, absent - fp, fn, present - fn))
    return found


def evidence(counts: Counts) -> Evidence:
    """Selection and test trials with these counts, as few scores as say so."""
    return scored(
        np.repeat([1.0, 0.0, 0.0, 1.0], [counts.fp, counts.tn, counts.fn, counts.tp]),
        counts.fp + counts.tn,
    )


def scored(values: np.ndarray, absent: int) -> Evidence:
    """The same scores as selection and as test trials: only the time counts here."""
    index = np.arange(len(values))
    bits = index >= absent
    selection = Scores(values, bits, index + len(values), index + len(values))
    return Evidence((Fold(np.array([], int), selection, 0.5, Scores(values, bits, index, index)),))


def exact(counts: Counts, notion: Notion) -> float:
    """A bound that was not asked for before: what is kept of earlier ones is thrown away."""
    _lower.cache_clear()
    return Exact(0.1).lower(counts, notion)


def from_counts() -> None:
    print(f"bounds from counts, {len(grid())} confusion tables with 10 to 1e7 trials a side; ms")
    print(f"{'estimator':<18}{'notion':<14}{'median':>8}{'worst':>8}")
    notions: tuple[Notion, ...] = (GDP(), ApproximateDP(0.01), PureDP(), ZCDP())
    for notion in notions:
        ours = {
            "exact": lambda c, n=notion: exact(c, n),
            "clopper_pearson": lambda c, n=notion: ClopperPearson(0.1).lower(c, n),
            # of a kinked family one piece is chosen and used, as the estimator does
            "joint_bayes": lambda c, n=notion: joint_bayes(
                c, n.pieces()[int(c.fp > c.fn)] if n.pieces()[1:] else n
            ),
        }
        for name, bound in ours.items():
            times = [least(lambda c=c, b=bound: b(c))[0] for c in grid()]
            print(f"{name:<18}{notion.name:<14}{np.median(times):>8.2f}{max(times):>8.2f}")


def from_scores() -> None:
    print("\nbounds from 10,000 test scores, N(0, 1) against N(μ, 1); ms at μ = 0.4548, 1, 3")
    rng = np.random.default_rng(0)
    for estimate in (Curve(), CurveBetting(), DKW(), Betting(), JointBayes(), ClopperPearson()):
        line = [estimate.name]
        for mu in (0.4548, 1.0, 3.0):
            seen = scored(np.concatenate([rng.normal(size=5000), rng.normal(size=5000) + mu]), 5000)
            line.append(f"{least(lambda e=estimate, s=seen: e(s, GDP()))[0]:.1f}")
        print(f"{line[0]:<18}" + "".join(f"{each:>8}" for each in line[1:]))


THEIRS = """
import json, sys, time
import privacy_estimates as p
for fp, tn, fn, tp in json.loads(sys.argv[1]):
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        try:
            counts = p.AttackResults(FN=fn, FP=fp, TN=tn, TP=tp)
            low, high = p.compute_eps_lo_hi(counts, float(sys.argv[2]), 0.1, "joint-beta")
        except Exception as error:
            low = type(error).__name__
        best = min(best, time.perf_counter() - start)
        if best > 2: break
    print(json.dumps([1e3 * best, low]), flush=True)
"""


def rival() -> list[tuple[float, object]]:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", RIVAL],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        tables = json.dumps([[c.fp, c.tn, c.fn, c.tp] for c in COMPARED])
        words = [python, "-W", "ignore", "-c", THEIRS, tables, str(DELTA)]
        run = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    return [tuple(json.loads(line)) for line in run.stdout.splitlines() if line.startswith("[")]


def compared() -> None:
    print(f"\nε at δ={DELTA:g}, lower end of a 90 % interval, beside {RIVAL} (joint-beta)")
    theirs = rival()
    print(
        f"{'fp':>9}{'tn':>9}{'fn':>9}{'tp':>9}{'ours':>10}{'ms':>8}{'theirs':>12}{'ms':>10}{'ratio':>8}"
    )
    for place, c in enumerate(COMPARED):
        ms, value = least(lambda c=c: joint_bayes(c, ApproximateDP(DELTA), 0.05))
        their_ms, their_value = (
            theirs[place] if place < len(theirs) else (float("nan"), "no answer")
        )
        told = f"{their_value:.4f}" if isinstance(their_value, float) else str(their_value)
        print(
            f"{c.fp:>9}{c.tn:>9}{c.fn:>9}{c.tp:>9}{value:>10.4f}{ms:>8.2f}"
            f"{told:>12}{their_ms:>10.1f}{their_ms / ms:>8.0f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-rival", action="store_true", help="ours only")
    given = parser.parse_args(sys.argv[1:])
    from_counts()
    from_scores()
    if not given.no_rival:
        compared()
