# SPDX-License-Identifier: Apache-2.0
"""iprobed: who may trace what, and how it comes to be asked."""

import json
import os
import shutil
import socket
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory
from iptest.actor import ORDINARY_UID, OTHER_UID, last_words, one_line
from iptest.daemon import Daemon
from iptest.daemon_fixtures import (  # noqa: F401
    POLICY,
    daemon,
    idle,
    member,
    other,
    program,
    pytestmark,
    target,
    until_recorded,
    wait_until_live,
)


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


def test_doctor_asks_it(daemon, user, other, member, target):
    """It says what iprobed lets one trace, as an attach would be told."""
    for who in (user, member):
        done = who.iprobe("doctor", "--json", target.pid, env=daemon.env)
        found = {c["check"]: c for c in json.loads(done.stdout)["checks"] if "pid" in c}
        assert found["process"]["verdict"] == "ok", repr(done)
        assert "may be traced through iprobed" in found["process"]["detail"], repr(done)
        assert f"pid {target.pid}: 0 sites live" in found["status"]["detail"], repr(done)
    assert "or iprobed, which is running" in done.stdout, repr(done)
    done = other.iprobe("doctor", target.pid, env=daemon.env)
    assert done.returncode == 1 and "iprobed refuses: " in done.stdout, repr(done)
    assert "thing stands in the way" in done.stderr, repr(done)
    without = {"IPROBE_SOCKET": "/nonexistent"}
    done = other.iprobe("doctor", target.pid, env=without)
    assert "needs that user" in done.stdout and ", or iprobed(8)" in done.stdout, repr(done)
    assert idle(target.pid) and not list(daemon.state.iterdir())


def test_the_first_process(daemon, member):
    """Also where iprobed itself may not look at it, as in a container."""
    done = daemon.attach(member, 1, "--duration", "50ms", cwd=member.dir())
    assert "whatever the policy says" in one_line(done), repr(done)


def test_two_of_one_socket(daemon, root):
    done = root.run(
        [root.builddir / "cli" / "iprobed", "--socket", daemon.socket, "--state", daemon.state]
    )
    assert done.returncode == 1 and "another iprobed listens there" in done.stderr
    assert daemon.answers()
