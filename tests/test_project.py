"""What stands around the package: public names, types, citation, pre-commit, extras."""

import inspect
import re
import tomllib
from pathlib import Path

import yaml

import audit

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PINNED = {
    line.split("==")[0].lower().replace("_", "-")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
}


def test_public_names_are_few_load_lazily_and_say_what_they_are():
    assert len(audit.__all__) <= 20
    assert list(audit.__all__) == sorted(set(audit.__all__))
    for name in audit.__all__:
        assert inspect.getdoc(getattr(audit, name)), name


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "src" / "audit" / "py.typed").exists()


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == audit.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["title"].startswith(PROJECT["name"])


def test_pre_commit_runs_what_make_test_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0][
        "hooks"
    ]
    tools = {hook["entry"].split()[0] for hook in hooks}
    target = (ROOT / "Makefile").read_text().split("\ntest:")[1].split("\n\n")[0]
    assert tools == set(re.findall(r"\$\(BIN\)/([\w-]+)", target)) - {"pytest"}


def test_everything_that_is_asked_for_is_pinned():
    asked = [
        *PROJECT["dependencies"],
        *(name for extra in PROJECT["optional-dependencies"].values() for name in extra),
    ]
    names = {re.match(r"[\w-]+", name)[0].lower().replace("_", "-") for name in asked} - {
        PROJECT["name"]
    }
    assert names <= PINNED, names - PINNED
