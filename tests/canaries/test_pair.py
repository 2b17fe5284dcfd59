import numpy as np
import pandas as pd
import pytest

from audit.canaries.pair import Pair
from audit.core import AuditError


def test_the_two_data_sets_are_those_given():
    pair = Pair(absent=(0, 0, 5), present=(0, 0, 7), neighbours="replace_one")
    assert pair.data([False]).tolist() == [0, 0, 5] and pair.data([True]).tolist() == [0, 0, 7]
    assert pair.canaries.tolist() == [[7]]
    assert str(pair) == "3 records, or one record 5 replaced by 7"


def test_records_may_have_several_numbers():
    pair = Pair(absent=((0, 1),), present=((0, 1), (2, 3)))
    assert pair.data([True]).shape == (2, 2) and pair.canaries.tolist() == [[2, 3]]
    assert str(pair) == "1 record, or one record (2, 3) more"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"absent": (0,), "present": (0,)}, "0 records gone and 0 come, which are no add/remove"),
        (
            {"absent": (0, 0), "present": (1, 1), "neighbours": "replace_one"},
            "2 records gone and 2 come",
        ),
        (
            {"absent": (0,), "present": (0, 1), "neighbours": "replace_one"},
            "no replace-one neighbours",
        ),
        ({"absent": (0,), "present": (1,)}, "no add/remove neighbours"),
        ({"absent": (0, (1, 2)), "present": (0, 1)}, "different lengths"),
    ],
)
def test_what_is_no_pair_of_neighbours_is_refused(options, says):
    with pytest.raises(AuditError, match=says):
        Pair(**options)


def test_order_does_not_make_neighbours():
    assert np.array_equal(
        Pair(absent=(0, 1), present=(2, 0), neighbours="replace_one").data([True]), [2, 0]
    )


# --- files ----------------------------------------------------------------------------------------


def save(rows, path):
    """Rows under names x0, x1, … in any kind of file."""
    if path.suffix in (".npy", ".npz"):
        (np.save if path.suffix == ".npy" else np.savez)(path, rows)
        return f"@{path}"
    frame = pd.DataFrame(np.reshape(rows, (len(rows), -1)))
    frame.columns = [f"x{j}" for j in range(frame.shape[1])]
    (frame.to_csv if path.suffix == ".csv" else frame.to_parquet)(path, index=False)
    return f"@{path}"


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "npz"])
@pytest.mark.parametrize("shape", [(5,), (5, 2)])
def test_a_pair_is_read_from_files(tmp_path, kind, shape):
    rows = np.random.default_rng(0).normal(size=shape)
    more = np.concatenate([rows, np.full((1, *shape[1:]), 9.0)])
    pair = Pair(
        absent=save(rows, tmp_path / f"a.{kind}"), present=save(more, tmp_path / f"b.{kind}")
    )
    assert np.array_equal(pair.data([False]), rows) and np.array_equal(pair.data([True]), more)
    assert str(pair).startswith(f"5 records of a.{kind} and b.{kind}, or one record ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x\n1\nred\n", "row 2: x=red is no number; .* canary=tabular"),
        ("x,y\n1,\n", "row 1: y=nan is no number"),
        ("x\n", "has no records"),
        ("x,y\n1,2\n", "different lengths"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, says):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(AuditError, match=says) as caught:
        Pair(absent=(0,), present=f"@{tmp_path / 'a.csv'}")
    assert "\n" not in str(caught.value)


def test_a_path_without_an_at_sign_is_asked_for_one():
    with pytest.raises(
        AuditError, match=r"give a list of records, or a file as canary.absent=@a.csv"
    ):
        Pair(absent="a.csv", present=(0,))
    with pytest.raises(AuditError, match=r"canary.absent: cannot read no.csv"):
        Pair(absent="@no.csv", present=(0,))


# --- users ----------------------------------------------------------------------------------------

BASE = ((1, 5), (2, 6), (2, 7))


def test_all_records_of_one_user_more():
    pair = Pair(
        absent=BASE, present=(*BASE, (3, 8), (3, 8), (3, 9)), neighbours="add_remove_user", user=0
    )
    assert pair.canaries.tolist() == [[3, 8]] and len(pair.data([True])) == 6
    assert str(pair) == "3 records, or 3 records of user 3 more"


def test_all_records_of_one_user_replaced():
    pair = Pair(absent=BASE, present=((1, 5), (2, 0)), neighbours="replace_one_user", user=0)
    assert str(pair) == "3 records, or 1 records of user 2 in the place of 2"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"present": (*BASE, (3, 8), (4, 8)), "user": 0}, "records of 2 users"),
        # two of theirs would stay
        ({"present": (*BASE, (2, 8)), "user": 0}, "no add/remove-user neighbours"),
        ({"present": ((1, 5), (2, 0)), "user": 0}, "no add/remove-user neighbours"),
        ({"present": BASE, "user": 0}, "records of 0 users"),
        ({"present": (*BASE, (3, 8))}, r"takes canary.user, .*: 0 … 1"),
        ({"present": (*BASE, (3, 8)), "user": 2}, r"takes canary.user, .*: 0 … 1"),
        (
            {"present": (*BASE, (3, 8)), "user": 0, "neighbours": "add_remove"},
            "canary.neighbours=add_remove_user",
        ),
    ],
)
def test_what_is_no_pair_of_users_is_refused(options, says):
    with pytest.raises(AuditError, match=says):
        Pair(**{"absent": BASE, "neighbours": "add_remove_user"} | options)
    with pytest.raises(AuditError, match="takes records of several numbers"):
        Pair(absent=(0,), present=(0, 1), neighbours="add_remove_user", user=0)
