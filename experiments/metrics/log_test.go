package metrics_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"specrun/experiments/metrics"
)

// A long log is thinned evenly: memory is bounded, and what is kept stands for
// all of it.
func TestReadLog_LongLogIsThinned(t *testing.T) {
	var b strings.Builder
	const lines, most = 9000, 30
	for i := range lines {
		fmt.Fprintf(&b, "[2026-01-01 %02d:%02d:%02d TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: %d.00, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0, \n",
			i/3600, i/60%60, i%60, 1+i%3)
		if i%100 == 99 {
			fmt.Fprintf(&b, "[2026-01-01 %02d:%02d:%02d TP0]   TOTAL:             %d.00 ms/cyc\n", i/3600, i/60%60, i%60, 20+i/100%3)
		}
	}
	l, err := metrics.ReadLog(strings.NewReader(b.String()), "x", most)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.Decode); n > most || n < most/2 || l.DecodeStride < lines/most {
		t.Errorf("%d decode lines, one in %d", n, l.DecodeStride)
	}
	if n := len(l.Rows); n > most || n < most/2 || l.RowStride != 4 {
		t.Errorf("%d rows, one in %d", n, l.RowStride)
	}
	values := 0
	for _, s := range l.Report.Extract {
		values += len(s.Values)
	}
	if values > 8*most || values < most {
		t.Errorf("%d values", values)
	}
	if first, last := l.Decode[0].Line, l.Decode[len(l.Decode)-1].Line; first != 1 || last < lines*9/10 {
		t.Errorf("from line %d to %d", first, last)
	}
	if at := l.Times[metrics.RunKey{Start: 1}]; at.Last-at.First != lines-1 || at.Zoned {
		t.Errorf("times %+v", at)
	}
}

// Servers and ranks take turns in a log: of each so much is kept as of the others.
func TestReadLog_ThinsEachWriterByItself(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "web-%d  | [2026-01-01 00:00:00 DP%d TP0] Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0\n", i%2, i/2%2)
		fmt.Fprintf(&b, "web-%d  | [2026-01-01 00:00:00 DP%d TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 1.90, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0\n", i%2, i/2%2)
	}
	l, err := metrics.ReadLog(strings.NewReader(b.String()), "x", 40)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, d := range l.Decode {
		count[d.Server.String()+" "+d.Rank]++
	}
	if len(count) != 4 || len(l.Runs) != 2 {
		t.Errorf("%v of %v", count, l.Runs)
	}
	for who, n := range count {
		if n < 5 || n > 10 {
			t.Errorf("%d lines of %s: %v", n, who, count)
		}
	}
	// More writers than are to be kept leave one line each.
	b.Reset()
	for i := range 60 {
		fmt.Fprintf(&b, "web-%d  | [2026-01-01 00:00:00] Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 1.90, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0\n", i%30)
	}
	if l, err := metrics.ReadLog(strings.NewReader(b.String()), "x", 4); err != nil || len(l.Decode) != 30 {
		t.Errorf("%d lines, %v", len(l.Decode), err)
	}
}

// Up to its bound it is Parse and a Follower in one.
func TestReadLog_ShortLogIsWhole(t *testing.T) {
	want := parseFile(t, "092-real-sglang-0512-v1-three-steps.log")
	src := open(t, "092-real-sglang-0512-v1-three-steps.log")
	l, err := metrics.ReadLog(src, want.File, 20000)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(want.Extract), fmt.Sprint(l.Report.Extract); a != b {
		t.Errorf("%s\nwant %s", b, a)
	}
	if len(l.Starts) != 1 || !strings.HasPrefix(l.Starts[0].Args, "model_path='/models/target'") {
		t.Errorf("starts %+v", l.Starts)
	}
}

func open(t *testing.T, name string) io.Reader {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReader(string(b))
}
