"""Rows of the coverage bench for one estimator alone, from the draws of the whole bench, merged
into its table.

    python benchmarks/exact_coverage.py             exact, by seed 0, as `audit coverage` draws:
    into coverage.csv python benchmarks/exact_coverage.py --out FILE  into another file

Each task of the bench has its own seed (0, and the task's number), and bounds from counts are read
off counts that are drawn before any of them: the other rows stay what they are. Verdicts are given
anew over all rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from audit.coverage.bench import Bench, tasks
from audit.coverage.counts import Chosen, Points, Size
from audit.coverage.pipelines import Pipeline
from audit.coverage.rows import judge
from audit.coverage.table import TABLE, read, write

ONLY = "exact"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=TABLE)
    given = parser.parse_args()
    everything = tuple(tasks())
    bench = Bench(everything, Size(only=ONLY, solved=20), 0)
    numbers = [
        n for n, task in enumerate(everything) if isinstance(task, Points | Chosen | Pipeline)
    ]
    # whole pipelines take hours: last
    numbers.sort(key=lambda number: isinstance(everything[number], Pipeline))
    rows = []
    before = [row for row in read(TABLE) if row.estimator != ONLY]
    for done, number in enumerate(numbers):
        rows += bench.play(number)
        print(f"{done + 1} of {len(numbers)}: {len(rows)} rows", flush=True)
        write(judge([*before, *rows]), given.out)
