"""What a game's trials depend on: an edited mechanism never meets stale ones."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from audit import runner
from audit.core import AuditError
from audit.game.isolated import is_isolated
from audit.game.play import CanaryGame, Game


def fingerprint(game: Game | CanaryGame) -> dict[str, Any]:
    """What a game's trials depend on: the objects, the data sets, the seed, and the source that
    plays them.

    A mechanism that runs other code than its own names it: ``modules`` (names) and ``programs``
    (paths).

    Attackers, criteria, estimators and the number of trials are not in it, so that a sweep over
    them plays once.
    """
    pair = [game.challenge.data([bit] * len(game.challenge.canaries)) for bit in (False, True)]
    files = getattr(game.mechanism, "programs", ())
    about = {
        "game": type(game).__name__,
        "mechanism": _describe(game.mechanism),
        "features": _describe(game.features),
        "canaries": _digest(game.challenge.canaries),
        "data": [_digest(data) for data in pair],
        "seed": game.seed,
        "source": _sources(game),
    }
    return about | ({"programs": {str(path): _contents(path) for path in files}} if files else {})


def _sources(game: Game | CanaryGame) -> dict[str, str]:
    """Sources of everything that plays; of somebody's own modules, as the process has them that
    plays them.

    A child that ended is followed by another one, which imports what has been edited meanwhile: a
    process that had read the old text would keep its trials under the wrong name. What was typed
    into a script no child can read.
    """
    names = [*sorted(_modules(game.mechanism) | _modules(game.features)), type(game).__module__]
    if not is_isolated(game.mechanism):
        return sources(names)
    theirs = [name for name in names if _own(name) and name != "__main__"]
    return sources([name for name in names if name not in theirs]) | _sources_in_child(theirs)


def _sources_in_child(modules: Sequence[str]) -> dict[str, str]:
    try:
        return dict(runner.run(_imported_sources, modules))
    except runner.Ended as ended:
        raise AuditError(f"{', '.join(modules)}: {ended} while it was imported; fix it") from ended


def _imported_sources(modules: Sequence[str]) -> dict[str, str]:
    """Sources of modules that are imported first, so that what they use is known."""
    for name in modules:
        importlib.import_module(name)
    return sources(modules)


def _contents(path: Path) -> str:
    """Digest of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise AuditError(
            f"cannot read {path} ({error.strerror}); it tells whether kept trials are stale"
        ) from error


def _describe(thing: Any) -> list[Any]:
    """Class, block and fields, down to the parts of a mechanism that is made of others."""
    fields = (
        {name: _inside(value) for name, value in _fields(thing).items()}
        if _is_record(thing)
        else repr(thing)
    )
    return [
        f"{type(thing).__module__}.{type(thing).__qualname__}",
        getattr(thing, "block", None),
        fields,
    ]


def _inside(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_inside(item) for item in value]
    return _describe(value) if _is_record(value) else value


def without_words(about: dict[str, Any]) -> dict[str, Any]:
    """A fingerprint as it may be kept: texts among the options may be passwords, or come from the
    environment.

    >>> without_words({"mechanism": ["pkg.Program", 100,
    ...     {"argv": ["run", "hunter2"], "batch": 5}], "seed": 0})
    {'mechanism': ['pkg.Program', 100, {'argv': ['***', '***'], 'batch': 5}], 'seed': 0}
    """
    return about | {
        part: _without_words(about[part]) for part in ("mechanism", "features") if part in about
    }


def _without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_words(below) for name, below in value.items()}
    # what `_describe` makes
    if isinstance(value, list) and len(value) == 3 and isinstance(value[2], dict):
        return [*value[:2], _without_words(value[2])]
    if isinstance(value, list):
        return [_without_words(below) for below in value]
    return value if value is None or isinstance(value, int | float) else "***"


def _modules(thing: Any) -> set[str]:
    """Where the classes of a thing and of its parts are written, and what other code they name."""
    parts = (
        thing
        if isinstance(thing, list | tuple)
        else _fields(thing).values()
        if _is_record(thing)
        else ()
    )
    own = (
        set()
        if isinstance(thing, list | tuple)
        else {type(thing).__module__, *getattr(thing, "modules", ())}
    )
    nested = (part for part in parts if isinstance(part, list | tuple) or _is_record(part))
    return own.union(*(_modules(part) for part in nested))


def _is_record(thing: Any) -> bool:
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def _fields(thing: Any) -> dict[str, Any]:
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


def _digest(data: Any) -> str:
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return _digest([_digest(getattr(data, field.name)) for field in dataclasses.fields(data)])
    if isinstance(data, np.ndarray):
        return hashlib.sha256(repr((data.shape, data.dtype)).encode() + data.tobytes()).hexdigest()
    return hashlib.sha256(repr(data).encode()).hexdigest()


def sources(modules: Sequence[str]) -> dict[str, str]:
    """Module → digest of its text, for modules and what they use; installed packages → version.

    Followed are uses of the same package, and of modules that are somebody's own: not installed,
    not the language's.

    Args:
        modules: names of imported modules.
    """
    found: dict[str, str] = {}
    packages: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        module, theirs = sys.modules.get(name), _top(name) != _top(__name__)
        if name in found or (module is None and not _own(name)):
            continue
        found[name] = _text(name)
        used = (_used_by(module) if module is not None else set()) | (
            _imported_by(name) if theirs else set()
        )
        waiting += [other for other in used if _top(other) == _top(name) or _own(other)]
        packages |= {_top(other) for other in used} if theirs else set()
    ours = (
        ("mbi", "jax", "dp_accounting") if any("mechanisms" in module for module in found) else ()
    )
    heavy = {"numpy", *ours}
    return found | {
        name: version for name in sorted(heavy | packages) if (version := _version(name))
    }


def _top(name: str) -> str:
    return name.split(".", maxsplit=1)[0]


def _own(name: str) -> bool:
    """Whether a module is a file of somebody's own."""
    file = _file(name)
    if file is None or _top(name) == _top(__name__):
        return False
    installed = {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not installed and not Path(file).is_relative_to(sysconfig.get_path("stdlib"))


def _file(name: str) -> str | None:
    """The file of a module, imported already or not; None where there is none, or finding out would
    import a package."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec.origin if spec is not None and spec.has_location else None


@functools.lru_cache(maxsize=512)
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.lru_cache(maxsize=512)
def _text(name: str) -> str:
    """Digest of a module's source when it was first asked for: the process goes on with that,
    whatever is edited since."""
    text = _source(name)
    return "no source" if text is None else hashlib.sha256(text.encode()).hexdigest()


def _source(name: str) -> str | None:
    """A module's text; None where it is built in, compiled, or typed at a prompt."""
    try:
        if name in sys.modules:
            return inspect.getsource(sys.modules[name])
        return Path(_file(name) or "").read_text("utf-8")
    except (OSError, TypeError, UnicodeDecodeError):
        return None


def _imported_by(name: str) -> set[str]:
    """Names that a module's text imports anywhere, of modules and of what is in them.

    The namespace alone does not tell: a number knows no module that it came from.
    """
    try:
        tree = ast.parse(_source(name) or "")
    except SyntaxError:
        return set()
    package = name if hasattr(sys.modules.get(name), "__path__") else name.rpartition(".")[0]
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            up = (
                package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            )
            base = ".".join([*up, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names - {""}


def _used_by(module: types.ModuleType) -> set[str]:
    """Names of the modules whose objects stand in a module's namespace."""
    values = list(vars(module).values())
    named = {v.__name__ for v in values if isinstance(v, types.ModuleType)}
    return named | {v.__module__ for v in values if isinstance(getattr(v, "__module__", None), str)}
