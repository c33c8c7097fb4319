package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// transferLimit bounds one transfer made by a script, and the hashing of a
// file on the host. SFTP transfers end with their context or the connection.
const transferLimit = time.Hour

// writeAtOnce is the size up to which a file goes as one concurrent write.
const writeAtOnce = 4 << 20

// File is a new file to be written on the host. Data or Open gives its
// content; with Open, Size is its length in bytes (-1 when not known).
type File struct {
	Path string
	Data []byte
	Open func() (io.ReadCloser, error)
	Size int64
	Mode fs.FileMode // permission bits; 0 is 0600
	Sync bool        // make it durable; where the server offers no fsync it is only written
}

func (f File) reader() (io.ReadCloser, error) {
	if f.Open != nil {
		return f.Open()
	}
	return io.NopCloser(bytes.NewReader(f.Data)), nil
}

func (f File) length() int64 {
	if f.Open != nil {
		return f.Size
	}
	return int64(len(f.Data))
}

func (f File) mode() fs.FileMode {
	if f.Mode.Perm() == 0 {
		return 0o600
	}
	return f.Mode.Perm()
}

// Put writes a new file: it fails when the path exists (errors.Is
// fs.ErrExist), and the file has its mode before its first byte. What it wrote
// is removed again on failure or when ctx ends. Without SFTP the file goes
// through a script. The error is a *DiskFullError or *FileError when the host
// can say why. Success means that the host took every byte, not that the disk
// holds them: see PutVerified.
func (h *Host) Put(ctx context.Context, f File) error {
	_, err := h.put(ctx, f)
	return err
}

// PutVerified is Put, and then the host's own SHA-256 of the file is compared
// with that of what was sent; on a difference (ErrMismatch) the file is
// removed. It costs two round trips more than Put, which a caller can save
// whose next script checks the hash anyway. The hash is in hex.
func (h *Host) PutVerified(ctx context.Context, f File) (string, error) {
	sent, err := h.put(ctx, f)
	if err != nil {
		return "", err
	}
	got, err := h.hash(ctx, f.Path, sent.size)
	if err == nil && (got.sum != sent.sum || got.size != sent.size) {
		err = h.mismatch("put "+f.Path, sent, got)
	}
	if err != nil {
		return "", errors.Join(err, h.discard(ctx, f.Path))
	}
	return sent.sum, nil
}

// content is what a file's bytes come to.
type content struct {
	size int64
	sum  string // SHA-256 in hex
}

func (h *Host) mismatch(op string, want, got content) error {
	return &Error{Host: h.name, Op: op, Kind: ErrMismatch,
		Err: fmt.Errorf("sent %d bytes %s, other side has %d bytes %s", want.size, short(want.sum), got.size, short(got.sum))}
}

func short(sum string) string { return sum[:min(12, len(sum))] }

func (h *Host) put(ctx context.Context, f File) (content, error) {
	ops, done, err := h.driver.files(ctx)
	if errors.Is(err, ErrNoSFTP) {
		return h.putByScript(ctx, f)
	}
	if err != nil {
		return content{}, err
	}
	src, err := f.reader()
	if err != nil {
		done()
		return content{}, fmt.Errorf("%s: put %s: open the source: %w", h.name, f.Path, err)
	}
	sum := sha256.New()
	n, err := await(ctx, h, func() (int64, error) {
		defer done()
		defer src.Close()
		return putFile(ctx, ops, f, src, sum)
	})
	if err == nil && f.length() >= 0 && n != f.length() {
		err = errors.Join(fmt.Errorf("%w: source gave %d bytes instead of %d", ErrMismatch, n, f.length()), h.discard(ctx, f.Path))
	}
	if err != nil {
		return content{}, h.explain(ctx, "put", f.Path, f.length(), err)
	}
	return content{n, hex.EncodeToString(sum.Sum(nil))}, nil
}

// putFile writes one file and removes it again when that fails.
func putFile(ctx context.Context, ops fileOps, f File, src io.Reader, sum hash.Hash) (n int64, err error) {
	dst, err := ops.create(f.Path, f.mode())
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			dst.Close()
			err = errors.Join(err, ops.remove(f.Path))
		}
	}()
	src = &contextReader{ctx, io.TeeReader(src, sum)}
	if n, err = copyTo(dst, src, f.length()); err != nil {
		return n, err
	}
	if f.Sync && ops.canSync() {
		if err = dst.Sync(); err != nil {
			return n, fmt.Errorf("sync: %w", err)
		}
	}
	// Some servers report a write that failed late only here.
	return n, dst.Close()
}

// copyTo writes all of src: in one concurrent write when it is small, else in
// a window of requests, since one request per round trip is 32 KiB of it.
func copyTo(dst file, src io.Reader, size int64) (int64, error) {
	if r, ok := dst.(interface {
		ReadFromWithConcurrency(io.Reader, int) (int64, error)
	}); ok && (size < 0 || size > writeAtOnce) {
		return r.ReadFromWithConcurrency(src, 64)
	}
	var n int64
	buf := make([]byte, min(max(size, 1), writeAtOnce))
	if size < 0 {
		buf = make([]byte, writeAtOnce)
	}
	for {
		k, err := io.ReadFull(src, buf)
		if k > 0 {
			if _, err := dst.WriteAt(buf[:k], n); err != nil {
				return n, err
			}
			n += int64(k)
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return n, nil
		default:
			return n, fmt.Errorf("read the source: %w", err)
		}
	}
}

// Get copies a file from the host to w and checks it against the host's own
// SHA-256 of as many bytes (so a log may grow meanwhile). The hash is in hex.
// On an error what w got must be thrown away.
func (h *Host) Get(ctx context.Context, path string, w io.Writer) (n int64, sum string, err error) {
	got, err := h.fetch(ctx, path, w)
	if err != nil {
		return got.size, "", h.explain(ctx, "get", path, 0, err)
	}
	want, err := h.hash(ctx, path, got.size)
	if err != nil {
		return got.size, "", err
	}
	if want.size < got.size || want.sum != got.sum {
		return got.size, "", h.mismatch("get "+path, want, got)
	}
	return got.size, got.sum, nil
}

// fetch is Get without the check.
func (h *Host) fetch(ctx context.Context, path string, w io.Writer) (content, error) {
	sum := sha256.New()
	both := &contextWriter{ctx: ctx, w: io.MultiWriter(sum, w)}
	ops, done, err := h.driver.files(ctx)
	if errors.Is(err, ErrNoSFTP) {
		s := Script{Name: "get", Text: fileText("get"), Vars: []Var{{"file", path}}, Timeout: transferLimit}
		_, err = h.run(ctx, s, nil, both)
		return content{both.n, hex.EncodeToString(sum.Sum(nil))}, err
	}
	if err != nil {
		return content{}, err
	}
	_, err = await(ctx, h, func() (int64, error) {
		defer done()
		f, err := ops.open(path)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		if wt, ok := f.(io.WriterTo); ok {
			_, err = wt.WriteTo(both)
		} else {
			_, err = io.Copy(both, f)
		}
		// A server that answers with less than was asked for can end a
		// transfer early, without an error.
		if err == nil && both.n < info.Size() {
			err = fmt.Errorf("%w: %d bytes of %d came", ErrMismatch, both.n, info.Size())
		}
		return both.n, err
	})
	if err != nil {
		return content{}, err
	}
	return content{both.n, hex.EncodeToString(sum.Sum(nil))}, nil
}

// hash returns the size of a file on the host and the host's own SHA-256 of
// its first n bytes.
func (h *Host) hash(ctx context.Context, path string, n int64) (content, error) {
	s := Script{Name: "sha256", Text: fileText("sha256"), Timeout: transferLimit,
		Vars: []Var{{"file", path}, {"size", strconv.FormatInt(n, 10)}}}
	res, err := h.Run(ctx, s)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == noHashTool {
		// No tool of any kind: read it back and hash it here.
		var c content
		c, err = h.fetch(ctx, path, io.Discard)
		return c, err
	}
	if err != nil {
		return content{}, h.explain(ctx, "hash", path, 0, err)
	}
	words := strings.Fields(string(res.Stdout))
	if len(words) != 2 || len(words[1]) != 64 {
		return content{}, &Error{Host: h.name, Op: "hash " + path, Kind: ErrNoise, Err: fmt.Errorf("the host's tool printed %q", res.Stdout)}
	}
	size, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return content{}, &Error{Host: h.name, Op: "hash " + path, Kind: ErrNoise, Err: err}
	}
	return content{size, words[1]}, nil
}

// putByScript is put for a host without SFTP.
func (h *Host) putByScript(ctx context.Context, f File) (content, error) {
	src, err := f.reader()
	if err != nil {
		return content{}, fmt.Errorf("%s: put %s: open the source: %w", h.name, f.Path, err)
	}
	defer src.Close()
	sum := sha256.New()
	in := &contextWriter{ctx: ctx, w: sum}
	s := Script{Name: "put", Text: fileText("put"), Timeout: transferLimit, Vars: []Var{
		{"file", f.Path}, {"mode", fmt.Sprintf("%04o", f.mode())}, {"length", strconv.FormatInt(f.length(), 10)}}}
	stdout := &capped{limit: 4 << 10}
	_, err = h.run(ctx, s, io.TeeReader(src, in), stdout)
	if err != nil {
		return content{}, h.explain(ctx, "put", f.Path, f.length(), err)
	}
	sent := content{in.n, hex.EncodeToString(sum.Sum(nil))}
	got, err := strconv.ParseInt(strings.TrimSpace(stdout.buf.String()), 10, 64)
	if err != nil || got != sent.size {
		err := h.mismatch("put "+f.Path, sent, content{size: got})
		return content{}, errors.Join(err, h.discard(ctx, f.Path))
	}
	return sent, nil
}

// discard removes a file that this package wrote and that is not good.
func (h *Host) discard(ctx context.Context, path string) error {
	end, cancel := cleanupContext(ctx, endLimit)
	defer cancel()
	_, err := h.Run(end, Script{Name: "discard", Text: fileText("discard"), Vars: []Var{{"file", path}}})
	return err
}

// await runs op, which has no context, and returns early when ctx ends. op
// goes on then until it sees ctx itself or the connection ends; Close waits
// for it.
func await[T any](ctx context.Context, h *Host, op func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	c := make(chan answer, 1)
	h.spawn(func() {
		v, err := op()
		c <- answer{v, err}
	})
	select {
	case a := <-c:
		return a.v, a.err
	case <-ctx.Done():
	}
	// Give op the time to see it and to clean up.
	select {
	case a := <-c:
		if a.err == nil {
			return a.v, nil
		}
	case <-time.After(drainLimit):
	}
	var zero T
	return zero, context.Cause(ctx)
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// contextWriter stops at the end of ctx and counts.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
	n   int64
}

func (c *contextWriter) Write(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
