package experiments

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"

	"specrun/experiments/metrics"
	"specrun/remote"
)

// watchedTail is how much of what was written before is looked at, so that there
// is something to show at once.
const watchedTail = 64 << 10

func (v *view) beginAtEnd(ctx context.Context) error {
	_, size, err := v.h.ReadAt(ctx, v.now.Log, make([]byte, 1), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return &NoLogError{Host: v.h.Name(), Path: v.now.Log}
	}
	if err != nil {
		return err
	}
	v.cursor.Offset = max(0, size-watchedTail)
	v.skip = v.cursor.Offset > 0
	v.log = metrics.NewFollowerAt(v.cursor.Offset)
	return nil
}

// take reads the next bytes of the log.
func (v *view) take(chunk []byte, at remote.Cursor) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at.Gap {
		v.w.OnNote(v.now.Log + " was rotated or cut: going on with what is there now")
		v.log, v.part, v.skip = metrics.NewFollower(), nil, false
	}
	v.cursor = at
	if v.skip {
		_, rest, found := bytes.Cut(chunk, []byte("\n"))
		if !found {
			return nil
		}
		v.log, v.skip, chunk = metrics.NewFollowerAt(at.Offset-int64(len(rest))), false, rest
	}
	v.log.Write(chunk)
	v.lines(chunk)
	v.log.Rows()
	v.log.Decode()
	v.log.Speculation()
	fresh := false
	for _, s := range v.log.Samples() {
		for _, m := range WatchedMetrics() {
			if s.Name == m.Name {
				v.now.Values[s.Name], fresh = s.Value, true
			}
		}
	}
	if fresh || len(v.now.Values) == 0 {
		v.show()
	}
	return nil
}

// keptLines is how many of a server's last words are shown.
const keptLines = 8

func (v *view) lines(chunk []byte) {
	v.part = append(v.part, chunk...)
	for {
		line, rest, found := bytes.Cut(v.part, []byte("\n"))
		if !found {
			break
		}
		v.part = rest
		if text := strings.TrimRight(string(line), "\r \t"); text != "" {
			v.last = append(v.last, shorten(text))
		}
	}
	v.part = bytes.Clone(v.part)
	if len(v.part) > 64<<10 {
		v.part = nil // no line
	}
	if over := len(v.last) - keptLines; over > 0 {
		v.last = append([]string(nil), v.last[over:]...)
	}
}

func shorten(line string) string {
	const most = 300
	if text := []rune(line); len(text) > most {
		return string(text[:most-1]) + "…"
	}
	return line
}

// drain reads what the server wrote since the last look.
func (v *view) drain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, size, err := v.h.ReadAt(ctx, v.now.Log, make([]byte, 1), 0)
	if err != nil {
		return err
	}
	if v.cursor.Offset >= size {
		return nil
	}
	enough := errors.New("enough")
	err = v.h.Follow(ctx, v.now.Log, v.cursor, v.w.Every, func(chunk []byte, at remote.Cursor) error {
		if err := v.take(chunk, at); err != nil {
			return err
		}
		if at.Offset >= size || at.Gap {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		return nil
	}
	return err
}
