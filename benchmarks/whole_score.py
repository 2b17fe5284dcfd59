"""Trials a side for power 0.8 at 1 %: bets on the whole score beside one threshold, and the limit
of any test.

``.venv/bin/python benchmarks/whole_score.py [words of cases…]``: minutes. The truth is 1.25 × the
claim unless said. Whatever is chosen (threshold, levels, scale) is chosen on half as many selection
trials.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from audit.core import Array, Claim, Evidence, Fold, Scores
from audit.criteria import Advantage, ClaimLower
from audit.estimators import curve_betting, whole_score
from audit.estimators.curve import calibrated
from audit.estimators.exact import Exact
from audit.privacy import GDP, ApproximateDP, Notion, PureDP

AUDITS, SIGNIFICANCE = 300, 0.01
Draw = Callable[[np.random.Generator, int, bool], Array]


@dataclasses.dataclass(frozen=True)
class Case:
    """A claim, the law of the scores, the rates of the best single threshold, and what is known of
    the limit."""

    name: str
    notion: Notion
    claim: float
    draw: Draw
    rates: tuple[float, float]
    start: int
    limit: str = "–"


def laplace(eps: float, delta: float = 0.0) -> Draw:
    """A Laplace shift of ε; with probability δ the bit itself."""

    def draw(rng: np.random.Generator, n: int, present: bool) -> Array:
        leaked = rng.random(n) < delta
        return np.where(leaked, 1e6 if present else -1e6, rng.laplace(float(present), 1 / eps, n))

    return draw


def response(eps: float) -> Draw:
    """Randomised response."""
    return lambda rng, n, present: ((rng.random(n) < 1 / (1 + math.exp(eps))) != present).astype(
        float
    )


def event(rate: float) -> Draw:
    """An event that only present trials show."""
    return lambda rng, n, present: ((rng.random(n) < rate) & present).astype(float)


def gaussian(mu: float) -> Draw:
    """A Gaussian shift."""
    return lambda rng, n, present: rng.normal(size=n) + mu * present


def cases() -> list[Case]:
    """The rows of the table."""
    wrong, pure, approximate = 1 / (1 + math.exp(1.25)), PureDP(), ApproximateDP(0.01)
    found = [
        Case(
            "pure 1, Laplace",
            pure,
            1.0,
            laplace(1.25),
            (0.5 * math.exp(-1.25), 0.5),
            850,
            str(laplace_limit()),
        ),
        Case("pure 1, randomised response", pure, 1.0, response(1.25), (wrong, wrong), 470),
        Case(
            "(1, .01), Laplace-like",
            approximate,
            1.0,
            laplace(1.25, 0.01),
            laplace_rates(0.01),
            900,
        ),
        Case("pure 1, event of 0 against .02", pure, 1.0, event(0.02), (0.0, 0.98), 980),
        Case("pure 1, event of 0 against .5", pure, 1.0, event(0.5), (0.0, 0.5), 38),
    ]
    for mu, start in ((0.4548, 1750), (1.0, 480), (2.0, 200)):
        rate, limit = (
            float(Phi(-1.25 * mu / 2)),
            round(2 * ((ndtri(0.99) + ndtri(0.8)) / (0.25 * mu)) ** 2),
        )
        found.append(
            Case(
                f"GDP {mu:g}, Gaussian",
                GDP(),
                mu,
                gaussian(1.25 * mu),
                (rate, rate),
                start,
                str(limit),
            )
        )
    return found


def laplace_rates(delta: float) -> tuple[float, float]:
    """FPR and FNR at the score 1."""
    return (1 - delta) * 0.5 * math.exp(-1.25), (1 - delta) * 0.5


def Phi(x: float) -> float:  # noqa: N802
    """Φ."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def laplace_limit() -> int:
    """Trials a side with which the best test of the closest 1-DP pair finds a Laplace of 1.25.

    No test that is valid against all 1-DP pairs needs fewer (Neyman–Pearson). The closest pair
    keeps each score's mass over both classes and clips its likelihood ratio at e.
    """
    edges = np.linspace(0.9, 1, 41)

    def tails(x: Array) -> tuple[Array, Array]:
        below = 0.5 * np.exp(1.25 * (x - 1))
        return 0.5 * np.exp(-1.25 * x), 1 - below  # P(X ≥ x) and P(Y ≥ x), x in [0, 1]

    wrong, right = (np.append(-np.diff(tail), tail[-1]) for tail in tails(edges))
    both = wrong + right
    closest = [both / (1 + math.e), both * math.e / (1 + math.e)]
    ratio = np.concatenate([np.log(wrong / closest[0]), np.log(right / closest[1]), [0.0]])
    truth, null = (np.concatenate([*pair, [1 - both.sum()]]) for pair in ((wrong, right), closest))
    step, size = 2e-4, 2**18
    place = np.round(ratio / step).astype(int) % size
    least, most = 300, 2000
    spectra = [np.fft.rfft(np.bincount(place, law, size)) for law in (null, truth)]
    while most - least > 1:
        n = (least + most) // 2
        # rolled, since negative sums come last
        tail = [
            np.cumsum(np.roll(np.fft.irfft(each ** (2 * n), size), size // 2)[::-1])
            for each in spectra
        ]
        enough = tail[1][np.searchsorted(tail[0], SIGNIFICANCE)] >= 0.8
        least, most = (least, n) if enough else (n, most)
    return most


# --- the tests ------------------------------------------------------------------------------------


def fold(case: Case, rng: np.random.Generator, n: int) -> Fold:
    """Half as many selection trials, and the test."""
    parts = []
    for first, size in ((0, n // 2), (n, n)):
        values = np.concatenate([case.draw(rng, size, present) for present in (False, True)])
        index = first * 10 + np.arange(2 * size)
        parts.append(Scores(values, np.arange(2 * size) >= size, index, index))
    return Fold(np.array([], int), parts[0], 0.0, parts[1])


def whole(case: Case, n: int) -> float:
    """Power of the bets on the whole score."""
    rng, found, claim = np.random.default_rng(n), 0, np.array([case.claim])
    for _ in range(AUDITS):
        evidence = Evidence((fold(case, rng, n),))
        if isinstance(case.notion, GDP):
            found += bool(
                curve_betting.refuted(calibrated(evidence, case.notion), claim, SIGNIFICANCE)[0]
            )
        else:
            stages, delta = (
                whole_score.stages(whole_score.readable(evidence)),
                whole_score.delta_of(case.notion),
            )
            found += bool(whole_score.refuted(stages, claim, delta, SIGNIFICANCE)[0])
    return found / AUDITS


def known(case: Case, n: int) -> float:
    """Power of `exact` at the best threshold."""
    return Exact(SIGNIFICANCE).region(case.notion, case.claim, n, n).probability(*case.rates)


def chosen(case: Case, n: int) -> float:
    """Power of `exact` at a threshold that is chosen on the selection."""
    rng, found = np.random.default_rng(n), 0
    region = Exact(SIGNIFICANCE).region(case.notion, case.claim, n, n)
    criterion = Advantage() if isinstance(case.notion, GDP) else ClaimLower()
    for _ in range(AUDITS):
        each = fold(case, rng, n)
        assert each.selection is not None
        counts = each.test.count(criterion(each.selection, Claim(case.notion, case.claim)))
        found += region.contains(counts.fp, counts.fn)
    return found / AUDITS


def needed(power: Callable[[Case, int], float], case: Case, start: int) -> int:
    """n with power 0.8, by a line through Φ⁻¹(power) over ln n at sizes around the last
    estimate."""
    sizes: list[int] = []
    reached: list[float] = []
    n = start
    for _ in range(2):
        for share in (0.85, 1.0, 1.15):
            sizes.append(max(5, round(share * n)))
            reached.append(float(ndtri(np.clip(power(case, sizes[-1]), 0.02, 0.98))))
        slope, height = np.polyfit(np.log(sizes), reached, 1)
        n = round(
            math.exp(np.clip((ndtri(0.8) - height) / slope, math.log(n / 2), math.log(2 * n)))
        )
    return n


def main(words: list[str]) -> None:
    """The table."""
    print(
        "| case | whole score | one threshold, chosen | one threshold, known | limit |\n"
        "|---|---|---|---|---|"
    )
    for case in cases():
        if words and not any(word in case.name for word in words):
            continue
        every = needed(whole, case, case.start)
        one = needed(known, case, every)
        picked = needed(chosen, case, round(1.1 * one))
        print(f"| {case.name} | {every:,} | {picked:,} | {one:,} | {case.limit} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
