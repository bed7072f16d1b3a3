#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of traces of several processes: make_corpus_members.py DIR makes
DIR/members/*.
"""

import os
import sys

LIST = "iprobe-members\t1\nservice\t--name \\x09w\\x5c\nmember\t7\tw-7\nmember\t8\tw-8\n"
HEAD = "iprobe-session\t1\nhost\th\nkernel\tk\ntsc_hz\t1000\ntsc_start\t1\nstart_realtime\t9\n"
APP = "module\t0\t/bin/a\t0a\t4096\t1\tfentry\n"
APP_2 = "module\t0\t/bin/a\t0a\t8192\t1\tfentry\n"
LIB = "module\t3\t/lib/b\t0b\t1\t9\tinline\n"
ONE = (
    HEAD
    + APP
    + LIB
    + "function\t1\t0\tmain\ta.c\t1\tj\t48\nfunction\t2\t0\tf\ta.c\t2\ti\n"
    + "function\t9\t3\tf.part.0\t-\t0\tr\njump\t1\t2\nsignature\t1\ti4:fd s:path e4:k{A=1,B=2}\n"
    + "signature\t3\tu8:n\nsilent\t2\ntails\t1\nremoved\t3\t1-2\nadded\t5\t1\nremoved\t7\t1\n"
    + "dropped\t3\t2\tcount\t9\t9\t9\nmissing\t2\t3\t4\nthread\t7\tone\nexec\t7\t5\n"
    + "stop\tattach\t9\t1\t1\t1\t1\nload\t4\t1\t0c\t/lib/c\nother\t1\t0d\t/lib/d\n"
    + "selection\tf*\nfilter\tdepth 3\npayload\tcount\t2\nevents\t5\nlost\t1\ntsc_end\t10\n"
    + "end\tduration over\n"
)
TWO = (
    HEAD
    + APP_2
    + "function\t1\t0\tf\ta.c\t2\te\nfunction\t2\t0\tonly\t-\t0\t-\nremoved\t4\t1\n"
    + "signature\t1\ts:name\nstop\tdetach\t3\t1\t1\t1\t1\ntrimmed\t2\t6\nrotated\t1\t1\t1\t1\t1\n"
    + "unload\t2\t1\t0c\t/lib/c\ncoarse\t1\t2\nlimit\t5\t--max-size\nend\tsize limit reached\n"
)
WHY = "no_events\tnone\tnothing was called\n"
SEEDS = [
    "",
    LIST,
    LIST + "member\t9\tw-7\n",
    LIST + "member\t9\t../x\n",
    LIST + "member\tx\tw\nmore\n",
    LIST + "kernel_events\t9\t1\tsched,syscalls\n",
    LIST + "kernel_events\t9\t1\tsched,x\n",
    LIST + "kernel_events\t9\tx\tsched\n",
    LIST + "kernel_events\t\n",
    LIST + "kernel_events\t9\t1\tirq\nkernel_events\t9\t1\tirq\n",
    "iprobe-members\t2\n",
    "stream",
    "a/b \x01",
    LIST + "".join(f"\x1e{text}" for text in (ONE, TWO, ONE)),
    LIST + f"\x1e{TWO}\x1e{ONE}\x1e{HEAD}",
    f"\x1e{HEAD}{WHY}\x1e{HEAD}{WHY}",
    f"\x1e{HEAD}boot\tx\n\x1e{HEAD}boot\ty\n\x1e{HEAD}boot\tx\n",
    f"\x1e{HEAD}\x1e{HEAD}clock\tmonotonic\n\x1e{HEAD}host\tb\n\x1e{HEAD}kernel\tb\n"
    f"\x1e{HEAD}tsc_hz\t2000\n\x1e{HEAD}start_realtime\t99999999999999\n",
    "\x1enonsense\x1e" + ONE,
]


def main():
    folder = os.path.join(sys.argv[1], "members")
    os.makedirs(folder, exist_ok=True)
    for i, seed in enumerate(SEEDS):
        with open(os.path.join(folder, f"seed-{i}"), "w", encoding="utf-8") as file:
            file.write(seed)


if __name__ == "__main__":
    main()
