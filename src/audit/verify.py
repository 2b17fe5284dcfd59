"""What ex-post privacy rests on, computed: E[W] ≤ 1 for each mechanism, and what post-processing
leaves of it.

For Gaussians E[W] is an integral of α-tilted Gaussians: sampled from the tilted law, every weighted
sample is E[W] itself, so that a correct Brownian mechanism gives 1.0 to rounding, whatever stops
it. Nothing here is a statistical test but where it says so.

References:
    Räisä, Koskela, Honkela, arXiv:2509.22213.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from audit.accountants import on_disjoint_data, on_shared_data, precisions, pure_to_renyi
from audit.core import Array, AuditError, Domain, Table
from audit.mechanisms.brownian import Brownian, StoppedRuns, first, sequence, vector_query
from audit.mechanisms.checks import stopping_law
from audit.mechanisms.laplace_reduction import LaplaceReduction
from audit.mechanisms.marginals import gaussian_log_ratio

Stop = Callable[[Array, Array], Array]
"""(n, K, d) releases and (n, K) log-likelihood ratios → (n,) places; must not look ahead."""

EXACT = 1e-12


@dataclasses.dataclass(frozen=True)
class Finding:
    """One figure and what it has to be.

    Args:
        what: in words.
        figure: computed.
        least, most: that it may be.
    """

    what: str
    figure: float
    least: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether the figure is where it must be, to 1e-12."""
        return self.least - EXACT <= self.figure <= self.most + EXACT


# --- Gaussian ladders -----------------------------------------------------------------------------


def tilted(
    mechanism: Brownian, pair: tuple[Table | Array, Table | Array], trials: int, seed: int
) -> Array:
    """(trials,) W·dQ/dT at samples of the α-tilted law T ∝ p^α·q^(1 − α), up to each run's stop;
    their mean is E[W].

    T of Gaussians is the Gaussian around q + α(p − q) with the same covariance. For a correct
    mechanism each one is 1.

    Args:
        mechanism: whose own noise, stopping rule, report and likelihood are used; must know its
            likelihood.
        pair: X, which is p's, and X', which is q's.
        trials: samples.
        seed: of the noise.
    """
    (p, sensitivity), (q, _) = (vector_query(data, "l2") for data in pair)
    rng, a = np.random.default_rng(seed), mechanism.order
    precision = precisions(mechanism.ladder, a, sensitivity)
    middle = q + a * (p - q)
    seen = mechanism.draw(middle, precision, trials, rng)
    stopped = mechanism.stopped(seen, q, precision)
    ratio = mechanism.ratio()
    if ratio is None:
        raise ValueError(f"{type(mechanism).__name__} does not know its likelihood")
    steps = StoppedRuns(seen, stopped, mechanism.report(stopped), precision, ratio)
    return np.exp((1 - a) * steps.reported + a * ratio(steps, q, p) - ratio(steps, q, middle))


def stopped_by(
    rule: Stop, ladder: Sequence[float], order: float, width: int, trials: int, seed: int
) -> Array:
    """(trials,) as `tilted`, of the ladder itself, stopped by ``rule``, who knows p = (1, 0, …) and
    q = 0."""
    precision, p, rng = (
        precisions(ladder, order, 1.0),
        np.eye(1, width)[0],
        np.random.default_rng(seed),
    )
    seen = sequence(order * p, precision, trials, rng)
    ratio = (seen @ p - 0.5) * precision
    stopped = rule(seen, ratio)
    at = np.arange(trials), stopped
    moved = gaussian_log_ratio(seen[at], 0 * p, order * p, precision[stopped][:, None])
    return np.exp((1 - order) * np.asarray(ladder)[stopped] + order * ratio[at] - moved)


RULES: dict[str, Stop] = {
    "the last step": lambda seen, ratio: np.full(len(seen), seen.shape[1] - 1),
    "a release far from 0": lambda seen, ratio: first(np.abs(seen[:, :, 0]) > 1.5),
    "adversarial: once p looks likelier": lambda seen, ratio: first(ratio > 0),
    "adversarial: once the ratio is above 1": lambda seen, ratio: first(ratio > 1),
    "adversarial: once q looks likelier": lambda seen, ratio: first(ratio < 0),
    "adversarial: after a rise of the ratio": lambda seen, ratio: first(
        np.diff(ratio, axis=1, prepend=ratio[:, :1]) > 0.3
    ),
}
LADDERS = ((0.5,), (0.1, 0.2, 0.4, 0.8, 1.6), tuple(np.linspace(0.05, 3, 40)))
ORDERS = (1.01, 2.0, 3.0, 32.0)


def adaptive(order: float, trials: int, seed: int) -> Array:
    """(trials,) as `tilted`, of a ladder that makes itself: the next ε is chosen by what came out,
    and when to stop too.

    An adversary takes a small step while q looks likelier, a large one while p does, and stops once
    the ratio is above 1.
    """
    rng, eps = np.random.default_rng(seed), np.full(trials, 0.1)
    # total: Σ precision·z
    spent, total, going = np.zeros(trials), np.zeros(trials), np.ones(trials, bool)
    for _ in range(30):
        gain = precisions(eps, order, 1.0) * going
        total += rng.normal(size=trials) * np.sqrt(gain) + gain * order
        spent += eps * going
        ratio = total - precisions(spent, order, 1.0) / 2
        going &= ratio <= 1
        eps = np.where(ratio > 0, 0.2, 0.02)
    moved = order * total - order**2 * precisions(spent, order, 1.0) / 2
    return np.exp((1 - order) * spent + order * (total - precisions(spent, order, 1.0) / 2) - moved)


def train_and_validate(
    where: str, report: Callable[[float, list[float]], float], order: float, seed: int
) -> float:
    """E[W] of Gaussian training releases with Gaussian checks between them, by `tilted`'s sampler.

    Args:
        where: ``train``, ``validate`` or ``both``: the part that the differing record is in.
        report: ε_train and the ε_V of the checks → what is reported.
        order: α.
        seed: of the noise.
    """
    rng, ladder, check, trials = np.random.default_rng(seed), np.array([0.2, 0.6, 1.2]), 0.3, 4000
    precision = precisions(ladder, order, 1.0)
    seen = sequence(np.array([order * (where != "validate")]), precision, trials, rng)[:, :, 0]
    # of q to p, at most 1
    noise, moves = 1 / math.sqrt(precisions(check, order, 1.0)), np.where(seen > 0.5, 1.0, 0.95)
    tells = moves * (where != "train")
    noisy = rng.normal(size=seen.shape) * noise + order * tells
    stopped = first(noisy > 1.0)
    made = np.arange(3) <= stopped[:, None]
    at = np.arange(trials), stopped

    def ratio(shift: float) -> Array:
        trained = shift * (seen[at] - shift / 2) * precision[stopped] * (where != "validate")
        return (
            trained + (made * (shift * tells) * (noisy - shift * tells / 2)).sum(axis=1) / noise**2
        )

    reported = np.array([report(float(ladder[k]), [check] * (k + 1)) for k in stopped])
    return float(np.mean(np.exp((1 - order) * reported + order * ratio(1.0) - ratio(order))))


# --- others ---------------------------------------------------------------------------------------


def laplace(order: float, seed: int) -> float:
    """The largest W·dQ/dP of many runs of `LaplaceReduction`: e^((α − 1)(L − ε)), ≤ 1 for every
    single output."""
    domain = Domain(("a", "b"), (2, 2))
    q, p = Table(domain, np.zeros((3, 2))), Table(domain, np.array([[0, 0]] * 3 + [[1, 1]]))
    steps = LaplaceReduction().release(p, 4000, np.random.default_rng(seed))
    return float(np.exp((order - 1) * np.max(steps.log_ratio(q, p) - steps.spent())))


def above_threshold(order: float, eps: float) -> float:
    """The largest E[W] of AboveThreshold over neighbouring values of three queries, exact; it
    reports `pure_to_renyi`."""
    worst, q = 0.0, stopping_law(np.zeros(3), eps, 1.0)
    for move in itertools.product((-1.0, 0.0, 1.0), repeat=3):
        p = stopping_law(np.array(move), eps, 1.0)
        for one, other in ((p, q), (q, p)):
            worst = max(worst, float(np.sum(one**order * other ** (1 - order))))
    return worst * math.exp((1 - order) * pure_to_renyi(eps, order))


# --- post-processing ------------------------------------------------------------------------------


def mean_w(p: Array, q: Array, eps: Array, order: float) -> float:
    """E_Q[W] of a finite mechanism, whose outputs have the probabilities p and q and report eps,
    each (n,)."""
    return float(np.sum(q * np.exp((1 - order) * eps) * (p / q) ** order))


def processed(p: Array, eps: Array, kernel: Array) -> Array:
    """(levels·m,) probabilities of (new output, reported ε): ``kernel`` (n, m) changes outputs, and
    ε stays."""
    levels, place = np.unique(eps, return_inverse=True)
    joint = np.zeros((len(levels), kernel.shape[1]))
    np.add.at(joint, place, p[:, None] * kernel)
    return joint.ravel()


def immunity(trials: int, seed: int) -> tuple[float, float]:
    """Random finite mechanisms at E[W] = 1, and random kernels: the largest E[W] after, and the
    mean of them."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(trials):
        n, levels, order = (
            int(rng.integers(2, 9)),
            int(rng.integers(1, 4)),
            1 + float(rng.exponential(3)) + 1e-3,
        )
        p, q = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))
        eps = rng.random(levels)[rng.integers(levels, size=n)]
        # so that it is exactly 1 before
        eps = eps + math.log(mean_w(p, q, eps, order)) / (order - 1)
        kernel = rng.dirichlet(np.full(int(rng.integers(1, 6)), 0.3), size=n)
        after = [processed(side, eps, kernel) for side in (p, q)]
        kept = after[1] > 0
        reported = np.repeat(np.unique(eps), kernel.shape[1])
        found.append(mean_w(after[0][kept], after[1][kept], reported[kept], order))
    return max(found), float(np.mean(found))


COUNTEREXAMPLE = np.array([0.01, 0.60, 0.39]), np.array([0.0, 0.30, 0.70]), math.log(2)
"""P, Q and the ε that all outputs report: probabilistically (ln 2, .01) ex post."""
MERGED = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
"""The kernel that makes one output of the first two."""


def violation_mass(p: Array, q: Array, eps: float) -> float:
    """P(ln(p/q) > ε): the δ of δ-probabilistic ex-post privacy.

    >>> violation_mass(*COUNTEREXAMPLE)
    0.01
    >>> round(violation_mass(*(x @ MERGED for x in COUNTEREXAMPLE[:2]), math.log(2)), 12)
    0.61
    """
    return float(np.sum(p[p > q * math.exp(eps) + 1e-15]))


def excess_mass(p: Array, q: Array, eps: float) -> float:
    """Σ (p − e^ε·q)₊: the δ of approximate ex-post privacy.

    >>> round(excess_mass(*COUNTEREXAMPLE), 12)
    0.01
    """
    return float(np.sum(np.maximum(p - math.exp(eps) * q, 0.0)))


# --- all of it ------------------------------------------------------------------------------------


def findings(seed: int = 0) -> Iterator[Finding]:
    """Everything that is claimed, figure by figure."""
    pair = np.zeros((0, 3)), np.array([[0.6, 0.8, 0.0]])
    for order in ORDERS:
        for rule, stop in RULES.items():
            off = [stopped_by(stop, ladder, order, 2, 4000, seed) for ladder in LADDERS]
            yield _one(f"Brownian, α = {order:g}, stopped by {rule}", np.concatenate(off))
        mechanism = Brownian(order=order)
        weights = [tilted(mechanism, sides, 4000, seed) for sides in (pair, pair[::-1])]
        yield _one(f"mechanism=brownian, α = {order:g}, both directions", np.concatenate(weights))
        yield _one(f"a ladder that makes itself, α = {order:g}", adaptive(order, 4000, seed))
        for where in ("train", "validate"):
            mean = train_and_validate(where, on_disjoint_data, order, seed)
            yield Finding(
                f"train and validate apart, α = {order:g}, a record that {where}s, max", mean, 0, 1
            )
        mean = train_and_validate("both", on_shared_data, order, seed)
        yield Finding(f"train and validate on the same records, α = {order:g}, sum", mean, 0, 1)
        yield Finding(
            f"mechanism=laplace_reduction, α = {order:g}, largest W·dQ/dP",
            laplace(order, seed),
            0,
            1,
        )
        for eps in (0.5, 2.0):
            yield Finding(
                f"AboveThreshold, ε = {eps:g}, α = {order:g}", above_threshold(order, eps), 0, 1
            )
    wrong = train_and_validate("train", lambda train, checks: sum(checks), 3.0, seed)
    yield Finding(
        "broken on purpose: the validation part alone, α = 3, must be above 1", wrong, 1.1, math.inf
    )
    largest, usual = immunity(2000, seed)
    yield Finding(
        f"post-processing, 2,000 random mechanisms and kernels (mean {usual:.3f}), largest",
        largest,
        0,
        1,
    )
    p, q, eps = COUNTEREXAMPLE
    yield Finding(
        "δ-probabilistic ex-post: violation mass before post-processing",
        violation_mass(p, q, eps),
        0.01,
        0.01,
    )
    yield Finding(
        "… and after two outputs are merged: not immune",
        violation_mass(p @ MERGED, q @ MERGED, eps),
        0.61,
        0.61,
    )
    yield Finding("approximate ex-post: δ before", excess_mass(p, q, eps), 0.01, 0.01)
    yield Finding("… and after: immune", excess_mass(p @ MERGED, q @ MERGED, eps), 0, 0.01)


def _one(what: str, weights: Array) -> Finding:
    """The weight that is furthest from 1, which all of them must be."""
    return Finding(what, float(weights[np.argmax(np.abs(weights - 1))]), 1, 1)


def main(words: Sequence[str] = ()) -> int:
    """Compute and print everything.

    Args:
        words: ``--seed``.

    Returns:
        Exit status: 2 where a figure is not where it must be.

    Raises:
        AuditError: wrong words.
    """
    from rich.console import Console

    parser = argparse.ArgumentParser("audit verify", description=__doc__, exit_on_error=False)
    parser.add_argument("--seed", type=int, default=0, help="of the samples")
    try:
        given, others = parser.parse_known_args(list(words))
    except argparse.ArgumentError as error:
        raise AuditError(f"audit verify: {error}") from error
    except SystemExit:  # --help has been printed
        return 0
    if others:
        raise AuditError(f"audit verify takes --seed and not {others[0]!r}")
    if given.seed < 0:
        raise AuditError(f"--seed={given.seed}: must be a whole number, 0 or more")
    found = list(findings(given.seed))
    console = Console()
    console.print(table(found))
    wrong = [finding.what for finding in found if not finding.holds]
    console.print(
        f"{len(found) - len(wrong)} of {len(found)} hold"
        + "".join(f"\nfails: {what}" for what in wrong)
    )
    return 2 if wrong else 0


def table(found: Sequence[Finding]) -> object:
    """A row for each finding."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    # as plain_table
    shown = RichTable("what", "E[W] or figure", "must be", "", box=SIMPLE_HEAD, pad_edge=False)
    for each in found:
        due = (
            f"{each.least:g}"
            if each.least == each.most
            else f"≥ {each.least:g}"
            if each.least
            else f"≤ {each.most:g}"
        )
        shown.add_row(each.what, f"{each.figure:.13g}", due, "yes" if each.holds else "[red]no[/]")
    return shown
