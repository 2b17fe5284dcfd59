"""The examples run as written, with warnings as errors, and say what they should."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from audit.canaries.worst_case import WorstCase
from audit.cli import compose

EXAMPLES = Path(__file__).parents[1] / "examples"

# Seeds are fixed, so that these outcomes are too. The accusing bounds on the two broken mechanisms
# lie 9 standard deviations above their claims (0.77 ± 0.034 against 0.45, 1.73 ± 0.074 against 1,
# over 30 seeds): missed with probability < 1e-6.
SAYS = {
    "audit_from_python": [
        "count with 1 of the noise: tight",
        "count with 0.5 of the noise: violation",
    ],
    "bounds_from_counts": ["mu_hat 0.3918", "at least 0.2974-GDP", "at least 0.3405-GDP"],
    "own_mechanism": ["budget 0.5 of ε a bit: tight", "budget 1 of ε a bit: violation"],
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
    for said in SAYS[path.stem]:
        assert said in done.stdout


# --- real libraries, each in an environment of its own, which a person makes ----------------------

LIBRARIES = sorted(path.parent for path in EXAMPLES.glob("*/make_env.sh"))
library = pytest.mark.parametrize("folder", LIBRARIES, ids=lambda folder: folder.name)


def commands(folder):
    """The words after ``audit`` of every command in an example's README."""
    text = (folder / "README.md").read_text("utf-8")
    lines = (
        "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ").splitlines()
    )
    return [
        words[1:]
        for words in (shlex.split(line, comments=True) for line in lines)
        if words[:1] == ["audit"]
    ]


@library
def test_the_commands_of_a_library_compose(folder, tmp_path, monkeypatch):
    for path in folder.glob("*.py"):
        shutil.copy(path, tmp_path)
    # stands for the environment: composing looks whether it is there
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert len(commands(folder)) >= 3
    for words in commands(folder):
        plan = compose(*words)
        if "mechanism=command" in words:
            assert Path("mechanism.py") in plan.mechanism.programs, (
                "an edited program must not meet its old trials"
            )
            assert understood(folder, plan.mechanism.argv[2:]), "the program has these options"


def understood(folder, words):
    """Whether a program takes its words; it reads its input after them, and imports its library
    after that."""
    run = [sys.executable, folder / "mechanism.py", *words, "--help"]
    refused = [*run[:-1], "--no-such-word"]
    helped, left = (
        subprocess.run(argv, capture_output=True, text=True, check=False) for argv in (run, refused)
    )
    return helped.returncode == 0 and "arguments: --no-such-word" in left.stderr


@library
def test_a_program_of_a_library_is_python_that_says_what_it_is(folder):
    assert ast.get_docstring(ast.parse((folder / "mechanism.py").read_text("utf-8")))
    pins = re.findall(r"'([\w\[\]]+)==[\d.]+'", (folder / "make_env.sh").read_text("utf-8"))
    assert pins, "an environment is pinned"


def ask(folder, words, data, columns, trials):
    """One request to a program in the environment beside it; skipped where that was not made."""
    python = folder / ".venv/bin/python"
    if not python.exists():
        pytest.skip(
            f"no environment: sh {folder.relative_to(EXAMPLES.parent)}/make_env.sh makes it"
        )
    line = json.dumps({"seed": 7, "trials": trials, "data": data, "columns": columns})
    done = subprocess.run(
        [python, folder / "mechanism.py", *words],
        input=line + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


TABLE = WorstCase().data([False]).records.tolist()


# 160 trials of noise with sd 3.8, 6.6 and 16: the bounds are 5.6 sd of each of six means, so that a
# false failure has probability 1.3e-7; a program that lost its data is off by 10.
@pytest.mark.slow
@pytest.mark.parametrize(("which", "far"), [("fixed", 1.7), ("mst", 2.93), ("aim", 7.11)])
def test_dpmm_measures_marginals(which, far):
    answer = ask(EXAMPLES / "dpmm", [which, "--see", "marginals"], TABLE, ["a", "b", "c"], 160)
    assert answer["columns"] == ["a=0", "a=1", "b=0", "b=1", "c=0", "c=1"]
    means = [sum(column) / 160 for column in zip(*answer["rows"], strict=True)]
    assert means == pytest.approx([10, 0, 10, 0, 10, 0], abs=far)


@pytest.mark.slow
def test_dpmm_makes_a_table():
    answer = ask(EXAMPLES / "dpmm", ["fixed", "--iters", "10"], TABLE, ["a", "b", "c"], 2)
    assert [sum(row) for row in answer["rows"]] == [50, 50] and len(answer["columns"]) == 8


# Noise of sd √2 or 1, 1,000 trials: sd of the mean at most 0.045; 0.225 is 5 sd, a false failure
# has probability 6e-7.
@pytest.mark.slow
@pytest.mark.parametrize("which", ["laplace", "gaussian"])
def test_opendp_counts(which):
    rows = ask(EXAMPLES / "opendp", [which], [0, 0, 0], None, 1000)["rows"]
    assert sum(x for (x,) in rows) / 1000 == pytest.approx(3, abs=0.225)


@pytest.mark.slow
def test_opendp_measures_marginals():
    (row,) = ask(EXAMPLES / "opendp", ["mst"], TABLE, ["a", "b", "c"], 1)["rows"]
    # two pairs of three
    assert len(row) == 9 + 3 * 9 and sum(row[i : i + 9] == [0] * 9 for i in (9, 18, 27)) == 1
