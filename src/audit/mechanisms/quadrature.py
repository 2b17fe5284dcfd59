"""Integrals of products of Laplace probabilities, which have a kink at each centre."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.polynomial.legendre import leggauss

from audit.core import Array

NODES = 16


def panels(kinks: Array, width: float, tails: float) -> tuple[Array, Array]:
    """Nodes and weights of Gauss–Legendre panels, split at ``kinks``, to ``tails`` beyond them.

    Between kinks such an integrand is a sum of exponentials of rate ≤ 1/width: 16 nodes a panel are
    good to the last bits.

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
    outermost = [np.min(kinks) - tails, np.max(kinks) + tails]
    ends = np.unique(np.concatenate([kinks, outermost]))
    edges = []
    for start, end in itertools.pairwise(ends):
        panel_count = int(np.ceil((end - start) / width))
        edges.append(np.linspace(start, end, panel_count + 1)[:-1])  # the next one starts at end
    edges.append(ends[-1:])
    starts = np.concatenate(edges)
    nodes, weights = leggauss(NODES)  # on [−1, 1]
    half = np.diff(starts)[:, None] / 2
    return (starts[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def log_below(x: Array, scale: float) -> Array:
    """ln P(Laplace number of this scale ≤ x), any shape, exact in both tails.

    >>> log_below(np.array([0.0, -2.0]), 1.0).round(6).tolist()
    [-0.693147, -2.693147]
    """
    # ln of the smaller tail; log1p of minus it keeps the digits of a probability near 1.
    tail = -np.abs(x) / scale - np.log(2)
    return np.where(x < 0, tail, np.log1p(-np.exp(tail)))
