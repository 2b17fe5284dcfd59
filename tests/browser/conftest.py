"""A real browser: Debian's Chromium, without a window, through selenium.

selenium comes with the test extra. Chromium and its driver are packages of the system, which pip
cannot bring: ``apt-get install -y chromium chromium-driver`` (in CI too; the fixture does it itself
where it may, as root in a container). Both are taken by their path, so that selenium downloads
nothing. Where they cannot be had the tests are skipped, and say why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import filelock
import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PACKAGES = ("chromium", "chromium-driver")
PLACES = ("/usr/bin", "/usr/lib/chromium", "/usr/lib/chromium-browser", "/snap/bin")


def found(*names: str) -> str | None:
    """The path of the first program of these names."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *PLACES])
    return next((where for name in names if (where := shutil.which(name, path=path))), None)


def both() -> tuple[str | None, str | None]:
    return found("chromium", "chromium-browser", "google-chrome"), found(
        "chromedriver", "chromium.chromedriver"
    )


def install() -> str:
    """Have the system's packages brought, one process at a time; why they could not be, or
    nothing."""
    if os.geteuid() or not shutil.which("apt-get"):
        return f"install them: apt-get install {' '.join(PACKAGES)}"
    with filelock.FileLock("/tmp/audit-apt.lock"):
        if all(both()):
            return ""
        words = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
        except subprocess.TimeoutExpired:
            return "apt-get did not finish within four minutes"
    return "" if done.returncode == 0 else f"apt-get: {done.stderr.strip().splitlines()[-1:]}"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Chromium; every test leaves it with no page and no emulated screen."""
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service

    why = "" if all(both()) else install()
    chromium, driver = both()
    if chromium is None or driver is None:
        pytest.skip(f"no {'chromium' if chromium is None else 'chromedriver'} can be had; {why}")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless=new",
        "--no-sandbox",  # as root in a container
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--window-size=1600,1000",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    try:
        chrome = webdriver.Chrome(options=options, service=Service(driver))
    except WebDriverException as error:
        pytest.skip(f"Chromium does not start on this machine: {str(error).splitlines()[0]}")
    try:
        yield chrome
    finally:
        chrome.quit()


@pytest.fixture
def page(browser: Chrome) -> Iterator[Chrome]:
    """The browser with a clean screen before and after."""
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    browser.get("about:blank")


@pytest.fixture
def shots(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where screenshots are left for people to look at: ``AUDIT_SHOTS``, else a temporary
    folder."""
    folder = Path(os.environ.get("AUDIT_SHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
