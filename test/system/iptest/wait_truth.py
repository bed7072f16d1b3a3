# SPDX-License-Identifier: Apache-2.0
"""What test/programs/wait_graph.c tells of its graphs, and the critical path by it.

The path is solved by brute force: at each moment, whoever is blocked is followed to the thread
that will end that wait, and so on to one that is not blocked, or waits for no thread.
"""

import bisect
import collections

# what a wait of a kind is shown as: its kind, and a part of the object's name
SHOWN = {
    "mutex": ("futex", "&slots[{slot}].mutex"),
    "pi": ("futex", "&slots[{slot}].pi"),
    "condition": ("futex", "&slots[{slot}].condition"),
    "semaphore": ("futex", "&slots[{slot}].semaphore"),
    "futex": ("futex", "&slots[{slot}].word"),
    "requeued": ("futex", "&slots[{slot}]."),
    "pipe": ("pipe", "pipe:[{pipe}]"),
    "full": ("pipe", "pipe:[{full}]"),
    "socket": ("socket", "{socket}"),
    "event": ("other", "eventfd"),
    "poll": ("pipe", "pipe:[{pipe}]"),
    "signal": ("signal", "rt_sigtimedwait"),
    "join": ("futex", "0x"),
    "child": ("child", "pid {extra}"),
    "sleep": ("timer", "clock_nanosleep"),
    "timer": ("timer", "timerfd"),
}
ALONE = {"sleep", "timer"}  # no thread ends them
LOCKS = {"mutex", "pi"}
AGAIN = {"futex", "requeued"}  # a wake may be a false one

Wait = collections.namedtuple("Wait", "seed slot kind tid before begin end after extra")
Wake = collections.namedtuple("Wake", "seed slot kind tid before after n")
Hold = collections.namedtuple("Hold", "seed slot kind tid begin before after")
Born = collections.namedtuple("Born", "seed tid before begin parent")
Graph = collections.namedtuple("Graph", "seed tid begin end")


class Truth:
    def __init__(self, path):
        self.slots = {}
        self.waits = []
        self.graphs = []
        self.wakes, self.holds = collections.defaultdict(list), collections.defaultdict(list)
        self.born = collections.defaultdict(dict)  # by graph, by tid
        for line in path.read_text().splitlines():
            self.take(line.split())
        self.waits.sort(key=lambda wait: wait.before)
        self.by_tid = collections.defaultdict(list)
        for wait in self.waits:
            self.by_tid[wait.tid].append(wait)
        self.by_seed = collections.defaultdict(list)
        for wait in self.waits:
            self.by_seed[wait.seed].append(wait)
        self.ambiguous = set()  # waits of which two wakes at once may have ended either
        self.enders = {wait: self.ender(wait) for wait in self.waits}
        self.order_wakes()

    def take(self, words):
        if words[0] == "slot":
            self.slots[int(words[1])] = dict(zip(("pipe", "full", "socket"), words[2:]))
            return
        seed, slot, kind, tid = int(words[1]), int(words[2]), words[3], int(words[4])
        times = [int(word) for word in words[5:]]
        if words[0] == "wait":
            self.waits.append(Wait(seed, slot, kind, tid, *times))
        elif words[0] == "wake":
            self.wakes[seed, slot].append(Wake(seed, slot, kind, tid, *times[:3]))
        elif words[0] == "hold":
            self.holds[seed, slot].append(Hold(seed, slot, kind, tid, *times[:3]))
        elif words[0] == "born":
            self.born[seed][tid] = Born(seed, tid, *times)
        else:
            self.graphs.append(Graph(seed, tid, *times[:2]))

    def shown(self, wait):
        kind, object_ = SHOWN[wait.kind]
        values = self.slots.get(wait.slot, {})
        return kind, object_.format(slot=wait.slot, extra=wait.extra, **values)

    def ender(self, wait):
        """Who ended a wait that is not for a lock: a Wake; None: no thread, or it did not wait."""
        if wait.kind in ALONE or wait.kind in LOCKS:
            return None
        if wait.kind == "child":
            return Wake(wait.seed, wait.slot, wait.kind, wait.extra, wait.begin, wait.end, 1)
        if wait.kind in AGAIN:
            return None  # order_wakes()
        wakes = [wake for wake in self.wakes[wait.seed, wait.slot] if wake.n]
        return min(wakes, key=lambda wake: wake.before, default=None)

    def order_wakes(self):
        """Of each word there is one waiter, who may wait again: so the wakes that woke somebody
        are in the order of the waits that did not find it set.
        """
        waits = collections.defaultdict(list)
        for wait in self.waits:
            if wait.kind in AGAIN and not wait.extra:
                waits[wait.seed, wait.slot].append(wait)
        for at, of_slot in waits.items():
            wakes = sorted((w for w in self.wakes[at] if w.n), key=lambda wake: wake.before)
            assert len(wakes) == len(of_slot), (of_slot, wakes)
            self.enders.update(zip(of_slot, wakes))
            for i in range(1, len(wakes)):
                if wakes[i - 1].after > wakes[i].before:
                    self.ambiguous.update(of_slot[i - 1 : i + 1])

    def holder(self, wait, tsc):
        """Who has a lock at a time, or will have it next: its Hold."""
        holds = [hold for hold in self.holds[wait.seed, wait.slot] if hold.before >= tsc]
        return min(holds, key=lambda hold: hold.before, default=None)

    def wait_at(self, tid, tsc):
        waits = self.by_tid.get(tid, [])
        i = bisect.bisect_right(waits, tsc, key=lambda wait: wait.begin)
        return waits[i - 1] if i and tsc < waits[i - 1].end else None

    def after(self, tid, tsc):
        """Whom a blocked thread waits for at a time; None: for no thread."""
        wait = self.wait_at(tid, tsc)
        if not wait or wait.kind in ALONE:
            return None
        if wait.kind in LOCKS:
            hold = self.holder(wait, tsc)
            return hold.tid if hold and hold.tid != tid else None
        wake = self.enders[wait]
        return wake.tid if wake else None

    def who(self, graph, tsc, is_blocked):
        """The thread that the critical path is in at a time."""
        tid = graph.tid
        for _ in range(100):
            born = self.born[graph.seed].get(tid)
            if born and tsc < born.begin:
                tid = born.parent
                continue
            other = self.after(tid, tsc) if is_blocked(tid, tsc) else None
            if other is None:
                return tid
            tid = other
        raise AssertionError(f"threads wait for each other in a circle at {tsc}")

    def unsure(self, graph):
        """Times that the program does not know to the tick: from before what it did until after."""
        spans = [(born.before, born.begin) for born in self.born[graph].values()]
        spans += [(w.begin, w.end) for w in self.by_seed[graph] if w in self.ambiguous]
        for slot in [*self.slots, *(wait.slot for wait in self.by_seed[graph])]:
            for item in self.wakes[graph, slot] + self.holds[graph, slot]:
                spans.append((item.before, item.after))
        return sorted(set(spans))

    def borders(self, graph):
        """All times at which the path may change."""
        times = [t for wait in self.by_seed[graph] for t in (wait.begin, wait.end)]
        return times + [time for span in self.unsure(graph) for time in span]
