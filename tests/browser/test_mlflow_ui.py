"""The MLflow UI on a sweep of four audits: what the printed links open on, and what is there to
compare."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from audit import charts, server, tracking
from audit.tracking import Store

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.slow
NAMES = ("eps=1 advantage", "eps=1 mu_lower", "eps=2 advantage", "eps=2 mu_lower")
PATIENCE = 60  # seconds that a page may take on a busy machine


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str, str]]:
    """Four audits by the command line, and the UI on them: the store, the printed link and the UI's
    address."""
    folder = tmp_path_factory.mktemp("sweep")
    words = (
        "mechanism=gaussian attacker=likelihood_ratio trials=400 backend=serial eps=1,2 "
        "criterion=advantage,mu_lower -m"
    )
    environment = {
        name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"
    }
    done = subprocess.run(
        [sys.executable, "-m", "audit", *words.split()],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    link = re.findall(r"^sweep +(\S+)", done.stdout, flags=re.MULTILINE)[-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        store = Store.open(folder / "mlruns")
        port = server.free_port(5700)
        with server.serve(store.uri, port):
            ui = f"http://{server.HOST}:{port}"
            yield store, link.replace(tracking.LOCAL_UI, ui), ui


@pytest.fixture
def look(page: Chrome, sweep: tuple[Store, str, str]) -> Chrome:
    """The browser as that of somebody who has closed MLflow's assistant once."""
    page.set_window_size(1600, 1000)
    page.get(f"{sweep[2]}/health")
    page.execute_script(
        "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
    )
    return page


def text(page: Chrome) -> str:
    return page.execute_script("return document.body.innerText")


def wait(page: Chrome, *words: str) -> str:
    """What the page says once it says all of ``words``."""
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.support.ui import WebDriverWait

    try:
        WebDriverWait(page, PATIENCE).until(lambda page: all(word in text(page) for word in words))
    except TimeoutException:
        missing = [word for word in words if word not in text(page)]
        pytest.fail(f"the page never says {missing}; it says: {text(page)[:1500]}")
    return text(page)


def scroll(page: Chrome, heading: str) -> None:
    page.execute_script(
        "const all = "
        "[...document.querySelectorAll('[data-testid=experiment-view-compare-runs-chart-area] "
        "*')];all.find(e => e.children.length === 0 && "
        "e.textContent.startsWith(arguments[0])).scrollIntoView()",
        heading,
    )


def test_the_printed_link_opens_on_the_charts_that_matter(
    look: Chrome, sweep: tuple[Store, str, str], shots: Path
) -> None:
    look.get(sweep[1])
    said = wait(look, *NAMES, "4 matching runs", "What each audit found", "mu_emp", "tightness")
    places = [said.index(f"\n{word}\n") for word in ("mu_emp", "mu_hat", "tightness", "accusing")]
    assert places == sorted(places)  # no alphabet of charts: these are first
    look.save_screenshot(str(shots / "ui_charts.png"))
    for heading, there in (
        ("Parallel coordinates", "mechanism"),
        ("Scatter", "mu_implied vs. mu_emp"),
        ("Tradeoff curves", "eps=2 mu_lower (beta)"),  # all four in one chart
        ("Figures", "tradeoff"),
    ):
        scroll(look, heading)
        wait(look, there)
        look.save_screenshot(str(shots / f"ui_{heading.split()[0].lower()}.png"))
    assert "per_estimator" not in text(look)  # all else is there, and closed


def test_the_curves_are_drawn_one_a_run_from_corner_to_corner(
    look: Chrome, sweep: tuple[Store, str, str]
) -> None:
    look.get(sweep[1])
    wait(look, *NAMES, "Tradeoff curves")
    scroll(look, "Tradeoff curves")
    wait(look, *(f"{name} (beta)" for name in NAMES[:2]))
    drawn = look.execute_script(
        "return [...document.querySelectorAll('.js-plotly-plot')].map(p => p.data.map(d => "
        "[d.type, d.mode, d.x ? d.x.length : 0, d.line ? d.line.shape : '', d.name || '']))"
    )
    lines = [[one for one in chart if one[2] >= 101] for chart in drawn]
    assert any(len(chart) >= 4 for chart in lines), drawn


def test_the_table_has_the_columns(
    look: Chrome, sweep: tuple[Store, str, str], shots: Path
) -> None:
    wanted = [column.rstrip("`").split(".`")[1] for column in charts.COLUMNS]
    assert wanted == [
        "mechanism",
        "eps",
        "criterion",
        "attacker",
        "mu_emp",
        "mu_hat",
        "mu_implied",
        "tightness",
        "verdict",
    ]
    look.get(sweep[1].replace("CHART", "TABLE"))
    said = wait(look, *NAMES, *wanted, "4 matching runs").splitlines()
    assert set(wanted) <= set(said)
    assert said.count("gaussian") == 4
    look.save_screenshot(str(shots / "ui_table.png"))
    # Without the shared view they would not be there.
    look.get(f"{sweep[2]}/#/experiments/{sweep[0].experiment}/runs?compareRunsMode=TABLE")
    look.refresh()
    assert not {"tightness", "verdict"} & set(wait(look, "matching run").splitlines())


def test_four_runs_are_compared_side_by_side(
    look: Chrome, sweep: tuple[Store, str, str], shots: Path
) -> None:
    store, _, ui = sweep
    parent = store.newest()
    assert parent is not None
    children = store.children(parent.info.run_id)
    assert len(children) == 4
    look.get(tracking.compare_link(ui, store.experiment, children))
    said = wait(look, "Parallel Coordinates Plot", "Scatter Plot", *NAMES, *children)
    assert "mu_emp" in said and "criterion" in said
    look.save_screenshot(str(shots / "ui_compare.png"))


def test_all_audits_have_a_view_too(look: Chrome, sweep: tuple[Store, str, str]) -> None:
    store, _, ui = sweep
    look.get(tracking.sweep_link(ui, store.experiment, tracking.ALL))
    # not the sweep's own run, which has no verdict
    wait(look, *NAMES, "4 matching runs", "What each audit found")


@pytest.mark.parametrize(
    ("file", "there"),
    [
        ("tradeoff.png", "return [...document.images].some(i => i.naturalWidth > 500)"),
        ("report.html", "return [...document.querySelectorAll('iframe')].length === 1"),
        ("tradeoff.csv", "return document.body.innerText.includes('alpha')"),
        ("config.yaml", "return document.body.innerText.includes('significance')"),
        ("bounds.json", "return document.body.innerText.includes('leaks_at_least')"),
    ],
)
def test_artifacts_are_shown_inline(
    file: str, there: str, look: Chrome, sweep: tuple[Store, str, str], shots: Path
) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    store, _, ui = sweep
    parent = store.newest()
    assert parent is not None
    run = store.children(parent.info.run_id)[0]
    look.get(f"{ui}/#/experiments/{store.experiment}/runs/{run}/artifacts/{file}")
    WebDriverWait(look, PATIENCE).until(lambda page: page.execute_script(there))
    look.save_screenshot(str(shots / f"ui_artifact_{Path(file).stem}_{Path(file).suffix[1:]}.png"))


def test_telemetry_is_off(look: Chrome, sweep: tuple[Store, str, str]) -> None:
    look.get(sweep[1])
    wait(look, *NAMES)
    asked = look.execute_script("return performance.getEntriesByType('resource').map(r => r.name)")
    assert [url for url in asked if not url.startswith((sweep[2], "data:", "blob:"))] == []
    look.get(f"{sweep[2]}/ajax-api/3.0/mlflow/ui-telemetry")
    assert '"disable_ui_telemetry":true' in text(look)
