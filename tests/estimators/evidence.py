"""Evidence whose truth is known, for the tests of estimators."""

from __future__ import annotations

import numpy as np

from audit.core import Counts, Evidence, Fold, Scores


def scores(absent, present, first=0):
    """Scores of both classes, the absent ones first, with places in the stream from ``first``
    on."""
    values = np.concatenate([np.asarray(absent, float), np.asarray(present, float)])
    index = first + np.arange(len(values))
    return Scores(values, np.arange(len(values)) >= len(absent), index, index)


def evidence(counts: Counts, selection: Counts | None = None) -> Evidence:
    """One fold of 0-1 scores with these counts in the test, and those in the selection."""
    test = _binary(counts, 0)
    chosen = _binary(selection, len(test)) if selection is not None else None
    return Evidence((Fold(np.array([], int), chosen, 0.5, test),))


def _binary(counts: Counts, first: int) -> Scores:
    return scores(
        np.repeat([1, 0], [counts.fp, counts.tn]), np.repeat([0, 1], [counts.fn, counts.tp]), first
    )
