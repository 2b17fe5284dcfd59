"""What each look at a mechanism may spend of the error probability, and on which trials.

A hint sends a person to look again, with other options. If every look could be wrong in 1 % of
cases, a path of hints could be wrong far more often. So each look gets a share, fixed beforehand,
and trials of its own.
"""

from __future__ import annotations

import numpy as np

FIRST_LOOK = 0.8
"""Share of the error probability that the first look may spend: most audits are not repeated."""
MOST_LOOKS = 50
"""Beyond it a share is no number that anything could be shown with."""


def share_of_error(look: int) -> float:
    """The share of the error probability that look number ``look`` ≥ 1 at the same mechanism may
    spend.

    Four fifths for the first look, and half of what is left for each further one: all looks
    together spend 1.

    >>> [round(share_of_error(look), 3) for look in (1, 2, 3)]
    [0.8, 0.1, 0.05]
    >>> round(sum(map(share_of_error, range(1, 60))), 12)
    1.0
    """
    return FIRST_LOOK if look == 1 else (1 - FIRST_LOOK) * 0.5 ** (look - 1)


def fresh_seed(seed: int, look: int) -> int:
    """The seed of look number ``look``: ``seed`` for the first one, others of their own, so that no
    trial is seen twice.

    >>> fresh_seed(3, 1), fresh_seed(3, 2) != fresh_seed(3, 3)
    (3, True)
    """
    return seed if look == 1 else int(np.random.SeedSequence([seed, look]).generate_state(1)[0])
