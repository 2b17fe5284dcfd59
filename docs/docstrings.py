"""What griffe is told about our docstrings and dataclasses, so that mkdocstrings shows them as they
are meant."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Doctests become code blocks wherever they stand; pydantic's dataclasses are dataclasses."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the doctests."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """Griffe knows the standard library's decorator only."""
        name = mod.members.get("dataclass")
        if isinstance(name, griffe.Alias) and name.target_path == "pydantic.dataclasses.dataclass":
            name.target_path = "dataclasses.dataclass"


def fenced(text: str) -> str:
    """Put each doctest into a fence.

    >>> fenced("Words.\\n\\n>>> 1 + 1\\n2")
    'Words.\\n\\n```python\\n>>> 1 + 1\\n2\\n```'
    """
    return re.sub(
        r"^>>> .*?(?=\n\s*\n|\Z)", r"```python\n\g<0>\n```", text, flags=re.MULTILINE | re.DOTALL
    )
