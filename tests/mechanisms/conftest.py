"""What the tests of several mechanisms look at."""

import pytest

from audit.mechanisms import aim, mst
from audit.mechanisms.ledger import Ledger


@pytest.fixture
def books(monkeypatch):
    """The ledgers that mechanisms have closed."""
    closed = []

    class Kept(Ledger):
        def close(self):
            super().close()
            closed.append(self)

    for mechanism in (aim, mst):
        monkeypatch.setattr(mechanism, "Ledger", Kept)
    return closed
