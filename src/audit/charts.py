"""How the MLflow UI shows audits: which charts in which order, which columns, sorted by what.

The UI keeps a view that someone shares as JSON under a tag of the experiment, and opens it by its
key. Ours is written the same way, so that a link opens on what matters instead of on an alphabet of
charts. Names of fields are those of the UI of MLflow 3.17 (``compareRunCharts``,
``selectedColumns``, …); fields that a later one does not know are passed over.
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
    """The view of the audits that ``search``, a filter in MLflow's language, finds: JSON for the
    experiment's tag."""
    ours = {
        "What each audit found": 4,
        "Parallel coordinates": 1,
        "Scatter": 3,
        "Tradeoff curves": 2,
        "Figures": 2,
    }
    # Charts that MLflow adds by itself go into sections that it knows by name; they are there, and
    # closed.
    columns = ours | {"Model metrics": 3, "System metrics": 3}
    found, parallel, scatter, curves, figures, *_ = ids = [
        f"audit-section-{place}" for place in range(len(columns))
    ]
    charts = [
        *(
            _chart("BAR", found, metricKey=name)
            for name in ("mu_emp", "mu_hat", "tightness", "accusing")
        ),
        _chart(
            "PARALLEL",
            parallel,
            selectedParams=["mechanism", "attacker", "criterion", "eps"],
            selectedMetrics=["mu_implied", "mu_emp", "tightness"],
        ),
        *(
            _scatter(scatter, x, y)
            for x, y in (("mu_implied", "mu_emp"), ("mu_hat", "mu_emp"), ("fpr", "fnr"))
        ),
        *(_line(curves, name, f"β at 1,000 α, {told}") for name, told in CURVES.items()),
        *(
            _chart("IMAGE", figures, imageKeys=[name], showRunParams=False)
            for name in ("tradeoff", "threshold")
        ),
    ]
    state: dict[str, Any] = {
        "searchFilter": search,
        # nested runs are hidden until runs are sorted by a metric
        "orderByKey": "metrics.`mu_emp`",
        "orderByAsc": False,
        "selectedColumns": list(COLUMNS),
        "runsHiddenMode": "FIRST_20_RUNS",
        "compareRunCharts": [
            {"uuid": f"audit-chart-{place}", **chart} for place, chart in enumerate(charts)
        ],
        "compareRunSections": [
            {
                "uuid": id,
                "name": name,
                "columns": columns[name],
                "display": name in ours,
                "isReordered": False,
                "deleted": False,
                "isGenerated": name not in ours,
            }
            for id, name in zip(ids, columns, strict=True)
        ],
        "isAccordionReordered": True,  # otherwise sections are put in alphabetical order
        "hideEmptyCharts": True,
        "globalLineChartConfig": {
            "xAxisKey": "step",
            "lineSmoothness": 0,
            "selectedXAxisMetricKey": "",
        },
    }
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


def _line(section: str, name: str, told: str) -> dict[str, Any]:
    # smoothed, it would lie
    plain = {"displayPoints": False, "lineSmoothness": 0, "useGlobalLineSmoothing": False}
    return _chart(
        "LINE", section, metricKey=name, selectedMetricKeys=[name], displayName=told, **plain
    )


def _scatter(section: str, x: str, y: str) -> dict[str, Any]:
    axes = {name: {"key": key, "type": "METRIC"} for name, key in (("xaxis", x), ("yaxis", y))}
    return _chart("SCATTER", section, displayName=f"{y} against {x}", **axes)
