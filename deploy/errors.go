package deploy

import (
	"fmt"
	"strings"

	"specrun/remote"
)

// DiskFullError says that something did not fit on a file system.
type DiskFullError = remote.DiskFullError

// DriftError says that a file is not what the plan or the ledger takes it for,
// so overwriting it would lose someone's content. Nothing was changed.
type DriftError struct {
	Host, Path string
	Verdict    Verdict // of the file when the plan was made; "" when it changed since
	Want, Got  string  // SHA-256; "none" for no file
}

func (e *DriftError) Error() string {
	switch e.Verdict {
	case "":
		return fmt.Sprintf("%s: %s changed since the plan was made: %s instead of %s", e.Host, e.Path, short(e.Got), short(e.Want))
	case Missing:
		return fmt.Sprintf("%s: %s is missing, though the ledger says it is patched", e.Host, e.Path)
	case Edited:
		return fmt.Sprintf("%s: %s was edited after specrun patched it: %s instead of %s", e.Host, e.Path, short(e.Got), short(e.Want))
	case PreEdited:
		return fmt.Sprintf("%s: %s has uncommitted changes", e.Host, e.Path)
	}
	return fmt.Sprintf("%s: %s is %s: it holds changes that no ledger of specrun accounts for", e.Host, e.Path, e.Verdict)
}

// Hint says what to do next.
func (e *DriftError) Hint() string {
	switch e.Verdict {
	case "":
		return "run the command again: it plans from what is there now"
	case PreEdited:
		return "commit them, or use --allow-dirty"
	case Missing:
		return "bring it back (is its file system mounted?) or reinstall its package; rollback --force forgets its patches"
	}
	return "--force overwrites it and keeps its content in the state folder; otherwise put the file right or reinstall its package"
}

// ConflictError says why a change cannot be made on a file or folder as it is.
// Nothing was changed; trying again cannot help.
type ConflictError struct {
	Host, Path string
	Reason     string
	Next       string
	Err        error // the patch's own conflict, nil when Reason says it all
}

func (e *ConflictError) Error() string {
	msg := e.Host + ": " + e.Path
	if e.Reason != "" {
		msg += ": " + e.Reason
	}
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg
}

// Hint says what to do next.
func (e *ConflictError) Hint() string {
	if e.Next == "" && e.Err != nil {
		if h, ok := e.Err.(interface{ Hint() string }); ok {
			return h.Hint()
		}
	}
	return e.Next
}

func (e *ConflictError) Unwrap() error { return e.Err }

// ClaimedError says that another user's state folder keeps the ledger of a
// folder, and that it cannot be used from this account.
type ClaimedError struct {
	Host, Folder    string
	Owner, StateDir string
	Reason          string
}

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("%s: %s is patched by %s, whose ledger in %s %s", e.Host, e.Folder, e.Owner, e.StateDir, e.Reason)
}

// Hint says what to do next.
func (e *ClaimedError) Hint() string {
	return fmt.Sprintf("have %s run \"specrun rollback\", or give this account write access to %s", e.Owner, e.StateDir)
}

// LockedError says that another specrun script is changing the same folder.
type LockedError struct {
	Host   string
	PID    int    // on the host; 0 when the holder has not named itself yet
	User   string // who runs it
	What   string // the folder that is locked
	Reason string // running, child, other-host, hidden, unowned, busy, cannot-end
	Lock   string // path of the lock
}

func (e *LockedError) Error() string {
	switch e.Reason {
	case "unowned", "busy":
		return fmt.Sprintf("%s: %s is just being locked by another specrun command", e.Host, e.What)
	case "other-host":
		return fmt.Sprintf("%s: %s is locked by pid %d of user %s on another machine or in another container", e.Host, e.What, e.PID, e.User)
	case "cannot-end":
		return fmt.Sprintf("%s: %s is locked by pid %d of user %s, which could not be ended", e.Host, e.What, e.PID, e.User)
	}
	return fmt.Sprintf("%s: %s is locked by pid %d of user %s", e.Host, e.What, e.PID, e.User)
}

// Hint says what to do next.
func (e *LockedError) Hint() string {
	switch e.Reason {
	case "unowned", "busy":
		return "try again in a few seconds"
	case "other-host":
		return "make sure that nothing runs there any more, then: specrun lock release"
	case "cannot-end":
		return fmt.Sprintf("have user %s or root end it", e.User)
	}
	return fmt.Sprintf("wait for it, or look at it with \"ps -fp %d\"; --take ends it first", e.PID)
}

// SweepError says that a sweep is going on that needs the patch set as it is.
type SweepError struct{ Host, Sweep string }

func (e *SweepError) Error() string {
	return fmt.Sprintf("%s: %s is going on and needs the files as they are", e.Host, e.Sweep)
}

// Hint says what to do next.
func (e *SweepError) Hint() string {
	return "wait for it or interrupt it; --take changes the files under it, and its end puts back what it found"
}

// NoInterpreterError says that the interpreter is not named or does not run.
type NoInterpreterError struct {
	Host, Python string
	Engine       string // that the interpreter is to have; "" any
	Detail       string
	Candidates   []Candidate // interpreters of running engine processes
}

// Candidate is the interpreter of a running engine process.
type Candidate struct {
	PID    string
	Python string
	Engine string // a word of its command line: sglang
}

func (e *NoInterpreterError) Error() string {
	msg := fmt.Sprintf("%s: no Python interpreter: %s", e.Host, e.Detail)
	for i, c := range e.Candidates {
		if i == 0 {
			msg += "; running engine processes use "
		} else {
			msg += ", "
		}
		msg += fmt.Sprintf("%s (%s, pid %s)", c.Python, c.Engine, c.PID)
	}
	return msg
}

// Hint says what to do next.
func (e *NoInterpreterError) Hint() string {
	for _, c := range e.Candidates {
		if e.Engine == "" || c.Engine == e.Engine {
			return "use the one that runs your server: --python " + c.Python
		}
	}
	if len(e.Candidates) > 0 {
		return "name the interpreter that has " + e.Engine + ": --python, or python: in hosts.yaml; those that run there are of another engine"
	}
	return "name the interpreter that runs the server: --python, or python: in hosts.yaml"
}

// NoEngineError says that no file of a patch can be found by the interpreter.
type NoEngineError struct {
	Host, Python string
	Patch        string
	Missing      []MissingTarget
}

// MissingTarget is a target that was not found, and where it was looked for.
type MissingTarget struct {
	Target   string
	Searched []string
	Error    string // what a broken finder said
}

func (e *NoEngineError) Error() string {
	msg := fmt.Sprintf("%s: %s: %s finds none of its files", e.Host, e.Patch, e.Python)
	for _, m := range e.Missing {
		msg += fmt.Sprintf("; %s: looked in %s", m.Target, strings.Join(m.Searched, ", "))
		if m.Error != "" {
			msg += " (" + m.Error + ")"
		}
	}
	return msg
}

// Hint says what to do next.
func (e *NoEngineError) Hint() string {
	return "is it the interpreter that runs the server, with the same cwd and env? see --python, cwd: and env: in hosts.yaml"
}

// OpenTransactionError says that an earlier command was cut off half way, so
// nothing can be planned before it is finished or undone.
type OpenTransactionError struct {
	Host, StateDir string
	IDs            []string
	Paths          []string
}

func (e *OpenTransactionError) Error() string {
	return fmt.Sprintf("%s: an earlier command was cut off while it changed %s", e.Host, strings.Join(e.Paths, ", "))
}

// Hint says what to do next.
func (e *OpenTransactionError) Hint() string {
	return "any apply or rollback without --dry-run finishes or undoes it first"
}

// LedgerError says that a ledger or transaction file cannot be understood.
type LedgerError struct {
	Host, Path string
	Err        error
}

func (e *LedgerError) Error() string {
	return fmt.Sprintf("%s: read ledger %s: %v", e.Host, e.Path, e.Err)
}

// Hint says what to do next.
func (e *LedgerError) Hint() string {
	return "a newer specrun may have written it; otherwise reinstall the package and move the file away"
}

func (e *LedgerError) Unwrap() error { return e.Err }

// CommitError says that a change was begun and could not be finished. Undone
// tells whether every file has its old content again.
type CommitError struct {
	Host, Path string
	Reason     string
	Undone     bool
}

func (e *CommitError) Error() string {
	end := "the change is open"
	if e.Undone {
		end = "all files have their old content again"
	}
	return fmt.Sprintf("%s: %s: %s; %s", e.Host, e.Path, e.Reason, end)
}

// Hint says what to do next.
func (e *CommitError) Hint() string {
	if e.Undone {
		return "look at the file's mount and attributes (findmnt -T, lsattr), then try again"
	}
	return `see "specrun status"; the next apply or rollback finishes or undoes it`
}

// RollbackFailedError says that a change could neither be finished nor undone:
// someone has to act by hand.
type RollbackFailedError struct {
	Host, Path string
	StateDir   string
	Err        error // why undoing failed
}

func (e *RollbackFailedError) Error() string {
	return fmt.Sprintf("%s: %s is neither old nor new: %v", e.Host, e.Path, e.Err)
}

// Hint says what to do next.
func (e *RollbackFailedError) Hint() string {
	return "remove the cause and run the command again; every content it replaced is kept in " + e.StateDir + "/blobs by its SHA-256"
}

func (e *RollbackFailedError) Unwrap() error { return e.Err }

func short(sum string) string { return sum[:min(12, len(sum))] }
