# Functions for facts, behind those of remote.HostLib. Definitions only. Works
# alike in dash, bash and busybox.

# fact GROUP KEY VALUE: one line for the reader; none without a value.
fact() {
	[ -z "$3" ] || printf 'fact\t%s\t%s\t%s\n' "$1" "$2" "$(printf '%s' "$3" | tr '\t\n' '  ')"
}

# smi ARGS: nvidia-smi with an end, since a wedged driver never answers.
smi() {
	if [ -n "$with_timeout" ]; then
		timeout 20 nvidia-smi "$@" 2>&1 </dev/null
	else
		nvidia-smi "$@" 2>&1 </dev/null
	fi
}

# smi_there: there is an nvidia-smi.
smi_there() {
	command -v nvidia-smi >/dev/null 2>&1 || return 1
	with_timeout=
	if timeout 1 true >/dev/null 2>&1; then with_timeout=yes; fi
}

# smi_query FIELDS: "fields NAMES", then "card ROW" for each. A driver that does
# not know a field refuses the whole query: ask again without it.
smi_query() {
	fields=$1
	tries=0
	while [ -n "$fields" ] && [ "$tries" -lt 20 ]; do
		tries=$((tries + 1))
		if answer=$(smi --query-gpu="$fields" --format=csv,noheader,nounits); then
			printf 'fields\t%s\n' "$fields"
			printf '%s\n' "$answer" | sed -n 's/^\([0-9][0-9]*,\)/card	\1/p'
			return 0
		fi
		refused=$(printf '%s\n' "$answer" | sed -n 's/^Field "\([^"]*\)" is not a valid field.*/\1/p' | head -n 1)
		if [ -z "$refused" ]; then
			fact gpu nvidia_smi "no answer: $(printf '%s\n' "$answer" | head -n 1)"
			return 0
		fi
		fields=$(printf '%s\n' "$fields" | tr ',' '\n' | grep -vxF "$refused" | tr '\n' ',')
		fields=${fields%,}
	done
}
