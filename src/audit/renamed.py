"""Old option keys, and what took their place: one line for a person who still gives the old one."""

from __future__ import annotations

RENAMED_KEYS: dict[str, str] = {
    "mechanism.noise_scale": (
        "mechanism.noise_fraction of an option under broken/,"
        " such as mechanism=broken/gaussian_less_noise"
    ),
    "mechanism.clipped": "mechanism=broken/dp_sgd_clip_sum",
    "mechanism.batches": "mechanism=broken/dp_sgd_shuffled",
    "mechanism.noise": "mechanism=broken/dp_sgd_noise_constant",
    "mechanism.forgotten_epochs": "mechanism=broken/dp_sgd_epoch_off",
}
"""Old key → the option or key that does the same."""
