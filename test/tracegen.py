# SPDX-License-Identifier: Apache-2.0
"""
Makes trace directories whose contents are known, for tests of their readers.

A Trace is a directory to be; a Thread of it plays a program: it calls, returns, jumps and switches
stacks on stack pointers like a real one's, writes the records that the runtime would write, and
keeps account of each call. So what a reader has to find is known without asking it: Trace.calls,
Trace.steps, Trace.events, Trace.lost.

Layout and rules are those of common/trace_format.h. `python3 tracegen.py DIR [SEED]` writes a
trace to look at.
"""

import dataclasses
import pathlib
import random
import struct
import sys
import uuid

ENTRY, EXIT, TAIL_EXIT, POINT = 1, 2, 3, 4
TIME_BITS, WINDOW = 29, 1 << 14
HEADER = struct.Struct("<I16sIQQQQQQII")
MAGIC = 0xC1FC1FC1
STACK = 0x7FFD_4000_0000


@dataclasses.dataclass
class Function:
    name: str
    number: int
    frame: int  # bytes from the stack pointer at its sites to its caller's
    inlined: bool = False
    module: int = 0
    file: str = "/src/demo.c"


@dataclasses.dataclass
class Call:
    """What became of a call. how: exit, unwound, unfinished."""

    name: str
    tid: int
    start: int
    end: int = 0
    own: int = 0  # ticks as the innermost frame
    outermost: bool = True
    parent: "Call" = None  # the call around it
    how: str = "unfinished"
    sp: int = 0
    low: int = 0  # stack pointer of its body: below sp after alloca
    cfa: int = 0
    function: Function = None

    @property
    def above(self):
        """The functions that are open around it, the outermost first."""
        found, call = [], self.parent
        while call:
            found.append(call.function)
            call = call.parent
        return found[::-1]


@dataclasses.dataclass
class Step:
    """A line of `iprobe dump`."""

    event: str
    name: str
    depth: int
    tid: int
    ts: int
    unwound: bool = False


class Thread:
    def __init__(self, trace, stream, tid, pid=1000, stack=STACK, capacity=4095):
        self.trace, self.stream, self.tid, self.pid = trace, stream, tid, pid
        self.capacity = capacity  # words of a packet
        self.stacks = {"main": [stack, []]}
        self.current = "main"
        self.last = None  # of the last record: epoch, stack pointer
        self.words, self.times = [], []
        self.gone = []  # left by a jump; the next event shows it
        self.believed = None  # who a reader thinks is running: the innermost frame it knows
        self.last_ts = None
        self.skew = 0  # of the clock of the processor that the thread is on
        self.dead = False

    @property
    def frames(self):
        return self.stacks[self.current][1]

    @property
    def sp(self):
        top, frames = self.stacks[self.current]
        return frames[-1].low if frames else top

    def time(self):
        """As a reader has it: in a thread time does not run back, it stands still until the
        clock has caught up.
        """
        return max(self.trace.now + self.skew, self.last_ts or 0)

    def record(self, kind, number, sp, values=None):
        """values: (signature, missing, words) that come with the event."""
        trace = self.trace
        ts, time = trace.now + self.skew, self.time()
        payload = number | (sp >> 3 & 2047) << 21
        epoch = ts >> TIME_BITS
        near = (
            self.last and self.last[0] == epoch and -WINDOW // 2 <= sp - self.last[1] < WINDOW // 2
        )
        words = 4 + len(values[2]) if values else 1 if near and self.words else 3
        if len(self.words) + words > self.capacity:
            self.flush()
            words = max(words, 3)
        if values:
            signature, missing, payload_words = values
            self.words += [
                7 | kind + 32 << 3 | (ts & 0xFFFFFFFF) << 32,
                ts >> 32 | payload << 32,
                sp,
                len(payload_words) << 3 | missing << 16 | signature << 32,
                *payload_words,
            ]
        elif words == 1:
            self.words.append(kind | (ts & (1 << TIME_BITS) - 1) << 3 | payload << 32)
        else:
            self.words += [
                7 | kind + 16 << 3 | (ts & 0xFFFFFFFF) << 32,
                ts >> 32 | payload << 32,
                sp,
            ]
        self.last = epoch, sp
        self.times.append(ts)
        trace.events += 1
        if self.believed and self.last_ts is not None:
            self.believed.own += time - self.last_ts
        self.last_ts = time
        for call in self.gone:
            self.end(call, "unwound")
        self.gone = []

    def end(self, call, how):
        call.end, call.how = self.time(), how
        if how == "exit":
            self.trace.steps.append(Step("exit", call.name, len(self.frames), self.tid, call.end))
        elif how == "unwound":
            self.trace.steps.append(Step("exit", call.name, call.depth, self.tid, call.end, True))

    def flush(self):
        """The packet is written; the next one begins with an extended record."""
        if self.words:
            self.trace.packet(
                self.stream, self.words, min(self.times), max(self.times), self.pid, self.tid
            )
        self.words, self.times = [], []

    def advance(self, ticks):
        self.trace.now += ticks

    def call(self, name, gap=0, values=None):
        """gap: stack that functions in between take that are not recorded. values: those that come
        with the event, as in record().
        """
        function = self.trace.function(name)
        cfa = self.sp - gap
        sp = cfa - (0 if function.inlined else function.frame)
        call = Call(function.name, self.tid, self.time(), sp=sp, low=sp, cfa=cfa, function=function)
        call.outermost = all(
            c.name != call.name for _, frames in self.stacks.values() for c in frames
        )
        call.parent = next(
            (frames[-1] for _, frames in reversed(self.stacks.values()) if frames), None
        )
        self.record(ENTRY, function.number, sp, values)
        call.depth = len(self.frames)
        self.trace.steps.append(Step("entry", call.name, call.depth, self.tid, self.time()))
        self.frames.append(call)
        self.believed = call
        self.trace.calls.append(call)
        return call

    def ret(self, tail=False, values=None):
        call = self.frames[-1]
        self.record(
            TAIL_EXIT if tail else EXIT,
            call.function.number,
            call.cfa if tail else call.low,
            values,
        )
        self.frames.pop()
        self.end(call, "exit")
        self.believed = self.frames[-1] if self.frames else None

    def alloca(self, size):
        self.frames[-1].low -= size

    def point(self, name, values=None):
        self.record(POINT, self.trace.function(name).number, self.sp, values)
        self.trace.steps.append(Step("point", name, len(self.frames), self.tid, self.time()))

    def longjmp(self, depth):
        """Frames from depth on are gone; no event says so."""
        while len(self.frames) > depth:
            self.gone.append(self.frames.pop())

    def orphan_exit(self, name, above):
        """Exit of a call from before the recording, above what is known of the stack."""
        self.record(EXIT, self.trace.function(name).number, self.stacks[self.current][0] + above)
        self.trace.steps.append(Step("exit", name, len(self.frames), self.tid, self.time()))
        self.trace.orphans += 1
        self.believed = self.frames[-1] if self.frames else None

    def switch(self, stack, top=None):
        """Goes on with another stack; top: its address, when it is new."""
        if top is not None:
            self.stacks[stack] = [top, []]
        self.current = stack

    def lose(self, n):
        """The next n events do not reach the trace."""
        self.flush()
        self.trace.lose(self.stream, n)

    def finish(self, now):
        """The calls that are open end, and are unfinished."""
        self.flush()
        for call in [c for _, frames in self.stacks.values() for c in frames] + self.gone:
            call.end, call.how = now, "unfinished"
        if self.believed and self.last_ts is not None:
            self.believed.own += now - self.last_ts
        self.dead = True

    def die(self, unseen=0):
        """It was seen now for the last time, and is known to be gone ticks later."""
        now = max(self.trace.now, self.last_ts or 0)
        self.finish(now)
        if self.trace.ends:
            self.trace.packet(self.stream, [], now, now + unseen, self.pid, self.tid)


class Trace:
    def __init__(self, hz=2_600_000_000, start=50_000_000_000_000):
        self.hz, self.start, self.now = hz, start, start
        self.uuid = uuid.UUID(int=0x1234).bytes
        self.modules = ["/usr/bin/demo"]
        self.functions, self.order = {}, []
        self.streams = {}  # number -> [packets, packets written, discarded]
        self.threads, self.calls, self.steps, self.extra_lines = [], [], [], []
        self.events = self.lost = self.orphans = 0
        self.ended = True
        self.ends = (
            True  # the trace tells of the ends of threads; without it those of older versions
        )
        self.frames_known = True

    def add(self, name, frame=48, inlined=False, module=0, linker_name=None, number=None):
        """A function; name as readers show it."""
        number = number or max((f.number for f in self.order), default=0) + 1
        function = Function(name, number, frame, inlined, module)
        function.linker_name = linker_name or name
        self.functions[name, inlined] = function
        self.order.append(function)
        return function

    def function(self, name):
        inlined = name.endswith("|i")
        name = name.removesuffix("|i")
        return self.functions.get((name, inlined)) or self.add(name, inlined=inlined)

    def signature(self, text):
        """Its number, for the values of an event."""
        number = 1 + sum(line.startswith("signature\t") for line in self.extra_lines)
        self.extra_lines.append(f"signature\t{number}\t{text}")
        return number

    def thread(self, stream=0, tid=None, **more):
        thread = Thread(self, stream, tid or 1000 + len(self.threads), **more)
        self.threads.append(thread)
        return thread

    def stream(self, number):
        return self.streams.setdefault(number, [[], 0, 0])

    def packet(self, number, words, begin, end, pid, tid):
        stream = self.stream(number)
        size = 8 * (HEADER.size + 8 * len(words))
        header = HEADER.pack(
            MAGIC, self.uuid, 0, begin, end, size, size, stream[1], stream[2], pid, tid
        )
        stream[0].append(header + struct.pack(f"<{len(words)}Q", *words))
        stream[1] += 1

    def lose(self, number, n):
        self.stream(number)[2] += n
        self.lost += n

    def session(self, end):
        lines = [
            "iprobe-session\t1",
            "host\ttest\\x09host",
            "kernel\tLinux 6.1",
            "command\t./demo --now",
            "pid\t1000",
            "start_realtime\t1700000000123456789",
            f"tsc_start\t{self.start}",
            f"tsc_hz\t{self.hz}",
        ]
        if self.ended:
            lines.append(f"tsc_end\t{end}")
        if self.ends:
            lines.append("ends\tpackets")
        for i, path in enumerate(self.modules):
            lines.append(
                f"module\t{i}\t{path}\t{i:02x}aabbcc\t{0x555500000000 + i * 0x10000000}\t1"
                "\tinstrument"
            )
        for f in self.order:
            known = f"\t{f.frame}" if self.frames_known and not f.inlined else ""
            lines.append(
                f"function\t{f.number}\t{f.module}\t{f.linker_name}\t{f.file}\t{10 + f.number}"
                f"\t{'i' if f.inlined else '-'}{known}"
            )
        lines.append(f"stop\tattach\t{self.start + 1000}\t345678\t3\t7\t42")
        lines.append("thread\t1000\tdemo main")
        lines += self.extra_lines
        if self.ended:
            lines += [f"events\t{self.events}", f"lost\t{self.lost}", "unserved\t0", "end\tdone"]
        return "\n".join(lines) + "\n"

    def write(self, directory):
        """Ends all threads and writes the files. Returns the directory."""
        directory = pathlib.Path(directory)
        (directory / "iprobe").mkdir(parents=True, exist_ok=True)
        self.now = max([self.now, *(t.last_ts for t in self.threads if t.last_ts)])
        for thread in self.threads:
            if not thread.dead:
                thread.finish(self.now if self.ends else thread.last_ts or self.now)
        for number, (packets, _, discarded) in self.streams.items():
            (directory / f"stream-{number}").write_bytes(b"".join(packets))
        (directory / "iprobe" / "session").write_text(self.session(self.now))
        return directory


SKEWS = (0, -3_000, 40_000)  # clocks of processors that were not set alike
PROGRAM = {  # name -> frame; a large one, the smallest possible, a C++ name
    "main": 96,
    "parse": 48,
    "eval": 208,
    "leaf": 16,
    "lookup": 1040,
    "roomy": 9008,
    "_ZN4shop6Basket5totalEi": 64,
    "sort": 112,
}
READABLE = {"_ZN4shop6Basket5totalEi": "shop::Basket::total"}


def declare(trace):
    """The functions that play() uses; inlined instances of some."""
    for name, frame in PROGRAM.items():
        trace.add(READABLE.get(name, name), frame, linker_name=name)
    for name in ("leaf", "lookup"):
        trace.add(name, 0, inlined=True)
    # what the compiler split off is the same function
    trace.add("sort", 80, linker_name="sort.isra.0", number=40)
    trace.functions["split", False] = trace.functions["sort", False]


def play(trace, thread, rng, steps, jumps=True, depth_max=30, skews=(0,)):
    """A random program. skews: of the clocks of processors, to which the thread goes by turns."""
    names = [READABLE.get(n, n) for n in PROGRAM] + ["leaf|i", "lookup|i"]
    thread.call("main")
    for _ in range(steps):
        thread.advance(rng.choice([1, 7, 100, 1000, 50_000]) if rng.random() < 0.999 else 1 << 30)
        if len(skews) > 1 and rng.random() < 0.02:
            thread.skew = rng.choice(skews)
        depth = len(thread.frames)
        p = rng.random()
        if depth > depth_max:
            p = max(p, 0.5)
        if p < 0.46 or depth < 2:
            # no gap behind a jump: what is called from where is then certain
            name = rng.choice(names)
            thread.call(
                name, 0 if thread.gone or name.endswith("|i") else rng.choice([0, 0, 0, 16, 160])
            )
        elif p < 0.85:
            call = thread.frames[-1]
            thread.ret(
                tail=not call.function.inlined and call.low == call.sp and rng.random() < 0.2
            )
        elif p < 0.88:
            # not behind a jump: memory of the frames that it left would be used again before an
            # event tells of it
            if not thread.frames[-1].function.inlined and not thread.gone:
                thread.alloca(16 * rng.randrange(1, 40))
        elif p < 0.93 and jumps:
            # an inlined frame cannot be told from the one that it shares: none is the goal, or just
            # above it
            goals = [
                d
                for d in range(1, depth)
                if not thread.frames[d - 1].function.inlined
                and not thread.frames[d].function.inlined
            ]
            if goals:
                thread.longjmp(rng.choice(goals))
        else:
            thread.call("leaf")
            thread.advance(rng.randrange(200))
            thread.ret()


def random_trace(
    seed, streams=3, steps=2000, jumps=True, capacity=300, skews=(0,), before=(), start=0
):
    """Several threads, some one after the other in one stream. before: functions with the first
    numbers. start: ticks after that of other traces.
    """
    rng = random.Random(seed)
    trace = Trace()
    trace.start += start
    trace.now += start
    for name in before:
        trace.add(name)
    declare(trace)
    for number in range(streams):
        for generation in range(1 + number % 2):
            thread = trace.thread(
                number,
                2000 + 10 * number + generation,
                stack=STACK - number * 0x1000000,
                capacity=capacity,
            )
            play(trace, thread, rng, steps, jumps, skews=skews)
            if (
                generation < number % 2 and rng.random() < 0.5
            ):  # ends; the next thread takes its stream
                while thread.frames:
                    thread.advance(5)
                    thread.ret()
            elif (
                generation < number % 2 or number == 0
            ):  # the same in the middle of its calls; some others go on
                thread.advance(3000)
                thread.die(unseen=900)
            thread.flush()
    return trace


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    random_trace(int(sys.argv[2]) if len(sys.argv) > 2 else 1).write(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
