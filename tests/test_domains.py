"""A domain file says how a table becomes whole numbers; a draft of one says that nobody has checked
it."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest

from audit import cli, domains
from audit.core import AuditError
from audit.domains import read_domain
from audit.files import read_table

DOMAIN = {
    "//": "checked by hand on 1 December",
    "age": {"edges": [0, 18, 65, "inf"], "missing": ["", "?"]},
    "job": {"categories": ["clerk", "smith"], "missing": ["?"]},
    "student": {"categories": [False, True]},
    "joined": {"edges": ["2000-01-01", "2010-01-01", "2020-01-01"]},
    "rooms": {"categories": [1, 2, 5]},
    "sex": 2,
    "code": {"size": 3, "missing": [""]},
}
ROWS = pd.DataFrame(
    {
        "age": [17.5, 18, np.nan, 900],
        "job": ["smith", "clerk", "?", "clerk"],
        "student": [True, False, True, False],
        "joined": pd.to_datetime(["2000-01-01", "2009-12-31", "2010-01-01", "2020-01-01"]),
        "rooms": [1, 5, 2, 1],
        "ignored": ["x", "y", "z", "w"],
        "sex": [0, 1, 1, 0],
        "code": [2, np.nan, 0, 1],
    }
)
CODES = [[0, 1, 1, 0, 0, 0, 2], [1, 0, 0, 0, 2, 1, 3], [3, 2, 1, 1, 1, 1, 0], [2, 0, 0, 1, 0, 0, 1]]


@pytest.fixture
def known(tmp_path):
    return written(tmp_path, DOMAIN)


def written(folder, domain):
    path = folder / "d.json"
    path.write_text(domain if isinstance(domain, str) else json.dumps(domain))
    return read_domain(path, "canary.domain_json")


@pytest.mark.parametrize("kind", ["csv", "quoted.csv", "parquet", "jsonl", "xlsx"])
def test_every_kind_of_value_is_encoded_by_the_domain_whatever_file_it_is_in(known, tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    if kind.endswith("csv"):
        ROWS.to_csv(path, index=False, quoting=1 if kind == "quoted.csv" else 0)
    elif kind == "jsonl":
        ROWS.to_json(path, orient="records", lines=True, date_format="iso")
    else:
        (ROWS.to_parquet if kind == "parquet" else ROWS.to_excel)(path, index=False)
    assert known.domain.columns == ("age", "job", "student", "joined", "rooms", "sex", "code")
    assert known.domain.sizes == (4, 3, 2, 2, 3, 2, 4)
    assert known.encode(read_table(path, "key", as_text=True), "key").tolist() == CODES


def test_codes_are_shown_as_what_they_mean(known):
    shown = [
        coding.label(code) for coding, code in zip(known.codings.values(), CODES[2], strict=True)
    ]
    assert shown == ["missing", "missing", "True", "[2010-01-01, 2020-01-01]", "2", "1", "0"]
    assert known.codings["age"].label(2) == "[65, ∞]"


OUTSIDE = [
    ("age", "-1", "age=-1 is outside its domain range 0 … ∞"),
    ("age", "x", "age=x is outside its domain"),
    ("job", "baker", "job=baker is outside its domain categories clerk, smith"),
    ("student", "1", "student=1 is outside its domain categories False, True"),
    (
        "joined",
        "1999-12-31",
        "joined=1999-12-31 is outside its domain range 2000-01-01 … 2020-01-01",
    ),
    ("joined", "soon", "joined=soon is outside"),
    ("rooms", "3", "rooms=3 is outside its domain categories 1, 2, 5"),
    ("sex", "2", "sex=2 is outside its domain 0…1 of whole numbers"),
    ("sex", "0.5", "sex=0.5 is outside"),
    ("sex", "", 'sex is missing, and its domain has no code for that; give .sex. a "missing"'),
]


@pytest.mark.parametrize(("name", "value", "says"), OUTSIDE)
def test_a_value_outside_names_its_row_its_column_and_the_key_to_fix(
    known, tmp_path, name, value, says
):
    rows = ROWS.astype(object)
    rows.loc[1, name] = value
    rows.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(AuditError, match=says) as caught:
        known.encode(read_table(tmp_path / "t.csv", "canary.csv", as_text=True), "canary.csv")
    assert (
        "t.csv, row 2: " in str(caught.value)
        and "d.json" in str(caught.value)
        and "\n" not in str(caught.value)
    )


BAD = [
    ("{}", "must hold"),
    ("[1]", "must hold"),
    ("nonsense", "cannot read .* as JSON"),
    ('{"//": "no column"}', "must hold"),
    ('{"a": 0}', "for 'a' .*the number of values is 0, not 1 or more"),
    ('{"a": true}', "for 'a' .*it is true"),
    ('{"a": 2.5}', "it is 2.5"),
    ('{"a": {}}', "none or several of these"),
    ('{"a": {"size": 2, "edges": [0, 1]}}', "none or several of these"),
    ('{"a": {"size": 2, "bins": 3}}', "it has a key 'bins'"),
    ('{"a": {"categories": []}}', "is no list of texts"),
    ('{"a": {"categories": ["x", null]}}', "null belongs into"),
    ('{"a": {"categories": ["x", "x"]}}', "category 'x' is there twice"),
    ('{"a": {"edges": [1]}}', "no list of two or more"),
    ('{"a": {"edges": [1, 1]}}', "do not rise"),
    ('{"a": {"edges": ["2020-01-01", "tomorrow or so"]}}', "edge 'tomorrow or so' is no date"),
    ('{"a": {"edges": [0, null]}}', "edge None is no number"),
    ('{"a": {"size": 2, "missing": ""}}', '"missing" is no list'),
    ('{"a": 2, "a": 3}', "'a' is there twice"),
]


@pytest.mark.parametrize(("domain", "says"), BAD)
def test_a_bad_domain_file_is_one_line(tmp_path, domain, says):
    with pytest.raises(AuditError, match=says) as caught:
        written(tmp_path, domain)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("canary.domain_json: ")


# --- audit domain ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_draft_is_a_domain_of_its_table_and_says_first_that_a_person_must_check_it(
    tmp_path, kind
):
    path = tmp_path / f"people.{kind}"
    names = [f"p{i}" for i in range(domains.MANY + 1)]
    rows = pd.concat([ROWS] * 8, ignore_index=True)[: len(names)].assign(
        name=names, zip="007", empty=""
    )
    (rows.to_csv if kind == "csv" else rows.to_parquet)(path, index=False)
    assert cli.main(["domain", str(path)]) == 0
    out = tmp_path / "people-domain.json"
    first = out.read_text().splitlines()[1]
    assert (
        first.startswith('  "//": "DRAFT')
        and "a person must check every entry against public knowledge" in first
    )
    held = json.loads(out.read_text())
    assert held["student"] == {"categories": [False, True]} and held["job"]["missing"] == ["?"]
    assert held["zip"] == {"categories": ["007"]}, "leading zeros make a code, not a number"
    assert held["joined"]["edges"][0] <= "2000-01-01" and held["joined"]["edges"][-1] > "2020-01-01"
    assert (
        "left out: 31 different texts" in held["//name"]
        and held["//empty"] == "left out: it is empty"
    )
    drafted = read_domain(out, "key")
    assert drafted.draft and not written(tmp_path, {"sex": 2}).draft
    assert len(drafted.encode(read_table(path, "key", as_text=True), "key")) == len(names)


def test_a_draft_overwrites_nothing(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "mine.json").write_text("precious")
    words = ["domain", str(tmp_path / "t.csv"), "--out", str(tmp_path / "mine.json")]
    assert cli.main(words) == 2 and (tmp_path / "mine.json").read_text() == "precious"
    said = capsys.readouterr().err
    assert (
        "is there already and is kept; remove it, or give --out" in said and said.count("\n") == 1
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "required: table"),
        (["no.csv"], "cannot read no.csv"),
        (["x.txt"], "is no .csv"),
        (["a", "b"], "see audit"),
    ],
)
def test_bad_words_are_one_line(words, says, capsys):
    assert cli.main(["domain", *words]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1


def test_the_command_has_a_page_of_its_own(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["domain", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        left.value.code == 0 and "a person must check every entry against public knowledge" in said
    )


def test_edges_of_dates_are_whole_years_months_or_days():
    def edges(first, last):
        return domains._date_edges(*(float(pd.Timestamp(day).value) for day in (first, last)))

    assert edges("2001-03-04", "2004-01-01") == [
        "2001-01-01",
        "2002-01-01",
        "2003-01-01",
        "2004-01-01",
        "2005-01-01",
    ]
    assert edges("2001-03-04", "2001-05-01") == [
        "2001-03-01",
        "2001-04-01",
        "2001-05-01",
        "2001-06-01",
    ]
    assert edges("2001-03-04", "2001-03-04") == ["2001-03-04", "2001-03-05"]
    assert domains._draft_of("day", [datetime.date(2001, 3, 4)])[1] == {
        "edges": ["2001-03-04", "2001-03-05"]
    }
