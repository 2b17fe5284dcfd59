"""Somebody's own Python function, audited as it is, and played in a child process: see
`audit.runner`."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from pydantic import Field, InstanceOf
from pydantic.dataclasses import dataclass

from audit import plain, runner
from audit.core import AuditError, Claim, Columns, Outputs, UnreadableOutput
from audit.mechanisms.claims import Block, ClaimOption
from audit.privacy import STRICT

CHECKED = 20
"""Trials of the runs that find out whether a target heeds its seed."""


@dataclasses.dataclass(frozen=True)
class Anything:
    """What somebody's own code put out, one object a trial; no likelihood is known.

    Args:
        outputs: of n trials.
    """

    outputs: Outputs

    def public(self) -> Outputs:
        """The objects as they came."""
        return self.outputs

    def insider(self) -> Columns:
        """(n, k) the same as numbers: nothing is hidden.

        Raises:
            UnreadableOutput: where they are no numbers.
        """
        return self.outputs.columns()

    def log_ratio(self, absent: Any, present: Any) -> None:
        """None: it is not known."""
        return None


@dataclass(frozen=True, config=STRICT)
class Target:
    """A function ``(data, rng) → output``, or ``(data, trials, rng) → outputs``, of a module that
    can be imported.

    An output is a number, an array, a dict of these, or anything else; an exception of a single
    trial is an output too. ``data`` is what the canary makes: an array (``pair``) or an
    `audit.core.Table`.

    Args:
        target: ``package.module:function``; further dots lead into what is found there.
        claim: what the function promises.
        batched: whether it plays many trials at once; its result is then an array whose first axis
            is the trial, a dict of these, or a list of outputs.
        timeout: seconds that one call may take; None: no limit.
        block: trials that are kept or lost together; few for a slow function.

    Raises:
        AuditError: what cannot be imported, is not callable, or does not take these arguments.
    """

    target: str
    claim: InstanceOf[ClaimOption]
    batched: bool = False
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    block: Block = 1000

    def __post_init__(self) -> None:
        # imported there first: a module that ends its process must not end this one
        if not self._typed_in:
            try:
                runner.run(_check, self.target, self.batched)
            except runner.Ended as ended:
                raise AuditError(
                    f"mechanism.target={self.target}: {ended} while it was imported; fix it"
                ) from ended
        _check(self.target, self.batched)

    @property
    def _typed_in(self) -> bool:
        """Whether the function was typed into a script or a notebook, which no other process can
        import."""
        return self.target.startswith("__main__:")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | ({"_function": _load(self.target)} if self._typed_in else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_function" in state:
            _sent[state["target"]] = state.pop("_function")
        self.__dict__.update(state)

    @property
    def time_limit(self) -> float | None:
        """As it was given."""
        return self.timeout

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The one that was given."""
        return (self.claim.claim,)

    @property
    def modules(self) -> tuple[str, ...]:
        """Where the function was looked for, and where it was written."""
        return tuple(
            dict.fromkeys((self.target.partition(":")[0], str(_load(self.target).__module__)))
        )

    def release(self, data: Any, trials: int, rng: np.random.Generator) -> Anything:
        """``trials`` calls, one after the other, that share ``rng``; or one call for all of
        them."""
        function = _load(self.target)
        if not self.batched:
            outputs = [_call(function, place, data, rng) for place in range(trials)]
            runner.end()
            return Anything(Outputs(outputs))
        runner.begin()
        try:
            released = function(data, trials, rng)
        except BaseException as error:
            if is_ours(error):
                raise
            # Of which trial, only the function knows.
            raise UnreadableOutput(
                range(trials), f"it raised {plain.of_error(error)}; fix it"
            ) from error
        runner.end()
        return Anything(Outputs(_apart(released, trials)))

    def notes(self, data: Any) -> tuple[str, ...]:
        """Whether two runs from the same seed differ, and whether no run came to an end."""
        once, again = (self._try(data, np.random.default_rng(0)) for _ in range(2))
        said = []
        if written(once) != written(again):
            said.append(
                f"Not reproducible: {self.target} put out different things for the same seed, it "
                "does not draw all of its noise from rng."
            )
        if all(isinstance(output, BaseException) for output in once):
            said.append(
                f"{self.target} came to no end in any of {CHECKED} runs: it raised "
                f"{plain.of_error(once[0])}."
            )
        return tuple(said)

    def _try(self, data: Any, rng: np.random.Generator) -> list[Any]:
        try:
            return list(self.release(data, CHECKED, rng).outputs.values)
        except UnreadableOutput as odd:
            return [odd]


_sent: dict[str, Callable[..., Any]] = {}
"""Functions that came to this process by value: no import finds them."""


def is_ours(error: BaseException) -> bool:
    """Whether an error is not the mechanism's but a person's Ctrl-C; in a child process it is the
    mechanism's own."""
    return isinstance(error, KeyboardInterrupt) and not runner.apart()


def _check(target: str, batched: bool) -> None:
    """Import a target and look at its arguments.

    Raises:
        AuditError: see `Target`.
    """
    expected = "(data, trials, rng)" if batched else "(data, rng)"
    try:
        inspect.signature(_load(target)).bind(*range(3 if batched else 2))
    except TypeError as error:
        raise AuditError(
            f"mechanism.target={target} cannot be called as {expected} ({error}); change its "
            "arguments, or mechanism.batched"
        ) from error
    except ValueError:  # built in: nothing is known of its arguments
        return


def _load(target: str) -> Callable[..., Any]:
    """What ``package.module:name`` names.

    Raises:
        AuditError: no such module, no such name, or nothing that can be called.
    """
    module, colon, path = target.partition(":")
    if not (module and colon and path):
        raise AuditError(
            f"mechanism.target={target} has not the form package.module:function, such as "
            "mine:release"
        )
    if target in _sent:
        return _sent[target]
    try:
        found: Any = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except BaseException as error:  # importing runs anybody's code
        if is_ours(error):
            raise
        raise AuditError(
            f"mechanism.target={target} cannot be imported ({plain.of_error(error)}); run from "
            f"the folder that {module.split('.')[0]} is in, or install it"
        ) from error
    if not callable(found):
        raise AuditError(
            f"mechanism.target={target} is no function but {type(found).__name__}; name a function"
        )
    return found


def _call(function: Callable[..., Any], place: int, data: Any, rng: np.random.Generator) -> Any:
    """One trial, the ``place``-th of its side; what it raises is its output."""
    runner.begin(place)
    try:
        return function(data, rng)
    except BaseException as error:
        if is_ours(error):
            raise
        return error.with_traceback(None)


def _apart(released: Any, trials: int) -> list[Any]:
    """One object a trial: entries of arrays along their first axis, dicts of such entries, or the
    entries of a list.

    Raises:
        UnreadableOutput: when there are not as many as trials.

    >>> _apart({"n": np.array([1, 2])}, 2)
    [{'n': np.int64(1)}, {'n': np.int64(2)}]
    """
    if isinstance(released, dict):
        columns = {key: _apart(part, trials) for key, part in released.items()}
        return [{key: column[i] for key, column in columns.items()} for i in range(trials)]
    several = (
        released.ndim > 0
        if isinstance(released, np.ndarray)
        else isinstance(released, list | tuple)
    )
    if not several:
        kind = type(released).__name__
        raise UnreadableOutput(
            range(trials),
            f"it returned {kind}, a batched target an array, a dict of arrays or a list; fix it",
        )
    if len(released) != trials:
        wrong = (
            f"{len(released)} outputs where {trials} were due; return one a trial, along the "
            "first axis"
        )
        raise UnreadableOutput(range(trials), wrong)
    return list(released)


def written(outputs: list[Any]) -> str:
    """All that can be told apart of some outputs, without the addresses of objects."""
    with np.printoptions(threshold=sys.maxsize, precision=17, floatmode="unique"):
        return re.sub(r" at 0x[0-9a-f]+", "", "\n".join(map(plain.written, outputs)))
