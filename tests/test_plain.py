"""Text of anybody's: one line, no control character, whatever an object does when it is shown."""

import pytest

from audit import plain
from audit.core import AuditError, Trials, UnreadableOutput

ESC = "\x1b]0;owned\x07\x9b31m\u202e\x00"


class MuteError(Exception):
    def __str__(self):
        raise ValueError("no")

    __repr__ = __str__


@pytest.mark.parametrize("make", [AuditError, lambda text: UnreadableOutput(range(1), text)])
def test_no_control_character_of_a_message_reaches_a_terminal(make):
    said = str(make(f"it said {ESC}\nand\r\tmore"))
    assert said.isprintable() and r"\x1b]0;owned\x07" in said and "and  more" in said


def test_column_names_are_fit_for_a_terminal():
    assert Trials((f"a{ESC}",), [[1.0]], [True], [0], [0]).columns[0].isprintable()


def test_words_of_people_are_kept():
    assert plain.line("ε ≥ 1, naïve – 数") == "ε ≥ 1, naïve – 数"


def test_objects_that_raise_when_they_are_shown():
    assert plain.of_error(MuteError()) == "MuteError: <its __str__ raised ValueError>"
    assert plain.shown(MuteError()) == "<its __repr__ raised ValueError>"
    assert plain.shown(10**5000) == "<its __repr__ raised ValueError>", (
        "more digits than Python writes"
    )
    assert len(plain.shown("x" * 1000)) <= plain.LONGEST
