#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the harness of probes.d: make_corpus_probes_d.py DIR makes DIR/probes_d/*."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = [
    "",
    "# nothing\n",
    "---\n...\n",
    "[1, 2]",
    "selections: x",
    "selections: {a: 'x,y', b: ['@a', '!z']}",
    "selections: {a: {description: d, functions: [f, 'file:*.c']}}",
    "selections: {a: {description: d}}",
    "selections: {a: []}",
    "selections: {a: '@b', b: '@a'}",
    "selections: {a: x, a: y}",
    "selections: {'a b': x}",
    "selections: {a: '!@b', b: '!x'}",
    "selections: {a: &x y, b: *x}",
    "selections: {a: !!str y}",
    "selections: {? [a] : b}",
    'selections: {a: "x\\0y"}',
    "profiles: {a: {events: [A, B], functions: '@c', budget: 2%, interval: 1s, duration: 10s, "
    "description: d}}\nselections: {c: x}",
    "profiles: {a: {budget: 500/s}}",
    "profiles: {a: {budget: 0}}",
    "profiles: {a: {interval: 0s}}",
    "profiles: {a: {interval: x}}",
    "profiles: {a: {events: 'A B'}}",
    "profiles: {a: {events: {}}}",
    "profiles: [x]",
    "profiles: {a: {more: 1}}",
    "a: 1",
    "selections: {a: 'x'",
    'selections: {a: "x\ny\n\nz"}',
    "a: 1\n---\nb: 2\n",
    "[" * 20 + "]" * 20,
    "selections:\n\ta: x\n",
    "rules: {a: {match: {exe: x}, when: start, do: trace}}",
    "rules: {a: {match: {exe: [x, '*/y']}, when: request, do: {hist: '@b'}}}\nselections: {b: z}",
    "rules: {a: {match: {user: 0, cgroup: '/*', unit: u, cmdline: '*'}, when: {every: 10m, cpu: '> "
    "90% for 5s', memory: '> 2G'}, do: trace}}",
    "rules: {a: {match: {exe: x}, when: {pressure: {memory: '> 10% for 10s', io_full: '> 1%'}, "
    "signal: USR1}, do: {snapshot: {memory: 16M}}}}",
    "rules: {a: {match: {exe: x}, when: {latency: {functions: [f, g], p99: '> 10ms', over: 2s}}, "
    "do: {trace: {args: true}}, for: 200ms,"
    " every: 10m, at_most: 3 per 1h, overhead: 1%, disk: 500M, processes: 4, enabled: false, "
    "description: d}}",
    "rules: {a: {match: {exe: x}, when: start, do: trace, record: service}}",
    "rules: {a: {match: {exe: x}, when: start, do: trace, record: [process]}}",
    "rules: {a: {match: {exe: x}, when: {latency: {functions: f, p50: '>5ms'}}, do: snapshot, "
    "record: service}}",
    "rules: {a: {match: {exe: x}, when: {latency: {functions: f, calls: '>5'}}, do: {fperf: "
    "p}}}\nprofiles: {p: {}}",
    *(
        f"rules: {{a: {{match: {{exe: x}}, when: start, do: trace, {more}}}}}"
        for more in (
            "kernel: true",
            "kernel: false",
            "kernel: sched",
            "kernel: required",
            "kernel: [sched, syscalls, required]",
            "kernel: []",
            "kernel: [[x]]",
            "kernel: [none]",
            "kernel: {a: b}",
            "record: x",
            "overhead: x",
            "processes: 0",
            "processes: [1]",
            "disk: 1K",
            "at_most: x",
            "for: 2h",
            "enabled: x",
        )
    ),
    "rules: {a: {match: {exe: x}, when: start, do: snapshot, kernel: true}}",
    "rules: {a: {match: {exe: x}, when: start, do: snapshot, overhead: 1%}}",
    "rules: {a: {match: {exe: x}, when: start, do: {fperf: p}, overhead: 0.001%}}\n"
    "profiles: {p: {}}",
    "rules: {a: {match: {exe: x}, when: start, do: fperf}}",
    "rules: {a: {match: {exe: x}, when: {latency: {functions: f, p99: '>5ms'}}, do: darc}}",
    "rules: {a: {match: {exe: x}, when: start, do: {darc: {function: f, slower_than: 1ms, "
    "start_ops: 1, decision_ops: 2, depth: 3, maxcount_percentage: 4, budget: 5%, memory: 6M, "
    "html: true, max_functions: 7}}, kernel: [sched]}}",
    "rules: {a: {match: {exe: x}, when: start, do: {darc: {function: f, percentile: p99}}}}",
    "rules: {a: {match: {exe: x}, when: start, do: {darc: {function: f, peak: 0}}, record: "
    "service}}",
    "rules: {a: {match: {exe: x}, when: start, do: {darc: f}, disk: 1M}}",
    "rules: {a: {match: {exe: x}, when: start, do: {snapshot: {memory: 400M}}, disk: 500M}}",
    "rules: {a: {match: {exe: x}, when: start, do: {trace: {functions: f, args: 'f(x)', retval: f, "
    "when: 'x > 1'}}}}",
    "rules: {a: {match: {exe: x}, when: start}}",
    "rules: {a: {match: {}, when: start, do: trace}}",
    "rules: {a: {match: {exe: x}, when: {}, do: trace}}",
    "rules: {a: {match: {exe: x}, when: start, do: {}}}",
    "rules: {a: {match: {exe: x}, when: {latency: {functions: f}}, do: trace}}",
    "rules: {a: {match: {exe: x}, when: {latency: {functions: f, p99: x}}, do: trace}}",
    "rules: {a: {match: {exe: x}, when: {signal: KILL}, do: trace}}",
]


def main():
    folder = os.path.join(sys.argv[1], "probes_d")
    os.makedirs(folder, exist_ok=True)
    shipped = []
    for name in ("examples.yaml", "rules.yaml"):
        with open(os.path.join(HERE, "..", "..", "probes.d", name), encoding="utf-8") as file:
            shipped.append(file.read())
    for i, seed in enumerate([*SEEDS, *shipped]):
        with open(os.path.join(folder, f"seed-{i}"), "w", encoding="utf-8") as file:
            file.write(seed)
    with open(os.path.join(folder, "seed-bytes"), "wb") as file:
        file.write(b"selections: {a: \xff\xfe}")


if __name__ == "__main__":
    main()
