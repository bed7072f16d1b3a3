# SPDX-License-Identifier: Apache-2.0
"""Each hold of a thread is told, as a stop or as a look: strace counts them."""

import collections
import json
import re

import pytest

from iptest import actor as actors
from iptest import memory

from test_service import Server


def attach_counted(actor, *words):
    """What attach says of each process, and how often it seized a thread of it."""
    log, directory = actor.dir() / "strace", actor.dir() / "trace"
    done = actor.run(
        ["strace", "-ff", "-o", log, "--trace=ptrace", actor.iprobe_path, "attach", *words]
        + ["--duration", "100ms", "--json", "-o", directory]
    )
    assert done.returncode == 0, repr(done)
    calls = "".join(part.read_text() for part in log.parent.glob("strace.*"))
    seized = re.findall(r"ptrace\(PTRACE_SEIZE, (\d+).*= 0", calls)
    info = actor.iprobe("info", directory, "--json")
    return done, collections.Counter(map(int, seized)), json.loads(info.stdout)


@pytest.mark.parametrize("words", [[], ["--follow-fork"]], ids=["alone", "follow-fork"])
def test_of_one_process(me, programs, targets, words):
    server = Server(me, programs, targets)
    for first in (True, False):
        done, seized, info = attach_counted(me, server.pid, "-f", "prefork_tick", *words)
        told = done.summary()
        assert seized[server.pid] == len(told["stops"]) + told["looks"], repr(done)
        # the first attach asks the new runtime itself whether it may read the clock
        assert told["looks"] >= (2 if words else 0) + (not first), repr(done)
        assert told["looks_us"] >= told["looks_max_us"] and bool(told["looks"]) == (
            told["looks_max_us"] > 0
        )
        assert info["looks"] == told["looks"]
        assert info["looks_us"] == pytest.approx(told["looks_us"], abs=1)
        assert len(info["stops"]) == len(told["stops"])
    server.finish()


def test_of_a_service(me, programs, targets):
    """Of each process, and the sums; people are told, too."""
    server = Server(me, programs, targets)
    server.fork()
    done, seized, info = attach_counted(me, server.pid, "--children", "-f", "prefork_*")
    told = json.loads(done.stdout)
    assert {m["pid"] for m in told["members"]} == set(server.everybody())
    for m in told["members"]:
        assert seized[m["pid"]] == len(m["stops"]) + m["looks"], repr(done)
    for key in ("looks", "looks_us", "renewed_calls"):
        assert told[key] == pytest.approx(sum(m[key] for m in told["members"]), abs=1)
    assert told["stops"] + told["looks"] == sum(seized.values())
    assert info["looks"] == told["looks"] == sum(p["looks"] for p in info["processes"])
    directory = me.dir() / "trace"
    done = me.iprobe("attach", server.pid, "--children", "--duration", "10ms", "-o", directory)
    lines = re.findall(r" and (\d+) looks, together [0-9.]+ [mu]s; trace in", done.stderr)
    assert len(lines) == 3 and int(lines[2]) == int(lines[0]) + int(lines[1]), repr(done)
    shown = me.iprobe("info", directory).stdout
    assert re.search(rf"^looks +{lines[2]} at one thread for a moment, together ", shown, re.M)
    server.finish()


def test_a_call_that_begins_anew_counts_once(me, programs, targets):
    """However often it is broken off; and it is told by how much it may last longer."""
    target = targets.start(me, [programs.simple("waits"), "epoll_wait"])
    memory.wait_for("does not wait", lambda: "S" in memory.status_field(target.pid, "State"))
    done = me.iprobe(
        "attach", target.pid, "--follow-fork", "--duration", "10ms", "-o", me.dir() / "trace"
    )
    assert done.returncode == 0, repr(done)
    told = re.search(
        r"iprobe: (\d+) system calls? of the process may time out later by at most [0-9.]+ m?s "
        r"\(last: .*\): the limit began anew; what it waits for was not delayed\n",
        done.stderr,
    )
    # a machine that is busy may keep it from falling asleep again at once
    assert told and 1 <= int(told[1]) <= 3, repr(done)
    assert actors.last_words(target.proc).stdout == "good\n"


def test_a_dry_run_tells_of_all_holds(me, programs, targets):
    """At the first attach, which brings the runtime, and at a later one."""
    server = Server(me, programs, targets)
    server.fork()
    words = ["attach", server.pid, "--children", "-f", "prefork_*"]
    for first in (True, False):
        dry = {p["pid"]: p for p in json.loads(me.iprobe(*words, "--dry-run", "--json").stdout)}
        shown = me.iprobe(*words, "--dry-run").stdout
        done = me.iprobe(*words, "--duration", "50ms", "--json", "-o", me.dir() / "trace")
        members = json.loads(done.stdout)["members"]
        assert dry.keys() == {m["pid"] for m in members}
        for m in members:
            said, stops = dry[m["pid"]], actors.stops_of(m)
            assert len(stops) == said["holds"] + said["stops"] + said["end_stops"], repr(done)
            assert m["looks"] >= said["looks"] == (4 if first else 5), repr(done)
            assert said["holds"] == (2 if first else 0)
            holds = "2 holds of one thread at the first attach, " if first else ""
            assert (
                f"pid {m['pid']}: and {holds}{said['looks']} looks at one thread; 1 stop" in shown
            )
        lines = shown.splitlines()
        assert sum(line.startswith(" ") for line in lines) == 1, shown  # one module
        assert re.fullmatch(
            rf"together: 18 sites of 2 processes; 4 stops, half of them at the end, "
            rf"{4 if first else 0} holds of one thread, {8 if first else 10} looks; "
            r"nothing was changed",
            lines[-1],
        ), shown
    server.finish()
