# SPDX-License-Identifier: Apache-2.0
"""
iprobe wait --by value: the work for each request, whose id a point or a function's argument tells,
in two processes.
"""

import json
import os
import subprocess
import time

import pytest

from iptest import actor as actors
from test_wait import skip_without_events, traced  # noqa: F401

IDS = [4, 9, 4, 14, 9, 4]  # ms of the child's work for each, of test/programs/id_requests.c
FRONT, AFTER = 2, 2  # ms


@pytest.fixture(scope="module", params=["", "done"])
def served(request, top, builddir, programs):
    if os.getuid() != 0:
        pytest.skip("not root")
    actor = actors.Actor("root", 0, top, builddir)
    skip_without_events(actor)
    trace = actor.dir() / "trace"
    proc = actor.popen(
        [
            actor.iprobe_path,
            *("run", "-q", "--kernel", "--kernel-buffer", "64M", "--args", "--follow-fork"),
            *("-o", trace, "--", programs.simple("id_requests", placement="fentry")),
            *([request.param] if request.param else []),
        ],
        stdin=subprocess.PIPE,
    )
    assert proc.stdout.readline() == "ready\n"
    time.sleep(0.3)  # the child is recorded now
    for number in IDS:
        proc.stdin.write(chr(number))
        proc.stdin.flush()
        time.sleep(0.05)
    proc.stdin.close()
    proc.stdin = None
    done = actors.last_words(proc)
    assert done.returncode == 0, repr(done)
    yield request.param, lambda *a: actor.iprobe("wait", *a, trace)
    actor.cleanup()


def values(wait, *options):
    said = wait("--json", *options)
    assert said.returncode == 0, repr(said)
    document = json.loads(said.stdout)
    for v in document["values"]:
        parts = v["cpu_ns"] + v["runqueue_ns"] + v["blocked_ns"] + v["unknown_ns"]
        assert abs(v["elapsed_ns"] - parts) < 10 and v["from_ns"] < v["to_ns"], v
    return {v["value"]: v for v in document["values"]}, document


def check(v, ms):
    """What it had of the CPU; the kernel's part of reading and writing is small."""
    assert ms * 0.97e6 < v["cpu_ns"] < ms * 1.05e6 + 1.5e6 * len(IDS), (v, ms)


def test_by_a_function_argument(served):
    """The work lasts for the call, whatever comes behind it."""
    _, wait = served
    found, document = values(wait, "--by", "value:key")
    assert set(found) == set(IDS), document
    for number, v in found.items():
        assert v["times"] == IDS.count(number) and v["is"] == "value", v
        check(v, number * IDS.count(number))
        assert [f["function"] for f in v["functions"]] == ["handle_job"], v
    assert document["nobody_cpu_ns"] > len(IDS) * (FRONT + 3) * 1e6 * 0.97


def test_by_a_point(served):
    """The work lasts until the thread is idle: it polls for the next request."""
    mode, wait = served
    found, document = values(wait, "--by", "value:id")
    assert set(found) == set(IDS), document
    for number, v in found.items():
        n = IDS.count(number)
        assert v["times"] == n, v
        check(v, (FRONT + (AFTER if mode else 0)) * n)
        if number != IDS[-1]:  # which the wait for the child's end may follow
            # the poll is not in it
            assert v["elapsed_ns"] - v["runqueue_ns"] < v["cpu_ns"] + 5e6, v
        assert v["functions"][0]["function"] in ("front", "after"), v


def test_names_of_one_id(served):
    """The first process has id, the other one key: one row for both of them."""
    _, wait = served
    both = ("--by", "value:id", "--by", "value:key")
    found, document = values(wait, *both, "--id", "request,handle_job")
    assert set(found) == set(IDS), document
    for number, v in found.items():
        assert v["times"] == 2 * IDS.count(number), v
        assert {"front", "handle_job"} <= {f["function"] for f in v["functions"]}, v
        assert v["cpu_ns"] > IDS.count(number) * (number + FRONT) * 0.97e6, v
    for only, where in (("request", "handle_job"), ("handle_job", "front")):
        found, _ = values(wait, *both, "--id", only)
        functions = {f["function"] for v in found.values() for f in v["functions"]}
        assert where not in functions and functions, functions
    found, document = values(wait, *both)
    # the most CPU first
    assert list(found)[0] in (14, 9), document


def test_points_that_end_work(served):
    mode, wait = served
    if not mode:
        return
    found, document = values(wait, "--by", "value:id", "--end", "done")
    for number, v in found.items():
        check(v, FRONT * IDS.count(number))
        assert "after" not in [f["function"] for f in v["functions"]], document
    # the end of a function does it, too
    found, document = values(wait, "--by", "value:id", "--end", "front")
    for number, v in found.items():
        check(v, FRONT * IDS.count(number))


def test_the_table(served):
    _, wait = served
    text = wait("--by", "value:key").stdout
    lines = text.splitlines()
    assert lines[2].split() == "TIMES ELAPSED CPU RUN QUEUE BLOCKED UNKNOWN key".split(), text
    assert lines[3].split()[-1] in ("9", "14") and lines[4].split()[-1] == "handle_job", text
    assert lines[-1].endswith(" of CPU time was for no request"), text
    only = wait("--by", "value:key", "-n", "1", "-f", "tidy").stdout
    assert "handle_job" not in only and only.count("\n") == 6, only


def test_usage(served):
    _, wait = served
    for options, code, words in (
        (("--by", "value:"), 2, "needs the name of a value"),
        (("--by", "value:key", "--by", "client"), 2, "does not go with --by client"),
        (("--by", "client", "--by", "value:key"), 2, "goes with no other --by"),
        (("--id", "request"), 2, "--id and --end go with --by value:NAME"),
        (("--by", "value:kye"), 1, "key"),
        (("--by", "value:key", "--tid", "1"), 2, "does not go with"),
    ):
        said = wait(*options)
        assert said.returncode == code and words in said.stderr, repr(said)


HOSTILE = """
#include <iprobe/probe.h>
#include <stdio.h>
int main(void)
{
	static char text[32];
	for (int i = 0; i < 50010; i++) {
		snprintf(text, sizeof(text), "\\x1b[31m%d\\n", i);
		IPROBE_POINT(request, text);
	}
	return 0;
}
"""


def test_hostile_ids(traced, top):  # noqa: F811
    """Of any bytes, and more than there are rows for."""
    folder = traced.dir()
    (folder / "many.c").write_text(HOSTILE, encoding="ascii")
    wrapper = traced.builddir / "coldpatch" / "iprobe-cc"
    command = [wrapper, "-O1", "-g", f"-I{top}/include", "many.c", "-o", "many"]
    built = traced.run(command, cwd=folder)
    assert built.returncode == 0, repr(built)
    options = ("-q", "--kernel", "--args", "--memory", "64M", "--kernel-buffer", "64M")
    done = traced.iprobe("run", *options, "-o", folder / "trace", "--", folder / "many")
    assert done.returncode == 0, repr(done)
    said = traced.iprobe("wait", "--by", "value:text", folder / "trace")
    assert said.returncode == 0 and "\x1b" not in said.stdout, repr(said)
    document = json.loads(
        traced.iprobe("wait", "--json", "--by", "value:text", folder / "trace").stdout
    )
    rows = document["values"]
    assert sum(v["times"] for v in rows) + document["lost"] == 50010
    assert len(rows) == 50001 and [v["is"] for v in rows].count("others") == 1
