"""Addresses of run logs: which one is used, shown without its secrets, and whether it answers. No
mlflow here.

MLflow itself retries for minutes before it gives up; what is asked here is asked once, with a time
limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import http.client
import os
import queue
import re
import shutil
import ssl
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from audit.core import AuditError

T = TypeVar("T")

MIN_FREE_BYTES = 100 * 2**20  # an audit's trials, scores and figures are a few MB
CONNECT_TIMEOUT_S = 10.0  # for the first answer of a server or database
# for a SQLite file: no network is slow then, but the machine may be busy with many audits
FILE_TIMEOUT_S = 120.0
DATABASES = {"sqlite", "postgresql", "mysql", "mssql"}  # those that MLflow takes
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# a health check alone can lie
QUESTION = "api/2.0/mlflow/experiments/get-by-name?experiment_name=audit"
SECRET_VALUE = re.compile(r"(?i)([?&][^=&\s]*(?:pass|pwd|secret|token|key)[^=&\s]*=)[^&\s]*")
DRIVERS = {
    "postgresql": 'pip install "dp-audit[postgres]", and write postgresql://…',
    "mysql": "pip install pymysql, and write mysql+pymysql://…",
    "mssql": "pip install pymssql, and write mssql+pymssql://…",
}


# --- which one ------------------------------------------------------------------------------------


def tracking_uri(root: Path) -> str:
    """``MLFLOW_TRACKING_URI`` where it is set, else a database in ``root``."""
    return os.environ.get("MLFLOW_TRACKING_URI") or sqlite_uri(resolved(root) / "mlflow.db")


def sqlite_uri(path: Path) -> str:
    """The address of a SQLite file, whatever characters its name has.

    >>> sqlite_uri(Path("/tmp/a/mlflow.db")), sqlite_uri(Path("/tmp/why?/mlflow.db"))
    ('sqlite:////tmp/a/mlflow.db', 'sqlite+pysqlite:////tmp/why%3F/mlflow.db')
    """
    plain, escaped = str(path), urllib.parse.quote(str(path))
    # Where an address begins with sqlite:///, MLflow creates the folder without decoding it first:
    # /tmp/why%3F.
    return f"sqlite:///{plain}" if plain == escaped else f"sqlite+pysqlite:///{escaped}"


def resolved(root: Path | str) -> Path:
    """``root`` as an absolute path without symbolic links.

    Raises:
        AuditError: when it has none, or when its name is not UTF-8, of which no address can be
            made.
    """
    try:
        path = Path(root).resolve()
        str(path).encode()
    except UnicodeEncodeError as error:
        raise AuditError(
            f"the name of {str(root)!a} is not UTF-8; give another folder: root=…"
        ) from error
    except (OSError, RuntimeError) as error:  # a loop is a RuntimeError until Python 3.13
        raise AuditError(
            f"{root} leads nowhere "
            f"({getattr(error, 'strerror', None) or 'its symbolic links form a loop'}); remove "
            "it, or give another folder: root=…"
        ) from error
    return path


def is_server(uri: str) -> bool:
    """Whether ``uri`` is a tracking server, which has a UI of its own."""
    return uri.startswith(("http://", "https://"))


def is_database(uri: str) -> bool:
    """Whether ``uri`` is a database that MLflow opens itself."""
    return _dialect(uri) in DATABASES


def _dialect(uri: str) -> str:
    return uri.partition("://")[0].partition("+")[0].lower() if "://" in uri else ""


@dataclasses.dataclass(frozen=True)
class DatabaseFile:
    """A SQLite file and which one it is, since one that is deleted takes rows from whoever has it
    open.

    Args:
        path: where it is.
        identity: its device and inode.
    """

    path: Path
    identity: tuple[int, int]

    @classmethod
    def of(cls, uri: str) -> DatabaseFile | None:
        """The file behind an address, which exists; None where it is no file."""
        import sqlalchemy

        name = sqlalchemy.make_url(uri).database if _dialect(uri) == "sqlite" else None
        if not name or not Path(name).is_file():
            return None
        found = Path(name).stat()
        return cls(Path(name).absolute(), (found.st_dev, found.st_ino))

    def check(self) -> None:
        """Raise AuditError if the file is no longer there, or is another one."""
        try:
            found = self.path.stat()
            happened = None if (found.st_dev, found.st_ino) == self.identity else "replaced"
        except OSError:
            happened = "removed"
        if happened:
            raise AuditError(
                f"the run log {self.path} was {happened} while the command ran, so this run is in "
                "no database; leave it in place and repeat the command"
            )


# --- without its secrets --------------------------------------------------------------------------


def public(uri: str) -> str:
    """``uri`` without name, password and tokens.

    >>> public("https://me:secret@host:80/x"), public("sqlite:////tmp/mlflow.db")
    ('https://host:80/x', 'sqlite:////tmp/mlflow.db')
    >>> public("postgresql://me:a/b@c@host/db?sslpassword=secret")
    'postgresql://host/db?sslpassword=***'
    """
    scheme, separator, rest = uri.partition("://")
    before_path = re.split(r"[/?#]", rest)[0]
    # A password with an unescaped / or ? is no valid one, and is hidden all the same: up to the
    # last @.
    if (
        separator
        and _dialect(uri) not in ("sqlite", "file")
        and ("@" in before_path or ":" in before_path)
    ):
        rest = rest.rpartition("@")[2]
    return SECRET_VALUE.sub(r"\1***", scheme + separator + rest)


def masked(text: str, uri: str) -> str:
    """A message of somebody else's, without what is secret in ``uri`` or in MLflow's variables.

    >>> masked("no entry for postgresql://me:s3cret@host/db with s3cret", "postgresql://me:s3cret@host/db")
    'no entry for postgresql://host/db with ***'
    """
    text = text.replace(uri, public(uri))
    text = re.sub(r"(\w://)[^\s/'\"]*@", r"\1", text)
    for secret in sorted(_secrets(uri), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _secrets(uri: str) -> set[str]:
    password = re.search(r"://[^:/@]*:(.*)@", uri)
    written = [match.partition("=")[2] for match in (m.group() for m in SECRET_VALUE.finditer(uri))]
    written += [password[1]] if password else []
    written += [os.environ.get(f"MLFLOW_TRACKING_{name}", "") for name in ("PASSWORD", "TOKEN")]
    return {
        secret
        for word in written
        for secret in (word, urllib.parse.unquote(word))
        if len(secret) > 2
    }


# --- whether it answers ---------------------------------------------------------------------------


class NoAnswerError(OSError):
    """A call that was given up."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """What ``call`` returns or raises, in at most ``seconds``.

    It runs in a thread that is left behind when it is late: nothing else ends a driver that waits
    for a silent server.

    Raises:
        NoAnswerError: when it is late.
    """
    ended: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            ended.put((call(), None))
        except BaseException as error:
            ended.put((None, error))

    threading.Thread(target=work, name="run log", daemon=True).start()
    try:
        value, error = ended.get(timeout=seconds)
    except queue.Empty:
        raise NoAnswerError(f"no answer in {seconds:.0f} s") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # of the type that the call returns, since it raised nothing


def check_folder(root: Path) -> None:
    """Raise AuditError if ``root`` cannot be written or is full; it is made where it is missing."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"room?")
        free = shutil.disk_usage(root).free
    except OSError as error:
        raise AuditError(
            f"cannot write to {root} ({error.strerror}); fix its permissions, or give another "
            "folder: root=…"
        ) from error
    if free < MIN_FREE_BYTES:
        raise AuditError(
            f"{root} has {free / 2**20:.0f} MB left and an audit may need "
            f"{MIN_FREE_BYTES / 2**20:.0f}; make room, or give another folder: root=…"
        )


def check_reachable(uri: str) -> None:
    """Ask a server or a database once. What is neither is left to MLflow.

    Raises:
        AuditError: it is no address, does not answer, or no driver for it is installed.
    """
    if _dialect(uri) == "postgres":
        raise AuditError(
            f"MLFLOW_TRACKING_URI={public(uri)}: SQLAlchemy's name is postgresql; write "
            "postgresql://…"
        )
    if not is_server(uri) and not is_database(uri):
        return
    _check_address(uri)
    limit = FILE_TIMEOUT_S if _dialect(uri) == "sqlite" else CONNECT_TIMEOUT_S
    with _no_answer_is_one_line("tracking server" if is_server(uri) else "database", uri):
        ask = _server_question(uri) if is_server(uri) else _database_question(uri)
        within(limit, ask)


def _check_address(uri: str) -> None:
    """Raise AuditError if host and port cannot be told. Quotes nothing: what is read as a port may
    be a password."""
    try:
        parsed = urllib.parse.urlsplit(uri)
        _ = parsed.port
        unescaped = _dialect(uri) == "sqlite" and any(
            "=" not in part for part in parsed.query.split("&") if part
        )
        if unescaped:
            wrong = "a ? in the name of a file is written %3F"
        elif is_server(uri) and not parsed.hostname:
            wrong = "it has no host"
        else:
            return
    except ValueError:
        wrong = "its host or port is wrong; in a password, / is written %2F, @ %40 and % %25"
    raise AuditError(f"MLFLOW_TRACKING_URI={public(uri)} is no address: {wrong}")


@contextlib.contextmanager
def _no_answer_is_one_line(what: str, uri: str) -> Iterator[None]:
    cause: Exception
    try:
        yield
        return
    except ImportError as error:
        raise AuditError(
            f"no driver for {public(uri)} is installed ({_first(error)}): "
            f"{DRIVERS.get(_dialect(uri), 'install it')}"
        ) from error
    except urllib.error.HTTPError as error:
        error.close()
        if error.code < 500:  # it is there; whether it lets us in is seen when it is asked
            return
        reason, cause = f"HTTP status {error.code}", error
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):  # MLflow may be told to trust it
            return
        reason, cause = _first(error.reason), error
    except http.client.HTTPException as error:
        reason, cause = f"what it speaks is not HTTP: {_first(error)!a}", error
    except Exception as error:  # drivers and dialects raise what they like
        reason, cause = masked(_first(getattr(error, "orig", None) or error), uri), error
    where = "start it, fix the address" if _dialect(uri) != "sqlite" else "fix the address"
    if os.environ.get("MLFLOW_TRACKING_URI"):
        where += ", or unset MLFLOW_TRACKING_URI to log into mlruns/"
    raise AuditError(f"the {what} {public(uri)} does not answer ({reason}); {where}") from cause


def _first(error: object) -> str:
    """The first line of what an error says."""
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
    )


def _server_question(uri: str) -> Callable[[], None]:
    def ask() -> None:
        with urllib.request.urlopen(
            f"{public(uri).rstrip('/')}/{QUESTION}", timeout=CONNECT_TIMEOUT_S
        ):
            pass

    return ask


def _database_question(uri: str) -> Callable[[], None]:
    """What connects and lists the tables, which reads the file where it is one. Its imports are not
    timed: done here."""
    import sqlalchemy
    from sqlalchemy.pool import NullPool

    url = sqlalchemy.make_url(uri)
    if url.get_backend_name() == "sqlite" and url.database and not url.query.get("uri"):
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)  # as MLflow does
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)

    def ask() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # an unescaped ?
            warnings.filterwarnings("error", "Query string argument", sqlalchemy.exc.SAWarning)
            with engine.connect() as connection:
                sqlalchemy.inspect(connection).get_table_names()

    return ask


# --- what went wrong ------------------------------------------------------------------------------


def is_full(error: BaseException | None) -> bool:
    """Whether a full disk or quota is behind an error."""
    while error is not None:
        if getattr(error, "errno", None) in FULL or re.search(
            "disk is full|No space left", str(error)
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def least_room(*folders: Path) -> str:
    """The folder with the least room, and how much it has."""
    free = {folder: _free(folder) for folder in folders}
    folder = min(free, key=lambda each: free[each])
    return f"{folder}, which has {free[folder] / 2**20:.1f} MB left"


def _free(folder: Path) -> float:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return float("inf")


def one_line_of(error: Any, uri: str) -> str:
    """The first line of an error, without secrets."""
    return masked(_first(error), uri)
