# SPDX-License-Identifier: Apache-2.0
"""
iprobe darc --budget: what a live search costs a process whose functions are called very often, and
that it finds the same.
"""

import json
import signal
import statistics
import time

import pytest

from iptest import memory
from test_darc import causes
from test_darc_live import is_as_on_disk, place  # noqa: F401

# Each 2000th call of serve() sleeps in read_page(). It tells twice a second how many calls it made
# for each second of its CPU time: others that run do not change that.
SOURCE = """
#include <stdio.h>
#include <time.h>

#define FUNC __attribute__((noinline))

static volatile long sink;
FUNC void step_a(void) { for (int i = 0; i < 10; i++) sink += i; }
FUNC void step_b(void) { for (int i = 0; i < 10; i++) sink += i + 1; }
FUNC void read_page(int now)
{
	for (int i = 0; i < 10; i++)
		sink += i + 2;
	if (now)
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}
FUNC void look_up(int now) { step_b(); read_page(now); __asm__ volatile(""); }
FUNC void serve(int now) { step_a(); look_up(now); __asm__ volatile(""); }

static double now_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(void)
{
	double wall = now_of(CLOCK_MONOTONIC), cpu = now_of(CLOCK_PROCESS_CPUTIME_ID);

	for (long i = 1, calls = 0;; i++) {
		serve(i % 2000 == 0);
		calls++;
		if (i % 1000 == 0 && now_of(CLOCK_MONOTONIC) - wall > 0.5) {
			printf("%.0f\\n", calls / (now_of(CLOCK_PROCESS_CPUTIME_ID) - cpu));
			fflush(stdout);
			wall = now_of(CLOCK_MONOTONIC);
			cpu = now_of(CLOCK_PROCESS_CPUTIME_ID);
			calls = 0;
		}
	}
}
"""
SLOW = ("--slower-than", "1500us")


@pytest.fixture
def hot(root):
    """It runs; (its pid, the file that it writes)."""
    folder = root.dir()
    (folder / "hot.c").write_text(SOURCE)
    done = root.run(
        [
            root.builddir / "coldpatch" / "iprobe-cc",
            *("-O2", "-fno-ipa-icf", folder / "hot.c", "-o", folder / "hot"),
        ],
        env={"IPROBE_PLACEMENT": "fentry"},
    )
    assert done.returncode == 0, repr(done)
    with open(folder / "rates", "w", encoding="ascii") as out:
        process = root.popen([folder / "hot"], stdout=out)
    memory.wait_for("it does not run", lambda: rates(folder / "rates"))
    yield process.pid, folder / "rates"
    process.kill()
    process.wait()


def rates(file):
    return [float(line) for line in file.read_text().split()]


def rate_while(file, what):
    """The median of what it has told while that was so."""
    before = len(rates(file))
    what()
    # the first one began earlier
    found = rates(file)[before + 1 :]
    assert len(found) >= 5, found
    return statistics.median(found)


def test_cost(root, hot, place):
    """The budget is kept; without one it would not be."""
    pid, file = hot

    def search(*options):
        done = root.iprobe(
            *("darc", "-q", "-f", "serve", *SLOW, "--decision-ops", "100000000"),
            *(*options, "--duration", "6s", pid),
            env=place,
            timeout=60,
        )
        assert done.returncode == 0, repr(done)

    alone = rate_while(file, lambda: time.sleep(4))
    held = rate_while(file, lambda: search("--budget", "2%"))
    free = rate_while(file, search)
    assert is_as_on_disk(root, pid)
    # what is measured of one program varies on a busy machine, by far more than the budget
    assert held > 0.75 * alone, (alone, held, free)
    assert free < 0.6 * alone, (alone, held, free)


def test_path(root, hot, place):
    """Calls of several times in which probes were live count together."""
    pid, _ = hot
    done = root.iprobe(
        *("darc", "-f", "serve", "--json", *SLOW, "--budget", "5%", pid), env=place, timeout=240
    )
    assert done.returncode == 0, repr(done)
    document = json.loads(done.stdout)
    assert document["state"] == "root cause found", document
    (path,) = {tuple(cause["path"]) for cause in causes(document)}
    assert path == ("serve", "look_up", "read_page"), document["paths"]
    assert is_as_on_disk(root, pid)


def test_ended_while_it_rests(root, hot, place):
    """Every byte is back."""
    pid, _ = hot
    process = root.popen(
        [
            *(root.iprobe_path, "darc", "-q", "-f", "serve", *SLOW, "--budget", "1%"),
            str(pid),
        ],
        env=place,
    )

    def has_looked():
        done = root.iprobe("darc", "--status", "--json", pid)
        return done.returncode == 0 and json.loads(done.stdout).get("calls")

    memory.wait_for("it does not look", has_looked)
    memory.wait_for("it does not rest", lambda: is_as_on_disk(root, pid))
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert is_as_on_disk(root, pid)


def test_refusals(root, hot, place):
    pid, _ = hot
    for budget in ("0%", "101%", "2", "x%", "-1%", "nan%", ""):
        done = root.iprobe("darc", "-f", "serve", "--budget", budget, pid, env=place)
        assert done.returncode == 2 and "--budget" in done.stderr, (budget, done)
    done = root.iprobe("darc", "-f", "serve", "--budget", "2%", root.dir())
    assert done.returncode == 2 and "goes with a PID or a command" in done.stderr, done
