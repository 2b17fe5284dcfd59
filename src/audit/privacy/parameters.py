"""What parameters may be, and how arrays of them are broadcast, returned and written."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Floats = NDArray[np.float64]
Delta = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
LEAST = 1e-6
"""Least ε, μ or ρ: below, no number of trials distinguishes a leak from none."""
LARGEST = 500.0
"""Largest ε, μ or ρ: above, e^ε comes near the largest double."""
STRICT = ConfigDict(extra="forbid")


def _in_range(parameter: float) -> float:
    if not LEAST <= parameter <= LARGEST:
        limits = {"least": LEAST, "largest": LARGEST}
        raise PydanticCustomError("range", "input should be between {least} and {largest}", limits)
    return parameter


PrivacyParameter = Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(_in_range)]
"""ε, μ or ρ that a mechanism is given; everything that is computed from it is finite."""


def broadcast_floats(*values: ArrayLike) -> list[Floats]:
    """Copies of ``values`` as arrays of floats of one shape."""
    arrays = [np.asarray(value, float) for value in values]
    # Copies, since broadcast views are read-only and may overlap.
    return [np.array(view) for view in np.broadcast_arrays(*arrays)]


def scalar_or_array(value: Floats) -> Any:
    """A float where ``value`` has no dimension, else ``value`` itself."""
    if np.ndim(value) == 0:
        return float(value)
    return value


def format_parameter(value: float) -> str:
    """``value`` with 4 significant digits, or ∞."""
    if math.isinf(value):
        return "∞"
    return f"{value:.4g}"
