# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel by iprobed in traces that keep their newest part: --overwrite, --rotate."""

import signal
import time

import pytest
from test_kernel_segments import (
    check_segments,
    check_waits,
    check_waits_of_each,
    count_events,
    document,
    end,
    get_stuck,
    newest,
    segments,
    wait_for,
)

from iptest import kernel_streams, memory
from iptest.actor import last_words
from iptest.daemon_fixtures import daemon, other, pytestmark, wait_until_live  # noqa: F401
from iptest.daemon_kernel import (  # noqa: F401
    allowing,
    calling,
    check_nobody_else,
    threads_of,
    until_no_instance,
)


@pytest.fixture
def waiting(targets, user, programs):
    return targets.start(user, [programs.simple("open_waits", placement="fentry")], preload=False)


@pytest.fixture
def several(targets, user, programs):
    program = programs.simple("open_waits", placement="fentry")
    return [targets.start(user, [program], preload=False) for _ in range(2)]


def begin(env, user, targets, directory, *options):
    proc = user.start_iprobe(
        *("attach", *(target.pid for target in targets), "--json", "-q", "--kernel"),
        *("-o", directory, *options),
        env=env,
        cwd=directory.parent,
    )
    for target in targets:
        memory.wait_until_live(target.pid, proc, 60)
        get_stuck(target)
    return proc


def snapshot(daemon, user, pid, directory):
    done = user.iprobe("snapshot", pid, "-o", directory, env=daemon.env, cwd=directory.parent)
    assert done.returncode == 0, repr(done) + daemon.log()


def check_own(directory, own):
    """Each segment behind the first one that was kept has the states of the threads; nobody
    else's.
    """
    events = kernel_streams.read(directory)
    foreign = {
        tid for tid in kernel_streams.ids(events) if tid and tid < kernel_streams.OTHER
    } - own
    assert not foreign, foreign
    states = [e for e in events if e["event"] == "lttng_statedump_process_state"]
    assert {e["fields"]["tid"] for e in states} == own, states
    assert {e["fields"]["ppid"] for e in states} == {0}
    numbers = sorted(segments(directory)["state_0"])
    # what has come a moment before the end may have none yet
    for number in numbers[:-1]:
        told = {
            e["fields"]["tid"] for e in states if e["stream"] == f"state_0-{number}"
        }
        assert told == own, (number, told)


def test_flight_recorder(allowing, user, waiting):
    """A snapshot, another one, and what is written at the end have the newest events alone."""
    directory, first, second = (user.dir() / name for name in ("trace", "first", "second"))
    proc = begin(allowing.env, user, [waiting], directory, "--overwrite", "--memory", "512K")
    own = threads_of(waiting.pid)
    snapshot(allowing, user, waiting.pid, first)
    start = check_segments(first)
    check_own(first, own)
    document(user, "wait", first)
    wait_for(lambda: not segments(directory))
    for _ in range(30):
        time.sleep(1)
        snapshot(allowing, user, waiting.pid, second)
        if check_segments(second) > start + 1:
            break
        second = second.parent / f"{second.name}x"
    found = check_waits(user, second)
    check_own(second, own)
    assert found["want"]["unknown_ns"] > 0
    summary = end(proc)
    assert summary["kernel"]["dropped"] > 0 and summary["kernel"]["lost"] == 0
    assert check_segments(directory) >= check_segments(second)
    check_waits(user, directory)
    check_own(directory, own)
    assert count_events(directory) == summary["kernel"]["events"]
    assert summary["kernel"]["bytes"] <= 600 << 10
    memory.assert_untouched(waiting.pid)
    until_no_instance(allowing)


@pytest.mark.parametrize(
    "words", [("--overwrite", "--memory", "512K"), ("--rotate", "3", "--max-size", "4M")]
)
def test_of_several(allowing, user, several, words):
    """This process records them; one that reads for it tells what their threads do."""
    directory = user.dir() / "trace"
    env = {"IPROBE_SOCKET": str(allowing.socket)}
    proc = begin(env, user, several, directory, *words)
    if "--rotate" in words:
        wait_for(lambda: newest(directory) >= 4)
    else:
        time.sleep(10)
        assert segments(directory) == {}
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["kernel"]["dropped"] > 0 and summary["kernel"]["lost"] == 0, summary
    assert check_segments(directory) > 0
    check_waits_of_each(user, directory, several)
    check_own(directory, set().union(*(threads_of(target.pid) for target in several)))
    assert count_events(directory) == summary["kernel"]["events"]
    until_no_instance(allowing)


def test_strangers_stay_out(allowing, user, other, targets, calling):
    """Neither ids nor names of others in a snapshot, whatever they do meanwhile."""
    targets.start(other, [calling, "strange"], preload=False)
    target = targets.start(user, [calling, "own"], preload=False)
    directory, taken = (user.dir() / name for name in ("trace", "taken"))
    proc = user.start_iprobe(
        *("attach", target.pid, "-q", "--kernel", "--overwrite", "--memory", "512K"),
        *("-o", directory),
        env=allowing.env,
        cwd=directory.parent,
    )
    wait_until_live(target.pid)
    for i in range(30):
        time.sleep(1)
        snapshot(allowing, user, target.pid, taken.parent / f"taken{i}")
        if check_segments(taken.parent / f"taken{i}") > 1:
            break
    check_nobody_else(taken.parent / f"taken{i}", threads_of(target.pid))
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    check_nobody_else(directory, threads_of(target.pid))

