"""Every pair of options of different groups either plays 200 trials or is refused before the first."""

import dataclasses
import itertools

import pytest
from test_conf import NEEDS, PROGRAM, words  # noqa: F401

from audit import cli
from audit.core import AuditError
from audit.experiment import Plan, audit, foresee

CONF = cli.folder("conf")
GROUPS = {group: sorted(path.stem for path in (CONF / group).glob("*.yaml")) for group in cli.GROUPS}
QUICK = {
    "protocol=sequential": ["protocol.first=100", "protocol.inner=2"],
    "protocol=crossfit": ["protocol.folds=3", "protocol.inner=2"],
}
OWN = {"canary=tabular", "mechanism=callable", "mechanism=command", "mechanism=stored"}  # they need files


def pair(one: str, other: str, needs) -> Plan | None:
    """The plan of two options beside the defaults; None where it is refused."""
    options = [word for option in (one, other) for word in (needs(option) if option in OWN else [option])]
    chosen = [word for option in (one, other) for word in QUICK.get(option, [])]
    learner = [] if "attacker=" in one + other else ["attacker=logistic"]  # the usual one takes half a second
    small = ["mechanism.epochs=1", "canary.rows=40"] if "mechanism=dp_sgd" in (one, other) else []
    try:
        _, (plan,) = cli.check([*options, *chosen, *learner, *small, "trials=200", "backend=serial"], many=False)
    except AuditError as refusal:
        assert "\n" not in str(refusal)
        return None
    return plan


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    """Trials are kept between pairs: only mechanism, canary and features make others."""
    return tmp_path_factory.mktemp("pairs")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [*itertools.combinations([g for g in GROUPS if g != "backend"], 2)])
def test_a_pair_of_options_plays_or_is_refused_before_the_first_trial(first, second, words, played):  # noqa: F811
    for one, other in itertools.product(GROUPS[first], GROUPS[second]):
        plan = pair(f"{first}={one}", f"{second}={other}", words)
        if plan is None:
            continue
        foresee(plan)
        alone = dataclasses.replace(plan, estimators=plan.estimators[:1], root=played)
        audit(alone)  # whatever it raises is news


@pytest.mark.parametrize("protocol", ["crossfit", "one_run", "sequential"])
def test_a_protocol_brings_the_estimator_that_fits_and_says_so(protocol, words):  # noqa: F811
    game = ["mechanism=answers", "canary=coins", "attacker=column"] if protocol == "one_run" else []
    option = f"protocol={protocol}"
    _, (plan,) = cli.check([option, *game, "trials=1000"], many=False)
    (sentence,) = plan.chosen
    assert f"estimator={plan.estimators[0].name} was taken, the one that fits {option}" in sentence
    _, (own,) = cli.check([option, *game, "trials=1000", f"estimator={plan.estimators[0].name}"], many=False)
    assert not own.chosen


@pytest.mark.parametrize("protocol", GROUPS["protocol"])
def test_what_an_estimator_says_of_a_design_is_what_it_does_with_its_evidence(protocol, words, played):  # noqa: F811
    """`Design` is what the protocol promises, and what its evidence turns out to be."""
    game = ["mechanism=answers", "canary=coins", "features=black_box", "attacker=column"]
    game = game if protocol == "one_run" else ["mechanism=gaussian", "attacker=likelihood_ratio"]
    option = f"protocol={protocol}"
    _, (plan,) = cli.check([option, *game, *QUICK.get(option, []), "trials=1000", "backend=serial"], many=False)
    found = audit(dataclasses.replace(plan, root=played)).evidence.design
    promised = plan.protocol.design
    assert (found.runs, found.selection, found.stopped) == (promised.runs, promised.selection, promised.stopped)
    assert found.folds == promised.folds or (promised.stopped and found.folds == "single")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["protocol=crossfit", "estimator=joint_bayes"], "cannot give mu_emp: joint Bayes needs counts"),
        (["protocol=crossfit", "estimator=one_run"], "choose protocol=one_run"),
        (["estimator=one_run"], "choose protocol=one_run"),
        (["mechanism=mst", "canary=pair"], "MST takes Table, and Pair makes ndarray; choose canary=worst_case"),
        (["mechanism=gaussian", "canary=blank"], "Gaussian takes Table or ndarray, and Planted makes Examples"),
        (["mechanism=exponential", "canary=one_move"], "the mechanism takes records 0 … 1"),
        (["mechanism=gaussian", "protocol=one_run"], "shows nothing of single canaries"),
        (["mechanism=answers", "canary=coins", "protocol=one_run", "attacker=likelihood_ratio"], "one ratio a run"),
        (["mechanism=answers", "canary=coins", "canary.count=1", "attacker=likelihood_ratio"], "no exact likelihood"),
        (["mechanism=answers", "canary=coins", "canary.count=5", "protocol=one_run"], "more canaries than one run has"),
    ],
)
def test_what_cannot_go_together_is_known_before_play(options, says, words):  # noqa: F811
    with pytest.raises(AuditError) as refusal:
        cli.check([*options, "trials=1000"], many=False)
    assert says in str(refusal.value)


def test_stored_rows_are_no_single_run(words):  # noqa: F811
    with pytest.raises(AuditError, match="stored rows are independent runs"):
        cli.check([*words("mechanism=stored"), "protocol=one_run"], many=False)
