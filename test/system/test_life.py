# SPDX-License-Identifier: Apache-2.0
"""A session lives through what its target does: forks, execs, loads and unloads libraries, makes
threads.
"""

import json
import os
import re
import signal
import time

import pytest

from iptest import memory
from iptest.actor import last_words

PLACEMENTS = ["fentry", "instrument"]


@pytest.fixture
def storm(programs):
    return programs.simple("storm", placement="fentry")


def assert_without_ring_memory(pid):
    assert not [m for m in memory.mappings(pid) if "memfd:iprobe" in m.path]


def own_counts(text):
    """(calls, processes) of all processes together."""
    return tuple(map(int, re.search(r"^calls (\d+) processes (\d+)$", text, re.M).groups()))


def dumped(actor, directory):
    done = actor.iprobe("dump", "--json", directory)
    assert done.returncode == 0, repr(done)
    return [json.loads(line) for line in done.stdout.splitlines()]


def reported_calls(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return sum(f["calls"] for f in json.loads(done.stdout)["functions"])


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_all_processes_of_a_storm_are_recorded(me, programs, placement):
    """Each way of making a process, from several threads at once: not one call is missing, not
    one is there twice.
    """
    directory = me.dir() / "trace"
    done = me.iprobe(
        "run",
        "--follow-fork",
        "--json",
        "-o",
        directory,
        "--",
        programs.simple("storm", placement=placement),
        "-n",
        "40",
    )
    assert done.returncode == 0, repr(done)
    calls, processes = own_counts(done.stdout)
    summary = done.summary()
    assert summary["events"] + summary["lost"] == 2 * calls
    assert summary["processes"] == processes
    assert summary["lost"] == 0
    assert reported_calls(me, directory) == calls
    assert len({event["pid"] for event in dumped(me, directory)}) == processes
    info = json.loads(me.iprobe("info", "--json", directory).stdout)
    assert len(info["processes"]) == processes
    assert sum(p["events"] for p in info["processes"]) == 2 * calls


def test_attach_follows_forks(actor, storm, targets):
    target = targets.start(actor, [storm, "-w", "-n", "24"])
    directory = actor.dir() / "trace"
    session = actor.start_iprobe("attach", target.pid, "--follow-fork", "--json", "-o", directory)
    memory.wait_until_live(target.pid, session)
    target.say()
    calls, processes = own_counts(target.proc.stdout.readline())
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["events"] + summary["lost"] == 2 * calls
    assert summary["processes"] == processes
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_without_the_option_only_the_target_is_recorded(actor, storm):
    directory = actor.dir() / "trace"
    done = actor.iprobe("run", "--json", "-o", directory, "--", storm, "-n", "16", "-t", "1")
    assert done.returncode == 0, repr(done)
    # 16 rounds of 20 and 5 at the end, of three calls each
    assert done.summary()["events"] == 2 * 3 * (16 * 20 + 5)
    assert done.summary()["processes"] == 1


@pytest.fixture
def flag(actor):
    path = actor.dir() / "go-on"
    path.touch()
    path.chmod(0o644)
    yield path
    path.unlink(missing_ok=True)


def child_of(pid):
    """The child left behind; None: not yet."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        found = f.read().split()
    return int(found[0]) if found else None


def test_the_session_goes_on_for_a_child(actor, storm, flag):
    """The first process has ended; its child is recorded until it ends, too."""
    directory = actor.dir() / "trace"
    session = actor.start_iprobe(
        "run",
        "--follow-fork",
        "--json",
        "-o",
        directory,
        "--",
        storm,
        "-x",
        "-n",
        "1",
        "-t",
        "1",
        env={"STORM_FLAG": str(flag)},
    )
    line = session.stdout.readline()
    calls, _ = own_counts(line)
    time.sleep(0.5)
    assert session.poll() is None, "the session ended with the first process"
    flag.unlink()
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] > 2 * calls + 2 * 3 * 50
    assert done.summary()["processes"] == 3


def test_ctrl_c_puts_all_processes_back(me, storm, flag, targets):
    target = targets.start(
        me, [storm, "-w", "-x", "-n", "1", "-t", "1"], env={"STORM_FLAG": str(flag)}
    )
    session = me.start_iprobe(
        "attach", target.pid, "--follow-fork", "--json", "-o", me.dir() / "trace"
    )
    memory.wait_until_live(target.pid, session)
    target.say()
    own_counts(target.proc.stdout.readline())
    child = memory.wait_for("no child", lambda: child_of(target.pid))
    assert memory.text_differences(child) != []
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    memory.assert_untouched(child)
    assert_without_ring_memory(child)
    target.say()
    target.finish()


def test_a_silent_child_is_put_back_soon(actor, programs, targets, flag):
    """Not at the session's end only: as soon as it is clear that it stays."""
    program = programs.simple("storm", placement="fentry")
    target = targets.start(
        actor, [program, "-w", "-x", "-n", "1", "-t", "1"], env={"STORM_FLAG": str(flag)}
    )
    session = actor.start_iprobe("attach", target.pid, "--json", "-o", actor.dir() / "trace")
    memory.wait_until_live(target.pid, session)
    target.say()
    own_counts(target.proc.stdout.readline())
    child = memory.wait_for("no child", lambda: child_of(target.pid))
    memory.wait_for("the child keeps its live sites", lambda: memory.text_differences(child) == [])
    assert session.poll() is None
    assert memory.text_differences(target.pid) != []
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert done.summary()["children_restored"] >= 1
    memory.assert_untouched(target.pid)
    memory.assert_untouched(child)
    target.say()
    target.finish()


@pytest.mark.parametrize("by", ["detach", "attach"])
def test_iprobe_is_killed_while_it_follows(me, storm, flag, targets, by):
    """The children record into nothing then; the next detach, or session, of the first process
    puts them back too.
    """
    target = targets.start(
        me, [storm, "-w", "-x", "-n", "1", "-t", "1"], env={"STORM_FLAG": str(flag)}
    )
    session = me.start_iprobe("attach", target.pid, "--follow-fork", "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, session)
    target.say()
    own_counts(target.proc.stdout.readline())
    child = memory.wait_for("no child", lambda: child_of(target.pid))
    session.kill()
    session.wait()
    assert memory.text_differences(child) != [] and memory.text_differences(target.pid) != []
    if by == "detach":
        done = me.iprobe("detach", target.pid)
    else:
        done = me.iprobe(
            "attach", target.pid, "--duration", "50ms", "--json", "-o", me.dir() / "trace"
        )
    assert done.returncode == 0, repr(done)
    assert f"pid {child}, forked from" in done.stderr
    memory.assert_untouched(target.pid)
    memory.assert_untouched(child)
    assert_without_ring_memory(child)
    target.say()
    target.finish()


def test_detach_of_a_followed_child(me, storm, flag, targets):
    """iprobe was killed: each child can be put back by itself."""
    target = targets.start(
        me, [storm, "-w", "-x", "-n", "1", "-t", "1"], env={"STORM_FLAG": str(flag)}
    )
    session = me.start_iprobe("attach", target.pid, "--follow-fork", "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, session)
    target.say()
    own_counts(target.proc.stdout.readline())
    child = memory.wait_for("no child", lambda: child_of(target.pid))
    session.kill()
    session.wait()
    done = me.iprobe("detach", child)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(child)
    assert memory.text_differences(target.pid) != []
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()


def test_a_child_in_its_parents_memory_is_left_alone(me, programs, targets):
    """vfork: what looks like a child's live sites are the target's."""
    target = targets.steady(me, programs.simple("steady"))
    session = me.start_iprobe(
        "attach", target.pid, "-f", "step_*", "--json", "-o", me.dir() / "trace"
    )
    memory.wait_until_live(target.pid, session)
    target.say("v")
    assert target.proc.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    assert (
        len(memory.text_differences(target.pid)) == 128
    ), "the sites of 64 functions are not live any more"
    time.sleep(1.6)
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.finish()


def ask(target, line):
    target.say(line)
    return target.proc.stdout.readline().strip()


def live_sites(pid, name):
    """Of a library. A byte of a displacement may be what the NOP has there: what differs counts
    where it begins as an idle site does.
    """
    return sum(
        name in path and idle[0] in (0x0F, 0x66, 0xC3)
        for path, _, _, idle in memory.text_differences(pid)
    )


def wait_for_library(pid, name, sites):
    memory.wait_for(f"{name} does not go live", lambda: live_sites(pid, name) == sites, timeout=40)


def calls_by_module(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return {(f["module"], f["function"]): f["calls"] for f in json.loads(done.stdout)["functions"]}


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_libraries_that_come_and_go(actor, programs, targets, placement):
    """What is called once a library is live is recorded to the last call: at the place of
    another one, and elsewhere.
    """
    program, one, two = programs.plugins(placement)
    target = targets.start(actor, [program, one, two])
    directory = actor.dir() / "trace"
    session = actor.start_iprobe("attach", target.pid, "--json", "-q", "-o", directory)
    memory.wait_until_live(target.pid, session)
    places = []
    for version, count, sites in ((1, 100, 4), (2, 50, 6), (1, 7, 4)):
        assert ask(target, f"load {version}") == "loaded"
        wait_for_library(target.pid, f"libplug{version}.so", sites)
        assert ask(target, f"call {version} {count}") == "called"
        places.append(ask(target, f"place {version}"))
        assert ask(target, f"close {version}") == "closed"
        if version == 2:
            assert ask(target, "push") == "pushed"
    assert ask(target, "load 2") == "loaded"
    wait_for_library(target.pid, "libplug2.so", 6)
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    assert done.summary()["lost"] == 0
    calls = calls_by_module(actor, directory)
    assert calls["libplug1.so", "plug"] == 107 and calls["libplug1.so", "plug_inner"] == 214
    assert calls["libplug2.so", "plug"] == 50 and calls["libplug2.so", "plug_extra"] == 50
    info = json.loads(actor.iprobe("info", "--json", directory).stdout)
    assert [s["kind"] for s in info["stops"]].count("dlopen") == 4
    assert [x["event"] for x in info["libraries"]] == ["load", "unload"] * 3 + ["load"]
    assert ask(target, "call 2 10") == "called"
    target.finish()
    assert (
        places[0] == places[1]
    ), "the case is not what it is meant to be: one place, two libraries"


def test_a_selection_holds_for_libraries_that_come(me, programs, targets):
    program, one, two = programs.plugins()
    target = targets.start(me, [program, one, two])
    directory = me.dir() / "trace"
    session = me.start_iprobe(
        "attach", target.pid, "-f", "own,plug_inner", "--json", "-q", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    assert ask(target, "load 1") == "loaded"
    wait_for_library(target.pid, "libplug1.so", 2)
    assert ask(target, "call 1 30") == "called"
    session.send_signal(signal.SIGINT)
    assert last_words(session).returncode == 0
    assert calls_by_module(me, directory) == {("libplug1.so", "plug_inner"): 60}
    memory.assert_untouched(target.pid)
    target.finish()


def start_storm(actor, programs, targets, ms, *options):
    target = targets.start(actor, programs.plugins())
    session = actor.start_iprobe(
        "attach", target.pid, "--json", "-q", *options, "-o", actor.dir() / "trace"
    )
    memory.wait_until_live(target.pid, session)
    target.say(f"storm {ms}")
    return target, session


def test_loading_and_unloading_under_load(actor, programs, targets):
    """Two versions in turn, hundreds of times, most of them gone before they can go live: every
    result is right.
    """
    target, session = start_storm(actor, programs, targets, 1500)
    assert target.proc.stdout.readline().startswith("loads ")
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert done.stderr == ""
    assert len(done.stops()) > 2, "no library went live"
    memory.assert_untouched(target.pid)
    assert ask(target, "load 1") == "loaded" and ask(target, "call 1 10") == "called"
    memory.assert_untouched(target.pid)
    target.finish()


@pytest.mark.parametrize("end", ["Ctrl-C", "target killed", "iprobe killed"])
def test_an_end_amid_loading(me, programs, targets, end):
    target, session = start_storm(me, programs, targets, 1200)
    time.sleep(0.4)
    if end == "target killed":
        target.proc.kill()
    elif end == "iprobe killed":
        session.kill()
    else:
        session.send_signal(signal.SIGINT)
    done = last_words(session)
    if end == "iprobe killed":
        done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    if end == "target killed":
        return
    assert target.proc.stdout.readline().startswith("loads ")
    memory.assert_untouched(target.pid)
    for version in (1, 2):
        assert (
            ask(target, f"load {version}") == "loaded"
            and ask(target, f"call {version} 10") == "called"
        )
    memory.assert_untouched(target.pid)
    target.finish()


def attach_family(actor, target, directory, *options):
    session = actor.start_iprobe(
        "attach", target.pid, "--follow-fork", "--json", "-q", *options, "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    return session


def load_and_call(target, pid, version, count):
    """A library is loaded, goes live in the process, and is called: what is recorded then is all
    of it.
    """
    assert ask(target, f"load {version}") == "loaded"
    wait_for_library(pid, f"libplug{version}.so", 4 if version == 1 else 6)
    assert ask(target, f"call {version} {count}") == "called"


def calls_by_process(actor, directory):
    counts = {}
    for event in dumped(actor, directory):
        if event["event"] == "entry":
            key = event["pid"], event["module"], event["function"]
            counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_followed_children_load_libraries(actor, programs, targets, placement):
    """What a child loads after the fork goes live in it, in a stop of its own: one after the
    other at the same place, and elsewhere.
    """
    target = targets.start(actor, programs.plugins(placement))
    directory = actor.dir() / "trace"
    session = attach_family(actor, target, directory)
    child = int(ask(target, "fork"))
    for version, count in ((1, 100), (2, 50), (1, 7)):
        load_and_call(target, child, version, count)
        assert ask(target, f"close {version}") == "closed"
        if version == 2:
            assert ask(target, "push") == "pushed"
    load_and_call(target, child, 2, 5)
    assert all("libplug" not in path for path, *_ in memory.text_differences(target.pid))
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert done.summary()["lost"] == 0
    memory.assert_untouched(child)
    memory.assert_untouched(target.pid)
    calls = calls_by_process(actor, directory)
    assert (
        calls[child, "libplug1.so", "plug"] == 107
        and calls[child, "libplug1.so", "plug_inner"] == 214
    )
    assert (
        calls[child, "libplug2.so", "plug"] == 55
        and calls[child, "libplug2.so", "plug_extra"] == 55
    )
    assert {pid for pid, module, _ in calls if module.startswith("libplug")} == {child}
    info = json.loads(actor.iprobe("info", "--json", directory).stdout)
    assert [s["kind"] for s in info["stops"]].count("dlopen") == 4
    assert ask(target, "call 2 10") == "called"
    assert ask(target, "leave") == "back"
    target.finish()


def test_a_family_loads_one_library_at_several_places(me, programs, targets):
    """Parent, child and grandchild have it at once, each elsewhere, and each goes on being
    recorded.
    """
    target = targets.start(me, programs.plugins())
    directory = me.dir() / "trace"
    session = attach_family(me, target, directory)
    pids, places = [target.pid], []
    for _ in range(2):
        pids.append(int(ask(target, "fork")))
        assert ask(target, "push") == "pushed"
        load_and_call(target, pids[-1], 1, 10)
        places.append(ask(target, "place 1"))
        assert ask(target, "close 1") == "closed"
    # the first child has it again while the second has gone; then the parent, too
    load_and_call(target, pids[2], 1, 20)
    assert ask(target, "leave") == "back"
    load_and_call(target, pids[1], 1, 30)
    assert (
        ask(target, "fork")
        and ask(target, "close 1") == "closed"
        and ask(target, "push") == "pushed"
    )
    load_and_call(target, child_of(pids[1]), 1, 40)
    pids.append(child_of(pids[1]))
    assert live_sites(pids[1], "libplug1.so") == 4
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    for pid in pids[:2] + pids[3:]:
        memory.assert_untouched(pid)
    calls = calls_by_process(me, directory)
    assert [calls[pid, "libplug1.so", "plug"] for pid in pids[1:]] == [40, 30, 40]
    assert places[0] != places[1], "the case is not what it is meant to be: two places"
    assert ask(target, "leave") == "back"
    assert ask(target, "leave") == "back"
    assert ask(target, "load 1") == "loaded" and ask(target, "call 1 10") == "called"
    target.finish()


def test_what_is_added_reaches_followed_children(me, programs, targets):
    """A second attach adds functions of a library which the child, that lives already, has at
    the same place as its parent.
    """
    target = targets.start(me, programs.plugins())
    directory = me.dir() / "trace"
    session = attach_family(me, target, directory, "-f", "own")
    assert ask(target, "load 1") == "loaded"
    child = int(ask(target, "fork"))
    assert ask(target, "call 1 10") == "called"
    done = me.iprobe("attach", target.pid, "-f", "plug_inner", "--json")
    assert done.returncode == 0, repr(done)
    for pid in (target.pid, child):
        wait_for_library(pid, "libplug1.so", 2)
    assert ask(target, "call 1 30") == "called"
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    calls = calls_by_process(me, directory)
    assert {key: n for key, n in calls.items() if key[1] == "libplug1.so"} == {
        (child, "libplug1.so", "plug_inner"): 60
    }
    memory.assert_untouched(child)
    memory.assert_untouched(target.pid)
    assert ask(target, "leave") == "back"
    target.finish()


@pytest.mark.parametrize("end", ["Ctrl-C", "iprobe killed", "child killed"])
def test_followed_children_load_and_unload_under_load(me, programs, targets, end):
    """Hundreds of times, most of them gone before they can go live: every result is right, every
    byte is back.
    """
    target = targets.start(me, programs.plugins())
    session = attach_family(me, target, me.dir() / "trace")
    child = int(ask(target, "fork"))
    target.say("storm 1200")
    if end == "child killed":
        time.sleep(0.4)
        os.kill(child, signal.SIGKILL)
        session.send_signal(signal.SIGINT)
        done = last_words(session)
        assert done.returncode == 0, repr(done)
        assert target.proc.stdout.readline() == "back\n"
        memory.assert_untouched(target.pid)
        target.finish()
        return
    if end == "iprobe killed":
        time.sleep(0.4)
        session.kill()
        session.wait()
        done = me.iprobe("detach", target.pid)
    else:
        assert target.proc.stdout.readline().startswith("loads ")
        session.send_signal(signal.SIGINT)
        done = last_words(session)
        assert len(done.stops()) > 2, "no library of the child went live"
        assert "libraries" not in done.stderr, repr(done)
    assert done.returncode == 0, repr(done)
    if end == "iprobe killed":
        assert target.proc.stdout.readline().startswith("loads ")
    memory.assert_untouched(child)
    memory.assert_untouched(target.pid)
    for version in (1, 2):
        assert (
            ask(target, f"load {version}") == "loaded"
            and ask(target, f"call {version} 10") == "called"
        )
    memory.assert_untouched(child)
    assert ask(target, "leave") == "back"
    target.finish()


def session_ends_by_exec(actor, target, ask):
    directory = actor.dir() / "trace"
    session = actor.start_iprobe(
        "attach", target.pid, "-f", "step*", "--json", "-q", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    time.sleep(0.1)
    ask()
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    assert done.summary()["end"] == "target exec'ed"
    assert done.summary()["events"] > 0
    assert reported_calls(actor, directory) > 0
    assert target.proc.stdout.readline() == "ready\n"


def test_exec_ends_the_session(actor, programs, targets):
    """The trace is there, and nothing of ours is in the new program."""
    target = targets.steady(actor, programs.simple("steady"))
    target.wait_for_progress()
    session_ends_by_exec(actor, target, lambda: target.say("e"))
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


def test_exec_by_another_thread_ends_the_session(actor, programs, targets):
    target = targets.start(actor, [programs.simple("exec_next")])

    def ask_it():
        target.proc.stdin.write("x")
        target.proc.stdin.flush()

    session_ends_by_exec(actor, target, ask_it)
    memory.assert_untouched(target.pid)
    target.finish()


def wait_until_patched(actor, pid, session, sites):
    """Not as soon as any byte is another: the runtime's injection changes some for a moment."""

    def patched():
        assert session.poll() is None, f"ended early: {session.communicate()}"
        done = actor.iprobe("status", "--json", pid)
        return done.returncode == 0 and json.loads(done.stdout)["patched"] == sites

    memory.wait_for(f"{pid} does not go live", patched, timeout=40)


@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
def test_exec_is_followed(actor, programs, targets, preload):
    """Twice, by a thread that is not the first: one trace, in which each image is recorded, and
    the gaps are told.
    """
    target = targets.start(actor, [programs.simple("exec_next")], preload=preload)
    directory = actor.dir() / "trace"
    session = actor.start_iprobe(
        "attach", target.pid, "--follow-exec", "-f", "step*", "--json", "-q", "-o", directory
    )
    wait_until_patched(actor, target.pid, session, 2)
    for _ in range(2):
        time.sleep(0.1)
        target.proc.stdin.write("x")
        target.proc.stdin.flush()
        assert target.proc.stdout.readline() == "ready\n"
        wait_until_patched(actor, target.pid, session, 2)
    time.sleep(0.2)
    session.send_signal(signal.SIGINT)
    done = last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    summary = done.summary()
    assert summary["execs"] == 2 and summary["exec_gap_us"] > 0
    assert done.stderr.count("recorded again, after at most") == 2
    info = json.loads(actor.iprobe("info", "--json", directory).stdout)
    assert len(info["execs"]) == 2 and all(e["gap_us"] > 0 for e in info["execs"])
    assert len({m["load_bias"] for m in info["modules"]}) == 3
    # calls of each image: before, between, and behind the execs
    times = sorted(event["ts"] for event in dumped(actor, directory))
    assert len(times) == summary["events"] > 0
    borders = [0] + [e["ts"] for e in info["execs"]] + [times[-1] + 1]
    for first, last in zip(borders, borders[1:]):
        assert any(first <= t < last for t in times), (first, last)
    assert reported_calls(actor, directory) > 0
    target.finish()


def test_every_new_thread_is_recorded(me, programs, targets):
    """Threads are created and end all the while, before, in and after the stop: each new one is
    there with all of its calls.
    """
    target = targets.steady(me, programs.simple("steady"), "-c")
    directory = me.dir() / "trace"
    old = {int(tid) for tid in os.listdir(f"/proc/{target.pid}/task")}
    done = me.iprobe(
        "attach",
        target.pid,
        "-f",
        "step_10",
        "--duration",
        "400ms",
        "--json",
        "-q",
        "-o",
        directory,
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["lost"] == 0
    counts = {}
    for event in dumped(me, directory):
        if event["tid"] not in old:
            counts[event["tid"]] = counts.get(event["tid"], 0) + 1
    assert len(counts) > 12
    # 20 calls each; three live at a time, those at the beginning and the end of the session are cut
    assert max(counts.values()) == 40
    assert sum(n != 40 for n in counts.values()) <= 6
    memory.assert_untouched(target.pid)
    target.finish()
