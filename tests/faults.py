"""A mechanism that takes its time and does as it is told by files, for the tests of what goes
wrong. No test itself."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from pathlib import Path
from typing import ClassVar

import numpy as np

from audit.core import Claim, Columns
from audit.privacy import GDP


@dataclasses.dataclass(frozen=True)
class Counted:
    values: np.ndarray
    mu: float

    def public(self):
        return Columns(("count",), self.values[:, None])

    insider = public

    def log_ratio(self, absent, present):
        a, b = len(absent.records), len(present.records)
        return self.mu**2 * (self.values * (b - a) - (b**2 - a**2) / 2)


@dataclasses.dataclass(frozen=True)
class Slow:
    """A μ-GDP count that sleeps ``seconds`` a side.

    What it notes in ``folder`` is a file a process that played, named by its parent, which is a
    node's raylet. The process that finds the file ``die`` there removes it and is killed.
    """

    folder: str
    seconds: float = 0.1
    mu: float = 1.0
    block: ClassVar[int] = 100

    @property
    def claims(self):
        return (Claim(GDP(), self.mu),)

    def release(self, data, trials, rng):
        time.sleep(self.seconds)
        Path(self.folder, f"node-{os.getppid()}-{os.getpid()}").touch()
        try:
            Path(self.folder, "die").unlink()
        except FileNotFoundError:
            return Counted(len(data.records) + rng.normal(size=trials) / self.mu, self.mu)
        os.kill(os.getpid(), signal.SIGKILL)
