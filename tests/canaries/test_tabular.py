import json
from pathlib import Path

import pytest

from audit.canaries.tabular import Tabular
from audit.core import AuditError


@pytest.fixture
def files(tmp_path):
    (tmp_path / "t.csv").write_text("age,extra,sex\n0,9,0\n0,9,0\n2,9,1\n0,9,1\n")
    (tmp_path / "d.json").write_text(json.dumps({"sex": 2, "age": 3}))
    return {"csv": str(tmp_path / "t.csv"), "domain_json": str(tmp_path / "d.json")}


def test_the_outlier_is_the_record_whose_cells_are_rarest(files):
    challenge = Tabular(**files)
    assert challenge.domain.columns == ("sex", "age")
    assert challenge.canaries.tolist() == [[1, 2]]
    assert len(challenge.data([False]).records) == 3 and len(challenge.data([True]).records) == 4
    assert [1, 2] not in challenge.data([False]).records.tolist()


def test_an_explicit_record_is_put_in_beside_the_file(files):
    challenge = Tabular(**files, canary={"age": 1, "sex": 0})
    assert challenge.data([True]).records[-1].tolist() == [0, 1]
    assert len(challenge.data([False]).records) == 4


def write(files, csv=None, domain=None):
    if csv is not None:
        Path(files["csv"]).write_text(csv)
    if domain is not None:
        Path(files["domain_json"]).write_text(domain)


@pytest.mark.parametrize(
    ("csv", "domain", "canary", "says"),
    [
        ("age,sex\n3,0\n", None, "outlier", r"line 2: age=3 is outside its domain 0…2"),
        ("age,sex\n0.5,0\n", None, "outlier", r"age=0.5 is outside its domain"),
        ("age,sex\nx,0\n", None, "outlier", "cannot read .* as integer-coded records"),
        ("age\n1\n", None, "outlier", "has no column 'sex'"),
        ("age,sex\n", None, "outlier", "has no records"),
        (None, "{}", "outlier", "must hold"),
        (None, '{"age": 0}', "outlier", "must hold"),
        (None, "nonsense", "outlier", "cannot read .* as JSON"),
        (None, None, {"age": 3, "sex": 0}, "age=3 is outside its domain 0…2"),
        (None, None, {"age": 1}, "must give each column of the domain once; check sex"),
    ],
)
def test_bad_files_and_canaries_are_refused_in_one_line(files, csv, domain, canary, says):
    write(files, csv, domain)
    with pytest.raises(AuditError, match=says) as caught:
        Tabular(**files, canary=canary)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_said(files):
    with pytest.raises(AuditError, match="cannot read"):
        Tabular(csv="no/such.csv", domain_json=files["domain_json"])
