package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// sitting is a sweep of a baseline and steps=1..cells-1 in rounds that agree
// within 1 %; spec and base scale the time of a cycle and of a plain token.
func sitting(id string, cells, rounds int, spec, base float64, facts ...record.Fact) Side {
	b := newBuilder(cells, rounds, "interleave")
	r := rand.New(rand.NewPCG(uint64(len(id)), uint64(rounds)))
	for round := range rounds {
		for cell := range cells {
			factor := spec
			if cell == 0 {
				factor = base
			}
			b.run(cell, round, factor*(1+0.005*(2*r.Float64()-1)))
		}
	}
	b.v.Sweep.ID = id
	for run, d := range b.v.Data {
		d.Provenance = append(d.Provenance, facts...)
		b.v.Data[run] = d
	}
	return Side{Ref: id, Kind: SideSweep, View: b.v}
}

func fact(group, key, value string) record.Fact {
	return record.Fact{Group: group, Key: key, Value: value}
}

func mustCompare(t *testing.T, a, b Side, o CompareOptions) *Comparison {
	t.Helper()
	c, err := Compare(a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func lineOf(t *testing.T, c *Comparison, cell, metric string) ComparisonLine {
	t.Helper()
	for _, l := range c.Lines {
		if l.Cell == cell && l.Metric == metric {
			return l
		}
	}
	t.Fatalf("no line %s %s among %+v", cell, metric, c.Lines)
	return ComparisonLine{}
}

// only is a side of one cell of a sweep.
func only(t *testing.T, s Side, cell string) Side {
	t.Helper()
	c, err := FindCell(s.View, cell)
	if err != nil {
		t.Fatal(err)
	}
	s.Ref, s.Kind, s.Cells = s.Ref+"/"+cell, SideCell, []string{c.ID}
	return s
}

// The regression that nobody could explain: 20.1 -> 30 ms a cycle, the baseline
// 88.8 -> 82 tok/s.
func theRegression(rounds int) (a, b Side) {
	return sitting("good", 3, rounds, 1, 1, fact("env", "NCCL_PROTO", "LL"), fact("env", "TERM", "xterm"), fact("host", "kernel", "6.8.0-45")),
		sitting("later", 3, rounds, 1.49, 1.08, fact("env", "TERM", "screen"), fact("env", "LANG", "C"), fact("host", "kernel", "6.8.0-47"))
}

func TestCompare_TheRegressionOfTheStory(t *testing.T) {
	a, b := theRegression(6)
	c := mustCompare(t, a, b, CompareOptions{Limit: 0.03})
	total := lineOf(t, c, "steps=2", "cycle_total")
	if total.Separable == nil || !*total.Separable || math.Abs(*total.Ratio-1.49) > 0.01 || *total.PHolm > 0.001 || *total.PHolm < *total.P || total.Method == "" || *total.MinEffect > 0.02 {
		t.Errorf("TOTAL: %+v", total)
	}
	if total.A.N != 6 || total.B.N != 6 || !(*total.Lo < *total.Ratio && *total.Ratio < *total.Hi) {
		t.Errorf("TOTAL: %+v", total)
	}
	if len(c.Notes) == 0 || !strings.HasPrefix(c.Notes[0], "baseline slower too: +8.") || !strings.HasSuffix(c.Notes[0], "the host or the engine changed, not only speculation") {
		t.Errorf("notes: %q", c.Notes)
	}
	if c.Diff.Lines[0].Key != "NCCL_PROTO" || c.Diff.Lines[0].Rank != 1 {
		t.Errorf("first cause: %+v", c.Diff.Lines[0])
	}
	if !strings.HasSuffix(c.Decision, ": likely NCCL_PROTO (LL -> not set)") || !strings.HasPrefix(c.Decision, "b is slower than a in 3 of 3 cells") {
		t.Errorf("decision: %s", c.Decision)
	}
	var regression *RegressionError
	if err := c.Regression(); !errors.As(err, &regression) || len(regression.Cells) != 3 {
		t.Errorf("regression: %v", err)
	}
	one := mustCompare(t, only(t, a, "steps=2"), only(t, b, "steps=2"), CompareOptions{})
	if !strings.HasPrefix(one.Decision, "b is 49 % slower than a (tok/s -33.1 %): likely NCCL_PROTO") || len(one.Notes) == 0 || !strings.HasPrefix(one.Notes[0], "baseline slower too") {
		t.Errorf("of single cells: %s; %q", one.Decision, one.Notes)
	}
	if back := mustCompare(t, b, a, CompareOptions{Limit: 0.03}); back.Regression() != nil || !strings.Contains(back.Decision, "faster") {
		t.Errorf("the other way round: %v, %s", back.Regression(), back.Decision)
	}
}

func TestCompare_Golden(t *testing.T) {
	var out bytes.Buffer
	write := func(title string, c *Comparison) {
		t.Helper()
		fmt.Fprintf(&out, "=== %s\n", title)
		if err := c.WriteText(&out, options()); err != nil {
			t.Fatal(err)
		}
		for _, l := range c.Lines[:1] {
			line, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(append(line, '\n'))
		}
		line, err := json.Marshal(c.DecisionLine())
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	a, b := theRegression(6)
	write("the regression", mustCompare(t, a, b, CompareOptions{}))
	write("nothing changed", mustCompare(t, a, sitting("again", 5, 3, 1.001, 1), CompareOptions{}))
	write("one launch", mustCompare(t, sitting("x", 2, 1, 1, 1), sitting("yy", 2, 1, 1.3, 1), CompareOptions{}))
	write("cells of different steps", mustCompare(t, only(t, a, "steps=1"), only(t, a, "steps=2"), CompareOptions{}))
	write("normalised", mustCompare(t, a, b, CompareOptions{Normalise: true, Metrics: []string{"output_throughput"}}))
	golden(t, "compare.txt", out.Bytes())
	for n, line := range strings.Split(out.String(), "\n") {
		if strings.TrimRight(line, " ") != line {
			t.Errorf("blanks at the end of line %d: %q", n+1, line)
		}
	}
}

// One launch a side: nothing is called different, and no limit is broken by it.
func TestCompare_OneLaunchProvesNothing(t *testing.T) {
	c := mustCompare(t, sitting("x", 2, 1, 1, 1), sitting("yy", 2, 1, 3, 1), CompareOptions{Limit: 0.03})
	for _, l := range c.Lines {
		if l.Separable != nil || l.TooFew == "" {
			t.Errorf("%+v", l)
		}
	}
	if c.Regression() != nil || !strings.HasPrefix(c.Decision, "not known whether b differs") {
		t.Errorf("%v; %s", c.Regression(), c.Decision)
	}
}

func TestCompare_RegressionLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, limit float64
		metrics     []string
		want        bool
	}{
		"far beyond":          {1.2, 0.03, nil, true},
		"separable but less":  {1.02, 0.03, nil, false},
		"faster":              {0.8, 0.03, nil, false},
		"no limit":            {1.2, 0, nil, false},
		"TOTAL up":            {1.2, 0.03, []string{"cycle_total"}, true},
		"TPOT down is better": {0.8, 0.03, []string{"tpot_mean"}, false},
		"tok/s is of time":    {1.045, 0.0435, []string{"output_throughput"}, true}, // 4.3 % fewer tokens, but 4.5 % slower
	} {
		c := mustCompare(t, sitting("good", 2, 6, 1, 1), sitting("later", 2, 6, tc.spec, 1), CompareOptions{Limit: tc.limit, Metrics: tc.metrics})
		if got := c.Regression() != nil; got != tc.want {
			t.Errorf("%s: %v, want %v; %v", name, got, tc.want, c.Regression())
		}
	}
}

func TestCompare_UnlikeSidesAreRefused(t *testing.T) {
	like := []record.Fact{fact("workload", "model", "m"), fact("workload", "requests", "16"), fact("gpu", "0 name", "NVIDIA H200"), fact("gpu", "1 name", "NVIDIA H200")}
	with := func(changed ...record.Fact) []record.Fact {
		out := slices.Clone(like)
		for _, c := range changed {
			i := slices.IndexFunc(out, func(f record.Fact) bool { return f.Group == c.Group && f.Key == c.Key })
			if i < 0 {
				out = append(out, c)
			} else {
				out[i] = c
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		facts []record.Fact
		want  string
	}{
		"the same":          {like, ""},
		"model":             {with(fact("workload", "model", "n")), "workload model m / n"},
		"requests":          {with(fact("workload", "requests", "8")), "workload requests 16 / 8"},
		"one GPU of two":    {with(fact("gpu", "1 name", "NVIDIA H100")), "gpu name 2 x NVIDIA H200 / 1 x NVIDIA H100 and 1 x NVIDIA H200"},
		"not known is fine": {[]record.Fact{fact("workload", "requests", "16")}, ""},
		"another flag":      {with(fact("flags", "tp_size", "4")), ""},
	} {
		a, b := sitting("good", 2, 3, 1, 1, like...), sitting("later", 2, 3, 1, 1, tc.facts...)
		_, err := Compare(a, b, CompareOptions{})
		var unlike *UnlikeError
		if errors.As(err, &unlike) != (tc.want != "") || unlike != nil && (len(unlike.Keys) != 1 || unlike.Keys[0].String() != tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		c := mustCompare(t, a, b, CompareOptions{Force: true})
		if got := slices.Contains(c.Flags, "not alike: "+tc.want); got != (tc.want != "") {
			t.Errorf("%s, forced: flags %q", name, c.Flags)
		}
	}
}

func TestCompare_FlagsWhatIsHardToCompare(t *testing.T) {
	sha := strings.Repeat("ab12cd34", 8)
	other := strings.Repeat("99887766", 8)
	patched := func(s Side, name, value string, labels ...string) Side {
		for id, d := range s.View.Data {
			if name != "" {
				d.Provenance = append(d.Provenance, fact("patches", name, value))
			}
			for _, l := range labels {
				d.Labels = append(d.Labels, record.Label{Name: l, Reason: "why"})
			}
			s.View.Data[id] = d
		}
		return s
	}
	base := func(id string) Side { return only(t, sitting(id, 2, 3, 1, 1), "steps=1") }
	elsewhere := base("later")
	for i := range elsewhere.View.Runs {
		elsewhere.View.Runs[i].Host = "gpu-02"
	}
	for name, tc := range map[string]struct {
		a, b Side
		want []string
	}{
		"nothing":           {patched(base("x"), "profiling-v4", "1 "+sha), patched(base("yy"), "profiling-v4", "1 "+sha), nil},
		"other content":     {patched(base("x"), "profiling-v3", "1 "+sha), patched(base("yy"), "profiling-v4", "1 "+other), []string{"profilers differ: profiling-v3 1 (ab12cd34) / profiling-v4 1 (99887766)"}},
		"no profiler":       {patched(base("x"), "profiling-v3", "1 "+sha), patched(base("yy"), "none", "none"), []string{"profilers differ: profiling-v3 1 (ab12cd34) / none"}},
		"a log of the same": {patched(base("x"), "profiling-v4", "1 "+sha), patched(base("yy"), "profiler", "profiling-v4 1 "+sha[:12]), nil},
		"a log of another": {patched(base("x"), "profiling-v4", "1 "+sha), patched(base("yy"), "profiler", "profiling-v3 2 "+other[:12], "imported"), []string{
			"profilers differ: profiling-v4 1 (ab12cd34) / profiling-v3 2 (99887766)",
			"b: imported, so that work and hardware are not known to be alike"}},
		"an old log": {patched(base("x"), "profiling-v3", "1 "+sha), patched(base("yy"), "", "", "imported", "total-unknown"), []string{
			"profilers differ: profiling-v3 1 (ab12cd34) / not known",
			"b: why (total-unknown)",
			"b: imported, so that work and hardware are not known to be alike"}},
		"a synchronize": {patched(base("x"), "", "", "sync-probe"), base("yy"), []string{"only a is sync-probe"}},
		"another host":  {base("x"), elsewhere, []string{"hosts differ: lab / gpu-02; machines of one kind have differed by 20 %"}},
	} {
		c := mustCompare(t, tc.a, tc.b, CompareOptions{})
		if diff := cmp.Diff(tc.want, c.Flags); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if l := c.Lines[0]; len(l.Flags) != len(tc.want) || !slices.IsSorted(l.LabelsA) || !slices.Contains(l.LabelsA, "simulated") {
			t.Errorf("%s: flags %q, labels %q", name, l.Flags, l.LabelsA)
		}
		var text bytes.Buffer
		if err := c.WriteText(&text, options()); err != nil {
			t.Fatal(err)
		}
		for _, f := range tc.want {
			if !strings.Contains(text.String(), "\n! "+f) {
				t.Errorf("%s: the text does not say %q:\n%s", name, f, text.String())
			}
		}
	}
}

// With a profiler on one side and none on the other, the gap is asked for with
// the one's numbers first.
func TestCompare_SplitsTheGap(t *testing.T) {
	gap := func(with, without []record.Metric) *GapFactor {
		value := func(ms []record.Metric) (v float64) {
			for _, m := range ms {
				if m.Name == "cycle_total" {
					v = m.Value
				}
			}
			return v
		}
		return &GapFactor{Ratio: value(with), Rest: value(without), Explanation: "because"}
	}
	with, without := sitting("x", 2, 3, 2, 1, fact("patches", "profiling-v3", "1")), sitting("yy", 2, 3, 1, 1, fact("patches", "none", "none"))
	for _, sides := range [][2]Side{{with, without}, {without, with}} {
		c := mustCompare(t, sides[0], sides[1], CompareOptions{Gap: gap})
		if c.Gap == nil || math.Abs(c.Gap.Ratio-35.8) > 0.4 || math.Abs(c.Gap.Rest-17.9) > 0.2 {
			t.Errorf("gap %+v", c.Gap)
		}
	}
	if c := mustCompare(t, with, with, CompareOptions{Gap: gap}); c.Gap != nil {
		t.Errorf("both have a profiler: %+v", c.Gap)
	}
}

// Of twenty equal cells one will look different by chance; adjusted it does not.
func TestCompare_ManyCellsAreJudgedTogether(t *testing.T) {
	p, separable := 0.02, true
	c := &Comparison{}
	for i := range 20 {
		l := ComparisonLine{Cell: fmt.Sprint(i), Metric: "tpot"}
		q, no := 0.3+float64(i)/100, false
		l.P, l.Separable = &q, &no
		if i == 7 {
			l.P, l.Separable = &p, &separable
		}
		c.Lines = append(c.Lines, l)
	}
	c.holm()
	if l := c.Lines[7]; *l.Separable || *l.P != 0.02 || math.Abs(*l.PHolm-0.4) > 1e-9 {
		t.Errorf("%v %v %v", *l.Separable, *l.P, *l.PHolm)
	}
	c.Lines = c.Lines[7:8]
	yes := true
	c.Lines[0].Separable = &yes
	c.holm()
	if !*c.Lines[0].Separable || *c.Lines[0].PHolm != 0.02 {
		t.Errorf("alone: %+v", c.Lines[0])
	}
}

func TestCompare_RemembersTheNoiseOfTheHost(t *testing.T) {
	var asked []string
	noise := func(host, metric string) *stats.Noise {
		asked = append(asked, host+" "+metric)
		n := stats.PoolNoise([][]float64{{1, 1.2, 0.9, 1.1, 1}, {2, 2.2, 1.7, 2.1}})
		return &n
	}
	c := mustCompare(t, sitting("x", 2, 1, 1, 1), sitting("yy", 2, 1, 1.3, 1), CompareOptions{Noise: noise})
	if !slices.Contains(asked, "lab output_throughput") || !strings.Contains(c.Lines[0].TooFew, "commonly differ") {
		t.Errorf("asked %q; %s", asked, c.Lines[0].TooFew)
	}
}

func TestCompare_Metrics(t *testing.T) {
	a, b := sitting("a", 2, 3, 1, 1), sitting("b", 2, 3, 1, 1)
	c := mustCompare(t, a, b, CompareOptions{Metrics: []string{"cycle_total"}})
	if len(c.Lines) != 1 || c.Lines[0].Metric != "cycle_total" || c.Lines[0].Unit != "ms/cyc" {
		t.Errorf("%+v", c.Lines)
	}
	_, err := Compare(a, b, CompareOptions{Metrics: []string{"cycle_totla"}})
	var none *NothingError
	if !errors.As(err, &none) || !strings.Contains(none.Next, "cycle_total") {
		t.Errorf("%v", err)
	}
}
