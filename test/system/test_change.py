# SPDX-License-Identifier: Apache-2.0
"""
A second `iprobe attach` changes the session that a target has: adds, takes away, adds again,
while the program counts its own calls. Several at once, killed ones, strangers, and clients that
only want to be in the way.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest

from iptest import ctf, memory
from iptest.actor import end, last_words, one_line, stops_of
from test_counting import own_counts

MAGIC = 0x3674736575716572  # as in session/control/control_socket.h


@pytest.fixture
def steady(actor, targets, programs):
    return targets.steady(actor, programs.simple("steady"), "-t", "2")


def change(actor, target, selection, *options):
    """The JSON of a change that is done."""
    done = actor.iprobe("attach", target.pid, "-f", selection, "--json", *options)
    assert done.returncode == 0, repr(done)
    return done.summary()


def live_sites(actor, target):
    done = actor.iprobe("status", "--json", target.pid)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["patched"]


def start_session(actor, target, *options):
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", target.pid, "--json", "-o", directory, *options)
    memory.wait_until_live(target.pid, proc)
    return proc, directory


def stop(proc):
    """Ends a session as Ctrl-C does; its summary."""
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    return done.summary()


def report_of(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f for f in json.loads(done.stdout)["functions"]}


def read_counts(target):
    """What `count -w` prints behind its work."""
    lines = []
    while not lines or not lines[-1].startswith("calls"):
        lines.append(target.proc.stdout.readline())
        assert lines[-1], lines
    return own_counts("".join(lines))[0]


def wait_for_calls(target):
    """Some thread has been given the CPU some times more, for a millisecond's calls each: on a
    busy machine that may take a while.
    """

    def turns():
        found = {}
        for task in pathlib.Path(f"/proc/{target.pid}/task").iterdir():
            found[task.name] = int((task / "schedstat").read_text(encoding="utf-8").split()[2])
        return found

    before = turns()
    memory.wait_for(
        "the program makes no calls",
        lambda: any(n >= before[tid] + 12 for tid, n in turns().items()),
        60,
    )


def check_frames(actor, directory, kept):
    """dump closes each call of functions that were always live, by its own exit."""
    done = actor.iprobe("dump", "--json", directory)
    assert done.returncode == 0, repr(done)
    depth = {}
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event["function"] not in kept:
            continue
        assert "orphan" not in event, event
        depth[event["tid"]] = depth.get(event["tid"], 0) + (1 if event["event"] == "entry" else -1)
        assert depth[event["tid"]] >= 0, event
    assert set(depth.values()) == {0}


CHANGES = [
    "mix,half",
    "!half",
    "chain_*",
    "!chain_inner",
    "half",
    "!mix,!half",
    "*",
    "!half,!chain_middle",
    "!mix",
    "mix,chain_middle",
]


def test_what_stays_misses_nothing(actor, targets, programs):
    """Ten changes under load: of functions that were live all the time each call is there, and
    their frames are whole.
    """
    target = targets.start(actor, [programs.simple("count"), "-t", 3, "-r", 20000, "-s", 300, "-w"])
    session, directory = start_session(actor, target, "-f", "leaf,count_down,chain_outer")
    target.say()
    memory.wait_for(
        "its threads do not begin", lambda: len(os.listdir(f"/proc/{target.pid}/task")) == 3
    )
    for selection in CHANGES:
        wait_for_calls(target)
        done = change(actor, target, selection)
        assert (
            done["changed"]
            and len(done["stop_us"]) - done["failed_stops"] == 1
            and done["stop_us"][0] > 0
        ), (selection, done)
        assert done["functions_removed" if "!" in selection else "functions_added"] > 0, (
            selection,
            done,
        )
        assert done["functions_added" if "!" in selection else "functions_removed"] == 0, (
            selection,
            done,
        )
    wait_for_calls(target)
    os.kill(target.pid, signal.SIGUSR1)
    calls = read_counts(target)
    summary = stop(session)
    target.finish()
    assert summary["lost"] == 0 and len(stops_of(summary)) == len(CHANGES) + 2
    report = report_of(actor, directory)
    seen, _ = ctf.read_events(directory)
    for function in ("count_down", "chain_outer", "leaf"):
        assert report[function]["calls"] == calls[function]
        assert (
            seen["func_entry", "count", function]
            == seen["func_exit", "count", function]
            == calls[function]
        )
    for function in ("half", "chain_middle", "mix", "chain_inner"):
        assert 0 < report[function]["calls"] < calls[function]
    assert sum(seen.values()) == summary["events"]
    assert summary["functions"] == len({function for _, _, function in seen})
    done = actor.iprobe("info", "--json", directory)
    # on a busy machine some are in vain, and made once more
    stops = [stop for stop in json.loads(done.stdout)["stops"] if not stop.get("failed")]
    assert [stop["kind"] for stop in stops] == [
        "attach",
        *["change"] * len(CHANGES),
        "detach",
    ]
    check_frames(actor, directory, {"leaf", "count_down", "chain_outer"})


def test_nothing_left_and_silent(actor, steady):
    """The last function goes: the session lives on, and takes others."""
    session, directory = start_session(actor, steady, "-f", "step_1*")
    steady.wait_for_progress()
    done = change(actor, steady, "!*")
    assert done["functions"] == done["sites"] == 0 and done["functions_removed"] == 8
    memory.wait_for("sites are live", lambda: not memory.text_differences(steady.pid))
    again = change(actor, steady, "!step_1*")
    assert not again["changed"] and again["stop_us"] == []
    assert live_sites(actor, steady) == 0 and session.poll() is None
    done = change(actor, steady, "step_2*")
    assert done["functions_added"] == done["functions"] == 8 and done["dir"] == str(directory)
    assert live_sites(actor, steady) == done["sites"] > 0
    steady.wait_for_progress()
    summary = stop(session)
    assert summary["functions"] == 16
    report = report_of(actor, directory)
    assert report["step_11"]["calls"] > 0 and report["step_22"]["calls"] > 0
    memory.assert_untouched(steady.pid)


def test_what_cannot_be(actor, steady):
    """No match is an error as ever; options that make a session are refused; --dry-run tells and
    changes nothing.
    """
    session, _ = start_session(actor, steady, "-f", "step_11")
    assert "step_1" in one_line(actor.iprobe("attach", steady.pid, "-f", "step_1l"))
    one_line(actor.iprobe("attach", steady.pid, "-f", "!nothing_like_it"))
    for options in (["-o", "x"], ["--duration", "1s"], ["--memory", "1M"], ["--max-size", "1M"]):
        done = actor.iprobe("attach", steady.pid, "-f", "step_22", *options)
        assert (
            done.returncode == 1 and options[0] in done.stderr and done.stderr.count("\n") == 1
        ), repr(done)
    before = memory.text_differences(steady.pid)
    dry = change(actor, steady, "step_2*", "--dry-run")
    assert dry["functions_added"] == 8 and not dry["changed"]
    assert memory.text_differences(steady.pid) == before
    done = actor.iprobe("attach", steady.pid, "-f", "step_22,nothing_like_it")
    assert done.returncode == 0 and "nothing_like_it" in done.stderr, repr(done)
    stop(session)
    memory.assert_untouched(steady.pid)


def test_several_at_once(actor, steady):
    """They are served one after another; each gets what it asked for."""
    session, _ = start_session(actor, steady, "-f", "step_10")
    clients = [
        actor.start_iprobe("attach", steady.pid, "-f", f"step_{n}*", "--json") for n in range(2, 9)
    ]
    for client in clients:
        done = last_words(client)
        assert done.returncode == 0 and done.summary()["functions_added"] == 8, repr(done)
    assert change(actor, steady, "step_10")["functions"] == 57
    assert stop(session)["functions"] == 57
    memory.assert_untouched(steady.pid)


def test_killed_while_asking(actor, steady):
    """A client that dies at any moment: the session goes on, and serves the next one."""
    session, _ = start_session(actor, steady, "-f", "step_10")
    for i in range(8):
        client = actor.start_iprobe("attach", steady.pid, "-f", "step_2*" if i % 2 else "!step_2*")
        time.sleep(random.uniform(0, 0.06))
        end(client)
    change(actor, steady, "!step_2*")
    assert change(actor, steady, "step_10")["functions"] == 1
    steady.wait_for_progress()
    stop(session)
    memory.assert_untouched(steady.pid)


def test_session_killed_while_changing(actor, steady):
    """What it left is restored as ever; who asked is told, or finds the session free and begins
    one.
    """
    for _ in range(6):
        session, directory = start_session(actor, steady, "-f", "step_1*")
        client = actor.start_iprobe("attach", steady.pid, "-f", "*")
        time.sleep(random.uniform(0.01, 0.08))
        end(session)
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.wait(0.5)
        if client.poll() is None:
            client.send_signal(signal.SIGINT)
        done = last_words(client)
        assert done.returncode in (0, 1), repr(done)
        done = actor.iprobe("detach", steady.pid)
        assert done.returncode == 0, repr(done)
        memory.assert_untouched(steady.pid)
        steady.wait_for_progress()
        shutil.rmtree(directory, ignore_errors=True)


def test_only_its_user_and_root(root, user, targets, programs):
    """root may change a user's session; the user, who may trace the target, not root's."""
    target = targets.steady(user, programs.simple("steady"), "-t", "2")
    session, _ = start_session(user, target, "-f", "step_11")
    assert change(root, target, "step_22")["functions"] == 2
    stop(session)
    session, _ = start_session(root, target, "-f", "step_11")
    assert "another user" in one_line(user.iprobe("attach", target.pid, "-f", "step_22"))
    assert change(root, target, "step_11")["functions"] == 1
    stop(session)
    memory.assert_untouched(target.pid)


def test_from_another_network(root, targets, programs):
    target = targets.steady(root, programs.simple("steady"), "-t", "2")
    session, _ = start_session(root, target, "-f", "step_11")
    done = root.run(["unshare", "-n", root.iprobe_path, "attach", target.pid, "-f", "step_22"])
    if "unshare:" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert "network namespace" in one_line(done)
    stop(session)


def test_a_program_that_iprobe_launched(actor, programs):
    """`iprobe run` listens as well, and its summary has the stops."""
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe(
        "run",
        "--json",
        "-f",
        "leaf",
        "-o",
        directory,
        "--",
        programs.simple("count"),
        "-t",
        "2",
        "-n",
        "30000",
        "-w",
    )
    assert proc.stdout.readline() == "ready\n"
    pid = next(int(p) for p in os.listdir("/proc") if p.isdigit() and is_count_of(p, proc.pid))
    done = actor.iprobe("attach", pid, "-f", "mix", "--json")
    assert done.returncode == 0 and done.summary()["functions_added"] == 1, repr(done)
    done = last_words_of(proc, "\n\n")
    calls, _ = own_counts(done.stdout)
    assert len(done.summary()["stop_us"]) >= 2
    report = report_of(actor, directory)
    assert {f: report[f]["calls"] for f in report} == {"leaf": calls["leaf"], "mix": calls["mix"]}


def last_words_of(proc, text):
    out, err = proc.communicate(text, timeout=60)
    assert proc.returncode == 0, err

    class Done:
        stdout = out

        def summary(self):
            return json.loads(out.rstrip().rsplit("\n", 1)[-1])

    return Done()


def is_count_of(pid, parent):
    """Whether the process is the program, and parent launched it (which has other children,
    too).
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            return (
                os.readlink(f"/proc/{pid}/exe").endswith("/count")
                and int(f.read().rpartition(")")[2].split()[1]) == parent
            )
    except OSError:
        return False


def session_address(pid):
    """The name of the control socket, as control_socket.c makes it."""
    with memory.ring_memory(pid) as file:
        st = os.fstat(file.fileno())
    return f"\0iprobe-session-{st.st_dev:x}-{st.st_ino:x}"


def connect(address):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(20)
    s.connect(address)
    return s


def request(selection=b"step_22", magic=MAGIC, flags=0, inner_pid=0, reserved=0, max_stop=50000000):
    fields = (magic, flags, inner_pid, 64, reserved, max_stop, 0, 0)
    return struct.pack("<QIIIIQQQ", *fields) + selection


def test_who_only_wants_to_be_in_the_way(me, targets, programs):
    """Bad requests are answered, silent clients closed, floods wait; not an event is lost, and a
    good request is served.
    """
    target = targets.start(me, [programs.simple("count"), "-t", 2, "-r", 20000, "-s", 300, "-w"])
    session, directory = start_session(me, target, "-f", "leaf")
    address = session_address(target.pid)
    target.say()
    memory.wait_for(
        "its threads do not begin", lambda: len(os.listdir(f"/proc/{target.pid}/task")) == 2
    )
    bad = [
        b"x",
        b"\0" * 56,
        request(magic=1),
        request(flags=0x80),
        request(reserved=1),
        request(b"@/etc/passwd"),
        request(b"mix\0half"),
        request(max_stop=0),
        request(b""),
        request(b"mix"),
        request(os.urandom(60000)),
        request(b"mix," * 24000, inner_pid=target.pid),
        request(b"((((", inner_pid=target.pid),
    ]
    for packet in bad:
        with connect(address) as s:
            s.send(packet)
            reply = s.recv(1 << 17)
            assert struct.unpack_from("<QI", reply) == (MAGIC, 1), packet[:60]
    with connect(address) as s, contextlib.suppress(OSError):
        s.send(request(b"x" * 180000, inner_pid=target.pid))
        assert struct.unpack_from("<QI", s.recv(1 << 17)) == (MAGIC, 1)
    silent = []
    for _ in range(24):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            s.connect(address)
        silent.append(s)
    for _ in range(10):
        with connect(address) as s:
            s.send(request())  # gone before the answer
    for s in silent[12:]:
        s.close()
    wait_for_calls(target)
    assert change(me, target, "mix")["functions_added"] == 1
    wait_for_calls(target)
    os.kill(target.pid, signal.SIGUSR1)
    calls = read_counts(target)
    summary = stop(session)
    for s in silent:
        s.close()
    target.finish()
    assert summary["lost"] == 0
    report = report_of(me, directory)
    assert report["leaf"]["calls"] == calls["leaf"] and 0 < report["mix"]["calls"] < calls["mix"]
