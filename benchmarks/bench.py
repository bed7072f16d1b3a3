# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: finding the tools, building, saying how a figure was made.

Every benchmark prints its figures as ratios of things measured in the same run, and below them
how they were made. None gives a verdict: a slow machine is not a failed test. With --brief a
benchmark runs each of its steps once or twice on little work, so that ./check knows that it
still works.
"""

import argparse
import contextlib
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
IPROBE = BUILD / "cli" / "iprobe"
IPROBE_CC = BUILD / "coldpatch" / "iprobe-cc"
IPROBE_CXX = BUILD / "coldpatch" / "iprobe-c++"
RUNTIME = BUILD / "runtime" / "libiprobe-rt.so"
CC = os.environ.get("IPROBE_CC", "gcc")


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def options(description, repeat):
    """The argument parser, with what every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "-r",
        "--repeat",
        type=int,
        default=repeat,
        metavar="N",
        help=f"repetitions; the median counts (default {repeat})",
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="as little as shows that it works; the figures mean nothing",
    )
    return parser


def run(command, timeout=600, check=True, **kwargs):
    """Runs a command to its end; its output is captured. Ends the benchmark where it fails."""
    command = [str(word) for word in command]
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            **kwargs,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        fail(f"{shlex.join(command)}: {error}")
    if check and done.returncode != 0:
        fail(
            f"{shlex.join(command)}: exit code "
            f"{done.returncode}\n{(done.stderr or done.stdout)[-1000:]}"
        )
    return done


@contextlib.contextmanager
def scratch():
    """A temporary folder."""
    if not IPROBE.exists():
        fail(f"no iprobe in {BUILD}: build it, or set IPROBE_BUILD to the build folder")
    with tempfile.TemporaryDirectory(prefix="iprobe-bench.") as folder:
        yield Path(folder)


def first_line(command):
    if not shutil.which(command[0]):
        return "not installed"
    return run(command, check=False).stdout.split("\n", 1)[0]


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as info:
        for line in info:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def how(*lines):
    """The lines below the figures: how they were made."""
    print()
    print("how:     " + "\n         ".join(lines))
    print(f"command: {shlex.join([os.path.relpath(sys.argv[0]), *sys.argv[1:]])}")
    print(f"machine: {cpu()}, {os.cpu_count()} CPUs, Linux {platform.release()}")
    print(f"cc:      {first_line([CC, '--version'])}")
    print(f"iprobe:  {first_line([str(IPROBE), '--version'])}")


def spread(values):
    """'MEDIAN (MIN .. MAX)' of numbers."""
    return f"{median(values):.3g} ({min(values):.3g} .. {max(values):.3g})"


def quartiles(values, digits=2):
    """'MEDIAN (LOWER .. UPPER)' of numbers, with the quartiles."""
    lower, middle, upper = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({lower:.{digits}f} .. {upper:.{digits}f})"


def count_probes(path):
    """How many probes an ELF file has."""
    modules = json.loads(run([IPROBE, "list", "--json", path]).stdout)["modules"]
    return sum(len(module["probes"]) for module in modules)


def need_kernel_events():
    """Ends a benchmark, as skipped, where events of the kernel cannot be recorded."""
    said = run([IPROBE, "doctor"], check=False).stdout
    if "kernel events      can be recorded" not in said:
        print("skipped: events of the kernel cannot be recorded here (iprobe doctor says why)")
        sys.exit(77)
