package metrics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"specrun/experiments/metrics"
	"specrun/experiments/record"
	"specrun/internal/tier"
)

// harvest feeds a log in chunks and collects all that is drained on the way.
func harvest(log []byte, cut func(rest int) int) (rows []metrics.ProfilerRow, decode []metrics.DecodeLine, samples []record.Sample, crash *metrics.Crash) {
	f := metrics.NewFollower()
	drain := func() {
		rows = append(rows, f.Rows()...)
		decode = append(decode, f.Decode()...)
		samples = append(samples, f.Samples()...)
	}
	for len(log) > 0 {
		n := cut(len(log))
		f.Write(log[:n])
		log = log[n:]
		drain()
	}
	f.Close()
	drain()
	return rows, decode, samples, f.Crash()
}

func whole(n int) int { return n }

// sameIn compares two harvests; the order of items between streams may depend
// on when they were drained, their content may not.
func sameIn(t *testing.T, log []byte, cut func(int) int) {
	t.Helper()
	r1, d1, s1, c1 := harvest(log, whole)
	r2, d2, s2, c2 := harvest(log, cut)
	if a, b := bag(t, r1), bag(t, r2); !reflect.DeepEqual(a, b) {
		t.Errorf("rows differ:\n%v\n%v", a, b)
	}
	if a, b := bag(t, d1), bag(t, d2); !reflect.DeepEqual(a, b) {
		t.Errorf("decode lines differ:\n%v\n%v", a, b)
	}
	for i := range s1 {
		s1[i].Seq = 0
	}
	for i := range s2 {
		s2[i].Seq = 0
	}
	if a, b := bag(t, s1), bag(t, s2); !reflect.DeepEqual(a, b) {
		t.Errorf("samples differ:\n%v\n%v", a, b)
	}
	if !reflect.DeepEqual(c1, c2) {
		t.Errorf("crash differs: %+v, %+v", c1, c2)
	}
}

// bag counts items by their text, NaN included.
func bag[T any](t *testing.T, items []T) map[string]int {
	t.Helper()
	m := map[string]int{}
	for _, x := range items {
		m[fmt.Sprintf("%+v", x)]++
	}
	return m
}

func TestFollower_AnyChunkingGivesTheSame(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.log")
	if len(files) < 30 {
		t.Fatalf("%d logs", len(files))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, f := range files {
		log, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(f), func(t *testing.T) {
			rounds := tier.Size(1, 4)
			if len(log) > 20_000 {
				rounds = 1
			}
			for range rounds {
				most := 1 + rng.IntN(400)
				sameIn(t, log, func(rest int) int { return min(rest, 1+rng.IntN(most)) })
			}
			if len(log) < 2000 {
				sameIn(t, log, func(int) int { return 1 })
			}
		})
	}
}

func TestFollower_SaysWhatParseSays(t *testing.T) {
	for _, name := range []string{"064-prof-timestamped-with-decode-lines.log", "038-crash-root-cause-among-ranks.log", "092-real-sglang-0512-v1-three-steps.log"} {
		log, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := metrics.Parse(iotest.OneByteReader(bytes.NewReader(log)), name)
		if err != nil {
			t.Fatal(err)
		}
		_, decode, samples, crash := harvest(log, whole)
		if !reflect.DeepEqual(crash, rep.Crash) {
			t.Errorf("%s: crash %+v, Parse says %+v", name, crash, rep.Crash)
		}
		n := map[string]int{}
		for _, s := range samples {
			n[s.Name]++
		}
		for _, s := range rep.Extract {
			if s.Unit != "word" && n[s.Metric] != len(s.Values) {
				t.Errorf("%s: %d samples of %s, Parse has %d", name, n[s.Metric], s.Metric, len(s.Values))
			}
		}
		for _, d := range decode {
			if !strings.Contains(string(log[d.Offset:d.End]), "Decode batch") || log[d.End-1] != '\n' {
				t.Errorf("%s: line %d: bytes %d to %d are %q", name, d.Line, d.Offset, d.End, log[d.Offset:d.End])
			}
		}
	}
}

const twoSummaries = `[specrun profiling-v4] cycles 1-25 (last 25 cycles, batch 1)
  draft steps:        0.50 ms/cyc  (launch)
  target verify:     19.43 ms/cyc  (launch)
  draft re-extend:    0.21 ms/cyc  (launch)
  other:              0.00 ms/cyc  (launch)
  TOTAL:             20.14 ms/cyc
  accept length:      1.87
[2026-11-29 10:00:00] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, accept len: 1.90, cuda graph: True, gen throughput (token/s): 93.00, #queue-req: 0
{"specrun":"profile","schema":1,"profiler":"profiling-v4","version":"1","hash":"0123456789ab","worker":"v1","rank":0,"t_start":100.0,"t_end":100.5,"cycles":25,"wall_ms":503.5,"call_ms":502,"phases":"launch","phases_ms":{"draft":12.5,"verify":485.75,"extend":5.25},"batch_sum":25,"batch_min":1,"batch_max":1,"tokens":47,"accepted":22,"proposed":50,"bonus":true,"steps":2,"request_cycles":25,"context":120.5,"skipped":{"prefill":1},"partial":false}
[specrun profiling-v4] cycles 26-35 (last 10 cycles, batch 1)
  draft steps:        0.50 ms/cyc  (launch)
  target verify:     19.30 ms/cyc  (launch)
  draft re-extend:    0.20 ms/cyc  (launch)
  other:              0.00 ms/cyc  (launch)
  TOTAL:             20.00 ms/cyc
  accept length:       n/a
{"specrun":"profile","schema":1,"profiler":"profiling-v4","version":"1","hash":"0123456789ab","worker":"v1","rank":0,"t_start":100.5,"t_end":100.7,"cycles":10,"wall_ms":200,"call_ms":199,"phases":"launch","phases_ms":{"draft":5,"verify":193,"extend":2},"batch_sum":10,"batch_min":1,"batch_max":1,"tokens":null,"accepted":null,"proposed":20,"bonus":true,"steps":2,"request_cycles":10,"context":null,"skipped":{},"partial":true}
`

func TestJSONLineStandsForItsBlock(t *testing.T) {
	rep, err := metrics.Parse(strings.NewReader(twoSummaries), "x.log")
	if err != nil {
		t.Fatal(err)
	}
	s, ok := rep.Find("cycle_total", nil)
	if got := numbers(s); !ok || !reflect.DeepEqual(got, []float64{20.14, 20}) {
		t.Errorf("cycle_total %v: one sample per summary, with the precision of the JSON line", got)
	}
	if s, ok := rep.Find("accept_len", map[string]string{"source": "profiler"}); !ok || !reflect.DeepEqual(numbers(s), []float64{1.88}) {
		t.Errorf("profiler accept_len %+v: 47 tokens over 25 request cycles; the second row has none", s)
	}
	if rep.Kind != metrics.KindProfiler || rep.IncompleteBlocks != 0 || len(rep.Warnings) != 0 {
		t.Errorf("report %+v", rep)
	}
	rows, _, _, _ := harvest([]byte(twoSummaries), whole)
	if len(rows) != 2 || rows[0].Text || rows[0].Tokens != 47 || rows[1].Tokens != -1 || !rows[1].Partial || rows[0].PhaseKind != "launch" {
		t.Errorf("rows %+v", rows)
	}
}

func TestFollower_HoldsABlockBackUntilItsJSONLineIsRead(t *testing.T) {
	f := metrics.NewFollower()
	at := strings.Index(twoSummaries, "{")
	f.Write([]byte(twoSummaries[:at]))
	if rows := f.Rows(); len(rows) != 0 {
		t.Fatalf("%d rows before the JSON line", len(rows))
	}
	f.Write([]byte(twoSummaries[at:]))
	f.Close()
	if rows := f.Rows(); len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
}

func TestFollower_CountsOffsetsFromTheLogsStart(t *testing.T) {
	at := strings.Index(twoSummaries, "{")
	f := metrics.NewFollowerAt(int64(at))
	f.Write([]byte(twoSummaries[at:]))
	rows := f.Rows()
	if len(rows) < 1 || rows[0].Offset != int64(at) || twoSummaries[rows[0].End-1] != '\n' {
		t.Fatalf("rows %+v, want the first at %d", rows, at)
	}
	if f.Offset() != int64(len(twoSummaries)) {
		t.Errorf("offset %d of %d", f.Offset(), len(twoSummaries))
	}
}

func TestFollower_CrashOnlyWhenTheLogSaysTheProcessEnds(t *testing.T) {
	f := metrics.NewFollower()
	f.Write([]byte("[2026-01-01 00:00:00 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n"))
	if c := f.Crash(); c != nil {
		t.Fatalf("crash %+v on a line that servers survive", c)
	}
	f.Write([]byte("[2026-01-01 00:00:01] Received sigquit from a child process. It usually means the child failed.\n"))
	if c := f.Crash(); c == nil || c.Kind != "cuda_oom" || c.FirstLine != 1 || c.Rank != "TP0" {
		t.Fatalf("crash %+v, want cuda_oom of TP0 at line 1", c)
	}
}

func numbers(s metrics.Series) []float64 {
	var out []float64
	for _, v := range s.Values {
		f, _ := v.Float()
		out = append(out, f)
	}
	return out
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/0*")
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil && len(b) < 4000 && !strings.HasSuffix(name, ".expect.json") {
			f.Add(b, uint64(len(b)))
		}
	}
	f.Add([]byte(twoSummaries), uint64(7))
	f.Fuzz(func(t *testing.T, log []byte, seed uint64) {
		rep, err := metrics.Parse(bytes.NewReader(log), "fuzz.log")
		if err != nil {
			t.Fatal(err)
		}
		again, err := metrics.Parse(iotest.OneByteReader(bytes.NewReader(log)), "fuzz.log")
		if err != nil {
			t.Fatal(err)
		}
		a, err := json.Marshal(rep)
		if err != nil {
			t.Fatalf("a report that is no JSON: %v", err)
		}
		if b, _ := json.Marshal(again); !bytes.Equal(a, b) {
			t.Errorf("two readings of the same bytes:\n%s\n%s", a, b)
		}
	})
}

func FuzzFollower(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.log")
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil && len(b) < 2500 {
			f.Add(b, uint64(len(b)))
		}
	}
	f.Add([]byte(twoSummaries), uint64(7))
	f.Fuzz(func(t *testing.T, log []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		sameIn(t, log, func(rest int) int { return min(rest, 1+rng.IntN(64)) })
	})
}
