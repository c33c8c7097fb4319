package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

// exportView is a sweep of a baseline and two cells: each run has its patches and
// checks, the last cell a failed check and a failed run.
func exportView() record.SweepView {
	v := newBuilder(3, 3, "interleave").rounds(2).run(0, 2, 0.99).run(1, 2, 1, record.Label{Name: "noisy", Reason: "spread 4 %"}).fail(2, 2).v
	for id, d := range v.Data {
		patch := record.Fact{Group: "patches", Key: "none", Value: "none"}
		if !strings.HasPrefix(id, "r0") {
			patch = record.Fact{Group: "patches", Key: "profiling-v4", Value: "1 " + strings.Repeat("ab12cd34", 8)}
		}
		d.Provenance = append(d.Provenance, patch, record.Fact{Group: "workload", Key: "model", Value: "practice/target"})
		d.Checks = []record.TrustCheck{{Name: "patch-live", Outcome: record.Pass}, {Name: "clocks", Outcome: record.NotCheckable}}
		if id == "r2-1" {
			d.Checks[0] = record.TrustCheck{Name: "tpot-cycle", Outcome: record.Fail, Left: 10.7, Right: 12.1, Explanation: "13 % apart"}
			d.Metrics = append(d.Metrics, record.Metric{Name: "accept_rate", Unit: "ratio", Value: math.NaN(), Source: "server_log"})
		}
		v.Data[id] = d
	}
	return v
}

func export(t *testing.T, format string, o ExportOptions, sides ...Side) (string, Exported) {
	t.Helper()
	var out bytes.Buffer
	o.Schema = 1
	e, err := NewExport(&out, format, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sides {
		if err := e.Add(s, exportTable); err != nil {
			t.Fatal(err)
		}
	}
	count, err := e.Close()
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), count
}

// exportTable gives cells the labels that rest on all of their launches.
var exportTable = Options{CellLabels: func(f record.CellFacts) []record.Label {
	if f.Launches < 6 {
		return []record.Label{{Name: "few-rounds"}}
	}
	return nil
}}

func sweepSide(v record.SweepView) Side { return Side{Kind: SideSweep, View: v} }

func TestExport_CSVGolden(t *testing.T) {
	out, count := export(t, FormatCSV, ExportOptions{Provenance: true}, sweepSide(exportView()))
	golden(t, "export.csv", []byte(out))
	if want := (Exported{Runs: 9, Failed: 1}); count != want {
		t.Errorf("%+v, want %+v", count, want)
	}
}

func TestExport_BenchGolden(t *testing.T) {
	out, _ := export(t, FormatBench, ExportOptions{}, sweepSide(exportView()))
	golden(t, "export.bench", []byte(out))
}

func TestExport_JSONGolden(t *testing.T) {
	v := exportView()
	out, _ := export(t, FormatJSON, ExportOptions{}, Side{Kind: SideRun, View: v, Cells: []string{"c2"}, Run: "r2-1"})
	golden(t, "export.jsonl", []byte(out))
}

// The line of an export is the one of show, but for what is said here.
func TestExport_JSONHasAllThatShowHas(t *testing.T) {
	v := exportView()
	d := v.Data["r1-0"]
	d.Samples = []record.Sample{{Seq: 1, Name: "cycle_total", Unit: "ms/cyc", Value: 17.9, Source: "profiler"}}
	v.Data["r1-0"] = d
	v.Events = []record.Event{{LaunchID: "l1-0", Seq: 1, Step: "start", Kind: record.EventDone}, {LaunchID: "l2-0", Seq: 1, Step: "start"}}
	v.Artifact = []record.Artifact{{RunID: "r1-0", LaunchID: "l1-0", Name: "a"}, {LaunchID: "l1-0", Name: "b"}, {RunID: "other", LaunchID: "l1-0", Name: "c"}}
	side := Side{Kind: SideRun, View: v, Cells: []string{"c1"}, Run: "r1-0"}
	run := record.RunView{Sweep: v.Sweep, Cell: v.Cells[1], Slot: record.Slot{ID: "s1-0", CellID: "c1"}, Launch: v.Launches[1], Run: v.Runs[1], Data: d,
		Events: v.Events[:1], Artifacts: v.Artifact[:2]}
	body, err := json.Marshal(Detail(run, exportTable))
	if err != nil {
		t.Fatal(err)
	}
	for _, samples := range []bool{false, true} {
		var want, got map[string]any
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatal(err)
		}
		if want["type"], want["schema"], want["cell_labels"] = "run", 1.0, []any{"few-rounds", "noisy", "simulated"}; !samples {
			delete(want, "samples")
		}
		out, _ := export(t, FormatJSON, ExportOptions{Samples: samples}, side)
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("samples %v (-want +got):\n%s", samples, diff)
		}
	}
}

// A superseded run was measured again: it would count twice.
func TestExport_LeavesOutWhatIsNoResult(t *testing.T) {
	v := exportView()
	old := v.Runs[0]
	old.ID, old.State = "old", record.RunSuperseded
	v.Runs = append(v.Runs, old)
	for _, c := range []struct {
		name  string
		o     ExportOptions
		sides []Side
		want  Exported
	}{
		{"by default", ExportOptions{}, []Side{sweepSide(v)}, Exported{9, 1, 1}},
		{"all", ExportOptions{All: true}, []Side{sweepSide(v)}, Exported{10, 1, 0}},
		{"named", ExportOptions{}, []Side{{Kind: SideRun, View: v, Cells: []string{"c0"}, Run: "old"}}, Exported{1, 0, 0}},
		{"a run twice", ExportOptions{}, []Side{{Kind: SideCell, View: v, Cells: []string{"c1"}}, sweepSide(v)}, Exported{9, 1, 1}},
		{"nothing", ExportOptions{}, nil, Exported{}},
	} {
		for _, format := range exportFormats {
			out, count := export(t, format, c.o, c.sides...)
			if count != c.want {
				t.Errorf("%s, %s: %+v, want %+v", c.name, format, count, c.want)
			}
			if format != FormatCSV {
				continue
			}
			if rows, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(rows) != 1+count.Runs {
				t.Errorf("%s: %d rows, %v", c.name, len(rows), err)
			}
		}
	}
}

func TestExport_KnowsItsFormats(t *testing.T) {
	for _, format := range []string{"", "xml", "parquet"} {
		_, err := NewExport(io.Discard, format, ExportOptions{})
		var unknown *FormatError
		if !errors.As(err, &unknown) || unknown.Hint() == "" {
			t.Errorf("%q: %v", format, err)
		}
	}
}

type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func TestExport_SaysWhenItCannotWrite(t *testing.T) {
	for _, format := range exportFormats {
		for _, room := range []int{0, 100} {
			e, err := NewExport(&failing{room}, format, ExportOptions{})
			if err != nil {
				t.Fatal(err)
			}
			err = e.Add(sweepSide(exportView()), exportTable)
			if err == nil {
				_, err = e.Close()
			}
			if !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("%s: %v", format, err)
			}
		}
	}
}

// Whatever a run holds, its row is read back: text as it was but for the
// apostrophe and for line breaks, numbers with all their digits.
func TestExport_CSVRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2026))
	alphabet := []string{"=", "+", "-", "@", "'", `"`, ",", ";", "\t", "\n", "\r", "\r\n", "\x00", "\xff", " ", "0", "1", ".", "e", "a", "é", "日", "＝", "{}"}
	text := func() string {
		var b strings.Builder
		for range rng.IntN(7) {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	number := func() float64 {
		return []float64{0, -1, 1e21, 1.0 / 3, -2.5e-9, math.NaN(), math.Inf(1), math.MaxFloat64, rng.NormFloat64()}[rng.IntN(9)]
	}
	for range 300 {
		v := newBuilder(2, 2, "interleave").rounds(2).v
		reasons, facts, params, values := map[string]string{}, map[string]string{}, map[string]string{}, map[string]float64{}
		v.Cells[1].Params["text"] = text()
		for i, r := range v.Runs {
			reasons[r.ID], facts[r.ID], values[r.ID] = text(), text(), number()
			if r.SlotID[1] == '1' {
				params[r.ID] = v.Cells[1].Params["text"].(string)
			}
			v.Runs[i].Reason = reasons[r.ID]
			d := v.Data[r.ID]
			d.Metrics = append(d.Metrics, record.Metric{Name: "m", Source: "s", Unit: "u", Value: 7}, record.Metric{Name: "m", Source: "s", Unit: "u", Value: values[r.ID]})
			d.Provenance = append(d.Provenance, record.Fact{Group: "env", Key: "X", Value: facts[r.ID]})
			v.Data[r.ID] = d
		}
		out, _ := export(t, FormatCSV, ExportOptions{Provenance: true}, sweepSide(v))
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		col := func(name string) int {
			i := slices.Index(rows[0], name)
			if i < 0 {
				t.Fatalf("no column %q in %q", name, rows[0])
			}
			return i
		}
		for _, row := range rows[1:] {
			id := row[col("run")]
			for name, want := range map[string]string{"reason": reasons[id], "prov.env.X": facts[id], "param.text": params[id]} {
				cell := row[col(name)]
				if got := unguarded(cell); got != csvClean(want) {
					t.Errorf("%s: %q is read back as %q", name, want, got)
				}
				if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\n") {
					t.Errorf("%s: %q begins as a formula", name, cell)
				}
			}
			cell := row[col("metric.m.s (u) #2")]
			if finite(values[id]) == nil {
				if cell != "" {
					t.Errorf("%v is %q", values[id], cell)
				}
			} else if got, err := strconv.ParseFloat(cell, 64); err != nil || got != values[id] {
				t.Errorf("%v is %q", values[id], cell)
			}
		}
		if len(rows) != 5 {
			t.Fatalf("%d rows", len(rows))
		}
	}
}

// unguarded takes away the apostrophe as the documentation says.
func unguarded(cell string) string {
	if strings.HasPrefix(cell, "'") && formula.MatchString(cell) {
		return cell[1:]
	}
	return cell
}
