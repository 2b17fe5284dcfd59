from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import shutil
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from audit import charts, tracking
from audit.core import (
    AuditError,
    Bound,
    Claim,
    Efficiency,
    Evidence,
    Fold,
    Power,
    Result,
    Scores,
    Stage,
    Verdict,
)
from audit.privacy import GDP, ZCDP, ApproximateDP
from audit.tracking import Store


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def fake(name: str = "mst_fixed eps=1 xgboost advantage", mu_hat: float = 0.44) -> Result:
    bits = np.tile([False, True], 10)
    scores = Scores(np.arange(20.0), bits, np.arange(20), np.arange(20))
    evidence = Evidence((Fold(np.array([], int), None, 10.0, scores),))
    pearson = Bound("clopper_pearson", GDP(), 0.31, 0.1, "finite-sample")
    return Result(
        name=name,
        config={
            "eps": 1.0,
            "mechanism": {"_target_": "audit.Mst", "degree": 1},
            "choices": {"mechanism": "mst_fixed"},
        },
        challenge="a pair",
        claims=(Claim(GDP(), 0.5), Claim(ApproximateDP(0.01), 1.0)),
        evidence=evidence,
        mu_hat=mu_hat,
        bounds=(
            Bound("joint_bayes", GDP(), 0.4, 0.1, "Bayesian"),
            Bound("clopper_pearson", ApproximateDP(0.01), 0.2, 0.1, "finite-sample"),
            Bound("joint_bayes", ApproximateDP(0.01), 0.3, 0.1, "Bayesian"),
            pearson,
            Bound("joint_bayes", ZCDP(), 0.05, 0.1, "Bayesian"),
        ),
        refused={},
        mu_implied=0.5,
        mu_direct=0.6,
        power=Power(GDP(), 0.45, 0.62, 2480),
        efficiency=Efficiency(0.95, 0.9, 0.85, 0.8, 0.45, 0.03),
        errors=(0.04, 0.035),
        verdict=Verdict(
            "tight", "Little room.", dataclasses.replace(pearson, significance=0.01, lower=0.25)
        ),
        stages=(Stage("trials", 3.0), Stage("attack", 1.5)),
        provenance={"git commit": "abc123+", "numpy": "2.4"},
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        return Store.open(tmp_path_factory.mktemp("here") / "mlruns")


# --- what is logged -------------------------------------------------------------------------------


def test_metrics_are_those_that_the_issue_names() -> None:
    assert tracking.metrics(fake()) == {
        "fpr": 0.5,
        "fnr": 0.5,
        "mu_hat": 0.44,
        "mu_emp": 0.4,
        "mu_clopper_pearson": 0.31,
        "mu_implied": 0.5,
        "mu_direct": 0.6,
        "eps_emp": 0.3,  # by the estimator behind mu_emp, not by the first that comes
        "expected": 0.45,
        "mu_hat_error": 0.04,
        "mu_emp_error": 0.035,
        "efficiency": 0.95,
        "efficiency_at_threshold": 0.85,
        "detectable": 0.62,
        "trials_needed": 2480,
        "accusing": 0.25,
        "threshold": 10.0,
        "tightness": 0.8,
        "seconds.trials": 3.0,
        "seconds.attack": 1.5,
        "per_estimator.joint_bayes.gdp": 0.4,
        "per_estimator.joint_bayes.approximate": 0.3,
        "per_estimator.joint_bayes.zcdp": 0.05,
        "per_estimator.clopper_pearson.gdp": 0.31,
        "per_estimator.clopper_pearson.approximate": 0.2,
    }


def test_metrics_leave_out_what_is_not_known() -> None:
    bare = dataclasses.replace(fake(), mu_implied=None, mu_direct=None, bounds=fake().bounds[:1])
    found = tracking.metrics(bare)
    assert not {"mu_implied", "mu_direct", "tightness", "eps_emp", "mu_clopper_pearson"} & set(
        found
    )
    assert "tightness" not in tracking.metrics(dataclasses.replace(fake(), mu_implied=0.0))


def test_keys_are_in_mlflows_alphabet() -> None:
    assert tracking._key("hydra/job@µ eps=1") == "hydra/job__ eps_1"
    assert len(tracking._key("x" * 999)) == 250


# --- one run --------------------------------------------------------------------------------------


def test_mlflow_is_quiet_though_somebody_imported_it_before(tmp_path: Path) -> None:
    """It reads its variable when it is first imported: a level that it took before is set again."""
    logging.getLogger("mlflow").setLevel(logging.INFO)
    Store.open(tmp_path)
    assert logging.getLogger("mlflow").level == logging.WARNING


def test_a_run_round_trips(store: Store) -> None:
    import mlflow

    before = mlflow.get_tracking_uri()
    result = fake()
    run = store.start(result.name, result.config, tags={"case": "default"})
    (store.folder(run) / "report.html").write_text("<p>here")
    store.log_result(run, result)
    store.finish(run, "FINISHED")

    found = store.client.get_run(run)
    assert found.info.run_name == result.name and found.info.status == "FINISHED"
    assert found.data.params == {
        "eps": "1.0",
        "mechanism": "mst_fixed",
        "mechanism._target_": "audit.Mst",
        "mechanism.degree": "1",
    }
    last = {"beta": 0.0, "beta_claimed": 0.0}  # of each curve, at α = 1
    assert found.data.metrics == pytest.approx(tracking.metrics(result) | last)
    tags = found.data.tags
    assert tags["git_commit"] == "abc123+" and tags["mlflow.source.git.commit"] == "abc123"
    assert (
        tags["verdict"] == "tight"
        and tags["mechanism"] == "mst_fixed"
        and tags["case"] == "default"
    )
    assert tags["config_hash"] == tracking.config_hash(result.config) and tags["numpy"] == "2.4"
    assert {file.path for file in store.client.list_artifacts(run)} == {
        "report.html",
        "bounds.json",
    }
    assert store.folder(run).is_relative_to(store.root / "artifacts")
    assert mlflow.active_run() is None and mlflow.get_tracking_uri() == before  # no global state


def test_the_main_metrics_come_first_in_the_ui() -> None:
    """The UI puts sections, what stands before a /, first, and sorts names within: what is looked
    for needs neither."""
    names = sorted(tracking.metrics(fake()))
    assert not [name for name in names if "/" in name]
    assert (
        names.index("mu_emp")
        < names.index("mu_hat")
        < min(i for i, n in enumerate(names) if "." in n)
    )


def test_curves_are_metrics_with_steps_so_that_runs_can_be_laid_over_one_another(
    store: Store,
) -> None:
    result = fake()
    run = store.start(result.name, result.config)
    store.log_result(run, result)
    for name, values in tracking._curves(result).items():
        logged = {point.step: point.value for point in store.client.get_metric_history(run, name)}
        assert sorted(logged) == list(range(0, 1001, 10))
        np.testing.assert_allclose([logged[step] for step in sorted(logged)], values)
    claimed = [
        point.value
        for point in store.client.get_metric_history(run, "beta_claimed")
        if point.step == 500
    ]
    assert claimed == pytest.approx([GDP().beta(0.5, 0.5)])


def slow_curve(scores: Scores, alpha: float) -> float:
    """Every threshold one by one."""
    tables = [scores.count(t) for t in [*np.unique(scores.values), np.inf]]
    return min(table.fnr for table in tables if table.fpr <= alpha + 1e-12)


@pytest.mark.parametrize("decimals", [0, 1, 6])  # many ties, some, none
def test_the_curve_is_that_of_every_threshold(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    bits = np.tile([False, True], 40)
    values = np.round(rng.normal(size=80) + bits, decimals)
    scores = Scores(values, bits, np.arange(80), np.arange(80))
    fold = Fold(np.array([], int), None, 0.0, scores)
    found = tracking.curve([fold], tracking.ALPHA)
    np.testing.assert_allclose(found, [slow_curve(scores, a) for a in tracking.ALPHA])
    other = dataclasses.replace(fold, test=dataclasses.replace(scores, values=-values))
    both = tracking.curve([fold, other], tracking.ALPHA)
    np.testing.assert_allclose(both, (found + tracking.curve([other], tracking.ALPHA)) / 2)


def test_a_curve_of_one_class_is_not_logged(store: Store) -> None:
    fold = fake().evidence.folds[0]
    alone = dataclasses.replace(fold, test=dataclasses.replace(fold.test, bits=np.ones(20, bool)))
    run = store.start("one class", {})
    store.log_result(run, dataclasses.replace(fake(), evidence=Evidence((alone,))))
    assert store.client.get_metric_history(run, "beta") == []


def test_bounds_are_a_table_and_figures_are_images_by_key(store: Store) -> None:
    import matplotlib.image

    run = store.start("an audit", {})
    matplotlib.image.imsave(store.folder(run) / "tradeoff.png", np.zeros((4, 4, 3)))
    store.log_result(run, fake())
    table = json.loads((store.folder(run) / "bounds.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert len(rows) == 6 and rows[0]["bound"] == "joint_bayes" and rows[0]["lower"] == 0.4
    assert (
        rows[-1]["bound"] == "accusing: clopper_pearson" and rows[-1]["error_probability"] == 0.01
    )
    tags = store.client.get_run(run).data.tags
    assert "bounds.json" in tags["mlflow.loggedArtifacts"] and tags["mlflow.loggedImages"] == "True"
    assert [p for p in (store.folder(run) / "images").iterdir() if p.name.startswith("tradeoff")]


def test_infinities_are_flags(store: Store) -> None:
    result = dataclasses.replace(fake(mu_hat=math.inf), mu_direct=math.nan)
    run = store.start(result.name, result.config)
    store.log_result(run, result)
    found = store.client.get_run(run).data.metrics
    assert found["infinite/mu_hat"] == 1 and found["undefined/mu_direct"] == 1
    assert "mu_hat" not in found and max(found.values()) < 1e6


def test_mlflow_would_store_an_infinity_as_a_number(store: Store) -> None:
    run = store.start("twin", {})
    store.client.log_metric(run, "mu_hat", math.inf)
    assert store.client.get_run(run).data.metrics["mu_hat"] == pytest.approx(1.797e308, rel=1e-3)


def test_more_than_a_batch_is_logged(store: Store) -> None:
    run = store.start("many", {f"key{i}": i for i in range(250)})
    stages = tuple(Stage(f"stage{i}", 1.0) for i in range(1100))
    many = dataclasses.replace(
        fake(), stages=stages, provenance={f"tag{i}": "1" for i in range(150)}
    )
    store.log_result(run, many)
    found = store.client.get_run(run)
    assert len(found.data.params) == 250
    assert sum(name.startswith("seconds.") for name in found.data.metrics) == 1100
    assert sum(name.startswith("tag") for name in found.data.tags) == 150


def test_what_the_store_refuses_is_one_line(store: Store) -> None:
    with pytest.raises(AuditError, match=r"^run 0123 cannot be closed: [^\n]*$"):
        store.finish("0123", "FINISHED")


# --- sweeps ---------------------------------------------------------------------------------------


def test_a_sweep_is_a_parent_with_children(store: Store) -> None:
    parent = store.start_sweep("epsilon_grid", 2)
    results = [fake("one"), fake("two", mu_hat=math.inf)]
    for result in results:
        run = store.start(result.name, result.config, parent=parent)
        store.log_result(run, result)
        store.finish(run, "FINISHED")
    (store.folder(parent) / "mu_emp.png").write_bytes(b"")
    store.finish_sweep(parent, results, "FAILED")

    found = store.client.get_run(parent)
    assert found.info.status == "FAILED" and found.data.tags["sweep"] == "epsilon_grid"
    children = [store.client.get_run(run) for run in store.children(parent)]
    assert {child.info.run_name for child in children} == {"one", "two"}
    assert {child.data.tags["mlflow.parentRunId"] for child in children} == {parent}
    assert {file.path for file in store.client.list_artifacts(parent)} == {
        "mu_emp.png",
        "sweep.json",
    }
    table = json.loads((store.folder(parent) / "sweep.json").read_text())
    shown = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["audit"] for row in shown] == ["one", "two"] and [
        row["mu_emp"] for row in shown
    ] == [0.4, 0.4]
    assert [row["mu_hat"] for row in shown] == [0.44, None]
    newest = store.newest()
    assert newest is not None and newest.info.run_id == parent  # not one of its children


def test_links(store: Store) -> None:
    from urllib.parse import parse_qs

    base = f"http://127.0.0.1:5000/#/experiments/{store.experiment}/runs"
    assert store.run_link("abc") == f"{base}/abc?workflowType=machine_learning"
    address, _, query = store.sweep_link("p").partition("?")
    assert address == base
    # No word of what is sought or sorted by: beside one the UI would pass over the shared view.
    assert parse_qs(query) == {
        "viewStateShareKey": ["p"],
        "workflowType": ["machine_learning"],
        "compareRunsMode": ["CHART"],
    }
    assert (
        dataclasses.replace(store, uri="https://host/mlflow/")
        .run_link("abc")
        .startswith("https://host/mlflow/#/")
    )
    query = tracking.compare_link("http://u", "1", ["a", "b"]).partition("?")[2]
    assert parse_qs(query) == {"runs": ['["a", "b"]'], "experiments": ['["1"]']}


def test_a_sweeps_link_opens_a_view_that_is_kept(store: Store) -> None:
    parent = store.start_sweep("a sweep", 1)
    tags = store.client.get_experiment(store.experiment).tags
    kept = json.loads(tags[charts.SHARED + parent])
    assert parent in kept["searchFilter"] and kept["orderByKey"] == "metrics.`mu_emp`"
    everything = json.loads(tags[charts.SHARED + tracking.ALL])
    run = store.start("an audit", {})
    store.log_result(run, fake())
    found = store.client.search_runs([store.experiment], everything["searchFilter"])
    assert run in {one.info.run_id for one in found} and parent not in {
        one.info.run_id for one in found
    }


def test_what_the_view_shows_is_logged(store: Store) -> None:
    run = store.start(
        "an audit", {"eps": 1, "choices": {"mechanism": "m", "criterion": "c", "attacker": "a"}}
    )
    store.log_result(run, fake())
    data = store.client.get_run(run).data
    there = {"params": data.params, "metrics": data.metrics, "tags": data.tags}
    for column in charts.COLUMNS:
        kind, name = column.rstrip("`").split(".`")
        assert name in there[kind], column
    for chart in json.loads(charts.view(""))["compareRunCharts"]:
        names = [
            chart.get("metricKey"),
            *chart.get("selectedMetrics", ()),
            chart.get("xaxis", {}).get("key"),
        ]
        assert {name for name in names if name} <= set(data.metrics), chart
        assert set(chart.get("selectedParams", ())) <= set(data.params)


# --- opening --------------------------------------------------------------------------------------


def test_the_default_store_is_a_wal_database_in_root(store: Store) -> None:
    assert store.uri == f"sqlite:///{store.root}/mlflow.db"
    with contextlib.closing(sqlite3.connect(store.root / "mlflow.db")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert Store.open(store.root).experiment == store.experiment


def test_no_wal_on_a_network_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mounts = f"/dev/sda / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda *args, **kwargs: mounts)
    assert not tracking._on_local_disk(tmp_path / "mlruns")
    assert tracking._on_local_disk(Path("/elsewhere"))


def test_a_given_database_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/own.db")
    store = Store.open(tmp_path / "mlruns")
    run = store.start("x", {})
    assert (tmp_path / "own.db").exists() and not (tmp_path / "mlruns" / "mlflow.db").exists()
    assert store.folder(run).is_relative_to(tmp_path / "mlruns" / "artifacts")


@pytest.mark.slow
def test_processes_that_open_at_once_make_one_experiment(tmp_path: Path) -> None:
    code = "import sys; from audit.tracking import Store; print(Store.open(sys.argv[1]).experiment)"
    command = [sys.executable, "-c", code, str(tmp_path / "mlruns")]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ended = [(*process.communicate(timeout=60), process.returncode) for process in started]
    assert [code for *_, code in ended] == [0, 0, 0], ended
    assert len({out for out, *_ in ended}) == 1


@pytest.mark.parametrize("place", ["file", "file/inner", "/proc/audit"])
def test_an_unwritable_root_is_said(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError, match=r"^cannot write to [^\n]*root=…$"):
        Store.open(tmp_path / place)


def test_a_root_that_was_moved_is_said(tmp_path: Path) -> None:
    Store.open(tmp_path / "before")
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    with pytest.raises(AuditError, match="was moved"):
        Store.open(tmp_path / "after")


def test_a_deleted_experiment_is_said(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.client.delete_experiment(store.experiment)
    with pytest.raises(AuditError, match=f"mlflow experiments restore -x {store.experiment}"):
        Store.open(tmp_path)


def test_runs_of_dead_processes_are_closed_and_no_others(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()
    mine = tracking._process()
    runs = {
        "dead": f"{host} {ended.pid} 1000",
        "another with its number": mine.rpartition(" ")[0] + " 1000",
        "alive": mine,
        "elsewhere": f"not-{host} {ended.pid} 1000",
        "unknown": "",
    }
    ids = {name: store.start(name, {}, tags={"process": process}) for name, process in runs.items()}
    again = Store.open(tmp_path)
    status = {name: again.client.get_run(run).info.status for name, run in ids.items()}
    assert status == {
        "dead": "KILLED",
        "another with its number": "KILLED",
        "alive": "RUNNING",
        "elsewhere": "RUNNING",
        "unknown": "RUNNING",
    }


# --- a tracking server ----------------------------------------------------------------------------


def test_files_for_a_server_are_uploaded(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where artifacts are not local, files are written aside and sent."""
    run = store.start("remote", {})
    remote = dataclasses.replace(store, root=tmp_path)
    sent: list[tuple[str, str]] = []
    real = store.client.get_run

    def far(run: str) -> object:
        found = real(run)
        found.info._artifact_uri = "mlflow-artifacts:/1/x/artifacts"
        return found

    monkeypatch.setattr(store.client, "get_run", far)
    monkeypatch.setattr(
        store.client, "log_artifacts", lambda run, folder: sent.append((run, folder))
    )
    folder = remote.folder(run)
    assert folder == tmp_path / "reports" / run
    (folder / "report.html").write_text("")
    remote.log_result(run, fake())
    assert sent == [(run, str(folder))]
