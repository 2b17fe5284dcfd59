"""Fit and predict: the classifiers that attackers use. The only door to scikit-learn and
xgboost."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np

from audit.core import Array, AuditError, read_only

DataSet = Literal["digits", "breast_cancer"]
Predict = Callable[[Array], Array]


@dataclasses.dataclass(frozen=True)
class Examples:
    """What a classifier is trained on: base examples, and canaries that are among them or not.

    Args:
        inputs: (n, d) floats of the base examples.
        labels: (n,) their classes, integers in [0, classes).
        canary_inputs: (m, d).
        canary_labels: (m,).
        present: (m,) which canaries are trained on.
        classes: how many there are.
        dirac: canaries have no loss but a gradient, very large, in one coordinate each.
    """

    inputs: Array
    labels: Array
    canary_inputs: Array
    canary_labels: Array
    present: Array
    classes: int
    dirac: bool = False

    made_by: ClassVar[str] = "canary=mislabelled, dirac or blank"

    def __post_init__(self) -> None:
        for name in ("inputs", "labels", "canary_inputs", "canary_labels", "present"):
            object.__setattr__(self, name, read_only(getattr(self, name)))


@functools.cache
def data_set(name: DataSet) -> tuple[Array, Array]:
    """Inputs (n, d) and labels (n,): 1,797 digits of 8 × 8 pixels in [0, 1], or 569 tumours by 30
    standardised numbers.

    The scale of the tumours is that of the data themselves, which is taken to be public.
    """
    from sklearn import datasets

    if name == "digits":
        inputs, labels = datasets.load_digits(return_X_y=True)
        return read_only(inputs / 16), read_only(labels)
    inputs, labels = datasets.load_breast_cancer(return_X_y=True)
    return read_only((inputs - np.mean(inputs, axis=0)) / np.std(inputs, axis=0)), read_only(labels)


def fit(make: Callable[[], Any], rows: Array, bits: Array) -> Predict:
    """Fit a classifier and return rows (n, k) → log-odds or probability (n,) that a bit is 1.

    Args:
        make: builds an unfitted classifier with scikit-learn's ``fit`` and ``predict_proba`` or
            ``decision_function``.
        rows: (n, k) features.
        bits: (n,) labels.
    """
    model = make().fit(rows, bits)
    if hasattr(model, "decision_function"):
        return model.decision_function
    return lambda unseen: model.predict_proba(unseen)[:, 1]


def logistic(C: float) -> Any:
    """Standardised columns, then logistic regression with an L2 penalty of inverse strength
    ``C``."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000))


def gradient_boosting(**settings: Any) -> Any:
    """scikit-learn's gradient-boosted trees."""
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(**settings)


def random_forest(**settings: Any) -> Any:
    """scikit-learn's random forest, on one core: with more, the trees' votes are added up in any
    order, and differ."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_jobs=1, **settings)


def xgboost(**settings: Any) -> Any:
    """XGBoost's trees, on one core; its raw margin is the score, since a probability loses its
    tails to rounding.

    Some thousand trials are fitted in half a second; with more threads than free cores it was seen
    to take thirty.
    """
    from xgboost import XGBClassifier

    return _Margin(functools.partial(XGBClassifier, tree_method="hist", n_jobs=1, **settings))


class _Margin:
    """An XGBoost classifier that answers with its margin."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._model = make()

    def fit(self, rows: Array, bits: Array) -> _Margin:
        self._model.fit(rows, bits)
        return self

    def decision_function(self, rows: Array) -> Any:
        return self._model.predict(rows, output_margin=True)


# --- data sets ------------------------------------------------------------------------------------


def breast_cancer() -> tuple[tuple[str, ...], Array, Array]:
    """The Wisconsin data set that scikit-learn ships: names, (569, 30) measurements, (569,) whether
    benign."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    return tuple(map(str, found.feature_names)), found.data, found.target


def digits() -> tuple[Array, Array]:
    """The hand-written digits that scikit-learn ships: (1797, 64) grey values in [0, 1], (1797,)
    labels 0 … 9."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return found.data / 16.0, found.target


def openml(name: str, version: int, cache: str | None) -> Any:
    """A data frame from OpenML, kept in ``cache``; None: scikit-learn's own folder.

    Raises:
        AuditError: offline, and not kept before.
    """
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of every retry
            return fetch_openml(name, version=version, data_home=cache, as_frame=True).frame
    except Exception as error:  # whatever a network does: URLError, timeouts, a damaged cache
        told = " ".join(str(error).split())[:120]
        raise AuditError(
            f"data set {name!r} cannot be fetched from OpenML ({told}); give task.data.path=…"
        ) from error


def components(rows: Array, count: int) -> Callable[[Array], Array]:
    """Whitened principal components of ``rows``, as a map of (n, d) to (n, count)."""
    from sklearn.decomposition import PCA

    return PCA(count, whiten=True, svd_solver="full").fit(rows).transform
