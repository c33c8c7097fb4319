# Changes files: all of them or, when anything is not as planned, none.
#
# In: mode (new, forward, back, tidy), state, tx, take, force, user, host_id,
#   files    groups of nine: path, stage, pre, post, mtime, check, id, patched, key
#            of its folder
#   folders  groups of three: key, folder, claim (make, none)
#   ledgers  groups of two: id, hash of the ledger that the plan read, or none
#   saved_sums pre_sums post_sums   lines for sha256sum -c
#   content  everything new, packed; python, seal, seal_files: what unpacks,
#            checks and seals it
#   journal  one line
#   leftovers   mode tidy only: ids of transactions that began nothing
#
# The commit point is the renaming of tx/<id> to tx/<id>.prepared. Before it
# nothing outside our own places has changed and cleanup takes those away; from
# it on any later command finishes or undoes the work.
main() {
	umask 077
	[ -d "$state" ] || mkdir -p "$state" || unwritable "$state"
	share
	boot_identity
	held=
	orphans=
	locked=no
	point=before
	each_folder take_lock
	locked=yes
	sweep_orphans
	"run_$mode"
}

# sweep_orphans takes away what scripts had staged whose locks were found with
# their makers dead. One past its commit point is left for recovery. Claims go
# first: a folder is remembered by its transaction.
sweep_orphans() {
	[ -z "$orphans" ] || each_folder drop_claim
	own_tx=$tx
	for tx in $orphans; do
		txdir=$state/tx/$tx
		[ -d "$txdir.prepared" ] || [ "$tx" = "$own_tx" ] || sweep_up
	done
	tx=$own_tx
}

run_new() {
	txdir=$state/tx/$tx
	each_folder check_open
	mkdir -p "$state/blobs" "$state/files" "$state/claims" "$txdir/blobs" || unwritable "$txdir"
	each_folder make_stage
	each_folder check_claim
	each_file save_pre
	each_file save_record
	seal_all
	sums_hold "$saved_sums" || saved_wrong
	each_ledger check_ledger
	sums_hold "$pre_sums" || each_file check_pre
	true >>"$state/journal.jsonl" || unwritable "$state/journal.jsonl"
	[ -z "$saved_sums" ] || mv -f "$txdir"/blobs/* "$state/blobs" || unwritable "$state/blobs"
	mv "$txdir" "$txdir.prepared" || unwritable "$state/tx"
	trap '' HUP INT TERM
	point=after
	each_file move
	finish
}

# When there is nothing to go on with, another command was faster.
run_forward() {
	echo "result settled"
	txdir=$state/tx/$tx
	[ -d "$txdir.prepared" ] || return 0
	point=after
	each_file classify
	each_file stage_there
	trap '' HUP INT TERM
	each_file move
	finish
}

run_back() {
	echo "result settled"
	txdir=$state/tx/$tx
	[ -d "$txdir.prepared" ] || return 0
	point=after
	each_file classify
	each_file stage_back
	txdir=$txdir.prepared
	seal_all
	txdir=$state/tx/$tx
	trap '' HUP INT TERM
	each_file move
	each_file check_back
	each_file restore_record
	mv "$txdir.prepared" "$txdir.done" || fail 77 half-done "path $txdir.prepared"
	each_folder drop_claim
	sweep_up
	echo "result back"
}

run_tidy() {
	orphans=$leftovers
	sweep_orphans
	each_folder drop_claim
	echo "result tidy"
}

finish() {
	sums_hold "$post_sums" || each_file check_post
	each_file write_ledger
	[ -z "$journal" ] || printf '%s\n' "$journal" >>"$state/journal.jsonl" || fail 77 half-done "path $state/journal.jsonl"
	mv "$txdir.prepared" "$txdir.done" || fail 77 half-done "path $txdir.prepared"
	each_folder drop_claim
	sweep_up
	echo "result forward"
}

# --- for each ----------------------------------------------------------------

each_file() {
	step=$1
	eval "set -- $files"
	while [ $# -gt 0 ]; do
		path=$1 stage=$2 pre=$3 post=$4 mtime=$5 check=$6 id=$7 patched=$8 key=$9
		folder=${path%/*}
		"$step"
		shift 9
	done
}

each_folder() {
	step=$1
	eval "set -- $folders"
	while [ $# -gt 0 ]; do
		key=$1 folder=$2 claim=$3
		"$step"
		shift 3
	done
}

each_ledger() {
	step=$1
	eval "set -- $ledgers"
	while [ $# -gt 0 ]; do
		id=$1 want=$2
		"$step"
		shift 2
	done
}

# --- checks ------------------------------------------------------------------

take_lock() {
	lock_take "install-$key" "$folder"
}

# A transaction that another command left open comes first.
check_open() {
	for open in "$state"/tx/*.prepared; do
		[ ! -e "$open/folder-$key" ] || fail 75 open "path $open"
	done
}

# share: in a folder that is its group's too, so is what we make.
share() {
	[ ! -g "$state" ] || umask 007
}

# make_stage makes the private place for a folder's new content.
make_stage() {
	printf '%s\n' "$folder" >"$txdir/folder-$key" || unwritable "$txdir"
	[ "$claim" = make ] || return 0
	mkdir -m 700 "$folder/.specrun-$tx" || unwritable "$folder"
	umask 022
	printf '%s\n' "$user" "$state" "$host_id" >"$folder/.specrun-$tx/claim" || unwritable "$folder"
	umask 077
	share
}

# The claim says whose ledger counts here. It appears with its content, or
# not at all; where links are not possible, by exclusive creation.
check_claim() {
	[ "$claim" = make ] || return 0
	mkdir -p "$state/claims/$key" || unwritable "$state/claims"
	[ -e "$folder/.specrun-claim" ] || ln "$folder/.specrun-$tx/claim" "$folder/.specrun-claim" 2>/dev/null || copy_claim
	claim_reads
	[ "$claim_state" = "$state" ] || fail 4 claimed "path $folder" "user $claim_user" "state $claim_state"
}

copy_claim() {
	umask 022
	(set -C; cat "$folder/.specrun-$tx/claim" >"$folder/.specrun-claim") 2>/dev/null
	umask 077
	share
}

claim_reads() {
	claim_user=
	claim_state=
	{ IFS= read -r claim_user && IFS= read -r claim_state; } 2>/dev/null <"$folder/.specrun-claim" || :
}

hash_of() {
	sum=none
	[ ! -f "$1" ] || sum=$(sha256sum <"$1") || sum=unreadable
	sum=${sum%% *}
}

sums_hold() {
	[ -z "$1" ] || printf '%s\n' "$1" | sha256sum -c >/dev/null 2>&1
}

check_pre() {
	hash_of "$path"
	[ "$sum" = "$pre" ] || fail 74 drift "path $path" "want $pre" "got $sum"
}

check_post() {
	hash_of "$path"
	[ "$sum" = "$post" ] || fail 77 half-done "path $path" "want $post" "got $sum"
}

check_back() {
	hash_of "$path"
	[ "$sum" = "$pre" ] || fail 77 half-done "path $path" "want $pre" "got $sum"
}

check_ledger() {
	hash_of "$state/files/$id.json"
	[ "$sum" = "$want" ] || fail 74 ledger-drift "path $state/files/$id.json" "want $want" "got $sum"
}

# classify refuses content that is neither old nor new. With force it is kept
# as a blob and counts as old.
classify() {
	hash_of "$path"
	[ "$sum" != "$pre" ] && [ "$sum" != "$post" ] || return 0
	[ "$force" = yes ] && [ "$sum" != none ] || fail 4 third "path $path" "pre $pre" "post $post" "got $sum"
	cp "$path" "$txdir.prepared/$sum" || unwritable "$txdir.prepared"
	mv "$txdir.prepared/$sum" "$state/blobs/$sum"
}

stage_there() {
	hash_of "$path"
	[ "$sum" != "$post" ] || return 0
	hash_of "$stage"
	[ "$sum" = "$post" ] || fail 74 stage-gone "path $stage"
}

# --- steps -------------------------------------------------------------------

# save_pre keeps what a file holds now, by its hash.
save_pre() {
	[ "$pre" != none ] || return 0
	cp "$path" "$txdir/blobs/$pre" || saved_wrong
}

# saved_wrong says why a copy is not what the plan says: either the file is
# not, or it could not be written.
saved_wrong() {
	each_file check_pre
	unwritable "$txdir/blobs"
}

# seal_all unpacks what is new, gives the staged files owner, mode and times of
# those they replace, checks that they compile and writes all of it to the disk,
# in one interpreter start.
seal_all() {
	eval "set -- $seal_files"
	printf '%s' "$content" | "$python" -I -S -B -W ignore -c "$seal" "$txdir" "$state" "$@" || fail 76 not-sealed
}

stage_back() {
	[ "$stage" != - ] || return 0
	rm -f "$stage"
	hash_of "$path"
	[ "$sum" != "$pre" ] || return 0
	hash_of "$state/blobs/$pre"
	[ "$sum" = "$pre" ] || fail 77 no-blob "path $path" "blob $state/blobs/$pre"
	[ -d "${stage%/*}" ] || mkdir -m 700 "${stage%/*}" || unwritable "$folder"
	cp "$state/blobs/$pre" "$stage" || unwritable "$stage"
}

# move puts one staged file in place; a compiled copy of the old content must
# be used neither before nor after.
move() {
	[ "$stage" != - ] || return 0
	drop_cached
	[ ! -e "$stage" ] || mv -f "$stage" "$path" || fail 77 half-done "path $path"
	drop_cached
}

drop_cached() {
	name=${path##*/}
	for cached in "$folder/__pycache__/${name%.py}".*.pyc "${cache_prefix:-/nonexistent}$folder/${name%.py}".*.pyc; do
		[ ! -e "$cached" ] || rm -f "$cached" || :
	done
}

write_ledger() {
	[ ! -e "$txdir.prepared/ledger-$id" ] || mv -f "$txdir.prepared/ledger-$id" "$state/files/$id.json" || fail 77 half-done "path $state/files/$id.json"
	if [ "$patched" = yes ]; then
		claim_count
	else
		rm -f "$state/claims/$key/$id" || fail 77 half-done "path $state/claims/$key/$id"
	fi
}

# claim_count counts the file among those for whose sake its folder is claimed.
claim_count() {
	[ -d "$state/claims/$key" ] || mkdir -p "$state/claims/$key" || fail 77 half-done "path $state/claims/$key"
	true >"$state/claims/$key/$id" || fail 77 half-done "path $state/claims/$key/$id"
}

# save_record keeps what write_ledger will replace: the ledger, empty when
# there is none, and whether the file counts for the claim.
save_record() {
	if [ -e "$state/files/$id.json" ]; then
		cp "$state/files/$id.json" "$txdir/old-$id" || unwritable "$txdir"
	else
		true >"$txdir/old-$id" || unwritable "$txdir"
	fi
	[ ! -e "$state/claims/$key/$id" ] || true >"$txdir/claimed-$id" || unwritable "$txdir"
}

# restore_record undoes write_ledger. The new ledger goes back into the
# transaction first: cut off here, the next command may still go either way.
restore_record() {
	old=$txdir.prepared/old-$id
	[ -e "$old" ] || return 0
	[ -e "$txdir.prepared/ledger-$id" ] || mv -f "$state/files/$id.json" "$txdir.prepared/ledger-$id" || fail 77 half-done "path $state/files/$id.json"
	[ ! -s "$old" ] || cp "$old" "$old.new" || fail 77 half-done "path $old.new"
	[ ! -s "$old" ] || mv -f "$old.new" "$state/files/$id.json" || fail 77 half-done "path $state/files/$id.json"
	if [ -e "$txdir.prepared/claimed-$id" ]; then
		claim_count
	else
		rm -f "$state/claims/$key/$id" || fail 77 half-done "path $state/claims/$key/$id"
	fi
}

# drop_claim gives a folder back once nothing in it is patched.
drop_claim() {
	for open in "$state"/tx/*.prepared; do
		[ ! -e "$open/folder-$key" ] || return 0
	done
	rmdir "$state/claims/$key" 2>/dev/null || :
	[ ! -d "$state/claims/$key" ] || return 0
	claim_reads
	[ "$claim_state" != "$state" ] || rm -f "$folder/.specrun-claim"
}

sweep_up() {
	each_folder sweep_stage
	rm -rf "$txdir.done" "$txdir"
}

sweep_stage() {
	[ ! -d "$folder/.specrun-$tx" ] || rm -rf "$folder/.specrun-$tx"
}

cleanup() {
	[ "$point" != before ] || [ "$mode" != new ] || abandon
	lock_release
}

abandon() {
	txdir=$state/tx/$tx
	[ "$locked" != yes ] || each_folder drop_claim
	sweep_up
}
