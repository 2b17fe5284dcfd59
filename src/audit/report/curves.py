"""Measured and allowed tradeoff curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from audit.core import Array, NotApplicable, Result, Scores
from audit.estimators.dkw import DKW
from audit.privacy import GDP, Notion
from audit.report.style import INK


def tradeoff(scores: Scores) -> tuple[Array, Array]:
    """The empirical tradeoff curve: (FPR, FNR) at every threshold.

    Args:
        scores: of both classes.

    Returns:
        (alpha, beta), each (k + 1,) for k different scores: alpha from 0 to 1, beta from 1 to 0.

    >>> bits = np.array([False, False, True, True])
    >>> index = np.arange(4)
    >>> scores = Scores(np.array([0.0, 2.0, 1.0, 3.0]), bits, index, index)
    >>> [rates.tolist() for rates in tradeoff(scores)]
    [[0.0, 0.0, 0.5, 0.5, 1.0], [1.0, 0.5, 0.5, 0.0, 0.0]]
    """
    absent, present = np.sort(scores.absent), np.sort(scores.present)
    thresholds = np.append(np.unique(scores.values), np.inf)[::-1]
    alpha = 1 - np.searchsorted(absent, thresholds, side="left") / max(len(absent), 1)
    beta = np.searchsorted(present, thresholds, side="left") / max(len(present), 1)
    # A score of ∞ is ≥ every threshold: "never present" is no threshold then, but it is a test all
    # the same.
    alpha[0], beta[0] = 0.0, 1.0
    return alpha, beta


@dataclass(frozen=True)
class Frontier:
    """A curve that no attack on a mechanism that keeps it can come below."""

    label: str
    role: str
    notion: Notion
    parameter: float
    dash: tuple[float, ...] = ()

    def curve(self) -> tuple[Array, Array]:
        """(alpha, beta), each (k,), from alpha = 0 to 1, kinks included."""
        grid = np.concatenate(
            [[0.0, 1.0], ndtr(np.linspace(-7, 7, 141)), self.notion.kinks(self.parameter)]
        )
        alpha = np.unique(np.clip(grid, 0, 1))
        return alpha, np.asarray(self.notion.beta(alpha, self.parameter))


def frontiers(result: Result) -> list[Frontier]:
    """Implied and direct GDP, then every claim that is neither."""
    found = []
    for name, value, dash in (
        ("implied", result.mu_implied, ()),
        ("direct", result.mu_direct, (7.0, 2.0)),
    ):
        if value is not None:
            found.append(Frontier(f"{name} μ: {GDP().label(value)}", name, GDP(), value, dash))
    for place, claim in enumerate(result.claims):
        if (
            isinstance(claim.notion, GDP)
            and not claim.numerical
            and claim.parameter == result.mu_implied
        ):
            told = "implied μ" if place else "implied μ, the claim"
            found[0] = Frontier(f"{told}: {claim}", "implied", GDP(), claim.parameter)
            continue
        label = claim.notion.label(claim.parameter)
        told = (
            f"numerical: {label}" if claim.numerical else f"claim: {label}" if place == 0 else label
        )
        role = (
            "numerical"
            if claim.numerical
            else claim.notion.name
            if claim.notion.name in INK
            else "approximate"
        )
        style = (3.0, 3.0) if claim.numerical else (9.0, 2.0, 2.0, 2.0)
        found.append(Frontier(told, role, claim.notion, claim.parameter, style))
    return found


BAND = 0.22
"""Opacity of the band around the measured curve."""


def band(result: Result) -> tuple[Array, Array, Array] | None:
    """Between which (alpha, lower, upper) the attack's true curve lies everywhere at once, with
    1 − significance.

    None where the test trials are not independent or of one class only.
    """
    try:
        return DKW(significance=result.bounds[0].significance).band(result.evidence)
    except NotApplicable:
        return None
