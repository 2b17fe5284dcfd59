"""The command line: what it says, how it leaves, and that nothing is half-written."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from audit import cli
from audit.cli import compose
from audit.core import AuditError


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder: (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def command(*words):
        status = cli.main(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


SMALL = ("mechanism=gaussian", "features=white_box", "attacker=likelihood_ratio", "trials=1000")

# a function of two arguments
OWN_GDP = ("mechanism=callable", "mechanism.target=operator:add", "mechanism/claim=gdp")
BAD = [
    (["mechanism=mts"], "no mechanism 'mts'; did you mean 'mst'? There are: above_threshold, aim,"),
    (["mechanism=broken/half_nose"], "no mechanism/broken 'half_nose'; did you mean 'half_noise'?"),
    (["mechansim=aim"], "no key 'mechansim'; did you mean 'mechanism'?"),
    (["mechanism.esp=1"], "no key 'mechanism.esp'; did you mean 'mechanism.eps'?"),
    (["attacker.strength=2"], "attacker.strength is now attacker.C"),
    (
        ["mechanism=gaussian", "mechanism.noise_scale=0.5"],
        "mechanism.noise_scale is now mechanism.noise_fraction of an option under broken/",
    ),
    (
        ["mechanism=gaussian", "+mechanism.noise_scale=0.5"],
        "mechanism.noise_scale is now mechanism.noise_fraction of an option under broken/",
    ),
    (
        ["mechanism=dp_sgd", "mechanism.clipped=sum"],
        "mechanism.clipped is now mechanism=broken/dp_sgd_clip_sum",
    ),
    (["+mechanism.rwos=1"], "mechanism has no key 'rwos'; did you mean 'rows'?"),
    (["eps=0"], "eps=0: input should be greater than 0"),
    (["eps=-1"], "eps=-1: input should be greater than 0"),
    (["eps=nan"], "eps=nan: input should be"),
    (["eps=abc"], "eps=abc: input should be a valid number"),
    (["delta=0"], "delta=0: input should be greater than 0"),
    (["delta=1"], "delta=1: input should be less than 1"),
    (["trials=20"], "trials=20 leaves 8 for train, which needs 20; raise trials or protocol.train"),
    (["protocol.train=0.5"], "train + validation + test = 1.1; make them sum to 1"),
    (["canary=tabular"], "canary.csv has no value; give one: canary.csv="),
    (
        ["canary=tabular", "canary.csv=no.csv", "canary.domain_json=no.json"],
        "canary.domain_json: cannot read no.json",
    ),
    (["seed=-1"], "seed=-1: must be a whole number"),
    (["seed=1,2"], "give -m to play one audit a value"),
    (["eps=[1"], "cannot read 'eps=[1'"),
    (["mechanism.compress=false"], "the chosen mechanism has no key 'compress', another one has"),
    (["canary.sizes=[2,1,4]"], "canary.sizes[1]=1: input should be greater than or equal to 2"),
    (
        ["mechanism=mst", "canary.columns=1"],
        "canary.columns=1: input should be greater than or equal to 2",
    ),
    (["accuse.significance=0"], "accuse.significance=0: input should be greater than 0"),
    (["attacker=7"], "attacker=7: Config group override must be a string"),
    (["sweep=papr"], "no sweep 'papr'; did you mean 'paper'?"),
    (["mechanism=glob(zz*)", "-m"], "nothing matches, so there is no audit to run"),
    (["eps=1,0", "-m"], "eps=0: input should be greater than 0"),
    (["eps=interval(1,2)", "-m"], "intervals cannot be swept"),
    (["uii"], "no command 'uii'; did you mean 'ui'?"),
    (["mechanism=callable"], "mechanism.target has no value; give one: mechanism.target=…"),
    (
        ["mechanism=callable", "mechanism.target=nowhere_at_all:f"],
        "cannot be imported (ModuleNotFoundError",
    ),
    (
        ["mechanism=callable", "mechanism.target=numpy:nothing"],
        "cannot be imported (AttributeError",
    ),
    (["mechanism=callable", "mechanism.target=numpy:pi"], "is no function but float"),
    (["mechanism=callable", "mechanism.target=json:dumps"], "cannot be called as (data, rng)"),
    (
        ["mechanism=callable", "mechanism/claim=gpd"],
        "no mechanism/claim 'gpd'; did you mean 'gdp'?",
    ),
    ([*OWN_GDP, "mechanism.claim.mu=0"], "mechanism.claim.mu=0: input should be greater than 0"),
    ([*OWN_GDP, "+mechanism.claim.nu=1"], "mechanism.claim has no key 'nu'; did you mean 'mu'?"),
    ([*OWN_GDP[:2], "eps=0"], "eps=0: input should be greater than 0"),
    (
        [*OWN_GDP, "mechanism.claim.neighbours=replace_one"],
        "makes its claim for replace-one neighbours",
    ),
    (
        ["mechanism=command", "mechanism.argv=[no_such_program]"],
        "no program 'no_such_program' is found",
    ),
    (["mechanism=command", "mechanism.argv=[]"], "mechanism.argv=[]: "),
    (
        ["mechanism=stored", "mechanism.path=no.csv"],
        "cannot read no.csv (No such file or directory)",
    ),
    (["root=5"], "root=5: must be the name of a folder"),
    (["root=null"], "root=None: must be the name of a folder"),
    (["~attacker"], "attacker has been taken out of the configuration"),
    (["+foo=1"], "no key 'foo'"),
    (["+hydra.foo=1"], "hydra has no key 'foo'"),
    (["mechanism=command", "mechanism.argv='--token=tiger'"], "mechanism.argv=--token=***: "),
    (
        ["mechanism=command", "mechanism.argv=[python]", "mechanism.timeout='${oc.env:HOME}'"],
        "mechanism.timeout=***: ",
    ),
    (["mechanism=[gaussian]"], "mechanism has been taken out of the configuration"),
    (
        ["accuracy-first", "backend=serial"],
        "audit accuracy-first has no key 'backend': that is one of audit's own",
    ),
    ([*OWN_GDP, "canary=one_bit"], "choose mechanism.claim.neighbours=replace_one"),
    (
        ["canary=pair", "canary.absent=[0]", "canary.present=[1]"],
        "give canary.neighbours=replace_one",
    ),
    (
        ["protocol=crossfit", "estimator=joint_bayes"],
        "use estimator=betting or curve or curve_betting",
    ),
    (["root=/proc/nowhere"], "cannot write to /proc/nowhere"),
]


@pytest.mark.parametrize(
    ("words", "says"), BAD, ids=lambda v: " ".join(v) if isinstance(v, list) else ""
)
def test_bad_input_is_one_line_with_status_2_and_nothing_written(run, words, says, tmp_path):
    status, out, err = run(*words)
    assert status == 2 and not out
    assert says in err and err.count("\n") == 1 and err.startswith("audit: ")
    assert not list(tmp_path.rglob("*.npz")) and not list(tmp_path.rglob("*.html"))


def test_reconstruct_prints_its_table_and_draws_one_file(run, tmp_path):
    status, out, err = run("reconstruct", "n=20", "m=100", "sd=2,8", "repeats=5", "out=r.svg")
    assert status == 0 and not err
    assert (
        "20 secret bits from 100 noisy subset counts" in out
        and "predicted" in out
        and "r.svg" in out
    )
    drawn = (tmp_path / "r.svg").read_text()
    assert "<svg" in drawn and "<image" not in drawn and 'href="http' not in drawn
    assert [path.name for path in tmp_path.iterdir()] == ["r.svg"]
    status, out, err = run("reconstruct", "n=20", "m=10")
    assert status == 2 and not out and err.count("\n") == 1 and "make m larger than n" in err
    assert run("reconstruct", "--help")[0] == 0


def test_a_mechanism_brings_its_own_pair_and_the_command_line_wins(run):
    small = ("mechanism=randomised_response", "attacker=likelihood_ratio", "trials=1000")
    status, out, err = run(*small)
    assert status == 0 and "record 0 replaced by 1" in " ".join(out.split())
    status, out, err = run(*small, "canary=worst_case")
    assert (
        status == 2
        and err.count("\n") == 1
        and "choose another canary, or leave canary= out" in err
    )
    status, out, err = run(*small, "canary.present=[2]")
    assert status == 2 and err.count("\n") == 1 and "the mechanism takes records 0 … 1" in err


def test_a_server_that_does_not_answer_is_said_before_anything_is_played(
    run, monkeypatch, tmp_path
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    status, _, err = run(*SMALL)
    assert status == 2 and "http://127.0.0.1:9" in err and err.count("\n") == 1
    assert not list(tmp_path.rglob("*.npz"))


def test_one_audit_prints_its_verdict_and_where_to_look(run, tmp_path):
    status, out, err = run(*SMALL)
    assert status == 0, err
    for part in (
        "claims",
        "fpr",
        "fnr",
        "mu_hat",
        "mu_emp",
        "clopper_pearson",
        "implied mu",
        "direct mu",
        "perfect attack",
    ):
        assert part in out
    page = re.search(r"report (\S+report.html)", out)
    assert page and os.path.exists(page[1])
    assert "#/experiments/" in out
    assert list((tmp_path / "mlruns" / "trials").rglob("*.npz"))


def test_a_plan_is_shown_and_nothing_is_played(run, tmp_path):
    status, out, _ = run("plan", "eps=1,2", "-m")
    assert status == 0 and "0.4035" in out and "0.7288" in out
    assert len(re.findall(r"\d s, \d\.\d GiB", out)) == 2, "what each takes"
    assert not list(tmp_path.iterdir())
    assert "not known" in run("plan", "canary.rows=7")[1]
    status, _, err = run("plan", "trials=20")
    assert status == 2 and "raise trials" in err


def test_flags_may_stand_anywhere_and_a_sweep_shares_its_trials(run, tmp_path):
    status, out, _ = run(*SMALL, "-m", "criterion=advantage,mu_lower")
    assert status == 0 and "compareRunsMode=CHART" in out and "correction over 2 audits" in out
    assert len(list((tmp_path / "mlruns" / "trials").iterdir())) == 1


def test_audits_of_a_sweep_are_named_by_what_differs_and_each_says_how_to_play_it_alone(
    run, tmp_path
):
    """Whatever is swept, a value that no choice names too; the command of one of them plays it and
    nothing else."""
    import audit

    status, out, _ = run(
        "mechanism=broken/gaussian_less_noise", *SMALL[1:], "mechanism.noise_fraction=0.5,1", "-m"
    )
    assert status == 0 and "mechanism.noise_fraction=0.5" in out
    table = audit.runs(tmp_path / "mlruns", sweep="newest")
    assert sorted(table["name"]) == ["mechanism.noise_fraction=0.5", "mechanism.noise_fraction=1"]
    page = next(
        text for path in tmp_path.rglob("report.html") if "<h1>Audit" in (text := path.read_text())
    )
    command = re.search(r'<code id="command">([^<]*)</code>', page)[1]
    status, out, _ = run(*command.split()[3:])
    assert status == 0 and out.count("leaks at least") == 1


def test_one_audit_of_a_sweeps_file_can_be_played_alone(run):
    words = cli.command(["sweep=thresholds", "eps=1", "criterion=advantage", *SMALL]).split()[3:]
    status, out, err = run(*words)
    assert status == 0 and out.count("leaks at least") == 1, err


@pytest.mark.parametrize(
    ("words", "loud"),
    [([], False), (["hydra.verbose=true"], True), (["hydra.verbose=audit"], True)],
)
def test_verbose_says_more(run, words, loud, monkeypatch):
    import logging

    for name in (None, "audit"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.getLogger(name).level)
    _, _, err = run(*SMALL, *words)
    assert (
        "DEBUG" in err
        and "'_target_': 'audit.mechanisms.gaussian.Gaussian'" in " ".join(err.split())
    ) == loud
    assert loud or err == ""  # quiet where it is piped


def test_a_users_own_conf_and_code_are_found(run, tmp_path):
    (tmp_path / "conf" / "mechanism").mkdir(parents=True)
    (tmp_path / "conf" / "mechanism" / "mine.yaml").write_text("_target_: mine.Mine\nmu: 1.0\n")
    (tmp_path / "mine.py").write_text(
        "import dataclasses\nfrom audit.core import Claim, Columns\nfrom audit.privacy import GDP\n"
        "@dataclasses.dataclass(frozen=True)\nclass Mine:\n    mu: float\n    block = 100\n"
        "    @property\n    def claims(self): return (Claim(GDP(), self.mu),)\n"
        "    def release(self, data, trials, rng):\n"
        "        return Out(len(data.records) + rng.normal(size=(trials, 1)) / self.mu)\n"
        "@dataclasses.dataclass(frozen=True)\nclass Out:\n    y: object\n"
        "    def public(self): return Columns(('y',), self.y)\n    insider = public\n"
        "    def log_ratio(self, absent, present): return None\n"
    )
    status, out, err = run(
        "mechanism=mine", "attacker=logistic", "trials=1000", "features=white_box"
    )
    assert status == 0, err
    assert "1-GDP" in out
    status, _, err = run("mechanism=mine", "attacker=likelihood_ratio", "trials=1000")
    assert status == 2 and "gives no exact likelihood" in err


YOURS = """
import os

def count(data, rng):
    y = len(data) + rng.normal()
    if os.path.exists("broken") and y > 4:
        raise ValueError("too\\nmuch")
    return y
"""
CALL = (
    "mechanism=callable",
    "mechanism.target=yours:count",
    "mechanism/claim=gdp",
    "canary=pair",
    "attacker=logistic",
)


def test_a_function_that_fails_at_some_trial_is_one_line_and_finished_blocks_are_kept(
    run, tmp_path
):
    (tmp_path / "yours.py").write_text(YOURS)
    status, out, err = run(*CALL, "trials=2000", "backend=serial")
    assert status == 0 and "callable yours:count mu=1 logistic" in out, err
    (tmp_path / "broken").touch()
    status, _, err = run(*CALL, "trials=6000", "backend=serial")
    assert status == 2 and err.count("\n") == 1
    assert re.search(
        r"Target, trial \d+ \(seed 0, block 2\): it raised ValueError: too much; fix it", err
    )
    assert len(list(tmp_path.rglob("trials/*/*.npz"))) == 2
    status, out, err = run(*CALL, "trials=6000", "backend=serial", "features=events")
    assert status == 0, err


def test_a_function_that_takes_no_notice_of_its_seed_is_said_beside_the_verdict(run, tmp_path):
    (tmp_path / "careless.py").write_text(
        "import random\ndef f(data, rng): return len(data) + random.gauss(0, 1)\n"
    )
    status, out, err = run(
        *CALL[:1], "mechanism.target=careless:f", *CALL[2:], "trials=1000", "backend=serial"
    )
    assert status == 0, err
    assert "Not reproducible: careless:f put out different things for the same seed" in " ".join(
        out.split()
    )
    (page,) = tmp_path.rglob("report.html")
    assert "Not reproducible" in page.read_text("utf-8")


def test_a_program_that_prints_garbage_is_one_line_with_status_2(run, tmp_path):
    (tmp_path / "p.py").write_text("import sys\nsys.stderr.write('oh\\nno\\n')\nprint('hello')\n")
    words = (
        "mechanism=command",
        f"mechanism.argv=[{sys.executable},p.py]",
        "mechanism/claim=gdp",
        "canary=pair",
    )
    status, _, err = run(*words, "trials=1000", "backend=serial")
    assert status == 2 and err.count("\n") == 1
    assert (
        "its answer is no JSON object on one line but 'hello'" in err
        and "its last words: 'no'" in err
        and "seed" in err
    )


def test_more_trials_than_are_stored_is_one_line_and_all_of_them_are_audited(run, tmp_path):
    lines = [f"{(i * 7919) % 1000 / 1000 + i % 2},{i % 2}" for i in range(2000)]
    (tmp_path / "rows.csv").write_text("score,present\n" + "\n".join(lines))
    words = (
        "mechanism=stored",
        "mechanism.path=rows.csv",
        "mechanism/claim=gdp",
        "attacker=column",
    )
    status, _, err = run(*words)
    assert (
        status == 2
        and err == "audit: trials=10000 asks for more than the 2,000 stored; give trials=2000\n"
    )
    status, out, err = run(*words, "trials=2000")
    assert status == 0, err
    assert (
        "2,000 stored rows of rows.csv" in out
        and "violation" in out
        and "The leak may be infinite" in " ".join(out.split())
    )


OWN = """
import dataclasses
from audit.core import Claim, Columns
from audit.privacy import GDP


@dataclasses.dataclass(frozen=True)
class Own:
    kind: str
    block = 20

    @property
    def claims(self):
        return () if self.kind == "claims" else (Claim(GDP(), 1.0),)

    def release(self, data, trials, rng):
        if self.kind == "raise":
            raise KeyError("lost\\nand found")
        if self.kind == "leave":
            raise SystemExit(0)
        if self.kind == "none":
            return None
        return Out(self.kind, len(data.records) + rng.normal(size=(trials, 1)))


@dataclasses.dataclass(frozen=True)
class Out:
    kind: str
    y: object

    def public(self):
        return Columns(("y",), self.y.astype(str) if self.kind == "text" else self.y)

    insider = public

    def __getattr__(self, name):
        if name == "log_ratio" and self.kind != "ratio":
            return lambda absent, present: None
        raise AttributeError(name)


class Other:
    pass


class Failing:
    def __init__(self, **options):
        raise SystemExit(0)
"""


@pytest.fixture
def own(run, tmp_path):
    """Run an audit of a mechanism in the working directory."""
    conf = tmp_path / "conf" / "mechanism"
    conf.mkdir(parents=True)
    (tmp_path / "own_module.py").write_text(OWN)
    (tmp_path / "broken_module.py").write_text("def (")
    sys.modules.pop("own_module", None)

    def command(yaml, *words):
        (conf / "own.yaml").write_text(yaml)
        return run(
            "mechanism=own",
            "features=white_box",
            "attacker=logistic",
            "trials=400",
            "backend=serial",
            *words,
        )

    return command


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            "raise",
            r"Own, trial 0 \(seed 0, block 0\): KeyError: 'lost\\nand found'; fix the mechanism",
        ),
        ("leave", r"Own, trial 0 .*SystemExit: 0; fix the mechanism"),
        ("none", "'NoneType' object has no attribute 'insider'; fix the mechanism"),
        ("text", r"the released rows are no numbers \(<U\d+\); the mechanism must release floats"),
        ("ratio", "AttributeError: log_ratio; fix the mechanism"),
        ("claims", "Own claims nothing, so nothing can be judged; give it a claim"),
    ],
)
def test_a_mechanism_that_misbehaves_is_one_line(own, kind, says):
    status, out, err = own(f"_target_: own_module.Own\nkind: {kind}\n")
    assert status == 2 and not out and err.count("\n") == 1
    assert re.search(says, err), err


@pytest.mark.parametrize(
    ("yaml", "says"),
    [
        (
            "_target_: own_module.Nothing\n",
            r"cannot make own_module.Nothing \(.*; check the name and its module",
        ),
        ("_target_: no_module.Own\n", "cannot make no_module.Own"),
        ("_target_: broken_module.Own\n", "cannot make broken_module.Own"),
        (
            "_target_: own_module.Failing\nkind: x\n",
            r"cannot make own_module.Failing \(.*SystemExit: 0",
        ),
        (
            "_target_: own_module.Other\n",
            "Other is no mechanism: it lacks a method of audit.core.Mechanism",
        ),
        ("kind: x\n", "mechanism: the option has no _target_"),
        ("kind: [x\n", "cannot read a YAML file"),
    ],
)
def test_a_mistake_in_a_users_own_conf_is_one_line_before_anything_is_played(
    own, tmp_path, yaml, says
):
    status, out, err = own(yaml)
    assert status == 2 and not out and err.count("\n") == 1
    assert re.search(says, err), err
    assert not (tmp_path / "mlruns").exists()


def test_a_users_estimator_without_a_value_is_refused_where_it_is_chosen_and_only_there(
    run, tmp_path
):
    """What lies in a folder of our name may be another project's: only what is chosen is made."""
    shelf = tmp_path / "conf" / "estimator"
    shelf.mkdir(parents=True)
    target = "audit.estimators.clopper_pearson.ClopperPearson"
    (shelf / "own.yaml").write_text(f"# Lacks one.\n_target_: {target}\nsignificance: ???\n")
    status, out, err = run("trials=400", "estimator=own")
    assert status == 2 and not out and err.count("\n") == 1
    assert "estimator.significance has no value; give one" in err
    assert not (tmp_path / "mlruns").exists()
    assert run("plan", "trials=400")[0] == 0


def test_another_projects_config_is_left_alone(run, tmp_path):
    (tmp_path / "conf" / "estimator").mkdir(parents=True)
    (tmp_path / "conf" / "config.yaml").write_text("defaults: [model: resnet]\n")
    (tmp_path / "conf" / "estimator" / "forest.yaml").write_text("depth: 3\n")
    status, _, err = run("plan", *SMALL)
    assert status == 0, err
    (tmp_path / "conf" / "attacker").mkdir()
    (tmp_path / "conf" / "attacker" / "logistic.yaml").write_text("depth: 3\n")
    status, _, err = run("plan", *SMALL, "attacker=logistic")
    assert status == 2 and "conf/attacker/logistic.yaml of the working directory" in err
    (tmp_path / "conf" / "attacker" / "logistic.yaml").write_bytes(b"\x89PNG\r\n\0")
    status, _, err = run("plan", *SMALL, "attacker=logistic")
    assert status == 2 and "conf/attacker/logistic.yaml" in err and err.count("\n") == 1


def test_a_module_of_our_name_is_named(run, tmp_path):
    (tmp_path / "audit.py").write_text("")
    status, _, err = run("plan", *SMALL)
    assert status == 2 and err.startswith("audit: audit.py in this folder hides the package")


def test_a_folder_that_is_a_link_to_itself_is_one_line(run, tmp_path):
    (tmp_path / "mlruns").symlink_to("mlruns")
    for words in (SMALL, ["runs"], ["ui"]):
        status, _, err = run(*words)
        assert status == 2 and err.count("\n") == 1, err


@pytest.mark.parametrize("command", sorted(cli.commands()))
def test_each_subcommand_has_its_own_page(run, capsys, command):
    try:
        status, out, _ = run(command, "--help")
    except SystemExit as left:  # argparse
        status, out = left.code, capsys.readouterr().out
    assert not status and f"audit {command}" in out and "powered by Hydra" not in out
    assert "canary=…" not in out, "the general page"


def test_secrets_are_in_no_file_and_no_tag(run, tmp_path, monkeypatch):
    """Under a secret's key, behind a secret's flag, or from the environment at any remove."""
    monkeypatch.setenv("AUDIT_TEST_WORD", "swordfish")
    (tmp_path / "p.py").write_text(PROGRAM)
    secrets = "--db-password,hunter2,'--token=tiger','${oc.env:AUDIT_TEST_WORD}'"
    argv = f"[{sys.executable},p.py,{secrets}]"
    words = (
        "mechanism=command",
        f"mechanism.argv={argv}",
        "mechanism/claim=gdp",
        "canary=pair",
        "attacker=logistic",
    )
    status, out, err = run(*words, "trials=400", "backend=serial", "hydra.verbose=audit")
    assert status == 0, err
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("mlruns/**/*") if path.is_file())
    for secret in ("hunter2", "tiger", "swordfish"):
        assert secret.encode() not in kept and secret not in out + err
    assert b"***" in kept


PROGRAM = """
import json, random, sys
assert sys.argv[1:] == ["--db-password", "hunter2", "--token=tiger", "swordfish"]
for line in sys.stdin:
    ask = json.loads(line)
    rng = random.Random(ask["seed"])
    print(json.dumps({"rows": [[rng.gauss(0, 1)] for _ in range(ask["trials"])]}), flush=True)
"""


@pytest.mark.parametrize(
    ("streams", "words"), [(">&-", SMALL), ("2>&-", SMALL), ("<&- >&- 2>&-", ["plan", *SMALL])]
)
def test_closed_streams_are_no_matter(tmp_path, streams, words):
    line = f"{sys.executable} -m audit {' '.join(words)} {streams}"
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


def test_an_encoding_without_greek_letters_is_no_matter(tmp_path):
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-m", "audit", "plan", *SMALL]
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_deleted_working_directory_is_one_line(tmp_path):
    line = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m audit plan"
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (
        done.returncode == 2
        and done.stderr == "audit: the working directory is gone; change into one that exists\n"
    )


@pytest.mark.parametrize("word", ["", "--help"])
def test_a_full_output_is_one_line(tmp_path, word):
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "audit", *(SMALL if not word else [word])]
        done = subprocess.run(
            words, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (
        done.returncode == 2
        and done.stderr.count("\n") == 1
        and "No space left on device" in done.stderr
    )


def test_ctrl_c_during_start_up_is_quiet(tmp_path):
    """Whatever is being imported when it comes."""
    for wait in (0.05, 0.3, 0.6, 1.0):
        words = [sys.executable, "-m", "audit", *SMALL]
        with subprocess.Popen(
            words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        if wait > 0.05:  # earlier, python itself may not be up
            # -2: ended by the signal itself, before python could catch it; a shell says 130 of both
            assert process.returncode in (130, -signal.SIGINT) and "Traceback" not in err, (
                wait,
                err,
            )


@pytest.mark.parametrize(
    "wrapper", [RuntimeError("Error calling __set_name__"), AuditError("cannot make it")]
)
def test_a_ctrl_c_that_was_wrapped_on_its_way_is_still_one(run, monkeypatch, wrapper):
    def wrapped(*words):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise wrapper from error

    monkeypatch.setattr(cli, "check", wrapped)
    status, _, err = run(*SMALL)
    assert status == 130 and "the same command goes on from there" in err and err.count("\n") == 1


@pytest.mark.parametrize("name", ["p%20x", "why?x", "a#b"])
def test_a_folder_may_have_any_name(run, tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    status, _, err = run(*SMALL)
    assert status == 0, err
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [name]
    assert (tmp_path / name / "mlruns" / "mlflow.db").is_file()


def test_a_job_that_fails_is_said_and_the_sweep_goes_on(run):
    status, out, err = run(
        *SMALL,
        "trials=1000",
        "attacker=likelihood_ratio,logistic",
        "canary.rows=10",
        "-m",
        "criterion=fixed,advantage",
    )
    assert status == 0, err
    assert out.count("report ") >= 4


def test_ctrl_c_keeps_finished_blocks_and_the_same_command_goes_on(tmp_path):
    words = [
        sys.executable,
        "-m",
        "audit",
        "trials=4000000",
        "mechanism=gaussian",
        "features=white_box",
        "attacker=likelihood_ratio",
        "backend=serial",
    ]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.time() + 60
        while not list(tmp_path.rglob("*.npz")) and time.time() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command goes on from there" in err and "Traceback" not in err
    kept = len(list(tmp_path.rglob("*.npz")))
    assert kept >= 1 and not list(tmp_path.rglob("*.part"))
    import sqlite3

    with sqlite3.connect(tmp_path / "mlruns" / "mlflow.db") as log:
        assert log.execute("select distinct status from runs").fetchall() == [("KILLED",)]
    log.close()


def test_expand_is_hydras_own_product():
    words = ["mechanism=mst,aim", "eps=0.5,1", "criterion=advantage", "mechanism=gaussian,mst"]
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    theirs = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(words), None)[0]
    assert cli.expand(words) == theirs


@pytest.mark.parametrize(
    ("words", "used", "quantiles"),
    [
        (["mechanism=laplace"], "claim_lower", 1000),
        (["mechanism=gaussian"], "advantage", 200),
        (["mechanism=gaussian", "criterion=mu_lower"], "mu_lower", 200),
        (["mechanism=gaussian", "criterion.quantiles=50"], "advantage", 50),
        # it says so, whatever it claims
        (["mechanism=broken/whole_budget_each"], "advantage", 200),
    ],
)
def test_the_criterion_that_the_claim_takes_is_named_and_logged(run, words, used, quantiles):
    plan = compose(*words, "features=black_box", "trials=1000")
    assert used in plan.name.split() and plan.config["choices"]["criterion"] == used
    logged = plan.config["criterion"]
    assert logged["quantiles"] == quantiles == plan.criterion.quantiles
    assert (
        logged["_target_"].rpartition(".")[2]
        == type(plan.criterion).__name__
        == used.title().replace("_", "")
    )
