"""Bounds, the estimators that give them, and what a whole audit found."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Protocol, runtime_checkable

from audit.core.data import Array
from audit.core.mechanism import Claim
from audit.core.trials import Design, Evidence
from audit.privacy import Notion

Kind = Literal["finite-sample", "asymptotic", "Bayesian"]


@dataclasses.dataclass(frozen=True)
class MeasuredCoverage:
    """How often bounds like one were above the truth in simulated audits, whose truth is known.

    Args:
        rate: share of audits whose bound was too high, in the worst comparable cell, in [0, 1].
        nominal: the share that was promised, in (0, 1).
        cells: how many cells of the coverage table are comparable.
        trials: test trials a side in the worst of them.
        rare_below: where the bound over-claims because it expects few errors of a kind, how many
            are few; None where it does not over-claim.
    """

    rate: float
    nominal: float
    cells: int
    trials: int
    rare_below: int | None = None


@dataclasses.dataclass(frozen=True)
class Bound:
    """How much a mechanism leaks at least, and how sure that is.

    Args:
        estimator: name of the recipe.
        notion: the family that ``lower`` is a parameter of.
        lower: lower bound on the parameter, ≥ 0, finite.
        significance: error probability promised.
        kind: what sort of promise: finite-sample, asymptotic or Bayesian.
        upper: upper bound on what this attack can show, where the recipe has one.
        anytime: holds at every number of trials at once.
        warnings: sentences that must stand beside the number.
        measured: how often bounds like this one were too high in simulation; None where no
            comparable one was simulated.
    """

    estimator: str
    notion: Notion
    lower: float
    significance: float
    kind: Kind
    upper: float | None = None
    anytime: bool = False
    warnings: tuple[str, ...] = ()
    measured: MeasuredCoverage | None = None


class NotApplicable(Exception):  # noqa: N818  a refusal is no error
    """An estimator cannot read this evidence; its text says why. Not an error: the bound is left
    out and said."""


class WrongEvidence(NotApplicable):
    """An estimator is made for another game than this evidence is of: no news unless it was asked
    for."""


@runtime_checkable
class Estimator(Protocol):
    """Evidence → Bound. One that may refuse evidence says so beforehand, as `ChecksDesign`."""

    @property
    def name(self) -> str:
        """The recipe's name."""
        ...

    @property
    def significance(self) -> float:
        """Error probability of its bounds."""
        ...

    def __hash__(self) -> int:
        """Of its options: what is computed of a recipe is computed once."""
        ...

    def expected(self, notion: Notion, parameter: float, n_absent: int, n_present: int) -> float:
        """The bound that a perfect attack is expected to reach where ``parameter`` is the
        truth, ≥ 0."""
        ...

    def __call__(self, evidence: Evidence, notion: Notion) -> Bound:
        """A bound on the parameter of ``notion``.

        Raises:
            NotApplicable: when the evidence does not allow this recipe.
        """
        ...


@runtime_checkable
class ChecksDesign(Protocol):
    """An estimator that cannot read the evidence of every protocol, and says so before anything is
    played."""

    def allow(self, design: Design, notion: Notion) -> None:
        """Go on only where evidence of this design gives a bound in ``notion``.

        Raises:
            NotApplicable: where it does not, with the reason.
        """
        ...


@dataclasses.dataclass(frozen=True)
class Stage:
    """Wall-clock seconds spent in one part of an audit."""

    name: str
    seconds: float


Word = Literal[
    "violation", "violation (computed)", "suspicious", "tight", "loose", "inconclusive", "failed"
]


@dataclasses.dataclass(frozen=True)
class Strength:
    """What an attack shows at its threshold, in the parameter of the judged claim.

    Args:
        estimate: plug-in from both error rates, ≥ 0; ∞ where one kind of error never happened.
        standard_error: of the estimate, asymptotic.
        lower, upper: 95 % limits, one-sided: the lower one finite-sample, the upper one Bayesian.
    """

    estimate: float
    standard_error: float
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True)
class Efficiency:
    """Shares of the optimal test's μ that an attack reaches, in [0, 1]; the optimal test is the
    exact likelihood ratio.

    Args:
        ranking, ranking_low: by the area under its curve, over all thresholds; estimate and lower 5
            % limit.
        threshold, threshold_low: at the threshold that was chosen.
        possible, error: the μ that the exact likelihood ratio shows on the same trials, and its
            standard error.
    """

    ranking: float
    ranking_low: float
    threshold: float
    threshold_low: float
    possible: float
    error: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What an audit says of the first claim; the words are told in `audit.judgement.verdict`.

    Args:
        word: one of seven.
        reason: whole sentences.
        accusing: the bound of the recipe that tests the claim: finite-sample, in the claim's own
            notion.
        strength: what the attack shows; None where that has no meaning.
    """

    word: Word
    reason: str
    accusing: Bound
    strength: Strength | None = None

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted, by trials or by a computation."""
        return self.word in ("violation", "violation (computed)")


@dataclasses.dataclass(frozen=True)
class Power:
    """What an audit could have found, computed by the recipe that tests its claim (exact sums over
    its counts).

    Args:
        notion: of the judged claim; the parameters below are its own.
        expected: the mu_emp that a perfect attack on a mechanism at its claim is expected to reach
            with these trials.
        detectable: least parameter that is detected with probability 0.8; ∞ where none is, None
            where it is not known.
        needed: test trials a side that detect 1.25 times the claim with probability 0.8; ∞ where no
            number does, None where it is not known.
    """

    notion: Notion
    expected: float
    detectable: float | None
    needed: float | None


@dataclasses.dataclass(frozen=True)
class NextStep:
    """What to do next.

    Args:
        why: a whole sentence.
        changes: options to change in the command that played this audit; none where no command
            helps.
        command: the changed command; "" where the audit did not come from one.
        cost: what the next look may spend of the error probability, in words.
    """

    why: str
    changes: tuple[tuple[str, str], ...] = ()
    command: str = ""
    cost: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """Everything that one audit found, spent and used: what tracking and report read.

    Args:
        name: readable, such as ``mst_fixed eps=1 xgboost advantage``.
        config: the resolved configuration, nested plain dicts.
        challenge: one sentence on the pair and the neighbouring relation.
        claims: what the mechanism promises; the first is judged.
        evidence: folds with selection and test scores, thresholds, counts.
        mu_hat: plug-in point estimate Φ⁻¹(1 − fpr) − Φ⁻¹(fnr).
        bounds: every bound that the evidence allows; the first is the one behind mu_emp, in GDP.
        refused: estimator → why it is left out.
        mu_implied: √(2ρ) through zCDP; None where no claim gives one.
        mu_direct: solved from (ε, δ); None where no claim gives one.
        power: what these trials and this attack could have found.
        efficiency: of the attack beside the exact likelihood ratio; None where that is not known.
        errors: standard errors of mu_hat and of mu_emp.
        verdict: what the audit says.
        stages: seconds per stage.
        provenance: commit, versions, seed, trials, cache hits.
        notes: sentences that must stand beside the result.
        exact: (alpha, beta), each (k,): the tradeoff curve of this pair, where the mechanism knows
            it; None elsewhere.
        next_step: what to do next; None where nothing is left to do.
    """

    name: str
    config: dict[str, Any]
    challenge: str
    claims: tuple[Claim, ...]
    evidence: Evidence
    mu_hat: float
    bounds: tuple[Bound, ...]
    refused: dict[str, str]
    mu_implied: float | None
    mu_direct: float | None
    power: Power
    efficiency: Efficiency | None
    errors: tuple[float, float]
    verdict: Verdict
    stages: tuple[Stage, ...]
    provenance: dict[str, str]
    notes: tuple[str, ...] = ()
    exact: tuple[Array, Array] | None = None
    next_step: NextStep | None = None


@dataclasses.dataclass(frozen=True)
class Rung:
    """One step up the ladder.

    Args:
        eps: Rényi ε of all training releases up to here.
        checked: Rényi ε of all checks up to here.
        spent: what would be reported if this were the last step.
        noisy: the noisy accuracy, where the check may show one; the raw one stays inside.
        passed: whether the check said yes.
        test: accuracy on the test set: outside of the guarantee, for the reader of an experiment on
            public data.
    """

    eps: float
    checked: float
    spent: float
    noisy: float | None
    passed: bool
    test: float


@dataclasses.dataclass(frozen=True)
class LadderRun:
    """Everything that one accuracy-first run found and spent: what tracking and report read.

    Args:
        name: readable.
        config: the resolved configuration.
        task: one sentence.
        order: α that every ε is of, but those below.
        delta: of the two conversions.
        threshold: accuracy that was asked for.
        ladder: every step's ε, those too that were not needed.
        rungs: the steps that were taken; the last one's model is the output.
        approximate, probabilistic: ex-post (ε, δ) of what was spent, in either sense.
        fixed: (Rényi ε, approximate ε) of a run at the ladder's top, which is what must be paid
            where nobody looks.
        provenance: commit, versions, seed.
        seconds: wall clock.
    """

    name: str
    config: dict[str, Any]
    task: str
    order: float
    delta: float
    threshold: float
    ladder: tuple[float, ...]
    rungs: tuple[Rung, ...]
    approximate: float
    probabilistic: float
    fixed: tuple[float, float]
    provenance: dict[str, str]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether the accuracy was reached; if not, everything is charged all the same."""
        return self.rungs[-1].passed

    @property
    def spent(self) -> float:
        """Ex-post Rényi ε."""
        return self.rungs[-1].spent
