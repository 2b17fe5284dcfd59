"""Old option keys and what they are called now, so that an old command gets one helpful line."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RENAMED_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "attacker.strength": "attacker.C",
        "attacker.depth": "attacker.max_depth",
        "attacker.trees": "attacker.n_estimators",
        "attacker.rate": "attacker.learning_rate",
        "attacker.penalty": "attacker.reg_lambda",
        "attacker.least_weight": "attacker.min_child_weight",
        "attacker.rows": "attacker.subsample",
        "attacker.columns": "attacker.colsample_bytree",
        "attacker.least_leaf": "attacker.min_samples_leaf",
        "attacker.seed": "attacker.random_state",
    }
)
"""Old key → new key; other parts add theirs here, and the command line reads it."""


def renamed_hint(key: str) -> str | None:
    """One line that names the new key; None where ``key`` was never renamed.

    >>> renamed_hint("attacker.strength")
    'attacker.strength is now called attacker.C'
    >>> renamed_hint("attacker.C") is None
    True
    """
    new_key = RENAMED_KEYS.get(key)
    if new_key is None:
        return None
    return f"{key} is now called {new_key}"
