"""Counts → bound, by the posterior of both error rates at once."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.optimize import brentq
from scipy.special import betaincc, betainccinv, betaincinv, expit, ndtri

from audit.core import Array, Bound, Counts, Design, Evidence, NotApplicable
from audit.criteria import upper_rate
from audit.estimators.power import expected_bound
from audit.privacy import STRICT, Notion

Prior = Literal["jeffreys", "uniform"]
Beta = tuple[float, float]


@dataclass(frozen=True, config=STRICT)
class JointBayes:
    """The parameter whose region {FNR ≥ T(FPR)} holds ``significance`` of the posterior of (FPR,
    FNR).

    Bayesian: it promises no coverage by itself. On smooth curves it was measured to be about right;
    near a kink it over-claims at every number of trials, so of a kinked curve one piece is chosen
    on the selection trials and used alone.

    Args:
        significance: posterior probability that the parameter is smaller than the bound.
        prior: of each rate: Beta(½, ½) or Beta(1, 1).

    References:
        Zanella-Béguelin et al. 2023, arXiv:2206.05199 (two-dimensional posterior of (FPR, FNR));
            here in one dimension.
    """

    significance: Annotated[float, Field(gt=0, lt=0.5)] = 0.1
    prior: Prior = "jeffreys"
    name: ClassVar[str] = "joint_bayes"

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A Bayesian bound.

        Raises:
            NotApplicable: when the counts are not binomial, or a kinked curve meets evidence
                without selection trials.
        """
        self.allow(evidence.design, notion)
        piece = self._piece(evidence, notion)
        return Bound(
            self.name, notion, self.lower(evidence.counts, piece), self.significance, "Bayesian"
        )

    def allow(self, design: Design, notion: Notion) -> None:
        """Binomial counts; of a kinked curve, a side that is chosen on selection trials."""
        if not design.independent:
            raise NotApplicable("joint Bayes needs counts of independent trials under one attack")
        if len(notion.pieces()) > 1 and not design.selection:
            raise NotApplicable(
                "joint Bayes over-claims at a kink, and there are no selection trials to choose a "
                "side on"
            )

    def lower(self, counts: Counts, notion: Notion) -> float:
        """The bound itself, ≥ 0; 0 where a class is empty. Of a kinked ``notion`` give one
        piece."""
        return joint_bayes(counts, notion, self.significance, self.prior)

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """See `audit.estimators.power.expected_bound`."""
        return expected_bound(self.lower, notion, parameter, n_absent, n_present)

    def _piece(self, evidence: Evidence, notion: Notion) -> Notion:
        pieces = notion.pieces()
        if len(pieces) == 1:
            return notion
        fold = evidence.folds[0]
        assert fold.selection is not None
        seen, share = fold.selection.count(fold.threshold), self.significance / 2
        fpr, fnr = upper_rate(seen.fp, seen.tn, share), upper_rate(seen.fn, seen.tp, share)
        return max(pieces, key=lambda piece: float(piece.parameter(fpr, fnr)))


def joint_bayes(
    counts: Counts, notion: Notion, significance: float = 0.1, prior: Prior = "jeffreys"
) -> float:
    """The parameter m with P(parameter ≤ m | counts) = significance, 0 where m = 0 already has
    more.

    Args:
        counts: the test's confusion table.
        notion: a family of curves; used as it is, kinks included (there it over-claims: give one
            piece).
        significance: posterior probability below the bound, in (0, 1).
        prior: of each rate.

    Returns:
        A finite number ≥ 0; 0 where a class is empty.

    >>> from audit.privacy import GDP
    >>> round(joint_bayes(Counts(fp=949, tn=1051, fn=743, tp=1257), GDP(), 0.1), 6)
    0.340501
    """
    if counts.fp + counts.tn == 0 or counts.fn + counts.tp == 0:
        return 0.0
    mass = posterior(counts, notion, prior)
    target = float(ndtri(significance))

    @functools.cache
    def excess(parameter: float) -> float:
        # In normal quantiles the mass is nearly a straight line, which a root is found on in a few
        # steps.
        return float(ndtri(np.clip(mass(parameter), 1e-300, 1 - 1e-16))) - target

    return _root(excess, *_guess(*_rates(counts, prior), notion, significance))


def posterior(
    counts: Counts, notion: Notion, prior: Prior = "jeffreys"
) -> Callable[[float], float]:
    """m ↦ P(parameter ≤ m | counts) = P(FNR ≥ T_m(FPR)) = ∫ S(T_m(f)) dF(f).

    F is the posterior of the FPR, S the survival function of the FNR's. Any T is the inverse of its
    mirror image, so the integral may run over either rate: over the one that moves the parameter
    less, since the other makes the integrand smooth.

    Args:
        counts: of both classes.
        notion: a family of curves.
        prior: of each rate.

    Returns:
        An increasing function, good to about 1e-9; to 1e-5 for zCDP with ten trials, or a kink near
        an end of the posterior.

    >>> from audit.privacy import GDP
    >>> round(posterior(Counts(fp=949, tn=1051, fn=743, tp=1257), GDP())(0.340501), 5)
    0.1
    """
    over, other = _rates(counts, prior)
    if np.greater(*_shares(over, other, notion)):
        over, other, notion = other, over, _mirror(notion)
    smooth = not notion.kinks(1.0)
    nodes = _nodes(over, ())

    def mass(parameter: float) -> float:
        rates, weights = nodes if smooth else _nodes(over, notion.kinks(parameter))
        return float(np.dot(weights, betaincc(*other, notion.beta(rates, parameter))))

    return mass


def _rates(counts: Counts, prior: Prior) -> tuple[Beta, Beta]:
    """Parameters of the Beta posteriors of the FPR and the FNR."""
    before = 0.5 if prior == "jeffreys" else 1.0
    return (counts.fp + before, counts.tn + before), (counts.fn + before, counts.tp + before)


def _shares(fpr: Beta, fnr: Beta, notion: Notion) -> tuple[float, float]:
    """How far the parameter moves when one rate crosses the middle of its posterior and the other
    stays."""
    low, middle, high = np.array([betaincinv(*rate, (0.16, 0.5, 0.84)) for rate in (fpr, fnr)]).T
    alpha = np.array([low[0], high[0], middle[0], middle[0]])
    beta = np.array([middle[1], middle[1], low[1], high[1]])
    parameter = notion.parameter(alpha, beta)
    return float(parameter[0] - parameter[1]), float(parameter[2] - parameter[3])


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where ``excess`` crosses 0, from a guess (low, high) of where that is; 0 where it never is
    negative."""
    if not low < high:
        low, high = 0.0, max(2 * high, 0.1)
    step = high - low
    while excess(low) > 0:
        if low == 0:
            return 0.0
        low, high, step = max(0.0, low - step), low, 2 * step
    for _ in range(60):
        if excess(high) > 0:
            break
        low, high = high, 2 * high
    return float(brentq(excess, low, high, xtol=1e-12, rtol=1e-12))


def _guess(fpr: Beta, fnr: Beta, notion: Notion, significance: float) -> tuple[float, float]:
    """Two parameters that usually enclose the bound: those of both rates at the same upper
    quantile.

    Two equal shifts of z/√2 in independent normals make one of z; the guesses lie on either side of
    that.
    """
    shift = -float(ndtri(significance))
    tails = [0.5 * math.erfc(part * shift / math.sqrt(2)) for part in (0.85, 0.55)]
    low, high = notion.parameter(betainccinv(*fpr, tails), betainccinv(*fnr, tails))
    return float(low), float(high)


def _mirror(notion: Notion) -> Notion:
    """The family of inverse curves: itself, except for one side of a kinked one."""
    mirrored = getattr(notion, "mirrored", None)
    return notion if mirrored is None else dataclasses.replace(notion, mirrored=not mirrored)  # type: ignore[type-var]


# --- a posterior as nodes and their mass ----------------------------------------------------------


def _even(size: int) -> tuple[Array, Array]:
    """The trapezoid rule on (0, 1): converges exponentially for smooth functions that vanish at
    both ends."""
    return np.linspace(0, 1, size), np.full(size, 1 / (size - 1))


def _crowded(size: int) -> tuple[Array, Array]:
    """The double exponential rule on (0, 1): crowded at both ends, where a kink stands and
    derivatives may be infinite.

    References:
        Takahasi, Mori 1974.
    """
    t = np.linspace(-3.2, 3.2, size)
    u = np.pi * np.sinh(t)
    return expit(u), np.pi * np.cosh(t) * expit(u) * expit(-u) * (t[1] - t[0])


EVEN, CROWDED = _even(200), _crowded(400)


def _nodes(rate: Beta, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Rates, even in logit scale between the posterior's ends, and the mass at each; split at
    kinks."""
    inner = (math.log(k) - math.log1p(-k) for k in kinks)
    low, high = _ends(rate)
    ends = np.array([low, *sorted(k for k in inner if low < k < high), high])
    width = np.diff(ends)[:, None]
    places, weights = CROWDED if kinks else EVEN
    logits = (ends[:-1, None] + width * places).ravel()
    mass = (width * weights).ravel() * _density(rate, logits)
    used = mass > 1e-17 * mass.max()
    return expit(logits[used]), mass[used] / mass.sum()


def _ends(rate: Beta) -> Beta:
    """Logits beyond which the posterior holds nothing that counts."""
    a, b = rate
    low, high = float(betaincinv(a, b, 1e-15)), float(betaincinv(b, a, 1e-15))
    return math.log(low) - math.log1p(-low), math.log1p(-high) - math.log(high)


def _density(rate: Beta, logits: Array) -> Array:
    """Density of the logit, relative to that at the mode, so that no large numbers cancel."""
    a, b = rate
    step = logits - math.log(a / b)
    return np.exp(-(a + b) * np.log1p(b / (a + b) * np.expm1(-step)) - b * step)
