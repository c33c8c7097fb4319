package remote

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const mark = "0123456789abcdef0123456789abcdef"

// A stream cut anywhere runs nothing of the script: every cut within the last
// lines, and every 41st before.
func TestScript_CutStreamRunsNothing(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	s := Script{Name: "x", Text: "main() {\n\t: >\"$ran\"\n\techo a '\nb'\n}\n", Vars: []Var{{"ran", ran}, {"v", "two\nlines"}}}
	for _, c := range []struct {
		input bool
		argv  []string
	}{
		{false, []string{"/bin/sh", "-s"}},
		{true, []string{"/bin/sh", "-c", payloadReader}},
	} {
		text, err := s.render(mark, c.input)
		if err != nil {
			t.Fatal(err)
		}
		whole := len(text) - 1 // the last newline changes nothing
		for cut := 0; cut < whole; cut++ {
			if cut < whole-60 && cut%41 != 0 {
				continue
			}
			cmd := exec.Command(c.argv[0], c.argv[1:]...)
			cmd.Stdin = strings.NewReader(text[:cut])
			cmd.Run() // most cuts are syntax errors
			if _, err := os.Stat(ran); err == nil {
				t.Fatalf("it ran after a cut at %d of %d: ...%q", cut, whole, text[max(0, cut-30):cut])
			}
		}
		cmd := exec.Command(c.argv[0], c.argv[1:]...)
		cmd.Stdin = strings.NewReader(text + ".\n")
		if !c.input {
			cmd.Stdin = strings.NewReader(text)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("whole: %v %s", err, out)
		}
		if err := os.Remove(ran); err != nil {
			t.Fatal("the whole script did not run")
		}
	}
}

// The exec lines hold nothing that csh or fish read in another way: no "!",
// no newline, and single quotes only around the whole argument.
func TestScript_ExecLinesSuitAnyLoginShell(t *testing.T) {
	if execLine != "/bin/sh -s" {
		t.Errorf("exec line %q", execLine)
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(execPayloadLine, "/bin/sh -c '"), "'")
	if inner != payloadReader || strings.ContainsAny(inner, "'!\n") {
		t.Errorf("exec line %q", execPayloadLine)
	}
}

func TestScript_PassesSyntaxCheckOfEveryShell(t *testing.T) {
	files, err := scripts.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text := fileText(strings.TrimSuffix(f.Name(), ".sh"))
		for _, shell := range [][]string{{"sh"}, {"bash", "--posix"}, {"busybox", "sh"}} {
			if _, err := exec.LookPath(shell[0]); err != nil {
				continue
			}
			cmd := exec.Command(shell[0], append(shell[1:], "-n")...)
			cmd.Stdin = strings.NewReader(text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %v %s", f.Name(), shell, err, out)
			}
		}
	}
}

// However the stream is chopped, the frame gives the same.
func TestFrame_AnyChopping(t *testing.T) {
	begin := "\n" + mark + " begin 11 12 13 14\n"
	end := "\n" + mark + " end 3\n"
	for _, c := range []struct{ in, out, noise string }{
		{begin + end, "", ""},
		{begin + "out" + end, "out", ""},
		{"noise\r\n" + begin + "\nout\n\n" + end + "logout\n", "\nout\n\n", "noise"},
		{begin + "\n" + mark + " end x\n" + end, "\n" + mark + " end x\n", ""},
		{begin + "\n" + mark[:31] + "\n" + mark + " en" + end, "\n" + mark[:31] + "\n" + mark + " en", ""},
		{"\n" + mark[:20] + begin + "a" + end, "a", mark[:20]},
	} {
		for size := 1; size <= len(c.in); size++ {
			var out bytes.Buffer
			f := newFrame(mark, &out)
			for rest := c.in; rest != ""; {
				n := min(size, len(rest))
				f.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			f.finish()
			status, done, noise, err := f.result()
			if out.String() != c.out || status != 3 || !done || noise != c.noise || err != nil {
				t.Fatalf("%q by %d: %q %d %v noise %q %v", c.in, size, out.String(), status, done, noise, err)
			}
			if (f.who() != identity{"11", "12", "13", "14"}) {
				t.Fatalf("identity %+v", f.who())
			}
		}
	}
}

func TestFrame_UnfinishedGivesAllOutput(t *testing.T) {
	var out bytes.Buffer
	f := newFrame(mark, &out)
	f.Write([]byte("\n" + mark + " begin\nhalf a line\n" + mark[:10]))
	f.finish()
	if _, done, _, _ := f.result(); done || out.String() != "half a line\n"+mark[:10] {
		t.Errorf("%v %q", done, out.String())
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("out"), 3)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		if size < 1 || bytes.Contains(body, []byte(mark)) {
			return
		}
		in := append(append([]byte("\n"+mark+" begin\n"), body...), "\n"+mark+" end 0\n"...)
		var out bytes.Buffer
		fr := newFrame(mark, &out)
		for len(in) > 0 {
			n := min(size, len(in))
			fr.Write(in[:n])
			in = in[n:]
		}
		if _, done, _, _ := fr.result(); !done || !bytes.Equal(out.Bytes(), body) {
			t.Errorf("%q became %q", body, out.Bytes())
		}
	})
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"": "''", "a b": "'a b'", "it's": `'it'\''s'`, "\n": "'\n'"} {
		if got, err := Quote(in); got != want || err != nil {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	if _, err := Quote("a\x00"); err == nil {
		t.Error("NUL was quoted")
	}
}
