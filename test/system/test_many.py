# SPDX-License-Identifier: Apache-2.0
"""
iprobed among a thousand processes that its rules are for: it finds them all, leaves alone those
that nothing fires for, and stays what it is: quick to answer, and small.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import last_words
from iptest.rules import Rules, report

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)

COUNT, OTHERS, PLACES = 1000, 150, 6
WAIT = 120  # seconds, on a machine that has other things to do

RULES = f"""
rules:
  every: {{match: {{exe: PROGRAM, cmdline: 'PROGRAM one'}}, when: request, do: {{trace: work}}, for: 1s, processes: {COUNT}}}
  some:
    match: {{exe: PROGRAM, cmdline: 'PROGRAM o*'}}
    when: {{latency: {{functions: work, p99: '> 10s'}}}}
    do: trace
    processes: {PLACES}
"""


class Crowd:
    """Processes of one program; by number, whether they are of those that it is about."""

    def __init__(self, targets, actor, program):
        self.target = targets.start(actor, [program], preload=False)
        self.program = program
        self.text = program.read_bytes()

    def more(self, count, word):
        self.target.say(f"more {count} {word}")
        pids = {int(pid) for pid in self.target.proc.stdout.readline().split()}
        if len(pids) < count:
            pytest.skip(f"no more than {len(pids)} of {count} processes can be started here")
        return pids

    def is_live(self, pid):
        """Of the program's own text alone: a thousand times the C library's would take too long."""
        for m in memory.mappings(pid):
            if "x" in m.perms and m.path == str(self.program):
                size = min(m.end - m.start, len(self.text) - m.offset)
                return (
                    memory.read_memory(pid, m.start, size) != self.text[m.offset : m.offset + size]
                )
        raise AssertionError(f"pid {pid} is no {self.program}")

    def live(self, pids):
        return {pid for pid in pids if self.is_live(pid)}


def wait_until_held_by_nobody(pids):
    def held():
        return [
            pid
            for pid in pids
            if memory.status_field(pid, "TracerPid") != "0"
            or memory.status_field(pid, "State")[0] not in "RSD"
        ]

    memory.wait_for("some are stopped or traced", lambda: not held(), WAIT, 0.1)


def assert_no_descriptors(pids, log):
    """Of ours. The memory that a process shared with an iprobe stays with the runtime in it: of
    those that had a session.
    """
    for pid in pids:
        more = [
            os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd") if int(n) > 2
        ]
        assert not more or (more == ["/memfd:iprobe (deleted)"] and f": pid {pid} (" in log), (
            pid,
            more,
        )


def children(pid):
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(p) for p in done.stdout.split()]


def size_of(pid):
    """KiB in memory, descriptors."""
    return int(memory.status_field(pid, "VmRSS").split()[0]), len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        fields = (
            pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
        total += sum(map(int, fields[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def holders(rules, name):
    return {p["pid"] for p in rules.listed()[name]["processes"]}


def wait_until_settled(rules, crowd, ones, all_of_them):
    """All are found, as many as may be are watched, and nothing else is live; who is watched."""
    memory.wait_for("they are not found", lambda: holders(rules, "every") == ones, WAIT, 0.1)

    def watched():
        some = {p["pid"] for p in rules.listed()["some"]["processes"] if p["doing"] == "watch"}
        return some if len(some) == PLACES and crowd.live(all_of_them) == some else None

    return memory.wait_for("those that are watched are not what is live", watched, WAIT, 0.1)


@pytest.mark.slow
def test_a_thousand_processes(me, user, targets, programs):
    crowd = Crowd(targets, me, programs.simple("crowd", placement="fentry"))
    ones, others = crowd.more(COUNT, "one"), crowd.more(OTHERS, "other")
    bystander = targets.start(
        user, [programs.simple("standing", placement="fentry"), "plain"], preload=False
    )
    rules = Rules(me, me.dir(), crowd.program).start(RULES)

    # All are found, and it is not much that it takes.
    watched = wait_until_settled(rules, crowd, ones, ones | others)
    rules.wait_log(
        "rule some:",
        f"is for {PLACES} processes at the same time at most (processes), which it has: pid ",
    )
    own = [rules.daemon.proc.pid, rules.rules_pid()]
    (main_kb, main_fds), (kb, fds) = map(size_of, own)
    assert main_kb < 32 << 10 and main_fds < 32 and kb < 64 << 10 and fds < COUNT + 64, (
        main_kb,
        main_fds,
        kb,
        fds,
    )
    before, since = cpu_seconds(own), time.monotonic()
    time.sleep(2)
    share = (cpu_seconds(own) - before) / (time.monotonic() - since)
    assert share < 0.5, share

    # One of them is recorded, the others rest; others are served meanwhile.
    one = next(iter(ones - watched))
    for i in range(1, 20):
        done = rules.command("--fire", f"every:{one}")
        assert (done.returncode, done.stdout) == (
            0,
            "the rule 'every' fires for 1 process\n",
        ), repr(done)
        memory.wait_for(
            "it does not go live",
            lambda n=i: crowd.is_live(one) or rules.log().count("has recorded") >= n,
            WAIT,
        )
        if i == 1:
            assert crowd.live(ones | others) <= {one} | watched
            asked = rules.daemon.start_attach(
                user, bystander.pid, "--json", "--duration", "100ms", cwd=user.dir()
            )
        while rules.log().count("has recorded") < i:
            os.kill(one, signal.SIGUSR1)
            time.sleep(0.05)
        if "work" in report(me, rules.recorded("every", i)[-1]):
            break
    assert report(me, rules.recorded("every")[-1])["work"]["calls"] >= 1
    done = last_words(asked)
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)

    # Half of them end, as many begin.
    for pid in sorted(ones)[: COUNT // 2]:
        os.kill(pid, signal.SIGKILL)
    ones = set(sorted(ones)[COUNT // 2 :]) | crowd.more(COUNT // 2, "one")
    wait_until_settled(rules, crowd, ones, ones | others)

    # All of iprobed is killed at once; the next one puts back what is live, and finds them again.
    process = rules.rules_pid()
    pids = [rules.daemon.proc.pid, process, *children(process)]
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
    rules.daemon.proc.wait()
    wait_until_held_by_nobody(ones | others)
    rules.start()
    assert (
        rules.log().count("rules before these have left a session: what is live is put back")
        == PLACES
    ), rules.log()
    wait_until_settled(rules, crowd, ones, ones | others)

    # At the end all is as it was.
    assert rules.daemon.end() == 0, rules.log()
    assert not crowd.live(ones | others)
    wait_until_held_by_nobody(ones | others)
    assert_no_descriptors(ones | others, rules.log())
    assert not [p.name for p in rules.daemon.state.iterdir() if p.name != "sock"]
    assert len(list((rules.traces / "every").iterdir())) == rules.log().count("has recorded")
    assert not rules.daemon.children() and crowd.target.alive() and bystander.alive()


def test_all_at_once(me, targets, programs):
    """A rule that fires for more than may be recorded at the same time: the others wait, and all
    are recorded at last; requests are answered meanwhile.
    """
    count, most = 44, 32
    crowd = Crowd(targets, me, programs.simple("crowd", placement="fentry"))
    pids = crowd.more(count, "one")
    rules = Rules(me, me.dir(), crowd.program)
    rules.start(
        "rules: {r: {match: {exe: PROGRAM, cmdline: 'PROGRAM one'}, when: request, do: {trace: "
        "{functions: work, memory: 8M}}, for: 1s, processes: 1000}}\n"
    )
    memory.wait_for("they are not found", lambda: holders(rules, "r") == pids, WAIT)
    done = rules.command("--fire", "r")
    assert (done.returncode, done.stdout) == (
        0,
        f"the rule 'r' fires for {count} processes\n",
    ), repr(done)
    acting = []
    while rules.log().count("has recorded") < count:
        acting.append(sum(p["doing"] == "act" for p in rules.listed()["r"]["processes"]))
        assert acting[-1] <= most and "nothing is recorded" not in rules.log(), rules.log()
        time.sleep(0.1)
    assert max(acting) > 0 and len(list((rules.traces / "r").iterdir())) == count
    assert not crowd.live(pids)
    wait_until_held_by_nobody(pids)
    assert rules.daemon.end() == 0, rules.log()
