"""The sparse vector technique of six papers: one is right, the others are not private as
claimed."""

from __future__ import annotations

import dataclasses
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.integrate import cumulative_trapezoid

from audit.core import Array, Claim, Columns
from audit.privacy import STRICT, PrivacyParameter, PureDP

Scale = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class SparseVector:
    """Says of each query whether its answer + Lap(``query_noise``) reaches
    ``threshold`` + Lap(``threshold_noise``).

    It stops after ``cutoff`` times yes. A record is what it adds to each query, within [0, 1]. The
    claim is ε-DP where one is replaced; only Algorithm 1, with noise 2/ε and 4·cutoff/ε and no
    values, keeps it.

    Args:
        eps: what is claimed.
        threshold_noise: scale of the one noise of the threshold, > 0.
        query_noise: scale of the noise of each answer; 0 for none.
        cutoff: how often it may say yes; None: always.
        threshold: what answers are compared with.
        tells_value: put out the noisy answer in the place of yes.

    Raises:
        ValueError: values without noise, or several of them, which are not built.

    References:
        Lyu, Su, Li 2017, Understanding the Sparse Vector Technique, arXiv:1603.01699, Algorithms 1
            and 3–6.
    """

    eps: PrivacyParameter
    threshold_noise: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    query_noise: Scale
    cutoff: Annotated[int, Field(ge=1)] | None = 1
    threshold: float = 0.0
    tells_value: bool = False

    block: ClassVar[int] = 1000

    def __post_init__(self) -> None:
        if self.tells_value and (self.cutoff != 1 or not self.query_noise):
            raise ValueError("tells_value needs cutoff=1 and some query_noise")

    @property
    def claims(self) -> tuple[Claim, ...]:
        """ε-DP, whether it is true or not."""
        return (Claim(PureDP(), self.eps, neighbours="replace_one"),)

    def release(self, data: Array, trials: int, rng: np.random.Generator) -> Answered:
        """``trials`` passes over the queries, with the records ``data`` (n, k)."""
        answers = data.sum(axis=0)
        bar = self.threshold + rng.laplace(0.0, self.threshold_noise, size=(trials, 1))
        noisy = answers + rng.laplace(0.0, self.query_noise, size=(trials, len(answers)))
        yes = noisy >= bar
        if self.cutoff is None:
            asked = np.ones_like(yes)
        else:
            earlier_yes = np.cumsum(yes, axis=1) - yes
            asked = earlier_yes < self.cutoff
        return Answered(self, yes & asked, asked, np.where(yes & asked, noisy, 0.0))


@dataclasses.dataclass(frozen=True)
class Answered:
    """n passes: what was said of each query, and whether it was asked at all.

    Args:
        made_by: the mechanism.
        yes: (n, k) whether the answer reached the threshold.
        asked: (n, k) false after the last yes.
        value: (n, k) the noisy answer where yes was said, else 0.
    """

    made_by: SparseVector
    yes: Array
    asked: Array
    value: Array

    def public(self) -> Columns:
        """(n, k + 1) 1 for each yes, and the number of queries asked; the value last, if told."""
        names = [f"yes[{i}]" for i in range(self.yes.shape[1])] + ["asked"]
        columns = [self.yes.astype(float), self.asked.sum(axis=1, keepdims=True)]
        if self.made_by.tells_value:
            names.append("value")
            columns.append(self.value.sum(axis=1, keepdims=True))
        return Columns(tuple(names), np.hstack(columns))

    def insider(self) -> Columns:
        """The same: nothing is hidden."""
        return self.public()

    def log_ratio(self, absent: Array, present: Array) -> Array | None:
        """(n,) by quadrature over the threshold's noise.

        None without query noise, where outputs may be impossible.
        """
        if not self.made_by.query_noise:
            return None
        return self._log_density(present.sum(axis=0)) - self._log_density(absent.sum(axis=0))

    def _log_density(self, answers: Array) -> Array:
        """(n,) log P(output | answers): ∫ p(ρ) Π P(each query's yes or no | ρ) dρ.

        ρ is the threshold's noise. Where a value is told, the integral ends at it.
        """
        m = self.made_by
        valued = self.yes if m.tells_value else np.zeros_like(self.yes)
        distinct = np.unique(answers)
        # Few different answers, many queries: runs with the same numbers of no and of yes for each
        # answer have the same density, which is computed once.
        counts = []
        for answer in distinct:
            asked = (answers == answer) & ~valued & self.asked
            counts += [(asked & ~self.yes).sum(axis=1), (asked & self.yes).sum(axis=1)]
        kinds, kind = np.unique(np.stack(counts, axis=1), axis=0, return_inverse=True)
        # A told value lies on no grid, so the grid is finer there.
        rho = _grid(m.threshold_noise, m.query_noise, 64 if m.tells_value else 16)
        gap = (m.threshold + rho - distinct[:, None]) / m.query_noise
        log_no = _log_laplace(gap)
        log_yes = _log_laplace(-gap)
        log_chance = np.stack([log_no, log_yes], axis=1).reshape(-1, len(rho))
        log_noise = np.abs(rho) / m.threshold_noise
        log_f = kinds @ log_chance - log_noise - np.log(2 * m.threshold_noise)
        area = _log_integral(log_f, rho)
        if not m.tells_value:
            return np.asarray(area[kind, -1])
        value = self.value.sum(axis=1)
        known = valued.any(axis=1)
        # The threshold cannot be above the value that reached it.
        limit = np.where(known, value - m.threshold, rho[-1])
        miss = np.abs(value - (valued * answers).sum(axis=1)) / m.query_noise
        log_value_density = np.where(known, miss + np.log(2 * m.query_noise), 0.0)
        return _up_to(limit, rho, log_f, area, kind) - log_value_density


def _grid(threshold_noise: float, query_noise: float, steps: int) -> Array:
    """Points of the threshold's noise, as far as both noises reach; 0 is one of them.

    There are ``steps`` points to a unit of the finer noise.
    """
    reach = 30 * threshold_noise + 5 * query_noise
    half = int(reach / min(threshold_noise, query_noise) * steps)
    return np.arange(-half, half + 1) * (min(threshold_noise, query_noise) / steps)


def _log_laplace(x: Array) -> Array:
    """log P(Lap(1) < x).

    >>> np.exp(_log_laplace(np.array([-1.0, 0.0, 1.0]))).round(4).tolist()
    [0.1839, 0.5, 0.8161]
    """
    with np.errstate(over="ignore"):
        return np.where(x < 0, x - np.log(2), np.log1p(-np.exp(-np.abs(x)) / 2))


def _up_to(limit: Array, at: Array, log_f: Array, area: Array, row: Array) -> Array:
    """(n,) log of the integral of f up to ``limit``: whole steps of the grid, and part of one.

    f is a row of exp(``log_f``), linear in its logarithm within a step.
    """
    step = at[1] - at[0]
    left = np.clip(np.searchsorted(at, limit, side="right") - 1, 1, len(at) - 2)
    part = np.clip(limit - at[left], 1e-300, step)  # above 0, since its logarithm is taken
    share = part / step
    log_f_left = log_f[row, left]
    log_f_end = (1 - share) * log_f_left + share * log_f[row, left + 1]
    log_last = np.log(part / 2) + np.logaddexp(log_f_left, log_f_end)
    return np.asarray(np.logaddexp(area[row, left], log_last))


def _log_integral(log_values: Array, at: Array) -> Array:
    """(n, k) log of the integral of exp(``log_values``) up to each place, by the trapezoid rule."""
    top = log_values.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.log(cumulative_trapezoid(np.exp(log_values - top), at, axis=1, initial=0)) + top
