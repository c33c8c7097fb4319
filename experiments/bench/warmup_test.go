package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// server is one whose cycles cost more the longer the context, and which is
// cold at first.
type server struct {
	slope float64   // of a cycle's time per 1,000 tokens
	cold  []float64 // factor of the time of the requests sent first
	swing []float64 // tokens per cycle of the requests in turn; nil: 2
	sizes []int     // output tokens in turn; nil: 200
	fails map[int]bool
	sent  int
}

func (s *server) send(texts []string) ([]Request, bool) {
	out := make([]Request, len(texts))
	for i := range texts {
		accept, size, factor := 2.0, 200, 1.0
		if s.swing != nil {
			accept = s.swing[s.sent%len(s.swing)]
		}
		if s.sizes != nil {
			size = s.sizes[s.sent%len(s.sizes)]
		}
		if s.sent < len(s.cold) {
			factor = s.cold[s.sent]
		}
		out[i] = answered(i, size, accept, func(k int) float64 { return 20_000 * factor * (1 + s.slope*float64(k)/1000) })
		if s.fails[s.sent] {
			out[i] = Request{Index: i, Error: "HTTP 500"}
		}
		s.sent++
	}
	return out, false
}

// answered is a request whose cycle at position k took cycle(k) us and gave
// accept tokens, with the server's running count.
func answered(index, tokens int, accept float64, cycle func(k int) float64) Request {
	q := Request{Index: index, StartUs: 1_000_000, OutputTokens: tokens, ChunkUs: []int64{30_000}}
	q.FirstTokenUs = q.StartUs + q.ChunkUs[0]
	var t tracker
	t.chunk(1, q.ChunkUs[0])
	k, at, carry := 0, 30_000.0, 0.0
	for k < tokens-1 {
		at += cycle(k)
		carry += accept
		k = min(k+int(carry), tokens-1)
		carry -= math.Floor(carry)
		q.ChunkUs = append(q.ChunkUs, int64(at))
		t.chunk(k+1, int64(at))
	}
	q.EndUs = q.StartUs + int64(at)
	q.place(&t)
	return q
}

func texts(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("prompt ", i)
	}
	return out
}

func TestWarmUp(t *testing.T) {
	for name, c := range map[string]struct {
		server      server
		concurrency int
		sent        int
		settled     bool
		spread      float64 // at most; -1: none
	}{
		"in order from the start":                {server{}, 1, 3, true, 0},
		"a slope inside each request":            {server{slope: 0.4}, 1, 3, true, 0},
		"unequal lengths on a slope":             {server{slope: 0.4, sizes: []int{400, 100, 900}}, 1, 3, true, 0.001},
		"other acceptance on a slope":            {server{slope: 0.2, swing: []float64{1.2, 2.9, 1.7}}, 1, 3, true, 0.01},
		"only the first is cold":                 {server{cold: []float64{9}}, 1, 3, true, 0},
		"the second is cold too":                 {server{cold: []float64{9, 3}}, 1, 4, true, 0},
		"slowly getting warm":                    {server{cold: []float64{2, 1.3, 1.2, 1.1}}, 1, 5, false, 0.1},
		"never the same":                         {server{cold: []float64{1, 1.1, 1, 1.1, 1}}, 1, 5, false, 0.1},
		"a failed request is compared with none": {server{fails: map[int]bool{1: true}}, 1, 4, true, 0},
		"all fail":                               {server{fails: map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}}, 1, 5, false, -1},
		"too short to tell":                      {server{sizes: []int{10}}, 1, 5, false, -1},
		"four at once":                           {server{slope: 0.3, sizes: []int{90, 200, 350, 120, 40, 300}}, 4, 12, true, 0.001},
		"four at once, the first round is cold":  {server{cold: []float64{5, 5, 5, 5, 1.5, 1.5, 1.5, 1.5}}, 4, 16, true, 0},
		"four at once, one of them failed":       {server{fails: map[int]bool{6: true}}, 4, 16, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.server
			w, sent, stopped := warmUp(texts(WarmupMost(c.concurrency)), c.concurrency, s.send)
			if w.Sent != c.sent || w.Settled != c.settled || len(sent) != c.sent || s.sent != c.sent || stopped || !w.Auto || w.Rule == "" {
				t.Errorf("%+v, %d requests; want %d sent, settled %v", w, len(sent), c.sent, c.settled)
			}
			if c.spread < 0 && w.Spread != -1 || c.spread >= 0 && (w.Spread < 0 || w.Spread > c.spread+1e-6) {
				t.Errorf("spread %v, want %v", w.Spread, c.spread)
			}
			for i, q := range sent {
				if q.Index != i {
					t.Errorf("request %d has the number %d", i, q.Index)
				}
			}
		})
	}
}

func TestWarmUp_StopsWhenTold(t *testing.T) {
	s := server{}
	w, sent, stopped := warmUp(texts(5), 1, func(texts []string) ([]Request, bool) {
		out, _ := s.send(texts)
		return out, s.sent == 2
	})
	if w.Sent != 2 || len(sent) != 2 || !stopped || w.Settled {
		t.Errorf("%+v, stopped %v", w, stopped)
	}
}

// Just inside and just outside of 2 %.
func TestApart(t *testing.T) {
	steady := func(us float64) []Request {
		return []Request{answered(0, 150, 1.8, func(int) float64 { return us })}
	}
	for us, want := range map[float64]bool{20_390: true, 20_410: false, 19_610: true, 19_590: false} {
		if d := apart(steady(20_000), steady(us)); d <= warmAgree != want {
			t.Errorf("%v us against 20,000: %.4f apart, agree should be %v", us, d, want)
		}
	}
}

func TestPlace(t *testing.T) {
	t.Run("between two chunks", func(t *testing.T) {
		// 20, then 24 tokens a chunk of 10 ms: 32 lies half way, 64 a sixth into the third.
		var tr tracker
		q := Request{OutputTokens: 69, ChunkUs: []int64{5000, 15000, 25000, 35000}}
		for i, n := range []int{1, 21, 45, 69} {
			tr.chunk(n, q.ChunkUs[i])
		}
		q.place(&tr)
		want := []Position{{32, 15000}, {64, 20000 + 10000*20/24}, {68, 30000}}
		if !slices.Equal(q.Positions, want) || q.PositionsFrom != FromUsage {
			t.Errorf("%v from %s, want %v", q.Positions, q.PositionsFrom, want)
		}
	})
	t.Run("several in one chunk, one at the end", func(t *testing.T) {
		var tr tracker
		q := Request{OutputTokens: 65, ChunkUs: []int64{0, 1000, 2000}}
		for i, n := range []int{1, 1, 65} {
			tr.chunk(n, q.ChunkUs[i])
		}
		q.place(&tr)
		if want := []Position{{32, 1500}, {64, 2000}}; !slices.Equal(q.Positions, want) {
			t.Errorf("%v, want %v", q.Positions, want)
		}
	})
	for name, counts := range map[string][]int{"no counts": {-1, -1, -1}, "a gap": {1, -1, 66}, "backwards": {1, 60, 40}, "more than in all": {1, 60, 400}} {
		t.Run(name, func(t *testing.T) {
			var tr tracker
			q := Request{OutputTokens: 81, ChunkUs: []int64{100, 1100, 4100}}
			for i, n := range counts {
				tr.chunk(n, q.ChunkUs[i])
			}
			q.place(&tr)
			// 40 tokens a chunk: 32 is 80 % into the first, 64 60 % into the second.
			if want := []Position{{32, 800}, {64, 2800}, {80, 4000}}; !slices.Equal(q.Positions, want) || q.PositionsFrom != FromChunks {
				t.Errorf("%v from %s, want %v", q.Positions, q.PositionsFrom, want)
			}
		})
	}
	t.Run("all in one chunk", func(t *testing.T) {
		q := Request{OutputTokens: 81, ChunkUs: []int64{100}}
		q.place(&tracker{})
		if q.Positions != nil {
			t.Errorf("%v: nothing says how long 80 tokens took", q.Positions)
		}
	})
	t.Run("one token", func(t *testing.T) {
		q := Request{OutputTokens: 1, ChunkUs: []int64{100}}
		q.place(&tracker{})
		if !slices.Equal(q.Positions, []Position{{0, 0}}) {
			t.Errorf("%v", q.Positions)
		}
	})
}

// A long answer keeps few positions, and the load client allocates no more for
// a count with each chunk.
func TestTracker_KeepsFewPositions(t *testing.T) {
	q := answered(0, 4001, 1.9, func(int) float64 { return 10_000 })
	if n := len(q.Positions); n != 125 {
		t.Errorf("%d positions of 4,001 tokens, want one at each 32", n)
	}
	var tr tracker
	tr.chunk(1, 0)
	n := 1
	if allocs := testing.AllocsPerRun(20, func() { n++; tr.chunk(n, int64(n)) }); allocs != 0 {
		t.Errorf("%v allocations a chunk", allocs)
	}
}

func TestPositions_ThereAndBack(t *testing.T) {
	q := answered(0, 300, 1.874, func(k int) float64 { return 20_000 * (1 + 0.2*float64(k)/1000) })
	for _, k := range []float64{0, 1, 31, 32, 33, 150.5, 299} {
		if got := q.tokensUntil(q.elapsed(k)); math.Abs(got-k) > 0.01 {
			t.Errorf("%v tokens after the first one: there and back gives %v", k, got)
		}
	}
	end := q.elapsed(299)
	if want := float64(q.EndUs - q.FirstTokenUs); end != want {
		t.Errorf("the end is at %v us, want %v", end, want)
	}
	if n := q.chunksUntil(end); n != float64(len(q.ChunkUs)-1) {
		t.Errorf("%v chunks until the end, want %d", n, len(q.ChunkUs)-1)
	}
	if got := q.tokensUntil(1e12); got != 299 {
		t.Errorf("%v tokens after the end", got)
	}
}

func TestSamples(t *testing.T) {
	a := answered(0, 70, 2, func(int) float64 { return 10_000 })
	b := Request{Index: 1, StartUs: 1, OutputTokens: 41, ChunkUs: []int64{1000, 2000, 3000}, FirstTokenUs: 1001}
	b.place(&tracker{blind: true})
	r := Report{Requests: []Request{a, b, {Index: 2, Error: "HTTP 500", Positions: []Position{{5, 5}}}}}
	var got []string
	for i, s := range r.Samples() {
		if s.Seq != i+1 || s.Source != "client" || s.Unit != "ms" {
			t.Errorf("%+v", s)
		}
		got = append(got, fmt.Sprintf("%s %s/%s %.3g %s%s", s.Name, s.Labels["request"], s.Labels["position"], s.Value, s.Labels["end"], s.Labels["position_from"]))
	}
	want := []string{"request_ttft 0/ 30 ", "decode_elapsed 0/32 160 ", "decode_elapsed 0/64 320 ", "decode_elapsed 0/69 350 true",
		"request_ttft 1/ 1 ", "decode_elapsed 1/32 1.6 chunks", "decode_elapsed 1/40 2 truechunks"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
