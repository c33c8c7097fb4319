package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// LostError says that the results file was deleted or replaced while it was
// open: what is written to it has no name any more.
type LostError struct {
	Path string
	// Saved says that a copy with all that was recorded now stands at Path.
	Saved bool
	Err   error // why no copy could be saved
}

func (e *LostError) Error() string {
	if e.Saved {
		return fmt.Sprintf("store %s was deleted while it was open; a copy with all that was recorded now stands in its place", e.Path)
	}
	return fmt.Sprintf("store %s was deleted or replaced while it was open, and what this command recorded could not be saved: %v", e.Path, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

// Hint says what to do next.
func (e *LostError) Hint() string {
	if e.Saved {
		return `"specrun resume" goes on from the copy; nothing may delete or replace the store while a command runs`
	}
	return "put the file back when it was moved; else the sweep has to be begun anew"
}

// named fails with *LostError when the path no longer names the open file. What
// SQLite writes then goes to a file that nobody can open again. The first time
// it puts a copy where nothing is.
func (s *Store) named(ctx context.Context) error {
	now, err := os.Stat(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // it cannot be told; SQLite says what is wrong
	}
	if err == nil && os.SameFile(now, s.file) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = &LostError{Path: s.path, Err: s.save(context.WithoutCancel(ctx))}
		s.lost.Saved = s.lost.Err == nil
	}
	return s.lost
}

// save writes a copy of the open file to its path, and never over another file.
func (s *Store) save(ctx context.Context) (err error) {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".saving-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name())) }()
	// Only a connection that was opened before still has the file.
	if _, err := s.anchor.ExecContext(ctx, `VACUUM INTO $1`, tmp.Name()); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if _, err := os.Lstat(s.path); err == nil {
		return fmt.Errorf("%s: %w", s.path, fs.ErrExist)
	}
	// SQLite would take the old file's log for the copy's.
	for _, rest := range []string{"-wal", "-shm"} {
		if err := os.Remove(s.path + rest); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Link(tmp.Name(), s.path); err != nil { // fails when another file is there by now
		return err
	}
	return syncDir(dir)
}
