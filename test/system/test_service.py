# SPDX-License-Identifier: Apache-2.0
"""Recording several processes at once: by pid, by name, with what they fork, by control group."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import one_line
from iptest.server import N, Server


def begin(actor, words, live, directory=None):
    directory = directory or actor.dir() / "trace"
    proc = actor.start_iprobe("attach", *words, "--json", "-q", "-o", directory)
    for pid in live:
        memory.wait_until_live(pid, proc)
    return proc, directory


def end(proc, code=0, sig=signal.SIGTERM):
    if sig:
        proc.send_signal(sig)
    out, err = proc.communicate(timeout=60)
    assert proc.returncode == code, err
    return json.loads(out), err


def member(directory, pid):
    found = [p for p in directory.iterdir() if p.name.endswith(f"-{pid}")]
    assert len(found) == 1, (pid, list(directory.iterdir()))
    return found[0]


def has_session(directory, pid):
    return any(directory.glob(f"*-{pid}/metadata"))


def calls(actor, trace, name="prefork_answer"):
    report = actor.iprobe("report", "--json", trace)
    assert report.returncode == 0, repr(report)
    rows = json.loads(report.stdout)["functions"]
    return sum(row["calls"] for row in rows if row["function"] == name)


def listed(directory):
    lines = (directory / "iprobe/members").read_text().splitlines()
    return {int(line.split("\t")[1]) for line in lines if line.startswith("member")}


def test_pids(actor, server):
    """What everybody types first: iprobe attach $(pidof server)."""
    proc, directory = begin(actor, server.everybody(), server.everybody())
    server.go()
    done, _ = end(proc)
    assert listed(directory) == set(server.everybody())
    assert [calls(actor, member(directory, pid)) for pid in server.workers] == [N, N]
    assert calls(actor, member(directory, server.pid)) == 0
    assert done["processes"] == 3 and done["lost"] == 0
    assert {m["pid"] for m in done["members"]} == set(server.everybody())
    assert done["events"] == sum(m["events"] for m in done["members"]) >= 2 * 2 * N
    assert all(m["stop_us"] for m in done["members"])
    if shutil.which("babeltrace2"):
        text = subprocess.run(
            ["babeltrace2", directory], capture_output=True, text=True, check=True
        ).stdout
        assert len(text.splitlines()) == done["events"]
    server.finish()


def test_graph_by_process(actor, server):
    """A tree for each process that made calls, with the figures of report --by process."""
    proc, directory = begin(actor, server.workers, server.workers)
    server.go()
    end(proc)

    def document(*words):
        done = actor.iprobe(*words, "--json", directory)
        assert done.returncode == 0, repr(done)
        return json.loads(done.stdout)

    def text(*words):
        return actor.iprobe("graph", "--by", "process", *words, directory).stdout

    tree = document("graph", "--by", "process")
    roots = {n["id"]: n for n in tree["nodes"] if not n["parent"]}
    rows = {r["pid"]: r for r in document("report", "--by", "process")["rows"]}
    assert tree["by"] == "process" and {n["pid"] for n in roots.values()} == set(server.workers)
    for number, root in roots.items():
        calls_of = sum(
            n["calls"]
            for n in tree["nodes"]
            if n["function"] == "prefork_answer" and reaches(tree["nodes"], n, number)
        )
        assert root["function"] is None and "tid" not in root and calls_of == N, (root, calls_of)
        assert root["process"] == rows[root["pid"]]["process"]
    inverted = document("graph", "--by", "process", "--bottom-up")["nodes"]
    assert {n["pid"] for n in inverted if not n["function"]} == set(server.workers)
    for pid in server.workers:
        line = f"process {pid} {rows[pid]['process']}"
        assert line in text("--depth", "1") and f'"{line}"' in text("--dot"), pid
        assert line in text("--bottom-up", "--min-percent", "0"), pid
    for words, said in (
        (("--by", "processes"), "--by takes thread or process, not 'processes'"),
        (("--by", "process", "--tid", "7"), "--tid is of one thread"),
    ):
        done = actor.iprobe("graph", *words, directory)
        assert done.returncode == 2 and said in done.stderr, repr(done)
    server.finish()


def reaches(nodes, node, root):
    by_id = {n["id"]: n for n in nodes}
    while node["parent"]:
        node = by_id[node["parent"]]
    return node["id"] == root


def test_pids_and_the_option(actor, server):
    words = ["-p", ",".join(map(str, server.workers))]
    proc, directory = begin(actor, words, server.workers)
    end(proc)
    assert listed(directory) == set(server.workers)
    server.finish()


def test_each_stop_is_printed(actor, server):
    done = actor.iprobe(
        "attach", *server.workers, "--duration", "50ms", "-o", actor.dir() / "trace"
    )
    assert done.returncode == 0, repr(done)
    for pid in server.workers:
        line = [text for text in done.stderr.splitlines() if text.startswith(f"iprobe: pid {pid}")]
        assert len(line) == 1 and "stopped for" in line[0], done.stderr
    assert "events of 2 processes" in done.stderr.splitlines()[-1]
    server.finish()


@pytest.mark.parametrize("how", ["same", "another user"])
def test_children(me, programs, targets, how):
    """Those that there are, and those that come: followed by their parent's session, or, where they
    become another user, by a session of their own.
    """
    if how != "same" and me.uid:
        pytest.skip("only root can become another user")
    server = Server(me, programs, targets)
    server.fork()
    proc, directory = begin(me, [server.pid, "--children"], server.everybody())
    if how != "same":
        assert server.say("as 65534") == "done"
    new = server.fork()
    if how != "same":
        memory.wait_for(
            "the new worker has no session",
            lambda: has_session(directory, new),
        )
        memory.wait_until_live(new, proc)
    server.go()
    done, _ = end(proc)
    assert (new in listed(directory)) == (how != "same")
    # a worker that two sessions have recorded counts once
    assert done["processes"] == len(server.everybody()) == 3
    assert done["with_events"] in (2, 3)
    if how == "same":
        report = json.loads(me.iprobe("report", "--json", directory).stdout)
        assert len(report["processes"]) == done["processes"]
        assert sum(p["events"] > 0 for p in report["processes"]) == done["with_events"]
    found = {pid: calls(me, member(directory, pid)) for pid in listed(directory)}
    assert sum(found.values()) == 2 * N, found
    assert found[server.workers[0]] == N
    assert done["lost"] == 0
    server.finish()


@pytest.mark.parametrize("word", ["as 65534", "anew 0"])
def test_a_child_of_two_sessions_is_one_process(me, programs, targets, word):
    """It called something while its parent's session followed it, and more in a session of its
    own: reports show it once, with all of it, under its number.
    """
    if word != "anew 0" and me.uid:
        pytest.skip("only root can become another user")
    server = Server(me, programs, targets)
    proc, directory = begin(me, [server.pid, "--children"], [server.pid])
    assert server.say(word) == "done"
    new = server.fork()
    memory.wait_for("it has no session", lambda: has_session(directory, new))
    memory.wait_until_live(new, proc)
    time.sleep(0.1)  # calls of that session
    done, _ = end(proc)
    parts = [
        json.loads(me.iprobe("report", "--json", trace).stdout)
        for trace in (member(directory, server.pid), member(directory, new))
    ]
    parts = [p for part in parts for p in part["processes"] if p["pid"] == new]
    assert len(parts) == 2 and all(p["events"] for p in parts), parts
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    whole = {p["pid"]: p for p in report["processes"]}
    assert set(whole) == {server.pid, new} and done["processes"] == 2, whole
    assert whole[new]["events"] == sum(p["events"] for p in parts)
    assert whole[new]["threads"] == 1 and whole[new]["forked_from"] == server.pid, whole
    assert "2 processes, " in me.iprobe("report", directory).stdout
    rows = json.loads(me.iprobe("report", "--json", "--by", "process", directory).stdout)["rows"]
    row, *others = [row for row in rows if row["pid"] == new]
    assert not others, rows
    # a call that was open when the one session let it go lasts until the other one begins
    assert row["total_ns"] <= report["duration_ns"], rows
    rows = json.loads(me.iprobe("report", "--json", "--by", "thread", directory).stdout)["rows"]
    assert [row["name"] for row in rows if row["tid"] == new] == [whole[new]["name"]], rows
    events = whole[new]["events"]
    done = me.iprobe("report", "--json", "--process", new, directory)
    assert json.loads(done.stdout)["events"] == events, repr(done)
    done = me.iprobe("trim", "-o", me.dir() / "part", "--json", "--process", new, directory)
    assert json.loads(done.stdout)["parts"][0]["events"] == events, repr(done)
    done = me.iprobe("split", "--by", "process", "-o", me.dir() / "part", "--json", directory)
    parts = json.loads(done.stdout)["parts"]
    found = {part["dir"].split(".")[-1]: part["events"] for part in parts}
    assert found[str(new)] == events, found
    # of another parent: the kernel has given the number again
    session = member(directory, new) / "iprobe/session"
    line = f"process\t{new}\t{{}}\t"
    session.write_text(session.read_text().replace(line.format(server.pid), line.format(1)))
    report = json.loads(me.iprobe("report", "--json", directory).stdout)
    found = {p["pid"]: p["events"] for p in report["processes"]}
    assert len(found) == 3 and max(found) >= 4194304 and found[new] < events, found
    server.finish()


def test_those_that_end_too_soon_are_told(me, programs, targets):
    """Children that execute the program and end: what of that is not recorded is not silent."""
    server = Server(me, programs, targets)
    directory = me.dir() / "trace"
    proc = me.start_iprobe("attach", server.pid, "--children", "-o", directory)
    memory.wait_until_live(server.pid, proc)
    assert server.say("anew 25") == "done"  # they live for some 30 ms
    brief = []
    for _ in range(20):
        brief.append(server.fork())
        time.sleep(0.05)
    proc.send_signal(signal.SIGINT)
    _, err = proc.communicate(timeout=60)
    assert proc.returncode == 0, err
    told = re.findall(r"(\d+) process(?:es)? \(([0-9, .]+)\) ended before .* own session", err)
    assert len(told) == 1 and "no such process" not in err, err
    named = {int(pid) for pid in re.findall(r"\d+", told[0][1])}
    assert named <= set(brief) - listed(directory), (named, brief, listed(directory))
    assert 1 <= int(told[0][0]) <= 20 - len(listed(directory) - {server.pid}), err
    os.kill(server.pid, signal.SIGKILL)  # it is not to find that workers have ended


def test_each_that_becomes_another_user_is_recorded_or_told(me, programs, targets):
    """Its parent's session says that it has let it go: from then on a session of its own records
    it, or one line says that none did.
    """
    if me.uid:
        pytest.skip("only root can become another user")
    server = Server(me, programs, targets)
    directory = me.dir() / "trace"
    proc = me.start_iprobe("attach", server.pid, "--children", "-o", directory)
    memory.wait_until_live(server.pid, proc)
    assert server.say("as 65534") == "done"
    for i in range(24):
        new = server.fork()
        time.sleep(0.02 + 0.01 * (i % 4))  # it is let go meanwhile, mostly
        os.kill(new, signal.SIGKILL)
    proc.send_signal(signal.SIGINT)
    _, err = proc.communicate(timeout=60)
    assert proc.returncode == 0, err
    let_go = {int(pid) for pid in re.findall(r"pid (\d+), forked from .* by a session of its", err)}
    assert let_go, err
    told = re.findall(r"(\d+) process(?:es)? \([0-9, .]+\) ended before .* own session", err)
    # some have ended before that session saw it, and a look for processes did see it
    own = listed(directory) - {server.pid}
    assert len(let_go - own) <= sum(map(int, told)) <= 24 - len(own), err
    os.kill(server.pid, signal.SIGKILL)  # it is not to find that workers have ended


def test_what_is_let_go_and_not_chosen(me, programs, targets):
    """Forks are followed, and the children are no processes of the service themselves: one that
    becomes another user is recorded no more, which is what is said, and it has not ended.
    """
    if me.uid:
        pytest.skip("only root can become another user")
    name = f"ipchoice{os.getpid() % 1000000}"[:15]
    servers = [Server(me, programs, targets, name), Server(me, programs, targets)]
    pids = [server.pid for server in servers]
    for words in (pids, ["--name", name, "-p", pids[1]]):
        directory = me.dir() / "trace"
        proc = me.start_iprobe("attach", *words, "--follow-fork", "--json", "-o", directory)
        for pid in pids:
            memory.wait_until_live(pid, proc)
        assert servers[1].say("as 65534") == "done"
        new = servers[1].fork()
        memory.wait_for("it is not let go", lambda new=new: not memory.live_text(new))
        done, err = end(proc)
        said = re.findall(f"pid {new}, forked from pid {pids[1]}, .*: it is (.*)", err)
        assert said == ["not recorded any more"], err
        assert done["ended_before"] == 0 and listed(directory) == set(pids), err
    for server in servers:
        server.finish()


def test_children_where_times_come_from_the_kernel(actor, programs, targets):
    """Such sessions do not follow forks: a new worker gets one of its own."""
    server = Server(actor, programs, targets)
    server.fork()
    words = [server.pid, "--children", "--clock", "monotonic"]
    proc, directory = begin(actor, words, server.everybody())
    new = server.fork()
    memory.wait_for("the new worker has no session", lambda: has_session(directory, new))
    memory.wait_until_live(new, proc)
    server.go()
    end(proc)
    assert [calls(actor, member(directory, pid)) for pid in server.workers] == [N, N]
    server.finish()


def test_children_of_one_under_seccomp(me, programs, targets):
    """Its session does not follow them, and no session of their own can be made: that is told."""
    if me.uid:
        pytest.skip("only root can attach to it")
    server = Server(me, programs, targets)
    assert server.say("confine") == "done"
    words = [server.pid, "--children", "--time", "coarse"]
    proc, directory = begin(me, words, [server.pid])
    time.sleep(0.1)  # so long that it is clear what has come after the session
    new = server.fork()
    time.sleep(0.8)  # all tries
    _, err = end(proc)
    assert f"pid {new} was forked from a process" in err and "under seccomp" in err, err
    assert listed(directory) == {server.pid}
    server.finish()


def test_names(actor, programs, targets):
    """A second server of that name, which is started later, joins."""
    # the glob must not match the servers of a worker of pytest beside this one
    name = f"ipsrv{os.getpid() % 1000000}x"
    first = Server(actor, programs, targets, name)
    proc, directory = begin(actor, ["--name", name[:-1] + "?"], [first.pid])
    second = Server(actor, programs, targets, name)
    memory.wait_for("the second one has no session", lambda: has_session(directory, second.pid))
    memory.wait_until_live(second.pid, proc)
    end(proc)
    assert listed(directory) == {first.pid, second.pid}
    first.finish()
    second.finish()


def test_it_ends_with_the_service(actor, programs, targets):
    name = f"ipserver{os.getpid() % 10000}"
    server = Server(actor, programs, targets, name)
    proc, directory = begin(actor, ["--name", name], [server.pid])
    server.target.finish()
    done, _ = end(proc, sig=0)
    assert done["members"][0]["end"] == "target ended", done


@pytest.fixture
def cgroup(me):
    """A control group named like a unit."""
    if me.uid:
        pytest.skip("only root may make a control group")
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/pids"]:
        path = f"{root}/iprobe-test-{os.getpid()}.service"
        if not os.path.exists(f"{root}/cgroup.procs"):
            continue
        try:
            os.mkdir(path)
        except OSError:
            continue
        yield path
        for _ in range(100):
            try:
                os.rmdir(path)
                return
            except OSError:
                time.sleep(0.05)
        os.rmdir(path)
    else:
        pytest.skip("no control group can be made")


@pytest.mark.parametrize("how", ["--unit", "--cgroup"])
def test_control_groups(me, programs, targets, cgroup, how):
    inside, outside = Server(me, programs, targets), Server(me, programs, targets)
    with open(f"{cgroup}/cgroup.procs", "w") as file:
        file.write(str(inside.pid))
    word = cgroup if how == "--cgroup" else os.path.basename(cgroup)[: -len(".service")]
    proc, directory = begin(me, [how, word], [inside.pid])
    worker = inside.fork()
    memory.wait_for("the worker has no session", lambda: has_session(directory, worker))
    memory.wait_until_live(worker, proc)
    end(proc)
    assert listed(directory) == {inside.pid, worker}
    inside.finish()
    outside.finish()


def test_one_is_missing(actor, server):
    """The others are recorded; the exit code and one line tell."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "attach", dead.pid, *server.workers, "--duration", "50ms", "-q", "-o", directory
    )
    assert done.returncode == 1, repr(done)
    assert done.stderr == f"iprobe: pid {dead.pid} does not exist (any more)\n"
    assert listed(directory) == set(server.workers)
    server.finish()


def test_none_can_be_recorded(actor, programs, targets):
    """Nothing is left: the directory that was there comes back."""
    name = f"ipnone{os.getpid() % 10000}"
    server = Server(actor, programs, targets, name)  # nobody else's has this name
    server.fork()
    server.fork()
    directory = actor.dir() / "trace"
    done = actor.iprobe("attach", *server.workers, "--duration", "50ms", "-q", "-o", directory)
    assert done.returncode == 0, repr(done)
    done = actor.iprobe("attach", *server.workers, "-f", "no_such_function", "-o", directory)
    assert done.returncode == 1, repr(done)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    words = ["--name", name, "-f", "no_such_function"]
    done = actor.iprobe("attach", *words, "-o", directory)
    assert done.returncode == 1 and "the selection matches none" in done.stderr, repr(done)
    assert len(done.stderr.splitlines()) == 1
    assert listed(directory) == set(server.workers)
    assert not directory.with_name("trace.old").exists()
    server.finish()


def test_a_second_attach_changes_all(actor, server):
    proc, directory = begin(actor, server.workers, server.workers)
    done = actor.iprobe("attach", "--json", *server.workers, "-f", "!prefork_hash")
    assert done.returncode == 0, repr(done)
    change = json.loads(done.stdout)
    assert change["changed"] == 2 and change["processes"] == 0 and change["dir"] is None
    server.go()
    end(proc)
    for pid in server.workers:
        assert calls(actor, member(directory, pid)) == N
        assert calls(actor, member(directory, pid), "prefork_hash") == 0
    server.finish()


def told_of_the_condition(actor, directory, met):
    """info and report name the condition and the process that met it, although the others ended
    later. met: what was measured, by the pid."""
    words = ["--until", "calls>100/1s:prefork_answer", "was met in pid"]
    for command, begins in (("info", "end "), ("report", "ended: ")):
        done = actor.iprobe(command, "--json", directory)
        told = json.loads(done.stdout)
        assert told["until_condition"] == words[1] and told["end_pid"] in met, repr(done)
        assert command == "report" or told["end"] == met[told["end_pid"]], repr(done)
        done = actor.iprobe(command, directory)
        line = next(x for x in done.stdout.splitlines() if x.startswith(begins))
        assert line.split(None, 1)[1].startswith(
            f"{' '.join(words)} {told['end_pid']} (prefork"
        ), line
        assert met[told["end_pid"]] in line, line


def test_a_condition_in_one_ends_all(actor, server):
    words = [*server.everybody(), "--until", "calls>100/1s:prefork_answer"]
    proc, directory = begin(actor, words, server.everybody())
    server.go(1000)
    done, _ = end(proc, sig=0)
    met = [m for m in done["members"] if "until" in m]
    assert met, done
    told_of_the_condition(actor, directory, {m["pid"]: m["end"] for m in met})
    server.finish()


def test_one_limit_for_all(actor, server):
    words = [*server.workers, "--max-size", "1M"]
    proc, directory = begin(actor, words, server.workers)
    server.go(100000)
    done, _ = end(proc, sig=0)
    # each writer may be about to write a packet when another one has just written its own
    most = (1 << 20) + len(server.workers) * (33 << 10)
    assert done["bytes"] <= most
    assert sum(f.stat().st_size for f in directory.rglob("stream-*")) <= most
    assert all(m["ended_early"] for m in done["members"]), done
    server.finish()


def test_a_worker_is_killed(actor, server):
    """Its process is put back at once, the others go on."""
    proc, directory = begin(actor, server.workers, server.workers)
    children = open(f"/proc/{proc.pid}/task/{proc.pid}/children").read().split()
    # the guard of a worker is a child of the worker
    assert len(children) == 2, children
    os.kill(int(children[0]), signal.SIGKILL)
    memory.wait_for(
        "the process is not put back",
        lambda: any(memory.text_differences(pid) == [] for pid in server.workers),
    )
    left = [pid for pid in server.workers if memory.text_differences(pid)]
    assert len(left) == 1
    server.go()
    _, err = end(proc, code=0)
    assert "its worker was killed" in err
    assert calls(actor, member(directory, left[0])) == N
    server.finish()


def test_all_workers_are_killed(actor, server):
    """That is why there is no recording; a process without probes is not."""
    name = f"ipserver{os.getpid() % 10000}"
    bare = shutil.copy("/usr/bin/sleep", actor.dir() / name)
    others = actor.popen([bare, "60"])
    pids = server.everybody()
    proc, directory = begin(actor, [*pids, "--name", name], pids)
    children = open(f"/proc/{proc.pid}/task/{proc.pid}/children").read().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    memory.wait_for(
        "the processes are not put back",
        lambda: all(memory.text_differences(pid) == [] for pid in pids),
    )
    proc.send_signal(signal.SIGTERM)
    _, err = proc.communicate(timeout=60)
    others.kill()
    others.wait()
    assert proc.returncode == 1, err
    assert f"recorded was killed: iprobe report {directory} shows" in err, err
    assert "can be recorded" not in err, err
    server.finish()


@pytest.mark.parametrize("parent", ["lives", "is killed"])
def test_the_worker_of_followed_children_is_killed(actor, programs, targets, parent):
    """They are put back, and get sessions of their own."""
    name = f"ipserver{os.getpid() % 10000}"
    server = Server(actor, programs, targets, name)
    assert server.say("leave") == "done"
    proc, directory = begin(actor, ["--name", name, "--children"], [server.pid])
    children = open(f"/proc/{proc.pid}/task/{proc.pid}/children").read().split()
    assert len(children) == 1, children
    followed = [server.fork() for _ in range(2)]
    try:
        server.go()
        time.sleep(0.3)  # so long that others would have got sessions
        assert listed(directory) == {server.pid}
        if parent == "is killed":
            server.target.proc.kill()
            server.target.proc.wait()
        os.kill(int(children[0]), signal.SIGKILL)
        for pid in followed:
            memory.wait_for("no session of its own", lambda: has_session(directory, pid))
            memory.wait_until_live(pid, proc)
        if parent == "lives":
            server.go()
        _, err = end(proc)
        assert "its worker was killed" in err
        assert listed(directory) == {server.pid, *followed}
        for pid in followed:
            memory.assert_untouched(pid)
            if parent == "lives":
                assert calls(actor, member(directory, pid)) == N
        if parent == "lives":
            server.finish()
    finally:
        for pid in followed if parent == "is killed" else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # its parent has ended it


def limit_descriptors(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_processes_come_and_go(me, programs, targets):
    """What is held for a process that has ended is given up: a service may run for weeks."""
    if me.uid:
        pytest.skip("one run will do")
    name = f"ipserver{os.getpid() % 10000}"
    limited = limit_descriptors(24, 28)
    directory = me.dir() / "trace"
    words = ["attach", "--name", name, "--json", "-q", "-o", directory, "--memory", "1M"]
    server, seen, proc = Server(me, programs, targets, name), set(), None
    for _ in range(12):
        proc = proc or me.start_iprobe(*words, preexec_fn=limited)
        memory.wait_until_live(server.pid, proc)
        seen.add(server.pid)
        after = Server(me, programs, targets, name)
        server.target.finish()
        server = after
    memory.wait_until_live(server.pid, proc)
    server.target.finish()
    done, err = end(proc, sig=0)
    assert done["processes"] == 13 and not err, err
    assert seen < listed(directory)


def test_many_at_once(actor, programs, targets):
    """A command for each of many processes does some at a time."""
    servers = [Server(actor, programs, targets) for _ in range(2)]
    for server in servers:
        for _ in range(50):
            server.fork()
    for hard in (160, 4096):
        proc = actor.start_iprobe(
            "status",
            "--json",
            *(server.pid for server in servers),
            "--children",
            preexec_fn=limit_descriptors(150, hard),
        )
        found, _ = end(proc, sig=0)
        assert [p["pid"] for p in found] == sorted(
            pid for server in servers for pid in server.everybody()
        )
    for server in servers:
        server.finish()


@pytest.mark.parametrize("most", [7, 9])
def test_no_descriptors(actor, programs, targets, most):
    """No worker can be started, or none can record: it is told, and the document is whole."""
    name = f"ipserver{os.getpid() % 10000}"
    server = Server(actor, programs, targets, name)
    words = ["attach", "--name", name, "--json", "-o", actor.dir() / "trace"]
    proc = actor.start_iprobe(*words, preexec_fn=limit_descriptors(most, most))
    done, err = end(proc, code=1, sig=0)
    assert done["processes"] == 0 and done["members"] == []
    # a look at /proc that fails for want of descriptors tells of nobody that it is gone
    lines = [line for line in err.splitlines() if "not seen for now" not in line]
    assert f"pid {server.pid}" in lines[0] and lines[0].endswith("Too many open files"), err
    assert lines[1:] == ["iprobe: none of these processes can be recorded"], err
    server.finish()


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def test_children_are_ignored(actor, server):
    """Some supervisors leave SIGCHLD ignored: iprobe waits for its workers all the same."""
    directory = actor.dir() / "trace"
    words = ["attach", *server.workers, "--json", "-q", "-o", directory, "--duration", "200ms"]
    proc = actor.start_iprobe(*words, preexec_fn=ignore_children)
    done, _ = end(proc, sig=0)
    assert done["processes"] == 2 and listed(directory) == set(server.workers)
    proc = actor.start_iprobe("detach", "--json", *server.workers, preexec_fn=ignore_children)
    assert [p["restored"] for p in end(proc, sig=0)[0]] == [0, 0]
    server.finish()


def test_it_is_killed_itself(actor, server):
    """Workers end their sessions properly."""
    proc, directory = begin(actor, server.workers, server.workers)
    server.go()
    proc.kill()
    proc.wait()
    for pid in server.workers:
        memory.wait_for("sites are live", lambda: memory.text_differences(pid) == [])
        memory.wait_for(
            "the trace is not finished",
            lambda: "\nend\t" in (member(directory, pid) / "iprobe/session").read_text(),
        )
        assert calls(actor, member(directory, pid)) == N
    server.finish()


def test_status_snapshot_detach(actor, server):
    words = [*server.workers, "--overwrite"]
    proc, _ = begin(actor, words, server.workers)
    server.go()
    status = actor.iprobe("status", "--json", server.pid, "--children")
    assert status.returncode == 0, repr(status)
    patched = {p["pid"]: p["patched"] > 0 for p in json.loads(status.stdout)}
    assert patched == {server.pid: False, **{pid: True for pid in server.workers}}
    snap = actor.dir() / "snap"
    done = actor.iprobe("snapshot", "--json", "-o", snap, *server.everybody())
    assert done.returncode == 1 and f"pid {server.pid}" in done.stderr, repr(done)
    assert listed(snap) == set(server.workers)
    for pid in server.workers:
        assert calls(actor, member(snap, pid)) == N
    done = actor.iprobe("detach", "--json", *server.everybody())
    assert done.returncode == 0, repr(done)
    restored = {p["pid"]: p["restored"] > 0 for p in json.loads(done.stdout)}
    assert restored == patched
    end(proc, sig=0)
    server.finish()


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "PID is missing"),
        (["--children"], "--children: of which process"),
        (["--name", ""], "--name is empty"),
        (["--name", "no-such-server"], "no process matches --name no-such-server"),
        (["--unit", "no-such-unit"], "no process matches --unit no-such-unit"),
        (["--cgroup", "/no/such/group"], "no process matches --cgroup /no/such/group"),
        (["1", "2", "--resume"], "--resume goes on with the session of one process"),
    ],
)
def test_refusals(actor, words, message):
    done = actor.iprobe("attach", *words, "-o", actor.dir() / "trace")
    assert done.returncode in (1, 2) and message in done.stderr, repr(done)
    assert len(done.stderr.splitlines()) == 1
    assert not (actor.dir() / "trace").exists()


def test_what_nothing_matches_is_told_beside_what_matches(actor, server):
    words = ["--unit", "no-such-unit", "--name", "no-such-server", "--cgroup", "/no/such/group"]
    proc, _ = begin(actor, [server.pid, *words], [server.pid])
    _, err = end(proc)
    words = "--name no-such-server --unit no-such-unit --cgroup /no/such/group"
    assert err == f"iprobe: no process matches {words}: those that come join\n", err
    server.finish()


def test_a_misspelt_name_of_a_process(actor, programs, targets):
    name = f"ipserver{os.getpid() % 10000}"
    server = Server(actor, programs, targets, name)
    done = actor.iprobe("attach", "--name", name.replace("server", "sevrer"))
    nearest = re.search(r"\(nearest: ([^)]*)\)", one_line(done))
    assert nearest and name in nearest[1].split(", "), repr(done)  # others run this test, too
    server.finish()


def test_other_users_processes(me, programs, targets, user):
    """A choice by name may find processes that one may not trace: told, and no right is gained."""
    if me.uid:
        pytest.skip("one run will do")
    name = f"ipserver{os.getpid() % 10000}"
    theirs = Server(me, programs, targets, name)
    ours = Server(user, programs, targets, name)
    directory = user.dir() / "trace"
    proc, _ = begin(user, ["--name", name], [ours.pid], directory)
    end(proc)
    assert listed(directory) == {ours.pid}
    ours.finish()
    theirs.finish()


def test_detach_ends_the_service(actor, programs, targets):
    """Nothing is recorded any more, although the processes live on."""
    server = Server(actor, programs, targets)
    server.fork()
    proc, _ = begin(actor, [server.pid, "--children"], server.everybody())
    done = actor.iprobe("detach", *server.everybody())
    assert done.returncode == 0, repr(done)
    summary, _ = end(proc, sig=0)
    assert {m["end"] for m in summary["members"]} == {"ended by iprobe detach"}, summary
    server.finish()


def test_no_events_are_explained(actor, programs, targets):
    server = Server(actor, programs, targets)
    server.fork()
    words = [*server.everybody(), "-f", "prefork_answer", "--duration", "100ms"]
    done = actor.iprobe("attach", *words, "-o", actor.dir() / "trace")
    assert done.returncode == 0, repr(done)
    assert done.stderr.splitlines()[-1].startswith("iprobe: no events: pid "), done.stderr
    server.finish()


def test_what_filters_left_out_is_told_of_the_one_that_had_it(actor, programs, targets):
    """The parent slept: that is no reason why its worker's calls are not there."""
    server = Server(actor, programs, targets)
    worker = server.fork()
    proc = actor.start_iprobe(
        *("attach", server.pid, "--children", "-o", actor.dir() / "trace"),
        *("-f", "prefork_answer", "--min-duration", "1m"),
    )
    for pid in server.everybody():
        memory.wait_until_live(pid, proc)
    server.go()
    proc.send_signal(signal.SIGTERM)
    _, err = proc.communicate(timeout=60)
    last = err.splitlines()[-1]
    assert last.startswith(f"iprobe: no events: pid {worker}: the filters left out"), err
    assert "recorded none" not in err, err
    server.finish()


def test_copies_of_the_parents_sites_are_no_leftovers(me, programs, targets):
    """They are put back before the child's own session goes live, and nobody is told that an iprobe
    was killed.
    """
    if me.uid:
        pytest.skip("only root can become another user")
    server = Server(me, programs, targets)
    proc, directory = begin(me, [server.pid, "--children"], server.everybody())
    assert server.say("as 65534") == "done"
    new = server.fork()
    memory.wait_for("the new worker has no session", lambda: has_session(directory, new))
    _, err = end(proc)
    assert "earlier iprobe" not in err, err
    server.finish()


@pytest.mark.parametrize("flags", [[], ["--follow-exec"]])
def test_a_server_that_executes_itself(me, programs, targets, flags):
    """A reload by exec: the new workers are recorded, by sessions of their own."""
    server = Server(me, programs, targets)
    proc, directory = begin(me, [server.pid, "--children", *flags], [server.pid])
    assert server.say("exec") == "ready"
    new = server.fork()
    memory.wait_for("the new worker has no session", lambda: has_session(directory, new))
    memory.wait_until_live(new, proc)
    server.go()
    done, _ = end(proc)
    assert sum(calls(me, member(directory, pid)) for pid in {new}) == N, done
    server.finish()
