# SPDX-License-Identifier: Apache-2.0
"""
What the daemon is made of: it serves everybody's socket as root, so the engine, which changes
other processes, is not in it. It executes iprobe for that.
"""

import subprocess

import pytest


def symbols(path):
    """Names, and the letters that nm gives them."""
    done = subprocess.run(["nm", path], capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 2 and not line.endswith(":"):
            found.setdefault(words[-1].split("@")[0], set()).add(words[-2])
    return found


@pytest.fixture(scope="module")
def engine(builddir):
    """Functions that the engine's libraries define, for others."""
    libraries = [
        *sorted((builddir / "hotpatcher").glob("*/libiprobe-*.a")),
        *(
            builddir / room / f"libiprobe-{room.replace('_', '-')}.a"
            for room in ("trace_writer", "collector", "session", "fperf")
        ),
    ]
    assert len(libraries) == 11, libraries
    return {
        name
        for library in libraries
        for name, kinds in symbols(library).items()
        if "T" in kinds and name.startswith("ip_")
    }


def test_the_daemon_has_nothing_of_the_engine(builddir, engine):
    assert {
        "ip_stop_end",
        "ip_target_read",
        "ip_inject",
        "ip_modules_load",
        "ip_session_attach",
    } <= engine
    daemon = symbols(builddir / "cli" / "iprobed")
    assert "ip_iprobed_run" in daemon and "ip_policy_clear" in daemon
    assert engine & set(daemon) == set()
    for call in (
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "process_madvise",
        "pwritev",
        "perf_event_open",
    ):
        assert call not in daemon, call
    # and what is looked for would be found
    assert engine & set(symbols(builddir / "cli" / "iprobe")) and "ptrace" in symbols(
        builddir / "cli" / "iprobe"
    )


def test_the_daemon_loads_no_library_of_the_engine(builddir):
    done = subprocess.run(
        ["readelf", "-dW", builddir / "cli" / "iprobed"], capture_output=True, text=True, check=True
    )
    needed = {
        line.split("[")[1].split("]")[0].split(".so")[0]
        for line in done.stdout.splitlines()
        if "NEEDED" in line
    }
    assert "libc" in needed and not needed & {"libZydis", "libdw"}, needed
