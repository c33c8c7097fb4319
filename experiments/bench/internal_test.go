package bench

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

const stream = ": hello\r\n\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata: three\nid: 7\n\ndata: four\r\rdata:\n\n"

var events = []string{"one", "two\nthree", "four", ""}

// pieces reads in random pieces.
type pieces struct {
	s   string
	rng *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.s == "" {
		return 0, io.EOF
	}
	n := min(1+p.rng.IntN(7), len(b), len(p.s))
	copy(b, p.s[:n])
	p.s = p.s[n:]
	return n, nil
}

func readEvents(r io.Reader) ([]string, error) {
	e := newEventReader(r)
	var out []string
	for {
		data, err := e.next()
		if err != nil {
			return out, err
		}
		out = append(out, string(data))
	}
}

func TestEvents_AnyPiecesGiveTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	readers := []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))}
	for range 50 {
		readers = append(readers, &pieces{stream, rng})
	}
	for _, r := range readers {
		got, err := readEvents(r)
		if !errors.Is(err, io.EOF) || strings.Join(got, "|") != strings.Join(events, "|") {
			t.Fatalf("events %q, %v", got, err)
		}
	}
}

func TestEvents_CutInsideAnEventIsNoEnd(t *testing.T) {
	for _, s := range []string{"data: one\n\ndata: tw", "data: one\n\ndata: two\n", "data: one\n\nda"} {
		got, err := readEvents(strings.NewReader(s))
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) != 1 {
			t.Errorf("%q: events %q, %v", s, got, err)
		}
	}
}

func TestMetrics_KnownAnswer(t *testing.T) {
	q := func(start, first, end int64, tokens int, chunks ...int64) Request {
		return Request{StartUs: start, FirstTokenUs: first, EndUs: end, OutputTokens: tokens, PromptTokens: 100, CachedTokens: -1, VerifyCalls: -1, ChunkUs: chunks}
	}
	r := Report{Job: Job{Concurrency: 2}, Requests: []Request{
		q(1_000_000, 1_100_000, 2_100_000, 11, 100_000, 600_000, 1_100_000),
		q(1_500_000, 1_700_000, 3_000_000, 14, 200_000, 1_500_000),
		q(2_000_000, 2_050_000, 2_050_000, 1, 50_000),
		{StartUs: 1, EndUs: 99_000_000, OutputTokens: 5000, Error: "HTTP 500"},
	}}
	want := map[string]float64{
		"completed": 3, "failed": 1,
		"duration": 2, "output_throughput": 13, "request_throughput": 1.5, "total_throughput": 163, "input_throughput": 150,
		"concurrency": 1.325, "max_concurrency": 2, "total_output_tokens": 26, "total_input_tokens": 300,
		"tpot": 2300. / 23, "tpot_mean": 100, "tpot_median": 100, "tpot_p99": 100, "tpot_p90": 100, "tpot_std": 0,
		"ttft_mean": 350. / 3, "ttft_median": 100, "ttft_p90": 180, "ttft_p99": 198, "ttft_std": math.Sqrt(35000. / 6),
		"itl_mean": 2300. / 3, "itl_median": 500, "itl_p90": 1140, "itl_p99": 1284, "itl_std": math.Sqrt(640000. / 3),
		"request_latency_mean": 2650. / 3, "request_latency_median": 1100, "request_latency_p90": 1420, "request_latency_p99": 1492,
		"request_latency_std": math.NaN(),
	}
	for _, m := range r.Metrics() {
		w, ok := want[m.Name]
		if !ok {
			t.Errorf("unexpected metric %s", m.Name)
		} else if !math.IsNaN(w) && math.Abs(m.Value-w) > 1e-9*math.Abs(w)+1e-12 {
			t.Errorf("%s = %v, want %v", m.Name, m.Value, w)
		}
		delete(want, m.Name)
	}
	for name := range want {
		t.Errorf("no %s", name)
	}
}

func TestBuiltinPrompts(t *testing.T) {
	s := parsePrompts(builtinChat)
	if len(s.measured) < 40 || len(s.warm) < 8 {
		t.Fatalf("%d prompts, %d for warm-up", len(s.measured), len(s.warm))
	}
	start := map[string]bool{}
	for _, p := range append(s.measured, s.warm...) {
		if start[p[:20]] {
			t.Errorf("two prompts begin with %q: they would share a cached prefix", p[:20])
		}
		start[p[:20]] = true
	}
}
