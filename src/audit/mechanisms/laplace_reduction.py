"""Less and less Laplace noise, coupled so that only the last release is paid for: pure ex post."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.accountants import ExPostRDP, Order, check_ladder
from audit.core import Array, Claim, Table
from audit.mechanisms.brownian import StoppedRuns, first, vector_query
from audit.privacy import STRICT, PureDP


@dataclass(frozen=True, config=STRICT)
class LaplaceReduction:
    """y_k = f(X) + ν_k, ν_k ~ Lap(Δ/ε_k) in each coordinate, drawn from the last step down.

    ν_k is ν_(k+1) with probability (ε_k/ε_(k+1))², else ν_(k+1) + Lap(Δ/ε_k), coordinate by
    coordinate: each is Laplace, and given the last one those before do not depend on the data. So
    ln(p/q) ≤ ε_K for every output, hence E[W] ≤ 1 at every order. It stops when a release is good
    enough.

    Args:
        ladder: ε_1 < ε_2 < …
        order: of the claim that is judged; any.
        stop: a release is good enough when ‖y_k‖ ≥ stop·√2·(Δ/ε_k)·√d; else the last step's is
            taken.

    References:
        Koufogiannis, Han, Pappas, Gradual release of sensitive data under differential privacy,
        arXiv:1504.00429.
        Ligett, Neel, Roth, Waggoner, Wu, Accuracy first, arXiv:1705.10829 (noise reduction).
        The default ladder, order and stopping rule are this project's.
    """

    ladder: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    order: Order = 4.0
    stop: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0

    block: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        check_ladder(self.ladder)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every report is true; and nobody learns more than the last step would tell."""
        top = self.ladder[-1]
        return (Claim(ExPostRDP(self.order, top), 0.0), Claim(PureDP(), top))

    def release(
        self, data: Table | Array, trials: int, rng: np.random.Generator
    ) -> StoppedLaplaceRuns:
        """``trials`` runs, each up to its own stop."""
        centre, sensitivity = vector_query(data, "l1")
        ladder = np.asarray(self.ladder)
        scale = sensitivity / ladder
        releases = centre + coupled(scale, trials, len(centre), rng)
        size = np.linalg.norm(releases, axis=2) / (np.sqrt(2 * len(centre)) * scale)
        stopped = first(size >= self.stop)
        return StoppedLaplaceRuns(releases, stopped, ladder[stopped], 1 / scale, None)


@dataclasses.dataclass(frozen=True)
class StoppedLaplaceRuns(StoppedRuns):
    """`StoppedRuns` whose noise is Laplace; ``precision`` is 1/scale."""

    def log_ratio(self, absent: Table | Array, present: Table | Array) -> Array:
        """(n,) Σ (|y − a| − |y − b|)/scale of the last release.

        Given that one, the releases before it do not depend on the data.
        """
        a, _ = vector_query(absent, "l1")
        b, _ = vector_query(present, "l1")
        nearer_to_present = (np.abs(self.last - a) - np.abs(self.last - b)).sum(axis=1)
        return nearer_to_present * self.precision[self.stopped]


def coupled(scale: Array, trials: int, width: int, rng: np.random.Generator) -> Array:
    """(trials, K, width) noise of ``scale`` (K,), descending, the last step's drawn first."""
    noise = np.empty((trials, len(scale), width))
    noise[:, -1] = rng.laplace(scale=scale[-1], size=(trials, width))
    for k in reversed(range(len(scale) - 1)):
        stays = rng.random((trials, width)) < (scale[k + 1] / scale[k]) ** 2
        more = rng.laplace(scale=scale[k], size=(trials, width))
        noise[:, k] = noise[:, k + 1] + np.where(stays, 0.0, more)
    return noise
