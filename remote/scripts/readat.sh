# The size of $file on one line, then up to $want bytes from byte $skip (from 1).
main() {
	size=$(wc -c <"$file") || exit 1
	echo $((size))
	[ "$size" -ge "$skip" ] || return 0
	tail -c "+$skip" <"$file" | head -c "$want"
}
