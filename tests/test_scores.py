import numpy as np
import pandas as pd
import pytest

import audit
from audit.core import AuditError, Counts
from audit.criteria import upper_rate
from audit.estimators.clopper_pearson import ClopperPearson
from audit.estimators.curve import Curve
from audit.estimators.joint_bayes import JointBayes
from audit.privacy import GDP, PureDP


def scores(mu=1.0, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(mu, size=n), rng.normal(size=n)


def test_a_threshold_chosen_beforehand_tests_on_everything():
    ins, outs = scores()
    counts = Counts(
        fp=int(np.sum(outs >= 0.5)),
        tn=int(np.sum(outs < 0.5)),
        fn=int(np.sum(ins < 0.5)),
        tp=int(np.sum(ins >= 0.5)),
    )
    for estimator in (ClopperPearson(), JointBayes()):
        found = audit.bound(ins, outs, estimator=estimator, threshold=0.5, significance=0.05)
        assert found.lower == type(estimator)(significance=0.05).lower(counts, GDP())
        assert found.significance == 0.05 and found.notion == GDP()


def test_a_chosen_threshold_is_paid_for_by_a_split():
    """Scores without a signal: a bound above 0 is false. The twin that tests on what it chose on is
    found out."""
    pairs = [scores(0.0, 100, seed) for seed in range(1000)]
    exceeded = sum(audit.bound(*pair, significance=0.3).lower > 0 for pair in pairs)
    # At a promised 30 % at most binomial(1000, 0.3) are false: P(more than 370) < 1e-6
    assert exceeded <= 370 < sum(_peeks(*pair, 0.3) for pair in pairs)


def _peeks(ins, outs, significance):
    """Whether the best of all thresholds on the same scores has a Clopper–Pearson bound above 0."""
    at = np.unique(np.r_[ins, outs])
    fp, fn = len(outs) - np.searchsorted(np.sort(outs), at), np.searchsorted(np.sort(ins), at)
    fpr = upper_rate(fp, len(outs) - fp, significance / 2)
    return (fpr + upper_rate(fn, len(ins) - fn, significance / 2)).min() < 1


def test_a_perfect_attack_is_found_and_bounded_finitely():
    found = audit.bound(np.full(1000, np.inf), np.zeros(1000), notion=PureDP(), significance=0.05)
    # No errors in 500 a side are likeliest at the curve's corner, where their probability is (1 +
    # e^−ε)^−1000.
    limit = -np.log(0.05 ** (-1 / 1000) - 1)
    assert limit - 1e-3 < found.lower <= limit
    older = audit.bound(
        np.full(1000, np.inf),
        np.zeros(1000),
        notion=PureDP(),
        significance=0.05,
        estimator=ClopperPearson(),
    )
    # Clopper–Pearson splits the significance: ln((1 − u)/u), u = 1 − 0.025^(1/500)
    u = 1 - 0.025 ** (1 / 500)
    assert older.lower == pytest.approx(np.log((1 - u) / u))


def test_the_curve_estimator_reads_the_split():
    found = audit.bound(*scores(), estimator=Curve(), significance=0.1)
    assert found.kind == "asymptotic" and 0.5 < found.lower < 1.2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (([], [1.0]), r"in_scores has shape \(0,\)"),
        (([1.0], [[1.0, 2.0, 3.0]]), r"out_scores has shape \(1, 3\)"),
        (([1.0, np.nan], [1.0]), r"in_scores\[1\] is NaN"),
        ((["x"], [1.0]), "in_scores holds no numbers"),
        (([1.0], [1.0]), "leaves none to choose on"),
    ],
)
def test_bad_scores_are_one_line(words, says):
    with pytest.raises(AuditError, match=says):
        audit.bound(*words)


def test_what_an_estimator_cannot_read_is_one_line():
    with pytest.raises(AuditError, match=r"curve has no bound here: .*; choose another estimator"):
        audit.bound(*scores(), estimator=Curve(), threshold=0.0)
    with pytest.raises(AuditError, match=r"significance=0\.5"):
        audit.bound(*scores(), significance=0.5)
    with pytest.raises(AuditError, match="threshold=nan"):
        audit.bound(*scores(), threshold=float("nan"))


# --- scores as people have them -------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        list,
        lambda x: x[:, None],
        pd.Series,
        lambda x: pd.DataFrame({"score": x}),
        lambda x: pd.Series(x, x),
    ],
)
def test_columns_lists_and_frames_are_scores(kind):
    ins, outs = scores(n=400)
    assert audit.bound(kind(ins), kind(outs), threshold=0.5) == audit.bound(
        ins, outs, threshold=0.5
    )


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True)])
@pytest.mark.parametrize("first", [True, False])
def test_scores_and_labels_in_the_order_of_scikit_learn_are_refused_with_the_call_that_was_meant(
    labels, first
):
    ins, outs = scores(n=50)
    values, said = np.concatenate([ins, outs]), np.repeat(labels[::-1], 50)
    meant = r"audit.bound\(scores\[labels == 1\], scores\[labels != 1\]\)"
    with pytest.raises(AuditError, match=f"holds only labels and .*{meant}"):
        audit.bound(*((values, said) if first else (said, values)))


def test_guesses_on_both_sides_are_scores():
    assert audit.bound([0, 1, 1, 1] * 50, [0, 1, 0, 0] * 50, threshold=0.5).lower > 0
    clipped = np.maximum(scores(n=200)[1], 0)  # a side that happens to be all 0 is no label
    assert audit.bound(clipped, np.zeros(200), threshold=0.5).lower > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"notion": "gdp"}, r"notion='gdp' is no notion; give an instance: audit.GDP\(\)$"),
        (
            {"notion": audit.PureDP},
            r"notion=PureDP is no notion; give an instance: audit.PureDP\(\)$",
        ),
        ({"notion": audit.ApproximateDP}, r"audit.ApproximateDP\(delta=1e-5\)$"),
        ({"notion": "renyi"}, r"audit.GDP\(\), audit.PureDP\(\), "),
        ({"notion": 1.0}, r"notion=1.0 is no notion"),
        (
            {"estimator": ClopperPearson},
            r"estimator=ClopperPearson is no estimator; .*ClopperPearson\(\)",
        ),
        ({"estimator": "dkw"}, "estimator='dkw' is no estimator"),
    ],
)
def test_a_notion_or_an_estimator_that_is_none_says_what_to_give(options, says):
    with pytest.raises(AuditError, match=says) as caught:
        audit.bound(*scores(n=50), **options)
    assert "\n" not in str(caught.value)


def test_probabilities_of_two_classes_are_refused_with_their_column():
    with pytest.raises(
        AuditError, match=r"has shape \(50, 2\); give one score a run, such as out_scores\[:, 1\]"
    ):
        audit.bound(np.zeros((50, 2)), np.zeros((50, 2)))
