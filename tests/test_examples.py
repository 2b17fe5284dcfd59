"""The examples run as written, with warnings as errors, and say what they should."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

# Seeds are fixed, so that these outcomes are too. The accusing bounds on the two broken mechanisms lie 9 standard
# deviations above their claims (0.77 ± 0.034 against 0.45, 1.73 ± 0.074 against 1, over 30 seeds): missed with
# probability < 1e-6.
SAYS = {
    "audit_from_python": ["count with 1 of the noise: tight", "count with 0.5 of the noise: violation"],
    "bounds_from_counts": ["mu_hat 0.3918", "at least 0.2974-GDP", "at least 0.3405-GDP"],
    "own_mechanism": ["budget 0.5 of ε a bit: loose", "budget 1 of ε a bit: violation"],
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
    for said in SAYS[path.stem]:
        assert said in done.stdout
