# SPDX-License-Identifier: Apache-2.0
"""The tracers that benchmarks/peers compares: how each wants a program built, runs it, and counts
what it has kept.

A tracer has a name, says why it cannot be had here (missing()), names compiler and flags, and
traces a command: it returns what the command printed, how many events its own reader finds in
the trace afterwards, how many bytes they take on disk, and how many it says it has lost. An
event is an entry or an exit. Each is set up to keep everything.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import namedtuple
from pathlib import Path

import bench

Traced = namedtuple("Traced", "output events bytes lost")


def need(*commands):
    """Why commands cannot be run; None: they can."""
    absent = [str(c) for c in commands if not shutil.which(str(c))]
    return f"{' and '.join(absent)} not installed: scripts/install-deps peers" if absent else None


def size(folder, pattern="**/*"):
    return sum(p.stat().st_size for p in Path(folder).glob(pattern) if p.is_file())


class Tracer:
    """What most have in common. compiler: makes the traced program; plain: the same without
    anything, for the time that counts as 0.
    """

    compiler, flags, plain, env = "gcc", (), "gcc", {}
    selective = False  # cannot trace all functions of a program: only the empty one

    def missing(self):
        return need(self.compiler)

    def trace(self, command, folder):
        raise NotImplementedError


class Iprobe(Tracer):
    def __init__(self, placement, *options):
        self.placement, self.options, self.name = (
            placement,
            options,
            " ".join(["iprobe", placement, *options]),
        )
        self.compiler, self.env = bench.IPROBE_CC, {"IPROBE_PLACEMENT": placement}

    def trace(self, command, folder):
        done = bench.run(
            [
                bench.IPROBE,
                "run",
                "--json",
                "--max-size",
                "16G",
                *self.options,
                "-o",
                folder / "data",
                "--",
                *command,
            ]
        )
        summary = json.loads(done.stdout.splitlines()[-1])
        report = json.loads(bench.run([bench.IPROBE, "report", "--json", folder / "data"]).stdout)
        if report["events"] != summary["events"]:
            bench.fail(
                f"{self.name}: report finds {report['events']} events, iprobe run recorded "
                f"{summary['events']}"
            )
        return Traced(
            done.stdout, report["events"], size(folder / "data", "stream-*"), summary["lost"]
        )


class Uftrace(Tracer):
    def __init__(self, flag):
        self.name, self.flags = f"uftrace {flag}", (flag,)

    def missing(self):
        return need("uftrace", "gcc")

    def trace(self, command, folder):
        done = bench.run(
            [
                "uftrace",
                "record",
                "--no-libcall",
                "--no-event",
                "--no-pager",
                "-d",
                folder / "data",
                *command,
            ]
        )
        lost = sum(int(n) for n in re.findall(r"LOST (\d+)", done.stderr))
        report = bench.run(["uftrace", "report", "--no-pager", "-f", "call", "-d", folder / "data"])
        calls = sum(
            int(line.split()[0])
            for line in report.stdout.splitlines()
            if re.match(r"\s+\d+\s+\S", line)
        )
        return Traced(done.stdout, 2 * calls, size(folder / "data", "*.dat"), lost)


class Xray(Tracer):
    """Its flight data recorder, with buffers for everything (they are written when the program
    ends) and no threshold of duration.
    """

    name = "XRay FDR"

    def __init__(self):
        self.version = next(
            (
                n
                for n in range(40, 12, -1)
                if shutil.which(f"clang-{n}")
                and glob.glob(
                    f"/usr/lib/llvm-{n}/lib/clang/*/lib/linux/libclang_rt.xray-fdr-x86_64.a"
                )
            ),
            None,
        )
        self.compiler = self.plain = f"clang-{self.version}"
        self.flags = (
            "-fxray-instrument",
            "-fxray-instruction-threshold=1",
            "-Wl,--wrap=main",
            bench.ROOT / "benchmarks" / "xray.c",
        )
        if self.version:
            self.name = f"XRay FDR (clang {self.version})"

    def missing(self):
        return (
            need(f"llvm-xray-{self.version}")
            if self.version
            else "no clang with the runtime of XRay installed: scripts/install-deps peers"
        )

    def trace(self, command, folder):
        place = folder / "data"
        place.mkdir()
        done = bench.run(
            command,
            env={
                **os.environ,
                "XRAY_OPTIONS": f"patch_premain=false xray_logfile_base={place}/",
                "XRAY_FDR_OPTIONS": "func_duration_threshold_us=0:buffer_size=1048576"
                ":buffer_max=2048",
            },
        )
        log = next(place.iterdir(), None)
        if not log:
            bench.fail(f"{self.name} has written no file: {done.stderr[-500:]}")
        account = bench.run(
            [
                f"llvm-xray-{self.version}",
                "account",
                "--keep-going",
                "--format=csv",
                f"--instr_map={command[0]}",
                log,
            ]
        )
        calls = sum(
            int(line.split(",")[1])
            for line in account.stdout.splitlines()
            if re.match(r"\d+,\d+,", line)
        )
        return Traced(done.stdout, 2 * calls, log.stat().st_size, 0)


class Lttng(Tracer):
    """Its cheaper helper (entries with an address, exits without anything), a ring that makes
    the program wait where it is full.
    """

    name, flags = "LTTng-UST cyg-profile-fast", ("-finstrument-functions",)

    def __init__(self):
        self.helper = next(iter(glob.glob("/usr/lib/*/liblttng-ust-cyg-profile-fast.so*")), None)
        self.daemon = None

    def missing(self):
        return need("lttng", "lttng-sessiond", "babeltrace2") or (
            None
            if self.helper
            else "liblttng-ust-cyg-profile-fast.so not installed: scripts/install-deps peers"
        )

    @contextlib.contextmanager
    def session(self, folder):
        """A daemon of ours, where none serves, for one recording."""
        daemon = None
        if bench.run(["lttng", "--no-sessiond", "list"], check=False).returncode:
            # pylint: disable-next=consider-using-with
            daemon = subprocess.Popen(
                ["lttng-sessiond", "--no-kernel", "--quiet"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(200):
                if not bench.run(["lttng", "--no-sessiond", "list"], check=False).returncode:
                    break
                time.sleep(0.05)
            else:
                bench.fail("lttng-sessiond does not answer")
        session = f"iprobe-peers-{os.getpid()}"
        try:
            bench.run(["lttng", "create", session, f"--output={folder}"])
            bench.run(
                [
                    "lttng",
                    "enable-channel",
                    "-u",
                    "-s",
                    session,
                    "--subbuf-size=4M",
                    "--num-subbuf=8",
                    "--blocking-timeout=inf",
                    "ring",
                ]
            )
            bench.run(
                [
                    "lttng",
                    "enable-event",
                    "-u",
                    "-s",
                    session,
                    "lttng_ust_cyg_profile_fast:*",
                    "-c",
                    "ring",
                ]
            )
            bench.run(["lttng", "start", session])
            yield
            bench.run(["lttng", "stop", session])
        finally:
            bench.run(["lttng", "destroy", session], check=False)
            if daemon:
                daemon.terminate()
                daemon.wait()

    def trace(self, command, folder):
        with self.session(folder / "data"):
            done = bench.run(
                command,
                env={
                    **os.environ,
                    "LD_PRELOAD": self.helper,
                    "LTTNG_UST_ALLOW_BLOCKING": "1",
                    "LTTNG_UST_REGISTER_TIMEOUT": "-1",
                },
            )
        read = bench.run(
            ["babeltrace2", folder / "data", "--component=sink.utils.counter", "--params=step=+0"]
        )
        events = max((int(n) for n in re.findall(r"(\d+) Event message", read.stdout)), default=0)
        lost = sum(int(n) for n in re.findall(r"discarded (\d+) events", read.stderr))
        return Traced(done.stdout, events, size(folder / "data", "**/ring_*"), lost)


class Bpftrace(Tracer):
    """A uprobe that counts: the kernel's way, without an event kept; entries only."""

    name, selective = "uprobe, bpftrace count()", True

    def missing(self):
        return need("bpftrace", "gcc") or (None if os.getuid() == 0 else "uprobes need root")

    def trace(self, command, folder):
        probe = f'uprobe:{command[0]}:empty {{ @calls = count(); }} BEGIN {{ printf("ready\\n"); }}'
        with subprocess.Popen(
            ["bpftrace", "-e", probe],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as tracer:
            try:
                for line in tracer.stdout:
                    if "ready" in line:
                        break
                else:
                    bench.fail(f"bpftrace: {tracer.stderr.read()[-500:]}")
                done = bench.run(command)
                tracer.send_signal(signal.SIGINT)
                said, _ = tracer.communicate(timeout=60)
            finally:
                tracer.kill()
        found = re.search(r"@calls: (\d+)", said)
        return Traced(done.stdout, int(found.group(1)) if found else 0, 0, 0)


class IprobeCount(Iprobe):
    """The counting payload: calls of the empty function, no time."""

    selective = True

    def __init__(self):
        super().__init__("fentry")
        self.name = "iprobe, --payload count"

    def missing(self):
        return (
            None
            if "--payload" in bench.run([bench.IPROBE, "run", "--help"]).stdout
            else "this iprobe has no --payload yet"
        )

    def trace(self, command, folder):
        done = bench.run(
            [
                bench.IPROBE,
                "run",
                "-q",
                "-f",
                "empty",
                "--payload",
                "count",
                "-o",
                folder / "data",
                "--",
                *command,
            ]
        )
        report = json.loads(bench.run([bench.IPROBE, "report", "--json", folder / "data"]).stdout)
        return Traced(
            done.stdout,
            sum(f["calls"] for f in report["functions"] if f["function"] == "empty"),
            0,
            0,
        )


def everything():
    return [
        Iprobe("fentry"),
        Iprobe("instrument"),
        Iprobe("fentry", "--time", "coarse"),
        Iprobe("fentry", "--compress"),
        Uftrace("-pg"),
        Uftrace("-finstrument-functions"),
        Xray(),
        Lttng(),
    ]


def selective():
    return [IprobeCount(), Bpftrace()]
