# Prints the facts of one host: a thin wrapper around one interpreter start.
# Reads only. In: python state_dir cwd exports probe mark request engines
# fallback (yes: any python3 will do when none is named).
main() {
	expand "${state_dir:-${XDG_STATE_HOME:-$HOME/.local/state}/specrun}"
	state=$expanded
	expand "$python"
	python=$expanded
	[ -n "$python" ] || [ "$fallback" = no ] || python=$(command -v python3) || python=
	[ -n "$python" ] || no_interpreter "none was named"
	home=$HOME
	expand "$cwd"
	[ -z "$expanded" ] || cd "$expanded" || fail 66 no-folder "path $expanded"
	eval "$exports"
	case $python in */*) [ -x "$python" ] ;; *) command -v "$python" >/dev/null ;; esac || no_interpreter "$python cannot be run"
	"$python" -B -c "$probe" "$mark" "$request" "$state" "$home" && return 0
	no_interpreter "$python ended with status $?"
}

# Names the interpreters of running engine processes, so that the user can
# choose one, then ends.
no_interpreter() {
	echo "error no-interpreter"
	echo "detail $1"
	for dir in /proc/[0-9]*; do
		words=$(tr '\0\n' '\n ' <"$dir/cmdline") || continue
		for engine in $engines; do
			case $words in *"$engine"*) candidate "$dir" "$engine" "${words%%
*}" ;; esac
		done
	done 2>/dev/null
	exit 65
}

candidate() {
	exe=$(readlink "$dir/exe") || exe=
	case ${exe##*/} in python* | pypy*) ;; *) return 0 ;; esac
	case $3 in /*) exe=$3 ;; esac
	echo "candidate ${1##*/} $2 $exe"
}
