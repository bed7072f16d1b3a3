# SPDX-License-Identifier: Apache-2.0
"""A server that forks its workers beforehand: several processes to be recorded at once."""

import shutil

from . import memory

N = 300


class Server:
    """test/programs/prefork.c, under another name where one is given, with its workers."""

    def __init__(self, actor, programs, targets, name=None, workers=0, **how):
        self.actor = actor
        program = programs.simple("prefork", **how)
        if name:
            copy = actor.dir() / name
            shutil.copy(program, copy)
            program = copy
        self.target = targets.start(actor, [program], preload=False)
        self.pid, self.workers = self.target.pid, []
        for _ in range(workers):
            self.fork()

    def say(self, line):
        self.target.say(line)
        return self.target.proc.stdout.readline().strip()

    def fork(self):
        self.workers.append(int(self.say("fork")))
        return self.workers[-1]

    def go(self, n=N):
        assert self.say(f"go {n}") == "done"

    def everybody(self):
        return [self.pid, *self.workers]

    def finish(self):
        for pid in self.everybody():
            memory.assert_untouched(pid)
        self.target.finish()
