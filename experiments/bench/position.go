package bench

import (
	"sort"
	"strconv"

	"specrun/experiments/record"
)

// Position says that so many tokens after a request's first one had come, so
// many microseconds after it.
type Position struct {
	Tokens int   `json:"tokens"`
	Us     int64 `json:"us"`
}

// positionStep is the distance of kept positions in tokens; the end of a request
// is kept beside its multiples.
const positionStep = 32

// Where the positions of a request come from.
const (
	FromUsage  = "usage"  // the server's running count of tokens, at each chunk
	FromChunks = "chunks" // the tokens of the whole request, spread evenly over its chunks
)

// tracker notes positions while chunks arrive, keeping one of each positionStep
// tokens.
type tracker struct {
	blind   bool // a chunk came without a count: nothing is known in between
	started bool
	first   int64
	k       int   // tokens after the first one, at the last chunk
	us      int64 // of the last chunk, since the first one
	out     []Position
}

// chunk takes the count of all tokens so far, -1 when the server does not send
// it, and the chunk's arrival.
func (t *tracker) chunk(tokens int, at int64) {
	if tokens < 1 || tokens-1 < t.k {
		t.blind = true
	}
	if t.blind {
		return
	}
	k, us := tokens-1, int64(0)
	if !t.started {
		t.started, t.first = true, at
	} else {
		us = at - t.first
		for next := (t.k/positionStep + 1) * positionStep; next <= k; next += positionStep {
			t.out = append(t.out, Position{next, t.us + int64(float64(us-t.us)*float64(next-t.k)/float64(k-t.k))})
		}
	}
	t.k, t.us = k, us
}

// place gives a whole request its positions. A request that came in one chunk
// has none: how long its tokens took is not known.
func (q *Request) place(t *tracker) {
	after, chunks := q.OutputTokens-1, len(q.ChunkUs)
	if after < 0 || chunks == 0 || after > 0 && chunks == 1 {
		return
	}
	end := Position{after, q.ChunkUs[chunks-1] - q.ChunkUs[0]}
	if t.started && !t.blind && t.k <= after {
		q.Positions, q.PositionsFrom = t.out, FromUsage
	} else {
		q.Positions, q.PositionsFrom = nil, FromChunks
		for k := positionStep; k < after; k += positionStep {
			at := float64(k) / float64(after) * float64(chunks-1)
			i := int(at)
			us := float64(q.ChunkUs[i]) + (at-float64(i))*float64(q.ChunkUs[i+1]-q.ChunkUs[i])
			q.Positions = append(q.Positions, Position{k, int64(us) - q.ChunkUs[0]})
		}
	}
	if n := len(q.Positions); n > 0 && q.Positions[n-1].Tokens == after {
		q.Positions = q.Positions[:n-1]
	}
	q.Positions = append(q.Positions, end)
}

// elapsed is the time from the first token until k tokens later, in us. k must
// not lie behind the end.
func (q *Request) elapsed(k float64) float64 {
	before := Position{}
	for _, p := range q.Positions {
		if float64(p.Tokens) >= k {
			if p.Tokens == before.Tokens {
				return float64(p.Us)
			}
			return float64(before.Us) + (k-float64(before.Tokens))/float64(p.Tokens-before.Tokens)*float64(p.Us-before.Us)
		}
		before = p
	}
	return float64(before.Us)
}

// tokensUntil is how many tokens after the first one had come by then, in us
// since the first one.
func (q *Request) tokensUntil(us float64) float64 {
	before := Position{}
	for _, p := range q.Positions {
		if float64(p.Us) > us {
			return float64(before.Tokens) + max(us-float64(before.Us), 0)/float64(p.Us-before.Us)*float64(p.Tokens-before.Tokens)
		}
		before = p
	}
	return float64(before.Tokens)
}

// chunksUntil is how many chunks after the first one had come by then, parts of
// one included.
func (q *Request) chunksUntil(us float64) float64 {
	at := us + float64(q.ChunkUs[0])
	i := sort.Search(len(q.ChunkUs), func(i int) bool { return float64(q.ChunkUs[i]) > at })
	if i == 0 || i == len(q.ChunkUs) {
		return float64(max(i-1, 0))
	}
	return float64(i-1) + (at-float64(q.ChunkUs[i-1]))/float64(q.ChunkUs[i]-q.ChunkUs[i-1])
}

// Samples are the raw readings of the completed requests: request_ttft, and
// decode_elapsed at each kept position, in ms. Label "request" is the request's
// number from 0, "position" the tokens after its first one; the last one has
// "end", and "position_from" says when positions are not the server's count. The
// GPU's follow, see GPUSamples.
func (r Report) Samples() []record.Sample {
	var out []record.Sample
	for _, q := range r.done() {
		index := strconv.Itoa(q.Index)
		out = append(out, record.Sample{AtUs: q.FirstTokenUs, Name: "request_ttft", Unit: "ms", Value: float64(q.FirstTokenUs-q.StartUs) / 1e3,
			Source: sourceClient, Labels: map[string]string{"request": index}})
		for i, p := range q.Positions {
			labels := map[string]string{"request": index, "position": strconv.Itoa(p.Tokens)}
			if i == len(q.Positions)-1 {
				labels["end"] = "true"
			}
			if q.PositionsFrom == FromChunks {
				labels["position_from"] = FromChunks
			}
			out = append(out, record.Sample{AtUs: q.FirstTokenUs + p.Us, Name: "decode_elapsed", Unit: "ms", Value: float64(p.Us) / 1e3, Source: sourceClient, Labels: labels})
		}
	}
	out = append(out, r.GPUSamples()...)
	for i := range out {
		out[i].Seq = i + 1
	}
	return out
}
