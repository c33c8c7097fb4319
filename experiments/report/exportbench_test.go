package report

import (
	"encoding/csv"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"specrun/experiments/record"
)

// benchRead is what a reader of the format finds in an export.
type benchRead struct {
	values map[string]map[string][]float64 // by name and unit, a value for each line
	config map[string]map[string]string    // by name, of its last line
	units  benchfmt.UnitMetadataMap
}

func readBench(t *testing.T, text string) benchRead {
	t.Helper()
	out := benchRead{values: map[string]map[string][]float64{}, config: map[string]map[string]string{}}
	r := benchfmt.NewReader(strings.NewReader(text), "export")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			name := rec.Name.String()
			if out.values[name] == nil {
				out.values[name] = map[string][]float64{}
			}
			out.config[name] = map[string]string{}
			for _, v := range rec.Values {
				out.values[name][v.Unit] = append(out.values[name][v.Unit], v.Value)
			}
			for _, c := range rec.Config {
				out.config[name][c.Key] = string(c.Value)
			}
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	out.units = r.Units()
	return out
}

// The package that benchstat reads and computes with finds one value for each
// launch and the medians of the table.
func TestExportBench_HasTheMediansOfTheTable(t *testing.T) {
	v := exportView()
	for i := range v.Runs { // two runs in each launch of the first cell: the launch is their median
		r := v.Runs[i]
		if r.SlotID[1] != '1' {
			continue
		}
		d := v.Data[r.ID]
		r.ID += "b"
		for j := range d.Metrics {
			if j == 0 {
				d.Metrics = slices.Clone(d.Metrics)
			}
			d.Metrics[j].Value *= 1.1
		}
		v.Runs, v.Data[r.ID] = append(v.Runs, r), d
	}
	text, _ := export(t, FormatBench, ExportOptions{}, sweepSide(v))
	read := readBench(t, text)
	summary := Summarize(v, exportTable)
	names := map[string]string{"baseline": "_practice/baseline", "steps=1": "_practice/steps=1", "steps=2": "_practice/steps=2"}
	if got := slices.Sorted(maps.Keys(read.values)); len(got) != len(names) {
		t.Errorf("names %q", got)
	}
	for _, row := range summary.Cells {
		for metric, m := range row.Metrics {
			source := "client"
			if metric == "cycle_total" || metric == "accept_len" {
				source = "profiler"
			}
			values := read.values[names[row.name]][metric+"."+source+"-"+m.Unit]
			if len(values) != m.N {
				t.Errorf("%s %s: %d values, want one for each of %d launches", row.name, metric, len(values), m.N)
				continue
			}
			got := benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), 0.95)
			if got.Center != m.Median {
				t.Errorf("%s %s: median %v, want %v", row.name, metric, got.Center, m.Median)
			}
		}
	}
	for unit, want := range map[string]int{"output_throughput.client-tok/s": 1, "cycle_total.profiler-ms/cyc": -1, "tpot_mean.client-ms": -1, "accept_len.profiler-tokens/step": 1} {
		if got := read.units.GetBetter(unit); got != want {
			t.Errorf("%s: better %d, want %d", unit, got, want)
		}
	}
}

// Each line carries what limits the trust in it, and what does not depend on the
// launch is the same for a cell, or it would end in two tables.
func TestExportBench_CarriesLabelsAndChecks(t *testing.T) {
	text, _ := export(t, FormatBench, ExportOptions{}, sweepSide(exportView()))
	read := readBench(t, text)
	for name, want := range map[string]map[string]string{
		"_practice/baseline": {"sweep": "swp1", "pinned": "topk=1", "host": "lab", "model": "practice/target", "patches": "none", "labels": "few-rounds simulated",
			"failed-checks": "none"},
		"_practice/steps=1": {"sweep": "swp1", "pinned": "topk=1", "host": "lab", "model": "practice/target", "patches": "profiling-v4@ab12cd34",
			"labels": "few-rounds noisy simulated", "failed-checks": "none"},
		"_practice/steps=2": {"sweep": "swp1", "pinned": "topk=1", "host": "lab", "model": "practice/target", "patches": "profiling-v4@ab12cd34",
			"labels": "few-rounds simulated", "failed-checks": "tpot-cycle"},
	} {
		if got := read.config[name]; !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if !strings.Contains(text, "# Benchmark_practice/steps=2 round 3: run r2-2 failed: exited\n") {
		t.Errorf("the failed run is not named:\n%s", text)
	}
}

// Nothing that a name, a unit or a value may hold makes another line of it.
func TestExportBench_KeepsToItsLines(t *testing.T) {
	for _, c := range []struct {
		experiment string
		params     record.Params
		want       string
		keys       map[string]string
	}{
		{"my test", record.Params{"path": "/data/a b", "n": int64(-1)}, "_my%20test/n=-1/path=%2Fdata%2Fa%20b", map[string]string{"n": "-1", "path": "%2Fdata%2Fa%20b"}},
		{"x", record.Params{"n": int64(-1)}, "_x/n=-1-1", map[string]string{"n": "-1"}},
		{"h200-8", nil, "_h200-8-1", nil},
		{"line\nbreak", record.Params{"q": "50%\u00a0=\t"}, "_line%0Abreak/q=50%25%C2%A0=%09", map[string]string{"q": "50%25%C2%A0=%09"}},
	} {
		v := newBuilder(2, 1, "interleave").rounds(1).v
		v.Sweep.Name, v.Cells[1].Params = c.experiment, c.params
		for id, d := range v.Data {
			d.Metrics = append(d.Metrics, record.Metric{Name: "a b", Unit: "ms/cyc per 1,000 tokens", Source: "derived", Value: -0.5})
			d.Provenance = append(d.Provenance, record.Fact{Group: "workload", Key: "model", Value: "a\nBenchmarkEvil 1 1 ns/op"})
			v.Data[id] = d
		}
		text, _ := export(t, FormatBench, ExportOptions{}, Side{Kind: SideCell, View: v, Cells: []string{"c1"}})
		read := readBench(t, text)
		if got := slices.Collect(maps.Keys(read.values)); !slices.Equal(got, []string{c.want}) {
			t.Errorf("names %q, want %q", got, c.want)
			continue
		}
		if got := read.values[c.want]["a_b.derived-ms/cyc_per_1,000_tokens"]; !slices.Equal(got, []float64{-0.5}) {
			t.Errorf("%v in %v", got, read.values[c.want])
		}
		if got := read.config[c.want]["model"]; got != "a BenchmarkEvil 1 1 ns/op" {
			t.Errorf("model %q", got)
		}
		_, parts := benchfmt.Name(c.want).Parts()
		for _, p := range parts {
			key, value, ok := strings.Cut(strings.TrimPrefix(string(p), "/"), "=")
			if want, known := c.keys[key]; ok && (!known || want != value) {
				t.Errorf("%s: key %s is %q, want %q", c.want, key, value, want)
			}
		}
	}
}

// A value that was given for a whole sweep is configuration: the cells of two
// sweeps that differ in it meet by name, and the baseline has it too.
func TestExport_WhatIsPinnedIsNoName(t *testing.T) {
	a, b := exportView(), exportView()
	b.Sweep.ID = "swp2"
	for i, c := range b.Cells {
		if !c.Baseline {
			b.Cells[i].Params = maps.Clone(c.Params)
			b.Cells[i].Params["env.NCCL_PROTO"] = "Simple"
		}
	}
	for id, d := range b.Data {
		d.Provenance = append(slices.Clone(d.Provenance), record.Fact{Group: "env", Key: "NCCL_PROTO", Value: "Simple"})
		b.Data[id] = d
	}
	text, _ := export(t, FormatBench, ExportOptions{}, sweepSide(a), sweepSide(b))
	read := readBench(t, text)
	if got := slices.Sorted(maps.Keys(read.values)); !slices.Equal(got, []string{"_practice/baseline", "_practice/steps=1", "_practice/steps=2"}) {
		t.Errorf("names %q", got)
	}
	for name, config := range read.config { // of the last line, so of the second sweep
		if config["pinned"] != "env.NCCL_PROTO=Simple topk=1" {
			t.Errorf("%s: pinned %q", name, config["pinned"])
		}
	}
	text, _ = export(t, FormatCSV, ExportOptions{}, sweepSide(a), sweepSide(b))
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	of, sweep := slices.Index(rows[0], "param.env.NCCL_PROTO"), slices.Index(rows[0], "sweep")
	for _, row := range rows[1:] {
		if want := map[string]string{"swp1": "", "swp2": "Simple"}[row[sweep]]; row[of] != want {
			t.Errorf("%s of %s: %q, want %q", row[1], row[sweep], row[of], want)
		}
	}
}
