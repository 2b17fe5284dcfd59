"""Releases → rows, for outputs of any kind: what an output is, and what its numbers look like bit
by bit.

Both encode each trial by itself into a fixed set of columns, so that no column tells the data sets
apart by being there.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit import plain
from audit.core import Array, Challenge, Columns, Outputs, Releases
from audit.privacy import STRICT

Count = Annotated[int, Field(ge=1, le=1024)]

KINDS = ("none", "bool", "number", "text", "bytes", "array", "list", "dict", "exception", "other")
DEEP, MANY = 8, 100_000
"""How far into nested outputs, and how many of their parts, are looked at."""


@dataclass(frozen=True, config=STRICT)
class Events:
    """Any output as numbers: its kind, its size, what is odd about it, its first numbers, and its
    words in buckets.

    What ends in an exception, has another shape, holds NaN or a word that it should not: each is an
    event that may tell the two data sets apart.

    Args:
        width: how many of an output's numbers are columns of their own.
        buckets: how many counters the words (texts, dict keys, shapes, types of exceptions) are
            hashed into.
        hashes: how many independent hashes do so, each into counters of its own. Two words that
            share a counter look alike, which hides a leak; with three hashes they share all of them
            once in 32,768 pairs of words.
    """

    width: Count = 8
    buckets: Count = 32
    hashes: Annotated[int, Field(ge=1, le=8)] = 3

    def __call__(self, releases: Releases, challenge: Challenge) -> Columns:
        """(n, k) finite numbers; k depends on ``width``, ``buckets`` and ``hashes`` only."""
        rows = [self._row(_look(output)) for output in each(releases)]
        return Columns(
            self._names(), np.array(rows, dtype=float).reshape(len(rows), len(self._names()))
        )

    def _names(self) -> tuple[str, ...]:
        kinds = [f"is_{kind}" for kind in KINDS]
        whole = [
            "parts",
            "numbers",
            "nan",
            "+inf",
            "-inf",
            "letters",
            "depth",
            "sum",
            "least",
            "largest",
        ]
        single = [f"{what}[{i}]" for what in ("y", "odd", "whole") for i in range(self.width)]
        counters = [f"words[{h},{i}]" for h in range(self.hashes) for i in range(self.buckets)]
        return (*kinds, *whole, *single, *counters)

    def _row(self, seen: _Seen) -> list[float]:
        numbers = np.array(seen.numbers, dtype=float)
        finite = numbers[np.isfinite(numbers)]
        first = np.pad(numbers[: self.width], (0, max(0, self.width - len(numbers))))
        odd = np.select(
            [np.isnan(first), np.isposinf(first), np.isneginf(first)], [1.0, 2.0, 3.0], 0.0
        )
        flags = [np.isnan(numbers).sum(), np.isposinf(numbers).sum(), np.isneginf(numbers).sum()]
        tamed = squash(np.where(odd > 0, 0.0, first))
        with np.errstate(over="ignore"):
            total = [finite.sum(), finite.min(), finite.max()] if len(finite) else [0.0, 0.0, 0.0]
        return [
            *(float(seen.kind == kind) for kind in KINDS),
            *np.log1p([seen.parts, len(numbers), *flags, seen.letters]),
            seen.depth,
            *squash(np.array(total)),
            *tamed,
            *odd,
            *(tamed == np.floor(tamed)),
            *self._counters(seen.words),
        ]

    def _counters(self, words: Sequence[str]) -> Array:
        """(hashes·buckets,) how many words each counter got."""
        counters = np.zeros((self.hashes, self.buckets))
        for word in words:
            for place, counter in enumerate(counters):
                counter[bucket(word, self.buckets, place)] += 1
        return counters.ravel()


@dataclass(frozen=True, config=STRICT)
class Bits:
    """The numbers of an output bit by bit: what is left of the true answer in the last places of a
    floating-point sum.

    Args:
        width: how many of an output's numbers are looked at.
        low: how many of the mantissa's lowest bits are columns of their own.

    References:
        Mironov 2012, On significance of the least significant bits for differential privacy: the
            doubles that a
        textbook Laplace sampler can reach depend on the answer that the noise is added to.
    """

    width: Count = 4
    low: Annotated[int, Field(ge=0, le=52)] = 8

    def __call__(self, releases: Releases, challenge: Challenge) -> Columns:
        """(n, k) numbers; k depends on ``width`` and ``low`` only.

        Missing numbers, NaN and infinities count as 0.
        """
        rows = []
        for output in each(releases):
            first_numbers = np.array(_look(output).numbers[: self.width], dtype=float)
            rows.append(np.pad(first_numbers, (0, self.width - len(first_numbers))))
        padded = np.array(rows).reshape(-1, self.width)
        finite = np.where(np.isfinite(padded), padded, 0.0)
        fingerprints = [self._fingerprint(column) for column in finite.T]
        names = ["y", "finer_than_2^-53", "trailing_zeros", "exponent"]
        names += [f"bit{i}" for i in range(self.low)]
        columns = [f"{name}[{i}]" for i in range(self.width) for name in names]
        return Columns(tuple(columns), np.hstack(fingerprints))

    def _fingerprint(self, y: Array) -> Array:
        """(n, 4 + low) of (n,) doubles."""
        one = np.uint64(1)
        mantissa = y.view(np.uint64) & np.uint64(2**52 - 1)
        lowest_set_bit = mantissa & (~mantissa + one)  # m & −m, in unsigned arithmetic
        places = np.log2(np.maximum(lowest_set_bit, 1).astype(float))
        trailing_zeros = np.where(mantissa == 0, 52, places)
        exponent = np.frexp(y)[1]
        bits = [(mantissa >> np.uint64(i)) & one for i in range(self.low)]
        columns = [squash(y), finer(y), trailing_zeros, exponent, *bits]
        return np.stack(columns, axis=1).astype(float)


def finer(y: Array) -> Array:
    """Whether y·2⁵³ is no whole number.

    Below ¼, noise around 0 reaches such doubles, and noise around 1 does not.

    >>> finer(np.array([0.1, 1 + 0.1 - 1, 1e300])).tolist()
    [True, False, False]
    """
    scaled = np.ldexp(np.clip(y, -1.0, 1.0), 53)
    return scaled != np.floor(scaled)


def squash(y: Array) -> Array:
    """y up to a million, and 10⁶·(1 + ln(y/10⁶)) beyond; an odd function.

    So no double is too large to be learnt from.

    >>> squash(np.array([-3.0, 1e6])).tolist(), float(squash(np.array(np.inf))) < 1e9
    ([-3.0, 1000000.0], True)
    """
    size = np.minimum(np.abs(y), np.finfo(float).max)
    logarithmic = np.sign(y) * 1e6 * (1 + np.log(np.maximum(size, 1e6) / 1e6))
    return np.where(size <= 1e6, y, logarithmic)


@functools.lru_cache(maxsize=65536)
def bucket(word: str, buckets: int, place: int = 0) -> int:
    """Which bucket the hash number ``place`` puts a word into.

    It is the same one in every process, unlike that of Python's own hash.

    >>> bucket("ValueError", 16), bucket("KeyError", 16), bucket("KeyError", 16, place=1)
    (0, 13, 8)
    """
    key = place.to_bytes(1, "big") if place else b""
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "big") % buckets


def each(releases: Releases) -> Iterator[Any]:
    """The public output of each trial: an object, a row of numbers, or the records of a table."""
    output = releases.public()
    if isinstance(output, Outputs):
        yield from output.values
    else:
        yield from np.asarray(output.values if isinstance(output, Columns) else output.records)


# --- one output -----------------------------------------------------------------------------------


@dataclasses.dataclass
class _Seen:
    """What was found in one output."""

    kind: str = "other"
    parts: int = 0
    letters: int = 0
    depth: int = 0
    numbers: list[float] = dataclasses.field(default_factory=list)
    words: list[str] = dataclasses.field(default_factory=list)


def _look(output: Any) -> _Seen:
    seen = _Seen()
    seen.kind = _walk(output, seen, 0)
    return seen


def _walk(value: Any, seen: _Seen, depth: int) -> str:
    """Note what ``value`` and its parts are; return its kind."""
    seen.parts += 1
    seen.depth = max(seen.depth, depth)
    if depth >= DEEP or seen.parts >= MANY:
        return "other"
    try:
        for kind, is_one, note in LOOKS:
            if is_one(value):
                note(value, seen, depth)
                return kind
    except Exception as error:  # an object whose own methods raise when it is looked at
        seen.words.append(f"unreadable {type(error).__name__}")
    seen.words.append(f"type {type(value).__name__}")
    return "other"


def _is_frame(value: Any) -> bool:
    return hasattr(value, "to_dict") and hasattr(value, "columns")


def _number(value: Any, seen: _Seen, depth: int) -> None:
    try:
        seen.numbers.append(float(value))
    except OverflowError:  # a whole number beyond all doubles
        seen.numbers.append(np.finfo(float).max if value > 0 else np.finfo(float).min)


def _text(value: Any, seen: _Seen, depth: int) -> None:
    seen.letters += len(value)
    seen.words.append(f"text {value!r}")


def _array(value: Any, seen: _Seen, depth: int) -> None:
    seen.words.append(f"shape {value.shape} {value.dtype.kind}")
    seen.parts += value.size
    if value.dtype.kind in "biuf":
        seen.numbers += value[...].ravel()[:MANY].astype(float).tolist()
    elif value.dtype.kind == "c":
        seen.numbers += value.ravel()[:MANY].astype(complex).view(float).tolist()
    else:
        _parts(value.ravel().tolist(), seen, depth)


def _list(value: Any, seen: _Seen, depth: int) -> None:
    seen.words.append(f"length {len(value)}")
    _parts(value, seen, depth)


def _dict(value: Any, seen: _Seen, depth: int) -> None:
    keys = sorted(value, key=plain.written)
    seen.words += [f"key {plain.written(key)}" for key in keys[:MANY]]
    _parts([value[key] for key in keys], seen, depth)


def _parts(values: Sequence[Any], seen: _Seen, depth: int) -> None:
    for part in itertools.islice(values, MANY):
        _walk(part, seen, depth + 1)


def _exception(value: Any, seen: _Seen, depth: int) -> None:
    said = plain.text(value)
    seen.words += [f"raised {type(value).__name__}", f"said {said}"]
    seen.letters += len(said)


Note = Callable[[Any, _Seen, int], None]
LOOKS: tuple[tuple[str, Callable[[Any], bool], Note], ...] = (
    ("none", lambda v: v is None, lambda v, seen, depth: None),
    ("bool", lambda v: isinstance(v, bool | np.bool_), _number),
    ("number", lambda v: isinstance(v, int | float | np.integer | np.floating), _number),
    ("text", lambda v: isinstance(v, str), _text),
    ("bytes", lambda v: isinstance(v, bytes), _text),
    ("array", lambda v: isinstance(v, np.ndarray), _array),
    ("list", lambda v: isinstance(v, list | tuple), _list),
    ("dict", lambda v: isinstance(v, dict), _dict),
    ("dict", _is_frame, lambda v, seen, depth: _dict(v.to_dict("list"), seen, depth)),
    ("exception", lambda v: isinstance(v, BaseException), _exception),
)
"""What an output may be, how to tell, and what to note of it; the first one that fits."""
