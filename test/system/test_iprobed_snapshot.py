# SPDX-License-Identifier: Apache-2.0
"""Snapshots by iprobed: where they go, whoever asks, in whatever spelling."""

import json
import os
import pathlib
import signal

import pytest

from iptest import memory
from iptest.actor import last_words, one_line
from iptest.daemon_fixtures import (  # noqa: F401
    daemon,
    idle,
    member,
    program,
    pytestmark,
    target,
    wait_until_live,
)


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
