"""Audits of differential privacy: does a mechanism leak more than it claims?

Public names are loaded when they are first used.

>>> import audit
>>> round(audit.GDP().beta(0.5, 1.0), 6)
0.158655
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AuditError": "audit.core",
    "Bound": "audit.core",
    "Claim": "audit.core",
    "Counts": "audit.core",
    "Domain": "audit.core",
    "Evidence": "audit.core",
    "Result": "audit.core",
    "Scores": "audit.core",
    "Table": "audit.core",
    "Trials": "audit.core",
    "Plan": "audit.experiment",
    "audit": "audit.experiment",
    "compose": "audit.cli",
    "bound": "audit.scores",
    "runs": "audit.listing",
    "GDP": "audit.privacy",
    "ApproximateDP": "audit.privacy",
    "PureDP": "audit.privacy",
    "ZCDP": "audit.privacy",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(
            f"module 'audit' has no attribute {name!r}; it has {', '.join(__all__)}"
        )
    return getattr(importlib.import_module(_HOMES[name]), name)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: what was begun is closed, and finished blocks
    are kept."""


def interrupted(error: BaseException | None) -> bool:
    """Whether a Ctrl-C is behind an error: what was being imported or built may have wrapped it in
    an error of its own.

    >>> interrupted(RuntimeError()), interrupted(KeyboardInterrupt())
    (False, True)
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def terminated(error: BaseException | None) -> bool:
    """Whether a SIGTERM is behind an error; see `interrupted`.

    >>> terminated(KeyboardInterrupt()), terminated(Terminated())
    (False, True)
    """
    while error is not None and not isinstance(error, Terminated):
        error = error.__cause__ or error.__context__
    return error is not None


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
