# SPDX-License-Identifier: Apache-2.0
"""A server that is searched while it works: lighttpd from Debian's sources, built with iprobe-cc,
which has zlib compress its answers. There, three modules deep, some of the answers are delayed.
iprobe darc is told the name of the function for requests, and nothing else.

  IPROBE_TEST_LIGHTTPD   the folder of a lighttpd that was built so, beside its zlib
"""

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

import pytest

import lighttpd
from servers import BUILD, sh, time_scale

IPROBE = BUILD / "cli" / "iprobe"
REQUEST = "connection_state_machine"
DELAY_MS, ONE_OF = 10, 10  # blocks of compressed data
LOSS = 5  # percent of the throughput
WINDOW_S = 2
# the whole search, in which the other tests have the machine, too
LIMIT_S = 150


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    if os.environ.get("IPROBE_TEST_LIGHTTPD"):
        return Path(os.environ["IPROBE_TEST_LIGHTTPD"])
    return lighttpd.build(tmp_path_factory.mktemp("lighttpd"), DELAY_MS, ONE_OF)


@pytest.fixture
def server(source, tmp_path):
    if os.getuid():
        pytest.skip("not root")
    doctor = sh([IPROBE, "doctor"], BUILD, check=False).stdout
    said = next(line for line in doctor.splitlines() if "kernel events" in line)
    if "can be recorded" not in said:
        pytest.skip(" ".join(said.split()))
    server = lighttpd.Server(source, tmp_path / "server")
    yield server
    server.end()
    assert [client.error for client in server.clients] == [None] * lighttpd.CLIENTS


def watch(server):
    """Answers a second, and CPU time of an answer in us."""
    answers, cpu, begin = server.answers(), server.cpu_ns(), time.monotonic()
    time.sleep(WINDOW_S)
    count = server.answers() - answers
    assert count > 0, "the server does not answer"
    return count / (time.monotonic() - begin), (server.cpu_ns() - cpu) / count / 1000


def search(server, *options):
    """What darc found; what the server did meanwhile; how long it took; what it said."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [IPROBE, "darc", "-f", REQUEST, "--kernel", "--json", *options, str(server.proc.pid)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    windows = []
    while process.poll() is None:
        assert time.monotonic() < begun + time_scale.scaled(2 * LIMIT_S), "darc does not end"
        windows.append(watch(server))
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out), windows, time.monotonic() - begun, err


@pytest.mark.slow
def test_found_while_it_works(server, capsys):
    time.sleep(1)
    before = [watch(server) for _ in range(3)]
    found, during, seconds, err = search(server, "--duration", f"{LIMIT_S}s")
    after = [watch(server) for _ in range(3)]
    rates = {}
    with capsys.disabled():
        print()
        for name, windows in (("before", before), ("during", during), ("after", after)):
            rates[name], cpu = (statistics.mean(w[part] for w in windows) for part in (0, 1))
            print(f"{name:>7}: {rates[name]:.1f} answers a second, each {cpu:.0f} us of CPU time")
        print(f" search: {seconds:.0f} s, {err.count(': level ')} steps")
    # the path leads from the program into zlib, by its module
    causes = {path["path"][-1]: path for path in found["paths"]}
    assert "rest_now_and_then" in causes, (found["state"], found["paths"], err)
    path = causes["rest_now_and_then"]
    assert path["path"][0] == REQUEST and "plugins_call_fn_req_data" in path["path"], path["path"]
    assert path["path"][-2] == "_tr_flush_block", path["path"]
    assert path["cause"]["kind"] == "blocked" and "nanosleep" in path["cause"]["object"], path
    assert path["share"] > 0.5, path["share"]
    modules = {node["function"]: node["module"] for node in found["ftree"]}
    assert modules[REQUEST] == "lighttpd" and modules["rest_now_and_then"].startswith("libz.so")
    usual = min(rates["before"], rates["after"])
    assert rates["during"] > usual * (1 - LOSS / 100), rates
    status = json.loads(sh([IPROBE, "status", "--json", server.proc.pid], BUILD).stdout)
    assert status["patched"] == 0 and all(m["text_matches_file"] for m in status["modules"])
