# SPDX-License-Identifier: Apache-2.0
"""Looking at a process that is in the midst of execve(2): its program is known already, and not
all of it is mapped yet.
"""

import os
import subprocess
import sys

from iptest import memory

TRIES = 12
# What it executes gets hardly any CPU, beside a loop on the same one.
START = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_while_it_is_mapped(me, programs):
    program = programs.simple("steady", placement="fentry")
    cpu = max(os.sched_getaffinity(0))
    hog = subprocess.Popen(
        [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"]
    )
    try:
        for _ in range(TRIES):
            proc = subprocess.Popen(
                [
                    sys.executable,
                    "-S",
                    "-c",
                    START,
                    str(cpu),
                    program,
                    "-t",
                    "1",
                    "-b",
                    me.dir() / "beats",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                memory.wait_for(
                    "it does not start",
                    lambda pid=proc.pid: os.readlink(f"/proc/{pid}/exe") == str(program),
                    120,
                    0.0002,
                )
                done = me.iprobe("attach", "--dry-run", "-f", "*", proc.pid)
                assert done.returncode == 0 and proc.poll() is None, (proc.poll(), repr(done))
            finally:
                proc.kill()
                proc.stdin.close()
                proc.wait()
    finally:
        hog.kill()
        hog.wait()
