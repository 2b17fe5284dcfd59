"""Whether a rewriting changed any result: a fixed set of audits, bit for bit, before and after.

    python benchmarks/same_results.py save before.json       in the old tree
    python benchmarks/same_results.py compare before.json    in the new one

Each audit is a process of its own in an empty folder. Compared are the exit status, the rows of
every trial that was played, all metrics but times, and the verdict's word. Names of options that
changed stand in RENAMED.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

AUDITS = (
    "mechanism=gaussian attacker=likelihood_ratio trials=2000",
    "mechanism=gaussian features=black_box trials=2000 criterion=mu_hat",
    "mechanism=gaussian protocol=crossfit trials=2000 estimator=curve",
    "mechanism=gaussian protocol=sequential trials=4000 estimator=betting",
    "mechanism=laplace attacker=xgboost trials=2000",
    "mechanism=laplace estimator=clopper_pearson criterion=claim_lower trials=2000",
    "mechanism=geometric trials=2000",
    "mechanism=discrete_gaussian trials=2000",
    "mechanism=randomised_response trials=2000 attacker=likelihood_ratio",
    "mechanism=mst_fixed trials=1000",
    "mechanism=mst eps=2 trials=400",
    "mechanism=aim trials=200",
    "mechanism=above_threshold trials=2000",
    "mechanism=hierarchical_counts trials=1000",
    "mechanism=dp_sgd protocol=one_run canary=coins trials=1",
    "mechanism=brownian trials=1000",
    "mechanism=gaussian eps=-1",
    "mechanism=gaussin",
)
TIMES = ("seconds.",)


def play(words: str) -> dict[str, object]:
    """Everything that must stay the same of one audit."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "audit", *shlex.split(words), "backend=serial"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ
        )
        root = Path(folder, "mlruns")
        return {"exit": done.returncode, **rows_of(root), **recorded(root / "mlflow.db")}


def rows_of(root: Path) -> dict[str, object]:
    """A digest of each block of trials, in order of its content."""
    digests = []
    for path in root.glob("trials/*/*.npz"):
        block = np.load(path)
        content = b"".join(
            np.ascontiguousarray(block[name]).tobytes() for name in ("rows", "bits", "run")
        )
        digests.append(hashlib.sha256(content).hexdigest())
    return {"rows": sorted(digests)}


def recorded(database: Path) -> dict[str, object]:
    """Metrics and the verdict's word, as the run log holds them."""
    if not database.exists():
        return {"metrics": [], "verdict": []}
    with sqlite3.connect(database) as log:
        metrics = log.execute(
            "select key, step, value from metrics order by key, step, value"
        ).fetchall()
        verdicts = log.execute("select value from tags where key = 'verdict'").fetchall()
    kept = [(key, step, repr(value)) for key, step, value in metrics if not key.startswith(TIMES)]
    return {"metrics": kept, "verdict": sorted(verdicts)}


def differences(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """What of one audit is not the same, in words."""
    after = json.loads(json.dumps(after))
    return [
        f"{key}: {str(before[key])[:300]} → {str(after[key])[:300]}"
        for key in before
        if before[key] != after[key]
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("save", "compare"))
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    saved = json.loads(given.file.read_text()) if given.what == "compare" else {}
    results: dict[str, dict[str, object]] = {}
    changed = 0
    for words in AUDITS:
        results[words] = play(words)
        found = differences(saved[words], results[words]) if saved else []
        changed += bool(found)
        print(words, "|", results[words]["exit"], *results[words]["verdict"], *found, flush=True)
    if given.what == "save":
        given.file.write_text(json.dumps(results, indent=1))
    else:
        print(f"{changed} of {len(AUDITS)} audits differ")
        sys.exit(changed > 0)
