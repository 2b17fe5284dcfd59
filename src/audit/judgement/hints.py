"""What to do next: one sentence and, where there is one, the options to change in the command.

Looking again costs: each further look at a mechanism plays fresh trials, and may err with its share
of the 1 % only (see `audit.spending`), so that the whole path of hints is wrong about a claim that
holds with probability ≤ 1 %.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Callable, Mapping

from audit.core import Claim, Counts, Efficiency, NextStep, Verdict
from audit.estimators.power import trials_foretold
from audit.judgement.diagnosis import Diagnosis
from audit.judgement.strength import TIGHT
from audit.privacy import ApproximateDP, PureDP
from audit.spending import share_of_error

MOST_TRIALS = 2e7
"""No hint asks for more trials than that: it says what they cannot show instead."""
AFFORDABLE = 100
"""No hint asks for more than so many times the trials of the audit before."""

TREES = ("xgboost", "gradient_boosting", "random_forest")


@dataclasses.dataclass(frozen=True)
class Situation:
    """What is known when an audit is over.

    Args:
        choices: option of each group, such as ``{"attacker": "xgboost"}``; empty where the audit
            came from Python.
        criterion: what chose the threshold, by its option's name.
        claim: the mechanism's first.
        verdict: of the audit.
        counts: of the test.
        efficiency: beside the exact likelihood ratio; None where that is not known.
        diagnosis: of the rows.
        significance: of the test of the claim.
        trials: of the whole audit; ``tested`` of them were tested.
        look: number of this look.
        command: that played this audit; "" where it came from Python.
        own: whether the mechanism is the user's own code.
        keeps: whether the pair's exact curve is known and keeps the claim: then what is above it is
            chance.
    """

    choices: Mapping[str, str | None]
    criterion: str
    claim: Claim
    verdict: Verdict
    counts: Counts
    efficiency: Efficiency | None
    diagnosis: Diagnosis
    significance: float
    trials: int
    tested: int
    look: int
    command: str
    own: bool
    keeps: bool


def next_step(at: Situation) -> NextStep | None:
    """The first hint that fits; None where the claim is refuted or the audit is tight and nothing
    is above the claim."""
    if at.verdict.violated:
        return None
    if at.verdict.word == "failed":
        return NextStep(
            "Fix what is audited, or what calls it, so that its output depends on its noise."
        )
    step = next(filter(None, (hint(at) for hint in HINTS)), None)
    if step is None or not step.changes:
        return step
    again = NextStep(step.why, (*step.changes, ("look", str(at.look + 1))))
    command = changed(at.command, again) if at.command else ""
    return dataclasses.replace(again, command=command, cost=_cost(at.look + 1))


def _cost(look: int) -> str:
    share = f"{share_of_error(look):.3g}"
    return f"look {look}: fresh trials, and {share} of the error probability of all looks together"


def changed(command: str, step: NextStep) -> str:
    """The command with the options of a hint in place of its own.

    >>> step = NextStep("", (("criterion", "claim_lower"), ("look", "2")))
    >>> changed("python -m audit mechanism=laplace criterion=advantage", step)
    'python -m audit mechanism=laplace criterion=claim_lower look=2'
    """
    keys = {key for key, _ in step.changes}
    kept = [word for word in shlex.split(command) if word.partition("=")[0].lstrip("+") not in keys]
    return shlex.join([*kept, *(f"{key}={value}" for key, value in step.changes)])


# --- the hints, in the order in which they are tried --------------------------------------------


def _threshold_for_claim(at: Situation) -> NextStep | None:
    """A pure or (ε, δ) claim breaks at rare events, where the advantage is small."""
    if not isinstance(at.claim.notion, PureDP | ApproximateDP) or at.criterion == "claim_lower":
        return None
    why = "A pure or (ε, δ) claim breaks at rare events, which the largest advantage passes over"
    return NextStep(f"{why}: choose the threshold by the claim.", (("criterion", "claim_lower"),))


def _more_trials(at: Situation) -> NextStep | None:
    """The attack's estimate is above the claim, and the test of the claim is not."""
    strength = at.verdict.strength
    if at.keeps or strength is None or not at.claim.parameter < strength.estimate:
        return None
    # Some of what is above the claim is luck: half of the excess is what the next look should be
    # able to see.
    excess = min(strength.estimate / at.claim.parameter, 4.0) if at.claim.parameter > 0 else 4.0
    needed = _needed(at, 1 + (excess - 1) / 2)
    if needed > min(MOST_TRIALS, AFFORDABLE * at.trials):
        return None
    return NextStep(
        f"The estimate is above the claim, which is chance or a leak: about {needed:,} trials "
        "tell.",
        (("trials", str(needed)),),
    )


def _needed(at: Situation, ratio: float) -> float:
    """Trials in all that detect ``ratio`` times the claim with probability 0.8 at the next look; ∞
    where none do."""
    spent, coming = share_of_error(at.look), share_of_error(at.look + 1)
    significance = at.significance * coming / spent
    # The operating point of a claim on rare events: as many errors of the rarer kind as were seen.
    claimed = at.claim.parameter
    a_side = trials_foretold(
        significance, at.claim.notion, claimed, ratio * claimed, _operating_point(at)
    )
    if not a_side < MOST_TRIALS:
        return math.inf
    total = 2 * a_side * at.trials / max(at.tested, 1)
    digits = 10 ** max(math.floor(math.log10(total)) - 1, 0)
    return max(math.ceil(total / digits) * digits, 2 * at.trials)


def _operating_point(at: Situation) -> Callable[[float], tuple[float, float]]:
    """Where the chosen threshold lies: the measured FPR, and on the curve of a parameter the FNR
    that goes with it."""
    fpr = (at.counts.fp + 0.5) / (at.counts.fp + at.counts.tn + 1)
    return lambda parameter: (fpr, float(at.claim.notion.beta(fpr, parameter)))


def _better_attacker(at: Situation) -> NextStep | None:
    """The attack ranks trials clearly worse than the exact likelihood ratio, or cannot see what the
    rows show."""
    attacker = at.choices.get("attacker")
    if (
        at.efficiency is not None
        and at.efficiency.ranking < TIGHT
        and attacker != "likelihood_ratio"
    ):
        why = (
            f"The attack ranks trials at {at.efficiency.ranking:.0%} of the optimal test, which "
            "this mechanism knows."
        )
        return NextStep(why, (("attacker", "likelihood_ratio"),))
    odd = at.diagnosis.atoms or at.diagnosis.two_sided
    if odd is None or attacker in TREES or attacker is None or at.verdict.word == "tight":
        return None
    what = "one exact value of" if at.diagnosis.atoms else "the distance from the middle of"
    return NextStep(
        f"It is {what} {odd} that differs, which trees see and {attacker} does not.",
        (("attacker", "xgboost"),),
    )


def _small_delta(at: Situation) -> NextStep | None:
    """A δ so small that no affordable count shows a leak that lies in δ alone."""
    if not isinstance(at.claim.notion, ApproximateDP) or at.verdict.word == "tight":
        return None
    needed = trials_for_delta(at.claim.parameter, at.claim.notion.delta)
    if needed <= at.tested / 2:
        return None
    return NextStep(
        f"Counts of {at.tested // 2:,} trials a side show leaks in ε; one in δ alone, at ε = "
        f"{at.claim.parameter:g} and δ = {at.claim.notion.delta:g}, takes about {needed:.0e} "
        "trials a side."
    )


def trials_for_delta(eps: float, delta: float) -> float:
    """About how many trials a side show that δ is twice what is claimed at this ε.

    The excess P(event | present) − e^ε·P(event | absent) has a variance of about (1 + e^ε)·P(event
    | present) a trial, an event of probability 2δ is the rarest that can have an excess of 2δ, and
    it has to stand out of the claimed δ by z₀.₀₁ + z₀.₂ = 3.17 standard deviations: 2·3.17²·(1 +
    e^ε)/δ.

    >>> f"{trials_for_delta(1.0, 1e-5):.1e}", f"{trials_for_delta(10.0, 1e-5):.1e}"
    ('7.5e+06', '4.4e+10')
    """
    return 2 * 3.17**2 * (1 + math.exp(min(eps, 700.0))) / delta if delta > 0 else 0.0


def _enough_trials(at: Situation) -> NextStep | None:
    """An audit that could not tell is played again with as many trials as tell 1.25 times the
    claim."""
    if at.verdict.word != "inconclusive" or not 0 < at.claim.parameter < math.inf:
        return None
    needed = _needed(at, 1.25)
    if needed > MOST_TRIALS:
        return None
    why = f"Too few trials: about {needed:,} detect 1.25 times the claim with 80 % probability."
    return NextStep(why, (("trials", str(needed)),))


def _another_pair(at: Situation) -> NextStep | None:
    """Nothing else is left to try on this pair; of floating-point outputs the last bits are another
    matter."""
    if at.verdict.word != "loose":
        return None
    why = (
        "Try another pair: canary=pair takes any two data sets, and a leak may show on others only."
    )
    if not (at.own and at.diagnosis.fractions) or at.choices.get("features") == "bits":
        return NextStep(why)
    return NextStep(
        f"{why} If the promise covers the last bits of floating-point numbers, features=bits "
        "looks at them (most noise that is drawn in floating point leaks there)."
    )


HINTS: tuple[Callable[[Situation], NextStep | None], ...] = (
    _threshold_for_claim,
    _better_attacker,
    _more_trials,
    _small_delta,
    _enough_trials,
    _another_pair,
)
