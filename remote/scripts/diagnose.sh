# What could keep $file from being written or read, one fact a line.
main() {
	folder=${file%/*}
	[ "$folder" != "$file" ] || folder=.
	folder=${folder:-/}
	[ ! -e "$file" ] && [ ! -L "$file" ] || echo exists
	[ ! -r "$file" ] || echo readable
	[ -d "$folder" ] || { echo nodir; echo "folder no folder $folder"; return 0; }
	# shellcheck disable=SC2012
	echo "folder $(ls -ld -- "$folder" 2>/dev/null | awk '{print $1, $3 ":" $4}'), we are $(id -un 2>/dev/null || id -u)"
	[ ! -w "$folder" ] || [ ! -x "$folder" ] || echo dirwritable
	df -Pk -- "$folder" 2>/dev/null | tail -n 1 | awk '{print "kbytes " $4; m=$6; for (i=7;i<=NF;i++) m=m " " $i; print "mount " m}'
	df -Pi -- "$folder" 2>/dev/null | tail -n 1 | awk '$2 > 0 {print "inodes " $4}'
	[ -r /proc/self/mounts ] || return 0
	mount=$(df -Pk -- "$folder" 2>/dev/null | tail -n 1 | awk '{print $6}')
	awk -v m="$mount" '$2 == m {o=$4} END {if (o != "") print "options " o}' </proc/self/mounts
}
