"""The shared view of the MLflow UI: what it shows is put somewhere, and MLflow keeps it whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from audit import charts


@pytest.fixture
def view() -> dict[str, Any]:
    return json.loads(charts.view("tags.sweep = 'x'"))


def test_the_view_finds_what_it_was_made_for_and_sorts_by_a_metric(view: dict[str, Any]) -> None:
    assert view["searchFilter"] == "tags.sweep = 'x'"
    assert view["orderByKey"] in view["selectedColumns"]  # else the UI hides nested runs


def test_every_chart_is_in_a_section_that_is_open(view: dict[str, Any]) -> None:
    shown = {section["uuid"] for section in view["compareRunSections"] if section["display"]}
    assert {chart["metricSectionId"] for chart in view["compareRunCharts"]} == shown
    for kind in (view["compareRunSections"], view["compareRunCharts"]):
        assert len({one["uuid"] for one in kind}) == len(kind)


def test_there_are_bars_lines_images_parallel_coordinates_and_scatter(view: dict[str, Any]) -> None:
    kinds = [chart["type"] for chart in view["compareRunCharts"]]
    assert set(kinds) == {"BAR", "PARALLEL", "SCATTER", "LINE", "IMAGE"}
    assert view["compareRunCharts"][0]["metricKey"] == "mu_emp"


def test_mlflow_keeps_it_whole() -> None:
    from mlflow.utils.validation import MAX_EXPERIMENT_TAG_VAL_LENGTH

    assert len(charts.view("x" * 200)) < MAX_EXPERIMENT_TAG_VAL_LENGTH
