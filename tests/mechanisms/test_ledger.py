import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.mechanisms.ledger import Ledger

shares = st.lists(st.floats(0.01, 1), min_size=1, max_size=40)


@given(shares, st.floats(1e-4, 50))
def test_closes_when_all_is_spent_and_only_then(parts, budget):
    amounts = np.array(parts) / sum(parts) * budget
    ledger = Ledger(budget, trials=1)
    for i, amount in enumerate(amounts[:-1]):
        ledger.spend(f"part {i}", amount)
    with pytest.raises(ValueError, match="does not close"):
        ledger.close()
    ledger.spend("the rest", ledger.left)
    ledger.close()
    with pytest.raises(ValueError, match="overspends"):
        ledger.spend("once more", 1e-9 * max(1, budget))


def test_accounts_are_kept_a_run_each():
    ledger = Ledger(1.0, trials=3)
    ledger.spend("all", 0.5)
    ledger.spend("some", np.array([0.5, 0.25]), where=np.array([0, 2]))
    assert ledger.spent.tolist() == [1.0, 0.5, 0.75]
    with pytest.raises(ValueError, match="run 0 would have"):
        ledger.spend("all again", 0.1)
    ledger.spend("rest", 0.5, where=[1])
    with pytest.raises(ValueError, match="run 2 spent"):
        ledger.close()
    ledger.spend("rest", 0.25, where=[2])
    ledger.close()
    assert [name for name, _ in ledger.entries] == ["all", "some", "rest", "rest"]


@pytest.mark.parametrize("amount", [-1e-6, float("nan")])
def test_an_amount_is_a_number_not_below_zero(amount):
    with pytest.raises(ValueError, match="a number ≥ 0"):
        Ledger(1.0, trials=2).spend("x", amount)
