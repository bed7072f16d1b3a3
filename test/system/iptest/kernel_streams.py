# SPDX-License-Identifier: Apache-2.0
"""Streams of DIR/kernel, read by what their own metadata says, and by nothing of iprobe's."""

import pathlib
import re
import struct

TYPES = {
    "int32_t": ("i", 4),
    "uint32_t": ("I", 4),
    "int64_t": ("q", 8),
    "uint64_t": ("Q", 8),
    "address_t": ("Q", 8),
    "char_t": ("16s", 16),
}
HEADER = struct.Struct("<HQiB")
PACKET = struct.Struct("<I16sIQQQQQQI")
OTHER = 1 << 30  # and more: who is not shown


def kinds_of(folder):
    text = (folder / "metadata").read_text(encoding="utf-8")
    kinds = {}
    for name, number, fields in re.findall(
        r'event \{ name = "(\w+)"; id = (\d+); stream_id = 0; fields := struct \{(.*?)\}; \};', text
    ):
        found = re.findall(r"(\w+) _(\w+)(?:\[16\])?;", fields)
        layout = struct.Struct("<" + "".join(TYPES[kind][0] for kind, _ in found))
        kinds[int(number)] = (name, layout, [field for _, field in found])
    return kinds


def text_of(field):
    """A name of a thread: the kernel cuts it, also within a letter."""
    return field.split(b"\0")[0].decode(errors="replace")


def stream_events(path, kinds):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        size = PACKET.unpack_from(data, at)[6] // 8
        end, inside = at + size, at + PACKET.size
        while inside < end:
            number, tsc, tid, _ = HEADER.unpack_from(data, inside)
            name, layout, fields = kinds[number]
            values = [
                text_of(value) if isinstance(value, bytes) else value
                for value in layout.unpack_from(data, inside + HEADER.size)
            ]
            yield {
                "event": name,
                "tsc": tsc,
                "tid": tid,
                "stream": path.name,
                "fields": dict(zip(fields, values)),
            }
            inside += HEADER.size + layout.size
        at = end


def read(trace):
    """All events of a trace, in the order of time."""
    folder = pathlib.Path(trace) / "kernel"
    kinds = kinds_of(folder)
    events = [
        event
        for path in sorted(folder.iterdir())
        if path.name != "metadata"
        for event in stream_events(path, kinds)
    ]
    return sorted(events, key=lambda event: event["tsc"])


def ids(events):
    """All ids of threads and processes that are in events."""
    names = ("tid", "prev_tid", "next_tid", "parent_tid", "child_tid", "pid", "ppid")
    found = {e["tid"] for e in events}
    for event in events:
        if event["event"].startswith("syscall_"):
            continue
        found |= {event["fields"][name] for name in names if name in event["fields"]}
    return found


def names(events):
    """All names of threads that are in events."""
    return {
        value
        for event in events
        for field, value in event["fields"].items()
        if field in ("comm", "prev_comm", "next_comm", "parent_comm", "child_comm")
    }
