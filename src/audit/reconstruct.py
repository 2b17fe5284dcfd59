"""What an ε means, by reconstruction: noisy counts over random subsets give secret bits back when
the noise is small.

n people have a secret bit each. m counts are published, each over a random half of the people, with
Gaussian noise. Least squares and rounding recover a share of the bits, about Φ(√(m − n)/(4·sd)).

References:
    Dinur, Nissim, Revealing information while preserving privacy, PODS 2003; with least squares,
        Dwork, McSherry,
    Talwar, STOC 2007.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, ValidationError
from pydantic.dataclasses import dataclass
from scipy.special import ndtr

from audit.core import AuditError
from audit.privacy import GDP, STRICT, eps_from_rho, max_accuracy, rho_from_eps_delta

Whole = Annotated[int, Field(ge=1)]
Grid = Annotated[
    tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...], Field(min_length=1)
]
LARGEST = 20_000_000
"""Cells of a matrix of queries that fit well into the memory of a small machine (160 MB)."""


@dataclass(frozen=True, config=STRICT)
class Reconstruction:
    """An attack on n bits through m noisy subset counts, at several strengths of the noise.

    Args:
        n: secret bits.
        m: published counts, more than n.
        sd: standard deviations of the noise.
        eps: instead of ``sd``: what all m counts together claim, with ``delta``, by way of
            ρ = m/(2·sd²).
        delta: for the conversion between ε and sd.
        repeats: independent runs: bits, subsets and noise are new in each.
        seed: of all of it.
        out: where the figure goes, a .png or .svg.

    Raises:
        AuditError: sd and eps both given; m ≤ n; too large; a file that cannot be.

    >>> [round(sd, 2) for sd in Reconstruction(eps=(1, 10), delta=1e-5).noise]
    [127.92, 16.75]
    """

    n: Whole = 100
    m: Whole = 1000
    sd: Grid | None = None
    eps: Grid | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    repeats: Annotated[int, Field(ge=2)] = 20
    seed: Annotated[int, Field(ge=0)] = 0
    out: Path = Path("reconstruct.png")

    def __post_init__(self) -> None:
        if self.sd is not None and self.eps is not None:
            raise AuditError(
                "reconstruct: sd and eps both say how much noise there is; give one of them"
            )
        if self.m <= self.n:
            raise AuditError(
                f"reconstruct: m={self.m} counts do not determine n={self.n} bits; make m larger "
                "than n"
            )
        if self.n * self.m > LARGEST:
            raise AuditError(
                f"reconstruct: n·m = {self.n * self.m:,} is more than {LARGEST:,}; make n or m "
                "smaller"
            )
        if self.out.suffix not in {".png", ".svg"} or not self.out.resolve().parent.is_dir():
            raise AuditError(
                f"reconstruct: out={self.out} must be a .png or .svg in a folder that there is"
            )

    @property
    def noise(self) -> tuple[float, ...]:
        """The standard deviations: as given, from eps, or 10, 30 and 100."""
        if self.eps is not None:
            return tuple(
                math.sqrt(self.m / (2 * rho_from_eps_delta(eps, self.delta))) for eps in self.eps
            )
        return self.sd or (10.0, 30.0, 100.0)

    def __call__(self) -> tuple[Point, ...]:
        """One point a standard deviation, in their order; in one run all of them share bits,
        subsets and z-scores."""
        runs = np.random.SeedSequence(self.seed).spawn(self.repeats)
        shares = np.array(
            [recovered(self.n, self.m, self.noise, np.random.default_rng(run)) for run in runs]
        )
        error = shares.std(axis=0, ddof=1) / math.sqrt(self.repeats)
        columns = zip(self.noise, shares.mean(axis=0), error, strict=True)
        return tuple(self._point(sd, float(share), float(off)) for sd, share, off in columns)

    def _point(self, sd: float, share: float, error: float) -> Point:
        return Point(
            sd=sd,
            eps=eps_from_rho(self.m / (2 * sd**2), self.delta),
            share=share,
            error=error,
            predicted=float(predicted(self.n, self.m, sd)),
            allowed=max_accuracy(GDP(), math.sqrt(self.m) / sd),
        )


@dataclasses.dataclass(frozen=True)
class Point:
    """What one strength of the noise gave.

    Args:
        sd: standard deviation of the noise.
        eps: of all counts together, at the δ that was asked for.
        share: of the bits, recovered; the mean over the runs.
        error: standard error of that mean.
        predicted: Φ(√(m − n)/(4·sd)).
        allowed: the best guess of one bit whose owner is in all m counts, when all other bits are
            known: √m/sd-GDP.
    """

    sd: float
    eps: float
    share: float
    error: float
    predicted: float
    allowed: float


def predicted(n: int, m: int, sd: ArrayLike) -> Any:
    """Φ(√(m − n)/(4·sd)), the share of bits that least squares and rounding recover; asymptotic in
    n and m.

    An estimated bit is off by a normal number of variance sd²·4/(m − n), and rounds wrongly beyond
    ½.

    >>> [round(100 * float(predicted(100, 1000, sd)), 1) for sd in (10, 30, 100)]
    [77.3, 59.9, 53.0]
    """
    return ndtr(math.sqrt(m - n) / (4 * np.asarray(sd, dtype=float)))


def recovered(n: int, m: int, noise: Sequence[float], rng: np.random.Generator) -> Any:
    """One run: bits, subsets and noise are drawn, and the bits guessed from the noisy counts alone.

    Args:
        n, m: bits and counts.
        noise: (k,) standard deviations; the same z-scores are scaled by each.

    Returns:
        (k,) shares of the bits that were guessed right.
    """
    bits = rng.integers(0, 2, size=n)
    subsets = rng.integers(0, 2, size=(m, n)).astype(float)
    counts = (subsets @ bits)[:, None] + rng.normal(size=(m, 1)) * np.asarray(noise)
    # The normal equations: a fifth of the time, and what they lose is far below ½; lstsq, since
    # subsets may coincide.
    estimate = np.linalg.lstsq(subsets.T @ subsets, subsets.T @ counts, rcond=None)[0]
    return np.mean((estimate > 0.5) == bits[:, None], axis=0)


# --- audit reconstruct ----------------------------------------------------------------------------


def parse(words: Sequence[str]) -> Reconstruction:
    """``key=value`` words → what is asked for; ``sd`` and ``eps`` are lists, such as
    ``eps=0.5,1,2``.

    Raises:
        AuditError: an unknown key, or a value out of range.
    """
    known = [field.name for field in dataclasses.fields(Reconstruction)]
    given: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise AuditError(
                f"reconstruct: cannot read {word!r}; an option is key=value, with "
                f"{', '.join(known)}"
            )
        given[key] = tuple(value.strip("[]").split(",")) if key in ("sd", "eps") else value
    try:
        return Reconstruction(**given)
    except ValidationError as error:
        first = error.errors()[0]
        what = f"{first['loc'][0]}={first['input']}: {first['msg'][0].lower()}{first['msg'][1:]}"
        raise AuditError(f"reconstruct: {what}") from error


def summary(asked: Reconstruction, points: Sequence[Point]) -> Any:
    """A table with a line for each strength of the noise."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"{asked.n} secret bits from {asked.m} noisy subset counts, {asked.repeats} runs"
    caption = (
        f"eps: of all counts together, at δ = {asked.delta:g}. predicted: Φ(√(m − n)/(4·sd)). one "
        "bit: the best guess of one bit that this eps, as Gaussian noise, allows to somebody who "
        "knows all others."
    )
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        title=title,
        caption=caption,
        caption_justify="left",
    )
    for name in ("noise sd", "eps", "recovered", "± 1 s.e.", "predicted", "one bit"):
        table.add_column(name, justify="right")
    for p in points:
        rates = (f"{100 * rate:.1f} %" for rate in (p.share, p.error, p.predicted, p.allowed))
        table.add_row(f"{p.sd:.4g}", f"{p.eps:.4g}", *rates)
    return table
