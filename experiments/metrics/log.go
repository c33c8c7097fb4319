package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Start is what the banner of a server start says.
type Start struct {
	Run     int    // from 1, per server (service, pod, file)
	Line    int    // of the banner
	Args    string // text of ServerArgs(...), its inside; "" when not printed
	Version string // of the engine, when the banner has it
}

// Log is a whole file, read in bounded memory.
type Log struct {
	Report *Report // of a log with more than most readings, Extract has a part of them
	Rows   []ProfilerRow
	Decode []DecodeLine
	Starts []Start
	Times  map[int]Times // by run; without an entry the log has no dated lines
	// RowStride and DecodeStride say that only every so many-th summary or decode
	// line was kept, evenly over the log; 1 is all of them.
	RowStride, DecodeStride int
}

// Times are the first and last stamp of a run's readings, in seconds as the host
// wrote them: a stamp without a zone counts as if it were UTC. Zoned says that
// they are times of the profiler's clock, which has none of that doubt.
type Times struct {
	First, Last float64
	Zoned       bool
}

// ReadLog reads a whole log, benchmark output or document. Of each kind of
// reading it keeps at least the half of most, evenly thinned, so that a log of
// any length takes bounded memory. The error is that of r, with the name in it.
func ReadLog(r io.Reader, name string, most int) (*Log, error) {
	br := bufio.NewReaderSize(r, chunk)
	head, err := br.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	l := &Log{RowStride: 1, DecodeStride: 1, Times: map[int]Times{}}
	if looksJSON(head) {
		l.Report, err = parseDocument(br, name)
		return l, err
	}
	var p pipeline
	in := logReader{Log: l, p: &p, most: most}
	buf := make([]byte, chunk)
	for {
		n, err := br.Read(buf)
		p.write(buf[:n])
		in.drain()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	p.finish()
	in.drain()
	slices.SortStableFunc(l.Rows, func(a, b ProfilerRow) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	l.Report = p.report(name)
	l.Starts = p.starts.all
	return l, nil
}

// logReader takes what the pipeline found and thins it.
type logReader struct {
	*Log
	p            *pipeline
	most         int
	rows, decode int // seen so far
	stride       int // of the other readings, by line; 0 is 1
	timed        int // readings that were taken before
	thinnable    int // of these, all but a client's
}

func (r *logReader) drain() {
	for _, row := range r.p.rows {
		r.time(row.Run, row.TStart, true)
		r.time(row.Run, row.TEnd, true)
		if r.rows%r.RowStride == 0 {
			r.Rows = append(r.Rows, row)
		}
		r.rows++
	}
	for _, d := range r.p.sglang.lines {
		r.time(d.Run, d.At, false)
		if r.decode%r.DecodeStride == 0 {
			r.Decode = append(r.Decode, d)
		}
		r.decode++
	}
	r.p.rows, r.p.sglang.lines = nil, nil
	for len(r.Rows) > r.most {
		r.Rows, r.RowStride = everySecond(r.Rows), r.RowStride*2
	}
	for len(r.Decode) > r.most {
		r.Decode, r.DecodeStride = everySecond(r.Decode), r.DecodeStride*2
	}
	r.readings()
}

// readings takes the times of the new readings and thins all but a client's,
// by line, so that what a line says stays together.
func (r *logReader) readings() {
	all := r.p.col.all
	kept := all[:r.timed]
	for _, x := range all[r.timed:] {
		r.time(x.run, x.at, false)
		if r.keeps(x) {
			kept = append(kept, x)
			if x.source != sourceClient {
				r.thinnable++
			}
		}
	}
	for r.thinnable > 8*r.most { // a line has up to eight readings
		r.stride = max(r.stride, 1) * 2
		r.thinnable = 0
		kept = slices.DeleteFunc(kept, func(x reading) bool { return !r.keeps(x) })
		for _, x := range kept {
			if x.source != sourceClient {
				r.thinnable++
			}
		}
	}
	clear(all[len(kept):])
	r.p.col.all, r.timed = kept, len(kept)
}

func (r *logReader) keeps(x reading) bool {
	return r.stride <= 1 || x.source == sourceClient || uint64(uint32(x.line)*2654435761>>8)%uint64(r.stride) == 0
}

func everySecond[T any](all []T) []T {
	n := 0
	for i := 0; i < len(all); i += 2 {
		all[n] = all[i]
		n++
	}
	clear(all[n:])
	return all[:n]
}

// dated is the least time, in seconds, that has a year: stamps without one are
// no times of a run.
const dated = 1e9

// time widens a run's times. The profiler's own clock wins over stamps.
func (r *logReader) time(run int, at float64, zoned bool) {
	t, ok := r.Times[run]
	switch {
	case at < dated || t.Zoned && !zoned:
	case !ok || zoned && !t.Zoned:
		r.Times[run] = Times{at, at, zoned}
	default:
		t.First, t.Last = min(t.First, at), max(t.Last, at)
		r.Times[run] = t
	}
}
