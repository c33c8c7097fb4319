package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// busyTimeout is how long a transaction waits for another process's.
const busyTimeout = 10 * time.Second

// Store is one open results file. It is safe for concurrent use.
type Store struct {
	db   *sql.DB
	path string // absolute
	now  func() time.Time

	file   os.FileInfo // which file is open
	anchor *sql.Conn   // has it open even when the path names it no more
	mu     sync.Mutex
	lost   *LostError // guarded by mu

	refuse error // why nothing can be written; nil: it can
}

// Option changes how a store is opened.
type Option func(*options)

type options struct {
	now       func() time.Time
	networkFS func(dir string) bool
	writable  func(path string) bool
	mustExist bool
}

// WithClock sets the clock by which claims expire and imports are stamped.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// MustExist makes Open fail with an error that is fs.ErrNotExist instead of
// creating a file: for commands that only read. A file that cannot be written,
// or is on a read-only mount, is opened for reading then; writing to it is
// *ReadOnlyError. So is one whose disk has no room for what SQLite keeps beside
// it, and there writing is *DiskFullError.
func MustExist() Option { return func(o *options) { o.mustExist = true } }

// Open opens the results file at path, creating it and its folder when absent
// and bringing an older schema up to date. It fails with *SchemaError when a
// newer specrun wrote the file and with *OpenError otherwise, and then leaves
// the file as it was.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	o := options{now: time.Now, networkFS: onNetworkFS, writable: writable}
	for _, opt := range opts {
		opt(&o)
	}
	if strings.Contains(path, "://") {
		scheme, _, _ := strings.Cut(path, "://")
		return nil, &OpenError{Path: scheme + "://...", Err: errors.New("only SQLite files are supported so far: give a path")}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &OpenError{Path: path, Err: err}
	}
	dir := filepath.Dir(abs)
	name := dsn(abs, o.networkFS(dir))
	var refuse error
	switch {
	case o.mustExist && !o.writable(abs):
		refuse = &ReadOnlyError{Path: abs}
		name, err = readOnlyDSN(abs)
	case o.mustExist:
		_, err = os.Stat(abs)
	default:
		err = create(abs)
	}
	if err != nil {
		return nil, &OpenError{Path: abs, Err: err}
	}
	s, err := start(ctx, abs, name, o, refuse)
	if full := (*DiskFullError)(nil); o.mustExist && errors.As(err, &full) {
		name, dsnErr := readOnlyDSN(abs)
		if dsnErr != nil {
			return nil, errors.Join(err, dsnErr)
		}
		return start(ctx, abs, name, o, full)
	}
	return s, err
}

// start opens the file that is at abs as the DSN says.
func start(ctx context.Context, abs, dsn string, o options, refuse error) (*Store, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, &OpenError{Path: abs, Err: err}
	}
	s := &Store{db: db, path: abs, now: o.now, refuse: refuse}
	if err := s.migrate(ctx); err != nil {
		closeErr := db.Close()
		if se := (*SchemaError)(nil); errors.As(err, &se) {
			return nil, errors.Join(err, closeErr)
		}
		return nil, errors.Join(&OpenError{Path: abs, Err: s.classify(err)}, closeErr)
	}
	if s.file, err = os.Stat(abs); err == nil {
		s.anchor, err = db.Conn(ctx)
	}
	if err != nil {
		return nil, errors.Join(&OpenError{Path: abs, Err: s.classify(err)}, db.Close())
	}
	return s, nil
}

// create makes an empty file where none is, and its folder.
func create(abs string) error {
	if err := os.MkdirAll(filepath.Dir(abs), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(abs, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// dsn names the file as an URI, so that any character may stand in a path.
// WAL needs memory shared between processes, which network file systems do not
// give: there the slower rollback journal is right.
func dsn(abs string, network bool) string {
	journal := "WAL"
	if network {
		journal = "DELETE"
	}
	q := url.Values{}
	// Never by SQLite: a connection opened later would make an empty file of a
	// store that was deleted.
	q.Add("mode", "rw")
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	q.Add("_pragma", "foreign_keys(1)")
	q.Add("_pragma", "journal_mode("+journal+")")
	// An intent must survive a power cut, as NORMAL does not promise under WAL.
	q.Add("_pragma", "synchronous(FULL)")
	q.Add("_txlock", "immediate")
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: q.Encode()}
	return u.String()
}

// Path is the absolute path of the results file.
func (s *Store) Path() string { return s.path }

// Close waits for running transactions and closes the file.
func (s *Store) Close() error {
	anchorErr := s.anchor.Close()
	if errors.Is(anchorErr, sql.ErrConnDone) {
		anchorErr = nil // closed before: may be repeated
	}
	if err := errors.Join(anchorErr, s.db.Close()); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

// write runs f in one transaction. Nothing of it remains when f fails. It fails
// with *LostError when the file has lost its name, also just now.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	if s.refuse != nil {
		return s.refuse
	}
	if err := s.named(ctx); err != nil {
		return err
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return s.classify(fmt.Errorf("begin transaction in %s: %w", s.path, err))
	}
	if err := f(tx); err != nil {
		// The cause matters; a rollback fails only when the connection is gone,
		// and then SQLite drops the transaction with it.
		_ = tx.Rollback()
		return s.classify(err)
	}
	if err := tx.Commit(); err != nil {
		return s.classify(fmt.Errorf("commit to %s: %w", s.path, err))
	}
	return s.named(ctx)
}

// read runs f on one consistent state of the store, without blocking writers.
func (s *Store) read(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return f(tx)
}
