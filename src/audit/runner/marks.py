"""What a child is working on, in memory that its parent reads: known even when the child is gone or
hangs."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Final

SIZE: Final = 24
"""Bytes of three 64-bit integers: the part of a request, the call in it, and since when it runs
(ns; 0: no call)."""
PART, PLACE, SINCE = range(3)
NONE = -1


@dataclasses.dataclass
class _Process:
    """What this process is.

    Args:
        slots: of memory that a parent reads; of a process that is no child, nobody does.
        apart: whether it is a child.
        forked: whether it is a copy of a child.
    """

    slots: memoryview
    apart: bool = False
    forked: bool = False

    def note_fork(self) -> None:
        self.forked = True


_this = _Process(memoryview(bytearray(SIZE)).cast("q"))


def attach(shared: memoryview) -> None:
    """From now on this process is a child, and its parent reads ``shared``."""
    _this.slots, _this.apart = shared, True
    os.register_at_fork(after_in_child=_this.note_fork)
    reset()


def apart() -> bool:
    """Whether this process is a child: a Ctrl-C of a person never arrives here."""
    return _this.apart


def end_fork() -> None:
    """End this process if it is a copy of the child that somebody's code forked, and that came back
    from there.

    Only one of the two may go on: the other one would play all trials again, and fork again.
    """
    if _this.forked:
        os._exit(0)


def reset() -> None:
    """A request begins: all of it is one call, until it says more."""
    _this.slots[PART] = _this.slots[PLACE] = NONE
    _this.slots[SINCE] = time.monotonic_ns()


def enter(part: int) -> None:
    """Work on part 0, 1, … of the request; no call of somebody's code is under way."""
    end_fork()
    _this.slots[SINCE], _this.slots[PART], _this.slots[PLACE] = 0, part, NONE


def begin(place: int = NONE) -> None:
    """A call of somebody's code begins, the ``place``-th one of the part; the time limit counts
    from here."""
    end_fork()
    _this.slots[PLACE] = place
    _this.slots[SINCE] = time.monotonic_ns()


def end() -> None:
    """The last call has come to its end; what follows is not in its time."""
    end_fork()
    _this.slots[SINCE] = 0
