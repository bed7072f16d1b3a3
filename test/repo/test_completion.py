# SPDX-License-Identifier: Apache-2.0
"""What bash and zsh complete of our commands: all that --help tells of, and its values."""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

LIBRARY = "/usr/share/bash-completion/bash_completion"
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")

BASH = r"""
source "$1" || exit
source "$2" || exit
COMP_LINE=$3 COMP_POINT=${#3} COMP_TYPE=9 COMP_KEY=9
COMP_WORDS=("${@:4}") COMP_CWORD=$(($# - 4))
compopt() { :; }  # there is no line editor
_iprobe "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""

ZSH = r"""
PS1= PS2= HISTFILE=
fpath=($IPROBE_COMPLETIONS $fpath)
autoload -Uz compinit && compinit -u -d $IPROBE_SCRATCH/dump
complete_and_tell() { zle complete-word; : >$IPROBE_SCRATCH/done }
zle -N complete_and_tell
bindkey '^I' complete_and_tell
setopt no_beep no_auto_list
zstyle ':completion:*' insert-tab false
compadd()
{
	local -a hits
	# asked for matches by a function of zsh's own
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	builtin compadd -A hits "$@"
	print -rl -- $hits >>$IPROBE_SCRATCH/hits
	builtin compadd "$@"
}
: >$IPROBE_SCRATCH/done
"""

PROBES_D = """
selections:
  # which
  mine:
    functions: f

  many: ['@mine']
rules:
  look:
    do: trace
profiles:
  fast: {budget: 1%}
"""


class Bash:
    name = "bash"

    def __init__(self, builddir, scratch, env):
        self.completions, self.env, self.cwd = builddir / "completions", env, scratch

    def complete(self, line):
        # as readline parts a line, by what bash-completion leaves of COMP_WORDBREAKS
        words = re.findall(r"'[^']*|[^\s:=]+|[:=]+", line) + ([""] if line.endswith(" ") else [])
        file = self.completions / words[0]
        done = subprocess.run(
            ["bash", "--norc", "-c", BASH, "bash", LIBRARY, file, line, *words],
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.stderr == ""
        return set(done.stdout.split())


class Zsh:
    """One that sits at a terminal, with a compadd that notes what it is given."""

    name = "zsh"

    def __init__(self, builddir, scratch, env):
        self.scratch = scratch
        (scratch / "setup").write_text(ZSH, encoding="utf-8")
        self.terminal, other = pty.openpty()
        env = {
            **env,
            "IPROBE_COMPLETIONS": str(builddir / "completions"),
            "IPROBE_SCRATCH": str(scratch),
            "TERM": "dumb",
        }
        self.process = subprocess.Popen(
            ["zsh", "-f", "-i"],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            cwd=scratch,
            env=env,
        )
        os.close(other)
        self.send("source ./setup\n")

    def send(self, text):
        """Until the shell has done what it was told."""
        done, end, said = self.scratch / "done", time.monotonic() + 15, b""
        done.unlink(missing_ok=True)
        os.write(self.terminal, text.encode())
        while not done.exists():
            if select.select([self.terminal], [], [], 0.02)[0]:
                said += os.read(self.terminal, 65536)
            lives = self.process.poll() is None
            assert lives and time.monotonic() < end, said.decode(errors="replace")[-1000:]

    def complete(self, line):
        hits = self.scratch / "hits"
        hits.write_text("")
        self.send("\x15" + line + "\t")
        return set(hits.read_text().split())

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request, builddir, tmp_path_factory):
    there = os.path.exists(LIBRARY) if request.param == "bash" else shutil.which("zsh")
    if not there:
        pytest.skip("no bash-completion here, or no zsh: run scripts/install-deps test")
    scratch = tmp_path_factory.mktemp(request.param)
    (scratch / "traces" / "iprobe.data" / "iprobe").mkdir(parents=True)
    (scratch / "traces" / "other").mkdir()
    (scratch / "probes.d").mkdir()
    (scratch / "probes.d" / "some.yaml").write_text(PROBES_D, encoding="utf-8")
    env = {
        **os.environ,
        "PATH": f"{builddir}/cli:{builddir}/coldpatch:{os.environ['PATH']}",
        "IPROBE_PROBES_D": str(scratch / "probes.d"),
        "LC_ALL": "C.UTF-8",
    }
    one = (Bash if request.param == "bash" else Zsh)(builddir, scratch, env)
    yield one
    if request.param == "zsh":
        one.close()


def commands(builddir, sh):
    return re.findall(r"(?m)^  ([a-z][a-z-]*) ", sh(builddir / "cli" / "iprobe", "--help").stdout)


def test_commands(shell, builddir, sh):
    names = set(commands(builddir, sh))
    assert len(names) > 15
    assert {word for word in shell.complete("iprobe ") if word[0] != "-"} == names
    assert shell.complete("iprobe rep") == {"report"}
    assert shell.complete("iprobe help rep") == {"report"}


def test_options_are_those_of_help(shell, builddir, sh):
    names = [f"iprobe {name}" for name in commands(builddir, sh)]
    for name in names + ["coldpatch", "fperf", "iprobed"]:
        program, *command = name.split()
        folder = builddir / ("coldpatch" if program == "coldpatch" else "cli")
        said = sh(folder / program, *command, "--help").stdout
        assert shell.complete(name + " --") == set(OPTION.findall(said)) | {"--help"}, name


# Words before a value; how many values there are, at least.
VALUES = {
    "iprobe run --time ": 2,
    "iprobe attach --clock ": 3,
    "iprobe attach --payload ": 4,
    "iprobe report --by ": 7,
    "iprobe report --sort ": 12,
    "iprobe report --columns ": 13,
    "iprobe top --sort ": 9,
    "iprobe tui --sort ": 13,
    "iprobe tui --view ": 5,
    "iprobe split --by ": 2,
    "iprobe export --format ": 6,
    "fperf --budget ": 1,
}


@pytest.mark.parametrize("words", VALUES)
def test_values_are_those_of_help(shell, builddir, sh, words):
    found = {word.rstrip(":,") for word in shell.complete(words)}
    program, *rest = words.split()[:-1]
    said = sh(builddir / "cli" / program, *rest, "--help").stdout
    assert len(found) >= VALUES[words]
    for word in found:
        assert re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", said), word
    if "--format" in words:
        rows = re.findall(r"(?m)^(?: {23}|      --format FORMAT  )([a-z]+)  ", said)
        assert found == set(rows)


def test_names_in_probes_d(shell):
    for words in ("iprobe attach 1 -f '@", "iprobe attach 1 --functions 'x,!@", "fperf -f '@"):
        found = {word.removeprefix("x,!") for word in shell.complete(words)}
        assert found == {"@mine", "@many"}, words
    assert shell.complete("fperf --profile ") == {"fast"}
    assert shell.complete("iprobed --rule ") == {"look"}


def test_processes(shell):
    for words in (
        "iprobe attach ",
        "iprobe status ",
        "fperf -p ",
        "iprobe list ",
        "iprobe top -p ",
        "iprobe -p ",
    ):
        assert str(os.getpid()) in shell.complete(words), words


def test_traces_come_before_other_directories(shell):
    for words in ("iprobe report traces/", "iprobe report -n 3 --diff traces/"):
        assert {word.split("/")[-1] for word in shell.complete(words)} == {"iprobe.data"}, words
    found = {word.split("/")[-1] for word in shell.complete("iprobe run -o traces/")}
    assert found == {"iprobe.data", "other"}


def test_the_command_that_is_run(shell):
    assert "true" in shell.complete("iprobe run -o x -- tru")
    assert "list-events" in shell.complete("fperf list")


def test_bash_replaces_what_readline_does(builddir, shell):
    """Characters that part words for readline are left as they are."""
    if shell.name == "bash":
        assert shell.complete("iprobe attach 1 -f @m") == {"@mine", "@many"}
        assert shell.complete("iprobe attach 1 --payload hist:@mi") == {"@mine"}
        assert shell.complete("iprobe run --time=co") == {"coarse"}
