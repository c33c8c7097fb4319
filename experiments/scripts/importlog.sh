# Finds files on the host and sends what of them can tell anything: see importlog.py for the stream. In:
# COUNT patterns P0, P1, ...; PYTHON, or empty; PROGRAM, MARKERS, KNOWN for it; WORDS for
# hosts without Python: lines of "AFTER word", "hGROUP word" and "a word", the fields of metrics.Markers. Behind remote.HostLib. Changes nothing.

# matches NUMBER PATTERN calls each for the files that a pattern names: itself, when there is a file of that
# name; the others that the shell finds; an empty name when there is none. Blanks, quotes and line breaks are parts of names; "~" and "~user" are home folders.
matches() {
	expand "$2"
	case $expanded in
	"~"*)
		user=${expanded%%/*}
		case ${user#"~"} in *[!A-Za-z0-9._-]*) ;; *) eval "home=$user" && expanded=$home${expanded#"$user"} ;; esac
		;;
	esac
	number=$1
	if [ -e "$expanded" ] || [ -L "$expanded" ]; then
		each "$number" "$expanded"
		return
	fi
	IFS=
	# shellcheck disable=SC2086
	set -- $expanded
	unset IFS
	if [ $# -eq 1 ] && [ ! -e "$1" ] && [ ! -L "$1" ]; then
		each "$number" ""
		return
	fi
	any=
	for file in "$@"; do
		[ ! -d "$file" ] || continue # a folder among others is passed over
		any=1
		each "$number" "$file"
	done
	[ -n "$any" ] || each "$number" ""
}

all() {
	i=0
	while [ "$i" -lt "$COUNT" ]; do
		eval "pattern=\$P$i"
		matches "$i" "$pattern"
		i=$((i + 1))
	done
}

# find_python sets py to an interpreter of at least 3.8 with what the program needs.
find_python() {
	expand "$PYTHON"
	for py in "$expanded" python3 python; do
		[ -z "$py" ] || ! "$py" -c 'import sys, hashlib, zlib; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 </dev/null || return 0
	done
	return 1
}

hex() { printf %s "$1" | od -An -v -tx1 | tr -d ' \n'; }

fault() { printf 'error %s %s %s\n' "$1" "$(hex "$2")" "$(hex "$3")"; }

sum() {
	if command -v sha256sum >/dev/null; then sha256sum
	elif command -v shasum >/dev/null; then shasum -a 256
	elif command -v openssl >/dev/null; then openssl dgst -sha256 -r
	fi
}

# send NUMBER FILE is one file by the tools of the shell.
send() {
	if [ -z "$2" ]; then
		printf 'none %s\n' "$1"
	elif [ -d "$2" ]; then
		fault "$1" "$2" "is a folder: name its files, as in ${2%/}/*.log"
	elif [ ! -e "$2" ]; then
		fault "$1" "$2" "No such file or directory"
	elif [ ! -f "$2" ]; then
		fault "$1" "$2" "is no regular file"
	elif ! { : <"$2"; } 2>/dev/null; then
		fault "$1" "$2" "Permission denied"
	else
		size=$(($(wc -c <"$2")))
		magic=$(head -c 4 <"$2" | od -An -v -tx1 | tr -d ' \n')
		case $magic in
		1f8b*) raw "$1" "$2" "gzip -dc" ;;
		28b52ffd | fd377a58 | 425a68*) fault "$1" "$2" "is packed: unpack it first" ;;
		*) if whole "$2"; then raw "$1" "$2" cat; else rows "$1" "$2"; fi ;;
		esac
	fi
}

# whole FILE: it travels as it is, because it is small, a JSON document, or nothing that awk could read.
whole() {
	[ "$size" -ge 262144 ] && command -v awk >/dev/null && [ -n "$(sum </dev/null)" ] || return 0
	case $(head -c 256 <"$1" | LC_ALL=C tr -d ' \t\r\n\000\357\273\277' | head -c 2) in '{'* | '[{' | '[]') return 0 ;; esac
	[ "$(($(head -c "$size" <"$1" | LC_ALL=C tr -d '\000' | wc -c)))" -ne "$size" ]
}

# raw NUMBER FILE TOOL sends what the tool makes of the file. What it complains of, when it fails, is the file's error:
# it goes round the pipe, whose other ends succeed with what came.
raw() {
	printf 'file %s %s %s raw\n' "$1" "$(hex "$2")" "$size"
	{ why=$({ { head -c "$size" <"$2" | $3 2>&4 || printf '%s' " (failed)" >&4; } | gzip -c >&5; } 4>&1); } 5>&1
	case $why in
	*" (failed)") why=$(printf '%s' "${why%" (failed)"}" | tr -d '\n') ;;
	*) why= ;;
	esac
	[ -n "$why" ] || [ "$(($(wc -c <"$2")))" -ge "$size" ] || why="the file became shorter while it was read"
	printf 'end - - %s\n' "$(hex "$why")"
}

rows() {
	printf 'file %s %s %s rows\n' "$1" "$(hex "$2")" "$size"
	head -c "$size" <"$2" | LC_ALL=C WORDS=$WORDS awk "$AWK" | gzip -c
	line=$(head -c "$size" <"$2" | sum)
	why=
	[ "$(($(wc -c <"$2")))" -ge "$size" ] || why=$(hex "the file became shorter while it was read")
	printf 'end %s %s %s\n' "${line%% *}" "$size" "$why"
}

# Keeps what importlog.py keeps, or more. Each line is held until the next one is there, because the last
# one always counts.
AWK='
function flush_left() { if (left) { printf "s %.0f %.0f\n", left, lines; left = lines = 0 } }
function take(line, last,   keep, i, n) {
	n = length(line) + 1
	keep = last || window != 0
	if (window > 0) { window--; armed = 1 }
	for (i = 1; i <= count; i++)
		if (index(line, word[i])) {
			keep = 1
			if (after[i] > 1) armed = 1
			if (after[i] < 0 || window < 0) window = -1
			else if (after[i] > window) window = after[i]
		}
	if (line ~ /(stdout|stderr) P( |$)/ || index(line, "{\"log\":") && !index(line, "\\n\",\"stream\":\"")) { keep = 1; window = -1 }
	if (!keep && armed && index(line, alive[1]) && index(line, alive[2])) keep = 1
	for (i = 1; !keep && i <= hints; i++)
		if (!hinted[group[i]] && index(line, hint[i])) keep = hinted[group[i]] = 1
	if (keep) { flush_left(); printf "k %.0f\n%s\n", n, line }
	else { left += n; lines++ }
}
BEGIN {
	total = split(ENVIRON["WORDS"], all, "\n")
	for (i = 1; i <= total; i++) {
		cut = index(all[i], " ")
		kind = substr(all[i], 1, cut - 1)
		rest = substr(all[i], cut + 1)
		if (kind == "a") alive[++signs] = rest
		else if (kind ~ /^h/) { hint[++hints] = rest; group[hints] = kind }
		else if (cut) { word[++count] = rest; after[count] = kind + 0 }
	}
}
NR > 1 { take(before, 0) }
{ before = $0 }
END { if (NR > 0) take(before, 1); flush_left() }'

main() {
	LC_ALL=C
	export LC_ALL
	if find_python; then
		each() { printf '%s\0%s\0' "$1" "$2"; }
		{
			printf '%s\0' "$KNOWN" # by a builtin: an argument holds no more than 128 KiB
			all
		} | "$py" -c "$PROGRAM" "$MARKERS"
		return
	fi
	command -v gzip >/dev/null || {
		echo "neither Python 3.8 nor gzip is there" >&2
		return 69
	}
	if command -v awk >/dev/null; then echo "with awk"; else echo "with gzip"; fi
	each() { send "$1" "$2"; }
	all
	return 0
}
