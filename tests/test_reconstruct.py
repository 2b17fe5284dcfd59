import math

import numpy as np
import pytest

from audit.core import AuditError
from audit.privacy import eps_from_rho
from audit.reconstruct import Reconstruction, parse, predicted, recovered, summary

PUBLISHED = {10.0: 0.773, 30.0: 0.599, 100.0: 0.530}


def test_the_figures():
    asked = Reconstruction(repeats=100)
    assert asked.noise == tuple(PUBLISHED)
    for point in asked():
        assert point.predicted == pytest.approx(PUBLISHED[point.sd], abs=5e-4)
        # 10,000 bits: 5 standard errors, false failure 6e-7 each (nearly normal; the formula itself
        # is 0.001 off).
        assert abs(point.share - point.predicted) < 5 * point.error + 1e-3 < 0.03
        assert point.share < point.allowed  # nobody does better than with all other bits known


@pytest.mark.parametrize("scale", [0.7, 1.3])
def test_noise_that_is_30_per_cent_off_is_found(scale):
    rng = np.random.default_rng(0)
    shares = [recovered(100, 1000, (10 * scale,), rng)[0] for _ in range(30)]
    assert (
        abs(np.mean(shares) - predicted(100, 1000, 10)) > 5 * np.std(shares) / math.sqrt(30) + 1e-3
    )


def test_without_noise_to_speak_of_every_bit_comes_back_and_with_very_much_none():
    rng = np.random.default_rng(0)
    assert np.all(recovered(50, 60, (1e-6,), rng) == 1)
    shares = [recovered(50, 400, (1e6,), rng)[0] for _ in range(100)]
    assert abs(np.mean(shares) - 0.5) < 5 * 0.5 / math.sqrt(5000)  # false failure 6e-7


def test_eps_and_noise_are_two_words_for_one_thing():
    by_eps = Reconstruction(eps=(1.0, 5.0), m=300, n=20, repeats=2)
    assert [eps_from_rho(300 / (2 * sd**2), 1e-5) for sd in by_eps.noise] == pytest.approx(
        [1.0, 5.0]
    )
    assert [point.eps for point in by_eps()] == pytest.approx([1.0, 5.0])


def test_the_same_seed_gives_the_same_shares_and_another_one_does_not():
    one, again, other = (
        Reconstruction(n=20, m=60, sd=(3.0,), repeats=5, seed=seed)()[0].share for seed in (1, 1, 2)
    )
    assert one == again != other


def test_words_are_read():
    asked = parse(["n=20", "m=60", "eps=0.5,1", "delta=0.01", "repeats=3", "seed=4", "out=x.svg"])
    assert (asked.n, asked.m, asked.eps, asked.repeats, asked.seed) == (20, 60, (0.5, 1.0), 3, 4)
    assert parse(["sd=[2]"]).noise == (2.0,)
    assert summary(asked, asked()).row_count == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["epz=1"], "cannot read 'epz=1'; an option is key=value, with n, m, sd, eps,"),
        (["n"], "cannot read 'n'"),
        (["n=abc"], "n=abc: input should be a valid integer"),
        (["sd=1,-1"], "sd=-1: input should be greater than 0"),
        (["eps="], "eps=: input should be a valid number"),
        (["repeats=1"], "repeats=1: input should be greater than or equal to 2"),
        (["sd=1", "eps=1"], "give one of them"),
        (["n=1000"], "make m larger than n"),
        (["n=10000", "m=100000"], "make n or m smaller"),
        (["out=nowhere/x.png"], "in a folder that there is"),
        (["out=x.txt"], "a .png or .svg"),
    ],
)
def test_bad_words_are_one_line(words, says):
    with pytest.raises(AuditError) as caught:
        parse(words)
    assert says in str(caught.value) and "\n" not in str(caught.value)
