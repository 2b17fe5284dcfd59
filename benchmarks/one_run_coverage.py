"""How often each bound from one run exceeds the truth, where the truth is known.

.venv/bin/python benchmarks/one_run_coverage.py [--quick]     writes src/audit/coverage/one_run.csv,
prints a table

Whether a bound exceeds the truth is whether it refutes the truth, since what it refutes are all
parameters from 0 on: so a critical number of right guesses, or the gambler's money, says it without
the bound. A few bounds are solved for, for their mean and to check that decision.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
from scipy.special import expit

from audit.coverage.laws import Shift, curve_truth
from audit.coverage.rows import ACCUSING, SIGNIFICANCE, Row, judge
from audit.coverage.table import ONE_RUN, write
from audit.estimators import one_run_fdp
from audit.estimators.one_run import OneRun, p_value, small_delta
from audit.estimators.one_run_betting import BET_FRACTIONS, LOOKS, OneRunBetting
from audit.estimators.one_run_fdp import OneRunFDP
from audit.mechanisms.answers import Answers
from audit.privacy import GDP, ApproximateDP, PureDP, gdp_epsilon

DELTA = 1e-5
OUT = ONE_RUN
PURE, APPROXIMATE = PureDP(), ApproximateDP(DELTA)

RESPONSE = Answers(law="response", eps=1.0)
MIXED = Answers(law="response", eps=1.0, together=0.797)
LAWS = {  # name → (mechanism, truths)
    "null": (Answers(together=0.0), {PURE: 0.0, APPROXIMATE: 0.0, GDP(): 0.0}),
    "independent responses ε=1": (
        RESPONSE,
        {PURE: 1.0, APPROXIMATE: 1.0, GDP(): RESPONSE.claims[1].parameter},
    ),
    "laplace ε=1": (
        Answers(law="laplace", eps=1.0),
        {PURE: 1.0, APPROXIMATE: 1.0, GDP(): curve_truth(Shift(1.0, "laplace"), GDP())},
    ),
    "gaussian": (
        Answers(law="gaussian", eps=1.0),
        {APPROXIMATE: gdp_epsilon(1.0, DELTA), GDP(): 1.0},
    ),
    "responses ε=1, all or none": (
        MIXED,
        {PURE: 1.0, APPROXIMATE: 1.0, GDP(): MIXED.claims[1].parameter},
    ),
}


def guessed(mechanism, m, audits, rng):
    """(audits, m) whether guesses are right, the surest first, as the protocol and the estimators
    make them."""
    bits = rng.random((audits, m)) < 0.5
    answers = np.empty((audits, m))
    for i in range(audits):  # each run has coins of its own
        answers[i] = mechanism.release(bits[i], 1, rng).answers[0]
    if mechanism.law == "response":
        return (answers >= 0.5) == bits  # all equally far from the middle: in their own order
    middle = np.median(answers, axis=1, keepdims=True)
    order = np.argsort(-np.abs(answers - middle), axis=1, kind="stable")
    return np.take_along_axis((answers >= middle) == bits, order, axis=1)


def at_truth(notion, truth, m, significance):
    """(ε, δ) that are to be refuted for the bound to be above the truth."""
    if isinstance(notion, GDP):
        small = small_delta(m, significance)
        return gdp_epsilon(truth, small), small
    return truth, notion.delta if isinstance(notion, ApproximateDP) else 0.0


def critical(refuted, made):
    """The least number of right guesses that refutes, ``made`` + 1 where none does."""
    low, high = -1, made + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high


def exceeds(estimate, notion, truth, right):
    """(audits,) whether the bound is above the truth."""
    m = right.shape[1]
    if isinstance(estimate, OneRunBetting):
        eps, delta = at_truth(notion, truth, m, estimate.significance)
        left = estimate.significance - m * delta / 2
        after = np.unique(np.append(np.geomspace(1, m, LOOKS).astype(int), m))
        hits = np.cumsum(right, axis=1)[:, after - 1].astype(float)
        best = np.full(len(right), -np.inf)
        money = np.zeros_like(hits)
        for stake in BET_FRACTIONS:
            money += np.exp(
                np.minimum(
                    np.log1p(stake * math.exp(-eps)) * hits + np.log1p(-stake) * (after - hits), 600
                )
            )
        best = np.log(money / len(BET_FRACTIONS)).max(axis=1)
        return best > -math.log(left) if left > 0 else np.zeros(len(right), bool)
    share = estimate.significance / len(estimate.portions)
    answer = np.zeros(len(right), bool)
    for made in {max(1, round(portion * m)) for portion in estimate.portions}:
        if isinstance(estimate, OneRun):
            eps, delta = at_truth(notion, truth, m, estimate.significance)
            at = critical(lambda v, r=made, e=eps, d=delta: p_value(e, m, r, v, d) < share, made)
        else:  # a bound on (ε, δ) is that of the Gaussian curve, so the truth in μ decides
            mu = truth if isinstance(notion, GDP) else LAWS["gaussian"][1][GDP()]
            at = critical(lambda v, r=made, u=mu: one_run_fdp.refutes(u, m, r, v, share), made)
        answer |= right[:, :made].sum(axis=1) >= at
    return answer


def cells(m, audits, solved, seed):
    """A row for each law, estimator, notion and significance at m canaries."""
    rows = []
    for k, (name, (mechanism, truths)) in enumerate(LAWS.items()):
        right = guessed(mechanism, m, audits, np.random.default_rng((seed, m, k)))
        wrong = m * (0.5 if name == "null" else float(expit(-1.0)))
        for make in (OneRun, OneRunFDP, OneRunBetting):
            for notion, truth in truths.items():
                if make is OneRunFDP and not (isinstance(notion, GDP) or name == "gaussian"):
                    continue  # its ε is that of a Gaussian curve
                for nominal in (SIGNIFICANCE, ACCUSING):
                    estimate = make(nominal)
                    over = exceeds(estimate, notion, truth, right)
                    bounds = [estimate.lower(each, notion) for each in right[:solved]]
                    # A bound within rounding of the truth may be said either way.
                    clear = np.abs(np.array(bounds) - truth) > 1e-6
                    assert np.array_equal((np.array(bounds) > truth)[clear], over[:solved][clear])
                    rows.append(
                        Row(
                            estimate.name,
                            notion.name,
                            "finite-sample",
                            nominal,
                            name,
                            truth,
                            m // 2,
                            m // 2,
                            "all",
                            "one_run",
                            wrong,
                            audits,
                            int(over.sum()),
                            float(np.mean(bounds)),
                        )
                    )
        print(f"  m={m} {name}", file=sys.stderr, flush=True)
    return rows


def show(rows):
    print("| estimator | notion | law | truth | m | nominal | rate | mean bound | verdict |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.estimator} | {row.notion} | {row.law} | {row.parameter:.4g} | "
            f"{2 * row.absent} | {100 * row.nominal:g} % | {100 * row.rate:.2f} % | "
            f"{row.mean:.3f} | {row.verdict} |"
        )


def main():
    quick, start = "--quick" in sys.argv, time.perf_counter()
    sizes = (
        ((100, 400, 4), (1000, 400, 4))
        if quick
        else ((100, 4000, 20), (1000, 4000, 20), (10_000, 1000, 8))
    )
    rows = judge([row for m, audits, solved in sizes for row in cells(m, audits, solved, seed=0)])
    if not quick:
        write(rows, OUT)
    show(rows)
    print(
        "\n"
        f"{len(rows)} cells, {sum(r.verdict == 'exceeds' for r in rows)} exceed; "
        f"{time.perf_counter() - start:.0f} s"
    )
    return int(any(row.verdict == "exceeds" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
