# SPDX-License-Identifier: Apache-2.0
"""
How much address space and memory iprobe takes of a process that it attaches to: little at first,
more while a session needs it, and what of it is given back at the end, and by detach --remove.
"""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import memory

MIB = 1 << 20
LEAST = 32 * MIB  # what the first attach may take of the address space
TABLES = 57 * MIB
RINGS = 64 * MIB  # what is left to --memory

SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) long leaf(long n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
__attribute__((no_instrument_function)) static void *work(void *rounds)
{
	long sum = 0;
	for (long i = 0; i < (long)rounds; i++) sum += leaf(i) - i;
	return (void *)sum;
}
__attribute__((no_instrument_function)) int main(void)
{
	char line[64];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		pthread_t threads[4];
		long n = atol(line);
		for (int i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, work, (void *)n)) return 1;
		for (int i = 0; i < 4; i++) {
			void *sum;
			if (pthread_join(threads[i], &sum) || (long)sum != n) return 2;
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
"""


def size_of(pid, key="VmSize"):
    return int(memory.status_field(pid, key).split()[0]) * 1024


def limit(pid, more):
    """Lets the address space grow by so much, and no further."""
    subprocess.run(["prlimit", "--pid", str(pid), f"--as={size_of(pid) + more}:"], check=True)


# A signal handler interrupts a hook, in memory that no file is mapped to, and stays there.
HELD = """
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#define UNWATCHED __attribute__((no_instrument_function))
__attribute__((noinline)) long leaf(long n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
static struct { unsigned long from, to; } code[16];
static volatile int ncode, held, go, stop, spins;
static int door[2];
UNWATCHED static void find_code(void)
{
	char line[512], perms[8];
	unsigned long from, to, inode;
	FILE *maps = fopen("/proc/self/maps", "r");
	int n = 0;
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &from, &to, perms, &inode) == 4 &&
		    perms[2] == 'x' && !inode && !strchr(line, '[') && n < 16) {
			code[n].from = from;
			code[n++].to = to;
		}
	fclose(maps);
	ncode = n;
}
UNWATCHED static void handler(int signal, siginfo_t *info, void *context)
{
	unsigned long pc = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	char byte;
	(void)signal;
	(void)info;
	for (int i = 0; i < ncode && !held; i++)
		if (pc - code[i].from < code[i].to - code[i].from) {
			held = 1;
			if (spins)
				while (!go);
			else if (read(door[0], &byte, 1) != 1)
				_exit(9);
		}
}
UNWATCHED static void *work(void *altstack)
{
	stack_t alt = {.ss_sp = malloc(65536), .ss_size = 65536};
	long sum = 0;
	if (altstack && sigaltstack(&alt, NULL)) _exit(8);
	for (long i = 0; !stop; i++) sum += leaf(i) - i - 1;
	return (void *)sum;
}
UNWATCHED int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	char line[64];
	pthread_t thread;
	void *sum;
	int alt = argc > 1 && !strcmp(argv[1], "alt");
	spins = argc > 1 && !strcmp(argv[1], "spin");
	action.sa_flags |= alt ? SA_ONSTACK : 0;
	if (pipe(door) || sigaction(SIGUSR1, &action, NULL) ||
	    pthread_create(&thread, NULL, work, alt ? argv : NULL)) return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (line[0] == 'h') {
			find_code();
			for (held = 0; !held; usleep(50)) pthread_kill(thread, SIGUSR1);
		} else {
			go = 1;
			if (!spins && write(door[1], "", 1) != 1) return 2;
		}
		puts("done");
		fflush(stdout);
	}
	stop = 1;
	return pthread_join(thread, &sum) || sum;
}
"""


def compiled(me, source):
    folder = me.dir()
    (folder / "counted.c").write_text(source)
    done = me.run(
        [me.builddir / "coldpatch" / "iprobe-cc", "-O2", "-pthread", "counted.c", "-o", "counted"],
        cwd=folder,
    )
    assert done.returncode == 0, repr(done)
    return folder / "counted"


@pytest.fixture
def counted(me, targets):
    target = targets.start(me, [compiled(me, SOURCE)], preload=False)
    target.say("1")  # the C library keeps the stacks of threads
    assert target.proc.stdout.readline() == "done\n"
    return target


def begin(me, target, *options):
    session = me.start_iprobe(
        "attach", target.pid, "--json", "-f", "leaf", "-o", me.dir() / "trace", *options
    )
    memory.wait_until_live(target.pid, session)
    return session


def end(session):
    session.send_signal(signal.SIGINT)
    done = actors.last_words(session)
    assert done.returncode == 0, repr(done)
    return done


def call(target, n):
    """n calls in each of four threads."""
    target.say(str(n))
    assert target.proc.stdout.readline() == "done\n"


def record(me, target, n, *options):
    session = begin(me, target, *options)
    call(target, n)
    return end(session).summary()


def await_return(me, target, is_back):
    """On a machine that is busy the end of a session may be over before all threads were seen
    outside of hooks: then a detach looks again."""

    def is_back_by_now():
        if is_back():
            return True
        done = me.iprobe("detach", target.pid)
        assert done.returncode == 0, repr(done)
        return False

    memory.wait_for("address space is not given back", is_back_by_now, step=0.05)


def given_back(me, target, most):
    """Waits until the address space is back."""
    await_return(me, target, lambda: size_of(target.pid) <= most)


def window(pid):
    """Bytes of the area that are mapped."""
    return sum(m.end - m.start for m in memory.mappings(pid) if "memfd:iprobe" in m.path)


def places(pid):
    return [(m.start, m.end, m.perms) for m in memory.mappings(pid)]


def finish(target):
    target.proc.stdin.close()
    assert target.proc.wait(timeout=60) == 0


def test_no_more_with_each_session(me, programs, targets):
    """Threads that compute are in hooks at the moment of most detaches."""
    target = targets.steady(me, programs.simple("steady"))
    before = size_of(target.pid)
    resident = size_of(target.pid, "VmRSS")
    kinds = [[], ["--payload", "hist"], ["--sample", "2"], ["--memory", "4M"], ["--overwrite"]]
    for i in range(50):
        done = me.iprobe(
            "attach", target.pid, "-f", "step_1*", "--duration", "5ms", *kinds[i % len(kinds)]
        )
        assert done.returncode == 0, repr(done)
        given_back(me, target, before + LEAST + MIB)
    assert size_of(target.pid, "VmRSS") - resident <= 3 * MIB
    memory.assert_untouched(target.pid)
    finish(target)


def test_a_burst_is_not_lost(me, counted):
    """As many events as the rings were promised to hold come while iprobe gets no CPU. Afterwards
    the rings are given back, while they were mapped they were all there."""
    before = size_of(counted.pid)
    n = 150_000
    for _ in range(2):
        session = begin(me, counted)
        assert window(counted.pid) >= 64 * MIB
        # it allocates the rings in the first milliseconds
        memory.wait_for("the rings do not grow", lambda: blocks(counted.pid) > 60 * MIB)
        memory.freeze(session.pid)
        call(counted, n)
        memory.thaw(session.pid)
        done = end(session).summary()
        assert (done["events"], done["lost"]) == (8 * n, 0), done
        given_back(me, counted, before + LEAST)
        assert blocks(counted.pid) < 2 * MIB
    finish(counted)


def blocks(pid):
    """Bytes that the area's file takes."""
    with memory.ring_memory(pid) as ring:
        return os.fstat(ring.fileno()).st_blocks * 512


def test_what_a_session_needs(me, counted):
    before = size_of(counted.pid)
    for options, least, most in [
        (["--memory", "4M"], 0, LEAST),
        ([], 32 * MIB, LEAST + RINGS),
        (["--payload", "count", "--memory", "4M"], TABLES, LEAST + TABLES + 2 * RINGS),
        (["--sample", "10", "--memory", "4M"], TABLES, LEAST + TABLES),
        (["--overwrite", "--memory", "128M"], 120 * MIB, LEAST + 128 * MIB),
    ]:
        session = begin(me, counted, *options)
        added = size_of(counted.pid) - before
        assert least <= added <= most, options
        call(counted, 1000)
        end(session)
        given_back(me, counted, before + LEAST)
    finish(counted)


def test_rings_of_the_usual_size_are_too_large(me, counted):
    """The user has not asked for them: it is recorded with less, and says so."""
    limit(counted.pid, 40 * MIB)
    for _ in range(2):
        session = begin(me, counted)
        call(counted, 1000)
        done = end(session)
        assert done.summary()["events"] == 8000
        assert re.search(r"address space.*with rings of 1\d\.?\d* MiB", done.stderr), repr(done)
        assert len(done.stderr.splitlines()) == 1
        await_return(me, counted, lambda: window(counted.pid) < 18 * MIB)
    finish(counted)


@pytest.mark.parametrize(
    "options",
    [
        ("--memory", "64M"),
        ("--overwrite", "--memory", "128M"),
        ("--payload", "hist"),
        ("--sample", "10"),
    ],
    ids=["log", "overwrite", "hist", "sample"],
)
def test_a_limit_that_is_too_low(me, counted, options):
    """Nothing is live, nothing half done; what needs less still works, and so does this later."""
    limit(counted.pid, 40 * MIB)
    for first in (True, False):
        before = places(counted.pid)
        line = actors.one_line(
            me.iprobe("attach", counted.pid, "-f", "leaf", "-o", me.dir() / "trace", *options)
        )
        assert re.search(r"address space.*--memory|--memory.*limit", line), line
        # a runtime that has been put there stays, asleep or awake
        await_return(me, counted, lambda: window(counted.pid) < 18 * MIB)
        assert places(counted.pid) == before or first
        memory.assert_untouched(counted.pid)
        assert record(me, counted, 100, "--memory", "8M")["events"] == 800
    subprocess.run(["prlimit", "--pid", str(counted.pid), "--as=unlimited:"], check=True)
    record(me, counted, 100, *options)
    memory.assert_untouched(counted.pid)
    finish(counted)


def test_a_limit_that_the_runtime_does_not_fit_in(me, counted):
    limit(counted.pid, 16 * MIB)
    before = places(counted.pid)
    line = actors.one_line(me.iprobe("attach", counted.pid, "-o", me.dir() / "trace"))
    assert "limit on address space" in line and "prlimit --as" in line
    assert places(counted.pid) == before
    limit(counted.pid, LEAST)
    assert record(me, counted, 100, "--memory", "8M")["events"] == 800
    finish(counted)


def test_remove(me, counted):
    """What stays is the runtime itself; the next session finds its way from there."""
    before = size_of(counted.pid)
    numbers = set()
    for options in ([], ["--payload", "count"], ["--retval"]):
        record(me, counted, 1000, *options)
        done = me.iprobe("detach", "--remove", "--json", counted.pid)
        assert done.returncode == 0, repr(done)
        assert json.loads(done.stdout)["removed_bytes"] >= 17 * MIB
        assert window(counted.pid) == 0
        assert size_of(counted.pid) - before <= 2 * MIB
        numbers.add(len(memory.mappings(counted.pid)))
        again = me.iprobe("detach", "--remove", counted.pid)
        assert again.returncode == 0 and "0 B of address space" in again.stdout, repr(again)
        assert me.iprobe("status", counted.pid).returncode == 0
        assert "without ring memory" in me.iprobe("doctor", counted.pid).stdout
    assert len(numbers) == 1
    assert record(me, counted, 1000)["events"] == 8000
    memory.assert_untouched(counted.pid)
    finish(counted)


def test_remove_what_was_not_put_there(me, programs, targets):
    """A runtime that the program has loaded itself has all of the area mapped from the start."""
    target = targets.steady(me, programs.simple("steady"), preload=True)
    for _ in range(2):
        done = me.iprobe("attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace")
        assert done.returncode == 0, repr(done)
        done = me.iprobe("detach", "--remove", target.pid)
        assert done.returncode == 0 and "since the program has loaded" in done.stdout, repr(done)
        assert window(target.pid) == 0
    finish(target)


@pytest.mark.parametrize("how", ["wait", "alt", "spin"])
def test_a_hook_in_flight(me, targets, how):
    """A thread has stood in a hook since before the session's end, below a signal handler: what it
    may use stays, until it has gone on and iprobe looks again."""
    target = targets.start(me, [compiled(me, HELD), how], preload=False)
    session = begin(me, target)
    target.say("hold")
    assert target.proc.stdout.readline() == "done\n"
    end(session)
    whole = window(target.pid)
    assert whole >= 64 * MIB
    memory.assert_untouched(target.pid)
    line = actors.one_line(me.iprobe("detach", "--remove", target.pid))
    assert "may be in a hook yet" in line and "nothing is removed" in line
    done = me.iprobe("detach", "--remove", "--json", target.pid)
    told = json.loads(done.stdout)
    assert done.returncode == 1 and (told["restored"], told["removed_bytes"]) == (0, 0), repr(done)
    assert "nothing is removed" in told["error"] and told["error"] in done.stderr
    # another session records meanwhile, and ends
    session = begin(me, target)
    end(session)
    assert window(target.pid) == whole
    target.say("go")
    assert target.proc.stdout.readline() == "done\n"
    await_return(me, target, lambda: window(target.pid) < 18 * MIB)
    done = me.iprobe("detach", "--remove", target.pid)
    assert done.returncode == 0, repr(done)
    assert window(target.pid) == 0
    done = me.iprobe("attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace")
    assert done.returncode == 0, repr(done)
    finish(target)


BUSY = """
#include <stdio.h>
__attribute__((noinline)) long leaf(long n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
__attribute__((no_instrument_function)) int main(void)
{
	puts("ready");
	fflush(stdout);
	for (long i = 0;; i++)
		if (leaf(i) != i + 1) return 1;
}
"""


def test_all_threads_compute(me, targets):
    """The only thread is in a hook most of the time while it is recorded, and never waits."""
    target = targets.start(me, [compiled(me, BUSY)], preload=False)
    before = size_of(target.pid)
    for _ in range(3):
        done = me.iprobe(
            "attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace", timeout=60
        )
        assert done.returncode == 0, repr(done)
        given_back(me, target, before + LEAST)
    done = me.iprobe("detach", "--remove", target.pid)
    assert done.returncode == 0 and window(target.pid) == 0, repr(done)
    assert target.alive()


def test_a_session_that_fails(me, counted):
    """It has mapped more before it fails; nothing of that stays."""
    (me.dir() / "file").write_text("")
    before = size_of(counted.pid)
    record(me, counted, 100)
    given_back(me, counted, before + LEAST)
    before = size_of(counted.pid)
    done = me.iprobe("attach", counted.pid, "-f", "leaf", "-o", me.dir() / "file" / "trace")
    assert done.returncode == 1, repr(done)
    given_back(me, counted, before)
    finish(counted)


def test_remove_ends_a_session(me, counted):
    session = begin(me, counted)
    call(counted, 1000)
    done = me.iprobe("detach", "--remove", counted.pid)
    assert done.returncode == 0, repr(done)
    ended = actors.last_words(session)
    assert ended.returncode == 0 and ended.summary()["events"] == 8000, repr(ended)
    assert window(counted.pid) == 0
    finish(counted)


def test_a_child_is_not_touched(me, programs, targets):
    """A followed child keeps what it shares when its parent gives the memory back; after its own
    end the parent is recorded as before."""
    server = targets.start(me, [programs.simple("prefork")], preload=False)
    before = size_of(server.pid)
    for _ in range(2):
        session = me.start_iprobe(
            "attach", server.pid, "--json", "--follow-fork", "-o", me.dir() / "trace"
        )
        memory.wait_until_live(server.pid, session)
        server.say("fork")
        child = int(server.proc.stdout.readline())
        server.say("go 100")
        server.proc.stdout.readline()
        end(session)
        given_back(me, server, before + LEAST)
        memory.assert_untouched(child)
        done = me.iprobe("detach", "--remove", server.pid)
        assert done.returncode == 0, repr(done)
        done = me.iprobe("attach", child, "--duration", "10ms", "-o", me.dir() / "trace")
        assert done.returncode == 0, repr(done)
    server.finish()


def requests(me, command):
    """How many ptrace requests a command makes."""
    log = me.dir() / "strace"
    done = me.run(["strace", "-f", "-o", log, "--trace=ptrace", *command])
    assert done.returncode == 0, repr(done)
    return sum("ptrace(" in line for line in log.read_text().splitlines())


def killed_at(me, command, when):
    """Whether it was still at work when it was killed at that ptrace request."""
    done = me.run(
        ["strace", "-f", "-o", me.dir() / "strace", "--trace=ptrace"]
        + [f"--inject=ptrace:signal=SIGKILL:when={when}", *command]
    )
    time.sleep(0.12)  # a borrowed thread goes back by itself (runtime_wake.h, step 10)
    return done.returncode != 0


def choose(count, tries):
    """Numbers of requests: all of them with IPROBE_TEST_FULL, else some."""
    numbers = list(range(1, count + 1))
    full = os.environ.get("IPROBE_TEST_FULL") == "1"
    return numbers if full else numbers[:: max(1, count // tries)]


def attach_to(me, pid, *options):
    return [me.iprobe_path, "attach", pid, "-f", "step_1*", "--duration", "5ms", *options] + [
        "-o",
        me.dir() / "trace",
    ]


def test_killed_while_it_grows_or_gives_back(me, programs, targets):
    """At ptrace requests of a whole session of a process whose threads compute: its area grows and
    is given back. The next session works, and nothing more is mapped after it."""
    target = targets.steady(me, programs.simple("steady"), preload=False)
    before = size_of(target.pid)
    hist = attach_to(me, target.pid, "--payload", "hist")
    assert me.run(attach_to(me, target.pid)).returncode == 0
    least, reached = before + LEAST, 0
    for when in choose(requests(me, hist), 8):
        reached += killed_at(me, hist, when)
        target.wait_for_progress()
        done = me.run(hist)
        assert done.returncode == 0, f"ptrace number {when}: {done!r}"
        given_back(me, target, least + MIB)
        memory.assert_untouched(target.pid)
    assert reached >= 4
    finish(target)


def test_killed_while_it_removes(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"), preload=False)
    before, reached = size_of(target.pid), 0
    remove = [me.iprobe_path, "detach", "--remove", target.pid]
    assert me.run(attach_to(me, target.pid)).returncode == 0
    count = requests(me, remove)
    for when in choose(count, 8):
        assert me.run(attach_to(me, target.pid)).returncode == 0
        reached += killed_at(me, remove, when)
        target.wait_for_progress()
        # killed later, it has been removed, and this makes it anew
        if when % 2:
            done = me.run(attach_to(me, target.pid))
            assert done.returncode == 0, f"ptrace number {when}: {done!r}"
        done = me.run(remove)
        assert done.returncode == 0, f"ptrace number {when}: {done!r}"
        assert size_of(target.pid) - before <= 2 * MIB, when
        memory.assert_untouched(target.pid)
    assert reached >= 4
    finish(target)
