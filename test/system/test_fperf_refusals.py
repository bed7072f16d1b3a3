# SPDX-License-Identifier: Apache-2.0
"""What fperf refuses and what it leaves behind; events, profiles, and the self-test."""

import json
import signal
import struct
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.fperf import (
    FAULTS,
    by_name,
    check_exact,
    fperf_path,
    own_counts,
    patched,
    start_fperf,
)  # noqa: F401


def test_killed(actor, programs, targets):
    """A killed fperf leaves a process that is none the worse, and that iprobe detach clears."""
    target = targets.start(actor, [programs.simple("paging"), "-n", 2000, "-l"])
    proc = start_fperf(actor, target)
    target.say()
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    done = actor.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert patched(actor, target.pid) == 0
    assert target.proc.stdout.readline() == "done\n"
    target.say()
    assert own_counts(target.finish().stdout)["three"][0] == 3 * 2000


ANCHORS_FPERF_ABI = 444  # struct ip_rt_anchor


def test_a_runtime_of_another_version(me, programs, targets):
    """Its hooks would count nothing, and say nothing. Other sessions go on in it."""
    target = targets.start(me, [programs.simple("paging"), "-n", 10])
    symbols = subprocess.run(
        ["nm", "-D", me.runtime_path], capture_output=True, text=True, check=True
    ).stdout
    (anchor,) = [
        int(line.split()[0], 16)
        for line in symbols.splitlines()
        if line.endswith(" iprobe_rt_anchor")
    ]
    at = (
        min(m.start for m in memory.mappings(target.pid) if "libiprobe-rt" in m.path)
        + anchor
        + ANCHORS_FPERF_ABI
    )
    (abi,) = struct.unpack("I", memory.read_memory(target.pid, at, 4))
    assert 0 < abi < 1000, abi
    memory.write_memory(target.pid, at, struct.pack("I", abi - 1))
    command = [fperf_path(me), "-q", "-p", target.pid, "--duration", "100ms"]
    assert "another version of iprobe" in actors.one_line(me.run(command))
    assert patched(me, target.pid) == 0
    assert (
        me.iprobe(
            "attach", "-q", "--duration", "50ms", "-o", me.dir() / "trace", target.pid
        ).returncode
        == 0
    )
    memory.write_memory(target.pid, at, struct.pack("I", abi))
    done = me.run(command)
    assert done.returncode == 0, repr(done)


def test_one_session_at_a_time(me, programs, targets):
    target = targets.start(me, [programs.simple("paging"), "-n", 10])
    proc = start_fperf(me, target)
    assert "fperf needs one of its own" in actors.one_line(
        me.run([fperf_path(me), "-q", "-p", target.pid])
    )
    for command in (
        ["attach", target.pid, "-f", "three"],
        ["top", "-b", "-n", 1, target.pid],
        ["hist", target.pid],
        ["snapshot", target.pid],
    ):
        assert "that of an fperf" in actors.one_line(me.iprobe(*command))
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert by_name(json.loads(said.stdout))["three"]["calls"] == 30, repr(said)
    target.say()
    target.finish()


@pytest.mark.parametrize(
    "link", [[], ["-static"], ["-static-pie"]], ids=["shared", "static", "static-pie"]
)
def test_a_process_without_the_runtime(me, programs, targets, link):
    """It is put there, and counts."""
    target = targets.start(me, [programs.simple("paging", extra=link), "-n", 100], preload=False)
    proc = start_fperf(me, target, "--budget", "none")
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    said = actors.last_words(proc)
    assert said.returncode == 0, repr(said)
    target.say()
    check_exact(by_name(json.loads(said.stdout)), own_counts(target.finish().stdout))


def test_seccomp_is_refused(root, programs, targets):
    """The calls that read the counters might end it."""
    target = targets.start(
        root, [programs.simple("waits", extra=["-static"]), "seccomp"], preload=False
    )
    line = actors.one_line(root.run([fperf_path(root), "-q", "-p", target.pid]))
    assert "seccomp" in line
    assert patched(root, target.pid) == 0


@pytest.mark.parametrize("how", ["errno", "kill"])
def test_a_process_that_confines_itself(me, programs, how):
    """A call of the kernel that fails ends the samples; where the filter would kill for it there
    are none once fperf has seen it. main() is one that is open all the while: its exit makes no
    call either. (That of the function that sets the filter would come before anybody can know.)
    """
    output = me.top / f"{how}.json"
    proc = me.popen(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            output,
            "-e",
            "perf::TASK-CLOCK",
            "--budget",
            "none",
            "-f",
            "step,main",
            "--",
            programs.simple("confining"),
            how,
        ]
    )

    def say(line, answer):
        proc.stdin.write(line + "\n")
        proc.stdin.flush()
        assert proc.stdout.readline() == answer + "\n", repr(actors.last_words(proc))

    assert proc.stdout.readline() == "ready\n"
    say("call", "called")
    say("confine", "confined")
    if how == "kill":
        time.sleep(3)  # what is not seen by then would be a defect even on a busy machine
    say("call", "called")
    proc.stdin.close()
    assert proc.wait(60) == 0
    result = json.loads(output.read_text(encoding="utf-8"))
    functions = by_name(result)
    assert result["confined"]
    assert functions["step"]["calls"] == 2000 and functions["step"]["samples"] == 1000, functions
    assert functions["main"]["samples"] == 0 and functions["main"]["cut"] == 1, functions


def test_unknown_and_absent_events(me, programs):
    done = me.run([fperf_path(me), "-e", "perf::NONSENSE", "-p", 1])
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, repr(done)
    line = actors.one_line(me.run([fperf_path(me), "-e", "PAPI_TOT_INS", "-p", 1]))
    assert "PAPI_TOT_INS" in line and ("PMU" in line or "perf_event" in line)
    for wrong in (
        ["--budget", "much"],
        ["--budget", "inf/s"],
        ["-n", "1.5"],
        ["-n", "-1"],
        ["-n", ""],
    ):
        done = me.run([fperf_path(me), *wrong, "-p", 1])
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, repr(done)
    assert me.run([fperf_path(me)]).returncode == 2
    for command in ([], ["list-events"], ["self-test"]):
        done = me.run([fperf_path(me), *command, "--help"])
        assert done.returncode == 0 and "usage: fperf" in done.stdout and not done.stderr, repr(
            done
        )


def test_profile(me, programs):
    (me.top / "probes").mkdir()
    (me.top / "probes" / "own.yaml").write_text(
        """
profiles:
  faults: {events: ['perf::PAGE-FAULTS'], functions: 'three,eleven', budget: 1%, interval: 50ms}
  chips: {events: [PAPI_TOT_INS]}
""",
        encoding="utf-8",
    )
    env = {"IPROBE_PROBES_D": str(me.top / "probes")}
    done = me.run(
        [
            fperf_path(me),
            "-q",
            "--json",
            "-o",
            me.top / "out.json",
            "--profile",
            "faults",
            "-f",
            "three",
            "--",
            programs.simple("paging"),
            "-n",
            20,
        ],
        input="\n\n",
        env=env,
    )
    assert done.returncode == 0, repr(done)
    result = json.loads((me.top / "out.json").read_text(encoding="utf-8"))
    assert (
        result["events"] == [FAULTS]
        and result["budget"] == 0.01
        and set(by_name(result)) == {"three"}
    )
    line = actors.one_line(me.run([fperf_path(me), "--profile", "chips", "-p", 1], env=env))
    assert "chips" in line and "PAPI_TOT_INS" in line
    assert "faults" in actors.one_line(
        me.run([fperf_path(me), "--profile", "fault", "-p", 1], env=env)
    )


def test_list_and_self_test(me):
    done = me.run([fperf_path(me), "list-events", "--json"])
    assert done.returncode == 0, repr(done)
    events = {e["name"]: e for e in json.loads(done.stdout)["events"]}
    assert events[FAULTS]["counts"] and not events["PAPI_TOT_INS"]["counts"]
    assert events["PAPI_TOT_INS"]["why_not"]
    done = me.run([fperf_path(me), "self-test"])
    assert done.returncode == 0 and FAULTS in done.stdout, repr(done)
