"""From a first audit by default to a violation: how many of the hints that audits print are needed.

    .venv/bin/python benchmarks/hints.py ../shared/cases/public_bugs.py [--seeds 1] [names …]

The file has faults of public code, re-created, ``f(data, rng)``, each with a corrected twin
``f_ok``. Each is audited by default, and then by the command that the audit prints, at most twice.
A bug must end in a violation, a twin in none. An error of one line that names an option, such as
features=events, is a hint too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shlex
import sys
import tempfile
from pathlib import Path

from audit.cli import compose
from audit.core import AuditError, Result
from audit.experiment import audit

REPLACED = ["mechanism.claim.neighbours=replace_one", "canary.neighbours=replace_one"]
PURE = ["mechanism/claim=pure", "eps=1"]
ZEROS = [0] * 1491  # with one more, the exponential mechanism's weights all underflow
ROWS = [[0.2, 0.3, 1], [0.5, 0.6, -1], [0.8, 0.7, 1]]


@dataclasses.dataclass(frozen=True)
class Case:
    """What a bug claims, and a pair that shows it."""

    claim: list[str]
    absent: object
    present: object


CASES = {
    "privbayes": Case([*PURE, *REPLACED], [[0, 0], [1, 1], [0, 1]], [[1, 0], [1, 1], [0, 1]]),
    "tau": Case(["mechanism/claim=approximate", "eps=1", "delta=0.01"], [1, 1, 1], [1, 1, 1, 2]),
    "analytic": Case(["mechanism/claim=approximate", "eps=1", "delta=1e-5"], [0, 0], [0, 0, 1]),
    "nobounds": Case(PURE, [1, 2, 3], [1, 2, 3, 5]),
    "quantile": Case(PURE, [*ZEROS, 1], [*ZEROS, 0, 1]),
    "svt_fl": Case([*PURE, *REPLACED], [0, 0, 0, 0.5], [0, 0, 0, -0.5]),
    "split": Case(PURE, ROWS, [*ROWS, [0.61, 0.37, -1]]),
    "classic10": Case(["mechanism/claim=approximate", "eps=10", "delta=1e-5"], [0, 0], [0, 0, 1]),
    "var_sq": Case(PURE, [0, 0], [0, 0, 0]),
}
KEEPS_LESS = {"svt_fl_ok": 1.5}  # what this twin really keeps, by the notes in its file
# no number of counted runs that anyone has shows it; the hint has to say so
SHOWS_NOTHING = {"classic10"}


def words_of(name: str, target: str, module: str, seed: int, root: str) -> list[str]:
    case = CASES[name]
    claim = list(case.claim)
    if target in KEEPS_LESS:
        claim[claim.index("eps=1")] = f"eps={KEEPS_LESS[target]:g}"
    pair = [
        f"canary.{side}={json.dumps(data).replace(' ', '')}"
        for side, data in (("absent", case.absent), ("present", case.present))
    ]
    return [
        "mechanism=callable",
        f"mechanism.target={module}:{target}",
        *claim,
        "canary=pair",
        *pair,
        "backend=serial",
        f"seed={seed}",
        f"root={root}",
    ]


def follow(words: list[str], looks: int = 3) -> list[str]:
    """What each look said, until a violation or until no command is left."""
    told: list[str] = []
    for _ in range(looks):
        try:
            plan = compose(*words)
            result = audit(plan)
        except AuditError as error:
            option = re.search(r"features=events", str(error))
            told.append(f"error: {option[0] if option else error}")
            if option is None:
                return told
            words = [*words, option[0]]
            continue
        told.append(look_in_words(result))
        step = result.next_step
        if result.verdict.violated or step is None or not step.command:
            return told
        words = shlex.split(step.command)[3:]  # python -m audit …
    return told


def look_in_words(result: Result) -> str:
    step = result.next_step
    options = (
        " ".join(f"{key}={value}" for key, value in step.changes if key != "look") if step else ""
    )
    return result.verdict.word + (f" → {options or step.why}" if step else "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    sys.path.insert(0, str(given.file.resolve().parent))
    print("| audited | seed | what each look said |\n|---|---|---|")
    wrong = 0
    with tempfile.TemporaryDirectory() as root:
        for name in given.names:
            for target in (name, f"{name}_ok"):
                for seed in range(given.seeds):
                    told = follow(words_of(name, target, given.file.stem, seed, root))
                    found = told[-1].startswith("violation")
                    wrong += found != (target in CASES and target not in SHOWS_NOTHING)
                    print(f"| {target} | {seed} | {'; '.join(told)} |", flush=True)
    print(f"\n{wrong} of {2 * len(given.names) * given.seeds} ended otherwise than they must.")


if __name__ == "__main__":
    main()
