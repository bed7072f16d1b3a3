# SPDX-License-Identifier: Apache-2.0
"""Real programs of other people, built by their own build systems with iprobe's compilers.

libxml2 (C: configure, make, libtool, a shared library; its test program calls 1164 functions of the
API) and jsoncpp (C++: meson; 119 tests). Each passes its own tests idle and while every probe
records, and prints what a plain build prints.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from servers import time_scale

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
IPROBE = BUILD / "cli" / "iprobe"
IPROBE_CC = BUILD / "coldpatch" / "iprobe-cc"
IPROBE_CXX = BUILD / "coldpatch" / "iprobe-c++"

# The plain build is there for what it prints: not optimized it takes a third of the time.
PLAIN = {"CC": "gcc", "CXX": "g++", "CFLAGS": "-O0", "CXXFLAGS": "-O0"}
PREPARED = {"CC": str(IPROBE_CC), "CXX": str(IPROBE_CXX)}


def sh(command, cwd, timeout=300, **env):
    """Runs a step of a build; its output is in the assertion where it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **env},
        timeout=time_scale.scaled(timeout),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout


def fetch(package, folder):
    done = subprocess.run(
        [ROOT / "scripts" / "fetch-source", package, folder],
        capture_output=True,
        text=True,
        timeout=time_scale.scaled(300),
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.strip())


class Program:
    """A program in two builds, and its own tests.

    tests: command lines, relative to the build; what they print must not depend on time or place.
    """

    def __init__(self, plain, prepared, tests, env=None):
        self.plain = plain
        self.prepared = prepared
        self.tests = tests
        self.env = env or (lambda folder: {})

    def run(self, folder, test, prefix=()):
        return subprocess.run(
            [*prefix, *test],
            cwd=folder,
            env={**os.environ, **self.env(folder)},
            timeout=time_scale.scaled(300),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )


def build_libxml2(folder, compilers):
    fetch("libxml2", folder)
    # Debian's patches touch inputs of the generated files, whose tools (automake) we do without:
    # the generated files are made newer than their inputs.
    for names in (
        ["configure.ac", "Makefile.am"],
        ["aclocal.m4"],
        ["configure", "config.h.in"],
        sorted(folder.rglob("Makefile.in")),
    ):
        time.sleep(0.02)
        for name in names:
            (folder / name).touch()
    # http and ftp: its tests would ask the network.
    without = ["python", "lzma", "zlib", "http", "ftp"]
    sh(
        ["./configure", "--disable-static", *(f"--without-{what}" for what in without)],
        folder,
        **compilers,
    )
    # libtool wraps programs of the build tree in scripts; LD_LIBRARY_PATH serves as well and needs
    # none.
    sh(["make", "-j2", "libxml2.la"], folder)
    sh(["make", "-j2", "testapi", "testdict", "xmllint"], folder)


def build_jsoncpp(folder, compilers):
    fetch("libjsoncpp", folder)
    sh(["meson", "setup", "b", "--buildtype=release"], folder, **compilers)
    sh(["ninja", "-C", "b"], folder)


@pytest.fixture(scope="session")
def libxml2(tmp_path_factory):
    base = tmp_path_factory.mktemp("libxml2")
    build_libxml2(base / "plain", PLAIN)
    build_libxml2(base / "prepared", PREPARED)
    return Program(
        base / "plain",
        base / "prepared",
        [[".libs/testapi"], [".libs/testdict"], [".libs/xmllint", "--format", "doc/xmllint.xml"]],
        lambda folder: {"LD_LIBRARY_PATH": str(folder / ".libs")},
    )


@pytest.fixture(scope="session")
def jsoncpp(tmp_path_factory):
    base = tmp_path_factory.mktemp("jsoncpp")
    build_jsoncpp(base / "plain", PLAIN)
    build_jsoncpp(base / "prepared", PREPARED)
    return Program(base / "plain", base / "prepared", [["b/jsoncpp_test"]])


@pytest.fixture(params=["libxml2", "jsoncpp"])
def program(request):
    return request.getfixturevalue(request.param)


def listed(path):
    """The probes that iprobe list shows of a file."""
    out = sh([IPROBE, "list", "--json", str(path)], path.parent)
    return [probe for module in json.loads(out)["modules"] for probe in module["probes"]]


def test_same_output_when_idle(program):
    for test in program.tests:
        plain = program.run(program.plain, test)
        idle = program.run(program.prepared, test)
        assert plain.returncode == 0, plain.stderr[-2000:]
        assert (idle.returncode, idle.stdout, idle.stderr) == (0, plain.stdout, plain.stderr)


def test_same_output_while_every_probe_records(program, tmp_path):
    hit = set()
    for number, test in enumerate(program.tests):
        plain = program.run(program.plain, test)
        data = tmp_path / f"data{number}"
        live = program.run(
            program.prepared, test, [IPROBE, "run", "--json", "--max-size", "4G", "-o", data, "--"]
        )
        # The summary is the last line on stdout, after the program's own output; progress and
        # losses go to stderr.
        *output, summary = live.stdout.splitlines(keepends=True)
        assert live.returncode == 0, live.stderr[-2000:]
        assert "".join(output) == plain.stdout
        assert json.loads(summary)["events"] > 1000
        report = json.loads(sh([IPROBE, "report", "--json", data], tmp_path))
        hit |= {(f["module"], f["function"]) for f in report["functions"] if f["calls"] > 0}
    # Each function that was called has hit two probes at least: one entry, one exit.
    assert 2 * len(hit) >= 1000


def test_own_test_suite_of_jsoncpp(jsoncpp):
    """All of it, by the project's own runner: two of the three drive a prepared program from
    Python.
    """
    out = sh(["meson", "test", "-C", "b", "--no-rebuild"], jsoncpp.prepared)
    assert "Fail:               0" in out and "Timeout:            0" in out


def test_prepared_files_have_probes(libxml2, jsoncpp):
    assert len(listed(libxml2.prepared / ".libs" / "libxml2.so")) > 4000
    assert len(listed(jsoncpp.prepared / "b" / "jsoncpp_test")) > 1000
