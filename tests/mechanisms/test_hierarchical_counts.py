import numpy as np
import pytest
from mechanisms.samples import is_log_ratio, log_ratios, mean_is, with_noise
from pydantic import ValidationError

from audit.mechanisms.discrete_gaussian import discrete_gaussian
from audit.mechanisms.hierarchical_counts import HierarchicalCounts
from audit.privacy import ZCDP

ABSENT, PRESENT = np.array([0.0, 0, 1, 2, 3, 4, 5, 6]), np.array([7.0, 0, 1, 2, 3, 4, 5, 6])
CLAIMED = {"eps": 4, "delta": 0.01}


def test_counts_of_every_level_and_the_exact_total():
    mechanism = HierarchicalCounts(**CLAIMED)
    assert mechanism.counts(ABSENT).tolist() == [5, 3, 3, 2, 2, 1, 2, 1, 1, 1, 1, 1, 1, 0]
    seen = mechanism.release(ABSENT, 50, np.random.default_rng(0)).public()
    assert seen.names[:3] == ("total", "level 0 cell 0", "level 0 cell 1") and len(seen.names) == 15
    assert np.all(seen.values[:, 0] == 8)
    assert HierarchicalCounts(**CLAIMED, branching=3, shares=(1, 2)).sizes == (3, 9)


def test_the_budget_is_split_by_shares_and_spent_whole():
    mechanism = HierarchicalCounts(**CLAIMED, shares=(2, 1, 1))
    sigma = mechanism.release(ABSENT, 2, np.random.default_rng(0)).sigma
    # two cells of each level change by 1
    per_level = [2 / (2 * sigma[first] ** 2) for first in (0, 2, 6)]
    assert per_level == pytest.approx(np.array([0.5, 0.25, 0.25]) * mechanism.rho)
    first, second = mechanism.claims
    assert first.notion == ZCDP() and first.parameter == mechanism.rho
    assert first.neighbours == second.neighbours == "replace_one"
    changed = mechanism.counts(PRESENT) - mechanism.counts(ABSENT)
    # the pair crosses every level
    assert np.sum(changed**2 / (2 * sigma**2)) == pytest.approx(mechanism.rho)


def test_noise_is_what_the_claim_says_and_a_broken_one_is_found():
    mechanism = HierarchicalCounts(**CLAIMED)
    k, p = discrete_gaussian(np.sqrt(3 / mechanism.rho))

    def squares(share):
        runs = with_noise(HierarchicalCounts, share, **CLAIMED).release(
            ABSENT, 2000, np.random.default_rng(0)
        )
        return (runs.noisy - mechanism.counts(ABSENT)).ravel() ** 2  # 14 independent cells a trial

    assert mean_is(squares(1.0), p @ k**2)
    for share in (0.7, 1.3):
        assert not mean_is(squares(share), p @ k**2)


def test_log_ratio_is_one_and_its_divergence_is_the_claim():
    mechanism = HierarchicalCounts(**CLAIMED)
    absent, present = log_ratios(mechanism, ABSENT, PRESENT)
    assert is_log_ratio(absent, present) and not is_log_ratio(1.3 * absent, 1.3 * present)
    # Kullback–Leibler, the order 1, is ρ for Gaussians and for discrete ones that shift by whole
    # numbers.
    assert mean_is(present, mechanism.rho) and mean_is(-absent, mechanism.rho)


@pytest.mark.parametrize(
    "bad", [{"shares": ()}, {"shares": (1, 0)}, {"branching": 1}, {"eps": 0}, {"delta": 0}]
)
def test_refuses_what_is_out_of_range(bad):
    with pytest.raises(ValidationError):
        HierarchicalCounts(**(CLAIMED | bad))
