# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel by an iprobed whose policy gives them: a program whose calls are known, and
what no trace of a user may have.
"""

import os
import re

import pytest

from . import kernel_streams, memory
from .actor import ORDINARY_UID, OTHER_UID
from .daemon_fixtures import POLICY

WITHOUT_NAMES = "are numbers in the events of the kernel, without names"
ALLOWS = f"{POLICY}kernel:\n  users: [{ORDINARY_UID}]\n"

# MODE: "own" makes calls with the number 0x600d; at a line "exec" a child of it executes FILE with
# "strange", which makes calls with 0x5ec2e7 and has threads that wake each other; at "become" it
# executes FILE itself. "busy": the same calls all the time.
SOURCE = """
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned sink;
__attribute__((noinline)) static void work(long number)
{
	for (unsigned i = 0; i < 20000; i++)
		sink += i;
	syscall(SYS_getpgid, number);
}

static int ends[2];
static void *echo(void *data)
{
	char byte;
	while (read(ends[0], &byte, 1) == 1)
		work(0x5ec2e7);
	return data;
}

static void strange(void)
{
	pthread_t thread;
	prctl(PR_SET_NAME, "secret-thread");
	if (pipe(ends) || pthread_create(&thread, 0, echo, 0))
		return;
	for (;;) {
		if (write(ends[1], "x", 1) != 1)
			return;
		work(0x5ec2e7);
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	char line[16];
	struct pollfd p = {.fd = 0, .events = POLLIN};
	if (argc < 2)
		return 2;
	puts("ready");
	fflush(stdout);
	if (!strcmp(argv[1], "strange"))
		strange();
	for (;;) {
		work(0x600d);
		if (poll(&p, 1, 1) != 1)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		if (!strcmp(line, "become\\n"))
			execl(argv[2], argv[2], "strange", (char *)0);
		if (!strcmp(line, "exec\\n") && fork() == 0) {
			execl(argv[2], argv[2], "strange", (char *)0);
			_exit(1);
		}
	}
}
"""


def skip_without_events(root):
    said = next(
        line for line in root.iprobe("doctor").stdout.splitlines() if "kernel events" in line
    )
    if "can be recorded" not in said:
        pytest.skip(" ".join(said.split()))
    if not os.path.ismount("/sys/kernel/tracing"):
        pytest.skip("tracefs is not mounted")


@pytest.fixture
def allowing(daemon, root):
    skip_without_events(root)
    daemon.policy.write_text(ALLOWS)
    return daemon


@pytest.fixture
def calling(root):
    """A program that is built with probes."""
    folder = root.dir()
    (folder / "standing.c").write_text(SOURCE)
    path = folder / "standing-calls"
    done = root.run(
        [
            root.builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-pthread",
            folder / "standing.c",
            "-o",
            path,
        ]
    )
    assert done.returncode == 0, repr(done)
    folder.chmod(0o755)
    return path


@pytest.fixture
def setuid(root, calling):
    copy = root.dir() / "standing-setuid"
    copy.write_bytes(calling.read_bytes())
    os.chown(copy, OTHER_UID, OTHER_UID)
    copy.chmod(0o4755)
    copy.parent.chmod(0o755)
    if os.statvfs(copy).f_flag & os.ST_NOSUID:
        pytest.skip("set-user-ID programs have no effect here (nosuid)")
    return copy


def threads_of(pid):
    return {int(tid) for tid in os.listdir(f"/proc/{pid}/task")}


def numbers(events):
    return {
        event["fields"]["pid"] for event in events if event["event"] == "syscall_entry_getpgid"
    }


def check_nobody_else(trace, own, within="."):
    """Neither ids nor names of others, in no file of the trace, or of a part of it."""
    events = kernel_streams.read(trace)
    foreign = {
        tid for tid in kernel_streams.ids(events) if tid and tid < kernel_streams.OTHER
    } - own
    assert not foreign, foreign
    for path in (trace / within).rglob("*"):
        assert not path.is_file() or b"secret-thread" not in path.read_bytes(), path
    idle_threads = {f"swapper/{cpu}" for cpu in range(os.cpu_count())}
    known = {"another process", "standing-calls"} | idle_threads
    assert kernel_streams.names(events) <= known, kernel_streams.names(events)
    return events


def instances(daemon):
    """Of all readers that an iprobed has started."""
    started = set(re.findall(r"reader of kernel events (\d+)", daemon.log()))
    assert started
    there = os.listdir("/sys/kernel/tracing/instances")
    return {name for name in there if name.startswith("iprobe-") and name.split("-")[1] in started}


def until_no_instance(daemon):
    memory.wait_for("an instance stays", lambda: not instances(daemon), 30)
