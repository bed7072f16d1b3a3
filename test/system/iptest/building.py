# SPDX-License-Identifier: Apache-2.0
"""Building and recording one program, for tests that look at the sites of a placement."""

import collections
import json
import os
import re
import subprocess

Trace = collections.namedtuple("Trace", "output entries exits depth_at_end events")


def run(*command, cwd, **env):
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C", **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (command, done)
    return done


def decoded_at(path, wanted):
    """{address: instruction} that objdump sees at the wanted addresses."""
    text = run("objdump", "-d", "-w", "--no-show-raw-insn", path, cwd=".").stdout
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t(.*)", line)
        if match and int(match[1], 16) in wanted:
            found[int(match[1], 16)] = match[2].strip()
    return found


def record(builddir, program, folder):
    """Every probe live from the first instruction; what the program printed, and the events."""
    directory = folder / f"trace-of-{program.name}"
    done = run(
        builddir / "cli" / "iprobe", "run", "--json", "-o", directory, "--", program, cwd=folder
    )
    output, _, summary = done.stdout.rstrip("\n").rpartition("\n")
    assert json.loads(summary)["lost"] == 0
    entries, exits, depth, events = collections.Counter(), collections.Counter(), 0, []
    for line in run(
        builddir / "cli" / "iprobe", "dump", "--json", directory, cwd=folder
    ).stdout.splitlines():
        event = json.loads(line)
        name = event["function"].partition("(")[0].rpartition("::")[2].rpartition(" ")[2]
        events.append((event["event"], name))
        if event["event"] == "entry":
            entries[name] += 1
            depth += 1
        elif event["event"] == "exit":
            exits[name] += 1
            depth -= 1
        assert depth >= 0, line
    return Trace(output + "\n" if output else "", entries, exits, depth, events)
