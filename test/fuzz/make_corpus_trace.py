#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the trace harness: make_corpus_trace.py DIR makes DIR/trace/*."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import tracegen  # noqa: E402

SEPARATOR = b"\x1e"


def squeezed(stream, frames):
    """A compressed stream of plain packets: each as common/trace/packet_codec.h has it. frames: zstd
    can be had, packets go into columns by turns.
    """
    out, at = b"", 0
    while at < len(stream):
        size = int.from_bytes(stream[at + 40 : at + 48], "little") // 8
        header, words = stream[at : at + 80], stream[at + 80 : at + size]
        body, form = words, 0
        if frames and len(out) % 2 == 0 and words:
            body, form = (
                subprocess.run(
                    ["zstd", "-q", "-c", "--check"],
                    input=columns(words),
                    capture_output=True,
                    check=True,
                ).stdout,
                1,
            )
        out += (
            struct.pack("<II", 0x184D2A5E, 88 + (0 if form else len(body)))
            + header
            + struct.pack("<II", form, len(body))
            + body
        )
        at += size
    return out


def columns(data):
    """The words in columns (common/trace/packet_codec.h)."""
    rows, time, sp = [], 0, 0
    for (word,) in struct.iter_unpack("<Q", data):
        now, here = word >> 3 & 0x1FFFFFFF, word >> 53
        rows.append(
            struct.pack(
                "<II",
                (word & 7) << 29 | (now - time) & 0x1FFFFFFF,
                ((here - sp) & 2047) << 21 | word >> 32 & 0x1FFFFF,
            )
        )
        time, sp = now, here
    return b"".join(bytes(row[i] for row in rows) for i in range(8))


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


SIGNATURES = [
    "i4:fd s:path u8",
    "-:p f4:a f8:b x:c p:next",
    "b:ok c:letter e4:mode{RED=0,BLUE=7,NONE=-1} e1",
    "i4",
    "i1 i2 i8 u1 u2 u4 p e8:q{A=1,B}",
]


def values():
    """Records with values, some of which do not fit their signature."""
    trace = tracegen.Trace()
    trace.extra_lines = [f"signature\t{i + 1}\t{text}" for i, text in enumerate(SIGNATURES)]
    thread = trace.thread(0)
    number = trace.function("f").number
    text = [int.from_bytes(b'/tmp/"\n\xc3\xa9'[:8], "little"), int.from_bytes(b"\\x\xff", "little")]
    payloads = [
        (1, 0, [3, 11, *text, 9]),
        (1, 0, [3, 5 | 1 << 63, text[0], 9]),
        (1, 0, [3, 1 << 62, 0x1234, 9]),
        (1, 2, [3, 1 << 61, 9]),
        (1, 0, [3, 1 << 20, 9]),
        (2, 0, [0x3F800000, 1 << 62, 1 << 63, 0x3FFF, 0]),
        (2, 0, [0x7F800000, 0x7FF8 << 48, 1 << 63, 0x7FFF, 5]),
        (3, 0, [1, 65, 7, 200]),
        (3, 9, [0, 0, 2**64 - 1, 1]),
        (4, 0, [2**64 - 1]),
        (4, 1, [0]),
        (4, 0, []),
        (5, 0, [2**63, 1, 2, 3, 4, 5, 6, 1]),
        (9, 0, [1]),
    ]
    for payload in payloads:
        trace.now += 10
        thread.record(tracegen.ENTRY, number, thread.sp - 64, payload)
        trace.now += 10
        thread.record(tracegen.EXIT, number, thread.sp - 64, (4, 0, [trace.now]))
    return trace


def main():
    folder = os.path.join(sys.argv[1], "trace")
    os.makedirs(folder, exist_ok=True)
    seeds = {}
    for name, session, stream in traces():
        seeds[name] = session + SEPARATOR + stream
    session, stream = next((s, t) for _, s, t in traces())
    header = stream[:80]
    smallest = b"iprobe-session\t1\ntsc_hz\t1000\n"
    seeds.update(
        {
            "small": smallest + SEPARATOR + stream[:400],
            "cut-off": session[:-30] + SEPARATOR + stream[:-12],
            "changes": session
            + b"removed\t1\t1-4,6\nadded\t2\t2,3\nremoved\t3\t2-2000000\n"
            + SEPARATOR
            + stream,
            "changes-backwards": session + b"added\t2\t1\nremoved\t1\t1\n" + SEPARATOR + stream,
            "cut-off-header": session + SEPARATOR + stream + header[:40],
            "other-packet": session + SEPARATOR + stream + header[:4] + bytes(16) + header[20:],
            "no-packet": session + SEPARATOR + stream + bytes(80),
            "missing-packets": session
            + SEPARATOR
            + stream
            + header[:56]
            + (99).to_bytes(8, "little")
            + (7).to_bytes(8, "little")
            + header[72:]
            + stream[80:],
            "unknown-kind": session + SEPARATOR + header + bytes(8) + stream[88:],
            "unknown-extended": session + SEPARATOR + header + b"\xff" * 24 + stream[104:],
            "compact-first": session + SEPARATOR + header + stream[104:],
            "every-line": session
            + b"exec\t1000\t5\nagain\t1000\t5\t9\nmissing\t1\t2\t3\ntrimmed\t1\t99\n"
            b"clock\tmonotonic\ncompressed\tzstd\t3\nfilter\tdepth 3\nselection\tf*\n"
            b"payload\tcount\t1-3,5\npayload\thist\t4\ndropped\t5\t2\tcount\t9\t8\t7\nload\t1\t2\tab\t/l.so\n"
            b"unload\t3\t2\tab\t/l.so\nother\t4096\tcd\t/o.so\ncoarse\t1\t2\t3\t4\n"
            b"overwritten\t5\nfiltered\t6\n" + SEPARATOR + stream,
            "lines-of-later-versions": session
            + b"looks\t3\t900\t400\nlooks\t18446744073709551615\t1\t500\nlive\t60\n"
            b"no_events\tfiltered\tall were left out\nlimit\t4096\tdisk\n"
            b"rotated\t5\t1\t1\t640\t50\nkernel_events\t9\t1\tsched,irq\n" + SEPARATOR + stream,
            "stacks": session + b"stack\t7\t9\t50\t1:140737488355200,2:140737488355136\n"
            b"stack\t7\t8\t50\t3:8,1:16,99:24\nstack\t6\t8\t50\t\nstack\t6\t8\t40\t1:64\n"
            + SEPARATOR
            + stream,
            "processes": session + b"process\t7\t1\t-\tserver\t./server -x\n"
            b"process\t8\t7\tf\tsaver\tsaver: \\x1b\nprocess\t8\t7\tf\tlast\t\nprocess\t9\t0\n"
            + SEPARATOR
            + stream,
            "process-no-number": smallest + b"process\tx\t1\n",
            "stack-no-frames": smallest + b"stack\t7\t9\t50\t1:2,3\n",
            "stack-no-time": smallest + b"stack\t7\t9\n",
            "stack-too-long": smallest + b"stack\t7\t9\t50\t" + b"1:8," * 1025 + b"\n",
            "ends": session
            + b"ends\tpackets\n"
            + SEPARATOR
            + stream
            + header[:40]
            + (640).to_bytes(8, "little") * 2
            + header[56:],
            "exec": smallest + b"exec\t7\t9\nend\tdone\nunknown\tx\n" + SEPARATOR,
            "version": b"iprobe-session\t2\n",
            "numbers": smallest + b"pid\t99999999999999999999\n",
            "no-number": smallest + b"pid\tx\n",
            "hexadecimal": smallest + b"pid\t0x7g\n",
            "module": smallest + b"module\t0\ta\n",
            "module-twice": smallest + b"module\t1\t\\x00\\x41\\xZZ\tb\t1\t1\tc\n" * 2,
            "same-module": smallest + b"module\t0\ta\tb\t1\t1\tc\nmodule\t1\ta\tb\t9\t1\tc\n"
            b"function\t3\t1\tf.cold\t\t0\ti\n",
            "function": smallest + b"function\t1\n",
            "function-nowhere": smallest + b"function\t1\t5\tf\t\t0\t-\n",
            "function-0": smallest + b"module\t0\ta\tb\t1\t1\tc\nfunction\t0\t0\tf\t\t0\t-\n",
            "end-before-start": b"iprobe-session\t1\ntsc_hz\t1000\ntsc_start\t5\ntsc_end\t4\n",
            "no-hz": b"iprobe-session\t1\n",
            "nothing": b"",
        }
    )
    small = squeezed(stream, shutil.which("zstd"))
    seeds.update(
        {
            "squeezed": session + SEPARATOR + small,
            "squeezed-plain": session + SEPARATOR + squeezed(stream, None),
            "squeezed-cut": session + SEPARATOR + small[:-30],
            "squeezed-head-cut": session + SEPARATOR + small + small[:50],
            "squeezed-words": session + SEPARATOR + small[:150] + b"\xff" + small[151:],
            "squeezed-huge": session
            + SEPARATOR
            + small[:48]
            + (8 * (80 + 8 * 70000)).to_bytes(8, "little") * 2
            + small[64:],
        }
    )
    with tempfile.TemporaryDirectory() as made:
        values().write(made)
        with open(os.path.join(made, "iprobe", "session"), "rb") as file:
            with_values = file.read() + SEPARATOR
        with open(os.path.join(made, "stream-0"), "rb") as file:
            with_values += file.read()
    seeds["values"] = with_values
    seeds["values-cut"] = with_values[:-20]
    seeds["signatures"] = smallest + b"signature\t0\ti4\n"
    counted = (
        b"iprobe-counts\t1\ntime\t77\nbuckets\t3\t7\nhist\t1\t5\t2\t1000\t10\t600\t1,2,2\n"
        b"self\t1\t400\ncount\t3\t9\n"
    )
    for name, text in {
        "": counted + b"later\tthan\tthis\nend\n",
        "-cut": counted,
        "-version": b"iprobe-counts\t2\n",
        "-other": b"x\n",
        "-no-buckets": b"iprobe-counts\t1\nhist\t1\t5\t2\t1000\t10\t600\t1,2,2\nend\n",
        "-few": counted + b"hist\t1\t5\t2\t1\t1\t6\t1,2\nend\n",
        "-many": counted + b"buckets\t65\t1\nend\n",
        "-no-number": counted + b"self\tx\t1\nend\n",
        "-short": counted + b"count\t1\nend\n",
        "-threads": counted + b"thread\t0\t0\t0\t3\t2\nthread\t7\t8\t99\t4\t5\nend\n",
        "-thread-short": counted + b"thread\t7\t8\nend\n",
        "-hist": counted + b"hist\t1\t5\n",
        "-no-time": b"iprobe-counts\t1\ntime\tx\nend\n",
        "-wrap": counted + b"count\t3\t18446744073709551615\n"
        b"hist\t1\t18446744073709551615\t1\t1\t9\t3\t9,18446744073709551615,1\nend\n",
    }.items():
        seeds["counts" + name] = session + SEPARATOR + text
    lines = [
        f"piece\t{n}\t{max(0, n - 2)}\t{100 * n + 1}\t{n}\t{4096 * n}\t{500 * n}\t0"
        for n in range(5)
    ]
    seeds["pieces"] = "".join(f"{line:255}\n" for line in lines).encode()
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
