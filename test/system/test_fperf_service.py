# SPDX-License-Identifier: Apache-2.0
"""fperf for several processes: each has its own table, document and budget."""

import json
import signal

from iptest import memory
from iptest.actor import last_words
from iptest.fperf import fperf_path
from iptest.server import N


def start(actor, server, *words, live=None):
    proc = actor.popen([fperf_path(actor), "-f", "prefork_answer,prefork_tick", *words])
    for pid in live or server.workers:
        memory.wait_until_live(pid, proc)
    return proc


def end(proc, code=0):
    proc.send_signal(signal.SIGTERM)
    done = last_words(proc)
    assert done.returncode == code, repr(done)
    return done


def pids(server):
    return ",".join(map(str, server.workers))


def functions(document):
    return {f["function"]: f for f in document["functions"]}


def test_a_document_for_each(actor, server):
    proc = start(actor, server, "--json", "--budget", "none", "-p", pids(server))
    server.go()
    done = end(proc)
    documents = json.loads(done.stdout)["processes"]
    assert [d["pid"] for d in documents] == sorted(server.workers)
    for document in documents:
        assert functions(document)["prefork_answer"]["calls"] == N
        assert document["end"] and document["events"]
    assert all(f"fperf: pid {pid}: " in done.stderr for pid in server.workers)
    server.finish()


def test_a_table_for_each(actor, server):
    output = actor.dir() / "results"
    proc = start(actor, server, "-q", "-o", output, "-p", pids(server))
    server.go()
    done = end(proc)
    assert not done.stdout and not done.stderr, repr(done)
    tables = output.read_text(encoding="utf-8").split("\n\n")
    for pid, table in zip(sorted(server.workers), tables):
        assert table.startswith(f"pid {pid} (prefork)\n") and "prefork_answer" in table, tables
    server.finish()


def test_bare_pids_with_little_to_do(actor, server):
    """As everybody types them; and why there is so little is said once."""
    words = [server.workers[0], "--duration", "300ms", *server.workers[1:]]
    done = actor.run([fperf_path(actor), "-f", "prefork_answer", *words])
    assert done.returncode == 0, repr(done)
    assert all(f"pid {pid} (prefork)\n" in done.stdout for pid in server.workers), repr(done)
    assert done.stderr.count("there is little to tell of 2 of 2 processes") == 1, repr(done)
    assert done.stderr.count("there is little") == 1, repr(done)
    one = actor.run([fperf_path(actor), server.pid, "--duration", "100ms"])
    assert one.returncode == 0 and "little to tell: the process was on a CPU for" in one.stderr
    for words, said in ((["--", "77"], "cannot run 77"), (["4194304"], "4194304")):
        done = actor.run([fperf_path(actor), *words])
        assert done.returncode and said in done.stderr, repr(done)
    server.finish()


def test_new_members_join(actor, server):
    proc = start(actor, server, "--json", "-q", "--budget", "none", "--children", "-p", server.pid)
    new = server.fork()  # it has its parent's live text, so that tells nothing
    memory.wait_for("it joins", lambda: "that of an fperf" in actor.iprobe("hist", new).stderr)
    server.go()
    documents = json.loads(end(proc).stdout)["processes"]
    assert {d["pid"] for d in documents} == set(server.everybody())
    for document in documents:
        if document["pid"] != server.pid:
            assert functions(document)["prefork_answer"]["calls"] == N
    server.finish()


def test_one_cannot_be_counted(actor, server):
    """That is told, and the other is counted; the exit status is 1 since it was named."""
    first, second = server.workers
    session = actor.start_iprobe("attach", first, "-q", "-o", actor.dir() / "trace")
    memory.wait_until_live(first, session)
    proc = start(actor, server, "--json", "-q", "-p", pids(server), live=[second])
    memory.wait_for("its refusal", lambda: memory.text_differences(second))
    server.go()
    done = end(proc, code=1)
    assert f"pid {first}" in done.stderr
    assert [d["pid"] for d in json.loads(done.stdout)["processes"]] == [second]
    session.send_signal(signal.SIGTERM)
    assert last_words(session).returncode == 0
    server.finish()


def test_refusals(actor, server):
    for words, code, said in (
        (["--csv", "-p", pids(server)], 2, "--csv"),
        (["--alternate", "1s", "-p", pids(server)], 2, "--alternate"),
        (["-p", pids(server), "true"], 2, "one of them"),
        (["--children"], 2, "of which process"),
        (["--name", "no-such-program"], 1, "no process matches"),
        (["-f", "no_such_function", "-p", pids(server)], 1, "matches none"),
    ):
        done = actor.run([fperf_path(actor), *words])
        assert done.returncode == code and said in done.stderr and not done.stdout, repr(done)
    server.finish()
