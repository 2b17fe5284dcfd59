"""A bound from scores alone, for those who have their own mechanism, their own attack, and numbers
already."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from audit.core import (
    Array,
    AuditError,
    Bound,
    Claim,
    Estimator,
    Evidence,
    Fold,
    NotApplicable,
    Scores,
)
from audit.criteria import ByNotion
from audit.estimators.exact import Exact
from audit.privacy import GDP, Notion
from audit.repeats import copied

DEFAULT = Exact
"""The estimator where none is given: finite-sample, for every notion."""


def bound(
    in_scores: ArrayLike,
    out_scores: ArrayLike,
    *,
    notion: Notion | None = None,
    estimator: Estimator | None = None,
    significance: float | None = None,
    threshold: float | None = None,
    share: float = 0.5,
    seed: int = 0,
    repeats: bool = False,
) -> Bound:
    """How much the mechanism behind some scores leaks at least.

    The scores may be those of any attack that saw none of the runs that they belong to. Each must
    come from a run of its own: **independence is assumed**, and nothing but copies
    (`audit.repeats`) is looked for. Their order is of no account: each side is shuffled before a
    bound that reads one score after another sees it.

    A threshold that was chosen beforehand tests on all of them. Without one, a random ``share`` of
    each side chooses it, by the criterion ``by_notion``, and the bound is read off the others
    alone: that is what the choice costs.

    Args:
        in_scores: (n,) or (n, 1) of runs with the record, high where the attack believes in it;
            infinities allowed.
        out_scores: (m,) or (m, 1) of runs without it.
        notion: what is bounded; GDP (μ) where nothing is said.
        estimator: the recipe, any of ``audit.estimators``; `Exact`, which is finite-sample, where
            nothing is said.
        significance: error probability, in (0, ½); the estimator's own where nothing is said.
        threshold: from which on a score means "present"; chosen before the scores were seen.
        share: of each side that chooses the threshold where none is given, in (0, 1).
        seed: of the shuffle of each side, and of the draw of that share.
        repeats: accept scores that look like copies of each other.

    Returns:
        The bound, with the sort of promise that the estimator makes.

    Raises:
        AuditError: scores that are empty, NaN or copies, labels in the place of a side, a notion or
            an estimator that is none, a share that leaves a side empty, an estimator that cannot
            read such evidence.

    >>> from audit.privacy import PureDP
    >>> rng = np.random.default_rng(0)
    >>> ins, outs = rng.laplace(1, size=4000), rng.laplace(0, size=4000)  # 1-DP
    >>> found = bound(ins, outs, notion=PureDP(), significance=0.05, threshold=1.0)
    >>> round(found.lower, 2), found.kind, found.significance
    (0.9, 'finite-sample', 0.05)
    >>> # one threshold here, chosen by half of the scores
    >>> round(bound(ins, outs, notion=PureDP(), significance=0.05).lower, 2)
    0.81
    """
    _refuse_no_instance("notion", notion)
    _refuse_no_instance("estimator", estimator)
    sides = [_side("out_scores", out_scores), _side("in_scores", in_scores)]
    _refuse_labels(*sides)
    notion, recipe = notion or GDP(), estimator or DEFAULT()
    if significance is not None:
        if not 0 < significance < 0.5:
            raise AuditError(f"significance={significance}: must be above 0 and below 0.5")
        recipe = cast(Estimator, dataclasses.replace(cast(Any, recipe), significance=significance))
    scores = _scores(sides)
    if not repeats and (found := copied(scores.values, scores.bits, "scores")):
        raise AuditError(
            f"{found}, which those of independent runs are not; keep one of each, or say "
            "repeats=True"
        )
    shuffled = _shuffled(scores, seed)
    fold = _split(shuffled, notion, share) if threshold is None else _whole(shuffled, threshold)
    try:
        return recipe(Evidence((fold,)), notion)
    except NotApplicable as reason:
        raise AuditError(
            f"{recipe.name} has no bound here: {reason}; choose another estimator"
        ) from reason


def _side(name: str, scores: ArrayLike) -> Array:
    try:
        side = np.asarray(scores, dtype=float)
    except (TypeError, ValueError) as error:
        raise AuditError(f"{name} holds no numbers ({error}); give one score a run") from error
    if side.ndim == 2 and side.shape[1] == 1:  # a column, as data frames and networks give it
        side = side[:, 0]
    if side.ndim == 2 and side.shape[1] == 2:
        raise AuditError(
            f"{name} has shape {side.shape}; give one score a run, such as {name}[:, 1]"
        )
    if side.ndim != 1 or not len(side):
        raise AuditError(f"{name} has shape {side.shape}; give one score a run, at least one")
    if np.isnan(side).any():
        raise AuditError(
            f"{name}[{int(np.argmax(np.isnan(side)))}] is NaN; fix the attack, a run that fails "
            "counts too"
        )
    return side


def _refuse_labels(outs: Array, ins: Array) -> None:
    """Scikit-learn's metrics take labels beside scores of both sides; here each side has scores of
    its own.

    Raises:
        AuditError: one side holds only labels beside a continuous one.
    """
    numbers = [np.unique(side) for side in (outs, ins)]
    labels = [values.tolist() in ([0, 1], [-1, 1]) for values in numbers]
    for name, other, is_labels, values in (
        ("out_scores", "in_scores", labels[0], numbers[1]),
        ("in_scores", "out_scores", labels[1], numbers[0]),
    ):
        if is_labels and np.setdiff1d(values, [-1, 0, 1]).size > 1:
            raise AuditError(
                f"{name} holds only labels and {other} scores: one array of scores is due for "
                "each side, so with labels as in scikit-learn call audit.bound(scores[labels == "
                "1], scores[labels != 1])"
            )


def _refuse_no_instance(name: str, given: Any) -> None:
    """Raise AuditError for a text or a class where its instance is due."""
    if given is None or (
        hasattr(given, "name" if name == "estimator" else "beta") and not isinstance(given, type)
    ):
        return
    what = given.__name__ if isinstance(given, type) else repr(given)
    if name == "estimator":
        cure = (
            "give one of audit.estimators, such as "
            "audit.estimators.clopper_pearson.ClopperPearson()"
        )
    elif "approx" in str(what).lower():
        cure = "give an instance: audit.ApproximateDP(delta=1e-5)"
    else:
        by_name = {
            "gdp": "GDP",
            "puredp": "PureDP",
            "pure": "PureDP",
            "dp": "PureDP",
            "zcdp": "ZCDP",
        }
        known = by_name.get("".join(filter(str.isalnum, str(what).lower())))
        every = "audit.GDP(), audit.PureDP(), audit.ApproximateDP(delta=1e-5) or audit.ZCDP()"
        cure = f"give an instance: {f'audit.{known}()' if known else every}"
    raise AuditError(f"{name}={what} is no {name}; {cure}")


def _scores(sides: list[Array]) -> Scores:
    """Both sides as one, absent first."""
    index = np.arange(len(sides[0]) + len(sides[1]))
    return Scores(np.concatenate(sides), index >= len(sides[0]), index, index)


def _shuffled(scores: Scores, seed: int) -> Scores:
    """Each side in an order that does not depend on the scores: a bet on sorted ones would know
    what comes next."""
    rng = np.random.default_rng(seed)
    where = np.concatenate(
        [rng.permutation(np.flatnonzero(scores.bits == bit)) for bit in (False, True)]
    )
    return _at(scores, where)


def _at(scores: Scores, where: Array) -> Scores:
    return Scores(scores.values[where], scores.bits[where], scores.index[where], scores.run[where])


def _whole(scores: Scores, threshold: float) -> Fold:
    """All of them tested at a threshold that was chosen beforehand."""
    if np.isnan(threshold):
        raise AuditError("threshold=nan: must be a number; infinities say always, or never")
    return Fold(np.array([], int), None, float(threshold), scores)


def _split(scores: Scores, notion: Notion, share: float) -> Fold:
    """The first ``share`` of each shuffled side chooses the threshold, the others test it."""
    chosen = np.zeros(len(scores), dtype=bool)
    for bit in (False, True):
        side = np.flatnonzero(scores.bits == bit)
        count = round(share * len(side))
        if not 0 < count < len(side):
            raise AuditError(
                f"share={share:g} of {len(side)} scores leaves none to "
                f"{'choose on' if count <= 0 else 'test'}; give more scores, or a threshold"
            )
        chosen[side[:count]] = True
    selection = _at(scores, chosen)
    threshold = ByNotion()(selection, Claim(notion, 0.0))
    return Fold(np.array([], int), selection, threshold, _at(scores, ~chosen))
