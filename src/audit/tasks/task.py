"""What a task has to offer to an accuracy-first run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from audit.core import Array


@dataclasses.dataclass(frozen=True)
class Model:
    """What a step has made: everything but ``guess`` follows from a noisy release.

    Args:
        validation, test: accuracy in [0, 1] on those sets. Both are raw: the first goes into a
            private check and nowhere else, the second is for the reader of an experiment on public
            data.
        write: writes the model, or the synthetic rows, into a folder; returns the file.
    """

    validation: float
    test: float
    write: Callable[[Path], Path]


class Work(Protocol):
    """A task with its data loaded. Neighbours replace one record; numbers of records are public.

    A record either trains or validates, by its place.
    """

    @property
    def answer(self) -> Array:
        """(d,) the statistics of the training records, raw."""
        ...

    @property
    def sensitivity(self) -> float:
        """How far one replaced record moves ``answer`` in L2, at most."""
        ...

    @property
    def validators(self) -> int:
        """Public number of records that validate: an accuracy moves by 1/validators."""
        ...

    def train(self, noisy: Array, precision: float, rng: np.random.Generator) -> Model:
        """A model from a release of ``answer`` with noise of variance 1/precision:
        post-processing."""
        ...


class Task(Protocol):
    """A data set, and what is to be made of it."""

    def open(self, seed: int) -> Work:
        """Load and split."""
        ...
