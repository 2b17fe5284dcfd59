"""DP-SGD audited in one run: theoretical ε against audited ε, and against many runs at equal
compute.

.venv/bin/python benchmarks/one_run.py            about five minutes on two cores
.venv/bin/python benchmarks/one_run.py twins      broken ones, by many runs and by one
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np

from audit.canaries.planted import Planted
from audit.core import Counts
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.one_run import OneRun
from audit.estimators.one_run_betting import OneRunBetting
from audit.estimators.one_run_fdp import OneRunFDP
from audit.mechanisms.broken.dp_sgd import (
    ConstantNoise,
    DPSGDLessNoise,
    ForgottenEpochs,
    ShuffledBatches,
    SumClipped,
)
from audit.mechanisms.dp_sgd import DPSGD
from audit.privacy import ApproximateDP
from audit.protocols import middle

DELTA, SIGNIFICANCE, SEEDS = 1e-5, 0.05, 5
NOTION = ApproximateDP(DELTA)
MODELS = [("logistic, 650 weights", 0), ("one hidden layer of 32, 2,410 weights", 32)]
CANARIES = [("dirac", 600), ("mislabelled", 1000)]
ESTIMATORS = (OneRun(SIGNIFICANCE), OneRunBetting(SIGNIFICANCE), OneRunFDP(SIGNIFICANCE))


def right(values, bits):
    """(m,) whether guesses are right, the surest first, as protocol=one_run makes them."""
    away = values - middle(values)
    return ((away >= 0) == bits)[np.argsort(-np.abs(away), kind="stable")]


def trained(mechanism, challenge, seed):
    """One training: what is seen of its canaries, and their bits."""
    bits = np.random.default_rng((seed, 0)).random(challenge.count) < 0.5
    seen = mechanism.release(
        challenge.data(list(bits)), 1, np.random.default_rng((seed, 1))
    ).of_canaries()
    inner, ratio = seen.insider().values.T
    return {
        "white box, sum": inner,
        "white box, ratio": ratio,
        "black box, loss": seen.public().values[:, 0],
    }, bits


def one_run():
    print(
        "| model | canaries | theoretical ε | score | one_run | one_run_betting | one_run_fdp "
        "(Gaussian) | trainings |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for model, hidden in MODELS:
        for kind, count in CANARIES:
            challenge = Planted(kind=kind, dataset="digits", count=count)
            for eps in (1.0, 2.0, 4.0, 8.0, 16.0):
                mechanism = DPSGD(eps=eps, delta=DELTA, hidden=hidden)
                runs = [trained(mechanism, challenge, seed) for seed in range(SEEDS)]
                for score in runs[0][0]:
                    if kind == "dirac" and score.startswith("black"):
                        continue  # they have no loss
                    bounds = [
                        [e.lower(right(s[score], bits), NOTION) for e in ESTIMATORS]
                        for s, bits in runs
                    ]
                    means = " | ".join(f"{value:.2f}" for value in np.mean(bounds, axis=0))
                    print(
                        f"| {model} | {count} {kind} | {eps:g} | {score} | {means} | 1 |",
                        flush=True,
                    )


def many_runs():
    """The exact likelihood ratio of one Dirac canary; half of the trainings choose the
    threshold."""
    print("\n| theoretical ε | trainings | Clopper–Pearson | seconds |\n|---|---|---|---|")
    challenge, estimate = Planted(kind="dirac", dataset="digits"), ClopperPearson(SIGNIFICANCE)
    for eps in (4.0, 8.0):
        mechanism = DPSGD(eps=eps, delta=DELTA)
        start, scores = time.perf_counter(), []
        for bit in (False, True):
            data = challenge.data([bit])
            parts = [
                mechanism.release(data, 50, np.random.default_rng((9, bit, i))) for i in range(20)
            ]
            scores.append(np.concatenate([part.log_ratio(data, data) for part in parts]))
        seconds = (time.perf_counter() - start) / 2000
        for trainings in (20, 100, 500, 2000):
            half = trainings // 4
            bounds = []
            for first in range(0, 1000 - 2 * half + 1, max(2 * half, 100)):
                absent, present = (side[first : first + 2 * half] for side in scores)
                bounds.append(_holdout(estimate, absent, present, half))
            print(
                f"| {eps:g} | {trainings} | {np.mean(bounds):.2f} | {seconds * trainings:.1f} |",
                flush=True,
            )


def _holdout(estimate, absent, present, half):
    places = np.unique(
        np.quantile(np.concatenate([absent[:half], present[:half]]), np.linspace(0, 1, 100))
    )
    at = max(
        places, key=lambda t: estimate.lower(_counts(absent[:half], present[:half], t), NOTION)
    )
    return estimate.lower(_counts(absent[half:], present[half:], at), NOTION)


def _counts(absent, present, at):
    fp, tp = int(np.sum(absent >= at)), int(np.sum(present >= at))
    return Counts(fp, len(absent) - fp, len(present) - tp, tp)


def seconds():
    print("\n| one training with its bounds | seconds, compiling included |\n|---|---|")
    for (model, hidden), (kind, count) in zip(MODELS, CANARIES[::-1], strict=True):
        start = time.perf_counter()
        scores, bits = trained(
            DPSGD(eps=3.0, delta=DELTA, hidden=hidden),
            Planted(kind=kind, dataset="digits", count=count),
            0,
        )
        for estimate in ESTIMATORS:
            estimate.lower(right(scores["white box, sum"], bits), NOTION)
        print(f"| {model}, {count} {kind} | {time.perf_counter() - start:.1f} |", flush=True)


TWINS = {
    "none: honest": DPSGD,
    "noise divided by the batch size twice": partial(DPSGDLessNoise, noise_fraction=0.0175),
    "clipping of the sum": SumClipped,
    "shuffled batches accounted as Poisson, one epoch": partial(ShuffledBatches, epochs=1),
    "noise with a constant key": ConstantNoise,
    "accountant off by one epoch of two": partial(ForgottenEpochs, epochs=2, forgotten_epochs=1),
}


def twins():
    """Many runs at (0.1, 0.5) with 2,000 test trainings a side; one run at (2, 1e-5) with 600
    canaries; both at 1 %."""
    print(
        "\n| bug | δ(0.1) in the test | many runs, 0.1 claimed | one run, 2 claimed: ratio | sum |"
    )
    print("|---|---|---|---|---|")
    single, many = (
        Planted(kind="dirac", rows=100),
        Planted(kind="dirac", dataset="digits", count=600),
    )
    notion, half = ApproximateDP(0.5), 2000
    for bug, make in TWINS.items():
        mechanism, scores = make(eps=0.1, delta=0.5), []
        for bit in (False, True):
            data = single.data([bit])
            parts = [
                mechanism.release(data, 500, np.random.default_rng((7, bit, i))) for i in range(8)
            ]
            scores.append(np.concatenate([part.log_ratio(data, data) for part in parts]))
        absent, present = scores
        places = np.quantile(
            np.concatenate([absent[:half], present[:half]]), np.linspace(0.02, 0.98, 97)
        )
        at = max(places, key=lambda t: np.mean(present[:half] >= t) - np.mean(absent[:half] >= t))
        counts = _counts(absent[half:], present[half:], at)
        reached = counts.tp / half - np.exp(0.1) * counts.fp / half
        found = ClopperPearson(0.01).lower(counts, notion)
        seen, bits = trained(make(eps=2.0, delta=DELTA), many, 0)
        ones = [
            OneRun(0.01).lower(right(seen[f"white box, {name}"], bits), NOTION)
            for name in ("ratio", "sum")
        ]
        print(
            f"| {bug} | {reached:.3f} | {found:.2f} | {ones[0]:.2f} | {ones[1]:.2f} |", flush=True
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["twins"]:
        twins()
    else:
        seconds()
        one_run()
        many_runs()
