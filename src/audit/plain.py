"""Foreign text on one line of a terminal: no control character of it gets there, and no object's
words can fail us.

What a mechanism raises, prints or returns, and the names that files and columns have, are
anybody's. An ESC sequence in them could rewrite what a terminal shows, and a ``__repr__`` may
raise.
"""

from __future__ import annotations

import unicodedata
from typing import Any

LONGEST = 60
"""Characters of an output that are shown."""


def line(words: str) -> str:
    r"""``words`` on one line: white space as blanks, whatever else is not to be printed as its
    escape.

    >>> line("a\nb \x1b[31mred\u202e")
    'a b \\x1b[31mred\\u202e'
    """
    return words if words.isprintable() else "".join(_printable(character) for character in words)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    # Blanks of other alphabets are kept; line and paragraph separators are no blanks to a terminal.
    if character in "\t\n\v\f\r" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


def of_error(error: BaseException) -> str:
    """What went wrong: the error's type and text, on one line.

    >>> of_error(KeyError("lost"))
    "KeyError: 'lost'"
    """
    return " ".join(line(f"{type(error).__name__}: {text(error)}").split())


def text(value: Any) -> str:
    """The ``str`` of an object or an error; where that cannot be had, what its ``__str__``
    raised."""
    try:
        return str(value)
    except Exception as failure:
        return f"<its __str__ raised {type(failure).__name__}>"


def written(value: Any) -> str:
    """The ``repr`` of an object; where that cannot be had, what its ``__repr__`` raised."""
    try:
        return repr(value)
    except Exception as failure:
        # also of a number of too many digits, or of what is nested too deeply
        return f"<its __repr__ raised {type(failure).__name__}>"


def shown(value: Any) -> str:
    """An object in at most `LONGEST` characters, on one line.

    >>> shown(list(range(100)))
    '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16…'
    """
    words = " ".join(line(written(value)).split())
    return words if len(words) <= LONGEST else words[: LONGEST - 3] + "…"
