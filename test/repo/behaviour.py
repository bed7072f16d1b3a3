#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What scripts rely on, as a build shows it: the options in the help of each command, and the keys in
its JSON.

behaviour.py BUILD prints it as JSON. behaviour.json is what the build of 2026-11-24 printed, before
the tree was parted into rooms; test_behaviour.py compares each build with it.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

COMMANDS = [
    "list",
    "run",
    "attach",
    "detach",
    "status",
    "report",
    "graph",
    "dump",
    "hist",
    "export",
    "info",
    "doctor",
    "follow",
    "snapshot",
    "trim",
    "split",
    "top",
]
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <time.h>
__attribute__((noinline)) int leaf(int n) { __asm__ volatile(""); return n + 1; }
__attribute__((noinline)) int work(const char *name, int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += leaf(i);
	return sum + (int)strlen(name);
}
int main(int argc, char **argv)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	int sum = 0;
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < (argc > 1 ? 20 : 1000000); i++) {
		sum += work("name", 100);
		nanosleep(&nap, NULL);
	}
	return sum == 1;
}
"""
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def keys(value, path=""):
    """The paths of all members, elements of arrays as []."""
    if isinstance(value, dict):
        found = set()
        for key, member in value.items():
            found |= {f"{path}.{key}".lstrip(".")} | keys(member, f"{path}.{key}")
        return found
    if isinstance(value, list):
        return set().union(*(keys(member, path + "[]") for member in value)) if value else set()
    return set()


class Build:
    """The programs of a build folder, run in a scratch folder."""

    def __init__(self, build, scratch):
        self.build = pathlib.Path(build).resolve()
        self.scratch = pathlib.Path(scratch)

    def path(self, name):
        folder = "coldpatch" if name in ("coldpatch", "iprobe-cc") else "cli"
        return str(self.build / folder / name)

    def run(self, name, *arguments, check=True):
        done = subprocess.run(
            [self.path(name), *map(str, arguments)],
            cwd=self.scratch,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        if check and done.returncode:
            raise RuntimeError(f"{name} {arguments}: {done.stderr}")
        return done.stdout

    def options(self):
        found = {
            command: sorted(set(OPTION.findall(self.run("iprobe", command, "--help"))))
            for command in COMMANDS
        }
        for program in ("fperf", "coldpatch", "iprobed"):
            found[program] = sorted(set(OPTION.findall(self.run(program, "--help"))))
        return found

    def last(self, *arguments):
        """The last line of what a command prints, as JSON."""
        return json.loads(self.run(*arguments).strip().splitlines()[-1])

    def start(self):
        process = subprocess.Popen(
            [self.scratch / "program"], cwd=self.scratch, stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        return process

    def documents(self):
        """{command: one JSON document}"""
        (self.scratch / "program.c").write_text(PROGRAM)
        self.run("iprobe-cc", "-O2", "-g", "-o", "program", "program.c")
        found = {
            "coldpatch": self.last("coldpatch", "--json", "program"),
            "list": json.loads(self.run("iprobe", "list", "--json", "program")),
            "run": self.last("iprobe", "run", "--json", "-o", "t", "--", "./program", "20"),
        }
        for command in ("report", "graph", "hist", "info"):
            found[command] = json.loads(self.run("iprobe", command, "--json", "t"))
        found["dump"] = [
            json.loads(line) for line in self.run("iprobe", "dump", "--json", "t").splitlines()[:9]
        ]
        found["trim"] = self.last(
            "iprobe", "trim", "--json", "--from", "1ms", "--to", "9ms", "-o", "part", "t"
        )
        process = self.start()
        try:
            pid = process.pid
            found["attach"] = self.last(
                "iprobe", "attach", pid, "--json", "-q", "--duration", "50ms", "-o", "a"
            )
            found["dry run"] = self.last("iprobe", "attach", pid, "--json", "--dry-run")
            found["status"] = json.loads(self.run("iprobe", "status", "--json", pid))
            found["doctor"] = json.loads(self.run("iprobe", "doctor", "--json", pid, check=False))
            found["fperf"] = json.loads(
                self.run(
                    "fperf",
                    "--json",
                    "-q",
                    "-e",
                    "perf::TASK-CLOCK",
                    "--duration",
                    "300ms",
                    "-p",
                    pid,
                )
            )
            found.update(self.beside_a_session(pid))
        finally:
            process.kill()
            process.wait()
        return found

    def beside_a_session(self, pid):
        """What is asked while a flight recorder records."""
        session = subprocess.Popen(
            [self.path("iprobe"), "attach", str(pid), "-q", "--overwrite", "-o", "s"],
            cwd=self.scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for _ in range(100):
                if json.loads(self.run("iprobe", "status", "--json", pid))["patched"]:
                    break
                time.sleep(0.05)
            return {
                "snapshot": self.last("iprobe", "snapshot", "--json", "-o", "n", pid),
                "change": self.last("iprobe", "attach", pid, "--json", "-f", "!leaf"),
                "detach": self.last("iprobe", "detach", "--json", pid),
            }
        finally:
            session.wait(timeout=30)


def behaviour(build):
    scratch = tempfile.mkdtemp(prefix="iprobe-behaviour-")
    try:
        b = Build(build, scratch)
        return {
            "options": b.options(),
            "keys": {name: sorted(keys(d)) for name, d in sorted(b.documents().items())},
        }
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    json.dump(behaviour(sys.argv[1]), sys.stdout, indent=1, sort_keys=True)
    print()
