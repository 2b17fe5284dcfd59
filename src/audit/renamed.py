"""Old option keys and what took their place, so that an old command gets one helpful line."""

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
        "mechanism.noise_scale": (
            "mechanism.noise_fraction of an option under broken/, "
            "such as mechanism=broken/gaussian_less_noise"
        ),
        "mechanism.clipped": "mechanism=broken/dp_sgd_clip_sum",
        "mechanism.batches": "mechanism=broken/dp_sgd_shuffled",
        "mechanism.noise": "mechanism=broken/dp_sgd_noise_constant",
        "mechanism.forgotten_epochs": "mechanism=broken/dp_sgd_epoch_off",
    }
)
"""Old key → the key or option that does the same."""


def renamed_hint(key: str) -> str | None:
    """One line that names the new key; None where ``key`` was never renamed.

    >>> renamed_hint("attacker.strength")
    'attacker.strength is now attacker.C'
    >>> renamed_hint("attacker.C") is None
    True
    """
    new_key = RENAMED_KEYS.get(key)
    if new_key is None:
        return None
    return f"{key} is now {new_key}"
