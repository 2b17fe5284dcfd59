import numpy as np

from audit.canaries.worst_case import WorstCase
from audit.core import Columns, Domain, Tables
from audit.features import BlackBox, Hybrid, WhiteBox, count_cells


class Output:
    """A release whose public and inner sides are given."""

    def __init__(self, public):
        self._public = public

    def public(self):
        return self._public

    def insider(self):
        return Columns(("noisy",), np.array([[1.5], [2.5]]))


def tables(domain, seed=0):
    rng = np.random.default_rng(seed)
    return Tables(
        domain, np.stack([rng.integers(size, size=(2, 50)) for size in domain.sizes], axis=-1)
    )


def test_a_small_domain_is_counted_whole():
    challenge = WorstCase()
    output = tables(challenge.domain)
    black = BlackBox()(Output(output), challenge)
    expected = [np.bincount(r @ [4, 2, 1], minlength=8) for r in output.records]
    assert black.values.tolist() == np.array(expected).tolist()
    assert black.values.sum(axis=1).tolist() == [50, 50]


def test_a_large_domain_is_seen_through_the_cells_that_the_canary_touches_and_a_fixed_sample():
    challenge = WorstCase(columns=5, sizes=9)
    black = BlackBox(sample=10)(Output(tables(challenge.domain)), challenge)
    again = BlackBox(sample=10)(Output(tables(challenge.domain, seed=1)), challenge)
    assert black.names == again.names
    assert black.names[:5] == tuple(f"count[{c}][8]" for c in "abcde")
    assert "count[a,e][8, 8]" in black.names
    assert 15 < len(black.names) <= 25


def test_numbers_are_passed_on_and_hybrid_is_both():
    numbers = Columns(("y",), np.array([[0.0], [1.0]]))
    assert BlackBox()(Output(numbers), WorstCase()) is numbers
    assert WhiteBox()(Output(numbers), WorstCase()).names == ("noisy",)
    hybrid = Hybrid()(Output(numbers), WorstCase())
    assert hybrid.names == ("y", "noisy") and hybrid.values.tolist() == [[0.0, 1.5], [1.0, 2.5]]


def test_cells_of_one_column():
    domain = Domain(("a", "b"), (2, 3))
    records = np.array([[[0, 2], [1, 2], [1, 0]]])
    cells = [(("b",), (2,)), (("a", "b"), (1, 2)), (("b",), (1,))]
    assert count_cells(Tables(domain, records), cells).tolist() == [[2.0, 1.0, 0.0]]
