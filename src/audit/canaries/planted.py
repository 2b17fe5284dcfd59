"""Examples planted among the training data of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Neighbours, read_only
from audit.learning import DataSet, Examples, data_set
from audit.privacy import STRICT

Kind = Literal["mislabelled", "dirac", "blank"]
WORDS = {
    "mislabelled": ("an example", "examples", "with a wrong label"),
    "dirac": ("a record", "records", "whose gradient has a direction of its own"),
    "blank": ("an example", "examples", "of zeros"),
}


@dataclass(frozen=True, config=STRICT)
class Planted:
    """A data set of examples, and canaries that are added to it or not.

    Args:
        kind: ``mislabelled``: real examples, taken out of the data, with a wrong label; ``blank``:
            zeros with any label, all alike for audits in one run; ``dirac``: no example at all but
            a gradient of one coordinate, the strongest there is, for those who may insert
            gradients.
        dataset: ``digits`` (10 classes) or ``breast_cancer`` (2).
        count: canaries.
        rows: base examples; None: all that there are.
        seed: of the order of the data and of wrong labels; the same for all trials.

    Raises:
        AuditError: when the data set has not so many examples.
    """

    kind: Kind = "mislabelled"
    dataset: DataSet = "breast_cancer"
    count: Annotated[int, Field(ge=1)] = 1
    rows: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0

    neighbours: ClassVar[Neighbours] = "add_remove"

    def __post_init__(self) -> None:
        there = len(data_set(self.dataset)[1])
        taken = self.count if self.kind == "mislabelled" else 0
        if taken + (self.rows or 1) > there:
            raise AuditError(
                f"{self.dataset} has {there} examples: no {self.rows or 1} are left beside "
                f"canary.count={taken} of them; lower one of the two"
            )

    @property
    def canaries(self) -> Array:
        """(m, d) their inputs."""
        return self.data([False] * self.count).canary_inputs

    def data(self, bits: Sequence[bool]) -> Examples:
        """The base examples and all canaries, with ``bits`` (m,) that say which are trained on."""
        inputs, labels = data_set(self.dataset)
        rng = np.random.default_rng(self.seed)
        order, classes = rng.permutation(len(labels)), int(labels.max()) + 1
        if self.kind == "mislabelled":
            mine, order = order[: self.count], order[self.count :]
            canaries, wrong = (
                inputs[mine],
                (labels[mine] + rng.integers(1, classes, self.count)) % classes,
            )
        else:
            canaries, wrong = (
                np.zeros((self.count, inputs.shape[1])),
                np.arange(self.count) % classes,
            )
        base = order[: self.rows]
        return Examples(
            inputs[base],
            labels[base],
            canaries,
            wrong,
            read_only(bits, bool),
            classes,
            dirac=self.kind == "dirac",
        )

    def __str__(self) -> str:
        base = len(self.data([False] * self.count).labels)
        one, many, what = WORDS[self.kind]
        canaries = f"{self.count} {many}" if self.count > 1 else one
        return f"{base} examples of {self.dataset}, with or without {canaries} {what}"
