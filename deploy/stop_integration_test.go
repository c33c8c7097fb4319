//go:build integration

package deploy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"specrun/internal/tier"
	"specrun/patches"
)

// TestStoppedCommit_OthersWaitOrKillAndTake stops the commit script before each of its
// commands; before the soak, before some of them, others each time. Another controller must then be refused with the script's pid, or
// get the lock because the script had not got it yet; with Take the script is
// dead before anything is written, and what stays is one consistent set.
func TestStoppedCommit_OthersWaitOrKillAndTake(t *testing.T) {
	t.Parallel()
	apply := scenes()[0]
	lines := traceScene(t, newSite(t), apply)
	t.Logf("%d points", len(lines))
	if len(lines) < 100 {
		t.Fatalf("only %d commands were traced", len(lines))
	}
	const workers = 3
	for w := range workers {
		t.Run(strconv.Itoa(w), func(t *testing.T) {
			t.Parallel()
			stride := tier.Stride(4)
			for i := w + workers*rand.IntN(stride); i < len(lines); i += workers * stride {
				stopAt(t, lines[i])
			}
		})
	}
}

func stopAt(t *testing.T, line int) {
	s := newSite(t)
	before := s.tree()
	one, two := newPatch(t, "one", "1", "ONE = 1\n"), newPatch(t, "two", "1", "TWO = 2\n")
	patched := s.patchedContents(one)
	pidFile := filepath.Join(t.TempDir(), "pid")
	var command string
	first := &tamper{Target: localHost(t, s.bin), script: "new commit", change: func(script string) string {
		command = strings.TrimSpace(strings.Split(script, "\n")[line])
		return insert(script, line, 0, fmt.Sprintf("[ -e '%s' ] || { echo $$ >'%s.new'; mv '%s.new' '%s'; kill -STOP $$; }", pidFile, pidFile, pidFile, pidFile))
	}}
	ended := make(chan error, 1)
	go func() {
		_, _, err := Do(context.Background(), first, s.where, Change{Add: []*patches.Patch{one}}, DoOptions{})
		ended <- err
	}()
	pid := 0
	s.await("the script to stop", func() bool {
		data, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil && stateOf(pid) == "T"
	})
	fatal := func(format string, args ...any) {
		t.Helper()
		syscall.Kill(pid, syscall.SIGKILL)
		t.Fatalf("stopped before line %d, %s: %s", line, command, fmt.Sprintf(format, args...))
	}
	atStop := [2]string{s.read(s.v1), s.read(s.v2)}
	for i, path := range []string{s.v1, s.v2} {
		if atStop[i] != patched[path] && atStop[i] != []string{v1Source, v2Source}[i] {
			fatal("%s is neither old nor new", path)
		}
	}

	second := Change{Add: []*patches.Patch{two}}
	_, _, err := Do(context.Background(), s.host, s.where, second, DoOptions{})
	var locked *LockedError
	switch {
	case errors.As(err, &locked):
		if locked.PID != pid {
			fatal("the error names pid %d, the script is %d: %v", locked.PID, pid, err)
		}
		if now := [2]string{s.read(s.v1), s.read(s.v2)}; now != atStop {
			fatal("a refused command changed files")
		}
		_, _, err = Do(context.Background(), s.host, s.where, second, DoOptions{ApplyOptions: ApplyOptions{Take: true, OnEvent: func(e Event) {
			if e.Step == "done" && stateOf(pid) != "" && stateOf(pid) != "Z" {
				t.Errorf("stopped before line %d: the old script lives after its lock was taken", line)
			}
		}}})
		if err != nil {
			fatal("take: %v", err)
		}
		if err := <-ended; err == nil && !strings.Contains(s.verdicts(), "one") {
			fatal("the killed command claims success")
		}
	case err != nil:
		fatal("%v", err)
	default: // it had no lock, or none any more
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			fatal("continue: %v", err)
		}
		if err := <-ended; err != nil {
			fatal("the first command, continued: %v", err)
		}
	}

	if got := s.verdicts(); !strings.Contains(got, "two") || strings.Count(got, ":patched:") != 2 {
		fatal("status: %s", got)
	}
	if got := s.leftBehind(); len(got) != 1 {
		fatal("left: %v", got)
	}
	if left := s.openInState(); len(left) != 0 {
		fatal("left in the state folder: %v", left)
	}
	s.mustDo(Change{RemoveAll: true})
	if after := s.tree(); after != before {
		fatal("the tree differs after rollback:\n%s\n%s", before, after)
	}
}
