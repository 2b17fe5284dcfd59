"""`audit --help`: commands, groups with a line on each option, sweeps, values, examples.

What an option is stands in the first comment of its YAML and nowhere else, so that the page cannot
go stale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

GROUPS = {
    "mechanism": "what is audited",
    "canary": "the two data sets that differ in one record",
    "features": "what the attacker sees of a release",
    "attacker": "who guesses which data set it was",
    "criterion": "how its threshold is chosen, on validation trials only",
    "estimator": "the bound behind mu_emp; all that are possible are logged",
    "protocol": "how trials are spent",
    "backend": "who plays",
}
EXAMPLES = (
    ("audit", "the published experiment: MST's marginals at (1, 0.01)"),
    ("audit mechanism=aim eps=0.5,1,2 -m", "one audit a value: a sweep"),
    ("audit sweep=paper", "a sweep from a file"),
    (
        "audit mechanism=broken/gaussian_less_noise attacker=likelihood_ratio",
        "a broken mechanism: half of its noise",
    ),
    ("audit plan trials=100000", "what an audit could find, before anything is played"),
)
TRUST = "Code and YAML of the working directory are run: audit what you trust."
FLAGS = (
    ("-m", "play one audit for each of the values that are listed: eps=1,2"),
    ("--cfg job", "show the configuration and play nothing; --info says where it comes from"),
    ("hydra.verbose=true", "log everything; hydra.verbose=audit, only ours"),
    (
        "--shell-completion install=bash",
        'complete words on Tab: eval "$(audit --shell-completion install=bash)"',
    ),
)


def told(path: Path) -> str:
    """The first sentence, or half sentence, of the comment that a YAML file begins with; nothing
    where it has none."""
    comment: list[str] = []
    for line in path.read_text("utf-8", "replace").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @"):  # Hydra's own, such as `# @package _global_`
            comment.append(line.lstrip("# "))
    return first_part(" ".join(comment))


def first_part(text: str) -> str:
    """Up to the first semicolon or full stop that ends something.

    >>> first_part("All marginals, ε = 0.5; here MST and AIM are the same.")
    'All marginals, ε = 0.5'
    >>> first_part("Another attacker.")
    'Another attacker'
    """
    return re.split(r";|\.(?=\s|$)", text, maxsplit=1)[0].strip()


def options(folders: Sequence[Path]) -> dict[str, str]:
    """Name and line of each option in some folders, in order of name; a later folder's wins.
    Folders in them come last."""
    found = {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}
    nested = [
        (path.name, sorted(path.glob("*.yaml")))
        for folder in folders
        for path in sorted(folder.glob("*/"))
    ]
    more = {
        f"{name}/…": f"{len(paths)} more, such as {name}/{paths[0].stem}"
        for name, paths in nested
        if paths
    }
    return {name: told(found[name]) for name in sorted(found)} | more


def values(config: Path) -> dict[str, tuple[str, str]]:
    """The values at the top of config.yaml: name → what it is if nothing is given, and its
    comment."""
    found = (
        re.match(r"(\w+): *([^\s#]+) *(?:#\s*(.*))?$", line)
        for line in config.read_text("utf-8").splitlines()
    )
    return {match[1]: (match[2], match[3] or "") for match in found if match}


def usual(config: Path) -> dict[str, str]:
    """Which option of each group is chosen if nothing is given."""
    found = re.findall(
        r"^  - (\w+): (\w+)(?: +#.*)?$", config.read_text("utf-8"), flags=re.MULTILINE
    )
    return {group: option for group, option in found if option != "null"}


def page(
    conf: Sequence[Path], sweeps: Sequence[Path], commands: Mapping[str, str]
) -> RenderableType:
    """The whole page.

    Args:
        conf: folders of groups, ours first, then a user's own.
        sweeps: folders of sweeps.
        commands: name and line of each subcommand.
    """
    from rich.console import Group
    from rich.text import Text

    config = conf[0] / "config.yaml"
    chosen = usual(config)
    parts: list[Any] = [
        Text(
            "audit: does a differentially private mechanism leak more than it claims?", style="bold"
        ),
        Text(
            "\naudit [group=option …] [key=value …] [-m]\naudit COMMAND …   (audit COMMAND --help)"
        ),
        *_block("Examples", EXAMPLES),
        *_block("Commands", list(commands.items())),
        *_block(
            "Values",
            [(f"{name}={usually}", what) for name, (usually, what) in values(config).items()],
        ),
    ]
    for group, what in GROUPS.items():
        rows = options([folder / group for folder in conf]).items()
        marked = [(f"{name} *" if name == chosen.get(group) else name, line) for name, line in rows]
        parts += _block(f"{group}=…", marked, what)
    parts += _block("sweep=…", list(options(sweeps).items()), "many audits, from a file")
    parts += _block(
        "case=…",
        list(options([folder / "case" for folder in conf]).items()),
        "one audit of sweep=paper",
    )
    parts += _block("Flags", FLAGS)
    parts += [
        Text(
            "\n"
            "* if nothing is given. Any value inside an option: group.key=value; audit --cfg job "
            "shows them all."
        ),
        Text(f"\n{TRUST}"),
    ]
    return Group(*parts)


LADDER_GROUPS = {
    "task": "what is trained",
    "ladder": "the ε that are climbed",
    "checker": "how a model's accuracy is checked",
}
LADDER_EXAMPLES = (
    ("audit accuracy-first", "the least ε on the ladder that reaches 0.9"),
    (
        "audit accuracy-first threshold=0.85 checker=above_threshold",
        "another accuracy, another check",
    ),
    ("audit accuracy-first sweep=accuracy_first", "checkers and accuracies beside each other"),
)


def ladder_page(conf: Sequence[Path]) -> RenderableType:
    """The page of `audit accuracy-first --help`; ``conf`` as in `page`."""
    from rich.console import Group
    from rich.text import Text

    config = conf[0] / "accuracy_first.yaml"
    chosen = usual(config)
    parts: list[Any] = [
        Text(
            "audit accuracy-first: train with increasing ε until an accuracy is reached",
            style="bold",
        ),
        Text("\naudit accuracy-first [group=option …] [key=value …] [-m]"),
        *_block("Examples", LADDER_EXAMPLES),
        *_block(
            "Values",
            [(f"{name}={usually}", what) for name, (usually, what) in values(config).items()],
        ),
    ]
    for group, what in LADDER_GROUPS.items():
        rows = options([folder / group for folder in conf]).items()
        marked = [(f"{name} *" if name == chosen.get(group) else name, line) for name, line in rows]
        parts += _block(f"{group}=…", marked, what)
    parts += [
        Text("\n* if nothing is given. Any value inside an option: group.key=value."),
        Text(f"\n{TRUST}"),
    ]
    return Group(*parts)


def _block(title: str, rows: Sequence[tuple[str, str]], what: str = "") -> Iterator[RenderableType]:
    """A title and a list under it, in the one style of this page."""
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    yield Text.assemble("\n", (title, "bold cyan"), (f"  {what}" if what else "", "dim"))
    width = max(len(name) for name, _ in rows)
    if width > 40:  # a line each: what it is goes below
        for name, line in rows:
            yield Text.assemble(f"  {name}\n", (f"      {line}", "dim"))
        return
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(width=max(width + 2, 20), no_wrap=True)
    grid.add_column(overflow="fold")
    for name, line in rows:
        grid.add_row(Text(f"  {name}"), Text(line))
    yield grid
