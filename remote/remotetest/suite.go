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
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"specrun/remote"
)

// Run tests the contract of remote.Host. open returns a host whose file system
// is this machine's; each call may return the same one or another.
func Run(t *testing.T, open func(t *testing.T) *remote.Host) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *remote.Host)
	}{
		{"Run_TellsStatusAndBothStreams", runStatus},
		{"Run_ValuesArriveUnchanged", runValues},
		{"Run_NoCommandEatsTheScript", runStdin},
		{"Run_CleanupSeesTheStatus", runCleanup},
		{"Run_PayloadArrivesUnchanged", runPayload},
		{"Run_FloodOfStderrStallsNothing", runFlood},
		{"Run_LargeOutputIsWhole", runLarge},
		{"Run_BackgroundProcessHoldsNothing", runBackground},
		{"Run_KilledShellIsUnknown", runKilled},
		{"Run_CancelEndsTheWholeGroup", runCancel},
		{"Run_CancelKillsWhatIgnoresIt", runStubborn},
		{"Run_CancelLeavesDetachedAlone", runDetached},
		{"Run_TimeoutEndsTheScript", runTimeout},
		{"Run_BadScriptIsNotStarted", runBad},
		{"Run_ManyAtOnce", runMany},
		{"Put_WritesAllSizes", putSizes},
		{"Put_NeverOverwrites", putExisting},
		{"Put_MissingFolderIsNamed", putNoFolder},
		{"Put_CancelLeavesNothing", putCancel},
		{"Put_ShortSourceLeavesNothing", putShort},
		{"Get_MissingFile", getMissing},
		{"ReadAt_FollowsAGrowingFile", readAt},
		{"Follow_LosesAndRepeatsNothing", follow},
		{"DialContext_ReachesAPortOfTheHost", dial},
		{"DialContext_Refused", dialRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open(t))
		})
	}
}

func script(text string, vars ...remote.Var) remote.Script {
	return remote.Script{Name: "test", Text: text, Vars: vars}
}

func mustRun(t *testing.T, h *remote.Host, s remote.Script) remote.Result {
	t.Helper()
	r, err := h.Run(t.Context(), s)
	if err != nil {
		t.Fatalf("%v (stderr %q)", err, r.Stderr)
	}
	return r
}

func runStatus(t *testing.T, h *remote.Host) {
	r, err := h.Run(t.Context(), script("main() { printf 'no newline'; echo problem >&2; exit 7; }"))
	var exit *remote.ExitError
	if !errors.As(err, &exit) || exit.Code != 7 || exit.Host != h.Name() || string(exit.Stderr) != "problem\n" {
		t.Errorf("error %#v", err)
	}
	if r.Outcome != remote.Done || r.Exit != 7 || string(r.Stdout) != "no newline" || string(r.Stderr) != "problem\n" {
		t.Errorf("result %+v", r)
	}
	if r := mustRun(t, h, script("main() { :; }")); r.Outcome != remote.Done || len(r.Stdout)+len(r.Stderr) != 0 {
		t.Errorf("silent script: %+v", r)
	}
	if r, err := h.Run(t.Context(), script("main() { set -e; false; echo not here; }")); err == nil || r.Exit != 1 || len(r.Stdout) > 0 {
		t.Errorf("set -e: %+v, %v", r, err)
	}
}

func runValues(t *testing.T, h *remote.Host) {
	values := []string{"", "plain", "it's", "''", `"`, "a b  c", "two\nlines\n", "$HOME `id` $(id) \\ \\n", "!!", "*?[", "-n",
		"\t", "ä€😀", "\xff\xfe", strings.Repeat("x", 100_000), "#", "~", "\r\n", "a=b;c&d|e>f"}
	var vars []remote.Var
	text := "main() {\n"
	for i, v := range values {
		vars = append(vars, remote.Var{Name: fmt.Sprintf("v%d", i), Value: v})
		text += fmt.Sprintf("printf '%%s\\0' \"$v%d\"\n", i)
	}
	r := mustRun(t, h, script(text+"}\n", vars...))
	if want := strings.Join(values, "\x00") + "\x00"; string(r.Stdout) != want {
		t.Errorf("got %.200q", r.Stdout)
	}
}

func runStdin(t *testing.T, h *remote.Host) {
	r := mustRun(t, h, script("main() { cat; read -r x || echo end of input; echo still here; }"))
	if string(r.Stdout) != "end of input\nstill here\n" {
		t.Errorf("got %q", r.Stdout)
	}
}

func runCleanup(t *testing.T, h *remote.Host) {
	r, err := h.Run(t.Context(), script("cleanup() { echo \"cleanup $1\"; false; }\nmain() { set -eu; exit 5; }"))
	if string(r.Stdout) != "cleanup 5\n" || r.Exit != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

func runPayload(t *testing.T, h *remote.Host) {
	large := bytes.Repeat([]byte("0123456789abcdef\n"), 70_000)
	for _, payload := range [][]byte{{}, []byte("x"), []byte(".\n\n.\nmain\n"), {0, 255, 10, 0, 13}, large} {
		s := script("main() { cat; }")
		s.Payload = payload
		if r := mustRun(t, h, s); !bytes.Equal(r.Stdout, payload) {
			t.Errorf("%d bytes came back as %d: %.60q", len(payload), len(r.Stdout), r.Stdout)
		}
	}
	s := script("main() { echo enough; }")
	s.Payload = bytes.Repeat(large, 4)
	if r := mustRun(t, h, s); string(r.Stdout) != "enough\n" {
		t.Errorf("payload not read: %+v", r)
	}
}

func runFlood(t *testing.T, h *remote.Host) {
	r := mustRun(t, h, script("main() { head -c 3000000 /dev/zero | tr '\\0' e >&2; echo done; }"))
	if string(r.Stdout) != "done\n" || !r.StderrCut || len(r.Stderr) != 1<<20 {
		t.Errorf("stdout %q, %d bytes of stderr, cut %v", r.Stdout, len(r.Stderr), r.StderrCut)
	}
}

func runLarge(t *testing.T, h *remote.Host) {
	r := mustRun(t, h, script("main() { head -c 3000000 /dev/zero | tr '\\0' '\\n'; }"))
	if len(r.Stdout) != 3_000_000 || bytes.Count(r.Stdout, []byte("\n")) != 3_000_000 {
		t.Errorf("%d bytes", len(r.Stdout))
	}
}

func runBackground(t *testing.T, h *remote.Host) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := h.Run(ctx, script("main() { sleep 100 & echo $!; }"))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid(t, r.Stdout), syscall.SIGKILL)
}

func runKilled(t *testing.T, h *remote.Host) {
	r, err := h.Run(t.Context(), script("main() { echo begun; kill -9 $$; echo not here; }"))
	if r.Outcome != remote.Unknown || !errors.Is(err, remote.ErrLost) || string(r.Stdout) != "begun\n" {
		t.Errorf("%+v, %v", r, err)
	}
}

// begin runs a script in the background, waits until it has written the file
// it is given as $file, and returns what it wrote.
func begin(t *testing.T, ctx context.Context, h *remote.Host, s remote.Script) (wrote string, end <-chan error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "begun")
	s.Vars = append(s.Vars, remote.Var{Name: "file", Value: file})
	c := make(chan error, 1)
	go func() {
		_, err := h.Run(ctx, s)
		c <- err
	}()
	eventually(t, "script began", func() bool {
		b, err := os.ReadFile(file)
		wrote = string(b)
		return err == nil && strings.HasSuffix(wrote, "\n")
	})
	return wrote, c
}

func runCancel(t *testing.T, h *remote.Host) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	gone := filepath.Join(t.TempDir(), "gone")
	wrote, end := begin(t, ctx, h, script("cleanup() { echo $1 >"+gone+"; }\nmain() { sleep 1000 & (sleep 1001; :) & echo $$ $! >$file.new; mv $file.new $file; sleep 1002; }"))
	cancel(why)
	if err := <-end; !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	for _, p := range strings.Fields(wrote) {
		if alive(pid(t, []byte(p))) {
			t.Errorf("process %s is still there", p)
		}
	}
	if b, err := os.ReadFile(gone); string(b) != "143\n" {
		t.Errorf("cleanup wrote %q, %v", b, err)
	}
}

func runStubborn(t *testing.T, h *remote.Host) {
	ctx, cancel := context.WithCancel(t.Context())
	s := script("main() { trap '' TERM HUP INT; sleep 1000 & echo $$ $! >$file; while :; do sleep 1003; done; }")
	s.Grace = 200 * time.Millisecond
	wrote, end := begin(t, ctx, h, s)
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for _, p := range strings.Fields(wrote) {
		if alive(pid(t, []byte(p))) {
			t.Errorf("process %s is still there", p)
		}
	}
}

func runDetached(t *testing.T, h *remote.Host) {
	ctx, cancel := context.WithCancel(t.Context())
	wrote, end := begin(t, ctx, h, script("main() { setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >$file; sleep 1004; }"))
	// setsid(1) makes its session only after the fork: wait for it.
	detached := pid(t, []byte(wrote))
	eventually(t, "own session", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", detached))
		return strings.HasPrefix(string(b), "sleep")
	})
	cancel()
	<-end
	if !alive(detached) {
		t.Error("a process in its own session was ended")
	}
	syscall.Kill(detached, syscall.SIGKILL)
}

func runTimeout(t *testing.T, h *remote.Host) {
	s := script("main() { echo $$; sleep 1005; }")
	s.Timeout = 300 * time.Millisecond
	r, err := h.Run(t.Context(), s)
	var timeout *remote.TimeoutError
	if !errors.As(err, &timeout) || !errors.Is(err, remote.ErrTimeout) || !timeout.Ended {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(r.Stdout) > 0 && alive(pid(t, r.Stdout)) {
		t.Error("it is still there")
	}
}

func runBad(t *testing.T, h *remote.Host) {
	for name, s := range map[string]remote.Script{
		"NUL":  script("main() { :; }", remote.Var{Name: "v", Value: "a\x00b"}),
		"name": script("main() { :; }", remote.Var{Name: "a b", Value: "x"}),
		"ours": script("main() { :; }", remote.Var{Name: "specrun_marker", Value: "x"}),
		"dot":  {Name: "test", Text: "main() { :; }\n.\n", Payload: []byte("x")},
	} {
		if r, err := h.Run(t.Context(), s); !errors.Is(err, remote.ErrBadScript) || r.Outcome != remote.NotStarted {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := h.Run(ctx, script("main() { :; }")); !errors.Is(err, context.Canceled) || r.Outcome == remote.Done {
		t.Errorf("context ended before: %+v, %v", r, err)
	}
}

func runMany(t *testing.T, h *remote.Host) {
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			r, err := h.Run(t.Context(), script("main() { echo $n; }", remote.Var{Name: "n", Value: strconv.Itoa(i)}))
			if err != nil || strings.TrimSpace(string(r.Stdout)) != strconv.Itoa(i) {
				t.Errorf("%d: %+v, %v", i, r, err)
			}
		})
	}
	wg.Wait()
}

func putSizes(t *testing.T, h *remote.Host) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 32767, 32768, 32769, 65536, 4<<20 + 1} {
		for _, how := range []string{"data", "open", "unknown length"} {
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

func dial(t *testing.T, h *remote.Host) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := h.DialContext(t.Context(), "tcp", l.Addr().String())
	check(t, err)
	defer c.Close()
	io.WriteString(c, "ping")
	p := make([]byte, 4)
	if _, err := io.ReadFull(c, p); err != nil || string(p) != "ping" {
		t.Errorf("got %q, %v", p, err)
	}
}

func dialRefused(t *testing.T, h *remote.Host) {
	// Bound and not listening: nobody else gets the port meanwhile.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(fd)
	check(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	check(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	if c, err := h.DialContext(t.Context(), "tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, %v", c, err)
	}
}

func pid(t *testing.T, text []byte) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 2 {
		t.Fatalf("no pid: %q", text)
	}
	return n
}

// alive is false for a zombie: PID 1 of a container may take seconds to reap.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
