"""Checks on samples, each with its chance of a false failure."""

import numpy as np
from scipy.stats import binomtest

from audit.mechanisms.broken import less_noise


def scale_is(sample, sd, sigmas=5.0):
    """Whether a Gaussian sample has this standard deviation: false failure 6e-7 (5 sigmas,
    two-sided).

    The log of a sample's sd has sd √(1/2n); 30 % off is found with certainty from n = 2,000 on (8
    sigmas beyond).
    """
    sample = np.ravel(sample)
    return abs(np.log(np.std(sample) / sd)) < sigmas * np.sqrt(0.5 / len(sample))


def mean_is(sample, value, sigmas=5.0):
    """Whether a sample's mean is this: false failure 6e-7 (5 sigmas, two-sided, by the sample's own
    sd)."""
    return abs(np.mean(sample) - value) < sigmas * np.std(sample) / np.sqrt(len(sample))


def is_log_ratio(absent, present):
    """E exp(l) = 1 under the absent side and E exp(−l) = 1 under the present one: false failure
    1.2e-6 in all."""
    return mean_is(np.exp(absent), 1.0) and mean_is(np.exp(-np.asarray(present)), 1.0)


def log_ratios(mechanism, absent, present, trials=100_000, seed=0):
    """The exact log-likelihood ratios of independent runs on each of two data sets."""
    sides = ((absent, seed), (present, seed + 1))
    return [
        mechanism.release(data, trials, np.random.default_rng(s)).log_ratio(absent, present)
        for data, s in sides
    ]


def curve_is(beta, absent, present, failure=1e-6):
    """Whether every likelihood-ratio test's true rates can lie on the curve ``beta``: false failure
    ``failure`` in all.

    By Dvoretzky, Kiefer, Wolfowitz and Massart both rates of all thresholds are within
    √(ln(4/failure)/2n) of the measured ones at once: finite-sample.
    """
    thresholds = np.unique(np.round(np.concatenate([absent, present]), 9))
    # between the values that rounding splits
    thresholds = thresholds[:: max(1, len(thresholds) // 2000)] - 5e-10
    fpr = 1 - np.searchsorted(np.sort(absent), thresholds) / len(absent)
    fnr = np.searchsorted(np.sort(present), thresholds) / len(present)
    off = [np.sqrt(np.log(4 / failure) / (2 * len(side))) for side in (absent, present)]
    above = beta(np.minimum(fpr + off[0], 1)) - off[1]
    below = beta(np.maximum(fpr - off[0], 0)) + off[1]
    return bool(np.all((above <= fnr) & (fnr <= below)))


def shares_are(counts, chances, failure=1e-6):
    """Whether counts of outcomes can be multinomial with these chances: false failure ``failure``
    (exact, Bonferroni)."""
    total = int(np.sum(counts))
    pairs = zip(counts, chances, strict=True)
    return all(
        binomtest(int(c), total, min(float(p), 1.0)).pvalue > failure / len(counts)
        for c, p in pairs
    )


BROKEN_VERSIONS = {
    broken.__base__: broken
    for broken in vars(less_noise).values()
    if isinstance(broken, type) and broken.__module__ == less_noise.__name__
}
"""Honest mechanism → its version with less noise."""


def with_noise(mechanism, fraction, **options):
    """The honest mechanism for a noise fraction of 1, else its broken version."""
    if fraction == 1:
        return mechanism(**options)
    return BROKEN_VERSIONS[mechanism](**options, noise_fraction=fraction)
