package metrics

import (
	"cmp"
	"math"
	"slices"

	"specrun/experiments/record"
)

// Follower reads a growing server log in chunks of any size, with the same
// result for any chunking. It is not safe for concurrent use and never blocks.
//
// What it found is drained: each item is handed out once, as soon as nothing
// that may still come can change it (a text block of the profiler waits for the
// JSON line that may stand for it, until the next block or Close).
type Follower struct {
	p      pipeline
	closed bool
	seq    int
}

// NewFollower follows a log from its first byte.
func NewFollower() *Follower { return NewFollowerAt(0) }

// NewFollowerAt follows a log from a byte offset, which must be the start of a
// line. Offsets of items count from the log's first byte, line numbers from the
// offset.
func NewFollowerAt(offset int64) *Follower {
	f := &Follower{}
	f.p.split.start, f.p.split.pos = offset, offset
	return f
}

// Write takes the next bytes of the log. It keeps no reference to chunk.
func (f *Follower) Write(chunk []byte) {
	if !f.closed {
		f.p.write(chunk)
	}
}

// Close says that no more bytes will come: the last line is read even without
// its newline. Further calls of Write do nothing.
func (f *Follower) Close() {
	if !f.closed {
		f.closed = true
		f.p.finish()
	}
}

// Offset is the byte offset of the next byte to come.
func (f *Follower) Offset() int64 { return f.p.split.pos }

// Rows drains the profiler's summaries, in the order of the log.
func (f *Follower) Rows() []ProfilerRow {
	out := f.p.rows
	f.p.rows = nil
	slices.SortStableFunc(out, func(a, b ProfilerRow) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// Decode drains the decode lines of the server log.
func (f *Follower) Decode() []DecodeLine {
	out := f.p.sglang.lines
	f.p.sglang.lines = nil
	return out
}

// Speculation drains vLLM's intervals of speculation.
func (f *Follower) Speculation() []SpecLine {
	out := f.p.vllm.lines
	f.p.vllm.lines = nil
	return out
}

// Samples drains the raw readings of the server log and of the profiler, one
// per number. Words and empty cells are no samples.
func (f *Follower) Samples() []record.Sample {
	all := f.p.col.all
	f.p.col.all = nil
	var out []record.Sample
	for i := range all {
		r := &all[i]
		v, ok := r.value.Float()
		if !ok {
			continue
		}
		f.seq++
		out = append(out, record.Sample{Seq: f.seq, AtUs: int64(math.Round(r.at * 1e6)), Name: r.metric, Unit: r.unit, Value: v,
			Source: r.source, Labels: r.stream.labels()})
	}
	return out
}

// Crash is what the log has said so far about why the server ends; nil while
// nothing says so. Before Close only lines count that say themselves that the
// process ends; after it, also a cause without any sign of life behind it.
func (f *Follower) Crash() *Crash { return f.p.verdict(f.closed) }

// Suspect is what would be the cause if nothing came any more, the last line
// without an end left out: lines that prove nothing while the server goes on. A
// request that was accepted behind such a line does not clear it, tokens do.
func (f *Follower) Suspect() *Crash { return f.p.suspected() }

// Ready says whether a marker of a served start-up was seen. It does not prove
// that the model answers.
func (f *Follower) Ready() bool {
	for _, ok := range f.p.crash.ready {
		if ok {
			return true
		}
	}
	return false
}
