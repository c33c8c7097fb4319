package experiments

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/bench"
	"specrun/experiments/record"
)

// profileRow is a profiler's line of 25 cycles of 20 ms.
func profileRow(start float64, hash string, tokens int) string {
	return fmt.Sprintf(`{"specrun":"profile","schema":1,"profiler":"profiling-v4","version":"1","hash":"%s","worker":"v1","rank":0,"t_start":%f,"t_end":%f,"cycles":25,"wall_ms":500,"call_ms":490,"phases_ms":{"draft":10,"verify":480,"extend":5},"batch_sum":25,"batch_min":1,"batch_max":1,"tokens":%d,"accepted":%d,"proposed":50,"steps":2,"request_cycles":25,"context":300,"skipped":{},"partial":false}`,
		hash, start, start+0.5, tokens, tokens-25) + "\n"
}

// window is a run of 4 rows, with a row of the warm-up written late before them
// and one written after the window.
func window(t *testing.T, edit func(*bench.Report, *Window)) Window {
	t.Helper()
	ref := PatchRef{Name: "profiling-v4", SHA256: digest([]byte("p")), Probe: "light"}
	before := "server is up\n"
	log := profileRow(99.9, ref.SHA256[:12], 25)
	for i := range 4 {
		log += profileRow(100+float64(i)/2, ref.SHA256[:12], 45)
	}
	end := int64(len(before) + len(log))
	r := bench.Report{Schema: bench.Schema, StartUs: 100_000_000, EndUs: 102_000_000, LogStart: int64(len(before)), LogEnd: end,
		Completed: 1, PromptsSHA: "p", OutputsSHA: "o",
		Requests: []bench.Request{{StartUs: 100_000_000, FirstTokenUs: 100_010_000, EndUs: 102_000_000, OutputTokens: 181, PromptTokens: 20, CachedTokens: 0, VerifyCalls: -1}}}
	w := Window{Log: []byte(log + profileRow(102, ref.SHA256[:12], 25)), LogStart: int64(len(before)), Alive: true,
		Cell:    Cell{Server: ServerConfig{Patches: []PatchRef{ref}, Flags: []ServerFlag{{Name: stepsFlag, Kind: flagValue, Values: []string{"2"}}}}, Bench: defaultBench()},
		Patches: PatchState{Patches: []PatchRef{ref}}, Checked: Checked{Effective: map[string]string{"tp_size": "8"}}}
	if edit != nil {
		edit(&r, &w)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	w.Report = BenchReport{Raw: raw}
	return w
}

func labels(t *testing.T, w Window) (record.RunData, string) {
	t.Helper()
	d, err := Collect(w)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range d.Labels {
		names = append(names, l.Name)
	}
	return d, strings.Join(names, " ")
}

func metric(d record.RunData, name, source string) float64 {
	for _, m := range d.Metrics {
		if m.Name == name && m.Source == source {
			return m.Value
		}
	}
	return -1
}

func TestCollect_CountsOnlyRowsInsideTheWindow(t *testing.T) {
	t.Parallel()
	d, names := labels(t, window(t, nil))
	if got := metric(d, "accept_len", "profiler"); got != 1.8 {
		t.Errorf("accept length %v: a row from outside the window counts", got)
	}
	if got := metric(d, "cycle_total", "profiler"); got != 20 {
		t.Errorf("cycle_total %v", got)
	}
	if got := metric(d, "output_throughput", "client"); got != 90.5 {
		t.Errorf("output_throughput %v", got)
	}
	if names != "indicative" {
		t.Errorf("labels: %s", names)
	}
}

func TestCollect_LabelsWhatLimitsTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit func(*bench.Report, *Window)
		want string
	}{
		"another profiler runs": {func(_ *bench.Report, w *Window) { w.Patches.Patches[0].SHA256 = "ffff" }, "patch-unverified"},
		"no cursors": {func(r *bench.Report, w *Window) {
			r.LogStart, r.LogEnd = -1, -1
			w.Cell.Server.Patches[0].Prints = true
		}, "total-unknown"},
		"a failed request":   {func(r *bench.Report, _ *Window) { r.Requests = append(r.Requests, bench.Request{Error: "HTTP 500"}) }, "partial"},
		"through the tunnel": {func(_ *bench.Report, w *Window) { w.Cell.Bench.Where = "controller" }, "tunnel"},
		"another configuration": {func(_ *bench.Report, w *Window) {
			w.Checked.Mismatches = []Mismatch{{Flag: "x", Asked: "1", Effective: "2"}}
		}, "config-mismatch"},
		"a stand-in":    {func(_ *bench.Report, w *Window) { w.Checked.Simulated = "why" }, "simulated"},
		"synchronizing": {func(_ *bench.Report, w *Window) { w.Cell.Server.Patches[0].Probe = "sync" }, "sync-probe"},
		"edited before": {func(_ *bench.Report, w *Window) { w.Patches.Files = []PatchedFile{{Path: "/x", Verdict: "pre-edited"}} }, "pre-edited"},
		"edited before it was patched": {func(_ *bench.Report, w *Window) {
			w.Patches.Files = []PatchedFile{{Path: "/x", Verdict: "patched", PristineVerdict: "pre-edited"}}
		}, "pre-edited"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, names := labels(t, window(t, c.edit)); !strings.Contains(names, c.want) {
				t.Errorf("labels %q lack %s", names, c.want)
			}
		})
	}
}

// A patch that was applied by hand is loaded by the next launch: its rows, not
// the spec, say what the server runs with.
func TestCollect_LabelsAPatchThatWasNotAskedFor(t *testing.T) {
	t.Parallel()
	theirs := strings.Replace(profileRow(100.2, "0123456789ab", 45), `"phases_ms"`, `"phases":"sync","phases_ms"`, 1)
	theirs = strings.Replace(theirs, "profiling-v4", "profiling-v3", 1)
	for name, asked := range map[string]bool{"beside the set's": true, "with none asked": false} {
		t.Run(name, func(t *testing.T) {
			d, names := labels(t, window(t, func(r *bench.Report, w *Window) {
				if !asked {
					w.Log, r.LogEnd = nil, w.LogStart
					w.Cell.Server.Patches, w.Patches.Patches = nil, nil
				}
				w.Log = append([]byte(theirs), w.Log...)
				r.LogEnd += int64(len(theirs))
			}))
			for _, want := range []string{"config-mismatch", "sync-probe"} {
				if !strings.Contains(names, want) {
					t.Errorf("labels %q lack %s", names, want)
				}
			}
			for _, l := range d.Labels {
				if l.Name == "sync-probe" && !strings.Contains(l.Reason, "profiling-v3") {
					t.Errorf("%s: %s", l.Name, l.Reason)
				}
				if l.Name == "config-mismatch" && !strings.Contains(l.Reason, "profiling-v3 (content 0123456789ab)") {
					t.Errorf("%s: %s", l.Name, l.Reason)
				}
			}
		})
	}
}
