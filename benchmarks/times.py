"""Wall-clock seconds of whole commands, in an empty folder: cold, and again from cached trials.

.venv/bin/python benchmarks/times.py
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time

COMMANDS = [
    ("cold", ["mechanism=mst_fixed", "eps=1"]),
    ("cached, another attacker", ["mechanism=mst_fixed", "eps=1", "attacker=logistic"]),
    ("cached, another criterion", ["mechanism=mst_fixed", "eps=1", "criterion=mu_lower"]),
    ("cold, complete MST", ["mechanism=mst", "eps=1"]),
    ("cold, complete AIM", ["mechanism=aim", "eps=1"]),
]


def main() -> None:
    print("| command | which | seconds | of which trials |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for which, words in COMMANDS:
            start = time.perf_counter()
            command = [sys.executable, "-m", "audit", *words]
            run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            seconds = time.perf_counter() - start
            trials = re.search(r"trials ([\d.]+) s", run.stdout)
            print(
                f"| `audit {' '.join(words)}` | {which} | {seconds:.1f} | "
                f"{trials[1] if trials else '?'} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
