# SPDX-License-Identifier: Apache-2.0
"""
iprobed as systemd runs it: a systemd of its own in namespaces of its own (processes, mounts,
network, control groups), on a copy of this machine's file system that is thrown away, with the
units that are shipped.

A program inside (SCENARIO) does what is to be done, and writes what it saw, which is compared
here.
"""

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from iptest.actor import ORDINARY_UID

pytestmark = pytest.mark.skipif(
    "ASAN_OPTIONS" in os.environ,
    reason="a sanitizer's runtime makes calls that the filter of the socket's side forbids",
)

SYSTEMD = "/lib/systemd/systemd"

# Its arguments: a directory for it, a directory to write to, the build folder, and the folder of
# the tests' programs. Until "ready" is written a failure is this machine's.
OUTSIDE = r"""
set -e
room=$1 out=$2 build=$3 programs=$4
mount --make-rprivate /
mount -t tmpfs tmpfs "$room"
mkdir "$room/upper" "$room/work" "$room/root"
root=$room/root
mount -t overlay -o "lowerdir=/,upperdir=$room/upper,workdir=$room/work" overlay "$root"
for place in "$build" "$programs" "$out"; do
    mkdir -p "$root$place"
    mount --bind "$place" "$root$place"
done
# shared libraries and the like may lie on file systems of their own
for place in /usr /lib /lib64 /bin; do
    if [ ! -L "$place" ] && mountpoint -q "$place"; then mount --bind "$place" "$root$place"; fi
done
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
# nothing of this machine's own: its services, its disks
for place in etc usr/lib lib; do
    rm -rf "$root/$place"/systemd/system/*.wants
done
rm -rf "$root/etc/fstab"
rm -rf "$root/etc/iprobe" "$root/var/lib/iprobe" "$root/etc/machine-id"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
units=$root/etc/systemd/system
mkdir "$units/iprobed.service.d"
printf '[Service]\nStandardError=append:%s/log\n' "$out" >"$units/iprobed.service.d/log.conf"
cp "$out/iprobed.service" "$out/iprobed.socket" "$out/test.target" "$out/scenario.service" "$units/"
mkdir -p "$root/etc/iprobe/probes.d"
cp "$out/rules.yaml" "$root/etc/iprobe/probes.d/"
chmod 755 "$root/etc/iprobe" "$root/etc/iprobe/probes.d"
chmod 644 "$root/etc/iprobe/probes.d/rules.yaml"
touch "$out/ready"
export container=iprobe-test
# as the root of all, and not by chroot: the service, in a mount namespace of its own, sees paths of
# other processes from there
mkdir "$root/before"
cd "$root"
pivot_root . before
umount -l /before
exec /lib/systemd/systemd --system --unit=test.target --log-target=console --log-level=info \
    --show-status=no
"""

TARGET = """
[Unit]
Requires=iprobed.socket scenario.service
After=iprobed.socket
AllowIsolate=yes
"""

SERVICE = """
[Unit]
DefaultDependencies=no
After=iprobed.socket
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 {out}/scenario.py {out} {build} {program} {uid}
ExecStopPost=/bin/sh -c 'touch {out}/over'
StandardOutput=file:{out}/scenario.log
StandardError=inherit
TimeoutStartSec=400
"""

# Where the unit looks for them; what they record goes to where the unit lets them write.
RULES = """
profiles:
  clock: {{events: TASK-CLOCK, functions: work}}
rules:
  look: {{match: {{exe: {program}}}, when: request, do: trace, for: 300ms}}
  count: {{match: {{exe: {program}}}, when: request, do: {{fperf: clock}}, for: 1s}}
  watch:
    match: {{exe: {program}}}
    when: {{latency: {{functions: work, calls: '> 10'}}}}
    do: {{hist: work}}
    for: 300ms
    at_most: 1 per 1h
"""

SCENARIO = r'''
import glob, json, os, shutil, subprocess, sys, time

out, build, program, uid = sys.argv[1:]
saw = {}
me = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
place = out + "/mine"
env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "IPROBE_DAEMON": "always"}


def run(*args, user=True):
    done = subprocess.run(
        [*(me if user else []), *map(str, args)],
        capture_output=True,
        text=True,
        env=env,
        cwd=place,
        timeout=120,
    )
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def leave(*options):
    """The session has our standard output: a pipe would not end."""
    return subprocess.run(
        [*me, iprobe, "attach", "--leave", "-q", *options, str(target.pid)],
        env=env,
        cwd=place,
        timeout=120,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ).returncode


def show(unit, *names):
    done = run("systemctl", "show", unit, "-p", ",".join(names), user=False)
    return dict(line.split("=", 1) for line in done["out"].splitlines())


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def patched():
    return json.loads(run(build + "/cli/iprobe", "status", "--json", target.pid)["out"])["patched"]


def wait_for(condition, seconds=90):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return True
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.1)
    return False


def workers(pid):
    done = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True
    )
    return [
        int(line.split()[0]) for line in done.stdout.splitlines() if line.split()[1] == "iprobe"
    ]


def rules():
    done = run(build + "/cli/iprobed", "--rules", "--json", user=False)
    return {r["name"]: r for r in json.loads(done["out"])["rules"]}


def recorded(name):
    """Where a rule has recorded, once it is complete."""

    def complete():
        return [
            line.split("; in ")[1]
            for line in open(out + "/log", encoding="utf-8")
            if f"rule {name}: " in line and "; in " in line
        ]

    return complete()[0].rstrip("\n") if wait_for(complete) else ""


def fire(name):
    return run(build + "/cli/iprobed", "--fire", f"{name}:{target.pid}", user=False)


def named(pid, name):
    done = subprocess.run(
        ["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True
    )
    return next(
        (int(line.split()[0]) for line in done.stdout.splitlines() if line.split()[1] == name), None
    )


iprobe = build + "/cli/iprobe"
target = subprocess.Popen(
    [*me, program, "plain"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
target.stdout.readline()

# The socket is there, the service is not, until somebody asks.
saw["before"] = {
    **show("iprobed.socket", "ActiveState", "SubState"),
    "service": show("iprobed.service", "ActiveState")["ActiveState"],
}
saw["first"] = run(iprobe, "attach", "--json", "--duration", "200ms", "-o", "first", target.pid)
saw["owner"] = os.stat(place + "/first").st_uid
saw["running"] = show(
    "iprobed.service", "ActiveState", "SubState", "NRestarts", "StatusErrno", "MainPID", "Result"
)
main = int(saw["running"]["MainPID"])
saw["main"] = status(main)

# fperf by a user, and rules: one that watches, and two that are fired. All of it with what the unit
# leaves them.
# fperf has a process to itself: whom a rule watches has a session already.
shutil.copy(program, out + "/uncounted")
uncounted = subprocess.Popen(
    [*me, out + "/uncounted", "plain"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
uncounted.stdout.readline()
saw["fperf"] = run(
    build + "/cli/fperf", "--json", "-e", "TASK-CLOCK", "--duration", "1s", "-p", uncounted.pid
)
uncounted.kill()
saw["rules found"] = wait_for(
    lambda: all(
        target.pid in {p["pid"] for p in rules()[name]["processes"]}
        for name in ("look", "count", "watch")
    )
)
saw["rules' process"] = status(named(main, "iprobed-rules"))
saw["watch"] = recorded("watch")
saw["watch fired"] = rules()["watch"]["fired"]
saw["fire look"] = fire("look")
saw["look"] = recorded("look")
saw["look report"] = run(iprobe, "report", "--json", saw["look"] + "/trace", user=False)
saw["fire count"] = fire("count")
saw["count"] = recorded("count")
saw["count result"] = (
    open(saw["count"] + "/fperf.json", encoding="utf-8").read() if saw["count"] else ""
)
saw["traces"] = {
    p: (os.stat(p).st_uid, oct(os.stat(p).st_mode & 0o777)) for p in glob.glob("/var/lib/iprobe/*")
}
saw["idle after rules"] = wait_for(lambda: patched() == 0)

# A session, what its worker may do, and a snapshot of it, into a place that is read-only for the
# service.
saw["leave"] = leave("--overwrite", "-o", "left")
saw["live"] = wait_for(lambda: patched() > 0)
worker = workers(main)
saw["worker"] = status(worker[0]) if worker else {}
saw["snapshot"] = wait_for(
    lambda: run(iprobe, "snapshot", "-o", "snap", target.pid)["code"] == 0
) or run(iprobe, "snapshot", "-o", "snap", target.pid)
saw["snapshot is mine"] = os.path.exists(place + "/snap") and os.stat(place + "/snap").st_uid

# All of the service's processes are killed at once; systemd starts it again, and it puts back what
# is live.
saw["notes"] = len([n for n in os.listdir("/run/iprobe") if n.startswith("session-")])
run("systemctl", "kill", "--kill-who=all", "-s", "KILL", "iprobed.service", user=False)
saw["restarted"] = wait_for(
    lambda: show("iprobed.service", "ActiveState", "NRestarts")
    == {"ActiveState": "active", "NRestarts": "1"}
)
saw["idle again"] = wait_for(lambda: patched() == 0)
saw["no notes"] = wait_for(
    lambda: not [n for n in os.listdir("/run/iprobe") if n.startswith("session-")]
)
saw["second"] = run(iprobe, "attach", "--json", "--duration", "200ms", "-o", "second", target.pid)

# Its end ends sessions, not the target.
leave("-o", "third")
saw["live once more"] = wait_for(lambda: patched() > 0)
saw["stop"] = run("systemctl", "stop", "iprobed.service", user=False)
saw["stopped"] = show("iprobed.service", "ActiveState", "Result")
saw["idle at last"] = patched() == 0  # which starts it again
saw["third is whole"] = run(iprobe, "report", "third")["code"]
saw["state"] = os.path.isdir("/var/lib/iprobe")
saw["target lives"] = target.poll() is None
target.kill()
with open(out + "/saw", "w", encoding="utf-8") as f:
    json.dump(saw, f, indent=1)
os.rename(out + "/saw", out + "/saw.json")
'''


def own_control_group(top):
    """A control group that systemd may have for its own, below ours; None: there is none to be
    had.
    """
    place = top / "cgroup"
    place.mkdir()
    if subprocess.run(["mount", "-t", "cgroup2", "cgroup2", place], check=False).returncode:
        return None
    mine = place / f"iprobe-test-{os.getpid()}"
    try:
        mine.mkdir()
    except OSError:
        subprocess.run(["umount", place], check=False)
        return None
    return mine


def remove_control_group(group):
    deadline = time.monotonic() + 30
    for path in [path for path, _, _ in os.walk(group, topdown=False)]:
        while time.monotonic() < deadline:
            try:
                os.rmdir(path)
                break
            except OSError:
                time.sleep(0.1)  # its last process is about to go
    subprocess.run(["umount", "-l", group.parent], check=True)


@pytest.fixture(scope="module")
def saw(top, builddir, programs):
    if os.getuid():
        pytest.skip("not root")
    if not os.access(SYSTEMD, os.X_OK) or not shutil.which("systemctl"):
        pytest.skip("no systemd is installed")
    program = programs.simple("standing", placement="fentry")
    out, room = top / "systemd", top / "systemd-room"
    for path in (out, room, out / "mine"):
        path.mkdir()
        path.chmod(0o755)
    os.chown(out / "mine", ORDINARY_UID, ORDINARY_UID)
    service = (builddir / "system" / "iprobed.service").read_text(encoding="utf-8")
    begin, end = service.split("ExecStart=", 1)
    service = f"{begin}ExecStart={builddir}/cli/iprobed\n" + end.split("\n", 1)[1]
    source = pathlib.Path(__file__).resolve().parents[2] / "system" / "iprobed.socket"
    for name, text in (
        ("iprobed.service", service),
        ("iprobed.socket", source.read_text(encoding="utf-8")),
        ("test.target", TARGET),
        (
            "scenario.service",
            SERVICE.format(out=out, build=builddir, program=program, uid=ORDINARY_UID),
        ),
        ("rules.yaml", RULES.format(program=program)),
        ("scenario.py", SCENARIO),
    ):
        (out / name).write_text(text, encoding="utf-8")
    group = own_control_group(top)
    if not group:
        pytest.skip("no control group of our own (cgroup2) here")
    said = (out / "said").open("w+", encoding="utf-8")
    try:
        proc = subprocess.Popen(
            [
                "sh",
                "-c",
                'echo $$ >"$1/cgroup.procs" || exit 77; shift; exec "$@"',
                "sh",
                group,
                "unshare",
                "--pid",
                "--mount",
                "--uts",
                "--ipc",
                "--net",
                "--cgroup",
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                OUTSIDE,
                "sh",
                room,
                out,
                builddir,
                pathlib.Path(program).parent,
            ],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        # its way out takes longer than all the rest; killed, it takes everything with it that is in
        # its namespace
        deadline = time.monotonic() + 440
        while time.monotonic() < deadline and proc.poll() is None and not (out / "over").exists():
            time.sleep(0.1)
        proc.kill()
        proc.wait()
        said.seek(0)
        words = said.read()
    finally:
        said.close()
        remove_control_group(group)
    if not (out / "ready").exists():
        pytest.skip(f"systemd cannot run in namespaces here: {words.strip()[-300:]}")
    log = out / "scenario.log"
    own = out / "log"
    assert (out / "saw.json").exists(), (
        "".join(path.read_text(encoding="utf-8") for path in (log, own) if path.exists())
        + words[-3000:]
    )
    found = json.loads((out / "saw.json").read_text(encoding="utf-8"))
    found["log"] = (out / "log").read_text(encoding="utf-8")
    return found


def test_socket_activation(saw):
    assert saw["before"] == {
        "ActiveState": "active",
        "SubState": "listening",
        "service": "inactive",
    }
    assert (
        saw["first"]["code"] == 0 and json.loads(saw["first"]["out"].splitlines()[-1])["events"] > 0
    ), saw["first"]
    assert saw["owner"] == ORDINARY_UID
    # Type=notify: it is active when it has said READY=1
    assert saw["running"]["ActiveState"] == "active" and saw["running"]["NRestarts"] == "0"


def test_what_it_may(saw):
    """The unit takes away what can be taken without a seccomp filter, which would be the
    workers', too.
    """
    assert saw["main"]["Seccomp"] == "0" and saw["main"]["NoNewPrivs"] == "1"
    assert (
        int(saw["main"]["CapEff"], 16)
        == 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 19 | 1 << 23 | 1 << 40
    )
    assert saw["worker"]["Seccomp"] == "0" and int(saw["worker"]["CapEff"], 16) == 1 << 19 | 1 << 23
    assert set(saw["worker"]["Uid"].split()) == {str(ORDINARY_UID)}


def test_fperf_counts_for_a_user(saw):
    done = saw["fperf"]
    assert done["code"] == 0, done
    functions = {f["function"]: f for f in json.loads(done["out"].splitlines()[-1])["functions"]}
    assert (
        functions["work"]["samples"] > 0
        and functions["work"]["counters"]["perf::TASK-CLOCK"]["per_call"] > 0
    ), done


def test_rules_are_carried_out(saw):
    """By sessions of root's with three capabilities; what they record is where the unit lets
    them write, and root's alone.
    """
    assert saw["rules found"] is True, saw["log"]
    assert (
        int(saw["rules' process"]["CapEff"], 16) == 1 << 1 | 1 << 19 | 1 << 23 | 1 << 40
        and saw["rules' process"]["NoNewPrivs"] == "1"
    )
    assert saw["watch"].startswith("/var/lib/iprobe/watch/") and saw["watch fired"] == 1, saw["log"]
    assert "fires: work was called " in saw["log"]
    assert saw["fire look"]["code"] == 0 and saw["look"].startswith("/var/lib/iprobe/look/"), (
        saw["fire look"],
        saw["log"],
    )
    assert {f["function"]: f["calls"] for f in json.loads(saw["look report"]["out"])["functions"]}[
        "work"
    ] > 0, saw["look report"]
    assert saw["fire count"]["code"] == 0 and saw["count"].startswith("/var/lib/iprobe/count/"), (
        saw["fire count"],
        saw["log"],
    )
    assert {f["function"]: f["samples"] for f in json.loads(saw["count result"])["functions"]}[
        "work"
    ] > 0
    assert set(saw["traces"]) == {f"/var/lib/iprobe/{name}" for name in ("watch", "look", "count")}
    assert set(map(tuple, saw["traces"].values())) == {(0, "0o700")}, saw["traces"]
    assert saw["idle after rules"] is True


def test_a_snapshot_is_written_where_the_service_may_not(saw):
    assert saw["leave"] == 0 and saw["live"] is True
    assert saw["snapshot"] is True, saw["snapshot"]
    assert saw["snapshot is mine"] == ORDINARY_UID


def test_killed_service_is_started_again_and_cleans_up(saw):
    assert saw["notes"] == 1
    assert saw["restarted"] and saw["idle again"] and saw["no notes"]
    assert "an iprobed before this one has left it" in saw["log"]
    assert saw["second"]["code"] == 0, saw["second"]


def test_stopped_service_ends_its_sessions(saw):
    assert saw["live once more"] is True
    assert saw["stop"]["code"] == 0 and saw["stopped"] == {
        "ActiveState": "inactive",
        "Result": "success",
    }
    assert (
        saw["idle at last"] is True and saw["third is whole"] == 0 and saw["target lives"] is True
    )


def test_units(builddir, tmp_path):
    """systemd finds nothing to complain of, and few exposures. Not more than they are now, with
    the reasons in the unit.
    """
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze is installed")
    service = (builddir / "system" / "iprobed.service").read_text(encoding="utf-8").splitlines()
    lines = [line for line in service if not line.startswith(("ExecStart=", "Documentation="))]
    lines.insert(lines.index("[Service]") + 1, "ExecStart=/bin/true")
    (tmp_path / "iprobed.service").write_text("\n".join(lines) + "\n", encoding="utf-8")
    socket = (pathlib.Path(__file__).resolve().parents[2] / "system" / "iprobed.socket").read_text(
        encoding="utf-8"
    )
    (tmp_path / "iprobed.socket").write_text(
        socket.replace("Documentation=man:iprobed(8)\n", ""), encoding="utf-8"
    )
    env = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"}
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "iprobed.service", tmp_path / "iprobed.socket"],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and not [
        line for line in done.stderr.splitlines() if "iprobed" in line
    ], done.stderr
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=yes",
            "--threshold=75",
            tmp_path / "iprobed.service",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
