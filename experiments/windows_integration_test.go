//go:build integration

package experiments_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"specrun/experiments"
	"specrun/experiments/bench"
	"specrun/experiments/lab"
	"specrun/experiments/record"
	"specrun/experiments/stats"
	"specrun/experiments/store"
)

// labRun is one run with the report of its client.
type labRun struct {
	data   record.RunData
	report bench.Report
}

func (m labRun) metric(name, source string) float64 {
	for _, x := range m.data.Metrics {
		if x.Name == name && x.Source == source {
			return x.Value
		}
	}
	return math.NaN()
}

func (m labRun) fact(key string) string {
	for _, f := range m.data.Provenance {
		if f.Group == "workload" && f.Key == key {
			return f.Value
		}
	}
	return ""
}

// has says that the run has a metric, whose size is the soak tier's matter: what
// a busy machine makes of the lab's clock is no fault.
func (m labRun) has(t *testing.T, name, source string) {
	t.Helper()
	if v := m.metric(name, source); !(v > 0) {
		t.Errorf("%s of %s is %v", name, source, v)
	}
}

// measureOnLab runs a plan and returns its runs, cells first to last.
func measureOnLab(t *testing.T, l *lab.Lab, p *experiments.Plan) (*store.Store, []labRun) {
	t.Helper()
	ctx := context.Background()
	db := openStore(t, filepath.Join(t.TempDir(), "results.db"))
	t.Cleanup(func() { db.Close() })
	sum, err := experiments.Execute(ctx, deps(l.Host(), db), p, nil)
	if err != nil || sum.State != record.SweepDone {
		t.Fatalf("%+v, %v", sum, err)
	}
	v := settled(t, l, db, p)
	var out []labRun
	for _, r := range v.Runs {
		m := labRun{data: v.Data[r.ID]}
		i := slices.IndexFunc(v.Artifact, func(a record.Artifact) bool { return a.RunID == r.ID && a.Name == "bench.json" })
		if i < 0 {
			t.Fatalf("run %s has no bench.json", r.ID)
		}
		f, err := store.Content(v.Artifact[i])
		if err == nil {
			err = errors.Join(json.NewDecoder(f).Decode(&m.report), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return db, out
}

// On a server whose cycles cost more with the context, rows never agree; whole
// requests do, and so the warm-up ends.
func TestLab_WarmUpEndsOnASlope(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1, func(s *lab.Settings) { s.ContextSlope, s.PlainSlope, s.Behind = 20, 10, 2000 })
	p := planFor(t, l.Host(), nil, "steps=2", "bench.warmup=auto", "bench.max_tokens=200", "flag.enable-metrics=true")
	_, runs := measureOnLab(t, l, p)
	for _, m := range runs {
		if got := m.fact("warmup_outcome"); got != "settled" {
			t.Errorf("warm-up: %q by the rule %q", got, m.fact("warmup_rule"))
		}
		for _, q := range m.report.Requests {
			if q.PositionsFrom != bench.FromUsage || len(q.Positions) != 7 {
				t.Errorf("request %d: positions %v from %s", q.Index, q.Positions, q.PositionsFrom)
			}
		}
		if got := m.report.ServerCounters["generation_tokens"]; got != 400 {
			t.Errorf("the server counted %v tokens, the client 400: %v", got, m.report.ServerCounters)
		}
		if len(m.report.Notes) > 0 {
			t.Errorf("notes %q", m.report.Notes)
		}
	}
	cell := runs[len(runs)-1]
	s, ok := stats.ContextSlope(cell.data.Samples)
	if !ok {
		t.Errorf("no slope: %+v", s)
	}
	if got := cell.metric("cycle_total_slope", "profiler"); got != s.PerThousand {
		t.Errorf("cycle_total_slope %v, want %v", got, s.PerThousand)
	}
	cell.has(t, "accept_len", "per_request")
}

// Four at once with answers of the length that the model gives them.
func TestLab_FourAtOnceWithUnequalLengths(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1, func(s *lab.Settings) { s.Behind = 2000 })
	p := planFor(t, l.Host(), nil, "steps=2", "bench.concurrency=4", "bench.requests=8", "bench.max_tokens=400", "bench.ignore_eos=false", "flag.enable-metrics=true")
	_, runs := measureOnLab(t, l, p)
	cell := runs[len(runs)-1]
	lengths := map[int]bool{}
	tokens := 0
	for _, q := range cell.report.Requests {
		lengths[q.OutputTokens] = true
		tokens += q.OutputTokens
	}
	if len(lengths) < 4 {
		t.Fatalf("lengths %v are no test", lengths)
	}
	r := cell.report
	if r.SteadyStartUs <= r.StartUs || r.SteadyEndUs >= r.EndUs || r.SteadyEndUs <= r.SteadyStartUs {
		t.Errorf("steady from %d to %d of %d to %d: %s", r.SteadyStartUs, r.SteadyEndUs, r.StartUs, r.EndUs, r.SteadyRule)
	}
	for _, s := range cell.data.Samples {
		if s.Source == "profiler" && (s.AtUs < r.SteadyStartUs || s.AtUs > r.SteadyEndUs) {
			t.Errorf("row %s ends outside of the steady window", s.Labels["row"])
		}
	}
	if got := r.ServerCounters["generation_tokens"]; got != float64(tokens) {
		t.Errorf("the server counted %v tokens, the client %d", got, tokens)
	}
	cell.has(t, "accept_len", "per_request")
	batches := stats.ByBatch(cell.data.Samples)
	if n := len(batches); n == 0 || batches[n-1].Batch != 4 {
		t.Fatalf("by batch: %+v", batches)
	}
	cell.has(t, "steady_throughput", "client")
	t.Logf("%+v, steady %.1f tok/s", batches, cell.metric("steady_throughput", "client"))
}

// The engine's own route tells of each request's speculation without /metrics
// and without extensions.
func TestLab_SpeculationOfEachRequestByGenerate(t *testing.T) {
	t.Parallel()
	l := startLab(t, 0.2, nil)
	p := planFor(t, l.Host(), nil, "steps=3", "bench.endpoint=generate", "bench.requests=4")
	_, runs := measureOnLab(t, l, p)
	plain, cell := runs[0], runs[len(runs)-1]
	cell.has(t, "accept_len", "per_request")
	if got := plain.metric("accept_len", "per_request"); !math.IsNaN(got) {
		t.Errorf("the baseline does not speculate and has an accept length of %v", got)
	}
	for _, q := range cell.report.Requests {
		if q.PositionsFrom != bench.FromUsage || q.OutputTokens != 104 {
			t.Errorf("request %d: %d tokens, positions %v from %s", q.Index, q.OutputTokens, q.Positions, q.PositionsFrom)
		}
	}
}

// A run with outputs half as long only looks faster on a slope: over the
// positions that both have it is not.
func TestLab_HalfAsLongIsNotFaster(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1, func(s *lab.Settings) {
		s.ContextSlope, s.PlainSlope = 200, 200
		s.LaunchNoise, s.Behind = 0, 2000 // what is asked is no question of noise
	})
	p := planFor(t, l.Host(), nil, "steps=2", "bench.max_tokens=100,200", "bench.requests=3")
	_, runs := measureOnLab(t, l, p)
	byLength := map[int][]labRun{}
	for _, m := range runs {
		n := m.report.Job.MaxTokens
		byLength[n] = append(byLength[n], m)
	}
	if len(byLength[100]) != len(byLength[200]) || len(byLength[100]) == 0 {
		t.Fatalf("%d runs of 100 tokens, %d of 200", len(byLength[100]), len(byLength[200]))
	}
	for i, short := range byLength[100] { // the baseline, then two steps
		long := byLength[200][i]
		positions := stats.CommonPositions(long.data.Samples, short.data.Samples)
		if !positions.Unequal || positions.Least != 300 || positions.Most != 600 {
			t.Fatalf("%+v", positions)
		}
		a, b := positions.Reduce(long.data.Samples, long.data.Metrics), positions.Reduce(short.data.Samples, short.data.Metrics)
		raw := short.metric("tpot", "client") / long.metric("tpot", "client")
		if raw >= 1 {
			t.Errorf("without that the ratio is %.3f: the slope does not show, so this is no test", raw)
		}
		for _, name := range []string{"tpot", "cycle_total", "output_throughput"} {
			if _, has := a[name]; !has && name == "cycle_total" {
				continue // the baseline has no cycles
			}
			if ratio := b[name] / a[name]; !(math.Abs(ratio-1) < math.Abs(raw-1)/2) {
				t.Errorf("%s of half as long outputs is %.3f of the others', and tpot of whole outputs %.3f", name, ratio, raw)
			}
		}
		if i > 0 {
			long.has(t, "cycle_total_slope", "profiler")
		}
		t.Logf("tpot: %.3f, reduced %.3f; cycle_total reduced %.3f", raw, b["tpot"]/a["tpot"], b["cycle_total"]/a["cycle_total"])
	}
}
