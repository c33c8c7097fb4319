# Prints one part of /proc/PID of a process that is known by identity.
# In: PID TICKS BOOT PART (environ, cmdline). Exit 3: it no longer lives.
main() {
	boot_identity
	[ "$BOOT" = "$boot_id" ] && alive "$PID" "$TICKS" || return 3
	cat "/proc/$PID/$PART" || return 4
	alive "$PID" "$TICKS" || return 3
}
