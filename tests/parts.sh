# SPDX-License-Identifier: MIT
# For scripts that run several rings: each is run, also after one that failed, and its time is shown. Sourced.
parts_bad=""
parts_summary=""
parts_began=$(date +%s)

load() { cut -d' ' -f1-3 /proc/loadavg; }

part() { # name, command...
	part_name=$1
	shift
	part_began=$(date +%s)
	echo "==== $part_name (load $(load))"
	if "$@"; then part_result=ok; else part_result=FAILED; parts_bad="$parts_bad $part_name"; fi
	part_took=$(($(date +%s) - part_began))
	parts_summary="$parts_summary$(printf '%-24s %-7s %5d s' "$part_name" "$part_result" "$part_took")
"
	echo "==== $part_name: $part_result, $part_took s"
}

# In front of the parts: a bound that can't be read must not be found out at their end.
parts_check_seconds() { # name of the variable, its value
	case $2 in
	'' | *[!0-9]* | ??????????*)
		echo "$1='$2': a number of seconds is wanted, of at most 9 digits" >&2
		exit 2
		;;
	esac
}

parts_end() { # name [most seconds]: shows the sum; its status is that of all. What took longer has failed
	parts_took=$(($(date +%s) - parts_began))
	if [ -n "$2" ] && [ "$parts_took" -gt "$2" ]; then parts_bad="$parts_bad time"; fi
	printf '\n%s' "$parts_summary"
	echo "$1: $parts_took s, load $(load)${parts_bad:+; failed:$parts_bad}"
	case $parts_bad in *" time") echo "$1: FAILED: it took $parts_took s, and $2 s is the most that it may take" ;; esac
	[ -z "$parts_bad" ]
}
