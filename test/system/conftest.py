# SPDX-License-Identifier: Apache-2.0
"""
System tests: the tools as a user runs them, on programs of test/programs, against what those
programs know of themselves.

  IPROBE_BUILD          the meson build folder under test (default: build)
  IPROBE_TEST_CYCLES    attach/detach cycles of the survival tests (default 200; IPROBE_TEST_FULL=1:
                        1000; sanitizers: 100)
  IPROBE_TEST_KILLS     kills of a running attach (default 200; sanitizers: 30)
  IPROBE_TEST_SOAK      cycles of the torture test (default 100)
  IPROBE_TEST_SERVE     seconds of the server that is recorded (default 15; IPROBE_TEST_FULL=1:
                        1800)
  IPROBE_TEST_FULL      1: all of what is otherwise sampled (each test says of what)
  IPROBE_TEST_SECONDS   length of the paced run (default 5, of 16 MB a second, which is more than
                        rings hold; IPROBE_TEST_FULL=1: 10)
  IPROBE_TEST_ONLY      names of tests, with their parameters, between spaces: no others are run on
                        another kernel
  IPROBE_TEST_PATIENCE  how many times slower than others the machine is (default 1): all waits are
                        that much longer
  IPROBE_TEST_PROGRAMS  folder in which compiled programs of test/programs are kept for other runs
  IPROBE_TEST_COMPILERS which of gcc,clang are used (default: those that are there)

`pytest -m "not slow"` is a quick run, and so is every run where IPROBE_CHECK=quick.
"""

import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from iptest import actor as actors  # noqa: E402
from iptest.programs import Programs  # noqa: E402
from iptest.server import Server  # noqa: E402
from iptest.target import Targets  # noqa: E402

# Files that take longest, which come first: the one that ends last is a short one then. Those that
# take the CPU in turn with those that wait.
FIRST = [
    "counting",
    "rules_limits",
    "rules_actions",
    "rules",
    "nostop",
    "resume",
    "survival",
    "iprobed_workers",
    "iprobed",
    "iprobed_ends",
    "kill",
    "soak",
    "trees",
    "life",
    "stop",
    "watch",
    "inject",
    "static",
    "coldpatch",
    "syscalls",
    "drop",
    "borrow",
    "wrapper",
    "fperf",
    "m32",
    "ends",
]
SOURCE_ROOT = pathlib.Path(__file__).resolve().parents[2]


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "slow: takes more than a few seconds; left out of a quick run"
    )


def place(item):
    name = item.path.stem.removeprefix("test_")
    return FIRST.index(name) if name in FIRST else len(FIRST)


# On another kernel, IPROBE_CHECK=other-kernel: what each part of iprobe asks of a kernel, in few
# tests; -whole: the files of these.
OTHER_KERNEL = [
    "test_stop.py::test_scheduling_is_as_before",
    "test_syscalls.py::test_endless_waits_go_on[user]",
    "test_inject.py::test_counts[root-pie]",
    "test_inject.py::test_the_thread_goes_on[epoll]",
    "test_inject.py::test_seccomp",
    "test_borrow.py::test_the_thread_goes_on[read]",
    "test_nostop.py::test_live_and_idle[root]",
    "test_iprobed.py::test_privilege_table[setuid]",
    "test_iprobed.py::test_a_session_is_the_callers_own",
    "test_iprobed_ends.py::test_killed_worker_is_cleaned_up_after",
    "test_rules.py::test_cpu",
    "test_kernel_functions.py::test_calls",
    "test_kernel_functions.py::test_probes_go_away[attach]",
    "test_kernel_functions.py::test_snapshot",
]

# Files that are run with those when they are run as a whole.
OTHER_KERNEL_WHOLE = [
    "test_iprobed_commands.py",
    "test_iprobed_files.py",
    "test_iprobed_requests.py",
    "test_iprobed_snapshot.py",
    "test_iprobed_workers.py",
    "test_rules_actions.py",
    "test_rules_ends.py",
    "test_rules_files.py",
    "test_rules_limits.py",
    "test_rules_requests.py",
    "test_rules_targets.py",
]


def files_for_other_kernels(whole):
    return {name.split("::")[0] for name in OTHER_KERNEL + (OTHER_KERNEL_WHOLE if whole else [])}


def is_for_other_kernels(item, whole):
    named = item.nodeid.rsplit("/", 1)[-1]
    if whole:
        return named.split("::")[0] in files_for_other_kernels(whole)
    return named in OTHER_KERNEL


def pytest_ignore_collect(collection_path):
    """To import what is not run takes an emulator half a minute."""
    check = os.environ.get("IPROBE_CHECK", "")
    if check.startswith("other-kernel") and collection_path.suffix == ".py":
        return collection_path.name not in files_for_other_kernels(check.endswith("-whole"))
    return None


def pytest_collection_modifyitems(config, items):
    items.sort(key=place)
    if os.environ.get("IPROBE_CHECK", "").startswith("other-kernel"):
        only = os.environ.get("IPROBE_TEST_ONLY", "").split()
        kept = [
            item
            for item in items
            if is_for_other_kernels(item, os.environ["IPROBE_CHECK"].endswith("-whole"))
            and (not only or item.name in only)
        ]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
    if os.environ.get("IPROBE_CHECK") == "quick":
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def reachable_by_others(path):
    """Whether an ordinary user may enter each folder on the way."""
    path = pathlib.Path(path).resolve()
    return all(p.stat().st_mode & stat.S_IXOTH for p in [path, *path.parents])


@pytest.fixture(scope="session")
def builddir(top):
    """Where a checkout lies that is closed to ordinary users, below /root say, they get a copy
    of what was built.
    """
    path = pathlib.Path(os.environ.get("IPROBE_BUILD", SOURCE_ROOT / "build")).resolve()
    if not (path / "cli" / "iprobe").exists():
        pytest.exit(f"no iprobe in {path}: set IPROBE_BUILD to the build folder", 2)
    if os.getuid() != 0 or reachable_by_others(path):
        return path
    copy = top / "build"
    shutil.copytree(
        path, copy, symlinks=True, ignore=shutil.ignore_patterns("*.p", "*.a", "meson-*", ".ninja*")
    )
    for folder in [copy, *(folder for folder in copy.rglob("*") if folder.is_dir())]:
        folder.chmod(0o755)
    return copy


def leftovers(top):
    """What a tool could leave on the machine, as comparable sets. What is in the directory of
    other tests is theirs.
    """
    found = {"mounts": set(), "shm": set(), "tracefs": set()}
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        found["mounts"] = {
            path
            for path in (line.split()[4] for line in f if "iprobe" in line)
            if "/iprobe-test-" not in path or path.startswith(f"{top}/")
        }
    found["shm"] = {p.name for p in pathlib.Path("/dev/shm").iterdir() if "iprobe" in p.name}
    for base in ("/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"):
        if os.access(base, os.R_OK):
            found["tracefs"] |= {p.name for p in pathlib.Path(base).iterdir()}
    return found


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(top):
    """No process, mount, tracefs instance or file in /dev/shm outlives the tests."""
    before = leftovers(top)
    yield
    # Tests of another worker (pytest -n) may be at work on this machine: what is theirs goes away.
    deadline = time.monotonic() + 30
    while (after := leftovers(top)) and time.monotonic() < deadline:
        if (
            all(names <= before[what] for what, names in after.items())
            and not actors.marked_processes()
        ):
            break
        time.sleep(0.2)
    processes = actors.marked_processes()
    for what, names in after.items():
        assert names <= before[what], f"left behind in {what}: {names - before[what]}"
    assert not processes, f"left behind: {processes}"


@pytest.fixture(scope="session")
def top():
    """A directory that every user may enter."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="iprobe-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def programs(top, builddir):
    """Programs of test/programs, compiled once for each compiler and set of options that a test
    asks for.
    """
    return Programs(SOURCE_ROOT / "test" / "programs", top, builddir)


def make_actor(name, top, builddir):
    if name == "root":
        if os.getuid() != 0:
            pytest.skip("not root")
        return actors.Actor("root", 0, top, builddir)
    if os.getuid() != 0:
        return actors.Actor("user", os.getuid(), top, builddir)
    return actors.Actor("user", actors.ORDINARY_UID, top, builddir)


@pytest.fixture(params=["root", "user"])
def actor(request, top, builddir):
    """Root, then an ordinary user: everything that works for one works for the other's own
    processes.
    """
    who = make_actor(request.param, top, builddir)
    yield who
    who.cleanup()


@pytest.fixture
def root(top, builddir):
    who = make_actor("root", top, builddir)
    yield who
    who.cleanup()


@pytest.fixture
def user(top, builddir):
    who = make_actor("user", top, builddir)
    yield who
    who.cleanup()


@pytest.fixture
def me(top, builddir):
    """Whoever runs the tests."""
    who = make_actor("root" if os.getuid() == 0 else "user", top, builddir)
    yield who
    who.cleanup()


@pytest.fixture
def targets():
    """Starts targets; ends them all."""
    with Targets() as made:
        yield made


@pytest.fixture
def server(actor, programs, targets):
    """A server with two workers."""
    return Server(actor, programs, targets, workers=2)


@pytest.fixture
def small_disk(me):
    """A tmpfs of 2 MiB."""
    path = me.dir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=1777", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def number_from_env(name, default, sanitized=None):
    """Sanitizers make every command take several times as long."""
    if sanitized and "ASAN_OPTIONS" in os.environ:
        default = sanitized
    return int(os.environ.get(name, default))


@pytest.fixture(scope="session")
def cycles():
    return number_from_env(
        "IPROBE_TEST_CYCLES", 1000 if os.environ.get("IPROBE_TEST_FULL") == "1" else 200, 100
    )


@pytest.fixture(scope="session")
def kills():
    return number_from_env("IPROBE_TEST_KILLS", 200, 30)


@pytest.fixture(scope="session")
def paced_seconds():
    return number_from_env(
        "IPROBE_TEST_SECONDS", 10 if os.environ.get("IPROBE_TEST_FULL") == "1" else 5
    )
