# SPDX-License-Identifier: Apache-2.0
"""Rules whose session, command or iprobed is killed: nothing stays live."""

import contextlib
import copy
import os
import shutil
import signal
import subprocess

import pytest

from iptest import memory
from iptest.rules import (  # noqa: F401
    LATENCY,
    WAIT,
    idle,
    program,
    pytestmark,
    rule,
    rules,
    serving,
    wait_until_idle,
    wait_until_live,
)


@pytest.mark.parametrize("who", ["session", "rules", "iprobed", "all"])
def test_kills(rules, serving, who):
    rules.start(rule(LATENCY))
    wait_until_live(serving.pid)
    process = rules.rules_pid()
    sessions = [
        int(p)
        for p in subprocess.run(
            ["pgrep", "-P", str(process)], capture_output=True, text=True, check=False
        ).stdout.split()
    ]
    assert sessions
    if who == "session":
        os.kill(sessions[0], signal.SIGKILL)
        rules.wait_log("its session was killed: what is live is put back")
        memory.wait_for(
            "it is not watched again",
            lambda: rules.log().count("is watched") == 1 and not idle(serving.pid),
            WAIT,
        )
    else:
        pids = {
            "rules": [process],
            "iprobed": [rules.daemon.proc.pid],
            "all": [rules.daemon.proc.pid, process, *sessions],
        }[who]
        for pid in pids if who == "all" else []:  # none is to see how another goes
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            with contextlib.suppress(
                ProcessLookupError
            ):  # a session that was stopped is killed by who has seen it
                os.kill(pid, signal.SIGKILL)
        if who != "all":  # sessions are told by the kernel, and put everything back by themselves
            wait_until_idle(serving.pid)
        if who == "rules":
            rules.wait_log("the process for rules has ended")
        else:
            rules.daemon.proc.wait()
        if who == "rules":
            os.kill(rules.daemon.proc.pid, signal.SIGHUP)
        else:
            rules.start()
        memory.wait_for(
            "no rules are carried out", lambda: rules.log().count("1 carried out") == 2, WAIT
        )
        if who == "all":
            rules.wait_log("rules before these have left a session: what is live is put back")
        wait_until_live(serving.pid)
    with open(f"/proc/{serving.pid}/status", encoding="utf-8") as f:
        assert "State:\tT" not in f.read()
    rules.daemon.end()
    wait_until_idle(serving.pid)
    assert serving.alive()


def test_what_cannot_be_put_back_yet(rules, serving):
    """An iprobe whose detach does not work before there is a file: it is tried again, by the
    next iprobed too, and nothing else is begun.
    """
    place, cli = rules.path / "build", rules.actor.builddir / "cli"
    (place / "cli").mkdir(parents=True)
    shutil.copy(cli / "iprobed", place / "cli")
    (place / "cli" / "iprobe").write_text(
        f"""#!/bin/sh
if [ "$1" = detach ] && [ ! -e {place}/works ]; then
    echo try >>{place}/tries
    echo 'iprobe: not now' >&2
    exit 1
fi
exec {cli}/iprobe "$@"
"""
    )
    for p in (place, place / "cli", place / "cli" / "iprobe"):
        p.chmod(0o755)
    (place / "tries").touch()
    (place / "tries").chmod(0o666)
    rules.daemon.actor = copy.copy(rules.actor)
    rules.daemon.actor.builddir = place
    rules.start(rule(LATENCY))
    wait_until_live(serving.pid)
    process = rules.rules_pid()
    (session,) = subprocess.run(
        ["pgrep", "-P", str(process)], capture_output=True, text=True, check=False
    ).stdout.split()
    os.kill(int(session), signal.SIGKILL)
    rules.wait_log(
        f"pid {serving.pid} ",
        "cannot be put back, and no rule is carried out on it before: iprobe: not now; it is tried "
        "again in ",
    )
    memory.wait_for(
        "it is not tried again", lambda: (place / "tries").read_text().count("try") >= 2, WAIT
    )
    note = rules.daemon.state / f"rule-{serving.pid}"
    assert (
        [p["doing"] for p in rules.listed()["r"]["processes"]] == ["clean"]
        and note.exists()
        and not idle(serving.pid)
    )
    os.kill(rules.daemon.proc.pid, signal.SIGHUP)
    memory.wait_for("files are not read again", lambda: rules.carried_out() == 2, WAIT)
    assert note.exists() and rules.daemon.end() == 0
    assert note.exists() and not idle(serving.pid)
    (place / "works").touch()
    rules.start()
    rules.wait_log("rules before these have left a session: what is live is put back")
    memory.wait_for(
        "it is not watched again",
        lambda: [p["doing"] for p in rules.listed()["r"]["processes"]] == ["watch"],
        WAIT,
    )
    wait_until_live(serving.pid)
    assert rules.daemon.end() == 0
    wait_until_idle(serving.pid)


def test_left_over(serving, me):
    """What rules clean up with: a session whose iprobe is alive is none of its business."""
    session = me.start_iprobe("attach", "-q", "-o", me.dir() / "trace", serving.pid)
    wait_until_live(serving.pid)
    for _ in range(2):
        done = me.iprobe("detach", "--left-over", serving.pid)
        assert done.returncode == 0 and not done.stderr, repr(done)
        assert session.poll() is None and not idle(serving.pid)
    session.kill()
    session.wait()
    assert me.iprobe("detach", "--left-over", serving.pid).returncode == 0
    assert idle(serving.pid)
