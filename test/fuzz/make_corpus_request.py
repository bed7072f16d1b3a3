#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of iprobed's requests: make_corpus_request.py DIR makes
DIR/request/*.
"""

import os
import sys

HEAD = "iprobe 1\nattach 17\n"
SEEDS = [
    "",
    "iprobe 2\n",
    "iprobe 1\n",
    HEAD,
    HEAD + "leave\ndirectory trace\noption --duration=1s\noption --json\noption --drop-hot\n",
    HEAD + "member\nshown /a b/c\nshown /d\n",
    HEAD + "option --kernel\noption --kernel-buffer=1M\noption --memory=64M\n",
    HEAD + "option --kernel=sched,optional\noption --kernel-buffer=17M\n",
    HEAD + "option --kernel=sched\noption --kernel-buffer=x\noption --memory=x\n",
    "iprobe 1\nkernel 7\noption --kernel\noption --kernel-buffer=64K\n",
    "iprobe 1\nsnapshot 7\ndirectory s\noption --json\n",
    HEAD + "option --memory=2G\n",
    HEAD + "option --duration=@x\n",
    HEAD + "shown /a\nshown /b\n",
    HEAD + f"shown /{'x' * 4096}\n",
    HEAD + "directory .\n",
    "iprobe 1\nattach 0\n",
    "iprobe 1\nattach 17\0",
    HEAD + "option --functions=a,!b\noption --sample=3:x\noption --payload=hist:y\n",
    "iprobe 1\ndetach 3\noption --no-stop",
    "iprobe 1\nstatus 3\noption --json\n",
    "iprobe 1\nsnapshot 3\noption --output=/a:@b\n",
    "iprobe 1\nsnapshot 3\noption --output=a\n",
    "iprobe 1\ntop 3\noption --batch\noption --delay=1s\noption --sort=p99\noption --limit=3\n",
    "iprobe 1\ntop 3\noption --kernel\noption --kernel-buffer=1M\n",
    "iprobe 1\nfperf 3\noption --events=task-clock\noption --budget=2%\noption --csv\noption "
    "--functions=a\n",
    "iprobe 1\ntop 3\nleave\n",
    HEAD + "directory a/b\n",
    HEAD + "option --list=/x\n",
    HEAD + "option --payload=user:/x\n",
    HEAD + "option --functions=@/x\n",
    HEAD + "option --json=1\n",
    HEAD + "option --duration\n",
    HEAD + "option x\n",
    HEAD + "nonsense\n",
    "iprobe 1\nleave\n",
    "iprobe 1\nattach x\n",
    HEAD + "option --json\n" * 70,
    HEAD + "attach 3\n",
    "members:\n  - users: [5, 6]\n    programs: [/usr/*]\n",
    "members: [{users: [root]}]",
    "members: [{users: [5], programs: [x]}]",
    "members: []",
]


def main():
    folder = os.path.join(sys.argv[1], "request")
    os.makedirs(folder, exist_ok=True)
    for i, seed in enumerate(SEEDS):
        with open(os.path.join(folder, f"seed-{i}"), "w", encoding="utf-8") as file:
            file.write(seed)


if __name__ == "__main__":
    main()
