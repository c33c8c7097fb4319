package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"specrun/experiments/record"
	"specrun/experiments/store"
)

// cmdSweeps runs "sweeps": it stores in .specrun/results.db what two sittings on
// one host left behind, as the executor would have. Six rounds of a baseline,
// steps=2 and steps=3 each:
//
//	t4x2cccccc  one launch each, with another model
//	k3v7aaaaaa  with NCCL_PROTO=LL
//	q2m9bbbbbb  without: 49 % more time a cycle, the baseline 8 % slower
//
// and beside the cause two dozen differences that explain nothing.
func cmdSweeps(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: sweeps")
	}
	path := ts.MkAbs(filepath.Join(".specrun", "results.db"))
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	s, err := store.Open(context.Background(), path)
	ts.Check(err)
	for _, sitting := range []sitting{
		{id: "t4x2cccccc", rounds: 1, cycle: 1.49, plain: 1.08, facts: map[string]string{"workload model": "another/target"}, seed: 3},
		{id: "k3v7aaaaaa", rounds: 6, cycle: 1, plain: 1, facts: map[string]string{"env NCCL_PROTO": "LL", "workload model": "practice/target"}, seed: 1},
		{id: "q2m9bbbbbb", rounds: 6, cycle: 1.49, plain: 1.08, facts: map[string]string{"workload model": "practice/target"}, seed: 2},
	} {
		ts.Check(sitting.store(s))
	}
	ts.Check(s.Close())
}

type sitting struct {
	id           string
	rounds       int
	cycle, plain float64 // factors of a speculative cycle and of a plain token
	facts        map[string]string
	seed         int // what is not the same in two sittings, and explains nothing
}

func (st sitting) store(s *store.Store) error {
	ctx := context.Background()
	const begun = 1_795_953_600_000_000 // 2026-11-29T12:00:00Z
	plan := record.SweepPlan{Sweep: record.Sweep{ID: st.id, Name: "eagle3-steps", Kind: "sweep", State: record.SweepActive,
		Plan: []byte(fmt.Sprintf(`{"objective":"output_throughput","order":"interleave","rounds":%d}`, st.rounds)), PlanSHA: "00", CreatedUs: begun}}
	shapes := []struct {
		name          string
		steps         int64
		total, accept float64
	}{{"baseline", 0, 11.3, 1}, {"steps2", 2, 20.1, 1.874}, {"steps3", 3, 22.3, 1.952}}
	for i, shape := range shapes {
		c := record.Cell{ID: st.id + "." + shape.name, SweepID: st.id, Ord: i, Key: shape.name, Baseline: shape.steps == 0, Params: record.Params{}}
		if shape.steps > 0 {
			c.Params = record.Params{"steps": shape.steps, "topk": int64(1)}
		}
		plan.Cells = append(plan.Cells, c)
		for round := range st.rounds {
			plan.Slots = append(plan.Slots, record.Slot{ID: fmt.Sprint(c.ID, ".", round), CellID: c.ID, Round: round})
		}
	}
	if err := s.Begin(ctx, plan); err != nil {
		return err
	}
	for round := range st.rounds {
		for i, shape := range shapes {
			at := int64(begun + (round*len(shapes)+i)*60_000_000)
			launch := record.Launch{ID: fmt.Sprintf("%s.l%d-%d", st.id, round, i), SweepID: st.id, Host: "kimi-8gpu", Round: round, State: record.LaunchDone}
			run := record.Run{ID: fmt.Sprintf("%s%c%c", st.id[:4], 'm'+i, 'a'+round), SlotID: fmt.Sprint(plan.Cells[i].ID, ".", round), Attempt: 1,
				LaunchID: launch.ID, Host: launch.Host, State: record.RunDone, StartUs: at, EndUs: at + 30_000_000}
			data := st.data(shape.steps, shape.total*(1+0.002*float64((round*5+i+st.seed)%6)), shape.accept)
			for seq, change := range []record.Change{{Launch: &launch}, {Run: &run, Data: &data}} {
				e := record.Event{LaunchID: launch.ID, Seq: int64(seq + 1), AtUs: at, Step: "bench", Kind: record.EventDone}
				if change.Run != nil {
					e.RunID = run.ID
				}
				if err := s.Record(ctx, e, change); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// data is what a run of the practice host's model would have measured.
func (st sitting) data(steps int64, total, accept float64) record.RunData {
	d := record.RunData{Labels: []record.Label{{Name: "simulated", Reason: "the server is the practice host's stand-in"}}}
	add := func(name, unit, source string, v float64) {
		d.Metrics = append(d.Metrics, record.Metric{Name: name, Unit: unit, Value: v, N: 16, Source: source})
	}
	tpot := total * st.plain
	if steps > 0 {
		tpot = total * st.cycle / accept
		add("cycle_total", "ms/cyc", "profiler", total*st.cycle)
		add("accept_len", "tokens/step", "profiler", accept)
	}
	add("output_throughput", "tok/s", "client", 1000/tpot)
	add("tpot", "ms", "client", tpot)
	fact := func(group, key, value string) {
		d.Provenance = append(d.Provenance, record.Fact{Group: group, Key: key, Value: value})
	}
	for name, value := range st.facts {
		group, key, _ := strings.Cut(name, " ")
		fact(group, key, value)
	}
	if steps > 0 {
		fact("flags", "speculative_num_steps", fmt.Sprint(steps))
		fact("patches", "profiling-v4", "1 "+strings.Repeat("ab12cd34", 8))
	} else {
		fact("patches", "none", "none")
	}
	fact("code", "engine", "sglang")
	// What differs between two sittings and moves nothing.
	n := st.seed
	for _, f := range []struct{ group, key, value string }{
		{"flags", "port", fmt.Sprint(30000 + n)}, {"flags", "log_level", []string{"info", "warning", "error"}[n%3]}, {"flags", "served_model_name", fmt.Sprint("m", n)},
		{"flags", "max_total_num_tokens", fmt.Sprint(412000 + n)}, {"flags", "api_key", fmt.Sprint("(secret, sha 0000000", n, ")")}, {"flags", "decode_log_interval", fmt.Sprint(40 * n)},
		{"env", "TERM", fmt.Sprint("xterm", n)}, {"env", "PWD", fmt.Sprint("/home/", n)}, {"env", "OLDPWD", fmt.Sprint("/data/", n)}, {"env", "LANG", fmt.Sprint("C", n)},
		{"env", "SSH_CONNECTION", fmt.Sprint("10.0.0.1 500", n)}, {"env", "SSH_TTY", fmt.Sprint("/dev/pts/", n)}, {"env", "NCCL_DEBUG", []string{"WARN", "INFO", "VERSION"}[n%3]}, {"env", "HF_TOKEN", fmt.Sprint("(secret, sha 1111111", n, ")")},
		{"packages", "rich", fmt.Sprint("13.", n, ".0")}, {"packages", "requests", fmt.Sprint("2.3", n, ".0")}, {"packages", "pydantic", fmt.Sprint("2.", n, ".1")},
		{"host", "kernel", fmt.Sprint("Linux 6.8.0-4", n)}, {"host", "uptime", fmt.Sprint(1000 * n)}, {"host", "clock_offset_ms", fmt.Sprint(n)}, {"host", "memory_free_kib", fmt.Sprint(70000000 * n)},
		{"gpu", "0 temperature", fmt.Sprint(40+9*n, " C")}, {"gpu", "0 name", "NVIDIA H200"}, {"code", "specrun", fmt.Sprint("0.", n, ".0")}, {"command", "cwd", fmt.Sprint("/data/", n)},
	} {
		fact(f.group, f.key, f.value)
	}
	return d
}

// The prepared results are those of a store that this version writes, so that a
// script does not test a file that nobody has.
func TestSweeps_AreReadBack(t *testing.T) {
	s, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "r.db"), store.WithClock(func() time.Time { return time.Unix(0, 0) }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := (sitting{id: "k3v7aaaaaa", rounds: 2, cycle: 1, plain: 1}).store(s); err != nil {
		t.Fatal(err)
	}
	v, err := s.View(context.Background(), "k3v7aaaaaa")
	if err != nil || len(v.Runs) != 6 || len(v.Data) != 6 {
		t.Errorf("%d runs, %v", len(v.Runs), err)
	}
}
