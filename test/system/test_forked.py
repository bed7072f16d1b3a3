# SPDX-License-Identifier: Apache-2.0
"""Attaching to processes that were forked from one that iprobe has attached to before: they get
ring memory of their own (hotpatcher/inject/area_renew.h).
"""

import json
import re
import shutil
import time

import pytest

from iptest import memory

N = 500


@pytest.fixture(params=["preloaded", "injected"])
def server(request, actor, programs, targets):
    return targets.start(actor, [programs.simple("prefork")], preload=request.param == "preloaded")


def fork(server, word="fork"):
    server.say(word)
    return int(server.proc.stdout.readline())


def attach_shortly(actor, pid):
    directory = actor.dir() / "first"
    done = actor.iprobe("attach", pid, "--duration", "20ms", "-o", directory)
    assert done.returncode == 0, repr(done)
    shutil.rmtree(directory)


def begin(actor, pid, *flags):
    directory = actor.dir() / f"trace-{pid}"
    proc = actor.start_iprobe("attach", pid, "--json", "-q", "-o", directory, *flags)
    # what its parent's session has left live in it is put back before there is a trace
    memory.wait_for("there is no trace", lambda: proc.poll() is not None or directory.exists())
    memory.wait_until_live(pid, proc)
    return proc, directory


def go(server, n=N):
    server.say(f"go {n}")
    assert server.proc.stdout.readline() == "done\n"


def end(session):
    session.terminate()
    out, err = session.communicate(timeout=60)
    assert session.returncode == 0, err
    return json.loads(out)


def calls(actor, directory, name="prefork_answer"):
    report = actor.iprobe("report", "--json", directory)
    assert report.returncode == 0, repr(report)
    rows = json.loads(report.stdout)["functions"]
    return sum(row["calls"] for row in rows if row["function"] == name)


def has_own_area(pid, *others):
    inode = re.compile(r"^\S+ \S+ \S+ \S+ (\d+)\s+/memfd:iprobe", re.M)

    def area(which):
        with open(f"/proc/{which}/maps") as file:
            return set(inode.findall(file.read()))

    mine = area(pid)
    return len(mine) == 1 and all(mine != area(other) for other in others)


def test_a_child_of_a_process_that_was_recorded(actor, server):
    attach_shortly(actor, server.pid)
    child, other = fork(server), fork(server)
    session, directory = begin(actor, child)
    assert has_own_area(child, server.pid, other)
    go(server)
    summary = end(session)
    assert summary["lost"] == 0 and summary["processes"] == 1
    assert calls(actor, directory) == N
    memory.assert_untouched(child)
    memory.assert_untouched(other)
    server.finish()


def test_parent_and_children_at_once(actor, server):
    attach_shortly(actor, server.pid)
    pids = [fork(server) for _ in range(3)]
    sessions = [begin(actor, pid) for pid in [server.pid, *pids]]
    go(server)
    for session, _ in sessions:
        end(session)
    assert [calls(actor, directory) for _, directory in sessions] == [0, N, N, N]
    for pid in [server.pid, *pids]:
        memory.assert_untouched(pid)
    server.finish()


def test_a_library_in_a_child_that_locks_its_memory(me, programs, targets):
    """The library may be unloaded, so its stubs lie in a pool, of which all pages are there."""
    server = targets.start(me, [programs.simple("prefork", extra=["-ldl"])], preload=True)
    library = programs.plugins()[1]
    for line in (f"load {library}", "mlock"):
        server.say(line)
        assert server.proc.stdout.readline() == "done\n"
    attach_shortly(me, server.pid)
    server.say("fork")
    lines = sorted([server.proc.stdout.readline(), server.proc.stdout.readline()])
    assert lines[1] == "locked\n"
    child = int(lines[0])
    session, directory = begin(me, child, "-f", "plug")
    go(server)
    assert end(session)["lost"] == 0
    assert calls(me, directory, "plug") == N
    memory.assert_untouched(child)
    server.finish()


def test_again_and_again(actor, server):
    """Numbers of sessions go on, slots of the parent are not taken for the child's own, and the
    second session in a child needs no area any more.
    """
    for _ in range(3):
        attach_shortly(actor, server.pid)
    child = fork(server)
    for _ in range(3):
        session, directory = begin(actor, child)
        go(server)
        assert end(session)["lost"] == 0
        assert calls(actor, directory) == N
        shutil.rmtree(directory)
    grandchild = fork(server)
    session, directory = begin(actor, grandchild)
    go(server)
    end(session)
    assert calls(actor, directory) == N
    server.finish()


def test_what_is_told_before(actor, server):
    """doctor and --dry-run decide by the rule that attach uses, and change nothing."""
    attach_shortly(actor, server.pid)
    child = fork(server)
    examined = actor.iprobe("doctor", child)
    assert examined.returncode == 0, repr(examined)
    assert "forked with it, and without ring memory: iprobe attach" in examined.stdout
    planned = actor.iprobe("attach", "--dry-run", child)
    assert planned.returncode == 0, repr(planned)
    assert "ring memory" not in planned.stdout + planned.stderr, repr(planned)
    assert not has_own_area(child, server.pid)
    session, directory = begin(actor, child)
    go(server)
    assert end(session)["lost"] == 0
    assert calls(actor, directory) == N
    server.finish()


def test_forked_while_the_parent_is_recorded(actor, server):
    """The parent's session puts such a child back, and leaves it alone from the moment on that it
    has a session of its own: also at the end, when it closes the gates of all children.
    """
    first, first_dir = begin(actor, server.pid)
    child = fork(server)
    session, directory = begin(actor, child)
    go(server)
    end(first)
    go(server)
    summary = end(session)
    assert summary["lost"] == 0 and summary["disturbed"] == 0
    assert calls(actor, directory) == 2 * N
    assert calls(actor, first_dir) == 0
    memory.assert_untouched(child)
    memory.assert_untouched(server.pid)
    server.finish()


def test_shares_its_parents_area(actor, server):
    """A followed child has the area of its parent, also when the session has ended. Alone it keeps
    it; beside a session of its parent it gets its own.
    """
    first, first_dir = begin(actor, server.pid, "--follow-fork")
    child = fork(server)
    go(server)
    refused = actor.iprobe("attach", child, "-o", actor.dir() / "other")
    assert refused.returncode == 1 and "has a session already" in refused.stderr, repr(refused)
    end(first)
    assert calls(actor, first_dir) == N
    shutil.rmtree(first_dir)
    first, first_dir = begin(actor, server.pid)
    session, directory = begin(actor, child)
    assert has_own_area(child, server.pid)
    go(server)
    end(first)
    go(server)
    end(session)
    assert (calls(actor, first_dir), calls(actor, directory)) == (0, 2 * N)
    memory.assert_untouched(child)
    server.finish()


def test_a_child_that_gave_up_privileges(me, programs, targets):
    """It was followed until then, and its parent's area was taken from it."""
    if me.uid:
        pytest.skip("only root can become another user")
    server = targets.start(me, [programs.simple("prefork")], preload=False)
    first, first_dir = begin(me, server.pid, "--follow-fork")
    server.say("as 65534")
    server.proc.stdout.readline()
    child = fork(server)
    memory.wait_for(
        "the child has its parent's area",
        lambda: "/memfd:iprobe" not in open(f"/proc/{child}/maps").read(),
    )
    memory.wait_for("the child is put back", lambda: memory.text_differences(child) == [])
    session, directory = begin(me, child)
    assert has_own_area(child, server.pid)
    go(server)
    end(first)
    end(session)
    assert calls(me, directory) == N
    server.finish()


def test_memory_that_is_shared_is_refused(actor, programs, targets):
    server = targets.start(actor, [programs.simple("prefork")], preload=False)
    attach_shortly(actor, server.pid)
    worker = fork(server)
    child = fork(server, "vfork")
    before = open(f"/proc/{server.pid}/maps").read()
    done = actor.iprobe("attach", child, "--duration", "10ms", "-o", actor.dir() / "t")
    assert done.returncode == 1, repr(done)
    assert open(f"/proc/{server.pid}/maps").read() == before
    server.say("")
    attach_shortly(actor, worker)
    server.finish()


def test_other_memory_where_the_area_belongs(actor, programs, targets):
    """The program has mapped something there since: it is refused, and keeps what it has."""
    server = targets.start(actor, [programs.simple("prefork")], preload=False)
    attach_shortly(actor, server.pid)
    area = re.search(r"^([0-9a-f]+)-.*/memfd:iprobe", open(f"/proc/{server.pid}/maps").read(), re.M)
    child = fork(server)
    server.say(f"at {area.group(1)}")
    server.say("fork")
    lines = sorted([server.proc.stdout.readline(), server.proc.stdout.readline()])
    assert lines[1] == "mapped\n"
    taken = int(lines[0])
    done = actor.iprobe("attach", taken, "--duration", "10ms", "-o", actor.dir() / "t")
    assert done.returncode == 1 and "other memory lies at" in done.stderr, repr(done)
    assert len(done.stderr.splitlines()) == 1
    attach_shortly(actor, child)
    go(server)
    server.finish()


def test_killed_while_it_makes_the_area(me, programs, targets):
    """At each ptrace request of an attach to a new child: the child goes on, and the next attach
    works.
    """
    server = targets.start(me, [programs.simple("prefork")], preload=False)
    attach_shortly(me, server.pid)
    log, directory = me.dir() / "strace", me.dir() / "trace"
    reached = 0
    for when in range(1, 19):
        child = fork(server)
        done = me.run(
            ["strace", "-o", log, "--trace=ptrace", f"--inject=ptrace:signal=SIGKILL:when={when}"]
            + [me.iprobe_path, "attach", child, "--duration", "10ms", "-o", directory]
        )
        shutil.rmtree(directory, ignore_errors=True)
        reached += done.returncode != 0
        time.sleep(0.12)  # a borrowed thread goes back by itself (runtime_wake.h, step 10)
        again = me.iprobe("attach", child, "--duration", "10ms", "-o", directory)
        assert again.returncode == 0, f"ptrace number {when}: {again!r}"
        shutil.rmtree(directory)
        memory.assert_untouched(child)
    assert reached > 10
    go(server, 10)
    server.finish()


def test_killed_before_it_puts_copies_back(me, programs, targets):
    """The child has an area of its own, no session, and still its parent's live sites: the end of
    the parent's session puts them back.
    """
    server = targets.start(me, [programs.simple("prefork")], preload=False)
    for when in range(8, 30, 3):
        first, first_dir = begin(me, server.pid)
        child = fork(server)
        done = me.run(
            ["strace", "-o", me.dir() / "strace", "--trace=ptrace"]
            + [f"--inject=ptrace:signal=SIGKILL:when={when}"]
            + [me.iprobe_path, "attach", child, "--duration", "10ms", "-o", me.dir() / "other"]
        )
        assert done.returncode in (0, 1, -9, 137), repr(done)
        shutil.rmtree(me.dir() / "other", ignore_errors=True)
        end(first)
        shutil.rmtree(first_dir)
        memory.assert_untouched(child)
    server.finish()


def test_a_child_holds_the_lock_of_its_own_memory(me, programs, targets):
    """It cannot keep the session of its parent from closing its gate and putting it back."""
    server = targets.start(me, [programs.simple("prefork")], preload=False)
    first, first_dir = begin(me, server.pid, "--follow-fork")
    server.say("lock")
    child = fork(server)
    go(server)
    end(first)
    memory.assert_untouched(child)
    assert calls(me, first_dir) == N
    server.finish()


def test_a_parent_after_its_child(actor, server):
    """The end of the child's session takes nothing from its parent, whose area the child had."""
    first, first_dir = begin(actor, server.pid, "--follow-fork")
    child = fork(server)
    go(server)
    end(first)
    for _ in range(2):
        for pid in [child, server.pid]:
            attach_shortly(actor, pid)
            assert has_own_area(pid, *({child, server.pid} - {pid}))
    memory.assert_untouched(server.pid)
    memory.assert_untouched(child)
    server.finish()


def test_a_child_of_a_killed_session(actor, server):
    """It shares its parent's area, which nobody has taken from it: its own session does not use
    that, and takes nothing from its parent.
    """
    first, first_dir = begin(actor, server.pid, "--follow-fork")
    child = fork(server)
    go(server)
    first.kill()
    first.wait()
    shutil.rmtree(first_dir)
    for pid in [child, server.pid, child]:
        attach_shortly(actor, pid)
        assert has_own_area(pid, *({child, server.pid} - {pid}))
    memory.assert_untouched(server.pid)
    memory.assert_untouched(child)
    server.finish()
