import numpy as np
import pytest

from audit.canaries.pair import Pair
from audit.core import AuditError


def test_the_two_data_sets_are_those_given():
    pair = Pair(absent=(0, 0, 5), present=(0, 0, 7), neighbours="replace_one")
    assert pair.data([False]).tolist() == [0, 0, 5] and pair.data([True]).tolist() == [0, 0, 7]
    assert pair.canaries.tolist() == [[7]]
    assert str(pair) == "3 records, or one record 5 replaced by 7"


def test_records_may_have_several_numbers():
    pair = Pair(absent=((0, 1),), present=((0, 1), (2, 3)))
    assert pair.data([True]).shape == (2, 2) and pair.canaries.tolist() == [[2, 3]]
    assert str(pair) == "1 record, or one record (2, 3) more"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"absent": (0,), "present": (0,)}, "0 records gone and 0 come, which are no add/remove"),
        ({"absent": (0, 0), "present": (1, 1), "neighbours": "replace_one"}, "2 records gone and 2 come"),
        ({"absent": (0,), "present": (0, 1), "neighbours": "replace_one"}, "no replace-one neighbours"),
        ({"absent": (0,), "present": (1,)}, "no add/remove neighbours"),
        ({"absent": (0, (1, 2)), "present": (0, 1)}, "different lengths"),
    ],
)
def test_what_is_no_pair_of_neighbours_is_refused(options, says):
    with pytest.raises(AuditError, match=says):
        Pair(**options)


def test_order_does_not_make_neighbours():
    assert np.array_equal(Pair(absent=(0, 1), present=(2, 0), neighbours="replace_one").data([True]), [2, 0])
