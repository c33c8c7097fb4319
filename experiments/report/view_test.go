package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

const epochUs = 1_795_953_600_000_000 // 2026-11-29T12:00:00Z

// builder makes the view of a sweep of steps=1..4 with a baseline, as the
// practice host's model would give it.
type builder struct{ v record.SweepView }

// Milliseconds a cycle and accept length for 0 (baseline) to 4 steps.
var (
	totals  = [...]float64{0, 17.9, 20.1, 22.3, 24.5}
	accepts = [...]float64{1, 1.56, 1.874, 1.952, 1.968}
)

func newBuilder(cells int, rounds int, order string) *builder {
	b := &builder{record.SweepView{Data: map[string]record.RunData{}}}
	plan, err := json.Marshal(map[string]any{"objective": "output_throughput", "order": order, "rounds": rounds})
	if err != nil {
		panic(err)
	}
	b.v.Sweep = record.Sweep{ID: "swp1", Name: "practice", Kind: "sweep", Plan: plan, State: record.SweepDone, CreatedUs: epochUs}
	for i := range cells {
		c := record.Cell{ID: fmt.Sprint("c", i), SweepID: "swp1", Ord: i, Baseline: i == 0, Params: record.Params{}}
		if i > 0 {
			c.Params = record.Params{"steps": int64(i), "topk": int64(1)}
		}
		b.v.Cells = append(b.v.Cells, c)
		for round := range rounds {
			b.v.Slots = append(b.v.Slots, record.Slot{ID: fmt.Sprint("s", i, "-", round), CellID: c.ID, Round: round})
		}
	}
	return b
}

// run measures a cell in a round; factor scales its time per token.
func (b *builder) run(cell, round int, factor float64, labels ...record.Label) *builder {
	id := fmt.Sprint("r", cell, "-", round)
	launch := fmt.Sprint("l", cell, "-", round)
	b.v.Launches = append(b.v.Launches, record.Launch{ID: launch, SweepID: "swp1", Host: "lab", Round: round, State: record.LaunchDone})
	b.v.Runs = append(b.v.Runs, record.Run{ID: id, SlotID: fmt.Sprint("s", cell, "-", round), Attempt: 1, LaunchID: launch, Host: "lab",
		State: record.RunDone, StartUs: epochUs, EndUs: epochUs + 2_345_000})
	d := record.RunData{Labels: append([]record.Label{{Name: "simulated", Reason: "practice host"}}, labels...)}
	tpot := 11.3 * factor
	if cell > 0 {
		tpot = totals[cell] / accepts[cell] * factor
		d.Metrics = append(d.Metrics, record.Metric{Name: "cycle_total", Unit: "ms/cyc", Value: totals[cell] * factor, N: 100, Source: "profiler"},
			record.Metric{Name: "accept_len", Unit: "tokens/step", Value: accepts[cell], N: 100, Source: "profiler"},
			record.Metric{Name: "accept_len", Unit: "tokens/step", Value: 9.99, N: 2, Source: "server_log"})
	}
	d.Metrics = append(d.Metrics, record.Metric{Name: "output_throughput", Unit: "tok/s", Value: 1000 / tpot, N: 3, Source: "client"},
		record.Metric{Name: "tpot_mean", Unit: "ms", Value: tpot, N: 3, Source: "client"})
	d.Provenance = []record.Fact{{Group: "flags", Key: "speculative-num-steps", Value: fmt.Sprint(cell)}}
	b.v.Data[id] = d
	return b
}

func (b *builder) fail(cell, round int) *builder {
	launch := fmt.Sprint("l", cell, "-", round)
	b.v.Launches = append(b.v.Launches, record.Launch{ID: launch, SweepID: "swp1", Host: "lab", Round: round, State: record.LaunchFailed})
	b.v.Runs = append(b.v.Runs, record.Run{ID: fmt.Sprint("r", cell, "-", round), SlotID: fmt.Sprint("s", cell, "-", round), Attempt: 1,
		LaunchID: launch, Host: "lab", State: record.RunFailed, Class: record.ClassExited,
		Reason: "the server exited with 1 before it was ready\ntorch.OutOfMemoryError: CUDA out of memory"})
	return b
}

// rounds measures all cells in rounds that drift by 4 %; the launches of a round
// agree within half a percent.
func (b *builder) rounds(n int) *builder {
	drift := [...]float64{1, 1.04, 0.97, 1.01, 1.02, 0.99}
	noise := [...]float64{0.998, 1.002, 1, 1.001, 0.999}
	for round := range n {
		for i := range b.v.Cells {
			b.run(i, round, drift[round]*noise[(i*2+round*3)%len(noise)])
		}
	}
	return b
}

// options as the commands set them, with a table of one line.
func options() Options {
	return Options{
		Advice: func(label string) string {
			return map[string]string{"simulated": "for trying specrun only", "few-rounds": "--rounds 6"}[label]
		},
		CellLabels: func(c record.CellFacts) (out []record.Label) {
			if c.Launches >= 2 && c.Launches <= 5 {
				out = append(out, record.Label{Name: "few-rounds", Reason: fmt.Sprintf("%d launches", c.Launches)})
			}
			if c.BaselineMoved != "" {
				out = append(out, record.Label{Name: "drift", Reason: c.BaselineMoved})
			}
			return out
		},
	}
}

// text gives the table and, below, the JSON lines.
func text(t *testing.T, s *Summary) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("--- json\n")
	for _, c := range s.Cells {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}
