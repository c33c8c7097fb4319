package patches_test

import (
	"os/exec"
	"testing"
)

// Two threads have rows to print: the second one comes while the first is
// between a row's block and its JSON line.
const twoThreads = `
import sys, threading

scope = {}
exec(open(sys.argv[1]).read(), scope)

class Row:
    cycles = 10
    def __init__(self, name, between=lambda: None):
        self.name, self.between = name, between
    def text(self, counted):
        return "block %s %d\n" % (self.name, counted)
    def json(self):
        self.between()
        return "json %s" % self.name

parts = {"cycle": object, "row": Row, "cycles": lambda *a: None}
profiler = scope["_SpecrunProfiler"](parts, None, {}, 1, "")
other = threading.Thread(target=lambda: (profiler.show([Row("b")]), profiler.say("note")))

def between():
    other.start()
    other.join(0.3)  # returns early only when nothing holds the other one back

profiler.show([Row("a", between)])
other.join()
`

func TestProfiler_RowsOfTwoThreadsDoNotMix(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("this test needs a python3: ", err)
	}
	out, err := exec.Command(python, "-c", twoThreads, "library/profiler/profiler.py").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "block a 10\njson a\nblock b 20\njson b\nnote\n"; string(out) != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}
