"""What an audit takes: seconds and bytes, foretold from what its parts took when they were
measured.

    seconds = start + compile + trials·(seconds a trial)/cores + blocks·(seconds a
    block) + bytes·(seconds a byte sent)
              + fits·(seconds a fitted trial) + tests·(seconds a tested trial)

The constants stand in ``cost.csv``, fitted by ``benchmarks/cost.py`` in seconds of one core's work:
where others use the machine too, it takes longer. They are those of the worst-case pair; a larger
domain takes longer, and is not foretold.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
from pathlib import Path
from typing import Any

from audit.game import COPIES, Ray, cores


@dataclasses.dataclass(frozen=True)
class Part:
    """One part's constants.

    Args:
        fixed: seconds, once.
        each: seconds a unit: a trial, a block, a byte.
        once: bytes of memory, once: of a process, of its libraries, of compiling.
        bytes: of memory, a unit.
    """

    fixed: float
    each: float
    once: float
    bytes: float


@dataclasses.dataclass(frozen=True)
class Work:
    """How much there is to do.

    Args:
        trials: key of what is played (see `key`), and how many.
        count: trials in all.
        block: trials of a block.
        attacker: name of its class.
        fitted: trials that attacks are fitted on, all fits together.
        tested: trials that are tested.
        workers: cores that play; 1 without Ray.
        ray: whether Ray has to start.
    """

    trials: str
    count: int
    block: int
    attacker: str
    fitted: int
    tested: int
    workers: int = 1
    ray: bool = False


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of each stage, and bytes at the peak: of the process that audits, and of each
    worker."""

    start: float
    trials: float
    attack: float
    bounds: float
    memory: float
    worker: float

    @property
    def seconds(self) -> float:
        """Of the whole command."""
        return self.start + self.trials + self.attack + self.bounds


def parts(path: Path | None = None) -> dict[str, Part]:
    """Name → constants, as they were measured; see the file."""
    with (path or Path(__file__).with_name("cost.csv")).open(encoding="utf-8") as file:
        return {
            row["part"]: Part(*(float(row[k]) for k in ("fixed", "each", "once", "bytes")))
            for row in csv.DictReader(file)
        }


_parts = functools.cache(parts)


def cost(work: Work, known: dict[str, Part] | None = None) -> Cost | None:
    """What ``work`` takes; None where its trials or its attacker were never measured.

    >>> known = {
    ...     "start": Part(4, 0, 3e8, 0),
    ...     "ray": Part(8, 0, 4e8, 0),
    ...     "block": Part(0, 1e-3, 0, 0),
    ...     "sent": Part(0, 1e-9, 0, 0),
    ...     "trials MST": Part(3, 5e-4, 2e8, 100),
    ...     "bounds": Part(1, 1e-5, 0, 600),
    ...     "attack Logistic": Part(0, 1e-6, 1e8, 0),
    ... }
    >>> work = Work("MST", count=10_000, block=100, attacker="Logistic", fitted=4000, tested=4000)
    >>> cost(work, known).seconds.__round__(3)
    13.144
    >>> cost(dataclasses.replace(work, count=10**6, workers=8, ray=True), known).trials
    75.6
    """
    known = _parts() if known is None else known
    played, attack = known.get(f"trials {work.trials}"), known.get(f"attack {work.attacker}")
    if played is None or attack is None:
        return None
    start, ray, bounds = known["start"], known["ray"], known["bounds"]
    blocks, sent = -(-work.count // work.block), work.count * played.bytes if work.ray else 0
    return Cost(
        start=start.fixed + ray.fixed * work.ray,
        trials=played.fixed
        + work.count * played.each / work.workers
        + blocks * known["block"].each
        + sent * known["sent"].each,
        attack=attack.fixed + work.fitted * attack.each,
        bounds=bounds.fixed + work.tested * bounds.each,
        memory=start.once
        + (0 if work.ray else played.once)
        + attack.once
        + work.count * (COPIES * played.bytes + bounds.bytes),
        worker=ray.once * work.ray,
    )


def key(mechanism: Any, features: Any) -> str:
    """What the seconds of a trial depend on, besides the pair.

    >>> from audit.features import WhiteBox
    >>> from audit.mechanisms.mst import MST
    >>> key(MST(eps=1, delta=0.01), WhiteBox())
    'MST WhiteBox'
    """
    more = f" degree={degree}" if (degree := getattr(mechanism, "degree", 1)) > 1 else ""
    # A broken version that changes only its noise takes as long as the honest one, whose release it
    # is.
    played = next(kind for kind in type(mechanism).__mro__ if "release" in vars(kind))
    return f"{played.__name__}{more} {type(features).__name__}"


def work_of(plan: Any) -> Work:
    """What a plan has to do; where Ray is left to decide itself, all by one core."""
    backend, protocol, learns = plan.backend, plan.protocol, getattr(plan.attacker, "learns", True)
    count = getattr(protocol, "trials", None) or getattr(protocol, "budget", protocol.tested)
    shared = isinstance(backend, Ray)
    return Work(
        trials=key(plan.mechanism, plan.features),
        count=count,
        block=plan.mechanism.block,
        attacker=type(plan.attacker).__name__,
        fitted=(getattr(protocol, "fitted", count) if learns else 0),
        tested=protocol.tested,
        workers=(backend.workers or cores()) if shared else 1,
        ray=shared,
    )
