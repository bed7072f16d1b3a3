# SPDX-License-Identifier: Apache-2.0
"""System calls of the target that a stop interrupts: endless waits go on as if nothing had happened."""

from iptest import memory


def test_endless_waits_go_on(actor, programs, targets):
    target = targets.start(actor, [programs.simple("endless")])
    for round_number in range(10):
        done = actor.iprobe("attach", target.pid, "--duration", "20ms", "-f", "tick", "--json", "-q",
                            "-o", actor.dir() / f"trace-{round_number}")
        assert done.returncode == 0, repr(done)
        assert done.summary()["events"] > 0
    memory.assert_untouched(target.pid)
    target.say("wake")
    result = target.finish()
    assert result.stdout.split("\n")[:4] == [
        "epoll_wait good",
        "epoll_pwait good",
        "semop good",
        "sigwaitinfo good",
    ], repr(result)
