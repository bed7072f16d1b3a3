# SPDX-License-Identifier: Apache-2.0
"""
Sessions that a stop would tell nothing more go live and idle without one, though nobody has asked
for that. Where one is needed the summary tells why.
"""

import json
import os
import re
import resource
import signal

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.daemon_fixtures import daemon, program, target  # noqa: F401
from iptest.server import Server
from test_nostop import copies

TRIES = 20  # on a busy machine no thread may wait just then


def attach(actor, target, *options):
    return actor.iprobe(
        "attach", target.pid, "--duration", "40ms", "-o", actor.dir() / "trace", *options
    )


def attach_switched(actor, target, *options):
    """The summary of one that was not stopped."""
    for _ in range(TRIES):
        done = attach(actor, target, "--json", *options)
        assert done.returncode == 0, repr(done)
        summary = done.summary()
        if "stopped_why" not in summary:
            return summary
        assert summary["stopped_why"] in (
            "no thread could be borrowed at once",
            "pages could not be switched back",
        ), summary
    raise AssertionError(f"stopped each time: {summary}")


def held(summary):
    return [stop.get("held", False) for stop in summary["stops"] if not stop.get("failed")]


@pytest.mark.parametrize(
    "options",
    [
        ["--payload", "count"],
        ["--payload", "hist"],
        ["--payload", "count:step_1*", "--payload", "hist:step_2*"],
        ["--overwrite"],
        ["--depth", "3"],
        ["--until", "calls>1000000000/1s:step_11"],
    ],
    ids=["count", "hist", "both", "overwrite", "filter", "until"],
)
def test_not_stopped(actor, programs, targets, options):
    target = targets.steady(actor, programs.simple("steady"))
    summary = attach_switched(actor, target, *options)
    assert held(summary) == [True] * 3, "of one thread: staged, switched, and back"
    assert summary["events"] or summary.get("counted"), summary
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


def test_it_is_told(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"))
    said = attach(me, target, "--payload", "count").stderr
    assert re.search(r"; (never stopped; one thread held|stopped) for [0-9.]+ [mu]s", said), said
    said = attach(me, target).stderr
    assert re.search(r"; stopped for .* \(since calls that are open are recorded\)", said), said
    said = attach(me, target, "--stop").stderr
    assert re.search(r"; stopped for [^(]*; trace in", said), said
    target.finish()


@pytest.mark.parametrize(
    ["options", "why"],
    [
        ([], "calls that are open are recorded"),
        (["--payload", "count", "--follow-fork"], "forked children are recorded"),
        (["--payload", "count", "--stop"], None),
    ],
    ids=["log", "children", "asked"],
)
def test_stopped(me, programs, targets, options, why):
    target = targets.steady(me, programs.simple("steady"))
    summary = attach(me, target, "--json", *options).summary()
    assert held(summary) == [False] * 2 and summary.get("stopped_why") == why, summary
    memory.assert_untouched(target.pid)
    target.finish()


def test_a_thread_that_the_c_library_did_not_make(me, programs, targets):
    """Whether it has a thread area of its own only a stop tells. This one has."""
    target = targets.start(me, [programs.simple("areas"), "own", "now"])
    summary = attach(me, target, "--json", "--payload", "count", "--max-stop", "1s").summary()
    assert summary["stopped_why"] == "the C library has not registered each thread", summary
    assert held(summary) == [False] * 2 and summary["counted"]
    memory.assert_untouched(target.pid)
    target.finish()


def test_a_process_that_shares_the_memory(me, programs, targets):
    target = targets.start(me, [programs.simple("shared_mm", placement="fentry")])
    int(target.proc.stdout.readline())
    summary = attach(me, target, "--json", "--payload", "count", "--max-stop", "1s").summary()
    assert summary["stopped_why"] == "another process shares its memory", summary
    memory.assert_untouched(target.pid)


def test_nobody_waits(me, programs, targets):
    """The only thread runs all the time."""
    target = targets.start(me, [programs.simple("waits"), "busy"])
    summary = attach(me, target, "--json", "--payload", "count", "--max-stop", "1s").summary()
    assert summary["stopped_why"] == "no thread could be borrowed at once"
    assert held(summary) == [False] * 2, summary
    memory.assert_untouched(target.pid)
    os.kill(target.pid, signal.SIGALRM)
    assert actors.last_words(target.proc).stdout == "good\n"


@pytest.mark.parametrize("waits_again", [True, False], ids=["then", "later"])
def test_nobody_waits_for_the_second_hold(me, programs, targets, waits_again):
    """The copy of the text is unmapped at the end of the session; where nobody waits then either,
    that is told, and detach does it.
    """
    program = programs.simple("waits")
    target = targets.start(me, [program, "turns"])
    memory.wait_for("does not wait", lambda: "S" in memory.status_field(target.pid, "State"))
    # slow between the two holds: time to see the copy, and to have the thread run
    proc = me.popen(
        ["strace", "-o", me.dir() / "strace", "-P", f"/proc/{target.pid}/mem"]
        + ["--trace=pwrite64", "--inject=pwrite64:delay_enter=150000", me.iprobe_path]
        + ["attach", str(target.pid), "--payload", "count", "-f", "next", "--max-stop", "20s"]
        + ["--duration", "2s", "--json", "-o", me.dir() / "trace"]
    )
    memory.wait_for("no copy", lambda: copies(target, program) == 2, step=0.001)
    os.kill(target.pid, signal.SIGUSR1)
    told = "a copy of text stays mapped, which nobody uses"
    assert told in proc.stderr.readline(), "at the start"
    assert copies(target, program) == 2
    if waits_again:
        os.kill(target.pid, signal.SIGUSR2)
    done = actors.last_words(proc)
    summary = done.summary()
    assert done.returncode == 0, repr(done)
    assert summary["stopped_why"] == "no thread could be borrowed at once", summary
    assert held(summary)[0] and False in held(summary), summary
    assert (told in done.stderr) != waits_again, repr(done)
    if not waits_again:
        assert copies(target, program) == 2, repr(done)
        os.kill(target.pid, signal.SIGUSR2)
        assert me.iprobe("detach", target.pid).returncode == 0
    assert copies(target, program) == 1
    memory.assert_untouched(target.pid)
    target.say("x")
    assert actors.last_words(target.proc).stdout == "good\n"


def test_an_old_kernel(me, programs, targets):
    """Linux before 5.13 does not move a file's pages: nobody is held in vain."""
    target = targets.steady(me, programs.simple("steady"))
    log = me.dir() / "strace"

    def attach_as(when):
        done = me.run(
            ["strace", "-o", log, "--trace=mremap", *when, me.iprobe_path, "attach"]
            + [str(target.pid), "--payload", "count", "--max-stop", "1s", "--duration", "40ms"]
            + ["--json", "-o", me.dir() / "trace"]
        )
        assert done.returncode == 0, repr(done)
        return done.summary()

    attach_as([])
    calls = [line for line in log.read_text().splitlines() if line.startswith("mremap(")]
    (tried,) = [n for n, line in enumerate(calls, 1) if "MREMAP_DONTUNMAP" in line]
    summary = attach_as([f"--inject=mremap:error=EINVAL:when={tried}"])
    assert summary["stopped_why"] == "this kernel cannot move text", summary
    assert held(summary) == [False] * 2, summary
    target.finish()


def test_little_address_space(me, programs, targets):
    """A thread can be had, but what it is to do fails: that is what is told."""
    target = targets.steady(me, programs.simple("steady"))
    size = int(memory.status_field(target.pid, "VmSize").split()[0]) * 1024
    _, most = resource.prlimit(target.pid, resource.RLIMIT_AS)
    resource.prlimit(target.pid, resource.RLIMIT_AS, (size, most))
    for _ in range(TRIES):
        summary = attach(me, target, "--overwrite", "--json", "--max-stop", "1s").summary()
        if summary["stopped_why"] != "no thread could be borrowed at once":
            break
    assert summary["stopped_why"] == "its memory is short or limited", summary
    resource.prlimit(target.pid, resource.RLIMIT_AS, (most, most))
    memory.assert_untouched(target.pid)
    target.finish()


def test_forked_children_are_stopped_and_not_the_process(me, programs, targets):
    """A child has copies of live sites: these are put back in a stop of the child."""
    server = Server(me, programs, targets)
    proc = me.start_iprobe("attach", "--no-stop", server.pid, "-o", me.dir() / "trace")
    memory.wait_until_live(server.pid, proc)
    # a child that is forked earlier has the copy of the text as well
    program = programs.simple("prefork")
    memory.wait_for("a copy stays", lambda: copies(server, program) == 1)
    child = server.fork()
    memory.wait_for("not put back", lambda: not memory.text_differences(child))
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    assert done.returncode == 0 and "1 forked process got the NOPs back" in done.stderr, repr(done)
    length = r"[0-9.]+ [mu]s"
    assert re.search(
        rf"; never stopped; one thread held for {length}(, {length})*, "
        rf"forked children for {length}",
        done.stderr,
    ), repr(done)
    server.finish()


def test_after_a_killed_one(me, programs, targets):
    """Its sites are put back in a stop, and the next session needs none."""
    target = targets.steady(me, programs.simple("steady"))
    why = "it had live sites before"
    for _ in range(TRIES):
        proc = me.start_iprobe("attach", target.pid, "--stop", "-o", me.dir() / "trace")
        memory.wait_until_live(target.pid, proc)
        proc.kill()
        actors.end(proc)
        summary = attach(me, target, "--json", "--payload", "count", "--max-stop", "1s").summary()
        if held(summary).count(True) == 3:
            break
        assert summary["stopped_why"] in (why, "no thread could be borrowed at once"), summary
    assert held(summary).count(False) == 1, summary
    assert summary["stopped_why"] == why
    target.finish()


def test_resumed(me, programs, targets):
    """The calls that are open are those of the recording that goes on."""
    target = targets.steady(me, programs.simple("steady"))
    trace = me.dir() / "trace"
    proc = me.start_iprobe("attach", target.pid, "-o", trace)
    memory.wait_until_live(target.pid, proc)
    proc.kill()
    actors.end(proc)
    done = me.iprobe("attach", target.pid, "--resume", "--duration", "40ms", "--json", "-o", trace)
    assert done.returncode == 0, repr(done)
    assert False in held(done.summary()), repr(done)
    assert done.summary()["stopped_why"] == "its recording had begun", repr(done)
    target.finish()


def test_somebodys_byte_on_a_page(me, programs, targets):
    """All that is selected is recorded, and the byte is kept."""
    steady = programs.simple("steady")
    target = targets.steady(me, steady)
    text = next(m for m in memory.mappings(target.pid) if m.path == str(steady) and "x" in m.perms)
    memory.write_memory(target.pid, text.end - 8, b"\xcc")
    summary = attach(me, target, "--json", "--payload", "count").summary()
    assert summary["stopped_why"] == "not all of its pages can be switched", summary
    assert summary["functions"] > 70 and "unswitched" not in summary
    assert memory.read_memory(target.pid, text.end - 8, 1) == b"\xcc"
    memory.write_memory(target.pid, text.end - 8, b"\0")
    memory.assert_untouched(target.pid)
    target.finish()


def test_a_second_attach_changes_it(me, programs, targets):
    """In a stop: nobody has forbidden one. The end puts back what either has made live."""
    target = targets.steady(me, programs.simple("steady"))
    proc = me.start_iprobe(
        "attach", target.pid, "--payload", "count:step_1*", "--json", "-o", me.dir() / "trace"
    )
    memory.wait_until_live(target.pid, proc)
    for _ in range(TRIES):
        done = me.iprobe("attach", target.pid, "-f", "step_2*", "--max-stop", "1s", "--json")
        if done.returncode == 0:
            break
    assert done.returncode == 0 and done.summary()["functions_added"] > 5, repr(done)
    proc.send_signal(signal.SIGINT)
    summary = actors.last_words(proc).summary()
    assert False in held(summary), "the change"
    assert summary["stopped_why"] in (
        "what is recorded was changed",
        "no thread could be borrowed at once",
    ), summary
    memory.assert_untouched(target.pid)
    target.finish()


def test_a_dry_run_tells_the_same(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"))
    said = attach(me, target, "--dry-run", "--json", "--payload", "count").summary()
    assert (said["stops"], said["end_stops"], said["expected_stop_us"]) == (0, 0, 0), said
    assert said["pieces"] >= 1 and said["holds"] == len(
        held(attach_switched(me, target, "--payload", "count"))
    )
    shown = attach(me, target, "--dry-run", "--payload", "count").stdout
    assert "without a stop" in shown and "nothing was changed" in shown
    said = attach(me, target, "--dry-run", "--json").summary()
    assert said["stops"] == said["end_stops"] == 1 and "pieces" not in said
    assert said["stopped_why"] == "calls that are open are recorded"
    target.finish()


def test_a_worker_of_iprobed_stops(daemon, user, target):  # noqa: F811
    """It looks at the rights of each thread while all stand."""
    options = ["--payload", "count", "--json", "--duration", "40ms"]
    done = user.iprobe("attach", target.pid, *options, env=daemon.env, cwd=user.dir())
    assert done.returncode == 0, repr(done)
    assert done.summary()["stopped_why"] == "iprobed looks at each thread", repr(done)


def test_opposites(me):
    done = me.iprobe("attach", "--stop", "--no-stop", str(os.getpid()))
    assert done.returncode == 2 and "leave one out" in done.stderr, repr(done)
    done = me.iprobe("run", "--stop", "--", "true")
    assert done.returncode == 2, repr(done)
