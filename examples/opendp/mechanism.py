"""OpenDP's Laplace or Gaussian count, or its marginals through mbi, as a program that `audit
mechanism=command` asks.

PYTHON mechanism.py {laplace,gaussian,fixed,mst} [--scale 1] [--rho 0.1] [--see marginals|table]

laplace, gaussian   the number of records as a float, with noise of that scale; metric: symmetric
distance (add/remove) fixed, mst          a contingency table of columns with values 0 and 1 (OpenDP
adds a null to each) for ρ-zCDP. What is seen
                    of it: the noisy marginals, of a model that is not fitted (mst selects against
                    uniform counts), or the cell counts of 50 synthetic rows, of one that is

OpenDP draws from the operating system: no seed reaches it, and the audit says that nobody can
reproduce it.
"""

import argparse
import functools
import itertools
import json
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
ROWS = 50


def main():
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("which", choices=("laplace", "gaussian", "fixed", "mst"))
    words.add_argument("--scale", type=float, default=1.0)
    words.add_argument("--rho", type=float, default=0.1)
    words.add_argument("--see", choices=("marginals", "table"), default="marginals")
    told = words.parse_args()
    answer = count if told.which in ("laplace", "gaussian") else tables
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), told)), flush=True)


def count(ask, told):
    """One noisy number a trial."""
    measure = counter(told.which, told.scale)
    values = [float(x) for x in ask["data"]]
    return {"rows": [[measure(values)] for _ in range(ask["trials"])], "columns": ["count"]}


@functools.cache
def counter(which, scale):
    """The measurement: records → their number as a float → noise."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.symmetric_distance()
    noise = dp.m.then_laplace(scale) if which == "laplace" else dp.m.then_gaussian(scale)
    return space >> dp.t.then_count(TO="f64") >> noise


def tables(ask, told):
    """One contingency table a trial."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    columns = ask["columns"]
    data = pl.LazyFrame(ask["data"], schema=dict.fromkeys(columns, pl.Int64), orient="row")
    keys = {column: [0, 1] for column in columns}
    more = {"estimator": unfitted} if told.see == "marginals" else {}
    if told.which == "fixed":
        algorithm = dp.mbi.Fixed(queries=[dp.mbi.Count(by=(column,)) for column in columns], **more)
    else:
        algorithm = dp.mbi.MST(**more)
    rows, look = [], noisy if told.see == "marginals" else synthetic
    for _ in range(ask["trials"]):
        unit, loss = dp.unit_of(contributions=1), dp.loss_of(rho=told.rho)
        context = dp.Context.compositor(data=data, privacy_unit=unit, privacy_loss=loss)
        query = (
            context.query(rho=told.rho)
            .select(*columns)
            .contingency_table(keys=keys, algorithm=algorithm)
        )
        rows.append(look(query.release(), columns, told.which))
    return {"rows": rows}


def unfitted(domain, loss_fn, *, potentials=None):
    """Where inference starts; it is post-processing, and takes seconds."""
    from mbi import CliqueVector, Factor, MarkovRandomField

    cliques = [(column,) for column in domain.attrs]
    start = CliqueVector(domain, cliques, {c: Factor.zeros(domain.project(c)) for c in cliques})
    even = CliqueVector(
        domain, cliques, {c: Factor.ones(domain.project(c)) / domain.size(c) for c in cliques}
    )
    return MarkovRandomField(potentials=start, marginals=even, total=1.0)


def noisy(table, columns, which):
    """The measured counts: one-way, then all pairs, with zeros for those that were not selected."""
    found = {m.clique: m.noisy_measurement.ravel().tolist() for m in table.marginals.flatten()}
    ones = [x for c in columns for x in found[(c,)]]
    if which == "fixed":
        return ones
    pairs = itertools.combinations(columns, 2)
    return ones + [x for pair in pairs for x in found.get(pair, [0] * 9)]


def synthetic(table, columns, which):
    """How many of the synthetic rows are in each cell; a value is 0, 1 or null."""
    found = table.synthesize(ROWS).select(columns).rows()
    return [found.count(cell) for cell in itertools.product((0, 1, None), repeat=len(columns))]


if __name__ == "__main__":
    main()
