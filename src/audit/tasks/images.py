"""The last layer of an image classifier, from noisy class sums of features that were learnt on
public images."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit import learning
from audit.core import Array
from audit.privacy import STRICT
from audit.tasks.data import need_two_classes, split
from audit.tasks.task import Model

Share = Annotated[float, Field(ge=0, le=1)]
CLASSES = 10


@dataclass(frozen=True, config=STRICT)
class Images:
    """scikit-learn's digits: whitened components of a public half, scaled to norm 1, then a linear
    last layer.

    The private half trains that layer through its sufficient statistics under a Gaussian with the
    public covariance: the sum of each class's features. Replacing one image moves them by 2 in L2
    at most, since each image adds a vector of norm 1 to one class. The layer is score_c = ⟨m_c,
    x⟩ − ‖m_c‖²/2, m_c the class sum over the public number of images a class, shrunk as far as its
    noise demands.

    Args:
        features: number of components.
        train: share of the private half that trains.
        validation: share of it that validates; the rest tests.
    """

    features: Annotated[int, Field(ge=2, le=64)] = 20
    train: Share = 0.6
    validation: Share = 0.2

    def open(self, seed: int) -> ImagesWork:
        """Load, learn features on the public half (every other image), split the private one.

        Raises:
            AuditError: an empty part.
        """
        images, labels = learning.digits()
        need_two_classes(labels, "digit")
        embed = learning.components(images[::2], self.features)
        rows = embed(images[1::2])
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        parts = split(len(rows), self.train, self.validation, seed)
        training, validating, testing = ((rows[part], labels[1::2][part]) for part in parts)
        return ImagesWork(training, validating, testing)


Labelled = tuple[Array, Array]


@dataclasses.dataclass(frozen=True)
class ImagesWork:
    """See `audit.tasks.task.Work`; each part is (n, features) of norm 1 and (n,) labels."""

    training: Labelled
    validating: Labelled
    testing: Labelled

    @functools.cached_property
    def answer(self) -> Array:
        """(classes·features,) sum of each class's features."""
        rows, labels = self.training
        return np.asarray(np.eye(CLASSES)[labels].T @ rows).ravel()

    sensitivity: float = 2.0

    @property
    def validators(self) -> int:
        """Number of validation images."""
        return len(self.validating[1])

    def train(self, noisy: Array, precision: float, rng: np.random.Generator) -> Model:
        """Class means from noisy sums."""
        each = len(self.training[1]) / CLASSES  # public
        sums = noisy.reshape(CLASSES, -1)
        # James and Stein: what noise adds to a squared length is known, the rest is signal.
        length = np.maximum(np.sum(sums**2, axis=1, keepdims=True), 1e-12)
        layer = sums / each * np.maximum(1 - sums.shape[1] / (precision * length), 0.05)
        return Model(
            _right(layer, self.validating),
            _right(layer, self.testing),
            functools.partial(_write, layer),
        )

    def __str__(self) -> str:
        rows, labels = self.training
        return (
            f"the last layer ({rows.shape[1]} features of a public half, {CLASSES} classes) from "
            f"sums over {len(labels)} digits (L2 sensitivity {self.sensitivity:g}), checked on "
            f"{self.validators} others"
        )


def _right(layer: Array, part: Labelled) -> float:
    """Accuracy on one part."""
    rows, labels = part
    return float(
        np.mean(np.argmax(rows @ layer.T - np.sum(layer**2, axis=1) / 2, axis=1) == labels)
    )


def _write(layer: Array, folder: Path) -> Path:
    path = folder / "layer.npy"
    np.save(path, layer)
    return path
