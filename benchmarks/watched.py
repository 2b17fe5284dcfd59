"""Whole commands, watched: seconds, and memory of each process. What the other scripts here measure
with."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

RUN = """
import json, resource, subprocess, sys, threading, time
import psutil
begun = time.perf_counter()
run = subprocess.Popen([sys.executable, "-m", "audit", *sys.argv[1:]], stdout=subprocess.DEVNULL)
peak = {"own": 0, "worker": 0, "together": 0}
def watch():
    us = psutil.Process(run.pid)
    while run.poll() is None:
        sizes = {"own": [0], "worker": [0]}
        try:
            for process in [us, *us.children(recursive=True)]:
                is_worker = "ray::" in " ".join(process.cmdline())
                name = "own" if process == us else "worker" if is_worker else "other"
                sizes.setdefault(name, [0]).append(process.memory_info().rss)
        except psutil.Error:
            pass
        now = {
            "own": max(sizes["own"]),
            "worker": max(sizes["worker"]),
            "together": sum(map(sum, sizes.values())),
        }
        peak.update({name: max(peak[name], now[name]) for name in peak})
        time.sleep(0.03)
watcher = threading.Thread(target=watch)
watcher.start()
assert run.wait() == 0
passed = time.perf_counter() - begun
watcher.join()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps(peak | {"passed": passed, "used": used.ru_utime + used.ru_stime}))
"""


@dataclasses.dataclass(frozen=True)
class Taken:
    """Seconds that passed, and of the processor without Ray's workers; bytes at the peak, looked at
    30 times a second.

    Args:
        own: of the process that audits.
        worker: of the largest Ray worker.
        together: of all processes.
    """

    passed: float
    used: float
    own: float
    worker: float
    together: float


def command(folder: str | Path, words: Sequence[str]) -> Taken:
    """What ``audit …`` takes in that folder. Its parent is a small process: a large one's memory
    would count too."""
    watching = [sys.executable, "-c", RUN, *words]
    done = subprocess.run(watching, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return Taken(**json.loads(done.stdout))


def peak() -> float:
    """Bytes of this program at its largest so far."""
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text("utf-8"))[1])
