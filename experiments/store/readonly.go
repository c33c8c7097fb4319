package store

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReadOnlyError says that the store was opened for reading, since its file or
// its folder cannot be written.
type ReadOnlyError struct{ Path string }

func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("store %s cannot be written: the file, its folder or its mount is read-only", e.Path)
}

// Hint says what to do next.
func (e *ReadOnlyError) Hint() string {
	return "copy it to where it can be written and name the copy with --store"
}

// writable says whether SQLite could write the file at path, and what it keeps
// beside it. One that is absent is for Open to find.
func writable(path string) bool {
	err := unix.Access(path, unix.W_OK)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return true
	}
	return err == nil && unix.Access(filepath.Dir(path), unix.W_OK) == nil
}

// readOnlyDSN names a file of which nothing can be written. SQLite then needs to
// be told that nobody else writes it either; when a log with changes lies beside
// it somebody may, and the changes count.
func readOnlyDSN(abs string) (string, error) {
	q := url.Values{}
	q.Add("mode", "ro")
	wal, err := os.Stat(abs + "-wal")
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && wal.Size() == 0:
		q.Add("immutable", "1")
	case err != nil:
		return "", err
	default:
		q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()))
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: q.Encode()}
	return u.String(), nil
}
