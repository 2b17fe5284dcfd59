import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from audit.attackers import XGBoost
from audit.canaries.pair import Pair
from audit.canaries.worst_case import WorstCase
from audit.core import Columns, Domain, Outputs, Tables, UnreadableOutput
from audit.criteria import ClaimLower
from audit.estimators.clopper_pearson import ClopperPearson
from audit.events import KINDS, Bits, Events, bucket, finer, squash
from audit.features import BlackBox
from audit.game import Game, Played, Serial
from audit.mechanisms.callable import Target
from audit.mechanisms.claims import Pure
from audit.privacy import PureDP
from audit.protocols import Holdout

PAIR = Pair(absent=(0,), present=(0, 1))


class Released:
    """Releases with a given public side."""

    def __init__(self, public):
        self._public = public

    def public(self):
        return self._public


def events(*outputs, **options):
    columns = Events(**options)(Released(Outputs(outputs)), PAIR)
    return columns.names, columns.values


ODD = [
    None,
    True,
    3,
    2.5,
    np.float32(1.5),
    10**400,
    -(10**400),
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    "lost",
    b"lost",
    np.arange(3.0),
    np.array([1e308, 1e308]),
    np.array([]),
    np.zeros((2, 3)),
    np.array([1 + 2j]),
    np.array(["a", None], dtype=object),
    [1, [2, None]],
    (),
    {},
    {"a": 1},
    {1: "x", "b": np.ones(2)},
    ValueError("no"),
    object(),
    range(3),
    {1, 2},
    pd.DataFrame({"a": [1, 2]}),
    np.datetime64("2026-01-01"),
]


def test_any_output_becomes_the_same_finite_columns():
    names, rows = events(*ODD)
    assert len(set(names)) == len(names) == rows.shape[1] == len(KINDS) + 10 + 3 * 8 + 3 * 32
    assert np.isfinite(rows).all() and np.abs(rows).max() < 1e10
    assert (rows[:, : len(KINDS)].sum(axis=1) == 1).all(), "each output is of one kind"
    assert events(*ODD, width=3, buckets=5, hashes=2)[1].shape[1] == len(KINDS) + 10 + 3 * 3 + 2 * 5
    assert np.array_equal(events(*ODD)[1], rows)


def test_two_words_that_share_a_counter_still_look_different():
    one, other = {"1.0": 0.5}, {"2.0": 0.5}
    assert bucket("key '1.0'", 16) == bucket("key '2.0'", 16), (
        "one hash into 16 counters hid the key"
    )
    alike = events(one, other, buckets=16, hashes=1)[1]
    assert np.array_equal(alike[0], alike[1])
    apart = events(one, other)[1]
    assert not np.array_equal(apart[0], apart[1])


def test_a_row_does_not_depend_on_the_other_outputs():
    whole = events(*ODD)[1]
    for place, output in enumerate(ODD):
        assert np.array_equal(events(output)[1][0], whole[place])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, None),
        (1.0, math.nan),
        (math.nan, math.inf),
        (math.inf, -math.inf),
        (1.0, 2.0),
        (1.0, "1.0"),
        ("yes", "no, never"),
        (ValueError("x"), KeyError("x")),
        (np.zeros(3), np.zeros(4)),
        ({"a": 1}, {"b": 1}),
        (np.zeros(20), np.eye(20)[19]),
        (1.0, np.ones(1)),
        ([1, 2], [[1, 2]]),
        (0.0, math.nan),
    ],
)
def test_events_that_differ_are_told_apart(one, other):
    rows = events(one, other)[1]
    assert not np.array_equal(rows[0], rows[1])


def test_words_fall_into_the_same_bucket_in_every_process():
    code = (
        "from audit.events import bucket; print([bucket(w, 64) for w in ('a', 'ü', 'ValueError')])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert seen == {f"{[bucket(w, 64) for w in ('a', 'ü', 'ValueError')]}\n"}


def test_columns_and_tables_are_read_too_nan_included():
    rows = Events()(
        Released(Columns(("a", "b"), np.array([[1.0, np.nan], [2.0, np.inf]]))), PAIR
    ).values
    assert np.isfinite(rows).all() and not np.array_equal(rows[0], rows[1])
    table = Tables(Domain(("a",), (2,)), np.array([[[0], [1], [1]]]))
    assert np.isfinite(Events()(Released(table), WorstCase()).values).all()


def test_without_events_an_odd_output_is_named():
    assert BlackBox()(Released(Outputs([1.0, 2])), PAIR).values.tolist() == [[1], [2]]
    with pytest.raises(
        UnreadableOutput,
        match="raised ValueError: no; fix it, or count it as an event: features=events",
    ) as odd:
        BlackBox()(Released(Outputs([1.0, 2.0, ValueError("no")])), PAIR)
    assert odd.value.places == range(2, 3)
    with pytest.raises(
        UnreadableOutput, match=r"y of shape \(2,\) where the first one put out y of shape \(1,\)"
    ):
        Outputs([[1.0], [1.0, 2.0]]).columns()
    for nothing in ({}, {"a": "b"}, [1, [2]], 10**400, np.nan):
        with pytest.raises(UnreadableOutput, match="features=events"):
            Outputs([nothing]).columns()


def test_squash_is_odd_and_never_falls():
    y = np.concatenate([np.linspace(-2e6, 2e6, 1001), np.logspace(7, 308, 500)])
    assert np.all(np.diff(squash(y)) > 0) and np.allclose(squash(-y), -squash(y))


# --- floating-point fingerprints ------------------------------------------------------------------


def test_the_textbook_laplace_sampler_shows_its_answer_in_its_last_places():
    """Independently checked: the event |y| < ¼ and y·2⁵³ no whole number has P = .186 around 0,
    and P = 0 around 1."""
    rng, n = np.random.default_rng(0), 100_000
    for answer, probability in ((0.0, 0.186), (1.0, 0.0)):
        y = answer + rng.laplace(size=n)
        seen = int(np.sum((np.abs(y) < 0.25) & finer(y)))
        if probability == 0:
            assert seen == 0
        else:  # a false failure has probability 1e-6 at most, beside the rounding of .186
            low, high = binom.ppf([5e-7, 1 - 5e-7], n, [probability - 0.0005, probability + 0.0005])
            assert low <= seen <= high


def test_bits_hold_the_event_and_the_lowest_bits():
    y = [0.1, 1 + 0.1 - 1, 0.5, math.nan, "text", 2.0**-1074, -0.0]
    columns = Bits(width=1, low=4)(Released(Outputs(y)), PAIR)
    names = ("y", "finer_than_2^-53", "trailing_zeros", "exponent", "bit0", "bit1", "bit2", "bit3")
    assert columns.names == tuple(f"{name}[0]" for name in names)
    assert columns.values[:, 1].tolist() == [1, 0, 0, 0, 0, 1, 0]
    # 0.1 is 0x3FB999999999999A, 1 + 0.1 − 1 is 0x3FB99999999999A0, ½ has an empty mantissa
    assert (
        columns.values[0, 4:].tolist() == [0, 1, 0, 1]
        and columns.values[1, 2] == 5
        and columns.values[2, 2] == 52
    )
    assert np.isfinite(Bits()(Released(Outputs(ODD)), PAIR).values).all()


def test_a_snapped_sampler_leaves_no_event():
    """The broken twin's cure: outputs on a coarse grid are whole multiples of 2⁻⁵³ whatever the
    answer is."""
    y = np.round((0.0 + np.random.default_rng(0).laplace(size=10_000)) * 1024) / 1024
    assert not finer(y).any()


# --- found, and not found, by an audit ------------------------------------------------------------

OWN = """
import numpy as np

def textbook(data, trials, rng):
    return data.sum() + rng.laplace(size=trials)

def snapped(data, trials, rng):
    return np.round(textbook(data, trials, rng) * 1024) / 1024

def atom(data, trials, rng):
    y = np.clip(data.sum() + rng.laplace(size=trials), -2, 2)
    return np.where(rng.random(trials) < 0.1, 0.5 * data.sum() + 0.25, y)

def clipped(data, trials, rng):
    return np.clip(data.sum() + rng.laplace(size=trials), -2, 2)

def other_type(data, trials, rng):
    return [str(y) if data.sum() and y > 2 else y for y in textbook(data, trials, rng).tolist()]

def same_type(data, trials, rng):
    return [str(y) if y > 2 else y for y in textbook(data, trials, rng).tolist()]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "features", "leaks"),
    [
        ("textbook", Bits(), True),
        ("snapped", Bits(), False),
        ("atom", Events(), True),
        ("clipped", Events(), False),
        ("other_type", Events(), True),
        ("same_type", Events(), False),
    ],
)
def test_an_infinite_leak_is_found_and_its_correct_twin_is_not_accused(
    name, features, leaks, tmp_path, monkeypatch
):
    """All claim ε = 1, which the twins keep. The bound may exceed the truth with probability 1e-6:
    finite-sample."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_twins.py").write_text(OWN)
    mechanism = Target(target=f"own_twins:{name}", claim=Pure(eps=1), batched=True)
    game = Game(mechanism, PAIR, features, seed=0)
    holdout, attacker = Holdout(trials=6000), XGBoost()
    evidence = holdout(
        Played(game, Serial(), tmp_path), attacker, ClaimLower(), mechanism.claims[0]
    )
    lower = ClopperPearson(significance=1e-6)(evidence, PureDP()).lower
    assert (lower > 1) == leaks, lower
