# SPDX-License-Identifier: Apache-2.0
"""iprobe follow: recordings that begin with a call or with a moment."""

import json
import os
import signal
import time

import pytest

from iptest import memory, terminal, trees
from iptest.actor import last_words, one_line
from test_trees import unlogged
from test_within import callers, part_within, qualified


@pytest.fixture
def steady(actor, programs, targets):
    return targets.steady(actor, programs.simple("steady"), "-t", "2")


def not_logged(name):
    return unlogged(name) or name.endswith("@plt")


def follow(actor, *words):
    return actor.iprobe("follow", *words)


def report(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f for f in json.loads(done.stdout)["functions"]}


@pytest.mark.parametrize("program", ["tree_calls", "tree_throw", "tree_threads"])
def test_all_calls_below(me, programs, program):
    """Those that the program's own log has, and no others; in a command that is followed."""
    command = [programs.trees("gcc", "-O2", "fentry") / program]
    logs, directory = me.dir(), me.dir() / "trace"
    me.run(command, env={"TREE_LOG": str(logs)})
    name = callers(trees.read_log(logs))[0]
    logs = me.dir()
    done = me.iprobe(
        *("follow", "--from", qualified(name), "--json", "-o", directory, "--", *command),
        env={"TREE_LOG": str(logs)},
    )
    assert done.returncode == 0, repr(done)
    dumps = trees.read_dump(me.iprobe("dump", "--json", directory).stdout)
    for (_, _, tid), steps in trees.read_log(logs).items():
        shown = trees.without(dumps.pop(tid, []), not_logged)
        trees.compare(part_within(steps, [name]), shown, f"thread {tid} within {name}")
    assert not dumps


def test_from_a_function(actor, steady):
    """Of a process that runs; what is left out is not there, and every byte is back."""
    directory = actor.dir() / "trace"
    done = follow(
        actor,
        *("--from", "step_10,by_double", "--until", "200ms", "-q", "-o", directory, steady.pid),
    )
    assert done.returncode == 0, repr(done)
    found = report(actor, directory)
    assert found["step_10"]["calls"] > 0
    assert not any(name.startswith("step_2") for name in found), sorted(found)
    memory.assert_untouched(steady.pid)


def test_what_is_excluded(me, programs):
    directory = me.dir() / "trace"
    program = programs.simple("filtered", placement="fentry")
    words = ("--from", "level1", "--exclude", "level3,level4", "--exclude=outer")
    done = follow(me, *words, "-q", "-o", directory, "--", program)
    assert done.returncode == 0, repr(done)
    assert set(report(me, directory)) == {"level1", "level2"}
    words = ("--from", "slow", "-q", "-o", directory)
    for more in ((), ("--no-plt",)):
        assert follow(me, *words, *more, "--", program).returncode == 0
        found = report(me, directory)
        assert any(name.endswith("@plt") for name in found) == (not more), sorted(found)


def test_all_threads_from_a_call_on(me, programs):
    directory = me.dir() / "trace"
    program = programs.simple("filtered", placement="fentry")
    words = ("--from", "outer", "--threads", "all", "--until", "finish")
    done = follow(me, *words, "-q", "-o", directory, "--", program)
    assert done.returncode == 0, repr(done)
    found = report(me, directory)
    assert "outer" in found and "finish" in found and "level1" not in found, sorted(found)


def begun(proc):
    """It waits for its moment, and has said so."""
    line = proc.stderr.readline()
    assert "nothing is changed yet" in line, line
    return line


def test_at_a_signal(actor, steady):
    """Before it nothing is touched; the second one ends the recording."""
    directory = actor.dir() / "trace"
    mapped = [m.path for m in memory.mappings(steady.pid)]
    proc = actor.start_iprobe(
        "follow", "--on-signal", "USR1", "--json", "-o", directory, steady.pid
    )
    assert f"kill -USR1 {proc.pid}" in begun(proc)
    time.sleep(0.3)
    memory.assert_untouched(steady.pid)
    assert [m.path for m in memory.mappings(steady.pid)] == mapped
    assert not directory.exists()
    proc.send_signal(signal.SIGUSR1)
    memory.wait_until_live(steady.pid, proc)
    proc.send_signal(signal.SIGUSR1)
    done = last_words(proc)
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)
    memory.assert_untouched(steady.pid)


def test_after_a_time(me, programs, targets):
    """What was open at the moment is shown as open since before."""
    target = targets.start(me, [programs.simple("open_waits", placement="fentry")], preload=False)
    directory = me.dir() / "trace"
    began = time.monotonic()
    words = ("--after", "500ms", "--until", "300ms", "-q", "-o", directory)
    done = follow(me, *words, target.pid)
    assert done.returncode == 0 and time.monotonic() - began >= 0.8, repr(done)
    dump = me.iprobe("dump", directory)
    assert dump.returncode == 0 and "(open before the recording)" in dump.stdout, repr(dump)
    memory.assert_untouched(target.pid)


def test_at_much_cpu(me, programs, targets):
    """It begins when the process computes, and not before."""
    directory = me.dir() / "trace"
    target = targets.steady(me, programs.simple("steady"), "-t", "2")
    words = ("follow", "--at-cpu", "40%", "--until", "100ms", "--json", "-o", directory)
    memory.freeze(target.pid)
    proc = me.start_iprobe(*words, target.pid)
    begun(proc)
    time.sleep(2)
    assert proc.poll() is None and not directory.exists()
    memory.thaw(target.pid)
    done = last_words(proc)
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)


def test_at_a_key(me, steady):
    directory = me.dir() / "trace"
    screen = terminal.Terminal(me, "follow", "--on-key", "s", "-o", directory, steady.pid)
    begun(screen.proc)
    screen.press("x")
    time.sleep(0.3)
    assert not directory.exists()
    screen.press("s")
    memory.wait_until_live(steady.pid)
    os.kill(screen.pid, signal.SIGINT)
    assert screen.proc.wait(timeout=60) == 0
    assert "trace in" in screen.proc.stderr.read()
    assert report(me, directory)
    memory.assert_untouched(steady.pid)


def test_a_command_from_a_moment_on(me, programs):
    """It runs by itself until then; its exit code is that of iprobe."""
    directory = me.dir() / "trace"
    program = programs.simple("filtered", placement="fentry")
    words = ("--after", "100ms", "-q", "-o", directory)
    done = follow(me, *words, "--", "/bin/sh", "-c", "sleep 0.5; exit 7")
    assert done.returncode == 1 and "has no probes" in one_line(done), repr(done)
    done = follow(me, *words, "--until", "100ms", "--", program, "-n", "400")
    assert done.returncode == 0 and "calls " in done.stdout, repr(done)
    assert 0 < report(me, directory)["level1"]["calls"] < 400


def test_it_ends_before_the_moment(me, programs):
    done = follow(me, "--after", "60s", "--", programs.simple("count"), "-n", "10")
    assert done.returncode == 1, repr(done)
    assert "it has ended before the moment came" in done.stderr, repr(done)


def test_a_command_is_not_started_in_vain(me, steady):
    """What is wrong with the command line is told before."""
    where = me.dir()
    command = ("--", "/bin/sh", "-c", f"touch {where}/started; sleep 60")
    for words, code in (
        (("--after", "1s", "--ouput", "x"), 2),
        (("--after", "1s", "--dry-run"), 2),
        (("--after", "1s", steady.pid), 2),
        (("--on-key", "s"), 1),
    ):
        done = follow(me, *words, *command)
        assert done.returncode == code and len(done.stderr.splitlines()) == 1, (words, done)
    assert not list(where.iterdir())
    done = follow(me, "--after", "1s", "--", "/nonexistent/program")
    assert done.returncode == 1 and "cannot start" in one_line(done), repr(done)


def test_a_signal_is_for_the_command_then(me, programs):
    """After the recording; and one that nobody waits for in vain where SIGCHLD was ignored."""
    program = programs.simple("filtered", placement="fentry")
    words = ("follow", "--after", "100ms", "--until", "100ms", "-q", "-o", me.dir() / "trace")
    script = 'trap "" CHLD; exec "$@"'
    proc = me.popen(
        ["/bin/sh", "-c", script, "sh", me.iprobe_path, *map(str, words)]
        + ["--", program, "-n", "100000"]
    )
    time.sleep(2)
    assert proc.poll() is None
    proc.send_signal(signal.SIGTERM)
    assert proc.wait(timeout=60) == 128 + signal.SIGTERM


def test_what_would_be_refused_later(me, steady):
    """It is refused at once."""
    for words, said in ((("--until", "nowhere"), "nowhere"), (("-f", "nowhere"), "matches none")):
        done = follow(me, "--after", "60s", *words, steady.pid)
        assert done.returncode == 1 and said in one_line(done), repr(done)


def test_interrupted_before_the_moment(me, steady):
    proc = me.start_iprobe("follow", "--after", "60s", steady.pid)
    begun(proc)
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 1 and "nothing was recorded" in done.stderr, repr(done)
    memory.assert_untouched(steady.pid)


def test_what_is_refused(me, steady):
    for words, code, said in (
        (("1",), 2, "it needs an event"),
        (("--from", "a", "--after", "1s", "1"), 2, "one of them"),
        (("--after", "1s", "--at-cpu", "3", "1"), 2, "one of them"),
        (("--after", "x", "1"), 2, "x"),
        (("--on-signal", "KILL", "1"), 2, "USR1"),
        (("--on-signal", "INT", "1"), 2, "USR1"),
        (("--on-key", "ss", "1"), 2, "one character"),
        (("--at-cpu", "0", "1"), 2, "per cent"),
        (("--after", "1s", "--threads", "all", "1"), 2, "--threads goes with --from"),
        (("--from", "a", "--threads", "some", "1"), 2, "this or all"),
        (("--from", "a", "--exclude", "!b", "1"), 2, "has no !"),
        (("--from", "a", "--exclude", "", "1"), 2, "--exclude"),
        (("--from",), 2, "needs an argument"),
        (("--from", "a", "--"), 2, "no command"),
        (("--from", "a"), 2, "PID"),
        (("--from", "nowhere", steady.pid), 1, "--within nowhere"),
        (("--after", "1ms", steady.pid, os.getpid()), 2, "name one"),
        (("--after", "1ms", 4194304), 1, "no such process"),
        (("--on-key", "s", steady.pid), 1, "stdin is no terminal"),
    ):
        done = follow(me, *words)
        assert done.returncode == code and said in done.stderr, (words, repr(done))
        assert len(done.stderr.splitlines()) == 1, (words, repr(done))
    memory.assert_untouched(steady.pid)


def test_of_a_session_that_is_there(me, steady):
    """Its functions are added, as attach adds them: nobody has asked for library calls."""
    first = me.start_iprobe(
        "attach", steady.pid, "-f", "step_10", "-q", "-o", me.dir() / "trace", "--json"
    )
    memory.wait_until_live(steady.pid, first)
    done = follow(me, "--after", "100ms", "-f", "step_11", steady.pid)
    assert done.returncode == 0 and "added to its session" in done.stderr, repr(done)
    done = follow(me, "--from", "step_12", steady.pid)
    assert done.returncode == 1 and "--within" in one_line(done), repr(done)
    first.send_signal(signal.SIGINT)
    assert last_words(first).returncode == 0
