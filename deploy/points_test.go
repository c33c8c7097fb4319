package deploy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"specrun/remote"
)

// The scripts have one command on a line, so the points at which one can be
// killed or stopped follow from its text.

// commandLines numbers the lines of a script that are commands (from 0):
// neither blank, comments, words of the grammar, nor unconditional ends.
func commandLines(script string) []int {
	var at []int
	for i, l := range strings.Split(script, "\n") {
		l = strings.TrimSpace(l)
		first, _, _ := strings.Cut(l, " ")
		switch {
		case l == "", strings.HasPrefix(l, "#"), strings.HasSuffix(l, "() {"):
		case slices.Contains([]string{"}", "fi", "done", "esac", "else", "do", "then", "if", "while", "for", "elif", "return", "continue", "exit", "fail", "unwritable"}, first):
		case first == "case" && !strings.HasSuffix(l, "esac"), strings.HasSuffix(l, ";;") && first != "case":
		default:
			at = append(at, i)
		}
	}
	return at
}

// insert puts text before (0) or after (1) a line.
func insert(script string, line, after int, text string) string {
	lines := strings.Split(script, "\n")
	return strings.Join(slices.Insert(lines, line+after, text), "\n")
}

func TestCommandLines_SkipGrammarOnly(t *testing.T) {
	script := "# c\nf() {\n\ta=1\n\tif [ x ]; then\n\t\tmv a b || return 1\n\t\treturn 0\n\tfi\n\tcase $1 in *x) return 1 ;; esac\n}\n"
	if got, want := fmt.Sprint(commandLines(script)), "[2 4 7]"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// tamper is a target whose scripts of one name are changed on their way.
type tamper struct {
	Target
	script string // name of the script to change
	change func(string) string
	// dies makes the connection fail for good once the changed script has
	// ended without its end being seen: the controller is gone with it.
	dies bool

	hit    atomic.Bool // the changed script was sent
	killed atomic.Bool // and its end was not seen
	dead   atomic.Bool
}

var errDead = errors.New("the controller is dead")

func (k *tamper) Run(ctx context.Context, s remote.Script) (remote.Result, error) {
	if k.dead.Load() {
		return remote.Result{}, errDead
	}
	if s.Name != k.script || k.hit.Load() {
		return k.Target.Run(ctx, s)
	}
	k.hit.Store(true)
	s.Text = k.change(s.Text)
	res, err := k.Target.Run(ctx, s)
	if res.Outcome == remote.Unknown {
		k.killed.Store(true)
		k.dead.Store(k.dies)
	}
	return res, err
}

// traced makes a script write the number of each command that it has done.
func traced(file string) func(string) string {
	return func(script string) string {
		lines := strings.Split(script, "\n")
		at := commandLines(script)
		for _, i := range slices.Backward(at) {
			lines = slices.Insert(lines, i+1, "traced "+strconv.Itoa(i))
		}
		head := "traced() {\n\ttraced_status=$?\n\techo \"$1\" >>'" + strings.ReplaceAll(file, "'", `'\''`) + "'\n\treturn $traced_status\n}\n"
		return head + strings.Join(lines, "\n")
	}
}

func readTrace(t testing.TB, file string) []int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal("the script was not run: ", err)
	}
	var at []int
	for f := range strings.FieldsSeq(string(data)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(at, n) {
			at = append(at, n)
		}
	}
	return at
}
