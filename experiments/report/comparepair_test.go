package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// positioned gives a run the samples of requests whose token k comes 10 ms + 10
// us for each position after the one before.
func positioned(d record.RunData, tokens int, factor float64) record.RunData {
	elapsed := func(k int) float64 { return factor * (10*float64(k) + 0.005*float64(k*k)) }
	for request := range 2 {
		labels := func(extra ...string) map[string]string {
			m := map[string]string{"request": fmt.Sprint(request)}
			for i := 0; i < len(extra); i += 2 {
				m[extra[i]] = extra[i+1]
			}
			return m
		}
		d.Samples = append(d.Samples, record.Sample{Name: "request_ttft", Unit: "ms", Value: 5, Source: "client", Labels: labels()})
		for k := 32; k < tokens; k += 32 {
			d.Samples = append(d.Samples, record.Sample{Name: "decode_elapsed", Unit: "ms", Value: elapsed(k), Source: "client", Labels: labels("position", fmt.Sprint(k))})
		}
		d.Samples = append(d.Samples, record.Sample{Name: "decode_elapsed", Unit: "ms", Value: elapsed(tokens - 1), Source: "client", Labels: labels("position", fmt.Sprint(tokens-1), "end", "true")})
	}
	tpot := elapsed(tokens-1) / float64(tokens-1)
	d.Metrics = []record.Metric{{Name: "tpot", Unit: "ms", Value: tpot, Source: "client"}, {Name: "output_throughput", Unit: "tok/s", Value: 1000 / tpot, Source: "client"},
		{Name: "concurrency", Unit: "requests", Value: 1, Source: "client"}, {Name: "completed", Value: 2, Source: "client"}, {Name: "total_output_tokens", Value: float64(2 * tokens), Source: "client"}}
	return d
}

// Time per token rises with the context, so that outputs half as long look
// faster. They are not called that.
func TestCompare_OutputsHalfAsLongAreNotFaster(t *testing.T) {
	side := func(id string, tokens int) Side {
		s := only(t, sitting(id, 3, 6, 1, 1), "steps=1")
		for run, d := range s.View.Data {
			i := float64(len(run)) + float64(run[len(run)-1]%5)
			s.View.Data[run] = positioned(d, tokens, 1+0.002*i)
		}
		return s
	}
	c := mustCompare(t, side("good", 1600), side("later", 800), CompareOptions{})
	raw := (10*799 + 0.005*799*799) / 799 / ((10*1599 + 0.005*1599*1599) / 1599)
	if raw > 0.8 {
		t.Fatalf("the slope is too small to test anything: %v", raw)
	}
	l := lineOf(t, c, "steps=1", "tpot")
	if math.Abs(*l.Ratio-1) > 0.001 || l.Separable == nil || *l.Separable || l.Note == "" {
		t.Errorf("TPOT %+v", l)
	}
	want := "steps=1: outputs of b are half as long (800 of 1600 tokens a request): compared over the first 800"
	if !slices.Contains(c.Notes, want) {
		t.Errorf("notes %q", c.Notes)
	}
	if !strings.HasPrefix(c.Decision, "no difference found") {
		t.Errorf("decision: %s", c.Decision)
	}
	// Without positions it cannot be told, and that is said aloud.
	b := side("later", 800)
	for run, d := range b.View.Data {
		d.Samples = nil
		b.View.Data[run] = d
	}
	c = mustCompare(t, side("good", 1600), b, CompareOptions{})
	if len(c.Flags) != 1 || !strings.Contains(c.Flags[0], "half as long (800 of 1600 tokens a request) and positions are not known") {
		t.Errorf("flags %q", c.Flags)
	}
}

// What slows cell and baseline alike goes away when each launch is divided by the
// baseline of its round.
func TestCompare_Normalised(t *testing.T) {
	c := mustCompare(t, sitting("good", 3, 6, 1, 1), sitting("later", 3, 6, 1.3, 1.3), CompareOptions{Normalise: true})
	raw, relative := lineOf(t, c, "steps=1", "output_throughput"), lineOf(t, c, "steps=1", "output_throughput_per_baseline")
	if math.Abs(*raw.Ratio-1/1.3) > 0.01 || math.Abs(*relative.Ratio-1) > 0.01 || *relative.Separable || relative.A.N != 6 {
		t.Errorf("raw %+v, relative %+v", raw, relative)
	}
	c = mustCompare(t, sitting("good", 3, 6, 1, 1), sitting("later", 3, 6, 1.3, 1), CompareOptions{Normalise: true})
	if l := lineOf(t, c, "steps=1", "output_throughput_per_baseline"); math.Abs(*l.Ratio-1/1.3) > 0.01 || !*l.Separable {
		t.Errorf("only speculation is slower: %+v", l)
	}
	if !slices.ContainsFunc(c.Notes, func(n string) bool { return strings.HasPrefix(n, "baseline the same") }) {
		t.Errorf("notes %q", c.Notes)
	}
}

// Rounds that alternated are compared round by round, within one sweep only.
func TestCompare_PairsRoundsOfOneSweep(t *testing.T) {
	b := newBuilder(5, 3, "interleave").rounds(3) // rounds drift by 4 %
	s := Side{Ref: "x", Kind: SideSweep, View: b.v}
	c := mustCompare(t, only(t, s, "steps=1"), only(t, s, "steps=2"), CompareOptions{})
	if l := lineOf(t, c, "steps=1 / steps=2", "output_throughput"); !*l.Separable || !strings.HasPrefix(l.Method, "paired") {
		t.Errorf("%+v", l)
	}
	if l := lineOf(t, c, "steps=1 / steps=2", "cycle_total"); l.Ratio != nil || l.Separable != nil || l.A.Median == nil || !strings.Contains(l.Note, "different steps") {
		t.Errorf("TOTAL of different steps was compared: %+v", l)
	}
	other := s
	other.View.Sweep.ID = "other"
	c = mustCompare(t, only(t, s, "steps=1"), only(t, other, "steps=1"), CompareOptions{})
	if l := lineOf(t, c, "steps=1", "output_throughput"); strings.HasPrefix(l.Method, "paired") {
		t.Errorf("%+v", l)
	}
}

func TestCompare_MatchesCellsByParameters(t *testing.T) {
	a, b := sitting("a", 4, 1, 1, 1), sitting("b", 3, 1, 1, 1)
	for i := range b.View.Cells {
		b.View.Cells[i].Params["env.NCCL_PROTO"] = "Simple" // the same in all: no axis
	}
	b.View.Cells[2].Params["steps"] = int64(9)
	c := mustCompare(t, a, b, CompareOptions{})
	var names []string
	for _, l := range c.Lines {
		if !slices.Contains(names, l.Cell) {
			names = append(names, l.Cell)
		}
	}
	if diff := cmp.Diff([]string{"baseline", "steps=1"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []UnmatchedLine{{"steps=2", "a"}, {"steps=3", "a"}, {"env.NCCL_PROTO=Simple steps=9", "b"}}
	got := c.Unmatched()
	for i := range got {
		got[i].Cell = strings.ReplaceAll(got[i].Cell, "  ", " ")
	}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2].Side != "b" || !strings.Contains(got[2].Cell, "steps=9") {
		t.Errorf("unmatched %+v", got)
	}
	alone := only(t, a, "steps=1")
	_, err := Compare(alone, Side{Ref: "b", Kind: SideSweep, View: record.SweepView{Cells: b.View.Cells[2:]}}, CompareOptions{})
	var none *NothingError
	if !errors.As(err, &none) {
		t.Errorf("cells without runs: %v", err)
	}
}

func TestCompare_Files(t *testing.T) {
	run := func(total float64) record.RunData {
		return record.RunData{Labels: []record.Label{{Name: "imported"}}, Metrics: []record.Metric{{Name: "cycle_total", Unit: "ms/cyc", Value: total, Source: "profiler"}}}
	}
	a := FileSide("old.log", []record.RunData{run(20), run(20.1), run(19.9)})
	c := mustCompare(t, a, FileSide("new.log", []record.RunData{run(30), run(30.2), run(29.9)}), CompareOptions{})
	if l := c.Lines[0]; l.A.N != 3 || !*l.Separable || math.Abs(*l.Ratio-1.5) > 0.01 {
		t.Errorf("%+v", l)
	}
	if !strings.Contains(c.Decision, "50 % slower") {
		t.Errorf("%s", c.Decision)
	}
	stored := only(t, sitting("x", 2, 3, 1, 1), "steps=1")
	if c := mustCompare(t, a, stored, CompareOptions{}); len(c.Lines) != 1 || !slices.ContainsFunc(c.Flags, func(f string) bool { return strings.HasPrefix(f, "a: imported") }) {
		t.Errorf("%+v, %q", c.Lines, c.Flags)
	}
}

// Two sources of one number differ by their own: a side that lacks the nearer one
// is compared by the one that both have.
func TestCompare_SourcesAreNotMixed(t *testing.T) {
	a, b := sitting("x", 3, 3, 1, 1), sitting("yy", 3, 3, 1, 1)
	drop := func(s Side, source string) {
		for id, d := range s.View.Data {
			d.Metrics = slices.DeleteFunc(slices.Clone(d.Metrics), func(m record.Metric) bool { return m.Name == "accept_len" && m.Source == source })
			s.View.Data[id] = d
		}
	}
	drop(b, "profiler")
	c := mustCompare(t, a, b, CompareOptions{})
	if l := lineOf(t, c, "steps=1", "accept_len"); *l.A.Median != 9.99 || *l.Ratio != 1 || len(c.Flags) > 0 {
		t.Errorf("%v / %v, ratio %v; flags %q", *l.A.Median, *l.B.Median, *l.Ratio, c.Flags)
	}
	if want := "accept len: by the server's log, which both sides have; a alone has it by the profiler too"; !slices.Contains(c.Notes, want) {
		t.Errorf("no %q in %q", want, c.Notes)
	}
	drop(a, "server_log")
	c = mustCompare(t, a, b, CompareOptions{})
	if l := lineOf(t, c, "steps=1", "accept_len"); l.Note == "" || !slices.Contains(c.Flags, "accept len of a and of b come from other sources") {
		t.Errorf("%+v; flags %q", l, c.Flags)
	}
}

func TestFindCell(t *testing.T) {
	v := newBuilder(4, 1, "grid").v
	v.Cells[3].Params = record.Params{"steps": int64(1), "topk": int64(4)}
	for text, want := range map[string]string{"baseline": "c0", "steps=2": "c2", "steps=1,topk=4": "c3", "steps=1 topk=1": "c1", "topk=4": "c3", "steps=1": "", "steps=9": "", "": "", "nope=1": "", "base": ""} {
		c, err := FindCell(v, text)
		var bad *CellError
		switch {
		case want == "" && (!errors.As(err, &bad) || !strings.Contains(bad.Hint(), "steps=2 topk=1")):
			t.Errorf("%q: %v", text, err)
		case want != "" && (err != nil || c.ID != want):
			t.Errorf("%q: %s, %v; want %s", text, c.ID, err, want)
		}
	}
	_, err := FindCell(v, "steps=1")
	if err == nil || !strings.Contains(err.Error(), "fits 2 cells: steps=1 topk=1; steps=1 topk=4") {
		t.Errorf("ambiguous: %v", err)
	}
}

// Of two hosts the noisier one counts.
func TestCompare_RemembersTheNoisierHost(t *testing.T) {
	b := sitting("yy", 2, 2, 1.2, 1)
	for i := range b.View.Runs {
		b.View.Runs[i].Host = "gpu-02"
	}
	noise := func(host, metric string) *stats.Noise {
		n := stats.Noise{SD: map[string]float64{"lab": 0.01, "gpu-02": 0.05}[host], DF: 20, Basis: host}
		return &n
	}
	for _, sides := range [][2]Side{{sitting("x", 2, 2, 1, 1), b}, {b, sitting("x", 2, 2, 1, 1)}} {
		c := mustCompare(t, sides[0], sides[1], CompareOptions{Noise: noise})
		if l := lineOf(t, c, "steps=1 topk=1", "tpot_mean"); !strings.HasSuffix(l.Method, "(gpu-02)") {
			t.Errorf("%s", l.Method)
		}
	}
}
