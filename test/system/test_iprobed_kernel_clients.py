# SPDX-License-Identifier: Apache-2.0
"""
Clients that ask iprobed for a reader of kernel events, and are no iprobe: what they get, what is
logged of them, and what is left when they or iprobed end at any step.
"""

import os
import pathlib
import random
import shutil
import signal
import sys
import time

import pytest

from iptest import memory
from iptest.daemon_fixtures import POLICY, daemon, other, pytestmark  # noqa: F401
from iptest.daemon_kernel import allowing, instances, until_no_instance  # noqa: F401

CLIENT = pathlib.Path(__file__).parent / "iptest" / "event_client.py"


class Client:
    def __init__(self, daemon, who, pid):
        folder = who.dir()
        shutil.copy(CLIENT, folder / "client.py")
        self.proc = who.popen([sys.executable, folder / "client.py", daemon.socket, pid])
        self.said = self.proc.stdout.readline().strip()

    def ask(self, *words):
        self.proc.stdin.write(" ".join(map(str, words)) + "\n")
        self.proc.stdin.flush()
        return self.proc.stdout.readline().strip()

    def end(self):
        self.proc.stdin.close()
        self.proc.wait(timeout=60)


@pytest.fixture
def client(allowing, user):
    clients = []

    def start(pid, who=user):
        clients.append(Client(allowing, who, pid))
        return clients[-1]

    yield start
    for one in clients:
        one.proc.kill()
        one.proc.wait()


@pytest.fixture
def sleeping(user):
    def start(who=user):
        return who.popen(["sleep", "1000"]).pid

    return start


def readers(daemon):
    return [pid for pid, name in daemon.children().items() if name == "iprobed-kernel"]


def until_no_reader(daemon):
    memory.wait_for("a reader stays", lambda: not readers(daemon), 30)


def has_ended(pid):
    """It may be waited for by nobody."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_iprobed_is_killed(allowing, client, sleeping):
    """Nobody would count what the reader takes, which has no worker here: it ends, too."""
    one = client(sleeping())
    assert one.ask("begin") == "done"
    (reader,) = readers(allowing)
    os.kill(allowing.proc.pid, signal.SIGKILL)
    allowing.proc.wait()
    memory.wait_for("the reader goes on", lambda: has_ended(reader), 30)
    assert one.ask("add", sleeping()) == "ended"
    memory.wait_for("an instance stays", lambda: not instances(allowing), 30)


@pytest.mark.parametrize("change", ["kernel", "members", "gone", "again"])
def test_a_policy_that_changes(allowing, client, sleeping, user, change):
    """What the client has stays. No process joins by what the policy said before."""
    first, second = sleeping(), sleeping()
    one = client(first)
    assert one.ask("begin") == "done"
    assert one.ask("add", first) == "done"
    if change == "gone":
        allowing.policy.unlink()
    elif change == "again":  # another file with the same bytes
        new = allowing.policy.with_name("new")
        shutil.copy(allowing.policy, new)
        os.rename(new, allowing.policy)
    else:
        allowing.policy.write_text(
            POLICY if change == "kernel" else f"kernel:\n  users: [{user.uid}]\n"
        )
    said = one.ask("add", second)
    assert said.startswith("refused") and "the policy has changed" in said, said
    assert one.ask("add", first) == "done"
    assert one.ask("stop") == "done"
    until_no_reader(allowing)
    # asked anew, the new policy decides
    said = client(second).said
    assert said.startswith("refused" if change in ("kernel", "gone") else "events"), said


def test_root_needs_no_policy(allowing, client, sleeping, root):
    one = client(sleeping(), root)
    assert one.ask("begin") == "done"
    allowing.policy.write_text(POLICY)
    assert one.ask("add", sleeping()) == "done"


def test_what_is_logged(allowing, client, sleeping, other):
    """Each process that is named, once, with what was decided; so many at most."""
    own, strange = sleeping(), sleeping(other)
    one = client(own)
    assert one.ask("begin") == "done"
    for _ in range(3):
        assert one.ask("add", own) == "done"
        assert "refused" in one.ask("add", strange)
    memory.wait_for("it is not logged", lambda: f"says: pid {strange}: " in allowing.log(), 10)
    log = [line for line in allowing.log().splitlines() if " says: " in line]
    assert len(log) == 2 and all(f"kernel pid {own}: " in line for line in log), log
    assert log[0].endswith(f"says: pid {own}: allowed"), log
    assert log[1].endswith(f"says: pid {strange}: refused: it belongs to another user"), log


@pytest.mark.parametrize("what", [("file",), ("bytes", 0), ("bytes", 1), ("bytes", 4000)])
def test_what_is_no_word(allowing, client, sleeping, what):
    """The reader ends, and leaves nothing."""
    pid = sleeping()
    one = client(pid)
    assert one.ask("begin") == "done"
    assert one.ask("add", pid) == "done"
    assert one.ask(*what) == "ended"
    until_no_reader(allowing)
    until_no_instance(allowing)


def test_clients_that_end_at_any_time(allowing, client, sleeping):
    """Neither a process nor a descriptor nor an instance stays."""
    before = len(os.listdir(f"/proc/{allowing.proc.pid}/fd"))
    chance = random.Random(1)
    for _ in range(30):
        pid = sleeping()
        # a user has eight sessions at most
        memory.wait_for("readers stay", lambda: len(readers(allowing)) < 4, 30)
        one = client(pid)
        assert one.said == "events", one.said
        for words in (("begin",), ("add", pid), ("stop",)):
            if chance.random() < 0.4:
                break
            one.proc.stdin.write(" ".join(map(str, words)) + "\n")
            one.proc.stdin.flush()
            time.sleep(chance.random() * 0.03)
        one.proc.kill()
        one.proc.wait()
    until_no_reader(allowing)
    until_no_instance(allowing)
    memory.wait_for(
        "descriptors stay open",
        lambda: len(os.listdir(f"/proc/{allowing.proc.pid}/fd")) <= before,
        30,
    )
    assert not [pid for pid in allowing.children() if has_ended(pid)]
