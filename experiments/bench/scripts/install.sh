# Gives a pushed worker its name, and removes builds that nobody uses. In: FROM TO.

main() {
	mv -f "$FROM" "$TO" || exit 1
	touch -c "$TO" 2>/dev/null || : # it is used from now on
	forget "${TO%/*}"
}

# forget BIN: a build goes thirty days after a process was last started from it,
# unless a sweep that is still on the host by itself runs with it; half of one that
# never got its name after a day. What cannot be removed stays.
forget() {
	used=$(cat "${1%/*}"/detached/*/worker 2>/dev/null)
	find "$1/." ! -name . -prune -type f -mtime +29 2>/dev/null | while IFS= read -r f; do
		name=${f##*/}
		case $name in *[!0-9a-f]*) continue ;; esac
		case "
$used
" in *"/$name
"*) continue ;; esac
		[ "${#name}" -ne 64 ] || rm -f "$f"
	done
	find "$1/." ! -name . -prune -type f -name '.*.new' -mtime +0 -exec rm -f {} + 2>/dev/null
	return 0
}
