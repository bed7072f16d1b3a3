# SPDX-License-Identifier: Apache-2.0
"""
iprobed: who may have whom traced, what it does with what it is asked, and what is left when any
part of it dies.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
from random import Random

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.actor import ORDINARY_UID, OTHER_UID, last_words, one_line
from iptest.daemon import GROUP, MEMBER_UID, Caller, Daemon
from iptest.fuse import StickyFiles

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)

POLICY = f"members:\n  - users: [{ORDINARY_UID}]\n    programs: ['/*/standing*']\n"


@pytest.fixture
def daemon(root):
    path = root.dir()
    path.chmod(0o755)
    made = Daemon(root, path, POLICY).start()
    yield made
    made.end()


@pytest.fixture
def other(top, builddir):
    who = Caller("other", OTHER_UID, top, builddir)
    yield who
    who.cleanup()


@pytest.fixture
def member(top, builddir):
    who = Caller("member", MEMBER_UID, top, builddir, [GROUP])
    yield who
    who.cleanup()


@pytest.fixture
def program(programs):
    return programs.simple("standing", placement="fentry")


@pytest.fixture
def target(targets, user, program):
    return targets.start(user, [program, "plain"], preload=False)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)


def idle(pid):
    return not memory.text_differences(pid)


def is_live(pid):
    """Not what an injection puts behind the code for a moment, where the file has zeros."""
    return any(any(d[3]) for d in memory.text_differences(pid))


def wait_until_live(pid):
    memory.wait_for("nothing goes live", lambda: is_live(pid), 60)


def wait_until_idle(pid):
    memory.wait_for("sites stay live", lambda: idle(pid), 60)


def wait_until_recorded(directory):
    """Something has come through to a stream."""

    def streams():
        return [
            p
            for p in directory.glob("*")
            if p.is_file() and p.name != "metadata" and p.stat().st_size
        ]

    memory.wait_for("nothing is recorded", streams, 60)


def until_recorded(attach):
    """What one says that recorded something, or was refused: on a busy machine the target may
    not have run in a short time.
    """
    for duration in ("50ms", "500ms", "5s"):
        done = attach("--json", "--duration", duration)
        if done.returncode or done.summary()["events"]:
            break
    return done


# Who may


def start_standing(kind, targets, root, user, program):
    if kind == "normal":
        return targets.start(user, [program, "plain"], preload=False)
    if kind == "non-dumpable":
        return targets.start(user, [program, "undumpable"], preload=False)
    if kind == "setuid":
        copy = root.dir() / "standing-setuid"
        shutil.copy2(program, copy)
        os.chown(copy, OTHER_UID, OTHER_UID)
        copy.chmod(0o4755)
        return targets.start(user, [copy, "plain"], preload=False)
    if kind == "own namespace":
        return targets.start(user, [program, "own-userns"], preload=False)
    return targets.start(root, [program, "userns", ORDINARY_UID], preload=False)


# By ptrace(2): root may all; a user his own dumpable processes of one set of ids, and those in a
# namespace that he has made; members what the policy lists, and of that only plain processes.
TABLE = {
    "root": {"normal", "setuid", "non-dumpable", "own namespace", "other namespace"},
    "same user": {"normal", "own namespace"},
    "other user": set(),
    "member": {"normal"},
}


@pytest.mark.parametrize(
    "kind", ["normal", "setuid", "non-dumpable", "own namespace", "other namespace"]
)
def test_privilege_table(daemon, targets, root, user, other, member, program, kind):
    target = start_standing(kind, targets, root, user, program)
    if kind == "setuid":
        with open(f"/proc/{target.pid}/status", encoding="utf-8") as f:
            if f"Uid:\t{ORDINARY_UID}\t{OTHER_UID}\t" not in f.read():
                pytest.skip("set-user-ID programs have no effect here (nosuid)")
    for name, who in [
        ("root", root),
        ("same user", user),
        ("other user", other),
        ("member", member),
    ]:
        done = until_recorded(
            lambda *options: daemon.attach(who, target.pid, *options, cwd=who.dir())
        )
        if kind in TABLE[name]:
            assert done.returncode == 0, (name, done, daemon.log())
            assert done.summary()["events"] > 0
        else:
            assert "iprobed refuses: " in one_line(done), (name, done)
            assert f"uid {who.uid} " in daemon.log() and "refused: " in daemon.log()
        assert idle(target.pid)
    assert target.alive()


def test_a_slow_moment(daemon, targets, user, programs):
    """A flight recorder with a condition, by an ordinary user through iprobed."""
    target = targets.start(user, [programs.simple("serving", placement="fentry")], preload=False)
    done = daemon.attach(
        user,
        target.pid,
        "--json",
        "--overwrite",
        "--until",
        "calls>5/100ms:handle",
        "--linger",
        "100ms",
        cwd=user.dir(),
    )
    assert done.returncode == 0, (done, daemon.log())
    summary = done.summary()
    assert summary["until"] == 1 and summary["until_met"].startswith("handle was called "), summary
    assert summary["events"] > 0 and idle(target.pid)


def test_policy_is_for_what_it_lists(daemon, targets, user, member, programs):
    """Another program of the listed user, and a policy that others could write."""
    listed = targets.start(
        user, [programs.simple("standing", placement="fentry"), "plain"], preload=False
    )
    steady = targets.steady(user, programs.simple("steady"), preload=False)
    assert "the policy does not list" in one_line(
        daemon.attach(member, steady.pid, "--duration", "50ms")
    )
    daemon.policy.chmod(0o666)
    assert "can be written by others" in one_line(
        daemon.attach(member, listed.pid, "--duration", "50ms")
    )
    daemon.policy.chmod(0o644)
    daemon.policy.write_text("members:\n  - user: [x]\n")
    assert "policy.yaml:2:5: unknown key 'user'" in one_line(
        daemon.attach(member, listed.pid, "--duration", "50ms")
    )
    daemon.policy.write_text(POLICY)
    assert daemon.attach(member, listed.pid, "-q", "--duration", "50ms").returncode == 0


# What it does


def test_a_session_is_the_callers_own(daemon, user, target):
    directory = user.dir()
    done = daemon.attach(user, target.pid, "--json", "--duration", "300ms", cwd=directory)
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] > 0 and done.summary()["lost"] == 0
    for path in [directory / "trace", *(directory / "trace").rglob("*")]:
        st = path.stat()
        assert (st.st_uid, st.st_gid) == (user.uid, user.uid), path
    report = user.iprobe("report", "--json", "trace", cwd=directory)
    assert "work" in {f["function"] for f in json.loads(report.stdout)["functions"]}
    assert (
        f"uid {user.uid} gid {user.uid} pid " in daemon.log()
        and f"attach pid {target.pid}: allowed" in daemon.log()
    )
    assert "ended with code 0" in daemon.log()
    assert list(daemon.state.iterdir()) == []


def test_it_writes_where_the_caller_may_and_nowhere_else(daemon, root, user, target):
    closed = root.dir()
    done = daemon.attach(user, target.pid, "--duration", "50ms", directory=closed / "trace")
    assert "cannot" in one_line(done) and "Permission denied" in done.stderr
    mine = user.dir()
    (mine / "link").symlink_to(closed)
    done = daemon.attach(user, target.pid, "--duration", "50ms", directory=mine / "link" / "trace")
    assert one_line(done)
    done = daemon.attach(user, target.pid, "--duration", "50ms", directory=mine / "link")
    assert "is not a trace" in one_line(done)
    done = daemon.attach(
        user, target.pid, "--duration", "50ms", directory=f"/proc/{daemon.proc.pid}/root/trace"
    )
    assert one_line(done)
    assert list(closed.iterdir()) == [] and idle(target.pid)


@pytest.mark.parametrize(
    "option",
    [
        ["--list", "/etc/passwd"],
        ["--payload", "user:/tmp/x.so"],
        ["--resume"],
        ["-f", "@/etc/shadow"],
    ],
)
def test_options_that_name_files(daemon, user, target, option):
    """Files are read by the caller; where that is not how it works they are refused."""
    done = daemon.attach(user, target.pid, *option, "--duration", "50ms")
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, repr(done)
    assert idle(target.pid)


@pytest.mark.parametrize("command", ["attach", "detach", "status", "snapshot", "top", "fperf"])
def test_options_that_name_files_in_no_spelling(daemon, user, target, command):
    """By requests that no iprobe of ours has written: none is taken, and nothing is opened."""
    path = user.dir() / "out"
    spellings = [
        f"--{word}={path}"
        for word in (
            "output",
            "outpu",
            "out",
            "o",
            "OUTPUT",
            "output ",
            "list",
            "lis",
            "resume",
            "profile",
            "runtime",
        )
    ]
    spellings += [
        f"--output={path}/../x",
        "--output=x",
        "--output",
        f"-o{path}",
        f"-o {path}",
        "-o",
        f"-jo{path}",
        str(path),
        f"--=--output={path}",
        f"--json\noption --output={path}",
        f"--json\noption -o\noption {path}",
        f"--functions=@{path}",
        f"--payload=user:{path}",
    ]
    with open("/dev/null", "r+b") as null:
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
        for spelling in spellings:
            packet = f"iprobe 1\n{command} {target.pid}\noption {spelling}\n".encode()
            for fds in ([null.fileno()] * 2, [directory, null.fileno(), null.fileno()]):
                assert ask(daemon, packet, fds).startswith("refused "), (packet, fds)
        os.close(directory)
    assert not list(path.parent.iterdir()) and idle(target.pid)


@pytest.mark.parametrize(
    "command,option",
    [
        ("detach", ["--list", "/x"]),
        ("detach", ["--lis=/x"]),
        ("status", ["--list", "/x"]),
        ("top", ["-f", "@/etc/shadow"]),
        ("fperf", ["-f", "@/etc/shadow"]),
        ("attach", ["-f", "x", "-f", "@/etc/shadow"]),
        ("attach", ["--li", "/etc/passwd"]),
    ],
)
def test_options_that_name_files_of_other_commands(daemon, user, target, command, option):
    pid = ["-p", target.pid] if command == "fperf" else [target.pid]
    done = user.iprobe(command, *option, *pid, env=daemon.env, cwd=user.dir())
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, repr(done)
    assert idle(target.pid)


def test_a_selection_from_a_file(daemon, user, target):
    path = user.dir()
    (path / "list").write_text("wor*  # all of it\n")
    done = daemon.attach(user, target.pid, "--json", "-f", "@list", "--duration", "100ms", cwd=path)
    assert done.returncode == 0 and done.summary()["functions"] == 1, repr(done)


def test_the_socket_side_has_nothing(daemon):
    """Neither the process that waits for the next connection nor one that has one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(daemon.socket))
        memory.wait_for("no process at the connection", lambda: len(daemon.fronts()) == 2, 30)
        for front in daemon.fronts():
            memory.wait_for(
                "a process is not confined", lambda: status_of(front)["Seccomp"] == "2", 30
            )
            status = status_of(front)
            assert status["NoNewPrivs"] == "1"
            assert set(status["Uid"].split()) == {"65534"} and status["Groups"].strip() == ""
            assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == 0
            # standard input, output, error; orders, words, and the connection
            assert {int(fd) for fd in os.listdir(f"/proc/{front}/fd")} <= set(range(6))


def test_a_worker_has_two_capabilities_and_the_callers_ids(daemon, user, target):
    directory = user.dir()
    proc = daemon.start_attach(user, target.pid, cwd=directory)
    wait_until_recorded(directory / "trace")
    (worker,) = daemon.workers()
    status = status_of(worker)
    assert set(status["Uid"].split()) == {str(user.uid)} == set(status["Gid"].split())
    assert int(status["CapPrm"], 16) == 1 << 19 | 1 << 23
    assert status["Seccomp"] == "0" and status["NoNewPrivs"] == "1"
    # where it may not trace the target either (ptrace_scope 3) it must not ask iprobed in turn
    with open(f"/proc/{worker}/environ", encoding="utf-8") as f:
        assert "IPROBE_DAEMON=never" in f.read().split("\0")
    # its user cannot take them from it
    done = user.run(["cat", f"/proc/{worker}/maps"])
    assert done.returncode == 1 and "Permission denied" in done.stderr
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid)


@pytest.mark.parametrize("how", ["both end", "one is killed"])
def test_the_sum_of_several_sessions(daemon, user, targets, target, program, how):
    """Their traces tell what they have recorded; one that has failed keeps its trace."""
    second = targets.start(user, [program, "plain"], preload=False)
    pids, directory = [target.pid, second.pid], user.dir()
    proc = daemon.start_attach(
        user, target.pid, second.pid, "--json", cwd=directory, stdout=subprocess.PIPE
    )
    for pid in pids:
        memory.wait_until_live(pid, proc)
    memory.wait_for("no two workers", lambda: len(daemon.workers()) == 2)
    time.sleep(0.5)  # until the events so far are in the traces
    if how == "one is killed":
        os.kill(daemon.workers()[0], signal.SIGKILL)
        memory.wait_for("it is not put back", lambda: any(idle(pid) for pid in pids), 30)
    proc.send_signal(signal.SIGINT)
    out, err = proc.communicate(timeout=60)
    done = json.loads(out)
    members = (directory / "trace/iprobe/members").read_text()
    assert all(f"\t{pid}" in members for pid in pids), members
    assert done["processes"] == 2, (done, err)
    assert done["stops"] >= 2 and done["longest_stop_us"] > 0, done
    if how == "both end":
        assert done["events"] == sum(m["events"] for m in done["members"]) > 0, done
    for pid in pids:
        memory.wait_for("it is not put back", lambda: idle(pid), 30)


def test_a_member_cannot_end_a_worker_by_force(daemon, member, target):
    """It may be in the middle of an errand in somebody else's process."""
    proc = daemon.start_attach(member, target.pid)
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    status = status_of(worker)
    assert status["Uid"].split() == ["65534", str(member.uid), "65534", str(member.uid)]
    assert (
        int(status["CapPrm"], 16)
        == int(status["CapInh"], 16)
        == 1 << 1 | 1 << 19 | 1 << 23 | 1 << 40
    )
    for word in ("KILL", "STOP"):
        done = member.run(["sh", "-c", f"kill -{word} {worker}"])
        assert done.returncode != 0 and "not permitted" in done.stderr, repr(done)
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid) and target.alive()


@pytest.mark.parametrize("who", ["user", "member"])
def test_what_a_worker_is_belongs_to_nobody(daemon, user, member, target, who):
    """It has the caller's user, who could otherwise have the kernel kill it first, or let it
    oversleep.
    """
    who = user if who == "user" else member
    proc = daemon.start_attach(who, target.pid, cwd=who.dir())
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    for name, value in (
        ("oom_score_adj", "1000"),
        ("timerslack_ns", "4000000000"),
        ("coredump_filter", "0xff"),
        ("clear_refs", "1"),
        ("comm", "other"),
        ("autogroup", "19"),
    ):
        path = f"/proc/{worker}/{name}"
        if not os.path.exists(path):
            continue
        before = open(path, encoding="utf-8").read() if name != "clear_refs" else None
        done = who.run(["sh", "-c", f"echo {value} > {path}"])
        assert done.returncode != 0, (name, repr(done))
        assert before is None or open(path, encoding="utf-8").read() == before, name
    for name in ("fd", "environ", "mem", "io"):
        assert (
            who.run(
                ["sh", "-c", f"ls /proc/{worker}/{name}/ || head -c1 /proc/{worker}/{name}"]
            ).returncode
            != 0
        ), name
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid)


@pytest.mark.parametrize("who", ["user", "member"])
def test_a_worker_is_nobodys_from_its_first_instruction(daemon, user, member, target, root, who):
    """Also between its exec and what it does first: whoever is quick could keep a descriptor of
    what /proc shows of it.
    """
    who, tries = user if who == "user" else member, 10
    racer = root.dir() / "racing_open"
    racer.parent.chmod(0o755)
    subprocess.run(
        [
            "gcc",
            "-O2",
            "-o",
            racer,
            pathlib.Path(__file__).resolve().parents[1] / "programs" / "racing_open.c",
        ],
        check=True,
    )
    proc = who.popen([racer, daemon.proc.pid])
    assert proc.stdout.readline() == "ready\n"
    for _ in range(tries):
        assert daemon.attach(who, target.pid, "--duration", "1ms", cwd=who.dir()).returncode == 0
    out, _ = proc.communicate("end\n", timeout=30)
    seen, *opened = out.split()
    assert int(seen) >= tries and not opened, out


@pytest.mark.parametrize(
    "options", [[], ["--time", "coarse"], ["--overwrite"]], ids=["plain", "coarse", "overwrite"]
)
def test_a_worker_has_real_time_priority_in_stops_alone(daemon, user, target, options):
    proc = daemon.start_attach(user, target.pid, *options, cwd=user.dir())
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    time.sleep(0.3)  # the stop is over, and what comes behind it
    seen = {}
    for _ in range(60):
        for thread in os.listdir(f"/proc/{worker}/task"):
            policy = os.sched_getscheduler(int(thread)) & ~os.SCHED_RESET_ON_FORK
            seen.setdefault(policy, []).append(thread)
        time.sleep(0.01)
    assert set(seen) == {os.SCHED_OTHER}, {policy: len(threads) for policy, threads in seen.items()}
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert idle(target.pid)


# The leader is a plain user's; the other thread stays root.
MIXED = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *stay(void *data) { for (;;) pause(); return data; }
int main(int argc, char **argv)
{
	long id = atol(argv[1]);
	pthread_t thread;
	pthread_create(&thread, 0, stay, 0);
	if (syscall(SYS_setgroups, 0, 0) || syscall(SYS_setresgid, id, id, id) || syscall(SYS_setresuid, id, id, id) ||
	    prctl(PR_SET_DUMPABLE, 1))
		return 1;
	puts("ready");
	fflush(stdout);
	return getchar() == EOF ? 0 : argc > 5;
}
"""


def test_a_thread_that_is_another_users(daemon, root, user, member):
    """Credentials are a thread's own. What a policy lists must be one plain user's, all of it."""
    folder = root.dir()
    (folder / "mixed.c").write_text(MIXED)
    path = folder / "standing-mixed"
    done = root.run(
        [
            root.builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-pthread",
            folder / "mixed.c",
            "-o",
            path,
        ]
    )
    assert done.returncode == 0, repr(done)
    proc = root.popen([path, user.uid], env={"LD_PRELOAD": str(root.runtime_path)})
    assert proc.stdout.readline() == "ready\n"
    line = one_line(daemon.attach(member, proc.pid, "--duration", "50ms", cwd=member.dir()))
    assert "has threads with other users or groups" in line, line
    assert last_words(proc).returncode == 0


def test_status_by_iprobed(daemon, user, other, target):
    done = user.iprobe("status", "--json", target.pid, env=daemon.env)
    assert done.returncode == 0 and json.loads(done.stdout)["patched"] == 0, repr(done)
    proc = daemon.start_attach(user, target.pid, cwd=user.dir())
    wait_until_live(target.pid)
    done = user.iprobe("status", "--json", target.pid, env=daemon.env)
    assert done.returncode == 0 and json.loads(done.stdout)["patched"] > 0, repr(done)
    assert "iprobed refuses: " in one_line(other.iprobe("status", target.pid, env=daemon.env))
    # looking on is noted nowhere, and ends nobody's session
    assert len(list(daemon.state.iterdir())) == 1
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0


@pytest.mark.parametrize("who", ["user", "member"])
def test_snapshot_by_iprobed(daemon, user, member, target, who):
    """The session writes it, as the caller, where he says, in his view of the file systems."""
    who = user if who == "user" else member
    directory = who.dir()
    proc = daemon.start_attach(who, target.pid, "--overwrite", cwd=directory)
    wait_until_live(target.pid)

    def snap(*options):
        return who.iprobe("snapshot", "--json", *options, target.pid, env=daemon.env, cwd=directory)

    memory.wait_for(
        "no snapshot", lambda: snap().returncode == 0, 30
    )  # the session begins before it records
    done = snap("-o", "second")
    assert done.returncode == 0, repr(done)
    assert json.loads(done.stdout)["dir"] == str(directory / "second")
    for name in ("iprobe.snapshot", "second"):
        for path in [directory / name, *(directory / name).rglob("*")]:
            assert (path.stat().st_uid, path.stat().st_gid) == (who.uid, who.uid), path
    assert who.iprobe("report", "second", cwd=directory).returncode == 0
    assert "Permission denied" in one_line(snap("-o", "/x"))
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0 and idle(target.pid)


def test_snapshot_where_the_caller_sees_it(daemon, root, user, target):
    """An absolute link means what it means to the caller: in iprobed's view it leads to another
    directory.
    """
    directory = user.dir()
    seen, onto = directory / "seen", directory / "onto"
    for path in (seen, onto):
        path.mkdir()
        os.chown(path, user.uid, user.uid)
    (directory / "link").symlink_to(onto)
    script = (
        f'mount --bind "{seen}" "{onto}" && '
        f'exec setpriv --reuid {user.uid} --regid {user.uid} --clear-groups "$@"'
    )

    def snap():
        return root.run(
            [
                "unshare",
                "--mount",
                "sh",
                "-c",
                script,
                "sh",
                user.iprobe_path,
                "snapshot",
                "-o",
                "link/out",
                target.pid,
            ],
            env=daemon.env,
            cwd=directory,
        )

    if "unshare:" in snap().stderr:
        pytest.skip("no mount namespaces here")
    proc = daemon.start_attach(user, target.pid, "--overwrite", cwd=directory)
    wait_until_live(target.pid)
    memory.wait_for(
        "no snapshot", lambda: snap().returncode == 0, 30
    )  # the session begins before it records
    assert user.iprobe("report", seen / "out").returncode == 0 and not list(onto.iterdir())
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0 and idle(target.pid)


def test_snapshot_in_every_spelling(daemon, user, target):
    """The last one counts, as in any command line; and what is there becomes .old, the session's
    own directory not.
    """
    directory = user.dir()
    proc = daemon.start_attach(user, target.pid, "--overwrite", cwd=directory)
    wait_until_live(target.pid)

    def snap(*options):
        return user.iprobe(
            "snapshot", "--json", target.pid, *options, env=daemon.env, cwd=directory
        )

    memory.wait_for(
        "no snapshot", lambda: snap().returncode == 0, 30
    )  # the session begins before it records
    (directory / "sub").mkdir()
    os.chown(directory / "sub", user.uid, user.uid)
    for n, options in enumerate(
        (
            ["--output=out0"],
            ["-oout1"],
            ["-o", "out2"],
            ["--out", "out3"],
            ["--ou=./out4/"],
            ["-o", "/x", "-osub/out5"],
        )
    ):
        done = snap(*options)
        path = directory / ("sub" if n == 5 else "") / f"out{n}"
        assert (
            done.returncode == 0
            and json.loads(done.stdout)["dir"] == str(path)
            and (path / "metadata").exists()
        ), repr(done)
    assert snap("-oout0").returncode == 0 and (directory / "out0.old" / "metadata").exists()
    before = set(directory.iterdir())
    for own in ("trace", directory / "trace", "sub/../trace"):
        assert "its session itself writes" in one_line(snap("-o", own))
    for wrong in ("..", "/", "sub/..", "no-such/x"):
        assert one_line(snap("-o", wrong))
    assert set(directory.iterdir()) == before
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0 and idle(target.pid)


def test_snapshot_from_another_root_directory(daemon, root, user, target):
    """What the caller opens in his chroot is where it goes; the same path outside stays as it
    was.
    """
    directory = user.dir()
    inside = pathlib.Path("/var/tmp")  # in the chroot: directory/seen
    seen = directory / "seen"
    seen.mkdir()
    os.chown(seen, user.uid, user.uid)
    name = f"iprobe-snapshot-{os.getpid()}"
    script = (
        f'mount --rbind / "$0" && mount --bind "{seen}" "$0{inside}" && '
        f'exec chroot "$0" setpriv --reuid {user.uid} --regid {user.uid} --clear-groups "$@"'
    )
    new = root.dir() / "root"
    new.mkdir()

    def snap():
        return root.run(
            [
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
                new,
                user.iprobe_path,
                "snapshot",
                "-o",
                inside / name,
                target.pid,
            ],
            env=daemon.env,
            cwd="/",
        )

    if "unshare:" in (first := snap()).stderr or "mount:" in first.stderr:
        pytest.skip("no mount namespaces here")
    proc = daemon.start_attach(user, target.pid, "--overwrite", cwd=directory)
    wait_until_live(target.pid)
    memory.wait_for("no snapshot", lambda: snap().returncode == 0, 30)
    assert user.iprobe("report", seen / name).returncode == 0 and not (inside / name).exists()
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0 and idle(target.pid)


def test_left_over_by_iprobed(daemon, user, target):
    """Said to iprobed as it is said to us."""
    done = user.iprobe("detach", "--left-over", target.pid, env=daemon.env)
    assert done.returncode == 0 and "with --left-over" in daemon.log(), repr(done)


def test_top_by_iprobed(daemon, user, target):
    done = user.iprobe(
        "top",
        "--json",
        "-n",
        "2",
        "-d",
        "100ms",
        "-s",
        "calls",
        target.pid,
        env=daemon.env,
        cwd=user.dir(),
    )
    assert done.returncode == 0, repr(done)
    pictures = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(pictures) == 2 and "work" in {
        f["function"] for f in pictures[-1]["functions"]
    }, pictures
    assert idle(target.pid) and not list(daemon.state.iterdir())
    proc = user.start_iprobe("top", "-b", "-f", "work", target.pid, env=daemon.env)
    wait_until_live(target.pid)
    proc.kill()
    wait_until_idle(target.pid)
    memory.wait_for("its note stays", lambda: not list(daemon.state.iterdir()), 30)


def test_fperf_by_iprobed(daemon, user, other, target):
    directory = user.dir()
    fperf = user.builddir / "cli" / "fperf"
    # of an older, longer file nothing stays
    (directory / "counts").write_text("old " * 100000)
    os.chown(directory / "counts", user.uid, -1)
    done = user.run(
        [fperf, "-p", target.pid, "--json", "--duration", "500ms", "-n", "5", "-o", "counts", "-q"],
        env=daemon.env,
        cwd=directory,
    )
    assert done.returncode == 0, repr(done)
    assert (directory / "counts").stat().st_uid == user.uid
    assert json.loads((directory / "counts").read_text())["functions"]
    assert idle(target.pid) and not list(daemon.state.iterdir())
    # a profile is the caller's, not iprobed's
    (directory / "own.yaml").write_text(
        "profiles: {mine: {events: 'perf::PAGE-FAULTS', functions: 'wor*', budget: 1%, duration: "
        "300ms}}\n"
    )
    done = user.run(
        [fperf, "-p", target.pid, "--json", "--profile", "mine", "--exclusive", "-q"],
        cwd=directory,
        env={**daemon.env, "IPROBE_PROBES_D": str(directory)},
    )
    assert done.returncode == 0, repr(done)
    result = json.loads(done.stdout)
    assert (
        result["exclusive"]
        and result["events"] == ["perf::PAGE-FAULTS"]
        and result["budget"] == 0.01
        and result["selected"] == 1
    ), result
    kept = other.dir()
    (kept / "counts").write_text("earlier results")
    os.chown(kept / "counts", other.uid, -1)
    done = other.run(
        [fperf, "-p", target.pid, "--duration", "100ms", "-o", "counts"], env=daemon.env, cwd=kept
    )
    assert done.returncode == 1 and "iprobed refuses: " in done.stderr, repr(done)
    assert (kept / "counts").read_text() == "earlier results"
    done = other.run(
        [fperf, "-p", target.pid, "--duration", "100ms", "-o", "new"], env=daemon.env, cwd=kept
    )
    assert done.returncode == 1 and not (kept / "new").exists(), repr(done)


def count_by_iprobed(daemon, who, target, *options):
    """What fperf counts in a paging target's work, asked of iprobed."""
    proc = who.popen(
        [
            who.builddir / "cli" / "fperf",
            "-q",
            "--json",
            "--budget",
            "none",
            *options,
            "-p",
            target.pid,
        ],
        env=daemon.env,
    )
    memory.wait_for(
        "fperf does not go live", lambda: proc.poll() is not None or is_live(target.pid), 60
    )
    assert proc.poll() is None, repr(last_words(proc))
    target.say()
    assert target.proc.stdout.readline() == "done\n"
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)


COUNTERS = [
    "perf::PERF_COUNT_SW_PAGE_FAULTS,perf::ALIGNMENT-FAULTS",
    "perf::PERF_COUNT_SW_PAGE_FAULTS,perf::PERF_COUNT_SW_TASK_CLOCK",
    "perf::PAGE-FAULTS,perf::TASK-CLOCK,perf::CONTEXT-SWITCHES,tsc::CYCLES",
    "page-faults,task-clock,context-switches",
]


@pytest.mark.parametrize(
    "events", COUNTERS, ids=["group", "single", "no descriptors", "short names"]
)
@pytest.mark.parametrize(
    "options", [[], ["--exclusive"], ["--multiplex"]], ids=["inclusive", "exclusive", "turns"]
)
def test_counters_by_iprobed(daemon, user, targets, programs, events, options):
    """Threads of the target open them, with what the target may: the worker needs no right to
    count.
    """
    if any("perf_event" in e["why_not"] for e in listed(user, events)):
        pytest.skip("the kernel counts nothing for a user here")
    # long enough: exclusive samples are not taken before all is live and the account is open, a
    # little later than the first site is live
    target = targets.start(
        user, [programs.simple("paging", placement="fentry"), "-s", 300], preload=False
    )
    result = count_by_iprobed(daemon, user, target, "-e", events, *options)
    functions = {f["function"]: f for f in result["functions"]}
    faults = result["events"][0]
    for name, pages in {
        "none": 0,
        "three": 3,
        "eleven": 11,
        "outer": 0 if "--exclusive" in options else 6,
    }.items():
        counter = functions[name]["counters"][faults]
        assert functions[name]["samples"] >= 100, functions[name]
        assert abs(counter["per_call"] - pages) <= (counter["ci95"] or 0) + 0.05, functions[name]
    assert idle(target.pid) and not list(daemon.state.iterdir())
    assert not [
        fd
        for fd in os.listdir(f"/proc/{target.pid}/fd")
        if "perf_event" in os.readlink(f"/proc/{target.pid}/fd/{fd}")
    ]
    target.say()
    target.finish()


def listed(who, events):
    done = who.run([who.builddir / "cli" / "fperf", "list-events", "--json"])
    assert done.returncode == 0, repr(done)
    return [
        e
        for e in json.loads(done.stdout)["events"]
        if e["name"] in events.split(",") and not e["counts"]
    ]


def test_counters_that_the_target_may_not_have(daemon, root, user, targets, programs):
    """What happens in the kernel a user's process may not count, whoever asks; one of root's
    may, and its user may ask.
    """
    with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
        if int(file.read()) < 2:
            pytest.skip("kernel.perf_event_paranoid keeps nobody out")
    fperf = user.builddir / "cli" / "fperf"
    target = targets.start(
        user, [programs.simple("paging", placement="fentry"), "-n", 1], preload=False
    )
    for who in (user, root):
        line = one_line(
            who.run([fperf, "-q", "-e", "perf::CPU-MIGRATIONS", "-p", target.pid], env=daemon.env)
        )
        assert "perf_event_paranoid" in line and "MIGRATIONS" in line, line
    assert idle(target.pid) and not list(daemon.state.iterdir())
    for _ in range(2):
        target.say()
    target.finish()


def test_from_another_process_namespace(daemon, root, target):
    done = root.run(
        [
            "unshare",
            "--pid",
            "--fork",
            root.builddir / "cli" / "iprobe",
            "attach",
            "-o",
            root.dir() / "t",
            "--duration",
            "50ms",
            target.pid,
        ],
        env=daemon.env,
    )
    assert done.returncode == 1 and "asks from another process namespace" in done.stderr, repr(done)
    assert idle(target.pid)


# Who goes away


def test_interrupted_client(daemon, user, target):
    directory = user.dir()
    proc = daemon.start_attach(user, target.pid, "--json", cwd=directory)
    wait_until_recorded(directory / "trace")
    proc.send_signal(signal.SIGINT)
    done = last_words(proc)
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)
    assert idle(target.pid)


def test_killed_client_ends_its_session(daemon, user, target):
    proc = daemon.start_attach(user, target.pid)
    wait_until_live(target.pid)
    proc.kill()
    wait_until_idle(target.pid)
    memory.wait_for("a worker stays", lambda: not daemon.workers(), 30)
    assert target.alive()


def test_a_session_that_is_left_goes_on(daemon, user, target):
    directory = user.dir()
    done = daemon.attach(
        user,
        target.pid,
        "--leave",
        "--quiet",
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert done.returncode == 0
    wait_until_live(target.pid)
    time.sleep(0.3)
    assert not idle(target.pid) and daemon.workers()
    done = user.iprobe("detach", target.pid, env=daemon.env)
    assert done.returncode == 0, repr(done)
    wait_until_idle(target.pid)
    memory.wait_for("a worker stays", lambda: not daemon.workers(), 30)
    assert user.iprobe("report", "trace", cwd=directory).returncode == 0


def test_killed_worker_is_cleaned_up_after(daemon, user, target):
    proc = daemon.start_attach(user, target.pid)
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    os.kill(worker, signal.SIGKILL)
    assert "was killed by signal 9" in one_line(last_words(proc))
    wait_until_idle(target.pid)
    memory.wait_for("its note stays", lambda: not list(daemon.state.iterdir()), 30)
    assert target.alive()


def test_stopped_worker_holds_nothing(daemon, user, target):
    """Its user can stop it, at any step; the target goes on."""
    proc = daemon.start_attach(user, target.pid)
    wait_until_live(target.pid)
    (worker,) = daemon.workers()
    assert user.run(["kill", "-STOP", worker]).returncode == 0
    assert "was killed by signal 9" in one_line(last_words(proc))
    wait_until_idle(target.pid)
    memory.wait_for("its note stays", lambda: not list(daemon.state.iterdir()), 30)
    assert "its worker was stopped" in daemon.log() and target.alive()


def test_killed_iprobed_leaves_nothing_live(daemon, user, target):
    proc = daemon.start_attach(user, target.pid)
    wait_until_live(target.pid)
    daemon.proc.kill()
    last_words(proc)
    wait_until_idle(target.pid)
    daemon.proc.wait()
    daemon.start()
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0
    assert idle(target.pid)


def kill_everything(daemon, proc, target):
    """iprobed and its only worker, which had no time to put anything back; the next iprobed
    does.
    """
    (worker,) = daemon.workers()
    daemon.proc.send_signal(signal.SIGSTOP)
    os.kill(worker, signal.SIGKILL)
    daemon.proc.kill()
    daemon.proc.wait()
    last_words(proc)
    assert not idle(target.pid) and target.alive()
    daemon.start()
    wait_until_idle(target.pid)


def test_everything_killed_at_once(daemon, user, target):
    """As of a whole cgroup: the next iprobed puts back what is live."""
    proc = daemon.start_attach(user, target.pid)
    wait_until_live(target.pid)
    kill_everything(daemon, proc, target)
    memory.wait_for("its note stays", lambda: not list(daemon.state.iterdir()), 30)
    assert "an iprobed before this one has left it" in daemon.log()


def test_everything_killed_at_once_after_two_users(daemon, root, user, target):
    """Root has added to a user's session: what each has asked for is noted, and cleaned up with
    the rights of the one who has more.
    """
    proc = daemon.start_attach(user, target.pid, "-f", "work", cwd=user.dir())
    wait_until_live(target.pid)
    done = root.iprobe("attach", "-f", "*", target.pid, env=daemon.env, cwd=root.dir())
    assert done.returncode == 0 and "added to its session" in done.stderr, repr(done)
    assert sorted(path.name for path in daemon.state.iterdir()) == [
        f"session-{target.pid}-{user.uid}-{user.uid}-own"
    ]
    # a note of root's, as of one who was at it when all was killed; and one of somebody who may not
    start = (daemon.state / f"session-{target.pid}-{user.uid}-{user.uid}-own").read_text()
    for name in ("0-0-any", f"{OTHER_UID}-{OTHER_UID}-own"):
        (daemon.state / f"session-{target.pid}-{name}").write_text(start)
    kill_everything(daemon, proc, target)
    memory.wait_for("notes stay", lambda: not list(daemon.state.iterdir()), 30)
    assert (
        f"session 1: uid 0 gid 0 pid {daemon.proc.pid}: detach pid {target.pid}: an iprobed before "
        f"this one has left it" in daemon.log()
    )
    assert target.alive()


def test_left_over_of_one_who_may_not_any_more(daemon, user, target):
    """Then it is the next one's turn."""
    proc = daemon.start_attach(user, target.pid, cwd=user.dir())
    wait_until_live(target.pid)
    (mine,) = daemon.state.iterdir()
    start = mine.read_text()
    (worker,) = daemon.workers()
    daemon.proc.send_signal(signal.SIGSTOP)
    os.kill(worker, signal.SIGKILL)
    daemon.proc.kill()
    daemon.proc.wait()
    last_words(proc)
    # readdir gives them in any order: of both numbers of users one comes first
    for uid in (1, OTHER_UID):
        (daemon.state / f"session-{target.pid}-{uid}-{uid}-own").write_text(start)
    (daemon.state / f"session-{target.pid}-x").write_text("nonsense")
    daemon.start()
    wait_until_idle(target.pid)
    memory.wait_for("notes stay", lambda: not list(daemon.state.iterdir()), 60)
    assert target.alive()


def test_terminated_iprobed_ends_its_sessions(daemon, user, target):
    directory = user.dir()
    proc = daemon.start_attach(user, target.pid, "--json", cwd=directory)
    wait_until_recorded(directory / "trace")
    assert daemon.end() == 0
    assert last_words(proc).summary()["events"] > 0
    assert idle(target.pid) and not list(daemon.state.iterdir())


def test_killed_process_at_a_connection(daemon, user, other, targets, program, target):
    """Ends that session, and no other."""
    mine = daemon.start_attach(user, target.pid)
    wait_until_live(target.pid)
    (front,) = daemon.taken()
    theirs = targets.start(other, [program, "plain"], preload=False)
    second = daemon.start_attach(other, theirs.pid, cwd=other.dir())
    wait_until_live(theirs.pid)
    os.kill(front, signal.SIGKILL)
    done = last_words(mine)
    assert done.returncode == 1 and "hung up" in done.stderr, repr(done)
    wait_until_idle(target.pid)
    assert not idle(theirs.pid) and second.poll() is None and daemon.answers()
    second.send_signal(signal.SIGINT)
    assert last_words(second).returncode == 0 and idle(theirs.pid)


def test_vanished_target(daemon, user, target):
    proc = daemon.start_attach(user, target.pid)
    wait_until_live(target.pid)
    target.proc.kill()
    done = last_words(proc)
    # the worker may have been about to verify what it had written
    assert done.returncode == 0 or one_line(done).endswith("has ended"), repr(done)
    memory.wait_for("its note stays", lambda: not list(daemon.state.iterdir()), 30)
    assert one_line(daemon.attach(user, target.pid, "--duration", "50ms"))


@pytest.mark.parametrize("follow", [[], ["--follow-exec"]])
def test_target_that_executes_a_setuid_program(daemon, root, user, targets, program, follow):
    copy = root.dir() / "standing-setuid"
    shutil.copy2(program, copy)
    os.chown(copy, OTHER_UID, OTHER_UID)
    copy.chmod(0o4755)
    target = targets.start(user, [program, "plain", copy], preload=False)
    proc = daemon.start_attach(user, target.pid, *follow)
    wait_until_live(target.pid)
    target.say("exec")
    assert target.proc.stdout.readline() == "ready\n"
    done = last_words(proc)
    assert idle(target.pid) and target.alive(), repr(done)
    assert not [
        m for m in memory.mappings(target.pid) if "memfd:iprobe" in m.path or "libiprobe" in m.path
    ]


def test_kills_at_any_moment(daemon, user, target):
    """Of the worker, of iprobed, of the client; whatever was going on, nothing is live soon
    after, and the target goes on.
    """
    random = Random(11)
    directory = user.dir()
    for i in range(24):
        proc = daemon.start_attach(user, target.pid, "-q", "--duration", "150ms", cwd=directory)
        time.sleep(random.random() * 0.2)
        if i % 3 == 0:
            for worker in daemon.workers():
                with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                    os.kill(worker, signal.SIGKILL)
        elif i % 3 == 1:
            daemon.proc.kill()
            daemon.proc.wait()
            daemon.start()
        else:
            proc.kill()
        last_words(proc)
        wait_until_idle(target.pid)
        assert target.alive()
    with open(f"/proc/{target.pid}/status", encoding="utf-8") as f:
        assert "TracerPid:\t0\n" in f.read()
    memory.wait_for("notes stay", lambda: not list(daemon.state.iterdir()), 30)


@pytest.mark.slow
def test_many_targets(root, user, targets, program):
    """Sessions beside each other, and one after the other: iprobed's memory and descriptors come
    back, and processes with them.
    """
    count, at_once = 200, 40
    daemon = Daemon(root, root.dir()).start(
        "--sessions", at_once + 1, "--sessions-per-user", at_once + 1
    )
    directory = user.dir()

    def size():
        status = status_of(daemon.proc.pid)
        return int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{daemon.proc.pid}/fd"))

    pids = [targets.start(user, [program, "idle"], preload=False).pid for _ in range(count)]
    for round_ in range(0, count, at_once):
        now = pids[round_ : round_ + at_once]
        for pid in now:
            done = daemon.attach(
                user,
                pid,
                "--leave",
                "-q",
                "--memory",
                "1M",
                directory=f"trace-{pid}",
                cwd=directory,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            assert done.returncode == 0, daemon.log()[-2000:]
        for pid in now:
            wait_until_live(pid)
        assert len(daemon.workers()) == at_once and len(list(daemon.state.iterdir())) == at_once
        memory_kb, descriptors = size()
        # a pidfd of the target and one of who asked each
        assert memory_kb < 16 << 10 and descriptors <= 2 * at_once + 20, (memory_kb, descriptors)
        for pid in now:
            done = user.iprobe("detach", pid, env=daemon.env)
            assert done.returncode == 0, repr(done)
        memory.wait_for(
            "workers stay", lambda: not daemon.workers() and not list(daemon.state.iterdir()), 60
        )
        assert all(idle(pid) for pid in now)
    memory.wait_for("processes stay", lambda: len(daemon.children()) == 1, 30)
    memory_kb, descriptors = size()
    assert memory_kb < 16 << 10 and descriptors <= 16, (memory_kb, descriptors)
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert daemon.end() == 0 and daemon.log().count("ended with code 0") == 2 * count, daemon.log()[
        -2000:
    ]


# What it is sent


def talk(daemon, packet, fds=()):
    """All that is answered."""
    answers = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(daemon.socket))
        s.settimeout(30)
        try:
            if fds:
                socket.send_fds(s, [packet], list(fds))
            else:
                s.send(packet)
            while answer := s.recv(4096).decode():
                answers.append(answer)
        except (ConnectionResetError, BrokenPipeError):
            pass
    return answers


def ask(daemon, packet, fds=()):
    """What is answered when it is over."""
    return (talk(daemon, packet, fds) or [""])[-1]


def test_malformed_requests(daemon, user, target):
    good = b"iprobe 1\nattach %d\n" % target.pid
    bad = [
        b"x",
        b"iprobe 2\nattach 1\n",
        b"iprobe 1\n",
        b"iprobe 1\nattach 0\n",
        b"iprobe 1\nattach 1\nattach 1\n",
        good + b"\0",
        good,
        good + b"directory ../x\n",
        good + b"directory a/b\n",
        good + b"option --list=/etc/passwd\n",
        good + b"option -o/tmp\n",
        good + b"option --functions=@/etc/passwd\n",
        good + b"option --sample=2:@/etc/passwd\n",
        good + b"option --payload=user:/x\n",
        good + b"option --json=1\n",
        good + b"option --duration\n",
        good + b"option --no-such\n",
        good + b"nonsense\n",
        b"\n\n",
        b"\xff" * 60000,
        b"iprobe 1\nattach 1\n" + b"option --json\n" * 100,
        b"A" * 66000,
    ]
    with open("/dev/null", "r+b") as null:
        for packet in bad:
            assert ask(daemon, packet).startswith("refused "), packet[:80]
            assert ask(daemon, packet, [null.fileno()] * 2).startswith("refused "), packet[:80]
        # a directory that is none, and one that is sent where there is no room for it
        assert talk(daemon, good, [null.fileno()] * 3)[-1] == "ended 1\n"
        ask(daemon, good, [null.fileno()] * 20)
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0
    assert idle(target.pid)


def test_requests_of_random_words(daemon, user, target):
    random = Random(7)
    words = [
        b"iprobe 1\n",
        b"attach ",
        b"detach ",
        b"status ",
        b"snapshot ",
        b"top ",
        b"fperf ",
        b"--output=",
        b"/x",
        b"--delay=1",
        str(daemon.proc.pid).encode(),
        b"\n",
        b"leave\n",
        b"directory ",
        b"option ",
        b"--json\n",
        b"--functions=",
        b"\0",
        b"\xff",
        b"x" * 3000,
    ]
    with open("/dev/null", "r+b") as null:
        for _ in range(1000):
            packet = b"".join(random.choice(words) for _ in range(random.randrange(1, 12)))
            answer = ask(daemon, packet, [null.fileno()] * random.randrange(6))
            # iprobed itself is among what is asked for; it has nothing to be seen
            assert answer == "" or answer.startswith(("refused ", "ended ")), (packet, answer)
    memory.wait_for("processes stay", lambda: len(daemon.children()) == 1, 30)
    assert len(os.listdir(f"/proc/{daemon.proc.pid}/fd")) < 16
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0


def test_connections_that_say_nothing(daemon, user, target):
    """They are closed, and other users are served meanwhile."""
    with_nothing = []
    for _ in range(40):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(30)
        s.connect(str(daemon.socket))
        with_nothing.append(s)
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0
    answers = [s.recv(4096) for s in with_nothing]
    assert (
        sum(a.startswith(b"refused too many") for a in answers) >= 20 and answers.count(b"") >= 10
    )
    for s in with_nothing:
        s.close()


@pytest.fixture
def sticky(root):
    try:
        made = StickyFiles(root.dir())
    except OSError as error:
        pytest.skip(f"no file system of our own (FUSE) here: {error}")
    yield made
    made.end()


STICKY_CLIENT = """
import os, socket, sys
held = []
for i in range(int(sys.argv[3])):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(30)
    s.connect(sys.argv[1])
    fd = os.open(sys.argv[2], os.O_RDWR)
    try:
        socket.send_fds(s, [b"nonsense" if i % 2 else sys.argv[4].encode()], [fd, fd, fd])
    except OSError:
        pass  # turned away already
    held.append(s)
print("sent", flush=True)
sys.stdin.read()
"""


def test_descriptors_that_cannot_be_closed(daemon, user, other, targets, program, target, sticky):
    """Who sends such has iprobed's processes for his own connections hang, and is soon told that
    he has too many. Nobody else notices.
    """
    theirs = targets.start(other, [program, "plain"], preload=False)
    session = daemon.start_attach(other, theirs.pid, cwd=other.dir())
    wait_until_live(theirs.pid)
    request = f"iprobe 1\nattach {target.pid}\ndirectory x\n"
    client = user.popen(
        ["/usr/bin/python3", "-c", STICKY_CLIENT, daemon.socket, sticky.path, 60, request]
    )
    assert client.stdout.readline() == "sent\n"
    memory.wait_for("nothing hangs", lambda: len(sticky.held) >= 8, 60)
    one = targets.start(other, [program, "plain"], preload=False)
    done = daemon.attach(other, one.pid, "-q", "--duration", "50ms", cwd=other.dir())
    assert done.returncode == 0, repr(done)
    assert "too many connections" in one_line(daemon.attach(user, target.pid, "--duration", "50ms"))
    # 16 connections and their workers, one that waits, the other's two, and what closes those that
    # were turned away
    assert len(daemon.children()) <= 16 + 8 + 1 + 4 + 8, daemon.children()
    assert not idle(theirs.pid) and session.poll() is None
    session.send_signal(signal.SIGINT)
    assert last_words(session).returncode == 0 and idle(theirs.pid)
    sticky.release()
    client.stdin.close()
    client.wait(timeout=60)
    memory.wait_for("processes stay", lambda: len(daemon.children()) == 1, 60)
    assert (
        daemon.attach(user, target.pid, "-q", "--duration", "50ms", cwd=user.dir()).returncode == 0
    )
    assert idle(target.pid) and target.alive()


def test_limits_of_the_caller_are_the_workers(daemon, user, target):
    directory = user.dir()
    proc = user.popen(
        [
            "prlimit",
            "--fsize=200000000",
            "--nproc=5000",
            user.iprobe_path,
            "attach",
            "-o",
            "trace",
            target.pid,
        ],
        env=daemon.env,
        cwd=directory,
    )
    wait_until_recorded(directory / "trace")
    (worker,) = daemon.workers()
    with open(f"/proc/{worker}/limits", encoding="utf-8") as f:
        limits = {line[:25].strip(): line[25:].split()[:2] for line in f}
    assert limits["Max file size"] == ["200000000"] * 2
    assert limits["Max processes"] == ["5000"] * 2
    assert limits["Max core file size"] == ["0"] * 2
    for name in ("Max address space", "Max data size"):
        assert all(int(n) <= 16 << 30 for n in limits[name]), limits
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0 and idle(target.pid)


def test_sessions_have_a_limit(root, user, targets, program):
    path = root.dir()
    daemon = Daemon(root, path).start("--sessions-per-user", "1")
    first = targets.start(user, [program, "plain"], preload=False)
    second = targets.start(user, [program, "plain"], preload=False)
    proc = daemon.start_attach(user, first.pid, cwd=user.dir())
    wait_until_live(first.pid)
    assert "has 1 session by iprobed" in one_line(
        daemon.attach(user, second.pid, "--duration", "50ms")
    )
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    assert daemon.end() == 0


def test_memory_has_a_limit(root, user, other, targets, program):
    """Of each user, by what all of his sessions may take; what puts bytes back needs none."""
    daemon = Daemon(root, root.dir()).start("--memory-per-user", "120M")
    first, second = (targets.start(user, [program, "plain"], preload=False) for _ in range(2))
    others = targets.start(other, [program, "plain"], preload=False)
    proc = daemon.start_attach(user, first.pid, "--memory", "16M", cwd=user.dir())
    wait_until_live(first.pid)
    for options in ((), ("--memory", "16M", "--memory", "64M"), ("--memory=500M",)):
        line = one_line(
            daemon.attach(user, second.pid, *options, "--duration", "50ms", cwd=user.dir())
        )
        assert "have 48.0 MiB of the 120.0 MiB" in line and idle(second.pid), line
    assert "of the 120.0 MiB" in one_line(
        user.iprobe("top", "-b", "-n", "1", second.pid, env=daemon.env)
    )
    done = daemon.attach(
        user, second.pid, "--memory", "1G", "--memory", "8M", "--duration", "50ms", cwd=user.dir()
    )
    assert done.returncode == 0, repr(done)
    assert daemon.attach(other, others.pid, "--duration", "50ms", cwd=other.dir()).returncode == 0
    assert user.iprobe("status", first.pid, env=daemon.env).returncode == 0
    assert user.iprobe("detach", first.pid, env=daemon.env).returncode == 0
    assert last_words(proc).returncode == 0
    # what has ended takes nothing
    assert (
        daemon.attach(
            user, second.pid, "--memory", "80M", "--duration", "50ms", cwd=user.dir()
        ).returncode
        == 0
    )
    assert daemon.end() == 0


def test_full_disk(root, user, target, small_disk):
    """Of the state: refused, since nobody could clean up; of the trace: ends as ever."""
    state = small_disk / "state"
    daemon = Daemon(root, root.dir())
    daemon.state = state
    daemon.start()
    (small_disk / "mine").mkdir()
    os.chown(small_disk / "mine", user.uid, user.uid)
    done = daemon.attach(user, target.pid, "--json", "--duration", "20s", cwd=small_disk / "mine")
    assert done.returncode == 0 and done.summary()["end"] in (
        "no space left",
        "size limit reached",
    ), repr(done)
    assert idle(target.pid)
    with open(small_disk / "filler", "wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096):
                pass
        except OSError:
            pass
    assert "cannot note the session" in one_line(
        daemon.attach(user, target.pid, "--duration", "50ms", directory=user.dir() / "t")
    )
    assert idle(target.pid)
    assert daemon.end() == 0


# How it starts


def test_socket_activation_and_notification(root, user, target):
    path = root.dir()
    daemon = Daemon(root, path)
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(path / "notify"))
    told.settimeout(30)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(daemon.socket))
    listening.listen(5)
    os.chmod(daemon.socket, 0o666)
    script = (
        f"exec 3<&{listening.fileno()}; "
        'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" --socket /nowhere/at/all'
    )
    name, value = actors.MARK.split("=")
    with open(daemon.log_path, "w", encoding="utf-8") as log:
        daemon.proc = subprocess.Popen(
            [
                "bash",
                "-c",
                script,
                "bash",
                root.builddir / "cli" / "iprobed",
                "--state",
                daemon.state,
            ],
            pass_fds=[listening.fileno()],
            stderr=log,
            env={**os.environ, name: value, "NOTIFY_SOCKET": str(path / "notify")},
        )
    assert told.recv(100) == b"READY=1"
    assert daemon.attach(user, target.pid, "-q", "--duration", "50ms").returncode == 0
    assert daemon.end() == 0, daemon.log()
    assert told.recv(100) == b"STOPPING=1"
    told.close()
    listening.close()


def test_as_an_ordinary_user(user, other, targets, program):
    """It serves that user alone."""
    path = user.dir()
    daemon = Daemon(user, path).start()
    target = targets.start(user, [program, "plain"], preload=False)
    done = until_recorded(lambda *options: daemon.attach(user, target.pid, *options, cwd=path))
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)
    if os.getuid() == 0:
        assert "it serves that user alone" in one_line(
            daemon.attach(other, target.pid, "--duration", "50ms")
        )
    assert idle(target.pid)
    assert daemon.end() == 0


def test_without_an_iprobed(user, target):
    nowhere = {"IPROBE_SOCKET": "/nowhere/at/all"}
    done = user.iprobe(
        "attach", "--duration", "50ms", target.pid, env={**nowhere, "IPROBE_DAEMON": "always"}
    )
    assert "cannot ask iprobed at /nowhere/at/all" in one_line(done)
    assert (
        user.iprobe("attach", "-q", "--duration", "50ms", target.pid, env=nowhere).returncode == 0
    )
    assert "IPROBE_DAEMON is auto" in one_line(
        user.iprobe("attach", target.pid, env={"IPROBE_DAEMON": "maybe"})
    )
    assert "--leave" in one_line(user.iprobe("attach", "--leave", target.pid, env=nowhere))


def test_asked_by_itself_where_we_may_not(daemon, member, target):
    """Not a word of iprobed on the command line or in the environment but where its socket is."""
    done = until_recorded(
        lambda *options: member.iprobe(
            "attach",
            *options,
            "-o",
            member.dir() / "trace",
            target.pid,
            env={"IPROBE_SOCKET": str(daemon.socket)},
        )
    )
    assert done.returncode == 0 and done.summary()["events"] > 0, repr(done)


def test_two_of_one_socket(daemon, root):
    done = root.run(
        [root.builddir / "cli" / "iprobed", "--socket", daemon.socket, "--state", daemon.state]
    )
    assert done.returncode == 1 and "another iprobed listens there" in done.stderr
    assert daemon.answers()
