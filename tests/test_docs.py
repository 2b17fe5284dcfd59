"""What the documentation says is run: its Python, the tutorial's commands, its links, and the
build."""

import doctest
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from audit import cli, reconstruct

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENTS = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
INCLUDED = re.compile(r"^<!-- include (\S+) -->$", re.MULTILINE)
SHELL = {"make", "source", "export", "pip", "pre-commit", "ray"}
RUN_ELSEWHERE = {"own-mechanism": "test_own_mechanism_page.py"}
"""Pages whose commands build on each other, and the tests that run them whole."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(page, *languages):
    return [
        text for language, text in FENCE.findall(page.read_text("utf-8")) if language in languages
    ]


def commands(text):
    """Lines of a shell block, comments gone, continued lines joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def audits(words):
    """The words after ``audit`` or ``python -m audit``; None for another command."""
    if words[:3] == ["python", "-m", "audit"]:
        return words[3:]
    return words[1:] if words[0] == "audit" else None


# --- Python ---------------------------------------------------------------------------------------


@pages
def test_blocks_name_their_language(page):
    assert not blocks(page, ""), f"{page.name}: write ```sh, ```python, ```yaml or ```text"


@pages
def test_python_blocks_are_doctests_that_pass_or_code_that_compiles(page):
    for text in blocks(page, "python"):
        if ">>>" not in text and not text.startswith("<!-- include"):
            compile(text, str(page), "exec")
    if page.parent == DOCS:  # the README is collected by pytest itself
        outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
        assert outcome.failed == 0


# --- commands -------------------------------------------------------------------------------------

OTHERS = [
    page for page in PAGES if not (ROOT / "tests" / RUN_ELSEWHERE.get(page.stem, "none")).exists()
]
COMMANDS = [
    (page, words) for page in OTHERS for text in blocks(page, "sh") for words in commands(text)
]
INLINE = [
    (page, shlex.split(text))
    for page in OTHERS
    for text in re.findall(
        r"`((?:python -m )?audit [^`]*)`", FENCE.sub("", page.read_text("utf-8"))
    )
    if "…" not in text
]


def check(words):
    """Compose what would be played; a subcommand must exist and know its options. Fails as the
    command itself would."""
    if words and "=" not in words[0] and not words[0].startswith("-"):
        run = cli._subcommand(words[0])
        CHECKS.get(words[0], lambda run, words: None)(run, words[1:])
        return
    cli._register()
    flags = [word for word in words if word.startswith("-")]
    overrides = [word for word in words if not word.startswith("-") and word not in NAMED]
    cli.check(overrides, "-m" in flags)


def asks_for_help(run, words):
    """No such command starts anything once asked for help, but each first reads the words
    before."""
    with pytest.raises(SystemExit) as left:
        run([*words, "--help"])
    assert left.value.code == 0


# Of other subcommands only the name is checked here; each has tests of its own.
CHECKS = {
    "plan": lambda run, words: run(words),
    "ui": asks_for_help,
    "coverage": asks_for_help,
    "reconstruct": lambda run, words: reconstruct.parse(words),
}

NAMED = {"mechanism=mine"}
"""What the README's reader writes first; tests/test_end_to_end.py does."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty one, but for what the README takes for granted: a table, a function, rows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text("def release(data, rng):\n    return rng.normal()\n")
    (tmp_path / "rows.csv").write_text("count,present\n" + "0.5,0\n1.5,1\n" * 2000)
    (tmp_path / "adult.csv").write_text("x,y\n0,0\n0,0\n1,1\n")
    (tmp_path / "adult-domain.json").write_text('{"x": 2, "y": 2}')
    return tmp_path


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS + INLINE, ids=lambda part: getattr(part, "stem", None)
)
def test_a_command_could_be_run(page, words, folder):
    played = audits(words)
    if played is None:
        assert words[0] in SHELL, f"{page.name}: what is {words[0]!r}?"
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    try:
        check(played)
    except Exception as error:
        # a page may show what a mistake costs: its next block must then say so
        assert f"audit: {cli.explain(error)}".startswith(shown_after(page, words).strip())


def shown_after(page, words):
    """The text block that follows a command."""
    found = re.search(
        re.escape(shlex.join(words)) + r"\n```\n\n```text\n(.*?)```",
        page.read_text("utf-8"),
        flags=re.DOTALL,
    )
    return found[1] if found else "no output is shown"


def flat(text):
    return re.sub("─+", "─", " ".join(text.split()))


def first_missing(shown, printed):
    """Of a shown output, the first part between two … that was not printed after the one before; ""
    where all were.

    White space and the length of rules do not count: a terminal's width decides where lines break.
    """
    said, place = flat(printed), 0
    for part in shown.split("…"):
        wanted = flat(part)
        if wanted not in said[place:]:
            return wanted
        place = said.index(wanted, place) + len(wanted)
    return ""


def test_an_output_that_is_off_by_one_or_in_another_order_is_noticed():
    printed = "fpr     0.3675\nfnr 0.4150\nmu_hat          0.5532"
    assert not first_missing("fpr 0.3675\n…\nmu_hat 0.5532", printed)
    assert first_missing("fpr 0.3675\n…\nmu_hat 0.5531", printed) == "mu_hat 0.5531"
    assert first_missing("mu_hat 0.5532\n…\nfpr 0.3675", printed) == "fpr 0.3675"


def run(command, folder):
    """Exit status and everything printed, on a terminal of the usual width."""
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_tutorial_runs_in_an_empty_folder_and_prints_what_it_says(tmp_path):
    """Seeds are fixed and versions pinned, so the figures are the same to the last digit."""
    text = (DOCS / "tutorial.md").read_text("utf-8")
    found = re.findall(r"```sh\n(audit [^\n]*)\n```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(found) == 6
    for command, shown in found:
        status, printed = run(command, tmp_path)
        assert status == (2 if shown.startswith("audit:") else 0), printed
        assert not first_missing(shown, printed), (
            f"{command}: {first_missing(shown, printed)}\n{printed}"
        )


def same_picture(one, other):
    """Whether two images have one size, and pixels that differ by less than 1/255 on average."""
    one, other = (np.asarray(Image.open(path).convert("RGB"), float) for path in (one, other))
    return one.shape == other.shape and np.abs(one - other).mean() < 1


@pytest.mark.slow
def test_the_readme_prints_and_draws_what_it_shows(tmp_path):
    found = re.search(
        r"`(audit [^`]*)`[^`]*```text\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    status, printed = run(found[1], tmp_path)
    assert status == 0
    assert not first_missing(found[2], printed), f"{first_missing(found[2], printed)}\n{printed}"
    (drawn,) = tmp_path.rglob("tradeoff.png")
    assert same_picture(drawn, DOCS / "tradeoff.png"), (
        f"the figure has changed: run `{found[1]}` and copy its tradeoff.png"
    )
    (another,) = tmp_path.rglob("threshold.png")
    assert not same_picture(another, DOCS / "tradeoff.png")


# --- links and parts ------------------------------------------------------------------------------


@pages
def test_relative_links_resolve(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:|mailto:|#", target):
            continue
        path, _, anchor = target.partition("#")
        assert (page.parent / path).exists(), f"{page.name}: {target}"
        if anchor and path.endswith(".md"):
            assert anchor in anchors(page.parent / path), f"{page.name}: {target}"


def anchors(page):
    """Ids of a page's headings; given ones, and the slugs of the others."""
    headings = re.findall(
        r"^#+ (.*?)(?:\s*\{:? ?#([\w-]+) ?\})?$", page.read_text("utf-8"), re.MULTILINE
    )
    return {
        given or re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-")
        for title, given in headings
    }


def test_every_page_of_the_navigation_exists_and_no_page_is_left_out():
    listed = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    assert listed == {page.name for page in DOCS.glob("*.md")}


def test_contributing_shows_every_layer():
    layers = re.search(
        r"^layers = \[(.*?)^\]",
        (ROOT / "pyproject.toml").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    layer_names = [name for name in re.findall(r"\w+", layers[1]) if name != "__main__"]
    table = (
        (ROOT / "CONTRIBUTING.md")
        .read_text("utf-8")
        .split("| layer, top to bottom")[1]
        .split("\n\n")[0]
    )
    shown = [
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)/?`", line.split("|")[1:2][0])
    ]
    assert set(shown) == set(layer_names), (
        f"CONTRIBUTING.md lacks {set(layer_names) - set(shown)}, {set(shown) - set(layer_names)} "
        "are gone"
    )
    assert shown == layer_names, "the order differs from that of pyproject.toml"


# --- the build ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_the_network_for_nothing(site):
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not re.findall(
            r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//', text
        ), page
        assert not re.findall(
            r"\\[(\[]", re.sub(r"<(code|script)\b.*?</\1>", "", text, flags=re.DOTALL)
        ), page


@pytest.mark.slow
def test_what_is_computed_is_there(site):
    from audit import __all__
    from audit.coverage.table import read

    coverage = (site / "coverage" / "index.html").read_text("utf-8")
    assert f"{len(read()):,} cells" in coverage
    assert all(f"<code>{row.estimator}</code>" in coverage for row in read())
    options = (site / "options" / "index.html").read_text("utf-8")
    assert all(
        f'id="{path.parent.name}-{path.stem}"' in options
        for path in (ROOT / "conf").glob("*/*.yaml")
    )
    names = (site / "python" / "index.html").read_text("utf-8")
    assert all(re.search(rf'id="audit\.\w+\.{name}"', names) for name in __all__)
    assert (site / "method" / "index.html").read_text("utf-8").count("<math") > 40
    assert "0.3405" in (site / "published" / "index.html").read_text("utf-8")


@pytest.fixture
def helpers(monkeypatch):
    """The build's own modules."""
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    monkeypatch.syspath_prepend(str(DOCS))
    return [importlib.import_module(name) for name in ("hooks", "docstrings")]


def test_no_comment_is_left_unfilled(helpers):
    hooks, _ = helpers
    asked = {
        name for page in DOCS.glob("*.md") for name in COMMENTS.findall(page.read_text("utf-8"))
    }
    assert asked == set(hooks.PARTS)


def test_the_builds_own_examples(helpers):
    for module in helpers:
        outcome = doctest.testmod(module)
        assert outcome.attempted and not outcome.failed


def test_every_example_is_on_a_page_and_every_included_file_exists():
    included = {
        path for page in DOCS.glob("*.md") for path in INCLUDED.findall(page.read_text("utf-8"))
    }
    assert all((ROOT / path).is_file() for path in included)
    assert {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")} <= included
