package deploy

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"specrun/remote"
)

// scriptError turns what a script said into an error of this package.
func scriptError(host string, res remote.Result, err error) error {
	var exit *remote.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	r := parseReport(res.Stdout)
	f := r.fields
	where := f["path"]
	conflict := func(reason, next string) error {
		return &ConflictError{Host: host, Path: where, Reason: reason, Next: next}
	}
	switch r.kind {
	case "locked":
		pid, _ := strconv.Atoi(f["pid"]) // 0 when it did not say
		return &LockedError{Host: host, PID: pid, User: f["user"], What: f["what"], Reason: f["reason"], Lock: f["lock"]}
	case "drift", "ledger-drift":
		return &DriftError{Host: host, Path: where, Want: f["want"], Got: f["got"]}
	case "open":
		id, _, _ := strings.Cut(path.Base(where), ".")
		return &OpenTransactionError{Host: host, StateDir: path.Dir(path.Dir(where)), IDs: []string{id}, Paths: []string{"files of " + id}}
	case "claimed":
		owner := f["user"]
		if owner == "" {
			owner = "someone"
		}
		return &ClaimedError{Host: host, Folder: where, Owner: owner, StateDir: f["state"], Reason: "is not the one of this plan"}
	case "third":
		return &DriftError{Host: host, Path: where, Verdict: Incomplete, Want: f["pre"] + " or " + f["post"], Got: f["got"]}
	case "disk-full":
		return diskFull(host, f, err)
	case "unwritable":
		if full := diskFull(host, f, err); full.FreeBytes >= 0 && full.FreeBytes < spaceMargin || full.FreeInodes == 0 {
			return full
		}
		detail := f["detail"]
		if detail == "" {
			detail = lastLine(exit.Stderr)
		}
		return conflict("cannot be written: "+detail, "act as its owner, or name another state folder with state_dir: in hosts.yaml")
	case "stage-gone", "stage-differs":
		return conflict("the staged content is gone or not what was sent", "run the command again; when it stays so, look at the disk")
	case "syntax":
		return conflict(fmt.Sprintf("with the patch it does not compile: line %s: %s", f["line"], f["detail"]), "the patch does not fit this release")
	case "owner":
		return conflict(fmt.Sprintf("a new file could not be given to uid %s, gid %s", f["uid"], f["gid"]), "act as its owner")
	case "not-sealed":
		return conflict("the interpreter could not check the new content: "+lastLine(exit.Stderr), "does the interpreter run at all?")
	case "half-done":
		return &CommitError{Host: host, Path: where, Reason: halfDone(r, exit)}
	case "no-blob":
		return conflict("its old content is no longer in "+f["blob"], "reinstall its package")
	}
	return err
}

// diskFull reads what room a script found: free blocks, their size, free
// inodes, and all of them: 0 on a file system that does not count any (btrfs),
// where 0 free ones mean nothing.
func diskFull(host string, f map[string]string, err error) *DiskFullError {
	e := &DiskFullError{Host: host, Path: f["path"], Mount: path.Dir(f["path"]), FreeBytes: -1, FreeInodes: -1, Err: err}
	var blocks, size, inodes, all int64
	if n, _ := fmt.Sscan(f["room"], &blocks, &size, &inodes, &all); n == 4 {
		e.FreeBytes = blocks * size
		if all > 0 {
			e.FreeInodes = inodes
		}
	}
	return e
}
