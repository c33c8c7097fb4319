package remotetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/internal/tier"
	"specrun/remote"
)

func putSizes(t *testing.T, h *remote.Host) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 32767, 32768, 32769, 65536, 4<<20 + 1} {
		for i, how := range []string{"data", "open", "unknown length"} {
			if (i+size)%tier.Every(3) != 0 {
				continue // each way and each size, not every pair of them
			}
			data := bytes.Repeat([]byte("abcdefghijklm\n\x00"), size/15+1)[:size]
			f := remote.File{Path: filepath.Join(dir, fmt.Sprintf("%d %s", size, how)), Data: data, Mode: 0o640, Sync: size == 1}
			if how != "data" {
				f.Data, f.Size = nil, int64(size)
				f.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
			}
			if how == "unknown length" {
				f.Size = -1
			}
			want := fmt.Sprintf("%x", sha256.Sum256(data))
			sum, err := h.PutVerified(t.Context(), f)
			if err != nil || sum != want {
				t.Errorf("put %s: %s, %v", f.Path, sum, err)
				continue
			}
			if info, err := os.Stat(f.Path); err != nil || info.Size() != int64(size) || info.Mode().Perm() != 0o640 {
				t.Errorf("%s: %v, %v", f.Path, info, err)
			}
			hash := sha256.New()
			if n, sum, err := h.Get(t.Context(), f.Path, hash); err != nil || n != int64(size) || sum != want || hex.EncodeToString(hash.Sum(nil)) != want {
				t.Errorf("get %s: %d %s, %v", f.Path, n, sum, err)
			}
		}
	}
	f := remote.File{Path: filepath.Join(dir, "read-only"), Data: []byte("x"), Mode: 0o400}
	if err := h.Put(t.Context(), f); err != nil {
		t.Error(err)
	}
}

func putExisting(t *testing.T, h *remote.Host) {
	file := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(file, []byte("precious"), 0o644))
	err := h.Put(t.Context(), remote.File{Path: file, Data: []byte("new")})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("it holds %q", b)
	}
	// Nor through a link that leads nowhere.
	link := file + ".link"
	check(t, os.Symlink(file+".target", link))
	if err := h.Put(t.Context(), remote.File{Path: link, Data: []byte("new")}); err == nil {
		t.Error("a dangling link was followed")
	}
	if _, err := os.Stat(file + ".target"); err == nil {
		t.Error("the link's target was made")
	}
}

func putNoFolder(t *testing.T, h *remote.Host) {
	err := h.Put(t.Context(), remote.File{Path: filepath.Join(t.TempDir(), "no", "f"), Data: []byte("new")})
	var fileErr *remote.FileError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &fileErr) {
		t.Errorf("error %v", err)
	}
}

// slowReader gives bytes until stop is called, and tells when it gave some.
type slowReader struct {
	ctx   context.Context
	after int
	then  func()
	n     int
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.n >= r.after {
		r.then()
		<-r.ctx.Done()
		return 0, r.ctx.Err()
	}
	n := min(len(p), 32<<10)
	r.n += n
	return n, nil
}

func (r *slowReader) Close() error { return nil }

func putCancel(t *testing.T, h *remote.Host) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file := filepath.Join(t.TempDir(), "f")
	f := remote.File{Path: file, Size: 64 << 20,
		Open: func() (io.ReadCloser, error) { return &slowReader{ctx: ctx, after: 1 << 20, then: cancel}, nil }}
	if err := h.Put(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	eventually(t, "no partial file", func() bool {
		_, err := os.Stat(file)
		return errors.Is(err, fs.ErrNotExist)
	})
}

func putShort(t *testing.T, h *remote.Host) {
	file := filepath.Join(t.TempDir(), "f")
	f := remote.File{Path: file, Size: 100,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("short")), nil }}
	if err := h.Put(t.Context(), f); err == nil {
		t.Error("a source shorter than it said was taken")
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

func getMissing(t *testing.T, h *remote.Host) {
	var b bytes.Buffer
	if _, _, err := h.Get(t.Context(), filepath.Join(t.TempDir(), "no"), &b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get: %v", err)
	}
	if _, _, err := h.ReadAt(t.Context(), filepath.Join(t.TempDir(), "no"), make([]byte, 1), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read: %v", err)
	}
}

func readAt(t *testing.T, h *remote.Host) {
	file := filepath.Join(t.TempDir(), "log")
	expect := func(off int64, want string, size int64) {
		t.Helper()
		p := make([]byte, 6)
		n, got, err := h.ReadAt(t.Context(), file, p, off)
		if err != nil || string(p[:n]) != want || got != size {
			t.Errorf("at %d: %q, size %d, %v; want %q, %d", off, p[:n], got, err, want, size)
		}
	}
	check(t, os.WriteFile(file, []byte("first\n"), 0o644))
	expect(0, "first\n", 6)
	expect(6, "", 6)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	defer f.Close()
	io.WriteString(f, "second line\n")
	expect(6, "second", 18)
	expect(12, " line\n", 18)
	expect(18, "", 18)
	check(t, os.WriteFile(file+".new", []byte("another file of the same name\n"), 0o644))
	check(t, os.Rename(file+".new", file))
	expect(18, "e same", 30)
	check(t, os.Truncate(file, 3))
	expect(18, "", 3)
}

func follow(t *testing.T, h *remote.Host) {
	file := filepath.Join(t.TempDir(), "log")
	appendTo := func(text string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		check(t, err)
		_, err = f.WriteString(text)
		check(t, errors.Join(err, f.Close()))
	}
	var got strings.Builder
	var last remote.Cursor
	enough := errors.New("enough")
	until := func(want string, before func()) {
		t.Helper()
		before()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		err := h.Follow(ctx, file, last, time.Millisecond, func(chunk []byte, at remote.Cursor) error {
			if at.Gap {
				got.WriteString("<gap>")
			}
			got.Write(chunk)
			last = at
			if strings.HasSuffix(got.String(), want) {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			t.Fatalf("%v after %q", err, got.String())
		}
	}
	until("one\n", func() { appendTo("one\n") })
	until("three\n", func() { appendTo("two\n"); appendTo("three\n") })
	until("copied\n", func() { // copytruncate
		check(t, os.Truncate(file, 0))
		appendTo("copied\n")
	})
	until("rotated\n", func() {
		check(t, os.Rename(file, file+".1"))
		appendTo("a longer line than all that came before, and then rotated\n")
	})
	want := "one\ntwo\nthree\n<gap>copied\n<gap>a longer line than all that came before, and then rotated\n"
	if got.String() != want {
		t.Errorf("got %q", got.String())
	}
}
