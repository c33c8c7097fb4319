package report

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// crashed is a side in which one cell failed in some of the rounds, early, so that
// its runs know little of where they ran.
func crashed(id string, cell string, rounds ...int) Side {
	facts := []record.Fact{fact("env", "NCCL_PROTO", "LL"), fact("host", "kernel", "6.8"), fact("workload", "model", "m")}
	s := sitting(id, 3, 3, 1, 1, facts...)
	for i, r := range s.View.Runs {
		if strings.HasPrefix(r.ID, "r"+cell+"-") && slices.Contains(rounds, int(r.ID[len(r.ID)-1]-'0')) {
			s.View.Runs[i].State, s.View.Runs[i].Reason = record.RunFailed, "the server exited: no memory"
			s.View.Data[r.ID] = record.RunData{Provenance: []record.Fact{fact("host", "kernel", "6.8")}}
		}
	}
	return s
}

func TestCompare_ACellThatNoLongerRunsIsNamedAndPassesNoGate(t *testing.T) {
	a := crashed("good", "2")
	c := mustCompare(t, a, crashed("later", "2", 0, 1, 2), CompareOptions{Limit: 0.03})
	var missing *MissingError
	if err := c.Regression(); !errors.As(err, &missing) || err.Error() != "cell steps=2 has no result in b" {
		t.Errorf("gate: %v", err)
	}
	if !slices.Equal(c.Flags, []string{"steps=2 has no result in b: 3 runs failed: the server exited: no memory"}) {
		t.Errorf("flags: %q", c.Flags)
	}
	if len(c.Diff.Lines) != 0 || !strings.HasPrefix(c.Decision, "cell steps=2 has no result in b; no difference found") {
		t.Errorf("%s; differences %+v", c.Decision, c.Diff.Lines)
	}
	if c := mustCompare(t, crashed("later", "2", 0, 1, 2), a, CompareOptions{Limit: 0.03}); c.Regression() != nil || len(c.Flags) != 1 {
		t.Errorf("a cell that runs again: %v, %q", c.Regression(), c.Flags)
	}
	c = mustCompare(t, a, crashed("later", "2", 1), CompareOptions{Limit: 0.03})
	if c.Regression() != nil || !slices.Equal(c.Flags, []string{"steps=2: 1 of 3 runs failed in b: the server exited: no memory"}) {
		t.Errorf("one of three: %v, %q", c.Regression(), c.Flags)
	}
	_, err := Compare(only(t, a, "steps=2"), only(t, crashed("later", "2", 0, 1, 2), "steps=2"), CompareOptions{Limit: 0.03})
	if !errors.As(err, &missing) {
		t.Errorf("alone: %v", err)
	}
}

func TestCompare_ARateOfNothingPassesNoGate(t *testing.T) {
	b := sitting("later", 2, 3, 1, 1)
	for _, d := range b.View.Data {
		for i, m := range d.Metrics {
			if m.Name == "output_throughput" {
				d.Metrics[i].Value = 0
			}
		}
	}
	var missing *MissingError
	if c := mustCompare(t, sitting("good", 2, 3, 1, 1), b, CompareOptions{Limit: 0.03}); !errors.As(c.Regression(), &missing) || !strings.Contains(missing.Error(), "has no tok/s in b") {
		t.Errorf("%v", c.Regression())
	}
}

// What a run that failed early did not get to is not absent.
func TestDiff_OfFailedRunsComparesWhatTheyKnow(t *testing.T) {
	a, b := only(t, crashed("good", "2"), "steps=2"), only(t, crashed("later", "2", 0, 1, 2), "steps=2")
	d := DiffSides(a, b)
	if len(d.Lines) != 0 || len(d.Unknown) != 3 || d.PartialB != 0 {
		t.Errorf("%+v", d)
	}
	for id, data := range b.View.Data {
		data.Provenance = append(data.Provenance, fact("env", "TERM", "screen"))
		b.View.Data[id] = data
	}
	var out strings.Builder
	if err := WriteDiff(&out, a, b, DiffSides(a, b), options()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "NCCL_PROTO") || !strings.Contains(out.String(), "no run of b is done: 1 fact not known") || !strings.Contains(out.String(), "TERM") {
		t.Errorf("%s", out.String())
	}
}

func TestCompare_TheSameRunsOnBothSides(t *testing.T) {
	a := sitting("good", 3, 3, 1, 1)
	if c := mustCompare(t, a, a, CompareOptions{}); c.Decision != "a and b are the same runs: there is nothing to tell apart" || len(c.Flags) != 3 {
		t.Errorf("%s; %q", c.Decision, c.Flags)
	}
	run := only(t, a, "steps=2")
	run.Kind, run.Run = SideRun, "r2-1"
	if c := mustCompare(t, run, only(t, a, "steps=2"), CompareOptions{}); !slices.Equal(c.Flags, []string{"steps=2: 1 run on both sides"}) {
		t.Errorf("%q", c.Flags)
	}
	if c := mustCompare(t, only(t, a, "steps=1"), only(t, a, "steps=2"), CompareOptions{}); len(c.Flags) != 0 {
		t.Errorf("other cells: %q", c.Flags)
	}
}
