"""docs/own-mechanism.md: its blocks run as they stand, in an empty folder, and find what they
say."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "own-mechanism.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
MINUTES = 5


@pytest.mark.slow
def test_the_page_leads_from_nothing_to_verdicts_in_under_five_minutes(tmp_path):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    start, verdicts = time.monotonic(), 0
    for block in BLOCKS:
        done = subprocess.run(
            ["bash", "-eu", "-c", block],
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        for promise in re.findall(r"# (no violation|violation)$", block, flags=re.MULTILINE):
            verdict = re.search(
                r"^(violation|suspicious|tight|loose|inconclusive)  ",
                done.stdout,
                flags=re.MULTILINE,
            )
            assert verdict and (verdict[1] == "violation") == (promise == "violation"), done.stdout
            assert verdict[1] != "inconclusive"
            verdicts += 1
    assert verdicts == 7 and time.monotonic() - start < 60 * MINUTES


def test_the_readme_leads_to_the_page():
    assert "docs/own-mechanism.md" in (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    assert len(BLOCKS) == 9 and PAGE.count("# violation\n") + PAGE.count("# no violation\n") == 7
