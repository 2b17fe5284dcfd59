"""`audit runs` and `audit.runs()`."""

from __future__ import annotations

import csv
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

import audit
from audit import listing
from audit.core import AuditError
from audit.tracking import Store


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of four audits, one of them killed, and one audit alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        root = tmp_path_factory.mktemp("here") / "mlruns"
        store = Store.open(root)
        parent = store.start_sweep("grid", 4)
        for mechanism in ("mst", "aim"):
            for eps in (1, 2.5):
                log(store, mechanism, eps, parent)
        log(store, "mst", 4, None)
        return root


def log(store: Store, mechanism: str, eps: float, parent: str | None) -> None:
    choices = {"mechanism": mechanism, "attacker": "xgboost", "criterion": "advantage"}
    name = f"{mechanism} eps={eps:g} xgboost advantage seed=3"
    run = store.start(name, {"eps": eps, "choices": choices}, parent=parent)
    if (mechanism, eps) == ("aim", 2.5):
        return store.finish(run, "KILLED")
    store.client.log_metric(run, "mu_emp", eps / 10)
    store.client.set_tag(run, "verdict", "tight")
    return store.finish(run, "FINISHED")


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_runs_are_a_data_frame_the_newest_first(root: Path) -> None:
    table = audit.runs(root)
    assert audit.runs is listing.runs  # and no module of that name hides it once it is loaded
    assert table["name"].tolist()[0] == "mst eps=4 xgboost advantage seed=3" and len(table) == 5
    assert list(table.columns[:6]) == [
        "name",
        "mechanism",
        "eps",
        "attacker",
        "criterion",
        "mu_emp",
    ]
    assert table["eps"].tolist() == [4, 2.5, 1, 2.5, 1] and table["eps"].dtype == float
    assert table["sweep"].tolist()[1:] == ["grid"] * 4 and table["sweep"].isna()[0]
    assert table["mu_emp"].isna().tolist() == [False, True, False, False, False]
    assert table["when"].is_monotonic_decreasing and table["when"].dt.tz is not None


def test_runs_are_filtered(root: Path) -> None:
    assert len(audit.runs(root, sweep="grid")) == len(audit.runs(root, sweep="newest")) == 4
    assert audit.runs(root, mechanism="aim", eps=1)["mu_emp"].tolist() == [0.1]
    assert audit.runs(root, eps="2.5", mechanism="mst")["mu_emp"].tolist() == [0.25]
    assert audit.runs(root, mechanism="gaussian").empty


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mechansim=aim"], "no column 'mechansim'; did you mean 'mechanism'?"),
        (["eps=much"], "eps=much: eps is a number"),
        (["--sweep", "no"], "no sweep 'no' is logged; there are: grid"),
        (["more"], "runs: cannot read 'more'; there are key=value, --sweep, --csv and --root"),
        (["--nothing"], "runs: unrecognized arguments: --nothing"),
    ],
)
def test_what_does_not_fit_is_one_line(root: Path, words: list[str], says: str) -> None:
    with pytest.raises(AuditError) as raised:
        listing.main([*words, "--root", str(root)])
    assert str(raised.value).startswith(says) and "\n" not in str(raised.value)


def test_nothing_logged_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"nothing is logged in .* yet; run an audit first"):
        audit.runs(tmp_path / "mlruns")
    assert not list(tmp_path.iterdir())
    Store.open(tmp_path)
    assert audit.runs(tmp_path).empty


def test_the_terminals_table_fits_80_columns(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert listing.main([f"root={root}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == list(listing.SHOWN)
    told = [line.split()[:7] for line in lines if "xgboost" in line]
    assert told[0] == ["seed=3", "mst", "4", "xgboost", "advantage", "0.400", "tight"]
    assert (
        told[1] == ["seed=3", "aim", "2.5", "xgboost", "advantage", "–", "killed"]
        and len(told) == 5
    )
    assert max(map(len, lines)) <= 80 and "\x1b" not in "".join(lines)
    listing.main([f"root={root}", "mechanism=gaussian"])
    assert capsys.readouterr().out.strip() == "no audit fits"


def test_csv_has_everything(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listing.main(["--csv", "--root", str(root), "mechanism=aim"])
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert [row["eps"] for row in rows] == ["2.5", "1.0"] and {
        "run",
        "status",
        "when",
        "sweep",
    } <= set(rows[0])


def test_a_reader_that_has_had_enough_is_no_error(root: Path) -> None:
    words = [
        sys.executable,
        "-c",
        "import sys; from audit.cli import main; sys.exit(main())",
        "runs",
        "--csv",
    ]
    with subprocess.Popen(
        [*words, f"root={root}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141 and said == ""
