import numpy as np
import pandas as pd
import pytest

from audit.core import AuditError, Recorded, RecordedTable, Trials
from audit.events import Events
from audit.game import Stored
from audit.mechanisms.claims import GaussianDP
from audit.mechanisms.stored import File


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    present = rng.random(300) < 0.4
    return pd.DataFrame(
        {"score": rng.normal(size=300) + present, "other": rng.normal(size=300), "present": present}
    )


def write(table, path):
    if path.suffix == ".npz":
        np.savez(path, **{name: column.to_numpy() for name, column in table.items()})
    else:
        (table.to_csv if path.suffix == ".csv" else table.to_parquet)(path, index=False)
    return File(path=str(path), claim=GaussianDP(mu=1))


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_three_kinds_of_file_hold_the_same_rows(table, tmp_path, kind):
    file = write(table, tmp_path / f"rows.{kind}")
    assert isinstance(file, Recorded) and isinstance(file, RecordedTable)
    trials = file.recorded()
    assert trials.columns == ("score", "other")
    assert np.allclose(trials.rows, table[["score", "other"]]) and np.array_equal(
        trials.bits, table["present"]
    )
    assert (
        str(file)
        == f"300 stored rows of rows.{kind}, {int(table['present'].sum())} of them with the record"
    )


def test_columns_and_bits_are_named_by_a_person(table, tmp_path):
    table = table.rename(columns={"present": "member"}).assign(member=table["present"].astype(int))
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    trials = File(
        path=str(path), claim=GaussianDP(mu=1), bits="member", columns=("score",)
    ).recorded()
    assert trials.columns == ("score",) and np.array_equal(trials.bits, table["member"] == 1)


def test_a_matrix_is_as_many_columns(tmp_path):
    np.savez(tmp_path / "m.npz", rows=np.arange(8.0).reshape(4, 2), present=[0, 1, 0, 1])
    trials = File(path=str(tmp_path / "m.npz"), claim=GaussianDP(mu=1)).recorded()
    assert trials.columns == ("rows[0]", "rows[1]") and trials.rows[1].tolist() == [2, 3]


BAD = [
    (
        "a.csv",
        "score,present\n1,0\n2,2\n",
        {},
        "holds '2' in row 2; labels are 0 and 1, -1 and 1, false and true",
    ),
    ("a.csv", "score,present\n1,0\n2,\n3,1\n", {}, "holds 'nan' in row 2"),
    ("a.csv", "score,present\n1,0\n2,-1\n3,1\n", {}, "holds '-1' and '0' and '1'; labels are"),
    ("a.csv", "score,present\n1,0\n2,0\n", {}, "is always 0; rows of both sides are needed"),
    ("a.csv", "score,bit\n1,0\n2,1\n", {}, "has no column 'present'; it has score, bit"),
    ("a.csv", "score,present\n1,0\n2,1\n", {"columns": ("no",)}, "has no column 'no'"),
    ("a.csv", "present\n0\n1\n", {}, "has no column beside 'present'"),
    ("a.csv", "score,present\n", {}, "has no records; write one a row"),
    ("a.csv", "0.5,0\n1.5,1\n2.5,1\n", {}, "begins with numbers where names are due"),
    ("a.csv", "", {}, "cannot read"),
    ("a.txt", "score", {}, r"is no .csv, .csv.gz, .* file"),
    ("a.npz", "no zip", {}, "cannot read"),
    ("a.parquet", "no parquet", {}, "cannot read"),
]


@pytest.mark.parametrize(("name", "text", "options", "says"), BAD)
def test_a_bad_file_is_one_line(tmp_path, name, text, options, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(AuditError, match=says) as error:
        File(path=str(tmp_path / name), claim=GaussianDP(mu=1), **options)
    assert "\n" not in str(error.value)


NO_NUMBERS = [
    ("1", "", "is not finite in row 2"),
    ("1", "inf", "is not finite in row 2"),
    ("1", "x", "column 'score' of .* holds no numbers .'x' in row 2."),
]


@pytest.mark.parametrize(("one", "other", "says"), NO_NUMBERS)
def test_what_is_no_number_is_refused_as_numbers_and_released_as_it_is(tmp_path, one, other, says):
    (tmp_path / "a.csv").write_text(f"score,present\n{one},0\n{other},1\n")
    file = File(path=str(tmp_path / "a.csv"), claim=GaussianDP(mu=1))
    with pytest.raises(AuditError, match=f"{says}.*features=events$"):
        file.recorded()
    seen = Events()(file.released(), None)
    assert seen.values.shape == (2, len(seen.names)) and np.isfinite(seen.values).all()
    assert (seen.values[0] != seen.values[1]).any()


PAIRS = [
    ("OUT", "In"),
    ("non-member", "Member"),
    ("Non Member", "member"),
    (-1, 1),
    (0, 1),
    ("FALSE", "true"),
    (0.0, 1.0),
]


@pytest.mark.parametrize(("absent", "present"), PAIRS)
def test_labels_are_written_in_many_ways(tmp_path, absent, present):
    labels = [absent, present, present]
    pd.DataFrame({"score": [1, 2, 3], "present": labels}).to_csv(tmp_path / "a.csv", index=False)
    trials = File(path=str(tmp_path / "a.csv"), claim=GaussianDP(mu=1)).recorded()
    assert trials.bits.tolist() == [False, True, True]


@pytest.mark.parametrize("kind", ["npz", "npy", "csv"])
def test_a_matrix_of_models_and_examples_is_refused_in_a_short_line(tmp_path, kind):
    rows = np.random.default_rng(0).normal(size=(8, 50))
    path = tmp_path / f"m.{kind}"
    if kind == "npz":
        np.savez(path, scores=rows, present=rows > 0)
    else:
        np.save(path, rows) if kind == "npy" else pd.DataFrame(rows).to_csv(path, index=False)
    with pytest.raises(
        AuditError, match="is a matrix of 8 models × 50 examples; a row must be one independent run"
    ) as error:
        File(path=str(path), claim=GaussianDP(mu=1))
    assert len(str(error.value)) < 200 + len(str(path))


def test_two_arrays_of_scores_need_no_labels(tmp_path):
    np.savez(tmp_path / "s.npz", in_scores=np.ones(3), out_scores=np.zeros(5))
    file = File(path=str(tmp_path / "s.npz"), claim=GaussianDP(mu=1))
    assert str(file) == "8 stored rows of s.npz, 3 of them with the record"
    assert (
        file.recorded().columns == ("score",)
        and file.recorded().rows[file.recorded().bits].min() == 1
    )


# --- columns that are no outputs ------------------------------------------------------------------


def suspects(tmp_path, **columns):
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    return File(path=str(tmp_path / "a.csv"), claim=GaussianDP(mu=1)).suspects()


def test_a_column_that_is_a_label_or_a_row_number_is_named(tmp_path):
    """By chance a column of 200 continuous numbers separates two sides of 100 with probability
    2·100!²/200! < 1e-58."""
    rng = np.random.default_rng(0)
    present = np.arange(200) % 2
    found = suspects(
        tmp_path,
        present=present,
        score=rng.normal(size=200) + present,
        copy=1 - present,
        word=np.where(present, "yes", "no"),
        group=rng.integers(0, 5, 200) * 2 + present,
        clock=np.sort(rng.random(200)),
        down=np.arange(200)[::-1],
        gap=np.where(present, np.nan, 0.5),
        constant=1.0,
        bit=rng.integers(0, 2, 200),
    )
    both = "separates the sides perfectly"
    assert found == {
        **dict.fromkeys(["copy", "word", "group", "gap"], both),
        "clock": "only rises in the order of the file",
        "down": "only falls in the order of the file",
    }


def test_a_row_number_of_a_sorted_file_does_both(tmp_path):
    found = suspects(tmp_path, present=np.arange(100) >= 50, id=np.arange(100))
    assert found == {"id": "separates the sides perfectly and only rises in the order of the file"}


def test_an_index_is_left_out_and_said(table, tmp_path):
    table.sort_values("present").reset_index(drop=True).to_csv(tmp_path / "a.csv")
    file = File(path=str(tmp_path / "a.csv"), claim=GaussianDP(mu=1))
    assert file.recorded().columns == ("score", "other") and not file.suspects()
    assert file.notes(None) == (
        "The first column of a.csv has no name: it is taken for a data frame's index, and left "
        "out.",
    )


def test_no_more_can_be_played(table, tmp_path):
    with pytest.raises(AuditError, match="played elsewhere"):
        write(table, tmp_path / "rows.csv").release(None, 2, np.random.default_rng(0))


# --- the source (audit.game.Stored) ---------------------------------------------------------------


def recorded(absent, present):
    bits = np.arange(absent + present) >= absent
    index = np.arange(len(bits))
    return Trials(("y",), index[:, None].astype(float), bits, index, index)


def test_stored_trials_alternate_and_every_even_slice_is_balanced():
    source = Stored(recorded(10, 7), seed=0, asked=14)
    assert source.limit == 17 and source.sides == (7, 7)
    trials = source.trials(0, 14)
    assert trials.bits.tolist() == [False, True] * 7 and trials.index.tolist() == list(range(14))
    assert len(np.unique(trials.rows)) == 14 and ((trials.rows[:, 0] >= 10) == trials.bits).all()
    assert np.array_equal(source.trials(4, 6).rows, trials.rows[4:10])


@pytest.mark.parametrize(
    ("absent", "present"), [(2000, 100), (100, 2000), (1500, 600), (1001, 1000)]
)
def test_unequal_sides_are_used_whole_and_in_the_same_proportion_everywhere(absent, present):
    source = Stored(recorded(absent, present), seed=0)
    assert source.sides == (absent, present)
    trials = source.trials(0, absent + present)
    assert np.array_equal(np.sort(trials.rows[:, 0]), np.arange(absent + present))
    assert ((trials.rows[:, 0] >= absent) == trials.bits).all()
    share = present / (absent + present)
    for first, last in ((0, 400), (400, 1000), (1000, 2000)):
        assert abs(trials.bits[first:last].sum() - share * (last - first)) <= 1


@pytest.mark.parametrize(
    ("asked", "sides"),
    [(200, (100, 100)), (150, (75, 75)), (1000, (900, 100)), (2100, (2000, 100)), (101, (51, 50))],
)
def test_of_fewer_trials_half_are_of_the_smaller_side_or_all_that_it_has(asked, sides):
    source = Stored(recorded(2000, 100), seed=3, asked=asked)
    assert source.sides == sides
    bits = source.trials(0, asked).bits
    assert (int((~bits).sum()), int(bits.sum())) == sides


def test_the_order_is_the_seeds():
    one, same, other = (Stored(recorded(50, 50), seed).trials(0, 100).rows for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_more_than_there_are_is_refused_politely():
    with pytest.raises(
        AuditError, match=r"^trials=10000 asks for more than the 2,000 stored; give trials=2000$"
    ):
        Stored(recorded(1000, 1000), 0).trials(0, 10_000)


def test_rows_that_are_copies_are_refused_unless_they_are_allowed(table, tmp_path):
    path = tmp_path / "twice.csv"
    pd.concat([table, table]).to_csv(path, index=False)
    with pytest.raises(
        AuditError,
        match=r"300 of 600 rows of .*twice\.csv are exact repeats .*mechanism\.repeats=true",
    ):
        File(path=str(path), claim=GaussianDP(mu=1))
    assert len(File(path=str(path), claim=GaussianDP(mu=1), repeats=True).recorded()) == 600
    # A column that was rounded repeats itself, and a bit all the more.
    table.assign(score=table["score"].round(1), other=1).to_csv(path, index=False)
    assert len(File(path=str(path), claim=GaussianDP(mu=1)).recorded()) == 300
