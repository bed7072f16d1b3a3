# SPDX-License-Identifier: Apache-2.0
"""The examples build, do what they say, and are worth recording."""

import json
import os
import signal
import subprocess
import time

import pytest

# As the examples' own texts have it.
INLINE = {**os.environ, "IPROBE_PLACEMENT": "inline", "IPROBE_CC": "gcc", "IPROBE_CXX": "g++"}


@pytest.fixture(scope="module")
def orders(root, builddir, sh, tmp_path_factory):
    path = tmp_path_factory.mktemp("orders") / "orders"
    sh(
        builddir / "coldpatch" / "iprobe-cc",
        "-Wall",
        "-O2",
        "-g",
        "-pthread",
        root / "examples" / "orders.c",
        "-o",
        path,
        env=INLINE,
    )
    return path


def functions(sh, iprobe, data):
    report = json.loads(sh(iprobe, "report", "--json", data).stdout)
    return {f["function"]: f for f in report["functions"]}


def test_orders_attached(orders, builddir, sh, tmp_path):
    iprobe = builddir / "cli" / "iprobe"
    env = {**os.environ, "LD_PRELOAD": str(builddir / "runtime" / "libiprobe-rt.so")}
    with subprocess.Popen([orders], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            time.sleep(0.2)
            done = sh(
                iprobe,
                "attach",
                process.pid,
                "--json",
                "--duration",
                "300ms",
                "-o",
                tmp_path / "data",
            )
            status = json.loads(sh(iprobe, "status", "--json", process.pid).stdout)
        finally:
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=20)
    assert process.returncode == 0 and out.endswith("orders shipped\n")
    assert json.loads(done.stdout.splitlines()[-1])["lost"] == 0
    assert status["patched"] == 0
    found = functions(sh, iprobe, tmp_path / "data")
    assert found["look_up"]["calls"] > 100
    assert found["search_archive"]["avg_ns"] > found["look_up"]["p50_ns"]


def test_shapes_run(root, builddir, sh, tmp_path):
    iprobe = builddir / "cli" / "iprobe"
    sh(
        builddir / "coldpatch" / "iprobe-c++",
        "-Wall",
        "-O2",
        "-g",
        root / "examples" / "shapes.cc",
        "-o",
        "shapes",
        cwd=tmp_path,
        env=INLINE,
    )
    done = sh(iprobe, "run", "-o", "data", "--", "./shapes", "1000", cwd=tmp_path)
    assert done.stdout == "667 shapes, area 458774235.5, 333 refused\n"
    found = functions(sh, iprobe, tmp_path / "data")
    calls = {name.removesuffix("()"): f["calls"] for name, f in found.items()}
    circles = [count for name, count in calls.items() if name.startswith("shapes::Circle::Circle")]
    assert sum(circles) == 666
    assert calls["main"] == 1


def test_points(root, builddir, sh, tmp_path):
    """Built by a compiler that knows nothing of iprobe; then coldpatch."""
    iprobe = builddir / "cli" / "iprobe"
    sh(
        "cc",
        "-Wall",
        "-Wextra",
        "-O2",
        "-g",
        f"-I{root / 'include'}",
        "-Wl,--build-id",
        root / "examples" / "points.c",
        "-o",
        "points",
        cwd=tmp_path,
    )
    plain = sh(tmp_path / "points", "2000").stdout
    sh(builddir / "coldpatch" / "coldpatch", "points", cwd=tmp_path)
    done = sh(iprobe, "run", "-o", "data", "--", "./points", "2000", cwd=tmp_path)
    assert done.stdout == plain == sh(tmp_path / "points", "2000").stdout
    counts = {name: f["calls"] for name, f in functions(sh, iprobe, tmp_path / "data").items()}
    words = plain.replace(",", "").split()
    said = {words[i + 1]: int(words[i]) for i in range(0, 8, 2)}
    assert counts == {
        "looking_up": said["requests"],
        "miss": said["misses"],
        "fetching": said["misses"],
        "evicted": said["evictions"],
    }
