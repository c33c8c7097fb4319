package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// headBytes of a log tell it from another one: its first lines have stamps.
const headBytes = 1024

// logMark tells the log that a server writes to from another one at the same
// place: one that was cut, or put there when ours was moved away.
type logMark struct {
	File  string `json:"file,omitempty"` // device and inode; "" unknown
	Bytes int    `json:"bytes"`          // of its beginning,
	Head  string `json:"head"`           // and their SHA-256
}

func headOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// readMark marks the log as it is now.
func (a *attempt) readMark(ctx context.Context, file string) (logMark, error) {
	buf := make([]byte, headBytes)
	n, _, err := a.x.host.Server.ReadAt(ctx, a.state.LogPath, buf, 0)
	if err != nil && err != io.EOF {
		return logMark{}, err
	}
	return logMark{File: file, Bytes: n, Head: headOf(buf[:n])}, nil
}

// logChangedError says that a log is not the one that byte cursors belong to.
type logChangedError struct{ path, what string }

func (e *logChangedError) Error() string {
	return fmt.Sprintf("the server's log %s %s while it was measured: its lines of this benchmark are lost", e.path, e.what)
}

// sameLog is a *logChangedError when the log is another one than a.mark says, or
// shorter than upTo; a.mark is of the new one then. file is what is there now.
func (a *attempt) sameLog(ctx context.Context, file string, upTo int64) error {
	was := a.mark
	if was.Head == "" { // never marked
		return nil
	}
	buf := make([]byte, max(was.Bytes, 1))
	n, size, err := a.x.host.Server.ReadAt(ctx, a.state.LogPath, buf, 0)
	if err != nil && err != io.EOF {
		return nil // reading the window says more
	}
	what := ""
	switch {
	case was.File != "" && file != "" && file != "-" && file != was.File:
		what = "was replaced by another file"
	case size < upTo || n < was.Bytes:
		what = fmt.Sprintf("was cut to %d bytes", size)
	case headOf(buf[:was.Bytes]) != was.Head:
		what = "was cut and written anew"
	default:
		return nil
	}
	if a.mark, err = a.readMark(ctx, file); err != nil {
		a.mark = logMark{} // it is going away under us: the next window says so
	}
	return &logChangedError{a.state.LogPath, what}
}
