"""A kept block is taken as it is only where it is what was kept: in its place, of its game, whole
and unchanged."""

import dataclasses
import logging
import os
import re
import shutil
import signal
import time

import numpy as np
import pytest
from toys import Counted, Toy

from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, CanaryReleases, Columns
from audit.features import WhiteBox
from audit.game import Cache, CanaryGame, Game, Played, Serial
from audit.game.cache import abandoned

BLOCKS = 3


def game(**changes):
    return Game(
        **(
            {"mechanism": Toy(), "challenge": WorstCase(), "features": WhiteBox(), "seed": 0}
            | changes
        )
    )


def rewritten(path, change):
    """The block at ``path`` with its arrays changed: by a dict of new ones, or a function of the
    old ones."""
    with np.load(path) as kept:
        arrays = dict(kept)
    np.savez(path, **(change(arrays) if callable(change) else arrays | change))


def copied_from_another_block(path):
    shutil.copy(path.with_name("00000000.npz"), path)


def of_another_game(path):
    other = Cache(path.parents[1], game(mechanism=Toy(mu=2.0)))
    other.save(1, game(mechanism=Toy(mu=2.0)).play(1))
    shutil.copy(other.path(1), path)


def a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "precious").write_text("mine")


def a_fifo(path):
    path.unlink()
    os.mkfifo(path)


def a_link_to_a_fifo(path):
    os.mkfifo(path.parent / "fifo")
    path.unlink()
    path.symlink_to(path.parent / "fifo")


def a_loop(path):
    path.unlink()
    path.symlink_to(path)


def an_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def pickled(path):
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.array([{}], dtype=object))


DAMAGES = {
    "copied": (
        copied_from_another_block,
        "it holds the trials from 0 on where those from 20 on are due",
    ),
    "of another game": (of_another_game, "it was changed, or is of another game"),
    "all NaN": (
        lambda path: rewritten(path, {"rows": np.full((20, 1), np.nan)}),
        "its rows are not finite",
    ),
    "one value changed": (
        lambda path: rewritten(
            path, lambda a: a | {"rows": a["rows"] + (np.arange(20) == 3)[:, None]}
        ),
        "it was changed",
    ),
    "wider": (
        lambda path: rewritten(path, {"rows": np.zeros((20, 2))}),
        r"its rows are float64 of shape \(20, 2\)",
    ),
    "shorter": (
        lambda path: rewritten(
            path, lambda a: {k: v if k in ("columns", "seal") else v[:10] for k, v in a.items()}
        ),
        "it does not hold 20 trials",
    ),
    "an array shorter": (
        lambda path: rewritten(path, {"log_ratio": np.zeros(3)}),
        "it does not hold 20 trials",
    ),
    "an array less": (
        lambda path: rewritten(path, lambda a: {k: v for k, v in a.items() if k != "run"}),
        "other arrays",
    ),
    "log_ratio gone": (
        lambda path: rewritten(path, lambda a: {k: v for k, v in a.items() if k != "log_ratio"}),
        "it was changed",
    ),
    "an array more": (
        lambda path: rewritten(path, {"more": np.zeros(20)}),
        "it has other arrays than a block",
    ),
    "another type": (
        lambda path: rewritten(path, lambda a: a | {"rows": a["rows"].astype("f4")}),
        "it was changed",
    ),
    "texts": (lambda path: rewritten(path, {"rows": np.full((20, 1), "a")}), "its rows are <U1"),
    "bits swapped": (
        lambda path: rewritten(path, lambda a: a | {"bits": ~a["bits"]}),
        "it was changed",
    ),
    "renamed": (lambda path: rewritten(path, {"columns": np.array(["other"])}), "it was changed"),
    "objects": (
        lambda path: rewritten(path, {"rows": np.array([None] * 20)}),
        "Object arrays cannot be loaded",
    ),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:300]), "zip"),
    "empty": (lambda path: path.write_bytes(b""), "No data left in file"),
    "an array": (an_array, "context manager"),
    "pickled": (pickled, "pickle"),
    "a folder": (a_folder, "Is a directory|not a regular file"),
    "a FIFO": (a_fifo, "not a regular file"),
    "a link to a FIFO": (a_link_to_a_fifo, "not a regular file"),
    "a loop": (a_loop, "symbolic links"),
}


@pytest.fixture
def alarm():
    """What hangs ends after ten seconds."""
    signal.alarm(10)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_block_that_is_not_what_was_kept_is_played_again_and_said(
    tmp_path, caplog, alarm, damage
):
    before = Played(game(), Serial(), tmp_path).trials(0, BLOCKS * Toy.block)
    spoil, why = DAMAGES[damage]
    path = Cache(tmp_path, game()).path(1)
    spoil(path)
    again = Played(game(), Serial(), tmp_path)
    with caplog.at_level(logging.WARNING):
        after = again.trials(0, BLOCKS * Toy.block)
    for name in ("rows", "bits", "index", "run", "log_ratio"):
        assert np.array_equal(getattr(before, name), getattr(after, name)), name
    assert after.columns == before.columns and (again.tally.played, again.tally.cached) == (
        1,
        BLOCKS - 1,
    )
    (said,) = caplog.messages
    assert said.startswith("block 1 is damaged (") and said.endswith(
        f" and is played again: {path}"
    )
    assert re.search(why, said), said
    last = Played(game(), Serial(), tmp_path)
    last.trials(0, BLOCKS * Toy.block)
    assert last.tally.played == 0, "what was played again is kept"
    assert damage != "a folder" or [
        file.read_text() for file in tmp_path.glob("*/*.aside/precious")
    ] == ["mine"]


def test_a_block_that_cannot_be_read_is_played_again_and_said(tmp_path, caplog, monkeypatch):
    """As root everything can be read, so that the refusal is made here."""
    Played(game(), Serial(), tmp_path).trials(0, 40)
    path, opened = Cache(tmp_path, game()).path(1), os.open

    def refuse(name, *words, **more):
        if os.fspath(name) == os.fspath(path):
            raise PermissionError(13, "Permission denied", str(name))
        return opened(name, *words, **more)

    monkeypatch.setattr(os, "open", refuse)
    again = Played(game(), Serial(), tmp_path)
    assert len(again.trials(0, 40)) == 40 and again.tally.played == 1
    assert "block 1 is damaged (Permission denied) and is played again" in caplog.text


def test_a_link_to_a_whole_block_is_that_block(tmp_path):
    Played(game(), Serial(), tmp_path).trials(0, 20)
    path = Cache(tmp_path, game()).path(0)
    path.rename(tmp_path / "elsewhere.npz")
    path.symlink_to(tmp_path / "elsewhere.npz")
    again = Played(game(), Serial(), tmp_path)
    again.trials(0, 20)
    assert again.tally.cached == 1


@dataclasses.dataclass(frozen=True)
class Infinite(Toy):
    """A toy whose log-likelihood ratio is infinite or unknown, which a block may say."""

    def release(self, data, trials, rng):
        return Ratios(super().release(data, trials, rng).values, self.mu)


class Ratios(Counted):
    def log_ratio(self, absent, present):
        return np.where(self.values > 10, np.inf, np.nan)


def test_infinite_and_unknown_likelihood_ratios_are_kept(tmp_path, caplog):
    for played in (1, 0):
        source = Played(game(mechanism=Infinite()), Serial(), tmp_path)
        source.trials(0, 20)
        assert source.tally.played == played
    assert not caplog.messages


@dataclasses.dataclass(frozen=True)
class Many(Counted):
    def of_canaries(self):
        return self


@dataclasses.dataclass(frozen=True)
class ManyToy(Toy):
    def release(self, data, trials, rng):
        return Many(rng.normal(size=1), self.mu)


def test_a_run_of_many_canaries_is_bound_to_its_place_too(tmp_path, caplog):
    one_run = CanaryGame(ManyToy(), WorstCase(), WhiteBox(), 0)
    assert isinstance(ManyToy().release(None, 1, np.random.default_rng(0)), CanaryReleases)
    before = Played(one_run, Serial(), tmp_path).trials(0, 3)
    cache = Cache(tmp_path, one_run)
    shutil.copy(cache.path(0), cache.path(2))
    again = Played(one_run, Serial(), tmp_path)
    assert np.array_equal(again.trials(0, 3).rows, before.rows) and again.tally.played == 1
    assert (
        "block 2 is damaged (it holds the trials from 0 on where those from 2 on are due)"
        in caplog.text
    )


@dataclasses.dataclass(frozen=True)
class Mood(Counted):
    how: str

    def insider(self):
        values = self.values[:, None]
        if self.how == "width":
            return Columns(("count", "again"), np.hstack([values, values]))
        name = "other" if self.how == "name" else "count"
        return Columns((name,), np.round(values).astype(int) if self.how == "type" else values)


@dataclasses.dataclass(frozen=True)
class Moody(Toy):
    """A toy whose odd blocks differ: in width, in names, or in type."""

    how: str = "width"

    def release(self, data, trials, rng):
        whole = super().release(data, trials, rng)
        return Mood(whole.values, self.mu, self.how if PARITY["block"] % 2 else "")


PARITY = {"block": 0}


class Counting(Game):
    def play(self, block):
        PARITY["block"] = block
        return super().play(block)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("width", "columns are count, again where another block's are count"),
        ("name", "columns are other where another block's are count"),
        ("type", "rows are int64, 1 where another block's are float64, 1"),
    ],
)
def test_blocks_that_do_not_fit_together_are_refused_in_one_line(tmp_path, how, says):
    """Numbers of another type were cut off in silence, other names taken, another width ended in a
    traceback."""
    odd = Counting(Moody(how=how), WorstCase(), WhiteBox(), 0)
    with pytest.raises(AuditError, match=rf"Moody, block 1 \(seed 0\): {says}; the mechanism must"):
        Played(odd, Serial(), tmp_path).trials(0, 40)


def test_only_files_of_ones_own_are_abandoned_and_nothing_is_waited_for(
    tmp_path, alarm, monkeypatch
):
    start = time.monotonic()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    free = {}
    for name in ("fifo", "folder", "file", "link", "none"):
        with abandoned(tmp_path / name) as free[name]:
            pass
    assert free == {"fifo": False, "folder": False, "file": True, "link": False, "none": False}
    assert time.monotonic() - start < 5
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # the file is another user's then
    with abandoned(tmp_path / "file") as mine:
        assert not mine


def test_a_fifo_among_what_writers_left_is_not_waited_for(tmp_path, alarm):
    cache = Cache(tmp_path, game())
    cache.folder.mkdir()
    os.mkfifo(cache.folder / ".x.part")
    assert len(Played(game(), Serial(), tmp_path).trials(0, 20)) == 20
