"""A control for mechanism.py, fixed and mst: each count goes into OpenDP's sampler, and is not
added to its noise around 0.

Takes the same words and speaks the same protocol. Nothing else of dpmm is changed.
"""

import mechanism
import numpy as np
import opendp.prelude as dp
from dpmm.models.base.mechanisms.mechanism import Mechanism

exact = Mechanism._measure


def measure(self, data, proj, wgt, flatten=None, public=False):
    """What dpmm measures, with the same noise around the count itself."""
    query, counts, sigma, proj = exact(self, data, proj, wgt, flatten, public=True)
    dp.enable_features("floating-point", "contrib")
    sampler = dp.m.make_gaussian(
        dp.atom_domain(T=float), dp.absolute_distance(T=float), sigma / wgt
    )
    noisy = [sampler(float(count)) for count in counts.ravel()]
    return query, np.reshape(noisy, counts.shape), sigma, proj


if __name__ == "__main__":
    Mechanism._measure = measure
    mechanism.main()
