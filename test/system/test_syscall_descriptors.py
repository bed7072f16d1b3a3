# SPDX-License-Identifier: Apache-2.0
"""iprobe syscalls --by fd: descriptors that nobody could name, and those that a child inherits."""

import json

from test_wait import skip_without_events

ROUNDS = 3000

# each descriptor is open for some microseconds; then a child reads what its parent has opened
SOURCE = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void make(const char *path, int rounds)
{
	int ends[2];
	char byte;

	for (int i = 0; i < rounds; i++) {
		int fd = open(path, O_RDONLY);
		if (read(fd, &byte, 1) != 1)
			exit(1);
		close(fd);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		listen(fd, 1);
		close(fd);
		if (pipe(ends) || write(ends[1], "x", 1) != 1 || read(ends[0], &byte, 1) != 1)
			exit(1);
		close(ends[0]);
		close(ends[1]);
	}
}

int main(int argc, char **argv)
{
	char byte;
	int fd = argc == 3 ? open(argv[2], O_RDONLY) : -1, status = 1;

	if (fd < 0)
		return 2;
	usleep(1000000);
	make(argv[1], %d);
	if (fork() == 0) {
		for (int i = 0; i < 7; i++)
			if (pread(fd, &byte, 1, i) != 1)
				_exit(1);
		_exit(0);
	}
	wait(&status);
	return status != 0;
}
"""


def test_unnamed_and_inherited(root):
    skip_without_events(root)
    folder = root.dir()
    (folder / "makes.c").write_text(SOURCE % ROUNDS)
    program, short, kept = (folder / name for name in ("makes", "short", "kept"))
    for file in (short, kept):
        file.write_text("some bytes")
    done = root.run(
        [root.builddir / "coldpatch" / "iprobe-cc", "-O2", folder / "makes.c", "-o", program]
    )
    assert done.returncode == 0, repr(done)
    done = root.iprobe(
        *("run", "-q", "--kernel", "--follow-fork", "-o", folder / "trace", "--"),
        *(program, short, kept),
    )
    assert done.returncode == 0, repr(done)
    done = root.iprobe("syscalls", "--by", "fd", "--json", folder / "trace")
    assert done.returncode == 0 and not done.stderr, repr(done)
    calls = {}
    for row in json.loads(done.stdout)["syscalls"]:
        named = row["descriptor"] or ""
        kind = named.split(",")[0] if ", descriptor " in named else named
        calls[row["name"], kind] = calls.get((row["name"], kind), 0) + row["calls"]
    # few have a name, and all of the others a kind
    file = calls["read", "file"]
    assert ROUNDS / 2 < file and file + calls.get(("read", str(short)), 0) >= ROUNDS, calls
    assert calls["listen", "socket"] > ROUNDS / 2, calls
    assert calls["write", "pipe"] > ROUNDS / 2, calls
    # the first end of a pipe at a number of which nothing was known
    untold = [n for (_, name), n in calls.items() if name.startswith("descriptor")]
    assert sum(untold) <= 4, calls
    assert calls["pread64", str(kept)] == 7, calls
    # what a call closes is what it was before
    assert calls["close", "pipe"] > ROUNDS and calls["close", "file"] > ROUNDS / 2, calls
