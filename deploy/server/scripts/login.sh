# Prints the environment that a login shell of this user has, framed by MARK:
# profiles print what they like before and after. In: MARK.
main() {
	shell=$SHELL
	[ -n "$shell" ] && [ -x "$shell" ] || shell=/bin/sh
	HOME=${HOME:-/} "$shell" -l -c "echo $MARK; cat /proc/self/environ; echo; echo $MARK" </dev/null 2>/dev/null
}
