"""The story of one audit, top to bottom."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from scipy.special import ndtr

from audit import privacy
from audit.accountants import ExPostRDP
from audit.core import (
    Array,
    Attack,
    Attacker,
    AuditError,
    AuditProtocol,
    Bound,
    Challenge,
    Claim,
    Counts,
    Criterion,
    Design,
    Estimator,
    Evidence,
    Mechanism,
    Noted,
    OtherGame,
    Particular,
    Power,
    Recorded,
    Refused,
    Result,
    Scores,
    Selective,
    Setup,
    Source,
    Stage,
    Trials,
    Verdict,
    progressive,
    relation,
)
from audit.coverage.table import look_up
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.ex_post import ExPost
from audit.estimators.one_run import OneRun
from audit.estimators.power import detectable, efficiency, trials_needed
from audit.game import Backend, CanaryGame, Features, Game, Played, Stored, Tally
from audit.privacy import GDP, ZCDP, ApproximateDP, Notion

T = TypeVar("T")


class Progress(Protocol):
    """Shows how far a stage is: told its name and size, it returns what is called with each advance."""

    def __call__(self, stage: str, total: int) -> contextlib.AbstractContextManager[Callable[[int], None]]:
        """Open a bar; what is entered is called with the steps done."""
        ...


@contextlib.contextmanager
def silent(stage: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress that shows nothing."""
    yield lambda count: None


@dataclasses.dataclass(frozen=True)
class Plan:
    """One audit, composed and checked, before anything is played.

    Args:
        name: readable.
        config: the resolved configuration.
        estimators: all that there are; the first is behind mu_emp.
        accusing: the finite-sample one whose bound, in the first claim's notion, may accuse.
        root: folder of everything that is kept.
        chosen: sentences on what was chosen in somebody's place; they stand beside the result.
        provenance: what is known before the audit: commit, versions, …
    """

    name: str
    config: dict[str, Any]
    mechanism: Mechanism
    challenge: Challenge
    features: Features
    attacker: Attacker
    criterion: Criterion
    estimators: tuple[Estimator, ...]
    accusing: Estimator
    protocol: AuditProtocol
    backend: Backend
    seed: int
    root: Path
    provenance: dict[str, str] = dataclasses.field(default_factory=dict)
    chosen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._check_types()
        if not self.mechanism.claims:
            raise AuditError(
                f"{type(self.mechanism).__name__} claims nothing, so nothing can be judged; give it a claim"
            )
        self._check_estimator()
        if isinstance(self.mechanism, Recorded):  # its pair was chosen elsewhere
            if game_of(self.protocol) is not Game:
                raise AuditError(
                    "protocol=one_run plays many canaries in one run, and stored rows are independent runs; choose"
                    " another protocol, such as protocol=holdout"
                )
            Stored(self.mechanism.recorded(), self.seed).allow(self.protocol.asked)
            self._check_each()
            return
        self._check_neighbours()
        canaries = len(self.challenge.canaries)
        if game_of(self.protocol) is Game and canaries != 1:
            raise AuditError(
                f"{canaries} canaries are for protocol=one_run; this one plays a pair of neighbours: canary.count=1"
            )
        self._check_each()

    def _check_each(self) -> None:
        """Every option that has conditions looks at the others."""
        setup = Setup(self.mechanism, self.challenge, self.protocol)
        for part in (self.protocol, self.challenge, self.features, self.attacker, self.criterion):
            if isinstance(part, Particular):
                part.check(setup)
        if not isinstance(self.mechanism, Recorded):
            setup.check_data()

    def _check_types(self) -> None:
        """Plans are built from configurations, which no type checker sees."""
        promised = {"mechanism": Mechanism, "challenge": Challenge, "protocol": AuditProtocol, "backend": Backend}
        estimators = [(f"estimator {type(each).__name__}", each, Estimator) for each in self.estimators]
        for kind, part, types in [*((name, getattr(self, name), t) for name, t in promised.items()), *estimators]:
            if not isinstance(part, types):
                name = type(part).__name__
                raise AuditError(
                    f"{name} is no {kind.split()[0]}: it lacks a method of {types.__module__}.{types.__name__}"
                )
        for kind in ("features", "attacker", "criterion"):
            if not callable(getattr(self, kind)):
                raise AuditError(f"{kind}: {type(getattr(self, kind)).__name__} cannot be called; give it __call__")

    def _check_neighbours(self) -> None:
        """Refuse a pair that the claim says nothing about, and name the key that brings both together."""
        claimed, played = self.mechanism.claims[0].neighbours, self.challenge.neighbours
        if claimed == played:
            return
        option = getattr(self.mechanism, "claim", None)  # what is claimed of somebody's own code is an option too
        mends = "neighbours" in getattr(option, "__dataclass_fields__", {})
        cure = f"mechanism.claim.neighbours={played}" if mends else "another canary"
        raise AuditError(
            f"{type(self.mechanism).__name__} makes its claim for {relation(claimed)} neighbours,"
            f" and {type(self.challenge).__name__} is a pair of {relation(played)} neighbours; choose {cure},"
            " or leave canary= out where the mechanism brings its own"
        )

    def _check_estimator(self) -> None:
        """Refuse, before anything is played, an estimator that could not read what the protocol will give."""
        first, design = self.estimators[0], self.protocol.design
        if (why := _refusal(first, design)) is None:
            return
        able = [each.name for each in self.estimators[1:] if _refusal(each, design) is None]
        instead = f"; use estimator={able[0]}{''.join(f' or {name}' for name in able[1:])}" if able else ""
        raise AuditError(f"estimator={first.name} cannot give mu_emp: {why}{instead}")


def _refusal(estimator: Estimator, design: Design) -> str | None:
    """Why an estimator has no bound on μ from evidence of this design; None where it has one, or does not say."""
    try:
        if isinstance(estimator, Selective):
            estimator.allow(design, GDP())
    except Refused as reason:
        return str(reason)
    return None


def game_of(protocol: AuditProtocol) -> type[Game | CanaryGame]:
    """Which game a protocol spends its trials on: many canaries of one run, or two neighbours."""
    return CanaryGame if protocol.design.runs == "one" else Game


def audit(plan: Plan, progress: Progress = silent) -> Result:
    """Play, guess, count, bound, judge.

    Raises:
        AuditError: whatever a person can mend.
    """
    clock = Clock(progress)
    tally = Tally()
    source = clock.source(lambda watch: source_of(plan, watch, tally))

    claims = plan.mechanism.claims
    told = notes(plan)
    evidence = plan.protocol(source, clock.attacker(plan.attacker), clock.criterion(plan.criterion), claims[0])
    with clock.stage("bounds"):
        bounds, refused = bound_all(plan.estimators, evidence, claims)
        implied, direct = references(claims)
        target = target_mu(claims[0], implied)
        counts = evidence.counts
        could = power(plan, target, counts.fp + counts.tn, counts.fn + counts.tp, efficiency_of(evidence))
        accusing = measured(accuse(plan.accusing, evidence, claims[0].notion), evidence)
        verdict = in_words(judge(bounds[0], accusing, claims[0], target, could), counts)
    return Result(
        name=plan.name,
        config=plan.config,
        challenge=describe(plan),
        claims=claims,
        evidence=evidence,
        mu_hat=privacy.mu_hat(counts.fpr, counts.fnr),
        bounds=bounds,
        refused=refused,
        mu_implied=implied,
        mu_direct=direct,
        power=could,
        verdict=verdict,
        stages=clock.stages(),
        provenance=plan.provenance | spent(tally, plan, evidence),
        notes=(*told, ONE_RUN_POWER) if evidence.one_run else told,
        exact=exact_curve(plan.mechanism, plan.challenge),
    )


ONE_RUN_POWER = "The power is that of as many independent trials; canaries that share one run find less."


def source_of(plan: Plan, watch: Callable[[int], None], tally: Tally) -> Source:
    """Where the trials come from: what was played elsewhere, or the game."""
    if isinstance(plan.mechanism, Recorded):
        return Stored(plan.mechanism.recorded(), plan.seed)
    game = game_of(plan.protocol)(plan.mechanism, plan.challenge, plan.features, plan.seed)
    return Played(game, plan.backend, plan.root / "trials", watch, tally)


def notes(plan: Plan) -> tuple[str, ...]:
    """What must stand beside the result, known before the first trial."""
    return (*plan.chosen, *_notes_of_mechanism(plan))


def _notes_of_mechanism(plan: Plan) -> tuple[str, ...]:
    if isinstance(plan.mechanism, Recorded):
        recorded = plan.mechanism.recorded()
        left = len(recorded) - Stored(recorded, plan.seed).limit
        used = (
            "The canary and the features had no say: the rows were played elsewhere, and are taken to be independent."
        )
        return (used, *((f"{left:,} rows of the larger side were left out.",) if left else ()))
    if isinstance(plan.mechanism, Noted):
        return plan.mechanism.notes(plan.challenge.data([True]))
    return ()


def exact_curve(mechanism: Mechanism, challenge: Challenge) -> tuple[Array, Array] | None:
    """The tradeoff curve of a pair, (alpha, beta) from 0 to 1, where the mechanism knows it."""
    tradeoff = getattr(mechanism, "tradeoff", None)
    if tradeoff is None:
        return None
    alpha = np.concatenate([[0.0], ndtr(np.linspace(-7, 7, 281)), [1.0]])
    return alpha, np.asarray(tradeoff(alpha, challenge.data([False]), challenge.data([True])))


def bound_all(
    estimators: tuple[Estimator, ...], evidence: Evidence, claims: tuple[Claim, ...]
) -> tuple[tuple[Bound, ...], dict[str, str]]:
    """Every estimator in GDP and in every claimed notion; and those that have no bound at all, with the reason.

    Raises:
        AuditError: when the first estimator, which is behind mu_emp, refuses the evidence.
    """
    notions: list[Notion] = list(dict.fromkeys([GDP(), *(claim.notion for claim in claims)]))
    bounds: list[Bound] = []
    refused: dict[str, Refused] = {}
    for estimate in estimators:
        reasons = []
        for notion in notions:
            try:
                bounds.append(estimate(evidence, notion))
            except Refused as reason:
                reasons.append(reason)
        if len(reasons) == len(notions):  # one that is made for some notions only is no news
            refused[estimate.name] = reasons[0]
    first = estimators[0].name
    if not bounds or bounds[0].estimator != first or not isinstance(bounds[0].notion, GDP):
        why = refused.get(first, "it has no bound in GDP")
        raise AuditError(f"estimator={first} cannot give mu_emp: {why}")
    told = {name: str(reason) for name, reason in refused.items() if not isinstance(reason, OtherGame)}
    return tuple(measured(bound, evidence) for bound in bounds), told


def in_order(chosen: Estimator, others: Sequence[Estimator]) -> tuple[Estimator, ...]:
    """The one behind mu_emp first: the chosen one, or Clopper–Pearson where that reads reports, which tell of no μ."""
    if not isinstance(chosen, ExPost):
        return (chosen, *others)
    behind = ClopperPearson(significance=chosen.significance)
    return (behind, chosen, *(other for other in others if other.name != behind.name))


def measured(bound: Bound, evidence: Evidence) -> Bound:
    """A bound with what the coverage bench found of bounds like it."""
    return dataclasses.replace(bound, measured=look_up(bound, evidence.counts))


def accuse(estimate: Estimator, evidence: Evidence, notion: Notion) -> Bound:
    """The bound that may accuse: on everything where ``estimate`` can read it.

    Otherwise at the same significance: the right guesses of one run, betting where folds follow each other, and else
    the last fold alone: one attack, and as many trials as were planned. Whether reports of spent privacy are true,
    `ExPost` alone can tell.
    """
    if isinstance(notion, ExPostRDP):
        estimate = ExPost(significance=estimate.significance)
    try:
        return estimate(evidence, notion)
    except Refused:
        if evidence.one_run:
            return OneRun(significance=estimate.significance)(evidence, notion)
        if evidence.stopped or progressive(evidence.folds):
            return Betting(significance=estimate.significance)(evidence, notion)
        return estimate(Evidence(evidence.folds[-1:]), notion)


def family_wise(audits: Sequence[tuple[Plan, Result]]) -> tuple[Result, Bound] | None:
    """The largest bound on μ of several audits, with one error probability for all of them together.

    Quoting the best of m audits is a choice made on data. With each bound at significance/m, all of them hold at once
    with probability 1 − significance (Bonferroni, the first step of Holm's), the largest one too.

    Args:
        audits: what was planned and found; the bounds are those of `accuse`, at the shared significance.

    Returns:
        The audit and its bound; None where there are fewer than two.
    """
    if len(audits) < 2:
        return None
    found = [(result, _shared(plan, result.evidence, len(audits))) for plan, result in audits]
    return max(found, key=lambda pair: pair[1].lower)


def _shared(plan: Plan, evidence: Evidence, audits: int) -> Bound:
    """One audit's finite-sample bound on μ with its share of the error probability."""
    share = plan.estimators[0].significance / audits
    return accuse(with_significance(plan.accusing, share), evidence, GDP())


def with_significance(estimate: Estimator, significance: float) -> Estimator:
    """The same recipe at another error probability."""
    return dataclasses.replace(cast(Any, estimate), significance=significance)


def references(claims: tuple[Claim, ...]) -> tuple[float | None, float | None]:
    """Implied and direct mu: √(2ρ) through zCDP, and the μ whose GDP curve passes through the claimed (ε, δ).

    Reference lines: only a composition of Gaussian mechanisms is √(2ρ)-GDP.
    """
    by_notion = {type(claim.notion): claim for claim in reversed(claims) if not claim.numerical}
    implied = direct = None
    if ApproximateDP in by_notion:
        claim = by_notion[ApproximateDP]
        assert isinstance(claim.notion, ApproximateDP)
        endless = math.isinf(claim.parameter)
        direct = math.inf if endless else privacy.direct_mu(claim.parameter, claim.notion.delta)
    if GDP in by_notion:
        implied = by_notion[GDP].parameter
    elif ZCDP in by_notion:
        implied = privacy.implied_mu(by_notion[ZCDP].parameter)
    return implied, direct


def target_mu(claim: Claim, implied: float | None) -> float:
    """The μ that an audit hopes to see: the implied one, else that of the claim's point fpr = fnr."""
    if implied is not None:
        return implied
    miss = 1 - privacy.guess_rate(claim.notion, claim.parameter)
    return float(privacy.mu_hat(miss, miss))


def foresee(plan: Plan) -> Power:
    """What an audit could find with a perfect attack, before anything is played."""
    claims = plan.mechanism.claims
    side = plan.protocol.tested // 2
    return power(plan, target_mu(claims[0], references(claims)[0]), side, side, None)


def power(plan: Plan, target: float, absent: int, present: int, control: tuple[float, float] | None) -> Power:
    """What so many test trials could find of a mechanism whose claim amounts to ``target``, in μ.

    Args:
        control: the attack's efficiency and its lower limit, which goes into the formulas; None for a perfect attack.
    """
    sure = control[1] if control else 1.0
    significance = plan.accusing.significance
    return Power(
        expected=plan.estimators[0].expected(GDP(), target, absent, present),
        efficiency=control,
        detectable=detectable(target, significance, absent, present, sure),
        needed=trials_needed(target, significance, efficiency=sure),
    )


def efficiency_of(evidence: Evidence) -> tuple[float, float] | None:
    """Of the last attack against the exact likelihood ratio on the same trials; None where that is not known."""
    last = evidence.folds[-1].test
    if last.log_ratio is None:
        return None
    return efficiency(last, dataclasses.replace(last, values=last.log_ratio))


TIGHT, TELLING = 0.8, 0.5
"""A bound is tight from this share of the expected one on; trials are telling from this share of the claim on."""


def judge(bound: Bound, accusing: Bound, claim: Claim, target: float, could: Power) -> Verdict:
    """Compare with the claim.

    Args:
        bound: in GDP, the one behind mu_emp.
        accusing: finite-sample, in the claim's own notion: the only one that may say ``violation``.
        claim: the mechanism's first.
        target: the μ that a mechanism at its claim would show to endless trials.
        could: what these trials and this attack could have found.
    """
    expected = could.expected
    said = accusing.notion.label(accusing.lower)
    if accusing.lower > claim.parameter:
        return Verdict(
            "violation",
            f"It leaks more than it claims: at least {said} ({accusing.estimator}, {accusing.kind}, error probability"
            f" {accusing.significance:g}) against {claim}.",
            accusing,
        )
    if math.isinf(claim.parameter):
        reason = f"It promises {claim}, which nothing exceeds: what is found is at least {said}, and not to be judged."
        return Verdict("inconclusive", reason, accusing)
    if expected < TELLING * target:
        return Verdict(
            "inconclusive",
            f"Too few trials to tell: even a perfect attack on a mechanism at its claim (a μ of {target:.3f}) would be"
            f" expected to show {expected:.3f}.",
            accusing,
        )
    if bound.lower >= TIGHT * expected:
        return Verdict(
            "tight",
            f"No violation, and little room below the claim: mu_emp {bound.lower:.3f} is {bound.lower / expected:.0%} of"
            f" the {expected:.3f} that a perfect attack would be expected to show with these trials"
            f"{'; what is above it is the noise of so few trials' if bound.lower > expected else ''}.",
            accusing,
        )
    return Verdict(
        "loose",
        f"No violation found: mu_emp {bound.lower:.3f}, where a perfect attack on a mechanism at its claim would be"
        f" expected to show {expected:.3f}; {_why_loose(could.efficiency)}.",
        accusing,
    )


def in_words(verdict: Verdict, counts: Counts) -> Verdict:
    """A violation with, in words, that the point estimate behind it is infinite, where it is.

    The bound stays finite: so many trials prove no more.
    """
    if verdict.word != "violation" or not math.isinf(privacy.mu_hat(counts.fpr, counts.fnr)):
        return verdict
    total, side, said = counts.fp + counts.tn, "absent", "present"
    if counts.fp:
        total, side, said = counts.fn + counts.tp, "present", "absent"
    reason = (
        f"{verdict.reason} The leak may be infinite: not one of {total:,} {side} trials was called {said}, as"
        " where an event happens under one data set only."
    )
    return dataclasses.replace(verdict, reason=reason)


def _why_loose(control: tuple[float, float] | None) -> str:
    if control is None:
        return "the attack's efficiency is unknown, so a weak attack and a mechanism that leaks less look alike"
    share, sure = control
    if sure >= TIGHT:
        return (
            f"the attack is not what limits it, it shows {share:.0%} (at least {sure:.0%}) of what the exact likelihood"
            " ratio shows on the same trials: the mechanism leaks less on this pair, or these trials had bad luck"
        )
    return f"the attack is weak, it shows {share:.0%} (at least {sure:.0%}) of what the exact likelihood ratio shows"


def describe(plan: Plan) -> str:
    """The pair and its neighbouring relation, in one sentence."""
    what = plan.mechanism if isinstance(plan.mechanism, Recorded) else plan.challenge
    return f"{what} ({relation(plan.mechanism.claims[0].neighbours)} neighbours)"


def spent(tally: Tally, plan: Plan, evidence: Evidence) -> dict[str, str]:
    """What the audit used, in words."""
    return {
        "trials": str(max(int(fold.test.index.max()) for fold in evidence.folds) + 1),
        "seed": str(plan.seed),
        "blocks played": str(tally.played),
        "blocks from the cache": str(tally.cached),
    }


class Clock:
    """Seconds per stage, and the progress that is shown for it. It wraps what a protocol calls; no protocol knows."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str, total: int = 1) -> Iterator[Callable[[int], None]]:
        """Time a stage and show it; it is advanced to its end when it ends well."""
        start = time.perf_counter()
        try:
            with self._progress(name, total) as advance:
                yield advance
                if total == 1:
                    advance(1)
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def stages(self) -> tuple[Stage, ...]:
        """In the order in which they began."""
        return tuple(Stage(name, seconds) for name, seconds in self._seconds.items())

    def source(self, make: Callable[[Callable[[int], None]], Source]) -> Source:
        """A source whose trials are the stage "trials"."""
        return _Watched(self, make)

    def attacker(self, attacker: Attacker) -> Attacker:
        """An attacker whose fits are the stage "attack" and whose guesses are the stage "scores"."""
        return _Timed(self, attacker)

    def criterion(self, criterion: Criterion) -> Criterion:
        """A criterion whose choice is the stage "threshold"."""

        def choose(selection: Scores, claim: Claim) -> float:
            with self.stage("threshold"):
                return criterion(selection, claim)

        return choose

    def timed(self, name: str, call: Callable[[Trials], T]) -> Callable[[Trials], T]:
        """A call on trials that is the stage ``name``."""

        def run(trials: Trials) -> T:
            with self.stage(name):
                return call(trials)

        return run


class _Timed:
    """An attacker whose fits and guesses are stages."""

    def __init__(self, clock: Clock, attacker: Attacker) -> None:
        self._clock, self._attacker = clock, attacker

    @property
    def learns(self) -> bool:
        # One that does not say so is taken to learn, which is always right and costs trials only.
        return getattr(self._attacker, "learns", True)

    def __call__(self, trials: Trials) -> Attack:
        with self._clock.stage("attack"):
            attack = self._attacker(trials)
        return self._clock.timed("scores", attack)


class _Watched:
    """A source whose every request is a stage with a bar."""

    limit: int | None = None

    def __init__(self, clock: Clock, make: Callable[[Callable[[int], None]], Source]) -> None:
        self._clock, self._make = clock, make

    def trials(self, first: int, count: int) -> Trials:
        with self._clock.stage("trials", count) as advance:
            return self._make(advance).trials(first, count)
