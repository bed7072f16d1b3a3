# SPDX-License-Identifier: Apache-2.0
"""iprobed, its workers and its callers end, or are killed: nothing stays live."""

import contextlib
import os
import signal
import socket
import sys
import time
from random import Random

import pytest

from iptest import memory
from iptest.actor import OTHER_UID, last_words, one_line
from iptest.daemon import GROUP
from iptest.daemon_fixtures import (  # noqa: F401
    daemon,
    idle,
    member,
    other,
    program,
    pytestmark,
    target,
    wait_until_idle,
    wait_until_live,
    wait_until_recorded,
)


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
        "--json",
        cwd=directory,
    )
    # nobody waits for the end of what was printed, and the session is there
    assert done.returncode == 0 and not done.stdout, repr(done)
    assert "goes on by itself" in done.stderr and not idle(target.pid)
    time.sleep(0.3)
    assert not idle(target.pid) and daemon.workers()
    done = user.iprobe("detach", target.pid, env=daemon.env)
    assert done.returncode == 0, repr(done)
    wait_until_idle(target.pid)
    memory.wait_for("a worker stays", lambda: not daemon.workers(), 30)
    # the worker says it when the sites are idle, which is what detach waits for
    memory.wait_for("no summary", lambda: "says: {" in daemon.log(), 30)
    assert '"dir":"trace"' in daemon.log()
    assert user.iprobe("report", "trace", cwd=directory).returncode == 0


def test_a_snapshot_of_a_session_that_was_left(daemon, member, target):
    """It can be asked as soon as the attach has ended, and its summary is on no one's terminal."""
    directory = member.dir()
    done = daemon.attach(member, target.pid, "--overwrite", "--leave", cwd=directory)
    assert done.returncode == 0, repr(done)
    done = member.iprobe("snapshot", target.pid, env=daemon.env, cwd=directory)
    assert done.returncode == 0, repr(done)
    assert member.iprobe("detach", target.pid, env=daemon.env).returncode == 0
    wait_until_idle(target.pid)
    memory.wait_for("no summary", lambda: "says: iprobe: " in daemon.log(), 30)


def test_a_session_that_cannot_begin_is_not_left(daemon, user, target):
    done = daemon.attach(user, target.pid, "--leave", "-f", "no_such_function", cwd=user.dir())
    assert done.returncode == 1 and "matches none of its" in one_line(done), repr(done)
    assert idle(target.pid) and not daemon.workers()


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


def test_its_socket_goes_with_it(daemon):
    assert daemon.socket.is_socket()
    assert daemon.end() == 0
    assert not daemon.socket.exists()
    # one that cannot begin leaves none, either
    daemon.state.chmod(0o777)
    done = daemon.actor.run(
        [
            *(daemon.actor.builddir / "cli" / "iprobed", "--no-rules", "--socket", daemon.socket),
            *("--state", daemon.state, "--policy", daemon.policy, "--group", GROUP),
        ]
    )
    assert done.returncode == 1 and not daemon.socket.exists(), repr(done)
    daemon.state.chmod(0o755)
    # that of one which was killed is no obstacle
    daemon.start()
    daemon.proc.kill()
    daemon.proc.wait()
    # processes that it has forked have its socket for a moment
    memory.wait_for("somebody answers", lambda: not daemon.answers())
    assert daemon.socket.is_socket()
    assert daemon.start().end() == 0
    assert not daemon.socket.exists()


@pytest.mark.parametrize("what", ["socket", "file", "link"])
def test_what_has_the_name_of_its_socket_stays(daemon, what):
    """Another one may listen there by now."""
    daemon.socket.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        if what == "socket":
            other.bind(str(daemon.socket))
        elif what == "file":
            daemon.socket.touch()
        else:
            daemon.socket.symlink_to(daemon.state)
        before = daemon.socket.lstat()
        assert daemon.end() == 0
        after = daemon.socket.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_the_socket_of_systemd_stays(daemon):
    """Which starts iprobed again for the next client."""
    assert daemon.end() == 0
    daemon.start(
        before=[
            *(sys.executable, "-c"),
            "import os, socket, sys\n"
            "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "s.bind(sys.argv[1]); s.listen(); os.dup2(s.fileno(), 3); os.set_inheritable(3, True)\n"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\n"
            "os.execv(sys.argv[2], sys.argv[2:])",
            daemon.socket,
        ]
    )
    memory.wait_for("it does not serve", lambda: daemon.log().count(": serves") == 2, 30)
    before = daemon.socket.stat().st_ino
    assert daemon.end() == 0
    assert daemon.socket.stat().st_ino == before


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
