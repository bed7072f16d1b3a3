# SPDX-License-Identifier: Apache-2.0
"""Programs that are fed one unit of work after the other, and windows in which fperf counts there.

Each unit of a program's work is the same: the same input, from the same state. The program gets one
unit, and the next one when it waits for it again. While it waits, the kernel knows its CPU time
exactly (/proc/PID/schedstat). The windows of fperf --alternate end while it waits, too: no unit is
fed where a window is about to end.

What else runs on the machine must not count. The program has the last CPU for itself, and who feeds
it and fperf have the others. All three come before other processes where that may be had
(CAP_SYS_NICE): the program and who feeds it by SCHED_FIFO, fperf by its nice value.

A virtual machine's CPU may be one half of a core, and whoever has the other half on the host takes
a third of its speed, for tenths of a second. So between two units a meter runs on the same CPU: a
loop that is always as long, without probes, while the program waits. Units beside which the meter
was slow are left out. fperf has no part in that choice: it runs on another core. ('clean' tells how
many units stay, with fperf and without it.)
"""

import array
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import termios
import time
from pathlib import Path
from statistics import fmean

import bench
import programs

CPUS = os.sched_getaffinity(0)
FPERF = bench.BUILD / "cli" / "fperf"
WINDOW_S = 0.2
ENDS_S = 0.002  # before a window ends no unit begins
ENDLESS_S = 30  # no window is so late
REST_S = 0.02  # of a line that is not whole yet
WARM_UP = 10  # units
SKIPPED = 2  # windows at the start of fperf
PIPE = 1 << 20
PAGE = 4096
POLL_S = 2e-4
SLOW = 1.08  # times the fastest tenth, and the meter is slow
CLEAN_LEAST = 2  # units of a window

LUA = """
local words, sum = {}, 0
local function word(i) return string.format("%06d", (i * 7919) % 1000) end
while io.read("l") do
  for _ = 1, 100 do
    for i = 1, 200 do words[i] = word(i) end
    table.sort(words)
    for w in table.concat(words, ","):gmatch("%d+") do sum = sum + #w end
    io.write("x") io.flush()
  end
  collectgarbage()
end
"""

SQL = """
#include <stdio.h>
#include <unistd.h>
#include "sqlite3.h"
int main(void)
{
	sqlite3 *db;
	char c;
	sqlite3_open(":memory:", &db);
	sqlite3_exec(db, "create table t(a integer primary key, b text); create index i on t(b)",
		     0, 0, 0);
	while (read(0, &c, 1) == 1)
		for (unsigned n = 0; n < 600; n++) {
			char sql[200];
			snprintf(sql, sizeof(sql),
				 "insert or replace into t values(%u, '%x');"
				 " select count(*) from t where b like '%x%%'",
				 n % 300, n % 300 * 2654435761u, n % 16);
			sqlite3_exec(db, sql, 0, 0, 0);
			if (write(1, "x", 1) < 0)
				return 1;
		}
}
"""

# The same beginning of two games. The cache and the random numbers begin anew, too.
GTP = """
set_random_seed 1
clear_cache
clear_board
boardsize 5
play black c3
reg_genmove white
play white b2
reg_genmove black
clear_board
boardsize 7
play black d4
play white c3
reg_genmove black
"""

# A unit takes twenty loops of so many rounds, and 1 % more where it is an y.
PLANTED = """
#include <unistd.h>
__attribute__((noinline)) static void rounds(volatile unsigned long *sum, unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		*sum += i ^ (i << 7);
}
int main(void)
{
	volatile unsigned long sum = 0;
	char c;
	while (read(0, &c, 1) == 1)
		for (int i = 0; i < 20; i++)
			rounds(&sum, c == 'y' ? 1212000 : 1200000);
}
"""

# What slows down most where another thread has a part of the core: independent operations.
METER = """
#include <unistd.h>
int main(void)
{
	unsigned long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
	char byte;
	while (read(0, &byte, 1) == 1)
		for (int i = 0; i < 250000; i++) {
			a += a << 1, b ^= b >> 3, c += c << 5;
			d ^= d >> 7, e += e << 1, f ^= f << 1;
			__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
		}
}
"""

BLOCK = 99981  # the bytes of bzip2's blocks with -1: each unit is whole blocks
FRAMES = 5  # of a unit, which is one group of pictures
FRAME = 176 * 144 * 3 // 2
MEMBERS = 5  # of a unit of lzip


class Program:
    """What to run, what to feed it, and how many bytes it writes for a unit (None: its input paces
    it; else it is paced by its output, since it reads ahead).
    """

    def __init__(self, command, unit=b"", written=None):
        self.command, self.unit, self.written = [str(word) for word in command], unit, written

    def save(self, folder):
        (folder / "unit").write_bytes(self.unit)
        (folder / "command.json").write_text(
            json.dumps({"command": self.command, "written": self.written}), encoding="utf-8"
        )

    @classmethod
    def load(cls, folder):
        """What was saved there; None: nothing was."""
        if not (folder / "command.json").exists():
            return None
        saved = json.loads((folder / "command.json").read_text(encoding="utf-8"))
        return cls(saved["command"], (folder / "unit").read_bytes(), saved["written"])


def bzip2(folder, cc, _):
    tree = programs.source("bzip2", folder)
    programs.make(tree, "bzip2", f"CC={cc}")
    text = programs.text(folder / "text", 150000).read_bytes()[:BLOCK]
    return Program([tree / "bzip2", "-1c"], 2 * text)


def lua(folder, cc, _):
    tree = programs.source("lua5.4", folder)
    programs.make(tree, "generic", f"CC={cc} -std=gnu99")
    (folder / "fed.lua").write_text(LUA, encoding="ascii")
    return Program([tree / "src" / "lua", folder / "fed.lua"], b"\n")


def gnugo(folder, cc, _):
    tree = programs.source("gnugo", folder)
    programs.configure(
        tree, "--without-readline", "--without-curses", env=[f"CC={cc}", "CFLAGS=-O2 -fcommon"]
    )
    programs.make(tree)
    options = ["--mode", "gtp", "--level", "1", "--seed", "1", "--cache-size", "8"]
    return Program([tree / "interface" / "gnugo", *options], GTP.encode())


def sqlite3(folder, cc, _):
    tree = programs.source("sqlite3", folder)
    if not shutil.which("tclsh"):
        raise programs.Missing("tcl is not installed, which makes sqlite3.c")
    programs.configure(tree, "--disable-tcl", "--disable-readline")
    bench.run(["make", "sqlite3.c"], cwd=tree)
    (tree / "fed.c").write_text(SQL, encoding="ascii")
    options = ["-O2", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-I."]
    bench.run([cc, *options, "fed.c", "sqlite3.c", "-lm", "-o", "fed"], cwd=tree)
    return Program([tree / "fed"], b"x")


def x264(folder, cc, _):
    work = programs.x264(folder, cc, None)(0.2).command
    pictures = ["--keyint", FRAMES, "--min-keyint", FRAMES, "--scenecut", "0", "--demuxer", "raw"]
    return Program([*work[:-1], *pictures, "-"], Path(work[-1]).read_bytes()[: FRAMES * FRAME])


def lzip(folder, _, cxx):
    """One small file after the other, which is always the same."""
    tree = programs.source("lzip", folder)
    programs.configure(tree, f"CXX={cxx}")
    programs.make(tree)
    text = programs.text(folder / "text", 30000)
    bench.run([tree / "lzip", "-1kf", text])
    size = (folder / "text.lz").stat().st_size
    return Program([tree / "lzip", "-1kc", *[text] * 30000], written=MEMBERS * size)


def planted(folder, cc, _):
    (folder / "planted.c").write_text(PLANTED, encoding="ascii")
    bench.run([cc, "-O2", "planted.c", "-o", "planted"], cwd=folder)
    return Program([folder / "planted"], b"x")


def meter(folder):
    (folder / "meter.c").write_text(METER, encoding="ascii")
    bench.run([bench.CC, "-O2", "meter.c", "-o", "meter"], cwd=folder)
    return Program([folder / "meter"], b"x")


PROGRAMS = {
    "bzip2": bzip2,
    "gnugo": gnugo,
    "lua": lua,
    "sqlite3": sqlite3,
    "x264": x264,
    "lzip": lzip,
}


def before_others():
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def to_last_cpu():
    os.sched_setaffinity(0, {max(CPUS)})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def to_other_cpus():
    os.sched_setaffinity(0, CPUS - {max(CPUS)} or CPUS)


def to_fperf():
    to_other_cpus()
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


class Fed:
    """A process of a Program. It runs while it is fed only."""

    def __init__(self, program):
        self.program, self.paced = program, program.written is not None
        self.process = subprocess.Popen(
            program.command,
            stdin=subprocess.DEVNULL if self.paced else subprocess.PIPE,
            stdout=subprocess.PIPE if self.paced else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            preexec_fn=to_last_cpu,
        )
        self.pipe = (self.process.stdout if self.paced else self.process.stdin).fileno()
        fcntl.fcntl(self.pipe, fcntl.F_SETPIPE_SZ, PAGE if self.paced else PIPE)
        self.pid, self.lasts_s = self.process.pid, 0.0
        self.schedstat = open(f"/proc/{self.pid}/schedstat", encoding="ascii")
        self.stat = open(f"/proc/{self.pid}/stat", encoding="utf-8", errors="replace")

    def __enter__(self):
        to_other_cpus()
        before_others()
        self.wait()
        for _ in range(WARM_UP):
            self.step()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for file in (self.schedstat, self.stat, self.process.stdin, self.process.stdout):
            if file:
                file.close()

    def cpu_s(self):
        self.schedstat.seek(0)
        return int(self.schedstat.read().split()[0]) / 1e9

    def waits(self):
        """Whether it has done all, and sleeps."""
        size = array.array("i", [0])
        fcntl.ioctl(self.pipe, termios.FIONREAD, size)
        if bool(size[0]) != self.paced:
            return False
        self.stat.seek(0)
        return self.stat.read().rpartition(")")[2].split()[0] == "S"

    def wait(self):
        while not self.waits():
            if self.process.poll() is not None:
                bench.fail(f"{self.program.command[0]} ended by itself: {self.process.returncode}")
            time.sleep(POLL_S)

    def step(self, unit=None):
        """Feeds a unit, and returns the CPU time that it has taken, in seconds."""
        cpu, wall = self.cpu_s(), time.monotonic()
        if self.paced:
            left = self.program.written
            while left:
                left -= len(os.read(self.pipe, left)) or bench.fail(
                    f"{self.program.command[0]} ended by itself"
                )
        else:
            unit = unit or self.program.unit
            if os.write(self.pipe, unit) != len(unit):
                bench.fail(f"{self.program.command[0]}: a unit does not fit into a pipe")
            time.sleep(self.lasts_s / 2)
        self.wait()
        self.lasts_s = time.monotonic() - wall
        return self.cpu_s() - cpu

    def steps(self, seconds):
        """Feeds it for so long; returns the CPU time of each unit."""
        end, found = time.monotonic() + seconds, []
        while time.monotonic() < end:
            found.append(self.step())
        return found


class Counting:
    """fperf on a process that is fed, by turns with nothing."""

    def __init__(self, fed, budget, alternate=True):
        turns = ["--alternate", f"{WINDOW_S * 1000:.0f}ms"] if alternate else []
        self.process = subprocess.Popen(
            [str(FPERF), "-q", "--json", "--budget", budget, *turns, "-p", str(fed.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            preexec_fn=to_fperf,
        )
        self.said = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def ended_windows(self, seconds):
        """What kind the windows were that end within so long: at most one, if nothing is late."""
        end = time.monotonic() + seconds
        while self.has_said_more(end):
            more = os.read(self.process.stderr.fileno(), 65536)
            if not more:
                bench.fail(f"fperf has ended: {self.said.decode(errors='replace')}")
            *lines, self.said = (self.said + more).split(b"\n")
            ended = [line.split(b"\t")[1] == b"on" for line in lines if line[:7] == b"window\t"]
            if ended:
                return ended
        return []

    def has_said_more(self, end):
        """Waits until then; for the rest of a line somewhat longer."""
        left = max(end - time.monotonic(), REST_S if self.said else 0)
        return bool(select.select([self.process.stderr], [], [], left)[0])

    def result(self):
        """Ends it; returns what it says."""
        self.process.send_signal(signal.SIGINT)
        said, errors = self.process.communicate(timeout=60)
        if self.process.returncode:
            bench.fail(f"fperf: {errors.decode(errors='replace')[-500:]}")
        return json.loads(said)


class Windows:
    """(on, units) of windows, each unit (CPU time, what the meter took before it and after it)."""

    def __init__(self, fed, meter):
        self.fed, self.meter, self.windows, self.units = fed, meter, [], []
        self.metered = meter.step()

    def step(self, unit=None):
        cost, before = self.fed.step(unit), self.metered
        self.metered = self.meter.step()
        self.units.append((cost, max(before, self.metered)))

    def end(self, on):
        self.windows.append((on, self.units))
        self.units = []

    def no_time_left(self, began):
        """Whether another unit would not end within the window."""
        lasts_s = self.fed.lasts_s + self.meter.lasts_s + ENDS_S
        return time.monotonic() + lasts_s > began + WINDOW_S

    def clean(self):
        """(on, CPU time of a unit, None where there is none) by windows, and the shares of units
        that stay with fperf and without it.
        """
        metered = sorted(took for _, units in self.windows for _, took in units)
        most = SLOW * metered[len(metered) // 10] if metered else 0
        found, stay, of = [], {True: 0, False: 0}, {True: 0, False: 0}
        for on, units in self.windows:
            clean = [cost for cost, took in units if took <= most]
            found.append((on, fmean(clean) if len(clean) >= CLEAN_LEAST else None))
            stay[on] += len(clean)
            of[on] += len(units)
        return found, tuple(stay[on] / max(of[on], 1) for on in (True, False))


def windows_of(fed, meter, counting, seconds):
    """The windows of so many seconds in which fperf counts, and in which it does not."""
    found, began = Windows(fed, meter), None
    now = time.monotonic()
    end = now + seconds
    while now < end:
        if began is not None and found.no_time_left(began):
            ended = counting.ended_windows(ENDLESS_S)
            if not ended:
                bench.fail("fperf does not end its window")
        else:
            found.step()
            ended = counting.ended_windows(0)
            if ended:
                found.units.pop()  # part of it was in one window, part of it in the next
        now = time.monotonic()
        for on in ended:
            found.end(on)
            began = now
    del found.windows[:SKIPPED]
    return found


def blank_windows(fed, meter, seconds, planted_unit=None):
    """The same with nothing that counts. planted_unit: what it gets for a unit where it is on."""
    found, on = Windows(fed, meter), True
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        while not found.units or not found.no_time_left(began):
            found.step(planted_unit if on else None)
        found.end(on)
        on = not on
    return found
