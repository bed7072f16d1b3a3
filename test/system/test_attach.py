# SPDX-License-Identifier: Apache-2.0
"""attach, detach, status, list, info: what they do to a target, what they say, how they end."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import memory
from iptest.actor import last_words, one_line


@pytest.fixture
def steady(actor, programs, targets):
    return targets.steady(actor, programs.simple("steady"))


def patched(actor, pid):
    done = actor.iprobe("status", "--json", pid)
    assert done.returncode == 0, repr(done)
    return json.loads(done.stdout)["patched"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1])
def test_a_signal_ends_a_session_properly(actor, steady, number):
    directory = actor.dir() / "trace"
    proc = actor.start_iprobe("attach", steady.pid, "--json", "-f", "step_11", "-o", directory)
    memory.wait_until_live(steady.pid, proc)
    assert patched(actor, steady.pid) >= 2
    time.sleep(0.1)
    proc.send_signal(number)
    done = last_words(proc)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert summary["events"] > 0 and summary["functions"] == 1
    assert patched(actor, steady.pid) == 0
    memory.assert_untouched(steady.pid)
    steady.wait_for_progress()
    report = actor.iprobe("report", "--json", directory)
    assert [f["function"] for f in json.loads(report.stdout)["functions"]] == ["step_11"]


def test_duration_is_kept(actor, steady):
    directory = actor.dir() / "trace"
    started = time.monotonic()
    done = actor.iprobe(
        *("attach", steady.pid, "--duration", "700ms", "-f", "step_11"),
        *("-o", directory, "--json"),
    )
    took = time.monotonic() - started
    assert done.returncode == 0, repr(done)
    assert 0.7 <= took < 6
    memory.assert_untouched(steady.pid)
    # for the readers it lasted as long: what was to be done before and behind is not in it
    length = done.summary()["duration_ns"]
    assert 0.7e9 <= length < took * 1e9
    for command in ("report", "info", "graph"):
        shown = json.loads(actor.iprobe(command, "--json", directory).stdout)
        assert abs(shown["duration_ns"] - length) <= 2, (command, shown["duration_ns"], length)


def test_dry_run_changes_nothing(actor, steady):
    where = actor.dir()
    done = actor.iprobe(
        "attach", steady.pid, "--dry-run", "--json", "-f", "step_1*", "-o", where / "trace"
    )
    assert done.returncode == 0, repr(done)
    plan = done.summary()
    assert plan["functions"] == 8 and plan["sites"] >= 16 and plan["pid"] == steady.pid
    assert os.listdir(where) == []
    memory.assert_untouched(steady.pid)


def test_stops_are_measured_and_told(actor, steady):
    directory = actor.dir() / "trace"
    done = actor.iprobe("attach", steady.pid, "--duration", "50ms", "--json", "-o", directory)
    assert done.returncode == 0, repr(done)
    summary = done.summary()
    assert len(done.stops()) == 2
    assert all(0 < us < 2e6 for us in summary["stop_us"])
    info = actor.iprobe("info", directory)
    assert info.returncode == 0, repr(info)
    assert "stop" in info.stdout.lower()


def test_detach_ends_a_running_session(actor, steady):
    """Somebody else's detach: everything is back, and the session notices or is refused, but
    does not hang.
    """
    proc = actor.start_iprobe("attach", steady.pid, "-f", "step_1*", "-o", actor.dir() / "trace")
    memory.wait_until_live(steady.pid, proc)
    done = actor.iprobe("detach", steady.pid)
    if done.returncode != 0:
        one_line(done)
    proc.send_signal(signal.SIGINT)
    ended = last_words(proc)
    assert ended.returncode == 0, repr(ended)
    memory.assert_untouched(steady.pid)
    steady.wait_for_progress()


def test_detach_of_an_untouched_target_is_done(actor, steady):
    done = actor.iprobe("detach", steady.pid)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(steady.pid)


def test_second_attach_while_one_is_at_work(actor, steady):
    """It adds to the session, but brings no options of its own (test_change.py has the rest);
    all goes with the first.
    """
    first = actor.start_iprobe(
        "attach", steady.pid, "-f", "step_11", "--json", "-o", actor.dir() / "trace"
    )
    memory.wait_until_live(steady.pid, first)
    second = actor.iprobe(
        "attach", steady.pid, "-f", "step_22", "--duration", "50ms", "-o", actor.dir() / "trace"
    )
    assert second.returncode == 1 and second.stderr.count("\n") == 1, repr(second)
    second = actor.iprobe("attach", steady.pid, "-f", "step_22")
    assert second.returncode == 0, repr(second)
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    done = last_words(first)
    assert done.returncode == 0, repr(done)
    assert done.summary()["events"] > 0
    assert actor.iprobe("detach", steady.pid).returncode == 0
    memory.assert_untouched(steady.pid)
    steady.wait_for_progress()


def test_status_tells_what_is_live(actor, steady, programs):
    proc = actor.start_iprobe("attach", steady.pid, "-f", "step_1*", "-o", actor.dir() / "trace")
    memory.wait_until_live(steady.pid, proc)
    done = actor.iprobe("status", "--json", steady.pid)
    assert done.returncode == 0, repr(done)
    status = json.loads(done.stdout)
    assert status["patched"] >= 16
    (module,) = [m for m in status["modules"] if os.path.basename(m["path"]) == "steady"]
    assert module["patched"] == status["patched"] and module["text_matches_file"] is False
    assert module["foreign"] == 0
    rates = status["session"]
    assert (
        rates["events_per_second"] > 0
        and rates["bytes_per_second"] >= 8 * rates["events_per_second"]
    ), rates
    assert rates["lost_per_second"] >= 0 and rates["interval_ns"] >= 250_000_000, rates
    table = actor.iprobe("status", steady.pid)
    assert (
        table.returncode == 0
        and str(status["patched"]) in table.stdout
        and " events/s, " in table.stdout
    ), repr(table)
    proc.send_signal(signal.SIGINT)
    assert last_words(proc).returncode == 0
    status = json.loads(actor.iprobe("status", "--json", steady.pid).stdout)
    assert (
        status["patched"] == 0
        and all(m["text_matches_file"] for m in status["modules"])
        and "session" not in status
    )


def site_of(actor, program, function, kind="entry"):
    """(offset, length) of one probe of a program."""
    done = actor.iprobe("list", "--json", "-f", function, program)
    assert done.returncode == 0, repr(done)
    (module,) = json.loads(done.stdout)["modules"]
    probe = next(p for p in module["probes"] if p["kind"] == kind)
    return probe["offset"], probe["length"]


def test_status_sees_foreign_changes(me, programs, targets):
    """A byte that somebody else changed, in a site and outside of any, is told and left alone."""
    program = programs.simple("finish")
    target = targets.start(me, [program, "idle"], wait=False)
    memory.wait_for("not loaded", lambda: runtime_is_ready(target.pid))
    offset, _ = site_of(me, program, "finish_loop")
    address = memory.segment_bias(target.pid, program) + offset
    original = memory.read_memory(target.pid, address, 1)
    memory.write_memory(target.pid, address, b"\xcc")
    status = json.loads(me.iprobe("status", "--json", target.pid).stdout)
    (module,) = [m for m in status["modules"] if os.path.basename(m["path"]) == "finish"]
    assert (
        module["text_matches_file"] is False and module["foreign"] >= 1 and module["patched"] == 0
    )
    refused = me.iprobe(
        "attach", target.pid, "-f", "finish_loop", "--duration", "20ms", "-o", me.dir() / "trace"
    )
    line = one_line(refused)
    assert re.search(r"0x[0-9a-f]+", line), f"no address in: {line}"
    assert memory.read_memory(target.pid, address, 1) == b"\xcc"
    assert len(memory.text_differences(target.pid)) == 1
    memory.write_memory(target.pid, address, original)
    memory.assert_untouched(target.pid)
    target.finish()


def runtime_is_ready(pid):
    """In main and waiting for input, the runtime mapped."""
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii") as f:
            waiting = "pipe" in f.read()
        return waiting and any("libiprobe-rt" in m.path for m in memory.mappings(pid))
    except OSError:
        return False


def test_a_stopped_process_is_no_trap(actor, programs, targets):
    """SIGSTOP: it works or it is refused, within the deadline; the process stays stopped and
    goes on when told to.
    """
    target = targets.steady(actor, programs.simple("steady"))
    os.kill(target.pid, signal.SIGSTOP)
    memory.wait_for("not stopped", lambda: memory.status_field(target.pid, "State").startswith("T"))
    done = actor.iprobe(
        "attach",
        target.pid,
        "--duration",
        "50ms",
        "-f",
        "step_1*",
        "-o",
        actor.dir() / "trace",
        timeout=20,
    )
    if done.returncode != 0:
        one_line(done)
    assert memory.status_field(target.pid, "State").startswith("T")
    assert memory.text_differences(target.pid) == []
    os.kill(target.pid, signal.SIGCONT)
    target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


def test_list_agrees_with_nm(actor, programs):
    program = programs.simple("count")
    done = actor.iprobe("list", "--json", program)
    assert done.returncode == 0, repr(done)
    (module,) = json.loads(done.stdout)["modules"]
    assert module["placement"] == "instrument" and re.fullmatch(
        "[0-9a-f]{8,64}", module["build_id"]
    )
    symbols = {}
    for line in subprocess.run(
        ["nm", "-S", program], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        words = line.split()
        if len(words) == 4:
            symbols[words[3]] = (int(words[0], 16), int(words[1], 16))
    functions = {}
    for probe in module["probes"]:
        functions.setdefault(probe["function"], []).append(probe)
        assert probe["kind"] in ("entry", "exit", "tail-exit") and probe["length"] in (5, 6)
    assert set(functions) == {
        "leaf",
        "tiny",
        "mix",
        "half",
        "chain_inner",
        "chain_middle",
        "chain_outer",
        "count_down",
    }
    for name in ("leaf", "half", "chain_outer"):
        start, size = symbols[name]
        kinds = {p["kind"] for p in functions[name]}
        assert "entry" in kinds and kinds & {"exit", "tail-exit"}
        for probe in functions[name]:
            assert start <= probe["offset"] < start + size, probe
            assert probe["file"].endswith("count.c") and probe["line"] > 0


def test_list_of_a_process(actor, steady):
    done = actor.iprobe("list", "--json", steady.pid, "-f", "step_1*")
    assert done.returncode == 0, repr(done)
    names = {p["function"] for m in json.loads(done.stdout)["modules"] for p in m["probes"]}
    assert names == {f"step_1{i}" for i in range(8)}
    memory.assert_untouched(steady.pid)


def test_list_says_so_when_nothing_matches(actor, programs):
    assert "chain_inner" in one_line(
        actor.iprobe("list", "-f", "chain_iner", programs.simple("count"))
    )


def test_binary_replaced_on_disk(actor, programs, targets):
    """
    Recompiled under a running process: the process still runs the old inode. Root reads that
    one; who cannot, refuses. Nothing is patched by the new file's list.
    """
    where = actor.dir()
    old, program = where / "old", where / "steady"
    shutil.copy(programs.simple("steady"), program)
    shutil.copy(programs.simple("steady"), old)
    target = targets.steady(actor, program)
    shutil.copy(programs.simple("steady", opt="-O0"), where / "new")
    os.rename(where / "new", program)
    instead = {f"{program} (deleted)": old}
    done = actor.iprobe(
        "attach",
        target.pid,
        "-f",
        "step_1*",
        "--duration",
        "50ms",
        "--json",
        "-o",
        actor.dir() / "trace",
    )
    if done.returncode == 0:
        assert done.summary()["events"] > 0
    else:
        assert "steady" in one_line(done)
        assert not actor.is_root, repr(done)
    target.wait_for_progress()
    memory.assert_untouched(target.pid, instead)
    target.finish()


def test_binary_removed_from_disk(actor, programs, targets):
    where = actor.dir()
    old, program = where / "old", where / "steady"
    shutil.copy(programs.simple("steady"), program)
    shutil.copy(programs.simple("steady"), old)
    target = targets.steady(actor, program)
    program.unlink()
    done = actor.iprobe(
        "attach", target.pid, "-f", "step_1*", "--duration", "50ms", "-o", actor.dir() / "trace"
    )
    if done.returncode != 0:
        one_line(done)
        assert not actor.is_root, repr(done)
    target.wait_for_progress()
    memory.assert_untouched(target.pid, {f"{program} (deleted)": old})
    target.finish()


def test_a_trace_reads_the_same_without_the_target(actor, programs, targets):
    """The directory has all that it needs."""
    where = actor.dir()
    program = where / "steady"
    shutil.copy(programs.simple("steady"), program)
    target = targets.steady(actor, program)
    directory = where / "trace"
    assert (
        actor.iprobe(
            "attach", target.pid, "-f", "step_1*", "--duration", "50ms", "-o", directory
        ).returncode
        == 0
    )
    before = actor.iprobe("report", "--json", directory)
    target.finish()
    program.unlink()
    os.rename(directory, where / "elsewhere")
    after = actor.iprobe("report", "--json", where / "elsewhere")
    assert before.returncode == after.returncode == 0
    assert json.loads(before.stdout)["functions"] == json.loads(after.stdout)["functions"]


def test_doctor(actor, steady):
    """It explains this machine, and this target."""
    capabilities = int(memory.status_field(os.getpid(), "CapEff"), 16) if actor.is_root else 0
    for args in ([], [steady.pid]):
        done = actor.iprobe("doctor", *args)
        assert done.returncode == 0 and len(done.stdout.splitlines()) >= 3, repr(done)
        priority = "ok" if capabilities >> 23 & 1 else "note"  # CAP_SYS_NICE
        assert any(
            line.split()[:2] == [priority, "priority"] for line in done.stdout.splitlines()
        ), repr(done)
    alone = actor.iprobe("doctor").stdout
    assert "none was named: iprobe doctor PID" in alone
    if actor.is_root:
        whole = actor.run(["readlink", "/proc/1/ns/user"]).returncode == 0
        assert ("any process of this machine" in alone) == whole, alone
        assert ("pid 1 is out of reach" in alone) != whole, alone
    memory.assert_untouched(steady.pid)


def test_what_another_compiler_has_linked(me, builddir):
    """As libtool does, which has the name of a compiler of its own: the message says what to do."""
    where, tools = me.dir(), builddir / "coldpatch"
    (where / "sleeps.c").write_text("int pause(void); int main(void) { return pause(); }\n")
    env = {**os.environ, "IPROBE_CC": "gcc", "IPROBE_PLACEMENT": "fentry"}
    for words in ([tools / "iprobe-cc", "-c"], ["gcc", "-o", "sleeps"]):
        source = "sleeps.c" if "-c" in words else "sleeps.o"
        subprocess.run([*words, source], cwd=where, env=env, check=True)
    hint = "iprobe-cc has compiled"
    done = me.iprobe("list", where / "sleeps")
    assert done.returncode == 1 and hint in done.stderr, repr(done)
    assert f"run coldpatch {where / 'sleeps'}" in done.stderr, repr(done)
    target = me.popen([where / "sleeps"])
    done = me.iprobe("attach", target.pid, "--duration", "50ms")
    assert done.returncode == 1 and hint in done.stderr, repr(done)
    done = me.iprobe("doctor", target.pid)
    assert hint in done.stdout and "run coldpatch on it" in done.stdout, repr(done)
    target.kill()
    target.wait()
    subprocess.run([tools / "coldpatch", where / "sleeps"], check=True, capture_output=True)
    done = me.iprobe("list", where / "sleeps")
    assert done.returncode == 0 and "main" in done.stdout, repr(done)


def test_doctor_of_several(me, programs, targets):
    """Each process is examined, once; in JSON its checks have its pid."""
    some = [targets.steady(me, programs.simple("steady"), "-t", "1") for _ in range(2)]
    pids = [target.pid for target in some]
    done = me.iprobe("doctor", *pids, pids[0])
    assert done.returncode == 0, repr(done)
    for pid in pids:
        assert done.stdout.count(f"pid {pid}, ") == 1, repr(done)
    missing = 4194304  # the kernel gives no such number
    done = me.iprobe("doctor", "--json", *pids, missing)
    assert done.returncode == 1, repr(done)
    found = json.loads(done.stdout)
    bad = [check["pid"] for check in found["checks"] if check["verdict"] == "bad"]
    assert bad == [missing] and found["bad"] == 1, found
    assert {check["pid"] for check in found["checks"] if "pid" in check} == {*pids, missing}
    for pid in pids:
        memory.assert_untouched(pid)


@pytest.mark.parametrize("args", [["info"], ["report"], ["dump"]])
def test_readers_print_for_people_too(actor, programs, args):
    directory = actor.dir() / "trace"
    done = actor.iprobe("run", "-o", directory, "--", programs.simple("count"), "-n", 1000)
    assert done.returncode == 0, repr(done)
    shown = actor.iprobe(*args, directory)
    assert shown.returncode == 0, repr(shown)
    assert ("count" if args == ["info"] else "chain_outer") in shown.stdout


@pytest.mark.parametrize("place", [0, 2, 4])
def test_the_pid_stands_where_people_type_it(me, programs, targets, place):
    target = targets.steady(me, programs.simple("steady"), "-t", "1")
    args = ["--json", "--dry-run", "-f", "step_1*"]
    done = me.iprobe("attach", *args[:place], target.pid, *args[place:])
    assert done.returncode == 0 and done.summary()["pid"] == target.pid, repr(done)
