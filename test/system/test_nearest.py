# SPDX-License-Identifier: Apache-2.0
"""
Names that no function has: each option that takes one tells which it is, and what comes near.
"""

import pytest

from iptest import memory


def test_a_program_that_is_started_through_a_link(me, programs, targets):
    """As redis-server is one to redis-check-rdb."""
    program = programs.simple("count", placement="fentry")
    link = me.dir() / "started-as"
    link.symlink_to(program)
    target = targets.start(me, [link, "-w", "-t", "1", "-n", "2000"])
    done = me.iprobe("attach", target.pid, "-f", "lib:started-as", "-o", me.dir() / "trace")
    said = f"; it is called started-as, and runs {program}: lib:{program.name}\n"
    assert done.returncode == 1 and done.stderr.endswith(said), repr(done)
    done = me.iprobe(
        *("attach", target.pid, "-f", f"lib:{program.name}", "--duration", "20ms"),
        *("-o", me.dir() / "trace"),
    )
    assert done.returncode == 0, repr(done)
    target.say()
    target.finish()


@pytest.mark.parametrize(
    "words,meant",
    [
        (["-f", "count.c"], "nearest: file:count.c"),
        (["-f", "file:src/cuont.c"], "nearest: file:count.c"),
        (["-f", "/^lea/"], "nearest: lea*"),
        (["-f", "leaf;mix"], "nearest: leaf,mix"),
        (["-f", "lea.*f$"], "nearest: lea*f"),
        (["-f", "lib:coumt"], "nearest: lib:count"),
        (["--args", "laef(n)"], "called laef (nearest: leaf"),
        (["--retval=laef(retval)"], "called laef (nearest: leaf"),
        (["--when", "laef: n > 1"], "called laef (nearest: leaf"),
        (["--until", "p99>1ms:laef"], "--until p99>1ms:laef: the selection matches none"),
        (["--until", "p99>1ms:laef"], "; nearest: leaf"),
        (["-f", "mix", "--until", "p99>1ms:leaf"], "--until p99>1ms:leaf is for none"),
        (["--payload", "hist:laef"], "--payload hist:laef: the selection matches none"),
        (["--start-on", "laef"], "--start-on laef (nearest: leaf"),
        (["--sample", "10:laef"], "laef (nearest: leaf, half) of --sample 10"),
        (["-f", "mix,/^lea/"], "nothing matches /^lea/ (nearest: lea*)"),
    ],
)
def test_attach(me, programs, targets, words, meant):
    target = targets.start(
        me, [programs.simple("count", placement="fentry"), "-w", "-t", "1", "-n", "2000"]
    )
    done = me.iprobe(
        "attach", target.pid, *words, "-q", "--duration", "20ms", "-o", me.dir() / "trace"
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and meant in lines[0], repr(done)
    memory.assert_untouched(target.pid)
    target.say()
    target.finish()
