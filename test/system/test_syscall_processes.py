# SPDX-License-Identifier: Apache-2.0
"""
iprobe syscalls and iprobe wait of several processes; what of their system calls is iprobe's own;
and a pid that another process gets.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest.actor import one_line
from test_syscall_live import live_in, play_without_end, start, traced
from test_syscall_report import MADE, ROUNDS, play, until
from test_wait import instances, source  # noqa: F401

__all__ = ["traced"]
REQUESTS = 4


def syscaller(actor, programs, name="syscaller"):
    """A process that waits for a line; name: of its program."""
    program = programs.simple("syscaller", placement="fentry")
    if name != "syscaller":
        program = shutil.copy(program, actor.top / f"{name}.new")
        os.rename(program, actor.top / name)
        program = actor.top / name
    (actor.top / "read").write_text("sixteen bytes of text")
    proc = actor.popen([program, str(ROUNDS), actor.top / "read"], stdin=subprocess.PIPE)
    assert proc.stdout.readline() == "ready\n"
    return proc


@pytest.fixture
def two(traced, programs):
    return [syscaller(traced, programs) for _ in range(2)]


def rows_of(said, name):
    return [row for row in said["syscalls"] if row["name"] == name]


def test_several(traced, two):
    """Each call of each process, once."""
    proc = start(traced, "syscalls", "--by", "process", "--json", *[p.pid for p in two])
    for one in two:
        play(one)
    said = json.loads(actors.last_words(proc).stdout)
    assert said["processes"] == 2 and said["kernel_lost"] == 0 and "pid" not in said
    assert said["own_calls"] == 0
    for name in {name for of_one, _ in MADE.values() for name in of_one} - {"openat", "read"}:
        found = {row["pid"]: row for row in rows_of(said, name)}
        assert set(found) == {p.pid for p in two}, name
        assert {row["process"] for row in found.values()} == {"syscaller"}
        one, other = (found[p.pid]["calls"] for p in two)
        assert one == other > 0, name
    assert {row["calls"] for row in rows_of(said, "getppid")} == {5 * ROUNDS}
    assert not instances(proc.pid)


def test_sums_of_several(traced, two):
    proc = start(traced, "syscalls", "-e", "getppid", *[p.pid for p in two])
    for one in two:
        play(one)
    done = actors.last_words(proc)  # it ends with the last of them
    assert done.returncode == 0 and not done.stderr, repr(done)
    assert done.stdout.startswith(f"# 2 processes and what they fork: {10 * ROUNDS} system calls, ")
    assert re.search(rf" {10 * ROUNDS} +0  getppid$", done.stdout, re.M), done.stdout


def test_one_that_is_missing(traced, two):
    """The others are counted; the exit code tells."""
    proc = start(traced, "syscalls", "-e", "getppid", two[0].pid, 999999999, 2)
    play(two[0])
    done = actors.last_words(proc)
    assert done.returncode == 1, repr(done)
    assert done.stderr.splitlines() == [
        "iprobe: pid 999999999: no such process",
        "iprobe: pid 2: it makes no system calls: it is a thread of the kernel, or has ended",
    ]
    assert f" {5 * ROUNDS} " in done.stdout
    done = traced.iprobe("syscalls", "999999998", "999999999")
    assert done.returncode == 1 and done.stderr.count("\n") == 1, repr(done)


def test_members_join(traced, programs):
    """A process of that name that is started later counts, and the children of all."""
    name = f"join_{os.environ['IPROBE_KERNEL_SOURCE']}"  # the other one may run meanwhile
    first = syscaller(traced, programs, name)
    args = ["--by", "process", "-e", "getppid", "--json", "--name", name]
    proc = start(traced, "syscalls", *args)
    later = syscaller(traced, programs, name)
    # the kernel records it from its next call on
    until(lambda: listed(proc.pid, later.pid), "it does not join")
    for one in (first, later):
        play(one)
    done = actors.last_words(proc)  # a second after the last of them
    assert done.returncode == 0 and not done.stderr, repr(done)
    said = json.loads(done.stdout)
    assert said["processes"] == 2
    assert {row["pid"]: row["calls"] for row in said["syscalls"]} == {
        first.pid: 5 * ROUNDS,
        later.pid: 5 * ROUNDS,
    }


def listed(iprobe, pid):
    """Whether an iprobe's instance of tracefs records the threads of a process. Of perf events,
    whether it has a pidfd of the process, which it opens just before.
    """
    if os.environ["IPROBE_KERNEL_SOURCE"] == "perf":
        found = False
        for path in pathlib.Path(f"/proc/{iprobe}/fdinfo").iterdir():
            try:
                found = found or f"Pid:\t{pid}\n" in path.read_text()
            except OSError:  # it was closed meanwhile
                continue
        time.sleep(1)
        return found
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c"]
        + [f"mount -t tracefs none /mnt && cat /mnt/instances/iprobe-{iprobe}-*/set_event_pid"],
        capture_output=True,
        text=True,
        check=False,
    )
    return str(pid) in done.stdout.split()


def test_children(traced, programs):
    """Those that are there already."""
    program = programs.simple("syscaller", placement="fentry")
    (traced.top / "read").write_text("sixteen bytes of text")
    # the shell waits for its child
    shell = traced.popen(
        ["sh", "-c", '"$0" "$@"; true', program, str(ROUNDS), traced.top / "read"],
        stdin=subprocess.PIPE,
    )
    assert shell.stdout.readline() == "ready\n"
    alone = start(traced, "syscalls", "-e", "getppid", "--json", shell.pid)
    family = start(traced, "syscalls", "-e", "getppid", "--json", "--children", shell.pid)
    play_without_end(shell)
    for proc, calls, processes in ((alone, 0, None), (family, 5 * ROUNDS, 2)):
        proc.send_signal(signal.SIGINT)
        said = json.loads(actors.last_words(proc).stdout)
        assert said["calls"] == calls and said.get("processes") == processes, said
    shell.stdin.close()
    assert shell.wait(timeout=30) == 0


@pytest.mark.parametrize("others", [0, 1])
def test_a_pid_that_is_another_process_now(traced, programs, others):
    """
    The process ends before the kernel is told to record its threads, and another one gets its
    number: nothing of that is counted.
    """
    if not shutil.which("strace"):
        pytest.skip("no strace")
    target = syscaller(traced, programs)
    other = [syscaller(traced, programs).pid for _ in range(others)]
    # the first thing that is done of either source
    call = "perf_event_open" if os.environ["IPROBE_KERNEL_SOURCE"] == "perf" else "mkdir"
    proc = traced.popen(
        ["strace", "-f", "-o", os.devnull, "-e", f"trace={call}"]
        + ["-e", f"inject={call}:signal=STOP:when=1", traced.iprobe_path]
        + ["syscalls", "--duration", "5s", str(target.pid), *map(str, other)]
    )
    # it holds the processes, and begins to make its instance
    until(lambda: held_by_child(proc.pid, 1 + others), "it does not open the process")
    (iprobe,) = children_of(proc.pid)
    until(lambda: is_stopped(iprobe), "it does not stop")
    target.kill()
    target.wait()
    taker = traced.popen(
        [programs.simple("at_pid", prepared=False), str(target.pid)], stdin=subprocess.PIPE
    )
    assert taker.stdout.readline() == f"made {target.pid}\n"
    until(lambda: has_gone_on(iprobe), "it does not end")
    done = actors.last_words(proc)
    taker.stdin.close()
    assert done.returncode == 1 and not done.stdout, repr(done)
    assert done.stderr == (
        f"iprobe: pid {target.pid}: it has ended, and the number is another process' now, "
        "whose calls were not asked for\n"
    )


def children_of(parent):
    with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as f:
        return [int(pid) for pid in f.read().split()]


def has_gone_on(pid):
    """Lets it go on, to its end: each of its threads stops at its first such call."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return True
    return False


def is_stopped(pid):
    """Stays stopped: it is so for a moment in each call that its tracer looks at."""
    states = set()
    for _ in range(20):
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            states.add(f.read().rpartition(")")[2].split()[0])
        time.sleep(0.01)
    return states <= {"t", "T"}


def held_by_child(parent, n):
    """Whether the child of a tracer holds on to so many processes."""
    links = []
    for pid in children_of(parent):
        try:
            links += [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            return False
    return links.count("anon_inode:[pidfd]") >= n


def requests(actor, programs, rounds):
    program = programs.simple("slow_requests", placement="fentry")
    proc = actor.popen([program, str(rounds)], stdin=subprocess.PIPE)
    assert proc.stdout.readline() == f"ready {proc.pid}\n"
    return proc


@pytest.mark.parametrize("how", ["live", "recorded"])
def test_own_calls(traced, programs, how):
    """The program's own are counted; what iprobe's code makes there is told beside them."""
    target = requests(traced, programs, REQUESTS)
    trace = traced.top / "trace"
    record = traced.start_iprobe(
        *["attach", "-q", "--args", "--retval", "-o", trace, target.pid],
        *(["--kernel"] if how == "recorded" else []),
    )
    live_in(traced, target)
    if how == "live":
        count = start(traced, "syscalls", "--json", target.pid)
    play_without_end(target)
    if how == "live":
        count.send_signal(signal.SIGINT)
        done = actors.last_words(count)
    record.send_signal(signal.SIGINT)
    assert actors.last_words(record).returncode == 0
    if how == "recorded":
        done = traced.iprobe("syscalls", "--json", trace)
    said = json.loads(done.stdout)
    assert said["kernel_lost"] == 0
    calls = {row["name"]: row["calls"] for row in said["syscalls"]}
    assert calls["getppid"] == 5 * REQUESTS and calls["process_vm_readv"] == REQUESTS, said
    # of each request its URI was read; and a borrowed thread has made room, which may have been
    # over before the counting began
    assert said["own_calls"] >= (2 if how == "live" else 3) * REQUESTS and said["own_ns"] > 0
    assert set(calls) <= {"getppid", "getpid", "process_vm_readv", "futex", "clock_nanosleep"} | {
        *("read", "write", "restart_syscall")
    }
    if how == "live":
        return
    shown = traced.iprobe("syscalls", "-e", "process_vm_readv,process_vm_writev", trace)
    assert re.search(rf" {REQUESTS} +0  process_vm_readv$", shown.stdout, re.M), shown.stdout
    own = re.search(r"^(\d+) calls, .* of iprobe's own code in the process", shown.stdout, re.M)
    assert own and 3 * REQUESTS <= int(own[1]) <= said["own_calls"], shown.stdout
    listed_calls = traced.iprobe("syscalls", "--list", "-e", "process_vm_readv", trace)
    assert listed_calls.stdout.count("\n") == REQUESTS
    traces = [traced.iprobe("syscalls", "--by", "process", "--json", trace).stdout]
    assert {row["pid"] for row in json.loads(traces[0])["syscalls"]} == {target.pid}


MARKING = """
import ctypes
libc, mark = ctypes.CDLL(None), ctypes.c_long(0x6970726F << 32)
print("ready", flush=True)
input()
for _ in range(10):
    libc.syscall(ctypes.c_long(110), 0, 0, 0, 0, 0, mark)
for _ in range(5):
    libc.syscall(ctypes.c_long(110), 0, 0, 0, 0, 0, ctypes.c_long(0))
print("done", flush=True)
input()
"""


def test_marked_calls(traced):
    """A program that marks calls as iprobe's own hides them from its rows, not from the sums."""
    target = traced.popen(["python3", "-c", MARKING], stdin=subprocess.PIPE)
    assert target.stdout.readline() == "ready\n"
    proc = start(traced, "syscalls", "--json", "-e", "getppid", target.pid)
    play_without_end(target)
    proc.send_signal(signal.SIGINT)
    said = json.loads(actors.last_words(proc).stdout)
    (row,) = said["syscalls"]
    assert row["calls"] == said["calls"] == 5 and said["own_calls"] == 10
    assert said["own_ns"] > 0
    target.stdin.write("\n")
    target.stdin.close()


def check_programs(said, pid, first):
    """The calls of a child that executed a program are those of two processes."""
    made = {}
    for row in said["syscalls"]:
        if row["pid"] == pid:
            made.setdefault(row["process"], {})[row["name"]] = row["calls"]
    assert set(made) == {first, "sleep"}, made
    assert made[first]["getsid"] == 7 and made[first]["execve"] >= 1
    assert "clock_nanosleep" in made["sleep"] and "brk" in made["sleep"]
    assert not {"getsid", "execve"} & set(made["sleep"]), made
    assert "brk" not in made[first], made


def check_process(traced, trace, said, pid):
    """--process has the rows of --by process that are this process's, or have this name."""

    def calls(*options):
        done = traced.iprobe("syscalls", "--json", *options, trace)
        assert done.returncode == 0, repr(done)
        return {row["name"]: row["calls"] for row in json.loads(done.stdout)["syscalls"]}

    of_pid = [row for row in said["syscalls"] if row["pid"] == pid]
    assert sum(calls("--process", pid).values()) == sum(row["calls"] for row in of_pid)
    asleep = {row["name"]: row["calls"] for row in of_pid if row["process"] == "sleep"}
    assert calls("--process", "sl*p") == asleep
    assert calls("--process", "sleep", "-e", "brk") == {"brk": asleep["brk"]}
    for options in (["--list"], ["--slowest", "9999"]):
        listed = traced.iprobe("syscalls", "--json", *options, "--process", "sleep", trace).stdout
        lines = [json.loads(line) for line in listed.splitlines()]
        # the one that ends the process is no call that was made whole
        assert len(lines) == sum(asleep.values()) + 1 and {c["tid"] for c in lines} == {pid}
        assert {c["name"] for c in lines} == set(asleep), lines
    done = traced.iprobe("syscalls", "--process", "nobody", trace)
    assert done.returncode == 1 and "no process 'nobody' made" in one_line(done), repr(done)
    done = traced.iprobe("syscalls", "--process", "sleep", os.getpid())
    assert done.returncode == 2 and "name the processes themselves" in done.stderr, repr(done)


def test_a_child_that_executes_a_program(traced, programs):
    """Each call is put down to what the process was called when it made it: live, and recorded."""
    program = [programs.simple("renamed"), "room-for-a-title-" * 4]
    live = traced.popen(program, stdin=subprocess.PIPE)
    assert live.stdout.readline() == "ready\n"
    proc = start(traced, "syscalls", "--by", "process", "--json", live.pid)
    for _ in range(2):
        print("program", file=live.stdin, flush=True)
        pid = int(live.stdout.readline().split()[1])
    stat = pathlib.Path(f"/proc/{pid}/stat")
    until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "Z", "it does not end")
    live.stdin.close()
    said = json.loads(actors.last_words(proc).stdout)
    check_programs(said, pid, "renamed")

    trace = traced.dir() / "trace"
    args = ["run", "-q", "--kernel", "--follow-fork", "-o", trace, "--", *program]
    done = traced.iprobe(*args, input="program\n")
    assert done.returncode == 0, repr(done)
    pid = int(re.search(r"^program (\d+)", done.stdout, re.M).group(1))
    said = json.loads(traced.iprobe("syscalls", "--by", "process", "--json", trace).stdout)
    check_programs(said, pid, "renamed")
    text = traced.iprobe("syscalls", "--by", "process", trace).stdout
    assert re.search(rf"clock_nanosleep +{pid} sleep$", text, re.M), text
    assert re.search(rf"getsid +{pid} renamed$", text, re.M), text
    listed = traced.iprobe("syscalls", "--list", "--json", "-e", "getsid,brk", trace).stdout
    calls = [json.loads(line) for line in listed.splitlines()]
    assert {(c["name"], c["thread"]) for c in calls if c["tid"] == pid} == {
        ("getsid", "renamed"),
        ("brk", "sleep"),
    }
    check_process(traced, trace, said, pid)
    # its functions were those of the program that it was
    rows = json.loads(traced.iprobe("report", "--by", "process", "--json", trace).stdout)["rows"]
    assert {row["process"] for row in rows if row["pid"] == pid} == {"renamed"}


@pytest.mark.parametrize("source", ["tracefs", "perf"])
def test_wait_for_the_start(traced, programs, source):
    """A program that iprobe runs waits for its sites when the recording begins: no call of its."""
    (traced.top / "read").write_text("sixteen bytes of text")
    program = programs.simple("syscaller", placement="fentry")
    args = ["run", "--kernel", "--kernel-source", source, "-f", "main", "-o", traced.top / "trace"]
    done = traced.iprobe(*args, "--", program, ROUNDS, traced.top / "read", input="\n")
    assert done.returncode == 0, repr(done)
    said = json.loads(traced.iprobe("syscalls", "--json", traced.top / "trace").stdout)
    assert said["kernel_lost"] == 0 and said["own_calls"] > 0 and said["own_ns"] > 0
    assert rows_of(said, "getppid")[0]["calls"] == 5 * ROUNDS
    listed = traced.iprobe("syscalls", "--list", traced.top / "trace").stdout
    assert "getppid(" in listed and "FUTEX_WAIT," not in listed


def test_values_of_slow_calls(traced, programs):
    """Which request was slow, and what did it wait for?"""
    target = requests(traced, programs, REQUESTS)
    trace = traced.top / "trace"
    args = ["wait", "--of", "handle_request", "--args", "--retval", "-o", trace]
    proc = traced.start_iprobe(*args, "--slowest", "1", target.pid)
    live_in(traced, target)
    play_without_end(target)
    target.stdin.close()
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    # on a busy machine it may have waited for a CPU for longer
    assert re.search(
        r'^handle_request\(uri="/b", id=2\) = 503, [\d.]+ ms: (?:.*\n)*.*futex &db.lock,? held by '
        r"thread \d+ \(slow_requests\) in compact",
        done.stdout,
        re.M,
    ), done.stdout
    assert re.search(
        r'^handle_request\(uri="/b", id=2\) = 503: [\d.]+ ms in thread', done.stdout, re.M
    ), done.stdout
    of = ["wait", "--of", "handle_request", "--json", "--slowest", "100", trace]
    said = json.loads(traced.iprobe(*of).stdout)["calls"]
    assert len(said) == 3 * REQUESTS
    assert [(c["args"], c["retval"]) for c in said[:REQUESTS]] == (
        [({"uri": "/b", "id": 2}, 503)] * REQUESTS
    )
    for conditions, uris in (
        (["uri=/a"], {"/a"}),
        (["uri=/*", "id>=2"], {"/b", "/c"}),
        (["retval!=503", "id!=1"], {"/c"}),
    ):
        options = [word for c in conditions for word in ("--value", c)]
        chosen = json.loads(traced.iprobe(*of, *options).stdout)["calls"]
        assert {c["args"]["uri"] for c in chosen} == uris
        assert len(chosen) == REQUESTS * len(uris)
    none = traced.iprobe(*of, "--value", "uri=/z")
    assert none.returncode == 0 and json.loads(none.stdout)["calls"] == []
    assert "nothing meets 'uri=/z'" in none.stderr
    for options, said in (
        (["--of", "handle_request", "--value", "size=3"], "no function records a value 'size'"),
        (["--value", "uri=/a"], "--value goes with --of"),
        (["--of", "handle_request", "--value", "uri"], "is no condition on a value"),
        (["--args", "--of", "handle_request"], "--args goes with a PID"),
    ):
        done = traced.iprobe("wait", *options, trace)
        assert done.returncode in (1, 2) and said in done.stderr, repr(done)


def test_wait_for_several(traced, two):
    """Recorded as one, and shown by process."""
    place = traced.dir()
    args = ["wait", "-f", "read_file", "--by", "process", "--json", *[p.pid for p in two]]
    proc = traced.start_iprobe(*args, env={"TMPDIR": str(place)})
    for one in two:
        live_in(traced, one)
    for one in two:
        play(one)
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    said = json.loads(done.stdout)["processes"]
    assert {p["pid"] for p in said} == {p.pid for p in two}
    for process in said:
        (row,) = process["functions"]
        assert (row["function"], row["calls"]) == ("read_file", ROUNDS)
    assert not list(place.iterdir())


def test_functions_of_several(traced, two):
    place = traced.dir()
    args = ["syscalls", "-f", "ask_parent", "--by", "function", "--json", *[p.pid for p in two]]
    proc = traced.start_iprobe(*args, env={"TMPDIR": str(place)})
    for one in two:
        live_in(traced, one)
    for one in two:
        play(one)
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    (row,) = json.loads(done.stdout)["syscalls"]
    assert (row["name"], row["function"], row["calls"]) == ("getppid", "ask_parent", 10 * ROUNDS)
    assert not list(place.iterdir())
