"""Laws of scores whose tradeoff curves are known."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from audit.core import Array, Scores
from audit.privacy import GDP, Notion, PureDP

Base = Literal["normal", "laplace", "cauchy"]


@dataclasses.dataclass(frozen=True)
class Shift:
    """Scores of absent trials have the base's law, those of present ones are shifted.

    Args:
        by: shift, ≥ 0.
        base: at location 0 and scale 1.
        step: scores are rounded to its multiples; 0: not at all.
    """

    by: float
    base: Base = "normal"
    step: float = 0.0

    def __str__(self) -> str:
        if self.base == "normal" and not self.step:
            return "null" if self.by == 0 else "gaussian"
        return f"{self.base} shift {self.by:g}" + (
            f" rounded to {self.step:g}" if self.step else ""
        )

    def draw(self, rng: np.random.Generator, n: int, present: bool) -> Array:
        """(n,) scores."""
        noise: Array
        if self.base == "normal":
            noise = rng.standard_normal(n)
        else:
            noise = rng.laplace(size=n) if self.base == "laplace" else rng.standard_cauchy(n)
        values = noise + (self.by if present else 0.0)
        return np.round(values / self.step) * self.step if self.step else values

    def rates(self, threshold: Any) -> tuple[Array, Array]:
        """True FPR and FNR of "score ≥ threshold", of the shape of ``threshold``."""
        edge = np.asarray(threshold, float)
        if self.step:
            edge = (np.ceil(edge / self.step - 1e-9) - 0.5) * self.step
        return self._below(-edge), self._below(edge - self.by)

    def _below(self, x: Array) -> Array:
        if self.base == "cauchy":
            return 0.5 + np.arctan(x) / np.pi
        tail = 0.5 * np.exp(-np.abs(x))
        return np.asarray(ndtr(x) if self.base == "normal" else np.where(x < 0, tail, 1 - tail))


@dataclasses.dataclass(frozen=True)
class Response:
    """Randomised response: the score is the bit, flipped with probability 1/(1 + e^ε)."""

    epsilon: float

    def __str__(self) -> str:
        return f"randomised response ε={self.epsilon:.3g}"

    def draw(self, rng: np.random.Generator, n: int, present: bool) -> Array:
        """(n,) zeros and ones."""
        flipped = rng.random(n) < 1 / (1 + math.exp(self.epsilon))
        return (flipped != present).astype(float)

    def rates(self, threshold: Any) -> tuple[Array, Array]:
        """True FPR and FNR of "score ≥ threshold"."""
        t, wrong = np.asarray(threshold, float), 1 / (1 + math.exp(self.epsilon))
        fpr = np.where(t <= 0, 1.0, np.where(t <= 1, wrong, 0.0))
        return fpr, np.where(t <= 0, 0.0, np.where(t <= 1, wrong, 1.0))


Law = Shift | Response


def curve_truth(law: Law, notion: Notion) -> float:
    """The least parameter that allows the law's whole curve: the largest of its points; ∞ where
    none does.

    >>> round(curve_truth(Shift(0.4548), GDP()), 4)
    0.4548
    >>> round(curve_truth(Shift(1, "laplace"), PureDP()), 4)
    1.0
    >>> curve_truth(Shift(0.0), GDP()), round(curve_truth(Response(math.log(3)), GDP()), 3)
    (0.0, 1.349)
    """
    if isinstance(law, Shift) and law.base == "normal" and not law.step and isinstance(notion, GDP):
        return law.by
    if (
        isinstance(law, Shift)
        and law.base == "normal"
        and isinstance(notion, PureDP)
        and law.by > 0
    ):
        return math.inf
    shift = law.by if isinstance(law, Shift) else 1.0
    return float(np.max(notion.parameter(*law.rates(shift / 2 + np.linspace(-8, 8, 8001)))))


def draw_scores(
    law: Law, rng: np.random.Generator, absent: int, present: int, first: int = 0
) -> Scores:
    """Scores of both classes, each trial a run of its own, with places in the stream from ``first``
    on."""
    values = np.concatenate([law.draw(rng, absent, False), law.draw(rng, present, True)])
    index = np.arange(first, first + len(values))
    return Scores(values, np.arange(len(values)) >= absent, index, index)
