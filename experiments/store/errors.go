package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"modernc.org/sqlite"
)

// ErrNotFound says that the store has no such sweep, launch or run.
var ErrNotFound = errors.New("not found in the store")

// ErrExists says that a sweep of that id was begun before.
var ErrExists = errors.New("already in the store")

// ErrEventRecorded says that the launch's journal has an event of that number:
// another controller writes to the same launch, or an event was recorded twice.
var ErrEventRecorded = errors.New("an event of that number is already recorded")

// ErrSlotFilled says that the slot has a run that is done or failed, or that
// the attempt is taken. Nothing of the change was stored.
var ErrSlotFilled = errors.New("the slot has such a run already")

// NotFoundError names what was looked for. It is ErrNotFound.
type NotFoundError struct {
	What string // "run", "sweep", ...
	ID   string // as asked for; "" when any would have done
}

func (e *NotFoundError) Error() string {
	if e.ID == "" {
		return fmt.Sprintf("no %s in the store", e.What)
	}
	return fmt.Sprintf("no %s %q in the store", e.What, e.ID)
}

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// Hint says what to do next.
func (e *NotFoundError) Hint() string {
	return `"specrun list" shows what is stored; --store names another store`
}

// AmbiguousError says that a prefix fits several ids.
type AmbiguousError struct {
	What   string
	Prefix string
	IDs    []string // the first few that fit
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s %q is ambiguous: %s", e.What, e.Prefix, strings.Join(e.IDs, ", "))
}

// Hint says what to do next.
func (e *AmbiguousError) Hint() string { return "give more characters of the id" }

// ClaimedError says that another controller, believed alive, works on the sweep.
type ClaimedError struct {
	SweepID    string
	Controller string
	ExpiresUs  int64
}

func (e *ClaimedError) Error() string {
	if e.ExpiresUs == Forever {
		return fmt.Sprintf("sweep %s is being worked on by %s", e.SweepID, e.Controller)
	}
	return fmt.Sprintf("sweep %s is being worked on by %s (its claim expires %s)",
		e.SweepID, e.Controller, time.UnixMicro(e.ExpiresUs).UTC().Format(time.RFC3339))
}

// Holder says who has the claim and until when, in microseconds UTC.
func (e *ClaimedError) Holder() (controller string, expiresUs int64) {
	return e.Controller, e.ExpiresUs
}

// Hint says what to do next.
func (e *ClaimedError) Hint() string {
	return "wait for it to end, or until its claim expires when it is known to be dead"
}

// StateError says that a change would take a run or launch out of a state that
// is final.
type StateError struct {
	What     string // "run" or "launch"
	ID       string
	From, To string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("%s %s is %s and cannot become %s", e.What, e.ID, e.From, e.To)
}

// SchemaError says that a newer specrun wrote the store.
type SchemaError struct {
	Path        string
	Have, Known int64 // schema versions: of the file, of this program
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("store %s has schema %d, this specrun knows schemas up to %d", e.Path, e.Have, e.Known)
}

// Hint says what to do next.
func (e *SchemaError) Hint() string {
	return "use the newer specrun that wrote it, or another store with --store"
}

// OpenError says that a store could not be opened. Nothing was changed.
type OpenError struct {
	Path string
	Err  error
}

func (e *OpenError) Error() string { return fmt.Sprintf("open store %s: %v", e.Path, e.Err) }

func (e *OpenError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *OpenError) Hint() string {
	if errors.Is(e.Err, fs.ErrNotExist) {
		return "nothing was stored there yet: specrun run, sweep or import does; --store names another store"
	}
	if code(e.Err) == sqliteNotADB {
		return "the file is no SQLite database: move it away, or name another store with --store"
	}
	return "check that the folder can be written, or name another store with --store"
}

// DiskFullError says that the disk of the store is full. The transaction or
// file in progress left no trace; what was stored before is whole.
type DiskFullError struct {
	Path string
	Err  error
}

func (e *DiskFullError) Error() string { return fmt.Sprintf("store %s: disk full: %v", e.Path, e.Err) }

func (e *DiskFullError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *DiskFullError) Hint() string {
	return `free some space; "specrun resume" then continues the sweep`
}

// HashError says that the content of an artifact is not what its record says.
type HashError struct {
	Name      string
	Want, Got string // lower-case hex SHA-256
}

func (e *HashError) Error() string {
	return fmt.Sprintf("artifact %s: content has SHA-256 %s, expected %s", e.Name, e.Got, e.Want)
}

// Result codes of SQLite that callers can act on (sqlite.org/rescode.html).
const (
	sqliteFull             = 13
	sqliteShmSize          = 4874 // no room for what connections share
	sqliteNotADB           = 26
	sqliteConstraintPK     = 1555
	sqliteConstraintUnique = 2067
)

// code gives SQLite's extended result code, 0 for other errors.
func code(err error) int {
	var se *sqlite.Error
	if errors.As(err, &se) {
		return se.Code()
	}
	return 0
}

func isUnique(err error) bool {
	c := code(err)
	return c == sqliteConstraintPK || c == sqliteConstraintUnique
}

// classify turns a full disk into its type and leaves other errors alone.
func (s *Store) classify(err error) error {
	if err == nil {
		return nil
	}
	if c := code(err); c == sqliteFull || c == sqliteShmSize || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &DiskFullError{Path: s.path, Err: err}
	}
	return err
}
