import dataclasses
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from audit.canaries.pair import Pair
from audit.canaries.worst_case import WorstCase
from audit.core import AuditError, UnreadableOutput
from audit.events import Events
from audit.features import BlackBox
from audit.game import Cache, Game, Played, Serial
from audit.mechanisms import command
from audit.mechanisms.claims import GaussianDP
from audit.mechanisms.command import Command

PAIR = Pair(absent=(0,), present=(0, 1))

HEAD = """
import json, os, random, sys, time
for line in sys.stdin:
    ask = json.loads(line)
    rng = random.Random(ask["seed"])
    rows = [[len(ask["data"]) + rng.gauss(0, 1)] for _ in range(ask["trials"])]
"""
GOOD = HEAD + '    print(json.dumps({"rows": rows, "columns": ["count"]}), flush=True)\n'


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program of somebody's own: ``program(code)`` makes the mechanism."""
    monkeypatch.chdir(tmp_path)

    def make(code=GOOD, **options):
        (tmp_path / "mine.py").write_text(code)
        argv = (sys.executable, "mine.py")
        return Command(**{"argv": argv, "claim": GaussianDP(mu=1), "timeout": 20} | options)

    started, start = [], command._Program._start
    monkeypatch.setattr(
        command._Program, "_start", lambda self: (started.append(self), start(self))[1]
    )
    command._program.cache_clear()
    yield make
    for each in started:  # nothing outlives its test
        each.leave()
        assert each.process is None


def play(mechanism, features=None, block=0):
    return Game(mechanism, PAIR, features or BlackBox(), seed=0).play(block)


def test_a_program_is_asked_for_rows(program):
    mechanism = program()
    trials = play(mechanism)
    assert trials.columns == ("count",) and trials.rows.shape == (1000, 1)
    # sd of the difference of means: √(2/500) = 0.063; 5 sd: a false failure has probability 6e-7
    assert trials.rows[trials.bits].mean() - trials.rows[~trials.bits].mean() == pytest.approx(
        1, abs=0.316
    )
    assert np.array_equal(play(mechanism).rows, trials.rows)
    assert len(np.unique(trials.rows)) == 1000, "every request has a seed of its own"
    assert mechanism.notes(PAIR.data([True])) == ()


def test_one_process_answers_all_requests(program):
    code = HEAD + '    print(json.dumps({"rows": [[os.getpid()]] * ask["trials"]}), flush=True)\n'
    mechanism = program(code, batch=10)
    assert len(np.unique(play(mechanism).rows)) == 1


def test_a_table_comes_with_its_columns_and_as_a_file_where_that_is_wanted(program):
    code = """
import json, sys
import numpy as np
for line in sys.stdin:
    ask = json.loads(line)
    if "npz" in ask:
        with np.load(ask["npz"], allow_pickle=False) as given:
            data, columns = given["data"], given["columns"]
    else:
        data, columns = np.array(ask["data"]), ask["columns"]
    rows = np.random.default_rng(ask["seed"]).normal(data.sum(), 1, (ask["trials"], 2))
    np.savez("answer.npz", rows=rows, columns=np.array([c + "!" for c in columns[:2]]))
    print(json.dumps({"npz": "answer.npz"}), flush=True)
"""
    data = WorstCase().data([True])
    plain, as_file = (
        program(code, npz=npz).release(data, 5, np.random.default_rng(0)).insider()
        for npz in (False, True)
    )
    assert plain.names == as_file.names == ("a!", "b!") and np.array_equal(
        plain.values, as_file.values
    )


def test_a_program_is_told_whose_each_record_is_where_somebody_asked(program):
    code = """
import json, sys
import numpy as np
for line in sys.stdin:
    ask = json.loads(line)
    users = ask.get("users")
    if "npz" in ask:
        with np.load(ask["npz"], allow_pickle=False) as given:
            users = given["users"].tolist() if "users" in given.files else None
    count = -1 if users is None else len(set(users))
    print(json.dumps({"rows": [[count]] * ask["trials"]}), flush=True)
"""
    table = WorstCase().data([True])
    theirs = dataclasses.replace(table, users=np.arange(len(table.records)) % 4)
    for npz in (False, True):
        counts = [
            program(code, npz=npz).release(d, 2, np.random.default_rng(0)).insider()
            for d in (table, theirs)
        ]
        assert [count.values[0, 0] for count in counts] == [-1, 4]


def test_what_is_no_row_of_numbers_is_an_event(program):
    code = (
        HEAD
        + '    rows[1] = None if len(ask["data"]) > 1 else float("nan")\n'
        + GOOD.splitlines()[-1]
        + "\n"
    )
    with pytest.raises(
        AuditError, match=r"Command, trial 2 \(seed 0, block 0\): it put out nan \(float\)"
    ):
        play(program(code))
    rows = play(program(code), Events()).rows
    assert np.isfinite(rows).all() and not np.array_equal(rows[2], rows[3])


LEAVES_ONE_BEHIND = (
    "import subprocess; left = subprocess.Popen(['sleep', '600']); open('left', "
    "'w').write(str(left.pid))"
)

BROKEN = [
    (
        "print('hello', flush=True); time.sleep(60)",
        "its answer is no JSON object on one line but 'hello'",
    ),
    ("print('[1]', flush=True)", """its answer '[1]' has no "rows", "npz" or "error\""""),
    ("print('{\"rows\": [[1]]}', flush=True)", "it answered 1 rows where 100 rows were due"),
    ("print('{\"rows\": 3}', flush=True)", "it answered int where 100 rows were due"),
    ('print(\'{"npz": "no.npz"}\', flush=True)', "its file no.npz has no readable array rows"),
    ('print(\'{"error": "lost\\\\nkey"}\', flush=True)', "it says: lost key"),
    (
        "sys.stderr.write('first\\nlast one\\n'); sys.exit(3)",
        "(exit status 3); its last words: 'last one'",
    ),
    ("sys.exit(0)", "it left without an answer (exit status 0)"),
    ("os.kill(os.getpid(), 9)", "it left without an answer (killed by signal 9)"),
    ("1 / 0", "its last words: 'ZeroDivisionError: division by zero'"),
    (
        "sys.stdout.close(); os.close(1); time.sleep(60)",
        "it left without an answer (it closed its output)",
    ),
    (
        "print(json.dumps({'rows': rows, 'columns': ['a', 'a']}), flush=True)",
        "are no list of different names",
    ),
    ("print('[' * 100_000, flush=True)", "its answer is no JSON object on one line but '[[[["),
    (
        'os.mkfifo("pipe"); print(\'{"npz": "pipe"}\', flush=True)',
        "no readable array rows (it is no regular file)",
    ),
    (
        'print(\'{"npz": "/dev/zero"}\', flush=True)',
        "no readable array rows (it is no regular file)",
    ),
    ('print(\'{"error": "\\\\u001b[31mred"}\', flush=True)', r"it says: \x1b[31mred"),
    (
        "sys.stderr.write('\\x1b]0;owned\\x07\\n'); sys.exit(3)",
        r"its last words: '\\x1b]0;owned\\x07'",
    ),
    (LEAVES_ONE_BEHIND + "; sys.exit(3)", "it left without an answer (exit status 3)"),
]


@pytest.mark.parametrize(("code", "says"), BROKEN, ids=[says for _, says in BROKEN])
def test_a_program_that_breaks_the_protocol_is_one_line_with_trial_and_seed(program, code, says):
    mechanism = program(HEAD + f"    {code}\n")
    with pytest.raises(AuditError) as error:
        play(mechanism)
    assert str(error.value).startswith("Command, one of the trials 0, 2 … 198 (seed 0, block 0): ")
    assert says in str(error.value) and "\n" not in str(error.value)


def test_a_program_that_hangs_is_ended(program):
    code = HEAD + "    sys.stderr.write('thinking\\n'); sys.stderr.flush(); time.sleep(600)\n"
    start = time.monotonic()
    with pytest.raises(
        AuditError, match=r"no answer within 1 s; its last words: 'thinking'; fix it, or raise"
    ):
        play(program(code, timeout=1))
    assert time.monotonic() - start < 15


def test_a_program_that_does_not_read_is_ended_too(program):
    big = np.zeros((300_000, 1))  # more than a pipe holds
    with pytest.raises(UnreadableOutput, match="no answer within 1 s"):
        program("import time\ntime.sleep(600)\n", timeout=1).release(
            big, 2, np.random.default_rng(0)
        )


def test_death_at_trial_4711_is_named_and_finished_blocks_are_kept(program, tmp_path):
    """With batch=1 every trial is a request: the 2,356th one with the record is trial 4711."""
    code = GOOD.replace("\nfor", "\ncount = 0\nfor").replace(
        "    rng =",
        "    count += len(ask['data']) == 2\n"
        "    if count == 2356: sys.exit('out of memory')\n"
        "    rng =",
    )
    game = Game(program(code, batch=1), PAIR, BlackBox(), seed=0)
    with pytest.raises(AuditError) as error:
        Played(game, Serial(), tmp_path / "trials").trials(0, 10_000)
    assert str(error.value) == (
        "Command, trial 4711 (seed 0, block 4): it left without an answer (exit status 1); its "
        "last words: 'out of memory'"
    )
    kept = Cache(tmp_path / "trials", game)
    assert [kept.load(block) is not None for block in range(6)] == [True] * 4 + [False] * 2


def test_an_error_that_names_its_trial_is_believed(program):
    code = HEAD + '    print(json.dumps({"error": "no", "trial": 7}), flush=True)\n'
    with pytest.raises(AuditError, match=r"Command, trial 14 \(seed 0, block 0\): it says: no$"):
        play(program(code))


def test_a_program_that_leaves_after_each_answer_is_started_again(program):
    mechanism = program(GOOD + "    break\n")
    assert np.array_equal(play(mechanism).rows, play(program(GOOD)).rows)


def test_a_second_line_is_never_taken_for_the_next_answer(program):
    mechanism = program(GOOD + GOOD.splitlines()[-1] + "\n")
    with pytest.raises((AuditError, UnreadableOutput), match="wrote more than one line"):
        for _ in range(3):
            mechanism.release(PAIR.data([True]), 2, np.random.default_rng(0))
            time.sleep(0.2)


def test_no_shell_reads_the_words(program, tmp_path):
    mechanism = program(
        "import sys\nopen('words', 'w').write(repr(sys.argv[1:]))\n",
        argv=(sys.executable, "mine.py", "$(touch x); *"),
    )
    with pytest.raises(AuditError):
        play(mechanism)
    assert (tmp_path / "words").read_text() == repr(["$(touch x); *"]) and not (
        tmp_path / "x"
    ).exists()


def test_a_program_that_takes_no_notice_of_its_seed_is_found_out(program):
    (said,) = program(GOOD.replace('random.Random(ask["seed"])', "random.Random()")).notes(
        PAIR.data([True])
    )
    assert said.startswith("Not reproducible") and "takes no notice of its seed" in said
    (said,) = program(GOOD.replace('random.Random(ask["seed"])', "random.Random(1)")).notes(
        PAIR.data([True])
    )
    assert "the same rows for two seeds" in said


@pytest.mark.parametrize(
    ("batch", "block", "asked"), [(2, 4, [2, 2] * 3), (8, 1000, [8, 8, 4] * 3), (100, 6, [6] * 3)]
)
def test_the_check_of_the_seed_asks_a_slow_program_no_more_than_a_batch_and_a_block(
    program, tmp_path, batch, block, asked
):
    noting = GOOD.replace(
        "rng = ", 'open("asked", "a").write(f"{ask[\'trials\']} {ask[\'seed\']}\\n"); rng = '
    )
    assert program(noting, batch=batch, block=block).notes(PAIR.data([True])) == ()
    requests = [line.split() for line in (tmp_path / "asked").read_text().splitlines()]
    assert [int(trials) for trials, _ in requests] == asked
    once, again, other = (
        {seed for _, seed in requests[i : i + len(asked) // 3]}
        for i in range(0, len(asked), len(asked) // 3)
    )
    assert once == again and not once & other


def test_a_program_that_does_not_answer_at_the_start_is_one_line(program):
    with pytest.raises(
        AuditError, match=r"^Command, before the first trial \(seed 1, 20 trials\): it left without"
    ):
        program("raise SystemExit('no')\n").notes(PAIR.data([True]))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"argv": ("no-such-program-anywhere",)}, "is found; give its path"),
        ({"files": ("no.py",)}, "there is no file 'no.py'"),
    ],
)
def test_a_program_that_is_not_there_is_refused_at_once(program, options, says):
    with pytest.raises(AuditError, match=says):
        program(**options)


def test_an_edited_program_never_meets_stale_trials(program, tmp_path):
    def folder(**options):
        return Cache(tmp_path, Game(program(**options), PAIR, BlackBox(), 0)).folder

    before = folder()
    assert folder() == before and folder(code=GOOD + "\n# edited\n") != before
    (tmp_path / "lib.py").write_text("a = 1\n")
    watched = folder(files=("lib.py",))
    (tmp_path / "lib.py").write_text("a = 2\n")
    assert folder(files=("lib.py",)) != watched


def gone(pid):
    """Whether a process has ended, at most ten seconds from now."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("last", ["", "    break\n"])
def test_what_a_program_left_behind_with_its_output_is_ended_and_not_waited_for(
    program, tmp_path, last
):
    code = GOOD.replace("\nfor", f"\n{LEAVES_ONE_BEHIND}\nfor") + last
    mechanism = program(code, block=2)
    play(mechanism)
    start = time.monotonic()
    _running(mechanism).leave()
    assert time.monotonic() - start < 8 and gone((tmp_path / "left").read_text())


def test_a_program_that_leaves_in_the_middle_is_not_waited_for_to_the_time_limit(program, tmp_path):
    start = time.monotonic()
    with pytest.raises(AuditError, match="it left without an answer"):
        play(program(HEAD + f"    {LEAVES_ONE_BEHIND}; os._exit(3)\n", timeout=600))
    assert time.monotonic() - start < 60 and gone((tmp_path / "left").read_text())


def test_one_that_went_into_a_session_of_its_own_holds_nobody_up(program, tmp_path):
    daemon = LEAVES_ONE_BEHIND.replace(
        "['sleep', '600']", "['sleep', '20'], start_new_session=True"
    )
    mechanism = program(GOOD.replace("\nfor", f"\n{daemon}\nfor"), block=2)
    play(mechanism)
    start = time.monotonic()
    _running(mechanism).leave()
    assert time.monotonic() - start < 8
    os.kill(int((tmp_path / "left").read_text()), 9)


def _running(mechanism):
    return command._program(
        mechanism.argv, os.getpid(), tuple(path.stat().st_mtime_ns for path in mechanism.programs)
    )


def test_a_long_answer_comes_in_pieces(program):
    code = HEAD + '    print(json.dumps({"rows": [[0.5] * 50_000] * ask["trials"]}), flush=True)\n'
    rows = program(code).release(PAIR.data([True]), 4, np.random.default_rng(0)).insider().values
    assert rows.shape == (4, 50_000) and np.all(rows == 0.5)


def test_data_that_cannot_be_sent_is_one_line():
    with pytest.raises(
        AuditError,
        match=r"a program is sent numbers or a table, and this canary makes object; choose",
    ):
        Command(argv=("cat",), claim=GaussianDP(mu=1)).notes(object())
