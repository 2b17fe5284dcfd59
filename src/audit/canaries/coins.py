"""Nothing but bits: canaries for mechanisms that answer for each record by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, Neighbours, read_only
from audit.privacy import STRICT


@dataclass(frozen=True, config=STRICT)
class Coins:
    """``count`` records, each of which is there or not.

    Args:
        count: number of canaries.

    >>> Coins(count=3).data([True, False, True]).tolist()
    [True, False, True]
    """

    count: Annotated[int, Field(ge=1)] = 1000

    neighbours: ClassVar[Neighbours] = "add_remove"

    @property
    def canaries(self) -> Array:
        """(m, 1) their numbers."""
        return np.arange(self.count)[:, None]

    def data(self, bits: Sequence[bool]) -> Array:
        """(m,) which of them are there."""
        return read_only(bits, bool)

    def __str__(self) -> str:
        return f"{self.count} records, each there or not"
