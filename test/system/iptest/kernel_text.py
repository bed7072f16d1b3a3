# SPDX-License-Identifier: Apache-2.0
"""Kernel events of a trace as an independent reader sees them: babeltrace2's text, and what threads
did by the kernel's documentation of its scheduler's tracepoints.
"""

import bisect
import collections
import re
import subprocess

EVENT = re.compile(
    r"\[(\d+)\] \([^)]*\) (?:\S+ )?(\w+): \{ cpu_id = (\d+) \}, (\{ tid = (\d+), .*)"
)
NUMBER = re.compile(r"\b(\w+) = (-?(?:0x[0-9A-Fa-f]+|\d+))")
TASK_REPORT_MAX = 0x100  # of prev_state: preempted
TASK_DEAD = 0x10 | 0x20
TASK_STOPPED = 0x4 | 0x8


class Threads:
    """By tid, in order of time: (tsc, state): R on a CPU, Q waiting for one, B blocked, W blocked
    though somebody has begun to wake it, X gone.
    """

    def __init__(self, trace):
        self.states = collections.defaultdict(list)
        self.stops = []  # (tsc, tid): a tracer stopped a thread
        self.early = set()  # threads that were woken on their way to block
        self.events = 0
        self.cpus = {}  # CPU: who has it, its last event
        with subprocess.Popen(
            ["babeltrace2", "--clock-cycles", str(trace / "kernel")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as reader:
            for line in reader.stdout:
                self.events += 1
                found = EVENT.match(line)
                if found and not found[2].startswith("lttng_statedump"):
                    self.appears(int(found[1]), int(found[3]), int(found[5]))
                    if found[2].startswith("sched_"):
                        self.take(int(found[1]), found[2], int(found[3]), found[4])
            said = reader.stderr.read()
        assert reader.returncode == 0 and self.states, said

    def appears(self, tsc, cpu, tid):
        """An event in a thread: where no switch to it was seen, it came behind idling."""
        current, last = self.cpus.get(cpu, (-1, 0))
        states = self.states.get(tid)
        if states and states[-1][1] in "QW":
            states.append((tsc if current else max(last, states[-1][0]), "R"))
        elif states and states[-1][1] == "B":
            states.append((tsc, "R"))
        self.cpus[cpu] = (current, tsc)

    def take(self, tsc, name, cpu, text):
        fields = {}
        for key, value in NUMBER.findall(text):
            fields.setdefault(f"own_{key}" if key in fields else key, int(value, 0))
        if name == "sched_switch":
            self.cpus[cpu] = (fields["next_tid"], tsc)
            state = fields["prev_state"]
            if state & TASK_STOPPED:
                self.stops.append((tsc, fields["prev_tid"]))
            if fields["prev_tid"]:
                left = "W" if fields["prev_tid"] in self.early else "B"
                left = left if state & (TASK_REPORT_MAX - 1) else "Q"
                self.states[fields["prev_tid"]].append((tsc, "X" if state & TASK_DEAD else left))
            if fields["next_tid"]:
                self.early.discard(fields["next_tid"])
                self.states[fields["next_tid"]].append((tsc, "R"))
        elif name == "sched_waking":
            states = self.states[fields["own_tid"]]
            if states and states[-1][1] == "B":
                states.append((tsc, "W"))
            elif states:
                self.early.add(fields["own_tid"])
        elif name in ("sched_wakeup", "sched_wakeup_new"):
            self.early.discard(fields["own_tid"])
            states = self.states[fields["own_tid"]]
            if not states or states[-1][1] in "BW":
                states.append((tsc, "Q"))

    def at(self, tid, tsc):
        """The state of a thread at a time; ?: not known."""
        states = self.states.get(tid, [])
        i = bisect.bisect_right(states, (tsc, "~"))
        return states[i - 1][1] if i else "?"

    def parts(self, tid, begin, end):
        """For how long a thread was in each state."""
        sums = collections.Counter()
        states = self.states.get(tid, [])
        i = bisect.bisect_right(states, (begin, "~"))
        state = states[i - 1][1] if i else "?"
        while begin < end:
            until = min(states[i][0], end) if i < len(states) else end
            sums[state] += until - begin
            if i < len(states):
                state = states[i][1]
            begin, i = until, i + 1
        return sums
