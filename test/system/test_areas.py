# SPDX-License-Identifier: Apache-2.0
"""
Threads that the C library did not make: hooks find a thread's ring behind its thread pointer, so
one that has no area of its own there must not come to a hook, and its process is refused, or the
recording ends.
"""

import json
import time

import pytest

from iptest import actor as actors
from iptest import memory

BAD = ["shared", "none", "tiny"]


@pytest.mark.parametrize("preload", [False, True], ids=["injected", "preloaded"])
@pytest.mark.parametrize("how", BAD)
def test_refused_where_they_are(actor, programs, targets, how, preload):
    target = targets.start(actor, [programs.simple("areas"), how, "now"], preload=preload)
    for extra in ([], ["--payload", "count"]):
        for _ in range(20):  # on a busy machine it may not be its turn for long
            done = actor.iprobe(
                "attach",
                target.pid,
                *extra,
                "--max-stop",
                "5s",
                "--duration",
                "100ms",
                "-o",
                actor.dir() / "trace",
            )
            if "ry again" not in done.stderr:
                break
        line = actors.one_line(done)
        assert "thread area" in line and str(target.pid) in line
        memory.assert_untouched(target.pid)
        target.say("still there?")
        assert target.proc.stdout.readline().startswith("made")
    target.finish()


def test_one_with_an_area_of_its_own_is_recorded(me, programs, targets):
    """As the C library would have made it: nothing tells it from a thread of its own."""
    target = targets.start(me, [programs.simple("areas"), "own", "now"], preload=False)
    trace = me.dir() / "trace"
    done = me.iprobe(
        "attach", target.pid, "-f", "step", "--duration", "100ms", "--json", "-o", trace
    )
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert (
        summary["events"] > 1000 and summary["invalid"] == 0 and summary["end"] == "duration over"
    )
    assert json.loads(me.iprobe("info", "--json", trace).stdout)["invalid"] == 0
    target.finish()


@pytest.mark.parametrize("run", [False, True], ids=["attach", "run"])
def test_one_that_comes_later_ends_the_recording(me, programs, targets, run):
    """It shares its maker's area: what is recorded from then on is not whole, and that is said."""
    program, trace = programs.simple("areas"), me.dir() / "trace"
    if run:
        proc = session = me.popen(
            [me.iprobe_path, "run", "--json", "-o", trace, "--", program, "shared"]
        )
        assert proc.stdout.readline() == "ready\n"
    else:
        target = targets.start(me, [program, "shared"], preload=False)
        proc, session = target.proc, me.start_iprobe("attach", target.pid, "--json", "-o", trace)
        memory.wait_until_live(target.pid, session)
    time.sleep(0.1)
    proc.stdin.write("make\n")
    proc.stdin.flush()
    assert proc.stdout.readline().startswith("made")
    if not run:
        done = actors.last_words(session)
        assert "thread area" in done.summary()["end"] and "thread area" in done.stderr, repr(done)
        assert done.summary()["ended_early"] is True
        assert me.iprobe("report", trace).stdout.startswith("ended early: a thread shares")
        memory.assert_untouched(target.pid)
        assert proc.poll() is None
        return
    memory.wait_for("it records on", lambda: "thread area" in me.iprobe("info", trace).stdout)
    done = actors.last_words(session)
    assert "thread area" in done.stderr, repr(done)


def test_a_child_that_the_c_library_does_not_know_of(me, programs, targets):
    """Its id is not where the C library keeps it: it is refused, if only since it has no rings.
    One that is followed asks the kernel, and is recorded as itself.
    """
    program = programs.simple("areas")
    target = targets.start(me, [program, "forked"])
    with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii") as f:
        child = int(f.read())
    actors.one_line(
        me.iprobe(
            "attach", child, "--max-stop", "5s", "--duration", "50ms", "-o", me.dir() / "trace"
        )
    )
    memory.assert_untouched(child)
    target.finish()
    trace = me.dir() / "trace"
    done = me.run(
        [
            me.iprobe_path,
            "run",
            "--follow-fork",
            "-f",
            "step",
            "--json",
            "-o",
            trace,
            "--",
            program,
            "forked",
        ],
        input="x\n" * 100,
    )
    assert done.returncode == 0, repr(done)
    report = json.loads(me.iprobe("report", "--json", trace).stdout)
    assert {f["function"]: f["calls"] for f in report["functions"]} == {"step": 100}


VFORKING = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) long work(long n) { __asm__ volatile(""); return n + 1; }
__attribute__((no_instrument_function)) static void *churn(void *none)
{
	for (;;) {
		pid_t child = vfork();
		if (!child) _exit(0);
		waitpid(child, NULL, 0);
	}
	return none;
}
int main(void)
{
	pthread_t thread;
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread, NULL, churn, NULL)) return 1;
	for (long sum = 0;;) sum = work(sum);
}
"""


def test_threads_that_vfork_in_the_stop(me):
    """The child has its parent's area, which does not run before the child is done with it. Some of
    these stops meet the two.
    """
    where = me.dir()
    (where / "vforking.c").write_text(VFORKING)
    done = me.run(
        [
            me.builddir / "coldpatch" / "iprobe-cc",
            *("-O2", "-pthread", "vforking.c", "-o", "vforking"),
        ],
        cwd=where,
    )
    assert done.returncode == 0, repr(done)
    target = me.popen([where / "vforking"])
    for _ in range(60):
        done = me.iprobe(
            *("attach", target.pid, "-q", "--stop", "--duration", "2ms", "-f", "work"),
            *("-o", me.dir() / "trace"),
        )
        assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    target.kill()
    target.wait()
