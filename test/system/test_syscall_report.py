# SPDX-License-Identifier: Apache-2.0
"""
iprobe syscalls: a program whose system calls are known, and what strace -c counts of it.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import time
from collections import Counter

import pytest

from iptest import actor as actors
from test_wait import skip_without_events

ROUNDS = 6
NAP = 5e6  # ns, of test/programs/syscaller.c
# function: its system calls in one round, and the errors among them
MADE = {
    "fail_open": ({"openat": 4}, {"ENOENT": 3, "ENOTDIR": 1}),
    "fail_read": ({"read": 2}, {"EBADF": 2}),
    "read_file": ({"pread64": 10, "clock_nanosleep": 1}, {}),
    "use_socket": (
        {"socketpair": 1, "sendto": 1, "recvfrom": 2, "close": 2},
        {"EAGAIN": 1},
    ),
    "ask_parent": ({"getppid": 5}, {}),
}


def play(proc, meanwhile=lambda: None):
    """The program makes its calls, and ends."""
    proc.stdin.write("\n")
    proc.stdin.flush()
    assert proc.stdout.readline() == "done\n"
    meanwhile()
    proc.stdin.close()


def until(true, what):
    """Waits for what comes by itself, however busy the machine is."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def recorded(top, builddir, programs):
    """One run of the program under iprobe run --kernel."""
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor)
    folder = actor.dir()
    (folder / "read").write_text("sixteen bytes of text")
    proc = actor.popen(
        [
            actor.iprobe_path,
            *("run", "-q", "--kernel", "-o", folder / "trace", "--"),
            programs.simple("syscaller", placement="fentry"),
            str(ROUNDS),
            folder / "read",
        ],
        stdin=subprocess.PIPE,
    )
    assert proc.stdout.readline() == "ready\n"
    descriptors = folder / "trace/iprobe/descriptors"
    play(proc, lambda: until(lambda: str(folder / "read") in descriptors.read_text(), "no name"))
    assert proc.wait(timeout=30) == 0, proc.stderr.read()

    def syscalls(*args):
        done = actor.iprobe("syscalls", *args, folder / "trace")
        assert done.returncode == 0 and not done.stderr, repr(done)
        return done.stdout

    yield syscalls, folder
    actor.cleanup()


@pytest.mark.parametrize("function", sorted(MADE))
def test_functions(recorded, function):
    syscalls, _ = recorded
    calls, errors = MADE[function]
    rows = [
        row
        for row in json.loads(syscalls("--by", "function", "--json"))["syscalls"]
        if row["function"] == function
    ]
    assert {row["name"]: row["calls"] for row in rows} == {
        name: n * ROUNDS for name, n in calls.items()
    }
    said = sum((Counter(row["errors_by_name"]) for row in rows), Counter())
    assert said == {name: n * ROUNDS for name, n in errors.items()}
    assert sum(row["errors"] for row in rows) == sum(errors.values()) * ROUNDS
    for row in rows:
        parts = sum(row[p + "_ns"] for p in ("cpu", "runqueue", "blocked", "unknown"))
        assert abs(parts - row["total_ns"]) < 10 and row["unknown_ns"] == 0, row
        assert row["timed"] == row["calls"] and row["earlier"] == row["open"] == 0
        assert row["min_ns"] <= row["avg_ns"] <= row["max_ns"], row
    # -f chooses the same calls
    table = json.loads(syscalls("-f", function, "--json"))
    assert {row["name"]: row["calls"] for row in table["syscalls"]} == {
        row["name"]: row["calls"] for row in rows
    }


def test_time(recorded):
    syscalls, _ = recorded
    (nap,) = json.loads(syscalls("-e", "clock_nanosleep", "--json"))["syscalls"]
    assert nap["min_ns"] >= NAP and nap["calls"] == ROUNDS
    assert nap["blocked_ns"] > 0.5 * ROUNDS * NAP, nap  # the CPU may be taken away before it sleeps


def test_descriptors(recorded):
    syscalls, folder = recorded
    rows = json.loads(syscalls("--by", "fd", "--json"))["syscalls"]
    said = {(row["name"], row["descriptor"]): row for row in rows}
    assert said["pread64", str(folder / "read")]["calls"] == 10 * ROUNDS
    assert said["read", None]["errors_by_name"] == {"EBADF": 2 * ROUNDS}
    assert said["openat", None]["errors_by_name"] == {"ENOENT": 3 * ROUNDS, "ENOTDIR": ROUNDS}
    assert said["openat", str(folder / "read")]["calls"] == 1


def test_list(recorded):
    syscalls, folder = recorded
    text = syscalls("--list", "-f", "fail_open,*_file,use_socket")
    first = re.compile(
        r"\d\d:\d\d:\d\d\.\d{6} \[\d+ syscaller\] fail_open: "
        r"openat\(AT_FDCWD, \"/nonexistent/file\", O_RDONLY\|O_CLOEXEC\) = "
        r"-1 ENOENT \(No such file or directory\) <0\.\d{9}>"
    )
    lines = text.splitlines()
    assert first.fullmatch(lines[1]), lines[1]
    path = re.escape(str(folder / "read"))
    assert re.search(rf" open_file: openat\(.*\) = \d+<{path}> <0\.\d{{9}}>$", lines[0]), lines[0]
    assert (
        len(re.findall(rf"read_file: pread64\(\d+<{path}>, 0x[0-9a-f]+, 16, 0\) = 16 ", text))
        == 10 * ROUNDS
    )
    assert len(re.findall(r"sendto\(\d+.*, 1, MSG_NOSIGNAL, 0, 0\) = 1 ", text)) == ROUNDS
    times = [line.split()[0] for line in lines]
    assert times == sorted(times)
    # the same as JSON, and cut off
    documents = json_lines(syscalls("--list", "--json", "-f", "fail_open", "-n", "3"))
    assert len(documents) == 3
    assert {d["error"] for d in documents} == {"ENOENT"}
    assert all(d["outcome"] == "returned" and d["result"] == -2 for d in documents)


def test_choice(recorded):
    syscalls, _ = recorded
    names = {row["name"] for row in json.loads(syscalls("--json", "-e", "%network"))["syscalls"]}
    assert names == {"socketpair", "sendto", "recvfrom"}
    failed = json.loads(syscalls("--json", "--failed"))
    assert failed["calls"] == failed["errors"] >= ROUNDS * 7
    slowest = json_lines(syscalls("--json", "--slowest", "2", "-e", "clock_nanosleep"))
    lengths = [d["duration_ns"] for d in json_lines(syscalls("--list", "--json", "-e", "230"))]
    assert [d["duration_ns"] for d in slowest] == sorted(lengths, reverse=True)[:2]
    tid = {d["tid"] for d in json_lines(syscalls("--list", "--json", "-f", "ask_parent"))}
    assert len(tid) == 1
    other = json.loads(syscalls("--json", "--tid", str(tid.pop())))["syscalls"]
    assert {row["name"] for row in other} >= {"getppid"} and "openat" not in {
        row["name"] for row in other
    }


def test_table(recorded):
    syscalls, _ = recorded
    text = syscalls("-e", "openat,getppid", "-f", "fail_open,ask_parent,open_file")
    row = next(line for line in text.splitlines() if line.endswith("ENOTDIR 6"))
    assert re.search(r" 25 +24  openat +ENOENT 18, ENOTDIR 6$", row), row
    assert re.search(r"^100\.00 .* 55 +24  total$", text, re.M), text
    assert "LOST" not in text


def lose(path, n):
    """Says in the last packet of a stream that so many events before it were lost."""
    data, at, last = bytearray(path.read_bytes()), 0, None
    while at < len(data):
        last, at = at, at + struct.unpack_from("<Q", data, at + 48)[0] // 8
    if last is not None:
        struct.pack_into("<Q", data, last + 64, n)
        path.write_bytes(data)


def test_losses(recorded, root):
    _, folder = recorded
    shutil.copytree(folder / "trace", folder / "lossy")
    for path in (folder / "lossy/kernel").glob("target_*"):
        lose(path, 7)
    done = root.iprobe("syscalls", "--json", folder / "lossy")
    lost = json.loads(done.stdout)["kernel_lost"]
    assert lost and lost % 7 == 0, repr(done)
    done = root.iprobe("syscalls", folder / "lossy")
    assert re.match(
        rf"# at least \d+ system calls, .*; {lost} EVENTS OF THE KERNEL WERE LOST", done.stdout
    )


def test_usage(recorded, root):
    _, folder = recorded
    for args, said in (
        (("-e", "opennat"), "nearest is openat"),
        (("--by", "thread"), "--by takes call, function, fd or process"),
        (("--list", "--slowest", "3"), "take one"),
        (("--by", "fd", "--list"), "does not go with --list"),
        (("--slowest", "0"), "above 0"),
    ):
        done = root.iprobe("syscalls", *args, folder / "trace")
        assert done.returncode == 2 and said in done.stderr, repr(done)
    (folder / "empty").mkdir()
    done = root.iprobe("syscalls", folder / "empty")
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)
