"""One command's audits: each is played, logged and printed; a sweep's results are gathered on its
parent run.

A job that fails records its error and returns, so that the rest of a sweep is played.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import platform
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from audit import interrupted
from audit.accuracy_first import LadderPlan, climb
from audit.canaries.worst_case import WorstCase
from audit.commit import commit
from audit.core import AuditError, LadderRun, Result
from audit.cost import cost, work_of
from audit.experiment import Plan, audit, family_wise, foresee
from audit.report import controls, files, ladders, sentences, tables
from audit.report.page import family_words
from audit.tracking import Status, Store

out, err = Console(), Console(stderr=True)
log = logging.getLogger(__name__)


class Session:
    """What a command has open: the log of runs, a sweep's parent run, the results so far."""

    def __init__(self, store: Store, sweep: str | None, names: list[str], command: str) -> None:
        self._store, self._sweep = store, sweep
        self._parent = store.start_sweep(sweep, len(names)) if sweep is not None else None
        # what the UI has no room for is cut off
        self._short = dict(zip(names, sentences.distinct(names), strict=True))
        self._provenance = provenance() | {"command": command}
        self.audits: list[tuple[Plan, Result]] = []
        self.failures: list[str] = []

    @classmethod
    def open(cls, plans: list[Plan], sweep: str | None, command: str) -> Session:
        """Open the log before anything is played.

        Args:
            plans: all jobs, checked.
            sweep: its name; None for a single audit.
            command: what does it all again.

        Raises:
            AuditError: when the log cannot be written or its server does not answer.
        """
        return cls(Store.open(plans[0].root), sweep, [plan.name for plan in plans], command)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._parent is not None:
                with _recorded(self.failures, "sweep", error):
                    self._gather(self._parent, _status(error, self.failures))
        finally:
            _say(self.failures)

    def _gather(self, parent: str, status: Status) -> None:
        """Log a sweep's table, figures and page on its parent run, and print them; the table even
        if it is not logged."""
        results = [result for _, result in self.audits]
        if not results:
            self._store.finish_sweep(parent, results, status)
            return
        family = family_words(len(results), family_wise(self.audits))
        together = " ".join(filter(None, (controls.control_words(results), family)))
        try:
            where, command = self._store.folder(parent), self._provenance["command"]
            with self._store.one_line("the sweep's report cannot be written"):
                page = files.save_sweep(results, where, self._sweep or "sweep", command, together)
            self._store.finish_sweep(parent, results, status)
        finally:
            out.print(tables.sweep_table(results))
            out.print(together)
        out.print(f"report {page}", soft_wrap=True, highlight=False)
        link = self._store.sweep_link(parent)
        out.print(f"sweep  {link}   (start the UI: audit ui)", soft_wrap=True, highlight=False)

    @property
    def status(self) -> int:
        """Exit status: 0; 2 when an audit failed or saw one event only; 1 when a sweep's control
        came out wrong."""
        nothing = any(result.verdict.word == "failed" for _, result in self.audits)
        known = [
            result
            for _, result in self.audits
            if self._parent is not None and controls.control_of(result)
        ]
        return 2 if self.failures or nothing else int(any(controls.gone_wrong(known)))

    def job(self, plan: Plan) -> None:
        """One audit: played, logged, printed."""
        plan = dataclasses.replace(plan, provenance=self._provenance | plan.provenance)
        name = self._short.get(plan.name, plan.name)
        run = self._store.start(name, plan.config, parent=self._parent, tags={"audit": plan.name})
        result = None
        try:
            with _log_above_bars():
                log.debug("run %s: %s", run, plan.config)
                result = audit(plan, bars)
                page = self._keep(run, result)
        except BaseException as error:
            if result is not None and isinstance(error, AuditError):
                out.print(tables.table(result))  # what was found is not lost with the run log
            _close(self._store, run, error, f"{plan.name}: ", self.failures)
            return
        self.audits.append((plan, result))
        try:
            self._show(result, run, page)
        except OSError as error:
            # the result is logged; only the terminal, or the file in its place, is full
            self.failures.append(
                f"{plan.name}: the result is in {page} but cannot be printed ({error.strerror})"
            )

    def _keep(self, run: str, result: Result) -> Path:
        """Write, log and close a run that was played; return its page."""
        folder = self._store.folder(run)
        with self._store.one_line("the report cannot be written"):
            page = files.save(result, folder)
        self._store.log_result(run, result)
        self._store.finish(run, "FINISHED")
        return page

    def _show(self, result: Result, run: str, page: Path) -> None:
        out.print(tables.table(result))
        out.print(f"report {page}", soft_wrap=True, highlight=False)
        out.print(
            f"run    {self._store.run_link(run)}   (start the UI: audit ui)",
            soft_wrap=True,
            highlight=False,
        )


class LadderSession:
    """What ``audit accuracy-first`` has open: as `Session`, for runs that climb a ladder."""

    def __init__(self, store: Store, sweep: str | None, jobs: int, command: str) -> None:
        self._store, self._sweep = store, sweep
        self._parent = store.start_sweep(sweep, jobs) if sweep is not None else None
        self._provenance = provenance() | {"command": command}
        self.runs: list[LadderRun] = []
        self.failures: list[str] = []

    @classmethod
    def open(cls, plans: list[LadderPlan], sweep: str | None, command: str) -> LadderSession:
        """Open the log before anything is spent; see `Session.open`."""
        return cls(Store.open(plans[0].root), sweep, len(plans), command)

    def __enter__(self) -> LadderSession:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._parent is not None:
                with _recorded(self.failures, "sweep", error):
                    self._gather(self._parent, _status(error, self.failures))
        finally:
            _say(self.failures)

    def _gather(self, parent: str, status: Status) -> None:
        """Print and write a sweep's table, and close its parent run."""
        if self.runs:
            out.print(ladders.ladder_sweep_table(self.runs))
            folder = self._store.folder(parent)
            with self._store.one_line("the sweep's table cannot be written"):
                path = ladders.save_ladder_sweep(self.runs, folder)
            out.print(f"table  {path}", soft_wrap=True, highlight=False)
        self._store.finish_sweep(parent, [], status)

    @property
    def status(self) -> int:
        """Exit status: 0, or 2 when a run failed."""
        return 2 if self.failures else 0

    def job(self, plan: LadderPlan) -> None:
        """One run: climbed, logged, printed."""
        plan = dataclasses.replace(plan, provenance=self._provenance | plan.provenance)
        run = self._store.start(plan.name, plan.config, parent=self._parent)
        found = None
        try:
            with bars("ladder", len(plan.ladder.eps)) as advance:
                found, model = climb(plan, lambda step, steps: advance(1))
            folder = self._store.folder(run)
            with self._store.one_line("the model and its figure cannot be written"):
                output, figure = model.write(folder), ladders.save_ladder(found, folder)
            self._store.log_ladder(run, found)
            self._store.finish(run, "FINISHED")
        except BaseException as error:
            if found is not None and isinstance(error, AuditError):
                out.print(ladders.ladder_table(found))  # what was spent is not spent unseen
            _close(self._store, run, error, f"{plan.name}: ", self.failures)
            return
        self.runs.append(found)
        if self._parent is None:
            out.print(ladders.ladder_table(found))
            for name, path in (("output", output), ("figure", figure)):
                out.print(f"{name} {path}", soft_wrap=True, highlight=False)
            out.print(
                f"run    {self._store.run_link(run)}   (start the UI: audit ui)",
                soft_wrap=True,
                highlight=False,
            )


@contextlib.contextmanager
def _recorded(
    failures: list[str], what: str, before: BaseException | None = None
) -> Iterator[None]:
    """An AuditError inside the block becomes a failure, unless an error before it is on its way
    already."""
    try:
        yield
    except AuditError as error:
        if interrupted(error):
            raise
        if before is None:
            failures.append(f"{what}: {error}")


def _close(store: Store, run: str, error: BaseException, name: str, failures: list[str]) -> None:
    """Close a run that went wrong, where the run log still can be written; record an AuditError,
    and raise any other."""
    with _recorded(failures, name, error):
        store.finish(run, _status(error, []))
    if not isinstance(error, AuditError) or interrupted(error):
        raise error
    failures.append(f"{name}{error}")


def _say(failures: list[str]) -> None:
    """A line for each; what is in brackets is no markup."""
    for failure in failures:
        err.print(f"[red]failed[/]  {escape(failure)}", soft_wrap=True, highlight=False)


def _status(error: BaseException | None, failures: list[str]) -> Status:
    if interrupted(error):
        return "KILLED"
    return "FAILED" if error is not None or failures else "FINISHED"


def takes(plan: Plan) -> str:
    """Seconds and memory that the cost model expects, on cores that nobody else uses; for the
    worst-case pair only."""
    found = cost(work_of(plan)) if plan.challenge == WorstCase() else None
    if found is None:
        return "not known"
    worker = f" + {found.worker / 2**30:.1f} a worker" if found.worker else ""
    return f"{found.seconds:,.0f} s, {found.memory / 2**30:.1f}{worker} GiB"


def show_plans(plans: list[Plan]) -> None:
    """Print what each audit could find: nothing is played."""
    out.print(tables.plan_table([(plan.name, foresee(plan), takes(plan)) for plan in plans]))
    for sentence in dict.fromkeys(sentence for plan in plans for sentence in plan.chosen):
        out.print(sentence)


# --- what is seen while it works ------------------------------------------------------------------


class _Rate(ProgressColumn):
    """Steps a second, for stages of many steps."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(
            f"{speed:,.0f}/s" if speed and (task.total or 0) > 1 else "",
            style="progress.data.speed",
        )


@contextlib.contextmanager
def bars(stage: str, total: int) -> Iterator[Callable[[int], None]]:
    """One progress bar for a stage, with rate and time left, on standard error; nothing where that
    is no terminal."""
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task(stage, total=total)
        yield lambda count: progress.advance(task, count)


@contextlib.contextmanager
def _log_above_bars() -> Iterator[None]:
    """Show our own log lines above the bars, in one style; with ``hydra.verbose=true`` those of
    everybody."""
    everybody, ours = logging.getLogger(), logging.getLogger("audit")
    loud = logging.DEBUG in (everybody.level, ours.level)
    logger, before = (everybody if everybody.level == logging.DEBUG else ours), ours.level
    if not loud:
        ours.setLevel(logging.INFO)
    handler = RichHandler(console=err, show_time=loud, show_path=loud, show_level=loud)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        ours.setLevel(before)


# --- where it comes from --------------------------------------------------------------------------


def provenance() -> dict[str, str]:
    """When, the commit of the working directory, and versions of what decides the outcome."""
    started = datetime.datetime.now().astimezone().isoformat(" ", "seconds")
    packages = (
        "dp-audit",
        "numpy",
        "scipy",
        "mbi",
        "jax",
        "scikit-learn",
        "xgboost",
        "ray",
        "mlflow",
    )
    told = {"started": started, "git commit": commit(), "python": platform.python_version()}
    return told | {name: _version(name) for name in packages}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
