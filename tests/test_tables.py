"""Files and tables as people have them, from the command line to a verdict."""

import numpy as np
import pandas as pd
import pytest

from audit import cli
from audit.cli import compose


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder: (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def command(*words):
        status = cli.main(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


def test_a_data_frames_index_is_no_leak_and_a_row_number_is_named(run, tmp_path):
    """Scores without a signal, sorted by side: a row number tells all, and would accuse a mechanism
    that leaks nothing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"score": rng.normal(size=1000), "present": np.arange(1000) >= 500})
    frame.to_csv(tmp_path / "index.csv")
    frame.reset_index().to_csv(tmp_path / "number.csv", index=False)
    words = ("mechanism=stored", "mechanism/claim=gdp", "attacker=logistic", "trials=1000")
    status, out, err = run(*words, "mechanism.path=index.csv")
    assert status == 0, err
    # On no signal the accusing bound exceeds 0, let alone the claim of 1, with probability ≤ 1 %;
    # the seed is fixed.
    assert "violation" not in out.split("note")[0].replace("No violation", "").replace(
        "1.25 × the", ""
    )
    assert "has no name: it is taken for a data frame's index, and left out." in " ".join(
        out.split()
    )
    status, out, err = run(*words, "mechanism.path=number.csv")
    said = " ".join(out.split())
    assert status == 0 and "violation It leaks more" in said
    named = "column 'index' separates the sides perfectly and only rises in the order of the file"
    assert f"Before you believe it: {named}; leave it out with mechanism.columns" in said


def test_texts_and_missing_values_of_stored_rows_are_events(run, tmp_path):
    rng = np.random.default_rng(0)
    present = np.arange(2000) % 2
    word = np.where(rng.random(2000) < 0.1 + 0.8 * present, "red", None)
    pd.DataFrame({"word": word, "present": present}).to_csv(tmp_path / "rows.csv", index=False)
    words = (
        "mechanism=stored",
        "mechanism.path=rows.csv",
        "mechanism/claim=gdp",
        "attacker=logistic",
        "trials=2000",
    )
    status, _, err = run(*words)
    assert (
        status == 2
        and "column 'word' of rows.csv holds no numbers ('red' in row" in err
        and "features=events" in err
    )
    status, out, err = run(*words, "features=events")
    # FPR 0.1 and FNR 0.1 are μ = 2.56: of 400 a side, the 1 % bound is above 1 but with probability
    # < 1e-12
    assert status == 0 and "violation" in out, err


UNBOUNDED = """
import numpy as np


def rows(data, rng):
    return len(data.records) + rng.laplace()


def users(data, rng):
    return len(np.unique(data.users)) + rng.laplace()
"""


def test_contribution_bounding_is_audited_with_neighbours_that_differ_in_a_user(
    run, tmp_path, monkeypatch
):
    """A count of rows claims ε = 1 for users and gives one of them 8 times as much away; a count of
    users does not."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "per_user.py").write_text(UNBOUNDED)
    rows = [f"u{i % 20},{i % 2}" for i in range(40)] + ["heavy,1"] * 8
    (tmp_path / "t.csv").write_text("who,x\n" + "\n".join(rows) + "\n")
    (tmp_path / "t.json").write_text('{"x": 2}')
    words = ["mechanism=callable", "mechanism/claim=pure", "canary=tabular", "canary.csv=t.csv",
             "canary.domain_json=t.json", "canary.user=who", "canary.neighbours=add_remove_user",
             "mechanism.claim.neighbours=add_remove_user",
             "attacker=logistic", "criterion=claim_lower", "trials=2000"]  # fmt: skip
    status, out, err = run(*words, "mechanism.target=per_user:rows")
    assert (
        status == 0
        and "violation" in out
        and "with or without the 8 records of one who" in " ".join(out.split())
    ), err
    status, out, err = run(*words, "mechanism.target=per_user:users")
    # The true claim is refuted with probability ≤ 1 %; the seed is fixed.
    assert status == 0 and "It leaks more" not in out, err
    status, _, err = run("mechanism=mst", *words[2:7], "trials=200")
    assert status == 2 and "makes its claim for add/remove neighbours" in err, (
        "a claim for records says nothing of users"
    )


def test_a_run_with_a_pair_from_files_is_named_by_the_files(run, tmp_path):
    rows = np.random.default_rng(0).normal(size=(750, 2)).round(3)
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame(np.vstack([rows, [[9, 9]]])).to_csv(tmp_path / "b.csv", index=False)
    words = ["mechanism=gaussian", "canary=pair", "canary.absent=@a.csv", "canary.present=@b.csv"]
    plan = compose(*words)
    assert plan.name.endswith("canary.absent=@a.csv canary.present=@b.csv")
    assert plan.config["canary"]["absent"] == "@a.csv" and "9.0" not in str(plan.config)
