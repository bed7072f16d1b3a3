# SPDX-License-Identifier: Apache-2.0
"""
The stop: scheduling as it was before, deadlines and several stops, processes that share the
memory, stopped and frozen targets, targets under other tools.
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import memory, time_scale
from iptest.actor import end, last_words, one_line

FUNCTIONS = 1500


@pytest.fixture
def steady(me, programs, targets):
    return targets.steady(me, programs.simple("steady"))


def attach(actor, pid, *options, **kw):
    return actor.iprobe(
        "attach", pid, "--duration", "50ms", "--json", "-o", actor.dir() / "trace", *options, **kw
    )


def tasks(pid):
    return [int(t) for t in os.listdir(f"/proc/{pid}/task")]


def scheduling(pid):
    """{thread: policy, with the flag; nice; real-time priority}"""
    found = {}
    for tid in tasks(pid):
        try:
            found[tid] = (
                os.sched_getscheduler(tid),
                os.getpriority(os.PRIO_PROCESS, tid),
                os.sched_getparam(tid).sched_priority,
            )
        except ProcessLookupError:
            continue
    return found


def mix_scheduling(pid, root):
    """Gives the threads of a process different policies."""
    threads = tasks(pid)
    os.setpriority(os.PRIO_PROCESS, threads[1], 5)
    os.sched_setscheduler(threads[2], os.SCHED_BATCH, os.sched_param(0))
    if not root:
        return
    os.sched_setscheduler(threads[3], os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, threads[4], -3)
    try:
        os.sched_setscheduler(threads[5], os.SCHED_RR, os.sched_param(2))
    except PermissionError:
        pass


def test_scheduling_is_as_before(root, programs, targets):
    target = targets.steady(root, programs.simple("steady"))
    mix_scheduling(target.pid, True)
    before = scheduling(target.pid)
    assert len({policy for policy, _, _ in before.values()}) >= 3
    for _ in range(5):
        done = attach(root, target.pid)
        assert done.returncode == 0, repr(done)
        assert scheduling(target.pid) == before
    target.wait_for_progress()
    target.finish()


def guards():
    """Guards that live, by whoever started them."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text() == "iprobe-guard\n":
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def children(pid):
    try:
        return [
            int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def kill_in_the_middle(actor, target, before, call, when):
    """Kills iprobe at a system call of a stop; its guard is not traced. Whether it was reached."""
    done = actor.run(
        [
            "strace",
            "-o",
            actor.dir() / "strace",
            f"--trace={call}",
            f"--inject={call}:signal=SIGKILL:when={when}",
            actor.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "20ms",
            "-o",
            actor.dir() / "trace",
        ]
    )
    memory.wait_for(
        f"scheduling after a kill at {call} number {when}",
        lambda: scheduling(target.pid) == before,
        10,
    )
    assert target.alive()
    return done.returncode != 0


def test_the_guard_gives_back_what_was_lent(root, programs, targets):
    """SIGKILL while threads are raised: policies, nice values and flags are back at once, and no
    guard stays.
    """
    target = targets.steady(root, programs.simple("steady"))
    mix_scheduling(target.pid, True)
    before = scheduling(target.pid)
    reached = 0
    for call, when in [("sched_setscheduler", n) for n in range(4, 20)] + [
        ("ptrace", n) for n in range(9, 33, 3)
    ]:
        reached += kill_in_the_middle(root, target, before, call, when)
    assert reached > 8
    target.wait_for_progress()
    assert root.iprobe("detach", target.pid).returncode == 0
    assert scheduling(target.pid) == before
    target.finish()


def test_killed_at_random_moments(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"))
    mix_scheduling(target.pid, me.is_root)
    before = scheduling(target.pid)
    rng = random.Random(1)
    ours = set()
    for _ in range(15):
        proc = me.start_iprobe("attach", target.pid, "--duration", "10ms", "-o", me.dir() / "trace")
        time.sleep(rng.uniform(0.002, 0.03))
        ours |= set(children(proc.pid))
        end(proc)
        memory.wait_for("scheduling as before", lambda: scheduling(target.pid) == before, 10)
    memory.wait_for("a guard was left", lambda: not ours & set(guards()), 10)
    target.wait_for_progress()
    done = me.iprobe("detach", target.pid)
    assert done.returncode == 0, repr(done)
    assert memory.text_differences(target.pid) == []
    target.finish()


def test_without_the_capability_it_works(root, programs, targets):
    target = targets.steady(root, programs.simple("steady"))
    done = root.run(
        [
            "setpriv",
            "--bounding-set=-sys_nice",
            "--inh-caps=-sys_nice",
            root.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "50ms",
            "--json",
            "-o",
            root.dir() / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] > 0
    memory.assert_untouched(target.pid)
    target.finish()


def write_many_functions(path):
    """A program of FUNCTIONS functions on many pages, which checks that each adds what it has
    to.
    """
    with open(path, "w", encoding="ascii") as out:
        out.write(
            "#include <stdio.h>\n#include <unistd.h>\n#include <poll.h>\n"
            "#define UNWATCHED __attribute__((no_instrument_function))\n"
            "#define F(n) __attribute__((noinline)) unsigned f##n(unsigned x) "
            '{ __asm__ volatile("jmp 1f; .skip 1900; 1:"); return x + n; }\n'
        )
        for i in range(FUNCTIONS):
            out.write(f"F({i})\n")
        out.write("static unsigned (*const functions[])(unsigned) = {\n")
        for i in range(FUNCTIONS):
            out.write(f"f{i},\n")
        out.write(
            "};\nUNWATCHED int main(void)\n{\nstruct pollfd in = {.fd = 0, .events = POLLIN};\n"
            'puts("ready"); fflush(stdout);\nfor (;;) {\n'
            f"for (unsigned i = 0; i < {FUNCTIONS}; i++) if (functions[i](7) != 7 + i) return 3;\n"
            "if (poll(&in, 1, 0) > 0) return 0;\nusleep(1000); } }\n"
        )


@pytest.fixture(scope="module")
def many(programs):
    return programs.generated("many", write_many_functions, f"{FUNCTIONS} functions", ("-O1",))


def test_a_plan_in_several_stops(actor, many, targets):
    """Pages that do not fit into --max-stop are written in several stops, and the trace has
    whole functions only.
    """
    target = targets.start(actor, [many])
    trace = actor.dir() / "trace"
    for _ in range(20):  # a busy machine may not gather one thread in so short a time
        done = actor.iprobe(
            "attach",
            target.pid,
            "--duration",
            "200ms",
            "--max-stop",
            time_scale.milliseconds(2),
            "--json",
            "-o",
            trace,
        )
        if done.returncode == 0:
            break
        assert "in time" in one_line(done)
        assert memory.text_differences(target.pid) == []
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    stops = [s for s in summary["stops"] if not s.get("failed")]
    # the first ones are more careful than those that know what a page costs
    assert (
        summary["sites"] == 2 * FUNCTIONS
        and len(stops) >= 3
        and stops[0]["sites"] < summary["sites"]
    ), stops
    assert sum(s["sites"] for s in stops) == 2 * summary["sites"] and all(
        s["sites"] % 2 == 0 for s in stops
    )
    assert all(s["pages"] > 0 and s["threads"] == 1 and s["stop_us"] > 0 for s in stops)
    assert [s["stop_us"] for s in summary["stops"]] == summary["stop_us"]
    info = json.loads(actor.iprobe("info", "--json", trace).stdout)
    assert [s["sites"] for s in info["stops"]] == [s["sites"] for s in summary["stops"]]
    report = json.loads(actor.iprobe("report", "--json", trace).stdout)
    assert len(report["functions"]) == FUNCTIONS
    depth = {
        json.loads(line)["depth"]
        for line in actor.iprobe("dump", "--json", trace).stdout.splitlines()
    }
    assert depth == {0}, "entries and exits do not match"
    assert memory.text_differences(target.pid) == []
    target.finish()


def test_one_stop_where_it_is_allowed(me, many, targets):
    target = targets.start(me, [many])
    done = attach(me, target.pid, "--max-stop", "2s")
    assert done.returncode == 0, repr(done)
    assert len(done.stops()) == 2
    assert memory.text_differences(target.pid) == []
    target.finish()


def test_killed_between_stops(me, many, targets):
    """Some functions are live and others are not: detach brings all back."""
    target = targets.start(me, [many])
    rng = random.Random(2)
    for _ in range(8):
        proc = me.start_iprobe("attach", target.pid, "--max-stop", "2ms", "-o", me.dir() / "trace")
        time.sleep(rng.uniform(0.03, 0.09))
        end(proc)
        assert target.alive()
        done = me.iprobe("detach", target.pid)
        assert done.returncode == 0, repr(done)
        assert memory.text_differences(target.pid) == []
    target.finish()


def test_detach_in_several_stops(me, many, targets):
    """--max-stop is attach's; detach keeps to the default, and tells each of its stops."""
    target = targets.start(me, [many])
    proc = me.start_iprobe("attach", target.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, proc)
    end(proc)
    done = me.iprobe("detach", "--json", target.pid)
    assert done.returncode == 0, repr(done)
    said = json.loads(done.stdout)
    assert (
        said["restored"] > 0 and len(said["stop_us"]) >= 1 and all(us > 0 for us in said["stop_us"])
    )
    assert memory.text_differences(target.pid) == []
    target.finish()


def test_dry_run_tells_the_stops(actor, many, targets):
    target = targets.start(actor, [many])
    one = attach(actor, target.pid, "--dry-run", "--max-stop", "2s")
    several = attach(actor, target.pid, "--dry-run", "--max-stop", "2ms")
    assert one.returncode == several.returncode == 0
    one, several = one.summary(), several.summary()
    assert one["stops"] == 1 < several["stops"]
    assert one["expected_stop_us"] > several["expected_stop_us"] > 0
    assert (
        one["sites"] == several["sites"] == 2 * FUNCTIONS and one["pages"] == several["pages"] > 500
    )
    assert one["modules"][0]["path"].endswith("many")
    shown = actor.iprobe("attach", target.pid, "--dry-run", "--max-stop", "2ms").stdout
    assert re.search(r"\d+ stops of about .* each; nothing was changed", shown), shown
    assert memory.text_differences(target.pid) == []
    target.finish()


@pytest.fixture
def kin(actor, programs, targets):
    """Two processes that share their memory; the pid of the second is in `other`."""
    target = targets.start(actor, [programs.simple("shared_mm", placement="fentry")])
    target.other = int(target.proc.stdout.readline())
    return target


def test_a_process_that_shares_the_memory(actor, kin):
    """It is no thread and is stopped all the same."""
    assert len(tasks(kin.pid)) == 1
    for pid in (kin.pid, kin.other):
        for _ in range(3):
            done = attach(actor, pid)
            assert done.returncode == 0, repr(done)
            # a stop in vain tells how many stood, and of one that was late there is one
            stops = [s for s in done.summary()["stops"] if not s.get("failed")]
            assert stops and all(s["threads"] == 2 for s in stops), done.summary()
            for task in (kin.pid, kin.other):
                assert memory.status_field(task, "TracerPid") == "0"
                assert os.sched_getscheduler(task) == os.SCHED_OTHER
            assert memory.text_differences(kin.pid) == []
    kin.finish()


def test_kin_that_cannot_be_stopped_is_named(me, kin_of_me):
    """It is traced by somebody else."""
    kin = kin_of_me
    tracer = me.popen(["strace", "-o", "/dev/null", "-p", kin.other])
    memory.wait_for("not traced", lambda: memory.status_field(kin.other, "TracerPid") != "0")
    line = one_line(attach(me, kin.pid))
    assert str(kin.other) in line or str(tracer.pid) in line
    assert memory.text_differences(kin.pid) == []
    end(tracer)
    memory.wait_for("still traced", lambda: memory.status_field(kin.other, "TracerPid") == "0")
    assert attach(me, kin.pid).returncode == 0
    kin.finish()


@pytest.fixture
def kin_of_me(me, programs, targets):
    target = targets.start(me, [programs.simple("shared_mm", placement="fentry")])
    target.other = int(target.proc.stdout.readline())
    return target


def job_events(pid):
    """What the parent is told of its child: stops and continuations."""
    found = []
    while True:
        got, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if not got:
            return found
        found.append(status)
        assert not os.WIFEXITED(status) and not os.WIFSIGNALED(status), status


def test_job_control_sees_nothing(me, programs, targets):
    """A stopped target is worked on and stays stopped; neither SIGSTOP nor SIGCONT of ours
    reaches its parent.
    """
    target = targets.steady(me, programs.simple("steady"))
    assert job_events(target.pid) == []
    for _ in range(3):
        assert attach(me, target.pid).returncode == 0
    assert job_events(target.pid) == []
    os.kill(target.pid, signal.SIGSTOP)
    told = memory.wait_for("not stopped", lambda: job_events(target.pid))  # once all threads have
    assert [os.WIFSTOPPED(s) for s in told] == [True]
    beats = target.beats()
    for _ in range(3):
        done = attach(me, target.pid)
        assert done.returncode == 0, repr(done)
        memory.wait_for(
            "not stopped any more",
            lambda: all(
                memory.status_field(target.pid, "State", tid).startswith("T")
                for tid in tasks(target.pid)
            ),
            10,
        )
    assert target.beats() == beats
    assert job_events(target.pid) == []
    assert memory.text_differences(target.pid) == []
    os.kill(target.pid, signal.SIGCONT)
    target.wait_for_progress()
    assert [os.WIFCONTINUED(s) for s in job_events(target.pid)] == [True]
    target.finish()


@pytest.fixture(params=["unified", "freezer"])
def freezer(request, me):
    """A cgroup that can be frozen: the write that freezes, the one that thaws, the folder."""
    if not me.is_root:
        pytest.skip("not root")
    base = pathlib.Path("/sys/fs/cgroup")
    if request.param == "freezer":
        folder, knob, values = base / "freezer", "freezer.state", ("FROZEN", "THAWED")
    else:
        folder = base / "unified" if (base / "unified" / "cgroup.procs").exists() else base
        knob, values = "cgroup.freeze", ("1", "0")
    folder = folder / f"iprobe-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    if not (folder / knob).exists():
        folder.rmdir()
        pytest.skip(f"no {knob} here")
    made = type("Freezer", (), {})()
    made.take = lambda pid: (folder / "cgroup.procs").write_text(str(pid))
    made.freeze = lambda: (folder / knob).write_text(values[0])
    made.thaw = lambda: (folder / knob).write_text(values[1])
    yield made
    made.thaw()
    memory.wait_for("cgroup not empty", lambda: removed(folder), 20)


def removed(folder):
    try:
        folder.rmdir()
    except OSError:
        for pid in (folder / "cgroup.procs").read_text().split():
            (folder.parent / "cgroup.procs").write_text(pid)
        return False
    return True


def test_a_frozen_target(me, programs, targets, freezer):
    """It works, or is refused within the deadline with a reason that names the freezer; thawed,
    it is as before.
    """
    target = targets.steady(me, programs.simple("steady"))
    freezer.take(target.pid)
    freezer.freeze()
    time.sleep(0.2)
    beats = target.beats()
    done = attach(me, target.pid)
    if done.returncode != 0:
        assert "freez" in one_line(done)
    time.sleep(0.1)
    assert target.beats() == beats, "it was thawed"
    freezer.thaw()
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    done = attach(me, target.pid)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.finish()


def test_a_thread_under_another_tracer(me, steady):
    """One thread of eight: refused with the tracer's pid, the others are let go untouched."""
    tid = tasks(steady.pid)[5]
    tracer = me.popen(["strace", "-o", "/dev/null", "-p", tid])
    memory.wait_for("not traced", lambda: memory.status_field(steady.pid, "TracerPid", tid) != "0")
    pid = memory.status_field(steady.pid, "TracerPid", tid)
    assert pid in re.findall(r"\d+", one_line(attach(me, steady.pid)))
    steady.wait_for_progress()
    assert memory.text_differences(steady.pid) == []
    end(tracer)
    memory.wait_for(
        "still traced", lambda: memory.status_field(steady.pid, "TracerPid", tid) == "0"
    )
    assert attach(me, steady.pid).returncode == 0
    memory.assert_untouched(steady.pid)
    steady.finish()


def test_a_target_that_perf_watches(root, programs, targets):
    """perf counts and samples by software events, and neither tool harms the other."""
    if not shutil.which("perf"):
        pytest.skip("no perf")
    target = targets.steady(root, programs.simple("steady"))
    data = root.dir() / "perf.data"
    perf = root.popen(
        [
            "perf",
            "record",
            "-q",
            "-e",
            "task-clock",
            "-o",
            data,
            "-p",
            target.pid,
            "--",
            "sleep",
            "3",
        ]
    )
    memory.wait_for("perf does not begin", lambda: data.exists() or perf.poll() is not None)
    if perf.poll() is not None:
        pytest.skip(f"perf does not work here: {perf.stderr.read()}")
    for _ in range(5):
        done = attach(root, target.pid)
        assert done.returncode == 0, repr(done)
        assert done.summary()["events"] > 0
    ended = last_words(perf)
    assert ended.returncode == 0, repr(ended)
    shown = root.run(["perf", "report", "--stdio", "-i", data])
    assert shown.returncode == 0 and "steady" in shown.stdout, repr(shown)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


def test_threads_that_come_and_go_in_a_stop(me, programs, targets):
    """Children are born, processes forked, while the target is stopped again and again: none
    stays behind.
    """
    target = targets.steady(me, programs.simple("steady"), "-c")
    for _ in range(15):
        done = attach(me, target.pid, "-f", "step_1*")
        assert done.returncode == 0, repr(done)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()
