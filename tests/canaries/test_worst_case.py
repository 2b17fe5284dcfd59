import numpy as np
import pytest
from pydantic import ValidationError

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, Challenge


def test_the_published_pair():
    challenge = WorstCase()
    absent, present = challenge.data([False]), challenge.data([True])
    assert absent.records.tolist() == [[0, 0, 0]] * 10
    assert present.records.tolist() == [[0, 0, 0]] * 10 + [[1, 1, 1]]
    assert absent.domain == present.domain
    assert isinstance(challenge, Challenge)


def test_every_cell_that_the_canary_touches_is_empty_without_it():
    challenge = WorstCase(columns=2, sizes=(3, 4), rows=5)
    absent, present = challenge.data([False]), challenge.data([True])
    for columns in (("a",), ("b",), ("a", "b")):
        difference = present.marginal(columns) - absent.marginal(columns)
        assert np.flatnonzero(difference).tolist() == [absent.domain.size(columns) - 1]
        assert absent.marginal(columns)[-1] == 0


def test_an_empty_base_has_a_domain_all_the_same():
    assert WorstCase(rows=0).data([False]).marginal(("a",)).tolist() == [0.0, 0.0]


def test_sizes_must_fit():
    with pytest.raises(AuditError, match=r"canary.sizes has 2 entries for 3 columns"):
        WorstCase(sizes=(2, 2))
    with pytest.raises(ValidationError):
        WorstCase(sizes=1)
