"""Several mechanisms on the same data, all their outputs seen: what they leak adds up."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Claim, Columns, Mechanism, Releases, Setup, Tables
from audit.privacy import GDP, STRICT, ZCDP, ApproximateDP, PureDP


@dataclasses.dataclass(frozen=True)
class CombinedReleases:
    """What each part released, side by side: part i's columns are called ``i: …``."""

    parts: tuple[Releases, ...]

    def public(self) -> Columns:
        """(n, Σk) what the parts publish.

        Raises:
            AuditError: a part publishes synthetic tables.
        """
        return _side_by_side([part.public() for part in self.parts])

    def insider(self) -> Columns:
        """(n, Σk) what an adversary inside the parts sees."""
        return _side_by_side([part.insider() for part in self.parts])

    def log_ratio(self, absent: Any, present: Any) -> Array | None:
        """(n,) the sum of the parts', independent given the data; None where one is not known."""
        ratios = [part.log_ratio(absent, present) for part in self.parts]
        known = [ratio for ratio in ratios if ratio is not None]
        if len(known) < len(ratios):
            return None
        return np.sum(known, axis=0)


def _side_by_side(outputs: list[Any]) -> Columns:
    if any(isinstance(output, Tables) for output in outputs):
        raise AuditError(
            "mechanism=composition: a part publishes synthetic tables; choose features=white_box"
        )
    names: list[str] = []
    for i, output in enumerate(outputs):
        names += [f"{i}: {name}" for name in output.names]
    return Columns(tuple(names), np.hstack([output.values for output in outputs]))


@dataclass(frozen=True, config=STRICT)
class Composition:
    """Independent runs of several mechanisms on the same data.

    Parameters add up in a notion that all of them claim.

    Args:
        parts: mechanisms, at least one, with claims for the same neighbours.

    References:
        μ: √Σμ² (Dong, Roth, Su, arXiv:1905.02383, Corollary 2); ε: Σε (Dwork et al. 2006); ρ: Σρ,
        with ε²/2 for ε-DP (Bun, Steinke, arXiv:1605.02065, Lemma 2.3, Propositions 1.4 and 1.6);
        (ε, δ): (Σε, Σδ).
    """

    parts: Annotated[list[Any], Field(min_length=1)]

    def __post_init__(self) -> None:
        for part in self.parts:
            if not isinstance(part, Mechanism) or not part.claims:
                raise AuditError(
                    f"mechanism.parts: {part!r} is no mechanism with a claim;"
                    " give each one a _target_"
                )
        relations = {part.claims[0].neighbours for part in self.parts}
        if len(relations) > 1:
            raise AuditError(
                "mechanism.parts: the claims are for different neighbours and do not add up;"
                " take one kind"
            )
        if not self.claims:
            raise AuditError(
                "mechanism.parts: the claims have no notion in common;"
                " take parts that claim ε, ρ or μ"
            )

    @property
    def block(self) -> int:
        """The smallest of the parts': none is asked for more at once than it would be alone."""
        return min(part.block for part in self.parts)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """One claim, in the first of μ, ε, ρ and (ε, δ) that every part's claims can be read in."""
        neighbours = self.parts[0].claims[0].neighbours
        for read, add in READINGS:
            parameters = []
            for part in self.parts:
                proved = [claim for claim in part.claims if not claim.numerical]
                parameters.append(read(proved))
            if all(parameter is not None for parameter in parameters):
                return (dataclasses.replace(add(parameters), neighbours=neighbours),)
        return ()

    def check_setup(self, setup: Setup) -> None:
        """Data that every part takes."""
        for part in self.parts:
            dataclasses.replace(setup, mechanism=part).check_data()

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> CombinedReleases:
        """``trials`` runs of every part, each with randomness of its own."""
        part_rngs = rng.spawn(len(self.parts))
        releases = []
        for part, part_rng in zip(self.parts, part_rngs, strict=True):
            releases.append(part.release(data, trials, part_rng))
        return CombinedReleases(tuple(releases))


def _parameter(claims: list[Claim], notion: type) -> float | None:
    for claim in claims:
        if isinstance(claim.notion, notion):
            return claim.parameter
    return None


def _mu(claims: list[Claim]) -> float | None:
    return _parameter(claims, GDP)


def _eps(claims: list[Claim]) -> float | None:
    return _parameter(claims, PureDP)


def _rho(claims: list[Claim]) -> float | None:
    """ρ as it is claimed, else μ²/2, else ε²/2."""
    rho = _parameter(claims, ZCDP)
    if rho is not None:
        return rho
    mu_or_eps = _parameter(claims, GDP) or _parameter(claims, PureDP)
    return None if mu_or_eps is None else mu_or_eps**2 / 2


def _approximate(claims: list[Claim]) -> tuple[float, float] | None:
    """(ε, δ) as it is claimed, else ε with δ = 0."""
    for claim in claims:
        if isinstance(claim.notion, ApproximateDP):
            return claim.parameter, claim.notion.delta
    eps = _eps(claims)
    return None if eps is None else (eps, 0.0)


def _add_mu(values: Any) -> Claim:
    return Claim(GDP(), math.hypot(*values))


def _add_eps(values: Any) -> Claim:
    return Claim(PureDP(), math.fsum(values))


def _add_rho(values: Any) -> Claim:
    return Claim(ZCDP(), math.fsum(values))


def _add_approximate(values: Any) -> Claim:
    eps = math.fsum(eps for eps, _ in values)
    delta = math.fsum(delta for _, delta in values)
    return Claim(ApproximateDP(delta), eps)


READINGS: tuple[tuple[Callable[[list[Claim]], Any], Callable[[Any], Claim]], ...] = (
    (_mu, _add_mu),
    (_eps, _add_eps),
    (_rho, _add_rho),
    (_approximate, _add_approximate),
)
"""How to read a part's parameter off its claims, and how to add parameters up: the first that
fits."""
