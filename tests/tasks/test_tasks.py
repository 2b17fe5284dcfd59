"""What a task promises: its sensitivity, and a model that follows from the noisy release alone."""

import json

import numpy as np
import pandas as pd
import pytest

from audit import learning
from audit.core import AuditError, Domain, Table
from audit.tasks.data import ADULT, Adult, BreastCancer, split
from audit.tasks.images import Images
from audit.tasks.synthetic import Synthetic, SyntheticWork


class Coin:
    """400 records of two columns and a label that is the first one."""

    def __init__(self, label=None):
        self.label = label

    def load(self):
        rng = np.random.default_rng(0)
        rows = rng.integers([2, 3, 2], size=(400, 3))
        rows[:, 2] = rows[:, 0] if self.label is None else self.label
        return Table(Domain(("a", "b", "y"), (2, 3, 2)), rows), "y"


def replaced(work, rng):
    """The same work with one training record replaced."""
    records = work.training.records.copy()
    records[rng.integers(len(records))] = [
        rng.integers(size) for size in work.training.domain.sizes
    ]
    return SyntheticWork(
        work.task, work.label, Table(work.training.domain, records), work.validating, work.testing
    )


def test_replacing_a_record_moves_the_marginals_by_the_sensitivity_at_most():
    work, rng = Synthetic(data=Coin()).open(0), np.random.default_rng(1)
    moved = [np.linalg.norm(replaced(work, rng).answer - work.answer) for _ in range(300)]
    assert max(moved) == pytest.approx(work.sensitivity) and work.sensitivity == 2.0


def test_without_noise_the_rows_have_the_marginals_and_with_much_of_it_they_do_not():
    work = Synthetic(data=Coin(), rows=1000).open(0)
    rows = Table(work.training.domain, work.draw(work.answer, 1e6, np.random.default_rng(2)))
    share = work.training.marginal(("a", "y")) / len(work.training.records)
    assert rows.marginal(("a", "y")) / 1000 == pytest.approx(share, abs=0.01)
    noise = np.random.default_rng(3).normal(size=work.answer.shape) * 300
    far = Table(
        work.training.domain, work.draw(work.answer + noise, 1 / 300**2, np.random.default_rng(2))
    )
    assert np.abs(far.marginal(("a", "y")) / 1000 - share).max() > 0.05


@pytest.mark.parametrize("classifier", ["logistic", "xgboost"])
def test_a_classifier_learns_from_the_rows(classifier, tmp_path):
    work = Synthetic(data=Coin(), classifier=classifier).open(0)
    model = work.train(work.answer, 1e6, np.random.default_rng(0))
    assert model.validation == model.test == 1.0
    assert model.write(tmp_path).read_text().splitlines()[0] == "a,b,y"


def test_the_model_is_post_processing_of_the_release():
    work, rng = Synthetic(data=Coin()).open(0), np.random.default_rng(4)
    release = work.answer + rng.normal(size=work.answer.shape)
    other = replaced(work, rng)
    drawn = [each.draw(release, 1.0, np.random.default_rng(5)) for each in (work, other)]
    assert np.array_equal(*drawn), "raw records must not be looked at again"


def test_parts_depend_on_places_only_and_an_empty_one_is_refused():
    parts = split(100, 0.6, 0.2, 7)
    assert [len(part) for part in parts] == [60, 20, 20] and len(
        np.unique(np.concatenate(parts))
    ) == 100
    with pytest.raises(AuditError, match="validation set is empty"):
        split(100, 0.6, 0.0, 7)
    with pytest.raises(AuditError, match="test set is empty"):
        split(100, 0.6, 0.4, 7)


def test_a_label_with_one_class_is_refused():
    with pytest.raises(AuditError, match="one class only") as told:
        Synthetic(data=Coin(label=1)).open(0)
    assert "\n" not in str(told.value)


def test_the_embedded_data_fit_their_public_domain():
    table, label = BreastCancer().load()
    assert len(table.records) == 569 and label == "benign"
    assert np.all(table.records < np.array(table.domain.sizes)) and np.all(table.records >= 0)


def test_adult_from_a_file(tmp_path):
    (tmp_path / "adult.csv").write_text("x,income>50K\n0,1\n2,0\n")
    (tmp_path / "adult-domain.json").write_text(json.dumps({"x": 3, "income>50K": 2}))
    table, label = Adult(path=str(tmp_path / "adult.csv")).load()
    assert table.records.tolist() == [[0, 1], [2, 0]] and label == "income>50K"
    (tmp_path / "adult.csv").write_text("x,income>50K\n3,1\n")
    with pytest.raises(AuditError, match="outside"):
        Adult(path=str(tmp_path / "adult.csv")).load()
    with pytest.raises(AuditError, match="cannot read"):
        Adult(path=str(tmp_path / "no.csv")).load()


def test_adult_from_openml_is_coded_in_public_bins(monkeypatch):
    row = {
        "age": 39,
        "education-num": 13,
        "marital-status": "Never-married",
        "relationship": "Husband",
        "sex": "Male",
        "capital-gain": 2174,
        "capital-loss": 0,
        "hours-per-week": 40,
        "class": ">50K",
    }
    monkeypatch.setattr(
        learning,
        "openml",
        lambda name, version, cache: pd.DataFrame([row, row | {"class": "<=50K"}]),
    )
    table, label = Adult().load()
    assert table.domain.columns == tuple(ADULT) and label == "class"
    assert table.records.tolist() == [[3, 4, 2, 2, 1, 1, 0, 2, 1], [3, 4, 2, 2, 1, 1, 0, 2, 0]]


def test_offline_is_one_line(monkeypatch):
    def fail(*words, **named):
        raise OSError("no route\nto host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    with pytest.raises(AuditError, match="cannot be fetched from OpenML") as told:
        Adult().load()
    assert "\n" not in str(told.value) and "task.data.path" in str(told.value)


def test_replacing_an_image_moves_the_class_sums_by_two_at_most():
    work, rng = Images().open(0), np.random.default_rng(0)
    rows, labels = work.training
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0)
    moved = []
    for _ in range(300):
        i, row = rng.integers(len(rows)), rng.normal(size=rows.shape[1])
        other = rows.copy(), labels.copy()
        other[0][i], other[1][i] = (
            -rows[i] if rng.random() < 0.2 else row / np.linalg.norm(row),
            rng.integers(10),
        )
        moved.append(
            np.linalg.norm(type(work)(other, work.validating, work.testing).answer - work.answer)
        )
    assert 1.4 < max(moved) <= work.sensitivity + 1e-12


def test_digits_are_told_apart_without_noise_and_not_with_much(tmp_path):
    work = Images().open(0)
    clear = work.train(work.answer, 1e9, np.random.default_rng(0))
    noise = np.random.default_rng(1).normal(size=work.answer.shape) * 1e4
    blind = work.train(work.answer + noise, 1e-8, np.random.default_rng(0))
    assert clear.validation > 0.85 > 0.35 > blind.validation
    assert np.load(clear.write(tmp_path)).shape == (10, 20)
