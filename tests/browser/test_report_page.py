"""The report page as a browser shows it: values under the pointer, dark, on a phone, in print,
without scripts."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from test_report import fake, page_of, sweep_page_of

from audit.report import page as written

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    grid = [
        fake(eps=eps, name=f"{m} eps={eps:g} xgboost") for m in ("mst", "aim") for eps in (0.5, 1.0)
    ]
    pages = {
        "audit": page_of(fake("mu_hat")),
        "sweep": sweep_page_of(grid, "grid", "audit sweep=grid", "Together."),
    }
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in pages}


def js(page: Chrome, code: str, *values: Any) -> Any:
    return page.execute_script(code, *values)


def readings(page: Chrome, plot: int = 0) -> dict[str, str]:
    """What stands beside the pointer, name → value; nothing where nothing does."""
    return js(
        page,
        "const box = "
        "document.querySelectorAll('[data-plot]')[arguments[0]].querySelector('.reading');return "
        "!box || box.hidden ? {} : Object.fromEntries([...box.children].map(row => "
        "[row.children[0].textContent, row.children[1].textContent]));",
        plot,
    )


def hover(page: Chrome, x: float, plot: int = 0) -> None:
    """Put the pointer over a place of a figure's axis."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    element = page.find_elements(By.CSS_SELECTOR, "[data-plot]")[plot]
    js(page, "arguments[0].scrollIntoView({block: 'center'})", element)
    told = json.loads(js(page, "return arguments[0].querySelector('script').textContent", element))
    left, _, right, _ = told["frame"]
    low, high = told["xlim"]
    wide = js(
        page, "return arguments[0].querySelector('svg').getBoundingClientRect().width", element
    )
    across = (left + (x - low) / (high - low) * (right - left)) * wide
    ActionChains(page).move_to_element_with_offset(element, round(across - wide / 2), 0).perform()


def test_the_pointer_reads_every_curve_of_the_figure(
    page: Chrome, files: dict[str, Path], shots: Path
) -> None:
    page.get(files["audit"].as_uri())
    assert readings(page) == {}
    hover(page, 0.3)
    told = readings(page)
    assert abs(float(told["α"]) - 0.3) <= 0.005  # a pixel is less than that
    result = fake("mu_hat")
    at = round(float(told["α"]) * 200)
    for name, _, values in written.curve_readings(result).curves:
        assert told[name] == f"{values[at]:.3f}"
    page.save_screenshot(str(shots / "audit_hover.png"))
    hover(page, 0.9)
    assert float(readings(page)["α"]) > 0.88


def test_dots_are_on_the_drawn_curve(page: Chrome, files: dict[str, Path]) -> None:
    """The dot at random guessing's corner: measured β at α = 0.3 in pixels, from the axes that
    matplotlib drew."""
    page.get(files["audit"].as_uri())
    hover(page, 0.3)
    place = js(
        page,
        "const plot = document.querySelector('[data-plot]'), dot = "
        "plot.querySelector('.dot').getBoundingClientRect(), ticks = "
        "[...plot.querySelectorAll('svg g[id$=-ytick_1] use, svg g[id$=-ytick_6] use')].map(t => "
        "t.getBoundingClientRect());return [dot.top + dot.height / 2, ...ticks.map(t => t.top + "
        "t.height / 2)];",
    )
    dot, zero, one = place
    drawn = (zero - dot) / (zero - one)
    assert drawn == pytest.approx(float(readings(page)["measured"]), abs=0.01)  # a few pixels


def test_the_keyboard_reads_too_and_escape_ends_it(page: Chrome, files: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page.get(files["audit"].as_uri())
    plot = page.find_elements(By.CSS_SELECTOR, "[data-plot]")[1]
    assert plot.get_attribute("aria-label") and plot.get_attribute("tabindex") == "0"
    plot.send_keys(Keys.ARROW_RIGHT)
    first = readings(page, 1)
    plot.send_keys(Keys.ARROW_RIGHT)
    second = readings(page, 1)
    assert set(first) == {"threshold", "fpr", "fnr", "advantage"}
    assert float(second["threshold"]) > float(first["threshold"]) and float(second["fpr"]) <= float(
        first["fpr"]
    )
    plot.send_keys(Keys.ESCAPE)
    assert readings(page, 1) == {}


def test_everything_is_there_without_scripts(page: Chrome, files: dict[str, Path]) -> None:
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.get(files["audit"].as_uri())
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert js(page, "return document.querySelectorAll('svg').length") == 2
    assert js(
        page, "return [...document.querySelectorAll('button')].every(b => !b.offsetWidth)"
    )  # none that does nothing
    assert "Do it again" in js(page, "return document.body.innerText")


def test_copy_copies_the_command(page: Chrome, files: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    page.get(files["audit"].as_uri())
    button = page.find_element(By.CSS_SELECTOR, "button[data-copy]")
    button.click()
    command = js(page, "return document.getElementById('command').textContent")
    assert command == "python -m audit mechanism=mst_fixed eps=1"
    assert js(page, "return getSelection().toString()").strip() == command
    WebDriverWait(page, 10, poll_frequency=0.05).until(
        lambda page: button.text == "Copied"
    )  # the clipboard answers late


def colours(page: Chrome) -> tuple[list[int], list[int]]:
    told = js(
        page, "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    )
    ink, paper = ([int(part) for part in re.findall(r"\d+", colour)[:3]] for colour in told)
    return ink, paper


def contrast(ink: list[int], paper: list[int]) -> float:
    """WCAG 2.1's contrast ratio."""

    def luminance(colour: list[int]) -> float:
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
            for c in (v / 255 for v in colour)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    one, other = sorted((luminance(ink), luminance(paper)))
    return (other + 0.05) / (one + 0.05)


@pytest.mark.parametrize("name", ["audit", "sweep"])
def test_light_and_dark(name: str, page: Chrome, files: dict[str, Path], shots: Path) -> None:
    page.get(files[name].as_uri())
    seen = {}
    for scheme in ("light", "dark"):
        page.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        ink, paper = seen[scheme] = colours(page)
        assert contrast(ink, paper) > 7  # WCAG AAA
        page.save_screenshot(str(shots / f"{name}_{scheme}.png"))
        text = js(page, "return getComputedStyle(document.querySelector('svg text')).fill")
        assert contrast([int(part) for part in re.findall(r"\d+", text)[:3]], paper) > 4.5
    assert sum(seen["light"][1]) > 700 and sum(seen["dark"][1]) < 120


@pytest.mark.parametrize("name", ["audit", "sweep"])
@pytest.mark.parametrize("width", [320, 375])
def test_a_phone_scrolls_down_only(
    name: str, width: int, page: Chrome, files: dict[str, Path], shots: Path
) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 2600, "deviceScaleFactor": 1, "mobile": True},
    )
    page.get(files[name].as_uri())
    assert js(page, "return document.documentElement.scrollWidth") <= width
    page.save_screenshot(str(shots / f"{name}_phone.png"))
    js(page, "document.querySelector('main').append(Object.assign(document.createElement('p'),"
             " {style: 'width: 500px', textContent: 'x'}))")  # fmt: skip
    # what the check would notice
    assert js(page, "return document.documentElement.scrollWidth") > width


def test_print_opens_the_tables_and_hides_the_buttons(
    page: Chrome, files: dict[str, Path], shots: Path
) -> None:
    page.get(files["audit"].as_uri())
    assert js(page, "return document.querySelectorAll('details[open]').length") == 0
    js(page, "dispatchEvent(new Event('beforeprint'))")
    assert js(page, "return [...document.querySelectorAll('details')].every(d => d.open)")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    assert sum(colours(page)[1]) > 700  # paper is white, whatever the screen
    assert js(page, "return getComputedStyle(document.querySelector('button')).display") == "none"
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    printed = base64.b64decode(
        page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    )
    (shots / "audit.pdf").write_bytes(printed)
    assert printed.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", printed)) <= 6


def test_a_screen_reader_is_told_everything(page: Chrome, files: dict[str, Path]) -> None:
    """The accessibility tree has a name for each figure, and every table has headers."""
    page.get(files["audit"].as_uri())
    nodes = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    told = [
        (n["role"]["value"], n.get("name", {}).get("value", ""))
        for n in nodes
        if not n.get("ignored")
    ]
    images = [name for role, name in told if role in ("image", "img")]
    assert len(images) == 2 and all(len(name) > 50 for name in images)
    headings = [name for role, name in told if role == "heading"]
    assert headings[1:] == [
        "What was audited",
        "What it leaks at least",
        "What that means",
        "Figures",
        "Where it comes from",
        "Do it again",
    ]
    assert {"columnheader", "rowheader"} <= {role for role, _ in told}
    assert js(page, "return document.documentElement.lang") == "en"


def test_nothing_is_asked_of_the_network_and_nothing_is_wrong(
    page: Chrome, files: dict[str, Path]
) -> None:
    page.get_log("browser")  # what other tests' pages complained of
    for path in files.values():
        page.get(path.as_uri())
        assert js(page, "return performance.getEntriesByType('resource').map(r => r.name)") == []
        assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []
