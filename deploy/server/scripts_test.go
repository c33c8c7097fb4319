package server

import (
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

// One host has one identity: what deploy writes into locks and claims is what
// stands in a launch's folder.
func TestStart_IdentityIsThatOfTheHost(t *testing.T) {
	b := newBench(t)
	res, err := b.h.Run(t.Context(), remote.Script{Name: "id", Text: remote.HostLib() + "main() {\n\thost_identity\n\techo \"$host_id $boot_id\"\n}\n"})
	if err != nil {
		t.Fatal(err)
	}
	l := b.launch("who", freePort(t))
	l.Port = 0
	id := b.start(l).Identity
	if got := id.HostID + " " + id.BootID; got != strings.TrimSpace(string(res.Stdout)) {
		t.Errorf("the launch is on %q, the host is %q", got, res.Stdout)
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
