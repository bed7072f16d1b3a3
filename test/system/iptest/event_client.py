# SPDX-License-Identifier: Apache-2.0
"""
A client that asks iprobed for a reader of kernel events, and then does what it is told by lines of
its standard input (kernel_trace/users/event_protocol.h). It answers each by a line.

    event_client.py SOCKET PID

    begin [GROUPS] | add PID | stop     what it was answered: "done TEXT", "refused TEXT", "ended"
    file                                a word with a descriptor
    bytes N                             so many bytes that are no word
"""

import os
import socket
import struct
import sys

MESSAGE = struct.Struct("=IIIiQ")
BEGIN, ADD, STOP, LOOK, DONE, REFUSED = range(1, 7)
OVER = 10


def connect(path, pid):
    """(the connection, the reader's socket or what was said instead)."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    connection.send(f"iprobe 1\nkernel {pid}\noption --kernel\n".encode())
    while True:
        text, files, _, _ = socket.recv_fds(connection, 4096, 4)
        if files:
            return connection, socket.socket(fileno=files[0])
        if not text.startswith(b"started"):
            return connection, text.decode().strip()


class Reader:
    def __init__(self, sock):
        self.sock = sock
        sock.settimeout(30)

    def answer(self):
        while True:
            try:
                packet = self.sock.recv(1 << 16)
            except ConnectionError:
                return "ended"
            if len(packet) < MESSAGE.size:
                return "ended"
            word = MESSAGE.unpack_from(packet)[0]
            text = packet[MESSAGE.size :]
            if word in (DONE, REFUSED, OVER):
                kind = {DONE: "done", REFUSED: "refused", OVER: "over"}[word]
                return f"{kind} {text.decode()}".strip()

    def ask(self, word, number=0, size=0):
        try:
            self.sock.send(MESSAGE.pack(word, 0, 0, number, size))
        except OSError:
            return "ended"
        return self.answer()

    def obey(self, command, *words):
        if command == "begin":
            return self.ask(BEGIN, int(words[0], 0) if words else 0x7, 1 << 20)
        if command == "add":
            return self.ask(ADD, int(words[0]))
        if command == "stop":
            return self.ask(STOP)
        if command == "bytes":
            self.sock.send(os.urandom(int(words[0])))
            return self.answer()
        if command == "file":
            with open("/dev/null", "rb") as file:
                word = MESSAGE.pack(LOOK, 0, 0, 1, 0)
                socket.send_fds(self.sock, [word], [file.fileno()])
            return self.answer()
        return ""


def main():
    connection, sock = connect(sys.argv[1], int(sys.argv[2]))
    if isinstance(sock, str):
        print(sock, flush=True)
        return
    print("events", flush=True)
    reader = Reader(sock)
    for line in sys.stdin:
        print(reader.obey(*line.split()), flush=True)
    connection.close()


if __name__ == "__main__":
    main()
