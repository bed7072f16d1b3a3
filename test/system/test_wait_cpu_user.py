# SPDX-License-Identifier: Apache-2.0
"""iprobe wait --of: who had the CPU that a thread waited for, however the wait began."""

import os
import re
import subprocess

from test_wait import skip_without_events

# its function sleeps and computes, on a CPU that another process keeps busy: it waits for the CPU
# when it is woken, and when the CPU is taken away from it
SOURCE = """
#include <time.h>
#include <unistd.h>

static volatile unsigned sink;
__attribute__((noinline)) static void work(void)
{
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		for (unsigned k = 0; k < 3000000; k++)
			sink += k;
	}
}

int main(void)
{
	for (int i = 0; i < 3; i++)
		work();
}
"""


def test_each_wait_has_one(root):
    skip_without_events(root)
    folder = root.dir()
    source, program = folder / "works.c", folder / "works"
    source.write_text(SOURCE)
    done = root.run([root.builddir / "coldpatch" / "iprobe-cc", "-O2", source, "-o", program])
    assert done.returncode == 0, repr(done)
    cpu = str(min(os.sched_getaffinity(0)))
    with subprocess.Popen(["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]) as busy:
        try:
            done = root.iprobe(
                *("run", "-q", "--kernel", "-o", folder / "trace", "--"),
                *("taskset", "-c", cpu, program),
            )
        finally:
            busy.kill()
    assert done.returncode == 0, repr(done)
    done = root.iprobe("wait", "--of", "work", folder / "trace")
    assert done.returncode == 0, repr(done)
    waits = re.findall(r"waiting for a CPU.*", done.stdout)
    assert waits, done.stdout
    for wait in waits:
        assert re.search(r", (which|the longest time when) .* had", wait), done.stdout
