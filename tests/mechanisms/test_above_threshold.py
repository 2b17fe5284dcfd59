import itertools

import numpy as np
import pytest
from mechanisms.samples import is_log_ratio, log_ratios, shares_are, with_noise
from scipy.integrate import quad
from scipy.stats import laplace

from audit.mechanisms.above_threshold import ABOVE, BELOW, SILENT, AboveThreshold, log_probability
from audit.privacy import PureDP

ABSENT, PRESENT = np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([[1.0, 1.0, 1.0, 0.0]])


def patterns(queries, cutoff):
    """Everything that can be said."""
    for said in itertools.product((BELOW, ABOVE), repeat=queries):
        spent = np.cumsum(said) - said
        silenced = np.where(spent >= cutoff, SILENT, said)
        if np.all((silenced == said) | (np.array(said) == BELOW)):
            yield silenced


def loss(noise, queries, cutoff):
    """The log-ratio of ⊥ⁿ⊤ᶜ between 0ⁿ1ᶜ and 1ⁿ0ᶜ at threshold 0: the worst one of the known
    bugs."""
    zeros = np.repeat([0.0, 1.0], [queries, cutoff])
    said = np.repeat([BELOW, ABOVE], [queries, cutoff])
    return log_probability(zeros, said, 0.0, noise) - log_probability(1 - zeros, said, 0.0, noise)


@pytest.mark.parametrize("cutoff", [1, 2, 5])
def test_the_correct_one_comes_to_eps_and_the_one_that_ignores_the_cutoff_far_beyond(cutoff):
    assert loss(AboveThreshold(eps=1, cutoff=cutoff).noise, 100, cutoff) == pytest.approx(
        1.0, abs=2e-3
    )
    # Lyu, Su, Li's Algorithm 4: ε/4 for the threshold, the rest for the answers, as if there were
    # one.
    assert loss((4.0, 4 / 3), 100, cutoff) == pytest.approx((1 + 6 * cutoff) / 4, abs=2e-3)


def test_chances_are_the_plain_integral_and_add_up_to_1():
    mechanism, answers = AboveThreshold(eps=1, cutoff=2), np.array([1.0, 0.0, 2.0])
    data = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    chances = {tuple(said): np.exp(mechanism.law(data, said)) for said in patterns(3, 2)}
    assert sum(chances.values()) == pytest.approx(1, abs=1e-12)

    def inside(z):
        above = laplace.sf(0.5 + z - answers, scale=8)
        return laplace.pdf(z, scale=2) * (1 - above[0]) * above[1] * (1 - above[2])

    plain = quad(inside, -60, 60, points=[0, 0.5, -0.5, 1.5], epsabs=1e-12)[0]
    assert chances[BELOW, ABOVE, BELOW] == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("cutoff", [1, 2])
def test_what_is_said_has_the_law_and_that_of_other_noise_does_not(cutoff):
    every = list(patterns(4, cutoff))
    chances = np.exp([AboveThreshold(eps=4, cutoff=cutoff).law(PRESENT, said) for said in every])

    def counts(share):
        runs = with_noise(AboveThreshold, share, eps=4, cutoff=cutoff).release(
            PRESENT, 40_000, np.random.default_rng(0)
        )
        return [int(np.sum(np.all(runs.outcomes == said, axis=1))) for said in every]

    assert sum(counts(1.0)) == 40_000
    assert shares_are(counts(1.0), chances)  # false failure 1e-6
    for share in (0.7, 1.3):
        assert not shares_are(counts(share), chances)


def test_keeps_its_claim_on_the_pair():
    (claim,) = AboveThreshold(eps=1).claims
    assert (claim.notion, claim.parameter, claim.neighbours) == (PureDP(), 1, "replace_one")
    for cutoff in (1, 2):
        mechanism = AboveThreshold(eps=1, cutoff=cutoff)
        losses = [
            mechanism.law(PRESENT, said) - mechanism.law(ABSENT, said)
            for said in patterns(4, cutoff)
        ]
        assert 0.1 < np.max(np.abs(losses)) <= 1


def test_log_ratio_is_one():
    ratios = log_ratios(AboveThreshold(eps=4), ABSENT, PRESENT)
    assert is_log_ratio(*ratios) and not is_log_ratio(*(1.5 * r for r in ratios))
