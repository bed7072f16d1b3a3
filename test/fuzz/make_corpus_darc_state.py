#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of a search's state: make_corpus_darc_state.py DIR makes
DIR/darc_state/*: a document as iprobe darc --resume writes it, and others that differ in one
member.
"""

import json
import os
import sys

SETS = ("path", "below", "looked", "again", "pointers", "known", "seen", "callees")


def node(number, parent, depth):
    return {
        "node": number,
        "parent": parent,
        "depth": depth,
        "function": "f",
        "call_site": None if parent is None else "f+0x1 f.c:3",
        "root_cause": True,
        "looked_at": 20,
        "maxcount": 20,
        "longest_ns": 12000000,
        "usual_longest_ns": 20,
    }


OPTIONS = {
    "search": "rightmost",
    "peak": 0,
    "slower_than_ns": 0,
    "percentile": 0,
    "tid": 0,
    "start_ops": 100,
    "decision_ops": 20,
    "maxcount_percentage": 20,
    "depth": 64,
    "max_functions": 200,
}
GOOD = {
    "format": "iprobe darc search",
    "version": 1,
    "function": "f",
    "events": 400,
    "left_out": 1,
    "min_ns": 211000,
    "max_ns": 12400000,
    "total_ns": 1300000000,
    "state": "in progress",
    "reason": None,
    "searched": {"from_ns": 8388608, "to_ns": 33554432},
    "usual": {"from_ns": 0, "to_ns": 1048576},
    "profile_ns": 1000,
    "bins": [[70, 90], [94, 70]],
    "latencies": [[210944, 60], [227328, 30], [12320768, 70]],
    "linker_name": "f",
    "level": 2,
    "options": OPTIONS,
    "modules": [{"path": "/bin/p", "build_id": "0123456789abcdef"}],
    "live": ["f", "g"],
    **{name: ["f", "g h"] for name in SETS},
    "ftree": [node(0, None, 0), node(4, 0, 1), node(5, 4, 2)],
    "paths": [{"node": 5, "share": 0.85, "cause": {"kind": "self"}}],
}
BEGUN = {
    **{key: value for key, value in GOOD.items() if key not in ("bins", "latencies", "searched")},
    "level": 0,
    "linker_name": None,
}
OTHERS = [
    {"version": 2},
    {"format": "x"},
    {"level": 5000},
    {"level": "x"},
    {"reason": "1 call: at least 100 are needed"},
    {"state": "no such"},
    {"state": "root cause found"},
    {"options": {**OPTIONS, "search": "peak", "peak": 1}},
    {"options": {**OPTIONS, "search": "slower", "slower_than_ns": 1000000}},
    {"options": {**OPTIONS, "search": "percentile", "percentile": 0.9}},
    {"options": {**OPTIONS, "search": "none"}},
    {"options": {**OPTIONS, "decision_ops": 0}},
    {"options": {**OPTIONS, "percentile": 2}},
    {"options": []},
    {"bins": [[70, 91], [94, 70]]},
    {"bins": [[70, 1], [70, 2]]},
    {"bins": [[70, 0]]},
    {"bins": [70]},
    {"latencies": [[1, 1]]},
    {"latencies": [[210945, 1]]},
    {"searched": {"from_ns": 1, "to_ns": None}},
    {"searched": 1},
    {"usual": {"from_ns": 0, "to_ns": 1}},
    {"modules": [{"path": "p", "build_id": "x"}]},
    {"modules": [1]},
    {"live": [[]]},
    {"live": [""]},
    {"path": "f"},
    {"path": ["x" * 5000]},
    {"ftree": [node(0, None, 0), node(4, 3, 1)]},
    {"ftree": [node(0, None, 0), node(4, 0, 2)]},
    {"ftree": [node(0, None, 0), node(4, None, 0)]},
    {"ftree": [1]},
    {"ftree": [node(0, None, 0)], "paths": []},
    {"paths": [1]},
    {"paths": [{"node": 9, "share": 0.85, "cause": {"kind": "self"}}]},
    {"paths": [{"node": 5, "share": 2, "cause": {"kind": "self"}}]},
    {"paths": [{"node": 5, "share": 1, "cause": 1}]},
]


def main():
    folder = os.path.join(sys.argv[1], "darc_state")
    os.makedirs(folder, exist_ok=True)
    seeds = [GOOD, BEGUN, [], *({**GOOD, **other} for other in OTHERS)]
    for i, seed in enumerate(seeds):
        with open(os.path.join(folder, f"seed-{i}"), "w", encoding="utf-8") as file:
            json.dump(seed, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
