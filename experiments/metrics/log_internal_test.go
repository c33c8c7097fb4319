package metrics

import (
	"strings"
	"testing"
)

// A log of any length is read in bounded memory: nothing that is found in it
// stays in the pipeline.
func TestLogReader_LeavesNothingBehind(t *testing.T) {
	var p pipeline
	l := &Log{RowStride: 1, DecodeStride: 1, Times: map[RunKey]Times{}}
	in := logReader{Log: l, p: &p, most: 10, known: map[RunKey]bool{}, rows: map[writer]int{}, decode: map[writer]int{}}
	const lines = "[2026-01-01 00:00:00] Prefill batch, #new-seq: 1, #new-token: 9, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0\n" +
		"[2026-01-01 00:00:00] Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 1.90, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0\n" +
		"[2026-01-01 00:00:00 TP0]   TOTAL:             20.00 ms/cyc\n"
	for range 40 {
		p.write([]byte(strings.Repeat(lines, 10)))
		if len(p.sglang.prefills) != 10 {
			t.Fatalf("%d prefill lines: the text is no test", len(p.sglang.prefills))
		}
		in.drain()
		if n := len(p.sglang.prefills) + len(p.sglang.lines) + len(p.rows); n > 0 {
			t.Fatalf("%d items stay", n)
		}
		if len(l.Rows) > 10 || len(l.Decode) > 10 || len(p.col.all) > 8*10 {
			t.Fatalf("%d rows, %d lines, %d readings kept", len(l.Rows), len(l.Decode), len(p.col.all))
		}
	}
}
