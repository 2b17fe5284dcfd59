"""Protocols, and what an option may ask of the others before anything is played."""

from __future__ import annotations

import dataclasses
import functools
import types
from typing import Any, Protocol, get_args, get_origin, get_type_hints, runtime_checkable

from audit.core.data import AuditError
from audit.core.mechanism import Challenge, Claim, Mechanism
from audit.core.trials import Attacker, Criterion, Design, Evidence, Source, Trials


@runtime_checkable
class AuditProtocol(Protocol):
    """How trials are spent: which of them fit the attack, which choose its threshold, which test
    it."""

    @property
    def asked(self) -> int:
        """How many trials it takes, at most."""
        ...

    @property
    def tested(self) -> int:
        """How many trials are tested, at most."""
        ...

    @property
    def design(self) -> Design:
        """What kind of evidence it gives, whatever the trials turn out to be."""
        ...

    def __call__(
        self, source: Source, attacker: Attacker, criterion: Criterion, claim: Claim
    ) -> Evidence:
        """Fit, choose, test; ``claim`` is what is tested, for protocols that stop when it is
        refuted."""
        ...


@dataclasses.dataclass(frozen=True)
class Setup:
    """What an option may ask of the others before anything is played.

    Args:
        mechanism: what is audited.
        challenge: the data sets that it runs on.
        protocol: how trials are spent.
        recorded: the trials themselves where they were played elsewhere.
    """

    mechanism: Mechanism
    challenge: Challenge
    protocol: AuditProtocol
    recorded: Trials | None = None

    @functools.cached_property
    def data_sets(self) -> tuple[Any, Any]:
        """The data sets without any canary, and with all of them."""
        canaries = len(self.challenge.canaries)
        return self.challenge.data([False] * canaries), self.challenge.data([True] * canaries)

    @property
    def releases(self) -> type | None:
        """What the mechanism's ``release`` is annotated to return; None where it does not say."""
        found = _hints(getattr(type(self.mechanism), "release", None)).get("return")
        return (
            found if isinstance(found, type) and not getattr(found, "_is_protocol", False) else None
        )

    @property
    def takes(self) -> tuple[type, ...]:
        """Types of data sets that the mechanism's ``release`` is annotated to take; () where it
        does not say."""
        annotation = _hints(getattr(type(self.mechanism), "release", None)).get("data", Any)
        parts = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
        plain = [get_origin(part) or part for part in parts]
        return (
            tuple(plain)
            if all(isinstance(part, type) and part is not Any for part in plain)
            else ()
        )

    @property
    def ratio_may_be_known(self) -> bool:
        """False where the releases' ``log_ratio`` is annotated to be None always."""
        if self.releases is None:
            return True
        return _hints(getattr(self.releases, "log_ratio", None)).get("return") is not type(None)

    def check_data(self) -> None:
        """Go on only where the mechanism can be run on the challenge's data sets.

        Raises:
            AuditError: they are of another type, or the mechanism's own `ChecksSetup.check_setup`
                refuses them.
        """
        if self.takes and not isinstance(self.data_sets[0], self.takes):
            name, makes = type(self.mechanism).__name__, type(self.data_sets[0])
            wanted = " or ".join(kind.__name__ for kind in self.takes)
            cures = " or ".join(getattr(kind, "made_by", "canary=pair") for kind in self.takes)
            raise AuditError(
                f"{name} takes {wanted}, and {type(self.challenge).__name__} makes "
                f"{makes.__name__}; choose {cures}"
            )
        if isinstance(self.mechanism, ChecksSetup):
            self.mechanism.check_setup(self)


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:
        # an annotation may be anybody's code, or a name that only a type checker knows
        return {}


@runtime_checkable
class ChecksSetup(Protocol):
    """An option that does not go with every other one, and says so before anything is played."""

    def check_setup(self, setup: Setup) -> None:
        """Go on only where it can work with the others.

        Raises:
            AuditError: what does not go together, and what does.
        """
        ...
