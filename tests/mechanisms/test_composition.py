import math

import numpy as np
import pytest
from mechanisms.samples import is_log_ratio, log_ratios, scale_is
from toys import Toy

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Claim
from audit.mechanisms.composition import Composition
from audit.mechanisms.discrete_gaussian import DiscreteGaussian
from audit.mechanisms.fixed import FixedMarginals
from audit.mechanisms.gaussian import Gaussian
from audit.mechanisms.geometric import GeometricMechanism
from audit.mechanisms.laplace import ClassMean, Laplace
from audit.mechanisms.mst import MST
from audit.privacy import GDP, ZCDP, ApproximateDP, PureDP, rho_from_eps_delta

ABSENT, PRESENT = np.zeros(10), np.zeros(11)
RHO = rho_from_eps_delta(1, 0.01)


@pytest.mark.parametrize(
    ("parts", "claim"),
    [
        ([Laplace(eps=0.5), GeometricMechanism(eps=1)], Claim(PureDP(), 1.5)),
        ([ClassMean(eps=0.5)] * 2, Claim(PureDP(), 1.0, neighbours="replace_one")),
        (
            [Gaussian(eps=1, delta=0.01)] * 2,
            Claim(GDP(), math.hypot(math.sqrt(2 * RHO), math.sqrt(2 * RHO))),
        ),
        ([DiscreteGaussian(eps=1, delta=0.01)] * 3, Claim(ZCDP(), 3 * RHO)),
        ([DiscreteGaussian(eps=1, delta=0.01), Laplace(eps=0.5)], Claim(ZCDP(), RHO + 0.125)),
        ([Gaussian(eps=1, delta=0.01), Laplace(eps=0.5)], Claim(ZCDP(), RHO + 0.125)),
        ([Composition([Laplace(eps=0.5)] * 2), Laplace(eps=1)], Claim(PureDP(), 2.0)),
        ([Toy(mu=0.6), Toy(mu=0.8)], Claim(GDP(), 1.0)),
        ([MST(eps=1, delta=0.01)], Claim(ZCDP(), RHO)),  # its GDP curve is only numerical
    ],
)
def test_claims_add_up_in_a_notion_that_all_share(parts, claim):
    (summed,) = Composition(parts).claims
    assert summed.notion == claim.notion and summed.neighbours == claim.neighbours
    assert summed.parameter == pytest.approx(claim.parameter, rel=1e-12)


def test_eps_and_delta_add_up_where_nothing_better_is_claimed():
    class Approximate(Toy):
        @property
        def claims(self):
            return (Claim(ApproximateDP(0.25), 1.0),)

    (summed,) = Composition([Approximate(), Approximate(), Laplace(eps=0.5)]).claims
    assert (summed.notion, summed.parameter) == (ApproximateDP(0.5), 2.5)


def test_parts_that_do_not_add_up_are_one_line():
    class Approximate(Toy):
        @property
        def claims(self):
            return (Claim(ApproximateDP(0.25), 1.0),)

    with pytest.raises(AuditError, match="no notion in common"):
        Composition([Approximate(), Toy()])
    with pytest.raises(AuditError, match="different neighbours"):
        Composition([Laplace(eps=1), ClassMean(eps=1)])
    with pytest.raises(AuditError, match="is no mechanism"):
        Composition([3])


def test_ten_answers_averaged_against_one():
    ten = Composition([Laplace(eps=0.1)] * 10)
    values = ten.release(ABSENT, 20_000, np.random.default_rng(0)).public().values
    assert Composition([Laplace(eps=1), Toy()]).block == Toy.block < ten.block
    assert values.shape == (20_000, 10) and ten.claims[0].parameter == pytest.approx(1.0)
    # A mean of ten has excess kurtosis 0.3, which makes the sd of ln sd 7 % larger: false failure
    # 3e-7.
    assert scale_is(values.mean(axis=1), 4.4721, sigmas=5.5)
    assert not scale_is(values.mean(axis=1), 1.3 * 4.4721, sigmas=5.5)
    assert math.sqrt(2) * Laplace(eps=1).added_scale == pytest.approx(1.4142, abs=5e-5)


def test_parts_are_independent_and_their_log_ratios_add_up():
    both = Composition([Laplace(eps=0.5), GeometricMechanism(eps=1)])
    runs = both.release(ABSENT, 20_000, np.random.default_rng(0))
    values = runs.insider().values
    assert abs(np.corrcoef(values.T)[0, 1]) < 5 / math.sqrt(20_000)  # false failure 6e-7
    by_hand = sum(part.log_ratio(ABSENT, PRESENT) for part in runs.parts)
    np.testing.assert_array_equal(runs.log_ratio(ABSENT, PRESENT), by_hand)
    ratios = log_ratios(both, ABSENT, PRESENT)
    assert is_log_ratio(*ratios) and np.max(np.abs(np.concatenate(ratios))) == pytest.approx(1.5)
    assert not is_log_ratio(
        *(
            r - part
            for r, part in zip(ratios, log_ratios(both.parts[0], ABSENT, PRESENT), strict=True)
        )
    )


def test_synthetic_tables_do_not_stand_beside_each_other():
    pair = WorstCase()
    runs = Composition([FixedMarginals(eps=1, delta=0.01), Laplace(eps=1)]).release(
        pair.data([False]), 2, np.random.default_rng(0)
    )
    assert runs.insider().values.shape == (2, 7)
    with pytest.raises(AuditError, match="features=white_box"):
        runs.public()
