#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the trace harness: make_corpus_trace.py DIR makes DIR/trace/*."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import tracegen  # noqa: E402

SEPARATOR = b"\x1e"


def traces():
    """name -> (session, stream)"""
    for seed in (1, 2):
        trace = tracegen.random_trace(seed, streams=2, steps=60, capacity=40)
        with tempfile.TemporaryDirectory() as folder:
            trace.write(folder)
            with open(os.path.join(folder, "iprobe", "session"), "rb") as file:
                session = file.read()
            for number in (0, 1):
                with open(os.path.join(folder, f"stream-{number}"), "rb") as file:
                    yield f"random-{seed}-{number}", session, file.read()


def main():
    folder = os.path.join(sys.argv[1], "trace")
    os.makedirs(folder, exist_ok=True)
    seeds = {}
    for name, session, stream in traces():
        seeds[name] = session + SEPARATOR + stream
    session, stream = next((s, t) for _, s, t in traces())
    header = stream[:80]
    smallest = b"iprobe-session\t1\ntsc_hz\t1000\n"
    seeds.update({
        "small": smallest + SEPARATOR + stream[:400],
        "cut-off": session[:-30] + SEPARATOR + stream[:-12],
        "cut-off-header": session + SEPARATOR + stream + header[:40],
        "other-packet": session + SEPARATOR + stream + header[:4] + bytes(16) + header[20:],
        "no-packet": session + SEPARATOR + stream + bytes(80),
        "missing-packets": session + SEPARATOR + stream + header[:56] + (99).to_bytes(8, "little") +
        (7).to_bytes(8, "little") + header[72:] + stream[80:],
        "unknown-kind": session + SEPARATOR + header + bytes(8) + stream[88:],
        "unknown-extended": session + SEPARATOR + header + b"\xff" * 24 + stream[104:],
        "compact-first": session + SEPARATOR + header + stream[104:],
        "exec": smallest + b"exec\t7\t9\nend\tdone\nunknown\tx\n" + SEPARATOR,
        "version": b"iprobe-session\t2\n",
        "numbers": smallest + b"pid\t99999999999999999999\n",
        "no-number": smallest + b"pid\tx\n",
        "hexadecimal": smallest + b"pid\t0x7g\n",
        "module": smallest + b"module\t0\ta\n",
        "module-twice": smallest + b"module\t1\t\\x00\\x41\\xZZ\tb\t1\t1\tc\n" * 2,
        "same-module": smallest + b"module\t0\ta\tb\t1\t1\tc\nmodule\t1\ta\tb\t9\t1\tc\nfunction\t3\t1\tf.cold\t\t0\ti\n",
        "function": smallest + b"function\t1\n",
        "function-nowhere": smallest + b"function\t1\t5\tf\t\t0\t-\n",
        "function-0": smallest + b"module\t0\ta\tb\t1\t1\tc\nfunction\t0\t0\tf\t\t0\t-\n",
        "end-before-start": b"iprobe-session\t1\ntsc_hz\t1000\ntsc_start\t5\ntsc_end\t4\n",
        "no-hz": b"iprobe-session\t1\n",
        "nothing": b"",
    })
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
