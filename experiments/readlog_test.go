package experiments

import (
	"strings"
	"testing"

	"specrun/experiments/record"
)

func factOf(d record.RunData, group, key string) string {
	for _, f := range d.Provenance {
		if f.Group == group && f.Key == key {
			return f.Value
		}
	}
	return ""
}

func hasLabel(d record.RunData, name string) bool {
	for _, l := range d.Labels {
		if l.Name == name {
			return true
		}
	}
	return false
}

// Two starts in one file are two runs, each with its own arguments and times.
func TestReadLogRuns_EachStartIsARun(t *testing.T) {
	t.Parallel()
	start := func(hour, steps string) string {
		decode := "Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 1.87, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0, \n"
		at := "[2026-01-01 " + hour + ":00:0"
		return at + "0] server_args=ServerArgs(model_path='/m/it\\'s', tp_size=8, speculative_algorithm='EAGLE3', speculative_num_steps=" + steps +
			", api_key='sesame', lora_paths=['a', 'b'], enable=True, dtype=None)\n" +
			at + "1 TP0] [prof] cycles 1-100 (last 100 cycles)\n" + at + "1 TP0]   TOTAL:             2" + steps + ".00 ms/cyc\n" +
			at + "2 TP0] " + decode + at + "4 TP0] " + decode
	}
	runs, err := ReadLogRuns(strings.NewReader(start("10", "2")+start("12", "3")), "old.log")
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 {
		t.Fatalf("%d runs", len(runs))
	}
	for i, steps := range []string{"2", "3"} {
		d := runs[i].Data
		for _, want := range []record.Fact{{Group: "flags", Key: "speculative_num_steps", Value: steps}, {Group: "flags", Key: "enable", Value: "true"},
			{Group: "flags", Key: "lora_paths", Value: "['a', 'b']"}, {Group: "flags", Key: "api_key", Value: "(secret, sha af75656d)"}, {Group: "flags", Key: "dtype"},
			{Group: "workload", Key: "model", Value: "/m/it's"}, {Group: "code", Key: "total_meaning", Value: "unknown"}, {Group: "patches", Key: "profiler", Value: "unknown: text blocks"}} {
			if got := factOf(d, want.Group, want.Key); got != want.Value {
				t.Errorf("run %d: %s %s is %q, want %q", i, want.Group, want.Key, got, want.Value)
			}
		}
		if !hasLabel(d, "imported") || !hasLabel(d, "total-unknown") {
			t.Errorf("run %d: labels %v", i, d.Labels)
		}
		if seconds := (runs[i].EndUs - runs[i].StartUs) / 1e6; seconds < 2 || seconds > 3 {
			t.Errorf("run %d: %d s", i, seconds)
		}
		if !strings.HasPrefix(factOf(d, "host", "time_zone"), "unknown") {
			t.Errorf("run %d: time zone %q", i, factOf(d, "host", "time_zone"))
		}
	}
	if gap := (runs[1].StartUs - runs[0].StartUs) / 1e6; gap != 7200 {
		t.Errorf("%d s between the starts", gap)
	}
}

// A profiler's own line says who printed it and what its TOTAL spans.
func TestReadLogRuns_ProfilerLineNamesItself(t *testing.T) {
	t.Parallel()
	line := `{"specrun":"profile","schema":1,"profiler":"profiling-v4","version":"1.0","hash":"0123456789abcdef","worker":"v1","rank":0,"t_start":1767261600.5,"t_end":1767261603,"cycles":120,"wall_ms":2400,"batch_sum":120,"batch_min":1,"batch_max":1,"tokens":225,"request_cycles":120,"steps":2}` + "\n"
	runs, err := ReadLogRuns(strings.NewReader(line), "old.log")
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, error %v", len(runs), err)
	}
	d := runs[0].Data
	if p := factOf(d, "patches", "profiler"); p != "profiling-v4 1.0 0123456789ab" {
		t.Errorf("profiler %q", p)
	}
	if factOf(d, "code", "total_meaning") != "cycle interval" || hasLabel(d, "total-unknown") || factOf(d, "host", "time_zone") != "" {
		t.Errorf("facts %v, labels %v", d.Provenance, d.Labels)
	}
	if runs[0].StartUs != 1767261600500000 || runs[0].EndUs != 1767261603000000 {
		t.Errorf("from %d to %d", runs[0].StartUs, runs[0].EndUs)
	}
}
