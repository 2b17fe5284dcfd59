"""Every pair of options of different groups either plays 200 trials or is refused before the first."""

import dataclasses
import itertools

import pytest
from test_conf import NEEDS, PROGRAM, words  # noqa: F401

from audit import cli, experiment
from audit.core import AuditError
from audit.experiment import Plan, audit, foresee

CONF = cli.folder("conf")
GROUPS = {
    group: sorted(path.stem for path in (CONF / group).glob("*.yaml")) for group in cli.GROUPS if group != "backend"
}
QUICK = {
    "protocol=sequential": ["protocol.first=100"],
    "mechanism=dp_sgd": ["mechanism.epochs=1"],
    "protocol=crossfit": ["protocol.folds=3", "protocol.inner=2"],
}
OWN = {"canary=tabular", "mechanism=callable", "mechanism=command", "mechanism=stored"}  # they need files


Option = tuple[str, str]  # a group and one of its options
Row = dict[str, str]  # the options that are chosen, by group; the others are the defaults


def plan_of(row: Row, needs) -> Plan | None:
    """The plan of these options beside the defaults; None where it is refused."""
    chosen = [f"{group}={option}" for group, option in row.items()]
    own = [more for word in chosen if word in OWN for more in needs(word)]
    quick = [more for word in chosen for more in QUICK.get(word, [])]
    learner = [] if "attacker" in row else ["attacker=logistic"]  # the usual one takes half a second
    try:
        _, (plan,) = cli.check([*chosen, *own, *quick, *learner, "trials=200", "backend=serial"], many=False)
    except AuditError as refusal:
        assert "\n" not in str(refusal)
        return None
    return plan


def pairs_of(row: Row) -> set[frozenset[Option]]:
    return {frozenset(two) for two in itertools.combinations(row.items(), 2)}


def widened(row: Row, done: set[frozenset[Option]], refused: set[frozenset[Option]]) -> Row:
    """More options, one of each other group: those with the most pairs that are not done, and none that is refused."""
    for group, options in GROUPS.items():
        if group in row:
            continue
        best, most = None, 0
        for option in options:
            new = pairs_of({**row, group: option}) - pairs_of(row)
            count = len(new - done)
            if count > most and not new & refused:
                best, most = option, count
        if best is not None:
            row = {**row, group: best}
    return row


@pytest.fixture(scope="session")
def played(tmp_path_factory):
    """Trials are kept between pairs: only mechanism, canary and features make others."""
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture
def quick(monkeypatch):
    """Neither the estimators beside the chosen one nor the power afterwards is in question."""
    monkeypatch.setattr(cli, "_other_estimators", lambda config, chosen: ())
    monkeypatch.setattr(experiment, "power_after", lambda plan, evidence, efficiency: None)


def play(plan: Plan, root) -> None:
    """Whatever an audit raises is news, but for names of columns: they are known when the first block has been played."""
    try:
        audit(dataclasses.replace(plan, root=root))
    except AuditError as refusal:
        assert "set attacker.column to one of" in str(refusal)


SHARES = 4
"""Each share has some of the mechanisms, with all their pairs; the first has the pairs without a mechanism too."""


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_a_pair_of_options_plays_or_is_refused_before_the_first_trial(share, words, played, quick):  # noqa: F811
    """2,000 pairs: each is composed alone; those that are not refused are played, many in one audit."""
    mine = GROUPS | {"mechanism": GROUPS["mechanism"][share::SHARES]}
    todo = [
        {first: one, second: other}
        for first, second in itertools.combinations(mine, 2)
        if share == 0 or "mechanism" in (first, second)
        for one, other in itertools.product(mine[first], mine[second])
    ]
    done, refused = set(), set()
    for row in todo:
        if pairs_of(row) <= done:
            continue
        alone = plan_of(row, words)
        if alone is None:
            refused |= pairs_of(row)
            continue
        wide = widened(row, done, refused)
        plan = plan_of(wide, words)
        play(plan or alone, played)
        done |= pairs_of(wide if plan else row)
    assert len(done) > 100 and len(refused) > 100


@pytest.mark.parametrize(
    ("protocol", "estimator"),
    [*itertools.product(GROUPS["protocol"], ["exact", "betting", "curve", "joint_bayes"])],
)
def test_what_is_not_refused_can_be_foreseen(protocol, estimator, words):  # noqa: F811
    plan = plan_of({"protocol": protocol, "estimator": estimator}, words)
    assert plan is None or foresee(plan)


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
