# SPDX-License-Identifier: Apache-2.0
"""A package of Debian's (tree), built by its own debian/rules with iprobe-cc, and without nostrip:
the same bytes each time, the probes in the package and in its debug symbols, and a process that is
recorded. test/system/test_package_builds.py has the rest.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("IPROBE_BUILD", ROOT / "build")).resolve()
IPROBE = BUILD / "cli" / "iprobe"
IPROBE_CC = BUILD / "coldpatch" / "iprobe-cc"
FILES = 3000


def sh(command, cwd, check=True, **env):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C.UTF-8", **env},
        timeout=300,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert (
        not check or done.returncode == 0
    ), f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done


def build(folder):
    """The packages, and what is in them: of the program, and of its debug symbols."""
    source = folder / "tree"
    done = sh([ROOT / "scripts" / "fetch-source", "tree", source], ROOT, check=False)
    if done.returncode:
        pytest.skip(done.stderr.strip())
    env = {"MAKEFLAGS": f"CC={IPROBE_CC}", "DEB_BUILD_OPTIONS": ""}
    sh(["dpkg-buildpackage", "-b", "-us", "-uc"], source, **env)
    for name in ("tree", "tree-dbgsym"):
        (deb,) = folder.glob(f"{name}_*.deb")
        sh(["dpkg-deb", "-x", deb, folder / f"{name}.root"], folder)
    shutil.rmtree(source)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not shutil.which("dpkg-buildpackage") or not shutil.which("dh"):
        pytest.skip("no debhelper here: run scripts/install-deps test")
    one = tmp_path_factory.mktemp("one") / "here"
    two = tmp_path_factory.mktemp("two") / "in" / "another" / "place"
    for folder in (one, two):
        folder.mkdir(parents=True)
        build(folder)
    return one, two


def test_two_builds_are_equal(built):
    debs = [{path.name: path.read_bytes() for path in folder.glob("*.deb")} for folder in built]
    assert len(debs[0]) == 2 and debs[0] == debs[1]


def test_a_process_is_recorded(built, tmp_path):
    """tree writes into a pipe that is full when iprobe attaches; then it is read. The list is that
    of the debug symbols: the program is stripped of its own, too.
    """
    program = tmp_path / "tree"
    shutil.copy(built[0] / "tree.root" / "usr" / "bin" / "tree", program)
    headers = sh(["readelf", "-SW", program], tmp_path).stdout
    assert ".symtab" not in headers and ".debug_info" not in headers
    symbols = built[0] / "tree-dbgsym.root" / "usr" / "lib" / "debug"
    own = json.loads(sh([IPROBE, "list", "--json", program], tmp_path).stdout)["modules"][0]
    sh(["objcopy", "-R", ".iprobe.probes", program], tmp_path)
    found = sh([IPROBE, "list", "--json", "--list", symbols, program], tmp_path).stdout
    assert json.loads(found)["modules"][0]["probes"] == own["probes"]
    assert len(own["probes"]) > 200
    (tmp_path / "files").mkdir()
    for number in range(FILES):
        (tmp_path / "files" / f"{'name' * 10}-{number}").touch()
    target = subprocess.Popen(
        [program, "--noreport", "files"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    first = target.stdout.readline()  # it has begun to print
    trace = tmp_path / "trace"
    tracer = subprocess.Popen(
        [IPROBE, "attach", str(target.pid), "--list", symbols, "-o", trace],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not re.search(r'"patched":[1-9]', status(target.pid, symbols)):
        assert tracer.poll() is None, tracer.communicate()
    printed = first + target.stdout.read()
    assert target.wait(60) == 0 and len(printed.splitlines()) == FILES + 1
    _, said = tracer.communicate(timeout=60)
    assert tracer.returncode == 0 and "none lost" in said, said
    report = json.loads(sh([IPROBE, "report", "--json", trace], tmp_path).stdout)
    rows = {row["function"]: row for row in report["functions"]}
    # what it had not printed yet when the pipe was full
    assert FILES / 2 < rows["printit"]["calls"] < FILES
    assert rows["printit"]["file"].endswith("tree.c")


def status(pid, symbols):
    return sh([IPROBE, "status", "--json", pid, "--list", symbols], ROOT, check=False).stdout
