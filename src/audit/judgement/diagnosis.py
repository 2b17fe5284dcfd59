"""What the rows themselves say: whether anything varies, whether values repeat, whether a shift has
two sides.

For hints only: what is learnt here chooses the next audit, which is played on fresh trials.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from audit.core import Array, Trials, area

MOST = 4000
"""Trials that are looked at."""
CLEAR = 6.0
"""Standard deviations by which a share or an area must differ before it is called a difference."""


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What stands out in the rows of an audit.

    Args:
        one_event: what every run put out, in words, where it was one and the same; else None.
        atoms: a column in which one exact value has clearly different shares on the two sides; else
            None.
        two_sided: a column whose distance from its middle tells the sides apart better than its
            size; else None.
        fractions: whether a column holds numbers with many binary digits, as floating-point noise
            has.
    """

    one_event: str | None
    atoms: str | None
    two_sided: str | None
    fractions: bool


def diagnose(trials: Trials, constant: bool) -> Diagnosis:
    """Look at the first trials of an audit.

    Args:
        trials: some of them.
        constant: whether every row of the whole audit is one and the same.
    """
    seen = trials[:MOST]
    rows, bits = np.asarray(seen.rows, float), np.asarray(seen.bits)
    if constant:
        return Diagnosis(_event_in_words(seen), None, None, False)
    if not bits.any() or bits.all():
        return Diagnosis(None, None, None, _has_fractions(rows))
    varying = [place for place in range(rows.shape[1]) if np.ptp(rows[:, place]) > 0]
    first = functools.partial(_first_column, seen.columns, rows, bits, varying)
    atoms = first(_atom_differs)
    # An atom moves distances too: it is the more exact thing to say.
    return Diagnosis(None, atoms, None if atoms else first(_is_two_sided), _has_fractions(rows))


def _first_column(
    names: tuple[str, ...], rows: Array, bits: Array, places: list[int], differs: object
) -> str | None:
    assert callable(differs)
    return next(
        (names[place] for place in places if differs(rows[~bits, place], rows[bits, place])), None
    )


def _atom_differs(absent: Array, present: Array) -> bool:
    """Whether an exact value has clearly different shares on the two sides, and others do not
    simply shift along."""
    values, counts = np.unique(np.concatenate([absent, present]), return_counts=True)
    if len(values) > 0.5 * (len(absent) + len(present)):  # hardly anything repeats
        return False
    for value in values[np.argsort(-counts)][:20]:
        share_absent, share_present = (
            float(np.mean(absent == value)),
            float(np.mean(present == value)),
        )
        variance = share_absent * (1 - share_absent) / len(absent)
        variance += share_present * (1 - share_present) / len(present)
        least = 1 / min(len(absent), len(present))  # where the value is on one side only
        if abs(share_present - share_absent) > CLEAR * max(np.sqrt(variance), least):
            return True
    return False


def _is_two_sided(absent: Array, present: Array) -> bool:
    """Whether the distance from the common median ranks the sides clearly better than the value
    does."""
    middle = np.median(np.concatenate([absent, present]))
    by_size = abs(area(absent, present) - 0.5)
    by_distance = abs(area(np.abs(absent - middle), np.abs(present - middle)) - 0.5)
    # of an area where nothing differs
    spread = np.sqrt(1 / (12 * len(absent)) + 1 / (12 * len(present)))
    return bool(by_distance > by_size + CLEAR * spread)


def _has_fractions(rows: Array) -> bool:
    """Whether some column's numbers are hardly ever multiples of 2⁻²⁰."""
    scaled = np.ldexp(rows[:200], 20)
    with np.errstate(invalid="ignore"):
        return bool(np.any(np.mean(scaled != np.floor(scaled), axis=0) > 0.9))


def _event_in_words(trials: Trials) -> str:
    """The one row that every trial has, named by its columns."""
    row = trials.rows[0]
    named = [name for name, value in zip(trials.columns, row, strict=True) if value]
    if "is_exception" in named:
        return "ended in one and the same exception"
    shown = ", ".join(
        f"{name} = {value:g}" for name, value in zip(trials.columns[:4], row[:4], strict=True)
    )
    return f"put out one and the same ({shown}{', …' if len(row) > 4 else ''})"
