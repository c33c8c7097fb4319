package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	for r.Outcome == remote.NotStarted && s.Timeout < time.Minute { // a busy machine
		s.Timeout *= 2
		r, err = h.Run(t.Context(), s)
	}
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
