"""The command line: subcommands, checks before play, errors of one line. The only door to hydra.

A first word without ``=`` is a subcommand; everything else goes to Hydra. All jobs of a sweep are composed and
instantiated before the first one is played.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from audit import interrupted, usage
from audit.core import AuditError
from audit.spending import MOST_LOOKS, fresh_seed, share_of_error

GROUPS = tuple(usage.GROUPS)
LADDER, LADDER_GROUPS = "accuracy_first", ("task", "ladder", "checker")
NAMED = {*GROUPS, "case", "sweep", "eps", "seed", "root"}  # keys that a name tells anyway, or that tell nothing
PASSIVE = {"--hydra-help", "--version", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status.

    0; 1 where a control came out otherwise than it must; 2 for what a person can mend; 130 after Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # hydra raises, instead of printing twenty lines and leaving
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a user's _target_
    try:
        if words and "=" not in words[0] and not words[0].startswith("-"):
            return _subcommand(words[0])(words[1:])
        if {"--help", "-h"} & set(words):
            return _help()
        return _compose_and_play(words)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, BrokenPipeError):  # as in `audit runs | head`: who reads has had enough
            return 141
        if interrupted(error):
            return _say("stopped; finished blocks are kept, and the same command goes on from there", 130)
        line = explain(error)
        if line is None:
            raise
        return _say(line, 2)
    finally:
        _silence_a_full_output()


def _say(line: str, status: int) -> int:
    print("audit:", " ".join(line.split()), file=sys.stderr)
    return status


def _silence_a_full_output() -> None:
    """Output that cannot be written, to a full disk say, would be tried again at exit, with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


# --- subcommands --------------------------------------------------------------------------------------------------


def _subcommand(word: str) -> Callable[[Sequence[str]], int]:
    known = commands()
    if word in known:
        return known[word]
    raise AuditError(f"no command {word!r}{nearest(word, known)} An override has the form key=value")


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
    }


def completions(line: str) -> list[str]:
    """The subcommands that the first word of a line under completion may become; Hydra completes all else.

    >>> completions("audit ru"), completions("audit mechanism=mst ru")
    (['runs'], [])
    """
    words = line.split(" ")
    return [name for name in commands() if len(words) == 2 and name.startswith(words[1])]


def _help() -> int:
    """The page that `audit --help` prints."""
    from rich.console import Console

    lines = {name: usage.first_part((command.__doc__ or "").splitlines()[0]) for name, command in commands().items()}
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
    """Climb a ladder of ε until an accuracy is reached: Hydra's second primary configuration."""
    from audit.session import LadderSession

    _register()
    if (PASSIVE | {"--help", "-h"}) & set(words):
        _hydra(lambda config: None, words, LADDER)
        return 0
    return _play(words, LadderSession, "accuracy-first", LADDER, build_ladder)


def build_ladder(config: Any, choices: dict[str, str | None], overrides: Sequence[str] = ()) -> Any:
    """A composed configuration → a plan to climb; as `build`.

    Raises:
        AuditError: unknown keys, values out of range, missing values.
    """
    from omegaconf import OmegaConf

    from audit.accuracy_first import LadderPlan

    plain = OmegaConf.masked_copy(config, [key for key in config if key != "hydra"])
    resolved, written = _resolve(plain), _written(plain)
    parts = {group: _instantiate(group, resolved[group], written.get(group)) for group in (*LADDER_GROUPS, "target")}
    told = [str(choices["task"]), str(choices["checker"]), f"threshold={resolved['threshold']:g}"]
    told += [f"ladder={choices['ladder']}"] if choices["ladder"] != "geometric" else []
    return LadderPlan(
        name=" ".join([*told, f"seed={resolved['seed']}"]),
        config={**resolved, "choices": {k: v for k, v in choices.items() if not k.startswith("hydra/")}},
        **parts,
        seed=_seed(resolved["seed"]),
        root=Path(resolved["root"]),
    )


def _plan(words: Sequence[str]) -> int:
    """What the audit that these words describe could find, before anything is played."""
    from audit import session

    if {"--help", "-h"} & set(words):
        return _help()
    _register()
    flags = {"-m", "--multirun"}
    _, plans = check([word for word in words if word not in flags], bool(flags & set(words)))
    session.show_plans(plans)
    return 0


# --- an audit, or a sweep of them -----------------------------------------------------------------------------------


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
    words: Sequence[str], session: Any, named: str = "", primary: str = "config", make: Callable[..., Any] | None = None
) -> int:
    """Check every job, open a session of that class, and let Hydra go through the jobs: the exit status."""
    flags = [word for word in words if word.startswith("-")]  # argparse wants them before the overrides
    overrides = [word for word in words if not word.startswith("-")]
    sweep, plans = check(overrides, bool({"-m", "--multirun"} & set(flags)), primary, make)
    command = shlex.join(["python", "-m", "audit", *filter(None, [named]), *overrides, *flags])
    with session.open(plans, sweep, command) as opened:
        jobs = iter(plans)  # Hydra takes them in the same order
        _hydra(lambda config: opened.job(next(jobs)), [*flags, *overrides], primary)
    return int(opened.status)


def check(
    overrides: Sequence[str], many: bool, primary: str = "config", make: Callable[..., Any] | None = None
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

    with initialize_config_dir(str(folder("conf")), version_base="1.3", job_name="audit"):
        fixed = [word for word in overrides if not _parse([word])[0].is_sweep_override()]
        base = _compose(fixed, primary)
        many = many or base.hydra.mode == RunMode.MULTIRUN
        params = OmegaConf.to_container(base.hydra.sweeper.params or OmegaConf.create({})) if many else {}
        assert isinstance(params, dict)
        swept = [f"{key!s}={value!s}" for key, value in params.items()]
        jobs = expand([*swept, *overrides]) if many else [list(overrides)]
        configs = [base if job == fixed else _compose(job, primary) for job in jobs]
        told = ((c, dict(c.hydra.runtime.choices), list(c.hydra.overrides.task)) for c in configs)
        plans = [(make or build)(*each) for each in told]
    name = base.hydra.runtime.choices.get("sweep")
    return (name or " ".join(overrides) or "sweep") if many else None, plans


def _compose(overrides: Sequence[str], primary: str) -> Any:
    from hydra import compose

    try:
        return compose(primary, list(overrides), return_hydra_config=True)
    except ValueError as error:  # hydra's, on a group's option that is no name
        raise AuditError(f"{' '.join(overrides)}: {error}") from error


def expand(overrides: Sequence[str]) -> list[list[str]]:
    """The jobs of a sweep, as Hydra's basic sweeper makes them: the product of all lists, a later key replacing one before.

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
                    f"{override.input_line}: intervals cannot be swept; list the values, such as eps=0.5,1,2"
                )
            lists[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
            if not lists[key]:
                raise AuditError(
                    f"{override.input_line}: nothing matches, so there is no audit to run; check the pattern"
                )
        else:
            lists[key] = [f"{key}={override.get_value_element_as_str()}"]
    return [list(job) for job in itertools.product(*lists.values())]


def _parse(overrides: Sequence[str]) -> list[Any]:
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    loader = GlobalHydra.instance().config_loader() if GlobalHydra.instance().is_initialized() else None
    return OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))


def build(config: Any, choices: dict[str, str | None], overrides: Sequence[str] = ()) -> Any:
    """A composed configuration → a plan; every option of every group is instantiated, which checks it.

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
    parts = {group: _instantiate(group, resolved[group], written.get(group)) for group in GROUPS}
    parts["criterion"], resolved, choices = _criterion_of(parts, resolved, choices)
    return experiment.Plan(
        name=_name(resolved, choices, overrides),
        config={**resolved, "choices": {k: v for k, v in choices.items() if not k.startswith("hydra/")}},
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
        root=Path(resolved["root"]),
        provenance={"command": command(overrides)},
    )


def _criterion_of(
    parts: dict[str, Any], resolved: dict[str, Any], choices: dict[str, str | None]
) -> tuple[Any, dict[str, Any], dict[str, str | None]]:
    """The criterion that the claim takes where none was chosen, and what is logged: its own name and options."""
    from audit.criteria import ByNotion

    chosen, claims = parts["criterion"], getattr(parts["mechanism"], "claims", ())
    if not isinstance(chosen, ByNotion) or not claims:
        return chosen, resolved, choices
    used = chosen.criterion(claims[0].notion)
    name = f"{type(used).__module__}.{type(used).__qualname__}"
    option = re.sub(r"(?<!^)(?=[A-Z])", "_", type(used).__name__).lower()  # ClaimLower is claim_lower.yaml
    logged = {**resolved, "criterion": {"_target_": name, **dataclasses.asdict(cast(Any, used))}}
    return used, logged, {**choices, "criterion": option}


def _resolve(config: Any) -> dict[str, Any]:
    from omegaconf import OmegaConf

    resolved = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def _written(config: Any) -> dict[str, Any]:
    """The configuration as it was written, so that a message can name the key that a value comes from."""
    from omegaconf import OmegaConf

    written = OmegaConf.to_container(config, resolve=False)
    assert isinstance(written, dict)
    return {str(key): value for key, value in written.items()}


def _seed(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise AuditError(f"seed={value}: must be a whole number, 0 or more")
    return value


def _look(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_LOOKS:
        raise AuditError(f"look={value}: must be a whole number from 1 to {MOST_LOOKS}")
    return value


def _instantiate(group: str, node: Any, written: Any = None) -> Any:
    from hydra.utils import instantiate

    if not isinstance(node, dict) or "_target_" not in node:
        raise AuditError(f"{group}: the option has no _target_; name the class that it makes, as pkg.module.Class")
    try:
        unknown = sorted(set(node) - set(_fields(node)) - {"_target_"})
        if unknown and _fields(node):  # pydantic would drop it in silence
            raise AuditError(f"{group} has no key {unknown[0]!r}{nearest(unknown[0], _fields(node))}")
        for key, below in node.items():  # an option inside the option, such as mechanism.claim
            if (
                isinstance(below, dict)
                and "_target_" in below
                and (odd := sorted(set(below) - {*_fields(below), "_target_"}))
            ):
                raise AuditError(f"{group}.{key} has no key {odd[0]!r}{nearest(odd[0], _fields(below))}")
        return instantiate(node, _convert_="all")
    except (Exception, SystemExit) as error:  # what stands behind a _target_ may be anybody's code
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, AuditError):
            cause = cause.__cause__
        raise AuditError(_of_option(group, node, cause, written or {})) from error


def _other_estimators(config: Any, chosen: str | None) -> Iterator[Any]:
    """Every estimator on the shelf but the chosen one, as its YAML says: all bounds that are allowed are logged."""
    from omegaconf import OmegaConf

    found: dict[str, Path] = {}
    for conf in (folder("conf"), Path.cwd() / "conf"):
        found |= {path.stem: path for path in sorted((conf / "estimator").glob("*.yaml"))}
    for name, path in found.items():
        if name != chosen:
            shelf = OmegaConf.merge(config, {"estimator": None}, {"estimator": OmegaConf.load(path)})
            yield _instantiate("estimator", _resolve(shelf.estimator))


def _name(config: dict[str, Any], choices: dict[str, str | None], overrides: Sequence[str]) -> str:
    """What tells an audit from its neighbours, for people."""
    parts = [_audited(config["mechanism"], choices), *_claimed(config), choices["attacker"], choices["criterion"]]
    usual = {"canary": "worst_case", "features": "hybrid", "protocol": "holdout", "estimator": "joint_bayes"}
    parts += [choices[group] for group, option in usual.items() if choices[group] != option]
    parts += [f"seed={config['seed']}"] if config["seed"] else []
    parts += told_apart(overrides)
    case = choices.get("case")
    return (f"{case}: " if case else "") + " ".join(str(part) for part in parts)


def _audited(mechanism: dict[str, Any], choices: dict[str, str | None]) -> str:
    """The mechanism, and whose: an option that runs somebody's own code or reads their file says which."""
    whose = mechanism.get("target") or mechanism.get("argv") or mechanism.get("path") or ()
    words = [whose] if isinstance(whose, str) else [str(word) for word in whose]
    return " ".join([str(choices["mechanism"]), *words])


def _claimed(config: dict[str, Any]) -> list[str]:
    """What is claimed: by a claim of the mechanism's own where it has one."""
    claim = config["mechanism"].get("claim") if isinstance(config["mechanism"], dict) else None
    if not isinstance(claim, dict):
        return [f"eps={config['eps']:g}"]
    return [f"{key}={value:g}" for key, value in claim.items() if isinstance(value, int | float)]


def command(overrides: Sequence[str]) -> str:
    """What plays one audit again, by itself where it was one of a sweep.

    >>> command(["sweep=paper", "case=mst"])
    'python -m audit sweep=paper case=mst hydra.mode=RUN'
    """
    of_sweep = any(override.startswith("sweep=") for override in overrides)
    return shlex.join(["python", "-m", "audit", *overrides, *(["hydra.mode=RUN"] if of_sweep else [])])


def told_apart(overrides: Sequence[str]) -> list[str]:
    """The overrides that no other word of an audit's name tells, without prefixes and folders.

    >>> told_apart(["mechanism=mst", "eps=2", "+mechanism.noise_scale=0.5", "canary.csv=data/adult.csv", "seed=1"])
    ['mechanism.noise_scale=0.5', 'canary.csv=adult.csv']
    """
    pairs = (override.lstrip("+").partition("=") for override in overrides if "=" in override)
    told = ((key, value) for key, _, value in pairs if key not in NAMED)
    return [f"{key}={value.rpartition('/')[2] or value}" for key, value in told]


# --- hydra ----------------------------------------------------------------------------------------------------------


def folder(name: str) -> Path:
    """Where ``conf`` or ``sweeps`` is: in the installed package, else in the checkout."""
    package = Path(__file__).parent
    return package / name if (package / name).is_dir() else package.parents[1] / name


def _hydra(task: Callable[[Any], None], words: Sequence[str], primary: str = "config") -> None:
    import hydra

    sys.argv = ["audit", *words]
    hydra.main(config_path=str(folder("conf")), config_name=primary, version_base="1.3")(task)()


def _register() -> None:
    """Make sweeps a group, and put a user's own ``./conf`` before ours."""
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.config_store import ConfigStore
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf import OmegaConf

    for home in (folder("sweeps"), Path.cwd() / "sweeps"):
        for path in sorted(home.glob("*.yaml")):
            ConfigStore.instance().store(
                group="sweep", name=path.stem, node=OmegaConf.load(path), package="_global_", provider="audit"
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


# --- errors -------------------------------------------------------------------------------------------------------


def explain(error: BaseException) -> str | None:
    """One line with the cause and the cure, for errors that a person can mend; None for others, which are bugs."""
    import yaml  # type: ignore[import-untyped]
    from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    if isinstance(error, AuditError):
        return str(error)
    if isinstance(error, MissingConfigException):
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        inner = sorted(path.stem for path in (folder("conf") / group).glob("*.yaml")) if "/" in group else []
        options = inner or [str(o) for o in error.options or ()]  # hydra lists those of the outermost group
        return f"no {group or 'config'} {option!r}{nearest(option, options)} There are: {', '.join(options)}"
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r} ({str(error).splitlines()[0]}); an override has the form key=value"
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} has no value; give one: {error.full_key}=…"
    if isinstance(error, ConfigCompositionException):
        return _unknown_key(str(error))
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _first_line(str(error))
    if isinstance(error, yaml.YAMLError):
        return f"cannot read a YAML file ({' '.join(str(error).split())}); mend it"
    if isinstance(error, OSError):
        return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}; make room or mend the path"
    return None


def _unknown_key(text: str) -> str:
    from omegaconf import OmegaConf

    match = re.search(r"Could not override '([^']+)'", text)
    if match is None:
        return _first_line(text)
    key = match[1].split("@")[0]
    known = [*GROUPS, "case", "sweep"]
    for path in folder("conf").glob("*.yaml"):
        known += map(str, OmegaConf.load(path))
    for path in folder("conf").glob("*/**/*.yaml"):
        place = ".".join(path.relative_to(folder("conf")).parent.parts)
        keys = (str(inner) for inner in OmegaConf.load(path) if inner not in ("_target_", "defaults"))
        known += [f"{place}.{inner}" for inner in keys]
    group, _, inner = key.partition(".")
    if key in known and inner:
        return f"the chosen {group} has no key {inner!r}, another one has; see audit --help"
    return f"no key {key!r}{nearest(key, map(str, known))} See audit --help"


def _first_line(text: str) -> str:
    first = text.splitlines()[0]
    return first + ("; give -m to play one audit a value" if first.startswith("Ambiguous value") else "")


def _of_option(group: str, node: dict[str, Any], cause: BaseException, written: dict[str, Any]) -> str:
    """What is wrong with one option, in one line, under the key that a person gave."""
    from pydantic import ValidationError

    if isinstance(cause, AuditError):
        return str(cause)
    if not isinstance(cause, ValidationError):
        what = " ".join(f"{type(cause).__name__}: {cause}".split())
        return f"{group}: cannot make {node.get('_target_')} ({what}); check the name and its module"
    # Of a choice of types the deepest error is about the one that was meant.
    deepest = max(cause.errors(), key=lambda error: len(error["loc"]))
    if not deepest["loc"]:  # what a class itself finds wrong with its values
        return f"{group}: {deepest['msg'].removeprefix('Value error, ')}"
    key, *inner = deepest["loc"]
    place = "".join(f"[{part}]" for part in inner if isinstance(part, int))
    for part, below in node.items():  # an option inside the option, such as mechanism.claim
        if isinstance(below, dict) and str(below.get("_target_")).rpartition(".")[2] == cause.title:
            group, written = f"{group}.{part}", written.get(part) or {}
    follows = re.fullmatch(r"\$\{(?:oc\.select:)?([\w.]+)[^}]*\}", str(written.get(str(key))))
    where = follows[1] if follows else f"{group}.{key}"
    return f"{where}{place}={deepest['input']}: {deepest['msg'][0].lower()}{deepest['msg'][1:]}"


def _fields(node: dict[str, Any]) -> list[str]:
    from hydra.utils import get_class

    target = get_class(node["_target_"])
    return [field.name for field in dataclasses.fields(target)] if dataclasses.is_dataclass(target) else []


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` where something known is close, else a full stop.

    >>> nearest("mts", ["mst", "aim"])
    "; did you mean 'mst'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "."
