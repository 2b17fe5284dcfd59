"""Fit and predict: the classifiers that attackers use. The only door to scikit-learn and xgboost."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from audit.core import Array, AuditError

Predict = Callable[[Array], Array]


def fit(make: Callable[[], Any], rows: Array, bits: Array) -> Predict:
    """Fit a classifier and return rows (n, k) → log-odds or probability (n,) that a bit is 1.

    Args:
        make: builds an unfitted classifier with scikit-learn's ``fit`` and ``predict_proba`` or ``decision_function``.
        rows: (n, k) features.
        bits: (n,) labels.
    """
    model = make().fit(rows, bits)
    if hasattr(model, "decision_function"):
        return model.decision_function
    return lambda unseen: model.predict_proba(unseen)[:, 1]


def logistic(strength: float) -> Any:
    """Standardised columns, then logistic regression with an L2 penalty of inverse strength ``strength``."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))


def gradient_boosting(**settings: Any) -> Any:
    """scikit-learn's gradient-boosted trees."""
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(**settings)


def random_forest(**settings: Any) -> Any:
    """scikit-learn's random forest, on one core: with more, the trees' votes are added up in any order, and differ."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_jobs=1, **settings)


def xgboost(**settings: Any) -> Any:
    """XGBoost's trees, on one core; its raw margin is the score, since a probability loses its tails to rounding.

    Some thousand trials are fitted in half a second; with more threads than free cores it was seen to take thirty.
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


# --- data sets ---------------------------------------------------------------------------------------------------------


def breast_cancer() -> tuple[tuple[str, ...], Array, Array]:
    """The Wisconsin data set that scikit-learn ships: names, (569, 30) measurements, (569,) whether benign."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    return tuple(map(str, found.feature_names)), found.data, found.target


def digits() -> tuple[Array, Array]:
    """The hand-written digits that scikit-learn ships: (1797, 64) grey values in [0, 1], (1797,) labels 0 … 9."""
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
        raise AuditError(f"data set {name!r} cannot be fetched from OpenML ({told}); give task.data.path=…") from error


def components(rows: Array, count: int) -> Callable[[Array], Array]:
    """Whitened principal components of ``rows``, as a map of (n, d) to (n, count)."""
    from sklearn.decomposition import PCA

    return PCA(count, whiten=True, svd_solver="full").fit(rows).transform
