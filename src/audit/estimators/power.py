"""What an audit could find, before or beside what it found."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq

from audit.core import Counts
from audit.privacy import Notion


def expected_bound(
    lower: Callable[[Counts, Notion], float], notion: Notion, parameter: float, n_absent: int, n_present: int
) -> float:
    """The bound that a perfect attack with one threshold, at FPR = FNR, is expected to reach: that of expected counts.

    Args:
        lower: an estimator's bound on counts, such as ``JointBayes().lower``.
        notion: the family.
        parameter: the truth, ≥ 0.
        n_absent, n_present: test trials of each class.

    Returns:
        In [0, parameter], in the notion's parameter; 0 where a class is empty.

    >>> from audit.estimators.joint_bayes import JointBayes
    >>> from audit.privacy import GDP
    >>> round(expected_bound(JointBayes().lower, GDP(), 0.45478089545, 2000, 2000), 4)
    0.4035
    """
    if not n_absent or not n_present:
        return 0.0
    rate = midpoint(notion, parameter)
    # Expected counts are no integers; every bound from counts reads them all the same.
    counts = Counts(*(n * share for n in (n_absent, n_present) for share in (rate, 1 - rate)))  # type: ignore[arg-type]
    return max(lower(counts, piece) for piece in notion.pieces())


def midpoint(notion: Notion, parameter: float) -> float:
    """The point FPR = FNR of the curve, in [0, ½]: where one threshold tells most about a symmetric curve.

    >>> from audit.privacy import GDP
    >>> round(midpoint(GDP(), 2.0), 6), midpoint(GDP(), 0.0), midpoint(GDP(), float("inf"))
    (0.158655, 0.5, 0.0)
    """
    if parameter == 0:
        return 0.5
    if notion.parameter(1e-300, 1e-300) <= parameter:
        return 0.0
    return float(brentq(lambda rate: notion.parameter(rate, rate) - parameter, 1e-300, 0.5, xtol=1e-15))
