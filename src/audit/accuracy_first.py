"""The story of one accuracy-first run: ladder, train, check, stop.

Somebody names an accuracy; the least ε on a ladder that reaches it, on private validation records,
is what is spent and reported. Training releases are Brownian, so the last one is paid for and those
before come with it.

References:
    Räisä, Koskela, Honkela, arXiv:2509.22213. Its ladders, thresholds and generator could not be
        read: ours are ours.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.accountants import (
    Order,
    Positive,
    approximate,
    check_ladder,
    in_sequence,
    on_disjoint_data,
    precisions,
    probabilistic,
)
from audit.core import AuditError, LadderRun, Rung
from audit.mechanisms.brownian import sequence
from audit.mechanisms.checks import ThresholdMechanism
from audit.privacy import STRICT
from audit.tasks.task import Model, Task


@dataclass(frozen=True, config=STRICT)
class Steps:
    """A ladder, written out.

    Args:
        eps: ε_1 < ε_2 < …, Rényi, of the run's order.
    """

    eps: tuple[float, ...]

    def __post_init__(self) -> None:
        check_ladder(self.eps)


@dataclass(frozen=True, config=STRICT)
class Geometric:
    """A ladder of equal ratios.

    Args:
        first, last: ε of the lowest and the highest step.
        steps: how many, both included.
    """

    first: Positive
    last: Positive
    steps: Annotated[int, Field(ge=2, le=1000)]

    def __post_init__(self) -> None:
        check_ladder(self.eps)

    @property
    def eps(self) -> tuple[float, ...]:
        """ε_1 < ε_2 < …"""
        return tuple(float(eps) for eps in np.geomspace(self.first, self.last, self.steps))


@dataclass(frozen=True, config=STRICT)
class Target:
    """What is asked for, and how it is accounted.

    Args:
        threshold: accuracy on the validation records, in (0, 1].
        order: α > 1 of every Rényi ε; chosen before the run, never after it.
        delta: of the conversions to (ε, δ).
    """

    threshold: Annotated[float, Field(gt=0, le=1)]
    order: Order
    delta: Annotated[float, Field(gt=0, lt=1)]


@dataclasses.dataclass(frozen=True)
class LadderPlan:
    """One run, composed and checked, before anything is spent."""

    name: str
    config: dict[str, Any]
    ladder: Steps | Geometric
    checker: ThresholdMechanism
    task: Task
    target: Target
    seed: int
    root: Path
    provenance: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, part, method in (
            ("ladder", self.ladder, "eps"),
            ("checker", self.checker, "begin"),
            ("task", self.task, "open"),
        ):
            if not hasattr(part, method):
                raise AuditError(
                    f"{name}: {type(part).__name__} is none, it lacks {method!r}; choose another "
                    "option"
                )


def climb(
    plan: LadderPlan, progress: Callable[[int, int], None] = lambda step, steps: None
) -> tuple[LadderRun, Model]:
    """Go up until the check says yes; if it never does, everything has been spent all the same.

    Returns:
        What was found, and the last step's model.

    Raises:
        AuditError: whatever a person can fix.
    """
    start, target, ladder = time.perf_counter(), plan.target, plan.ladder.eps
    noise, checks, training = (
        np.random.default_rng(s) for s in np.random.SeedSequence(plan.seed).spawn(3)
    )
    work = plan.task.open(plan.seed)
    precision = precisions(ladder, target.order, work.sensitivity)
    releases = sequence(work.answer, precision, 1, noise)[0]
    looks = plan.checker.begin(target.threshold, 1 / work.validators, target.order, checks)
    rungs: list[Rung] = []
    for step, (eps, release) in enumerate(zip(ladder, releases, strict=True)):
        model = work.train(release, float(precision[step]), training)
        passed = looks.passes(model.validation)
        spent = on_disjoint_data(eps, looks.costs)
        rungs.append(
            Rung(eps, in_sequence(looks.costs), spent, looks.last_noisy_value, passed, model.test)
        )
        progress(step + 1, len(ladder))
        if passed:
            break
    convert = target.order, target.delta
    run = LadderRun(
        name=plan.name,
        config=plan.config,
        task=str(work),
        order=target.order,
        delta=target.delta,
        threshold=target.threshold,
        ladder=ladder,
        rungs=tuple(rungs),
        approximate=approximate(rungs[-1].spent, *convert),
        probabilistic=probabilistic(rungs[-1].spent, *convert),
        fixed=(ladder[-1], approximate(ladder[-1], *convert)),
        provenance=plan.provenance | {"seed": str(plan.seed)},
        seconds=time.perf_counter() - start,
    )
    return run, model
