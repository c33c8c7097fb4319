package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"specrun/remote"
)

// sleeper starts a process of the test's own with an environment.
func sleeper(t *testing.T, env ...string) int {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// runLib runs main with the shared functions under a shell.
func runLib(t *testing.T, shell, main string, vars ...remote.Var) string {
	t.Helper()
	h := remote.Local(remote.LocalConfig{Shell: []string{shell}, Dir: t.TempDir()})
	defer h.Close()
	res, err := h.Run(t.Context(), script("test", "main() {\n"+main+"\n}\n", vars...))
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Stdout)
}

// Only a whole variable counts: not one that begins alike, nor a line inside
// another one's value, nor what looks like the heading of another process.
func TestWithRunID_StrangersThatMentionItAreNotOurs(t *testing.T) {
	b := newBench(t)
	id := b.id("mention")
	var ours []string
	for _, env := range [][]string{
		{"SPECRUN_RUN_ID=" + id},
		{"A=1", "B=two\nlines\n", "SPECRUN_RUN_ID=" + id, "C=3"},
		{"SPECRUN_RUN_ID=" + id, "Z="},
	} {
		ours = append(ours, strconv.Itoa(sleeper(t, env...)))
	}
	for _, env := range [][]string{
		{"SPECRUN_RUN_ID=" + id + "x"},
		{"OLD_SPECRUN_RUN_ID=" + id},
		{"NOTE=first\nSPECRUN_RUN_ID=" + id + "\nlast"},
		{"NOTE=SPECRUN_RUN_ID=" + id},
		{},
	} {
		sleeper(t, env...)
	}
	for _, shell := range shells(t) {
		// A program that Start has just begun may not show its environment yet.
		eventually(t, "the run id is seen under "+shell, func() bool {
			got := strings.Fields(runLib(t, shell, `with_run_id "$ID"`, remote.Var{Name: "ID", Value: id}))
			if len(got) > len(ours) {
				t.Fatalf("%s: %q, want %q", shell, got, ours)
			}
			return len(got) == len(ours)
		})
		for _, pid := range strings.Fields(runLib(t, shell, `with_run_id "$ID"`, remote.Var{Name: "ID", Value: id})) {
			if !strings.Contains(" "+strings.Join(ours, " ")+" ", " "+pid+" ") {
				t.Errorf("%s: pid %s is not ours", shell, pid)
			}
		}
	}
}

// The command name of a process may hold blanks, brackets and newlines.
func TestProc_OddCommandName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a b", "x) Z 1", "two\nlines"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(sleep, link); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(link, "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		for _, shell := range shells(t) {
			got := runLib(t, shell, `proc "$PID" && printf '%s\n' "$p_ppid"`, remote.Var{Name: "PID", Value: strconv.Itoa(cmd.Process.Pid)})
			if want := strconv.Itoa(os.Getpid()) + "\n"; got != want {
				t.Errorf("%q: %q, want %q", name, got, want)
			}
		}
	}
}

func TestAlive_ZombieIsDead(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	eventually(t, "a zombie", func() bool {
		raw, err := os.ReadFile("/proc/" + pid + "/stat")
		return err == nil && strings.Contains(string(raw), ") Z ")
	})
	got := runLib(t, "/bin/sh", `proc "$PID" && ! alive "$PID" "$p_ticks" && echo dead`, remote.Var{Name: "PID", Value: pid})
	if got != "dead\n" {
		t.Errorf("a zombie counts as alive: %q", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestEnvLine(t *testing.T) {
	cases := [][2]string{
		{"A=b", "A=b"}, {"export A=b c", "A=b c"}, {"  A=1", "A=1"}, {"A='x y'", "A=x y"}, {`A="x"`, "A=x"}, {`A="`, `A="`}, {"A='", "A='"},
		{`A="x`, `A="x`}, {"A=", "A="}, {"A=b=c", "A=b=c"}, {"A=$HOME `id`", "A=$HOME `id`"}, {"A=b\r", "A=b"}, {"A=b # c", "A=b # c"},
		{"", "skip"}, {"# A=b", "skip"}, {"   ", "skip"},
		{"A", "bad"}, {"=b", "bad"}, {"1A=b", "bad"}, {"A-B=c", "bad"}, {"A =b", "bad"},
	}
	var vars []remote.Var
	var want []string
	for i, c := range cases {
		vars = append(vars, remote.Var{Name: "L" + strconv.Itoa(i), Value: c[0]})
		want = append(want, c[1])
	}
	main := `cr=$(printf '\r'); n=0
while [ "$n" -lt "$COUNT" ]; do
	eval "line=\$L$n"
	env_line "$line"
	case $? in 0) printf '%s\n' "$e_name=$e_value" ;; 1) echo skip ;; *) echo bad ;; esac
	n=$((n + 1))
done`
	vars = append(vars, remote.Var{Name: "COUNT", Value: strconv.Itoa(len(cases))})
	for _, shell := range shells(t) {
		got := strings.Split(runLib(t, shell, main, vars...), "\n")
		for i, c := range cases {
			if got[i] != want[i] {
				t.Errorf("%s: %q: %q, want %q", filepath.Base(filepath.Dir(shell)), c[0], got[i], want[i])
			}
		}
	}
}
