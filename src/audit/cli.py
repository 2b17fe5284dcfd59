"""The command line: subcommands, checks before play, errors of one line. The only door to hydra.

A first word without ``=`` is a subcommand; everything else goes to Hydra. All jobs of a sweep are
composed and instantiated before the first one is played.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import itertools
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from audit import Terminated, interrupted, terminated, usage
from audit.core import AuditError
from audit.renamed import renamed_hint
from audit.spending import MOST_LOOKS, fresh_seed, share_of_error

GROUPS = tuple(usage.GROUPS)
LADDER, LADDER_GROUPS = "accuracy_first", ("task", "ladder", "checker")
# keys that a name tells anyway, or that tell nothing
NAMED = {*GROUPS, "case", "sweep", "eps", "seed", "root"}
# what YAML files say of a result for comparison; nobody reads more of it
NOTED = ("published", "control")
PASSIVE = {"--hydra-help", "--version", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status.

    0; 1 where a control came out otherwise than it must; 2 for what a person can fix; 130 after
    Ctrl-C; 143 after SIGTERM.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    # hydra raises, instead of printing twenty lines and leaving
    os.environ["HYDRA_FULL_ERROR"] = "1"
    _fix_streams()
    try:
        with _sigterm_raises():
            _enter_working_directory()
            if words and "=" not in words[0] and words[0][:1] not in ("-", "~"):
                return _subcommand(words[0])(words[1:])
            if {"--help", "-h"} & set(words):
                return _help()
            return _compose_and_play(words)
    except (Exception, KeyboardInterrupt) as error:
        # as in `audit runs | head`: who reads has had enough
        if isinstance(error, BrokenPipeError):
            return 141
        if interrupted(error):
            status = 143 if terminated(error) else 130
            return _say(
                "stopped; finished blocks are kept, and the same command goes on from there", status
            )
        line = explain(error)
        if line is None:
            raise
        return _say(line, 2)
    finally:
        _silence_a_full_output()


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """SIGTERM ends a command like Ctrl-C, unless whoever called decided otherwise."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    ):
        yield
        return

    def end(number: int, frame: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _fix_streams() -> None:
    """Give closed standard streams a place to go, and let no encoding refuse a Greek letter."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        # closed by who started us: else the next file opened would get its number
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
            setattr(
                sys,
                name,
                os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False),
            )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _enter_working_directory() -> None:
    """Put the working directory first among the places that modules are imported from: a user's
    ``_target_``.

    Raises:
        AuditError: it is gone, or has a module of our name, which worker processes would import in
            our place.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise AuditError("the working directory is gone; change into one that exists") from error
    ours = Path(__file__).resolve().parent
    for foreign in (here / "audit.py", here / "audit" / "__init__.py"):
        if foreign.exists() and foreign.resolve().parent != ours:
            raise AuditError(
                f"{foreign.relative_to(here)} in this folder hides the package of the same name "
                "from worker processes; rename it, or run from another folder"
            )
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))


def _say(line: str, status: int) -> int:
    print("audit:", " ".join(line.split()), file=sys.stderr)
    return status


def _silence_a_full_output() -> None:
    """Output that cannot be written, to a full disk say, would be tried again at exit, with a
    traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# --- subcommands ----------------------------------------------------------------------------------


def _subcommand(word: str) -> Callable[[Sequence[str]], int]:
    known = commands()
    if word in known:
        return known[word]
    raise AuditError(
        f"no command {word!r}{nearest(word, known)} An override has the form key=value"
    )


def commands() -> dict[str, Callable[[Sequence[str]], int]]:
    """Every subcommand; the first line of its docstring is what help says of it."""
    return {
        "ui": _ui,
        "runs": _runs,
        "plan": _plan,
        "coverage": _coverage,
        "reconstruct": _reconstruct,
        "verify": _verify,
        "accuracy-first": _accuracy_first,
        "domain": _domain,
    }


def completions(line: str) -> list[str]:
    """The subcommands that the first word of a line under completion may become; Hydra completes
    all else.

    >>> completions("audit ru"), completions("audit mechanism=mst ru")
    (['runs'], [])
    """
    words = line.split(" ")
    return [name for name in commands() if len(words) == 2 and name.startswith(words[1])]


def _help() -> int:
    """The page that `audit --help` prints."""
    from rich.console import Console

    lines = {
        name: usage.first_part((command.__doc__ or "").splitlines()[0])
        for name, command in commands().items()
    }
    ours, own = folder("conf"), Path.cwd() / "conf"
    sweeps = [folder("sweeps"), Path.cwd() / "sweeps"]
    Console().print(usage.page([ours, own], sweeps, lines), soft_wrap=False)
    return 0


def _ui(words: Sequence[str]) -> int:
    """The MLflow UI on what was found, with a link to the newest."""
    from audit import server

    return server.main(words)


def _runs(words: Sequence[str]) -> int:
    """List and compare what was found so far."""
    from audit import listing

    return listing.main(words)


def _coverage(words: Sequence[str]) -> int:
    """Measure how often each bound exceeds the truth."""
    from audit.coverage import bench

    return bench.main(words)


def _reconstruct(words: Sequence[str]) -> int:
    """What an ε means: the share of secret bits that noisy counts give back."""
    from rich.console import Console

    from audit import reconstruct
    from audit.report import reconstruction

    if {"-h", "--help"} & set(words):
        print(f"audit reconstruct [key=value …]\n\n{reconstruct.Reconstruction.__doc__}")
        return 0
    asked = reconstruct.parse(words)
    points, console = asked(), Console()
    console.print(reconstruct.summary(asked, points))
    reconstruction.save_reconstruction(
        f"{asked.n} bits from {asked.m} noisy counts",
        [(p.sd, p.share, p.error) for p in points],
        lambda sd: reconstruct.predicted(asked.n, asked.m, sd),
        asked.out,
    )
    console.print(f"figure: {asked.out}", soft_wrap=True)
    return 0


def _verify(words: Sequence[str]) -> int:
    """Compute what ex-post privacy rests on."""
    from audit import verify

    return verify.main(words)


def _accuracy_first(words: Sequence[str]) -> int:
    """Train with increasing ε until an accuracy is reached."""
    from audit.session import LadderSession

    if {"--help", "-h"} & set(words):
        return _page_of_ladders()
    _register()
    if PASSIVE & set(words):
        _hydra(lambda config: None, words, LADDER)
        return 0
    return _play(words, LadderSession, "accuracy-first", LADDER, build_ladder)


def _domain(words: Sequence[str]) -> int:
    """Draft the domain file of your own table, for you to check."""
    from audit import domains

    return domains.main(words)


def _page_of_ladders() -> int:
    """The page that `audit accuracy-first --help` prints."""
    from rich.console import Console

    Console().print(usage.ladder_page([folder("conf"), Path.cwd() / "conf"]), soft_wrap=False)
    return 0


def build_ladder(config: Any, choices: dict[str, str | None], overrides: Sequence[str] = ()) -> Any:
    """A composed configuration → a plan to climb; as `build`.

    Raises:
        AuditError: unknown keys, values out of range, missing values.
    """
    from omegaconf import OmegaConf

    from audit.accuracy_first import LadderPlan

    plain = OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
    resolved, written = _resolve(plain), _written(plain)
    _check_keys(resolved, choices, overrides, LADDER)
    parts = {
        group: _instantiate(group, resolved[group], written.get(group), choices.get(group))
        for group in (*LADDER_GROUPS, "target")
    }
    told = [
        str(choices["task"]),
        str(choices["checker"]),
        f"threshold={_figure(resolved['threshold'])}",
    ]
    told += [f"ladder={choices['ladder']}"] if choices["ladder"] != "geometric" else []
    return LadderPlan(
        name=" ".join([*told, f"seed={resolved['seed']}"]),
        config={
            **_public(plain),
            "choices": {k: v for k, v in choices.items() if not k.startswith("hydra/")},
        },
        **parts,
        seed=_seed(resolved["seed"]),
        root=_root(resolved["root"]),
    )


PLAN_PAGE = """audit plan [group=option …] [key=value …] [-m]

What the audit that these words describe could find, before anything is played: the mu_emp to expect
from a perfect attack, the least μ that is detected with a chance of 80 %, the test trials that
detect 1.25 times the claim so often, and the seconds and memory that it takes. What cannot work is
refused here as it is by audit itself.

Examples
  audit plan trials=100000
  audit plan mechanism=aim eps=0.5,1,2 -m     one row an audit

Options are those of audit: audit --help"""


def _plan(words: Sequence[str]) -> int:
    """What the audit that these words describe could find, before anything is played."""
    from audit import session

    if {"--help", "-h"} & set(words):
        print(PLAN_PAGE)
        return 0
    _register()
    flags = {"-m", "--multirun"}
    _, plans = check([word for word in words if word not in flags], bool(flags & set(words)))
    session.show_plans(plans)
    return 0


# --- an audit, or a sweep of them -----------------------------------------------------------------


def _compose_and_play(words: Sequence[str]) -> int:
    from audit.session import Session

    _register()
    if PASSIVE & set(words):
        if any(word.startswith("query=") for word in words):
            print(*completions(os.environ.get("COMP_LINE", "")))
        _hydra(lambda config: None, words)
        return 0
    return _play(words, Session)


def _play(
    words: Sequence[str],
    session: Any,
    named: str = "",
    primary: str = "config",
    make: Callable[..., Any] | None = None,
) -> int:
    """Check every job, open a session of that class, and let Hydra go through the jobs: the exit
    status."""
    # argparse wants them before the overrides
    flags = [word for word in words if word.startswith("-")]
    overrides = [word for word in words if not word.startswith("-")]
    sweep, plans = check(overrides, bool({"-m", "--multirun"} & set(flags)), primary, make)
    told = [mask(override) for override in overrides]
    command = shlex.join(["python", "-m", "audit", *filter(None, [named]), *told, *flags])
    with session.open(plans, sweep, command) as opened:
        jobs = iter(plans)  # Hydra takes them in the same order
        _hydra(lambda config: opened.job(next(jobs)), [*flags, *overrides], primary)
    return int(opened.status)


def check(
    overrides: Sequence[str],
    many: bool,
    primary: str = "config",
    make: Callable[..., Any] | None = None,
) -> tuple[str | None, list[Any]]:
    """Compose and instantiate every job, before anything is played.

    Args:
        overrides: the words of the command line.
        many: whether ``-m`` was given.
        primary: the configuration that is overridden.
        make: what turns a composed one into a plan; `build` by default.

    Returns:
        The sweep's name (None for a single audit), and a plan for every job.
    """
    from hydra import initialize_config_dir
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    _check_hydras_keys(overrides)
    with initialize_config_dir(str(folder("conf")), version_base="1.3", job_name="audit"):
        fixed = [word for word in overrides if not _parse([word])[0].is_sweep_override()]
        base = _compose(fixed, primary)
        many = many or base.hydra.mode == RunMode.MULTIRUN
        params = (
            OmegaConf.to_container(base.hydra.sweeper.params or OmegaConf.create({}))
            if many
            else {}
        )
        assert isinstance(params, dict)
        swept = [f"{key!s}={value!s}" for key, value in params.items()]
        jobs = expand([*swept, *overrides]) if many else [list(overrides)]
        configs = [base if job == fixed else _compose(job, primary) for job in jobs]
        told = ((c, dict(c.hydra.runtime.choices), _overrides_of(c)) for c in configs)
        plans = [(make or build)(*each) for each in told]
    name = base.hydra.runtime.choices.get("sweep")
    return (name or " ".join(map(mask, overrides)) or "sweep") if many else None, plans


def compose(*overrides: str) -> Any:
    """The plan of one audit, from the words that the command line takes; ``audit.audit`` plays it.

    >>> plan = compose("mechanism=gaussian", "eps=2", "backend=serial")
    >>> plan.mechanism.eps, plan.seed
    (2.0, 0)

    Args:
        *overrides: such as ``mechanism=aim`` and ``eps=1``.

    Returns:
        An `audit.Plan`, checked: its options exist and go together.

    Raises:
        AuditError: the words are wrong, or what they name does not go together.
    """
    _register()
    try:
        _, (plan,) = check(overrides, many=False)
    except AuditError:
        raise
    except Exception as error:  # Hydra's own, in one line as on the command line
        sentence = explain(error)
        if sentence is None:
            raise
        raise AuditError(sentence) from error
    return plan


def _overrides_of(config: Any) -> list[str]:
    """The words that an audit was composed from, as they were typed: nothing of the environment is
    in their place."""
    from omegaconf import OmegaConf

    return [
        str(word)
        for word in cast(Any, OmegaConf.to_container(config.hydra.overrides.task, resolve=False))
    ]


def _compose(overrides: Sequence[str], primary: str) -> Any:
    import yaml  # type: ignore[import-untyped]
    from hydra import compose
    from hydra.errors import ConfigCompositionException, MissingConfigException

    try:
        return compose(_primary(primary), list(overrides), return_hydra_config=True)
    except MissingConfigException:
        raise
    except ConfigCompositionException as error:
        raise AuditError(_unknown_key(str(error), primary)) from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise AuditError(
            f"cannot read a YAML file{_foreign_yaml()} ({_flat(error)}); fix it, or move it away"
        ) from error
    except ValueError as error:  # hydra's, on a group's option that is no name
        raise AuditError(f"{' '.join(overrides)}: {error}") from error


def _primary(name: str) -> str:
    """Ours under a name of its own, so that another project's ``conf/config.yaml`` beside it is
    never taken for it."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    node = OmegaConf.load(folder("conf") / f"{name}.yaml")
    ConfigStore.instance().store(name=f"audit_{name}", node=node, provider="audit")
    return f"audit_{name}"


def _foreign_yaml() -> str:
    """Which files of ``./conf`` are no YAML, for a message."""
    from omegaconf import OmegaConf

    broken = []
    for path in sorted((Path.cwd() / "conf").rglob("*.yaml")):
        try:
            OmegaConf.load(path)
        except Exception:  # whatever is in it
            broken.append(str(path.relative_to(Path.cwd())))
    return f": {', '.join(broken)}" if broken else ""


def _flat(error: BaseException) -> str:
    return " ".join(str(error).split())


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """The jobs of a sweep, as Hydra's basic sweeper makes them: the product of all lists, a later
    key replacing one before.

    Raises:
        AuditError: when there are no jobs, such as for a ``glob(…)`` that matches nothing.

    >>> expand(["mechanism=mst,aim", "eps=1,2", "eps=4"])
    [['mechanism=mst', 'eps=4'], ['mechanism=aim', 'eps=4']]
    """
    lists: dict[str, list[str]] = {}
    for override in _parse(overrides):
        key = override.get_key_element()
        if override.is_sweep_override():
            if not override.is_discrete_sweep():
                raise AuditError(
                    f"{override.input_line}: intervals cannot be swept; list the values, such as "
                    "eps=0.5,1,2"
                )
            lists[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
            if not lists[key]:
                raise AuditError(
                    f"{override.input_line}: nothing matches, so there is no audit to run; check "
                    "the pattern"
                )
        else:
            lists[key] = [f"{key}={override.get_value_element_as_str()}"]
    return [list(job) for job in itertools.product(*lists.values())]


def _parse(overrides: Sequence[str]) -> list[Any]:
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    loader = (
        GlobalHydra.instance().config_loader() if GlobalHydra.instance().is_initialized() else None
    )
    return OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))


def build(config: Any, choices: dict[str, str | None], overrides: Sequence[str] = ()) -> Any:
    """A composed configuration → a plan; every option of every group is instantiated, which checks
    it.

    Args:
        config: what Hydra composed.
        choices: which option of each group was chosen.
        overrides: what was given for this audit, for its name.

    Raises:
        AuditError: unknown keys, values out of range, missing values.
    """
    from omegaconf import OmegaConf

    from audit import experiment
    from audit.judgement.bounds import in_order

    plain = OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
    resolved = _resolve(plain)
    written = _written(plain)
    _check_keys(resolved, choices, overrides)
    shown, overrides = _public(plain), [mask(override) for override in overrides]
    parts = {
        group: _instantiate(group, resolved[group], written.get(group), choices[group])
        for group in GROUPS
    }
    _check_eps(resolved)
    parts["criterion"], shown, choices = _criterion_of(parts, shown, choices)
    return experiment.Plan(
        name=_name(shown, choices, overrides),
        config={
            **shown,
            "choices": {k: v for k, v in choices.items() if not k.startswith("hydra/")},
        },
        mechanism=parts["mechanism"],
        challenge=parts["canary"],
        features=parts["features"],
        attacker=parts["attacker"],
        criterion=parts["criterion"],
        estimators=in_order(parts["estimator"], [*_other_estimators(plain, choices["estimator"])]),
        accusing=_instantiate("accuse", resolved["accuse"], written.get("accuse")),
        protocol=parts["protocol"],
        backend=parts["backend"],
        seed=fresh_seed(_seed(resolved["seed"]), _look(resolved["look"])),
        root=_root(resolved["root"]),
        provenance={"command": command(overrides)},
        chosen=_taken_along(choices, overrides),
    )


def _taken_along(choices: dict[str, str | None], overrides: Sequence[str]) -> tuple[str, ...]:
    """What a protocol brought, since its own estimator is the one that fits and no other was asked
    for."""
    usual = usage.usual(folder("conf") / "config.yaml")
    same = any(choices[group] == usual[group] for group in ("protocol", "estimator"))
    if same or any(override.lstrip("+").startswith("estimator=") for override in overrides):
        return ()
    return (
        f"estimator={choices['estimator']} was taken, the one that fits "
        f"protocol={choices['protocol']}; estimator=… chooses another.",
    )


def _criterion_of(
    parts: dict[str, Any], resolved: dict[str, Any], choices: dict[str, str | None]
) -> tuple[Any, dict[str, Any], dict[str, str | None]]:
    """The criterion that the claim takes where none was chosen, and what is logged: its own name
    and options."""
    from audit.criteria import ByNotion

    chosen, claims = parts["criterion"], getattr(parts["mechanism"], "claims", ())
    if not isinstance(chosen, ByNotion) or not claims:
        return chosen, resolved, choices
    used = chosen.criterion(claims[0].notion)
    name = f"{type(used).__module__}.{type(used).__qualname__}"
    # ClaimLower is claim_lower.yaml
    option = re.sub(r"(?<!^)(?=[A-Z])", "_", type(used).__name__).lower()
    logged = {**resolved, "criterion": {"_target_": name, **dataclasses.asdict(cast(Any, used))}}
    return used, logged, {**choices, "criterion": option}


def _resolve(config: Any) -> dict[str, Any]:
    from omegaconf import OmegaConf

    resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def _written(config: Any) -> dict[str, Any]:
    """The configuration as it was written, so that a message can name the key that a value comes
    from."""
    from omegaconf import OmegaConf

    written = OmegaConf.to_container(config, resolve=False)
    assert isinstance(written, dict)
    return {str(key): value for key, value in written.items()}


def _check_keys(
    resolved: dict[str, Any],
    choices: dict[str, str | None],
    overrides: Sequence[str],
    primary: str = "config",
) -> None:
    """Refuse a configuration that lacks what the primary one has, and keys of the command line that
    nobody reads.

    Raises:
        AuditError: names the key.
    """
    values, groups = _keys_of(primary)
    for key in [*values, *groups]:
        if key not in resolved or (key in groups and not isinstance(choices.get(key), str)):
            raise AuditError(
                f"{key} has been taken out of the configuration; leave it in, such as {key}=… "
                "with a value"
            )
    known = {*values, *groups, *NOTED, "case", "sweep", "hydra"}
    # Hydra knows of the others
    for override in (each for each in overrides if each.startswith("+")):
        key = re.split(r"[.=@/]", override.lstrip("+"), maxsplit=1)[0]
        if key not in known:
            raise AuditError(f"no key {key!r}{nearest(key, known)} See audit --help")


def _check_hydras_keys(overrides: Sequence[str]) -> None:
    """Raise AuditError if a key is added to Hydra's own configuration that Hydra does not read."""
    from hydra.conf import HydraConf

    known = [field.name for field in dataclasses.fields(HydraConf)]
    for override in overrides:
        added = re.match(r"\++hydra\.(\w+)", override)
        if added and added[1] not in known:
            raise AuditError(
                f"hydra has no key {added[1]!r}{nearest(added[1], known)} See audit --hydra-help"
            )


def _keys_of(primary: str) -> tuple[list[str], list[str]]:
    """Values and groups of a primary configuration."""
    from omegaconf import OmegaConf

    loaded = OmegaConf.load(folder("conf") / f"{primary}.yaml")
    groups = GROUPS if primary == "config" else LADDER_GROUPS
    return [str(key) for key in loaded if key not in ("defaults", "hydra")], list(groups)


# --- what is kept, and what is not ----------------------------------------------------------------

HIDDEN = "***"
SECRET = (
    r"(?:\w*pass(?:word|wd|phrase)|pwd|\w*token|\w*secret|\w*credentials?|(?:\w*[_-])?key|apikey)"
)


def mask(text: str) -> str:
    """A word of a command line without what looks like a secret: names, tags and reports are read
    by others.

    >>> mask("mechanism.argv=[python,mine.py,--db-password,hunter2,--token=abc]")
    'mechanism.argv=[python,mine.py,--db-password,***,--token=***]'
    >>> mask("mechanism.argv=[mine,--password,'a, b','--token=c, d',x]")
    "mechanism.argv=[mine,--password,***,'--token=***',x]"
    >>> mask("canary.api_key=abc")
    'canary.api_key=***'
    >>> mask("mechanism.path=s3://me:pw@host/rows.csv")
    'mechanism.path=s3://***@host/rows.csv'
    >>> mask("mechanism=broken/new_key")
    'mechanism=broken/new_key'
    """
    whole = re.fullmatch(rf"([+\w./@]*\b{SECRET})=(.+)", text, flags=re.IGNORECASE)
    if whole:
        return f"{whole[1]}={HIDDEN}"
    flag = rf"--?[\w-]*?\b{SECRET}"
    text = re.sub(rf"(['\"])({flag}=).*?\1", rf"\1\2{HIDDEN}\1", text, flags=re.IGNORECASE)
    word = r"""(?:'[^']*'|"[^"]*"|[^,\]'"]+)"""
    text = re.sub(rf"({flag}['\"]?[=,\s]\s*){word}", rf"\1{HIDDEN}", text, flags=re.IGNORECASE)
    return re.sub(r"(://)[^/@\s]+@", rf"\1{HIDDEN}@", text)


def _masked(value: Any, key: str = "") -> Any:
    """A configuration without what stands under a secret's key, or behind a secret's flag."""
    if isinstance(value, dict):
        return {name: _masked(below, str(name)) for name, below in value.items()}
    if re.fullmatch(SECRET, key, flags=re.IGNORECASE) and value is not None:
        return HIDDEN
    if isinstance(value, list):
        flags = ["", *map(str, value)][: len(value)]
        behind = [
            re.fullmatch(rf"--?(?:[\w-]*\b)?{SECRET}", flag, flags=re.IGNORECASE) for flag in flags
        ]
        return [
            HIDDEN if secret else _masked(word) for word, secret in zip(value, behind, strict=True)
        ]
    return mask(value) if isinstance(value, str) else value


def _public(config: Any) -> dict[str, Any]:
    """The resolved configuration as it may be kept: nothing from the environment is in it, and no
    secret.

    Whatever was interpolated from a variable, at however many removes, is told by resolving it once
    more with another environment.
    """
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    def decode(expr: Any, _parent_: Any, _node_: Any) -> Any:
        return expr if expr == HIDDEN else oc.decode(expr, _parent_, _node_)

    OmegaConf.register_new_resolver("oc.env", lambda *words: HIDDEN, replace=True)
    OmegaConf.register_new_resolver("oc.decode", decode, replace=True)
    try:
        return _masked(_resolve(config.copy()))
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
        OmegaConf.register_new_resolver("oc.decode", oc.decode, replace=True)


def _figure(value: Any) -> str:
    """A number without needless zeros; anything else as it is.

    >>> _figure(1.0), _figure("1")
    ('1', '1')
    """
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _root(value: Any) -> Path:
    """The folder of everything that is kept."""
    if not isinstance(value, str) or not value:
        raise AuditError(
            f"root={value}: must be the name of a folder; give it as text, such as root=./mlruns"
        )
    try:
        Path(value).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        # a link to itself, or a name that no folder can have
        raise AuditError(
            f"root={value!r}: no such folder can be ({_flat(error)}); give another: root=…"
        ) from error
    return Path(value)


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise AuditError(f"seed={value}: must be a whole number, 0 or more")
    return value


def _look(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_LOOKS:
        raise AuditError(f"look={value}: must be a whole number from 1 to {MOST_LOOKS}")
    return value


def _instantiate(group: str, node: Any, written: Any = None, option: str | None = None) -> Any:
    from hydra.utils import instantiate

    if not isinstance(node, dict) or "_target_" not in node:
        own = Path("conf") / group / f"{option}.yaml"
        where = (
            f" ({own} of the working directory, which is found before ours)"
            if option and own.exists()
            else ""
        )
        cure = (
            "name the class that it makes, as pkg.module.Class, or move the file away"
            if where
            else ("name the class that it makes, as pkg.module.Class")
        )
        raise AuditError(f"{group}: the option has no _target_{where}; {cure}")
    try:
        unknown = sorted(set(node) - set(_fields(node)) - {"_target_"})
        if unknown and _fields(node):  # pydantic would drop it in silence
            raise AuditError(
                renamed_hint(f"{group}.{unknown[0]}")
                or f"{group} has no key {unknown[0]!r}{nearest(unknown[0], _fields(node))}"
            )
        for key, below in node.items():  # an option inside the option, such as mechanism.claim
            if (
                isinstance(below, dict)
                and "_target_" in below
                and (odd := sorted(set(below) - {*_fields(below), "_target_"}))
            ):
                raise AuditError(
                    f"{group}.{key} has no key {odd[0]!r}{nearest(odd[0], _fields(below))}"
                )
        return instantiate(node, _convert_="all")
    except (Exception, SystemExit) as error:  # what stands behind a _target_ may be anybody's code
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, AuditError):
            cause = cause.__cause__
        raise AuditError(_of_option(group, node, cause, written or {})) from error


def _other_estimators(config: Any, chosen: str | None) -> Iterator[Any]:
    """Every estimator of ours but the chosen one, as its YAML says: all bounds that are allowed are
    logged.

    One of somebody's own runs where it is chosen: a YAML that lies in a folder of our name may be
    anything.
    """
    from omegaconf import OmegaConf

    for path in sorted((folder("conf") / "estimator").glob("*.yaml")):
        if path.stem != chosen:
            shelf = OmegaConf.merge(
                config, {"estimator": None}, {"estimator": OmegaConf.load(path)}
            )
            yield _instantiate("estimator", _resolve(shelf.estimator))


def _name(config: dict[str, Any], choices: dict[str, str | None], overrides: Sequence[str]) -> str:
    """What tells an audit from its neighbours, for people."""
    parts = [
        _audited(config["mechanism"], choices),
        *_claimed(config),
        choices["attacker"],
        choices["criterion"],
    ]
    usual = {
        "canary": "worst_case",
        "features": "hybrid",
        "protocol": "holdout",
        "estimator": "joint_bayes",
    }
    parts += [choices[group] for group, option in usual.items() if choices[group] != option]
    parts += [f"seed={config['seed']}"] if config["seed"] else []
    parts += told_apart(overrides)
    case = choices.get("case")
    return (f"{case}: " if case else "") + " ".join(str(part) for part in parts)


def _audited(mechanism: dict[str, Any], choices: dict[str, str | None]) -> str:
    """The mechanism, and whose: an option that runs somebody's own code or reads their file says
    which."""
    whose = mechanism.get("target") or mechanism.get("argv") or mechanism.get("path") or ()
    words = [whose] if isinstance(whose, str) else [str(word) for word in whose]
    return " ".join([str(choices["mechanism"]), *words])


def _check_eps(resolved: dict[str, Any]) -> None:
    """Refuse what is no ε even where the mechanism, which claims something else, does not look at
    it."""
    if isinstance(resolved["eps"], bool) or not isinstance(resolved["eps"], int | float):
        raise AuditError(f"eps={resolved['eps']!r}: must be a number")


def _claimed(config: dict[str, Any]) -> list[str]:
    """What is claimed: by a claim of the mechanism's own where it has one."""
    claim = config["mechanism"].get("claim") if isinstance(config["mechanism"], dict) else None
    if not isinstance(claim, dict):
        return [f"eps={_figure(config['eps'])}"]
    return [f"{key}={value:g}" for key, value in claim.items() if isinstance(value, int | float)]


def command(overrides: Sequence[str]) -> str:
    """What plays one audit again, by itself where it was one of a sweep.

    >>> command(["sweep=paper", "case=mst"])
    'python -m audit sweep=paper case=mst hydra.mode=RUN'
    """
    of_sweep = any(override.startswith("sweep=") for override in overrides)
    return shlex.join(
        ["python", "-m", "audit", *overrides, *(["hydra.mode=RUN"] if of_sweep else [])]
    )


def told_apart(overrides: Sequence[str]) -> list[str]:
    """The overrides that no other word of an audit's name tells, without prefixes and folders.

    >>> told_apart(["mechanism=mst", "eps=2", "+mechanism.noise_fraction=0.5",
    ...     "canary.csv=data/adult.csv", "seed=1"])
    ['mechanism.noise_fraction=0.5', 'canary.csv=adult.csv']
    """
    pairs = (override.lstrip("+").partition("=") for override in overrides if "=" in override)
    told = ((key, value) for key, _, value in pairs if key not in NAMED)
    return [f"{key}={value.rpartition('/')[2] or value}" for key, value in told]


# --- hydra ----------------------------------------------------------------------------------------


def folder(name: str) -> Path:
    """Where ``conf`` or ``sweeps`` is: in the installed package, else in the checkout."""
    package = Path(__file__).parent
    return package / name if (package / name).is_dir() else package.parents[1] / name


def _hydra(task: Callable[[Any], None], words: Sequence[str], primary: str = "config") -> None:
    import hydra

    sys.argv = ["audit", *words]
    hydra.main(config_path=str(folder("conf")), config_name=_primary(primary), version_base="1.3")(
        task
    )()


def _register() -> None:
    """Make sweeps a group, and put a user's own ``./conf`` before ours."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.config_store import ConfigStore
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf import OmegaConf

    store = ConfigStore.instance()
    for home in (folder("sweeps"), Path.cwd() / "sweeps"):
        for path in sorted(home.glob("*.yaml")):
            # a file that cannot be read is named when it is chosen
            with contextlib.suppress(Exception):
                store.store(
                    group="sweep",
                    name=path.stem,
                    node=OmegaConf.load(path),
                    package="_global_",
                    provider="audit",
                )

    # What a look may spend of an error probability; see docs/error-budget.md.
    OmegaConf.register_new_resolver(
        "share_of_error", lambda total, look: total * share_of_error(_look(look)), replace=True
    )

    class OwnConf(SearchPathPlugin):  # type: ignore[misc]
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            own = Path.cwd() / "conf"
            if own.is_dir() and own.resolve() != folder("conf").resolve():
                search_path.prepend("own", f"file://{own}")

    Plugins.instance().register(OwnConf)


# --- errors ---------------------------------------------------------------------------------------


def explain(error: BaseException) -> str | None:
    """One line with the cause and the cure, for errors that a person can fix; None for others,
    which are bugs."""
    import yaml
    from hydra.errors import (
        ConfigCompositionException,
        HydraException,
        MissingConfigException,
        OverrideParseException,
    )
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    if isinstance(error, AuditError):
        return str(error)
    if isinstance(error, MissingConfigException):
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        if group == "sweep" and (own := Path("sweeps") / f"{option}.yaml").exists():
            return f"cannot read {own} of the working directory as YAML; fix it"
        inner = (
            sorted(path.stem for path in (folder("conf") / group).glob("*.yaml"))
            if "/" in group
            else []
        )
        # hydra lists those of the outermost group
        options = inner or [str(o) for o in error.options or ()]
        return (
            f"no {group or 'config'} {option!r}{nearest(option, options)} There are: "
            f"{', '.join(options)}"
        )
    if isinstance(error, OverrideParseException):
        return (
            f"cannot read {error.override!r} ({str(error).splitlines()[0]}); an override has the "
            "form key=value"
        )
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} has no value; give one: {error.full_key}=…"
    if isinstance(error, ConfigCompositionException):
        return _unknown_key(str(error))
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _first_line(str(error))
    if isinstance(error, yaml.YAMLError):
        return f"cannot read a YAML file ({' '.join(str(error).split())}); fix it"
    if isinstance(error, RuntimeError) and "Symlink loop" in str(error):
        return f"{_flat(error)}; a folder is a link to itself: remove it, or give another one"
    if isinstance(error, OSError):
        return (
            f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}; make "
            "room or fix the path"
        )
    return None


def _unknown_key(text: str, primary: str = "config") -> str:
    from omegaconf import OmegaConf

    match = re.search(r"Could not override '([^']+)'", text)
    if match is None:
        return _first_line(text)
    key = match[1].split("@")[0]
    values, groups = _keys_of(primary)
    known = [*values, *groups, "sweep", *(["case"] if primary == "config" else [])]
    for path in (path for group in groups for path in (folder("conf") / group).rglob("*.yaml")):
        place = ".".join(path.relative_to(folder("conf")).parent.parts)
        keys = (
            str(inner) for inner in OmegaConf.load(path) if inner not in ("_target_", "defaults")
        )
        known += [f"{place}.{inner}" for inner in keys]
    hint = renamed_hint(key)
    if hint is not None:
        return hint
    group, _, inner = key.partition(".")
    if key in known and inner:
        return f"the chosen {group} has no key {inner!r}, another one has; see audit --help"
    if primary != "config" and key.partition(".")[0] in (*GROUPS, "trials", "eps"):
        return (
            f"audit accuracy-first has no key {key!r}: that is one of audit's own; see audit "
            "accuracy-first --help"
        )
    page = "audit --help" if primary == "config" else "audit accuracy-first --help"
    return f"no key {key!r}{nearest(key, map(str, known))} See {page}"


def _first_line(text: str) -> str:
    first = text.splitlines()[0]
    return first + (
        "; give -m to play one audit a value" if first.startswith("Ambiguous value") else ""
    )


def _of_option(
    group: str, node: dict[str, Any], cause: BaseException, written: dict[str, Any]
) -> str:
    """What is wrong with one option, in one line, under the key that a person gave."""
    from pydantic import ValidationError

    if isinstance(cause, AuditError):
        return str(cause)
    if not isinstance(cause, ValidationError):
        what = " ".join(f"{type(cause).__name__}: {cause}".split())
        return (
            f"{group}: cannot make {node.get('_target_')} ({what}); check the name and its module"
        )
    # Of a choice of types the deepest error is about the one that was meant.
    deepest = max(cause.errors(), key=lambda error: len(error["loc"]))
    if not deepest["loc"]:  # what a class itself finds wrong with its values
        return f"{group}: {deepest['msg'].removeprefix('Value error, ')}"
    key, *inner = deepest["loc"]
    place = "".join(f"[{part}]" for part in inner if isinstance(part, int))
    for part, below in node.items():  # an option inside the option, such as mechanism.claim
        if isinstance(below, dict) and str(below.get("_target_")).rpartition(".")[2] == cause.title:
            group, written = f"{group}.{part}", written.get(part) or {}
    value = str(written.get(str(key)))
    from_environment = "oc.env" in value
    follows = re.fullmatch(r"\$\{(?:oc\.select:)?([\w.]+)[^}]*\}", value)
    where = follows[1] if follows and not from_environment else f"{group}.{key}"
    shown = (
        f"{where}{place}={HIDDEN}"
        if from_environment
        else mask(f"{where}{place}={deepest['input']}")
    )
    return f"{shown}: {deepest['msg'][0].lower()}{deepest['msg'][1:]}"


def _fields(node: dict[str, Any]) -> list[str]:
    from hydra.utils import get_class

    target = get_class(node["_target_"])
    return (
        [field.name for field in dataclasses.fields(target)]
        if dataclasses.is_dataclass(target)
        else []
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` where something known is close, else a full stop.

    >>> nearest("mts", ["mst", "aim"])
    "; did you mean 'mst'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "."
