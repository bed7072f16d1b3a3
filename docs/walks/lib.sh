# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What the walks share; sourced by them. A walk works in one folder, which it keeps, so that
# what was built is built once.
set -Eeuo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
walk=$(basename "$0")
build=${IPROBE_BUILD:-$root/build}
background=()

die()
{
	trap - ERR
	echo "$walk: $*" >&2
	exit 1
}

# Ends what the walk has started, by its pid.
cleanup()
{
	for pid in "${background[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	wait
}

# Reads the command line, goes to the walk's folder, finds iprobe.
begin()
{
	case ${1-} in
	-*)
		sed -n '2,/^set\|^\./{/^set\|^\.\|SPDX/d;s/^# \{0,1\}//;p}' "$0"
		exit 2
		;;
	esac
	dir=${1:-${TMPDIR:-/tmp}/iprobe-$walk}
	mkdir -p "$dir"
	cd "$dir"
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	trap 'die "line $LINENO: a command failed"' ERR
	[ ! -x "$build/cli/iprobe" ] || PATH=$build/cli:$build/coldpatch:$PATH
	command -v iprobe >/dev/null ||
		die "no iprobe: build it first (meson setup build && ninja -C build)"
	echo "Working in $dir"
}

needs()
{
	for command; do
		command -v "$command" >/dev/null || die "$command is not installed"
	done
}

# Fetches the source of a Debian package as its authors published it, unless it is there.
source_of()
{
	[ -d "$2" ] || "$root/scripts/fetch-source" --upstream "$1" "$2" || exit 1
}

say()
{
	printf '\n== %s\n' "$*"
}

# Shows a command as a person would type it, and runs it.
# (A cd of its own stays in parentheses.)
show()
{
	printf '\n$ %s\n' "$*"
	eval "$*"
}

# The same; its output goes to a log, and is shown only where it fails.
quietly()
{
	printf '\n$ %s\n' "$*"
	eval "$*" >log 2>&1 || {
		tail -n 20 log >&2
		die "'$*' failed"
	}
}
