package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
)

// ReadAt reads up to len(p) bytes at off, for following a growing file: at its
// end n is 0 and err nil. size is the file's size in bytes at that moment; a
// size below off says that it was cut. The file stays open between calls, so a
// call costs one round trip; a file replaced under the same name is noticed
// when the old one has nothing more to give. Without SFTP each call is a script.
func (h *Host) ReadAt(ctx context.Context, path string, p []byte, off int64) (n int, size int64, err error) {
	ops, done, err := h.driver.files(ctx)
	if errors.Is(err, ErrNoSFTP) {
		return h.readAtByScript(ctx, path, p, off)
	}
	if err != nil {
		return 0, 0, err
	}
	type answer struct {
		data []byte
		size int64
	}
	// Into a buffer of its own: p is the caller's again once ctx has ended.
	a, err := await(ctx, h, func() (answer, error) {
		defer done()
		buf := make([]byte, len(p))
		n, size, err := h.handles.readAt(ops, path, buf, off)
		return answer{buf[:n], size}, err
	})
	if err != nil {
		return 0, 0, h.explain(ctx, "read", path, 0, err)
	}
	return copy(p, a.data), a.size, nil
}

func (h *Host) readAtByScript(ctx context.Context, path string, p []byte, off int64) (int, int64, error) {
	s := Script{Name: "readat", Text: fileText("readat"), Vars: []Var{{"file", path},
		{"skip", strconv.FormatInt(off+1, 10)}, {"want", strconv.Itoa(len(p))}}}
	res, err := h.Run(ctx, s)
	if err != nil {
		return 0, 0, h.explain(ctx, "read", path, 0, err)
	}
	line, data, _ := bytes.Cut(res.Stdout, []byte("\n"))
	size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return 0, 0, &Error{Host: h.name, Op: "read " + path, Kind: ErrNoise, Err: fmt.Errorf("size %q", line)}
	}
	n := copy(p, data)
	return n, max(size, sizeSeen(n, off)), nil
}

// keptHandles bounds the files that ReadAt keeps open on the host.
const keptHandles = 16

// handles are the open files of ReadAt, by path. One call at a time uses a
// handle; the zero value is ready.
type handles struct {
	mu   sync.Mutex
	open []*handle // least recently used first
}

type handle struct {
	mu   sync.Mutex
	ops  fileOps // the session it belongs to: another means it is void
	path string
	f    file
}

func (hs *handles) take(ops fileOps, path string) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for i, h := range hs.open {
		if h.path == path && h.ops == ops {
			hs.open = append(append(hs.open[:i:i], hs.open[i+1:]...), h)
			return h
		}
	}
	h := &handle{ops: ops, path: path}
	hs.open = append(hs.open, h)
	if len(hs.open) > keptHandles {
		old := hs.open[0]
		hs.open = hs.open[1:]
		go old.close()
	}
	return h
}

func (hs *handles) closeAll() {
	hs.mu.Lock()
	all := hs.open
	hs.open = nil
	hs.mu.Unlock()
	for _, h := range all {
		// Not waiting for a read in progress: the driver's end ends it.
		if h.mu.TryLock() {
			h.drop()
			h.mu.Unlock()
		}
	}
}

func (h *handle) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop()
}

func (h *handle) drop() {
	if h.f != nil {
		h.f.Close() // reading only: nothing is lost by an error here
		h.f = nil
	}
}

func (hs *handles) readAt(ops fileOps, path string, p []byte, off int64) (int, int64, error) {
	h := hs.take(ops, path)
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.f != nil
	n, size, named, err := h.read(p, off)
	// The name leads elsewhere by now when the open file is at its end and the
	// name's is not, or when the name's file is the shorter one.
	if kept && (err != nil || named < size || n == 0 && named != size) {
		h.drop()
		n, size, _, err = h.read(p, off)
	}
	if err != nil {
		h.drop()
	}
	return n, size, err
}

// read asks for bytes, size and the name's size at once: one round trip.
func (h *handle) read(p []byte, off int64) (n int, size, named int64, err error) {
	if h.f == nil {
		if h.f, err = h.ops.open(h.path); err != nil {
			h.f = nil
			return 0, 0, 0, err
		}
	}
	type stat struct {
		info fs.FileInfo
		err  error
	}
	byName, byHandle := make(chan stat, 1), make(chan stat, 1)
	go func() { i, err := h.ops.stat(h.path); byName <- stat{i, err} }()
	go func() { i, err := h.f.Stat(); byHandle <- stat{i, err} }()
	n, err = h.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	a, b := <-byName, <-byHandle
	if err = errors.Join(err, a.err, b.err); err != nil {
		return n, 0, 0, err
	}
	// The answers may be moments apart in a growing file.
	return n, max(b.info.Size(), sizeSeen(n, off)), a.info.Size(), nil
}

func sizeSeen(n int, off int64) int64 {
	if n == 0 {
		return 0
	}
	return off + int64(n)
}
