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

parts_end() { # name: shows the sum; its status is that of all
	printf '\n%s' "$parts_summary"
	echo "$1: $(($(date +%s) - parts_began)) s, load $(load)${parts_bad:+; failed:$parts_bad}"
	[ -z "$parts_bad" ]
}
