import numpy as np
import pytest

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError
from audit.mechanisms.queries import categories, count, numbers


def test_tables_and_arrays_are_counted_alike():
    assert count(WorstCase().data([True])) == count(np.zeros(11)) == 11.0
    assert count(np.zeros((3, 2))) == 3.0


def test_records_of_one_number_may_stand_in_a_column():
    assert numbers(np.array([[1.0], [2.0]])).tolist() == [1.0, 2.0]
    assert numbers(WorstCase(columns=1).data([True])).tolist() == [0.0] * 10 + [1.0]


def test_records_that_do_not_fit_are_one_line():
    with pytest.raises(
        AuditError, match="records of one number, and these have 3; choose canary=one_bit"
    ):
        numbers(WorstCase().data([True]))
    for bad in (2.0, -1.0, 0.5, np.nan):
        with pytest.raises(AuditError, match="records 0 … 1;"):
            categories(np.array([0.0, bad]), 2)
