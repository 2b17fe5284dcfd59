"""Functions that end, hang or fail, for tests of the child process: it imports this module, as it
would a user's."""

import ctypes


class UnpicklableError(Exception):
    """Its arguments are not those of its text, so that pickle cannot make it again."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raises(kind):
    raise kind


def raises_unpicklable():
    raise UnpicklableError(1, 2)


def crashes():
    ctypes.string_at(0)


def spins():
    while True:
        pass


def sleeps_in_c():
    ctypes.PyDLL(None).sleep(1000)  # holds the interpreter
