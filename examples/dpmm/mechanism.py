"""dpmm's MST, AIM or fixed one-way marginals, as a program that `audit mechanism=command` asks for
trials.

PYTHON mechanism.py {mst,aim,fixed} [--see table|marginals] [--eps 1] [--delta 0.01] [--iters N]

One model a trial, on binary columns. What is seen of it: the cell counts of a synthetic table of 50
rows, or the noisy one-way marginals that it starts from (`model.generator.measures` of a fitted
one), which take no inference and are cheap.
"""

import argparse
import functools
import itertools
import json
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROWS = 50


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("which", choices=("mst", "aim", "fixed"))
    words.add_argument("--see", choices=("table", "marginals"), default="table")
    words.add_argument("--eps", type=float, default=1.0)
    words.add_argument("--delta", type=float, default=0.01)
    words.add_argument(
        "--iters",
        type=int,
        help="of the last inference, which is post-processing; default: dpmm's own",
    )
    told = words.parse_args()
    remember_rho()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), told)), flush=True)


def remember_rho():
    """(ε, δ) → ρ once a program: dpmm computes the same number three times a model, 0.1 s each."""
    from dpmm.models import aim, mst
    from dpmm.models.base.mechanisms import mechanism

    aim.cdp_rho = mst.cdp_rho = mechanism.cdp_rho = functools.cache(mechanism.cdp_rho)


def answer(ask, told):
    """All trials of one request."""
    import numpy as np
    import pandas as pd

    columns = ask["columns"] or [f"c{i}" for i in range(len(ask["data"][0]))]
    data = pd.DataFrame(ask["data"], columns=columns).astype(int)
    # dpmm takes its selection and its table from this state; its noise is OpenDP's, which no seed
    # reaches.
    seeds = np.random.RandomState(ask["seed"] % 2**32).randint(2**31, size=ask["trials"])
    rows = []
    for seed in seeds:
        model = build(data, np.random.RandomState(seed), told)
        rows.append(
            marginals(model, data) if told.see == "marginals" else table_or_error(model, data)
        )
    cells = itertools.product((0, 1), repeat=len(columns))
    seen = {
        "table": [f"n{list(c)}" for c in cells],
        "marginals": [f"{c}={v}" for c in columns for v in (0, 1)],
    }
    return {"rows": rows, "columns": seen[told.see]}


def build(data, state, told):
    """A model of dpmm's that is not fitted yet."""
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    fixed = told.which == "fixed"
    more = {"n_iters": told.iters} if told.iters else {}
    make = AIMGM if told.which == "aim" else MSTGM
    model = make(epsilon=told.eps, delta=told.delta, compress=not fixed, n_jobs=1, **more)
    model.set_domain(dict.fromkeys(data.columns, 2))
    model.set_random_state(state)
    if fixed:  # measures these and nothing else, and spends everything on it
        model.generator.cliques, model.generator.fit_state = (
            [(column,) for column in data.columns],
            "pretrained",
        )
    return model


def marginals(model, data):
    """The noisy one-way marginals, 2 numbers a column, which all three measure first; what follows
    cannot unsay them."""
    from dpmm.models import aim

    place, name = (
        (aim, "measure_one_way") if isinstance(model, aim.AIMGM) else (model.generator, "_measure")
    )
    heard, measure = {}, getattr(place, name)

    def measure_and_tell(*arguments, **more):
        found = measure(*arguments, **more)
        heard[tuple(found[3])] = found[1].ravel()
        if len(heard) == len(data.columns):
            raise Enough
        return found

    setattr(place, name, measure_and_tell)
    try:
        model.fit(data)
    except Enough:
        return [float(y) for column in data.columns for y in heard[(column,)]]
    finally:
        setattr(place, name, measure)
    raise RuntimeError("dpmm did not measure every column first: this program is for dpmm 0.1.9")


class Enough(Exception):  # noqa: N818  it is no error
    """All columns were measured."""


def table_or_error(model, data):
    """A row, or the name of what stopped dpmm: an output of another kind, which `features=events`
    counts."""
    try:
        return table(model, data)
    except (ValueError, ArithmeticError) as error:
        # "probabilities contain NaN" in one of about 100 tables of MST
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return type(error).__name__


def table(model, data):
    """How many of the rows of a synthetic table are in each cell."""
    model.fit(data)
    found = [
        tuple(row) for row in model.generate(ROWS)[list(data.columns)].astype(int).values.tolist()
    ]
    return [found.count(cell) for cell in itertools.product((0, 1), repeat=len(data.columns))]


if __name__ == "__main__":
    main()
