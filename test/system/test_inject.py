# SPDX-License-Identifier: Apache-2.0
"""
Putting the runtime into processes that were started without it: whatever they are linked with,
wherever they live and whatever their threads are in the middle of; and iprobe killed at any of
its system calls.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from iptest import actor as actors
from iptest import memory

COUNTED = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) long leaf(long n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
__attribute__((noinline)) long twice(long n) { return leaf(n) + leaf(n + 1) - n; }
__attribute__((no_instrument_function)) static void *work(void *rounds)
{
	long sum = 0;
	for (long i = 0; i < (long)rounds; i++) sum += twice(i) - i;
	return (void *)sum;
}
__attribute__((no_instrument_function)) int main(void)
{
	char line[64];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		pthread_t threads[4];
		long n = atol(line);
		for (int i = 0; i < 4; i++) if (pthread_create(&threads[i], NULL, work, (void *)n)) return 1;
		for (int i = 0; i < 4; i++) {
			void *sum;
			if (pthread_join(threads[i], &sum) || (long)sum != 3 * n) { puts("wrong"); return 1; }
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
"""

BUSY = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile int over;
__attribute__((noinline)) size_t fill(char *p, size_t n, int c) { memset(p, c, n); return n; }
__attribute__((no_instrument_function)) static void *work(void *arg)
{
	unsigned x = (unsigned)(size_t)arg * 7 + 1;
	while (!over) {
		char *kept[32] = {0};
		for (int i = 0; i < 400; i++) {
			unsigned k = (x = x * 1103515245 + 12345) >> 16 & 31, n = (x >> 8 & 2047) + 1;
			free(kept[k]);
			kept[k] = malloc(n);
			if (fill(kept[k], n, k) != n || kept[k][n - 1] != (char)k) { puts("wrong"); exit(1); }
		}
		for (int i = 0; i < 32; i++) free(kept[i]);
	}
	return NULL;
}
__attribute__((no_instrument_function)) int main(void)
{
	pthread_t threads[24];
	for (size_t i = 0; i < 24; i++) if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
	puts("ready");
	fflush(stdout);
	getchar();
	over = 1;
	for (int i = 0; i < 24; i++) pthread_join(threads[i], NULL);
	puts("good");
	return 0;
}
"""


def compile_with(actor, folder, source, name, *flags, cc=None, placement="fentry", env=None):
    path = folder / f"{name}.c"
    path.write_text(source)
    done = actor.run(
        [
            cc or actor.builddir / "coldpatch" / "iprobe-cc",
            "-O2",
            "-pthread",
            *flags,
            path,
            "-o",
            folder / name,
        ],
        env={"IPROBE_PLACEMENT": placement, **(env or {})},
    )
    assert done.returncode == 0, repr(done)
    return folder / name


def assert_clean(pid, instead=None):
    """
    Every byte of every executable mapping of a file is the file's, also behind the end of its
    code; no signal is blocked. instead: as in memory.text_differences().
    """
    memory.assert_untouched(pid, instead)
    for m in memory.mappings(pid):
        if m.perms != "r-xp" or not m.path.startswith("/"):
            continue
        path = (instead or {}).get(m.path, m.path)
        inside = f"/proc/{pid}/root{path}"
        with open(inside if os.path.exists(inside) else path, "rb") as f:
            f.seek(m.offset)
            want = f.read(m.end - m.start)
        assert memory.read_memory(pid, m.start, m.end - m.start) == want.ljust(
            m.end - m.start, b"\0"
        ), m
    # for a moment pthread_create() blocks them all
    memory.wait_for("signals stay blocked", lambda: signals_blocked(pid) == {"0" * 16})


def signals_blocked(pid):
    found = set()
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            found.add(memory.status_field(pid, "SigBlk", tid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def attach(actor, pid, *options):
    done = actor.iprobe(
        "attach", pid, "--duration", "50ms", "--json", "-o", actor.dir() / "trace", *options
    )
    assert done.returncode == 0, repr(done)
    return done.summary()


@pytest.mark.parametrize(
    "how",
    [
        ("fentry",),
        ("instrument", "-no-pie"),
        ("inline", "-fno-plt", "-Wl,-z,now"),
        ("fentry", "-Wl,-z,noseparate-code"),
        ("fentry", "-fuse-ld=lld"),
    ],
    ids="".join,
)
def test_attach(actor, programs, targets, how):
    """Twice: the second attach finds what the first has put there."""
    if how[-1].endswith("lld") and not shutil.which("ld.lld"):
        pytest.skip("no ld.lld")
    target = targets.steady(
        actor, programs.simple("steady", extra=how[1:], placement=how[0]), "-c", "-i", preload=False
    )
    for stops in (4, 2):
        summary = attach(actor, target.pid)
        assert summary["events"] > 0 and len(actors.stops_of(summary)) == stops, summary
        target.wait_for_progress()
        assert_clean(target.pid)
    status = json.loads(actor.iprobe("status", "--json", target.pid).stdout)
    assert status["runtime"] is True and all(m["text_matches_file"] for m in status["modules"])
    target.finish()


def test_no_waiting_for_more_descriptors(me, programs, targets):
    """The borrowed thread keeps to the table of descriptors that there is: growing it waits for
    all processors, milliseconds to seconds.
    """
    target = targets.steady(me, programs.simple("steady"), preload=False)
    before = memory.status_field(target.pid, "FDSize")
    attach(me, target.pid)
    opened = {
        int(fd): os.readlink(f"/proc/{target.pid}/fd/{fd}")
        for fd in os.listdir(f"/proc/{target.pid}/fd")
    }
    ours = [fd for fd, what in opened.items() if "memfd:iprobe" in what]
    assert ours == [] if me.is_root else len(ours) == 1 and 48 <= ours[0] < 64, opened
    assert memory.status_field(target.pid, "FDSize") == before
    target.finish()


def test_priority_for_the_whole_hold(root, programs, targets):
    """The borrowed thread has it before it is interrupted, since to stop it needs a CPU, and
    gives it back before it is released.
    """
    target = start_waits(root, programs, targets, "read")
    log = root.dir() / "strace"
    done = root.run(
        [
            "strace",
            "-o",
            log,
            "--trace=ptrace,sched_setscheduler",
            root.iprobe_path,
            "attach",
            target.pid,
            "--no-stop",
            "--duration",
            "20ms",
            "-o",
            root.dir() / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    policy, holds = "other", 0
    for line in log.read_text(errors="replace").splitlines():
        if set_to := re.match(rf"sched_setscheduler\({target.pid}, (\w+).*= 0$", line):
            policy = "other" if set_to[1] == "SCHED_OTHER" else "real-time"
        elif re.match(rf"ptrace\(PTRACE_INTERRUPT, {target.pid}\)", line):
            assert policy == "real-time", line
        elif re.match(rf"ptrace\(PTRACE_DETACH, {target.pid},", line):
            assert policy == "other", line
            holds += 1
    assert holds == 6, "memory, waking, moving, switching, going back, giving back"
    finish_waits(target, "read")


def live_sites(actor, pid, session):
    assert session.poll() is None, f"ended early: {session.communicate()}"
    done = actor.iprobe("status", "--json", pid)
    return done.returncode == 0 and json.loads(done.stdout)["patched"]


def count_exactly(actor, target, instead=None):
    """Sessions one after the other, each with new threads; none is lost, none too many."""
    for n in (1000, 50):
        directory = actor.dir() / "trace"
        session = actor.start_iprobe("attach", target.pid, "--json", "-o", directory)
        memory.wait_for("no site went live", lambda: live_sites(actor, target.pid, session))
        target.say(str(n))
        assert target.proc.stdout.readline() == "done\n"
        session.send_signal(signal.SIGINT)
        done = actors.last_words(session)
        assert done.returncode == 0, repr(done)
        assert done.summary()["events"] + done.summary()["lost"] == 4 * n * 3 * 2, done.summary()
        report = json.loads(actor.iprobe("report", "--json", directory).stdout)
        if not done.summary()["lost"]:
            assert {f["function"]: f["calls"] for f in report["functions"]} == {
                "leaf": 8 * n,
                "twice": 4 * n,
            }
            assert report["threads"] == 4
        assert_clean(target.pid, instead)
    target.proc.stdin.close()
    assert target.proc.wait(timeout=60) == 0


@pytest.mark.parametrize("link", [[], ["-no-pie"]], ids=["pie", "no-pie"])
def test_counts(actor, targets, link):
    program = compile_with(actor, actor.dir(), COUNTED, "counted", *link)
    count_exactly(actor, targets.start(actor, [program], preload=False))


@pytest.mark.parametrize(
    "cc, link",
    [
        ("gcc", "-static"),
        ("gcc", "-static-pie"),
        ("musl-gcc", "-static"),
        ("musl-gcc", "-no-pie"),
        ("musl-gcc", "-pie"),
    ],
    ids=lambda x: x.strip("-"),
)
def test_linked_by_others(me, targets, cc, link):
    """No runtime, no room for stubs: the object alone was compiled by iprobe-cc."""
    if not shutil.which(cc):
        pytest.skip(f"no {cc}")
    folder = me.dir()
    (folder / "counted.c").write_text(COUNTED)
    pie = "-fPIE" if link.endswith("-pie") and link != "-no-pie" else "-fno-pie"
    for command in (
        [me.builddir / "coldpatch" / "iprobe-cc", "-O2", pie, "-c", "counted.c"],
        [cc, link, "-pthread", "-Wl,--build-id", "counted.o", "-o", "counted"],
        [me.builddir / "coldpatch" / "coldpatch", "counted"],
    ):
        done = me.run(command, cwd=folder)
        assert done.returncode == 0, repr(done)
    count_exactly(me, targets.start(me, [folder / "counted"], preload=False))


def test_upgraded_under_it(me, targets):
    """The files of the C library and the loader have been replaced since the program was
    started, as packages are.
    """
    folder = me.dir()
    loader = folder / "ld-own.so"
    program = compile_with(
        me, folder, COUNTED, "counted", f"-Wl,--dynamic-linker={loader}", f"-Wl,-rpath,{folder}"
    )
    shown = me.run(["ldd", "/bin/true"]).stdout
    libc = re.search(r"libc.so.6 => (\S+)", shown)
    real = re.search(r"(/\S*ld-linux\S*)", shown)
    if not libc or not real:
        pytest.skip(f"another C library: {shown!r}")
    for source, name in ((libc[1], "libc.so.6"), (real[1], loader.name)):
        shutil.copyfile(source, folder / name)
        (folder / name).chmod(0o755)
    target = targets.start(me, [program], preload=False)
    mapped = pathlib.Path(f"/proc/{target.pid}/maps").read_text()
    assert f"{folder}/libc.so.6" in mapped and str(loader) in mapped
    instead = {}
    for name in ("libc.so.6", loader.name):
        shutil.copyfile(folder / name, folder / f"old-{name}")
        instead[f"{folder}/{name} (deleted)"] = folder / f"old-{name}"
        (folder / "new").write_bytes(b"\x7fELF of the next version")
        os.replace(folder / "new", folder / name)
    assert f"{folder}/libc.so.6 (deleted)" in pathlib.Path(f"/proc/{target.pid}/maps").read_text()
    count_exactly(me, target, instead)


def test_only_a_library_is_prepared(me, targets):
    folder = me.dir()
    work, main = COUNTED.split("__attribute__((no_instrument_function)) static void *work")
    compile_with(me, folder, work, "libcounted.so", "-fPIC", "-shared")
    program = compile_with(
        me,
        folder,
        "long twice(long n);\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
        "static void *work" + main,
        "counted",
        f"-L{folder}",
        f"-Wl,-rpath,{folder}",
        "-Wl,--no-as-needed",
        folder / "libcounted.so",
        cc="gcc",
    )
    target = targets.start(me, [program], preload=False)
    target.say("10")
    assert target.proc.stdout.readline() == "done\n"
    count_exactly(me, target)


def test_in_a_chroot(root, programs, targets):
    """No /proc in it, and none of iprobe's files."""
    folder = root.dir()
    program = programs.simple("steady")
    libraries = re.findall(
        r"(/\S+)",
        subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout,
    )
    for path in [str(program), *libraries]:
        inside = folder / ("steady" if path == str(program) else path.lstrip("/"))
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, inside)
    beats = folder / "beats"
    beats.touch()
    target = targets.start(
        root, ["chroot", folder, "/steady", "-b", "/beats"], preload=False, beats=beats
    )
    target.beating = range(8)
    assert attach(root, target.pid)["events"] > 0
    target.wait_for_progress()
    assert_clean(target.pid)
    target.finish()


@pytest.mark.parametrize(
    "spaces",
    [["--mount"], ["--pid", "--fork"], ["--user", "--map-root-user"]],
    ids=lambda s: s[0].strip("-"),
)
def test_in_namespaces(root, programs, targets, spaces):
    program = compile_with(root, root.dir(), COUNTED, "counted")
    target = targets.start(root, ["unshare", *spaces, program], preload=False, wait=False)
    if target.proc.stdout.readline() != "ready\n":
        pytest.skip("no such namespaces here")
    if "--fork" in spaces:
        with open(f"/proc/{target.pid}/task/{target.pid}/children", encoding="ascii") as f:
            target.pid = int(f.read().split()[0])
    count_exactly(root, target)


def start_waits(actor, programs, targets, how, *extra):
    target = targets.start(actor, [programs.simple("waits", extra=extra), how], preload=False)
    if how == "seccomp":
        memory.wait_for("no filter", lambda: memory.status_field(target.pid, "Seccomp") == "2")
    elif how != "busy":
        memory.wait_for("does not wait", lambda: "S" in memory.status_field(target.pid, "State"))
    return target


def finish_waits(target, how):
    if how in ("read", "epoll", "thread"):
        target.proc.stdin.write("x")
        target.proc.stdin.flush()
    elif how == "busy":
        os.kill(target.pid, signal.SIGALRM)
    done = actors.last_words(target.proc)
    assert (done.returncode, done.stdout) == (0, "good\n"), repr(done)


@pytest.mark.parametrize(
    "how", ["read", "epoll", "thread", "nanosleep", "poll", "futex", "pause", "busy"]
)
def test_the_thread_goes_on(me, programs, targets, how):
    target = start_waits(me, programs, targets, how)
    attach(me, target.pid)
    if how in (
        "read",
        "epoll",
        "thread",
        "busy",
    ):  # the others may have ended by now, each by itself
        assert_clean(target.pid)
    finish_waits(target, how)


def test_seccomp(root, programs, targets):
    target = start_waits(root, programs, targets, "seccomp")
    attach(root, target.pid)
    finish_waits(target, "seccomp")


FILTERED = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define PERMIT(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
__attribute__((no_instrument_function, constructor)) static void confine(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), PERMIT(SYS_read), PERMIT(SYS_write), PERMIT(SYS_exit_group), PERMIT(SYS_exit),
		PERMIT(SYS_newfstatat), PERMIT(SYS_rt_sigprocmask), PERMIT(SYS_rt_sigreturn), PERMIT(SYS_clone), PERMIT(SYS_clone3),
		PERMIT(SYS_mprotect), PERMIT(SYS_set_robust_list), PERMIT(SYS_futex), PERMIT(SYS_rseq), PERMIT(SYS_madvise),
		PERMIT(SYS_brk), PERMIT(SYS_munmap), PERMIT(SYS_rt_sigaction), PERMIT(SYS_getrandom), PERMIT(SYS_restart_syscall),
		/* threads need stacks, but nothing that is executable */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 32),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
	struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
"""


def test_a_filter_that_would_kill(root, targets):
    """No executable memory, no memfd, not even getpid: each of our calls would be the end of it."""
    program = compile_with(root, root.dir(), FILTERED + COUNTED, "filtered")
    count_exactly(root, targets.start(root, [program], preload=False))


def test_a_filter_that_comes_before_it_is_woken(root, targets):
    """iprobe dies when it has put the runtime there, which is to map little at first. The process
    confines itself, and then it could not be asked for more."""
    folder = root.dir()
    later = FILTERED.replace(
        "constructor)) static void confine(void)", "unused)) static void confine(int n)"
    )
    later += "#include <signal.h>\n__attribute__((no_instrument_function, constructor))"
    later += "static void prepare(void) { signal(SIGUSR1, confine); }\n"
    program = compile_with(root, folder, later + COUNTED, "later")
    command = [root.iprobe_path, "attach", "--duration", "20ms", "-o", folder / "trace"]
    strace = ["strace", "-o", folder / "strace", "--trace=ptrace"]
    measured = targets.start(root, [program], preload=False)
    assert root.run([*strace, *command, measured.pid]).returncode == 0
    made = re.findall(r"^ptrace\((\w+)", (folder / "strace").read_text(), re.M)
    second = made.index("PTRACE_SEIZE", made.index("PTRACE_DETACH"))
    target = targets.start(root, [program], preload=False)
    done = root.run(
        [*strace, f"--inject=ptrace:signal=SIGKILL:when={second + 1}", *command, target.pid]
    )
    assert done.returncode in (-9, 137), repr(done)
    there = memory.mappings(target.pid)
    assert not any("memfd:iprobe" in m.path for m in there)
    assert any(
        m.perms == "r-xp" and memory.read_memory(target.pid, m.start, 8) == b"iprobeIM"
        for m in there
    ), "it was killed too early"
    os.kill(target.pid, signal.SIGUSR1)
    memory.wait_for("no filter", lambda: memory.status_field(target.pid, "Seccomp") == "2")
    count_exactly(root, target)


LIBRARY = 'long in_library(long n) { __asm__ volatile("" : "+r"(n)); return n + 7; }\n'
LOADING = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((no_instrument_function, constructor(101))) static void load(void)
{
	char path[64];
	for (int i = 0; i < LIBRARIES; i++) {
		snprintf(path, sizeof(path), "libs/%d.so", i);
		if (!dlopen(path, RTLD_NOW)) { puts(dlerror()); exit(1); }
	}
}
"""


def test_many_libraries_under_a_filter(root, targets):
    """Each library brings room for stubs along, and each room is one system call more of the
    borrowed thread: all of them are known to be ours.
    """
    libraries = 150
    folder = root.dir()
    (folder / "libs").mkdir(exist_ok=True)
    library = compile_with(root, folder, LIBRARY, "library.so", "-shared", "-fPIC")
    for i in range(libraries):
        shutil.copyfile(library, folder / "libs" / f"{i}.so")
    program = compile_with(
        root, folder, LOADING + FILTERED + COUNTED, "loading", f"-DLIBRARIES={libraries}"
    )
    target = targets.start(root, [program], preload=False, cwd=folder)
    count_exactly(root, target)


def test_seccomp_without_the_privilege(user, programs, targets):
    target = start_waits(user, programs, targets, "seccomp")
    done = user.iprobe("attach", target.pid, "--duration", "20ms", "-o", user.dir() / "trace")
    assert "seccomp" in actors.one_line(done) and "root" in done.stderr
    assert user.iprobe("doctor", target.pid).returncode == 1
    finish_waits(target, "seccomp")


def test_threads_busy_in_malloc(actor, targets):
    program = compile_with(actor, actor.dir(), BUSY, "busy")
    for _ in range(3):
        target = targets.start(actor, [program], preload=False)
        for _ in range(
            10
            # without a privilege each of the threads waits for a CPU: on a busy machine it may be
            # refused
        ):
            done = actor.iprobe(
                "attach",
                target.pid,
                "--duration",
                "50ms",
                "--max-stop",
                "5s",
                "-o",
                actor.dir() / "trace",
            )
            if "try again" not in done.stderr:
                break
            assert_clean(target.pid)
        assert done.returncode == 0, repr(done)
        assert_clean(target.pid)
        done = actors.last_words(target.proc)
        assert (done.returncode, done.stdout) == (0, "good\n"), repr(done)


def test_a_stopped_process_is_refused(me, programs, targets):
    target = start_waits(me, programs, targets, "read")
    os.kill(target.pid, signal.SIGSTOP)
    memory.wait_for("does not stop", lambda: memory.status_field(target.pid, "State")[0] == "T")
    before = maps(target.pid)
    assert "borrowed" in actors.one_line(me.iprobe("attach", target.pid, "-o", me.dir() / "trace"))
    assert maps(target.pid) == before
    os.kill(target.pid, signal.SIGCONT)
    attach(me, target.pid)
    finish_waits(target, "read")


def maps(pid):
    return [(m.start, m.end, m.perms) for m in memory.mappings(pid)]


def test_nothing_but_attach_changes_anything(me, programs, targets):
    target = start_waits(me, programs, targets, "read")
    before = maps(target.pid)
    for command in ("status", "detach", "list", "doctor"):
        assert me.iprobe(command, target.pid).returncode == 0, command
    assert me.iprobe("attach", "--dry-run", target.pid).returncode == 0
    actors.one_line(
        me.iprobe("attach", target.pid, "-f", "no_such_function", "-o", me.dir() / "trace")
    )
    assert maps(target.pid) == before
    assert "borrows a thread" in me.iprobe("doctor", target.pid).stdout
    finish_waits(target, "read")


@pytest.mark.parametrize(
    "limit, word",
    [("--as={tight}", "address space"), ("--fsize=65536", "file sizes")],
    ids=["as", "fsize"],
)
def test_limits(me, programs, targets, limit, word):
    target = start_waits(me, programs, targets, "read")
    # less than the runtime takes at first
    limit = limit.format(
        tight=int(memory.status_field(target.pid, "VmSize").split()[0]) * 1024 + (16 << 20)
    )
    subprocess.run(["prlimit", "--pid", str(target.pid), limit], check=True)
    before = maps(target.pid)
    assert word in actors.one_line(me.iprobe("attach", target.pid, "-o", me.dir() / "trace"))
    assert maps(target.pid) == before
    finish_waits(target, "read")


def test_a_sandbox_that_may_write_no_file(me, programs, targets):
    """It has set that for itself: to start it otherwise is no way out, and the message names the
    one that there is.
    """
    target = start_waits(me, programs, targets, "read")
    subprocess.run(["prlimit", "--pid", str(target.pid), "--fsize=0:unlimited"], check=True)
    attach = ("attach", target.pid, "--duration", "50ms", "-o", me.dir() / "trace")
    said = actors.one_line(me.iprobe(*attach))
    assert "RLIMIT_FSIZE 0" in said and "cannot be recorded" in said, said
    command = re.search(r"\((prlimit --pid \d+ --fsize=\d+)\)", said)[1]
    subprocess.run(command.split(), check=True)
    assert me.iprobe(*attach).returncode == 0
    finish_waits(target, "read")


def test_a_leader_that_has_ended(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"), preload=False)
    target.say("z")
    memory.wait_for(
        "the leader goes on", lambda: memory.status_field(target.pid, "State")[0] == "Z"
    )
    done = me.iprobe("attach", target.pid, "--duration", "50ms", "-o", me.dir() / "trace")
    if done.returncode:  # what /proc tells of a process goes with its leader
        actors.one_line(done)
    target.wait_for_progress()


def test_a_thread_in_vfork(me, programs, targets):
    target = targets.steady(me, programs.simple("steady"), preload=False)
    target.say("v")
    assert target.proc.stdout.readline() == "waiting\n"
    done = me.iprobe("attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace")
    if done.returncode:
        actors.one_line(done)
    target.wait_for_progress()
    target.finish()


def test_a_32_bit_process_is_refused(me, programs, targets):
    probe = me.run(
        ["gcc", "-m32", "-xc", "-", "-o", me.dir() / "x"], input="int main(void) { return 0; }"
    )
    if probe.returncode:
        pytest.skip("no 32-bit programs here")
    target = targets.start(
        me,
        [programs.simple("waits", extra=["-m32"], placement="instrument"), "read"],
        preload=False,
    )
    assert "iprobe run" in actors.one_line(
        me.iprobe("attach", target.pid, "-o", me.dir() / "trace")
    )
    finish_waits(target, "read")


def test_two_at_once(me, programs, targets):
    target = start_waits(me, programs, targets, "read")
    both = [
        me.start_iprobe("attach", target.pid, "--duration", "100ms", "-o", me.dir() / "trace")
        for _ in range(2)
    ]
    codes = sorted(actors.last_words(proc).returncode for proc in both)
    assert codes in ([0, 0], [0, 1]), codes
    assert_clean(target.pid)
    names = [
        m.path for m in memory.mappings(target.pid) if "memfd:iprobe" in m.path and not m.offset
    ]
    assert len(names) == 1, "one runtime"
    finish_waits(target, "read")


def test_while_it_execs(me, programs, targets):
    """It becomes another program all the time: a session or one line, and the program goes on."""
    target = targets.start(me, [programs.simple("steady")], preload=False)
    for _ in range(6):
        session = me.start_iprobe(
            "attach", target.pid, "--duration", "20ms", "-o", me.dir() / "trace"
        )
        target.say("e")
        assert target.proc.stdout.readline() == "ready\n"
        done = actors.last_words(session)
        assert done.returncode in (0, 1), repr(done)
    assert me.iprobe("detach", target.pid).returncode == 0
    assert_clean(target.pid)
    target.finish()


CALLS = "pwrite64,ptrace"


def steps(actor, pid, directory):
    """How many of CALLS there are, and which of them belong to the two visits: from the first
    write to the second DETACH.
    """
    log = directory / "strace"
    done = actor.run(
        [
            "strace",
            "-o",
            log,
            f"--trace={CALLS}",
            actor.iprobe_path,
            "attach",
            pid,
            "--duration",
            "20ms",
            "-o",
            directory / "trace",
        ]
    )
    assert done.returncode == 0, repr(done)
    calls = re.findall(r"^(\w+)\((\w+)", log.read_text(errors="replace"), re.M)
    first = next(i for i, (name, _) in enumerate(calls) if name == "pwrite64")
    detached = [i for i, (_, what) in enumerate(calls) if what == "PTRACE_DETACH"]
    return first + 1, detached[1] + 1


def killed(actor, targets, programs, how, when, directory):
    target = start_waits(actor, programs, targets, how)
    done = actor.run(
        [
            "strace",
            "-o",
            directory / "strace",
            f"--trace={CALLS}",
            f"--inject={CALLS}:signal=SIGKILL:when={when}",
            actor.iprobe_path,
            "attach",
            target.pid,
            "--duration",
            "20ms",
            "-o",
            directory / "trace",
        ]
    )
    assert done.returncode in (-9, 137), f"{when}: {done!r}"
    # the thread waits a tenth of a second for its iprobe, anew after each stop: look less often
    # than that
    time.sleep(0.3)
    memory.wait_for(
        f"{when}: left behind",
        lambda: actor.iprobe("detach", target.pid).returncode == 0 and is_clean(target.pid),
        step=0.3,
    )
    attach(actor, target.pid)
    assert_clean(target.pid)
    finish_waits(target, how)


def is_clean(pid):
    try:
        assert_clean(pid)
    except AssertionError:
        return False
    return True


def kill_at(actor, targets, programs, how, choose):
    directory = actor.dir()
    target = start_waits(actor, programs, targets, "read")
    first, last = steps(actor, target.pid, directory)
    finish_waits(target, "read")
    for when in choose(range(first, last + 1)):
        killed(actor, targets, programs, how, when, directory)


def test_killed_at_some_steps(me, programs, targets):
    kill_at(
        me,
        targets,
        programs,
        "read",
        lambda all_of_them: all_of_them[:: max(1, len(all_of_them) // 10)],
    )


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("IPROBE_TEST_FULL") != "1", reason="minutes: IPROBE_TEST_FULL=1")
@pytest.mark.parametrize("how", ["read", "thread", "busy"])
def test_killed_at_every_step(me, programs, targets, how):
    kill_at(me, targets, programs, how, list)
