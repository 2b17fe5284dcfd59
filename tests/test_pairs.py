"""Every pair of options of different groups either plays 200 trials or is refused before the
first."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hydra import initialize_config_dir
from omegaconf import OmegaConf
from test_conf import NEEDS, PROGRAM, words  # noqa: F401

from audit import cli, experiment
from audit.cli import compose
from audit.core import AuditError
from audit.experiment import Plan, audit, foresee

CONF = cli.folder("conf")
GROUPS = {
    group: sorted(path.stem for path in (CONF / group).glob("*.yaml"))
    for group in cli.GROUPS
    if group != "backend"
}
QUICK = {
    "protocol=sequential": ["protocol.first=100"],
    "mechanism=dp_sgd": ["mechanism.epochs=1"],
    "protocol=crossfit": ["protocol.folds=3", "protocol.inner=2"],
}
# they need files
OWN = {"canary=tabular", "mechanism=callable", "mechanism=command", "mechanism=stored"}


def composed(chosen: list[str]) -> Any:
    """The configuration of these words, small and quick to play, with Hydra's own part."""
    usual = ["attacker=logistic"]  # the default one takes half a second to fit
    with initialize_config_dir(str(CONF), version_base="1.3", job_name="audit"):
        return cli._compose([*usual, *chosen, "trials=200", "backend=serial"], "config")


def with_option(config: Any, group: str, option: str) -> Any | None:
    """What Hydra would make of one more option, for a tenth of the time; None where the option has
    defaults of its own."""
    node = OmegaConf.load(CONF / group / f"{option}.yaml")
    if "defaults" in node:
        return None
    OmegaConf.set_struct(config, False)
    changed = OmegaConf.merge(config, {group: None}, {group: node})
    changed.hydra.runtime.choices[group] = option
    return changed


def words_of(word: str, needs) -> list[str]:
    """An option with what it needs: files of a user, or fewer steps than usual."""
    return [*(needs(word) if word in OWN else [word]), *QUICK.get(word, [])]


def plan_of(config: Any) -> Plan | None:
    """The plan of a configuration; None where it is refused."""
    try:
        return cli.build(config, dict(config.hydra.runtime.choices), [])
    except AuditError as refusal:
        assert "\n" not in str(refusal)
        return None


def pairs_with(
    group: str, option: str, others: list[str], needs
) -> Iterator[tuple[str, Plan | None]]:
    """The plan of an option with each option of other groups."""
    first = words_of(f"{group}={option}", needs)
    alone = composed(first)
    for other in others:
        for second in GROUPS[other]:
            word = f"{other}={second}"
            special = word in OWN or word in QUICK
            config = None if special else with_option(alone, other, second)
            yield (
                word,
                plan_of(
                    config if config is not None else composed([*first, *words_of(word, needs)])
                ),
            )


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    """Trials are kept between pairs: only mechanism, canary and features make others."""
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture
def quick(monkeypatch):
    """Neither the estimators beside the chosen one, nor what is computed beside the verdict, is in
    question."""
    monkeypatch.setattr(cli, "_other_estimators", lambda config, chosen: ())
    for name in ("power_after", "efficiency_of"):
        monkeypatch.setattr(experiment, name, lambda *of_audit: None)


ORDER = list(GROUPS)
FIRST = [(group, option) for group in ORDER[:-1] for option in GROUPS[group]]


@pytest.mark.slow
@pytest.mark.parametrize(("group", "option"), FIRST, ids=["=".join(first) for first in FIRST])
def test_a_pair_of_options_plays_or_is_refused_before_the_first_trial(
    group, option, words, played, quick
):
    for word, plan in pairs_with(group, option, ORDER[ORDER.index(group) + 1 :], words):
        if plan is None:
            continue
        try:
            # whatever it raises is news, but for this:
            audit(dataclasses.replace(plan, root=played))
        except AuditError as refusal:
            # what columns are called is known when the first block has been played
            assert "set attacker.column to one of" in str(refusal), word


@pytest.mark.parametrize(
    ("protocol", "estimator"),
    [*itertools.product(GROUPS["protocol"], ["exact", "betting", "curve", "joint_bayes"])],
)
def test_what_is_not_refused_can_be_foreseen(protocol, estimator, words):
    plan = plan_of(composed([*words_of(f"protocol={protocol}", words), f"estimator={estimator}"]))
    assert plan is None or foresee(plan)


@pytest.mark.parametrize("protocol", ["crossfit", "one_run", "sequential"])
def test_a_protocol_brings_the_estimator_that_fits_and_says_so(protocol, words):
    game = ["mechanism=answers", "canary=coins", "attacker=column"] if protocol == "one_run" else []
    option = f"protocol={protocol}"
    plan = compose(option, *game, "trials=1000")
    (sentence,) = plan.chosen
    assert f"estimator={plan.estimators[0].name} was taken, the one that fits {option}" in sentence
    own = compose(option, *game, "trials=1000", f"estimator={plan.estimators[0].name}")
    assert not own.chosen


@pytest.mark.parametrize("protocol", GROUPS["protocol"])
def test_what_an_estimator_says_of_a_design_is_what_it_does_with_its_evidence(
    protocol, words, played
):
    """`Design` is what the protocol promises, and what its evidence turns out to be."""
    game = ["mechanism=answers", "canary=coins", "features=black_box", "attacker=column"]
    game = game if protocol == "one_run" else ["mechanism=gaussian", "attacker=likelihood_ratio"]
    option = f"protocol={protocol}"
    _, (plan,) = cli.check(
        [option, *game, *QUICK.get(option, []), "trials=1000", "backend=serial"], many=False
    )
    found = audit(dataclasses.replace(plan, root=played)).evidence.design
    promised = plan.protocol.design
    assert (found.runs, found.selection, found.stopped) == (
        promised.runs,
        promised.selection,
        promised.stopped,
    )
    assert found.folds == promised.folds or (promised.stopped and found.folds == "single")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["protocol=crossfit", "estimator=joint_bayes"],
            "cannot give mu_emp: joint Bayes needs counts",
        ),
        (["protocol=crossfit", "estimator=one_run"], "choose protocol=one_run"),
        (["estimator=one_run"], "choose protocol=one_run"),
        (
            ["mechanism=mst", "canary=pair"],
            "MST takes Table, and Pair makes ndarray; choose canary=worst_case",
        ),
        (
            ["mechanism=gaussian", "canary=blank"],
            "Gaussian takes Table or ndarray, and Planted makes Examples",
        ),
        (["mechanism=exponential", "canary=one_move"], "the mechanism takes records 0 … 1"),
        (["mechanism=gaussian", "protocol=one_run"], "shows nothing of single canaries"),
        (
            ["mechanism=answers", "canary=coins", "protocol=one_run", "attacker=likelihood_ratio"],
            "one ratio a run",
        ),
        (
            ["mechanism=answers", "canary=coins", "canary.count=1", "attacker=likelihood_ratio"],
            "no exact likelihood",
        ),
        (
            ["mechanism=answers", "canary=coins", "canary.count=5", "protocol=one_run"],
            "more canaries than one run has",
        ),
    ],
)
def test_what_cannot_go_together_is_known_before_play(options, says, words):
    with pytest.raises(AuditError) as refusal:
        cli.check([*options, "trials=1000"], many=False)
    assert says in str(refusal.value)


def test_stored_rows_are_no_single_run(words):
    with pytest.raises(AuditError, match="stored rows are independent runs"):
        cli.check([*words("mechanism=stored"), "protocol=one_run"], many=False)
