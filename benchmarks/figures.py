"""The figures of the published experiment: mean mu_emp over 20 seeds, false alarms, broken copies.

    .venv/bin/python benchmarks/figures.py [mst_fixed mst aim] [--seeds 20] [--root mlruns/bench]

One line a figure; the trials are kept under --root, so that a second run takes the time of the
attackers only.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from audit.cli import compose
from audit.core import Result
from audit.experiment import audit

CASES: dict[str, list[list[str]]] = {
    "mst_fixed": [
        ["attacker=likelihood_ratio"],
        ["attacker=logistic"],
        ["attacker=xgboost"],
        ["attacker=xgboost", "criterion=mu_hat"],
        ["attacker=likelihood_ratio", "protocol=crossfit", "estimator=curve"],
        ["attacker=logistic", "protocol=crossfit", "estimator=curve"],
    ],
    "broken/mst_fixed_less_noise": [
        ["attacker=likelihood_ratio", "mechanism.noise_fraction=0.5"],
        ["attacker=likelihood_ratio", "mechanism.noise_fraction=0.8"],
        ["attacker=likelihood_ratio", "mechanism.noise_fraction=0.8", "trials=30000"],
    ],
    "mst": [["attacker=likelihood_ratio"], ["attacker=logistic"], ["attacker=xgboost"]],
    "aim": [["attacker=likelihood_ratio"], ["attacker=logistic"], ["attacker=xgboost"]],
}


def run(mechanism: str, words: Sequence[str], seeds: int, root: Path) -> list[Result]:
    """The same audit under every seed."""
    found = []
    for seed in range(seeds):
        given = [f"mechanism={mechanism}", *words, f"seed={seed}", f"root={root}", "backend=serial"]
        plan = compose(*given)
        found.append(audit(plan))
    return found


def line(mechanism: str, words: Sequence[str], results: Sequence[Result]) -> str:
    """One row of the table."""
    emp = np.array([result.bounds[0].lower for result in results])
    implied = results[0].mu_implied or np.inf
    verdicts = [result.verdict.word for result in results]
    pearson = [
        next((b.lower for b in r.bounds if b.estimator == "clopper_pearson"), np.nan)
        for r in results
    ]
    cells = [
        f"{mechanism} {' '.join(words)}",
        f"{emp.mean():.4f} ± {emp.std(ddof=1) / np.sqrt(len(emp)):.4f}",
        f"{emp.std(ddof=1):.4f}",
        f"{np.median([result.mu_hat for result in results]):.4f}",
        f"{np.mean(pearson):.4f}",
        f"{np.sum(emp > implied)}",
        f"{np.sum(emp == 0)}",
        f"{verdicts.count('violation')}",
        f"{results[0].power.expected:.4f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mechanisms", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--root", type=Path, default=Path("mlruns/bench"))
    given = parser.parse_args()
    columns = (
        "audit|mean mu_emp ± se|sd|median mu_hat|mean Clopper–Pearson|above implied "
        "mu|zero|violations|expected"
    )
    print("| " + columns.replace("|", " | ") + " |")
    print("|---" * 9 + "|")
    for mechanism in given.mechanisms:
        for words in CASES[mechanism]:
            print(
                line(mechanism, words, run(mechanism, words, given.seeds, given.root)), flush=True
            )


if __name__ == "__main__":
    main()
