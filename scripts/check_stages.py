# SPDX-License-Identifier: Apache-2.0
"""The stages of ./check: which programs run, in which order, with which limits."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
BUILD_SAN = os.path.join(ROOT, "build-san")
BUILD_CLANG = os.path.join(ROOT, "build-clang")
EMULATED = 8  # times slower a machine is that qemu emulates, at least
SPARE = 5  # times slower is what runs in the CPU time that others leave, at most

PYTEST = [sys.executable, "-B", "-m", "pytest", "-v", "--no-header", "--tb=short", "--durations=40"]

SANITIZER_ENV = {
    # LeakSanitizer stops its own process by ptrace, which does not go together with a tool that
    # ptraces; leaks are looked for in the unit tests only. The order of libraries is wrong by
    # intention where a tool inherits our runtime by LD_PRELOAD.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=1"
    ":verify_asan_link_order=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}

# The files of test/system that ./check runs on the sanitized build; ./check --full runs them all.
SANITIZED = (
    "test_attach",
    "test_bad_input",
    "test_damaged_traces",
    "test_exclude",
    "test_foreign",
    "test_m32",
    "test_points",
    "test_readers",
    "test_relocations",
    "test_run",
    "test_static",
    "test_strip",
    "test_values",
    "test_wrapper",
)


class Stage:
    """One program to run.

    junit: file the program writes its results to; None: the exit code is the result.
    again: the program that runs what failed once more, writing to the same file, or a function that
    makes it of the names of what failed; None: there is no second try.
    vital: where it fails, later stages whose names begin so make no sense; "" is all of them.
    breaks: what it runs on, an emulated machine, may break off before there are results: then the
    second try is the whole stage.
    early: it needs nothing of the stages before it, and no quiet machine: it may run beside them.
    """

    def __init__(
        self,
        name,
        command,
        timeout,
        env=None,
        junit=None,
        vital=None,
        again=None,
        early=False,
        breaks=False,
    ):
        self.name = name
        self.command = command
        self.timeout = timeout
        self.env = env or {}
        self.junit = junit
        self.vital = vital
        self.again = again
        self.early = early
        self.breaks = breaks


def meson_build(name, folder, options, env=None, vital=None, early=False):
    """Stages that configure (once) and compile a build folder."""
    stages = []
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        stages.append(
            Stage(
                name + " setup",
                ["meson", "setup", folder, *options],
                120,
                env,
                vital=name if vital is None else vital,
                early=early,
            )
        )
    stages.append(Stage(name, ["ninja", "-C", folder], 600, env, vital=vital, early=early))
    return stages


def unit(name, folder, env=None):
    command = [
        "meson",
        "test",
        "-C",
        folder,
        "--no-rebuild",
        "--print-errorlogs",
        "--num-processes",
    ]
    return Stage(
        name,
        command + ["2"],
        300,
        env,
        os.path.join(folder, "meson-logs", "testlog.junit.xml"),
        again=lambda failed: command + ["1", *failed],
    )


def pytest(
    name,
    folder,
    build,
    timeout,
    scratch,
    env=None,
    arguments=(),
    parallel="loadfile",
    files=(),
    early=False,
):
    """files: of the folder, by name; none: all."""
    slug = name.replace(" ", "-")
    junit = os.path.join(scratch, slug + ".xml")
    command = [
        *PYTEST,
        "--basetemp",
        os.path.join(scratch, slug),
        "-o",
        "cache_dir=" + os.path.join(scratch, slug + ".cache"),
        "-o",
        "junit_family=xunit2",
        "--junitxml",
        junit,
        *arguments,
        *([os.path.join("test", folder, f"{file}.py") for file in files] or [f"test/{folder}"]),
    ]
    # Two files, or two tests of any, at a time; a second try has the machine to itself.
    return Stage(
        name,
        command + ["-n", "2", "--dist", parallel],
        timeout,
        {"IPROBE_BUILD": build, **(env or {})},
        junit,
        again=command + ["--last-failed", "--last-failed-no-failures=none"],
        early=early,
    )


def other_kernel(name, scratch, whole):
    """System tests on Debian 12's own kernel, in an emulator. The programs that they need have
    been compiled here.
    """
    out = os.path.join(scratch, "other-kernel")
    begin = [
        os.path.join("scripts", "in-kernel"),
        "--timeout",
        "7000" if whole else "1200",
        "--out",
        out,
        "--env",
        f"IPROBE_TEST_PATIENCE={EMULATED}",
        "--env",
        f"IPROBE_TEST_PROGRAMS={os.path.join(scratch, 'programs')}",
        "--env",
        f"IPROBE_CHECK=other-kernel{'-whole' if whole else ''}",
        "--env",
        f"IPROBE_BUILD={BUILD}",
    ]
    tests = [
        "--",
        *PYTEST,
        "-p",
        "no:cacheprovider",
        "-o",
        "junit_family=xunit2",
        "--junitxml",
        "/out/results.xml",
        "-n",
        "2",
        "--dist",
        "loadfile",
        os.path.join("test", "system"),
    ]
    return Stage(
        name,
        begin + tests,
        7200 if whole else 1300,
        junit=os.path.join(out, "results.xml"),
        again=lambda failed: begin + ["--env", "IPROBE_TEST_ONLY=" + " ".join(failed)] + tests,
        breaks=True,
    )


def plan(mode, scratch):
    """The stages of a mode, in order: what fails soonest and tells most comes first."""
    quick = mode == "quick"
    programs = {"IPROBE_TEST_PROGRAMS": os.path.join(scratch, "programs")}
    stages = meson_build("build", BUILD, ["-Dwerror=true"], vital="")
    stages += [
        unit("unit", BUILD),
        pytest(
            "repo",
            "repo",
            BUILD,
            600,
            scratch,
            arguments=[
                *("--ignore", "test/repo/test_packages.py"),
                *(["-m", "not slow"] if quick else []),
            ],
        ),
        pytest(
            "system",
            "system",
            BUILD,
            3600,
            scratch,
            programs,
            arguments=["-m", "not slow"] if quick else [],
        ),
    ]
    if quick:
        return stages
    stages.append(other_kernel("kernel-6.1", scratch, mode == "full"))
    # In their brief form they prove that they work, and measure nothing.
    benchmarks = os.path.join(ROOT, "benchmarks")
    for name in sorted(os.listdir(benchmarks)):
        path = os.path.join(benchmarks, name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            command = [path, "--brief"]
            stages.append(
                Stage("benchmark " + name, command, 300, {"IPROBE_BUILD": BUILD}, again=command)
            )
    stages += meson_build(
        "sanitizers build",
        BUILD_SAN,
        [
            *("-Dwerror=true", "-Dman=disabled"),
            *("-Db_sanitize=address,undefined", "-Db_lundef=false"),
            # A fourth of the compiler's time: it optimises and describes variables for most of it.
            # What it warns of when it optimises, it warns of in the other build.
            *("-Doptimization=g", "-Ddebug=false"),
            "-Dc_args=-g1 -Wno-maybe-uninitialized -Wno-format-truncation",
        ],
        vital="sanitizers",
        early=True,
    )
    stages += meson_build(
        "clang build",
        BUILD_CLANG,
        ["-Dwerror=true", "-Dman=disabled", "-Doptimization=0"],  # for what clang warns of
        {"CC": "clang", "CXX": "clang++"},
        early=True,
    )
    stages.append(
        pytest(
            "compilers",
            "compilers",
            BUILD,
            5 * 3600 if mode == "full" else 1500,
            scratch,
            {
                "IPROBE_TEST_PATIENCE": str(SPARE),
                **({"IPROBE_TEST_FULL": "1"} if mode == "full" else {}),
            },
            parallel="load",
            early=True,
        )
    )
    stages += [
        pytest(
            "packages",
            "repo",
            BUILD,
            1500,
            scratch,
            {"IPROBE_TEST_PATIENCE": str(SPARE)},
            files=["test_packages"],
            early=True,
        ),
        # Those that watch a server need a quiet machine.
        pytest(
            "third-party builds",
            "thirdparty",
            BUILD,
            900,
            scratch,
            {"IPROBE_TEST_PATIENCE": str(SPARE)},
            files=["test_thirdparty"],
            early=True,
        ),
        Stage("fuzz build", ["test/fuzz/run", "--build"], 1500, early=True),
    ]
    stages += [
        Stage("demo", ["./demo"], 300, again=["./demo"]),
        pytest(
            "third-party",
            "thirdparty",
            BUILD,
            3600 if mode == "full" else 900,
            scratch,
            arguments=[
                *("--ignore", "test/thirdparty/test_thirdparty.py"),
                *([] if mode == "full" else ["-m", "not slow"]),
            ],
        ),
    ]
    stages += [
        unit(
            "sanitizers unit",
            BUILD_SAN,
            {
                **SANITIZER_ENV,
                "ASAN_OPTIONS": SANITIZER_ENV["ASAN_OPTIONS"].replace("leaks=0", "leaks=1"),
            },
        ),
        # Errors of memory show in few rounds, and in the tests of the tools more than in those of
        # compilers and targets.
        pytest(
            "sanitizers system",
            "system",
            BUILD_SAN,
            900,
            scratch,
            SANITIZER_ENV,
            [] if mode == "full" else ["-m", "not slow", "-k", " or ".join(SANITIZED)],
        ),
    ]
    stages.append(
        Stage(
            "fuzz",
            ["test/fuzz/run", "600" if mode == "full" else "15"],
            3600 if mode == "full" else 600,
        )
    )
    return stages


def be_strict(stages):
    """What fails at its first try has failed."""
    for stage in stages:
        stage.again = None
