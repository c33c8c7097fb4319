# Who holds a lease: a lock that expires by this host's clock. Definitions only,
# behind lib.sh. In: LAUNCH, the one that counts as ours, or nothing.
#
# locks/NAME/lock.N: the highest N counts. It is held until it has "released",
# or until "expires" has passed and its launch is dead. mkdir decides who gets a
# generation, and whoever finds a higher one after that gives way.

# leases_now sets what judge needs, behind state_dir: locks, now, host_id, boot_id.
leases_now() {
	host_identity
	locks=$state/locks
	now=$(date +%s)
}

# top NAME: sets g to the highest generation, 0 when there is none.
top() {
	g=0
	for t_dir in "$locks/$1"/lock.*; do
		t_n=${t_dir##*/lock.}
		case $t_n in '' | *[!0-9]*) continue ;; esac
		[ "$t_n" -le "$g" ] || g=$t_n
	done
}

# launch_alive ID: a process of that launch still runs on this host.
launch_alive() {
	[ -n "$1" ] || return 1
	read_identity "$state/runs/$1" || :
	if [ -n "$i_host" ] && [ "$i_host" != "$host_id" ]; then return 0; fi # cannot be judged
	[ "$i_boot" = "$boot_id" ] || i_sid=
	[ -n "$(ours "$1" "$i_sid")" ]
}

# judge NAME: sets verdict (free ours held alive expired) and g.
judge() {
	top "$1"
	j_dir=$locks/$1/lock.$g
	if [ "$g" = 0 ] || [ -e "$j_dir/released" ]; then verdict=free; return; fi
	j_launch=$(val "$j_dir/launch") || j_launch=
	j_expires=$(val "$j_dir/expires") || j_expires=
	case $j_expires in
	'' | *[!0-9]*)
		# Its maker died before it wrote who it is, or is just writing it.
		if [ -n "$(find "$j_dir" -prune -mmin +1 2>/dev/null)" ]; then verdict=expired; else verdict=held; fi
		return
		;;
	esac
	if [ "$j_launch" = "$LAUNCH" ] && [ -n "$LAUNCH" ]; then verdict=ours; return; fi
	if [ "$now" -lt "$j_expires" ]; then verdict=held; return; fi
	if launch_alive "$j_launch"; then verdict=alive; else verdict=expired; fi
}
