import numpy as np
import pandas as pd
import pytest

from audit.core import AuditError, Recorded, Trials
from audit.game import Stored
from audit.mechanisms.promises import GaussianDP
from audit.mechanisms.stored import File


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    present = rng.random(300) < 0.4
    return pd.DataFrame({"score": rng.normal(size=300) + present, "other": rng.normal(size=300), "present": present})


def write(table, path):
    if path.suffix == ".npz":
        np.savez(path, **{name: column.to_numpy() for name, column in table.items()})
    else:
        (table.to_csv if path.suffix == ".csv" else table.to_parquet)(path, index=False)
    return File(path=str(path), claim=GaussianDP(mu=1))


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_all_three_kinds_of_file_hold_the_same_rows(table, tmp_path, kind):
    file = write(table, tmp_path / f"rows.{kind}")
    assert isinstance(file, Recorded)
    trials = file.recorded()
    assert trials.columns == ("score", "other")
    assert np.allclose(trials.rows, table[["score", "other"]]) and np.array_equal(trials.bits, table["present"])
    assert str(file) == f"300 stored rows of rows.{kind}, {int(table['present'].sum())} of them with the record"


def test_columns_and_bits_are_named_by_a_person(table, tmp_path):
    table = table.rename(columns={"present": "member"}).assign(member=table["present"].astype(int))
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    trials = File(path=str(path), claim=GaussianDP(mu=1), bits="member", columns=("score",)).recorded()
    assert trials.columns == ("score",) and np.array_equal(trials.bits, table["member"] == 1)


def test_a_matrix_is_as_many_columns(tmp_path):
    np.savez(tmp_path / "m.npz", rows=np.arange(8.0).reshape(4, 2), present=[0, 1, 0, 1])
    trials = File(path=str(tmp_path / "m.npz"), claim=GaussianDP(mu=1)).recorded()
    assert trials.columns == ("rows[0]", "rows[1]") and trials.rows[1].tolist() == [2, 3]


BAD = [
    ("a.csv", "score,present\n1,0\n2,2\n", {}, "holds '2'; 0 and 1, or false and true, are bits"),
    ("a.csv", "score,present\n1,0\n2,0\n", {}, "is always 0; rows of both sides are needed"),
    ("a.csv", "score,present\n1,0\n,1\n", {}, "column 'score' of .* is not finite in row 2"),
    ("a.csv", "score,present\nx,0\n2,1\n", {}, "column 'score' of .* holds no numbers"),
    ("a.csv", "score,bit\n1,0\n2,1\n", {}, "has no column 'present'; it has score, bit"),
    ("a.csv", "score,present\n1,0\n2,1\n", {"columns": ("no",)}, "has no column 'no'"),
    ("a.csv", "present\n0\n1\n", {}, "has no column beside 'present'"),
    ("a.csv", "score,present\n", {}, "give each one entry a run"),
    ("a.csv", "", {}, "cannot read"),
    ("a.txt", "score", {}, "is no .npz, .csv, .parquet file"),
    ("a.npz", "no zip", {}, "cannot read"),
    ("a.parquet", "no parquet", {}, "cannot read"),
]


@pytest.mark.parametrize(("name", "text", "options", "says"), BAD)
def test_a_bad_file_is_one_line(tmp_path, name, text, options, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(AuditError, match=says) as error:
        File(path=str(tmp_path / name), claim=GaussianDP(mu=1), **options)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_and_pickled_arrays_are_refused(tmp_path):
    with pytest.raises(AuditError, match=r"cannot read .*No such file"):
        File(path=str(tmp_path / "no.csv"), claim=GaussianDP(mu=1))
    np.savez(tmp_path / "p.npz", score=np.array([1, None], dtype=object), present=[0, 1])
    with pytest.raises(AuditError, match=r"cannot read .*allow_pickle"):
        File(path=str(tmp_path / "p.npz"), claim=GaussianDP(mu=1))
    with pytest.raises(AuditError, match="give each one entry a run"):
        np.savez(tmp_path / "l.npz", score=[1.0, 2, 3], present=[0, 1])
        File(path=str(tmp_path / "l.npz"), claim=GaussianDP(mu=1))


def test_no_more_can_be_played(table, tmp_path):
    with pytest.raises(AuditError, match="played elsewhere"):
        write(table, tmp_path / "rows.csv").release(None, 2, np.random.default_rng(0))


# --- the source (audit.game.Stored) ---------------------------------------------------------------------------------------


def recorded(absent, present):
    bits = np.arange(absent + present) >= absent
    index = np.arange(len(bits))
    return Trials(("y",), index[:, None].astype(float), bits, index, index)


def test_stored_trials_alternate_and_every_even_slice_is_balanced():
    source = Stored(recorded(10, 7), seed=0)
    assert source.limit == 14
    trials = source.trials(0, 14)
    assert trials.bits.tolist() == [False, True] * 7 and trials.index.tolist() == list(range(14))
    assert len(np.unique(trials.rows)) == 14 and ((trials.rows[:, 0] >= 10) == trials.bits).all()
    assert np.array_equal(source.trials(4, 6).rows, trials.rows[4:10])


def test_the_order_is_the_seeds():
    one, same, other = (Stored(recorded(50, 50), seed).trials(0, 100).rows for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_more_than_there_are_is_refused_politely():
    with pytest.raises(AuditError, match=r"^trials=10000 asks for more than the 2,000 stored; give trials=2000$"):
        Stored(recorded(1000, 1000), 0).trials(0, 10_000)


def test_rows_that_are_copies_are_refused_unless_they_are_allowed(table, tmp_path):
    path = tmp_path / "twice.csv"
    pd.concat([table, table]).to_csv(path, index=False)
    with pytest.raises(
        AuditError, match=r"300 of 600 rows of .*twice\.csv are exact repeats .*mechanism\.repeats=true"
    ):
        File(path=str(path), claim=GaussianDP(mu=1))
    assert len(File(path=str(path), claim=GaussianDP(mu=1), repeats=True).recorded()) == 600
    # A column that was rounded repeats itself, and a bit all the more.
    table.assign(score=table["score"].round(1), other=1).to_csv(path, index=False)
    assert len(File(path=str(path), claim=GaussianDP(mu=1)).recorded()) == 300
