"""Whatever is typed, and whatever lies in the folder: one line and status 2, or a result."""

import contextlib
import io
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from audit import cli

SMALL = ["mechanism=gaussian", "attacker=likelihood_ratio", "backend=serial", "trials=200"]
KEYS = [
    *cli.GROUPS,
    "eps",
    "delta",
    "trials",
    "significance",
    "seed",
    "root",
    "accuse",
    "case",
    "sweep",
    "foo",
    "accuse.significance",
    "protocol.train",
    "protocol.folds",
    "canary.rows",
    "canary.sizes",
    "mechanism.noise_fraction",
    "mechanism/claim",
    "attacker.column",
    "criterion.threshold",
    "hydra.mode",
    "hydra.job.name",
]
NAMES = sorted({path.stem for path in cli.folder("conf").glob("*/*.yaml")} - {"adult", "images"})
VALUES = [
    "1",
    "0",
    "-1",
    "1e300",
    "1e-300",
    "nan",
    "inf",
    "null",
    "true",
    "'1'",
    "[]",
    "[1]",
    "{}",
    "{a:1}",
    "''",
    "…",
    "${eps}",
    "${oc.env:HOME}",
    "${nothing}",
    "a b",
    "=",
    "200",
    "0.5",
    "1,2",
    "???",
    "../x",
    "x\ty",
]
WORD = st.one_of(
    st.builds(
        lambda sign, key, value: f"{sign}{key}={value}",
        st.sampled_from(["", "", "", "+", "++", "~"]),
        st.sampled_from(KEYS),
        st.one_of(st.sampled_from(VALUES), st.sampled_from(NAMES)),
    ),
    st.builds("~{}".format, st.sampled_from(KEYS)),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).filter(
        lambda w: not w.startswith("-")
    ),
)
FILES = st.dictionaries(
    st.sampled_from(
        [
            "conf/config.yaml",
            "conf/estimator/own.yaml",
            "conf/attacker/logistic.yaml",
            "conf/case/own.yaml",
            "conf/mechanism/own.yaml",
            "sweeps/own.yaml",
        ]
    ),
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from(
            [
                b"",
                b"a: 1\n",
                b"[1, 2]\n",
                b"_target_: no.Such\n",
                b"_target_: 5\n",
                b"defaults: [x]\n",
                b"\x89PNG\r\n\x1a\n\0\0",
                b"a: [\n",
                b"_target_: ???\n",
            ]
        ),
    ),
    max_size=2,
)


@example(words=["eps='1'"], files={})
@example(words=["root=5"], files={})
@example(words=["root=null"], files={})
@example(words=["~attacker"], files={})
@example(words=["+foo=1"], files={})
@example(words=["mechanism=[gaussian]"], files={})
@example(words=[], files={"conf/config.yaml": b"model: resnet\n"})
@example(words=[], files={"conf/estimator/own.yaml": b"a: 1\n"})
@example(words=[], files={"conf/estimator/own.yaml": b"\x89PNG\r\n\x1a\n\0\0"})
@example(words=["estimator=own"], files={"conf/estimator/own.yaml": b"\x89PNG\r\n\x1a\n\0\0"})
@example(words=[], files={"sweeps/own.yaml": b"a: [\n"})
@example(words=["sweep=own"], files={"sweeps/own.yaml": b"a: [\n"})
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(words=st.lists(WORD, max_size=3), files=FILES)
def test_a_plan_or_one_line(words, files):
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in files.items():
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / name).write_bytes(content)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(["plan", *SMALL, *words])
    assert status in (0, 2), (status, err.getvalue())
    assert bool(out.getvalue()) is (status == 0)
    assert err.getvalue().count("\n") == (1 if status == 2 else 0), err.getvalue()
