"""How often estimator=ex_post accuses true reports, and how often it catches false ones.

python benchmarks/expost.py [--seeds 200] [--trials 3000] [--broken-seeds 10] [--broken-trials
40000]

White box: attacker=likelihood_ratio. Black box: attacker=logistic on all that an insider sees
(xgboost of depth 3 where the raw data decide when to stop, since that leak is no sum over columns).
Everything is played afresh, nothing is cached.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.stats import beta

from audit.accountants import ExPostRDP
from audit.attackers import LikelihoodRatio, Logistic, XGBoost
from audit.canaries.worst_case import WorstCase
from audit.core import Array, Challenge, Trials
from audit.criteria import Advantage
from audit.estimators.ex_post import ExPost
from audit.features import Hybrid
from audit.game import Game
from audit.mechanisms.broken.brownian import (
    FreshNoise,
    PreviousStep,
    StopsOnRawData,
    ValidationOnly,
)
from audit.mechanisms.brownian import Brownian
from audit.mechanisms.laplace_reduction import LaplaceReduction
from audit.mechanisms.train_and_check import TrainAndCheck
from audit.protocols import Holdout

NOMINAL = 0.05


class Stream:
    """Trials of one seed, all at once."""

    limit = None

    def __init__(self, game: Game) -> None:
        self.game = game

    def trials(self, first: int, count: int) -> Trials:
        blocks = range(-(-(first + count) // self.game.mechanism.block))
        return Trials.concatenate([self.game.play(block) for block in blocks])[
            first : first + count
        ]


def bounds(mechanism, attacker, seeds: int, trials: int, challenge: Challenge) -> Array:
    """(seeds,) lower bounds on how far reports are too low."""
    claim, found = mechanism.claims[0], []
    assert isinstance(claim.notion, ExPostRDP)
    for seed in range(seeds):
        stream = Stream(Game(mechanism, challenge, Hybrid(), seed))
        evidence = Holdout(trials=trials)(stream, attacker, Advantage(), claim)
        found.append(ExPost(significance=NOMINAL)(evidence, claim.notion).lower)
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (
        ("seeds", 200),
        ("trials", 3000),
        ("broken-seeds", 10),
        ("broken-trials", 40_000),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    black, trees = Logistic(), XGBoost(max_depth=3, colsample_bytree=1.0)
    rows = [
        (m, a, given.seeds, given.trials)
        for m in (Brownian(), LaplaceReduction(), TrainAndCheck())
        for a in (LikelihoodRatio(), black)
    ]
    for broken in (FreshNoise(), PreviousStep(), ValidationOnly()):
        rows += [
            (broken, a, given.broken_seeds, given.broken_trials) for a in (LikelihoodRatio(), black)
        ]
    rows.append((StopsOnRawData(), trees, given.broken_seeds, given.broken_trials))
    print(f"nominal {NOMINAL:.0%}; s: mean lower bound on how far reported ε are too low\n")
    print("| mechanism | attacker | trials | accused | 95 % interval | mean s | seconds an audit |")
    print("|---|---|---|---|---|---|---|")
    for mechanism, attacker, seeds, trials in rows:
        start = time.perf_counter()
        lower = bounds(mechanism, attacker, seeds, trials, WorstCase())
        hit = int(np.sum(lower > 0))
        low = beta.ppf(0.025, hit, seeds - hit + 1) if hit else 0.0
        high = beta.ppf(0.975, hit + 1, seeds - hit) if hit < seeds else 1.0
        cells = [
            type(mechanism).__name__,
            type(attacker).__name__,
            f"{trials:,}",
            f"{hit} of {seeds}",
        ]
        cells += [
            f"{low:.1%}–{high:.1%}",
            f"{lower.mean():.3f}",
            f"{(time.perf_counter() - start) / seeds:.1f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
