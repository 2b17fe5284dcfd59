"""How the MLflow UI shows audits: which charts in which order, which columns, sorted by what.

The UI keeps a view that someone shares as JSON under a tag of the experiment, and opens it by its key. Ours is written
the same way, so that a link opens on what matters instead of on an alphabet of charts. Names of fields are those of the
UI of MLflow 3.17 (``compareRunCharts``, ``selectedColumns``, …); fields that a later one does not know are passed over.
"""

from __future__ import annotations

import json
from typing import Any

SHARED = "mlflow.sharedViewState."
"""What the name of the experiment's tag begins with; the view's key follows."""

COLUMNS = (
    "params.`mechanism`",
    "params.`eps`",
    "params.`criterion`",
    "params.`attacker`",
    "metrics.`mu_emp`",
    "metrics.`mu_hat`",
    "metrics.`mu_implied`",
    "metrics.`tightness`",
    "tags.`verdict`",
)
CURVES = {"beta": "measured", "beta_claimed": "claimed"}
"""Metrics with a step: β of the tradeoff curve at step 1,000 α."""


def view(search: str) -> str:
    """The view of the audits that ``search``, a filter in MLflow's language, finds: JSON for the experiment's tag."""
    ours = ("What each audit found", "Audits beside each other", "Tradeoff curves", "Figures")
    # Charts that MLflow adds by itself go into sections that it knows by name; they are there, and closed.
    ids = {name: f"audit-section-{place}" for place, name in enumerate([*ours, "Model metrics", "System metrics"])}
    bars = [_chart("BAR", ids[ours[0]], metricKey=name) for name in ("mu_emp", "mu_hat", "tightness", "accusing")]
    beside = [
        _chart("PARALLEL", ids[ours[1]], selectedParams=["mechanism", "eps", "criterion", "attacker"],
               selectedMetrics=["mu_implied", "mu_emp", "tightness"]),
        _scatter(ids[ours[1]], "mu_implied", "mu_emp"),
        _scatter(ids[ours[1]], "fpr", "fnr"),
    ]  # fmt: skip
    curves = [
        _chart("LINE", ids[ours[2]], metricKey=name, selectedMetricKeys=[name],
               displayName=f"β at 1,000 α, {told}", displayPoints=False)
        for name, told in CURVES.items()
    ]  # fmt: skip
    images = [_chart("IMAGE", ids[ours[3]], imageKeys=[name]) for name in ("tradeoff", "threshold")]
    charts = [*bars, *beside, *curves, *images]
    state: dict[str, Any] = {
        "searchFilter": search,
        "orderByKey": "metrics.`mu_emp`",  # nested runs are hidden until runs are sorted by a metric
        "orderByAsc": False,
        "selectedColumns": list(COLUMNS),
        "runsHiddenMode": "FIRST_20_RUNS",
        "compareRunCharts": [{"uuid": f"audit-chart-{place}", **chart} for place, chart in enumerate(charts)],
        "compareRunSections": [
            {"uuid": id, "name": name, "display": name in ours, "isReordered": False, "deleted": False,
             "isGenerated": name not in ours}
            for name, id in ids.items()
        ],
        "isAccordionReordered": True,  # otherwise sections are put in alphabetical order
        "hideEmptyCharts": True,
        "autoRefreshEnabled": True,
    }  # fmt: skip
    return json.dumps(state, separators=(",", ":"))


def _chart(kind: str, section: str, **more: Any) -> dict[str, Any]:
    common = {
        "type": kind,
        "metricSectionId": section,
        "runsCountToCompare": 20,
        "deleted": False,
        "isGenerated": False,
    }
    return common | more


def _scatter(section: str, x: str, y: str) -> dict[str, Any]:
    axes = {name: {"key": key, "type": "METRIC"} for name, key in (("xaxis", x), ("yaxis", y))}
    return _chart("SCATTER", section, displayName=f"{y} against {x}", **axes)
