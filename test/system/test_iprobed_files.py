# SPDX-License-Identifier: Apache-2.0
"""iprobed and files: where a worker writes, and which options may name one."""

import os

import pytest

from iptest.actor import one_line
from iptest.daemon import Daemon
from iptest.daemon_fixtures import (  # noqa: F401
    ask,
    daemon,
    idle,
    program,
    pytestmark,
    target,
)


def test_it_writes_where_the_caller_may_and_nowhere_else(daemon, root, user, target):
    closed = root.dir()
    done = daemon.attach(user, target.pid, "--duration", "50ms", directory=closed / "trace")
    assert f"cannot make {closed}/trace: Permission denied" in one_line(done)
    mine = user.dir()
    # another one's directory that may be entered: a trace cannot be made there
    closed.chmod(0o755)
    done = daemon.attach(user, target.pid, "--duration", "50ms", directory=closed / "trace")
    assert f"cannot make {closed}/trace: Permission denied" in one_line(done)
    closed.chmod(0o700)
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
    # what the worker makes is told by the path that was given
    done = daemon.attach(user, target.pid, "--duration", "50ms", directory=mine / "one")
    assert f"; trace in {mine}/one\n" in done.stderr, repr(done)
    done = daemon.attach(user, target.pid, "--duration", "50ms", "--json", directory=mine / "two")
    assert done.summary()["dir"] == str(mine / "two"), repr(done)


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
