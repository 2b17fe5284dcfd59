"""How far the batched fits are from mbi run one by one on the same noise, and how far mbi is from
itself.

.venv/bin/python benchmarks/equality.py [--trials 30]

mbi as it is; mbi with its loss centred (the same loss less a constant:
tests/mechanisms/test_against_mbi.py); mbi as it is on the same noise times 1 + 2⁻⁵². Largest
difference in any cell of any marginal of one or two columns, after 1,000 steps.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from audit.core import Table
from audit.mechanisms import marginals
from audit.mechanisms.aim import AIM
from audit.mechanisms.mst import MST

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/mechanisms"))
from test_against_mbi import PAIR, centred, mixed

Model = dict[marginals.Clique, np.ndarray]


def mirror_descent(
    problem: marginals.Problem, trial: int, *, less: bool = False, shaken: float = 1.0
) -> Model:
    """mbi on one trial's measurements: clique → cells."""
    library, domain = marginals.mbi(), problem.domain
    space = library.Domain(domain.columns, domain.sizes)
    weights = {c: float(w[trial][0]) for c, w in problem.weight.items()}
    listed = [
        library.LinearMeasurement(problem.noisy[c][trial] * shaken, c, stddev=w**-0.5)
        for c, w in weights.items()
        if w
    ]
    total, loss = (
        float(problem.total[trial]),
        library.marginal_loss.from_linear_measurements(listed, space),
    )
    model = library.estimation.MirrorDescent().estimate(space, loss, known_total=total)
    if less:
        loss = centred(
            loss, library.CliqueVector.from_projectable(model, [space.attributes]), total
        )
        model = library.estimation.MirrorDescent().estimate(space, loss, known_total=total)
    return {
        c: np.asarray(model.project(c).datavector()) for c in marginals.cliques_up_to(domain, 2)
    }


def gap(one: Model, other: Model) -> float:
    return max(float(np.abs(one[c] - other[c]).max()) for c in one)


def compare(data: Table, mechanism: AIM | MST, trials: int) -> list[str]:
    """A cell for each comparison: how many trials agree to 1e-6, and the largest difference."""
    problem = mechanism.release(data, trials, np.random.default_rng(1)).problem()
    joint, wanted = marginals.fit_dense(problem), marginals.cliques_up_to(data.domain, 2)
    gaps: dict[str, list[float]] = {}
    for trial in range(trials):
        batch = {c: marginals.project(data.domain, joint[trial : trial + 1], c)[0] for c in wanted}
        plain = mirror_descent(problem, trial)
        for name, one, other in (
            ("batch, mbi centred", batch, mirror_descent(problem, trial, less=True)),
            ("batch, mbi", batch, plain),
            ("mbi, mbi shaken", plain, mirror_descent(problem, trial, shaken=1 + 2**-52)),
        ):
            gaps.setdefault(name, []).append(gap(one, other))
    return [f"{np.sum(np.array(g) < 1e-6)} of {trials}, {max(g):.0e}" for g in gaps.values()]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--trials", type=int, default=30)
    trials = words.parse_args().trials
    print(
        "| data, mechanism | batch against mbi centred | batch against mbi | mbi against mbi "
        "shaken |\n"
        "|---|---|---|---|"
    )
    for name, data in (
        ("published pair", PAIR.data([True])),
        ("3 columns of 2, 3, 5 values", mixed()),
    ):
        for mechanism in (AIM(1, 0.01), MST(1, 0.01, compress=False)):
            cells = compare(data, mechanism, trials)
            print(
                "| " + " | ".join([f"{name}, {type(mechanism).__name__}", *cells]) + " |",
                flush=True,
            )


if __name__ == "__main__":
    main()
