package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"specrun/experiments/bench"
	"specrun/experiments/record"
)

// Keys of what identifies the work that was done.
const (
	promptsKey = "prompts_sha256"
	outputsKey = "outputs_sha256"
)

// reportName is the artifact of a run that has the benchmark's report.
const reportName = "bench.json"

func (r BenchReport) facts() []record.Fact {
	var f facts
	f.add("workload", promptsKey, r.PromptsSHA)
	f.add("workload", outputsKey, r.OutputsSHA)
	return f.list
}

// firsts are what later runs of a sweep are compared with: the prompts of the
// first run of each load, the greedy outputs of the first run of each speculative
// shape, and the first baseline's outputs as text. The zero value knows no run.
type firsts struct {
	prompts  map[string]string // hash by load
	outputs  map[string]string // hash by shape
	baseline []bench.Request   // nil: not measured yet
}

// fill says what a window is compared with.
func (f *firsts) fill(w *Window) {
	w.PromptsSHA, w.OutputsSHA = f.prompts[load(w.Cell)], f.outputs[shape(w.Cell)]
	if !w.Cell.Baseline {
		w.BaselineRequests = f.baseline
	}
}

// note remembers a run that was measured.
func (f *firsts) note(c Cell, r BenchReport) {
	f.keep(c, r.PromptsSHA, r.OutputsSHA)
	if !f.wants(c) {
		return
	}
	var report bench.Report
	if json.Unmarshal(r.Raw, &report) == nil { // Collect has reported what is wrong with it
		f.baseline = report.Requests
	}
}

// wants says that the outputs of a run of the cell are those that later ones are
// compared with.
func (f *firsts) wants(c Cell) bool {
	return f.baseline == nil && c.Baseline && c.Bench.Temperature == 0
}

// recallBaseline takes the first baseline's outputs from what an earlier controller
// kept. Without them the later runs' are not checkable, as their checks say.
func (x *execution) recallBaseline(ctx context.Context, c Cell, run string, kept []record.Artifact) {
	if !x.firsts.wants(c) {
		return
	}
	for _, a := range kept {
		if a.RunID != run || a.Name != reportName {
			continue
		}
		report, err := x.readReport(ctx, a)
		if err != nil {
			x.note(fmt.Sprintf("the outputs of run %s, the first of the baseline, cannot be read, so that later runs' are not compared with them: %v", run, err))
			return
		}
		x.firsts.baseline = report.Requests
	}
}

func (x *execution) readReport(ctx context.Context, a record.Artifact) (report bench.Report, err error) {
	r, _, err := x.deps.Recorder.Kept(ctx, a.SHA256)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	text, err := io.ReadAll(r) // to its end, where the store finds that it is what was kept
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(text, &report)
}

// recall remembers a run of an earlier controller, but for its outputs' text.
func (f *firsts) recall(c Cell, provenance []record.Fact) {
	var prompts, outputs string
	for _, p := range provenance {
		switch p.Key {
		case promptsKey:
			prompts = p.Value
		case outputsKey:
			outputs = p.Value
		}
	}
	f.keep(c, prompts, outputs)
}

func (f *firsts) keep(c Cell, prompts, outputs string) {
	if f.prompts == nil {
		f.prompts = map[string]string{}
	}
	if f.outputs == nil {
		f.outputs = map[string]string{}
	}
	if f.prompts[load(c)] == "" {
		f.prompts[load(c)] = prompts
	}
	if f.outputs[shape(c)] == "" {
		f.outputs[shape(c)] = outputs
	}
}

// load is what decides which prompts are sent; how many at once does not.
func load(c Cell) string {
	return fmt.Sprintf("%s %d %d", c.Bench.Prompts, c.Bench.Requests, c.Bench.Seed)
}

// shape is what decides which tokens greedy decoding gives: the speculative
// flags and the benchmark.
func shape(c Cell) string {
	var b strings.Builder
	for _, f := range c.Server.Flags {
		if strings.HasPrefix(f.Name, "speculative-") {
			fmt.Fprintf(&b, "%s %q\n", f.Name, f.Values)
		}
	}
	fmt.Fprintf(&b, "%+v", c.Bench)
	return b.String()
}
