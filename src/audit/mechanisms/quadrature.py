"""Integrals over one Laplace number of products of Laplace probabilities, which have a kink at each centre."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.polynomial.legendre import leggauss

from audit.core import Array

NODES = 16


def panels(kinks: Array, width: float, tails: float) -> tuple[Array, Array]:
    """Nodes and weights of Gauss–Legendre panels no wider than ``width``, split at ``kinks``, to ``tails`` beyond.

    Between kinks such an integrand is a sum of exponentials of rate ≤ 1/width, good to the last bits with 16 nodes.

    Args:
        kinks: (k,) in any order.
        width: of the widest panel, > 0.
        tails: how far beyond the outermost kinks, > 0.

    Returns:
        (n,) nodes ascending, (n,) weights.

    >>> x, w = panels(np.array([0.0]), 1.0, 40.0)
    >>> round(float(w @ np.exp(-np.abs(x))), 12)
    2.0
    """
    ends = np.unique(np.concatenate([kinks, [np.min(kinks) - tails, np.max(kinks) + tails]]))
    edges = np.concatenate([
        *(np.linspace(a, b, int(np.ceil((b - a) / width)) + 1)[:-1] for a, b in itertools.pairwise(ends)),
        ends[-1:],
    ])  # fmt: skip
    x, w = leggauss(NODES)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


def log_below(x: Array, scale: float) -> Array:
    """ln P(Laplace number of this scale ≤ x), any shape, exact in both tails.

    >>> log_below(np.array([0.0, -2.0]), 1.0).round(6).tolist()
    [-0.693147, -2.693147]
    """
    tail = -np.abs(x) / scale - np.log(2)
    return np.where(x < 0, tail, np.log1p(-np.exp(tail)))
