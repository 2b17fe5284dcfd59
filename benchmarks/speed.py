"""What an audit costs, and what it would cost with dpmm 0.1.9, measured in one run.

.venv/bin/python benchmarks/speed.py [--rows fixed mst …] [--rival FOLDER] [--models 3]

Every row is measured in seconds that pass and in processor seconds: where others use the machine
too, the second is the one to read. The rival gets an environment of its own, made in FOLDER (a
temporary one without) with pip; where that cannot be done its rows are skipped, which is said.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np
from watched import command, peak

import audit
from audit.attackers import LikelihoodRatio
from audit.canaries.tabular import Tabular
from audit.canaries.worst_case import WorstCase
from audit.core import Claim
from audit.criteria import Advantage
from audit.estimators.curve import Curve
from audit.features import Hybrid, WhiteBox
from audit.game import Game, Played, Ray, Serial, carried, start_ray
from audit.mechanisms.aim import AIM
from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.mst import MST
from audit.privacy import GDP
from audit.protocols import Crossfit

TRIALS = 10_000
PAIR = WorstCase()
MADE = {"fixed": FixedMarginals, "mst": MST, "aim": AIM}

RIVAL = """
import sys, time
import numpy as np, pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM

data = pd.DataFrame(np.zeros((11, 3), int), columns=list("abc"))
data.loc[10] = 1
for trial in range(int(sys.argv[2])):
    passed, used = time.perf_counter(), time.process_time()
    make = AIMGM if sys.argv[1] == "aim" else MSTGM
    model = make(epsilon=1, delta=0.01, compress=sys.argv[1] != "fixed", n_jobs=1)
    model.set_domain({c: 2 for c in "abc"})
    model.set_random_state(np.random.RandomState(trial))
    if sys.argv[1] == "fixed":  # measures these and nothing else, and spends everything on it
        model.generator.cliques, model.generator.fit_state = [("a",), ("b",), ("c",)], "pretrained"
    model.fit(data)
    assert model.generate(50).shape == (50, 3)
    print(time.perf_counter() - passed, time.process_time() - used, flush=True)
"""


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds that passed, processor seconds of this process."""
    passed, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - passed, time.process_time() - used


def say(*cells: object) -> None:
    print(
        "| "
        + " | ".join(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
        + " |",
        flush=True,
    )


# --- one model, ours and theirs -------------------------------------------------------------------


def ours(what: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """Start (import and compilation), then the trial stage of 10,000 trials with hybrid features,
    one core."""
    game = carried(Game(MADE[what](eps=1, delta=0.01), PAIR, Hybrid(), 0))
    blocks = TRIALS // game.mechanism.block
    start = timed(lambda: game.play(blocks))
    return start, timed(lambda: [game.play(block) for block in range(blocks)])


def rivals_python(folder: Path) -> Path | None:
    """The rival's interpreter; None where its environment cannot be made."""
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "dpmm==0.1.9", "numpy<2"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        print(
            f"skipped: dpmm cannot be installed ({(done.stderr.strip().splitlines() or ['?'])[-1]})"
        )
        return None
    return python


def theirs(python: Path, what: str, models: int) -> list[tuple[float, float]]:
    run = [str(python), "-c", RIVAL, what, str(models)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"skipped: dpmm fails ({done.stderr.strip().splitlines()[-1]})")
    lines = [line.split() for line in done.stdout.splitlines()]
    return [
        (float(passed), float(used)) for passed, used in (line for line in lines if len(line) == 2)
    ]


def models(names: list[str], rival: Path | None, count: int) -> None:
    print(
        "| mechanism | start | of the processor | 10,000 trials | of the processor | dpmm, a "
        "model | of the processor | times faster a model |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for what in names:
        start, stage = ours(what)
        found = theirs(rival, what, count) if rival else []
        if not found:
            say(what, *start, *stage, "–", "–", "–")
            continue
        passed, used = np.median(found, axis=0)
        say(what, *start, *stage, float(passed), float(used), float(used / (stage[1] / TRIALS)))


# --- whole commands -------------------------------------------------------------------------------


def commands() -> None:
    print("| whole command, cold | seconds | of the processor | peak GiB |\n|---|---|---|---|")
    white = [
        "features=white_box",
        "attacker=likelihood_ratio",
        "protocol=crossfit",
        "estimator=curve",
        "trials=1000000",
    ]
    for words in (["mechanism=mst_fixed"], ["mechanism=mst"], ["mechanism=aim"], white):
        with tempfile.TemporaryDirectory() as folder:
            took = command(folder, words)
        say("`audit " + " ".join(words) + "`", took.passed, took.used, took.together / 2**30)


def white() -> None:
    """mu_emp of five seeds against the implied μ, 1,000,000 trials each, without the command around
    it."""
    found = []
    for seed in range(5):
        with tempfile.TemporaryDirectory() as folder:
            mechanism = FixedMarginals(eps=1, delta=0.01)
            source = Played(Game(mechanism, PAIR, WhiteBox(), seed), Serial(), Path(folder))
            claim = mechanism.claims[0]
            assert isinstance(claim, Claim)
            evidence = Crossfit(trials=10**6)(source, LikelihoodRatio(), Advantage(), claim)
            found.append(Curve(significance=0.1)(evidence, GDP()).lower)
    implied = mechanism.claims[0].parameter
    print(
        "| white box, 1,000,000 trials | mean mu_emp of 5 seeds | implied mu | share |\n"
        "|---|---|---|---|"
    )
    say(
        "likelihood ratio, crossfit, curve",
        float(np.mean(found)),
        implied,
        float(np.mean(found) / implied),
    )


def sweep() -> None:
    """Eight audits on the same trials, against one audit and what the attackers' own fits took in
    the eight."""
    print(
        "| of the processor, seconds | one audit | attackers' fits | eight audits | share of "
        "their sum |\n"
        "|---|---|---|---|---|"
    )
    attackers = "likelihood_ratio,logistic,xgboost,gradient_boosting"
    for mechanism in ("mst", "aim"):
        fixed = [f"mechanism={mechanism}", "backend=serial"]
        with tempfile.TemporaryDirectory() as folder:
            single = command(folder, [*fixed, "attacker=likelihood_ratio"]).used
        with tempfile.TemporaryDirectory() as folder:
            eight = command(
                folder, [*fixed, f"attacker={attackers}", "criterion=advantage,mu_lower", "-m"]
            ).used
            logged = audit.runs(Path(folder) / "mlruns")[["seconds.attack", "seconds.scores"]]
        fits = float(logged.to_numpy().sum())
        say(f"complete {mechanism.upper()}", single, fits, eight, eight / (single + fits))


# --- Ray ------------------------------------------------------------------------------------------


def ray() -> None:
    """Warm workers on complete AIM: one, two; and what Ray itself adds to a worker's own work."""
    import ray as library

    game = carried(Game(AIM(eps=1, delta=0.01), PAIR, Hybrid(), 0))
    blocks = 4000 // game.mechanism.block
    game.play(0)
    serial = timed(lambda: [game.play(block) for block in range(blocks)])[0]
    found = {}
    for workers in (1, 2):
        start_ray(None, workers)
        backend = Ray(workers=workers)
        list(backend.run(game.play, range(2 * workers)))  # compiles
        found[workers] = min(
            timed(lambda: list(backend.run(game.play, range(blocks))))[0]  # noqa: B023
            for _ in range(3)
        )
        library.shutdown()
    print(
        "| complete AIM, 4,000 trials, warm | serial | one Ray worker | two | two against one | "
        "Ray's own cost |\n"
        "|---|---|---|---|---|---|"
    )
    say("seconds", serial, found[1], found[2], found[1] / found[2], f"{found[1] / serial - 1:+.1%}")


# --- Adult ----------------------------------------------------------------------------------------


TABLES = (
    (4, None, 48842),
    (8, None, 48842),
    (14, None, 1000),
    (14, None, 10000),
    (14, None, 48842),
    (14, 20, 48842),
    (14, 5, 48842),
)
"""Columns, most values of a column (None: as many as there are), records."""


def adult(folder: Path, trials: int) -> None:
    """Complete MST on parts of the Adult table that grow in columns, cells and records."""
    domain = json.loads((folder / "adult-domain.json").read_text("utf-8"))
    table = np.loadtxt(folder / "adult.csv", delimiter=",", skiprows=1, dtype=int)
    print(
        "| columns | all values | cells of all pairs | records | trials | start s | ms a trial, "
        "of the processor | kB a row | peak GiB |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    for columns, most, records in TABLES:
        names = list(domain)[:columns]
        fold = [-(-domain[name] // (most or domain[name])) for name in names]
        sizes = {name: -(-domain[name] // by) for name, by in zip(names, fold, strict=True)}
        with tempfile.TemporaryDirectory() as made:
            Path(made, "domain.json").write_text(json.dumps(sizes), "utf-8")
            part = table[:records, :columns] // np.array(fold)
            np.savetxt(Path(made, "data.csv"), part, "%d", ",", header=",".join(names), comments="")
            words = [sys.executable, __file__, "--one-table", made, str(trials)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        start, each, width, largest = json.loads(done.stdout)
        pairs = (sum(sizes.values()) ** 2 - sum(size**2 for size in sizes.values())) // 2
        say(
            columns,
            sum(sizes.values()),
            pairs,
            records,
            trials,
            start,
            each * 1000,
            width / 1000,
            largest / 2**30,
        )


def one_table(folder: str, trials: int) -> None:
    """Seconds of the start and of a trial, bytes of a row, and of the process at its largest."""
    challenge = Tabular(f"{folder}/data.csv", f"{folder}/domain.json")
    game = carried(Game(MST(eps=1, delta=0.01), challenge, Hybrid(), 0))
    blocks = max(1, trials // game.mechanism.block)
    start = timed(lambda: game.play(blocks))[1]
    used = timed(lambda: [game.play(block) for block in range(blocks)])[1]
    each = used / (blocks * game.mechanism.block)
    width = game.play(0).rows[0].nbytes
    print(json.dumps([max(0.0, start - each * game.mechanism.block), each, width, peak()]))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    rows = ("models", "commands", "white", "sweep", "ray", "adult")
    words.add_argument("--rows", nargs="*", default=rows, choices=rows)
    words.add_argument("--mechanisms", nargs="*", default=list(MADE), choices=list(MADE))
    words.add_argument("--rival", type=Path)
    words.add_argument("--no-rival", action="store_true")
    words.add_argument("--models", type=int, default=2)
    words.add_argument("--adult", type=Path, default=Path("/work/shared/data"))
    words.add_argument("--one-table", nargs=2)
    told = words.parse_args()
    if told.one_table:
        one_table(told.one_table[0], int(told.one_table[1]))
        return
    if "models" in told.rows:
        with tempfile.TemporaryDirectory() as folder:
            python = None if told.no_rival else rivals_python(told.rival or Path(folder))
            models(told.mechanisms, python, told.models)
    for name, call in (("commands", commands), ("white", white), ("sweep", sweep), ("ray", ray)):
        if name in told.rows:
            call()
    if "adult" in told.rows:
        if (told.adult / "adult.csv").exists():
            adult(told.adult, 200)
        else:
            print(f"skipped: no adult.csv in {told.adult}; give its folder by --adult")


if __name__ == "__main__":
    main()
