"""What most broken mechanisms put out: a few numbers a run, nothing hidden."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from audit.core import Array, Columns

Ratio = Callable[[Any, Any], Array]


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Named numbers, one row a run; the public sees all of them.

    Args:
        names: k names.
        values: (n, k) numbers.
        ratio: (absent, present) → (n,) exact log-likelihood ratios, where they are known and
            finite.
    """

    names: tuple[str, ...]
    values: Array
    ratio: Ratio | None = None

    def public(self) -> Columns:
        """(n, k) the numbers."""
        return Columns(self.names, self.values)

    def insider(self) -> Columns:
        """(n, k) the same: nothing is hidden."""
        return self.public()

    def log_ratio(self, absent: Any, present: Any) -> Array | None:
        """(n,) exact, or None where an output tells the data sets apart for sure, or nobody has
        worked it out."""
        return None if self.ratio is None else self.ratio(absent, present)
