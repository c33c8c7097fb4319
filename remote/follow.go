package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// followChunk bounds what one poll brings.
const followChunk = 1 << 20

// Cursor is a position in a growing file that survives a disconnect: it knows
// the file, not only its name. The zero value is the beginning of whatever
// file is there.
type Cursor struct {
	Dev      uint64 `json:"dev"`
	Inode    uint64 `json:"inode"`
	Offset   int64  `json:"offset"`
	HeadHash string `json:"head_hash"` // "N:CRC": POSIX cksum of the first N bytes, N up to 1024
	// Gap is set with the first chunk after the file was replaced or cut short:
	// bytes written before that may never have been seen.
	Gap bool `json:"-"`
}

// Follow calls f with what is appended to a file, in order, as whole bytes (a
// chunk may end within a line), and with the cursor behind it, from which a
// later Follow goes on without losing or repeating a byte. It looks every
// poll, waits for a file that is not there, and notices one that was replaced
// or truncated: then it begins at 0 and sets Cursor.Gap. It blocks until ctx
// ends, f fails, or the connection is lost (ErrLost).
func (h *Host) Follow(ctx context.Context, path string, from Cursor, poll time.Duration, f func(chunk []byte, at Cursor) error) error {
	at := from
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: follow %s: %w", h.name, path, context.Cause(ctx))
		}
		chunk, next, err := h.poll(ctx, path, at)
		if err != nil {
			return err
		}
		at = next
		if len(chunk) > 0 {
			if err := f(chunk, at); err != nil {
				return err
			}
			at.Gap = false
		}
		pause := poll
		if len(chunk) == followChunk || at.Gap {
			pause = 0
		}
		tick.Reset(pause)
	}
}

// poll reads what lies behind a cursor. A file that is another than the
// cursor's gives no bytes and a cursor at its beginning.
func (h *Host) poll(ctx context.Context, path string, at Cursor) ([]byte, Cursor, error) {
	headLen, headCRC, _ := strings.Cut(at.HeadHash, ":")
	if headLen == "" {
		headLen = "0"
	}
	number := func(v uint64) string { return strconv.FormatUint(v, 10) }
	res, err := h.Run(ctx, Script{Name: "follow", Text: fileText("follow"), Vars: []Var{
		{"file", path}, {"known", number(at.Dev) + " " + number(at.Inode)},
		{"offset", strconv.FormatInt(at.Offset, 10)}, {"want", strconv.Itoa(followChunk)},
		{"head_length", headLen}, {"head_sum", headCRC}}})
	if err != nil {
		return nil, at, err
	}
	if len(res.Stdout) == 0 {
		return nil, at, nil // not there
	}
	line, data, _ := bytes.Cut(res.Stdout, []byte("\n"))
	w := strings.Fields(string(line))
	if len(w) != 5 {
		return nil, at, &Error{Host: h.name, Op: "follow " + path, Kind: ErrNoise, Err: fmt.Errorf("position %q", line)}
	}
	dev, err1 := strconv.ParseUint(w[1], 10, 64)
	inode, err2 := strconv.ParseUint(w[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, at, &Error{Host: h.name, Op: "follow " + path, Kind: ErrNoise, Err: err}
	}
	next := Cursor{Dev: dev, Inode: inode, HeadHash: w[3] + ":" + w[4]}
	if w[0] == "other" {
		next.Gap = at.Inode != 0 || at.Offset > 0
		next.HeadHash = ""
		return nil, next, nil
	}
	next.Gap = at.Gap
	next.Offset = at.Offset + int64(len(data))
	return data, next, nil
}
