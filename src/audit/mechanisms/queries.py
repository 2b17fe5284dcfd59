"""What basic mechanisms ask of a data set: how many records, which numbers, which categories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from audit.core import Array, AuditError, Table

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Statistic = Callable[[Any], Array]
"""Data set → (k,) numbers, noise-free."""


def count(data: Any) -> Array:
    """(1,) the number of records of a table or of an array.

    >>> count(np.array([5.0, 7.0])).tolist()
    [2.0]
    """
    records = data.records if isinstance(data, Table) else data
    return np.array([float(len(records))])


def numbers(data: Any) -> Array:
    """(n,) records of one number each.

    Raises:
        AuditError: records of several numbers, or tables with several columns.
    """
    records = np.asarray(data.records if isinstance(data, Table) else data, dtype=float)
    if records.size != len(records):
        raise AuditError(
            f"the mechanism takes records of one number, and these have {records[0].size};"
            " choose canary=one_bit or canary=pair"
        )
    return records.reshape(-1)


def categories(data: Any, size: int) -> Array:
    """(n,) records that are whole numbers in [0, size).

    Raises:
        AuditError: other records.

    >>> categories(np.array([1.0, 0.0]), 2).tolist()
    [1, 0]
    """
    values = numbers(data)
    allowed = (values == np.floor(values)) & (values >= 0) & (values < size)
    if not np.all(allowed):
        raise AuditError(
            f"the mechanism takes records 0 … {size - 1};"
            " give canary.absent and canary.present such ones"
        )
    return values.astype(np.int64)
