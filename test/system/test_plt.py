# SPDX-License-Identifier: Apache-2.0
"""
Calls by the PLT (--plt), held against a program that knows how often it calls which function of
which library, and that checks every result: whatever linker has made the PLT, bound at once or by
the first call, while eight threads run through it, after kills, and with all else that a session
does.
"""

import json
import random
import re
import shutil
import signal
import subprocess

import pytest

from iptest import actor as actors
from iptest import memory

ROUNDS = 50
COMMON = ("-fno-builtin", "-O1")

# how a program is linked
WAYS = {
    "lazy": ("-Wl,-z,lazy",),
    "now": ("-Wl,-z,now", "-Wl,-z,relro"),
    "no-pie": ("-no-pie", "-Wl,-z,lazy"),
    "ibt": ("-fcf-protection=full", "-Wl,-z,ibtplt", "-Wl,-z,lazy"),
    "gold": ("-fuse-ld=gold",),
    "lld": ("-fuse-ld=lld",),
    "mold": ("-fuse-ld=mold", "-Wl,-z,lazy"),
}
LINKERS = {"gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}


def build(programs, way="lazy", placement="fentry", compiler="gcc"):
    if way in LINKERS and not shutil.which(LINKERS[way]):
        pytest.skip(f"{LINKERS[way]} is not installed")
    return programs.simple(
        "library_calls",
        compiler,
        extra=(*COMMON, *WAYS[way]),
        placement=placement,
        suffix="cc",
    )


@pytest.fixture
def program(programs):
    return build(programs)


def truth(text):
    return {m[1]: int(m[2]) for m in re.finditer(r"^call (\S+) (\d+)$", text, re.MULTILINE)}


def report(actor, directory):
    done = actor.iprobe("report", "--json", directory)
    assert done.returncode == 0, repr(done)
    return {f["function"]: f for f in json.loads(done.stdout)["functions"]}


def check_counts(actor, program, *options):
    directory = actor.dir() / "trace"
    done = actor.iprobe(
        "run", "--plt", "--json", "-o", directory, *options, "--", program, ROUNDS
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["lost"] == 0
    calls = truth(done.stdout)
    assert len(calls) > 15
    rows = report(actor, directory)
    seen = {name: rows.get(f"{name}@plt", {"calls": 0})["calls"] for name in calls}
    assert seen == calls
    return rows, done.summary(), directory


@pytest.mark.parametrize("way", WAYS)
def test_counts(me, programs, way):
    """Every call, none twice."""
    rows, _, _ = check_counts(me, build(programs, way))
    assert rows["memory"]["calls"] == rows["round_of_calls"]["calls"] == ROUNDS


@pytest.mark.parametrize("placement", ["inline", "instrument"])
def test_counts_of_other_placements(me, programs, placement):
    check_counts(me, build(programs, placement=placement))


def test_counts_of_clang(me, programs):
    check_counts(me, build(programs, compiler="clang", placement="instrument"))


def test_counting_alone(me, program):
    """Nothing is logged, and durations are not measured: there are none."""
    check_counts(me, program, "--payload", "count")
    rows, _, _ = check_counts(me, program, "--payload", "hist")
    assert rows["memory"]["max_ns"] > 0
    assert not rows["malloc@plt"].get("max_ns")


def test_every_entry_is_listed(me, program, targets):
    """As many as another disassembler names."""
    text = subprocess.run(["objdump", "-d", program], capture_output=True, text=True, check=True)
    names = set(re.findall(r"^[0-9a-f]+ <(\S+@plt)>:$", text.stdout, re.MULTILINE))
    assert len(names) > 20
    done = me.iprobe(
        "run", "--plt", "--json", "-f", "*@plt", "-o", me.dir() / "t", "--", program, 1
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["functions"] == len(names)
    target = serving(me, targets, program)
    for what in (program, target.pid):
        listed = json.loads(me.iprobe("list", "--plt", "--json", what).stdout)["modules"]
        functions = {p["function"] for m in listed for p in m["probes"]}
        assert {f for f in functions if f.endswith("@plt")} == names and "memory" in functions
        assert "@plt" not in me.iprobe("list", what).stdout
    target.finish()


def test_place_in_the_call_tree(me, program):
    """A library's function is called by its caller, and ends at once: its end is not known."""
    _, _, directory = check_counts(me, program)
    events = [
        json.loads(line) for line in me.iprobe("dump", "--json", directory).stdout.splitlines()
    ]
    stack, parents = [], {}
    for e in events:
        if e["event"] == "entry":
            del stack[e["depth"] :]
            parents.setdefault(e["function"], set()).add(stack[-1] if stack else None)
            stack.append(e["function"])
            if e["function"].endswith("@plt"):
                assert e["entry_only"], e
                stack.pop()
    assert parents["malloc@plt"] == {"memory"}
    assert parents["sqrt@plt"] == {"results"}
    assert parents["ascending"] <= {"callbacks", "throwing"}
    assert parents["qsort@plt"] == {"callbacks"}
    assert not [e for e in events if e.get("orphan")]


def calls_in_order(actor, directory):
    """(event, function, depth, how it ends) of the functions that are not those of a PLT."""
    done = actor.iprobe("dump", "--json", directory)
    events = map(json.loads, done.stdout.splitlines())
    return [
        (e["event"], e["function"], e["depth"], e.get("tail"), e.get("until_tail_call"))
        for e in events
        if not e["function"].endswith("@plt")
    ]


def test_tail_calls_by_the_plt(me, programs):
    """A call that goes on in a library's function does so with the PLT entry recorded, too."""
    library = programs.library("far_jumps_lib", placement="fentry")
    program = programs.simple(
        "far_jumps", extra=("-Wl,--no-as-needed", str(library)), placement="fentry"
    )
    seen = []
    for options in ([], ["--plt"]):
        directory = me.dir() / "trace"
        done = me.iprobe("run", *options, "-q", "-o", directory, "--", program)
        assert done.returncode == 0, repr(done)
        seen.append(calls_in_order(me, directory))
        shutil.rmtree(directory, ignore_errors=True)
    assert len(seen[0]) > 1000 and any(event[3] for event in seen[0])
    assert seen[0] == seen[1]


def test_selection(me, program):
    for selection, functions in (
        ("strlen,sqrt", {"strlen@plt", "sqrt@plt"}),
        ("str*@plt,!strdup", {"strlen@plt", "strchr@plt", "strcmp@plt", "strtod@plt"}),
        ("memory,malloc@plt", {"memory", "malloc@plt"}),
    ):
        directory = me.dir() / "selected"
        done = me.iprobe(
            "run", "--plt", "--json", "-f", selection, "-o", directory, "--", program, 2
        )
        assert done.returncode == 0, repr(done)
        assert functions <= set(report(me, directory)), selection
        shutil.rmtree(directory)
    for options in (["-f", "strlen"], ["-f", "*@plt"]):
        done = me.iprobe("run", *options, "-o", me.dir() / "none", "--", program, 1)
        assert done.returncode == 1 and "matches none" in done.stderr, repr(done)


def is_clean(actor, pid):
    done = actor.iprobe("status", "--json", pid)
    assert done.returncode == 0, repr(done)
    status = json.loads(done.stdout)
    assert all(m["text_matches_file"] for m in status["modules"]) == (status["patched"] == 0)
    return status["patched"] == 0


def serving(actor, targets, program, preload=True):
    beats = actor.dir() / "beats"
    target = targets.start(actor, [program, "-b", beats], preload, beats=beats)
    target.wait_for_progress()
    return target


@pytest.mark.parametrize("way", ["lazy", "now", "ibt", "mold"])
def test_cycles_under_eight_threads(me, programs, targets, way):
    """Stopped and by switched pages, with the PLT alone and with all sites, and without it in
    between.
    """
    target = serving(me, targets, build(programs, way))
    rng = random.Random(way)
    events = 0
    for n in range(12):
        options = rng.choice([["--plt"], ["--plt", "-f", "*@plt"], ["--plt", "-f", "sqrt"], []])
        how = rng.choice([["--stop"], ["--no-stop"], []])
        done = me.iprobe(
            "attach", target.pid, "--json", "--duration", "30ms", "-o", me.dir() / "trace",
            *options, *how,
        )  # fmt: skip
        assert done.returncode == 0, (n, options, how, repr(done))
        events += done.summary()["events"]
        assert target.alive(), f"{options} {how}: {target.proc.stderr.read()}"
        assert memory.text_differences(target.pid) == [], (n, options, how)
        shutil.rmtree(me.dir() / "trace", ignore_errors=True)
    assert events > 0
    assert is_clean(me, target.pid)
    memory.assert_untouched(target.pid)
    target.wait_for_progress()
    target.finish()


def test_without_the_runtime(me, programs, targets):
    """iprobe brings it; stubs lie in the module's room all the same."""
    target = serving(me, targets, build(programs, "now"), preload=False)
    for _ in range(3):
        directory = me.dir() / "trace"
        done = me.iprobe(
            "attach", target.pid, "--plt", "-f", "qsort,memory", "--json", "--duration", "50ms",
            "-o", directory,
        )  # fmt: skip
        assert done.returncode == 0, repr(done)
        assert report(me, directory)["qsort@plt"]["calls"] > 0
        shutil.rmtree(directory)
        assert memory.text_differences(target.pid) == []
    target.wait_for_progress()
    target.finish()


def killed(actor, target, *options):
    """An attach that was killed while its sites were live."""
    proc = actor.start_iprobe("attach", target.pid, *options, "-o", actor.dir() / "killed")
    memory.wait_until_live(target.pid, proc)
    proc.send_signal(signal.SIGKILL)
    actors.end(proc)
    shutil.rmtree(actor.dir() / "killed", ignore_errors=True)
    assert not is_clean(actor, target.pid)
    target.wait_for_progress()


@pytest.mark.parametrize("repair", ["detach", "attach", "attach --plt"])
def test_killed(me, program, targets, repair):
    """What an iprobe has left live is put back by one that was not asked for the PLT, too."""
    target = serving(me, targets, program)
    for _ in range(3):
        killed(me, target, "--plt", "-f", "*@plt")
        if repair == "detach":
            done = me.iprobe("detach", target.pid)
        else:
            done = me.iprobe(
                *repair.split(), target.pid, "-f", "memory", "--duration", "20ms",
                "-o", me.dir() / "trace",
            )  # fmt: skip
        assert done.returncode == 0, repr(done)
        assert is_clean(me, target.pid)
        assert memory.text_differences(target.pid) == []
        target.wait_for_progress()
    memory.assert_untouched(target.pid)
    target.finish()


def test_resumed(me, program, targets):
    """The recording goes on with the functions of the PLT that it had."""
    target = serving(me, targets, program)
    directory = me.dir() / "trace"
    proc = me.start_iprobe("attach", target.pid, "--plt", "-f", "sqrt", "-o", directory)
    memory.wait_until_live(target.pid, proc)
    proc.send_signal(signal.SIGKILL)
    actors.end(proc)
    done = me.iprobe(
        "attach", target.pid, "--resume", "--duration", "100ms", "--json", "-o", directory
    )
    assert done.returncode == 0, repr(done)
    assert done.summary()["functions"] == 1 and done.summary()["events"] > 0
    rows = report(me, directory)
    assert set(rows) == {"sqrt@plt"} and rows["sqrt@plt"]["calls"] > 0
    assert memory.text_differences(target.pid) == []
    target.finish()


def test_changed_session(me, program, targets):
    """A session with --plt can be given more functions of the PLT; one without it cannot."""
    target = serving(me, targets, program)
    directory = me.dir() / "trace"
    proc = me.start_iprobe("attach", target.pid, "--plt", "-f", "sqrt", "-o", directory)
    memory.wait_until_live(target.pid, proc)
    done = me.iprobe("attach", target.pid, "-f", "malloc")
    assert done.returncode == 0, repr(done)
    target.wait_for_progress()
    proc.send_signal(signal.SIGINT)
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    rows = report(me, directory)
    assert rows["sqrt@plt"]["calls"] > 0 and rows["malloc@plt"]["calls"] > 0
    proc = me.start_iprobe("attach", target.pid, "-f", "memory", "-o", me.dir() / "other")
    memory.wait_until_live(target.pid, proc)
    done = me.iprobe("attach", target.pid, "--plt", "-f", "malloc")
    assert done.returncode == 1 and "--plt" in done.stderr, repr(done)
    proc.send_signal(signal.SIGINT)
    assert actors.last_words(proc).returncode == 0
    assert memory.text_differences(target.pid) == []
    target.finish()


def ask(target, line):
    target.say(line)
    return target.proc.stdout.readline().strip()


def wait_for_library(actor, pid, name, sites):
    def live():
        done = actor.iprobe("status", "--json", pid)
        modules = json.loads(done.stdout or "{}").get("modules", [])
        return [m["patched"] for m in modules if m["path"].endswith(name)] == [sites]

    memory.wait_for(f"{name} of {pid} does not go live", live, 20, 0.05)


def test_libraries_that_come_and_go(me, programs, targets):
    """A library that is loaded while it is recorded has its own PLT, in a forked child, too."""
    program, one, two = programs.plugins()
    target = targets.start(me, [program, one, two])
    directory = me.dir() / "trace"
    session = me.start_iprobe(
        "attach", target.pid, "--plt", "--follow-fork", "-f", "own,plug_inner", "-o", directory
    )
    memory.wait_until_live(target.pid, session)
    assert ask(target, "load 1") == "loaded"
    wait_for_library(me, target.pid, "libplug1.so", 3)  # entry, exit, PLT
    assert ask(target, "call 1 30") == "called"
    assert ask(target, "close 1") == "closed"
    child = int(ask(target, "fork"))
    assert ask(target, "load 2") == "loaded"
    wait_for_library(me, child, "libplug2.so", 3)
    assert ask(target, "call 2 10") == "called"
    assert ask(target, "leave") == "back"
    session.send_signal(signal.SIGINT)
    done = actors.last_words(session)
    assert done.returncode == 0, repr(done)
    done = me.iprobe("report", "--json", directory)
    calls = {(f["module"], f["function"]): f["calls"] for f in json.loads(done.stdout)["functions"]}
    assert calls == {
        (f"libplug{version}.so", function): 2 * n
        for version, n in ((1, 30), (2, 10))
        for function in ("plug_inner", "plug_inner@plt")
    }
    memory.assert_untouched(target.pid)
    target.finish()


def test_one_number_after_a_kill(me, programs, targets):
    """A session without --plt that finds such sites live gives a function one number, in its
    children, too.
    """
    target = targets.start(me, programs.plugins())
    assert ask(target, "load 1") == "loaded"
    proc = me.start_iprobe("attach", target.pid, "--plt", "-f", "*@plt", "-o", me.dir() / "killed")
    memory.wait_until_live(target.pid, proc)
    proc.send_signal(signal.SIGKILL)
    actors.end(proc)
    directory = me.dir() / "trace"
    session = me.start_iprobe(
        "attach", target.pid, "-q", "--follow-fork", "-f", "plug_inner", "-o", directory
    )
    memory.wait_for(
        "the sites of the killed one stay",
        lambda: session.poll() is None and (directory / "iprobe" / "session").exists(),
        20,
        0.05,
    )
    memory.wait_until_live(target.pid, session)
    child = int(ask(target, "fork"))
    done = me.iprobe("attach", target.pid, "-f", "own")
    assert done.returncode == 0, repr(done)
    for pid in (target.pid, child):
        wait_for_library(me, pid, "loading", 2)
    assert ask(target, "leave") == "back"
    session.send_signal(signal.SIGINT)
    done = actors.last_words(session)
    assert done.returncode == 0, repr(done)
    lines = (directory / "iprobe" / "session").read_text().splitlines()
    functions = [line.split("\t")[2:4] for line in lines if line.startswith("function\t")]
    assert sorted(name for _, name in functions) == ["own", "plug_inner"]
    memory.assert_untouched(target.pid)
    target.finish()


def test_loading_and_unloading_under_load(me, programs, targets):
    """Two versions in turn, hundreds of times: every result is right."""
    target = targets.start(me, programs.plugins())
    session = me.start_iprobe("attach", target.pid, "--plt", "-q", "-o", me.dir() / "trace")
    memory.wait_until_live(target.pid, session)
    target.say("storm 1000")
    assert target.proc.stdout.readline().startswith("loads ")
    session.send_signal(signal.SIGINT)
    done = actors.last_words(session)
    assert done.returncode == 0, repr(done)
    memory.assert_untouched(target.pid)
    assert ask(target, "load 1") == "loaded" and ask(target, "call 1 10") == "called"
    target.finish()


SECTIONS = (".rela.plt", ".rela.dyn", ".dynsym", ".dynstr", ".plt", ".plt.got")
# of a section header: offset, size of the field
FIELDS = {"type": (4, 4), "flags": (8, 8), "addr": (16, 8), "offset": (24, 8), "size": (32, 8),
          "link": (40, 4), "entsize": (56, 8)}  # fmt: skip


def damaged(program, copy, name, field, value):
    """A copy whose section says something else: the program does not read that, iprobe does."""
    data = bytearray(program.read_bytes())
    start = int.from_bytes(data[40:48], "little")
    number, names = (int.from_bytes(data[at : at + 2], "little") for at in (60, 62))
    headers = [start + 64 * i for i in range(number)]
    strings = int.from_bytes(data[headers[names] + 24 : headers[names] + 32], "little")
    for header in headers:
        at = strings + int.from_bytes(data[header : header + 4], "little")
        if data[at : data.index(0, at)] == name.encode():
            offset, size = FIELDS[field]
            old = int.from_bytes(data[header + offset : header + offset + size], "little")
            new = (old + value) % 256**size
            data[header + offset : header + offset + size] = new.to_bytes(size, "little")
            copy.write_bytes(data)
            copy.chmod(0o755)
            return
    raise AssertionError(f"no section {name}")


def test_hostile_file(me, program, targets):
    """Whatever the file says about its PLT, the program computes what it did, and all is put back:
    iprobe records, or says in one line why it does not.
    """
    rng = random.Random(7)
    cases = [(s, f) for s in SECTIONS for f in FIELDS]
    recorded = refused = 0
    for name, field in rng.sample(cases, 24):
        copy = me.dir() / "program"
        damaged(program, copy, name, field, rng.choice([1, 6, 8, 16, 4096, 2**31, 2**62]))
        target = serving(me, targets, copy)
        done = me.iprobe(
            "attach", target.pid, "--plt", "--duration", "10ms", "-o", me.dir() / "trace"
        )
        what = (name, field, repr(done))
        assert done.returncode in (0, 1), what
        if done.returncode:
            assert actors.one_line(done), what
            refused += 1
        else:
            recorded += 1
        assert memory.text_differences(target.pid) == [], what
        target.wait_for_progress()
        target.finish()
        shutil.rmtree(me.dir() / "trace", ignore_errors=True)
    assert recorded and refused
