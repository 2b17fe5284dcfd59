"""Where runs are kept: parameters, metrics, tags and files of every audit, in MLflow. The only door
to mlflow.

Only the job's own process logs, with explicit run ids: no active run, no global tracking URI.
mlflow takes seconds to import, so it is imported when a store is opened and not before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import hashlib
import json
import logging
import math
import os
import re
import socket
import sqlite3
import tempfile
import time
import urllib.parse
import urllib.request
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from audit import charts
from audit.core import Array, AuditError, Fold, LadderRun, Result
from audit.privacy import GDP, ApproximateDP
from audit.run_log import (
    FILE_TIMEOUT_S,
    DatabaseFile,
    NoAnswerError,
    check_folder,
    check_reachable,
    is_database,
    is_full,
    is_server,
    least_room,
    one_line_of,
    public,
    resolved,
    tracking_uri,
    within,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Status = Literal["FINISHED", "FAILED", "KILLED"]

EXPERIMENT = "audit"
LOCAL_UI = "http://127.0.0.1:5000"  # where `audit ui` listens unless told otherwise
# for each call of MLflow's, with its retries; MLFLOW_HTTP_REQUEST_TIMEOUT where that is set
CALL_TIMEOUT_S = 30
UPLOAD_TIMEOUT_S = 600.0  # for the files of a run, some MB
CREATE_TIMEOUT_S = 300.0  # for the tables of a new database, some hundred statements
PARENT = "mlflow.parentRunId"
ALL = "audits"  # key of the shared view of all audits
ALPHA = np.arange(101) / 100  # where the tradeoff curve is logged
NETWORKED = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "lustre",
    "gpfs",
    "ceph",
    "fuse.sshfs",
    "beegfs",
}


# --- what is logged -------------------------------------------------------------------------------


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested configuration → one key per value, joined by dots. ``choices``, the name of each
    group's option, comes up.

    >>> flatten({"eps": 1, "protocol": {"train": 0.4},
    ...     "choices": {"protocol": "holdout", "case": None}})
    {'eps': 1, 'protocol.train': 0.4, 'protocol': 'holdout'}
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key == "choices" and not prefix and isinstance(value, Mapping):
            flat |= {str(group): option for group, option in value.items() if option is not None}
        elif isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def config_hash(config: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that are the same for the same configuration, in whatever order its
    keys stand.

    >>> config_hash({"a": 1, "b": 2}) == config_hash({"b": 2, "a": 1})
    True
    >>> config_hash({"a": 1, "b": 2}) == config_hash({"a": 1, "b": 3})
    False
    """
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()[:12]


def metrics(result: Result) -> dict[str, float]:
    """The numbers of an audit under the names that the MLflow UI shows. Not all of them need be
    finite."""
    counts, bounds = result.evidence.counts, result.bounds
    found: dict[str, float | None] = {
        "fpr": counts.fpr,
        "fnr": counts.fnr,
        "mu_hat": result.mu_hat,
        "mu_emp": bounds[0].lower,
        "mu_exact": _lower(result, GDP, "exact"),
        "mu_clopper_pearson": _lower(result, GDP, "clopper_pearson"),
        "mu_implied": result.mu_implied,
        "mu_direct": result.mu_direct,
        "eps_emp": _lower(result, ApproximateDP, bounds[0].estimator),
        "expected": result.power.expected,
        "mu_hat_error": result.errors[0],
        "mu_emp_error": result.errors[1],
        "efficiency": result.efficiency.ranking if result.efficiency else None,
        "efficiency_at_threshold": result.efficiency.threshold if result.efficiency else None,
        "detectable": result.power.detectable,
        "trials_needed": result.power.needed,
        "accusing": result.verdict.accusing.lower,
        "threshold": result.evidence.folds[0].threshold,
    }
    if result.mu_implied:
        found["tightness"] = bounds[0].lower / result.mu_implied
    # The UI puts what has a / in its name before all that has none, and sorts: these come after
    # what is looked for.
    for bound in bounds:
        found.setdefault(f"per_estimator.{bound.estimator}.{bound.notion.name}", bound.lower)
    for stage in result.stages:
        found[f"seconds.{stage.name}"] = stage.seconds
    return {name: float(value) for name, value in found.items() if value is not None}


def ladder_metrics(found: LadderRun) -> dict[str, float]:
    """The numbers at the end of an accuracy-first run."""
    return {
        "steps_taken": float(len(found.rungs)),
        "passed": float(found.passed),
        "spent_rdp": found.spent,
        "spent_eps": found.approximate,
        "spent_eps_probabilistic": found.probabilistic,
        "fixed_rdp": found.fixed[0],
        "fixed_eps": found.fixed[1],
        "accuracy_test": found.rungs[-1].test,
        "seconds": found.seconds,
    }


def curve(folds: Sequence[Fold], alpha: Array) -> Array:
    """The least FNR on the test trials at FPRs of at most ``alpha``, averaged over folds.

    Args:
        folds: each with test trials of both classes.
        alpha: (k,) in [0, 1].

    Returns:
        (k,) in [0, 1], not increasing; NaN where a fold lacks a class.

    >>> from audit.core import Fold, Scores
    >>> bits = np.array([False, False, True, True])
    >>> scores = Scores(np.array([0.0, 2.0, 1.0, 3.0]), bits, np.arange(4), np.arange(4))
    >>> curve([Fold(np.array([], int), None, 0.0, scores)], np.array([0.0, 0.5, 1.0])).tolist()
    [0.5, 0.0, 0.0]
    """
    return np.mean(
        [
            _least_fnr(np.sort(fold.test.absent), np.sort(fold.test.present), alpha)
            for fold in folds
        ],
        axis=0,
    )


def _least_fnr(absent: Array, present: Array, alpha: Array) -> Array:
    if not len(absent) or not len(present):
        return np.full(len(alpha), np.nan)
    # that many absent trials may be called present
    allowed = np.floor(alpha * len(absent) + 1e-9).astype(int)
    # The first absent score that may not: everything above it is called present, ties with it are
    # not.
    barred = np.append(absent[::-1], -np.inf)[allowed]
    missed = np.where(allowed < len(absent), np.searchsorted(present, barred, side="right"), 0)
    return missed / len(present)


def _curves(result: Result) -> dict[str, Array]:
    """β at α = 0, 0.01, … 1: measured, and the least that the judged claim allows. Step 1,000 α of
    two metrics."""
    claim = result.claims[0]
    allowed = np.asarray(claim.notion.beta(ALPHA, claim.parameter), float)
    return {"beta": curve(result.evidence.folds, ALPHA), "beta_claimed": allowed}


def _bounds_columns(result: Result) -> dict[str, list[Any]]:
    """Columns of an audit's table of bounds, as MLflow wants them."""
    told = [*result.bounds, result.verdict.accusing]
    return {
        "bound": [*(bound.estimator for bound in result.bounds), f"accusing: {told[-1].estimator}"],
        "notion": [bound.notion.name for bound in told],
        "leaks_at_least": [bound.notion.label(bound.lower) for bound in told],
        "lower": [bound.lower for bound in told],
        "error_probability": [bound.significance for bound in told],
        "kind": [bound.kind + (", anytime" if bound.anytime else "") for bound in told],
    }


def _lower(result: Result, notion: type, estimator: str) -> float | None:
    """A bound by this estimator in this notion; where it has none, the first in the notion."""
    there = [bound for bound in result.bounds if isinstance(bound.notion, notion)]
    same = [bound for bound in there if bound.estimator == estimator]
    if not there or (notion is GDP and not same):
        return None
    return (same or there)[0].lower


def split_finite(values: Mapping[str, float]) -> dict[str, float]:
    """Infinities and NaN as flags: MLflow would store an infinity as 1.8e308 and draw it.

    >>> split_finite({"mu_hat": math.inf, "fnr": math.nan, "fpr": 0.5})
    {'infinite/mu_hat': 1.0, 'undefined/fnr': 1.0, 'fpr': 0.5}
    """
    told: dict[str, float] = {}
    for name, value in values.items():
        if math.isnan(value):
            told[f"undefined/{name}"] = 1.0
        elif math.isinf(value):
            told[f"infinite/{name}"] = math.copysign(1.0, value)
        else:
            told[name] = value
    return told


def _result_tags(result: Result) -> dict[str, str]:
    told = {name.replace(" ", "_"): value for name, value in result.provenance.items()}
    commit = told.get("git_commit", "none")
    return {
        **told,
        "mlflow.source.git.commit": commit.rstrip("+"),
        "git_commit": commit,
        "verdict": result.verdict.word,
        "mlflow.note.content": f"**{result.verdict.word}**: {result.verdict.reason}",
        "claim": str(result.claims[0]),
    }


def _key(name: str) -> str:
    """MLflow's alphabet for keys."""
    return re.sub(r"[^\w\-.:/ ]", "_", name, flags=re.ASCII)[:250]


# --- the store ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Store:
    """Where runs are logged: a database in ``root``, or the server of ``MLFLOW_TRACKING_URI``.

    Args:
        uri: of the database or server.
        root: the project's ``mlruns`` folder.
        experiment: id of the experiment that all runs are in.
        client: mlflow's, each call of which has a time limit.
        database: the file behind ``uri``, where it is one.
    """

    uri: str
    root: Path
    experiment: str
    client: MlflowClient
    database: DatabaseFile | None = None

    @classmethod
    def open(cls, root: Path | str, experiment: str = EXPERIMENT) -> Store:
        """Open, after making sure that what will be found can be kept.

        Raises:
            AuditError: ``root`` cannot be written or is full; the tracking server or database does
                not answer.
        """
        root = resolved(root)
        check_folder(root)
        uri = tracking_uri(root)
        with _one_line(f"the run log {public(uri)} cannot be opened", uri, root):
            client, found = _locked(root, uri, experiment)
            store = cls(uri, root, found, client, DatabaseFile.of(uri))
        store._close_orphaned_runs()
        with store.one_line(f"the run log {public(uri)} cannot be written"):
            store._share_view(ALL, "tags.verdict LIKE '%'")
        return store

    @classmethod
    def existing(cls, root: Path | str) -> Store:
        """Open what is there already.

        Raises:
            AuditError: nothing is logged yet; and as `open`.
        """
        folder = resolved(root)
        if not os.environ.get("MLFLOW_TRACKING_URI") and not os.path.exists(folder / "mlflow.db"):
            raise AuditError(f"nothing is logged in {folder} yet; run an audit first: audit")
        return cls.open(folder)

    @contextlib.contextmanager
    def one_line(self, what: str) -> Iterator[None]:
        """MLflow's and the system's errors inside the block as one line; so too, if the database
        file is gone after it.

        Args:
            what: what could not be done, which the line begins with.

        Raises:
            AuditError: when anything went wrong.
        """
        file_is_there = self.database.check if self.database is not None else lambda: None
        with _one_line(what, self.uri, self.root):
            file_is_there()
            try:
                yield
            except Exception:
                file_is_there()  # a better reason than MLflow's, that there is no such table or run
                raise
        file_is_there()

    def search(self, wanted: str = "") -> list[Run]:
        """All runs that ``wanted``, a filter in MLflow's language, finds; the newest first."""
        found: list[Run] = []
        token: str | None = None
        with self.one_line(f"the run log {public(self.uri)} cannot be read"):
            while token != "":
                page = self.client.search_runs(
                    [self.experiment],
                    wanted,
                    max_results=1000,
                    order_by=["start_time DESC"],
                    page_token=token,
                )
                found, token = [*found, *page], page.token or ""
        return found

    def start(
        self,
        name: str,
        config: Mapping[str, Any],
        parent: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> str:
        """Begin the run of one audit; its configuration becomes parameters.

        Returns:
            The run's id.
        """
        from mlflow.entities import Param

        flat = flatten(config)
        choices = {
            group: str(flat[group]) for group in config.get("choices") or () if group in flat
        }
        told = {
            "config_hash": config_hash(config),
            **choices,
            **(tags or {}),
            **({PARENT: parent} if parent else {}),
        }
        run = self._create(name, told)
        with self.one_line(f"run {run} cannot be logged"):
            self._batch(run, params=[Param(_key(name), str(value)) for name, value in flat.items()])
        return run

    def folder(self, run: str) -> Path:
        """Where files of a run are to be written before `log_result`: its artifact folder itself,
        where it is local."""
        with self.one_line(f"run {run} has no folder"):
            uri = self.client.get_run(run).info.artifact_uri or ""
            parsed = urllib.parse.urlparse(uri)
            local = parsed.scheme in ("", "file")
            path = (
                Path(urllib.request.url2pathname(parsed.path))
                if local
                else self.root / "reports" / run
            )
            path.mkdir(parents=True, exist_ok=True)
        return path

    def log_result(self, run: str, result: Result) -> None:
        """Log metrics and tags, and what was written into the run's `folder`.

        Raises:
            AuditError: when the store refuses.
        """
        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        numbers = split_finite(metrics(result))
        with self.one_line(f"run {run} cannot be logged"):
            tags = [RunTag(_key(name), value) for name, value in _result_tags(result).items()]
            logged = [Metric(_key(k), v, now, 0) for k, v in numbers.items()]
            for name, values in _curves(result).items():
                logged += [Metric(name, float(v), now, step) for step, v in _steps(values)]
            self._batch(run, metrics=logged, tags=tags)
            self._upload(run)
            self.client.log_table(run, _bounds_columns(result), "bounds.json")
            self._log_images(run)

    def log_ladder(self, run: str, found: LadderRun) -> None:
        """Log an accuracy-first run: its steps as steps of metrics, its end as metrics and tags,
        its folder.

        Raises:
            AuditError: when the store refuses.
        """
        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        numbers = [Metric(name, value, now, 0) for name, value in ladder_metrics(found).items()]
        for step, rung in enumerate(found.rungs):
            told = {k: v for k, v in dataclasses.asdict(rung).items() if v is not None}
            numbers += [
                Metric(f"step/{name}", float(value), now, step) for name, value in told.items()
            ]
        told = {name.replace(" ", "_"): value for name, value in found.provenance.items()}
        tags = [RunTag(_key(k), v) for k, v in (told | {"mlflow.note.content": found.task}).items()]
        with self.one_line(f"run {run} cannot be logged"):
            self._batch(run, tags=tags)
            for first in range(0, len(numbers), 1000):
                self._batch(run, metrics=numbers[first : first + 1000])
            self._upload(run)

    def finish(self, run: str, status: Status) -> None:
        """Close a run."""
        with self.one_line(f"run {run} cannot be closed"):
            self.client.set_terminated(run, status)

    def start_sweep(self, name: str, count: int) -> str:
        """Begin the parent run of ``count`` audits, which name it as their parent.

        Returns:
            The run's id.
        """
        run = self._create(name, {"audits": str(count), "sweep": name})
        with self.one_line(f"sweep {run} cannot be logged"):
            self._share_view(run, f"tags.`{PARENT}` = '{run}'")
        return run

    def finish_sweep(self, parent: str, results: Sequence[Result], status: Status) -> None:
        """Log the table of what was found, and what was written into the parent's `folder`; close
        the parent."""
        with self.one_line(f"sweep {parent} cannot be logged"):
            if results:
                self.client.log_table(parent, _table(results), "sweep.json")
            self._upload(parent)
            self.client.set_terminated(parent, status)

    def children(self, parent: str) -> list[str]:
        """Ids of a sweep's runs, oldest first."""
        return [run.info.run_id for run in reversed(self.search(f"tags.`{PARENT}` = '{parent}'"))]

    def newest(self) -> Run | None:
        """The sweep or the single audit that was started last; None where nothing is logged."""
        with self.one_line(f"the run log {public(self.uri)} cannot be read"):
            newest = self.client.search_runs(
                [self.experiment], max_results=500, order_by=["start_time DESC"]
            )
        return next((run for run in newest if PARENT not in run.data.tags), None)

    def run_link(self, run: str) -> str:
        """The page of one run in the UI."""
        return run_link(self.ui, self.experiment, run)

    def sweep_link(self, parent: str) -> str:
        """The chart view of a sweep's runs in the UI."""
        return sweep_link(self.ui, self.experiment, parent)

    @property
    def ui(self) -> str:
        """Where the UI is: the tracking server's own, else that of ``audit ui``."""
        return public(self.uri).rstrip("/") if is_server(self.uri) else LOCAL_UI

    def _create(self, name: str, tags: Mapping[str, str]) -> str:
        told = {
            "mlflow.user": _user(),
            "mlflow.source.name": "audit",
            "process": _process(),
        } | dict(tags)
        with self.one_line("no run can be started"):
            return str(
                self.client.create_run(self.experiment, run_name=name, tags=told).info.run_id
            )

    def _batch(
        self,
        run: str,
        metrics: Sequence[Any] = (),
        params: Sequence[Any] = (),
        tags: Sequence[Any] = (),
    ) -> None:
        """Log in batches as large as MLflow takes: 1,000 metrics, 100 parameters, 100 tags."""
        for first in range(0, max(len(params), len(tags), 1), 100):
            part = slice(first, first + 100)
            self.client.log_batch(
                run, metrics[10 * first : 10 * first + 1000], params[part], tags[part]
            )

    def _upload(self, run: str) -> None:
        folder = self.folder(run)
        if self.root / "reports" in folder.parents and any(folder.iterdir()):
            self.client.log_artifacts(run, str(folder))

    def _log_images(self, run: str) -> None:
        """Figures under a key, beside being files: the UI shows those of several runs next to each
        other, at half size."""
        import PIL.Image

        for path in sorted(self.folder(run).glob("*.png")):
            with PIL.Image.open(path) as image:
                small = image.reduce(2)
            self.client.log_image(run, small, key=path.stem, step=0, synchronous=True)

    def _share_view(self, key: str, search: str) -> None:
        """Keep how the UI is to show what ``search`` finds, for a link to open."""
        name, view = charts.SHARED + key, charts.view(search)
        if self.client.get_experiment(self.experiment).tags.get(name) != view:
            self.client.set_experiment_tag(self.experiment, name, view)

    def _close_orphaned_runs(self) -> None:
        """Close what says RUNNING and belongs to a process of this machine that is gone: nobody
        else will."""
        with self.one_line(f"the run log {public(self.uri)} cannot be read"):
            for run in self.client.search_runs(
                [self.experiment], "attributes.status = 'RUNNING'", max_results=500
            ):
                if _is_dead(run.data.tags.get("process", "")):
                    self.client.set_terminated(run.info.run_id, "KILLED")


def _steps(values: Array) -> Iterator[tuple[int, float]]:
    """The finite ones with their step, 1,000 α."""
    for alpha, value in zip(ALPHA, values, strict=True):
        if math.isfinite(value):
            yield round(1000 * alpha), float(value)


def _table(results: Sequence[Result]) -> dict[str, list[Any]]:
    """Columns of a sweep's table, as MLflow wants them."""
    shown = (
        "mu_emp",
        "mu_hat",
        "mu_clopper_pearson",
        "mu_implied",
        "mu_direct",
        "eps_emp",
        "tightness",
        "fpr",
        "fnr",
    )
    numbers = [split_finite(metrics(result)) for result in results]
    columns: dict[str, list[Any]] = {"audit": [result.name for result in results]}
    columns |= {name: [found.get(name) for found in numbers] for name in shown}
    return columns | {"verdict": [result.verdict.word for result in results]}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _process() -> str:
    """Host, pid and start time: what tells this process from a later one with its number."""
    import psutil

    return f"{socket.gethostname()} {os.getpid()} {psutil.Process().create_time():.0f}"


def _is_dead(process: str) -> bool:
    """Whether ``process``, as `_process` tells it, was one of this machine and is gone."""
    import psutil

    match = re.fullmatch(r"(\S+) (\d+) (\d+)", process)
    if match is None or match[1] != socket.gethostname():
        return False
    try:
        # The clock that start times are told by may be set by a second or two.
        return abs(psutil.Process(int(match[2])).create_time() - int(match[3])) > 5
    except psutil.NoSuchProcess:
        return True


# --- opening --------------------------------------------------------------------------------------


def _locked(root: Path, uri: str, name: str) -> tuple[MlflowClient, str]:
    """A client and the experiment's id, made by one process at a time: two at once would both
    create the tables."""
    import filelock

    mlflow_client = _import_client()  # seconds, in which nobody need wait for us
    try:
        with filelock.FileLock(root / ".mlflow.lock", timeout=60):
            check_reachable(uri)
            client = within(
                CREATE_TIMEOUT_S, lambda: mlflow_client(tracking_uri=uri, registry_uri=uri)
            )
            if not os.environ.get("MLFLOW_TRACKING_URI") and _on_local_disk(root):
                with contextlib.closing(
                    sqlite3.connect(root / "mlflow.db", timeout=20)
                ) as database:
                    # readers and a writer do not wait for one another
                    database.execute("PRAGMA journal_mode=WAL")
            limit = CREATE_TIMEOUT_S if is_database(uri) else _call_timeout(uri)
            experiment = within(limit, lambda: _experiment(client, root, uri, name))
            return _TimedClient(client, uri), experiment
    except filelock.Timeout as error:
        raise AuditError(
            f"{error.lock_file} has been locked for a minute; end the process that holds it and "
            "try again"
        ) from error


class _TimedClient:
    """mlflow's client, whose calls are given up when they are late. After the first that is, none
    is made."""

    def __init__(self, client: MlflowClient, uri: str) -> None:
        self._client = client
        self._uri = uri
        self._late: NoAnswerError | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        limit = UPLOAD_TIMEOUT_S if name == "log_artifacts" else _call_timeout(self._uri)

        def call(*args: Any, **named: Any) -> Any:
            if self._late is not None:
                raise NoAnswerError(*self._late.args)
            try:
                return within(limit, lambda: method(*args, **named))
            except NoAnswerError as error:
                self._late = error
                raise

        return call


def _call_timeout(uri: str) -> float:
    """Seconds for one call: a file's, else MLflow's own setting, where it is one."""
    given = os.environ.get("MLFLOW_HTTP_REQUEST_TIMEOUT", "")
    asked = int(given) if given.isdecimal() and int(given) else CALL_TIMEOUT_S
    return FILE_TIMEOUT_S if uri.startswith("sqlite") else float(asked)


def _import_client() -> type[MlflowClient]:
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(CALL_TIMEOUT_S))
    # of its 7 the last waits for two minutes
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    level = os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from mlflow import MlflowClient

    # it reads the variable only when it is first imported
    logging.getLogger("mlflow").setLevel(level.upper())
    # it prints a traceback of each database error that it raises; we say it in one line
    if level.upper() != "DEBUG":
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    return MlflowClient


def _experiment(client: MlflowClient, root: Path, uri: str, name: str) -> str:
    artifacts = (root / "artifacts").as_uri()
    found = client.get_experiment_by_name(name)
    if found is None:
        return str(
            client.create_experiment(name, artifact_location=None if is_server(uri) else artifacts)
        )
    if found.lifecycle_stage == "deleted":
        raise AuditError(
            f"the MLflow experiment {name!r} was deleted; bring it back: mlflow experiments "
            f"restore -x {found.experiment_id}"
        )
    if not os.environ.get("MLFLOW_TRACKING_URI") and found.artifact_location != artifacts:
        raise AuditError(
            f"{root} was moved: its files are expected in {found.artifact_location}; move it "
            "back, or begin with another folder: root=…"
        )
    return str(found.experiment_id)


def _on_local_disk(path: Path) -> bool:
    """Whether ``path`` is on no network file system, where WAL would corrupt; where it cannot be
    known, yes."""
    try:
        mounts = [
            line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()
        ]
    except OSError:
        return True
    over = [(len(mount[1]), mount[2]) for mount in mounts if path.is_relative_to(mount[1])]
    return max(over, default=(0, ""))[1] not in NETWORKED


@contextlib.contextmanager
def _one_line(what: str, uri: str, root: Path) -> Iterator[None]:
    """MLflow's and the system's errors as one line with cause and cure; its warnings about its own
    libraries not at all."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except AuditError:
        raise
    except Exception as error:
        if not _of_the_log(error):
            raise
        raise AuditError(f"{what}: {one_line_of(error, uri)}; {_cure(error, uri, root)}") from error


def _of_the_log(error: Exception) -> bool:
    """Whether MLflow, a driver or the system raised it, and not an error in our own code."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return isinstance(error, MlflowException | SQLAlchemyError | OSError | ImportError | ValueError)


def _cure(error: Exception, uri: str, root: Path) -> str:
    database = DatabaseFile.of(uri) if is_database(uri) else None
    if is_full(error):  # MLflow writes tables and images into the temporary folder first
        folders = [root, Path(tempfile.gettempdir()), *([database.path.parent] if database else [])]
        return f"make room in {least_room(*folders)}"
    if re.search("readonly database|Read-only file system", str(error)):
        return f"make {database.path.parent if database else root} writable"
    where = (
        "check MLFLOW_TRACKING_URI" if os.environ.get("MLFLOW_TRACKING_URI") else f"check {root}"
    )
    return f"{where}, and repeat the command: finished trials are kept"


# --- links into the UI ----------------------------------------------------------------------------


def run_link(ui: str, experiment: str, run: str) -> str:
    """The page of one run.

    >>> run_link("http://127.0.0.1:5000", "1", "abc")
    'http://127.0.0.1:5000/#/experiments/1/runs/abc?workflowType=machine_learning'
    """
    return f"{ui}/#/experiments/{experiment}/runs/{run}?workflowType=machine_learning"


def sweep_link(ui: str, experiment: str, parent: str) -> str:
    """The charts of a sweep's runs, or of all (`ALL`), as `audit.charts` arranges them.

    >>> sweep_link("http://127.0.0.1:5000", "1", "abc")
    'http://127.0.0.1:5000/#/experiments/1/runs?viewStateShareKey=abc&compareRunsMode=CHART&workflowType=machine_learning'
    """
    query = {
        "viewStateShareKey": parent,
        "compareRunsMode": "CHART",
        "workflowType": "machine_learning",
    }
    return f"{ui}/#/experiments/{experiment}/runs?{urllib.parse.urlencode(query)}"


def compare_link(ui: str, experiment: str, runs: Sequence[str]) -> str:
    """The comparison of some runs, side by side."""
    query = {"runs": json.dumps(list(runs)), "experiments": json.dumps([experiment])}
    return f"{ui}/#/compare-runs?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote)}"
