"""Fits the constants of `audit.cost`, and checks them on two commands that they were not fitted on.

.venv/bin/python benchmarks/cost.py [--check]

Everything but Ray is fitted in seconds of processor time, so that it may be run where others work
too; on an idle machine that is the time that passes, with which it is compared. With --check
nothing is fitted.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from watched import Taken, command, peak

from audit import attackers, cost
from audit.canaries.worst_case import WorstCase
from audit.core import Trials
from audit.features import Hybrid, WhiteBox
from audit.game import WORK, Cache, Game, Ray, carried, start_ray
from audit.mechanisms.aim import AIM
from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.gaussian import Gaussian
from audit.mechanisms.mst import MST

CONSTANTS = Path(cost.__file__).with_name("cost.csv")
LEARNERS = ("Logistic", "XGBoost", "GradientBoosting", "RandomForest")
QUICK = [
    "mechanism=gaussian",
    "features=white_box",
    "attacker=likelihood_ratio",
    "protocol=crossfit",
    "estimator=curve",
    "backend=serial",
]
UNSEEN = {
    "complete AIM, hybrid, logistic, 20,000 trials, two Ray workers": (
        ["mechanism=aim", "attacker=logistic", "trials=20000", "backend=ray", "backend.workers=2"],
        cost.Work(
            "AIM Hybrid", 20_000, AIM(1, 0.01).block, "Logistic", 8000, 8000, workers=2, ray=True
        ),
    ),
    "complete MST, white box, likelihood ratio, crossfit, curve, 200,000 trials": (
        [
            "mechanism=mst",
            "features=white_box",
            "attacker=likelihood_ratio",
            "protocol=crossfit",
            "estimator=curve",
            "trials=200000",
            "backend=serial",
        ],
        cost.Work("MST WhiteBox", 200_000, MST(1, 0.01).block, "LikelihoodRatio", 0, 190_000),
    ),
}
"""Commands that no constant was fitted on; they were chosen before the constants were."""


def processor(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def whole(words: list[str]) -> Taken:
    """What a command takes in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        return command(folder, words)


Constants = tuple[float, float, float, float]


def alone(name: str) -> Constants:
    """A part's constants, measured in a process of its own: what has to be imported and compiled is
    in it."""
    words = [sys.executable, __file__, "--part", name]
    out = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    fixed, each, once, width = map(float, out.split())
    return fixed, each, once, width


MECHANISMS = {make.__name__: make for make in (Gaussian, FixedMarginals, MST, AIM)}
FEATURES = {make.__name__: make for make in (WhiteBox, Hybrid)}


def trials(mechanism: str, features: str) -> Constants:
    before = peak()
    game = carried(
        Game(MECHANISMS[mechanism](eps=1, delta=0.01), WorstCase(), FEATURES[features](), 0)
    )
    first = processor(lambda: game.play(0))
    many = max(4, 2000 // game.mechanism.block)
    again = np.median([processor(lambda b=b: game.play(b)) for b in range(1, 1 + many)])
    part = game.play(0)
    width = sum(
        a.nbytes for a in (part.rows, part.bits, part.index, part.run, part.log_ratio)
    ) / len(part)
    return max(0.0, first - again), again / len(part), peak() - before, width


def block() -> Constants:
    game = Game(FixedMarginals(eps=1, delta=0.01), WorstCase(), WhiteBox(), 0)
    part = game.play(0)
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder), game)
        return 0.0, processor(lambda: [cache.save(b, part) for b in range(200)]) / 200, 0.0, 0.0


def attack(name: str) -> Constants:
    """On rows of 18 columns."""
    game = Game(FixedMarginals(eps=1, delta=0.01, degree=2), WorstCase(), WhiteBox(), 0)
    rows = Trials.concatenate([game.play(b) for b in range(20)])
    make, before = getattr(attackers, name), peak()
    first, few, many = (
        processor(lambda n=n: make()(rows[:n])(rows[:n])) for n in (100, 2000, 20_000)
    )
    each = max(0.0, (many - few) / 18_000)
    return max(0.0, first - 100 * each), each, peak() - before, 0.0


def ray() -> dict[str, Constants]:
    """In seconds that pass: Ray's start is mostly waiting."""
    import psutil

    begun = time.perf_counter()
    library = start_ray(None, 2)
    game = carried(Game(MST(eps=1, delta=0.01), WorstCase(), Hybrid(), 0))
    started = time.perf_counter() - begun
    list(Ray(workers=2).run(game.play, range(8)))
    workers = [
        p for p in psutil.process_iter(["cmdline"]) if "ray::" in " ".join(p.info["cmdline"] or [])
    ]
    used = max(p.memory_info().rss for p in workers)
    load, size = library.remote(lambda n: np.zeros(n)), 10**6
    library.get(load.remote(size))
    begun = time.perf_counter()
    for _ in range(10):
        library.get(load.remote(size)).sum()
    return {
        "ray": (started, 0.0, used, 0.0),
        "sent": (0.0, (time.perf_counter() - begun) / 10 / (8 * size), 0.0, 0.0),
    }


def fit() -> None:
    found = {f"trials {m} {f}": alone(f"{m} {f}") for m in MECHANISMS for f in FEATURES}
    found |= {f"attack {name}": alone(name) for name in LEARNERS}
    found |= {"attack LikelihoodRatio": (0.0, 0.0, 0.0, 0.0), "block": block()} | ray()
    count = 200_000
    few, many = (whole([*QUICK, f"trials={n}"]) for n in (1000, count))
    played = (
        found["trials Gaussian WhiteBox"][1] * count
        + found["block"][1] * count / Gaussian(1, 0.01).block
    )
    found["start"] = (few.used, 0.0, few.own, 0.0)
    found["bounds"] = (0.0, max(0.0, many.used - few.used - played) / (0.95 * count), 0.0, WORK)
    with CONSTANTS.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(("part", "fixed", "each", "once", "bytes"))
        rows.writerows(
            (name, *(f"{value:.4g}" for value in values)) for name, values in sorted(found.items())
        )


def check() -> None:
    print(
        "| command not fitted on | foretold | passed | ratio | GiB foretold | taken | a worker, "
        "foretold | taken |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for name, (words, work) in UNSEEN.items():
        told, took = cost.cost(work, cost.parts()), whole(words)
        print(
            f"| {name} | {told.seconds:.1f} s | {took.passed:.1f} s | "
            f"{told.seconds / took.passed:.2f} |"
            + "".join(
                f" {x / 2**30:.2f} |" for x in (told.memory, took.own, told.worker, took.worker)
            )
        )


if __name__ == "__main__":
    if "--part" in sys.argv:
        name = sys.argv[-1]
        print(*(attack(name) if name in LEARNERS else trials(*name.split())))
        sys.exit()
    if "--check" not in sys.argv:
        fit()
        print(CONSTANTS.read_text("utf-8"))
    check()
