package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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
}

// Option changes how a store is opened.
type Option func(*options)

type options struct {
	now       func() time.Time
	networkFS func(dir string) bool
	mustExist bool
}

// WithClock sets the clock by which claims expire and imports are stamped.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// MustExist makes Open fail with an error that is fs.ErrNotExist instead of
// creating a file: for commands that only read.
func MustExist() Option { return func(o *options) { o.mustExist = true } }

// Open opens the results file at path, creating it and its folder when absent
// and bringing an older schema up to date. It fails with *SchemaError when a
// newer specrun wrote the file and with *OpenError otherwise, and then leaves
// the file as it was.
func Open(ctx context.Context, path string, opts ...Option) (*Store, error) {
	o := options{now: time.Now, networkFS: onNetworkFS}
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
	if o.mustExist {
		if _, err := os.Stat(abs); err != nil {
			return nil, &OpenError{Path: abs, Err: err}
		}
	}
	dir := filepath.Dir(abs)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &OpenError{Path: abs, Err: err}
	}
	db, err := sql.Open("sqlite", dsn(abs, o.networkFS(dir)))
	if err != nil {
		return nil, &OpenError{Path: abs, Err: err}
	}
	s := &Store{db: db, path: abs, now: o.now}
	if err := s.migrate(ctx); err != nil {
		closeErr := db.Close()
		if se := (*SchemaError)(nil); errors.As(err, &se) {
			return nil, errors.Join(err, closeErr)
		}
		return nil, errors.Join(&OpenError{Path: abs, Err: s.classify(err)}, closeErr)
	}
	return s, nil
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
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

// write runs f in one transaction. Nothing of it remains when f fails.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
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
	return nil
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
