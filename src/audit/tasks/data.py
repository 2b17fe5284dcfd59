"""Tables with a label, over a domain that is public: fixed here or given in a file, never read from
the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from pydantic.dataclasses import dataclass

from audit import learning
from audit.core import Array, AuditError, Domain, Table
from audit.privacy import STRICT


class Labelled(Protocol):
    """A table and which of its columns is to be predicted."""

    def load(self) -> tuple[Table, str]:
        """The table, and the label's name."""
        ...


BREAST_CANCER = {
    "mean radius": (10, 12, 14, 17),
    "mean texture": (15, 18, 21, 25),
    "mean perimeter": (65, 80, 95, 115),
    "mean area": (350, 500, 700, 1000),
    "mean smoothness": (0.08, 0.09, 0.1, 0.115),
    "mean compactness": (0.06, 0.09, 0.12, 0.18),
    "mean concavity": (0.03, 0.06, 0.1, 0.18),
    "mean concave points": (0.02, 0.035, 0.06, 0.1),
    "mean symmetry": (0.15, 0.17, 0.19, 0.21),
    "mean fractal dimension": (0.056, 0.06, 0.064, 0.07),
}
"""Column → edges of its bins; the project's own, round numbers that do not depend on any record of
a run."""


@dataclass(frozen=True, config=STRICT)
class BreastCancer:
    """Ten measurements of 569 tumours in 5 public bins each, and whether they are benign;
    scikit-learn ships it."""

    def load(self) -> tuple[Table, str]:
        """See `Labelled.load`."""
        names, rows, benign = learning.breast_cancer()
        binned = [np.digitize(rows[:, names.index(c)], edges) for c, edges in BREAST_CANCER.items()]
        domain = Domain(
            (*BREAST_CANCER, "benign"), (*(len(e) + 1 for e in BREAST_CANCER.values()), 2)
        )
        return Table(domain, np.column_stack([*binned, benign])), "benign"


ADULT: dict[str, tuple[Any, ...]] = {
    "age": (25, 30, 35, 40, 45, 50, 60),
    "education-num": (9, 10, 11, 13, 14),
    "marital-status": (
        "Married-civ-spouse",
        "Divorced",
        "Never-married",
        "Separated",
        "Widowed",
        "Married-spouse-absent",
        "Married-AF-spouse",
    ),
    "relationship": (
        "Wife",
        "Own-child",
        "Husband",
        "Not-in-family",
        "Other-relative",
        "Unmarried",
    ),
    "sex": ("Female", "Male"),
    "capital-gain": (1, 3000, 5000, 7500),
    "capital-loss": (1, 1600, 1900),
    "hours-per-week": (20, 35, 40.5, 50),
    "class": ("<=50K", ">50K"),
}
"""Column → edges of bins, or names of categories as the UCI page lists them."""


@dataclass(frozen=True, config=STRICT)
class Adult:
    """UCI Adult: whether somebody earns more than 50,000 dollars.

    Args:
        path: of integer-coded records with a header line; None: nine columns of OpenML's version 2,
            in public bins.
        domain_json: of ``{"column": number of values, …}`` for ``path``; None:
            ``<path without .csv>-domain.json``.
        label: its last column's name in ``path``.
        cache: folder that OpenML's file is kept in; None: scikit-learn's.

    Raises:
        AuditError: a file that cannot be read, values outside the domain, no network.
    """

    path: str | None = None
    domain_json: str | None = None
    label: str = "income>50K"
    cache: str | None = None

    def load(self) -> tuple[Table, str]:
        """See `Labelled.load`."""
        if self.path is None:
            return _code(learning.openml("adult", 2, self.cache)), "class"
        domain = self.domain_json or f"{self.path.removesuffix('.csv')}-domain.json"
        return _read(self.path, domain), self.label


def _code(frame: Any) -> Table:
    """OpenML's frame over the public domain; an unknown category is the last one."""
    columns, sizes = [], []
    for name, given in ADULT.items():
        values = frame[name].to_numpy()
        if isinstance(given[0], str):
            place = {word: code for code, word in enumerate(given)}
            columns.append([place.get(str(value), len(given) - 1) for value in values])
            sizes.append(len(given))
        else:
            columns.append(np.digitize(values.astype(float), given))
            sizes.append(len(given) + 1)
    return Table(Domain(tuple(ADULT), tuple(sizes)), np.column_stack(columns))


def _read(path: str, domain_json: str) -> Table:
    try:
        sizes: dict[str, int] = json.loads(Path(domain_json).read_text())
        with Path(path).open(encoding="utf-8-sig") as file:
            header = file.readline().strip().split(",")
            values = np.loadtxt(
                file, delimiter=",", ndmin=2, usecols=[header.index(c) for c in sizes]
            )
    except (OSError, ValueError) as error:
        raise AuditError(
            f"task.data.path: cannot read {path} with {domain_json} ({error})"
        ) from error
    if not len(values) or np.any((values < 0) | (values >= list(sizes.values()))):
        raise AuditError(
            f"task.data.path: {path} is empty or has values outside {domain_json}; fix one of them"
        )
    return Table(Domain(tuple(sizes), tuple(sizes.values())), values)


def split(count: int, train: float, validation: float, seed: int) -> tuple[Array, Array, Array]:
    """Places of the records that train, validate and test: by place and seed, never by what is in
    them.

    Raises:
        AuditError: when a part is empty.
    """
    order = np.random.default_rng(seed).permutation(count)
    cuts = round(count * train), round(count * (train + validation))
    parts = order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] :]
    for name, part in zip(("training", "validation", "test"), parts, strict=True):
        if not len(part):
            raise AuditError(
                f"the {name} set is empty: task.train={train:g} and "
                f"task.validation={validation:g} of {count} records; leave some for each part"
            )
    return parts


def need_two_classes(labels: Array, name: str) -> None:
    """Raise AuditError if there is nothing to predict.

    Raises:
        AuditError: a label with one class.
    """
    if len(np.unique(labels)) < 2:
        raise AuditError(
            f"the label {name!r} has one class only, so nothing can be learnt; choose another "
            "column"
        )
