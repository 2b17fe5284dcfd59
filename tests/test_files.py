"""The same small table in every kind of file, and what is odd about files that people have."""

import gzip
import os
import sys

import numpy as np
import pandas as pd
import pytest

from audit.core import AuditError
from audit.files import KINDS, read_table


@pytest.fixture
def frame():
    return pd.DataFrame(
        {"score": [0.5, -1.5, 2.0], "kind": ["a", "b", None], "present": [True, False, True]}
    )


def write(frame, path):
    name = path.name
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    elif ".jsonl" in name:
        frame.to_json(path, orient="records", lines=True)
    elif name.endswith(".npz"):
        np.savez(path, **{key: column.to_numpy() for key, column in frame.items()})
    elif name.endswith(".npy"):
        np.save(path, frame.to_records(index=False))
    else:
        (frame.to_excel if name.endswith(".xlsx") else frame.to_parquet)(path, index=False)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_holds_the_same_columns(frame, tmp_path, kind):
    # no objects without a pickle
    frame = frame.drop(columns="kind") if kind in (".npz", ".npy") else frame
    table = read_table(write(frame, tmp_path / f"t{kind}"), "key")
    assert list(table.columns) == list(frame) and len(table) == 3 and not table.notes
    assert table.columns["score"].tolist() == [0.5, -1.5, 2.0]
    assert [bool(bit) for bit in table.columns["present"]] == [True, False, True]
    if "kind" in frame:
        assert table.columns["kind"].tolist() == ["a", "b", None]


@pytest.mark.parametrize("kind", [".csv", ".xlsx"])
def test_a_data_frames_index_is_left_out_and_said(frame, tmp_path, kind):
    path = tmp_path / f"t{kind}"
    (frame.to_csv if kind == ".csv" else frame.to_excel)(path)
    table = read_table(path, "key")
    assert list(table.columns) == ["score", "kind", "present"]
    assert table.notes == (
        f"The first column of t{kind} has no name: it is taken for a data frame's index, and left "
        "out.",
    )


def test_names_of_rows_as_r_writes_them_are_left_out_and_said(tmp_path):
    (tmp_path / "r.csv").write_text('"score","present"\n"1",0.5,0\n"2",1.5,1\n')
    table = read_table(tmp_path / "r.csv", "key")
    assert table.columns["score"].tolist() == [0.5, 1.5] and len(table.notes) == 1


def test_a_named_index_of_a_data_frame_is_a_column(frame, tmp_path):
    frame.set_index("present").to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", "key")
    assert list(table.columns) == ["present", "score", "kind"] and not table.notes


def test_semicolons_come_with_decimal_commas_or_without(tmp_path):
    (tmp_path / "comma.csv").write_text("score;present\n0,5;0\n-1,25;1\n")
    (tmp_path / "point.csv").write_text('"score";"present"\n0.5;0\n-1.25;1\n')
    for name in ("comma.csv", "point.csv"):
        assert read_table(tmp_path / name, "key").columns["score"].tolist() == [0.5, -1.25]


def test_quoted_numbers_infinities_and_a_byte_order_mark(tmp_path):
    (tmp_path / "q.csv").write_text(
        '\ufeff"score", "present"\n"1.5", "0"\ninf, 1\n', encoding="utf-8"
    )
    table = read_table(tmp_path / "q.csv", "key")
    assert table.columns["score"].tolist() == [1.5, np.inf] and list(table.columns) == [
        "score",
        "present",
    ]


def test_texts_stay_texts_where_a_reader_decides_what_they_mean(tmp_path):
    (tmp_path / "t.csv").write_text("zip,job\n007,NA\n010,\n")
    columns = read_table(tmp_path / "t.csv", "key", as_text=True).columns
    assert columns["zip"].tolist() == ["007", "010"] and columns["job"].tolist() == ["NA", ""]


def test_a_matrix_is_as_many_columns_and_one_column_is_one(tmp_path):
    np.savez(tmp_path / "m.npz", rows=np.arange(8.0).reshape(4, 2), score=np.arange(4.0)[:, None])
    assert list(read_table(tmp_path / "m.npz", "key").columns) == ["rows[0]", "rows[1]", "score"]
    np.save(tmp_path / "m.npy", np.arange(8.0).reshape(4, 2))
    assert list(read_table(tmp_path / "m.npy", "key").columns) == ["c0", "c1"]


def test_two_arrays_of_scores_are_a_table(tmp_path):
    np.savez(tmp_path / "s.npz", in_scores=np.ones((2, 1)), out_scores=np.zeros(3))
    columns = read_table(tmp_path / "s.npz", "key").columns
    assert columns["score"].tolist() == [0, 0, 0, 1, 1]
    assert columns["present"].tolist() == [False, False, False, True, True]


def test_a_file_that_has_changed_is_read_again(tmp_path):
    path = tmp_path / "t.csv"
    for value in (1, 2):
        path.write_text(f"score\n{value}\n")
        stamp = path.stat().st_mtime_ns + value
        os.utime(path, ns=(stamp, stamp))
        assert read_table(path, "key").columns["score"].tolist() == [value]


BAD = [
    (
        "a.csv",
        "score,present\n1,0\nscore,present\n2,1\n",
        "a.csv repeats its header in row 2; remove that row",
    ),
    ("a.csv", "score,score\n1,0\n", "has two columns 'score' in its header; rename one of them"),
    ("a.csv", "score,present\n", "has no records; write one a row"),
    ("a.csv", "", "cannot read"),
    ("a.csv", "a,b\n1,2\n1,2,3\n", "cannot read .*line 3"),
    ("a.csv", b"a,b\n\xff\xfe,2\n", "cannot read .*utf-8"),
    ("a.jsonl", '{"a": 1}\nnonsense\n', "holds no JSON in line 2"),
    ("a.jsonl", '{"a": 1}\n[1]\n', "holds no object in line 2"),
    ("a.csv.gz", b"no gzip", "cannot read"),
    ("a.xlsx", "no sheet", "cannot read"),
    ("a.npy", "no array", "cannot read"),
    ("a.npz", "no zip", "cannot read"),
    ("a.parquet", "no parquet", "cannot read"),
    ("a.txt", "score", r"^key=.*a.txt is no .csv, .csv.gz, .*convert it"),
    ("a.gz", b"", "is no .csv"),
]


@pytest.mark.parametrize(("name", "content", "says"), BAD)
def test_a_bad_file_is_one_line(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(AuditError, match=says) as caught:
        read_table(tmp_path / name, "key")
    assert "\n" not in str(caught.value) and str(caught.value).startswith("key")


def test_what_is_not_there_pickled_or_of_unequal_length_is_one_line(tmp_path):
    with pytest.raises(AuditError, match=r"cannot read .*No such file"):
        read_table(tmp_path / "no.csv", "key")
    np.savez(tmp_path / "p.npz", score=np.array([1, None], dtype=object))
    with pytest.raises(AuditError, match=r"cannot read .*allow_pickle"):
        read_table(tmp_path / "p.npz", "key")
    np.savez(tmp_path / "l.npz", score=[1.0, 2, 3], present=[0, 1])
    with pytest.raises(AuditError, match=r"unequal lengths \(score: 3, present: 2\)"):
        read_table(tmp_path / "l.npz", "key")
    np.savez(tmp_path / "s.npz", in_scores=[1.0], out_scores=[0.0], weights=[1.0])
    with pytest.raises(AuditError, match="in_scores and out_scores and also weights"):
        read_table(tmp_path / "s.npz", "key")


def test_xlsx_without_openpyxl_names_the_extra(frame, tmp_path, monkeypatch):
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setitem(sys.modules, "openpyxl", None)  # as if it were not installed
    with pytest.raises(
        AuditError, match=r'needs openpyxl to be read; pip install "dp-audit\[xlsx\]"'
    ):
        read_table(tmp_path / "t.xlsx", "key")


def test_a_compressed_file_is_read_by_its_header_too(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("a;b\n1,5;2\n")
    assert read_table(tmp_path / "t.csv.gz", "key").columns["a"].tolist() == [1.5]
