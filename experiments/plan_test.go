package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func resolve(t *testing.T, s *Spec, args ...string) *Experiment {
	t.Helper()
	axes, err := ParseArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Resolve(s, fakeOptions(axes...))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func plan(t *testing.T, s *Spec, args ...string) *Plan {
	t.Helper()
	p, err := NewPlan(resolve(t, s, args...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNewPlan_BenchAxesShareALaunch(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	s.Rounds, s.Repeats = 2, 2
	p := plan(t, s, "steps=1,2", "bench.concurrency=1,4")
	if len(p.Cells) != 6 || len(p.Launches) != 6 {
		t.Fatalf("%d cells, %d launches: %v", len(p.Cells), len(p.Launches), cellLines(p.Cells))
	}
	// The baseline is measured under both loads, in one launch as well.
	want := []PlannedRun{{0, 0}, {1, 0}, {0, 1}, {1, 1}}
	if diff := cmp.Diff(want, p.Launches[0].Runs); diff != "" {
		t.Error(diff)
	}
	var order []string
	for _, l := range p.Launches {
		order = append(order, fmt.Sprintf("%d@%d", l.Runs[0].Cell, l.Round))
	}
	if diff := cmp.Diff("0@0 2@0 4@0 4@1 2@1 0@1", strings.Join(order, " ")); diff != "" {
		t.Error(diff)
	}
	s.Order = OrderGrid
	p = plan(t, s, "steps=1,2")
	order = nil
	for _, l := range p.Launches {
		order = append(order, fmt.Sprintf("%d@%d", l.Runs[0].Cell, l.Round))
	}
	if diff := cmp.Diff("0@0 0@1 1@0 1@1 2@0 2@1", strings.Join(order, " ")); diff != "" {
		t.Error(diff)
	}
}

// turns shows the order of a plan's launches: cells of each round in a word.
func turns(p *Plan) string {
	rounds := make([]string, p.Rounds)
	order := ""
	for _, l := range p.Launches {
		rounds[l.Round] += fmt.Sprint(l.Runs[0].Cell)
	}
	for _, r := range rounds {
		order += r + " "
	}
	return strings.TrimSpace(order)
}

func TestNewPlan_RoundsAlternate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rounds int
		after  After
		args   []string
		want   string
	}{
		"two cells":                     {4, AfterRestore, []string{"steps=2"}, "01 10 01 10"},
		"several":                       {5, AfterRestore, []string{"steps=1..3"}, "0123 3210 1230 0321 2301"},
		"the last one is to be kept":    {3, AfterKeep, []string{"steps=1..3"}, "1230 3210 0123"},
		"the last one of two":           {2, AfterKeep, []string{"steps=2"}, "10 01"},
		"one round is in natural order": {1, AfterRestore, []string{"steps=1..3"}, "0123"},
	} {
		s := loadExample(t)
		s.Rounds, s.After = c.rounds, c.after
		p := plan(t, s, c.args...)
		if got := turns(p); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		for i, l := range p.Launches {
			if l.N != i || l.Round != i/(len(p.Launches)/c.rounds) {
				t.Errorf("%s: launch %d is %d of round %d", name, i, l.N, l.Round)
			}
		}
	}
}

func TestNewPlan_AnAATwiceEverything(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	s.Where, s.Rounds, s.Order = nil, 3, OrderGrid
	s.Bench = append(s.Bench, Entry{Name: "quotable", Value: ParseScalar("true")})
	o := fakeOptions()
	o.AA = true
	var err error
	if o.Axes, err = ParseArgs([]string{"steps=0..1", "draft=2,7"}); err != nil {
		t.Fatal(err)
	}
	e, err := Resolve(s, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(e)
	if err != nil {
		t.Fatal(err)
	}
	if got := turns(p); p.Kind != KindAA || got != "0123 3210 2301" {
		t.Errorf("%s in the order %s", p.Kind, got)
	}
	for i, c := range p.Cells {
		if c.Ord != i || c.Params["arm"] != []string{"a", "b"}[i%2] || c.Key != p.Cells[i/2*2].Key {
			t.Errorf("cell %d: %+v", i, c.Params)
		}
	}
	if !p.Cells[1].Baseline || p.Cells[2].Baseline || len(p.Merged) != 3 || p.Merged[2].Into != 2 || len(p.Quotes) != 0 {
		t.Errorf("%+v, %+v", cellLines(p.Cells), p.Merged)
	}
	if want := "A/A: 2 cells twice (baseline included), 12 launches, 12 runs, about"; !strings.HasPrefix(p.Summary(), want) {
		t.Errorf("%s", p.Summary())
	}
}

func TestNewPlan_ProbeIsOneCellInPairs(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	s.Rounds, s.Repeats, s.Order, s.After = 7, 5, OrderGrid, AfterKeep
	s.Bench = append(s.Bench, Entry{Name: "quotable", Value: ParseScalar("true")})
	o := fakeOptions(Axis{Arg: "steps=3", Keys: []string{"steps"}, Rows: [][]Scalar{{ParseScalar("3")}}})
	e, err := ResolveProbe(s, o, "profiling-v3")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"map[patches:none steps:3] base=false spec=3/4/prefill patches=0 c=1",
		"map[patches:profiling-v3 steps:3] base=false spec=3/4/prefill patches=1 c=1",
	}, cellLines(p.Cells)); diff != "" {
		t.Error(diff)
	}
	if got := turns(p); p.Kind != KindProbe || got != "01 10 01" || p.Runs() != 6 || p.After != AfterRestore || len(p.Quotes) != 0 {
		t.Errorf("%s, %s, %d runs, after %s", p.Kind, got, p.Runs(), p.After)
	}
	if _, set := p.Cells[0].Server.Env["EAGLE3_PROFILE"]; set {
		t.Error("the patch's environment without the patch")
	}
	if want := "probe of profiling-v3: 3 pairs of launches without and with it, in turn, 6 runs, about"; !strings.HasPrefix(p.Summary(), want) {
		t.Errorf("%s", p.Summary())
	}
	for _, args := range [][]string{{"steps=1..2"}, {"patches=none"}} {
		axes, err := ParseArgs(args)
		if err != nil {
			t.Fatal(err)
		}
		var ae *ArgError
		if _, err := ResolveProbe(loadExample(t), fakeOptions(axes...), "profiling-v3"); !errors.As(err, &ae) || ae.Hint() == "" {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func quotable(s *Spec) {
	s.Bench = append(s.Bench, Entry{Name: "quotable", Value: ParseScalar("true")})
}

func TestNewPlan_QuotableAnnouncesWhatFollows(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	plain := plan(t, s, "steps=1..2")
	quotable(s)
	p := plan(t, s, "steps=1..2")
	if len(p.Quotes) != 2 || p.Quotes[1].Of != 2 || p.Quotes[1].Cell.Ord != 4 || p.Quotes[1].Cell.Params["patches"] != "none" ||
		len(p.Quotes[1].Cell.Server.Patches) != 0 || p.Quotes[1].Cell.Server.Env["EAGLE3_PROFILE"] != "" || p.Quotes[1].Command == "" {
		t.Errorf("%+v", p.Quotes)
	}
	if p.Runs() != plain.Runs() || p.Estimate.Seconds <= plain.Estimate.Seconds {
		t.Errorf("%d runs, %d s; without %d s", p.Runs(), p.Estimate.Seconds, plain.Estimate.Seconds)
	}
	if !strings.Contains(p.Summary(), "9 runs, then the best cell 3 times without its profiling patches (quotable), about") {
		t.Error(p.Summary())
	}
	if p.Cells[1].Key != plain.Cells[1].Key {
		t.Error("what follows a sweep counts for the key of its cells")
	}
	// Said on the command line it is no parameter of a cell.
	if p := plan(t, loadExample(t), "steps=2", "bench.quotable=true"); len(p.Quotes) != 1 || len(p.Cells[1].Params) != 1 || len(p.Quotes[0].Cell.Params) != 2 {
		t.Errorf("%+v", cellLines(p.All()))
	}
	// What is measured without the patch anyway needs no quote.
	if p := plan(t, s, "steps=1..2", "patches=none,profiling-v4"); len(p.Quotes) != 0 {
		t.Errorf("%+v", p.Quotes)
	}
}

func TestPlan_IsDeterministicAndSurvivesJSON(t *testing.T) {
	t.Parallel()
	text, sha, err := plan(t, loadExample(t), "steps=1..4", "mode=prefill,decode").Encode()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		_, again, err := plan(t, loadExample(t), "steps=1..4", "mode=prefill,decode").Encode()
		if err != nil || again != sha {
			t.Fatalf("%s then %s, %v", sha, again, err)
		}
	}
	back, err := DecodePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	text2, sha2, err := back.Encode()
	if err != nil || sha2 != sha {
		t.Errorf("%v\n%s", err, cmp.Diff(string(text), string(text2)))
	}
	if !json.Valid(text) || strings.Contains(string(text), `"Value"`) {
		t.Errorf("not plain JSON: %s", text)
	}
}

func TestPlan_KeysFollowTheMeaning(t *testing.T) {
	t.Parallel()
	base := resolve(t, loadExample(t), "steps=2").Cells[1].Key
	for name, args := range map[string][]string{
		"env": {"steps=2", "env.NCCL_PROTO=Simple"}, "patch": {"steps=2", "patches=profiling-v3"}, "bench": {"steps=2", "bench.requests=3"},
		"flag": {"steps=2", "tp-size=4"}, "python": {"steps=2", "python=/other"},
	} {
		cells := resolve(t, loadExample(t), args...).Cells
		if cells[len(cells)-1].Key == base {
			t.Errorf("%s does not count for the key", name)
		}
	}
	moved := loadExample(t)
	moved.Server.Port = 31000
	if resolve(t, moved, "steps=2").Cells[1].Key != base {
		t.Error("the port counts for the key")
	}
}

// A benchmark that cannot reach the batch that its cell is named after says so.
func TestPlan_FewerRequestsThanAtOnceIsNoted(t *testing.T) {
	t.Parallel()
	notesOf := func(args ...string) (found []string) {
		for _, n := range plan(t, loadExample(t), args...).Notes {
			if strings.Contains(n, "at work at once") {
				found = append(found, n)
			}
		}
		return found
	}
	want := []string{"bench.requests=16 is less than bench.concurrency=32: no more than 16 are at work at once; bench.requests=128 fills it"}
	if diff := cmp.Diff(want, notesOf("steps=1..2", "bench.concurrency=1,32")); diff != "" {
		t.Error(diff)
	}
	if got := notesOf("steps=1..2", "bench.concurrency=1,32", "bench.requests=128"); got != nil {
		t.Errorf("%v", got)
	}
}

// A variable with a letter missing starts the server all the same: it is said.
func TestPlan_AKeyLikeOneOfTheSpecIsNoted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ arg, want string }{
		{"env.NCCL_PROT=Simple", "env.NCCL_PROT is added to the server: the spec has no NCCL_PROT, but NCCL_PROTO"},
		{"env.NCCL_PROTO=Simple", ""},
		{"env.CUDA_LAUNCH_BLOCKING=1", ""},
		{"flag.page-size=64", ""},
		{"flag.tp-sizes=8", "flag.tp-sizes is added to the server: the spec has no tp-sizes, but tp-size"},
	} {
		got := ""
		for _, n := range plan(t, loadExample(t), "steps=1..2", c.arg).Notes {
			if strings.Contains(n, "is added to the server") {
				got += n
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.arg, got, c.want)
		}
	}
}
