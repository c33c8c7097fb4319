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
	RunKey
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
	Runs   []RunKey         // all that have readings, in the order of the log; none of a document
	Times  map[RunKey]Times // without an entry a run has no dated lines
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
	l := &Log{RowStride: 1, DecodeStride: 1, Times: map[RunKey]Times{}}
	if looksJSON(head) {
		l.Report, err = parseDocument(br, name)
		return l, err
	}
	var p pipeline
	in := logReader{Log: l, p: &p, most: most, known: map[RunKey]bool{}, rows: map[writer]int{}, decode: map[writer]int{}}
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
	rows, decode map[writer]int // seen so far
	stride       int            // of the other readings, by line; 0 is 1
	known        map[RunKey]bool
	timed        int // readings that were taken before
	thinnable    int // of these, all but a client's
}

// writer is who wrote lines of one kind. Each is thinned by itself: ranks and
// servers often take turns, so that every second line would be of one of them.
type writer struct {
	run  RunKey
	rank string
}

func rowWriter(r *ProfilerRow) writer { return writer{r.Key(), r.Stream["rank"] + "/" + itoa(r.Rank)} }

func lineWriter(d *DecodeLine) writer { return writer{d.Key(), d.Rank} }

func (r *logReader) drain() {
	for i := range r.p.rows {
		row := &r.p.rows[i]
		r.time(row.Key(), row.TStart, true)
		r.time(row.Key(), row.TEnd, true)
		w := rowWriter(row)
		if r.rows[w]%r.RowStride == 0 {
			r.Rows = append(r.Rows, *row)
		}
		r.rows[w]++
	}
	for i := range r.p.sglang.lines {
		d := &r.p.sglang.lines[i]
		r.time(d.Key(), d.At, false)
		w := lineWriter(d)
		if r.decode[w]%r.DecodeStride == 0 {
			r.Decode = append(r.Decode, *d)
		}
		r.decode[w]++
	}
	r.p.rows, r.p.sglang.lines, r.p.sglang.prefills, r.p.vllm.lines = nil, nil, nil, nil
	r.Rows, r.RowStride = thin(r.Rows, r.RowStride, r.most, rowWriter)
	r.Decode, r.DecodeStride = thin(r.Decode, r.DecodeStride, r.most, lineWriter)
	r.readings()
}

// thin leaves every second of each writer until there are at most so many, or
// one of each.
func thin[T any](all []T, stride, most int, of func(*T) writer) ([]T, int) {
	for len(all) > most {
		seen := map[writer]int{}
		n := 0
		for i := range all {
			w := of(&all[i])
			if seen[w]++; seen[w]%2 == 1 {
				all[n] = all[i]
				n++
			}
		}
		if n == len(all) {
			break
		}
		clear(all[n:])
		all, stride = all[:n], stride*2
	}
	return all, stride
}

// readings takes the times of the new readings and thins all but a client's,
// by line, so that what a line says stays together.
func (r *logReader) readings() {
	all := r.p.col.all
	kept := all[:r.timed]
	for _, x := range all[r.timed:] {
		key := RunKey{x.stream.server(), x.run}
		if !r.known[key] {
			r.known[key] = true
			r.Runs = append(r.Runs, key)
		}
		r.time(key, x.at, false)
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

// dated is the least time, in seconds, that has a year: stamps without one are
// no times of a run.
const dated = 1e9

// time widens a run's times. The profiler's own clock wins over stamps.
func (r *logReader) time(run RunKey, at float64, zoned bool) {
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
