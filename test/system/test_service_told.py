# SPDX-License-Identifier: Apache-2.0
"""What attach tells of several processes: once what is the same of all, and before any is touched
what fits none of them."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import last_words
from iptest.server import Server

from test_inject import compile_with


def attach(actor, *words, code=0):
    directory = actor.dir() / "trace"
    done = actor.iprobe("attach", "--duration", "100ms", "-o", directory, *words)
    assert done.returncode == code, repr(done)
    return done, directory


def is_in_epoll(pid):
    """Whether it waits in epoll_wait() or epoll_pwait()."""
    return open(f"/proc/{pid}/syscall").read().split()[0] in ("232", "281")


def mapped(pids):
    return [open(f"/proc/{pid}/maps").read() for pid in pids]


@pytest.mark.parametrize(
    "words,said",
    [
        (["--args", "prefork_answer(reqest)"], "there is no parameter 'reqest'"),
        (["--retval", "prefork_anser(retval)"], "is called prefork_anser"),
        (["--when", "prefork_answer: nosuch > 4"], "there is no parameter 'nosuch'"),
        (["-f", "prefork_tick", "--args", "prefork_answer(request)"], "is called prefork_answer"),
    ],
    ids=["args", "retval", "when", "not selected"],
)
def test_what_fits_none(me, programs, targets, words, said):
    """One line, and neither a process nor the directory is touched; of one process, too, and by a
    dry run.
    """
    server = Server(me, programs, targets, placement="fentry")
    workers = [server.fork() for _ in range(2)]
    before = mapped(server.everybody())  # the runtime would be there
    for processes in (workers, workers[:1], [server.pid, "--children"]):
        for dry in ([], ["--dry-run"]):
            if dry and len(processes) > 1:
                continue  # each process has a preview of its own
            done, directory = attach(me, *processes, *words, *dry, code=1)
            assert len(done.stderr.splitlines()) == 1 and said in done.stderr, repr(done)
            assert not directory.exists()
    assert mapped(server.everybody()) == before
    server.finish()


def test_what_fits_one_program(me, programs, targets):
    """The other one is told, and the first is recorded."""
    server = Server(me, programs, targets, placement="fentry")
    worker = server.fork()
    other = targets.steady(me, programs.simple("steady", placement="fentry"), "-t", "1")
    done, directory = attach(
        me, other.pid, worker, "--args", "prefork_answer(request)", "--json", code=1
    )
    assert len(done.stderr.splitlines()) == 1, repr(done)
    assert done.stderr.startswith(f"iprobe: pid {other.pid}: --args prefork_answer"), repr(done)
    assert [m["pid"] for m in json.loads(done.stdout)["members"]] == [worker]
    memory.assert_untouched(other.pid)
    server.finish()


def test_a_selection_that_matches_nothing(actor, server):
    done, directory = attach(actor, *server.everybody(), "-f", "no_such_function", code=1)
    assert len(done.stderr.splitlines()) == 1, repr(done)
    found = re.match(r"iprobe: 3 processes \((\d+), (\d+), (\d+)\): the selection", done.stderr)
    assert found and {int(pid) for pid in found.groups()} == set(server.everybody()), repr(done)
    assert not directory.exists()
    server.finish()


def test_gaps_are_summed(me, programs, targets):
    """Functions without values, of both processes: one line, with the sum."""
    where = me.dir()
    shutil.copy(programs.simple("prefork", placement="fentry"), where / "whole")
    subprocess.run(["objcopy", "--strip-debug", where / "whole", where / "prefork"], check=True)
    some = [targets.start(me, [where / "prefork"], preload=False) for _ in range(2)]
    done, _ = attach(me, some[0].pid, "--args")
    alone = re.findall(r"iprobe: (\d+) functions recorded without values: no debug", done.stderr)
    assert len(alone) == 1, repr(done)
    done, _ = attach(me, *[target.pid for target in some], "--args")
    both = re.findall(
        r"(\d+) functions recorded without values \(in 2 processes together\): no debug",
        done.stderr,
    )
    assert both == [str(2 * int(alone[0]))], repr(done)
    assert done.stderr.count("without values") == 1, repr(done)
    for target in some:
        memory.assert_untouched(target.pid)
        target.finish()


def test_renewed_calls_are_summed(me, programs, targets):
    """Each process waits with a time limit, in its only thread: what borrows that for a change
    without a stop makes the limit begin anew. There is one line of it, with the sum.
    """
    program = programs.simple("blocked")
    some = [targets.start(me, [program, "epoll_wait_limit"], preload=False) for _ in range(2)]
    for target in some:
        memory.wait_for("does not wait", lambda: is_in_epoll(target.pid))
    done, _ = attach(me, *[target.pid for target in some], "--no-stop", "--json")
    renewed = [m["renewed_calls"] for m in json.loads(done.stdout)["members"]]
    assert len(renewed) == 2 and min(renewed) > 0, repr(done)
    told = re.findall(r"iprobe: (\d+) system calls of 2 processes may time out later", done.stderr)
    assert told == [str(sum(renewed))], repr(done)
    assert done.stderr.count("began anew") == 1, repr(done)
    for target in some:
        memory.assert_untouched(target.pid)
        assert last_words(target.proc).stdout.splitlines()[-1] == "good"


def test_what_is_filtered_is_summed(actor, server):
    words = [*server.workers, "-f", "prefork_tick", "--sample", "3"]
    done, directory = attach(actor, *words)
    assert len(re.findall(r"^iprobe: [\d,]+ events? filtered$", done.stderr, re.M)) == 1, repr(done)
    server.finish()


def test_nothing_filtered_is_not_told(me, programs, targets):
    server = Server(me, programs, targets, placement="fentry")
    worker = server.fork()
    for processes in ([worker], server.everybody()):
        done, _ = attach(me, *processes, "-f", "prefork_answer", "--depth", "9")
        assert "filtered" not in done.stderr, repr(done)
    server.finish()


def test_who_sleeps_is_not_told_where_calls_are_counted(me, programs, targets):
    """The master sleeps, and a worker makes calls, of which there are no events."""
    server = Server(me, programs, targets, placement="fentry")
    server.fork()
    words = [*server.everybody(), "--payload", "hist", "-f", "prefork_answer"]
    proc = me.start_iprobe("attach", *words, "-o", me.dir() / "trace")
    for pid in server.everybody():
        memory.wait_until_live(pid, proc)
    server.go()
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert "300 calls counted" in done.stderr and "no events" not in done.stderr, repr(done)
    server.finish()


JUMPS = """
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int target(int n) { return n + 1; }
int (*volatile next)(int) = target;
__attribute__((noinline)) int jumps(int n) { return next(n); }
int main(void)
{
	puts("ready");
	fflush(stdout);
	for (int n = 0; n < 20000; n = jumps(n))
		usleep(1000);
}
"""


def test_sessions_of_a_service_are_told_once(me, programs, targets):
    """Each process has an iprobe of its own, which is no reason to tell of each."""
    program = programs.simple("serving", placement="fentry")
    pids = [targets.start(me, [program], preload=False).pid for _ in range(3)]
    begun = me.start_iprobe("attach", *pids, "-q", "-o", me.dir() / "first")
    for pid in pids:
        memory.wait_until_live(pid, begun)
    done = me.iprobe("attach", *pids, "-o", me.dir() / "second", "--duration", "1s")
    told = [line for line in done.stderr.splitlines() if "has a session already" in line]
    assert done.returncode == 1 and len(told) == 1, repr(done)
    found = re.match(
        r"iprobe: 3 processes \((.*)\): each has a session already: --duration is .*"
        r"\(iprobe detach ([\d ]+)\)$",
        told[0],
    )
    assert found and {*map(int, found[1].split(", "))} == {*pids}, told
    assert {*map(int, found[2].split())} == {*pids}, told
    begun.send_signal(signal.SIGINT)
    assert begun.wait(60) == 0


def test_tail_calls_are_told_once(me, targets):
    program = compile_with(me, me.dir(), JUMPS, "jumps")
    started = [targets.start(me, [program], preload=False) for _ in range(3)]
    done, _ = attach(me, *(t.pid for t in started), "--payload", "hist", "-f", "jumps,target")
    told = [line for line in done.stderr.splitlines() if "may end by a tail call" in line]
    assert len(told) == 1 and re.match(r"iprobe: pid \d+: jumps ", told[0]), repr(done)
    for target in started:
        memory.assert_untouched(target.pid)


def test_one_member_of_several_is_meant(actor, server):
    """The master's pid alone is its session alone, and the sessions of its workers are named."""
    words = ["attach", "--children", server.pid, "--overwrite", "-q", "-o", actor.dir() / "trace"]
    begun = actor.start_iprobe(*words)
    for pid in server.everybody():
        memory.wait_until_live(pid, begun)
    first, second = server.workers
    whose = f"its session is one of 3 of iprobe {begun.pid}: pids {first}, {second} "
    done = actor.iprobe("snapshot", "-o", actor.dir() / "snap", server.pid)
    assert done.returncode == 0 and whose + "are not in it; --children" in done.stderr, repr(done)
    done = actor.iprobe("detach", "--json", server.pid)
    assert done.returncode == 0 and whose + "go on; --children takes all" in done.stderr, repr(done)
    assert json.loads(done.stdout)["restored"]
    # a worker has none below it; with --children there is nothing to tell
    done = actor.iprobe("detach", first)
    assert done.returncode == 0 and not done.stderr, repr(done)
    done = actor.iprobe("detach", server.pid, "--children")
    assert done.returncode == 0 and "its session is one" not in done.stderr, repr(done)
    last_words(begun)
    server.finish()


def test_sessions_of_other_iprobes_are_not_members(me, programs, targets):
    server = Server(me, programs, targets, placement="fentry")
    server.fork()
    begun = [
        me.start_iprobe("attach", pid, "--overwrite", "-q", "-o", me.dir() / f"trace{pid}")
        for pid in server.everybody()
    ]
    for pid, proc in zip(server.everybody(), begun):
        memory.wait_until_live(pid, proc)
    done = me.iprobe("detach", server.pid)
    assert done.returncode == 0 and not done.stderr, repr(done)
    begun[1].send_signal(signal.SIGINT)
    for proc in begun:
        last_words(proc)
    server.finish()


def test_all_results_beside_some_arguments(me, programs, targets):
    """Plain --retval is that of all functions, whatever --args names: this is said."""
    server = Server(me, programs, targets, placement="fentry")
    worker = server.fork()
    named = "prefork_answer(request)"
    hint = "(--retval 'prefork_answer(retval)' reads those of prefork_answer)"
    for processes in ([worker], server.everybody()):
        done, _ = attach(me, *processes, "--retval", "--args", named)
        assert len(re.findall(r"--retval reads the results of all \d+ functions", done.stderr)) == 1
        assert hint in done.stderr, repr(done)
    for words in (
        ["--retval"],
        ["--retval", "--args"],
        ["--retval", "prefork_answer(retval)", "--args", named],
        ["--retval", "--args", named, "-f", "prefork_answer"],
    ):
        done, _ = attach(me, worker, *words)
        assert "of all" not in done.stderr, repr(done)
    done, _ = attach(me, worker, "--args", "--retval", "prefork_answer(retval)")
    assert "--args reads the arguments of all" in done.stderr, repr(done)
    server.finish()


def test_a_dry_run_counts_as_the_session(me, programs, targets):
    """What is live only since others jump to it is no function of the selection."""
    program = programs.simple("tail_hot")
    target = targets.start(me, [program, "20", "1"], preload=False)
    for selection in ("over", "rare", "*"):
        words = ["-f", selection, "--json"]
        dry = json.loads(attach(me, target.pid, "--dry-run", *words)[0].stdout)
        done = json.loads(attach(me, target.pid, *words)[0].stdout)
        assert (dry["functions"], dry["sites"]) == (done["functions"], done["sites"])
        assert [module["functions"] for module in dry["modules"]] == [done["functions"]]
    assert dry["functions"] > 1
    memory.assert_untouched(target.pid)
    target.proc.kill()


def test_a_late_one_says_when_it_joined(me, programs, targets):
    """The process is there for a while, and then executes the program that was asked for."""
    name = f"iplate{os.getpid() % 10000}"
    first = Server(me, programs, targets, name)
    program = me.dir() / name
    shutil.copy(programs.simple("prefork"), program)
    proc = me.start_iprobe("attach", "--name", name, "-o", me.dir() / "trace")
    memory.wait_until_live(first.pid, proc)
    late = me.popen(["sh", "-c", f"read line; exec {program}"], stdin=subprocess.PIPE)
    time.sleep(0.8)
    late.stdin.write("\n")
    late.stdin.flush()
    memory.wait_until_live(late.pid, proc)
    proc.send_signal(signal.SIGTERM)
    done = last_words(proc)
    found = dict(re.findall(r"pid (\d+): joined ([\d.]+) s after its start: ", done.stderr))
    millis = re.findall(rf"pid {late.pid}: joined (\d+) ms after its start: ", done.stderr)
    after = float(found[str(late.pid)]) if str(late.pid) in found else int(millis[0]) / 1e3
    assert 0.5 <= after < 30, repr(done)
    assert f"pid {first.pid}: joined" not in done.stderr, repr(done)
    memory.assert_untouched(late.pid)
    late.stdin.close()
    late.wait()
    first.finish()


def test_what_all_would_say_is_told_once(actor, server):
    """An item that matches nothing, also in a process that joins; and a change that changes
    nothing."""
    words = ["--children", server.pid, "-f", "prefork_tick,prefork_tikc"]
    proc = actor.start_iprobe("attach", *words, "-o", actor.dir() / "trace")
    for pid in [*server.everybody(), server.fork()]:
        memory.wait_until_live(pid, proc)
    words = ["--children", server.pid, "-f", "prefork_tick"]
    done = actor.iprobe("attach", *words)
    assert done.returncode == 0 and done.stderr.count("as asked for already") == 1, repr(done)
    assert done.stderr.startswith("iprobe: 4 processes ("), repr(done)
    done = actor.iprobe("attach", *words, "--json")
    assert json.loads(done.stdout)["changed"] == 4, repr(done)
    # what one process says stays a line of its own
    done = actor.iprobe("attach", server.pid, "-f", "prefork_tick")
    assert f"pid {server.pid}: its session is as asked for already; it records" in done.stderr
    proc.send_signal(signal.SIGTERM)
    done = last_words(proc)
    assert done.stderr.count("nothing matches prefork_tikc (nearest: prefork_tick") == 1, repr(done)
    server.finish()
