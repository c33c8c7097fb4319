package remote

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// eachShell runs code behind HostLib under every shell that is here.
func eachShell(t *testing.T, code string, vars map[string]string, check func(shell, out string)) {
	t.Helper()
	ran := 0
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			t.Logf("no %s here", shell[0])
			continue
		}
		ran++
		cmd := exec.Command(shell[0], append(shell[1:], "-c", HostLib()+code)...)
		cmd.Env = os.Environ()
		for name, value := range vars {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || stderr.Len() > 0 {
			t.Fatalf("%s: %v: %s", shell[0], err, stderr.String())
		}
		check(shell[0], string(out))
	}
	if ran == 0 {
		t.Fatal("none of dash, bash, busybox is installed")
	}
}

func sleeping(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.Command(program, "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return strconv.Itoa(cmd.Process.Pid)
}

// The command name of a process may hold blanks, brackets and newlines.
func TestHostLib_ProcReadsOddCommandNames(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a b", "x) Z 1", "two\nlines"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(sleep, link); err != nil {
			t.Fatal(err)
		}
		pid := sleeping(t, link)
		eachShell(t, `proc "$PID" && alive "$PID" "$p_ticks" && ! alive "$PID" 1 && echo "$p_ppid"`, map[string]string{"PID": pid}, func(shell, out string) {
			if want := strconv.Itoa(os.Getpid()) + "\n"; out != want {
				t.Errorf("%s: %q: %q, want %q", shell, name, out, want)
			}
		})
	}
}

func TestHostLib_ZombieIsDead(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		raw, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && strings.Contains(string(raw), ") Z ") {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("it became no zombie")
		}
	}
	eachShell(t, `proc "$PID" && ! alive "$PID" "$p_ticks" && echo dead`, map[string]string{"PID": pid}, func(shell, out string) {
		if out != "dead\n" {
			t.Errorf("%s: a zombie counts as alive: %q", shell, out)
		}
	})
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	eachShell(t, `proc "$PID" || echo none`, map[string]string{"PID": pid}, func(shell, out string) {
		if out != "none\n" {
			t.Errorf("%s: there is no such process: %q", shell, out)
		}
	})
}

func TestHostLib_IdentityIsOneWordAndEqualUnderEachShell(t *testing.T) {
	var first string
	eachShell(t, "host_identity; echo \"$host_id|$boot_id\"", nil, func(shell, out string) {
		if first == "" {
			first = out
		}
		id, boot, ok := strings.Cut(strings.TrimSuffix(out, "\n"), "|")
		if !ok || out != first || len(strings.Fields(id)) != 1 || len(strings.Fields(boot)) != 1 || !strings.Contains(id, "/pid:[") {
			t.Errorf("%s: %q, first %q", shell, out, first)
		}
	})
}

func TestHostLib_Expand(t *testing.T) {
	code := `for p in "~" "~/a b" "~you" "/x/~" "" "a~/b"; do expand "$p"; echo "$expanded"; done`
	eachShell(t, code, map[string]string{"HOME": "/home/me"}, func(shell, out string) {
		if want := "/home/me\n/home/me/a b\n~you\n/x/~\n\na~/b\n"; out != want {
			t.Errorf("%s: %q, want %q", shell, out, want)
		}
	})
}
