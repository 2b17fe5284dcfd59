"""How often the verdict is wrong: bugs that are missed, correct mechanisms that are accused, over
many seeds.

    .venv/bin/python benchmarks/controls.py [laplace gaussian …] [--seeds 200] [--missed 20]
    [--trials N] [--root …] .venv/bin/python benchmarks/controls.py --readme      # one
    sweep=controls, as the README's table

Every audit is as `audit sweep=controls` plays it; false accusations are tested against the nominal
1 % (exact binomial, one-sided, at 1e-6), of each mechanism and of all together.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from scipy.stats import binom

from audit import cli
from audit.core import Bound
from audit.experiment import Plan, audit, source_of
from audit.game import Tally
from audit.judgement.bounds import test_claim
from audit.report import controls, sentences

# aim_fixed is mst_fixed by another name
CHEAP = ("laplace", "gaussian", "randomised_response", "svt_1", "mst_fixed")
README = Path(__file__).parents[1] / "README.md"
MARKS = "<!-- controls -->\n", "<!-- /controls -->"


def plans(words: Sequence[str], root: Path) -> list[Plan]:
    """The audits that ``words`` name, with the one estimator that cannot be left out."""
    _, found = cli.check([*words, f"root={root}", "backend=serial"], many=False)
    return [dataclasses.replace(plan, estimators=plan.estimators[:1]) for plan in found]


def over_seeds(plan: Plan, seeds: int) -> list[Bound]:
    """The bound that tests the claim, of the same audit under every seed; what judges nothing is
    left out."""
    return [tested(dataclasses.replace(plan, seed=seed)) for seed in range(seeds)]


def tested(plan: Plan) -> Bound:
    claim = plan.mechanism.claims[0]
    source = source_of(plan, lambda count: None, Tally())
    evidence = plan.protocol(source, plan.attacker, plan.criterion, claim)
    return test_claim(plan.accusing, evidence, claim.notion)


def accusations(names: Sequence[str], root: Path, seeds: int, trials: int | None) -> None:
    """Table of false accusations; with fewer trials where those of the sweep would take too
    long."""
    fewer = [f"trials={trials}"] if trials else []
    print(
        "| correct | claim | accused | of | largest found | P(as many or more at 1 %) |\n"
        "|---|---|---|---|---|---|"
    )
    everyone = 0
    for name in names:
        (plan,) = plans([f"mechanism=correct/{name}", *fewer], root)
        claim, bounds = plan.mechanism.claims[0], over_seeds(plan, seeds)
        accused = sum(bound.lower > claim.parameter for bound in bounds)
        everyone += accused
        found = max(bound.lower for bound in bounds)
        row = (name, claim, accused, seeds, f"{found:.4f}", f"{chance(accused, seeds):.3g}")
        print("|", " | ".join(map(str, row)), "|", flush=True)
    total = seeds * len(names)
    told = "passes" if chance(everyone, total) > 1e-6 else "FAILS"
    print(
        f"| all | | {everyone} | {total} | | {chance(everyone, total):.3g} ({told} at 1e-6) |",
        flush=True,
    )


def chance(accused: int, audits: int) -> float:
    """P(Bin(audits, 1 %) ≥ accused)."""
    return float(binom.sf(accused - 1, audits, 0.01))


def missed(root: Path, seeds: int) -> None:
    """Table of bugs that are missed, and of accusing bounds above the truth."""
    print(
        "\n"
        "| bug | claim | truth | median found | missed | above the truth | of |\n"
        "|---|---|---|---|---|---|---|"
    )
    for plan in plans(["sweep=controls"], root):
        if plan.config["control"]["expected"] != "violation":
            continue
        claim, truth = plan.mechanism.claims[0], float(plan.config["control"]["truth"])
        found = sorted(bound.lower for bound in over_seeds(plan, seeds))
        lost = sum(lower <= claim.parameter for lower in found)
        above = sum(lower > truth for lower in found)
        name = plan.config["choices"]["mechanism"].rpartition("/")[2]
        row = (name, claim, sentences.number(truth, 3), f"{found[len(found) // 2]:.3f}")
        print("|", " | ".join(map(str, (*row, lost, above, seeds))), "|", flush=True)


def readme(root: Path) -> None:
    """Play sweep=controls once and put its table between the README's marks."""
    results = [audit(plan) for plan in plans(["sweep=controls"], root)]
    rows = [
        controls.CONTROLS,
        tuple("---" for _ in controls.CONTROLS),
        *controls.control_rows(results),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    text = README.read_text("utf-8")
    start, end = MARKS
    new = f"{start}{table}\n\n{controls.control_words(results)}\n{end}"
    README.write_text(re.sub(f"{start}.*{end}", lambda _: new, text, flags=re.DOTALL), "utf-8")
    print(controls.control_words(results))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=CHEAP, help="correct mechanisms")
    parser.add_argument("--seeds", type=int, default=200, help="of each correct mechanism")
    parser.add_argument("--missed", type=int, default=20, help="seeds of each bug")
    parser.add_argument(
        "--trials", type=int, help="of each audit of a correct one (default: those of the sweep)"
    )
    parser.add_argument("--root", type=Path, default=Path("mlruns/bench"))
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args()
    cli._register()
    if given.readme:
        readme(given.root)
        return
    if given.seeds:
        accusations(given.names, given.root, given.seeds, given.trials)
    if given.missed:
        missed(given.root, given.missed)


if __name__ == "__main__":
    main()
