# SPDX-License-Identifier: MIT
#
# Completion of sandboxctl for bash: source this file, or install it as
# /usr/share/bash-completion/completions/sandboxctl. Verbs and options come from sandboxctl itself (help --names), ids and
# functions from the daemon, so that nothing here can be out of date. Ids of a daemon that doesn't answer within a second
# are simply not offered.

_sandboxctl_daemon()
{
	local socket=()

	[ -n "$_sandboxctl_socket" ] && socket=(--socket "$_sandboxctl_socket")
	command sandboxctl "${socket[@]}" --timeout 1000 "$@" 2>/dev/null
}

# Replies for the words after the verb: $1 how many operands stand before the cursor, $2 the verb, $3 the id.
_sandboxctl_operand()
{
	case "$2:$1" in
	help:0)
		COMPREPLY=($(compgen -W "$(command sandboxctl help --names 2>/dev/null)" -- "$cur"))
		;;
	create:1 | reload:1 | state-check:1)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -X '!*.so' -- "$cur"; compgen -f -X '!*.c' -- "$cur"; compgen -d -- "$cur")
		;;
	call:1 | cast:1)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon info --functions -- "$3")" -- "$cur"))
		;;
	profile-show:0 | profile-diff:0 | profile-diff:1)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon profile-list --quiet)" -- "$cur"))
		;;
	profile-validate:0)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -X '!*.profile' -- "$cur"; compgen -d -- "$cur")
		;;
	explain:0)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon list --quiet) $(_sandboxctl_daemon group-list --quiet)" -- "$cur"))
		;;
	group-info:0 | group-destroy:0 | group-add:0 | group-remove:0 | group-start:0 | group-stop:0 | group-restart:0 | group-reset:0 | tree:0)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon group-list --quiet)" -- "$cur"))
		;;
	group-add:1 | group-remove:1 | destroy:0 | start:0 | stop:0 | restart:0 | freeze:0 | thaw:0 | reset:0 | update:0 | info:0 | security:0 | call:0 | cast:0 | wait:0 | reload:0 | rollback:0 | versions:0 | state-get:0 | state-set:0 | checkpoint:0 | state-check:0 | state-diff:0 | state-diff:1 | schema:0 | schema-diff:0 | schema-diff:1 | history:0 | commit:0 | logs:0)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon list --quiet)" -- "$cur"))
		;;
	esac
}

_sandboxctl()
{
	local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local verb= id= operands=0 i word options choices _sandboxctl_socket=

	COMPREPLY=()
	# COMP_WORDBREAKS has "=": "--x=y" then is three words.
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [ -z "$verb" ]; then
			options=$'--socket=\n--timeout='
		else
			options=$(command sandboxctl help --names "$verb" 2>/dev/null)
		fi
		case "$word" in
		--*)
			if grep -q -e "^$word=" <<<"$options"; then
				[ "${COMP_WORDS[i + 1]}" = "=" ] && ((i++))
				((i++))
				[ "$word" = --socket ] && [ "$i" -lt "$COMP_CWORD" ] && _sandboxctl_socket=${COMP_WORDS[i]}
			fi
			;;
		-*) ;;
		*)
			if [ -z "$verb" ]; then
				verb=$word
			else
				[ "$operands" -eq 0 ] && id=$word
				((operands++))
			fi
			;;
		esac
	done
	if [ "$cur" = "=" ]; then
		cur=
	elif [ "$previous" = "=" ] && [ "$COMP_CWORD" -ge 2 ]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	options=$(command sandboxctl help --names ${verb:+"$verb"} 2>/dev/null)
	case "$previous" in
	--socket | --*-file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--group | --parent)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon group-list --quiet)" -- "$cur"))
		return
		;;
	--profile)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon profile-list --quiet)" -- "$cur"))
		return
		;;
	--sandbox | --after)
		COMPREPLY=($(compgen -W "$(_sandboxctl_daemon list --quiet)" -- "$cur"))
		return
		;;
	--*)
		choices=$(sed -n "s/^$previous=//p" <<<"$options")
		if [ -n "$choices" ]; then
			COMPREPLY=($(compgen -W "${choices//|/ }" -- "$cur"))
			return
		fi
		grep -q -e "^$previous=" <<<"$options" && return
		;;
	esac
	if [[ $cur == -* ]]; then
		[ -z "$verb" ] && options=$'--socket\n--json\n--timeout\n--quiet\n--version\n--help'
		COMPREPLY=($(compgen -W "$(sed 's/=.*//' <<<"$options")" -- "$cur"))
	elif [ -z "$verb" ]; then
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
	else
		_sandboxctl_operand "$operands" "$verb" "$id"
	fi
}

complete -F _sandboxctl sandboxctl
