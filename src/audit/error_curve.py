"""Error rates of an attack at every threshold: the empirical tradeoff curve."""

from __future__ import annotations

import dataclasses

import numpy as np

from audit.core import Array, Scores


@dataclasses.dataclass(frozen=True)
class ErrorCurve:
    """FPR and FNR of the tests "score ≥ threshold".

    Args:
        thresholds: (k,) ascending; NaN in last place stands for "never present".
        fpr: (k,) false positive rates in [0, 1], falling.
        fnr: (k,) false negative rates in [0, 1], rising.
    """

    thresholds: Array
    fpr: Array
    fnr: Array

    @classmethod
    def at(cls, scores: Scores, thresholds: Array) -> ErrorCurve:
        """The rates at these thresholds.

        Args:
            scores: of n trials; the rates of a class without trials are FPR 1 and FNR 0.
            thresholds: (k,) ascending.
        """
        absent = np.sort(scores.absent)
        present = np.sort(scores.present)
        below_absent = np.searchsorted(absent, thresholds, side="left")
        below_present = np.searchsorted(present, thresholds, side="left")
        fpr = 1 - below_absent / max(len(absent), 1)
        fnr = below_present / max(len(present), 1)
        return cls(thresholds, fpr, fnr)

    @classmethod
    def of(cls, scores: Scores) -> ErrorCurve:
        """The rates at every threshold that makes a difference, from "always" to "never".

        >>> index = np.arange(4)
        >>> curve = ErrorCurve.of(Scores(np.array([0.0, 2.0, 1.0, 3.0]), index > 1, index, index))
        >>> curve.fpr.tolist(), curve.fnr.tolist()
        ([1.0, 0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5, 1.0])
        """
        # NaN sorts behind all numbers, ∞ too, so that "never" is a test even where a score is ∞.
        thresholds = np.append(np.unique(scores.values), np.nan)
        return cls.at(scores, thresholds)

    def least_fnr(self, alpha: Array) -> Array:
        """Least FNR of the thresholds with FPR ≤ ``alpha``; 1 where there is none.

        Args:
            alpha: any shape; values outside [0, 1] are allowed.

        >>> index = np.arange(4)
        >>> curve = ErrorCurve.of(Scores(np.array([0.0, 2.0, 1.0, 3.0]), index > 1, index, index))
        >>> curve.least_fnr(np.array([-0.1, 0.0, 0.5, 1.0])).tolist()
        [1.0, 0.5, 0.0, 0.0]
        """
        # FPR falls while FNR rises: the first threshold that is allowed is the best one.
        first_allowed = np.searchsorted(-self.fpr, -alpha, side="left")
        return np.append(self.fnr, 1.0)[first_allowed]
