#compdef @program@
# SPDX-License-Identifier: Apache-2.0
#
# zsh completion of @program@.
#
# Commands, options and the names of their values come from --help of the program that is completed.
# The words that a value may be stand here; test/repo/test_completion.py compares them with --help.

# Names in the files of probes.d.
(( $+functions[_iprobe_names] )) ||
_iprobe_names() # selections|profiles|rules
{
	local folder=${IPROBE_PROBES_D:-@confdir@/probes.d}

	sed -n "/^$1:/,/^[^ #]/s/^  \([A-Za-z0-9_-]*\):.*/\1/p" $folder/*.yaml(N) /dev/null
}

(( $+functions[_iprobe_selection] )) ||
_iprobe_selection()
{
	compset -P '*[,:!]'
	compadd -q -S '' -- @${^${(f)"$(_iprobe_names selections)"}}
}

# Trace directories; where there are none, directories that may lead to some.
(( $+functions[_iprobe_traces] )) ||
_iprobe_traces()
{
	_path_files -g '*(-/+_iprobe_is_trace)' || _path_files -/
}

(( $+functions[_iprobe_is_trace] )) ||
_iprobe_is_trace()
{
	[[ -d $REPLY/iprobe ]]
}

(( $+functions[_iprobe_value] )) ||
_iprobe_value() # COMMAND OPTION VALUE-NAME
{
	local -a columns=(calls total self min avg p50 p90 p99 p99.9 max stddev threads function)

	case $1:$2 in
	*:--time) compadd -- precise coarse ;;
	*:--clock) compadd -- tsc monotonic auto ;;
	*:--payload)
		if [[ $PREFIX == *:* && $PREFIX != user:* ]]; then
			_iprobe_selection
		elif compset -P user:; then
			_files
		else
			compadd -- log count hist
			compadd -S '' -- user:
		fi
		;;
	export:--format) compadd -- html chrome perfetto folded callgrind pprof ;;
	report:--by)
		compadd -- function caller callsite thread module file process
		compadd -S '' -- value:
		;;
	wait:--by)
		compadd -- client connection function process
		compadd -S '' -- value:
		;;
	(export|graph|top):--by) compadd -- process thread ;;
	darc:--by) compadd -- variance ;;
	darc:--percentile) compadd -- p50 p90 p95 p99 p99.9 ;;
	hist:--by) compadd -S '' -- value: ;;
	report:--columns)
		compset -P '*,'
		compadd -q -S , -- $columns all
		;;
	report:--sort)
		compadd -- $columns value duration time
		compadd -S '' -- value:
		;;
	tui:--view) compadd -- report graph timeline callers threads ;;
	tui:--sort) compadd -- $columns ;;
	top:--sort) compadd -- rate calls self total avg p50 p99 max function ;;
	syscalls:--by) compadd -- call function fd process ;;
	top:--waits) compadd -- below hide among ;;
	fperf:--budget) compadd -- none ;;
	fperf:--profile) compadd -- ${(f)"$(_iprobe_names profiles)"} ;;
	iprobed:--rule | iprobed:--fire) compadd -- ${(f)"$(_iprobe_names rules)"} ;;
	iprobed:--group) _groups ;;
	trim:--pid) _message 'process of the trace' ;;
	*)
		case $3 in
		SEL*) _iprobe_selection ;;
		OTHER) _iprobe_traces ;;
		DIR) _path_files -/ ;;
		FILE | OUT | PATH | PREFIX) _files ;;
		PID) _pids ;;
		*'|'*) compadd -- ${(s:|:)3} ;;
		*) _message $3 ;;
		esac
		;;
	esac
}

# Completes the options that $help tells of, and OPERANDS, which are specifications for _arguments.
(( $+functions[_iprobe_arguments] )) ||
_iprobe_arguments() # COMMAND OPERANDS...
{
	local command=$1 newline=$'\n' option value short what pattern spec
	local -a specs match mbegin mend
	shift

	for option in ${(f)"$(grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z-]+' <<<$help |
		sed 's/^[^-]*//; $a--help' | sort -u)"}; do
		value= short= what=
		pattern="(^|[$newline (,[])${option}[ =]([A-Z][^] ,;$newline]*|[a-z]+[|][a-z|]+)"
		[[ $help =~ $pattern ]] && value=$match[2]
		pattern="$newline +(-[a-zA-Z]), ${option}[^a-z-]"
		[[ $help$newline =~ $pattern ]] && short=$match[1]
		pattern="$newline +(-[a-zA-Z], )?${option}([ =[][^ ]+)?  +([^$newline]*)"
		[[ $help =~ $pattern ]] && what=$match[3]
		what=${${what//\[/\\[}//\]/\\]}
		value=${value%%[\[:.]*}
		spec=${value:+":$value: _iprobe_value $command $option ${value//|/\\|}"}
		specs+=("*$option${value:+=}${what:+[$what]}$spec")
		[[ -z $short ]] || specs+=("*$short${value:++}${what:+[$what]}$spec")
	done
	_arguments -S : ${(u)specs} "$@"
}

(( $+functions[_iprobe_fperf_operand] )) ||
_iprobe_fperf_operand()
{
	_alternative 'commands:command:(list-events self-test)' 'programs:program:_command_names -e'
}

(( $+functions[_iprobe_file_or_process] )) ||
_iprobe_file_or_process()
{
	_alternative 'files:file:_files' 'processes:process:_pids'
}

(( $+functions[_iprobe_trace_or_process] )) ||
_iprobe_trace_or_process()
{
	_alternative 'traces:trace:_iprobe_traces' 'processes:process:_pids'
}

(( $+functions[_iprobe_programs] )) ||
_iprobe_programs()
{
	local program=${words[1]/#\~\//$HOME/} name=${words[1]:t} command help usage
	local -a operands names

	if [[ $name == iprobe ]]; then
		if (( CURRENT == 2 )); then
			help="$($program --help 2>/dev/null </dev/null)"
			names=(${(f)"$(sed -n 's/^  \([a-z][a-z-]*\)  *\(.*\)/\1:\2/p' <<<$help)"})
			_describe -t commands command names
			_arguments : --help --version -p
			return
		fi
		command=$words[2]
		if [[ $command == help ]]; then
			help="$($program --help 2>/dev/null </dev/null)"
			names=(${(f)"$(sed -n 's/^  \([a-z][a-z-]*\)  *.*/\1/p' <<<$help)"})
			(( CURRENT > 3 )) || compadd -- $names
			return
		fi
		if [[ $command == -* ]]; then
			command=attach
			help="$($program $command --help 2>/dev/null </dev/null)"
		else
			help="$($program $command --help 2>/dev/null </dev/null)"
			shift words
			(( CURRENT-- ))
		fi
	else
		command=$name
		help="$($program --help 2>/dev/null </dev/null)"
	fi
	usage=${help%%$'\n\n'*}

	if [[ $command == fperf ]]; then
		operands=('(-)1: :_iprobe_fperf_operand' '*::argument:_normal')
	elif [[ $usage == *CMD* ]]; then
		operands=('(-)1:command:_command_names -e' '*::argument:_normal')
	elif [[ $command == coldpatch ]]; then
		operands=('*:file:_files')
	elif [[ $usage == *ELF\|PID* ]]; then
		operands=('1: :_iprobe_file_or_process')
	elif [[ $usage == *'[DIR|PID]'* ]]; then
		operands=('1: :_iprobe_trace_or_process')
	elif [[ $usage == *'[DIR]'* ]]; then
		operands=('1:trace:_iprobe_traces')
	elif [[ $usage == *PID* && $command != iprobed ]]; then
		operands=('1:process:_pids')
	fi
	_iprobe_arguments $command $operands
}

_iprobe_programs "$@"
