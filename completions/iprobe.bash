# SPDX-License-Identifier: Apache-2.0
#
# bash completion of iprobe, fperf, coldpatch and iprobed.
#
# Commands, options and the names of their values come from --help of the program that is completed.
# The words that a value may be stand here; test/repo/test_completion.py compares them with --help.

# Prints the name that --help gives to the value of an option; nothing if the option takes none.
# $help holds what --help says.
_iprobe_value_name() # OPTION
{
	local newline=$'\n' pattern

	[[ $1 =~ ^--?[a-zA-Z][a-zA-Z-]*$ ]] || return 0
	pattern="(^|[${newline} (,[])$1(, --[a-z-]+)?[ =]([A-Z][^] ,;${newline}]*|[a-z]+[|][a-z|]+)"
	if [[ $help =~ $pattern ]]; then
		printf '%s\n' "${BASH_REMATCH[3]}"
	fi
}

# Names in the files of probes.d.
_iprobe_names() # selections|profiles|rules
{
	local folder=${IPROBE_PROBES_D:-@confdir@/probes.d}

	sed -n "/^$1:/,/^[^ #]/s/^  \([A-Za-z0-9_-]*\):.*/\1/p" "$folder"/*.yaml 2>/dev/null
}

# Completes the last part of a word whose parts end at one of the characters SEPARATORS.
_iprobe_part() # SEPARATORS WORDS
{
	local part=$cur
	[[ ! $1 ]] || part=${cur##*[$1]}
	local before=${cur%"$part"}

	mapfile -t COMPREPLY < <(compgen -P "$before" -W "$2" -- "$part")
}

# readline replaces what follows the last character that breaks words, unless quotes are open.
_iprobe_trim()
{
	local breaks=${COMP_WORDBREAKS//[^:@=]/}
	local before=${cur%"${cur##*[$breaks]}"}

	[[ ! $breaks || ${COMP_WORDS[COMP_CWORD]} == [\'\"]* ]] ||
		COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

_iprobe_pids()
{
	local processes=(/proc/[0-9]*)

	mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "${processes[*]##*/}" -- "$cur")
}

# Trace directories; where there are none, directories that may lead to some.
_iprobe_traces()
{
	local folder traces=()

	_filedir -d
	for folder in "${COMPREPLY[@]}"; do
		[[ ! -d ${folder/#\~\//$HOME/}/iprobe ]] || traces+=("$folder")
	done
	((${#traces[@]} == 0)) || COMPREPLY=("${traces[@]}")
}

_iprobe_value() # COMMAND OPTION VALUE-NAME
{
	local columns='calls total self min avg p50 p90 p99 p99.9 max stddev threads function'
	local live_columns='rate calls self total avg p50 p99 max function'

	case $1:$2 in
	*:--time) _iprobe_part '' 'precise coarse' ;;
	*:--clock) _iprobe_part '' 'tsc monotonic auto' ;;
	*:--payload)
		if [[ $cur == *:* && $cur != user:* ]]; then
			_iprobe_part ',:!' "$(_iprobe_names selections | sed 's/^/@/')"
		else
			_iprobe_part '' 'log count hist user:'
			[[ ${COMPREPLY[*]} != user: ]] || compopt -o nospace
		fi
		_iprobe_trim
		;;
	export:--format) _iprobe_part '' 'html chrome perfetto folded callgrind pprof' ;;
	report:--by)
		_iprobe_part '' 'function caller callsite thread module file process value:'
		[[ ${COMPREPLY[*]} != value: ]] || compopt -o nospace
		_iprobe_trim
		;;
	wait:--by)
		_iprobe_part '' 'client connection function process value:'
		[[ ${COMPREPLY[*]} != value: ]] || compopt -o nospace
		_iprobe_trim
		;;
	graph:--by | export:--by | top:--by) _iprobe_part '' 'process thread' ;;
	hist:--by)
		_iprobe_part '' 'value:'
		compopt -o nospace
		_iprobe_trim
		;;
	darc:--by) _iprobe_part '' variance ;;
	darc:--percentile) _iprobe_part '' 'p50 p90 p95 p99 p99.9' ;;
	report:--columns) _iprobe_part , "$columns all" ;;
	report:-s | report:--sort)
		_iprobe_part '' "$columns value duration time value:"
		[[ ${COMPREPLY[*]} != value: ]] || compopt -o nospace
		_iprobe_trim
		;;
	tui:--view) _iprobe_part '' 'report graph timeline callers threads' ;;
	tui:-s | tui:--sort) _iprobe_part '' "$columns" ;;
	top:-s | top:--sort) _iprobe_part '' "$live_columns" ;;
	syscalls:--by) _iprobe_part '' 'call function fd process' ;;
	top:--waits) _iprobe_part '' 'below hide among' ;;
	fperf:--budget) _iprobe_part '' none ;;
	fperf:--profile) _iprobe_part '' "$(_iprobe_names profiles)" ;;
	iprobed:--rule | iprobed:--fire) _iprobe_part '' "$(_iprobe_names rules)" ;;
	iprobed:--group) mapfile -t COMPREPLY < <(compgen -g -- "$cur") ;;
	trim:--pid) ;;
	*)
		case $3 in
		SEL*)
			_iprobe_part ',:!' "$(_iprobe_names selections | sed 's/^/@/')"
			_iprobe_trim
			;;
		OTHER) _iprobe_traces ;;
		DIR) _filedir -d ;;
		FILE | OUT | PATH | PREFIX) _filedir ;;
		PID) _iprobe_pids ;;
		*'|'*) _iprobe_part '' "${3//|/ }" ;;
		esac
		;;
	esac
}

_iprobe()
{
	local cur prev words cword split
	_init_completion -s -n :@ || return

	local program=${words[0]/#\~\//$HOME/}
	local name=${words[0]##*/} command commands help i=1
	if [[ $name == iprobe ]]; then
		if ((cword == 1)); then
			help=$("$program" --help 2>/dev/null </dev/null)
			commands=$(sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help")
			_iprobe_part '' "$commands --help --version -p"
			return
		fi
		if [[ ${words[1]} == help ]]; then
			help=$("$program" --help 2>/dev/null </dev/null)
			commands=$(sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help")
			((cword > 2)) || _iprobe_part '' "$commands"
			return
		fi
		command=${words[1]} i=2
		[[ $command != -* ]] || command=attach i=1
		help=$("$program" "$command" --help 2>/dev/null </dev/null)
	else
		command=$name
		help=$("$program" --help 2>/dev/null </dev/null)
	fi
	local usage=${help%%$'\n\n'*} value

	# up to the first word that is neither an option nor the value of one
	while ((i < cword)); do
		case ${words[i]} in
		--)
			((i++))
			break
			;;
		--*=*) ;;
		-*) [[ ! $(_iprobe_value_name "${words[i]}") ]] || ((i++)) ;;
		*) break ;;
		esac
		((i++))
	done
	if [[ $usage == *CMD* ]] && ((i <= cword)) &&
		[[ $i != "$cword" || ${words[cword]} != -* || ${words[i - 1]} == -- ]]; then
		if [[ $command == fperf && $i == "$cword" && ${words[i - 1]} != -- ]]; then
			_iprobe_part '' 'list-events self-test'
			((${#COMPREPLY[@]} == 0)) || return
		fi
		if [[ $command != fperf || ${words[i]} != @(list-events|self-test|+([0-9])) ]]; then
			_command_offset "$i"
			return
		fi
	fi
	if [[ $prev == -* ]]; then
		value=$(_iprobe_value_name "$prev")
		if [[ $value ]]; then
			cur=${cur#[\'\"]}
			_iprobe_value "$command" "$prev" "$value"
			return
		fi
	fi
	[[ $split != true ]] || return
	if [[ $cur == -* ]]; then
		_iprobe_part '' "$(grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z-]+' <<<"$help" |
			sed 's/^[^-]*//; $a--help' | sort -u)"
		return
	fi
	[[ $name != iprobed ]] || return
	[[ $usage != *'[DIR'* ]] || _iprobe_traces
	[[ $usage != *ELF* ]] || _filedir
	[[ $usage != *PID* ]] || _iprobe_pids
} &&
	complete -F _iprobe iprobe fperf coldpatch iprobed
