"""Checks on samples, each with its chance of a false failure."""

import numpy as np


def scale_is(sample, sd, sigmas=5.0):
    """Whether a Gaussian sample has this standard deviation: false failure 6e-7 (5 sigmas, two-sided).

    The log of a sample's sd has sd √(1/2n); 30 % off is found with certainty from n = 2,000 on (8 sigmas beyond).
    """
    sample = np.ravel(sample)
    return abs(np.log(np.std(sample) / sd)) < sigmas * np.sqrt(0.5 / len(sample))


def mean_is(sample, value, sigmas=5.0):
    """Whether a sample's mean is this: false failure 6e-7 (5 sigmas, two-sided, by the sample's own sd)."""
    return abs(np.mean(sample) - value) < sigmas * np.std(sample) / np.sqrt(len(sample))


def is_log_ratio(absent, present):
    """E exp(l) = 1 under the absent side and E exp(−l) = 1 under the present one: false failure 1.2e-6 in all."""
    return mean_is(np.exp(absent), 1.0) and mean_is(np.exp(-np.asarray(present)), 1.0)
