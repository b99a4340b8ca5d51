#!/bin/sh
# SPDX-License-Identifier: MIT
# What the compiler doesn't check: who may include whom, in which rooms foreign headers may be used, sizes, banned calls, docs in step.
# Prints every finding; exit 1 if there is one.
cd "$(dirname "$0")/.." || exit 1
bad=0
say() { echo "check-source: $*"; bad=1; }
files=$(git ls-files -co --exclude-standard '*.c' '*.h' 2>/dev/null || find . -name '*.[ch]' -not -path './build*' | sed 's,^\./,,')
for f in $files; do [ -f "$f" ] && echo "$f"; done >"${TMPDIR:-/tmp}/check-source.$$"
list="${TMPDIR:-/tmp}/check-source.$$"
trap 'rm -f "$list"' EXIT

# ---- include direction: room -> the folders whose headers it may include ----
allowed() {
	case $1 in
	proto/*) echo '^proto/' ;;
	daemon/spawner/*) echo '^(daemon/spawner|proto)/' ;;
	daemon/host/codec/*) echo '^(daemon/host/codec|proto)/' ;;
	daemon/host/state/*) echo '^(daemon/host/(state|codec|module)|proto)/' ;;
	daemon/host/*) echo '^(daemon/host|proto)/' ;;
	daemon/simulate/*) echo '^(daemon/(simulate|supervise)|proto)/' ;;
	daemon/supervise/*) echo '^(daemon/supervise|proto)/' ;;
	daemon/reload/*) echo '^(daemon/reload|proto)/' ;;
	daemon/store/*) echo '^(daemon/store|proto)/' ;;
	daemon/observe/*) echo '^(daemon/observe|proto)/|^daemon/store/storage\.h$' ;;
	daemon/front/*) echo '^(daemon/(front|store)|proto)/|^daemon/control/control\.h$' ;;
	daemon/sandbox/*) echo '^(daemon/(sandbox|supervise|reload|store|observe)|proto)/|^daemon/front/rpc(_key)?\.h$|^daemon/control/(control|spawner_link|shutdown)\.h$' ;;
	daemon/group/*) echo '^(daemon/(group|sandbox|supervise|store|observe)|proto)/|^daemon/front/rpc\.h$|^daemon/control/(control|shutdown)\.h$' ;;
	daemon/doctor/*) echo '^(daemon/doctor|proto)/|^daemon/front/rpc\.h$|^daemon/sandbox/(host_link|registry)\.h$|^daemon/control/(control|spawner_link)\.h$' ;;
	daemon/control/*) echo '^(daemon/(control|doctor|front|group|sandbox|simulate|supervise|reload|store|observe)|proto)/' ;;
	client/*) echo '^(client|proto)/' ;;
	*) echo '.' ;;
	esac
}
while read -r f; do
	want=$(allowed "$f")
	sed -n 's/^#[ \t]*include "\([^"]*\)".*/\1/p' "$f" | while read -r inc; do
		case $f in tests/* | examples/* | bench/*) continue ;; esac
		case $inc in
		*/*) echo "$inc" | grep -qE "$want" || echo "$f includes $inc: its room may not" ;;
		*) echo "$f includes \"$inc\" without its folder" ;;
		esac
	done
done <"$list" >"$list.out"

# ---- foreign headers and the rooms that may use them ----
room() { # header-regex rooms-regex
	grep -lE "^#[ \t]*include <$1>" $(grep -E '^(daemon|client|proto)/' "$list") /dev/null | grep -vE "$2" | sed "s,\$, includes <$1>: not in its room,"
}
{
	room 'uv\.h' '^daemon/(control|doctor|front|group|sandbox|store/storage)'
	room '(cjson/)?cJSON\.h' '^daemon/(control|front|sandbox)/'
	room 'dlfcn\.h' '^daemon/host/(module/object|death)\.c$'
	room 'seccomp\.h' '^daemon/spawner/filter\.c$'
	room 'openssl/.*' '^daemon/store/'
	room 'sqlite3\.h' '^daemon/store/database(_inner\.h|_write\.c|\.c)$'
	room 'pthread\.h' '^daemon/store/storage'

	# ---- calls that are banned, or have one place ----
	grep -nE '\b(sleep|usleep|nanosleep|uv_sleep)[ \t]*\(' $(grep -E '^(daemon|client|proto|tests/(unit|proc|support))/' "$list") /dev/null | sed 's/$/   <- no sleeping: wait for an event with a deadline/'
	grep -nE '\b(gets|strcpy|strcat|sprintf|vsprintf|system|popen|tmpnam|mktemp|setlocale|alloca|cJSON_Compare)[ \t]*\(' $(grep -E '^(daemon|client|proto)/' "$list") /dev/null | sed 's/$/   <- banned/'
	grep -nE '\b(fork|vfork|clone)[ \t]*\(' $(grep -E '^daemon/(control|supervise|reload|store|observe)/' "$list") /dev/null | sed 's/$/   <- control never forks/'
	grep -nE '\buv_(fs_|queue_work|getaddrinfo|spawn)' $(grep -E '^daemon/' "$list") /dev/null | sed 's/$/   <- the storage thread is the only one/'

	# ---- form ----
	while read -r f; do
		head -n 1 "$f" | grep -q 'SPDX-License-Identifier: MIT' || echo "$f: its first line has no SPDX identifier"
		n=$(wc -l <"$f")
		case $f in proto/sandbox_module.h | bench/* | tests/*) max=1500 ;; *) max=700 ;; esac
		[ "$n" -le "$max" ] || echo "$f has $n lines, more than $max"
	done <"$list"
	grep -nE '[ 	]+$' $(cat "$list") /dev/null | cut -c1-120 | sed 's/$/   <- trailing white space/'

	# ---- documents in step with the tables ----
	sed -n 's/^X([A-Z0-9_]*, "\([a-z.]*\)").*/\1/p' proto/methods.def | while read -r m; do
		grep -qF "$m" docs/PROTOCOL.md 2>/dev/null || echo "docs/PROTOCOL.md doesn't name the method $m"
	done
	sed -n 's/^X([A-Z0-9_]*, "\([a-z0-9_]*\)", .*/\1/p' proto/errors.def | grep -vx ok | while read -r c; do
		grep -qF "\`$c\`" docs/PROTOCOL.md 2>/dev/null || echo "docs/PROTOCOL.md doesn't name the error $c"
	done
	# names of the header that end in _ are its own
	sed 's,/\*.*\*/,,' proto/sandbox_module.h | grep -oE '\b(SBX|sbx)_[A-Za-z0-9_]*[A-Za-z0-9]\b' | grep -vE '_sbx_|^SBX_SAYS_|^sbx_(detail|dummy)$' | sort -u | while read -r name; do
		grep -qE "\b$name\b" docs/MODULES.md 2>/dev/null || echo "docs/MODULES.md doesn't name $name"
	done
} >>"$list.out"
[ -s "$list.out" ] && { cat "$list.out"; bad=1; }
rm -f "$list.out"
[ $bad = 0 ] && echo "check-source: $(wc -l <"$list") files, nothing found"
exit $bad
