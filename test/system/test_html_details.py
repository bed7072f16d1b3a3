# SPDX-License-Identifier: Apache-2.0
"""
iprobe export --format html: the short calls that the page has one by one, within its limit; where
its time begins.
"""

import base64
import collections
import zlib

import pytest
from test_html import STAYS, chain, document, export, ns, stays

import tracegen


def numbers(column):
    value = shift = 0
    for byte in column:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0
    assert not shift


def unpack(text):
    """[(row, time from the first start to the span's end, gaps, lengths, functions)]"""
    data = zlib.decompress(base64.b64decode(text, validate=True))
    sizes, at = [], 0
    while len(sizes) < 3:
        end = at + 1
        while data[end - 1] & 128:
            end += 1
        sizes += numbers(data[at:end])
        at = end
    columns = []
    for size in (*sizes, len(data) - at - sum(sizes)):
        columns.append(numbers(data[at : at + size]))
        at += size
    sections, gaps, lengths, functions = columns
    for row in sections:
        n, back = next(sections), next(sections)
        yield (
            row,
            back,
            [next(gaps) for _ in range(n - 1)],
            [next(lengths) for _ in range(n)],
            [next(functions) for _ in range(n)],
        )
    assert not any(list(column) for column in columns), "a column has more than the sections say"


def spans(data):
    """[(from, to, calls, text or 0)]"""
    found, begin = [], 0
    flat = data["details"]["spans"]
    for i in range(0, len(flat), 3):
        found.append((begin, *flat[i : i + 3]))
        begin = flat[i]
    return found


def details(data):
    """[(tid, depth, function, start, length)] of the packed calls."""
    found = []
    for begin, end, calls, text in spans(data):
        if not text:
            continue
        here = 0
        for row, back, gaps, lengths, functions in unpack(text):
            row, at = data["timeline"]["rows"][row], end - back
            for gap, length, function in zip((0, *gaps), lengths, functions):
                at += gap
                name = data["functions"][function]["name"]
                found.append((row["tid"], row["depth"], name, at, length))
                at += length
                assert begin <= at <= end and length <= data["details"]["longest"]
                here += 1
        assert here == calls
    return found


def test_each_short_call_is_there(me):
    """All calls of three threads, of which most have the length of the shortest call that is kept:
    each is in the page once, by itself or in the details.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    threads = [trace.thread(i, stack=tracegen.STACK - i * 0x1000000) for i in range(3)]
    for t in threads:
        t.call("main")
    for i in range(STAYS // 4):
        for t in threads:
            t.call(f"f{i % 5}")
            trace.now += 3
            t.call("leaf")
            trace.now += 20 if i % 4 else 7
            t.ret()
            t.ret()
    for t in threads:
        while t.frames:
            t.ret()
    page = export(me, trace.write(me.dir() / "trace"))
    data = document(page)
    begin = min(call.start for call in trace.calls)
    known = collections.Counter(
        (call.tid, call.depth, call.name, call.start - begin, call.end - call.start)
        for call in trace.calls
    )
    short = details(data)
    assert len(short) == data["meta"]["summed"] == data["details"]["kept"] > 30_000
    assert data["details"]["left_out"] == 0
    assert collections.Counter(stays(data)) + collections.Counter(short) == known


def test_the_limit(me):
    """The details keep to the limit. Those that fit are spread over the time, and the page has the
    number of those that did not fit.
    """
    _, directory = chain(me, 2 * STAYS)
    whole = document(export(me, directory))
    full = sum(len(text) for *_, text in spans(whole))
    assert whole["details"]["left_out"] == 0 and len(spans(whole)) >= 6
    for limit in (full // 2, 0):
        page = export(me, directory, "--details", limit)
        data = document(page)
        packed = [bool(text) for *_, text in spans(data)]
        assert sum(len(text) for *_, text in spans(data) if text) <= limit
        assert data["details"]["kept"] == len(details(data))
        assert data["details"]["kept"] + data["details"]["left_out"] == data["meta"]["summed"]
        assert sum(calls for _, _, calls, _ in spans(data)) == data["meta"]["summed"]
        assert [stay for stay in stays(data)] == [stay for stay in stays(whole)]
        if limit:
            assert "101" in "".join("01"[one] for one in packed), packed
        else:
            assert not any(packed) and page.stat().st_size < 3_000_000


@pytest.mark.parametrize("given", [["--details", "257M"], ["--details", "much"]])
def test_bad_limits(me, given):
    done = me.iprobe("export", "--format", "html", *given, "/nothing")
    assert done.returncode == 2 and "--details" in done.stderr, repr(done)
    assert len(done.stderr.splitlines()) == 1


def test_details_are_for_pages(me):
    _, directory = chain(me, 3)
    done = me.iprobe("export", "--format", "folded", "--details", "1M", directory)
    assert done.returncode == 2 and "--format html" in done.stderr, repr(done)


@pytest.mark.parametrize("idle", [None, 0, 300, 5000])
def test_time_ends_where_recording_ended(me, idle):
    """idle: how long after the last event nothing could be recorded any more; the trace was written
    for a second after that. None: the trace does not tell. Calls that are open end there, too.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.call("outer")
    for _ in range(5):
        t.call("work")
        t.advance(1000)
        t.ret()
        t.advance(10)
    last = trace.now
    t.advance(1_000_000_000)
    directory = trace.write(me.dir() / "trace")
    session = directory / "iprobe" / "session"
    if idle is not None:
        session.write_text(session.read_text() + f"idle\t{last + idle}\n")
    data = document(export(me, directory))
    wanted = (trace.now if idle is None else last + idle) - trace.start
    assert data["meta"]["duration"] == wanted
    assert max(start + length for *_, start, length in stays(data)) == wanted


@pytest.mark.parametrize("ready", [0, 400, 5_000_000])
def test_time_begins_where_recording_began(me, ready):
    """ready: how long iprobe made ready, and the program was loaded. The page does not show that
    time, and tells times as dump does; it loses no event.
    """
    trace = tracegen.Trace(hz=1_000_000_000)
    t = trace.thread()
    t.advance(ready)
    for _ in range(5):
        t.call("work")
        t.advance(1000)
        t.ret()
        t.advance(10)
    data = document(export(me, trace.write(me.dir() / "trace")))
    assert data["meta"]["begin"] == ready
    assert [start + ready for *_, start, _ in stays(data)] == [
        ns(trace, call.start - trace.start) for call in trace.calls
    ]
    assert data["meta"]["duration"] == trace.now - trace.calls[0].start
    latency = data["latency"]
    heat = next(iter(latency["functions"].values()))["heat"]
    assert heat[0] // latency["buckets"] == 0 and heat[-2] // latency["buckets"] > 70
