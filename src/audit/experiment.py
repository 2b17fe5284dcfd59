"""The story of one audit, top to bottom."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.special import ndtr

from audit import plain, privacy
from audit.accountants import ExPostRDP
from audit.attackers import Column, XGBoost
from audit.canaries.worst_case import WorstCase
from audit.core import (
    Array,
    Attack,
    Attacker,
    AuditError,
    AuditProtocol,
    Bound,
    Challenge,
    ChecksDesign,
    ChecksSetup,
    Claim,
    Criterion,
    Design,
    Efficiency,
    Estimator,
    Evidence,
    HasNotes,
    Mechanism,
    NotApplicable,
    Power,
    ReadsColumns,
    Recorded,
    RecordedTable,
    Result,
    Scores,
    Setup,
    Source,
    Stage,
    Trials,
    Verdict,
    relation,
)
from audit.criteria import ByNotion
from audit.estimators.betting import Betting
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.exact import Exact
from audit.estimators.joint_bayes import JointBayes
from audit.estimators.power import Tests
from audit.events import Bits, Events
from audit.features import Hybrid
from audit.game import (
    Backend,
    CanaryGame,
    Features,
    Game,
    Played,
    Serial,
    Stored,
    Tally,
    notes_of,
)
from audit.judgement.bounds import bound_all, measured, suspicion, test_claim, with_significance
from audit.judgement.diagnosis import Diagnosis, diagnose
from audit.judgement.hints import Situation, next_step
from audit.judgement.power import power_of, references
from audit.judgement.strength import efficiency_of, error_of_bound, standard_error, strength_of
from audit.judgement.verdict import Findings, computed_excess, judge
from audit.privacy import GDP
from audit.protocols import Holdout
from audit.spending import share_of_error

T = TypeVar("T")


class Progress(Protocol):
    """Shows how far a stage is: told its name and size, it returns what is called with each
    advance."""

    def __call__(
        self, stage: str, total: int
    ) -> contextlib.AbstractContextManager[Callable[[int], None]]:
        """Open a bar; what is entered is called with the steps done."""
        ...


@contextlib.contextmanager
def silent(stage: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress that shows nothing."""
    yield lambda count: None


def _usual_estimators() -> tuple[Estimator, ...]:
    return (JointBayes(), Exact(), ClopperPearson(), Betting())


def _first_look_at_the_claim() -> Estimator:
    """The test of the claim with the share of 1 % that the first look may spend."""
    return Exact(significance=0.01 * share_of_error(look=1))


@dataclasses.dataclass(frozen=True)
class Plan:
    """One audit, composed and checked, before anything is played.

    Only the mechanism must be given. The defaults are those of the command line, but for the
    estimators: the four that the published experiment needs.

    Args:
        mechanism: what is audited.
        challenge: the pair of neighbouring data sets, or the canaries of one run.
        features: what the attacker sees of a release.
        attacker: fitted on the training trials.
        criterion: chooses the threshold on the selection trials.
        estimators: all that there are; the first is behind mu_emp.
        accusing: the finite-sample one whose bound, in the first claim's notion, may accuse.
        protocol: how trials are spent on fitting, selection and test.
        backend: where trials are played.
        seed: of all randomness.
        root: folder of everything that is kept.
        name: readable; the mechanism's by default.
        config: the resolved configuration, where the audit was composed from one.
        provenance: what is known before the audit: commit, versions, …
        chosen: sentences on what was chosen in somebody's place; they stand beside the result.

    Raises:
        AuditError: parts that do not go together.
    """

    mechanism: Mechanism
    challenge: Challenge = dataclasses.field(default_factory=WorstCase)
    features: Features = dataclasses.field(default_factory=Hybrid)
    attacker: Attacker = dataclasses.field(default_factory=XGBoost)
    criterion: Criterion = dataclasses.field(default_factory=ByNotion)
    estimators: tuple[Estimator, ...] = dataclasses.field(default_factory=_usual_estimators)
    accusing: Estimator = dataclasses.field(default_factory=_first_look_at_the_claim)
    protocol: AuditProtocol = dataclasses.field(default_factory=Holdout)
    backend: Backend = dataclasses.field(default_factory=Serial)
    seed: int = 0
    root: Path = Path("mlruns")
    name: str = ""
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    provenance: dict[str, str] = dataclasses.field(default_factory=dict)
    chosen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(self.root))  # text names a folder too
        if not self.name:
            object.__setattr__(self, "name", type(self.mechanism).__name__)
        self._check_types()
        if not self.mechanism.claims:
            raise AuditError(
                f"{type(self.mechanism).__name__} claims nothing, so nothing can be judged; give "
                "it a claim"
            )
        if isinstance(self.mechanism, Recorded) and game_of(self.protocol) is not Game:
            raise AuditError(
                "protocol=one_run plays many canaries in one run, and stored rows are independent "
                "runs; choose another protocol, such as protocol=holdout"
            )
        if self.stored is not None:  # its pair was chosen elsewhere
            self.stored.allow(self.protocol.asked)
        else:
            self._check_pair()
        self._check_estimator()
        self._check_each()

    def _check_each(self) -> None:
        """Every option that has conditions looks at the others."""
        recorded = self.stored.recorded if self.stored is not None else None
        setup = Setup(self.mechanism, self.challenge, self.protocol, recorded)
        for part in (self.protocol, self.challenge, self.features, self.attacker, self.criterion):
            if isinstance(part, ChecksSetup):
                part.check_setup(setup)
        if recorded is None:
            setup.check_data()

    def _check_types(self) -> None:
        """Plans are built from configurations, which no type checker sees."""
        promised = {
            "mechanism": Mechanism,
            "challenge": Challenge,
            "protocol": AuditProtocol,
            "backend": Backend,
        }
        estimators = [
            (f"estimator {type(each).__name__}", each, Estimator) for each in self.estimators
        ]
        for kind, part, types in [
            *((name, getattr(self, name), t) for name, t in promised.items()),
            *estimators,
        ]:
            if not isinstance(part, types):
                name = type(part).__name__
                raise AuditError(
                    f"{name} is no {kind.split()[0]}: it lacks a method of {_import_path(types)}"
                )
        for kind in ("features", "attacker", "criterion"):
            if not callable(getattr(self, kind)):
                raise AuditError(
                    f"{kind}: {type(getattr(self, kind)).__name__} cannot be called; give it "
                    "__call__"
                )

    def _check_pair(self) -> None:
        """Refuse what is no pair, or one that the claim says nothing about, and name the key that
        brings both together."""
        canaries = len(self.challenge.canaries)
        if game_of(self.protocol) is Game and canaries != 1:
            raise AuditError(
                f"{canaries} canaries are for protocol=one_run; this one plays a pair of "
                "neighbours: canary.count=1"
            )
        claimed, played = self.mechanism.claims[0].neighbours, self.challenge.neighbours
        if claimed == played:
            return
        # what is claimed of somebody's own code is an option too
        option = getattr(self.mechanism, "claim", None)
        fixes = "neighbours" in getattr(option, "__dataclass_fields__", {})
        cure = f"mechanism.claim.neighbours={played}" if fixes else "another canary"
        raise AuditError(
            f"{type(self.mechanism).__name__} makes its claim for {relation(claimed)} neighbours, "
            f"and {type(self.challenge).__name__} is a pair of {relation(played)} neighbours; "
            f"choose {cure}, or leave canary= out where the mechanism brings its own"
        )

    def _check_estimator(self) -> None:
        """Refuse, before anything is played, an estimator that could not read what the protocol
        will give."""
        first, design = self.estimators[0], self.protocol.design
        if (why := _refusal(first, design)) is None:
            return
        able = [each.name for each in self.estimators[1:] if _refusal(each, design) is None]
        instead = (
            f"; use estimator={able[0]}{''.join(f' or {name}' for name in able[1:])}"
            if able
            else ""
        )
        raise AuditError(f"estimator={first.name} cannot give mu_emp: {why}{instead}")

    @functools.cached_property
    def stored(self) -> Stored | None:
        """The trials that were played elsewhere; None where they are to be played."""
        if not isinstance(self.mechanism, Recorded):
            return None
        return Stored(
            recorded(self.mechanism, self.features, self.challenge), self.seed, self.protocol.asked
        )


def recorded(mechanism: Recorded, features: Features, challenge: Challenge) -> Trials:
    """Trials that were played elsewhere: numbers as they are, and anything where the features read
    outputs of any kind."""
    if not (isinstance(features, Events | Bits) and isinstance(mechanism, RecordedTable)):
        return mechanism.recorded()
    columns, labels = features(mechanism.released(), challenge), mechanism.labels()
    index = np.arange(len(labels))
    return Trials(columns.names, columns.values, labels, index, index)


def _import_path(kind: type) -> str:
    """Where a person imports a type from: `audit.core` re-exports what its modules define."""
    package = "audit.core"
    module = package if kind.__module__.startswith(f"{package}.") else kind.__module__
    return f"{module}.{kind.__name__}"


def _refusal(estimator: Estimator, design: Design) -> str | None:
    """Why an estimator has no bound on μ from evidence of this design; None where it has one, or
    does not say."""
    try:
        if isinstance(estimator, ChecksDesign):
            estimator.allow(design, GDP())
    except NotApplicable as reason:
        return str(reason)
    return None


def game_of(protocol: AuditProtocol) -> type[Game | CanaryGame]:
    """Which game a protocol spends its trials on: many canaries of one run, or two neighbours."""
    return CanaryGame if protocol.design.runs == "one" else Game


def audit(plan: Plan | None = None, progress: Progress = silent, **parts: Any) -> Result:
    """Play, guess, count, bound, judge.

    Args:
        plan: the audit; None: that of ``parts``.
        progress: shows how far a stage is.
        **parts: arguments of `Plan`, such as ``mechanism=``; all others have defaults.

    Raises:
        AuditError: whatever a person can fix.
        TypeError: neither or both of ``plan`` and ``parts``, or a part that `Plan` does not have.
    """
    if plan is None:
        plan = Plan(**parts)
    elif parts:
        raise TypeError(f"give a plan or its parts, not both: {', '.join(parts)}")
    clock = Clock(progress)
    tally = Tally()
    source = clock.source(lambda watch: source_of(plan, watch, tally))

    claims = plan.mechanism.claims
    said_before = notes(plan)
    evidence = plan.protocol(
        source, clock.attacker(plan.attacker), clock.criterion(plan.criterion), claims[0]
    )
    with clock.stage("bounds"):
        bounds, refused = bound_all(plan.estimators, evidence, claims)
        exact = exact_curve(plan.mechanism, plan.challenge)
        diagnosis = diagnose(source.seen, source.constant)
        efficiency = efficiency_of(evidence)
        findings = gather(plan, evidence, bounds, exact, efficiency, diagnosis)
        verdict = with_suspects(judge(findings), suspects(plan))
        step = next_step(situation(plan, findings, verdict, diagnosis, exact))
        implied, direct = references(claims)
        direct = None if evidence.one_run else direct  # it is the μ of a pair
        errors = standard_errors(plan.estimators[0], evidence)
        power = power_after(plan, evidence, efficiency)
    counts = evidence.counts
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
        power=power,
        efficiency=efficiency,
        errors=errors,
        verdict=verdict,
        stages=clock.stages(),
        provenance=plan.provenance | spent(tally, plan, evidence),
        notes=(*said_before, ONE_RUN_POWER) if evidence.one_run else said_before,
        exact=exact,
        next_step=step,
    )


ONE_RUN_POWER = (
    "No power is stated: the sums are those of independent trials, and canaries that share one "
    "run find less."
)


def gather(
    plan: Plan,
    evidence: Evidence,
    bounds: tuple[Bound, ...],
    exact: tuple[Array, Array] | None,
    efficiency: Efficiency | None,
    diagnosis: Diagnosis,
) -> Findings:
    """What the verdict rests on."""
    claim = plan.mechanism.claims[0]
    accusing = measured(test_claim(plan.accusing, evidence, claim.notion), evidence)
    # of spent privacy: neither a strength nor a family has a meaning
    reports = isinstance(claim.notion, ExPostRDP)
    above = any(
        b.lower > claim.parameter
        for b in bounds
        if b.notion == claim.notion and b.kind == "finite-sample"
    )
    family = None
    if above and not reports:
        family = suspicion(plan.accusing, plan.estimators, evidence, bounds, claim.notion)
    return Findings(
        claim=claim,
        accusing=accusing,
        counts=evidence.counts,
        family=family,
        strength=None if reports else strength_of(evidence, claim),
        efficiency=efficiency,
        computed=computed_excess(exact, claim),
        one_event=diagnosis.one_event,
    )


def situation(
    plan: Plan,
    findings: Findings,
    verdict: Verdict,
    diagnosis: Diagnosis,
    exact: tuple[Array, Array] | None,
) -> Situation:
    """What a hint needs to know."""
    choices = plan.config.get("choices") or {}
    return Situation(
        choices=choices,
        criterion=str(choices.get("criterion", "")),
        claim=findings.claim,
        verdict=verdict,
        counts=findings.counts,
        efficiency=findings.efficiency,
        diagnosis=diagnosis,
        significance=plan.accusing.significance,
        trials=plan.protocol.asked,
        tested=plan.protocol.tested,
        look=int(plan.config.get("look", 1)),
        command=plan.provenance.get("command", ""),
        own=choices.get("mechanism") in ("callable", "command", "stored"),
        keeps=exact is not None and findings.computed is None,
    )


def power_after(plan: Plan, evidence: Evidence, efficiency: Efficiency | None) -> Power:
    """What these trials and this attack could have found; the lower limit of its efficiency goes
    into the sums."""
    counts = evidence.counts
    absent, present = counts.fp + counts.tn, counts.fn + counts.tp
    share = 1.0 if efficiency is None else efficiency.threshold_low
    test = testing(plan)
    if not isinstance(test, Tests):  # its power takes a simulation, which `audit plan` makes once
        test = None
    return power_of(plan.mechanism.claims, plan.estimators[0], test, absent, present, share)


def standard_errors(shown: Estimator, evidence: Evidence) -> tuple[float, float]:
    """Of mu_hat (asymptotic) and of mu_emp (grouped jackknife)."""
    return standard_error(privacy.mu_hat, evidence.counts), error_of_bound(shown, evidence)


def source_of(plan: Plan, watch: Callable[[int], None], tally: Tally) -> Source:
    """Where the trials come from: what was played elsewhere, or the game."""
    if plan.stored is not None:
        return plan.stored
    game = game_of(plan.protocol)(plan.mechanism, plan.challenge, plan.features, plan.seed)
    played = Played(game, plan.backend, plan.root / "trials", watch, tally)
    if isinstance(plan.attacker, ReadsColumns):
        return dataclasses.replace(played, check_columns=plan.attacker.check_columns)
    return played


def notes(plan: Plan) -> tuple[str, ...]:
    """What must stand beside the result, known before the first trial."""
    return (*plan.chosen, *_notes_of_mechanism(plan))


def _notes_of_mechanism(plan: Plan) -> tuple[str, ...]:
    if plan.stored is not None:
        return notes_of_stored(plan, plan.stored)
    if isinstance(plan.mechanism, HasNotes):
        return tuple(map(plain.line, notes_of(plan.mechanism, plan.challenge.data([True]))))
    return ()


def notes_of_stored(plan: Plan, stored: Stored) -> tuple[str, ...]:
    """What must stand beside a result from rows that were played elsewhere."""
    read = isinstance(plan.features, Events | Bits) and isinstance(plan.mechanism, RecordedTable)
    without = "canary had" if read else "canary and the features had"
    said = [
        f"The {without} no say: the rows were played elsewhere. Independence is assumed: every "
        "error rate holds if each row is a run of its own."
    ]
    absent, present = stored.sides
    left = stored.limit - absent - present
    whole = int(np.sum(stored.recorded.bits)), int(np.sum(~stored.recorded.bits))
    if left:
        whose = " of the larger side" if min(absent, present) == min(whole) else ""
        said.append(f"{left:,} rows{whose} were left out.")
    if absent != present:
        said.append(
            f"The sides are unequal: {absent:,} rows without the record and {present:,} with it "
            "are used."
        )
    if isinstance(plan.mechanism, HasNotes):
        said += plan.mechanism.notes(None)
    return (
        *said,
        *(f"Column {name!r} {what}: {CHECK_COLUMN}." for name, what in suspects(plan).items()),
    )


CHECK_COLUMN = "leave it out with mechanism.columns unless it is a true output"


def suspects(plan: Plan) -> dict[str, str]:
    """Columns that the attack looks at and that look like no output, and what each of them does."""
    if not isinstance(plan.mechanism, RecordedTable):
        return {}
    found = plan.mechanism.suspects()
    only = plan.attacker.column if isinstance(plan.attacker, Column) else None
    return {name: what for name, what in found.items() if only in (None, name)}


def with_suspects(verdict: Verdict, found: dict[str, str]) -> Verdict:
    """A violation with the columns that may be behind it: what looks like a label proves no
    leak."""
    if verdict.word != "violation" or not found:
        return verdict
    listed = "; ".join(f"column {name!r} {what}" for name, what in list(found.items())[:3])
    more = f" (and {len(found) - 3} more columns)" if len(found) > 3 else ""
    reason = f"{verdict.reason} Before you believe it: {listed}{more}; {CHECK_COLUMN}."
    return dataclasses.replace(verdict, reason=reason)


def exact_curve(mechanism: Mechanism, challenge: Challenge) -> tuple[Array, Array] | None:
    """The tradeoff curve of a pair, (alpha, beta) from 0 to 1, where the mechanism knows it."""
    tradeoff = getattr(mechanism, "tradeoff", None)
    if tradeoff is None:
        return None
    alpha = np.concatenate([[0.0], ndtr(np.linspace(-7, 7, 281)), [1.0]])
    return alpha, np.asarray(tradeoff(alpha, challenge.data([False]), challenge.data([True])))


def family_wise(audits: Sequence[tuple[Plan, Result]]) -> tuple[Result, Bound] | None:
    """The largest bound on μ of several audits, with one error probability for all of them
    together.

    Quoting the best of m audits is a choice made on data. With each bound at significance/m, all of
    them hold at once with probability 1 − significance (Bonferroni, the first step of Holm's), the
    largest one too.

    Args:
        audits: what was planned and found; the bounds are those of `test_claim`, at the shared
            significance.

    Returns:
        The audit and its bound; None where there are fewer than two.
    """
    if len(audits) < 2:
        return None
    shared = [(result, _shared(plan, result.evidence, len(audits))) for plan, result in audits]
    return max(shared, key=lambda pair: pair[1].lower)


def _shared(plan: Plan, evidence: Evidence, audits: int) -> Bound:
    """One audit's finite-sample bound on μ with its share of the error probability."""
    share = plan.estimators[0].significance / audits
    return test_claim(with_significance(plan.accusing, share), evidence, GDP())


def foresee(plan: Plan) -> Power:
    """What an audit could find with a perfect attack, before anything is played."""
    absent, present = plan.stored.sides if plan.stored is not None else (1, 1)
    tested = plan.protocol.tested
    sides = tested * absent // (absent + present), tested * present // (absent + present)
    return power_of(plan.mechanism.claims, plan.estimators[0], testing(plan), *sides)


def testing(plan: Plan) -> Estimator | None:
    """The recipe that will test the claim; None for audits in one run, whose power is not
    computed."""
    if game_of(plan.protocol) is not Game:
        return None
    if plan.protocol.design.stopped:
        return Betting(significance=plan.accusing.significance)
    return plan.accusing


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
    """Seconds per stage, and the progress that is shown for it. It wraps what a protocol calls; no
    protocol knows."""

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

    def source(self, make: Callable[[Callable[[int], None]], Source]) -> Watched:
        """A source whose trials are the stage "trials"."""
        return Watched(self, make)

    def attacker(self, attacker: Attacker) -> Attacker:
        """An attacker whose fits are the stage "attack" and whose guesses are the stage
        "scores"."""
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


class Watched:
    """A source whose every request is a stage with a bar. It keeps the first trials that it gave,
    for hints.

    ``constant`` says whether all rows that it ever gave are one and the same.
    """

    limit: int | None = None
    seen: Trials
    constant: bool = True

    def __init__(self, clock: Clock, make: Callable[[Callable[[int], None]], Source]) -> None:
        self._clock, self._make = clock, make

    def trials(self, first: int, count: int) -> Trials:
        """See `audit.core.Source`."""
        with self._clock.stage("trials", count) as advance:
            trials = self._make(advance).trials(first, count)
        if first == 0:
            self.seen = trials
        self.constant = self.constant and bool(np.all(trials.rows == self.seen.rows[:1]))
        return trials
