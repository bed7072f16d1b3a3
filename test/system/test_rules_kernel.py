# SPDX-License-Identifier: Apache-2.0
"""Rules that record events of the kernel beside those of functions."""

import json
import os
import re

import pytest

from iptest import kernel_streams, memory
from iptest.rules import (  # noqa: F401
    Rules,
    program,
    pytestmark,
    report,
    rule,
    rules,
    serving,
)
from iptest.server import Server

# tracefs is nowhere, and iprobed has no right to mount it
WITHOUT = (
    *("unshare", "--mount", "sh", "-c"),
    'umount -l /sys/kernel/tracing; exec "$@"',
    "sh",
)


@pytest.fixture
def traced(root):
    said = next(
        line for line in root.iprobe("doctor").stdout.splitlines() if "kernel events" in line
    )
    if "can be recorded" not in said:
        pytest.skip(" ".join(said.split()))
    if not os.path.ismount("/sys/kernel/tracing"):
        pytest.skip("tracefs is not mounted")
    return root


def start(rules, text, before=()):
    rules.write(text)
    rules.daemon.start(
        *("--probes-d", rules.files, "--traces", rules.traces), before=[str(b) for b in before]
    )
    memory.wait_for("the rules are not taken", lambda: rules.carried_out() > 0, 60)


def fire(rules):
    done = rules.command("--fire", "r")
    assert done.returncode == 0, repr(done)


def recorded_events(rules, me, n):
    """Fires until functions were recorded: a busy machine may give the server no CPU."""
    for i in range(n, n + 10):
        fire(rules)
        path = rules.recorded("r", i)[i - 1]
        if report(me, path):
            return path
    raise AssertionError(rules.log())


@pytest.mark.parametrize("kernel", ["true", "[sched, syscalls]"])
def test_a_trace_has_the_kernels_events(traced, me, rules, serving, kernel):
    rules.start(rule("request", more=f"kernel: {kernel}\n    for: 500ms"))
    path = recorded_events(rules, me, 1)
    events = kernel_streams.read(path / "trace")
    assert {"sched_switch", "syscall_entry_poll"} & {e["event"] for e in events}, path
    assert serving.pid in {e["tid"] for e in events}
    if kernel != "true":
        assert not [e for e in events if e["event"].startswith(("x86_", "irq_", "hrtimer"))]
    said = me.iprobe("wait", "--json", path / "trace")
    assert said.returncode == 0 and json.loads(said.stdout)["kernel_events"] > 0, repr(said)
    why = (path / "why.txt").read_text()
    assert re.search(r"\d events of the kernel, lost", why), why
    assert "events of the kernel" in rules.wait_log("has recorded", "rule r:")


def test_what_the_kernel_cannot_give_is_told(traced, me, rules, serving):
    start(rules, rule("request", more="kernel: true\n    for: 300ms"), WITHOUT)
    path = recorded_events(rules, me, 1)
    line = rules.wait_log("it is recorded without events of the kernel")
    assert "tracefs" in line, line
    assert "without events of the kernel: " in (path / "why.txt").read_text()
    assert not (path / "trace" / "kernel").exists()
    info = me.iprobe("info", "--json", path / "trace")
    assert info.returncode == 0 and "kernel_events" not in json.loads(info.stdout), repr(info)


def test_a_rule_that_needs_them(traced, me, rules, serving):
    start(rules, rule("request", more="kernel: [sched, required]\n    for: 300ms"), WITHOUT)
    fire(rules)
    line = rules.wait_log("nothing is recorded")
    assert "tracefs" in line, line
    assert not list((rules.traces / "r").glob("*/trace"))


def test_of_a_service(traced, me, programs, targets):
    program = programs.simple("prefork")
    made = Rules(me, me.dir(), program)
    server = Server(me, programs, targets, workers=2)
    made.start(rule("request", more="record: service\n    kernel: true\n    for: 500ms"))
    path = recorded_of_service(made)
    events = kernel_streams.read(path / "trace")
    assert set(server.workers) <= {e["tid"] for e in events}
    assert "events of the kernel" in made.wait_log("has recorded", "of 3 processes")
    assert made.daemon.end() == 0, made.log()


def recorded_of_service(made):
    fire(made)
    return made.recorded("r", 1)[0]


WRONG = {
    "kernel: some": "kernel is true, or a list of sched, syscalls, irq, faults, block, all and "
    "required, not 'some'",
    "kernel: [sched, 'irq,faults']": "not 'irq,faults'",
    "kernel: []": "kernel is empty",
    "kernel: {sched: 1}": "kernel",
}


def check(root, folder, text, before=()):
    (folder / "rules.yaml").write_text(text.replace("PROGRAM", "/nothing/at/all"))
    for path in (folder, folder / "rules.yaml"):
        path.chmod(0o755)
    return root.run(
        [
            *before,
            root.builddir / "cli" / "iprobed",
            *("--check", "--probes-d", folder, "--policy", folder / "policy"),
        ]
    )


@pytest.mark.parametrize("more", sorted(WRONG))
def test_mistakes(root, more):
    done = check(root, root.dir(), rule("request", more=more))
    assert done.returncode == 1 and WRONG[more] in done.stderr, repr(done)
    assert re.search(r"rules.yaml:6:\d+: ", done.stderr), repr(done)


@pytest.mark.parametrize("do", ["snapshot", "{hist: work}"])
def test_with_what_it_goes(root, do):
    done = check(root, root.dir(), rule("request", do=do, more="kernel: true"))
    assert done.returncode == 1 and "kernel goes with do: trace" in done.stderr, repr(done)


def test_check(traced):
    folder = traced.dir()
    (folder / "policy").write_text("kernel: {users: [1234], groups: [5, 6]}\n")
    (folder / "policy").chmod(0o644)
    text = rule("request", more="kernel: [syscalls]")
    done = check(traced, folder, text)
    assert done.returncode == 0 and "no events of the kernel" not in done.stderr, repr(done)
    assert "with events of the kernel (sched,syscalls) where it tells them" in done.stdout
    assert "events of the kernel for 1 user and 2 groups" in done.stdout, repr(done)
    done = check(traced, folder, text, NO_MOUNT)
    assert done.returncode == 0, repr(done)
    assert "rule r: no events of the kernel here, it would record without: " in done.stderr


NO_MOUNT = (
    *WITHOUT[:4],
    "umount -l /sys/kernel/tracing; exec setpriv --bounding-set=-sys_admin --inh-caps=-all "
    '--ambient-caps=-all "$@"',
    "sh",
)
