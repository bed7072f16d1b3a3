#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A fault at every system call of attach, of an attach that has to bring the runtime along, and of
detach: killed there, and the call failing. What must hold after each is in
test/system/iptest/faults.py. Some ten thousand runs: half an hour to an hour on two CPUs.

  IPROBE_BUILD=build test/soak/faults.py [--jobs N] [--errors N] [--seconds N] [--skip N] [--only
  COMMAND:FAULT:CALL:N ...]

A run that fails is tried once more on a new target; both are told, and kept in the log. Ends
with one line, and 1 if something failed twice. Runs are ordered so that an early end (--seconds,
Ctrl-C) has seen a bit of everything.
"""

import argparse
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "system"))

from iptest import actor as actors  # noqa: E402
from iptest import faults  # noqa: E402
from iptest.programs import Programs  # noqa: E402
from iptest.target import Targets  # noqa: E402

SPREAD = 7  # neighbours are this far apart in time


class Bench:
    """What one process needs for its runs: an actor, the program, and for each command a target
    that is renewed when it must be.
    """

    def __init__(self, top, build):
        self.programs = Programs(ROOT / "test" / "programs", top, build)
        self.me = actors.Actor("root" if os.getuid() == 0 else "user", os.getuid(), top, build)
        self.targets = Targets()
        self.kept = {}

    def target(self, command):
        """(target, its scheduling)"""
        if command.name not in self.kept:
            target = faults.start_target(self.me, self.programs, self.targets, command)
            self.kept[command.name] = target, faults.scheduling(target.pid)
        return self.kept[command.name]

    def drop(self, command):
        if command.name in self.kept:
            target, _ = self.kept.pop(command.name)
            actors.end(target.proc)
            self.targets.made.remove(target)

    def calls(self, command):
        calls = faults.calls_of(self.me, self.target(command)[0], command)
        self.drop(command)
        return calls

    def run(self, point):
        """None, or what went wrong."""
        name, fault, call, when = point
        command = faults.COMMANDS[name]
        try:
            faults.run_one(self.me, *self.target(command), command, fault, call, when)
        except (
            Exception
            # pylint: disable=broad-except # an assertion, a hang, a target that is gone: each is a
            # finding
        ) as e:
            self.drop(command)
            return f"{type(e).__name__}: {e}"
        if command.once:
            self.drop(command)
        return None

    def end(self):
        for name in list(self.kept):
            self.drop(faults.COMMANDS[name])
        self.me.end_all()


def points(bench, errors):
    """[(command, fault, call, number)] in the order to run them."""
    found = []
    for name, command in faults.COMMANDS.items():
        calls = bench.calls(command)
        print(f"{name}: {len(calls)} system calls", flush=True)
        found.append([(name, "signal=SIGKILL", *call) for call in calls])
        for turn in range(errors):
            found.append(
                [
                    (name, f"error={faults.ERRORS[(i + turn) % len(faults.ERRORS)]}", *call)
                    for i, call in enumerate(faults.own_calls(calls))
                ]
            )
    ordered = [point for i in range(SPREAD) for group in found for point in group[i::SPREAD]]
    return ordered


def work(top, build, todo, results):
    bench = Bench(top, build)
    try:
        while (point := todo.get()) is not None:
            wrong = bench.run(point)
            if wrong:
                results.put((point, "failed", wrong))
                wrong = bench.run(point)
            results.put((point, "twice" if wrong else "passed", wrong))
    finally:
        bench.end()
        results.put(None)


def main():
    parser = argparse.ArgumentParser(
        description="A fault at every system call of attach and detach"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="runs at once (default: one a CPU)"
    )
    parser.add_argument(
        "--errors",
        type=int,
        default=1,
        choices=range(1, len(faults.ERRORS) + 1),
        help="different errors at each call (default 1; which one goes round)",
    )
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin nothing after that long"
    )
    parser.add_argument(
        "--skip",
        type=int,
        default=0,
        metavar="N",
        help="leave out the first N runs: an earlier start has made them",
    )
    parser.add_argument("--only", nargs="+", metavar="COMMAND:FAULT:CALL:N", help="these runs")
    args = parser.parse_args()
    build = pathlib.Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
    top = pathlib.Path(tempfile.mkdtemp(prefix="iprobe-soak-faults-"))
    top.chmod(0o755)
    start = time.monotonic()
    todo, results = multiprocessing.Queue(4 * args.jobs), multiprocessing.Queue()
    workers = []
    counts = {"passed": 0, "failed": 0, "twice": 0}
    try:
        bench = Bench(top, build)
        if args.only:
            runs = [(*one.split(":")[:3], int(one.split(":")[3])) for one in args.only]
        else:
            runs = points(bench, args.errors)[args.skip :]
        bench.end()
        print(f"{len(runs)} runs", flush=True)
        workers = [
            multiprocessing.Process(target=work, args=(top, build, todo, results))
            for _ in range(args.jobs)
        ]
        for worker in workers:
            worker.start()
        hear(args, runs, todo, results, counts, start)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        for worker in workers:  # who sent it may have sent it to us alone
            if worker.is_alive():
                os.kill(worker.pid, signal.SIGINT)
    finally:
        for worker in workers:
            worker.join(2 * faults.PATIENCE)
        shutil.rmtree(top, ignore_errors=True)
    print(
        f"{counts['passed']} passed ({counts['failed'] - counts['twice']} at the second try), "
        f"{counts['twice']} failed, "
        f"{len(runs) - counts['passed'] - counts['twice']} not run, {time.monotonic() - start:.0f} "
        f"s"
    )
    return 1 if counts["twice"] else 0


def hear(args, runs, todo, results, counts, start):
    """Hands the runs out and prints what becomes of them, until all have ended or time is over."""
    waiting, given, working, told = iter(runs), 0, args.jobs, False
    while working:
        while (
            given - counts["passed"] - counts["twice"] < 2 * args.jobs
            and given < len(runs)
            and time.monotonic() - start < args.seconds
        ):
            todo.put(next(waiting))
            given += 1
        if not told and given == counts["passed"] + counts["twice"]:
            told = True
            for _ in range(working):
                todo.put(None)
        result = results.get()
        if result is None:
            working -= 1
            continue
        point, outcome, wrong = result
        counts[outcome] += 1
        if wrong:
            print(
                f"{time.strftime('%T')} {outcome} {':'.join(map(str, point))}: {wrong}", flush=True
            )
        elif counts["passed"] % 200 == 0:
            print(f"{time.strftime('%T')} {counts['passed']} passed", flush=True)


if __name__ == "__main__":
    sys.exit(main())
