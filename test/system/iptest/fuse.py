# SPDX-License-Identifier: Apache-2.0
"""A file system with one file that cannot be closed: whoever does hangs, and no signal helps,
until it is released.
"""

import ctypes
import os
import struct
import threading

LOOKUP, FORGET, GETATTR, OPEN, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = (
    1,
    2,
    3,
    14,
    18,
    25,
    26,
    36,
    42,
)
ENOENT, ENOSYS = 2, 38
HEAD = struct.Struct("=IIQQIIII")
libc = ctypes.CDLL(None, use_errno=True)


class StickyFiles:
    """Mounts at a directory; the file is called `sticky`. Root alone can make it."""

    def __init__(self, directory):
        self.directory = str(directory)
        self.path = f"{directory}/sticky"
        self.held = []  # requests to close
        self.released = False
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other"
        if (
            libc.mount(b"fuse", self.directory.encode(), b"fuse", 6, options.encode()) < 0
        ):  # nosuid, nodev
            error = ctypes.get_errno()
            os.close(self.fd)
            raise OSError(error, os.strerror(error))
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def answer(self, unique, body=b"", error=0):
        try:
            os.write(self.fd, struct.pack("=IiQ", 16 + len(body), -error, unique) + body)
        except OSError:
            pass  # who asked has been killed

    @staticmethod
    def attributes(node):
        mode = 0o40755 if node == 1 else 0o100666
        return struct.pack("=6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def serve(self):
        while True:
            try:
                packet = os.read(self.fd, 1 << 20)
            except OSError:
                return  # unmounted
            _, what, unique, node, _, _, _, _ = HEAD.unpack_from(packet)
            body = packet[HEAD.size :]
            if what == INIT:
                self.answer(
                    unique,
                    struct.pack("=IIIIHHIIHHI7I", 7, 31, 0, 0, 64, 48, 1 << 16, 1, 16, 0, *[0] * 8),
                )
            elif what == LOOKUP and body.rstrip(b"\0") == b"sticky":
                self.answer(
                    unique, struct.pack("=4Q2I", 2, 0, 3600, 3600, 0, 0) + self.attributes(2)
                )
            elif what == LOOKUP:
                self.answer(unique, error=ENOENT)
            elif what == GETATTR:
                self.answer(unique, struct.pack("=Q2I", 3600, 0, 0) + self.attributes(node))
            elif what == OPEN:
                self.answer(unique, struct.pack("=Q2I", 1, 0, 0))
            elif what == FLUSH and not self.released:
                self.held.append(unique)
            elif what in (FLUSH, RELEASE):
                self.answer(unique)
            elif what not in (FORGET, BATCH_FORGET, INTERRUPT):
                self.answer(unique, error=ENOSYS)

    def release(self):
        self.released = True
        while self.held:
            self.answer(self.held.pop())

    def end(self):
        """Also of what hangs."""
        self.release()
        libc.umount2(self.directory.encode(), 2)
        self.thread.join(timeout=30)
        os.close(self.fd)
