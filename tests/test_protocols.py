import numpy as np
import pytest
from pydantic import ValidationError
from toys import Gaussians

from audit.attackers import LikelihoodRatio, Logistic
from audit.core import AuditError, Evidence, Fold
from audit.protocols import Holdout


def median(selection):
    return float(np.median(selection.values))


def test_holdout_never_tests_on_what_it_used():
    evidence = Holdout(trials=1000)(Gaussians(1.0), LikelihoodRatio(), median)
    (fold,) = evidence.folds
    assert [len(fold.fitted), len(fold.selection), len(fold.test)] == [400, 200, 400]
    assert not set(fold.fitted) & set(fold.test.index) and not set(fold.selection.index) & set(fold.test.index)
    assert evidence.independent


def test_the_types_refuse_to_test_on_what_was_used():
    (fold,) = Holdout(trials=100)(Gaussians(1.0), LikelihoodRatio(), median).folds
    with pytest.raises(ValueError, match="chosen on cannot be tested on"):
        Fold(fold.fitted, fold.test, 0.0, fold.test)
    with pytest.raises(ValueError, match="fitted on cannot be tested on"):
        Fold(fold.test.index, fold.selection, 0.0, fold.test)
    with pytest.raises(ValueError, match="fitted on cannot choose"):
        Fold(fold.selection.index, fold.selection, 0.0, fold.test)


def test_two_folds_are_not_independent():
    (fold,) = Holdout(trials=100)(Gaussians(1.0), LikelihoodRatio(), median).folds
    assert not Evidence((fold, fold)).independent


def test_both_sides_are_as_many_in_every_part():
    (fold,) = Holdout(trials=1000)(Gaussians(1.0), Logistic(), median).folds
    assert len(fold.test.absent) == len(fold.test.present) == 200


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"train": 0.5}, r"train \+ validation \+ test = 1.1; make them sum to 1"),
        ({"trials": 20}, "trials=20 leaves 8 for train, which needs 20; raise trials"),
        ({"train": 0.0, "validation": 0.6}, "leaves 0 for train"),
    ],
)
def test_splits_that_cannot_be_are_refused(options, says):
    with pytest.raises(AuditError, match=says):
        Holdout(**options)


def test_unknown_and_wrong_options_are_refused():
    with pytest.raises(ValidationError):
        Holdout(trian=0.4)
    with pytest.raises(ValidationError):
        Holdout(trials=0)
