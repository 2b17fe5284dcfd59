"""Somebody's own code in a process of its own, which may end or hang without taking the audit
along.

`run` calls a function in a child process that stays alive between calls: what is imported there is
imported once, and a call costs a trip over a pipe. The child is a fresh Python, never a fork:
threads of JAX, Ray or a progress bar do not survive a fork. So a function goes there by its name
where it can be imported, and by value (cloudpickle) where it was typed into a script or a notebook.

A child that ends, by ``os._exit`` or a signal, is `Ended`; one that works on a call for too long is
killed and `TimedOut`. The code that runs there may `enter` a part of its request and `begin` a
call, so that either says in which one it happened. Ctrl-C kills the child, whatever it is doing,
and so does the end of this process.
"""

from audit.runner.marks import apart, begin, end, enter
from audit.runner.parent import Ended, TimedOut, run, stop

__all__ = ["Ended", "TimedOut", "apart", "begin", "end", "enter", "run", "stop"]
