package report

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"specrun/experiments/record"
)

func runView() record.RunView {
	b := newBuilder(3, 2, "interleave").run(2, 1, 1)
	d := b.v.Data["r2-1"]
	d.Metrics = append(d.Metrics, record.Metric{Name: "request_rate", Unit: "req/s", Value: math.Inf(1), Source: "client"})
	d.Checks = []record.TrustCheck{
		{Name: "tpot-against-cycle", Outcome: record.Pass, Left: 10.73, Right: 10.726, Explanation: "client's mean TPOT 10.73 ms, TOTAL / accept length 10.73 ms"},
		{Name: "server-alive", Outcome: record.NotCheckable, Left: math.NaN(), Right: math.NaN(), Explanation: "unknown"}}
	d.Provenance = append(d.Provenance, record.Fact{Group: "host", Key: "kernel", Value: "6.1.0"}, record.Fact{Group: "env", Key: "NCCL_PROTO", Value: "LL"},
		record.Fact{Group: "env", Key: "MOTD", Value: "a\x1b[2J\nb"})
	d.Samples = []record.Sample{{Seq: 1, AtUs: epochUs + 5, Name: "cycle_total", Unit: "ms/cyc", Value: math.NaN(), Source: "profiler"}}
	return record.RunView{Sweep: b.v.Sweep, Cell: b.v.Cells[2], Slot: record.Slot{Round: 1}, Launch: record.Launch{ID: "l2-1", Argv: []string{"python3", "-m", "sglang.launch_server"}},
		Run: b.v.Runs[0], Data: d,
		Events:    []record.Event{{LaunchID: "l2-1", Seq: 1, AtUs: epochUs, Step: "start", Kind: record.EventIntent, Evidence: json.RawMessage(`{"pid":7}`)}},
		Artifacts: []record.Artifact{{Name: "server.log", Path: "/data/results/artifacts/ab12", SHA256: "ab12", Bytes: 1234}}}
}

func TestRun_Golden(t *testing.T) {
	var b bytes.Buffer
	if err := WriteRun(&b, runView(), options()); err != nil {
		t.Fatal(err)
	}
	failed := runView()
	failed.Run.State, failed.Run.Class, failed.Run.Reason = record.RunFailed, record.ClassExited, "the server exited with 1\n\x1b[31mCUDA out of memory\x1b[0m\r"
	failed.Data, failed.Artifacts = record.RunData{}, nil
	b.WriteString("--- failed\n")
	o := options()
	o.LogTail = []string{"Load weight begin.", "\x1b[31mRuntimeError\x1b[0m: no memory"}
	if err := WriteRun(&b, failed, o); err != nil {
		t.Fatal(err)
	}
	b.WriteString("--- json\n")
	out, err := json.MarshalIndent(Detail(runView(), options()), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b.Write(append(out, '\n'))
	golden(t, "run.txt", b.Bytes())
}

func TestLists_Golden(t *testing.T) {
	v := runView()
	rows := []record.RunRow{
		{SweepID: "swp1", SweepName: "practice", Kind: "sweep", Cell: v.Cell, Slot: v.Slot, Run: v.Run, Metrics: v.Data.Metrics, Labels: v.Data.Labels},
		{SweepID: "swp1", SweepName: "practice", Kind: "sweep", Cell: record.Cell{Baseline: true}, Run: record.Run{ID: "r0-0", Host: "lab", State: record.RunFailed, Class: record.ClassPortInUse, Reason: "port 30000 is held by pid 7"}},
		{SweepID: "imp-1", SweepName: "old.log", Kind: "import", Run: record.Run{ID: "imp-1-r1", State: record.RunDone}, Labels: []record.Label{{Name: "imported"}}},
	}
	sweeps := []record.SweepRow{
		{Sweep: record.Sweep{ID: "swp1", Name: "practice", Kind: "sweep", State: record.SweepIncomplete, CreatedUs: epochUs, EndedUs: epochUs + 9_000_000}, Cells: 5, Slots: 15, Done: 14, Failed: 1, Hosts: []string{"gpu-01", "lab"}},
		{Sweep: record.Sweep{ID: "imp-1", Name: "old.log", Kind: "import", State: record.SweepDone, CreatedUs: epochUs}, Cells: 1, Slots: 1, Done: 1},
		{Sweep: record.Sweep{ID: "swp0", Name: "practice", Kind: "sweep", State: record.SweepInterrupted, CreatedUs: epochUs, EndedUs: epochUs}, Cells: 5, Slots: 15},
		{Sweep: record.Sweep{ID: "swp2", Name: "practice", Kind: "sweep", State: record.SweepInterrupted, CreatedUs: epochUs, EndedUs: epochUs}, Cells: 5, Slots: 15, Launches: 1},
	}
	var b bytes.Buffer
	if err := WriteSweeps(&b, sweeps); err != nil {
		t.Fatal(err)
	}
	b.WriteString("--- runs\n")
	if err := WriteRuns(&b, rows); err != nil {
		t.Fatal(err)
	}
	b.WriteString("--- json\n")
	e := json.NewEncoder(&b)
	for _, l := range SweepLines(sweeps) {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range RunLines(rows) {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "lists.txt", b.Bytes())
}

func TestNumber(t *testing.T) {
	for _, tc := range []struct {
		v    float64
		unit string
		want string
	}{{20.1, "ms/cyc", "20.10"}, {93.24, "tok/s", "93.2"}, {9.876, "tok/s", "9.88"}, {1.8744, "tokens/step", "1.874"}, {0.00123, "ms", "0.00123"},
		{0, "ms", "0.00"}, {16, "requests", "16"}, {64.52777777777777, "tokens", "64.53"}, {math.NaN(), "ms", "NaN"}, {math.Inf(1), "req/s", "+Inf"}, {-3, "ms", "-3.00"}} {
		if got := number(tc.v, tc.unit); got != tc.want {
			t.Errorf("number(%v, %q) = %q, want %q", tc.v, tc.unit, got, tc.want)
		}
	}
}

// What came from a host cannot move the cursor or break a table.
func TestText_IsPlain(t *testing.T) {
	b := newBuilder(3, 1, "grid").run(1, 0, 1, record.Label{Name: "noisy", Reason: "x\x1b[2Jy\nz"}).fail(2, 0)
	b.v.Cells[1].Params["mode"], b.v.Cells[2].Params["mode"] = "a\nb", "c\x07"
	b.v.Runs[1].Reason = "\x1b]0;title\x07 first\nsecond"
	var out bytes.Buffer
	if err := Summarize(b.v, options()).WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexAny(out.Bytes(), "\x1b\x07\r"); i >= 0 {
		t.Errorf("control character in:\n%s", out.String())
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if strings.TrimRight(line, " ") != line {
			t.Errorf("blanks at the end of %q", line)
		}
	}
}

func TestRun_FactsWithoutAValueAreCounted(t *testing.T) {
	v := runView()
	v.Data.Provenance = append(v.Data.Provenance, record.Fact{Group: "flags", Key: "lora-paths", Value: "null"}, record.Fact{Group: "code", Key: strings.Repeat("k", 90), Value: "1"})
	for _, c := range []struct {
		all  bool
		want string
	}{{false, "  and 1 fact without a value (-v)\n"}, {true, "lora-paths"}} {
		var out bytes.Buffer
		if err := WriteRun(&out, v, Options{All: c.all}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), "  env  NCCL_PROTO  LL\n") {
			t.Errorf("no %q in:\n%s", c.want, out.String())
		}
	}
}
