import json
from pathlib import Path

import numpy as np
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
        ("age,sex\n3,0\n", None, "outlier", r"row 1: age=3 is outside its domain 0…2"),
        ("age,sex\n0.5,0\n", None, "outlier", r"age=0.5 is outside its domain"),
        (
            "age,sex\nx,0\n",
            None,
            "outlier",
            "row 1: age=x is outside its domain 0…2 of whole numbers",
        ),
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


# --- other pairs than one record more -------------------------------------------------------------


def test_one_record_can_be_replaced_by_the_outlier(files):
    challenge = Tabular(**files, neighbours="replace_one")
    absent, present = (challenge.data([bit]).records.tolist() for bit in (False, True))
    assert len(absent) == len(present) == 4 and challenge.neighbours == "replace_one"
    assert absent[:-1] == present[:-1] and present[-1] == [1, 2] and absent[-1] == [0, 0], (
        "the commonest record"
    )
    assert str(challenge) == "3 records of t.csv, with the record [1, 2], or with another instead"


def test_both_records_of_a_replacement_can_be_given(files):
    options = {
        "neighbours": "replace_one",
        "canary": {"age": 1, "sex": 0},
        "instead": {"age": 2, "sex": 1},
    }
    challenge = Tabular(**files, **options)
    assert challenge.data([True]).records[-1].tolist() == [0, 1]
    assert (
        challenge.data([False]).records[-1].tolist() == [1, 2]
        and len(challenge.data([False]).records) == 5
    )
    with pytest.raises(AuditError, match="are the same records, so nothing differs"):
        Tabular(**files, **options | {"instead": options["canary"]})
    with pytest.raises(
        AuditError, match=r"canary.instead must give each column of the domain once; check sex"
    ):
        Tabular(**files, **options | {"instead": {"age": 1}})


@pytest.fixture
def people(tmp_path):
    """Users a, b and c with 2, 3 and 6 records; b's are rare."""
    rows = (
        ["who,age,job"]
        + ["a,30,clerk"] * 2
        + ["b,80,smith", "b,,smith", "b,81,clerk"]
        + ["c,30,clerk"] * 6
    )
    (tmp_path / "p.csv").write_text("\n".join(rows) + "\n")
    domain = {
        "age": {"edges": [0, 50, 100], "missing": [""]},
        "job": {"categories": ["clerk", "smith"]},
    }
    (tmp_path / "p.json").write_text(json.dumps(domain))
    return {"csv": str(tmp_path / "p.csv"), "domain_json": str(tmp_path / "p.json")}


def test_a_record_is_given_and_shown_in_the_domains_own_words(people):
    challenge = Tabular(**people, canary={"age": None, "job": "smith"})
    assert challenge.canaries.tolist() == [[2, 1]]
    assert (
        str(challenge) == "11 records of p.csv, with or without the record (age=missing, job=smith)"
    )
    with pytest.raises(
        AuditError, match=r"canary.canary: job=baker is outside its domain categories clerk, smith"
    ):
        Tabular(**people, canary={"age": 1, "job": "baker"})


def test_an_unchecked_draft_is_said(people):
    path = Path(people["domain_json"])
    path.write_text('{"//": "DRAFT", ' + path.read_text()[1:])
    assert str(Tabular(**people)).endswith("; p.json is a draft that nobody has checked")


@pytest.mark.parametrize(("canary", "count"), [("a", 2), ("c", 6), ("outlier", 3)])
def test_all_records_of_one_user_differ_and_nobody_elses(people, canary, count):
    challenge = Tabular(**people, user="who", neighbours="add_remove_user", canary=canary)
    absent, present = challenge.data([False]), challenge.data([True])
    assert len(absent.records) == 11 - count and len(present.records) == 11
    (user,) = set(present.users.tolist()) - set(absent.users.tolist())
    assert int((present.users == user).sum()) == count and np.array_equal(
        present.users[:-count], absent.users
    )
    assert len(challenge.canaries) == 1, "one canary, whose records come and go together"
    assert (
        str(challenge)
        == f"{11 - count} records of p.csv, with or without the {count} records of one who"
    )


def test_all_records_of_one_user_can_be_replaced(people):
    challenge = Tabular(**people, user="who", neighbours="replace_one_user")
    absent, present = challenge.data([False]), challenge.data([True])
    assert (
        np.array_equal(absent.users, present.users)
        and len(absent.records) == len(present.records) == 11
    )
    differ = (absent.records != present.records).any(axis=1)
    assert differ.sum() == 3 and len(set(present.users[differ].tolist())) == 1


USERS = [
    ({"user": "who"}, "take both"),
    ({"neighbours": "add_remove_user"}, "take both"),
    ({"user": "no", "neighbours": "add_remove_user"}, "has no column 'no'; it has who, age, job"),
    ({"user": "age", "neighbours": "add_remove_user"}, "'age' is in the domain too"),
    (
        {"user": "who", "neighbours": "add_remove_user", "canary": "z"},
        "canary.canary=z: no record of .* has that who",
    ),
    (
        {"user": "who", "neighbours": "add_remove_user", "canary": {"age": 1, "job": "clerk"}},
        "the name of a user",
    ),
    ({"canary": "b"}, "must be outlier, or a record"),
    ({"neighbours": "replace_one", "instead": "b"}, "must be typical, or a record"),
]


@pytest.mark.parametrize(("options", "says"), USERS)
def test_bad_users_are_one_line(people, options, says):
    with pytest.raises(AuditError, match=says) as caught:
        Tabular(**people, **options)
    assert "\n" not in str(caught.value)


def test_a_record_of_nobody_is_refused(people):
    path = Path(people["csv"])
    path.write_text(path.read_text() + ",30,clerk\n")
    with pytest.raises(AuditError, match="row 12: who is missing; say whose record it is"):
        Tabular(**people, user="who", neighbours="add_remove_user")
