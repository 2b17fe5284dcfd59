"""Ladder, train, check, stop: what is spent, and what is said of it."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from audit import cli
from audit.accountants import approximate, probabilistic
from audit.accuracy_first import Geometric, LadderPlan, Steps, Target, climb
from audit.core import AuditError
from audit.mechanisms.checks import GaussianThreshold, LaplaceThreshold
from audit.report import ladders
from audit.tasks.task import Model

OPTIONS = sorted(
    f"{p.parent.name}={p.stem}"
    for g in cli.LADDER_GROUPS
    for p in (cli.folder("conf") / g).glob("*.yaml")
)


@dataclasses.dataclass
class Toy:
    """A number; the model is as accurate as the step that it comes from is high."""

    accuracies: tuple[float, ...]
    validators: int = 10**9
    sensitivity: float = 1.0
    seen: list = dataclasses.field(default_factory=list)
    answer = np.array([3.0])

    def open(self, seed):
        return self

    def train(self, noisy, precision, rng):
        self.seen.append((float(noisy[0]), precision))
        accuracy = self.accuracies[len(self.seen) - 1]
        return Model(accuracy, accuracy / 2, lambda folder: folder)

    def __str__(self):
        return "a toy"


def plan(task, checker, ladder=(0.1, 0.4, 1.0), threshold=0.8, seed=0):
    return LadderPlan(
        "toy", {}, Steps(ladder), checker, task, Target(threshold, 4.0, 1e-5), seed, Path()
    )


def test_it_stops_at_the_first_step_that_is_good_enough():
    run, model = climb(plan(Toy((0.1, 0.9, 0.95)), GaussianThreshold(0.05)))
    assert run.passed and len(run.rungs) == 2 and model.validation == 0.9
    assert [rung.eps for rung in run.rungs] == [0.1, 0.4]
    assert [rung.checked for rung in run.rungs] == pytest.approx([0.05, 0.1])
    assert run.spent == 0.4 and run.fixed[0] == 1.0
    assert run.approximate == approximate(0.4, 4.0, 1e-5) and run.probabilistic == probabilistic(
        0.4, 4.0, 1e-5
    )


def test_where_nothing_passes_everything_is_charged_and_it_is_said():
    run, _ = climb(plan(Toy((0.1, 0.2, 0.3)), GaussianThreshold(0.5)))
    assert not run.passed and len(run.rungs) == 3
    assert run.spent == pytest.approx(1.5)  # three checks, more than training's 1.0
    assert "all 3 steps are charged all the same" in dict(ladders.ladder_facts(run))["accuracy"]


def test_the_larger_part_is_reported():
    cheap, _ = climb(plan(Toy((0.1, 0.9, 0.9)), LaplaceThreshold(0.01)))
    dear, _ = climb(plan(Toy((0.1, 0.9, 0.9)), LaplaceThreshold(5.0)))
    assert cheap.spent == 0.4 and dear.spent == dear.rungs[0].checked == dear.rungs[1].checked > 4


def test_a_raw_accuracy_is_never_shown():
    gaussian, _ = climb(plan(Toy((0.1, 0.9, 0.9), validators=10), GaussianThreshold(0.5)))
    silent, _ = climb(plan(Toy((0.1, 0.9, 0.9)), LaplaceThreshold(0.5)))
    assert all(rung.noisy not in (None, 0.1, 0.9) for rung in gaussian.rungs)
    assert all(rung.noisy is None for rung in silent.rungs)


def test_releases_are_brownian_with_the_ladders_precision():
    first, second = Toy((0.0,) * 3), Toy((0.0,) * 3)
    climb(plan(first, GaussianThreshold(0.05))), climb(plan(second, GaussianThreshold(0.05)))
    assert first.seen == second.seen, "the same seed gives the same run"
    assert [precision for _, precision in first.seen] == pytest.approx(
        [2 * eps / 4.0 for eps in (0.1, 0.4, 1.0)]
    )
    many = np.array([[y for y, _ in _climbed(seed)] for seed in range(2000)]) - 3.0
    due = 4.0 / (2 * np.maximum.outer([0.1, 0.4, 1.0], [0.1, 0.4, 1.0]))
    spread = np.sqrt((np.outer(np.diag(due), np.diag(due)) + due**2) / 2000)
    # Six covariances within 5.2 standard errors: a false failure in 6·2e-7.
    assert np.all(np.abs(np.cov(many.T) - due) < 5.2 * spread)
    fresh = np.random.default_rng(0).normal(size=many.shape) * np.sqrt(np.diag(due))
    assert np.any(np.abs(np.cov(fresh.T) - due) > 5.2 * spread)


def _climbed(seed):
    task = Toy((0.0,) * 3)
    climb(plan(task, GaussianThreshold(0.05), seed=seed))
    return task.seen


def test_ladders():
    assert Geometric(first=1.0, last=4.0, steps=3).eps == pytest.approx((1, 2, 4))
    for wrong in (lambda: Steps((1.0, 1.0)), lambda: Geometric(first=2.0, last=1.0, steps=3)):
        with pytest.raises(ValueError, match="does not increase"):
            wrong()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli._register()
    return tmp_path


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_composes_and_instantiates(option, here):
    _, (made,) = cli.check([option], False, cli.LADDER, cli.build_ladder)
    assert isinstance(made, LadderPlan) and np.all(np.diff(made.ladder.eps) > 0)


def test_the_sweep_is_checked_whole(here):
    name, plans = cli.check(["sweep=accuracy_first"], False, cli.LADDER, cli.build_ladder)
    assert name == "accuracy_first" and len({each.name for each in plans}) == len(plans) == 30


@pytest.mark.parametrize(
    "words, said",
    [
        (["ladder=steps", "ladder.eps=[2,1]"], "does not increase"),
        (["ladder.first=9"], "does not increase"),
        (["order=1"], "order=1: input should be greater than 1"),
        (["threshold=1.1"], "threshold=1.1: input should be less than or equal to 1"),
        (["checker=gausian"], "no checker 'gausian'; did you mean 'gaussian'?"),
        (["task.data=3"], "task.data"),
        (["thresold=0.9"], "did you mean 'threshold'?"),
    ],
)
def test_wrong_words_are_one_line_before_anything_is_spent(words, said, here, capsys):
    assert cli.main(["accuracy-first", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error
    assert not (here / "mlruns").exists()


def test_a_plan_of_wrong_parts_is_refused():
    with pytest.raises(AuditError, match="checker: Toy is none"):
        plan(Toy(()), Toy(()))
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Target(threshold=1.5, order=2.0, delta=1e-5)


def runs(count=4):
    found = []
    for seed in range(count):
        run, _ = climb(plan(Toy((0.1, 0.9, 0.9)), GaussianThreshold(0.05)))
        found.append(dataclasses.replace(run, name=f"toy gaussian seed={seed}"))
    return found


def test_a_sweeps_table_ends_with_the_means():
    rows = ladders.ladder_rows(runs())
    assert len(rows) == 5 and rows[-1][:4] == ("mean: toy gaussian", "4 of 4", "2", "0.4")


def test_files(tmp_path):
    run = runs(1)[0]
    assert ladders.save_ladder(run, tmp_path).stat().st_size > 5000
    with (tmp_path / "steps.csv").open() as file:
        assert [row["passed"] for row in csv.DictReader(file)] == ["False", "True"]


@pytest.mark.slow
def test_the_command_logs_steps_and_prints_what_was_spent(here, capsys, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert cli.main(["accuracy-first", "task=images", "threshold=0.6", "seed=0,1", "-m"]) == 0
    assert "mean: " in capsys.readouterr().out
    from audit.tracking import Store

    store = Store.open(here / "mlruns")
    parent = store.newest()
    children = store.children(parent.info.run_id)
    assert len(children) == 2
    run = store.client.get_run(children[0])
    spent = store.client.get_metric_history(children[0], "step/spent")
    assert len(spent) == run.data.metrics["steps_taken"] > 1
    assert spent[-1].value == run.data.metrics["spent_rdp"] and run.info.status == "FINISHED"
    files = {path.name for path in store.folder(children[0]).iterdir()}
    assert {"layer.npy", "ladder.png", "steps.csv"} <= files


@pytest.mark.slow
def test_a_run_that_cannot_load_its_data_is_one_line(here, capsys):
    assert cli.main(["accuracy-first", "task.validation=0"]) == 2
    assert "the validation set is empty" in capsys.readouterr().err
