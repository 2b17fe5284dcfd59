"""Planted canaries: what is trained on with them and without."""

import numpy as np
import pytest

from audit.canaries.planted import Planted
from audit.core import AuditError, Challenge
from audit.learning import data_set


@pytest.mark.parametrize("kind", ["mislabelled", "dirac", "blank"])
@pytest.mark.parametrize("dataset", ["digits", "breast_cancer"])
def test_only_the_bits_differ_between_data_sets(kind, dataset):
    challenge = Planted(kind=kind, dataset=dataset, count=3, rows=20)
    assert isinstance(challenge, Challenge) and challenge.canaries.shape == (
        3,
        data_set(dataset)[0].shape[1],
    )
    one, other = challenge.data([True, False, True]), challenge.data([False, False, False])
    assert one.present.tolist() == [True, False, True] and not other.present.any()
    for name in ("inputs", "labels", "canary_inputs", "canary_labels"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert len(one.labels) == 20 and one.classes == len(np.unique(data_set(dataset)[1]))
    assert str(challenge).startswith(f"20 examples of {dataset}, with or without 3 ")


def test_a_mislabelled_canary_is_a_real_example_with_a_wrong_label_that_is_not_in_the_base():
    inputs, labels = data_set("digits")
    made = Planted(dataset="digits", count=200).data([True] * 200)
    assert len(made.labels) == len(labels) - 200
    for canary, wrong in zip(made.canary_inputs, made.canary_labels, strict=True):
        (true,) = set(labels[np.all(inputs == canary, axis=1)])
        assert wrong != true and 0 <= wrong < 10
    assert not any(np.all(made.inputs == canary, axis=1).any() for canary in made.canary_inputs)


def test_another_seed_chooses_others():
    a, b = (Planted(seed=seed).data([True]).canary_inputs for seed in (0, 1))
    assert not np.array_equal(a, b)


def test_more_canaries_than_examples_are_refused():
    with pytest.raises(AuditError, match=r"569 examples: no 1 are left beside canary.count=569"):
        Planted(count=569)
    with pytest.raises(AuditError, match="569 examples"):
        Planted(kind="blank", rows=600)
    assert len(Planted(kind="dirac", count=600).data([False] * 600).labels) == 569
