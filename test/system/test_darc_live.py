# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc in a live process: it finds what the search of a recording finds, with only those
functions live that it has to look at, and puts everything back, however it ends.
"""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import last_words
from test_darc import causes, made

# direct calls, a recursion, loops; virtual calls, pointers and an exception
PLANTED = [0, 2, 5]


@pytest.fixture
def place(root):
    """Where the traces lie: nothing may be left there."""
    path = root.dir()
    yield {"TMPDIR": str(path)}
    memory.wait_for("a directory of iprobe darc is left", lambda: not list(path.iterdir()))


@pytest.fixture
def endless(root, programs):
    """Starts programs that go on for ever; ends them."""
    processes = []

    def start(seed):
        program, path = made(programs, seed)
        processes.append(started(root, path, "-1"))
        return program, processes[-1].pid

    yield start
    for process in processes:
        process.kill()
        process.wait()


def started(root, *command):
    """A program that goes first, once it has begun."""
    process = root.popen(["nice", "-n", "-10", *command])
    memory.wait_for(
        "the program does not start",
        lambda: os.readlink(f"/proc/{process.pid}/exe") == str(command[0]),
    )
    return process


def is_as_on_disk(actor, pid):
    status = json.loads(actor.iprobe("status", "--json", pid).stdout)
    return status["patched"] == 0 and all(m["text_matches_file"] for m in status["modules"])


@pytest.mark.parametrize("seed", PLANTED)
def test_planted(root, endless, place, seed):
    program, pid = endless(seed)
    done = root.iprobe("darc", "-f", "serve", "--json", pid, env=place, timeout=120)
    assert done.returncode == 0, repr(done)
    document = json.loads(done.stdout)
    # one path may have several call sites
    assert {tuple(found["path"]) for found in causes(document)} == {tuple(program.path)}, document
    assert document["state"] == "root cause found"
    assert document["searched"]["looked_at"] >= 20 or document["searched"]["count"] >= 5
    assert is_as_on_disk(root, pid)
    # each step is told, and no more functions are live than are looked at
    levels = [line for line in done.stderr.splitlines() if ": level " in line]
    assert len(levels) >= len(program.path) - 1, done.stderr
    assert levels[0].endswith("level 0: 1 function live"), levels
    # so are the stops: each step has one, and the begin and the end
    stops = len(document["stop_us"]) + document["more_stops"]
    assert stops >= len(program.path) and min(document["stop_us"]) > 0, document["stop_us"]


def test_what_is_seen_decides_nothing(root, programs, place):
    """The cause is the function itself, which calls through pointers: while it is looked whom, its
    callees are idle, and it would have their time.
    """
    program = programs.simple("own_and_callee")
    target = started(root, program)
    try:
        done = root.iprobe("darc", "-f", "serve", "--json", target.pid, env=place, timeout=120)
        shown = root.iprobe("darc", "-f", "serve", "-q", target.pid, env=place, timeout=120)
    finally:
        target.kill()
        target.wait()
    assert done.returncode == 0 and "through pointers" in done.stderr, repr(done)
    document = json.loads(done.stdout)
    assert [cause["path"] for cause in causes(document)] == [["serve"]], document
    assert {node["function"] for node in document["ftree"]} == {"serve", "check"}, document
    assert re.search(r"\nThe process was stopped \d+ times, together [\d.]+ .s: ", shown.stdout)


def test_usual_calls_are_shifted(root, programs, place):
    """Usual calls take some nanoseconds, and microseconds once their callees are live: none is as
    long as in the profile any more. The file of the search knows that they are counted otherwise.
    """
    program, kept = programs.simple("shifted_usual"), root.dir() / "kept.json"
    target = started(root, program)
    words = ("darc", "-f", "serve", "--json", "--duration", "40s", "--resume", kept, target.pid)
    try:
        done = root.iprobe(*words, env=place, timeout=120)
        options = json.loads(kept.read_text())["options"]
        resumed = root.iprobe(*words, env=place, timeout=120)
    finally:
        target.kill()
        target.wait()
    for ended in (done, resumed):
        assert ended.returncode == 0, repr(ended)
        document = json.loads(ended.stdout)
        assert document["state"] == "root cause found", document
        paths = {tuple(cause["path"]) for cause in causes(document)}
        assert paths == {("serve", "read_page")}, document
    assert "all faster ones count as usual" in done.stderr, done.stderr
    assert options["all_faster"] is True


def test_stops_in_vain(root, programs, place):
    """A thread cannot be stopped most of the time: changes are tried until they are made."""
    program = programs.simple("late_thread")
    target = started(root, program)
    search = None
    try:
        search = root.popen(
            [root.iprobe_path, "darc", "-f", "serve", "--json", target.pid],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **place},
        )
        assert "level 0" in search.stderr.readline()
        target.send_signal(signal.SIGUSR1)
        out, said = search.communicate(timeout=120)
    finally:
        target.kill()
        target.wait()
        if search:
            search.kill()
    assert search.returncode == 0, said
    document = json.loads(out)
    assert {tuple(c["path"]) for c in causes(document)} == {("serve", "look_up", "read_page")}


def test_jumps(root, programs, place):
    """What a callee jumps to at its end is called, too: the cause is behind three jumps."""
    program = programs.simple("slow_tails", placement="fentry")
    target = root.popen([program])
    try:
        done = root.iprobe("darc", "-f", "serve", "--json", target.pid, env=place, timeout=120)
    finally:
        target.kill()
        target.wait()
    assert done.returncode == 0, repr(done)
    paths = {tuple(cause["path"]) for cause in causes(json.loads(done.stdout))}
    assert paths and all(path[-2:] == ("look_up", "read_page") for path in paths), paths
    assert all(path[0] == "serve" and len(path) >= 3 for path in paths), paths


def test_few_at_once(root, endless, place):
    """One callee at a time finds the same; nothing is told with -q."""
    program, pid = endless(0)
    done = root.iprobe(
        *("darc", "-f", "serve", "--json", "-q", "--max-functions", 1, "--decision-ops", 8, pid),
        env=place,
        timeout=180,
    )
    assert done.returncode == 0 and not done.stderr, repr(done)
    found = {tuple(path["path"]) for path in causes(json.loads(done.stdout))}
    assert found == {tuple(program.path)}, found


def test_command(root, programs, place):
    """The command is started, searched, and goes on to its own end."""
    program, path = made(programs, 0)
    done = root.iprobe(
        *("darc", "-f", "serve", "--json", "--", "nice", "-n", "-10", path, "1200"),
        env=place,
        timeout=120,
    )
    assert done.returncode == 0, repr(done)
    found = {tuple(path["path"]) for path in causes(json.loads(done.stdout))}
    assert found == {tuple(program.path)}, found


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, "time", "exit", "later"]
)
def test_ends(root, endless, place, how):
    """What is known by then is printed, and every byte is back."""
    _, pid = endless(0)
    options = ("--duration", "700ms") if how == "time" else ()
    process = root.popen(
        [
            *(root.iprobe_path, "darc", "-f", "serve", "--json", "--decision-ops", "1000000"),
            *(*options, str(pid)),
        ],
        env=place,
    )
    if how == "time":
        pass
    elif how == "exit":
        time.sleep(1)
        os.kill(pid, signal.SIGKILL)
    else:
        while "level 1" not in process.stderr.readline():
            assert process.poll() is None
        if how == "later":  # there was a look at the calls of the level
            time.sleep(2)
        process.send_signal(signal.SIGINT if how == "later" else how)
    done = last_words(process)
    if how == signal.SIGKILL:
        memory.wait_for("sites are left", lambda: is_as_on_disk(root, pid))
        # the directory of a killed iprobe is removed by the next one
        done = root.iprobe(
            *("darc", "-f", "serve", "-q", "--duration", "100ms", pid), env=place, timeout=60
        )
        assert done.returncode == 0, repr(done)
        return
    assert done.returncode == 0, repr(done)
    document = json.loads(done.stdout)
    assert document["state"] == "in progress" and document["calls"] > 0, document
    if how != "exit":
        assert is_as_on_disk(root, pid)


def test_a_function_that_was_not_called(root, programs, place):
    """It is open all the time, and is not called again."""
    target = root.popen([programs.simple("serving", placement="fentry")])
    try:
        done = root.iprobe("darc", "-f", "main", "-q", "--duration", "300ms", target.pid, env=place)
    finally:
        target.kill()
        target.wait()
    assert done.returncode == 0, repr(done)
    assert done.stdout.splitlines()[0] == "main: no calls", repr(done)


def test_refusals(root, endless, place):
    program, pid = endless(0)
    trace = root.dir() / "trace"
    for options, code, words in [
        (("-f", "serv", pid), 1, "serve"),
        (("-f", "serve", "--by", "variance", pid), 2, "for traces"),
        (("-f", "serve", "--max-functions", "3", trace), 2, "goes with a PID or a command"),
        (("-f", "serve", "--kernel=nothing", pid), 2, "nothing"),
        (("-f", "serve", "--", "/no/such/command"), 1, "cannot start"),
    ]:
        done = root.iprobe("darc", *options, env=place)
        assert done.returncode == code and words in done.stderr, (options, done)
        assert not done.stdout, done
    assert is_as_on_disk(root, pid)
    assert program.planted


@pytest.mark.parametrize("level", [2, 3])
def test_ended_at_the_begin_of_a_level(root, endless, place, level):
    """Where nothing is known of a level yet, the causes of the one before are told."""
    program, pid = endless(0)
    assert len(program.path) > level, program.path
    process = root.popen(
        [root.iprobe_path, "darc", "-f", "serve", "--json", str(pid)],
        env=place,
    )
    while f"level {level}" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    done = last_words(process)
    assert done.returncode == 0, repr(done)
    document = json.loads(done.stdout)
    assert document["state"] == "in progress", document
    (found,) = {tuple(path["path"]) for path in causes(document)}
    assert level <= len(found) <= level + 1, found
    assert list(found) == program.path[: len(found)], (found, program.path)
    assert is_as_on_disk(root, pid)


def test_ended_early_is_not_said_to_be_the_depth_that_was_asked_for(root, endless, place):
    program, pid = endless(0)
    assert len(program.path) > 3, program.path
    process = root.popen([root.iprobe_path, "darc", "-f", "serve", str(pid)], env=place)
    while "level 3" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    done = last_words(process)
    assert done.returncode == 0 and "Root cause of" in done.stdout, repr(done)
    assert "ended before it looked below" in done.stdout, repr(done)
    assert "--depth" not in done.stdout, repr(done)


def test_another_session(root, endless, place):
    """One that is there is not changed."""
    _, pid = endless(0)
    trace = root.dir() / "trace"
    other = root.start_iprobe("attach", "-q", "-f", "serve", "-o", trace, pid)
    memory.wait_for("it is not recorded", lambda: not is_as_on_disk(root, pid))
    done = root.iprobe("darc", "-f", "serve", pid, env=place)
    assert done.returncode == 1 and "has a session already" in done.stderr, repr(done)
    other.send_signal(signal.SIGINT)
    assert last_words(other).returncode == 0
